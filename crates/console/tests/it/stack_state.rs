//! State of stacks, as Terraform's `http` backend asks for it.

use std::time::Duration;

use plural_app::seal::{SealStore as _, SealedColumn};
use plural_store::{Database, DatabaseOptions};
use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::api_server::{Person, TestServer};

each_database!(
    versions_follow_each_other,
    what_is_no_state_changes_nothing,
    a_lock_holds_and_an_old_one_is_fenced_off,
    of_many_at_once_one_is_first,
    who_may_do_what,
    old_versions_go,
    a_deletion_says_what_it_forgets,
    a_state_says_what_differs_and_no_values,
    a_state_says_what_needs_what,
    a_replaced_key_seals_states_anew,
);

const CREATE: &str = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id type } }";
const STACK: &str = "query ($id: ID) { infrastructureStack(id: $id) {
  lock { id author who fence }
  stateVersion { id serial resources }
  stateVersions { id serial rejected acceptedAt author requestId fence }
} }";
const RESTORE: &str = "mutation ($id: ID!, $v: ID!) {
  restoreStackState(stackId: $id, version: $v) { stateVersion { serial resources } }
}";
const UNLOCK: &str =
    "mutation ($id: ID!, $l: ID!) { forceUnlockStack(stackId: $id, lock: $l) { lock { id } } }";
const DELETE: &str = "mutation ($id: ID!, $f: ID) { deleteStack(id: $id, forget: $f) { id } }";

/// A stack, as a tool knows it that has somebody's token.
#[derive(Clone)]
struct Backend {
    person: Person,
    id: String,
}

impl Backend {
    async fn new(t: &TestServer, name: &str) -> Self {
        let attributes = json!({"name": name, "type": "TERRAFORM", "projectId": t.project});
        let made = t.owner.data(CREATE, json!({"a": attributes})).await;
        let id = made["createStack"]["id"].as_str().unwrap().to_owned();
        Self { person: t.owner.clone(), id }
    }

    fn by(&self, person: &Person) -> Self {
        Self { person: person.clone(), id: self.id.clone() }
    }

    fn path(&self) -> String {
        format!("/v1/stacks/{}/state", self.id)
    }

