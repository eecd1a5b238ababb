//! A console with a stack whose code is in git, a cluster's agent, and the harness of its Jobs, as the console sees them.

use std::time::Duration;

use plural_app::agent::AgentHandle;
use plural_app::agent_run::{ReportedRun, ReportedRunState};
use plural_core::ids::StackRunId;
use plural_core::run_call::state_token;
use plural_core::stack_run::{JobRef, RunPhase};
use plural_testkit::{GitRemote, TestDatabase, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::api_server::{Answer, Person, TestServer};

pub(super) const STACK: &str = "query ($id: ID) { infrastructureStack(id: $id) {
  status sha sourceError deletedAt paused
  lock { id author }
  environment { name value secret } files { path }
  output { name value json secret }
  runs(first: 10) { edges { node {
    id number kind trigger status phase error sha message cancelAsked requiredApprovals
    plan { digest add change destroy other text }
    approvals { approver digest }
    steps { index stage status exitCode logs { text next } }
  } } }
} }";
const CREATE: &str = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
const UPDATE: &str =
    "mutation ($id: ID!, $a: StackAttributes!) { updateStack(id: $id, attributes: $a) { id } }";
const TRIGGER: &str = "mutation ($id: ID!, $dry: Boolean, $d: Boolean) { triggerRun(id: $id, dryRun: $dry, destroy: $d) { id number } }";
const APPROVE: &str =
    "mutation ($id: ID!, $d: String) { approveStackRun(id: $id, digest: $d) { id status phase } }";
const REJECT: &str =
    "mutation ($id: ID!, $r: String!) { rejectStackRun(id: $id, reason: $r) { id status error } }";
const CANCEL: &str = "mutation ($id: ID!) { cancelStackRun(id: $id) { id status cancelAsked } }";

/// How long anything may take on a machine that does much else.
pub(super) const LONG: Duration = Duration::from_mins(2);

pub(super) struct World {
    pub(super) t: TestServer,
    pub(super) remote: GitRemote,
    pub(super) agent: AgentHandle,
    /// The id of the stack, which the owner made.
    pub(super) stack: String,
    pub(super) repository: String,
    pub(super) cluster: String,
}

impl World {
    /// A CUSTOM stack, with further attributes.
    pub(super) async fn new(database: &TestDatabase, attributes: Value) -> Self {
        let (t, remote) = (TestServer::on(database).await, GitRemote::new().unwrap());
        let url = remote.path().to_str().unwrap().to_owned();
        Self::at(t, remote, &url, attributes).await
    }

    /// The same of a console and a repository at an address.
    pub(super) async fn at(t: TestServer, remote: GitRemote, url: &str, attributes: Value) -> Self {
        let module = "module \"net\" {\n  source = \"../modules/net\"\n}\n";
        let files = [("infra/main.sh", "echo 1\n"), ("infra/main.tf", module), ("docs/a.md", "one\n")];
        remote.push_files(files.into_iter().chain([("modules/net/main.tf", "# 1\n")])).unwrap();
        let cluster = t.admin.cluster("blue").await;
        let repository = t.admin.repository(url).await;
        let agent = t.console.app().agent_authenticate(cluster["deployToken"].as_str().unwrap()).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (cluster, repository) = (text(&cluster["id"]), text(&repository["id"]));
        eventually(LONG, async || {
            let ask = "query ($id: ID!) { gitRepository(id: $id) { health } }";
            let data = t.admin.data(ask, json!({"id": repository})).await;
            (data["gitRepository"]["health"] == "PULLABLE").then_some(()).ok_or(format!("{data}"))
        })
        .await;
        let mut all = json!({
            "name": "infra", "type": "CUSTOM", "projectId": t.project,
            "repositoryId": repository, "clusterId": cluster, "git": {"ref": "main", "folder": "infra"},
            "commands": [{"stage": "PLAN", "cmd": "look"}, {"cmd": "make"}], "deleteCommands": [{"cmd": "undo"}],
        });
        if attributes["type"] != Value::Null {
            all.as_object_mut().unwrap().retain(|name, _| !name.ends_with("ommands"));
        }
        let further = attributes.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(further);
        let made = t.owner.data(CREATE, json!({"a": all})).await;
        let stack = text(&made["createStack"]["id"]);
        Self { t, remote, agent, stack, repository, cluster }
    }

