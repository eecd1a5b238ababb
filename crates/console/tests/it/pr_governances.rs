//! Governance of pull requests, with one on loopback and a git host beside it: nothing is merged that it did not confirm.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use plural_testkit::{ScmDialect, ScmServer, TestDatabase, each_database, eventually};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::task::JoinHandle;

use crate::api_server::{Answer, Person, TestServer, begun_again};

each_database!(
    what_is_confirmed_is_approved_and_merged,
    a_new_head_takes_a_confirmation_back,
    another_branch_takes_a_confirmation_back,
    a_no_is_told_and_taken_back,
    what_it_answers_badly_confirms_nothing,
    no_text_names_a_governance,
    what_cannot_be_is_refused_and_changes_nothing,
    it_stays_while_something_needs_it,
);

const SECRET: &str = "0123456789abcdef-of-governance";
const STATE: &str = "st4te-of-the-governance";
/// A few pauses, which grow.
const SOON: Duration = Duration::from_mins(3);
const UPSERT: &str = "mutation ($a: PrGovernanceAttributes!) { upsertPrGovernance(attributes: $a) {
  id name type updatedAt configuration { webhook { url signed } } connection { id } project { id } } }";
const DELETE: &str = "mutation ($id: ID!) { deletePrGovernance(id: $id) { id } }";
const READ: &str = "query ($id: ID!) { pullRequest(id: $id) {
  id status head reviews { approved } governance { phase head confirmed refused message governance { name } } } }";
const MERGE: &str =
    "mutation ($id: ID!, $head: String) { mergePullRequest(id: $id, head: $head) { id status } }";
const REFRESH: &str = "mutation ($id: ID!) { refreshPullRequest(id: $id) { id head reviews { approved } } }";
const UPDATE: &str = "mutation ($id: ID!, $a: PrAutomationAttributes!) {
  updatePrAutomation(id: $id, attributes: $a) { id governance { name } } }";

/// A call that came in.
#[derive(Debug, Clone)]
struct Call {
    verb: String,
    delivery: String,
    body: Value,
}

/// What a governance knows.
#[derive(Default)]
struct Known {
    calls: Mutex<Vec<Call>>,
    /// What it answers to the question whether it confirms.
    confirm: Mutex<(u16, String)>,
    unsigned: AtomicBool,
    /// It answers nobody.
    holds: AtomicBool,
    held: AtomicBool,
}

/// A governance.
struct Board {
    url: String,
    known: Arc<Known>,
    server: JoinHandle<()>,
}

impl Drop for Board {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    State(known): State<Arc<Known>>,
    Path(verb): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let of =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    let mac = mac.chain_update(of("x-plural-timestamp")).chain_update(".").chain_update(&body);
    let expected = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
    if of("x-plural-signature-256") != expected {
        known.unsigned.store(true, Ordering::SeqCst);
    }
    let body = serde_json::from_slice(&body).unwrap();
    known.calls.lock().push(Call { verb: verb.clone(), delivery: of("x-plural-delivery"), body });
    if known.holds.load(Ordering::SeqCst) {
        known.held.store(true, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }
    let (status, text) = match verb.as_str() {
        "open" => (200, json!({"ticket": STATE}).to_string()),
        "confirm" => known.confirm.lock().clone(),
        _ => (200, String::new()),
    };
    (StatusCode::from_u16(status).unwrap(), text)
}

impl Board {
    /// One that waits.
    async fn start() -> Self {
        let known = Arc::new(Known::default());
        *known.confirm.lock() = (202, json!({"message": "waits for ada", "ticket": STATE}).to_string());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/board", listener.local_addr().unwrap());
        let router = Router::new().route("/board/v1/{verb}", post(answer)).with_state(Arc::clone(&known));
        let server = tokio::spawn(async move {
            axum::serve(listener, router.into_make_service()).await.unwrap();
        });
        Self { url, known, server }
    }

