//! A console that serves a git server's repository, watched from outside.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use plural_testkit::process::{Program, Running};
use plural_tunnel::{
    Console, ConsoleOptions,
    v1::{Cursor, PollResponse, ServiceMove, work::Item},
};

use crate::{
    api::Api,
    idle::{METRICS_TOKEN, address, console_with, program},
    means::Means,
    usage::Usage,
};

/// Longer than anything that is measured takes.
const WITHIN: Duration = Duration::from_mins(20);
/// Between two questions whether something has happened.
const ASK: Duration = Duration::from_millis(2);
/// The cluster that all services are on.
const CLUSTER: &str = "bench-1";

/// A console, and what is known of it from outside.
pub(crate) struct House {
    pub(crate) url: String,
    pub(crate) api: Api,
    pub(crate) token: String,
    pub(crate) data: PathBuf,
    host: Host,
    door: Console,
    cursor: Option<Cursor>,
    known: HashMap<String, Known>,
    /// Names of the services by id: a move carries the id only.
    names: HashMap<String, String>,
}

/// Where the console runs.
enum Host {
    /// As a process of its own, started as a person starts it: its memory is its alone.
    Process(Running),
    /// In a process that somebody else looks after: this one, in a test.
    #[cfg(test)]
    Elsewhere,
}

/// A service as its agent would know it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) commit: String,
    pub(crate) digest: String,
}

