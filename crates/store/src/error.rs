//! What a database's error means to a caller.

use plural_core::Error;
use sea_orm::sqlx;
use sea_orm::{DbErr, RuntimeErr};

/// Names what we were doing; the cause stays inside.
pub(crate) fn db(doing: &'static str) -> impl FnOnce(DbErr) -> Error {
    move |cause| {
        let reason = match &cause {
            DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => Some("the database does not answer: try again"),
            _ => match database_error(&cause) {
                Some(error) if is_full(error) => {
                    Some("the database's disk is full: free some space, then try again")
                }
                Some(error) if is_shutdown(error) => Some("the database is restarting: try again"),
                Some(error) if is_busy(error) => Some("the database is busy: try again"),
                None if is_io(&cause) => Some("the database does not answer: try again"),
                _ => None,
            },
        };
        match reason {
            Some(reason) => Error::Unavailable { reason: reason.into(), cause: Some(Box::new(cause)) },
            None => Error::Internal { doing: doing.into(), cause: Some(Box::new(cause)) },
        }
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

fn database_error(error: &DbErr) -> Option<&(dyn sqlx::error::DatabaseError + 'static)> {
    match sqlx_error(error)? {
        sqlx::Error::Database(error) => Some(error.as_ref()),
        _ => None,
    }
}

fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error),
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
    // SQLITE_FULL; disk_full.
    matches!(error.code().as_deref(), Some("13" | "53100"))
}

fn is_busy(error: &dyn sqlx::error::DatabaseError) -> bool {
    // SQLITE_BUSY, SQLITE_LOCKED; serialization_failure, deadlock_detected, too_many_connections.
    matches!(error.code().as_deref(), Some("5" | "6" | "517" | "40001" | "40P01" | "53300"))
}

fn is_shutdown(error: &dyn sqlx::error::DatabaseError) -> bool {
    // admin_shutdown, crash_shutdown, cannot_connect_now.
    matches!(error.code().as_deref(), Some("57P01" | "57P02" | "57P03"))
}
