//! Saved views: a page of the web console and its query, under a name.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{SavedViewId, UserId};
use crate::name::{Handle, Name};
use crate::page::Keyed;
use crate::policy::BindingsChange;

/// Views that one user may own.
pub const MAX_SAVED_VIEWS: u64 = 200;
/// Bytes of a query.
const MAX_QUERY: usize = 4096;

/// A page of the web console with its filters, for its owner and for whom it is shared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedView {
    /// Id.
    pub id: SavedViewId,
    /// Who made it. The owner administers it.
    pub owner_id: UserId,
    /// Unique among the owner's views of the page.
    pub name: Name,
    /// The page, as its address names it: `services`.
    pub page: Handle,
    /// The query of the page's address, without `?`: filters, order, columns.
    pub query: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for SavedView {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What a new view is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSavedView {
    /// Unique among the owner's views of the page.
    pub name: Name,
    /// The page, as its address names it.
    pub page: Handle,
    /// The query of the page's address.
    pub query: String,
    /// Who else may read, change or administer it.
    pub bindings: BindingsChange,
}

/// What changes of a view; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedViewChange {
    /// A new name.
    pub name: Option<Name>,
    /// Another query.
    pub query: Option<String>,
    /// Other bindings; they need admin access.
    pub bindings: BindingsChange,
}

/// Checks the query of a view.
///
/// # Errors
/// [`Error::Invalid`] for more than 4096 bytes, or a control character.
pub fn check_query(query: &str) -> Result<()> {
    if query.len() > MAX_QUERY || query.chars().any(char::is_control) {
        let reason = format!("must be one line of at most {MAX_QUERY} bytes");
        return Err(Error::invalid("attributes.query", reason));
    }
    Ok(())
}
