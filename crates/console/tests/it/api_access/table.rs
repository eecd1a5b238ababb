//! A row of the access table, and what most rows expect.

use serde_json::Value;

use super::world::World;

/// Who may see it and who may not, by what a thing belongs to.
/// The columns: nobody, stranger, reader, owner, administrator.
pub(super) const MEMBERS_READ: [&str; 5] = ["401", "NOT_FOUND", "OK", "OK", "OK"];
pub(super) const MEMBERS_WRITE: [&str; 5] = ["401", "NOT_FOUND", "FORBIDDEN", "OK", "OK"];
/// Administrators of the installation; who sees the thing hears that it is theirs.
pub(super) const ADMINISTRATORS: [&str; 5] = ["401", "NOT_FOUND", "FORBIDDEN", "FORBIDDEN", "OK"];
pub(super) const USERS: [&str; 5] = ["401", "OK", "OK", "OK", "OK"];
pub(super) const ADMINS: [&str; 5] = ["401", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "OK"];
/// Who may, finds nothing that could be done.
pub(super) const MEMBERS_CONFLICT: [&str; 5] = ["401", "NOT_FOUND", "FORBIDDEN", "CONFLICT", "CONFLICT"];
/// Who may, is told what is missing.
pub(super) const MEMBERS_INVALID: [&str; 5] = ["401", "NOT_FOUND", "FORBIDDEN", "INVALID", "INVALID"];
/// What is for the credentials of runs and agents, and for no person.
pub(super) const RUNNERS: [&str; 5] =
    ["401", "UNAUTHENTICATED", "UNAUTHENTICATED", "UNAUTHENTICATED", "UNAUTHENTICATED"];
/// Somebody else's own things.
pub(super) const SECRET: [&str; 5] = ["401", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "OK"];
pub(super) const OPEN: [&str; 5] = ["OK", "OK", "OK", "OK", "OK"];

pub(super) struct Line {
    pub(super) field: &'static str,
    pub(super) expected: [&'static str; 5],
    pub(super) document: &'static str,
    pub(super) variables: fn(&World) -> Value,
}