impl House {
    /// Starts the program with its data in a folder.
    pub(crate) async fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(folder, |program| program).await
    }

    /// The same with further settings.
    pub(crate) async fn start_with(
        folder: &Path,
        more: impl FnOnce(Program) -> Program,
    ) -> anyhow::Result<Self> {
        let mut running = console_with(&program()?, folder, more)?;
        let url = address(&mut running).await?;
        Self::enter(url, folder.join("data"), Host::Process(running)).await
    }

    /// A console that runs already.
    #[cfg(test)]
    pub(crate) async fn of(url: String, data: PathBuf) -> anyhow::Result<Self> {
        Self::enter(url, data, Host::Elsewhere).await
    }

    async fn enter(url: String, data: PathBuf, host: Host) -> anyhow::Result<Self> {
        let api = Api::sign_in(&url, None).await?;
        let token = api.cluster(CLUSTER).await?;
        let options = ConsoleOptions {
            url: url.clone(),
            token: token.clone(),
            ca_pem: None,
            deadline: Duration::from_mins(1),
        };
        let door = Console::new(&options)?;
        Ok(Self {
            url,
            api,
            token,
            data,
            host,
            door,
            cursor: None,
            known: HashMap::new(),
            names: HashMap::new(),
        })
    }

    /// A service of one folder of the repository.
    pub(crate) async fn service(&self, repository: &str, name: &str, folder: &str) -> anyhow::Result<()> {
        self.api.service(CLUSTER, repository, name, folder, super::history::NAMESPACE).await
    }

    /// What the console measured of itself so far.
    pub(crate) async fn means(&self) -> anyhow::Result<Means> {
        let request = Request::get(format!("{}/metrics", self.url))
            .header(header::AUTHORIZATION, format!("Bearer {METRICS_TOKEN}"))
            .body(Full::<Bytes>::default())?;
        let page = Client::builder(TokioExecutor::new()).build_http().request(request).await?;
        Ok(Means::parse(&String::from_utf8_lossy(&page.into_body().collect().await?.to_bytes())))
    }

    /// What its process uses.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(match &self.host {
            Host::Process(running) => running.pid(),
            #[cfg(test)]
            Host::Elsewhere => std::process::id(),
        })
    }

    /// Tells it, as a git host does, that something was pushed.
    pub(crate) async fn push_hook(&self, repository: &str) -> anyhow::Result<()> {
        let secret = fs::read_to_string(self.data.join("webhook.secret"))?;
        let body = serde_json::json!({"project": {"git_http_url": repository}}).to_string();
        let request = Request::post(format!("{}/ext/v1/webhooks/gitlab", self.url))
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-gitlab-token", secret.trim())
            .body(Full::new(Bytes::from(body)))?;
        let answer = Client::builder(TokioExecutor::new()).build_http().request(request).await?;
        anyhow::ensure!(answer.status().is_success(), "the webhook was answered with {}", answer.status());
        Ok(())
    }

    /// Waits until a repository was fetched again; when that fetch began.
    pub(crate) async fn until_fetched(
        &mut self,
        id: &str,
        before: Option<DateTime<Utc>>,
    ) -> anyhow::Result<DateTime<Utc>> {
        let started = Instant::now();
        loop {
            let at = self.api.pulled_at(id).await?;
            if let Some(at) = at.filter(|at| before.is_none_or(|before| *at > before)) {
                return Ok(at);
            }
            self.wait(started, "fetch the repository").await?;
        }
    }

    /// Waits until every one of so many services has an artifact, and one of this commit where it is named in `moved`.
    /// How many services moved meanwhile.
    pub(crate) async fn until_known(
        &mut self,
        services: usize,
        commit: Option<&str>,
        moved: &[String],
    ) -> anyhow::Result<usize> {
        let started = Instant::now();
        let mut changed = 0;
        loop {
            changed += self.look().await?;
            let arrived = |name: &String| {
                let of = |known: &Known| commit.is_none_or(|commit| known.commit == commit);
                self.known.get(name).is_some_and(of)
            };
            if self.known.len() >= services && moved.iter().all(arrived) {
                return Ok(changed);
            }
            self.wait(started, "move the services").await?;
        }
    }

    /// Waits until a service has another artifact than this one.
    pub(crate) async fn until_moved(&mut self, service: &str, from: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            self.look().await?;
            if self.known.get(service).is_some_and(|known| known.digest != from) {
                return Ok(());
            }
            self.wait(started, "move the service").await?;
        }
    }

    /// The services as they are known by now, by name.
    pub(crate) fn known(&self) -> &HashMap<String, Known> {
        &self.known
    }

    /// Asks once, as an agent does; how many services have another artifact than before.
    async fn look(&mut self) -> anyhow::Result<usize> {
        let PollResponse { cursor, work, moved, .. } =
            self.door.poll(self.cursor.clone(), Vec::new()).await?.normal();
        self.cursor = cursor;
        let mut told = Vec::new();
        for service in work {
            let Some(Item::Service(service)) = service.item else { continue };
            self.names.insert(service.id.clone(), service.name);
            told.push((service.id, service.commit_sha, service.artifact_digest));
        }
        for ServiceMove { id, commit_sha, artifact_digest, .. } in moved {
            told.push((id, commit_sha, artifact_digest));
        }
        let mut changed = 0;
        for (id, commit, digest) in told.into_iter().filter(|(.., digest)| !digest.is_empty()) {
            let Some(name) = self.names.get(&id) else { continue };
            let now = Known { commit, digest };
            let before = self.known.insert(name.clone(), now.clone());
            changed += usize::from(before.is_none_or(|before| before.digest != now.digest));
        }
        Ok(changed)
    }

    async fn wait(&mut self, since: Instant, what: &str) -> anyhow::Result<()> {
        match &mut self.host {
            Host::Process(running) => running.check()?,
            #[cfg(test)]
            Host::Elsewhere => {}
        }
        anyhow::ensure!(since.elapsed() < WITHIN, "the console did not {what} within {WITHIN:?}");
        tokio::time::sleep(ASK).await;
        Ok(())
    }

    /// The folder of the only mirror that it has.
    pub(crate) fn mirror(&self) -> anyhow::Result<PathBuf> {
        let folder = self.data.join("git/mirrors");
        let first = fs::read_dir(&folder)?.flatten().next().context("the console has no mirror")?;
        Ok(first.path())
    }
}
