//! A repository of many files, commits and services: how fast it comes in, and how fast it goes out again.

mod history;
pub(crate) mod house;
mod peer;
mod warm;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use plural_testkit::{GitRemote, GitServer, OwnedFolder};

use self::{
    history::History,
    house::House,
    warm::{Door, Static},
};
use crate::{idle::name, report::Figure, samples::Samples};

/// Folder of the service whose artifact is large.
const LARGE: &str = "large";
/// Folders that `git archive` packs, a process each.
const ARCHIVES: usize = 200;

/// How large, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Files of the repository
    #[arg(long, default_value_t = 100_000)]
    files: usize,
    /// Commits of its history
    #[arg(long, default_value_t = 20_000)]
    commits: usize,
    /// Services, each of one of its folders
    #[arg(long, default_value_t = 5000)]
    services: usize,
    /// What the generated repository is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fetches, and commits in one folder, that are timed
    #[arg(long, default_value_t = 30)]
    rounds: usize,
    /// MiB of the large artifact
    #[arg(long, default_value_t = 8)]
    mebibytes: usize,
    /// Connections that artifacts are read over
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Seconds that artifacts are read for, of each server
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let folder = OwnedFolder::new("bench")?;
    let house = House::start(folder.path()).await?;
    measure(options, house, folder.path()).await
}

/// A repository with its server, and the console that fetches from it.
struct Bench<'a> {
    options: &'a Options,
    history: History,
    remote: GitRemote,
    url: String,
    /// Id of the repository in the console.
    repository: String,
    house: House,
    clone: peer::Clone,
    /// Commits made so far, besides the history.
    made: usize,
}

async fn measure(options: &Options, mut house: House, folder: &Path) -> anyhow::Result<Vec<Figure>> {
    let Options { files, commits, services, seed, .. } = *options;
    anyhow::ensure!(
        services > 0 && files >= services,
        "every service has a file: --files must be at least --services"
    );
    let history = History { seed, files, commits, services };
    let remote = GitRemote::new()?;
    let started = Instant::now();
    history.write(&remote)?;
    eprintln!("{commits} commits of {files} files made in {:.0} s", started.elapsed().as_secs_f64());
    let server = GitServer::start(remote.root())?;
    let url = server.url(&remote);

    // The first reads the server's files into the page cache, and is not counted.
    peer::Clone::make(&url, folder.join("first"))?;
    let idle = house.usage()?;
    let started = Instant::now();
    let repository = house.api.repository(&url).await?;
    house.until_fetched(&repository, None).await?;
    let cloned = started.elapsed();
    let after = house.usage()?;
    let (clone, by_git) = peer::Clone::make(&url, folder.join("second"))?;
    let figures = vec![
        Figure::new("first clone", cloned.as_secs_f64(), "s")
            .beside("git clone --bare", by_git.as_secs_f64())
            .beside("files", files as f64)
            .beside("commits", commits as f64),
        Figure::new("mirror on disk", peer::mebibytes(&house.mirror()?), "MiB")
            .beside("git's", clone.mebibytes()),
        Figure::new("console, memory after the clone", after.mebibytes(), "MiB")
            .beside("before", idle.mebibytes()),
    ];
    let mut bench = Bench { options, history, remote, url, repository, house, clone, made: 0 };
    let mut all = figures;
    all.push(bench.incremental().await?);
    all.extend(bench.digests().await?);
    all.extend(bench.warm().await?);
    Ok(all)
}

