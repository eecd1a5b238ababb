//! Secrets that automations ask for: their values are there from the request until the cluster has them, and no longer.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use plural_app::agent::AgentHandle;
use plural_app::pr_instance::{PrInstanceFilter, PrInstanceStore as _, PrSettled};
use plural_app::pr_instance_change::PrInstanceAsk;
use plural_app::pr_secret::{PrSecretOutcome, PrSecretStore as _, PrSecretTold};
use plural_app::project::ProjectSelector;
use plural_app::pull_request::{PullRequestEnd, PullRequestFilter, PullRequestStore as _};
use plural_app::pull_request_open::PullRequestAsk;
use plural_app::scm_connection::NewScmSecrets;
use plural_core::cluster::Cluster;
use plural_core::ids::{PrInstanceId, PullRequestId};
use plural_core::policy::BindingsChange;
use plural_core::pr_automation::{
    NewPrAutomation, PrAutomation, PrAutomationChange, PrAutomationLinksChange,
};
use plural_core::pr_automation_spec::{PrAutomationSpecChange, PrSecretEntry, PrSecrets};
use plural_core::pr_instance::{PrGenerated, PrInstance};
use plural_core::pr_secret::{KEPT, PrSecret, PrSecretState};
use plural_core::project_limits::ProjectLimits;
use plural_core::pull_request::{PrStatus, PrWork, PullRequest};
use plural_core::scm_connection::{NewScmConnection, ScmSpecChange, ScmType};
use plural_core::{Error, PageArgs, Result};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};

use crate::{data_keys::run, door::Door};

each_database!(
    values_are_kept_from_the_request_until_the_cluster_has_them,
    what_is_taken_away_is_deleted,
    values_are_forgotten_with_a_pull_request_that_is_closed,
    a_merge_into_another_branch_brings_and_takes_nothing,
    values_are_forgotten_after_a_while,
    what_an_earlier_release_records_of_an_instance_reaches_its_secret,
    what_cannot_be_made_is_refused_at_once,
    an_upgrade_brings_its_secret_with_the_merge_and_keeps_what_nobody_gives_anew,
    an_upgrade_that_is_not_merged_changes_no_secret,
    an_upgrade_to_another_place_or_to_none_takes_the_one_of_before_away,
    what_an_earlier_build_records_of_an_upgrade_reaches_its_secret,
    a_secret_that_is_not_written_stops_no_upgrade_that_needs_nothing_of_it,
    values_that_were_forgotten_are_asked_for_once_more,
    the_last_one_takes_the_place_whatever_the_clocks_of_consoles_say,
);

const VALUE: &str = "s3cr3t-value-77b1";

/// An automation that asks for a Secret on a cluster, and the agent of that.
struct World {
    door: Door,
    cluster: Cluster,
    agent: AgentHandle,
    automation: PrAutomation,
}

impl World {
    async fn new(database: TestDatabase) -> Self {
        let door = Door::new(database).await;
        let made = door.cluster("blue").await;
        let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
        let cluster = made.cluster;
        let new = NewScmConnection {
            name: "github".parse().unwrap(),
            kind: ScmType::Github,
            project_id: Some(cluster.project_id),
            is_default: false,
            spec: ScmSpecChange {
                repositories: Some(vec!["acme/*".parse().unwrap()]),
                ..ScmSpecChange::default()
            },
        };
        let secrets = NewScmSecrets { token: Some("a-token".into()), ..NewScmSecrets::default() };
        let connection = door.app.scm_connection_create(&door.admin, new, secrets).await.unwrap();
        let entry = |name: &str, autogenerate| PrSecretEntry {
            name: name.to_owned(),
            autogenerate,
            ..PrSecretEntry::default()
        };
        let secrets = PrSecrets {
            cluster: Some("blue".to_owned()),
            namespace: Some("apps".to_owned()),
            name: Some("db".to_owned()),
            entries: vec![entry("user", false), entry("password", true)],
        };
        let new = NewPrAutomation {
            name: "add".parse().unwrap(),
            project_id: Some(cluster.project_id),
            role: None,
            links: PrAutomationLinksChange {
                connection_id: Some(connection.id),
                ..PrAutomationLinksChange::default()
            },
            spec: PrAutomationSpecChange {
                title: Some("Add".to_owned()),
                message: Some("Adds".to_owned()),
                secrets: Some(secrets),
                ..PrAutomationSpecChange::default()
            },
            merge_windows: None,
            bindings: BindingsChange::default(),
        };
        let automation = door.app.pr_automation_create(&door.admin, new).await.unwrap();
        Self { door, cluster, agent, automation }
    }

