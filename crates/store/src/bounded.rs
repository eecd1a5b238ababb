//! Statements that end: a server that sleeps, or a network that swallows the answer, lets nobody wait for ever. And
//! statements that both databases take: none has a NUL character in a text.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plural_core::specs::{has_nul, json_has_nul};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult,
    RuntimeErr, Statement, TransactionOptions, TransactionTrait, Value,
};

/// Why a statement is not run: PostgreSQL has no NUL character in texts and JSON. SQLite would store it, and then the two
/// would differ, and what was stored could not be moved.
#[derive(Debug, thiserror::Error)]
#[error("a text holds a NUL character")]
pub(crate) struct HoldsNul;

/// A connection, a pool of them, or a transaction, on which each statement is answered in time or fails. One with a NUL
/// character in a value fails with [`HoldsNul`], whatever the database.
///
/// A write that failed so may have been done all the same, as with any lost answer.
#[derive(Debug, Clone)]
pub(crate) struct Bounded<C> {
    inner: C,
    /// None: as long as it takes.
    deadline: Option<Duration>,
}

impl<C> Bounded<C> {
    pub(crate) fn new(inner: C, deadline: Option<Duration>) -> Self {
        Self { inner, deadline }
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
        within(self.deadline, work).await
    }
}

impl Bounded<DatabaseConnection> {
    pub(crate) async fn begin_with_options(
        &self,
        options: TransactionOptions,
    ) -> Result<Bounded<DatabaseTransaction>, DbErr> {
        let inner = self.within(self.inner.begin_with_options(options)).await?;
        Ok(Bounded { inner, deadline: self.deadline })
    }

    pub(crate) async fn close(self) -> Result<(), DbErr> {
        within(self.deadline, self.inner.close()).await
    }

    /// Closes all connections. Those that are given out are waited for a few seconds.
    pub(crate) async fn shut(&self) {
        match tokio::time::timeout(Duration::from_secs(5), self.inner.close_by_ref()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = %error, "closing the database failed; nothing is lost"),
            Err(_) => {
                tracing::warn!("the database is in use after the end; its connections end with the process");
            }
        }
    }

    /// Gives out no connection any more. Waits for none of those that are given out.
    pub(crate) async fn sever(&self) {
        // Closed when it is first asked to; the rest is the wait.
        let _ = tokio::time::timeout(Duration::ZERO, self.inner.close_by_ref()).await;
    }
}

impl Bounded<DatabaseTransaction> {
    pub(crate) async fn commit(self) -> Result<(), DbErr> {
        within(self.deadline, self.inner.commit()).await
    }
}

async fn within<T>(
    deadline: Option<Duration>,
    work: impl Future<Output = Result<T, DbErr>>,
) -> Result<T, DbErr> {
    let Some(deadline) = deadline else { return work.await };
    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| {
        let told = format!("no answer within {deadline:.0?}");
        Err(DbErr::Conn(RuntimeErr::Internal(told)))
    })
}

fn check(statement: &Statement) -> Result<(), DbErr> {
    if statement.values.iter().flat_map(|values| &values.0).any(holds_nul) {
        return Err(DbErr::TryIntoErr { from: "String", into: "text", source: Arc::new(HoldsNul) });
    }
    Ok(())
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(Some(text)) => has_nul(text),
        Value::Json(Some(json)) => json_has_nul(json),
        // Numbers, times, ids and bytes.
        _ => false,
    }
}

#[async_trait]
impl<C: ConnectionTrait> ConnectionTrait for Bounded<C> {
    fn get_database_backend(&self) -> DbBackend {
        self.inner.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        check(&statement)?;
        self.within(self.inner.execute_raw(statement)).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.within(self.inner.execute_unprepared(sql)).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        check(&statement)?;
        self.within(self.inner.query_one_raw(statement)).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        check(&statement)?;
        self.within(self.inner.query_all_raw(statement)).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nul_is_found_wherever_a_value_can_hold_it() {
        let found = |value: Value| {
            let statement = Statement::from_sql_and_values(
                DbBackend::Sqlite,
                "SELECT $1, $2",
                [Value::from(1_i32), value],
            );
            check(&statement).is_err()
        };
        for value in [
            Value::from("a\0b"),
            Value::from(Some("\0".to_owned())),
            Value::from(json!("\0")),
            Value::from(json!([1, ["\0"]])),
            Value::from(json!({"a": {"\0": 1}})),
            Value::from(json!({"a": [{"b": "\0"}]})),
        ] {
            assert!(found(value.clone()), "{value:?}");
        }
        for value in [
            Value::from("a\\0b \\u0000"),
            Value::from(None::<String>),
            Value::from(json!({"a": ["b", null, 0, false]})),
            Value::from(vec![0_u8]),
        ] {
            assert!(!found(value.clone()), "{value:?}");
        }
    }
}
