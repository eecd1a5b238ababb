//! Moves: what a commit costs a poll, and that an agent which follows its cursor ends where a snapshot begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plural_app::agent::{AgentHandle, ReportedService};
use plural_app::agent_poll::{PollAnswer, PollAsked, ServiceSpec};
use plural_app::fleet::FeedCursor;
use plural_app::ports::agents::{AgentStore, FeedSubject};
use plural_app::project::ProjectSelector;
use plural_app::repository::NewCredentials;
use plural_app::service::ServiceSelector;
use plural_core::cluster::ClusterChange;
use plural_core::dependency::ServiceLinks;
use plural_core::ids::ServiceId;
use plural_core::project::ProjectChange;
use plural_core::project_limits::ProjectLimits;
use plural_core::repository::{Repository, RepositoryChange};
use plural_core::service::{Configuration, ConfigurationEdit, GitRef, PinUntil, Service, ServiceChange};
use plural_core::service_context::ServiceContextChange;
use plural_core::sync::{PendingApproval, SyncAsk, SyncReport, SyncRequest};
use plural_core::work::WorkRef;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::agent::{report, reported};
use crate::door::{Door, by_id, eventually, new_service};
use crate::git::digest;

each_database!(
    a_commit_is_answered_from_memory_and_each_cluster_is_told_at_once,
    an_ask_that_was_cleared_is_taken_back_with_the_next_commit,
    an_agent_that_follows_ends_where_a_snapshot_begins,
);

const URL: &str = "https://example.com/moves";
/// The same repository at another address.
const ELSEWHERE: &str = "https://example.com/moved";

/// An agent as the contract has it: what it was sent whole, and moved.
struct Model {
    handle: AgentHandle,
    cursor: Option<FeedCursor>,
    known: BTreeMap<ServiceId, ServiceSpec>,
    /// What it has to ask for whole.
    want: BTreeSet<ServiceId>,
    /// Services of which an ask was cleared by what it reported: it holds that ask until it is sent them whole.
    stale: BTreeSet<ServiceId>,
    reports: u64,
    wholes: usize,
    moves: usize,
}

impl Model {
    fn new(door: &Door, token: &str) -> Self {
        Self {
            handle: door.app.agent_authenticate(token).unwrap(),
            cursor: None,
            known: BTreeMap::new(),
            want: BTreeSet::new(),
            stale: BTreeSet::new(),
            reports: 0,
            wholes: 0,
            moves: 0,
        }
    }

    async fn poll(&mut self, door: &Door) -> Result<(), String> {
        let want = self.want.iter().map(|id| WorkRef::service(*id)).collect();
        let asked = PollAsked { want, ..PollAsked::at(self.cursor.as_ref()) };
        self.take(door.app.agent_poll(&self.handle, &asked).await.map_err(|error| error.log_text())?);
        Ok(())
    }

    fn take(&mut self, answer: PollAnswer) {
        let PollAnswer {
            cursor,
            snapshot,
            services,
            damaged,
            moved,
            runs,
            damaged_runs,
            cluster: _,
            forgotten,
            rotate_token: _,
        } = answer;
        assert_eq!((damaged, runs, damaged_runs), (vec![], vec![], vec![]));
        if snapshot {
            self.known.clear();
        }
        for id in forgotten.iter().filter_map(|work| work.as_service()) {
            self.known.remove(&id);
            self.want.remove(&id);
        }
        self.wholes += services.len();
        for spec in services {
            self.stale.remove(&spec.id);
            self.want.remove(&spec.id);
            self.known.insert(spec.id, spec);
        }
        for step in moved {
            let Some(known) = self.known.get_mut(&step.id).filter(|known| known.sequence >= step.from) else {
                self.want.insert(step.id);
                continue;
            };
            if known.sequence >= step.sequence {
                continue;
            }
            assert!(!self.stale.contains(&step.id), "a move leaves an ask that was cleared: {step:?}");
            self.moves += 1;
            let source = step.head.source.expect("a source to move to");
            known.sequence = step.sequence;
            known.revision_id = step.head.revision_id;
            known.revision_at = step.head.revision_at;
            known.artifact_digest = Some(hex::encode(source.digest));
            known.sha.clone_from(&source.sha);
            known.message.clone_from(&source.message);
        }
        self.cursor = Some(cursor);
    }