    async fn create(&self, secrets: Value) -> Result<PullRequest> {
        let Value::Object(secrets) = secrets else { panic!("no object: {secrets}") };
        let ask = PullRequestAsk {
            automation: self.automation.id,
            identifier: Some("acme/shop".to_owned()),
            branch: None,
            context: Map::new(),
            key: None,
            secrets,
        };
        self.door.app.pull_request_create(&self.door.admin, ask, false).await
    }

    /// A host has it, and says that it stands so.
    async fn end(&self, id: PullRequestId, status: PrStatus) {
        let at = self.door.app.now();
        let commit = "a".repeat(40);
        let generated = PrGenerated { commit: commit.clone(), templates: commit, files: Vec::new() };
        let work = PrWork { generated: Some(generated), ..PrWork::default() };
        self.door.database.pull_request_step(id, &work, None, at).await.unwrap();
        let url = format!("https://github.com/acme/shop/pull/{id}");
        let end = PullRequestEnd::Opened { url, title: "Add".to_owned(), status };
        self.door.database.pull_request_end(id, &end, &[], at).await.unwrap();
    }

    /// What is read back of one that is open says that it is merged.
    async fn read_merged(&self, id: PullRequestId, at: DateTime<Utc>) {
        let settled = PrSettled { status: PrStatus::Merged, commit: None, base: Some("main".to_owned()) };
        self.door.database.pr_instance_settle(id, &settled, at).await.unwrap();
        self.door.database.pr_instance_settle(id, &settled, at + TimeDelta::seconds(1)).await.unwrap();
    }

    async fn secret(&self, id: PullRequestId) -> PrSecret {
        self.door.app.get::<PrSecret>(&self.door.admin, &id).await.unwrap()
    }

    /// What the agent is told that says this: by pull request, the values, or nothing where it is to be deleted.
    async fn poll(
        &self,
        told: Vec<PrSecretTold>,
    ) -> BTreeMap<PullRequestId, Option<BTreeMap<String, String>>> {
        let wanted = self.door.app.agent_secrets(&self.agent, told, true).await.unwrap();
        let values = |values: BTreeMap<String, secrecy::SecretString>| {
            values.into_iter().map(|(name, value)| (name, value.expose_secret().to_owned())).collect()
        };
        wanted.into_iter().map(|one| (one.id, one.values.map(values))).collect()
    }

    /// An instance whose Secret is in its cluster.
    async fn made(&self) -> (PrInstanceId, PullRequestId) {
        let begun = self.create(json!({"user": VALUE})).await.unwrap();
        self.end(begun.id, PrStatus::Merged).await;
        self.poll(told(begun.id, PrSecretOutcome::Written, None)).await;
        (self.instance(begun.id).await, begun.id)
    }

    /// What a pull request generated.
    async fn instance(&self, of: PullRequestId) -> PrInstanceId {
        let filter = PrInstanceFilter { pull_request_id: Some(of), ..PrInstanceFilter::default() };
        let (app, by) = (&self.door.app, &self.door.admin);
        let page = app.list::<PrInstance>(by, &filter, &PageArgs::default()).await.unwrap();
        page.into_nodes().remove(0).id
    }

