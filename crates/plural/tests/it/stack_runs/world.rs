//! A console, an agent, a cluster that runs Jobs, a repository, and what is asked of the console about runs.

use std::time::Duration;

use plural_testkit::{GitRemote, TestDatabase, eventually};
use serde_json::{Value, json};

use super::place::{Place, fifo_below, harnesses};
use crate::{
    asker::Asker,
    program::{AgentProcess, ConsoleProcess, Done, Home, finish, signal},
    world::Person,
};

/// How long a step may take on a busy machine; the console waits 15 seconds for a harness that is gone.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);
/// The agent's namespace.
const AGENT: &str = "plural-system";

const RUN: &str = "query ($id: ID!) { stackRun(id: $id) {
  id number kind trigger status phase error sha cancelAsked message author
  plan { digest add change destroy other text }
  approvals { approver digest }
  job { namespace name }
  steps { index phase stage name cmd args status exitCode logs(from: 0) { text next } }
} }";
const STACK: &str = "query ($id: ID!) { infrastructureStack(id: $id) {
  id name status sha deletedAt sourceError
  lock { id } stateVersion { serial resources }
  output { name value secret }
  runs(first: 50) { edges { node { id number status kind trigger sha } } }
} }";

/// All of it.
pub(super) struct World {
    pub(super) agent: AgentProcess,
    pub(super) console: ConsoleProcess,
    pub(super) admin: Asker,
    pub(super) place: Place,
    pub(super) remote: GitRemote,
    pub(super) cluster: String,
    pub(super) repository: String,
    pub(super) home: Home,
}

impl World {
    /// On a simulated cluster.
    pub(super) async fn simulated(database: &TestDatabase) -> anyhow::Result<Self> {
        let home = Home::new()?;
        let console =
            ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
        let place = Place::simulated(&home, &console.url()).await?;
        Self::on(home, console, place).await
    }

    /// On a real control plane; nothing, said on stderr, where there is none.
    pub(super) async fn real(database: &TestDatabase) -> anyhow::Result<Option<Self>> {
        let Some(place) = Place::real().await? else { return Ok(None) };
        let home = Home::new()?;
        let console =
            ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
        Self::on(home, console, place).await.map(Some)
    }

    async fn on(home: Home, console: ConsoleProcess, place: Place) -> anyhow::Result<Self> {
        let person = Person::administrator(&console.url()).await?;
        let admin = Asker::administrator(&console.url()).await?;
        let registered = person.cluster("blue").await?;
        let remote = GitRemote::new()?;
        remote.push_files([("README.md", "infrastructure")])?;
        let repository = person.repository(&remote.path().display().to_string()).await?;
        place.namespace(AGENT).await?;
        let url = console.url();
        let image = place.run_image();
        let kubeconfig = place.kubeconfig();
        let agent = AgentProcess::start_at(
            &home,
            (url.as_str(), registered.token.as_str()),
            (kubeconfig.as_path(), AGENT.to_owned()),
            "info",
            |program| match image {
                Some(image) => program.flag("run-image", image),
                None => program,
            },
        )?;
        Ok(Self { agent, console, admin, place, remote, cluster: registered.id, repository, home })
    }