    /// What it would be compared by: without asks that it cannot know to be cleared.
    fn shown(&self, mut spec: ServiceSpec) -> ServiceSpec {
        if self.stale.contains(&spec.id) {
            spec.ask = SyncAsk::default();
        }
        spec
    }

    /// Polls until the feed holds nothing more, and what it knows is what an agent without a cursor is sent.
    async fn agrees(&mut self, door: &Door, what: &str) {
        eventually(async || {
            self.poll(door).await?;
            let read = self.cursor.as_ref().map_or(0, |cursor| cursor.sequence);
            let left = door.database.feed_read(read).await.map_err(|error| error.log_text())?;
            let answer = door.app.agent_poll(&self.handle, &PollAsked::at(None)).await;
            let answer = answer.map_err(|error| error.log_text())?;
            let all: BTreeMap<_, _> =
                answer.services.into_iter().map(|spec| (spec.id, self.shown(spec))).collect();
            let known: BTreeMap<_, _> =
                self.known.iter().map(|(id, spec)| (*id, self.shown(spec.clone()))).collect();
            if left.events.is_empty() && !left.pending && self.want.is_empty() && known == all {
                Ok(())
            } else {
                let differ = all.iter().filter(|(id, spec)| known.get(id) != Some(spec));
                let differ: Vec<_> = differ.map(|(id, spec)| (spec, known.get(id))).collect();
                let gone = known.keys().filter(|id| !all.contains_key(id)).count();
                Err(format!("after {what}: {} events left, {gone} are gone, {differ:#?}", left.events.len()))
            }
        })
        .await;
    }

    /// Reports on one service as it knows it.
    async fn report(&mut self, door: &Door, id: ServiceId, sync: SyncReport) {
        let said = reported(&self.known[&id], |said| said.sync = sync);
        self.send(door, said).await;
        let now = door.app.agent_poll(&self.handle, &PollAsked::at(None)).await.unwrap();
        let now = now.services.iter().find(|spec| spec.id == id).unwrap();
        if now.ask != self.known[&id].ask {
            self.stale.insert(id);
        }
    }

    /// Reports that nothing of a service is left.
    async fn destroyed(&mut self, door: &Door, id: ServiceId) {
        let said = reported(&self.known[&id], |said| said.destroyed = true);
        self.send(door, said).await;
    }

    async fn send(&mut self, door: &Door, said: ReportedService) {
        self.reports += 1;
        door.app.agent_report(&self.handle, report(self.reports, vec![said])).await.unwrap();
    }
}

/// Waits until the console has moved all services that are not held to what was committed.
async fn settled(door: &Door, contents: &BTreeMap<String, String>, ids: impl Iterator<Item = ServiceId>) {
    for id in ids {
        eventually(async || {
            let service = door.app.get::<Service>(&door.admin, &ServiceSelector::Id(id)).await;
            let service = service.map_err(|error| error.log_text())?;
            let folder = service.git.as_ref().map(|git| git.folder.as_str()).unwrap_or_default();
            let is_held = service.pin.is_some() || service.deleted_at.is_some();
            let wanted = contents.get(folder).map(|content| digest(content));
            if is_held || service.artifact_digest == wanted { Ok(()) } else { Err(format!("{service:?}")) }
        })
        .await;
    }
}

