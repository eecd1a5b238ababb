//! Relay pages, forwards.

use serde::{Deserialize, Deserializer, Serialize};

use crate::{client::Client, document::Operation, error::ClientError, shared::list};

/// How many items our own documents ask for at once; the console's own limit is not lower.
pub const PAGE_SIZE: i64 = 100;

/// Items that one listing may bring together before we say so instead of filling memory.
const MOST_ITEMS: usize = 200_000;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection<T> {
    /// Where this page ends and whether there is a next one.
    pub page_info: PageInfo,
    /// The page's items.
    #[serde(default = "Vec::new", deserialize_with = "list", bound(deserialize = "T: Deserialize<'de>"))]
    pub edges: Vec<Edge<T>>,
}

impl<T> Default for Connection<T> {
    /// The only page of an empty list.
    fn default() -> Self {
        Self { page_info: PageInfo::default(), edges: Vec::new() }
    }
}

/// Reads a nullable page: null is an empty one.
pub(crate) fn page<'de, D, T>(deserializer: D) -> Result<Connection<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// One item of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge<T> {
    /// The item.
    pub node: T,
}

/// The position of a page in its list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageInfo {
    /// Whether asking with `after = end_cursor` brings more.
    pub has_next_page: bool,
    /// Opaque position of the last item.
    pub end_cursor: Option<String>,
}

/// An answer that is a page of a list, or has one in it.
pub trait Paged {
    /// What the list holds.
    type Item;
    /// The page.
    fn page(self) -> Connection<Self::Item>;
}

impl<T> Paged for Connection<T> {
    type Item = T;

    fn page(self) -> Self {
        self
    }
}

/// Reads a whole list, page after page. `operation` makes the request for the page after a cursor.
///
/// # Errors
/// What any page's request fails with; [`ClientError::Answer`] when the console repeats a cursor
/// (the loop would never end) or the list is longer than two hundred thousand items.
pub async fn all_pages<O, F>(
    client: &Client,
    mut operation: F,
) -> Result<Vec<<O::Data as Paged>::Item>, ClientError>
where
    O: Operation<Data: Paged>,
    F: FnMut(Option<String>) -> O,
{
    let mut items = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = client.send(&operation(after.clone())).await?.page();
        items.extend(page.edges.into_iter().map(|edge| edge.node));
        if !page.page_info.has_next_page {
            return Ok(items);
        }
        if page.page_info.end_cursor.is_none() || page.page_info.end_cursor == after {
            return Err(ClientError::Answer {
                operation: O::NAME,
                reason: "a page says that there is a next one but not where".into(),
            });
        }
        if items.len() >= MOST_ITEMS {
            return Err(ClientError::Answer {
                operation: O::NAME,
                reason: format!("the list is longer than {MOST_ITEMS} items: narrow it"),
            });
        }
        after = page.page_info.end_cursor;
    }
}
