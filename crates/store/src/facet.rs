//! How many rows of a list have which value.

use plural_core::Result;
use sea_orm::sea_query::Expr;
use sea_orm::{ConnectionTrait, EntityTrait, QueryOrder, QuerySelect, Select, TryGetable};

use crate::error::db;

/// How many of these rows have each value of an expression: the most frequent `most` of them, the first first.
pub(crate) async fn counts<E, T>(
    connection: &impl ConnectionTrait,
    rows: Select<E>,
    value: Expr,
    most: u32,
    doing: &'static str,
) -> Result<Vec<(T, u64)>>
where
    E: EntityTrait,
    T: TryGetable + Send,
{
    // Named in GROUP BY: the same expression with other parameters is another one to PostgreSQL.
    let found: Vec<(T, i64)> = rows
        .select_only()
        .expr_as(value, "counted_value")
        .expr_as(Expr::cust("COUNT(*)"), "counted")
        .group_by(Expr::col("counted_value"))
        .order_by_desc(Expr::col("counted"))
        .order_by_asc(Expr::col("counted_value"))
        .limit(u64::from(most))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db(doing))?;
    Ok(found.into_iter().map(|(value, count)| (value, count.cast_unsigned())).collect())
}

/// The place of one in an order, as numbers in the database have it.
pub(crate) fn rank<T: PartialEq>(order: &[T], one: &T) -> i64 {
    order
        .iter()
        .position(|other| other == one)
        .and_then(|place| i64::try_from(place).ok())
        .unwrap_or(i64::MAX)
}

/// What stands at a place of an order.
pub(crate) fn ranked<T: Copy>(order: &[T], rank: i64) -> Option<T> {
    order.get(usize::try_from(rank).ok()?).copied()
}
