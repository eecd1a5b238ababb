//! Bad days of the line to PostgreSQL: it is slow, cut, silent; the server ends in the middle of transactions.
//!
//! One backend is enough: only PostgreSQL is at the other end of a line; the cluster only has to be there.

use plural_core::cluster::Cluster;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use anyhow::Context as _;
use plural_testkit::{
    FaultProxy, TestCluster, TestDatabase, eventually, fault_proxy::Faults, postgres::PostgresServer,
    run_case,
};
use tokio::task::JoinSet;

use crate::world::{PATIENCE, World, map};

/// Writers at once.
const WRITERS: usize = 6;
/// How often the server ends.
const ENDS: usize = 3;

#[test]
fn attack_34_a_database_that_ends_inside_transactions_keeps_what_it_acknowledged() {
    run_case(async {
        let Some(server) = PostgresServer::start_or_report()? else { return Ok(()) };
        let url = format!("{}/postgres", server.url());
        let w = World::with_config(TestCluster::kubesim().await?, |config| {
            config.database_url = Some(url.into());
        })
        .await?;
        let done = Arc::new(AtomicBool::new(false));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (person, done) = (w.person.clone(), Arc::clone(&done));
            writers.spawn(async move {
                let (mut acknowledged, mut failed) = (Vec::new(), 0);
                for n in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let handle = format!("c-{writer}-{n}");
                    if let Ok(made) = person.cluster(&handle).await {
                        acknowledged.push((handle, made.id));
                    } else {
                        failed += 1;
                        tokio::task::yield_now().await;
                    }
                }
                (acknowledged, failed)
            });
        }
        for _ in 0..ENDS {
            // Transactions are under way, here and in its wake.
            let before = w.console.statements();
            eventually(PATIENCE, async || w.console.statements() > before + 200).await;
            server.stop()?;
            server.restart()?;
        }
        eventually(PATIENCE, async || w.person.cluster("last").await.map_err(|error| error.to_string()))
            .await;
        done.store(true, Ordering::Relaxed);
        let (mut acknowledged, mut failed) = (Vec::new(), 0);
        while let Some(told) = writers.join_next().await {
            let (of_one, failures) = told?;
            acknowledged.extend(of_one);
            failed += failures;
        }
        assert!(failed > 0, "no write met the server's end");
        let app = w.console.app();
        let ctx = app.ctx(plural_core::access::Actor::System);
        for (handle, id) in &acknowledged {
            let selector = plural_app::cluster::ClusterSelector::Id(id.parse()?);
            let found = app.get::<Cluster>(&ctx, &selector).await;
            let found = found.map_err(|error| anyhow::anyhow!("{handle}: {}", error.log_text()))?;
            assert_eq!(found.handle.to_string(), *handle);
        }
        println!("{} writes acknowledged, {failed} not", acknowledged.len());
        w.end().await
    });
}

#[test]
fn a_line_to_postgresql_that_is_slow_cut_or_silent_is_outlived() {
    run_case(async {
        let Some(database) = TestDatabase::postgres_or_report() else { return Ok(()) };
        let (before, rest) = database.url().rsplit_once('@').context("no user")?;
        let (address, name) = rest.split_once('/').context("no database")?;
        let proxy = FaultProxy::start(address.parse()?)?;
        let url = format!("{before}@{}/{name}", proxy.address());
        let mut w = World::with_config(TestCluster::kubesim().await?, |config| {
            config.database_url = Some(url.into());
            config.database_timeout_seconds = 2;
        })
        .await?;
        w.start_agent().await?;
        let push = |n: usize| w.remote.push_files([("app/a.yaml", map("a", &n.to_string()))]);
        let sha = push(0)?;
        let id = w.service("app").await?;
        w.person.stands_at(&id, &sha).await;

        proxy.set(Faults::late(Duration::from_millis(20)));
        w.person.stands_at(&id, &push(1)?).await;
        proxy.heal();
        proxy.cut();
        w.person.stands_at(&id, &push(2)?).await;
        proxy.cut_off();
        let sha = push(3)?;
        eventually(PATIENCE, async || w.person.details(&id).await.is_err()).await;
        proxy.heal();
        w.person.stands_at(&id, &sha).await;

        // Whatever was asked stays without an answer, and no connection ends.
        proxy.set(Faults::half_open());
        let sha = push(4)?;
        eventually(PATIENCE, async || w.person.details(&id).await.is_err()).await;
        proxy.heal();
        w.person.stands_at(&id, &sha).await;
        w.until_value("a", "4").await;
        assert_eq!(w.writes_of("a")?, 5, "each value was written once");
        w.end().await
    });
}
