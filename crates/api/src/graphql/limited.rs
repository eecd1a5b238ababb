//! Lists without pages: clients know them in that form. They are cut where they are longer than any real one.

use async_graphql::{Context, QueryPathNode, QueryPathSegment, Value};

use super::{error::List, request::request};

/// Items of a list without pages.
pub(crate) const MOST_ITEMS: usize = 1_000;

/// The first [`MOST_ITEMS`] items. If there are more, the answer tells so in `extensions.truncated`, with their number.
pub(crate) fn limited<T>(ctx: &Context<'_>, items: impl ExactSizeIterator<Item = T>) -> List<T> {
    limited_to(MOST_ITEMS, ctx, items)
}

/// The same with another limit, for a list that is longer where it is usual and whose items are small.
#[expect(clippy::unnecessary_wraps, reason = "a nullable list is what the schema says")]
pub(crate) fn limited_to<T>(
    most: usize,
    ctx: &Context<'_>,
    items: impl ExactSizeIterator<Item = T>,
) -> List<T> {
    let count = items.len();
    if count > most {
        request(ctx).budget.cut(path(ctx.path_node.as_ref()), count, most);
    }
    Some(items.take(most).map(Some).collect())
}

fn path(node: Option<&QueryPathNode<'_>>) -> Value {
    let mut segments: Vec<Value> = node
        .into_iter()
        .flat_map(|node| std::iter::once(node).chain(node.parents()))
        .map(|node| match node.segment {
            QueryPathSegment::Index(index) => index.into(),
            QueryPathSegment::Name(name) => name.into(),
        })
        .collect();
    segments.reverse();
    Value::List(segments)
}
