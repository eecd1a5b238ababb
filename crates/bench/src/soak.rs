//! Memory of a console that works for an hour while nobody scrapes it.
//!
//! Everything that it does at the same time is little: agents with streams, commits, requests of people to a cluster, lists,
//! tokens. What it keeps of each of them for ever shows as a slope.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http_body_util::BodyExt as _;
use plural_agent::{Agent, AgentConfig, RunningAgent};
use plural_app::project::ProjectSelector;
use plural_app::user::NewPassword;
use plural_console::{ConsoleConfig, RunningConsole};
use plural_core::access::Actor;
use plural_core::policy::{BindingSubject, BindingsChange};
use plural_core::project::Project;
use plural_core::specs::Email;
use plural_core::user::NewUser;
use plural_kubesim::Cluster;
use plural_testkit::{GitRemote, OwnedFolder, TestDatabase, eventually};
use plural_tunnel::ConsoleOptions;
use secrecy::SecretString;
use tokio::{task::JoinSet, time::MissedTickBehavior};

use crate::{
    api::{Api, PASSWORD},
    crowd::{self, Crowd},
    idle::METRICS_TOKEN,
    means::value,
    poll::Tls,
    proxy::{simulated, upstream},
    proxy_load::{Paced, Target},
    proxy_upstream::{SMALL, Upstream},
    report::Figure,
    seed::{self, seed},
    usage::Usage,
};

const PATIENCE: Duration = Duration::from_mins(1);
/// People who look at lists.
const READERS: usize = 4;
/// Between two commits.
const COMMIT: Duration = Duration::from_secs(10);
/// Between two lists of one reader.
const LIST: Duration = Duration::from_secs(1);
/// Between two tokens.
const TOKEN: Duration = Duration::from_secs(1);
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_secs(10);
/// This part of the time at the start does not count: caches fill, and the allocator learns what it needs.
const WARM: f64 = 1.0 / 6.0;
/// MiB an hour that memory may grow by.
const GOAL: f64 = 2.0;

/// How much, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Minutes; the first sixth of them does not count
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Hollow agents, each with a stream of its own over TLS and one service
    #[arg(long, default_value_t = 200)]
    agents: usize,
    /// Services that each commit moves
    #[arg(long, default_value_t = 20)]
    moved: usize,
    /// Connections of people that ask a cluster through the proxy
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Requests a second of these; half of the highest rate, which is looked for first, when absent
    #[arg(long)]
    rate: Option<f64>,
    /// PostgreSQL instead of SQLite
    #[arg(long)]
    postgres: bool,
}

/// What was done besides the proxied requests.
#[derive(Debug, Default)]
struct Done {
    commits: AtomicU64,
    lists: AtomicU64,
    tokens: AtomicU64,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    anyhow::ensure!(options.moved <= options.agents, "--moved must be at most --agents: one on each cluster");
    let time = Duration::from_secs_f64(options.minutes * 60.0);
    anyhow::ensure!(time >= LOOK * 6, "--minutes must be at least 1");
    let folder = OwnedFolder::new("bench")?;
    let tls = Tls::make(folder.path())?;
    let database = if options.postgres { Some(TestDatabase::postgres()?) } else { None };
    let listen = {
        // Nobody else asks for it between this and the console's start.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.local_addr()?
    };
    let url = format!("https://{listen}");
    let config = ConsoleConfig {
        tls_cert: Some(tls.chain.clone()),
        tls_key: Some(tls.key.clone()),
        database_url: database.as_ref().map(|database| SecretString::from(database.url().to_owned())),
        ..seed::config(folder.path())
    };
    let seeded = seed(folder.path(), config, Some(&tls.ca_pem), options.agents, 1).await?;
    let readers = readers(&seeded.config).await?;

