//! Opens a database and hands out its connections.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plural_core::{Error, Result};
use sea_orm::sqlx::postgres::{PgConnectOptions, PgListener, PgNotification, PgPoolOptions};
use sea_orm::sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sea_orm::sqlx::{self, ConnectOptions as _, Connection as _, Executor as _, PgConnection, PgPool};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DbBackend, SqlxPostgresConnector, SqlxSqliteConnector, Statement,
};
use sea_orm_migration::MigratorTrait;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::bounded::Bounded;
use crate::disk::Disk;
use crate::error::db;
use crate::migration::Migrator;
use crate::quota::Quotas;

/// The channel on which PostgreSQL says that the feed has news.
pub(crate) const CHANNEL: &str = "plural_feed";
/// The channel on which PostgreSQL says that jobs were enqueued.
pub(crate) const JOBS_CHANNEL: &str = "plural_jobs";
/// The same for what changed.
pub(crate) const DELTAS_CHANNEL: &str = "plural_deltas";
/// How long a statement waits for another writer, or a request for a connection.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long PostgreSQL may take for a statement.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long a connection that was not used may take to say that it is one.
const ALIVE: Duration = Duration::from_secs(3);
/// How long PostgreSQL lets a transaction wait for its console: one that sleeps holds locks, and nobody reads the feed past it.
/// Less than a replica counts as alive without a sign of life.
const SLEEPER: Duration = Duration::from_secs(10);

/// Why a database could not be opened. Never holds the URL's password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is neither `sqlite:…` nor `postgres://…`.
    #[error("the database URL must begin with \"sqlite:\" or \"postgres:\": {0}")]
    Url(String),
    /// It does not answer.
    #[error("cannot connect to the database: is it running, and are address, user and password right?")]
    Connect(#[source] sqlx::Error),
    /// Another console has the SQLite file.
    #[error(
        "{holder} uses the database {file}: stop it first. Several consoles can share a PostgreSQL database (DATABASE_URL)"
    )]
    InUse {
        /// The file.
        file: String,
        /// Who has it: `another console (process 4711 on host-1)`.
        holder: String,
    },
    /// Its schema cannot be brought up to date.
    #[error("cannot bring the database's schema up to date")]
    Migrate(#[source] sea_orm::DbErr),
    /// It is another database than it was, and nobody said so.
    #[error(
        "this database was restored from a backup or moved: start the console once with --restored, and every agent takes the desired \
         state as it is here, even where it is older than what runs"
    )]
    Restored,
}

/// How to open a database.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// `sqlite:PATH`, `sqlite::memory:` is refused (readers and the writer would not meet), or `postgres://…`.
    pub url: String,
    /// Connections for reading (SQLite), or for everything (PostgreSQL).
    pub connections: u32,
    /// Start a new epoch: after a restored backup, so that no agent takes old positions for new ones.
    pub renew_epoch: bool,
    /// How long PostgreSQL may take for a statement, and how long a silent connection to it goes unasked.
    pub deadline: Duration,
    /// After how long PostgreSQL ends the transaction of a console that says nothing more.
    pub sleeper: Duration,
    /// How many of something there may be.
    pub quotas: Quotas,
}

impl DatabaseOptions {
    /// Defaults for this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections: 8,
            renew_epoch: false,
            deadline: DEADLINE,
            sleeper: SLEEPER,
            quotas: Quotas::default(),
        }
    }
}

/// An open database. Implements every port of `plural_app::Store`.
pub struct Database {
    pub(crate) writer: Bounded<DatabaseConnection>,
    pub(crate) reader: Bounded<DatabaseConnection>,
    pub(crate) backend: DbBackend,
    pub(crate) wake: watch::Sender<u64>,
    pub(crate) jobs_wake: watch::Sender<u64>,
    pub(crate) deltas_wake: watch::Sender<u64>,
    pub(crate) quotas: Quotas,
    /// How often lines of the audit log were written.
    pub(crate) audit_written: AtomicU64,
    /// Under a SQLite file.
    disk: Option<Disk>,
    statements: Arc<AtomicU64>,
    /// The task that listens for notifications; ends with the database.
    _tasks: JoinSet<()>,
}