    /// Another version of the automation, with another Secret.
    async fn asks(&self, name: &str, entries: &[&str]) {
        let entry = |name: &&str| PrSecretEntry { name: (*name).to_owned(), ..PrSecretEntry::default() };
        let secrets = PrSecrets {
            cluster: Some("blue".to_owned()),
            namespace: Some("apps".to_owned()),
            name: Some(name.to_owned()),
            entries: entries.iter().map(entry).collect(),
        };
        self.changes(if entries.is_empty() { PrSecrets::default() } else { secrets }).await;
    }

    async fn changes(&self, secrets: PrSecrets) {
        self.becomes(PrAutomationSpecChange { secrets: Some(secrets), ..PrAutomationSpecChange::default() })
            .await;
    }

    async fn becomes(&self, spec: PrAutomationSpecChange) {
        let change = PrAutomationChange { spec, ..PrAutomationChange::default() };
        self.door.app.pr_automation_update(&self.door.admin, self.automation.id, change).await.unwrap();
    }

    async fn upgrade(&self, id: PrInstanceId, secrets: Value) -> Result<PullRequest> {
        self.door.app.pr_instance_upgrade(&self.door.admin, ask(id, secrets), false).await
    }

    async fn mark(&self) -> u64 {
        self.door.database.pr_secrets_mark(self.cluster.id).await.unwrap()
    }
}

fn ask(id: PrInstanceId, secrets: Value) -> PrInstanceAsk {
    let Value::Object(secrets) = secrets else { panic!("no object: {secrets}") };
    let context = Map::new();
    PrInstanceAsk { id, context, allow_conflicts: false, overwrite: false, secrets, key: None }
}

fn told(id: PullRequestId, outcome: PrSecretOutcome, message: Option<&str>) -> Vec<PrSecretTold> {
    vec![PrSecretTold { id, outcome, message: message.map(str::to_owned) }]
}

async fn values_are_kept_from_the_request_until_the_cluster_has_them(database: TestDatabase) {
    let w = World::new(database).await;
    let begun = w.create(json!({"user": VALUE})).await.unwrap();
    let waiting = w.secret(begun.id).await;
    assert_eq!((waiting.state, waiting.cluster_id), (PrSecretState::Waiting, w.cluster.id));
    assert_eq!((waiting.namespace.as_str(), waiting.name.as_str()), ("apps", "db"));
    let names: Vec<(&str, bool)> =
        waiting.entries.iter().map(|entry| (entry.name.as_str(), entry.generated)).collect();
    assert_eq!(names, [("user", false), ("password", true)]);
    w.end(begun.id, PrStatus::Open).await;
    assert!(w.poll(Vec::new()).await.is_empty() && w.mark().await == 0, "before the merge nobody gets it");

    let at = w.door.app.now();
    w.read_merged(begun.id, at).await;
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Due);
    assert_ne!(w.mark().await, 0);
    let due = w.door.database.pr_secrets_due(w.cluster.id, w.cluster.project_id, 10).await.unwrap();
    let sealed = due[0].content.as_ref().unwrap().as_bytes().to_vec();
    assert!(!sealed.windows(VALUE.len()).any(|part| part == VALUE.as_bytes()), "in clear in the database");
    let wanted = w.poll(Vec::new()).await;
    let values = wanted[&begun.id].clone().unwrap();
    assert_eq!((values["user"].as_str(), values["password"].len()), (VALUE, 32));
    assert_eq!(w.poll(Vec::new()).await, wanted, "asked again, the same");

    // It is told why it waits, and by its own agent alone that it is done.
    w.poll(told(begun.id, PrSecretOutcome::Waits, Some("namespace apps is not there yet"))).await;
    assert_eq!(w.secret(begun.id).await.message.as_deref(), Some("namespace apps is not there yet"));
    let other = w.door.cluster("green").await;
    let other = w.door.app.agent_authenticate(other.deploy_token.expose_secret()).unwrap();
    let foreign = told(begun.id, PrSecretOutcome::Written, None);
    assert!(w.door.app.agent_secrets(&other, foreign, true).await.unwrap().is_empty());
    w.poll(told(begun.id, PrSecretOutcome::Deleted, None)).await;
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Due, "nobody asked for that");
    assert!(w.poll(told(begun.id, PrSecretOutcome::Written, None)).await.is_empty());
    let written = w.secret(begun.id).await;
    assert_eq!((written.state, written.message.as_deref()), (PrSecretState::Written, None));
    assert_eq!(w.mark().await, 0);
    let page = w.door.app.audit_list(&w.door.admin, &PageArgs::default()).await.unwrap();
    let lines: Vec<String> = page
        .into_nodes()
        .into_iter()
        .map(|line| format!("{line:?}"))
        .filter(|line| line.contains("pullRequest.secret"))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("apps/db") && !lines[0].contains(VALUE), "{lines:?}");
}

