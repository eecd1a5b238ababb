//! The embedded runner: runs the Pods of runs of stacks on a simulated cluster as processes of this machine.
//!
//! A simulated cluster runs nothing. For Jobs that an agent made for a run of one console, and for no others (see `claim`), this is
//! the kubelet: it starts `plural harness` confined to a folder of its own, writes the Pod's status, passes SIGTERM on and waits for the
//! grace when the Pod is deleted, and kills what is left. Where the kernel cannot confine it, nothing is started, and the Job says so.

mod claim;
mod process;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, Secret},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use plural_kubesim::{Cluster, Kubelet};
use plural_sandbox::{Ended, SandboxError, WorkerHandle};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, oneshot},
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval},
};

use claim::{CONTAINER, RUN, claim};

/// Between two looks while something runs: for Pods that are gone at once, and for what could not be written.
const LOOK: Duration = Duration::from_secs(1);
/// Exit code of a container whose program was not started.
const NOT_STARTED: i32 = 128;

/// Whose Pods are, by uid: ours, or the simulation's.
#[derive(Default)]
struct Decided(Mutex<HashMap<String, bool>>);

impl Decided {
    fn of(&self, uid: &str) -> Option<bool> {
        self.map().get(uid).copied()
    }

    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<String, bool>> {
        // Half an insertion is none.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A runner that runs.
pub(crate) struct Runner {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Runner {
    /// Runs Pods of `cluster` for the console at `console`, in folders below `folder`.
    pub(crate) fn start(
        cluster: &Cluster,
        kube: kube::Config,
        console: &str,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        // It may hold a password, so it is not said.
        anyhow::ensure!(
            process::port(console).is_some(),
            "that is not the address of a console: http://HOST:PORT"
        );
        plural_kit::private_folder(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        let client = kube::Client::try_from(kube)?;
        let (decided, changed) = (Arc::new(Decided::default()), Arc::new(Notify::new()));
        let (asked, told) = (Arc::clone(&decided), Arc::clone(&changed));
        cluster.ask_for_kubelet(move |pod| {
            if pod["metadata"]["labels"].get(RUN).is_none() {
                return Kubelet::Simulated;
            }
            told.notify_one();
            match asked.of(pod["metadata"]["uid"].as_str().unwrap_or_default()) {
                Some(true) => Kubelet::Other,
                Some(false) => Kubelet::Simulated,
                None => Kubelet::Undecided,
            }
        });
        let stop = Arc::new(Notify::new());
        let state = State {
            client,
            console: console.to_owned(),
            folder,
            decided,
            running: HashMap::new(),
            processes: JoinSet::new(),
        };
        let task = tokio::spawn(state.run(changed, Arc::clone(&stop)));
        Ok(Self { stop, task })
    }

    /// Kills what runs and waits for its end. What it ran is told failed by the next one on the same cluster.
    pub(crate) async fn stop(self) {
        self.stop.notify_one();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the runner ended in a panic");
        }
    }
}

/// A Pod whose process runs.
struct Running {
    namespace: String,
    name: String,
    handle: WorkerHandle,
    /// When it is killed: set once its Pod is being deleted.
    kill_at: Option<Instant>,
}

type Outcome = (String, Result<Ended, SandboxError>);

struct State {
    client: kube::Client,
    console: String,
    folder: PathBuf,
    decided: Arc<Decided>,
    /// By the Pod's uid.
    running: HashMap<String, Running>,
    processes: JoinSet<Outcome>,
}

impl State {
    async fn run(mut self, changed: Arc<Notify>, stop: Arc<Notify>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Once at the start: for what an earlier one left.
        let mut again = true;
        loop {
            if again {
                again = match self.look().await {
                    Ok(is_left) => is_left || !self.running.is_empty(),
                    Err(error) => {
                        tracing::warn!(error = format!("{error:#}"), "the runner cannot see to its Pods");
                        true
                    }
                };
            }
            let next_kill = self.running.values().filter_map(|running| running.kill_at).min();
            let killing = async {
                match next_kill {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.notified() => break,
                () = changed.notified() => again = true,
                _ = looks.tick(), if again => {}
                () = killing => self.kill_late(),
                Some(ended) = self.processes.join_next() => match ended {
                    Ok((uid, outcome)) => {
                        self.tell_end(&uid, &outcome).await;
                        again = true;
                    }
                    Err(error) => tracing::error!(%error, "a run's thread ended in a panic"),
                },
            }
        }
        for running in self.running.values() {
            running.handle.kill();
        }
        while self.processes.join_next().await.is_some() {}
    }

    fn kill_late(&mut self) {
        let now = Instant::now();
        for running in self.running.values_mut().filter(|running| running.kill_at.is_some_and(|at| at <= now))
        {
            running.kill_at = None;
            running.handle.kill();
        }
    }

    /// Brings each Pod of a run one step on. Whether one has to be looked at again, though nothing changes.
    async fn look(&mut self) -> anyhow::Result<bool> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let pods = pods.list(&ListParams::default().labels(RUN)).await.context("cannot list Pods of runs")?;
        let (mut there, mut is_left) = (HashSet::new(), false);
        for pod in pods {
            let Some(uid) = pod.uid() else { continue };
            there.insert(uid.clone());
            if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
                continue;
            }
            if self.decided.of(&uid) != Some(false)
                && let Err(error) = self.step(&uid, &pod).await
            {
                tracing::warn!(error = format!("{error:#}"), pod = pod.name_any(), "a Pod of a run waits");
                is_left = true;
            }
        }
        for (uid, running) in &self.running {
            if !there.contains(uid) {
                running.handle.kill();
            }
        }
        let running = &self.running;
        self.decided.map().retain(|uid, _| there.contains(uid) || running.contains_key(uid));
        Ok(is_left)
    }

    async fn step(&mut self, uid: &str, pod: &Pod) -> anyhow::Result<()> {
        let namespace = pod.namespace().unwrap_or_default();
        let name = pod.name_any();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
        if let Some(running) = self.running.get_mut(uid) {
            if pod.metadata.deletion_timestamp.is_some() && running.kill_at.is_none() {
                let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
                running.kill_at = Some(Instant::now() + Duration::from_secs(grace.max(0).unsigned_abs()));
                running.handle.terminate();
            }
            return Ok(());
        }
        if self.decided.of(uid).is_none() {
            let mine = self.judge(&namespace, pod).await?;
            if let Err(why) = &mine {
                tracing::warn!(
                    why,
                    pod = name,
                    namespace,
                    "not run: it carries a run's label, and is no Pod of a run"
                );
            }
            self.decided.map().insert(uid.to_owned(), mine.is_ok());
            if mine.is_err() {
                return Ok(());
            }
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return self.remove(&namespace, &name).await;
        }
        match phase {
            "Pending" => self.begin(uid, &namespace, &name, pod).await,
            "Running" => {
                let why = "the runner that ran it is gone, and its process with it";
                let status = ended(NOT_STARTED, "Lost", why);
                self.write(&namespace, &name, &status).await
            }
            _ => Ok(()),
        }
    }

    async fn judge(&self, namespace: &str, pod: &Pod) -> anyhow::Result<Result<claim::Claim, String>> {
        let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Job");
        let Some(owner) = owner else { return Ok(Err("no Job of a run controls it".to_owned())) };
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let Some(job) = jobs.get_opt(&owner.name).await.context("cannot read its Job")? else {
            return Ok(Err("its Job is not there".to_owned()));
        };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = secrets.get_opt(&owner.name).await.context("cannot read its Secret")?;
        Ok(claim(&self.console, pod, &job, |_| secret))
    }

    async fn begin(&mut self, uid: &str, namespace: &str, name: &str, pod: &Pod) -> anyhow::Result<()> {
        let claim = match self.judge(namespace, pod).await? {
            Ok(claim) => claim,
            Err(why) => return self.write(namespace, name, &ended(NOT_STARTED, "StartError", &why)).await,
        };
        let now = timestamp();
        let status = json!({
            "phase": "Running", "startTime": now,
            "conditions": conditions("True"),
            "initContainerStatuses": init_statuses(pod, &now),
            "containerStatuses": [container(pod, &json!({"running": {"startedAt": now}}), true)],
        });
        // First the Pod: a process that nobody knows of is worse than a Pod whose process is lost.
        self.write(namespace, name, &status).await?;
        let handle = WorkerHandle::default();
        let (sender, receiver) = oneshot::channel();
        let (console, folder, ends) = (self.console.clone(), self.folder.join(uid), handle.clone());
        // A thread of its own: the process ends with the thread that started it.
        std::thread::Builder::new()
            .name("run".to_owned())
            .spawn(move || {
                let _ = sender.send(process::run(&console, &folder, claim, &ends));
            })
            .context("cannot start a thread")?;
        let of = uid.to_owned();
        self.processes.spawn(async move {
            let outcome = receiver.await.unwrap_or_else(|_| {
                Err(SandboxError::Start(std::io::Error::other("the thread of the run ended in a panic")))
            });
            (of, outcome)
        });
        let running =
            Running { namespace: namespace.to_owned(), name: name.to_owned(), handle, kill_at: None };
        self.running.insert(uid.to_owned(), running);
        Ok(())
    }

    /// Tells how a process ended. When that cannot be written, the next look finds a Pod that is lost.
    async fn tell_end(&mut self, uid: &str, outcome: &Result<Ended, SandboxError>) {
        let Some(Running { namespace, name, .. }) = self.running.remove(uid) else { return };
        let status = match outcome {
            Ok(Ended { code: 0, .. }) => ended(0, "Completed", ""),
            Ok(Ended { code, last_line }) => ended(*code, "Error", last_line),
            Err(error @ SandboxError::Unconfined(_)) => {
                if let Err(error) = self.say_in_job(&namespace, &name, &error.to_string()).await {
                    tracing::warn!(error = format!("{error:#}"), "cannot write to the Job of a run");
                }
                ended(NOT_STARTED, "StartError", &error.to_string())
            }
            Err(error) => ended(NOT_STARTED, "StartError", &error.to_string()),
        };
        if let Err(error) = self.write(&namespace, &name, &status).await {
            tracing::warn!(error = format!("{error:#}"), pod = name, "cannot write how a run ended");
        }
    }

    /// Adds to the status of a Pod's Job that nothing was started.
    async fn say_in_job(&self, namespace: &str, pod: &str, why: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pod = pods.get(pod).await?;
        let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Job");
        let Some(owner) = owner else { return Ok(()) };
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let job = jobs.get_status(&owner.name).await?;
        let mut conditions = json!(job.status.and_then(|status| status.conditions).unwrap_or_default());
        if let Some(conditions) = conditions.as_array_mut() {
            conditions.push(json!({
                "type": "Unconfined", "status": "True", "reason": "NotStarted", "message": why,
                "lastTransitionTime": timestamp(),
            }));
        }
        let patch = json!({"status": {"conditions": conditions}});
        jobs.patch_status(&owner.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn write(&self, namespace: &str, name: &str, status: &Value) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let patch = Patch::Merge(json!({"status": status}));
        match pods.patch_status(name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            // It was deleted at once: there is nobody to tell.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).context("cannot write the status of a Pod"),
        }
    }

    /// Ends the deletion of a Pod whose process has ended.
    async fn remove(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match pods.delete(name, &DeleteParams::default().grace_period(0)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).context("cannot remove a Pod"),
        }
    }
}

/// Now, as Kubernetes writes times.
fn timestamp() -> Value {
    json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::now()))
}

