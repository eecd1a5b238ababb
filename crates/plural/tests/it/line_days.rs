//! Bad days of the line between a console and an agent: silence, delay, cuts, and an end that nobody tells of.
//!
//! One backend is enough: the line ends at the agent; the cluster behind it only has to be there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use plural_agent::{Agent, AgentConfig, AgentEvent};
use plural_console::{ConsoleConfig, RunningConsole};
use plural_testkit::{FaultProxy, TestCluster, eventually, exclusive, fault_proxy::Faults, run_case};
use plural_tunnel::{
    Console, ConsoleOptions,
    v1::{AgentMessage, Hello, agent_message, console_message},
    work::CONTRACT,
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    proxy_world::ProxyWorld,
    world::{PATIENCE, World, console_config, map},
};

/// As often as can be asked for.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

fn quick(config: &mut ConsoleConfig) {
    config.keep_alive_seconds = KEEP_ALIVE.as_secs();
}

/// Along this proxy instead.
fn along(config: &mut AgentConfig, proxy: &FaultProxy) {
    let (scheme, _) = config.console.url.split_once("://").unwrap();
    config.console.url = format!("{scheme}://{}", proxy.address());
    config.line.keep_alive = KEEP_ALIVE;
}

async fn world_behind_a_proxy() -> anyhow::Result<(World, FaultProxy)> {
    let mut w = World::with_config(TestCluster::kubesim().await?, quick).await?;
    let proxy = FaultProxy::start(w.console.address)?;
    let mut config = w.agent_config().await?;
    along(&mut config, &proxy);
    w.agent = Some(Agent::start(config)?);
    Ok((w, proxy))
}

fn count(w: &World, fits: impl Fn(&AgentEvent) -> bool) -> usize {
    w.events.lock().iter().filter(|event| fits(event)).count()
}

#[test]
fn a_proxy_that_cuts_silent_connections_finds_none() {
    run_case(async {
        let _alone = exclusive().await;
        let (w, proxy) = world_behind_a_proxy().await?;
        // What is 60 seconds elsewhere, beside the usual 20 between two signs of life.
        proxy.set(Faults::idle_after(KEEP_ALIVE * 3));
        let sha = w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
        let id = w.service("app").await?;
        w.person.stands_at(&id, &sha).await;
        // Nothing is to be said for several times as long as may be said nothing.
        let (connections, chunks) = (proxy.accepted(), proxy.chunks());
        let passed = async || {
            let more = proxy.chunks() - chunks;
            if more >= 60 { Ok(()) } else { Err(format!("{more} signs of life")) }
        };
        eventually(PATIENCE, passed).await;
        assert_eq!((proxy.idled(), proxy.accepted()), (0, connections));
        assert_eq!(count(&w, |event| matches!(event, AgentEvent::Disconnected { .. })), 0);
        w.end().await
    });
}