    let mut console = crowd::start(folder.path(), &seeded.config, listen).await?;
    let api = Api::sign_in(&url, Some(&tls.ca_pem)).await?;
    let remote = GitRemote::new()?;
    commit(&remote, 0)?;
    let repository = api.repository(&remote.path().display().to_string()).await?;
    for cluster in 0..options.moved {
        api.service(&format!("seed-{cluster:06}"), &repository, "moved", "web", "bench").await?;
    }
    let (crowd, agents) = Crowd::connect(&url, &tls.ca_pem, seeded.tokens).await?;
    let behind = Behind::start(&api, &url, &tls, folder.path()).await?;
    let token = api.access_token().await?;
    let through = Target::secure(listen, &tls.ca_pem, "/k8s/blue", &token)?;
    eventually(PATIENCE, async || {
        through.latencies(SMALL, 1).await.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await;
    let rate = match options.rate {
        Some(rate) => rate,
        None => through.highest(SMALL, options.connections).await? / 2.0,
    };

    eprintln!("working for {} minutes, {rate:.0} proxied requests a second among others", options.minutes);
    let done = Arc::new(Done::default());
    let mut people = Vec::new();
    for email in &readers {
        people.push(Api::sign_in_as(email, &url, Some(&tls.ca_pem)).await?);
    }
    let mut others = work(Arc::clone(&done), remote, api, people);
    let mut proxied = JoinSet::new();
    {
        let (through, connections) = (through.clone(), options.connections);
        proxied.spawn(async move { through.paced(SMALL, connections, rate, time).await });
    }
    crowd.take_hints();
    let began = Instant::now();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut memory = Vec::new();
    let paced: Paced = loop {
        tokio::select! {
            _ = looks.tick() => {
                console.check()?;
                let hours = began.elapsed().as_secs_f64() / 3600.0;
                memory.push((hours, Usage::of(console.pid())?.mebibytes()));
            }
            ended = proxied.join_next() => {
                let ended = ended.context("no request was proxied")?;
                break ended?.context("a proxied request was refused")?;
            }
            ended = others.join_next() => {
                ended.context("nothing is done besides")??.context("the console does not take its work")?;
                anyhow::bail!("something that is done again and again came to an end");
            }
        }
    };
    others.abort_all();
    // Before anything can fail: an hour is not repeated lightly.
    let warm = time.as_secs_f64() * WARM / 3600.0;
    let counted: Vec<(f64, f64)> = memory.iter().copied().filter(|(hours, _)| *hours >= warm).collect();
    eprintln!("memory grew by {:.2} MiB an hour", slope(&counted));
    let connected = crowd.connected();
    anyhow::ensure!(connected == options.agents, "{connected} of {} agents are connected", options.agents);
    anyhow::ensure!(crowd.take_hints() > 0, "no agent heard of a commit");

    // Only now: a page that is asked for folds what would otherwise be kept.
    let page = page(&Target::secure(listen, &tls.ca_pem, "", METRICS_TOKEN)?).await?;
    let lost = value(&page, "plural_cluster_audit_lost_total");
    anyhow::ensure!(lost < 1.0, "{lost} lines of the audit log were lost");
    drop(agents);
    behind.stop().await;
    console.stop();

    let at = |place: Option<&(f64, f64)>| place.map_or(0.0, |(_, mebibytes)| *mebibytes);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    Ok(vec![
        Figure::new("memory, slope", slope(&counted), "MiB/h")
            .at_most(GOAL)
            .beside("first MiB", at(memory.first()))
            .beside("when it begins to count", at(counted.first()))
            .beside("last", at(counted.last()))
            .beside("minutes", options.minutes),
        Figure::new("proxied requests", paced.rate(), "/s")
            .beside("asked for", rate)
            .beside("slowest minute", paced.slowest())
            .beside("requests", paced.done as f64),
        // One would have ended the run.
        Figure::new("proxied requests refused", 0.0, "").at_most(0.0),
        Figure::new("lines of the audit log lost", lost, "").at_most(0.0),
        Figure::new("agents", connected as f64, "")
            .beside("commits", count(&done.commits))
            .beside("services moved by each", options.moved as f64)
            .beside("lists", count(&done.lists))
            .beside("tokens made and deleted", count(&done.tokens)),
    ])
}

/// Everything that is done besides the proxied requests, until the set is dropped or something fails.
fn work(done: Arc<Done>, remote: GitRemote, api: Api, people: Vec<Api>) -> JoinSet<anyhow::Result<()>> {
    let mut tasks = JoinSet::new();
    for person in people {
        let done = Arc::clone(&done);
        tasks.spawn(async move {
            let mut every = tokio::time::interval(LIST);
            loop {
                every.tick().await;
                person.services(None, None).await?;
                done.lists.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let counts = Arc::clone(&done);
    tasks.spawn(async move {
        let mut every = tokio::time::interval(TOKEN);
        loop {
            every.tick().await;
            api.short_token().await?;
            counts.tokens.fetch_add(1, Ordering::Relaxed);
        }
    });
    tasks.spawn(async move {
        let mut every = tokio::time::interval(COMMIT);
        loop {
            every.tick().await;
            let number = done.commits.fetch_add(1, Ordering::Relaxed) + 1;
            tokio::task::block_in_place(|| commit(&remote, number))?;
        }
    });
    tasks
}

/// Another commit, which changes the folder of the services that move.
fn commit(remote: &GitRemote, number: u64) -> anyhow::Result<()> {
    let map =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  commit: \"{number}\"\n");
    remote.push_files([("web/map.yaml", map)])?;
    Ok(())
}

/// Makes people who may read the default project; returns their addresses. No console may be running.
async fn readers(config: &ConsoleConfig) -> anyhow::Result<Vec<String>> {
    let console = RunningConsole::start(config.clone(), None).await.context("the console cannot start")?;
    let app = console.app();
    let system = app.ctx(Actor::System);
    let project = app.get::<Project>(&system, &ProjectSelector::Default).await?;
    let (mut addresses, mut subjects) = (Vec::new(), Vec::new());
    for number in 0..READERS {
        let email: Email = format!("reader-{number}@example.com").parse()?;
        addresses.push(email.to_string());
        let new = NewUser { email, name: format!("reader-{number}").parse()?, admin: false };
        let password = NewPassword::new(SecretString::from(PASSWORD.to_owned()));
        subjects.push(BindingSubject::User(app.user_create(&system, &new, Some(password)).await?.id));
    }
    let change = BindingsChange { read: Some(subjects), ..BindingsChange::default() };
    app.binding_replace(&system, project.id, change).await?;
    console.stop().await?;
    Ok(addresses)
}

/// The page of the console's metrics.
async fn page(console: &Target) -> anyhow::Result<String> {
    // Kept until the page is read: it ends when it is dropped, and the page of an hour comes in many pieces.
    let mut connection = console.connect().await?;
    let answer = connection.send("/metrics").await?;
    let bytes = answer.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The cluster `blue`: an agent in this process, and a stub that answers at once in the place of the API server.
struct Behind {
    agent: RunningAgent,
    _upstream: Upstream,
    _sim: Cluster,
}

impl Behind {
    async fn start(api: &Api, url: &str, tls: &Tls, folder: &Path) -> anyhow::Result<Self> {
        let token = api.cluster("blue").await?;
        let (sim, mut config) = simulated().await?;
        let upstream = upstream(&config).await?;
        config.cluster_url = format!("http://{}", upstream.address).parse()?;
        let options = ConsoleOptions {
            url: url.to_owned(),
            token,
            ca_pem: Some(tls.ca_pem.clone()),
            deadline: Duration::from_secs(10),
        };
        let agent = Agent::start(AgentConfig::new(options, config, folder.join("agent")))
            .context("the agent cannot start")?;
        Ok(Self { agent, _upstream: upstream, _sim: sim })
    }

    async fn stop(self) {
        self.agent.stop().await;
    }
}

/// The slope of the line that fits points best, by least squares; 0 of fewer than two.
pub(crate) fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let middle_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let middle_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let rise: f64 = points.iter().map(|(x, y)| (x - middle_x) * (y - middle_y)).sum();
    let run: f64 = points.iter().map(|(x, _)| (x - middle_x).powi(2)).sum();
    if run > 0.0 { rise / run } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_that_of_the_line_that_fits_best() {
        let line: Vec<(f64, f64)> =
            (0..100_u32).map(|n| (f64::from(n) / 100.0, 50.0 + f64::from(n) * 0.02)).collect();
        assert!((slope(&line) - 2.0).abs() < 1e-9);
        // What goes up and down about a level has none.
        let noise: Vec<(f64, f64)> = (0..100_u32).map(|n| (f64::from(n), 50.0 + f64::from(n % 2))).collect();
        assert!(slope(&noise).abs() < 0.01);
        assert!(slope(&[(1.0, 2.0)]).abs() < f64::EPSILON && slope(&[]).abs() < f64::EPSILON);
        assert!(slope(&[(1.0, 2.0), (1.0, 3.0)]).abs() < f64::EPSILON, "all at one moment");
    }
}