impl Database {
    /// Opens, migrates and checks a database.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(options: &DatabaseOptions) -> Result<Self, OpenError> {
        let url = options.url.as_str();
        let mut tasks = JoinSet::new();
        let [wake, jobs_wake, deltas_wake] = [(); 3].map(|()| watch::Sender::new(0));
        let mut disk = None;
        let (mut writer, mut reader, backend) = if url.starts_with("sqlite:") {
            let (writer, reader, file) = open_sqlite(url, options.connections).await?;
            disk = Some(Disk::of(&file));
            (writer, reader, DbBackend::Sqlite)
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            let pool = open_postgres(url, options).await?;
            let wakes = Wakes { feed: wake.clone(), jobs: jobs_wake.clone(), deltas: deltas_wake.clone() };
            tasks.spawn(listen(pool.clone(), wakes, options.deadline));
            let connection = SqlxPostgresConnector::from_sqlx_postgres_pool(pool);
            (connection.clone(), connection, DbBackend::Postgres)
        } else {
            // What has no scheme may be anything, a password too.
            let told = url.split_once("://").map(|(scheme, _)| format!("it begins with {scheme:?}"));
            return Err(OpenError::Url(told.unwrap_or_else(|| "it has no scheme".to_owned())));
        };
        let pending = Migrator::get_pending_migrations(&writer).await.map_err(OpenError::Migrate)?.len();
        Migrator::up(&writer, None).await.map_err(OpenError::Migrate)?;
        if pending > 0 {
            tracing::info!(migrations = pending, "the database has the schema of this release");
        }
        let statements = Arc::new(AtomicU64::new(0));
        for connection in [&mut writer, &mut reader] {
            let statements = Arc::clone(&statements);
            connection.set_metric_callback(move |info| {
                statements.fetch_add(1, Ordering::Relaxed);
                metrics::histogram!("plural_database_statement_seconds").record(info.elapsed.as_secs_f64());
            });
        }
        let deadline = (backend == DbBackend::Postgres).then_some(options.deadline);
        let (writer, reader) = (Bounded::new(writer, deadline), Bounded::new(reader, deadline));
        let quotas = options.quotas;
        let database = Self {
            writer,
            reader,
            backend,
            wake,
            jobs_wake,
            deltas_wake,
            quotas,
            audit_written: AtomicU64::new(0),
            disk,
            statements,
            _tasks: tasks,
        };
        database.check_epoch(options.renew_epoch).await?;
        Ok(database)
    }

    /// Statements run since it was opened, `BEGIN` and `COMMIT` not counted.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// It is PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        self.backend == DbBackend::Postgres
    }

    /// Closes all connections, after what they are doing.
    ///
    /// # Errors
    /// When closing fails; nothing is lost then either.
    pub async fn close(self) -> Result<()> {
        let Self { writer, reader, .. } = self;
        reader.close().await.map_err(db("closing the database"))?;
        writer.close().await.map_err(db("closing the database"))
    }

    /// The same, for one that others may still name: what they do later fails.
    pub async fn shut(&self) {
        self.reader.shut().await;
        self.writer.shut().await;
    }

    /// Begins nothing more, as after a crash: what this process does later fails. What has begun may still end.
    pub async fn sever(&self) {
        self.writer.sever().await;
        self.reader.sever().await;
    }

    /// Names what we were doing, and the disk when it is full.
    pub(crate) fn failed(&self, doing: &'static str) -> impl FnOnce(sea_orm::DbErr) -> Error {
        move |cause| match &self.disk {
            Some(disk) => disk.db(doing, cause),
            None => db(doing)(cause),
        }
    }

    pub(crate) fn statement<const N: usize>(&self, sql: &str, values: [sea_orm::Value; N]) -> Statement {
        Statement::from_sql_and_values(self.backend, sql, values)
    }

    /// Gives the history a name at first, and a new one when this is not the history that it was:
    /// asked for, or (PostgreSQL) the tables were restored into another database or server.
    ///
    /// # Errors
    /// [`OpenError::Restored`] when they were and nobody said so: agents would go back to older state.
    async fn check_epoch(&self, renew: bool) -> std::result::Result<(), OpenError> {
        if self.renew_epoch_if(renew).await.map_err(OpenError::Migrate)? {
            return Ok(());
        }
        Err(OpenError::Restored)
    }

    /// `false` when it would have to be renewed and `renew` does not say so.
    async fn renew_epoch_if(&self, renew: bool) -> std::result::Result<bool, sea_orm::DbErr> {
        let (home, ahead) = match self.backend {
            DbBackend::Postgres => {
                let sql = "SELECT oid::text AS home, EXISTS (SELECT 1 FROM feed WHERE xid > \
                           pg_current_xact_id()::text::bigint) AS ahead FROM pg_database \
                           WHERE datname = current_database()";
                match self.writer.query_one_raw(self.statement(sql, [])).await? {
                    Some(row) => (row.try_get::<String>("", "home")?, row.try_get::<bool>("", "ahead")?),
                    None => (String::new(), false),
                }
            }
            _ => (String::from("file"), false),
        };
        let row = self
            .writer
            .query_one_raw(self.statement("SELECT home FROM installation WHERE id = 1", []))
            .await?;
        let known: Option<String> = row.map(|row| row.try_get("", "home")).transpose()?;
        let epoch = uuid::Uuid::now_v7().to_string();
        match known {
            None => {
                let sql = "INSERT INTO installation (id, epoch, home, feed_floor) VALUES (1, $1, $2, 0) \
                           ON CONFLICT (id) DO NOTHING";
                self.writer.execute_raw(self.statement(sql, [epoch.into(), home.into()])).await?;
            }
            Some(known) if !renew && (ahead || known != home) => return Ok(false),
            Some(_) if renew => {
                // Positions of the old history mean nothing any more.
                let sql = "UPDATE installation SET epoch = $1, home = $2 WHERE id = 1";
                self.writer.execute_raw(self.statement(sql, [epoch.into(), home.into()])).await?;
                if self.backend == DbBackend::Postgres {
                    self.writer.execute_unprepared("DELETE FROM feed").await?;
                }
                tracing::warn!("this database is a restored copy: every agent gets a snapshot");
            }
            Some(_) => {}
        }
        Ok(true)
    }
}

