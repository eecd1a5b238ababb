//! Keyset pages: `WHERE id > cursor ORDER BY id LIMIT n + 1`.

use plural_core::page::{Direction, Keyed};
use plural_core::{Page, PageRequest, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Func, LikeExpr};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};
use uuid::Uuid;

use crate::error::db;

/// One page of `query`, keyed by `id`.
pub(crate) async fn page<E, T>(
    connection: &impl ConnectionTrait,
    query: Select<E>,
    id: E::Column,
    request: &PageRequest,
    convert: impl Fn(E::Model) -> Result<T>,
) -> Result<Page<T>>
where
    E: EntityTrait,
    T: Keyed,
{
    let rows = keyset(query, id, request)
        .all(connection)
        .await
        .map_err(db("reading a page"))?
        .into_iter()
        .map(convert)
        .collect::<Result<Vec<T>>>()?;
    Ok(Page::from_rows(request, rows))
}

/// The ids of one page of `query`. An index that has all that the query asks for is read instead of the rows, of which it may pass
/// many over.
pub(crate) async fn page_of_ids<E>(
    connection: &impl ConnectionTrait,
    query: Select<E>,
    id: E::Column,
    request: &PageRequest,
) -> Result<Page<Id>>
where
    E: EntityTrait,
{
    let ids: Vec<Uuid> = keyset(query, id, request)
        .select_only()
        .column(id)
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading a page"))?;
    Ok(Page::from_rows(request, ids.into_iter().map(Id).collect()))
}

/// The id of a row.
pub(crate) struct Id(pub(crate) Uuid);

impl Keyed for Id {
    fn key(&self) -> Uuid {
        self.0
    }
}

/// The rows of a page in its direction, and one more where there are more.
fn keyset<E: EntityTrait>(query: Select<E>, id: E::Column, request: &PageRequest) -> Select<E> {
    let mut query = query;
    if let Some(after) = request.after {
        query = query.filter(id.gt(after));
    }
    if let Some(before) = request.before {
        query = query.filter(id.lt(before));
    }
    query = match request.direction {
        Direction::Forward => query.order_by_asc(id),
        Direction::Backward => query.order_by_desc(id),
    };
    query.limit(u64::from(request.limit) + 1)
}

/// The rows with a text in one of these columns; all of them where there is none to look for.
pub(crate) fn search<E: EntityTrait>(
    rows: Select<E>,
    columns: &[E::Column],
    text: Option<&str>,
) -> Select<E> {
    match text.filter(|text| !text.is_empty()) {
        None => rows,
        Some(text) => rows.filter(
            columns.iter().fold(Condition::any(), |found, column| found.add(contains(*column, text))),
        ),
    }
}

/// `column` contains `text`, in any case.
fn contains<C: ColumnTrait>(column: C, text: &str) -> sea_orm::sea_query::SimpleExpr {
    let escaped: String = text
        .to_lowercase()
        .chars()
        .flat_map(|c| matches!(c, '%' | '_' | '\\').then_some('\\').into_iter().chain(std::iter::once(c)))
        .collect();
    Expr::expr(Func::lower(Expr::col(column.as_column_ref())))
        .like(LikeExpr::new(format!("%{escaped}%")).escape('\\'))
}