async fn what_is_taken_away_is_deleted(database: TestDatabase) {
    let w = World::new(database).await;
    let begun = w.create(json!({"user": VALUE})).await.unwrap();
    w.end(begun.id, PrStatus::Merged).await;
    w.poll(told(begun.id, PrSecretOutcome::Written, None)).await;
    let filter = PrInstanceFilter::default();
    let page = w.door.app.list::<PrInstance>(&w.door.admin, &filter, &PageArgs::default()).await.unwrap();
    let id = page.into_nodes().remove(0).id;
    let gone = w.door.app.pr_instance_uninstall(&w.door.admin, ask(id, json!({})), false).await.unwrap();
    assert!(w.poll(Vec::new()).await.is_empty(), "it is not merged yet");
    // Nothing is left to change in the repository: what the instance is follows without a pull request.
    let at = w.door.app.now();
    let commit = "b".repeat(40);
    let generated = PrGenerated { commit: commit.clone(), templates: commit, files: Vec::new() };
    let work = PrWork { generated: Some(generated), unneeded: true, ..PrWork::default() };
    w.door.database.pull_request_step(gone.id, &work, None, at).await.unwrap();
    let end = PullRequestEnd::Failed { error: "no pull request is needed".to_owned() };
    w.door.database.pull_request_end(gone.id, &end, &[], at).await.unwrap();
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Deleting);
    assert_ne!(w.mark().await, 0);
    assert_eq!(w.poll(told(begun.id, PrSecretOutcome::Written, None)).await[&begun.id], None);
    assert!(w.poll(told(begun.id, PrSecretOutcome::Deleted, None)).await.is_empty());
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Deleted);
}

async fn values_are_forgotten_with_a_pull_request_that_is_closed(database: TestDatabase) {
    let w = World::new(database).await;
    let begun = w.create(json!({"user": VALUE})).await.unwrap();
    w.end(begun.id, PrStatus::Closed).await;
    let closed = w.secret(begun.id).await;
    assert_eq!(closed.state, PrSecretState::Forgotten);
    assert!(closed.message.as_deref().unwrap().contains("forgotten when the pull request was closed"));
    // Opened again and merged, it has none.
    w.read_merged(begun.id, w.door.app.now()).await;
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Forgotten);
    assert!(w.poll(Vec::new()).await.is_empty());
    // So it is with one that was never opened.
    let failed = w.create(json!({"user": VALUE})).await.unwrap();
    let end = PullRequestEnd::Failed { error: "the host refuses".to_owned() };
    w.door.database.pull_request_end(failed.id, &end, &[], w.door.app.now()).await.unwrap();
    assert_eq!(w.secret(failed.id).await.state, PrSecretState::Forgotten);
}