async fn a_commit_is_answered_from_memory_and_each_cluster_is_told_at_once(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let repository = door.repository(URL).await;
    let mut clusters = Vec::new();
    for n in 0..10 {
        clusters.push(door.cluster(&format!("cluster-{n}")).await);
    }
    // Each next one is another cluster's.
    let names: Vec<String> = (0..100).map(|n| format!("s-{n}")).collect();
    for (name, made) in names.iter().zip(clusters.iter().cycle()) {
        door.service(&made.cluster, &repository, name).await;
    }
    let git = Arc::clone(&door.git);
    let commit = |sha: &str| {
        let folders: Vec<(&str, String)> =
            names.iter().map(|name| (name.as_str(), format!("{name} at {sha}"))).collect();
        let folders: Vec<(&str, &str)> =
            folders.iter().map(|(name, content)| (*name, content.as_str())).collect();
        git.commit(URL, sha, &folders);
    };
    commit("c1");
    let mut models: Vec<Model> =
        clusters.iter().map(|made| Model::new(&door, made.deploy_token.expose_secret())).collect();
    door.start();
    for model in &mut models {
        eventually(async || {
            model.poll(&door).await?;
            let built = model.known.values().filter(|spec| spec.artifact_digest.is_some()).count();
            if built == 10 { Ok(()) } else { Err(format!("{built} are built")) }
        })
        .await;
        model.agrees(&door, "the first commit").await;
    }

    let before = models[0].cursor.as_ref().unwrap().sequence;
    commit("c2");
    door.app.repository_kick(&door.admin, repository.id).await.unwrap();
    for model in &models {
        eventually(async || {
            let asked = PollAsked::at(model.cursor.as_ref());
            let answer = door.app.agent_poll(&model.handle, &asked).await.map_err(|e| e.log_text())?;
            if answer.moved.len() == 10 { Ok(()) } else { Err(format!("{answer:?}")) }
        })
        .await;
    }
    door.stop().await;

    let statements = door.database.statements();
    for model in &mut models {
        (model.moves, model.wholes) = (0, 0);
        model.poll(&door).await.unwrap();
        assert_eq!((model.moves, model.wholes), (10, 0));
        assert!(model.known.values().all(|spec| spec.sha.as_deref() == Some("c2")));
    }
    assert_eq!(door.database.statements(), statements, "no poll asked the database");
    // The events of one cluster are beside each other: its agent is sent one hint.
    let events = door.database.feed_read(before).await.unwrap().events;
    let mut told: Vec<_> = events
        .iter()
        .filter_map(|event| match event.subject {
            Some(FeedSubject::Work { cluster_id, .. }) => Some(cluster_id),
            Some(
                FeedSubject::Cluster { .. }
                | FeedSubject::Repository { .. }
                | FeedSubject::RepositoryMoved { .. },
            )
            | None => None,
        })
        .collect();
    assert_eq!(told.len(), 100);
    told.dedup();
    assert_eq!(told.len(), 10);
}

async fn an_ask_that_was_cleared_is_taken_back_with_the_next_commit(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let repository = door.repository(URL).await;
    let made = door.cluster("blue").await;
    let mut contents = BTreeMap::new();
    let mut commit = async |door: &Door, content: &str| {
        contents.insert("web".to_owned(), content.to_owned());
        door.git.commit(URL, content, &[("web", content)]);
        door.app.repository_kick(&door.admin, repository.id).await.unwrap();
        contents.clone()
    };
    let mut model = Model::new(&door, made.deploy_token.expose_secret());
    door.start();
    let id = door.service(&made.cluster, &repository, "web").await.id;
    let now = commit(&door, "one").await;
    settled(&door, &now, [id].into_iter()).await;
    model.agrees(&door, "the first commit").await;

    let pending = PendingApproval {
        digest: "d1".to_owned(),
        reason: "it deletes 12 objects".to_owned(),
        objects: Vec::new(),
        count: 12,
    };
    let waits = SyncReport { pending: Some(pending), ..SyncReport::default() };
    model.report(&door, id, waits).await;
    door.app.service_prune_approve(&door.admin, &ServiceSelector::Id(id), "d1").await.unwrap();
    model.agrees(&door, "the approval").await;
    assert!(model.known[&id].ask.approved.is_some());
    // Done: the console clears the approval, and the agent goes on holding it.
    model.report(&door, id, SyncReport::default()).await;
    model.agrees(&door, "the report").await;
    assert!(model.stale.contains(&id) && model.known[&id].ask.approved.is_some());

    // The same deletions months later are not approved.
    let now = commit(&door, "two").await;
    settled(&door, &now, [id].into_iter()).await;
    model.agrees(&door, "the second commit").await;
    assert!(model.known[&id].ask.approved.is_none() && model.stale.is_empty());
    let (wholes, moves) = (model.wholes, model.moves);
    let now = commit(&door, "three").await;
    settled(&door, &now, [id].into_iter()).await;
    model.agrees(&door, "the third commit").await;
    assert_eq!((model.wholes, model.moves), (wholes, moves + 1), "from there on it moves again");
    door.stop().await;
}

/// A few numbers that look like chance, the same with each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }
}

struct Walk<'d> {
    door: &'d Door,
    model: Model,
    made: plural_app::cluster::CreatedCluster,
    repository: &'d Repository,
    contents: BTreeMap<String, String>,
    services: usize,
    dice: Dice,
    seed: u64,
    step: usize,
}

const FOLDERS: [&str; 4] = ["f-0", "f-1", "f-2", "f-3"];

