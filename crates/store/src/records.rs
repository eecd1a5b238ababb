//! Reading nouns: what is the same for all of them.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::access::{FoundRow, Guarded};
use plural_app::records::{Record, Records};
use plural_core::access::{Actor, Scope, Visibility};
use plural_core::ids::PolicyId;
use plural_core::page::Edge;
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::sea_query::Condition;
use sea_orm::{ColumnTrait, EntityTrait, ModelTrait, QueryFilter, QueryOrder, Select};
use uuid::Uuid;

use crate::database::Database;
use crate::error::db;
use crate::page::{page, page_of_ids};
use crate::policy;

/// Ids of one statement.
pub(crate) const AT_ONCE: usize = 500;

/// A column of a noun's rows.
pub(crate) type Column<N> = <<N as Table>::Row as EntityTrait>::Column;

/// What decides who may have a thing.
pub(crate) enum Guard {
    /// The policies that it stands under, in the order of [`policy::scope`]. Under none, it belongs to administrators.
    Policies(Vec<PolicyId>),
    /// This.
    Scope(Scope),
}

/// How a noun is stored.
#[async_trait]
pub(crate) trait Table: Record {
    /// Its rows.
    type Row: EntityTrait<Model: TryInto<Self, Error = Error> + Send + Sync + 'static>;
    /// The key of its rows, by which they are paged.
    const ID: Column<Self>;
    /// What we were doing, in errors: "reading a cluster".
    const READING: &'static str;
    /// There may be so many rows that a list passes over most of them for somebody who may see few; an index has what decides that.
    const IS_LONG: bool = false;
    /// One that a later release wrote, and this one cannot read, is left out of lists, and the log says so: it keeps nobody from the others.
    const LEAVES_OUT: bool = false;

    /// The row that is named.
    fn find(rows: Select<Self::Row>, by: &Self::Find) -> Select<Self::Row>;

    /// The rows that `actor` can name: all of them, unless some belong to something else.
    fn nameable(rows: Select<Self::Row>, _actor: &Actor) -> Select<Self::Row> {
        rows
    }

    /// The rows that a list shows.
    fn filter(rows: Select<Self::Row>, filter: &Self::Filter) -> Select<Self::Row>;

    /// The rows that may be read; says the same as [`Self::guard`] of each.
    fn visible(_to: &Visibility) -> Condition {
        Condition::all()
    }

    /// What decides who may have it.
    fn guard(&self) -> Guard;