async fn a_merge_into_another_branch_brings_and_takes_nothing(database: TestDatabase) {
    let w = World::new(database).await;
    let settle = async |id: PullRequestId, base: &str| {
        let settled = PrSettled { status: PrStatus::Merged, commit: None, base: Some(base.to_owned()) };
        w.door.database.pr_instance_settle(id, &settled, w.door.app.now()).await.unwrap();
    };
    // Its author had it go to a branch that nobody protects.
    let begun = w.create(json!({"user": VALUE})).await.unwrap();
    w.end(begun.id, PrStatus::Open).await;
    settle(begun.id, "mine").await;
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Forgotten);
    assert!(w.poll(Vec::new()).await.is_empty());

    let merged = w.create(json!({"user": VALUE})).await.unwrap();
    w.end(merged.id, PrStatus::Open).await;
    settle(merged.id, "main").await;
    w.poll(told(merged.id, PrSecretOutcome::Written, None)).await;
    let filter = PrInstanceFilter { pull_request_id: Some(merged.id), ..PrInstanceFilter::default() };
    let page = w.door.app.list::<PrInstance>(&w.door.admin, &filter, &PageArgs::default()).await.unwrap();
    let id = page.into_nodes().remove(0).id;
    let gone = w.door.app.pr_instance_uninstall(&w.door.admin, ask(id, json!({})), false).await.unwrap();
    w.end(gone.id, PrStatus::Open).await;
    settle(gone.id, "mine").await;
    assert_eq!(w.secret(merged.id).await.state, PrSecretState::Written);
    settle(gone.id, "main").await;
    assert_eq!(w.secret(merged.id).await.state, PrSecretState::Deleting);
}

async fn values_are_forgotten_after_a_while(database: TestDatabase) {
    let w = World::new(database).await;
    let (open, merged, written) = (
        w.create(json!({"user": VALUE})).await.unwrap(),
        w.create(json!({"user": VALUE})).await.unwrap(),
        w.create(json!({"user": VALUE})).await.unwrap(),
    );
    w.end(written.id, PrStatus::Merged).await;
    w.poll(told(written.id, PrSecretOutcome::Written, None)).await;
    w.end(merged.id, PrStatus::Merged).await;
    let (at, store) = (w.door.app.now(), &w.door.database);
    assert_eq!(store.pr_secrets_forget(at - KEPT, at).await.unwrap(), 0);
    assert_eq!(store.pr_secrets_forget(at + TimeDelta::seconds(1), at).await.unwrap(), 2);
    for (of, expected) in [
        (open.id, PrSecretState::Forgotten),
        (merged.id, PrSecretState::Forgotten),
        (written.id, PrSecretState::Written),
    ] {
        assert_eq!(w.secret(of).await.state, expected);
    }
    assert!(w.poll(Vec::new()).await.is_empty());
}

async fn what_an_earlier_release_records_of_an_instance_reaches_its_secret(database: TestDatabase) {
    let w = World::new(database).await;
    let begun = w.create(json!({"user": VALUE})).await.unwrap();
    w.end(begun.id, PrStatus::Open).await;
    let (at, store) = (w.door.app.now(), &w.door.database);
    // It does not know of Secrets, nor that a merge into another branch brings nothing.
    run(&w.door, "UPDATE pr_instances SET state = 'ACTIVE'").await;
    run(&w.door, "UPDATE pull_requests SET facts = '{\"base\": \"mine\"}'").await;
    assert_eq!(store.pr_secrets_forget(at - KEPT, at).await.unwrap(), 0);
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Waiting);
    run(&w.door, "UPDATE pull_requests SET facts = '{\"base\": \"main\"}'").await;
    assert_eq!(store.pr_secrets_forget(at - KEPT, at).await.unwrap(), 0);
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Due);
    assert_ne!(w.mark().await, 0);
    w.poll(told(begun.id, PrSecretOutcome::Written, None)).await;
    run(&w.door, "UPDATE pr_instances SET state = 'REMOVED'").await;
    assert_eq!(store.pr_secrets_forget(at - KEPT, at).await.unwrap(), 0);
    assert_eq!(w.secret(begun.id).await.state, PrSecretState::Deleting);
}

