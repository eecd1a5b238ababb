//! Three consoles on one PostgreSQL and one S3-compatible store behind a balancer, and what kills them one after another:
//! what was acknowledged is there, nothing is done twice, and nothing stays stuck.
//!
//! One backend is enough: consoles share PostgreSQL alone; the second cluster only has to be there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use plural_testkit::{
    Balancer, GitRemote, GitServer, S3Server, TestCluster, TestDatabase, each_cluster, eventually,
    git_server::Mood,
};

use crate::{
    program::{AgentProcess, ConsoleProcess, Home},
    world::{Person, Registered, map},
};

each_cluster!(
    replicas_killed_one_after_another_lose_and_repeat_nothing,
    a_rolling_restart_loses_and_repeats_nothing,
    a_leader_that_slept_writes_nothing_when_it_wakes_up,
);

/// How long the longest part may take: a killed replica counts as gone after twelve seconds.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often a replica is killed; `PLURAL_REPLICA_KILLS` says otherwise, for a long run.
const KILLS: usize = 3;
/// Seconds between two kills, during which the fleet goes on; `PLURAL_REPLICA_KILL_SECONDS` says otherwise.
const EVERY: usize = 0;

struct Replicas {
    agents: Vec<AgentProcess>,
    consoles: Vec<ConsoleProcess>,
    person: Person,
    balancer: Balancer,
    clusters: Vec<Place>,
    remote: GitRemote,
    repository: String,
    commits: usize,
    git: GitServer,
    _blobs: S3Server,
    homes: Vec<Home>,
    // Last: it goes when nobody uses it any more.
    _database: TestDatabase,
}

/// A cluster with an agent and a service that has a hook.
struct Place {
    cluster: TestCluster,
    namespace: String,
    registered: Registered,
    service: String,
}

impl Replicas {
    /// Nothing where there is no PostgreSQL.
    async fn new(clusters: Vec<TestCluster>) -> anyhow::Result<Option<Self>> {
        let Some(database) = TestDatabase::postgres_or_report() else { return Ok(None) };
        let blobs = S3Server::start("blobs")?;
        let home = Home::new()?;
        let key = home.path().join("encryption.key");
        write_secret(&key, &STANDARD.encode([7; 32]))?;
        let mut consoles = Vec::new();
        for n in 0..3 {
            let name = format!("console-{n}");
            let console = ConsoleProcess::start_in(&home, &name, "info", |program| {
                let program = program
                    .flag("replica-listen", "127.0.0.1:0")
                    .flag("encryption-key-file", &key)
                    .flag("blob-store", "s3://blobs/plural")
                    // A fetch that hangs is given up while the test still looks.
                    .flag("git-timeout-seconds", "15")
                    .flag("keep-alive-seconds", "2")
                    .env("PLURAL_WEBHOOK_SECRET", "the same on all")
                    .env("DATABASE_URL", database.url());
                blobs
                    .environment()
                    .into_iter()
                    .fold(program, |program, (name, value)| program.env(name, &value))
            });
            consoles.push(console.await?);
        }
        let balancer = Balancer::start(consoles.iter().map(ConsoleProcess::address).collect())?;
        let person = Person::administrator(&balancer.url()).await?;
        let remote = GitRemote::new()?;
        let git = GitServer::start(remote.root())?;
        let mut all = Self {
            agents: Vec::new(),
            consoles,
            repository: person.repository(&git.url(&remote)).await?,
            person,
            clusters: Vec::new(),
            remote,
            commits: 0,
            git,
            _blobs: blobs,
            homes: vec![home],
            _database: database,
            balancer,
        };
        let sha = all.push()?;
        for (n, cluster) in clusters.into_iter().enumerate() {
            let registered = all.person.cluster(&format!("cluster-{n}")).await?;
            let namespace = cluster.namespace().await?;
            let service = all.person.service(&registered, &namespace, &all.repository, "app").await?;
            let home = Home::new()?;
            let url = all.balancer.url();
            all.agents.push(AgentProcess::start(&home, &url, &registered.token, &cluster, "info").await?);
            all.homes.push(home);
            all.clusters.push(Place { cluster, namespace, registered, service });
        }
        all.arrives(&sha).await;
        Ok(Some(all))
    }

    /// A commit that changes an object and has another hook.
    fn push(&mut self) -> anyhow::Result<String> {
        self.commits += 1;
        let n = self.commits;
        let mut commit = self.remote.commit("main").file("app/map.yaml", map("told", &n.to_string()));
        commit = commit.file(&format!("app/migrate-{n}.yaml"), job(&format!("migrate-{n}")));
        if n > 1 {
            commit = commit.remove(&format!("app/migrate-{}.yaml", n - 1));
        }
        commit.push()
    }