    fn answers(&self, status: u16, body: &str) {
        *self.known.confirm.lock() = (status, body.to_owned());
    }

    /// The calls of a kind.
    fn calls(&self, verb: &str) -> Vec<Call> {
        self.known.calls.lock().iter().filter(|call| call.verb == verb).cloned().collect()
    }
}

struct World {
    t: TestServer,
    host: ScmServer,
    board: Board,
    /// With which pull requests are opened.
    connection: Value,
    governance: Value,
    automation: Value,
}

impl World {
    async fn new(database: &TestDatabase) -> Self {
        Self::of(TestServer::on_with(database, |config| config.poll_seconds = 3_600).await).await
    }

    async fn of(t: TestServer) -> Self {
        let (host, board) = (ScmServer::start(ScmDialect::Gitea).unwrap(), Board::start().await);
        host.push("main", "templates/app.yaml", "name: {{ context.name }}\n");
        let connect = async |name: &str, token: String| {
            let attributes = json!({
                "name": name, "type": "GITEA", "projectId": t.project, "apiUrl": host.api_url(), "token": token,
                "repositories": ["plural/*"],
            });
            t.admin.scm_connection(&attributes).await
        };
        let connection = connect("forge", host.token()).await;
        // Whoever opens one may not approve it.
        let approver = connect("approver", host.other_token()).await;
        let attributes = governance(&approver, &board.url);
        let governance = t.admin.data(UPSERT, json!({"a": attributes})).await["upsertPrGovernance"].clone();
        let mut w = Self { t, host, board, connection, governance, automation: Value::Null };
        w.automation = w.automation("add", json!({"governanceId": w.governance["id"]})).await;
        w
    }

    async fn automation(&self, name: &str, more: Value) -> Value {
        let mut automation = json!({
            "name": name, "projectId": self.t.project, "connectionId": self.connection, "identifier": self.host.repository(),
            "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.", "labels": ["infra"],
            "configuration": [{"name": "name", "type": "STRING"}],
            "creates": {"templates": [
                {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
            ]},
        });
        automation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.t.admin.pr_automation(&automation).await
    }

    /// Opens one; its record's id.
    async fn open(&self, automation: &Value, name: &str) -> Value {
        open(&self.t.admin, automation, name).await
    }

    async fn merge(&self, id: &Value, head: &Value) -> Answer {
        self.t.admin.ask(MERGE, json!({"id": id, "head": head})).await
    }

    /// Once it is so.
    async fn until(&self, id: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&self.t.admin, id, is_so).await
    }

