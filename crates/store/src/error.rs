//! What a database's error means to a caller.

use plural_core::Error;
use plural_core::specs::HOLDS_NUL;
use sea_orm::sqlx;
use sea_orm::{DbErr, RuntimeErr};

use crate::bounded::HoldsNul;

/// What failed, as far as it makes a difference to whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection, or it broke.
    Connection,
    /// There is no room on the disk.
    Full,
    /// SQLite cannot open or use its files, and does not say why.
    File,
    /// Another writer is at it.
    Busy,
    /// The database is going down or coming up.
    Restarting,
    /// A text that only one of the databases could store.
    Nul,
    /// Our fault.
    Other,
}

impl Failure {
    pub(crate) fn of(cause: &DbErr) -> Self {
        match database_error(cause) {
            Some(error) if is_full(error) => Self::Full,
            Some(error) if is_shutdown(error) => Self::Restarting,
            Some(error) if is_busy(error) => Self::Busy,
            Some(error) if is_file(error) => Self::File,
            Some(error) if is_nul(error) => Self::Nul,
            None if is_refused_nul(cause) => Self::Nul,
            _ if matches!(cause, DbErr::ConnectionAcquire(_) | DbErr::Conn(_)) => Self::Connection,
            None if is_io(cause) => Self::Connection,
            _ => Self::Other,
        }
    }
}

/// Names what we were doing; the cause stays inside.
pub(crate) fn db(doing: &'static str) -> impl FnOnce(DbErr) -> Error {
    move |cause| {
        let reason = match Failure::of(&cause) {
            Failure::Connection => "the database does not answer: try again",
            Failure::Full => "the database's disk is full: free some space on it, then try again",
            Failure::File => {
                "the database's files cannot be used: see that its folder may be written and its disk is not \
                 full, then try again"
            }
            Failure::Busy => "the database is busy: try again",
            Failure::Restarting => "the database is restarting: try again",
            // Where it entered should have said which text it is.
            Failure::Nul => return Error::invalid("text", HOLDS_NUL),
            Failure::Other => {
                return Error::Internal { doing: doing.into(), cause: Some(Box::new(cause)) };
            }
        };
        Error::Unavailable { reason: reason.into(), cause: Some(Box::new(cause)) }
    }
}

/// The name of the unique constraint that a write broke.
///
/// PostgreSQL says the name. SQLite says only the columns ("UNIQUE constraint failed: clusters.handle"); our
/// constraints are named after them, so the name is composed.
pub(crate) fn unique_constraint(error: &DbErr) -> Option<String> {
    let error = database_error(error)?;
    if !error.is_unique_violation() {
        return None;
    }
    if let Some(name) = error.constraint() {
        return Some(name.to_owned());
    }
    let columns = error.message().split_once("constraint failed: ")?.1;
    let mut name = String::new();
    for column in columns.split(", ") {
        let (table, column) = column.split_once('.')?;
        if name.is_empty() {
            name.push_str(table);
        }
        name.push('_');
        name.push_str(column);
    }
    name.push_str("_key");
    Some(name)
}

/// A write failed because something still refers to the row, or the row it refers to is gone.
pub(crate) fn is_foreign_key(error: &DbErr) -> bool {
    database_error(error).is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation)
}

/// A broken unique constraint as a conflict, when it is one of these; else as [`db`].
pub(crate) fn unique(
    doing: &'static str,
    known: &'static [(&'static str, &'static str)],
) -> impl FnOnce(DbErr) -> Error {
    move |cause| {
        let broken = unique_constraint(&cause);
        match known.iter().find(|(name, _)| Some(*name) == broken.as_deref()) {
            Some((_, text)) => Error::conflict(*text),
            None => db(doing)(cause),
        }
    }
}

/// The row of a noun went between the decision and this update; `other` is for everything else.
pub(crate) fn gone_or(noun: &'static str, other: impl FnOnce(DbErr) -> Error) -> impl FnOnce(DbErr) -> Error {
    move |cause| match cause {
        DbErr::RecordNotUpdated => Error::not_found(noun),
        cause => other(cause),
    }
}

fn database_error(error: &DbErr) -> Option<&(dyn sqlx::error::DatabaseError + 'static)> {
    match sqlx_error(error)? {
        sqlx::Error::Database(error) => Some(error.as_ref()),
        _ => None,
    }
}

fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error),
        _ => None,
    }
}

fn is_io(error: &DbErr) -> bool {
    matches!(
        sqlx_error(error),
        Some(
            sqlx::Error::Io(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
                | sqlx::Error::Protocol(_)
        )
    )
}

fn is_full(error: &dyn sqlx::error::DatabaseError) -> bool {
    // SQLITE_FULL, and SQLITE_IOERR_SHMSIZE: the shared memory beside the file cannot grow; disk_full.
    matches!(error.code().as_deref(), Some("13" | "4874" | "53100"))
}

fn is_file(error: &dyn sqlx::error::DatabaseError) -> bool {
    // SQLITE_IOERR and SQLITE_CANTOPEN, whose further bits say at which step.
    // PostgreSQL's codes have five characters.
    error
        .code()
        .filter(|code| code.len() < 5)
        .and_then(|code| code.parse::<u32>().ok())
        .is_some_and(|code| matches!(code & 0xff, 10 | 14))
}

fn is_busy(error: &dyn sqlx::error::DatabaseError) -> bool {
    // SQLITE_BUSY, SQLITE_LOCKED; serialization_failure, deadlock_detected, too_many_connections.
    matches!(error.code().as_deref(), Some("5" | "6" | "517" | "40001" | "40P01" | "53300"))
}

fn is_shutdown(error: &dyn sqlx::error::DatabaseError) -> bool {
    // admin_shutdown, crash_shutdown, cannot_connect_now.
    matches!(error.code().as_deref(), Some("57P01" | "57P02" | "57P03"))
}

fn is_nul(error: &dyn sqlx::error::DatabaseError) -> bool {
    // character_not_in_repertoire, of a text; untranslatable_character, of JSON that was written as a text.
    matches!(error.code().as_deref(), Some("22021" | "22P05"))
}

fn is_refused_nul(error: &DbErr) -> bool {
    matches!(error, DbErr::TryIntoErr { source, .. } if source.is::<HoldsNul>())
}
