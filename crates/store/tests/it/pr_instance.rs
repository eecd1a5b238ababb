//! The ledger of what pull requests of automations generated: it follows their records, in the same transactions.

use plural_app::pr_instance::{PrInstanceFilter, PrInstanceStore as _, PrSettled};
use plural_app::pr_instance_change::PrInstanceAsk;
use plural_app::pull_request::{PullRequestEnd, PullRequestStore as _};
use plural_app::pull_request_open::PullRequestAsk;
use plural_app::scm_connection::NewScmSecrets;
use plural_core::form::FormQuestion;
use plural_core::ids::{PrInstanceId, PullRequestId};
use plural_core::policy::BindingsChange;
use plural_core::pr_automation::{
    NewPrAutomation, PrAutomation, PrAutomationChange, PrAutomationLinksChange,
};
use plural_core::pr_automation_spec::PrAutomationSpecChange;
use plural_core::pr_instance::{PrGenerated, PrInstance, PrInstanceFile, PrInstanceState, PrParts};
use plural_core::pull_request::{PrStatus, PrWork, PullRequest};
use plural_core::scm_connection::{NewScmConnection, ScmSpecChange, ScmType};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::ConnectionTrait as _;
use serde_json::{Map, Value, json};

use crate::door::Door;

each_database!(
    an_instance_follows_its_pull_request,
    an_upgrade_is_there_once_it_is_merged,
    what_is_not_opened_generates_nothing,
    files_of_others_are_known,
    an_instance_outlives_its_automation,
    what_came_from_elsewhere_is_of_one_version,
);

const SECRET: &str = "s3cr3t-answer-1f2e3d";

async fn automation(door: &Door) -> PrAutomation {
    let project = door.project("team").await;
    let new = NewScmConnection {
        name: "github".parse().unwrap(),
        kind: ScmType::Github,
        project_id: Some(project.id),
        is_default: false,
        spec: ScmSpecChange {
            repositories: Some(vec!["acme/*".parse().unwrap()]),
            ..ScmSpecChange::default()
        },
    };
    let secrets = NewScmSecrets { token: Some("a-token".into()), ..NewScmSecrets::default() };
    let connection = door.app.scm_connection_create(&door.admin, new, secrets).await.unwrap();
    let questions: Vec<FormQuestion> = serde_json::from_value(json!([
        {"name": "name", "type": "STRING"}, {"name": "key", "type": "PASSWORD", "optional": true},
    ]))
    .unwrap();
    let new = NewPrAutomation {
        name: "add".parse().unwrap(),
        project_id: Some(project.id),
        role: None,
        links: PrAutomationLinksChange {
            connection_id: Some(connection.id),
            ..PrAutomationLinksChange::default()
        },
        spec: PrAutomationSpecChange {
            title: Some("Add".to_owned()),
            message: Some("Adds".to_owned()),
            configuration: Some(questions),
            ..PrAutomationSpecChange::default()
        },
        merge_windows: None,
        bindings: BindingsChange::default(),
    };
    door.app.pr_automation_create(&door.admin, new).await.unwrap()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("no object: {other}"),
    }
}

async fn begin(door: &Door, automation: &PrAutomation, context: Value) -> PullRequest {
    let ask = PullRequestAsk {
        automation: automation.id,
        identifier: Some("acme/shop".to_owned()),
        branch: None,
        context: object(context),
        key: None,
        secrets: serde_json::Map::new(),
    };
    door.app.pull_request_create(&door.admin, ask, false).await.unwrap()
}

/// A host has it, with one file that is generated.
async fn open(door: &Door, id: PullRequestId, path: &str, status: PrStatus) {
    let at = door.app.now();
    let file = PrInstanceFile { path: path.to_owned(), digest: Some("d".repeat(64)), is_new: true };
    let generated = PrGenerated { commit: "a".repeat(40), templates: "b".repeat(40), files: vec![file] };
    let work = PrWork { generated: Some(generated), ..PrWork::default() };
    door.database.pull_request_step(id, &work, None, at).await.unwrap();
    let url = format!("https://github.com/acme/shop/pull/{id}");
    let end = PullRequestEnd::Opened { url, title: "Add".to_owned(), status };
    door.database.pull_request_end(id, &end, &[], at).await.unwrap();
}

