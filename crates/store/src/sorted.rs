//! Lists in an order that people choose: `WHERE (column, id) > (value, cursor) ORDER BY column, id`.
//!
//! First the places of a page are found, in an index where there is one, then the rows that stand there are read.

use std::cmp::Ordering;
use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::records::{Sortable, SortedRecords};
use plural_core::access::Visibility;
use plural_core::page::{Direction, Edge};
use plural_core::sort::{Place, Sort, SortColumn, SortKey, SortKind};
use plural_core::{Page, PageRequest, Result};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, Order, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, QueryTrait, Select,
};
use uuid::Uuid;

use crate::database::Database;
use crate::error::db;
use crate::records::Table;

/// What rows are sorted by.
pub(crate) enum SortBy {
    /// This. Where there are many rows, an index has the same expression, then the id.
    Value(Expr),
    /// A column that holds one of these words, in their order. The rows of each word are read in turn: an index of the column and the
    /// id has them in order.
    Words(Expr, Vec<&'static str>),
}

/// A noun whose rows are listed in several orders.
pub(crate) trait SortedTable: Table + Sortable {
    /// What a column is in the database.
    fn sort_by(column: Self::Column, postgres: bool) -> SortBy;
}

/// The part of a list that a page is of, and how it is read.
struct Stretch<'a> {
    /// From the smaller to the greater ones.
    is_up: bool,
    /// Only greater ones.
    above: Option<&'a Place>,
    /// Only smaller ones.
    below: Option<&'a Place>,
}

impl<'a> Stretch<'a> {
    fn of<C>(sort: &Sort<C>, request: &'a PageRequest<Place>) -> Self {
        let (after, before) = (request.after.as_ref(), request.before.as_ref());
        let (above, below) = if sort.descending { (before, after) } else { (after, before) };
        let is_up = (request.direction == Direction::Forward) != sort.descending;
        Self { is_up, above, below }
    }

    fn order(&self) -> Order {
        if self.is_up { Order::Asc } else { Order::Desc }
    }

    /// The places of these rows.
    fn by_value<N: SortedTable>(&self, rows: Select<N::Row>, key: &Expr, limit: u64) -> Select<N::Row> {
        let here = || Expr::tuple([key.clone(), Expr::col(N::ID.as_column_ref())]);
        let there = |place: &Place| {
            let key = match &place.key {
                SortKey::Text(text) => Expr::value(text.as_str()),
                SortKey::Number(number) => Expr::value(*number),
                SortKey::Time(at) => Expr::value(*at),
            };
            Expr::tuple([key, Expr::value(place.id)])
        };
        let mut rows = rows;
        if let Some(place) = self.above {
            rows = rows.filter(here().gt(there(place)));
        }
        if let Some(place) = self.below {
            rows = rows.filter(here().lt(there(place)));
        }
        rows.select_only()
            .expr_as(key.clone(), "sort_key")
            .column_as(N::ID, "sort_id")
            .order_by(key.clone(), self.order())
            .order_by(N::ID, self.order())
            .limit(limit)
    }