    /// Status and body.
    async fn ask(&self, method: &str, query: &str, body: impl Into<String>) -> (u16, String) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let url = format!("{}{}{query}", self.person.next_url(), self.path());
        let mut request = self.person.http().request(method, url).body(body.into());
        if let Some(token) = &self.person.token {
            request = request.basic_auth("plural", Some(token));
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn post(&self, query: &str, body: &str) -> u16 {
        self.ask("POST", query, body).await.0
    }

    async fn known(&self) -> Value {
        self.person.data(STACK, json!({"id": self.id})).await["infrastructureStack"].clone()
    }

    /// Serials of the versions with whether they were rejected, newest first.
    async fn versions(&self) -> Vec<(i64, bool)> {
        let known = self.known().await;
        let versions = known["stateVersions"].as_array().unwrap().clone();
        versions.iter().map(|one| (one["serial"].as_i64().unwrap(), !one["rejected"].is_null())).collect()
    }
}

fn state_of(serial: u64, lineage: &str, value: &str) -> String {
    let state = json!({
        "version": 4, "terraform_version": "1.12.6", "serial": serial, "lineage": lineage,
        "outputs": {"address": {"value": value, "type": "string"}},
        "resources": [{
            "mode": "managed", "type": "terraform_data", "name": "a", "provider": "p",
            "instances": [{"schema_version": 0, "attributes": {"id": "1", "input": value}}],
        }],
    });
    serde_json::to_string_pretty(&state).unwrap()
}

fn state(serial: u64, value: &str) -> String {
    state_of(serial, "a", value)
}

fn lock(id: &str) -> String {
    json!({
        "ID": id, "Operation": "OperationTypeApply", "Info": "", "Who": "ada@box", "Version": "1.12.6",
        "Created": "2026-11-26T18:00:00.123456789Z", "Path": "",
    })
    .to_string()
}

async fn start(database: &TestDatabase) -> TestServer {
    TestServer::on(database).await
}

async fn audited(t: &TestServer, action: &str) -> usize {
    let ask = "{ audits(first: 200) { edges { node { action } } } }";
    let audits = t.admin.data(ask, json!({})).await;
    let edges = audits["audits"]["edges"].as_array().unwrap().clone();
    edges.iter().filter(|edge| edge["node"]["action"] == action).count()
}

async fn versions_follow_each_other(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    assert_eq!(backend.ask("GET", "", "").await, (204, String::new()));
    assert_eq!(backend.post("", &state(1, "x")).await, 200);
    assert_eq!(backend.post("", &state(3, "y")).await, 200);
    // Byte for byte.
    assert_eq!(backend.ask("GET", "", "").await, (200, state(3, "y")));
    // The answer may have been lost.
    assert_eq!(backend.post("", &state(3, "y")).await, 200);
    assert_eq!(backend.versions().await, [(3, false), (1, false)]);

    for (body, why) in [
        (state(3, "z"), "other content"),
        (state(2, "z"), "lower"),
        (state_of(4, "b", "z"), "lineage"),
        // It is known already.
        (state_of(4, "b", "z"), "lineage"),
    ] {
        let (status, told) = backend.ask("POST", "", body).await;
        assert_eq!(status, 409, "{told}");
        assert!(told.contains(why) && told.contains("rejected version"), "{told}");
    }
    assert_eq!(backend.ask("GET", "", "").await, (200, state(3, "y")));
    let expected = [(4, true), (2, true), (3, true), (3, false), (1, false)];
    assert_eq!(backend.versions().await, expected);
    // Nothing that a tool wrote is lost: what was rejected can be read, too.
    let known = backend.known().await;
    let rejected = known["stateVersions"][2].clone();
    let version = format!("?version={}", rejected["id"].as_str().unwrap());
    assert_eq!(backend.ask("GET", &version, "").await, (200, state(3, "z")));
    assert_eq!(rejected["author"], "owner@example.com");
    assert!(!rejected["requestId"].as_str().unwrap().is_empty());

    // An earlier one comes back under the next serial, and no other byte changes.
    let first = known["stateVersions"][4]["id"].clone();
    let restored = t.owner.data(RESTORE, json!({"id": backend.id, "v": first})).await;
    assert_eq!(restored["restoreStackState"]["stateVersion"], json!({"serial": 4, "resources": 1}));
    assert_eq!(backend.ask("GET", "", "").await, (200, state(4, "x")));
    let other = known["stateVersions"][0]["id"].clone();
    let refused = t.owner.ask(RESTORE, json!({"id": backend.id, "v": other})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "another lineage: {refused:?}");

    assert_eq!(audited(&t, "stack.state.write").await, 2);
    assert_eq!(audited(&t, "stack.state.reject").await, 3);
    assert_eq!(audited(&t, "stack.state.restore").await, 1);
    assert_eq!(audited(&t, "stack.state.read").await, 4);
    t.stop().await;
}

async fn what_is_no_state_changes_nothing(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    assert_eq!(backend.post("", &state(1, "x")).await, 200);
    for body in ["", "{", "[]", "{}", "hunter2", r#"{"version": 5, "serial": 2, "lineage": "a"}"#] {
        let (status, told) = backend.ask("POST", "", body).await;
        assert!(status == 422 && !told.contains("hunter2"), "{body:?}: {status} {told}");
    }
    let url = format!("{}{}", t.owner.next_url(), backend.path());
    let sent = |digest: &'static str| {
        let request = t.owner.http().post(&url).basic_auth("plural", t.owner.token.as_ref());
        request.header("content-md5", digest).body(state(2, "y")).send()
    };
    assert_eq!(sent("1B2M2Y8AsgTpgAmY7PhCfg==").await.unwrap().status(), 422, "the digest of nothing");
    for method in ["PUT", "DELETE", "HEAD", "PATCH"] {
        assert_eq!(backend.ask(method, "", "").await.0, 405, "{method}");
    }
    for body in ["", "{}", "hunter2", r#"{"ID": ""}"#] {
        assert_eq!(backend.ask("LOCK", "", body).await.0, 422, "{body:?}");
    }
    assert_eq!(backend.ask("LOCK", "", "x".repeat(20 << 10)).await.0, 413);
    assert_eq!(backend.versions().await, [(1, false)]);