    /// How the check of a commit stands.
    fn check(&self, head: &Value) -> Option<String> {
        let all = self.host.statuses(head.as_str().unwrap());
        all.into_iter().rfind(|(context, _)| context == "plural/governance").map(|(_, state)| state)
    }
}

fn governance(connection: &Value, url: &str) -> Value {
    json!({
        "type": "WEBHOOK", "name": "board", "connectionId": connection,
        "configuration": {"webhook": {"url": url, "secret": SECRET}},
    })
}

async fn open(by: &Person, automation: &Value, name: &str) -> Value {
    let create =
        "mutation ($id: ID!, $context: Json) { createPullRequest(id: $id, context: $context) { id phase } }";
    let made = by.data(create, json!({"id": automation, "context": {"name": name}})).await;
    let made = &made["createPullRequest"];
    assert_eq!(made["phase"], "OPENED", "{made}");
    made["id"].clone()
}

async fn until(by: &Person, id: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(SOON, async || {
        let now = by.data(READ, json!({"id": id})).await["pullRequest"].clone();
        if is_so(&now) { Ok(now) } else { Err(now.to_string()) }
    })
    .await
}

fn is_approved(now: &Value) -> bool {
    now["governance"]["phase"] == "APPROVED"
}

async fn what_is_confirmed_is_approved_and_merged(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.open(&w.automation, "shop").await;
    let now = w.until(&id, |now| now["governance"]["message"] == "waits for ada").await;
    assert_eq!(
        (&now["governance"]["phase"], &now["governance"]["confirmed"]),
        (&json!("CONFIRM"), &Value::Null)
    );
    assert_eq!(now["governance"]["governance"]["name"], "board", "{now}");
    let head = now["head"].clone();
    assert_eq!(w.check(&head).as_deref(), Some("pending"));
    // Named or not, the head is not merged before.
    for given in [&head, &Value::Null] {
        let refused = w.merge(&id, given).await;
        assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
        let told = refused.body.to_string();
        assert!(told.contains("waits for its governance board") && told.contains("waits for ada"), "{told}");
    }
    assert_eq!(w.host.file("main", "apps/shop.yaml"), None);
    let opened = w.board.calls("open")[0].clone();
    let pr = &opened.body["pr"];
    assert_eq!((&opened.body["state"], &pr["id"]), (&Value::Null, &id), "{opened:?}");
    assert_eq!(
        (&pr["title"], &pr["sha"], &pr["status"]),
        (&json!("Add shop"), &head, &json!("open")),
        "{pr}"
    );
    assert_eq!(pr["labels"], json!(["infra"]));
    assert_eq!((&opened.body["verb"], &pr["base"]), (&json!("open"), &json!("main")), "both are signed");
    assert!(pr["body"].as_str().unwrap().starts_with("Adds shop."), "{pr}");
    assert!(pr["url"].as_str().unwrap().contains("/pulls/1") && pr["ref"].is_string(), "{pr}");
    let asked = w.board.calls("confirm")[0].clone();
    assert_eq!(asked.body["state"]["ticket"], STATE, "{asked:?}");

    w.board.answers(200, "");
    let now = w.until(&id, is_approved).await;
    assert_eq!(
        (&now["governance"]["confirmed"], &now["governance"]["message"]),
        (&head, &Value::Null),
        "{now}"
    );
    assert_eq!(w.check(&head).as_deref(), Some("success"));
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    assert_eq!(read["reviews"]["approved"], 1, "{read}");
    let merged = w.merge(&id, &head).await;
    assert_eq!(merged.outcome(), "OK", "{merged:?}");
    w.until(&id, |now| now["governance"]["phase"] == "CLOSED").await;
    let closed = w.board.calls("close")[0].clone();
    assert_eq!(closed.body["pr"]["status"], "merged", "{closed:?}");
    assert_eq!(closed.body["state"]["ticket"], STATE, "what the last answer with one said");
    assert!(!w.board.known.unsigned.load(Ordering::SeqCst), "each call is signed with its time");
    // A question that is repeated has the same name.
    let mut names: Vec<String> = w.board.calls("confirm").into_iter().map(|call| call.delivery).collect();
    names.dedup();
    assert_eq!(names.len(), 1, "{names:?}");
    w.t.stop().await;
}

async fn a_new_head_takes_a_confirmation_back(database: TestDatabase) {
    let w = World::new(&database).await;
    w.board.answers(200, "");
    let id = w.open(&w.automation, "shop").await;
    let first = w.until(&id, is_approved).await["head"].clone();
    w.board.answers(202, r#"{"message": "looks again"}"#);
    let branch = w.host.branches().into_iter().find(|branch| branch != "main").unwrap();
    w.host.push(&branch, "apps/evil.yaml", "evil: true\n");
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    let second = read["head"].clone();
    assert_ne!(first, second);
    // At once, and not only when the governance is heard again.
    let refused = w.merge(&id, &second).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.body.to_string().contains("waits for its governance board"), "{refused:?}");
    let now = w.until(&id, |now| now["governance"]["message"] == "looks again").await;
    assert_eq!(
        (&now["governance"]["head"], &now["governance"]["confirmed"]),
        (&second, &Value::Null),
        "{now}"
    );
    assert_eq!(w.check(&second).as_deref(), Some("pending"));
    // The head that was confirmed is none any longer.
    assert_eq!(w.merge(&id, &first).await.outcome(), "CONFLICT");
    assert_eq!(w.host.file("main", "apps/shop.yaml"), None);
    let opened: Vec<Value> =
        w.board.calls("open").iter().map(|call| call.body["pr"]["sha"].clone()).collect();
    assert!(opened.contains(&first) && opened.last() == Some(&second), "{opened:?}");
    w.board.answers(200, "{}");
    w.until(&id, is_approved).await;
    let merged = w.merge(&id, &second).await;
    assert_eq!(merged.outcome(), "OK", "{merged:?}");
    w.t.stop().await;
}

async fn another_branch_takes_a_confirmation_back(database: TestDatabase) {
    let w = World::new(&database).await;
    w.host.push("production", "apps/web.yaml", "name: web\n");
    w.board.answers(200, "");
    let id = w.open(&w.automation, "shop").await;
    let head = w.until(&id, is_approved).await["head"].clone();
    w.board.answers(202, r#"{"message": "looks again"}"#);
    // The same commit, which nobody confirmed for that branch. No event told the console of it.
    w.host.retarget_by_another(1, "production");
    let refused = w.merge(&id, &head).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.body.to_string().contains("waits for its governance board"), "{refused:?}");
    let now = w.until(&id, |now| now["governance"]["message"] == "looks again").await;
    assert_eq!((&now["governance"]["head"], &now["governance"]["confirmed"]), (&head, &Value::Null), "{now}");
    assert_eq!(w.host.file("production", "apps/shop.yaml"), None);
    let opened = w.board.calls("open");
    let (first, last) = (opened.first().unwrap(), opened.last().unwrap());
    assert_eq!((&first.body["pr"]["base"], &last.body["pr"]["base"]), (&json!("main"), &json!("production")));
    assert_ne!(first.delivery, last.delivery, "it is another question");
    w.board.answers(200, "{}");
    w.until(&id, is_approved).await;
    let merged = w.merge(&id, &head).await;
    assert_eq!(merged.outcome(), "OK", "{merged:?}");
    w.t.stop().await;
}

async fn a_no_is_told_and_taken_back(database: TestDatabase) {
    let w = World::new(&database).await;
    w.board.answers(403, r#"{"message": "not on a\nFriday"}"#);
    let id = w.open(&w.automation, "shop").await;
    let now = w.until(&id, |now| now["governance"]["refused"] == true).await;
    let head = now["head"].clone();
    assert_eq!(
        (&now["governance"]["message"], &now["governance"]["phase"]),
        (&json!("not on a Friday"), &json!("CONFIRM"))
    );
    assert_eq!(w.check(&head).as_deref(), Some("failure"));
    let refused = w.merge(&id, &head).await.body.to_string();
    assert!(refused.contains("it says no: not on a Friday"), "{refused}");
    w.board.answers(200, "");
    let now = w.until(&id, is_approved).await;
    assert_eq!(now["governance"]["refused"], false, "{now}");
    assert_eq!(w.check(&head).as_deref(), Some("success"));
    // One that is closed is told, too.
    let close = "mutation ($id: ID!) { closePullRequest(id: $id) { status } }";
    w.t.admin.data(close, json!({"id": id})).await;
    w.until(&id, |now| now["governance"]["phase"] == "CLOSED").await;
    assert_eq!(w.board.calls("close")[0].body["pr"]["status"], "closed");
    w.t.stop().await;
}

async fn what_it_answers_badly_confirms_nothing(database: TestDatabase) {
    let w = World::new(&database).await;
    let big = format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20));
    let cases = [
        (500, "{}", "it answered 500"),
        (200, "<html>Sign in</html>", "no JSON object"),
        (200, big.as_str(), "more than 64 KiB"),
        (302, "", "it answered 302"),
    ];
    let mut id = Value::Null;
    for (at, (status, body, expected)) in cases.into_iter().enumerate() {
        w.board.answers(status, body);
        id = w.open(&w.automation, &format!("shop{at}")).await;
        let told =
            |now: &Value| now["governance"]["message"].as_str().is_some_and(|said| said.contains(expected));
        let now = w.until(&id, told).await;
        assert_eq!(
            (&now["governance"]["phase"], &now["governance"]["confirmed"]),
            (&json!("CONFIRM"), &Value::Null)
        );
        assert_eq!(w.merge(&id, &now["head"]).await.outcome(), "CONFLICT");
    }
    // One that does not listen; the next one is asked from the beginning.
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let elsewhere = governance(&w.governance["connection"]["id"], &format!("http://{gone}"));
    w.t.admin.data(UPSERT, json!({"a": elsewhere})).await;
    let down = w.open(&w.automation, "web").await;
    let told = |now: &Value| {
        now["governance"]["message"].as_str().is_some_and(|said| said.contains("does not answer"))
    };
    let now = w.until(&down, told).await;
    assert_eq!(now["governance"]["phase"], "OPEN", "{now}");
    assert_eq!(w.merge(&down, &now["head"]).await.outcome(), "CONFLICT");
    let back = governance(&w.governance["connection"]["id"], &w.board.url);
    w.t.admin.data(UPSERT, json!({"a": back})).await;
    w.board.answers(200, "");
    w.until(&down, is_approved).await;
    // What it wants to have back, and its secret, are nowhere in what people read.
    let read = w.t.admin.data(READ, json!({"id": id})).await.to_string();
    let audits = "{ audits(first: 100) { edges { node { action targetName } } } }";
    let audits = w.t.admin.data(audits, json!({})).await.to_string();
    assert!(audits.contains("pr_governance.create"), "{audits}");
    for text in [&read, &audits, &w.host.everything()] {
        assert!(!text.contains(STATE) && !text.contains(SECRET), "{text}");
    }
    w.t.stop().await;
}