    /// The places of those of these rows that have the word at a rank; none where the page is of others.
    fn by_word<N: SortedTable>(
        &self,
        rows: Select<N::Row>,
        column: &Expr,
        (rank, word): (i64, &'static str),
        limit: u64,
    ) -> Option<Select<N::Row>> {
        let mut rows = rows.filter(column.clone().eq(word));
        if let Some(Place { key, id }) = self.above {
            match cmp(rank, key) {
                Ordering::Less => return None,
                Ordering::Equal => rows = rows.filter(N::ID.gt(*id)),
                Ordering::Greater => {}
            }
        }
        if let Some(Place { key, id }) = self.below {
            match cmp(rank, key) {
                Ordering::Less => {}
                Ordering::Equal => rows = rows.filter(N::ID.lt(*id)),
                Ordering::Greater => return None,
            }
        }
        let rows = rows.select_only().column_as(N::ID, "sort_id").order_by(N::ID, self.order());
        Some(rows.limit(limit))
    }
}

/// How a rank stands to that of a place; places of other columns are none of this list.
fn cmp(rank: i64, key: &SortKey) -> Ordering {
    match key {
        SortKey::Number(of) => rank.cmp(of),
        SortKey::Text(_) | SortKey::Time(_) => Ordering::Equal,
    }
}

fn id_of(row: &QueryResult) -> std::result::Result<Uuid, DbErr> {
    row.try_get("", "sort_id")
}

fn place_of(row: &QueryResult, kind: SortKind) -> std::result::Result<Place, DbErr> {
    let key = match kind {
        SortKind::Text => SortKey::Text(row.try_get("", "sort_key")?),
        SortKind::Number => SortKey::Number(row.try_get("", "sort_key")?),
        SortKind::Time => SortKey::Time(row.try_get("", "sort_key")?),
    };
    Ok(Place { key, id: id_of(row)? })
}

impl Database {
    /// The places of a page, and one more where there are more.
    async fn places<N: SortedTable>(
        &self,
        rows: Select<N::Row>,
        sort: &Sort<N::Column>,
        request: &PageRequest<Place>,
    ) -> Result<Vec<Place>> {
        let doing = "reading a page";
        let stretch = Stretch::of(sort, request);
        let limit = u64::from(request.limit) + 1;
        let backend = self.reader.get_database_backend();
        let (column, words) = match N::sort_by(sort.column, self.is_postgres()) {
            SortBy::Value(key) => {
                let kind = sort.column.kind();
                let query = stretch.by_value::<N>(rows, &key, limit).build(backend);
                let found = self.reader.query_all_raw(query).await.map_err(db(doing))?;
                return found.iter().map(|row| place_of(row, kind).map_err(db(doing))).collect();
            }
            SortBy::Words(column, words) => (column, words),
        };
        let mut ranked: Vec<(i64, &'static str)> = (0_i64..).zip(words).collect();
        if !stretch.is_up {
            ranked.reverse();
        }
        let mut places: Vec<Place> = Vec::new();
        for (rank, word) in ranked {
            let left = limit.saturating_sub(places.len() as u64);
            if left == 0 {
                break;
            }
            let Some(query) = stretch.by_word::<N>(rows.clone(), &column, (rank, word), left) else {
                continue;
            };
            for row in self.reader.query_all_raw(query.build(backend)).await.map_err(db(doing))? {
                places.push(Place { key: SortKey::Number(rank), id: id_of(&row).map_err(db(doing))? });
            }
        }
        Ok(places)
    }
}

#[async_trait]
impl<N: SortedTable> SortedRecords<N> for Database {
    async fn list_sorted(
        &self,
        visible: &Visibility,
        filter: &N::Filter,
        sort: &Sort<N::Column>,
        request: &PageRequest<Place>,
    ) -> Result<Page<N>> {
        let rows = N::filter(N::Row::find().filter(N::visible(visible)), filter);
        let places = self.places::<N>(rows, sort, request).await?;
        let places = places.into_iter().map(|node| Edge { cursor: sort.cursor(&node), node }).collect();
        let Page { edges, has_next_page, has_previous_page } = Page::from_edges(request, places);
        let ids: Vec<Uuid> = edges.iter().map(|edge| edge.node.id).collect();
        let mut found = self.rows::<N::Row, N>(N::ID, &ids, N::READING).await?;
        N::complete(self, &mut found.iter_mut().collect::<Vec<_>>()).await?;
        let mut found: HashMap<Uuid, N> = found.into_iter().map(|one| (one.key(), one)).collect();
        // One that went in between is left out.
        let edges = edges
            .into_iter()
            .filter_map(|Edge { node, cursor }| found.remove(&node.id).map(|node| Edge { node, cursor }));
        Ok(Page { edges: edges.collect(), has_next_page, has_previous_page })
    }
}

#[cfg(test)]
mod tests {
    use plural_core::PageArgs;
    use plural_core::service::{Service, ServiceColumn};
    use plural_testkit::{TestDatabase, one_database};

    use super::*;
    use crate::DatabaseOptions;

    one_database!(
        sqlite, "PostgreSQL decides by how many rows there are, and here are none";
        an_index_has_each_order_of_services,
    );

    async fn an_index_has_each_order_of_services(database: TestDatabase) {
        let store = Database::open(&DatabaseOptions::new(database.url())).await.unwrap();
        let backend = store.reader.get_database_backend();
        for column in [ServiceColumn::Name, ServiceColumn::Status, ServiceColumn::UpdatedAt] {
            for descending in [false, true] {
                let sort = Sort { column, descending };
                let key = match column.kind() {
                    SortKind::Text => SortKey::Text("a".into()),
                    SortKind::Number => SortKey::Number(1),
                    SortKind::Time => SortKey::Time(chrono::Utc::now()),
                };
                let cursor = sort.cursor(&Place { key, id: Uuid::now_v7() });
                for after in [None, Some(cursor)] {
                    let request = sort.request(&PageArgs { after, ..PageArgs::first(100) }).unwrap();
                    let stretch = Stretch::of(&sort, &request);
                    let rows = <Service as Table>::Row::find();
                    let query = match Service::sort_by(column, false) {
                        SortBy::Value(key) => stretch.by_value::<Service>(rows, &key, 101),
                        SortBy::Words(column, words) => {
                            stretch.by_word::<Service>(rows, &column, (1, words[1]), 101).unwrap()
                        }
                    };
                    let mut asked = query.build(backend);
                    asked.sql = format!("EXPLAIN QUERY PLAN {}", asked.sql);
                    let plan = store.reader.query_all_raw(asked).await.unwrap();
                    let plan: Vec<String> =
                        plan.iter().map(|row| row.try_get("", "detail").unwrap()).collect();
                    let plan = plan.join("; ");
                    assert!(plan.contains("USING COVERING INDEX services_"), "{sort:?}: {plan}");
                    assert!(!plan.contains("TEMP B-TREE"), "{sort:?}: {plan}");
                }
            }
        }
    }
}
