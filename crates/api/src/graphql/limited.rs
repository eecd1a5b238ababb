//! Lists without pages: clients know them in that form. They are cut where they are longer than any real one.

use async_graphql::{Context, QueryPathNode, QueryPathSegment, Value};

use super::{error::List, request::request};

/// Items of a list without pages.
pub(crate) const MOST_ITEMS: usize = 1_000;

/// The first [`MOST_ITEMS`] items. If there are more, the answer tells so in `extensions.truncated`, with their number.
#[expect(clippy::unnecessary_wraps, reason = "a nullable list is what the schema says")]
pub(crate) fn limited<T>(ctx: &Context<'_>, items: impl ExactSizeIterator<Item = T>) -> List<T> {
    let count = items.len();
    if count > MOST_ITEMS {
        request(ctx).budget.cut(path(ctx.path_node.as_ref()), count, MOST_ITEMS);
    }
    Some(items.take(MOST_ITEMS).map(Some).collect())
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
