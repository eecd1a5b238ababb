//! Relay pages, keyed by id: page N costs what page 1 costs. Lists in another order: [`crate::sort`].

use std::fmt::Write as _;

use uuid::Uuid;

use crate::error::{Error, Result};

/// Rows of a page when the caller names no number.
const DEFAULT_SIZE: u32 = 100;
/// Most rows of one page.
const MAX_SIZE: u32 = 500;

/// The four Relay arguments as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PageArgs {
    /// Rows after this cursor.
    pub after: Option<String>,
    /// How many from the start.
    pub first: Option<i64>,
    /// Rows before this cursor.
    pub before: Option<String>,
    /// How many from the end.
    pub last: Option<i64>,
}

/// Which way a page is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the start, after the cursor.
    Forward,
    /// From the end, before the cursor.
    Backward,
}

/// A checked request for one page of a list that is keyed by `K`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest<K = Uuid> {
    /// Which way.
    pub direction: Direction,
    /// Rows strictly after this key.
    pub after: Option<K>,
    /// Rows strictly before this key.
    pub before: Option<K>,
    /// At most so many, 1 to 500.
    pub limit: u32,
}

impl PageArgs {
    /// Only the first `n`.
    pub fn first(n: i64) -> Self {
        Self { first: Some(n), ..Self::default() }
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cursor that we did not make, a size below 1, or `first` and `last` together.
    pub fn request(&self) -> Result<PageRequest> {
        self.request_by(parse_cursor)
    }

    /// The same of a list whose cursors are read by `parse`, which gets the name of the field.
    pub(crate) fn request_by<K>(
        &self,
        parse: impl Fn(&'static str, &str) -> Result<K>,
    ) -> Result<PageRequest<K>> {
        let (direction, size, field) = match (self.first, self.last) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("last", "must not be given together with \"first\""));
            }
            (first, None) => (Direction::Forward, first, "first"),
            (None, last) => (Direction::Backward, last, "last"),
        };
        let limit = match size {
            None => DEFAULT_SIZE,
            Some(n) if n < 1 => return Err(Error::invalid(field, "must be at least 1")),
            Some(n) => u32::try_from(n).unwrap_or(MAX_SIZE).min(MAX_SIZE),
        };
        // Clients send an empty cursor for "from the start".
        let key = |field, text: Option<&str>| {
            text.filter(|text| !text.is_empty()).map(|text| parse(field, text)).transpose()
        };
        Ok(PageRequest {
            direction,
            after: key("after", self.after.as_deref())?,
            before: key("before", self.before.as_deref())?,
            limit,
        })
    }
}

/// Something that a list can be keyed by.
pub trait Keyed {
    /// The key: unique and, within one list, ordered.
    fn key(&self) -> Uuid;
}

/// One row of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge<T> {
    /// The row.
    pub node: T,
    /// Where it stands.
    pub cursor: String,
}

/// One page, in ascending key order whichever way it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub edges: Vec<Edge<T>>,
    /// There is more after the last row.
    pub has_next_page: bool,
    /// There is more before the first row.
    pub has_previous_page: bool,
}

impl<T: Keyed> Page<T> {
    /// The page of `request` out of up to `limit + 1` rows read in its direction.
    pub fn from_rows(request: &PageRequest, rows: Vec<T>) -> Self {
        Self::from_edges(
            request,
            rows.into_iter().map(|node| Edge { cursor: cursor(node.key()), node }).collect(),
        )
    }
}

impl<T> Page<T> {
    /// The page of `request` out of up to `limit + 1` rows read in its direction, each with its cursor.
    pub fn from_edges<K>(request: &PageRequest<K>, mut edges: Vec<Edge<T>>) -> Self {
        let more = edges.len() > request.limit as usize;
        edges.truncate(request.limit as usize);
        let (has_next_page, has_previous_page) = match request.direction {
            Direction::Forward => (more, request.after.is_some()),
            Direction::Backward => {
                edges.reverse();
                (request.before.is_some(), more)
            }
        };
        Self { edges, has_next_page, has_previous_page }
    }

    /// Cursor of the first row.
    pub fn start_cursor(&self) -> Option<&str> {
        self.edges.first().map(|edge| edge.cursor.as_str())
    }

    /// Cursor of the last row.
    pub fn end_cursor(&self) -> Option<&str> {
        self.edges.last().map(|edge| edge.cursor.as_str())
    }

    /// The rows without their cursors.
    pub fn into_nodes(self) -> Vec<T> {
        self.edges.into_iter().map(|edge| edge.node).collect()
    }

    /// The same page of something else that cannot always be made.
    ///
    /// # Errors
    /// Why the first of those could not.
    pub fn try_map<U>(self, change: impl Fn(T) -> Result<U>) -> Result<Page<U>> {
        let Self { edges, has_next_page, has_previous_page } = self;
        let edges = edges
            .into_iter()
            .map(|Edge { node, cursor }| Ok(Edge { node: change(node)?, cursor }))
            .collect::<Result<_>>()?;
        Ok(Page { edges, has_next_page, has_previous_page })
    }

    /// The same page of other things.
    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> Page<U> {
        Page {
            edges: self
                .edges
                .into_iter()
                .map(|Edge { node, cursor }| Edge { node: change(node), cursor })
                .collect(),
            has_next_page: self.has_next_page,
            has_previous_page: self.has_previous_page,
        }
    }
}

fn cursor(key: Uuid) -> String {
    let mut text = String::with_capacity(33);
    // Writing to a String cannot fail.
    let _ = write!(text, "k{}", key.simple());
    text
}

fn parse_cursor(field: &'static str, text: &str) -> Result<Uuid> {
    text.strip_prefix('k').and_then(|hex| Uuid::try_parse(hex).ok()).ok_or_else(|| {
        Error::invalid(field, "is not a cursor of this list: pass an unmodified \"endCursor\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for Uuid {
        fn key(&self) -> Uuid {
            *self
        }
    }

    #[test]
    fn cursors_round_trip() {
        let key = Uuid::now_v7();
        assert_eq!(parse_cursor("after", &cursor(key)).unwrap(), key);
        assert!(parse_cursor("after", "nonsense").is_err());
        let from_the_start = PageArgs { after: Some(String::new()), ..PageArgs::default() };
        assert_eq!(from_the_start.request().unwrap().after, None);
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(PageArgs::first(1_000_000).request().unwrap().limit, MAX_SIZE);
        assert!(PageArgs::first(0).request().is_err());
        assert!(PageArgs { first: Some(1), last: Some(1), ..PageArgs::default() }.request().is_err());
    }

    #[test]
    fn one_row_too_many_means_more() {
        let rows: Vec<Uuid> = (0..3).map(|_| Uuid::now_v7()).collect();
        let page = Page::from_rows(&PageArgs::first(2).request().unwrap(), rows.clone());
        assert!(page.has_next_page);
        assert_eq!(page.into_nodes(), rows[..2]);
    }
}