async fn open_sqlite(
    url: &str,
    connections: u32,
) -> Result<(DatabaseConnection, DatabaseConnection, PathBuf), OpenError> {
    let options =
        SqliteConnectOptions::from_str(url).map_err(|_| OpenError::Url("it is not sqlite:PATH".into()))?;
    if url.contains(":memory:") || url.contains("mode=memory") {
        return Err(OpenError::Url("a database in memory cannot be shared; give a path".into()));
    }
    if let Some(folder) = options.get_filename().parent().filter(|folder| *folder != Path::new("")) {
        std::fs::create_dir_all(folder).map_err(|cause| OpenError::Connect(sqlx::Error::Io(cause)))?;
    }
    let file = options.get_filename().to_owned();
    // SQLite gives what it puts beside a database the permissions of that.
    let mut beside = file.clone().into_os_string();
    beside.push("-wal");
    let mut shared = file.clone().into_os_string();
    shared.push("-shm");
    plural_kit::private_file(&file)
        .and_then(|()| plural_kit::tighten(Path::new(&beside)))
        .and_then(|()| plural_kit::tighten(Path::new(&shared)))
        .map_err(|cause| OpenError::Connect(sqlx::Error::Io(cause)))?;
    let options = options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .busy_timeout(PATIENCE)
        .foreign_keys(true)
        .pragma("temp_store", "memory")
        .disable_statement_logging();
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .min_connections(1)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None)
        // On a full disk SQLite itself ends a transaction. The driver's own rollback then fails, and it would go on
        // counting that transaction: later commits would only end savepoints, and never reach the disk.
        .after_release(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .connect_with(options.clone())
        .await
        .map_err(OpenError::Connect)?;
    // After the writer: it made the file and switched it to WAL.
    let reader = SqlitePoolOptions::new()
        .max_connections(connections.max(1))
        .min_connections(1)
        .acquire_timeout(PATIENCE)
        .connect_with(options.create_if_missing(false).pragma("query_only", "on"))
        .await
        .map_err(OpenError::Connect)?;
    Ok((
        SqlxSqliteConnector::from_sqlx_sqlite_pool(writer),
        SqlxSqliteConnector::from_sqlx_sqlite_pool(reader),
        file,
    ))
}