async fn what_cannot_be_made_is_refused_at_once(database: TestDatabase) {
    let w = World::new(database).await;
    for (given, why) in [
        (json!({}), "needs a value for: user"),
        (json!({"user": VALUE, "other": VALUE}), "asks for: user, password"),
        (json!({"user": [VALUE]}), "needs a text for user"),
    ] {
        let refused = w.create(given).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{refused:?}");
        let said = refused.to_string();
        assert!(said.contains(why) && !said.contains(VALUE), "{said}");
    }
    let limits = |namespaces: &[&str]| ProjectLimits {
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        ..ProjectLimits::default()
    };
    let selector = ProjectSelector::Id(w.cluster.project_id);
    let set = async |limits: ProjectLimits| {
        w.door.app.project_limits_set(&w.door.admin, &selector, &limits).await.unwrap();
    };
    set(limits(&["web-*"])).await;
    let refused = w.create(json!({"user": VALUE})).await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    set(limits(&["apps"])).await;
    w.create(json!({"user": VALUE})).await.unwrap();
    // Limits that came since hold at the agent, too, which is sent them.
    let page = PageArgs::default();
    let all =
        w.door.app.list::<PullRequest>(&w.door.admin, &PullRequestFilter::default(), &page).await.unwrap();
    assert_eq!(all.into_nodes().len(), 1, "what is refused leaves nothing");
}

async fn an_upgrade_brings_its_secret_with_the_merge_and_keeps_what_nobody_gives_anew(
    database: TestDatabase,
) {
    let w = World::new(database).await;
    let (id, first) = w.made().await;
    w.asks("db", &["password", "host"]).await;
    for (given, why) in [
        (json!({}), "needs a value for: host"),
        (json!({"host": VALUE, "user": VALUE}), "asks for: password, host"),
    ] {
        let refused = w.upgrade(id, given).await.unwrap_err().to_string();
        assert!(refused.contains(why) && !refused.contains(VALUE), "{refused}");
    }
    let next = w.upgrade(id, json!({"host": VALUE})).await.unwrap().id;
    w.end(next, PrStatus::Open).await;
    let waiting = w.secret(next).await;
    assert_eq!((waiting.state, waiting.previous), (PrSecretState::Waiting, Some(first)));
    let entries: Vec<_> = waiting.entries.iter().map(|one| (one.name.as_str(), one.kept)).collect();
    assert_eq!(entries, [("password", true), ("host", false)]);
    assert!(w.poll(Vec::new()).await.is_empty() && w.mark().await == 0, "before the merge nobody gets it");

    w.read_merged(next, w.door.app.now()).await;
    assert_eq!(w.secret(next).await.state, PrSecretState::Due);
    // An agent that cannot change one is not told of it.
    assert!(w.door.app.agent_secrets(&w.agent, Vec::new(), false).await.unwrap().is_empty());
    assert!(w.secret(next).await.message.unwrap().contains("update the agent"));
    let wanted = w.door.app.agent_secrets(&w.agent, Vec::new(), true).await.unwrap().remove(0);
    assert_eq!((wanted.id, wanted.previous, wanted.kept), (next, Some(first), vec!["password".to_owned()]));
    let values = wanted.values.unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["host"]);
    assert_eq!(values["host"].expose_secret(), VALUE);
    assert_eq!(w.secret(first).await.state, PrSecretState::Written, "until the other one is there");
    let early = w.upgrade(id, json!({"host": VALUE})).await.unwrap_err().to_string();
    assert!(early.contains("is not in its cluster yet"), "{early}");
    assert!(w.poll(told(next, PrSecretOutcome::Written, None)).await.is_empty(), "nothing is deleted");
    assert_eq!(w.secret(next).await.state, PrSecretState::Written);
    assert_eq!(w.secret(first).await.state, PrSecretState::Deleted);

    // Another value alone is an upgrade, too; without one, the Secret stays as it is.
    assert!(matches!(w.upgrade(id, json!({})).await, Err(Error::Conflict { .. })));
    let third = w.upgrade(id, json!({"host": "another"})).await.unwrap().id;
    w.end(third, PrStatus::Merged).await;
    w.poll(told(third, PrSecretOutcome::Written, None)).await;
    let gone = w.door.app.pr_instance_uninstall(&w.door.admin, ask(id, json!({})), false).await.unwrap();
    w.end(gone.id, PrStatus::Merged).await;
    let wanted = w.poll(Vec::new()).await;
    assert_eq!(wanted.keys().collect::<Vec<_>>(), [&third], "the others are gone");
}

