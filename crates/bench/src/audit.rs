//! Lines of proxied requests that the console stores and puts into the audit log's chain, beside the same rows without a chain.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use plural_console::RunningConsole;
use plural_core::cluster_audit::ClusterAuditEntry;
use plural_core::ids::{ClusterId, RequestId, UserId};
use plural_kit::Metrics;
use plural_store::{Database, DatabaseOptions};
use plural_testkit::{OwnedFolder, TestDatabase};
use secrecy::SecretString;

use crate::{means::value, report::Figure, seed};

/// Lines a second that the console has to store with the chain.
const GOAL: f64 = 15_000.0;
/// Rows of one transaction: as many as the console stores together.
const BATCH: usize = 2_000;
/// Where neither lines are stored nor put into the chain for so long, it does not work.
const WITHIN: Duration = Duration::from_mins(5);

/// How many, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Lines
    #[arg(long, default_value_t = 200_000)]
    lines: usize,
    /// PostgreSQL instead of SQLite
    #[arg(long)]
    postgres: bool,
}

fn line() -> ClusterAuditEntry {
    ClusterAuditEntry {
        cluster_id: ClusterId::new(),
        user_id: UserId::new(),
        actor: "ada@example.com".into(),
        impersonated: Some(
            plural_core::cluster_audit::Impersonated::new("ada@example.com", &["ops".to_owned()]).into(),
        ),
        address: Some([192, 0, 2, 7].into()),
        token_id: None,
        method: "GET".into(),
        path: "/api/v1/namespaces/shop/pods?labelSelector=app%3Dweb&limit=500".into(),
        response_code: 200,
        duration_ms: Some(12),
        received_bytes: 0,
        sent_bytes: 48_213,
        request_id: RequestId::new(),
        recording_id: None,
        at: chrono::Utc::now(),
    }
}

pub(crate) async fn run(options: &Options, metrics: &Metrics) -> anyhow::Result<Vec<Figure>> {
    let bare = without_chain(options).await?;
    let folder = OwnedFolder::new("bench")?;
    let database = if options.postgres { Some(TestDatabase::postgres()?) } else { None };
    let mut config = seed::config(folder.path());
    config.database_url = database.as_ref().map(|d| SecretString::from(d.url().to_owned()));
    let console = RunningConsole::start(config, None).await.context("the console cannot start")?;
    let app = console.app();
    let reads = |name: &str| value(&metrics.render(), name);
    let chained = reads("plural_audit_chained_lines_total");
    let from = Instant::now();
    let mut sent = 0;
    while sent < options.lines {
        if app.cluster_audit_ready().is_err() {
            anyhow::ensure!(from.elapsed() < WITHIN, "lines are not stored any more");
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        for _ in 0..100.min(options.lines - sent) {
            app.cluster_audit_record(line());
            sent += 1;
        }
        tokio::task::yield_now().await;
    }
    until(from, || reads("plural_cluster_audit_waiting") < 1.0).await?;
    let stored = from.elapsed();
    until(from, || reads("plural_audit_chained_lines_total") - chained >= options.lines as f64).await?;
    let linked = from.elapsed();
    let lost = reads("plural_cluster_audit_lost_total");
    anyhow::ensure!(lost < 1.0, "{lost} lines of the audit log were lost");
    console.stop().await?;
    let rate = |took: Duration| options.lines as f64 / took.as_secs_f64();
    let place = if options.postgres { "PostgreSQL" } else { "SQLite" };
    Ok(vec![
        Figure::new(format!("lines stored and chained, {place}"), rate(stored), "/s")
            .at_least(GOAL)
            .beside("the same rows without a chain", rate(bare))
            .beside("share", rate(stored) / rate(bare)),
        Figure::new(
            format!("in the chain after the last was stored, {place}"),
            linked.saturating_sub(stored).as_secs_f64(),
            "s",
        )
        .beside("lines", options.lines as f64),
    ])
}

/// The same rows, by the same statements, with neither batches nor digests.
async fn without_chain(options: &Options) -> anyhow::Result<Duration> {
    let folder = OwnedFolder::new("bench")?;
    let database = if options.postgres { Some(TestDatabase::postgres()?) } else { None };
    let url = match &database {
        Some(database) => database.url().to_owned(),
        None => format!("sqlite://{}", folder.path().join("bare.db").display()),
    };
    let store = Database::open(&DatabaseOptions::new(url)).await?;
    let from = Instant::now();
    let mut left = options.lines;
    while left > 0 {
        let lines: Vec<_> = std::iter::repeat_with(line).take(left.min(BATCH)).collect();
        left -= lines.len();
        store.seed_cluster_audit(&lines).await.map_err(|error| anyhow::anyhow!(error.log_text()))?;
    }
    let took = from.elapsed();
    store.shut().await;
    Ok(took)
}

async fn until(from: Instant, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    while !is_so() {
        anyhow::ensure!(from.elapsed() < WITHIN, "the audit log does not get on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