    /// A stack of `folder` of the repository at `main`, whose plans wait for approval unless `more` says otherwise; its id.
    pub(super) async fn stack(&self, kind: &str, folder: &str, more: Value) -> anyhow::Result<String> {
        let mut attributes = json!({
            "name": folder, "type": kind, "repositoryId": self.repository, "clusterId": self.cluster,
            "git": {"ref": "main", "folder": folder}, "approval": true, "jobSpec": self.place.job_spec(),
            // Nobody looks at it: it only has to have a name.
            "configuration": {"image": "example.org/tools", "tag": "1"},
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            attributes[name] = value.clone();
        }
        let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
        let made = self.admin.data(create, json!({"a": attributes})).await?;
        Ok(made["createStack"]["id"].as_str().unwrap_or_default().to_owned())
    }

    /// A mutation of one thing, which has to succeed.
    pub(super) async fn does(&self, mutation: &str, id: &str) -> anyhow::Result<Value> {
        let document = format!("mutation ($id: ID!) {{ {mutation}(id: $id) {{ id }} }}");
        Ok(self.admin.data(&document, json!({"id": id})).await?[mutation].take())
    }

    /// The run that the first look at a new stack's commit makes; its id.
    pub(super) async fn begun(&self, stack: &str) -> String {
        let first = eventually(PATIENCE, async || {
            self.newest(stack).await.map_err(|error| format!("{error:#}; {}", self.console.log()))
        })
        .await;
        first["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Makes a run of a stack; its id.
    pub(super) async fn trigger(&self, stack: &str) -> anyhow::Result<String> {
        Ok(self.does("triggerRun", stack).await?["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Agrees to what a run planned.
    pub(super) async fn approve(&self, run: &Value) -> anyhow::Result<()> {
        let document = "mutation ($id: ID!, $d: String) { approveStackRun(id: $id, digest: $d) { id } }";
        let asked = json!({"id": run["id"], "d": run["plan"]["digest"]});
        self.admin.data(document, asked).await.map(drop)
    }

    /// What is known of a run.
    pub(super) async fn run(&self, id: &str) -> anyhow::Result<Value> {
        Ok(self.admin.data(RUN, json!({"id": id})).await?["stackRun"].take())
    }

    /// What is known of a stack.
    pub(super) async fn known(&self, id: &str) -> anyhow::Result<Value> {
        Ok(self.admin.data(STACK, json!({"id": id})).await?["infrastructureStack"].take())
    }

    /// The newest run of a stack.
    pub(super) async fn newest(&self, stack: &str) -> anyhow::Result<Value> {
        let runs = self.known(stack).await?["runs"]["edges"].take();
        let newest = runs.as_array().into_iter().flatten().max_by_key(|edge| edge["node"]["number"].as_i64());
        let id = newest.and_then(|edge| edge["node"]["id"].as_str()).unwrap_or_default().to_owned();
        anyhow::ensure!(!id.is_empty(), "the stack has no run");
        self.run(&id).await
    }

    /// Waits until the newest run of a stack waits for approval, of this commit where one is named.
    pub(super) async fn planned(&self, stack: &str, sha: Option<&str>) -> Value {
        let found = eventually(PATIENCE, async || {
            let run = self.newest(stack).await.map_err(|error| format!("{error:#}"))?;
            let is_it = sha.is_none_or(|sha| run["sha"] == sha);
            let is_settled =
                matches!(run["status"].as_str(), Some("PENDING_APPROVAL" | "FAILED" | "SUCCESSFUL"));
            if is_it && is_settled { Ok(run) } else { Err(self.told(&run)) }
        })
        .await;
        assert_eq!(found["status"], "PENDING_APPROVAL", "{}", self.told(&found));
        found
    }

    /// Makes a run of a stack and waits for its plan.
    pub(super) async fn plan(&self, stack: &str) -> anyhow::Result<Value> {
        self.trigger(stack).await?;
        Ok(self.planned(stack, None).await)
    }

    /// Waits until a run has this status. It fails at once when the run has ended with another one.
    pub(super) async fn until(&self, run: &Value, wanted: &str) -> Value {
        let id = run["id"].as_str().unwrap_or_default();
        let found = eventually(PATIENCE, async || {
            let run = self.run(id).await.map_err(|error| format!("{error:#}"))?;
            let status = run["status"].as_str().unwrap_or_default();
            let is_over = matches!(status, "SUCCESSFUL" | "FAILED" | "CANCELLED");
            if status == wanted || is_over { Ok(run) } else { Err(self.told(&run)) }
        })
        .await;
        assert_eq!(found["status"], wanted, "{}", self.told(&found));
        found
    }

    /// Waits until a run fails with words that hold all of `needles`.
    pub(super) async fn fails(&self, run: &Value, needles: &[&str]) -> Value {
        let found = self.until(run, "FAILED").await;
        let why = found["error"].as_str().unwrap_or_default();
        assert!(needles.iter().all(|needle| why.contains(needle)), "{needles:?}\n{}", self.told(&found));
        found
    }

    /// Waits until a step of a run has printed something.
    pub(super) async fn prints(&self, run: &str, phase: &str, text: &str) -> Value {
        eventually(PATIENCE, async || {
            let run = self.run(run).await.map_err(|error| format!("{error:#}"))?;
            let steps = run["steps"].as_array().cloned().unwrap_or_default();
            let printed = steps.iter().any(|step| {
                step["phase"] == phase && step["logs"]["text"].as_str().is_some_and(|log| log.contains(text))
            });
            if printed { Ok(run) } else { Err(self.told(&run)) }
        })
        .await
    }

    /// Everything that the steps of a run printed.
    pub(super) fn printed(run: &Value) -> String {
        let steps = run["steps"].as_array().into_iter().flatten();
        steps.filter_map(|step| step["logs"]["text"].as_str()).collect()
    }

    /// Kills the harness of a run with SIGKILL, and waits until it is gone.
    pub(super) async fn kill_harness(&self, run: &str) {
        let running =
            eventually(PATIENCE, async || Some(harnesses(run)).filter(|found| !found.is_empty())).await;
        for pid in &running {
            signal(*pid, rustix::process::Signal::KILL);
        }
        eventually(PATIENCE, async || !harnesses(run).iter().any(|pid| running.contains(pid))).await;
    }

    /// Waits for the command of a run that reads from its FIFO `hold`, and lets it go on.
    pub(super) async fn release(&self, run: &str) -> anyhow::Result<()> {
        let fifo = eventually(PATIENCE, async || {
            harnesses(run).iter().find_map(|pid| fifo_below(*pid)).ok_or("nothing waits for the FIFO")
        })
        .await;
        // It opens when somebody reads.
        Ok(tokio::task::spawn_blocking(move || std::fs::write(&fifo, "go on\n")).await??)
    }

    /// All that is known of a run, and what the processes around it said, for the message of a test that fails.
    pub(super) fn told(&self, run: &Value) -> String {
        let tail = |log: String| {
            let lines: Vec<&str> = log.lines().collect();
            lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
        };
        format!(
            "{run:#}\n== agent\n{}\n== console\n{}\n== cluster\n{}",
            tail(self.agent.log()),
            tail(self.console.log()),
            self.place.logs()
        )
    }

    /// Runs `plural` as the administrator, which has to succeed; what it wrote to standard output.
    pub(super) async fn plural(&self, line: &str) -> anyhow::Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.home.plural(&words);
        command.env("PLURAL_CONSOLE_URL", self.console.url()).env("PLURAL_CONSOLE_TOKEN", &self.admin.token);
        let Done { code, out, err } = finish(command).await?;
        anyhow::ensure!(code == Some(0), "plural {line}: {code:?}\n{out}\n{err}");
        Ok(out)
    }

    /// Stops what runs.
    pub(super) fn end(mut self) {
        self.agent.stop();
        self.console.stop();
    }
}