    /// Waits until every cluster stands at a commit.
    async fn arrives(&self, sha: &str) {
        for place in &self.clusters {
            stands_at(&self.person, &place.service, sha).await;
        }
    }

    /// Makes a service through whichever replica answers; its id once a replica said that it is there.
    async fn acknowledged(&self, place: &Place, name: &str) -> String {
        let mut tries = 0;
        eventually(PATIENCE, || {
            tries += 1;
            // One that was not acknowledged may be there all the same.
            let attributes = crate::world::attributes(
                &format!("{name}-{tries}"),
                &place.namespace,
                &self.repository,
                "main",
                "other",
            );
            async move {
                let made = self.person.service_of(&place.registered, attributes).await;
                made.map_err(|error| format!("{error:#}"))
            }
        })
        .await
    }

    /// That all of this is there, and nothing was done twice.
    async fn holds(&self, acknowledged: &[String]) -> anyhow::Result<()> {
        for id in acknowledged {
            eventually(PATIENCE, async || {
                self.person.details(id).await.map_err(|error| format!("{error:#}"))
            })
            .await;
        }
        for place in &self.clusters {
            let writes = place.cluster.writes(&place.namespace)?;
            for n in 1..=self.commits {
                let name = format!("migrate-{n}");
                let made = writes
                    .iter()
                    .filter(|write| write.resource == "jobs" && write.subresource.is_empty())
                    .filter(|write| write.name == name && write.code < 300)
                    .filter(|write| write.verb == "create" || (write.verb == "patch" && write.code == 201))
                    .count();
                assert_eq!(made, 1, "{name} was created {made} times in {}", place.namespace);
            }
        }
        Ok(())
    }

    /// That each lease is held by one replica: none is stuck with one that is gone, and no two lead.
    async fn leads_once(&self) {
        eventually(PATIENCE, async || {
            let mut holders: BTreeMap<String, usize> = BTreeMap::new();
            for console in &self.consoles {
                let held = console.metric("plural_lease_held").await.map_err(|error| error.to_string())?;
                for (lease, held) in held {
                    *holders.entry(lease).or_default() += usize::from(held > 0.0);
                }
            }
            let is_well = !holders.is_empty() && holders.values().all(|holders| *holders == 1);
            if is_well { Ok(()) } else { Err(format!("{holders:?}")) }
        })
        .await;
    }

    /// The replica whose fetch hangs. Who fetched before need not be the one: replicas that come or go change whose turn it is.
    async fn hangs(&self) -> usize {
        eventually(PATIENCE, async || {
            let programs = ancestors_of("git-remote-http");
            let n = (0..self.consoles.len()).find(|n| programs.contains(&self.consoles[*n].pid()));
            n.ok_or_else(|| "no fetch hangs".to_owned())
        })
        .await
    }

    /// Leads people and agents to all replicas but this one, as a balancer does that asks `/readyz`.
    async fn leave_out(&mut self, n: Option<usize>) -> anyhow::Result<()> {
        let others = self.consoles.iter().enumerate().filter(|(at, _)| Some(*at) != n);
        self.balancer.lead_to(others.map(|(_, console)| console.address()).collect());
        // On a connection of its own.
        self.person = Person::administrator(&self.balancer.url()).await?;
        Ok(())
    }