async fn settle(door: &Door, id: PullRequestId, status: PrStatus, commit: Option<&str>) {
    let settled = PrSettled { status, commit: commit.map(str::to_owned), base: None };
    door.database.pr_instance_settle(id, &settled, door.app.now()).await.unwrap();
}

async fn listed(door: &Door, filter: PrInstanceFilter) -> Vec<PrInstance> {
    door.app.list::<PrInstance>(&door.admin, &filter, &PageArgs::default()).await.unwrap().into_nodes()
}

async fn only(door: &Door) -> PrInstance {
    let mut all = listed(door, PrInstanceFilter::default()).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

async fn outdated(door: &Door) -> usize {
    let of = |outdated| PrInstanceFilter { outdated: Some(outdated), ..PrInstanceFilter::default() };
    let (old, new) = (listed(door, of(true)).await.len(), listed(door, of(false)).await.len());
    assert_eq!(old + new, listed(door, PrInstanceFilter::default()).await.len());
    old
}

async fn change(door: &Door, automation: &PrAutomation, spec: PrAutomationSpecChange) -> PrAutomation {
    let change = PrAutomationChange { spec, ..PrAutomationChange::default() };
    door.app.pr_automation_update(&door.admin, automation.id, change).await.unwrap()
}

fn message(text: &str) -> PrAutomationSpecChange {
    PrAutomationSpecChange { message: Some(text.to_owned()), ..PrAutomationSpecChange::default() }
}

fn ask(id: PrInstanceId, context: Value) -> PrInstanceAsk {
    let (context, secrets) = (object(context), Map::new());
    PrInstanceAsk { id, context, allow_conflicts: false, overwrite: false, secrets, key: None }
}

async fn an_instance_follows_its_pull_request(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let begun = begin(&door, &automation, json!({"name": "shop", "key": SECRET})).await;
    let pending = only(&door).await;
    assert_eq!((pending.state, pending.pull_request_id), (PrInstanceState::Pending, Some(begun.id)));
    assert_eq!((pending.repository.as_str(), pending.base.as_str()), ("acme/shop", "main"));
    assert_eq!(pending.made.version.revision, 1);
    assert_eq!(pending.made.version.digest, automation.spec.digest().unwrap());
    assert_eq!(pending.made.version.spec, automation.spec);
    assert_eq!(pending.made.version.parts, Some(PrParts::default()), "it takes nothing from elsewhere");
    let of = |id| PrInstanceFilter { pull_request_id: Some(id), ..PrInstanceFilter::default() };
    assert_eq!(listed(&door, of(begun.id)).await, std::slice::from_ref(&pending));
    assert!(listed(&door, of(PullRequestId::new())).await.is_empty());
    assert_eq!(Value::Object(pending.made.answers.known.clone()), json!({"name": "shop"}));
    assert_eq!(pending.made.answers.secret, ["key"]);
    assert!(!format!("{pending:?}").contains(SECRET));

    open(&door, begun.id, "apps/shop.yaml", PrStatus::Open).await;
    let opened = only(&door).await;
    assert_eq!(opened.state, PrInstanceState::Pending);
    assert_eq!(opened.base_commit, Some("a".repeat(40)));
    assert_eq!(opened.made.version.templates, Some("b".repeat(40)));
    assert_eq!((opened.made.files.len(), opened.path()), (1, "apps"));

    // Closed, opened again, merged; whatever comes twice or late changes nothing.
    settle(&door, begun.id, PrStatus::Closed, None).await;
    assert_eq!(only(&door).await.state, PrInstanceState::Abandoned);
    settle(&door, begun.id, PrStatus::Open, None).await;
    assert_eq!(only(&door).await.state, PrInstanceState::Pending);
    settle(&door, begun.id, PrStatus::Merged, None).await;
    settle(&door, begun.id, PrStatus::Merged, Some("c0ffee")).await;
    settle(&door, begun.id, PrStatus::Closed, None).await;
    let merged = only(&door).await;
    assert_eq!((merged.state, merged.commit.as_deref()), (PrInstanceState::Active, Some("c0ffee")));

    // A version is what is generated, and not what is said about it.
    assert_eq!(outdated(&door).await, 0);
    let told = PrAutomationSpecChange {
        documentation: Some("More".to_owned()),
        ..PrAutomationSpecChange::default()
    };
    assert_eq!(change(&door, &automation, told).await.revision, 1);
    assert_eq!(outdated(&door).await, 0);
    assert_eq!(change(&door, &automation, message("Other")).await.revision, 2);
    assert_eq!(outdated(&door).await, 1);
    assert_eq!(change(&door, &automation, message("Adds")).await.revision, 3);
    assert_eq!(outdated(&door).await, 0, "it is as it was");
}

async fn an_upgrade_is_there_once_it_is_merged(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let begun = begin(&door, &automation, json!({"name": "shop", "key": SECRET})).await;
    let instance = only(&door).await;
    let upgrade =
        async |context| door.app.pr_instance_upgrade(&door.admin, ask(instance.id, context), false).await;
    let early = upgrade(json!({})).await;
    assert!(matches!(early, Err(Error::Conflict { .. })), "{early:?}");
    open(&door, begun.id, "apps/shop.yaml", PrStatus::Merged).await;
    assert_eq!(only(&door).await.state, PrInstanceState::Active);

    let missing = upgrade(json!({})).await.unwrap_err().to_string();
    assert!(missing.starts_with("context") && missing.contains("key"), "{missing}");
    let same = upgrade(json!({"key": SECRET})).await;
    assert!(matches!(same, Err(Error::Conflict { .. })), "{same:?}");
    let questions: Vec<FormQuestion> = serde_json::from_value(json!([
        {"name": "name", "type": "STRING"}, {"name": "region", "type": "STRING"},
    ]))
    .unwrap();
    let spec = PrAutomationSpecChange { configuration: Some(questions), ..message("Other") };
    let newer = change(&door, &automation, spec).await;
    let unanswered = upgrade(json!({"key": SECRET})).await.unwrap_err().to_string();
    assert!(unanswered.contains("region needs an answer"), "{unanswered}");

    let opened = upgrade(json!({"key": SECRET, "region": "eu"})).await.unwrap();
    let again = upgrade(json!({"key": SECRET, "region": "eu"})).await.unwrap_err().to_string();
    assert!(again.contains("being opened already"), "{again}");
    let pending = door.database.pull_request_pending(opened.id).await.unwrap().unwrap();
    assert!(!pending.asked.as_bytes().windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
    open(&door, opened.id, "apps/shop/app.yaml", PrStatus::Open).await;
    let again = upgrade(json!({"key": SECRET, "region": "eu"})).await.unwrap_err().to_string();
    assert!(again.contains("is open already: https://"), "{again}");
    let waiting = only(&door).await;
    assert_eq!((waiting.made.version.revision, waiting.path()), (1, "apps"));
    assert_eq!(waiting.change.as_ref().map(|change| change.pull_request_id), Some(opened.id));

    settle(&door, opened.id, PrStatus::Merged, Some("c0ffee")).await;
    settle(&door, opened.id, PrStatus::Merged, Some("c0ffee")).await;
    let upgraded = only(&door).await;
    assert_eq!((upgraded.id, upgraded.state), (instance.id, PrInstanceState::Active));
    assert_eq!((upgraded.made.version.revision, upgraded.path()), (2, "apps/shop"));
    assert_eq!(upgraded.made.version.digest, newer.spec.digest().unwrap());
    assert_eq!(Value::Object(upgraded.made.answers.known.clone()), json!({"name": "shop", "region": "eu"}));
    assert!(upgraded.made.answers.secret.is_empty() && upgraded.change.is_none());
    assert_eq!((upgraded.commit.as_deref(), outdated(&door).await), (Some("c0ffee"), 0));
    assert_eq!(upgraded.base_commit, waiting.base_commit, "versions are compared on the same commit");

    let gone = door.app.pr_instance_uninstall(&door.admin, ask(instance.id, json!({})), false).await.unwrap();
    open(&door, gone.id, "apps/shop/app.yaml", PrStatus::Merged).await;
    assert_eq!(only(&door).await.state, PrInstanceState::Removed);
    let late = upgrade(json!({})).await;
    assert!(matches!(late, Err(Error::Conflict { .. })), "{late:?}");
}

async fn what_is_not_opened_generates_nothing(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let begun = begin(&door, &automation, json!({"name": "shop"})).await;
    let failed = PullRequestEnd::Failed { error: "the host refuses".to_owned() };
    door.database.pull_request_end(begun.id, &failed, &[], door.app.now()).await.unwrap();
    assert_eq!(only(&door).await.state, PrInstanceState::Abandoned);

    // One that fails changes nothing, and does not stand in the way of the next one.
    let begun = begin(&door, &automation, json!({"name": "web"})).await;
    open(&door, begun.id, "apps/web.yaml", PrStatus::Merged).await;
    change(&door, &automation, message("Other")).await;
    let active = PrInstanceFilter { state: Some(PrInstanceState::Active), ..PrInstanceFilter::default() };
    let instance = listed(&door, active.clone()).await.remove(0);
    let upgrade =
        async || door.app.pr_instance_upgrade(&door.admin, ask(instance.id, json!({})), false).await.unwrap();
    let first = upgrade().await;
    door.database.pull_request_end(first.id, &failed, &[], door.app.now()).await.unwrap();
    assert_eq!(listed(&door, active.clone()).await[0].made, instance.made);

    // Where the repository is so already, that is recorded.
    let second = upgrade().await;
    let generated = PrGenerated { commit: "a".repeat(40), templates: "c".repeat(40), files: Vec::new() };
    let work = PrWork { generated: Some(generated), unneeded: true, ..PrWork::default() };
    door.database.pull_request_step(second.id, &work, None, door.app.now()).await.unwrap();
    door.database.pull_request_end(second.id, &failed, &[], door.app.now()).await.unwrap();
    let now = listed(&door, active).await.remove(0);
    assert_eq!((now.made.version.revision, now.made.version.templates), (2, Some("c".repeat(40))));
}

async fn files_of_others_are_known(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    for (name, status) in [("shop", PrStatus::Merged), ("web", PrStatus::Open), ("old", PrStatus::Closed)] {
        let begun = begin(&door, &automation, json!({"name": name})).await;
        open(&door, begun.id, &format!("apps/{name}.yaml"), status).await;
    }
    let active = PrInstanceFilter { state: Some(PrInstanceState::Active), ..PrInstanceFilter::default() };
    let shop = listed(&door, active).await.remove(0);
    let shared = async |repository| {
        door.database.pr_instance_shared(shop.id, shop.connection_id, repository).await.unwrap()
    };
    assert_eq!(shared("acme/shop").await, ["apps/web.yaml"], "neither its own, nor what is gone");
    assert!(shared("acme/other").await.is_empty());
}

async fn an_instance_outlives_its_automation(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let begun = begin(&door, &automation, json!({"name": "shop"})).await;
    open(&door, begun.id, "apps/shop.yaml", PrStatus::Merged).await;
    door.app.pr_automation_delete(&door.admin, automation.id).await.unwrap();
    let kept = only(&door).await;
    assert_eq!((kept.automation_id, kept.state), (None, PrInstanceState::Active));
    let refused = door.app.pr_instance_uninstall(&door.admin, ask(kept.id, json!({})), false).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    assert_eq!(outdated(&door).await, 0);
}

async fn what_came_from_elsewhere_is_of_one_version(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let begun = begin(&door, &automation, json!({"name": "shop"})).await;
    open(&door, begun.id, "apps/shop.yaml", PrStatus::Merged).await;
    let instance = only(&door).await;
    change(&door, &automation, message("Other")).await;
    let opened = door.app.pr_instance_upgrade(&door.admin, ask(instance.id, json!({})), false).await.unwrap();
    open(&door, opened.id, "apps/shop.yaml", PrStatus::Merged).await;
    let upgraded = only(&door).await;
    assert_eq!((upgraded.made.version.revision, upgraded.made.version.parts), (2, Some(PrParts::default())));
    // The release before this one upgrades without them.
    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    connection.execute_unprepared("UPDATE pr_instances SET digest = 'another'").await.unwrap();
    connection.close().await.unwrap();
    assert_eq!(only(&door).await.made.version.parts, None);
}
