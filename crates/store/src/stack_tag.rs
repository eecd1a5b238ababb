//! Tags of stacks, a row each, by which they are found. What a stack itself tells of them is in its row.

use std::collections::BTreeMap;

use plural_app::cluster_facet::{MOST_VALUES, TagCount};
use plural_core::Result;
use plural_core::ids::StackId;
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Query};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};

use crate::error::db;
use crate::stack;
use crate::transaction::{self, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "stack_tags")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub stack_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub name: String,
        pub value: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Stacks with all of these tags, or with any of them.
pub(crate) fn with(tags: &BTreeMap<String, String>, any: bool) -> Condition {
    let mut tagged = if any { Condition::any() } else { Condition::all() };
    for (name, value) in tags {
        let mut with = Query::select();
        with.column(row::Column::StackId)
            .from(row::Entity)
            .and_where(Expr::col(row::Column::Name).eq(name.as_str()))
            .and_where(Expr::col(row::Column::Value).eq(value.as_str()));
        tagged = tagged.add(stack::row::Column::Id.in_subquery(with));
    }
    tagged
}

/// How many of these stacks have each tag: the most frequent, the first first.
pub(crate) async fn counts_on(
    connection: &impl ConnectionTrait,
    stacks: Select<stack::row::Entity>,
) -> Result<Vec<TagCount>> {
    let stacks = stacks.select_only().column(stack::row::Column::Id).into_query();
    let found: Vec<(String, String, i64)> = row::Entity::find()
        .filter(row::Column::StackId.in_subquery(stacks))
        .select_only()
        .columns([row::Column::Name, row::Column::Value])
        .expr_as(Expr::cust("COUNT(*)"), "counted")
        .group_by(row::Column::Name)
        .group_by(row::Column::Value)
        .order_by_desc(Expr::col("counted"))
        .order_by_asc(row::Column::Name)
        .order_by_asc(row::Column::Value)
        .limit(u64::from(MOST_VALUES))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("counting the tags of stacks"))?;
    Ok(found.into_iter().map(|(name, value, count)| ((name, value), count.cast_unsigned())).collect())
}

/// Writes all tags of a stack, whose row is locked.
pub(crate) async fn replace_in_tx(
    write: &transaction::Write<'_>,
    stack: StackId,
    tags: &BTreeMap<String, String>,
) -> Result<()> {
    let doing = "writing the tags of a stack";
    row::Entity::delete_many()
        .filter(row::Column::StackId.eq(stack.uuid()))
        .exec(&write.tx)
        .await
        .map_err(db(doing))?;
    if tags.is_empty() {
        return Ok(());
    }
    let rows = tags.iter().map(|(name, value)| row::ActiveModel {
        stack_id: set(stack.uuid()),
        name: set(name.clone()),
        value: set(value.clone()),
    });
    row::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map(drop).map_err(db(doing))
}