    // What says of itself that it is too large is not read at all.
    let address = t.console.url.strip_prefix("http://").unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        backend.path(),
        t.owner.token.as_ref().unwrap(),
        (64 << 20) + 1
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    for (field, value, told) in [("name", json!(""), "name"), ("name", json!("infra"), "already")] {
        let mut attributes = json!({"name": "other", "type": "TERRAFORM", "projectId": t.project});
        attributes[field] = value;
        let refused = t.owner.ask(CREATE, json!({"a": attributes})).await;
        assert!(refused.message().contains(told), "{field}: {refused:?}");
    }
    t.stop().await;
}

async fn a_lock_holds_and_an_old_one_is_fenced_off(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    assert_eq!(backend.ask("LOCK", "", lock("one")).await.0, 200);
    // The answer may have been lost.
    assert_eq!(backend.ask("LOCK", "", lock("one")).await.0, 200);
    let (status, told) = backend.ask("LOCK", "", lock("two")).await;
    assert_eq!((status, told), (423, lock("one")), "tools read the lock that is held");
    assert_eq!(backend.ask("POST", "", state(1, "x")).await, (423, lock("one")));
    assert_eq!(backend.post("?ID=one", &state(1, "x")).await, 200);
    let known = backend.known().await;
    let held = json!({"id": "one", "author": "owner@example.com", "who": "ada@box", "fence": 1});
    assert_eq!(known["lock"], held);
    assert_eq!(known["stateVersions"][0]["fence"], 1);
    // A state that somebody holds does not change under their hands.
    let version = known["stateVersion"]["id"].clone();
    let refused = t.owner.ask(DELETE, json!({"id": backend.id, "f": version})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");

    assert_eq!(backend.ask("UNLOCK", "", lock("two")).await, (409, lock("one")));
    let wrong = t.owner.ask(UNLOCK, json!({"id": backend.id, "l": "two"})).await;
    assert!(wrong.outcome() == "CONFLICT" && wrong.message().contains("ada@box"), "{wrong:?}");
    assert_eq!(t.reader.ask(UNLOCK, json!({"id": backend.id, "l": "one"})).await.outcome(), "FORBIDDEN");
    t.owner.data(UNLOCK, json!({"id": backend.id, "l": "one"})).await;

    // Whoever held it goes on, and is too late, whether the state is free or somebody else's.
    assert_eq!(backend.post("?ID=one", &state(2, "late")).await, 409);
    assert_eq!(backend.ask("LOCK", "", lock("two")).await.0, 200);
    assert_eq!(backend.post("?ID=one", &state(3, "later")).await, 409);
    assert_eq!(backend.post("?ID=two", &state(2, "y")).await, 200);
    assert_eq!(backend.ask("UNLOCK", "", lock("two")).await.0, 200);
    assert_eq!(backend.ask("UNLOCK", "", lock("two")).await.0, 200, "nobody holds it");
    assert_eq!(backend.versions().await, [(2, false), (3, true), (2, true), (1, false)]);

    // What it made is taken in by a person.
    let late = backend.known().await["stateVersions"][1]["id"].clone();
    assert_eq!(backend.ask("LOCK", "", lock("three")).await.0, 200);
    let refused = t.owner.ask(RESTORE, json!({"id": backend.id, "v": late})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    // So asks the tools' `force-unlock`.
    assert_eq!(backend.ask("UNLOCK", "", "").await.0, 200);
    t.owner.data(RESTORE, json!({"id": backend.id, "v": late})).await;
    assert_eq!(backend.ask("GET", "", "").await, (200, state(4, "later")));
    let known = backend.known().await;
    assert!(known["stateVersions"][2]["acceptedAt"].is_string(), "{known}");
    assert_eq!(known["lock"], Value::Null);
    assert_eq!(audited(&t, "stack.state.force-unlock").await, 2);
    assert_eq!(audited(&t, "stack.state.unlock").await, 1);
    assert_eq!(audited(&t, "stack.state.lock").await, 3);
    t.stop().await;
}

/// The answers to twelve requests at once, in order.
async fn many(backend: &Backend, method: &'static str, body: fn(usize) -> String) -> Vec<u16> {
    let mut all = JoinSet::new();
    for number in 0..12 {
        let backend = backend.clone();
        all.spawn(async move { backend.ask(method, "", body(number)).await.0 });
    }
    let mut answers = all.join_all().await;
    answers.sort_unstable();
    answers
}

async fn of_many_at_once_one_is_first(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    let mut expected = vec![200];
    expected.resize(12, 409);
    assert_eq!(many(&backend, "POST", |number| state(1, &number.to_string())).await, expected);
    let versions = backend.versions().await;
    assert_eq!(versions.iter().filter(|(_, rejected)| !rejected).count(), 1);
    assert_eq!(versions.len(), 12, "what the others wrote is kept");
    let mut expected = vec![200];
    expected.resize(12, 423);
    assert_eq!(many(&backend, "LOCK", |number| lock(&number.to_string())).await, expected);
    t.stop().await;
}

async fn who_may_do_what(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    assert_eq!(backend.post("", &state(1, "x")).await, 200);
    let sibling = t.admin.add_user("sibling@example.com").await;
    let create = "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }";
    let project = json!({"a": {"name": "sibling", "writeBindings": [{"userId": sibling.id}]}});
    t.admin.data(create, project).await;
    let reader_of_state = t.admin.add_user("planner@example.com").await;
    let role = "mutation { createRole(attributes: {name: \"planner\", actions: [\"read\", \"state-read\"]}) { id } }";
    let role = t.admin.data(role, json!({})).await["createRole"]["id"].clone();
    let bind = "mutation ($r: ID, $u: ID!, $p: ID) { changeBindings(roleId: $r, add: [{userId: $u}], projectId: $p) }";
    t.admin.data(bind, json!({"r": role, "u": reader_of_state.id, "p": t.project})).await;
    let wrong = t.owner.with_token(&format!("console-{}", "0".repeat(64)));

    let cases = [
        ("nobody", &t.nobody, [401; 4]),
        ("a wrong token", &wrong, [401; 4]),
        ("a stranger", &t.stranger, [403; 4]),
        ("a sibling's writer", &sibling, [403; 4]),
        ("a reader", &t.reader, [403; 4]),
        ("a reader of state", &reader_of_state, [200, 403, 403, 403]),
        ("the owner", &t.owner, [200; 4]),
        ("an administrator", &t.admin, [200; 4]),
    ];
    for (number, (who, person, expected)) in cases.into_iter().enumerate() {
        let by = backend.by(person);
        let next = state(2 + number as u64, "y");
        let answers = [
            by.ask("GET", "", "").await.0,
            by.ask("LOCK", "", lock(who)).await.0,
            by.ask("POST", &format!("?ID={}", who.replace(' ', "%20")), next).await.0,
            by.ask("UNLOCK", "", lock(who)).await.0,
        ];
        assert_eq!(answers, expected, "{who}");
    }
    // What there is not is answered alike.
    let gone = Backend { person: t.owner.clone(), id: "0190c8a0-0000-7000-8000-000000000000".into() };
    assert_eq!(gone.ask("GET", "", "").await.0, 403);
    assert_eq!(backend.by(&t.stranger).ask("GET", "", "").await.1, gone.ask("GET", "", "").await.1);
    let none = Backend { person: t.owner.clone(), id: "infra".into() };
    assert_eq!(none.ask("GET", "", "").await.0, 403);
    let challenge = t.nobody.http().get(t.url(&backend.path())).send().await.unwrap();
    assert!(challenge.headers()["www-authenticate"].to_str().unwrap().starts_with("Basic"));
    // Browsers send kept credentials along with what other sites make them send.
    let url = t.url(&backend.path());
    for (name, value) in
        [("origin", "https://evil.example.com"), ("origin", "null"), ("sec-fetch-site", "cross-site")]
    {
        let forged = t.owner.http().post(&url).basic_auth("plural", t.owner.token.as_ref());
        let forged = forged.header(name, value).body(state(1_000, "forged")).send().await.unwrap();
        assert_eq!(forged.status(), 403, "{name}: {value}");
        assert!(!forged.headers().contains_key("www-authenticate"), "{name}: {value}");
    }
    assert!(backend.versions().await.iter().all(|(serial, _)| *serial < 1_000));
    // A version of another stack is none of this one.
    let other = Backend::new(&t, "other").await;
    let version = backend.known().await["stateVersion"]["id"].as_str().unwrap().to_owned();
    assert_eq!(other.ask("GET", &format!("?version={version}"), "").await.0, 404);
    let refused = t.owner.ask(RESTORE, json!({"id": other.id, "v": version})).await;
    assert_eq!(refused.outcome(), "NOT_FOUND");
    t.stop().await;
}

async fn old_versions_go(database: TestDatabase) {
    let t = TestServer::on_with(&database, |config| config.stack_state_versions = 3).await;
    let backend = Backend::new(&t, "infra").await;
    assert_eq!(backend.post("", &state(1, "x")).await, 200);
    assert_eq!(backend.post("", &state(1, "rejected")).await, 409);
    for serial in 2..=6 {
        assert_eq!(backend.post("", &state(serial, "x")).await, 200);
    }
    // Of those that were rejected others are counted.
    assert_eq!(backend.versions().await, [(6, false), (5, false), (4, false), (1, true)]);
    for value in ["a", "b", "c"] {
        assert_eq!(backend.post("", &state(2, value)).await, 409);
    }
    let expected = [(2, true), (2, true), (2, true), (6, false), (5, false), (4, false)];
    assert_eq!(backend.versions().await, expected);
    assert_eq!(backend.ask("GET", "", "").await, (200, state(6, "x")));
    t.stop().await;
}

async fn a_deletion_says_what_it_forgets(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    assert_eq!(backend.post("", &state(7, "x")).await, 200);
    let version = backend.known().await["stateVersion"]["id"].clone();
    let protect =
        "mutation ($id: ID!, $p: Boolean) { updateStack(id: $id, attributes: {protect: $p}) { protect } }";
    t.owner.data(protect, json!({"id": backend.id, "p": true})).await;
    let refused = t.owner.ask(DELETE, json!({"id": backend.id, "f": version})).await;
    assert!(refused.outcome() == "CONFLICT" && refused.message().contains("protected"), "{refused:?}");
    t.owner.data(protect, json!({"id": backend.id, "p": false})).await;
    let refused = t.owner.ask(DELETE, json!({"id": backend.id})).await;
    assert!(refused.outcome() == "CONFLICT" && refused.message().contains("1 resource"), "{refused:?}");
    // It was decided about another state.
    assert_eq!(backend.post("", &state(8, "y")).await, 200);
    let refused = t.owner.ask(DELETE, json!({"id": backend.id, "f": version})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    let version = backend.known().await["stateVersion"]["id"].clone();
    t.owner.data(DELETE, json!({"id": backend.id, "f": version})).await;
    assert_eq!(backend.ask("GET", "", "").await.0, 403);

    // A state that has nothing left is no reason to ask.
    let empty = Backend::new(&t, "empty").await;
    let body = json!({"version": 4, "serial": 1, "lineage": "a", "resources": []}).to_string();
    assert_eq!(empty.post("", &body).await, 200);
    t.owner.data(DELETE, json!({"id": empty.id})).await;
    t.stop().await;
}

async fn a_state_says_what_differs_and_no_values(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    assert_eq!(backend.post("", &state(1, "hunter2")).await, 200);
    assert_eq!(backend.post("", &state(2, "hunter3")).await, 200);
    let known = backend.known().await;
    let [second, first] = [0, 1].map(|at| known["stateVersions"][at]["id"].clone());
    let show = "query ($id: ID!) { stackState(stackId: $id) { state { identifier resource name provider } outputs } }";
    let shown = t.reader.data(show, json!({"id": backend.id})).await;
    let resource =
        json!({"identifier": "terraform_data.a", "resource": "terraform_data", "name": "a", "provider": "p"});
    assert_eq!(shown["stackState"], json!({"state": [resource], "outputs": ["address"]}));
    let diff = "query ($id: ID!, $a: ID!, $b: ID!) {
      stackStateDiff(stackId: $id, from: $a, to: $b) { identifier change attributes }
    }";
    let differs = t.reader.data(diff, json!({"id": backend.id, "a": first, "b": second})).await;
    let change = json!({"identifier": "terraform_data.a", "change": "CHANGED", "attributes": ["input"]});
    assert_eq!(differs["stackStateDiff"], json!([change]));
    assert!(!format!("{shown}{differs}").contains("hunter"));

    // The tool encrypted it: nobody looks into it here, and it is kept all the same.
    let body =
        json!({"serial": 3, "lineage": "a", "meta": {}, "encrypted_data": "x", "encryption_version": "v0"});
    assert_eq!(backend.post("", &body.to_string()).await, 200);
    let refused = t.reader.ask(show, json!({"id": backend.id})).await;
    assert!(refused.outcome() == "CONFLICT" && refused.message().contains("encrypted"), "{refused:?}");
    assert_eq!(backend.known().await["stateVersion"]["resources"], Value::Null);
    t.stop().await;
}

async fn a_state_says_what_needs_what(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    // More than other lists have. All need the first, most of them by way of the second, as the tools write it.
    let mut resources = vec![
        json!({"mode": "managed", "type": "net", "name": "n", "provider": "p", "instances": [{"attributes": {"secret": "hunter2"}}]}),
        json!({"module": "module.m[\"a\"]", "mode": "managed", "type": "subnet", "name": "n", "provider": "p", "instances": [
            {"attributes": {}, "dependencies": ["net.n"]},
        ]}),
    ];
    let dependencies = ["module.m.subnet.n", "net.n", "data.gone.n"];
    resources.extend((0..3_000).map(|at| {
        json!({"mode": "managed", "type": "web", "name": format!("n{at:04}"), "provider": "p", "instances": [
            {"attributes": {}, "dependencies": dependencies, "sensitive_attributes": []},
        ]})
    }));
    let state = json!({"version": 4, "serial": 1, "lineage": "a", "resources": resources}).to_string();
    assert_eq!(backend.post("", &state).await, 200);
    let show = "query ($id: ID!) { stackState(stackId: $id) { state { identifier links } } }";
    let shown = t.reader.ask(show, json!({"id": backend.id})).await;
    assert_eq!(shown.outcome(), "OK", "{}", shown.message());
    assert!(!shown.body.to_string().contains("hunter2") && shown.body["extensions"]["truncated"].is_null());
    let listed = shown.body["data"]["stackState"]["state"].as_array().unwrap();
    assert_eq!(listed.len(), 3_002);
    assert_eq!(listed[0], json!({"identifier": "module.m[\"a\"].subnet.n", "links": ["net.n"]}));
    assert_eq!(listed[1], json!({"identifier": "net.n", "links": []}));
    assert_eq!(listed[3_001], json!({"identifier": "web.n2999", "links": ["module.m.subnet.n"]}));

    // What is left out of a longer list is told.
    let instances: Vec<Value> = (0..10_100).map(|at| json!({"index_key": at})).collect();
    let many =
        json!([{"mode": "managed", "type": "web", "name": "n", "provider": "p", "instances": instances}]);
    let state = json!({"version": 4, "serial": 2, "lineage": "a", "resources": many}).to_string();
    assert_eq!(backend.post("", &state).await, 200);
    let shown = t.reader.ask(show, json!({"id": backend.id})).await;
    assert_eq!(shown.body["data"]["stackState"]["state"].as_array().unwrap().len(), 10_000);
    let cut = json!([{"path": ["stackState", "state"], "count": 10_100, "limit": 10_000}]);
    assert_eq!(shown.body["extensions"]["truncated"], cut);
    t.stop().await;
}

async fn a_replaced_key_seals_states_anew(database: TestDatabase) {
    let t = start(&database).await;
    let backend = Backend::new(&t, "infra").await;
    // Of several pieces.
    let large = state(1, &"x".repeat(600 << 10));
    assert_eq!(backend.post("", &large).await, 200);
    let rotate = "mutation ($p: ID!) { rotateProjectDataKeys(projectId: $p) { id } }";
    t.owner.data(rotate, json!({"p": t.project})).await;
    assert_eq!(backend.ask("GET", "", "").await, (200, large.clone()));
    let store = Database::open(&DatabaseOptions::new(database.url())).await.unwrap();
    eventually(Duration::from_mins(1), async || {
        let step = store.sealed_otherwise(SealedColumn::StackState, None, 10).await;
        let left = step.map_err(|error| error.log_text())?.found.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} pieces are sealed with the key of before")) }
    })
    .await;
    store.close().await.unwrap();
    assert_eq!(backend.ask("GET", "", "").await, (200, large));
    t.stop().await;
}