#[test]
fn a_line_that_is_slow_or_cut_carries_everything_once() {
    run_case(async {
        let _alone = exclusive().await;
        let (w, proxy) = world_behind_a_proxy().await?;
        proxy.set(Faults::late(Duration::from_millis(150)));
        let push = |n: usize| w.remote.push_files([("app/a.yaml", map("a", &n.to_string()))]);
        let mut sha = push(0)?;
        let id = w.service("app").await?;
        w.person.stands_at(&id, &sha).await;
        // Cut at some moment of a commit's way.
        for n in 1..=4 {
            let chunks = proxy.chunks();
            sha = push(n)?;
            eventually(PATIENCE, async || proxy.chunks() >= chunks + 3 * n as u64).await;
            proxy.cut();
            w.person.stands_at(&id, &sha).await;
            w.until_value("a", &n.to_string()).await;
        }
        // And away for the whole of it.
        proxy.cut_off();
        sha = push(5)?;
        eventually(PATIENCE, async || {
            let found = w.person.details(&id).await.map_err(|error| format!("{error:#}"))?;
            if found.service.sha.as_deref() == Some(sha.as_str()) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        assert_eq!(w.value("a").await?.as_deref(), Some("4"));
        proxy.heal();
        w.person.stands_at(&id, &sha).await;
        w.until_value("a", "5").await;
        assert_eq!(w.writes_of("a")?, 6, "each value was written once");
        w.end().await
    });
}

#[test]
fn a_line_whose_end_nobody_told_is_noticed_at_both_ends() {
    run_case(async {
        let _alone = exclusive().await;
        let mut w = ProxyWorld::without_agent_with(TestCluster::kubesim().await?, quick).await?;
        w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
        let proxy = FaultProxy::start(w.console.address)?;
        let mut config = w.agent_config().await?;
        along(&mut config, &proxy);
        let lost = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lost);
        config.observer = Some(Arc::new(move |event| {
            if matches!(event, AgentEvent::Disconnected { .. }) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }));
        w.agent = Some(Agent::start(config)?);
        w.until_reached().await;
        let mut watch = w.http().await?.watch("/k8s/blue/api/v1/configmaps?watch=1", &w.admin.token).await?;
        let lost_before = lost.load(Ordering::Relaxed);

        // Connections stay open, and nothing comes through any more.
        proxy.set(Faults::half_open());
        // A person who waits is told, and so is the next one.
        watch.until_closed(PATIENCE).await?;
        eventually(PATIENCE, async || match w.get(&w.admin.token, "/version").await {
            Ok((503, body)) if body.contains("not connected") => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        eventually(PATIENCE, async || lost.load(Ordering::Relaxed) > lost_before).await;
        proxy.heal();
        eventually(PATIENCE, async || match w.get(&w.admin.token, "/version").await {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        w.end().await
    });
}

/// Agents of the storm below. The bench does it with ten thousand.
const CROWD: usize = 200;

#[test]
fn attack_31_agents_that_all_come_back_at_once_are_all_taken() {
    run_case(async {
        let _alone = exclusive().await;
        let w = World::without_agent(TestCluster::kubesim().await?).await?;
        let welcomed: Arc<Mutex<Vec<usize>>> = Arc::new(Mutex::new(vec![0; CROWD]));
        let mut crowd = JoinSet::new();
        for n in 0..CROWD {
            let token = w.person.cluster(&format!("c{n}")).await?.token;
            let console = Console::new(&ConsoleOptions {
                url: w.console.url.clone(),
                token,
                ca_pem: None,
                deadline: Duration::from_secs(30),
            })?;
            let welcomed = Arc::clone(&welcomed);
            crowd.spawn(async move {
                loop {
                    // None of them waits before it tries again, which an agent does.
                    let _ = hold(&console, || {
                        if let Some(count) = welcomed.lock().get_mut(n) {
                            *count += 1;
                        }
                    })
                    .await;
                    tokio::task::yield_now().await;
                }
            });
        }
        let all_of = |times: usize| {
            let counts = welcomed.lock().clone();
            let here = counts.iter().filter(|count| **count >= times).count();
            if here == CROWD { Ok(()) } else { Err(format!("{here} of {CROWD}")) }
        };
        eventually(PATIENCE, async || all_of(1)).await;

        let World { console, person, folder, .. } = w;
        let config = ConsoleConfig { listen: console.address, ..console_config(folder.path()) };
        console.kill().await;
        let console = eventually(PATIENCE, async || RunningConsole::start(config.clone(), None).await).await;
        // People are served meanwhile.
        person.cluster("meanwhile").await?;
        eventually(PATIENCE, async || all_of(2)).await;
        crowd.shutdown().await;
        console.stop().await?;
        anyhow::Ok(())
    });
}

/// Holds one stream until it ends.
async fn hold(console: &Console, welcomed: impl Fn()) -> anyhow::Result<()> {
    let (up, outgoing) = mpsc::channel(4);
    let hello = agent_message::Message::Hello(Hello {
        agent_version: "test".to_owned(),
        contract: CONTRACT,
        ..Hello::default()
    });
    up.send(AgentMessage { message: Some(hello) }).await?;
    let mut stream = console.stream(outgoing).await?;
    while let Some(message) = stream.message().await? {
        if let Some(console_message::Message::Welcome(_)) = message.message {
            welcomed();
        }
    }
    Ok(())
}