async fn an_upgrade_that_is_not_merged_changes_no_secret(database: TestDatabase) {
    let w = World::new(database).await;
    let (id, first) = w.made().await;
    w.asks("db", &["host"]).await;
    let closed = w.upgrade(id, json!({"host": VALUE})).await.unwrap().id;
    w.end(closed, PrStatus::Closed).await;
    assert_eq!(w.secret(closed).await.state, PrSecretState::Forgotten);
    // Opened again and merged, it has no values any more, and what is there stays.
    w.read_merged(closed, w.door.app.now()).await;
    assert_eq!(w.secret(closed).await.state, PrSecretState::Forgotten);
    assert_eq!(w.secret(first).await.state, PrSecretState::Written);
    assert!(w.poll(Vec::new()).await.is_empty());
    // It is brought once it is given.
    let given = w.upgrade(id, json!({"host": VALUE})).await.unwrap().id;
    w.end(given, PrStatus::Open).await;
    let (at, store) = (w.door.app.now(), &w.door.database);
    assert_eq!(store.pr_secrets_forget(at - KEPT, at).await.unwrap(), 0);
    assert_eq!(w.secret(given).await.state, PrSecretState::Waiting);
    assert_eq!(store.pr_secrets_forget(at + TimeDelta::seconds(1), at).await.unwrap(), 1);
    assert_eq!(w.secret(given).await.state, PrSecretState::Forgotten);
}

async fn an_upgrade_to_another_place_or_to_none_takes_the_one_of_before_away(database: TestDatabase) {
    let w = World::new(database).await;
    let (id, first) = w.made().await;
    w.asks("other", &["user"]).await;
    let refused = w.upgrade(id, json!({})).await.unwrap_err().to_string();
    assert!(refused.contains("needs a value for: user"), "another place has no values: {refused}");
    let moved = w.upgrade(id, json!({"user": VALUE})).await.unwrap().id;
    w.end(moved, PrStatus::Merged).await;
    assert_eq!(w.poll(Vec::new()).await.keys().collect::<Vec<_>>(), [&moved]);
    let wanted = w.poll(told(moved, PrSecretOutcome::Written, None)).await;
    assert_eq!(wanted, BTreeMap::from([(first, None)]), "once the other is there");
    assert!(w.poll(told(first, PrSecretOutcome::Deleted, None)).await.is_empty());

    w.asks("", &[]).await;
    let refused = w.upgrade(id, json!({"user": VALUE})).await.unwrap_err().to_string();
    assert!(refused.contains("asks for no Secret"), "{refused}");
    let none = w.upgrade(id, json!({})).await.unwrap().id;
    w.end(none, PrStatus::Open).await;
    assert!(w.poll(Vec::new()).await.is_empty(), "it is not merged yet");
    w.read_merged(none, w.door.app.now()).await;
    assert_eq!(w.poll(Vec::new()).await, BTreeMap::from([(moved, None)]));
}

async fn what_an_earlier_build_records_of_an_upgrade_reaches_its_secret(database: TestDatabase) {
    let w = World::new(database).await;
    let (id, _) = w.made().await;
    w.asks("db", &["host"]).await;
    let next = w.upgrade(id, json!({"host": VALUE})).await.unwrap().id;
    w.end(next, PrStatus::Open).await;
    let (at, store) = (w.door.app.now(), &w.door.database);
    run(&w.door, "UPDATE pr_instances SET pull_request_id = change_id, change_id = NULL").await;
    assert_eq!(store.pr_secrets_forget(at - KEPT, at).await.unwrap(), 0);
    assert_eq!(w.secret(next).await.state, PrSecretState::Due);
    assert_ne!(w.mark().await, 0);
}