    pub(super) async fn known(&self, by: &Person) -> Value {
        by.data(STACK, json!({"id": self.stack})).await["infrastructureStack"].clone()
    }

    /// The runs of the stack, newest first.
    pub(super) async fn runs(&self) -> Vec<Value> {
        self.runs_of(&self.stack).await
    }

    /// The same of another one.
    pub(super) async fn runs_of(&self, stack: &str) -> Vec<Value> {
        let known = self.t.owner.data(STACK, json!({"id": stack})).await["infrastructureStack"].clone();
        let edges = known["runs"]["edges"].as_array().unwrap().clone();
        edges.into_iter().map(|edge| edge["node"].clone()).collect()
    }

    /// A run, as soon as it stands so.
    pub(super) async fn run(&self, number: u64, status: &str) -> Value {
        self.run_of(&self.stack, number, status).await
    }

    /// The same of another stack.
    pub(super) async fn run_of(&self, stack: &str, number: u64, status: &str) -> Value {
        eventually(LONG, async || {
            let runs = self.runs_of(stack).await;
            let run = runs.iter().find(|run| run["number"] == number && run["status"] == status);
            run.cloned().ok_or_else(|| format!("no run {number} is {status}: {runs:#?}"))
        })
        .await
    }

    pub(super) async fn update(&self, attributes: Value) -> Answer {
        self.t.owner.ask(UPDATE, json!({"id": self.stack, "a": attributes})).await
    }

    pub(super) async fn trigger(&self, by: &Person, dry: bool, destroy: bool) -> Answer {
        by.ask(TRIGGER, json!({"id": self.stack, "dry": dry, "d": destroy})).await
    }

    pub(super) async fn approve(&self, by: &Person, run: &Value, digest: &Value) -> Answer {
        by.ask(APPROVE, json!({"id": run["id"], "d": digest})).await
    }

    pub(super) async fn reject(&self, by: &Person, run: &Value, reason: &str) -> Answer {
        by.ask(REJECT, json!({"id": run["id"], "r": reason})).await
    }

    pub(super) async fn cancel(&self, by: &Person, run: &Value) -> Answer {
        by.ask(CANCEL, json!({"id": run["id"]})).await
    }

    /// The agent makes the Job: its harness.
    pub(super) async fn take(&self, run: &Value, phase: RunPhase, attempt: u32) -> Harness {
        let taken = self.t.console.app().agent_run_take(&self.agent, id_of(run), phase, attempt).await;
        let (token, attempt) = taken.unwrap();
        let token = secrecy::ExposeSecret::expose_secret(&token).to_owned();
        let url = self.t.url(&format!("/v1/runs/{}", id_of(run)));
        Harness { http: self.t.owner.http().clone(), url, token, run: id_of(run), phase, attempt }
    }

    /// The agent says something of a Job.
    pub(super) async fn says(&self, harness: &Harness, state: ReportedRunState, message: &str) {
        let report = ReportedRun {
            id: harness.run,
            phase: harness.phase,
            attempt: harness.attempt,
            state,
            message: message.to_owned(),
            job: Some(JobRef { namespace: "plural-runs".to_owned(), name: "job".to_owned() }),
            exit_code: 137,
        };
        self.t.console.app().agent_runs_report(&self.agent, vec![report]).await.unwrap();
    }

    /// The first Job of a run plans so many new things, and ends.
    pub(super) async fn plans(&self, number: u64, add: u64) -> Value {
        let run = self.run(number, "PENDING").await;
        let harness = self.take(&run, RunPhase::Plan, 0).await;
        assert_eq!(harness.get("input").await.0, 200);
        harness.plan(add).await;
        assert_eq!(harness.done(true).await, 204);
        run
    }

    /// The second Job of a run applies, and ends.
    pub(super) async fn applies(&self, number: u64) {
        let run = self.run(number, "PENDING").await;
        assert_eq!(run["phase"], "APPLY", "{run}");
        let harness = self.take(&run, RunPhase::Apply, 0).await;
        assert_eq!(harness.get("input").await.0, 200);
        assert_eq!(harness.done(true).await, 204);
    }

    /// Passes of the loop that looks for silent runs, as many as it takes to lose one.
    pub(super) async fn tend(&self) {
        for _ in 0..5 {
            self.t.console.app().stack_runs_tend().await.unwrap();
        }
    }