    fn logs(&self) -> String {
        let logs =
            self.consoles.iter().map(ConsoleProcess::log).chain(self.agents.iter().map(AgentProcess::log));
        logs.collect::<Vec<_>>().join("\n=====\n")
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

async fn stands_at(person: &Person, service: &str, sha: &str) {
    eventually(PATIENCE, async || {
        let found = person.details(service).await.map_err(|error| format!("{error:#}"))?;
        let stands = found.service.sha.as_deref() == Some(sha)
            && found.errors.is_empty()
            && found.service.status == plural_wire::ServiceDeploymentStatus::Healthy;
        if stands {
            Ok(())
        } else {
            Err(format!(
                "{:?} at {:?} instead of {sha}: {:?}",
                found.service.status, found.service.sha, found.errors
            ))
        }
    })
    .await;
}

async fn replicas_killed_one_after_another_lose_and_repeat_nothing(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let second = TestCluster::kubesim().await?;
    let Some(mut all) = Replicas::new(vec![cluster, second]).await? else { return Ok(()) };
    let kills = asked("PLURAL_REPLICA_KILLS", KILLS);
    let every = Duration::from_secs(asked("PLURAL_REPLICA_KILL_SECONDS", EVERY) as u64);
    let mut acknowledged = Vec::new();
    for round in 0..kills {
        let started = Instant::now();
        let victim = round % all.consoles.len();
        let sha = all.push()?;
        // Somewhere between the commit and its arrival.
        let while_ = Duration::from_millis(rand::random_range(0..1500));
        eprintln!("kill {round}: replica {victim}, {while_:?} after the commit");
        let _ = tokio::time::timeout(while_, all.arrives(&sha)).await;
        all.consoles[victim].kill();
        // Writes go on, through the others.
        for place in &all.clusters {
            acknowledged.push(all.acknowledged(place, &format!("extra-{round}")).await);
        }
        all.arrives(&sha).await;
        all.consoles[victim].restart().await?;
        while started.elapsed() < every {
            let sha = all.push()?;
            all.arrives(&sha).await;
        }
    }
    let sha = all.push()?;
    all.arrives(&sha).await;
    all.leads_once().await;
    all.holds(&acknowledged).await?;
    assert!(!all.logs().contains("panicked"), "{}", all.logs());
    Ok(())
}

/// Every process that runs above one of this name, proc(5).
fn ancestors_of(name: &str) -> BTreeSet<u32> {
    let mut parents = BTreeMap::new();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        // `PID (NAME) STATE PARENT …`, where a name is cut to 15 bytes; it may have ended by now.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((pid, rest)) = stat.split_once(" (") else { continue };
        let Some((called, rest)) = rest.rsplit_once(") ") else { continue };
        let parent = rest.split(' ').nth(1).and_then(|parent| parent.parse::<u32>().ok());
        let (Ok(pid), Some(parent)) = (pid.parse::<u32>(), parent) else { continue };
        parents.insert(pid, parent);
        if called == name {
            found.push(parent);
        }
    }
    let mut above = BTreeSet::new();
    for mut pid in found {
        while pid > 1 && above.insert(pid) {
            pid = parents.get(&pid).copied().unwrap_or(0);
        }
    }
    above
}

/// What a variable asks for.
fn asked(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

async fn a_rolling_restart_loses_and_repeats_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let Some(mut all) = Replicas::new(vec![cluster]).await? else { return Ok(()) };
    let mut acknowledged = Vec::new();
    for n in 0..all.consoles.len() {
        // It stops in the middle of this.
        let sha = all.push()?;
        all.consoles[n].stop();
        acknowledged.push(all.acknowledged(&all.clusters[0], &format!("rolling-{n}")).await);
        all.arrives(&sha).await;
        all.consoles[n].restart().await?;
    }
    let sha = all.push()?;
    all.arrives(&sha).await;
    all.leads_once().await;
    all.holds(&acknowledged).await?;
    assert!(!all.logs().contains("panicked"), "{}", all.logs());
    Ok(())
}

async fn a_leader_that_slept_writes_nothing_when_it_wakes_up(cluster: TestCluster) -> anyhow::Result<()> {
    let Some(mut all) = Replicas::new(vec![cluster]).await? else { return Ok(()) };
    // Asleep in the middle of a fetch, whose end it wants to write down.
    let requests = all.git.requests();
    all.git.set_mood(Mood::Hanging);
    eventually(PATIENCE, async || all.git.requests() > requests).await;
    let sleeper = all.hangs().await;
    all.consoles[sleeper].freeze()?;
    all.git.set_mood(Mood::Well);
    all.leave_out(Some(sleeper)).await?;
    // Others lead: a commit is fetched and arrives, whoever the agent was connected to.
    let sha = all.push()?;
    all.arrives(&sha).await;
    let place = &all.clusters[0];
    let acknowledged = vec![all.acknowledged(place, "meanwhile").await];

    all.consoles[sleeper].thaw()?;
    eventually(PATIENCE, async || {
        let told = all.consoles[sleeper].metric("plural_fenced_writes_total").await;
        let refused: f64 = told.map_err(|error| error.to_string())?.iter().map(|(_, count)| count).sum();
        if refused >= 1.0 { Ok(()) } else { Err("nothing of it was refused yet".to_owned()) }
    })
    .await;
    all.leave_out(None).await?;
    let sha = all.push()?;
    all.arrives(&sha).await;
    all.leads_once().await;
    all.holds(&acknowledged).await
}

/// A Job that has to run once before the rest of its commit is applied.
fn job(name: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:\n    \
         argocd.argoproj.io/hook: PreSync\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      \
         containers:\n      - name: run\n        image: example.com/run:1\n"
    )
}

fn write_secret(path: &std::path::Path, text: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    Ok(())
}