async fn no_text_names_a_governance(database: TestDatabase) {
    let w = World::new(&database).await;
    let free = w.automation("free", json!({"message": "Adds it.\n\nPlural Governance: board"})).await;
    let id = w.open(&free, "web").await;
    let now = w.until(&id, |now| now["head"].is_string()).await;
    assert_eq!(now["governance"], Value::Null, "{now}");
    assert_eq!(w.merge(&id, &now["head"]).await.outcome(), "OK");

    // Nor does one that its author edits get rid of its own.
    let id = w.open(&w.automation, "shop").await;
    w.until(&id, |now| now["governance"]["message"] == "waits for ada").await;
    w.host.edit_by_another(2, "Plural Governance: none");
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    assert_eq!(w.merge(&id, &read["head"]).await.outcome(), "CONFLICT");
    // As little as who changes the automation meanwhile.
    let freed = w.t.admin.data(UPDATE, json!({"id": w.automation, "a": {"governanceId": ""}})).await;
    assert_eq!(freed["updatePrAutomation"]["governance"], Value::Null, "{freed}");
    assert_eq!(w.merge(&id, &read["head"]).await.outcome(), "CONFLICT");
    let bound = json!({"id": free, "a": {"governanceId": w.governance["id"]}});
    let bound = w.t.admin.data(UPDATE, bound).await;
    assert_eq!(bound["updatePrAutomation"]["governance"]["name"], "board", "{bound}");
    // What is not given stays.
    let same = w.t.admin.data(UPDATE, json!({"id": free, "a": {"documentation": "More"}})).await;
    assert_eq!(same["updatePrAutomation"]["governance"]["name"], "board", "{same}");
    w.t.stop().await;
}