impl Bench<'_> {
    /// Commits to these services' objects; returns the commit.
    fn commit(&mut self, services: impl Iterator<Item = usize>) -> anyhow::Result<String> {
        self.made += 1;
        self.history.change(&self.remote, self.made, services)
    }

    /// Fetches of one commit each, told of by webhook.
    async fn incremental(&mut self) -> anyhow::Result<Figure> {
        let (mut ours, mut by_git) = (Samples::default(), Samples::default());
        let mut at = self.house.api.pulled_at(&self.repository).await?;
        let before = self.house.means().await?;
        for round in 0..self.options.rounds {
            self.commit(std::iter::once(round % self.options.services))?;
            // In turns, so that neither is always the one that warms the server up.
            let first = round % 2 == 0;
            if first {
                by_git.add(self.clone.fetch()?);
            }
            let told = Instant::now();
            self.house.push_hook(&self.url).await?;
            at = Some(self.house.until_fetched(&self.repository, at).await?);
            ours.add(told.elapsed());
            if !first {
                by_git.add(self.clone.fetch()?);
            }
        }
        let after = self.house.means().await?;
        Ok(Figure::new("webhook to fetched, one commit, p50", ours.percentile(50), "ms")
            .beside("git fetch", by_git.percentile(50))
            .beside("the fetch alone", after.since(&before, "plural_git_fetch_seconds"))
            .beside("p99", ours.percentile(99))
            .beside("git fetch p99", by_git.percentile(99)))
    }

    /// From commits to the services that they concern.
    async fn digests(&mut self) -> anyhow::Result<Vec<Figure>> {
        let services = self.options.services;
        self.history.add_large(&self.remote, LARGE, self.options.mebibytes << 20)?;
        eprintln!("registering {services} services");
        self.house.service(&self.repository, LARGE, LARGE).await?;
        for service in 0..services {
            self.house.service(&self.repository, &name(service), &History::folder(service)).await?;
        }
        self.house.push_hook(&self.url).await?;
        self.house.until_known(services + 1, None, &[]).await?;

        let (mut took, mut moved) = (Samples::default(), 0);
        let before = self.house.means().await?;
        for round in 0..self.options.rounds {
            let service = round * 7 % services;
            let commit = self.commit(std::iter::once(service))?;
            let told = Instant::now();
            self.house.push_hook(&self.url).await?;
            moved += self.house.until_known(services + 1, Some(&commit), &[name(service)]).await?;
            took.add(told.elapsed());
        }
        let after = self.house.means().await?;
        anyhow::ensure!(
            moved == self.options.rounds,
            "{moved} services moved by {} commits",
            self.options.rounds
        );
        let mut one = Figure::new("commit in one folder to revision, p50", took.percentile(50), "ms")
            .at_most(1000.0)
            .beside("p99", took.percentile(99))
            .beside("services", services as f64);
        for (name, histogram) in PARTS {
            one = one.beside(name, after.since(&before, histogram));
        }

        let commit = self.commit(0..services)?;
        let before = self.house.means().await?;
        let told = Instant::now();
        self.house.push_hook(&self.url).await?;
        let names: Vec<String> = (0..services).map(name).collect();
        self.house.until_known(services + 1, Some(&commit), &names).await?;
        let took = told.elapsed();
        let after = self.house.means().await?;
        let by_git = self.clone.fetch()?;
        let all_of = |histogram| after.seconds_since(&before, histogram);
        let digests = services as f64 / all_of("plural_git_closures_seconds").max(f64::EPSILON);
        let mut every = Figure::new("commit in every folder, all services moved", took.as_secs_f64(), "s")
            .beside("services", services as f64)
            .beside("git fetch by hand", by_git.as_secs_f64());
        for (name, histogram) in PARTS {
            every = every.beside(name, all_of(histogram));
        }
        Ok(vec![
            one,
            every,
            Figure::new("digests, all of them new", digests, "/s"),
            self.builds(&after, &before)?,
        ])
    }

    /// What the last commit's artifacts took to be built.
    fn builds(&self, after: &crate::means::Means, before: &crate::means::Means) -> anyhow::Result<Figure> {
        let services = self.options.services;
        let seconds = after.seconds_since(before, "plural_git_artifact_seconds");
        let (last, made) = (self.options.commits, self.made);
        let contents = (0..services)
            .map(|service| self.history.service(service, |file| if file == 0 { last + made } else { 0 }))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let folder = OwnedFolder::new("bench")?;
        let alone = peer::stored(&contents, folder.path())?;
        let some: Vec<String> = (0..services.min(ARCHIVES)).map(History::folder).collect();
        Ok(Figure::new("artifact builds, cold", services as f64 / seconds.max(f64::EPSILON), "/s")
            .beside("hash, compress and write alone", alone)
            .beside("git archive, a process each", peer::archives(&self.remote, &some)?)
            .beside("files each", self.options.files as f64 / services as f64))
    }

    /// What is built already, given out.
    async fn warm(&mut self) -> anyhow::Result<Vec<Figure>> {
        let Options { connections, seconds, services, .. } = *self.options;
        let time = Duration::from_secs_f64(seconds);
        let door = Door::console(&self.house.url, &self.house.token)?;
        let large =
            self.house.known().get(LARGE).context("the large service has no artifact")?.digest.clone();
        let small: Vec<String> = (0..services)
            .filter_map(|service| self.house.known().get(&name(service)))
            .map(|known| known.digest.clone())
            .collect();
        let mut figures = Vec::new();
        for (what, digests) in [("large", vec![large]), ("small", small)] {
            // Each of them once, and what a first answer makes the console do.
            let once = door.read(&digests, connections, time / 5).await?;
            let ours = door.read(&digests, connections, time).await?;
            let each = (once.megabytes * 1e6 / once.answers.max(1.0)) as usize;
            let server = Static::start(Bytes::from(vec![0x5a; each])).await?;
            server.door.read(&digests, connections, time / 5).await?;
            let limit = server.door.read(&digests, connections, time).await?;
            figures.push(if what == "large" {
                let bare = warm::socket(connections, time).await?;
                Figure::new("artifact bytes, warm", ours.megabytes, "MB/s")
                    .at_least(1000.0)
                    .beside("static server on the same stack", limit.megabytes)
                    .beside("bare sockets", bare.megabytes)
                    .beside("MB each", each as f64 / 1e6)
                    .beside("connections", connections as f64)
            } else {
                Figure::new("small artifacts, warm", ours.answers, "/s")
                    .beside("static server on the same stack", limit.answers)
                    .beside("kB each", each as f64 / 1e3)
            });
        }
        let usage = self.house.usage()?;
        figures.push(
            Figure::new("console, memory with all services", usage.mebibytes(), "MiB")
                .beside("services", services as f64),
        );
        Ok(figures)
    }
}

