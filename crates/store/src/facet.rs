//! How many rows of a list have which value.

use std::cmp::Reverse;
use std::collections::BTreeMap;

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

/// Rows of counts of one part of [`counts_in_parts`]: more than there are clusters, each with some values.
const MOST_OF_A_PART: u32 = 100_000;

/// [`counts`] of rows that come in parts which have no row in common.
pub(crate) async fn counts_in_parts<E, T>(
    connection: &impl ConnectionTrait,
    parts: Vec<Select<E>>,
    value: &Expr,
    most: u32,
    doing: &'static str,
) -> Result<Vec<(T, u64)>>
where
    E: EntityTrait,
    T: TryGetable + Ord + Send,
{
    // What is not among the first of each part may be among the first of all.
    let of_part = if parts.len() == 1 { most } else { MOST_OF_A_PART };
    let mut found = Vec::new();
    for rows in parts {
        found.extend(counts::<E, T>(connection, rows, value.clone(), of_part, doing).await?);
    }
    Ok(most_frequent(found, most))
}

/// Sums of the counts of each value: the `most` largest, the first first.
pub(crate) fn most_frequent<T: Ord>(counts: Vec<(T, u64)>, most: u32) -> Vec<(T, u64)> {
    let mut sums = BTreeMap::<T, u64>::new();
    for (value, count) in counts {
        *sums.entry(value).or_default() += count;
    }
    let mut sums: Vec<(T, u64)> = sums.into_iter().collect();
    // Of as many as another has, the lesser value stays first.
    sums.sort_by_key(|(_, count)| Reverse(*count));
    sums.truncate(most as usize);
    sums
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_parts_are_added_and_the_largest_come_first() {
        let parts = vec![("b", 2), ("a", 1), ("c", 2), ("a", 3), ("d", 1)];
        assert_eq!(most_frequent(parts.clone(), 3), [("a", 4), ("b", 2), ("c", 2)]);
        assert_eq!(most_frequent(parts, 9).last(), Some(&("d", 1)));
        assert_eq!(most_frequent(Vec::<(u8, u64)>::new(), 9), []);
    }
}
