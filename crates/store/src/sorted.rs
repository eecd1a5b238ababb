//! Lists in an order that people choose: `WHERE (column, id) > (value, cursor) ORDER BY column, id`.
//!
//! One statement finds the places of a page, in an index where there is one, the next reads the rows that stand there.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::records::{Sortable, SortedRecords};
use plural_core::access::Visibility;
use plural_core::page::{Direction, Edge};
use plural_core::sort::{Place, Sort, SortColumn, SortKey, SortKind};
use plural_core::{Page, PageRequest, Result};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, Order, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, QueryTrait, Statement,
};
use uuid::Uuid;

use crate::database::Database;
use crate::error::db;
use crate::records::Table;

/// A noun whose rows are listed in several orders.
pub(crate) trait SortedTable: Table + Sortable {
    /// What rows are sorted by. Where there are many, an index has the same expression, then the id.
    fn sort_key(column: Self::Column, postgres: bool) -> Expr;
}

fn value(key: &SortKey) -> Expr {
    match key {
        SortKey::Text(text) => Expr::value(text.as_str()),
        SortKey::Number(number) => Expr::value(*number),
        SortKey::Time(at) => Expr::value(*at),
    }
}

fn place(row: &QueryResult, kind: SortKind) -> std::result::Result<Place, sea_orm::DbErr> {
    let key = match kind {
        SortKind::Text => SortKey::Text(row.try_get("", "sort_key")?),
        SortKind::Number => SortKey::Number(row.try_get("", "sort_key")?),
        SortKind::Time => SortKey::Time(row.try_get("", "sort_key")?),
    };
    Ok(Place { key, id: row.try_get("", "sort_id")? })
}

/// Finds the places of a page, and one more where there are more.
fn places<N: SortedTable>(
    visible: &Visibility,
    filter: &N::Filter,
    sort: &Sort<N::Column>,
    request: &PageRequest<Place>,
    backend: DbBackend,
) -> Statement {
    let key = N::sort_key(sort.column, backend == DbBackend::Postgres);
    let here = Expr::tuple([key.clone(), Expr::col(N::ID.as_column_ref())]);
    let there = |place: &Place| Expr::tuple([value(&place.key), Expr::value(place.id)]);
    let mut query = N::filter(N::Row::find().filter(N::visible(visible)), filter);
    // Whether the greater ones come later in the list.
    let ascends = !sort.descending;
    if let Some(after) = &request.after {
        let there = there(after);
        query = query.filter(if ascends { here.clone().gt(there) } else { here.clone().lt(there) });
    }
    if let Some(before) = &request.before {
        let there = there(before);
        query = query.filter(if ascends { here.lt(there) } else { here.gt(there) });
    }
    let order = match (request.direction, ascends) {
        (Direction::Forward, true) | (Direction::Backward, false) => Order::Asc,
        (Direction::Forward, false) | (Direction::Backward, true) => Order::Desc,
    };
    query
        .select_only()
        .expr_as(key.clone(), "sort_key")
        .column_as(N::ID, "sort_id")
        .order_by(key, order.clone())
        .order_by(N::ID, order)
        .limit(u64::from(request.limit) + 1)
        .build(backend)
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
        let backend = self.reader.get_database_backend();
        let statement = places::<N>(visible, filter, sort, request, backend);
        let doing = "reading a page";
        let kind = sort.column.kind();
        let places = self.reader.query_all_raw(statement).await.map_err(db(doing))?;
        let places = places
            .iter()
            .map(|row| place(row, kind).map(|node| Edge { cursor: sort.cursor(&node), node }))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(db(doing))?;
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
    use plural_app::service::ServiceFilter;
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
                    let all = Visibility::All;
                    let mut asked =
                        places::<Service>(&all, &ServiceFilter::default(), &sort, &request, backend);
                    asked.sql = format!("EXPLAIN QUERY PLAN {}", asked.sql);
                    let plan: Vec<String> = store
                        .reader
                        .query_all_raw(asked)
                        .await
                        .unwrap()
                        .iter()
                        .map(|row| row.try_get("", "detail").unwrap())
                        .collect();
                    let plan = plan.join("; ");
                    assert!(plan.contains("INDEX services_"), "{sort:?}: {plan}");
                    assert!(!plan.contains("TEMP B-TREE"), "{sort:?}: {plan}");
                }
            }
        }
    }
}