    /// As many as it takes until an agent has had its time: each counts as five seconds at least.
    pub(super) async fn tend_long(&self) {
        for _ in 0..185 {
            self.t.console.app().stack_runs_tend().await.unwrap();
        }
    }

    /// The agent and the harness of all runs were heard of long ago.
    pub(super) async fn falls_silent(&self) {
        self.t.sql("UPDATE stack_runs SET heartbeat_at = '2020-01-01T00:00:00+00:00'").await;
    }
}

pub(super) fn id_of(run: &Value) -> StackRunId {
    run["id"].as_str().unwrap().parse().unwrap()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The program of a Job, as far as the console hears of it.
#[derive(Clone)]
pub(super) struct Harness {
    http: reqwest::Client,
    url: String,
    pub(super) token: String,
    pub(super) run: StackRunId,
    pub(super) phase: RunPhase,
    pub(super) attempt: u32,
}

/// The plan file of the tool.
pub(super) const FILE: &[u8] = b"the plan, as the tool keeps it";

impl Harness {
    /// The credential for the state, which its commands have.
    pub(super) fn state_token(&self) -> String {
        state_token(&self.token)
    }

    /// One of its commands, in its place.
    pub(super) fn command(&self) -> Self {
        Self { token: self.state_token(), ..self.clone() }
    }

    /// With its own credential, at the address of another run.
    pub(super) fn of(&self, other: &Self) -> Self {
        Self { url: other.url.clone(), ..self.clone() }
    }

    /// Status and body.
    pub(super) async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        let request = self.http.request(method, format!("{}/{path}", self.url)).bearer_auth(&self.token);
        let answer = request.header("content-type", "application/json").body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.bytes().await.unwrap().to_vec())
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Vec<u8>) {
        self.call(Method::GET, path, Vec::new()).await
    }

    pub(super) async fn says(&self, path: &str, body: Value) -> (u16, Value) {
        let (status, body) = self.call(Method::POST, path, body.to_string().into_bytes()).await;
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    pub(super) async fn input(&self) -> Value {
        let (status, body) = self.get("input").await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// Gets its input, and says that its first command that changes something begins.
    pub(super) async fn begins(&self) {
        let input = self.input().await;
        let mut steps = input["steps"].as_array().unwrap().iter();
        let step = steps.find(|step| step["stage"] == "apply" || step["stage"] == "destroy").unwrap();
        let path = format!("steps/{}", step["index"]);
        assert_eq!(self.says(&path, json!({"status": "running", "exitCode": null})).await.0, 200);
    }

    pub(super) async fn beat(&self) -> (u16, Value) {
        self.says("heartbeat", json!({})).await
    }

    pub(super) async fn log(&self, step: u32, offset: usize, text: &str) -> (u16, Value) {
        let path = format!("logs?step={step}&offset={offset}");
        let (status, body) = self.call(Method::POST, &path, text.as_bytes().to_vec()).await;
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// Uploads a plan that makes so many things: its digest.
    pub(super) async fn plan(&self, add: u64) -> String {
        let text = format!("{add} to add");
        for (part, body) in [("file", FILE), ("text", text.as_bytes())] {
            assert_eq!(self.call(Method::PUT, &format!("plan/{part}"), body.to_vec()).await.0, 204);
        }
        let (file, text) = (hex(FILE), hex(text.as_bytes()));
        let report = json!({
            "summary": {"add": add, "change": 0, "destroy": 0, "other": false},
            "fileDigest": file, "jsonDigest": null, "textDigest": text, "lockDigest": null,
        });
        assert_eq!(self.says("planned", report.clone()).await.0, 204);
        // The answer may have been lost.
        assert_eq!(self.says("planned", report).await.0, 204);
        hex(format!("file:{file}\njson:\ntext:{text}\n").as_bytes())
    }

    pub(super) async fn done(&self, succeeded: bool) -> u16 {
        self.ends(json!({"succeeded": succeeded})).await
    }

    pub(super) async fn ends(&self, report: Value) -> u16 {
        let mut all = json!({
            "succeeded": false, "cancelled": false, "error": null, "changed": false, "outputs": null,
        });
        all.as_object_mut().unwrap().extend(report.as_object().unwrap().clone());
        self.says("done", all).await.0
    }
}