/// What the console measures of itself on the way from a commit to revisions.
const PARTS: [(&str, &str); 4] = [
    ("its fetch", "plural_git_fetch_seconds"),
    ("its digests", "plural_git_closures_seconds"),
    ("its artifacts", "plural_git_artifact_seconds"),
    ("its revisions", "plural_service_revise_seconds"),
];

#[cfg(test)]
mod tests {
    use plural_console::{ConsoleConfig, RunningConsole};

    use super::*;
    use crate::seed;

    /// The whole of it, very small, with a console in this process.
    #[tokio::test(flavor = "multi_thread")]
    async fn every_figure_is_taken() {
        let folder = OwnedFolder::new("bench").unwrap();
        let config = seed::config(folder.path());
        let data = config.data_dir.clone();
        let metrics = plural_kit::init_metrics().unwrap();
        let metrics_token = Some(crate::idle::METRICS_TOKEN.into());
        let config = ConsoleConfig { allow_local_repositories: false, metrics_token, ..config };
        let console = RunningConsole::start(config, Some(metrics)).await.unwrap();
        let house = House::of(console.url.clone(), data).await.unwrap();
        let options = Options {
            files: 60,
            commits: 30,
            services: 12,
            seed: 1,
            rounds: 2,
            mebibytes: 3,
            connections: 2,
            seconds: 0.2,
        };
        let figures = measure(&options, house, folder.path()).await.unwrap();
        console.stop().await.unwrap();
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "first clone",
                "mirror on disk",
                "console, memory after the clone",
                "webhook to fetched, one commit, p50",
                "commit in one folder to revision, p50",
                "commit in every folder, all services moved",
                "digests, all of them new",
                "artifact builds, cold",
                "artifact bytes, warm",
                "small artifacts, warm",
                "console, memory with all services",
            ]
        );
        for figure in &figures {
            assert!(figure.value > 0.0 && figure.value.is_finite(), "{figure:?}");
            assert!(figure.beside.iter().all(|beside| beside.value.is_finite()), "{figure:?}");
        }
    }
}