    /// Completes things by what is in other tables.
    async fn complete(_database: &Database, _found: &mut [&mut Self]) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl<N: Table> Records<N> for Database {
    async fn find(&self, actor: &Actor, by: &N::Find) -> Result<Guarded<N>> {
        let query = N::nameable(N::find(N::Row::find(), by), actor);
        let row = query.one(&self.reader).await.map_err(db(N::READING))?;
        let row = row.ok_or(Error::not_found(N::NOUN))?;
        let as_found = FoundRow::new(row.clone());
        let mut found: N = row.try_into()?;
        N::complete(self, &mut [&mut found]).await?;
        let scope = match found.guard() {
            Guard::Policies(of) => policy::scope(&self.reader, actor, &of).await?,
            Guard::Scope(scope) => scope,
        };
        Ok(Guarded::new(found, scope).of_row(as_found))
    }

    async fn find_many(&self, actor: &Actor, ids: &[N::Id]) -> Result<Vec<Guarded<N>>> {
        let mut ids: Vec<Uuid> = ids.iter().map(|id| (*id).into()).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut found = self.rows_of::<N>(&ids).await?;
        for chunk in found.chunks_mut(AT_ONCE) {
            N::complete(self, &mut chunk.iter_mut().collect::<Vec<_>>()).await?;
        }
        self.guarded(actor, found).await
    }

    async fn list(&self, visible: &Visibility, filter: &N::Filter, request: &PageRequest) -> Result<Page<N>> {
        let query = N::filter(N::Row::find().filter(N::visible(visible)), filter);
        let mut found: Page<N> = match visible {
            Visibility::Bound { .. } if N::IS_LONG => self.page_by_ids::<N>(query, request).await?,
            Visibility::All | Visibility::Bound { .. } if N::LEAVES_OUT => {
                self.page_by_ids::<N>(query, request).await?
            }
            Visibility::All | Visibility::Bound { .. } => {
                page(&self.reader, query, N::ID, request, TryInto::try_into).await?
            }
        };
        N::complete(self, &mut found.edges.iter_mut().map(|edge| &mut edge.node).collect::<Vec<_>>()).await?;
        Ok(found)
    }
}

impl Database {
    /// A page of a long list for somebody who may see a part of it: first the ids, then the rows.
    async fn page_by_ids<N: Table>(&self, query: Select<N::Row>, request: &PageRequest) -> Result<Page<N>> {
        let Page { edges, has_next_page, has_previous_page } =
            page_of_ids(&self.reader, query, N::ID, request).await?;
        let ids: Vec<Uuid> = edges.iter().map(|edge| edge.node.0).collect();
        let found = self.rows_of::<N>(&ids).await?;
        let mut found: HashMap<Uuid, N> = found.into_iter().map(|one| (one.key(), one)).collect();
        // One that went in between is left out.
        let edges = edges
            .into_iter()
            .filter_map(|Edge { node, cursor }| found.remove(&node.0).map(|node| Edge { node, cursor }));
        Ok(Page { edges: edges.collect(), has_next_page, has_previous_page })
    }

    /// Things by id, oldest first; without those that cannot be read, where these are left out.
    async fn rows_of<N: Table>(&self, ids: &[Uuid]) -> Result<Vec<N>> {
        if !N::LEAVES_OUT {
            return self.rows::<N::Row, N>(N::ID, ids, N::READING).await;
        }
        let mut found = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(AT_ONCE) {
            let id = N::ID;
            let query = N::Row::find().filter(id.is_in(chunk.iter().copied())).order_by_asc(id);
            for row in query.all(&self.reader).await.map_err(db(N::READING))? {
                let id = format!("{:?}", row.get(id));
                let read: Result<N> = row.try_into();
                match read {
                    Ok(one) => found.push(one),
                    Err(error) => {
                        let error = error.log_text();
                        tracing::warn!(
                            id,
                            noun = N::NOUN,
                            error,
                            "a row that this release cannot read is left out of a list"
                        );
                    }
                }
            }
        }
        Ok(found)
    }

    /// Rows by id, oldest first.
    pub(crate) async fn rows<E, T>(&self, id: E::Column, ids: &[Uuid], doing: &'static str) -> Result<Vec<T>>
    where
        E: EntityTrait<Model: TryInto<T, Error = Error>>,
    {
        let mut found = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(AT_ONCE) {
            let query = E::find().filter(id.is_in(chunk.iter().copied())).order_by_asc(id);
            for row in query.all(&self.reader).await.map_err(db(doing))? {
                found.push(row.try_into()?);
            }
        }
        Ok(found)
    }

    /// Each with what concerns `actor` of what guards it.
    pub(crate) async fn guarded<N: Table>(&self, actor: &Actor, found: Vec<N>) -> Result<Vec<Guarded<N>>> {
        let guards: Vec<Guard> = found.iter().map(Table::guard).collect();
        let of: Vec<Vec<PolicyId>> = guards
            .iter()
            .map(|guard| match guard {
                Guard::Policies(of) => of.clone(),
                Guard::Scope(_) => Vec::new(),
            })
            .collect();
        let scopes = policy::scopes(&self.reader, actor, &of).await?;
        let guarded = found.into_iter().zip(guards).zip(scopes).map(|((one, guard), bindings)| match guard {
            Guard::Policies(_) => Guarded::new(one, bindings),
            Guard::Scope(scope) => Guarded::new(one, scope),
        });
        Ok(guarded.collect())
    }
}
