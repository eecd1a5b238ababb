//! A fresh database per test, on SQLite or on PostgreSQL.

use std::path::Path;

use crate::{
    folder::OwnedFolder,
    missing::{Missing, note_backend},
    postgres::PostgresServer,
};

/// An empty database that goes when this is dropped.
#[derive(Debug)]
pub struct TestDatabase {
    url: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Sqlite { folder: OwnedFolder },
    Postgres { server: &'static PostgresServer, name: String },
}

impl TestDatabase {
    /// A SQLite file in a folder of its own.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn sqlite() -> anyhow::Result<Self> {
        note_backend("sqlite");
        let folder = OwnedFolder::new("sqlite")?;
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("test.db").display());
        Ok(Self { url, kind: Kind::Sqlite { folder } })
    }

    /// A database on the test run's PostgreSQL server.
    ///
    /// # Errors
    /// When this machine has no PostgreSQL.
    ///
    /// # Panics
    /// When the server that is there does not work.
    #[expect(clippy::panic, reason = "a broken test machine fails the test")]
    pub fn postgres() -> Result<Self, Missing> {
        let server = PostgresServer::shared()?;
        note_backend("postgres");
        match server.create_database() {
            Ok(name) => {
                Ok(Self { url: format!("{}/{name}", server.url()), kind: Kind::Postgres { server, name } })
            }
            Err(e) => panic!("cannot create a database: {e:#}"),
        }
    }

    /// [`Self::postgres`], or nothing, said on stderr, where there is none; with `CI` set that fails.
    ///
    /// # Panics
    /// When `CI` is set and this machine has no PostgreSQL.
    pub fn postgres_or_report() -> Option<Self> {
        match Self::postgres() {
            Ok(database) => Some(database),
            Err(missing) => {
                missing.report();
                None
            }
        }
    }

    /// What `DATABASE_URL` takes.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is PostgreSQL, for a test that reads the database's own books.
    pub fn is_postgres(&self) -> bool {
        matches!(self.kind, Kind::Postgres { .. })
    }

    /// The folder of a SQLite database, for a test that looks at or damages its files.
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Sqlite { folder } => Some(folder.path()),
            Kind::Postgres { .. } => None,
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Kind::Postgres { server, name } = &self.kind
            && let Err(e) = server.drop_database(name)
        {
            eprintln!("{e:#}");
        }
    }
}

/// Run each named case, an `async fn(TestDatabase)`, on SQLite and on PostgreSQL. The tests are called
/// `sqlite::CASE` and `postgres::CASE`; once per module. Cases that take minutes on a busy machine have a limit of their own:
/// `each_database!(within Duration; CASE)`.
///
/// ```
/// # mod example {
/// use plural_testkit::{TestDatabase, each_database};
///
/// each_database!(opens);
///
/// async fn opens(database: TestDatabase) {
///     assert!(database.url().contains("://"));
/// }
/// # }
/// ```
#[macro_export]
macro_rules! each_database {
    (within $limit:expr; $($case:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[test]
                fn $case() {
                    let database = $crate::TestDatabase::sqlite().expect("a temporary folder");
                    $crate::run_case_within($limit, super::$case(database));
                }
            )+
        }
        mod postgres {
            $(
                #[test]
                fn $case() {
                    if let Some(database) = $crate::TestDatabase::postgres_or_report() {
                        $crate::run_case_within($limit, super::$case(database));
                    }
                }
            )+
        }
    };
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[test]
                fn $case() {
                    let database = $crate::TestDatabase::sqlite().expect("a temporary folder");
                    $crate::run_case(super::$case(database));
                }
            )+
        }
        mod postgres {
            $(
                #[test]
                fn $case() {
                    if let Some(database) = $crate::TestDatabase::postgres_or_report() {
                        $crate::run_case(super::$case(database));
                    }
                }
            )+
        }
    };
}

/// Run each named case, an `async fn(TestDatabase)`, on one database, with the reason why the other is of no use. The
/// tests are called `sqlite_only::CASE` or `postgres_only::CASE`; once for each database and module.
///
/// ```
/// # mod example {
/// use plural_testkit::{TestDatabase, one_database};
///
/// one_database!(sqlite, "PostgreSQL has no file of ours"; has_a_folder);
///
/// async fn has_a_folder(database: TestDatabase) {
///     assert!(database.folder().is_some());
/// }
/// # }
/// ```
#[macro_export]
macro_rules! one_database {
    (sqlite, $why:literal; $($case:ident),+ $(,)?) => {
        #[doc = $why]
        mod sqlite_only {
            $(
                #[test]
                fn $case() {
                    let database = $crate::TestDatabase::sqlite().expect("a temporary folder");
                    $crate::run_case(super::$case(database));
                }
            )+
        }
    };
    (postgres, $why:literal; $($case:ident),+ $(,)?) => {
        #[doc = $why]
        mod postgres_only {
            $(
                #[test]
                fn $case() {
                    if let Some(database) = $crate::TestDatabase::postgres_or_report() {
                        $crate::run_case(super::$case(database));
                    }
                }
            )+
        }
    };
}