async fn open_postgres(url: &str, options: &DatabaseOptions) -> Result<PgPool, OpenError> {
    // Said on each connection rather than in its options, which poolers in between refuse. The server notices
    // a client that is gone without a word, and one that sleeps in the middle of a transaction.
    let session = format!(
        "SET idle_in_transaction_session_timeout = {}; SET tcp_keepalives_idle = 10; \
         SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3",
        options.sleeper.as_millis()
    );
    let connections = options.connections;
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| OpenError::Url("it is not postgres://USER:PASSWORD@HOST/DATABASE".into()))?
        .application_name("plural-console")
        .disable_statement_logging();
    PgPoolOptions::new()
        .max_connections(connections.max(2))
        .min_connections(1)
        .acquire_timeout(PATIENCE)
        // Whatever an answer was still awaited on is none any more, and one on which nothing comes back is as good as closed.
        .test_before_acquire(false)
        .before_acquire(|connection, _| Box::pin(is_alive(connection)))
        .after_release(|connection, _| Box::pin(is_alive(connection)))
        .after_connect(move |connection, _| {
            let session = sqlx::AssertSqlSafe(session.clone());
            Box::pin(async move { connection.execute(sqlx::raw_sql(session)).await.map(drop) })
        })
        .connect_with(options)
        .await
        .map_err(OpenError::Connect)
}

/// Whether a connection answers.
async fn is_alive(connection: &mut PgConnection) -> sqlx::Result<bool> {
    match tokio::time::timeout(ALIVE, connection.ping()).await {
        Ok(answered) => answered.map(|()| true),
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

/// Whom PostgreSQL's notifications wake.
struct Wakes {
    feed: watch::Sender<u64>,
    jobs: watch::Sender<u64>,
    deltas: watch::Sender<u64>,
}

impl Wakes {
    /// Those of one channel; all of them where notifications may have been lost.
    fn wake(&self, channel: Option<&str>) {
        let woken = match channel {
            Some(CHANNEL) => vec![&self.feed],
            Some(JOBS_CHANNEL) => vec![&self.jobs],
            Some(DELTAS_CHANNEL) => vec![&self.deltas],
            _ => vec![&self.feed, &self.jobs, &self.deltas],
        };
        for sender in woken {
            sender.send_modify(|wakes| *wakes += 1);
        }
    }
}

/// Follows PostgreSQL's notifications for as long as the database is open. They only wake a reader that
/// also looks by itself, so that a lost connection costs seconds, never an event.
async fn listen(pool: PgPool, wakes: Wakes, silence: Duration) {
    let mut pause = Duration::from_millis(200);
    loop {
        match PgListener::connect_with(&pool).await {
            Ok(mut listener) => {
                if listener.listen_all([CHANNEL, JOBS_CHANNEL, DELTAS_CHANNEL]).await.is_ok() {
                    pause = Duration::from_millis(200);
                    // What was said before we listened.
                    wakes.wake(None);
                    loop {
                        match tokio::time::timeout(silence, listener.try_recv()).await {
                            // `None` after it connected anew: what was said meanwhile is lost.
                            Ok(Ok(said)) => wakes.wake(said.as_ref().map(PgNotification::channel)),
                            Ok(Err(_)) => break,
                            // Nothing was said, or nothing comes through any more.
                            Err(_) => {
                                let asked = listener.execute("SELECT 1");
                                if !matches!(tokio::time::timeout(ALIVE, asked).await, Ok(Ok(_))) {
                                    break;
                                }
                            }
                        }
                    }
                }
            }
            Err(sqlx::Error::PoolClosed) => return,
            Err(error) => tracing::debug!(error = %error, "cannot listen for events; trying again"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

/// For callers that only have a row's text: what the database holds is not what we put there.
pub(crate) fn corrupt(what: &'static str) -> Error {
    Error::internal(format!("reading {what}"), "the stored value is not one that we write")
}
