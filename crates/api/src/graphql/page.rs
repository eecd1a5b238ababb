//! Relay pages.

use async_graphql::{Context, SimpleObject};
use plural_core::{Page, PageArgs};

use super::error::{IntoGraphql, Nullable};

/// The position of a page in its list.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct PageInfo {
    /// There is more before the first item.
    pub(crate) has_previous_page: bool,
    /// There is more after the last item.
    pub(crate) has_next_page: bool,
    /// Position of the first item.
    pub(crate) start_cursor: Option<String>,
    /// Position of the last item: pass it as `after` to get the next page.
    pub(crate) end_cursor: Option<String>,
}

impl PageInfo {
    pub(crate) fn of<T>(page: &Page<T>) -> Self {
        Self {
            has_previous_page: page.has_previous_page,
            has_next_page: page.has_next_page,
            start_cursor: page.start_cursor().map(str::to_owned),
            end_cursor: page.end_cursor().map(str::to_owned),
        }
    }
}

/// The four arguments of every list.
pub(crate) fn page_args(
    after: Option<String>,
    first: Option<i32>,
    before: Option<String>,
    last: Option<i32>,
) -> PageArgs {
    PageArgs { after, first: first.map(i64::from), before, last: last.map(i64::from) }
}

/// A count as the schema has it.
pub(crate) fn counted(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// How many rows of a list have each of some values, as the type of the schema for them says it.
pub(crate) async fn counts<Value, Count: From<(Value, u64)>>(
    ctx: &Context<'_>,
    found: impl Future<Output = plural_core::Result<Vec<(Value, u64)>>>,
) -> Nullable<Vec<Count>> {
    let found = found.await.into_graphql(ctx);
    found.map(|found| Some(found.into_iter().map(Count::from).collect())).transpose()
}

/// Declares `XConnection` and `XEdge` of a node type, made from a page of anything that becomes one.
macro_rules! connection {
    ($connection:ident, $edge:ident, $node:ty) => {
        /// One page of a list.
        #[derive(async_graphql::SimpleObject)]
        pub(crate) struct $connection {
            /// Where the page is in its list.
            page_info: $crate::graphql::page::PageInfo,
            /// The items of the page.
            edges: Option<Vec<Option<$edge>>>,
        }

        /// One item of a page.
        #[derive(async_graphql::SimpleObject)]
        pub(crate) struct $edge {
            /// The item.
            node: Option<$node>,
            /// Its position.
            cursor: Option<String>,
        }

        impl<T: Into<$node>> From<plural_core::Page<T>> for $connection {
            fn from(page: plural_core::Page<T>) -> Self {
                let page_info = $crate::graphql::page::PageInfo::of(&page);
                let edge = |edge: plural_core::page::Edge<T>| {
                    Some($edge { node: Some(edge.node.into()), cursor: Some(edge.cursor) })
                };
                Self { page_info, edges: Some(page.edges.into_iter().map(edge).collect()) }
            }
        }
    };
}
pub(crate) use connection;