async fn what_cannot_be_is_refused_and_changes_nothing(database: TestDatabase) {
    let w = World::new(&database).await;
    let upsert = async |by: &Person, more: Value| {
        let mut attributes = governance(&w.connection, &w.board.url);
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        by.ask(UPSERT, json!({"a": attributes})).await
    };
    let webhook =
        |url: &str, secret: &str| json!({"configuration": {"webhook": {"url": url, "secret": secret}}});
    let now = json!({"url": "https://acme.service-now.com", "username": "ada", "password": "hunter2"});
    for (more, expected) in [
        (json!({"type": "SERVICE_NOW"}), "attributes.type"),
        (json!({"configuration": {"serviceNow": now}}), "attributes.configuration.serviceNow"),
        (webhook("ftp://board", SECRET), "attributes.configuration.webhook.url"),
        (webhook("https://ada:hunter2@board.invalid", SECRET), "attributes.configuration.webhook.url"),
        (webhook("https://169.254.169.254/latest", SECRET), "attributes.configuration.webhook.url"),
        (webhook("https://board.invalid", "short"), "attributes.configuration.webhook.secret"),
        (json!({"name": "other", "configuration": null}), "attributes.configuration.webhook.url"),
    ] {
        let refused = upsert(&w.t.admin, more.clone()).await;
        assert_eq!(refused.outcome(), "INVALID", "{more}: {refused:?}");
        let told = refused.body.to_string();
        assert!(told.contains(expected) && !told.contains("hunter2"), "{more}: {told}");
    }
    // Another project's does not exist for an automation of this one.
    let create = "mutation { createProject(attributes: {name: \"other\"}) { id } }";
    let other = w.t.admin.data(create, json!({})).await["createProject"]["id"].clone();
    let connection = json!({"name": "theirs", "type": "GITHUB", "token": "a-token", "projectId": other});
    let theirs = w.t.admin.scm_connection(&connection).await;
    let mixed = upsert(&w.t.admin, json!({"connectionId": theirs})).await;
    assert!(mixed.body.to_string().contains("belongs to another project"), "{mixed:?}");
    let made = upsert(&w.t.admin, json!({"name": "theirs", "connectionId": theirs})).await;
    let made = &made.body["data"]["upsertPrGovernance"];
    assert_eq!(made["project"]["id"], other, "{made}");
    let bind = json!({"id": w.automation, "a": {"governanceId": made["id"]}});
    let refused = w.t.admin.ask(UPDATE, bind).await;
    assert!(refused.body.to_string().contains("attributes.governanceId"), "{refused:?}");
    // Whoever does not see the one of this name changes none.
    let taken = upsert(&w.t.owner, json!({"name": "theirs"})).await;
    assert_eq!(taken.outcome(), "CONFLICT", "{taken:?}");
    // An account of the whole installation approves what its administrators had it approve: others give that no other address.
    let wide = json!({"name": "wide", "type": "GITHUB", "token": "a-token"});
    let wide = w.t.admin.scm_connection(&wide).await;
    let wide = json!({"name": "wide", "connectionId": wide, "projectId": w.t.project});
    assert_eq!(upsert(&w.t.admin, wide.clone()).await.outcome(), "OK");
    assert_eq!(upsert(&w.t.owner, wide.clone()).await.outcome(), "OK", "the address stays");
    let mut moved = wide.clone();
    moved["configuration"] = json!({"webhook": {"url": format!("{}/mine", w.board.url)}});
    let refused = upsert(&w.t.owner, moved).await;
    assert_eq!(refused.outcome(), "NOT_FOUND", "{refused:?}");
    let same = upsert(&w.t.owner, wide).await;
    let configuration = &same.body["data"]["upsertPrGovernance"]["configuration"];
    assert_eq!(configuration["webhook"]["url"], w.board.url, "{same:?}");
    // The same twice is written once; without a secret it stays signed, and an empty one ends that.
    let keep = json!({"configuration": {"webhook": {"url": w.board.url}}, "connectionId": w.governance["connection"]["id"]});
    let again = upsert(&w.t.owner, keep).await;
    assert_eq!(again.body["data"]["upsertPrGovernance"], w.governance, "{again:?}");
    let ended = upsert(&w.t.owner, webhook(&w.board.url, "")).await;
    let webhook = ended.body["data"]["upsertPrGovernance"]["configuration"]["webhook"].clone();
    assert_eq!(webhook, json!({"url": w.board.url, "signed": false}), "{ended:?}");
    w.t.stop().await;
}