impl Walk<'_> {
    /// One of the services, by chance.
    fn any(&mut self) -> ServiceId {
        let at = self.dice.below(self.model.known.len());
        *self.model.known.keys().nth(at).unwrap()
    }

    async fn create(&mut self) {
        self.services += 1;
        let folder = FOLDERS[self.dice.below(FOLDERS.len())];
        let mut new = new_service(self.repository, &format!("s-{}", self.services));
        new.git = Some(GitRef::new("main", folder, &[]).unwrap());
        let cluster = by_id(&self.made.cluster);
        let service = self.door.app.service_create(&self.door.admin, &cluster, new).await.unwrap();
        settled(self.door, &self.contents, [service.id].into_iter()).await;
    }

    async fn commit(&mut self) {
        for folder in FOLDERS {
            if self.dice.below(2) == 0 {
                let content = format!("{folder} of {} at {}", self.seed, self.step);
                self.contents.insert(folder.to_owned(), content);
            }
        }
        let all: Vec<(&str, &str)> = self.contents.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        for url in [URL, ELSEWHERE] {
            self.door.git.commit(url, &format!("c-{}-{}", self.seed, self.step), &all);
        }
        self.door.app.repository_kick(&self.door.admin, self.repository.id).await.unwrap();
        settled(self.door, &self.contents, self.model.known.keys().copied()).await;
    }

    async fn change(&mut self, id: ServiceId, change: ServiceChange) {
        let selector = ServiceSelector::Id(id);
        let changed = self.door.app.service_update(&self.door.admin, &selector, change).await;
        // A pinned service refuses what makes a revision.
        if let Err(refused) = changed {
            assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
            return;
        }
        settled(self.door, &self.contents, [id].into_iter()).await;
    }

    /// Does one thing and says what it was. What a service refuses as it is now does nothing.
    async fn go(&mut self) -> String {
        let (id, n) = (self.any(), self.step);
        let selector = ServiceSelector::Id(id);
        let what = match self.dice.below(24) {
            0..=5 => {
                self.commit().await;
                "commit"
            }
            6 => {
                let configuration = Configuration::from([("n".to_owned(), n.to_string())]);
                let change = ServiceChange {
                    configuration: Some(ConfigurationEdit::Replace(configuration)),
                    ..ServiceChange::default()
                };
                self.change(id, change).await;
                "configuration"
            }
            7 => {
                let dry_run = Some(!self.model.known[&id].dry_run);
                self.change(id, ServiceChange { dry_run, ..ServiceChange::default() }).await;
                "dry run"
            }
            8 => {
                let folder = FOLDERS[self.dice.below(FOLDERS.len())];
                let git = Some(GitRef::new("main", folder, &[]).unwrap());
                self.change(id, ServiceChange { git, ..ServiceChange::default() }).await;
                "folder"
            }
            9 => {
                let name = "database".parse().unwrap();
                let serde_json::Value::Object(document) = json!({ "n": n }) else { unreachable!() };
                let change =
                    ServiceContextChange { configuration: Some(document), ..ServiceContextChange::default() };
                let context = self.door.app.context_save(&self.door.admin, name, change).await.unwrap();
                if self.dice.below(2) == 0 {
                    let contexts = if self.dice.below(2) == 0 { vec![context.id] } else { Vec::new() };
                    let links = ServiceLinks { contexts: Some(contexts), ..ServiceLinks::default() };
                    self.change(id, ServiceChange { links, ..ServiceChange::default() }).await;
                }
                "context"
            }
            10 | 11 => {
                let page = PageArgs::default();
                let revisions = self.door.app.service_revisions(&self.door.admin, id, &page).await.unwrap();
                let at = self.dice.below(revisions.edges.len());
                let until = [PinUntil::Release, PinUntil::NextCommit][self.dice.below(2)];
                let to = revisions.edges[at].node.id;
                // Of some nothing was made.
                let _ = self.door.app.service_rollback(&self.door.admin, &selector, to, until).await;
                "rollback"
            }
            12 | 13 => {
                let _ = self.door.app.service_release(&self.door.admin, &selector).await;
                settled(self.door, &self.contents, [id].into_iter()).await;
                "release"
            }
            14 => {
                if self.model.known[&id].paused {
                    self.door.app.service_resume(&self.door.admin, &selector).await.unwrap();
                } else {
                    self.door.app.service_pause(&self.door.admin, &selector).await.unwrap();
                }
                "pause"
            }
            15 => {
                let limits = match self.dice.below(3) {
                    0 => ProjectLimits::default(),
                    _ => ProjectLimits {
                        repositories: vec!["https://example.com/*".to_owned()],
                        denied_kinds: vec![format!("/Kind{n}")],
                        ..ProjectLimits::default()
                    },
                };
                let project = ProjectSelector::Default;
                self.door.app.project_limits_set(&self.door.admin, &project, &limits).await.unwrap();
                "limits"
            }
            16 => {
                let project = self.door.default_project().await.id;
                let name = Some(format!("default-{n}").parse().unwrap());
                let change = ProjectChange { name, ..ProjectChange::default() };
                self.door.app.project_update(&self.door.admin, project, &change).await.unwrap();
                "project's name"
            }
            17 => {
                let url = if n % 2 == 0 { URL } else { ELSEWHERE };
                let change = RepositoryChange {
                    url: Some(url.parse().unwrap()),
                    web: plural_core::web_address::WebAddressChange::default(),
                };
                let none = NewCredentials::default();
                let repository = self.repository.id;
                self.door.app.repository_update(&self.door.admin, repository, &change, none).await.unwrap();
                "repository's address"
            }
            18 => {
                let request = SyncRequest::default();
                let asked = self.door.app.service_sync(&self.door.admin, &selector, request).await;
                if let Ok((_, request)) = asked {
                    self.model.agrees(self.door, "a sync request").await;
                    let done =
                        SyncReport { request_done: Some(request.to_string()), ..SyncReport::default() };
                    self.model.report(self.door, id, done).await;
                }
                "sync request that is done"
            }
            19 => {
                let pending = PendingApproval {
                    digest: format!("d{n}"),
                    reason: "it deletes 12 objects".to_owned(),
                    objects: Vec::new(),
                    count: 12,
                };
                let waits = SyncReport { pending: Some(pending), ..SyncReport::default() };
                self.model.report(self.door, id, waits).await;
                let digest = format!("d{n}");
                let approved =
                    self.door.app.service_prune_approve(&self.door.admin, &selector, &digest).await;
                if approved.is_ok() && self.dice.below(2) == 0 {
                    self.model.agrees(self.door, "an approval").await;
                    self.model.report(self.door, id, SyncReport::default()).await;
                }
                "approval"
            }
            20 => {
                self.door.app.service_kick(&self.door.admin, &selector).await.unwrap();
                "kick"
            }
            21 => {
                if self.dice.below(2) == 0 {
                    self.door.app.service_detach(&self.door.admin, &selector).await.unwrap();
                } else {
                    self.door.app.service_delete(&self.door.admin, &selector).await.unwrap();
                    self.model.agrees(self.door, "a deletion").await;
                    self.model.destroyed(self.door, id).await;
                }
                self.create().await;
                "deletion"
            }
            22 => {
                let change = ClusterChange { version: Some(format!("1.{n}")), ..ClusterChange::default() };
                let cluster = by_id(&self.made.cluster);
                self.door.app.cluster_update(&self.door.admin, &cluster, &change).await.unwrap();
                "cluster"
            }
            _ => {
                // The agent lost it.
                self.model.known.remove(&id);
                self.model.want.insert(id);
                "loss"
            }
        };
        format!("{what} at {n} of seed {}", self.seed)
    }
}

async fn an_agent_that_follows_ends_where_a_snapshot_begins(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let repository = door.repository(URL).await;
    door.start();
    for seed in 1..=3 {
        let made = door.cluster(&format!("walk-{seed}")).await;
        let model = Model::new(&door, made.deploy_token.expose_secret());
        let first = |folder: &str| (folder.to_owned(), format!("{folder} of {seed} at first"));
        let contents = FOLDERS.into_iter().map(first).collect();
        let (dice, repository) = (Dice(seed), &repository);
        let mut walk =
            Walk { door: &door, model, made, repository, contents, services: 0, dice, seed, step: 0 };
        walk.commit().await;
        for _ in 0..6 {
            walk.create().await;
        }
        walk.model.agrees(&door, "the beginning").await;
        for step in 1..=80 {
            walk.step = step;
            let what = walk.go().await;
            walk.model.agrees(&door, &what).await;
        }
        assert!(walk.model.moves > 0 && walk.model.wholes > 0, "seed {seed}");
    }
    door.stop().await;
}