fn conditions(ready: &str) -> Value {
    let now = timestamp();
    json!([
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
        {"type": "Initialized", "status": "True", "lastTransitionTime": now},
        {"type": "ContainersReady", "status": ready, "lastTransitionTime": now},
        {"type": "Ready", "status": ready, "lastTransitionTime": now},
    ])
}

fn container(pod: &Pod, state: &Value, ready: bool) -> Value {
    let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone()).unwrap_or_default();
    json!({"name": CONTAINER, "image": image, "imageID": image, "ready": ready, "started": ready,
        "restartCount": 0, "state": state})
}

/// The container that brings our program into the tool's image: it is here already.
fn init_statuses(pod: &Pod, now: &Value) -> Vec<Value> {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let done =
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}});
    containers
        .map(|of| {
            let image = of.image.clone().unwrap_or_default();
            json!({"name": of.name, "image": image, "imageID": image, "ready": true, "restartCount": 0, "state": done})
        })
        .collect()
}

/// The status of a Pod whose process is not, or no longer.
fn ended(code: i32, reason: &str, message: &str) -> Value {
    let now = timestamp();
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let state = json!({"terminated": {
        "exitCode": code, "reason": reason, "message": message, "startedAt": now, "finishedAt": now}});
    json!({
        "phase": phase, "reason": reason, "message": message,
        "conditions": conditions("False"),
        "containerStatuses": [{"name": CONTAINER, "image": "", "imageID": "", "ready": false, "started": false,
            "restartCount": 0, "state": state}],
    })
}
