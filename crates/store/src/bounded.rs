//! Statements that end: a server that sleeps, or a network that swallows the answer, lets nobody wait for ever.

use std::time::Duration;

use async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult,
    RuntimeErr, Statement, TransactionOptions, TransactionTrait,
};

/// A connection, a pool of them, or a transaction, on which each statement is answered in time or fails.
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

#[async_trait]
impl<C: ConnectionTrait> ConnectionTrait for Bounded<C> {
    fn get_database_backend(&self) -> DbBackend {
        self.inner.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.within(self.inner.execute_raw(statement)).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.within(self.inner.execute_unprepared(sql)).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.within(self.inner.query_one_raw(statement)).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.within(self.inner.query_all_raw(statement)).await
    }
}