async fn a_secret_that_is_not_written_stops_no_upgrade_that_needs_nothing_of_it(database: TestDatabase) {
    let w = World::new(database).await;
    let (id, first) = w.made().await;
    w.asks("db", &["user", "password"]).await;
    let next = w.upgrade(id, json!({"user": VALUE})).await.unwrap().id;
    w.end(next, PrStatus::Merged).await;
    w.poll(told(next, PrSecretOutcome::Waits, Some("the cluster answers 403"))).await;

    // Another version, with the same Secret.
    let title = Some("Add more".to_owned());
    w.becomes(PrAutomationSpecChange { title, ..PrAutomationSpecChange::default() }).await;
    let plain = w.upgrade(id, json!({})).await.unwrap().id;
    w.end(plain, PrStatus::Merged).await;
    assert_eq!(w.secret(next).await.state, PrSecretState::Due);

    let refused = w.upgrade(id, json!({"user": "another"})).await.unwrap_err().to_string();
    assert!(refused.contains("not in its cluster yet (the cluster answers 403)"), "{refused}");
    assert!(refused.ends_with("give all values anew: password"), "{refused}");
    let third = w.upgrade(id, json!({"user": "another", "password": "given"})).await.unwrap().id;
    w.end(third, PrStatus::Merged).await;
    let entries = w.secret(third).await.entries;
    assert!(entries.iter().all(|one| !one.kept), "{entries:?}");
    assert_eq!(w.secret(third).await.previous, Some(first), "what the cluster has");
    assert_eq!(w.poll(Vec::new()).await.len(), 2);
    // The one between was written after all: the last one takes its place.
    w.poll(told(next, PrSecretOutcome::Written, None)).await;
    assert_eq!(w.secret(third).await.previous, Some(next));
    assert!(w.poll(told(third, PrSecretOutcome::Written, None)).await.is_empty());
    for (of, expected) in
        [(first, PrSecretState::Deleted), (next, PrSecretState::Deleted), (third, PrSecretState::Written)]
    {
        assert_eq!(w.secret(of).await.state, expected);
    }
}

async fn values_that_were_forgotten_are_asked_for_once_more(database: TestDatabase) {
    let w = World::new(database).await;
    let begun = w.create(json!({"user": VALUE})).await.unwrap();
    w.end(begun.id, PrStatus::Merged).await;
    let (at, id) = (w.door.app.now(), w.instance(begun.id).await);
    assert_eq!(w.door.database.pr_secrets_forget(at + TimeDelta::seconds(1), at).await.unwrap(), 1);
    let refused = w.upgrade(id, json!({})).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { .. }), "{refused:?}");
    let told = refused.to_string();
    assert!(told.contains("needs a value for: user") && told.contains("are forgotten"), "{told}");
    let next = w.upgrade(id, json!({"user": VALUE})).await.unwrap().id;
    w.end(next, PrStatus::Merged).await;
    let next = w.secret(next).await;
    assert_eq!((next.state, next.previous), (PrSecretState::Due, None));
}

async fn the_last_one_takes_the_place_whatever_the_clocks_of_consoles_say(database: TestDatabase) {
    let w = World::new(database).await;
    let (id, first) = w.made().await;
    // The console that was asked for it was ahead of this one.
    run(&w.door, "UPDATE pr_secrets SET created_at = '2099-01-01T00:00:00+00:00'").await;
    w.asks("db", &["host"]).await;
    let next = w.upgrade(id, json!({"host": VALUE})).await.unwrap().id;
    w.end(next, PrStatus::Merged).await;
    w.poll(told(next, PrSecretOutcome::Written, None)).await;
    assert_eq!(w.secret(first).await.state, PrSecretState::Deleted);
    // What is upgraded next is the newest.
    let third = w.upgrade(id, json!({"host": "another"})).await.unwrap().id;
    assert_eq!(w.secret(third).await.previous, Some(next));
}