async fn it_stays_while_something_needs_it(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.open(&w.automation, "shop").await;
    w.until(&id, |now| now["governance"]["phase"] == "CONFIRM").await;
    let delete = async || w.t.admin.ask(DELETE, json!({"id": w.governance["id"]})).await;
    let gone = "mutation ($id: ID!) { deleteScmConnection(id: $id) { id } }";
    let approver = w.t.admin.ask(gone, json!({"id": w.governance["connection"]["id"]})).await;
    assert!(approver.body.to_string().contains("governances approve with it"), "{approver:?}");
    let refused = delete().await;
    assert!(refused.body.to_string().contains("open pull requests have the governance"), "{refused:?}");
    let close = "mutation ($id: ID!) { closePullRequest(id: $id) { status } }";
    w.t.admin.data(close, json!({"id": id})).await;
    let refused = delete().await;
    assert!(refused.body.to_string().contains("automations name the governance"), "{refused:?}");
    w.t.admin.data(UPDATE, json!({"id": w.automation, "a": {"governanceId": ""}})).await;
    assert_eq!(delete().await.outcome(), "OK");
    let now = w.until(&id, |now| now["governance"].is_null()).await;
    assert_eq!(now["status"], "CLOSED", "{now}");
    w.t.stop().await;
}

/// A console that ends after each thing that it asked the governance or the host, which did it and was not heard.
#[tokio::test]
async fn a_console_that_is_killed_after_any_step_goes_on() {
    let World { t, host, board, automation, .. } = World::of(TestServer::start().await).await;
    let TestServer { mut console, folder, admin, .. } = t;
    let data = folder.path().join("data");
    let mut person = admin;
    // While it tells the governance of one.
    board.known.holds.store(true, Ordering::SeqCst);
    let mut id = open(&person, &automation, "shop").await;
    let mut step = 0;
    loop {
        let is_held = eventually(SOON, async || {
            let now = person.data(READ, json!({"id": id})).await["pullRequest"].clone();
            match (host.is_held() || board.known.held.load(Ordering::SeqCst), is_approved(&now)) {
                (true, _) => Ok(true),
                (false, true) => Ok(false),
                (false, false) => Err(now.to_string()),
            }
        })
        .await;
        if !is_held {
            break;
        }
        console.kill().await;
        for flag in [&board.known.holds, &board.known.held] {
            flag.store(false, Ordering::SeqCst);
        }
        host.hold_after(None);
        board.answers(200, "");
        (console, person) = begun_again(&data, &person).await;
        let now = until(&person, &id, is_approved).await;
        assert_eq!(now["governance"]["confirmed"], now["head"], "step {step}: {now}");
        let names: Vec<String> = board
            .known
            .calls
            .lock()
            .iter()
            .filter(|call| call.body["pr"]["id"] == id)
            .map(|call| call.delivery.clone())
            .collect();
        let once: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(once.len(), 2, "one name for each question, however often it is asked: {names:?}");
        // The next one is confirmed while the host answers so many requests.
        board.answers(202, r#"{"message": "waits for ada"}"#);
        id = open(&person, &automation, &format!("step{}", char::from(b'a' + step))).await;
        until(&person, &id, |now| now["governance"]["message"] == "waits for ada").await;
        host.hold_after(Some(usize::from(step)));
        board.answers(200, "");
        step += 1;
    }
    assert!(step >= 4, "reading it, its check and its approval are steps: {step}");
    console.stop().await.unwrap();
}
