//! One Pod of a node: its processes, and what is told of them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    NodeOptions,
    environment::{Paths, variables, volumes},
};
use crate::process::{Program, Running};

/// Now, as Kubernetes writes times.
pub(super) fn now() -> Time {
    Time(Timestamp::now())
}

/// A container whose process was started.
struct Started {
    name: String,
    image: String,
    /// It goes before the others, and they wait for its end.
    is_init: bool,
    process: Running,
    at: Time,
    ended: Option<(i32, Time)>,
}

impl Started {
    /// Sees whether it has ended; if so, kills what it left: a container goes as a whole.
    fn see(&mut self) -> anyhow::Result<()> {
        if self.ended.is_none()
            && let Some(status) = self.process.exited()?
        {
            kill_session(self.process.pid());
            // The supervisor ends as its program did: by a signal, with 128 and its number.
            self.ended = Some((status.code().unwrap_or(255), now()));
        }
        Ok(())
    }

    fn state(&self) -> Value {
        match &self.ended {
            None => json!({"running": {"startedAt": self.at}}),
            Some((code, at)) => {
                let reason = if *code == 0 { "Completed" } else { "Error" };
                json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": self.at, "finishedAt": at}})
            }
        }
    }

    fn status(&self) -> Value {
        let runs = self.ended.is_none();
        json!({"name": self.name, "image": self.image, "imageID": self.image, "ready": runs, "started": runs,
            "restartCount": 0, "state": self.state()})
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.ended.is_none() {
            kill_session(self.process.pid());
        }
    }
}

/// What is to be known of a Pod.
pub(super) struct NodePod {
    folder: PathBuf,
    started: Vec<Started>,
    /// When it is killed: set once it is being deleted.
    kill_at: Option<Instant>,
    /// Why it does not begin.
    waits: Option<String>,
    /// What was written last.
    told: Value,
    begun: Option<Time>,
    /// It had ended before this node knew of it.
    is_over: bool,
}

impl NodePod {
    pub(super) fn new(folder: PathBuf, is_over: bool) -> Self {
        Self {
            folder,
            started: Vec::new(),
            kill_at: None,
            waits: None,
            told: Value::Null,
            begun: None,
            is_over,
        }
    }

    /// Sees which of its processes have ended.
    pub(super) fn see(&mut self) -> anyhow::Result<()> {
        self.started.iter_mut().try_for_each(Started::see)
    }

    /// Brings it one step on, and tells how it stands.
    pub(super) async fn step(
        &mut self,
        client: &Client,
        options: &NodeOptions,
        pod: &Pod,
    ) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let is_deleted = pod.metadata.deletion_timestamp.is_some();
        if is_deleted {
            self.end(pod);
        } else if !self.is_over {
            self.begin(client, options, pod).await?;
        }
        self.see()?;
        let runs = self.started.iter().any(|started| started.ended.is_none());
        if !self.is_over {
            let status = self.status(pod, is_deleted);
            if status != self.told {
                let patch = Patch::Merge(json!({"status": status}));
                match pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await {
                    Ok(_) => self.told = status,
                    Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                    Err(error) => return Err(error).context("cannot write its status"),
                }
            }
        }
        if is_deleted && !runs {
            let uid = Preconditions { uid: pod.uid(), resource_version: None };
            let now = DeleteParams::default().grace_period(0).preconditions(uid);
            match pods.delete(&pod.name_any(), &now).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error).context("cannot end its deletion"),
            }
        }
        Ok(())
    }

    /// Starts what is to be started next.
    async fn begin(&mut self, client: &Client, options: &NodeOptions, pod: &Pod) -> anyhow::Result<()> {
        let Some(spec) = &pod.spec else { return Ok(()) };
        if self.begun.is_none() {
            if let Err(waits) = volumes(client, pod, &self.folder.join("volumes")).await? {
                self.waits = Some(waits.0);
                return Ok(());
            }
            self.begun = Some(now());
        }
        let inits = spec.init_containers.iter().flatten();
        for init in inits {
            match self.started.iter().find(|started| started.is_init && started.name == init.name) {
                None => return self.start(client, options, pod, init, true).await,
                Some(Started { ended: Some((0, _)), .. }) => {}
                // It runs, or has failed.
                Some(_) => return Ok(()),
            }
        }
        for container in &spec.containers {
            let is_there =
                self.started.iter().any(|started| !started.is_init && started.name == container.name);
            if !is_there {
                self.start(client, options, pod, container, false).await?;
            }
        }
        Ok(())
    }

    async fn start(
        &mut self,
        client: &Client,
        options: &NodeOptions,
        pod: &Pod,
        container: &Container,
        is_init: bool,
    ) -> anyhow::Result<()> {
        let given = match variables(client, pod, container).await? {
            Ok(given) => given,
            Err(waits) => {
                self.waits = Some(waits.0);
                return Ok(());
            }
        };
        let paths = Paths::of(container, &self.folder.join("volumes"));
        let folder = self.folder.join("containers").join(&container.name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // A session of its own, by which all that it starts is found when it ends.
        let mut program = Program::new("setsid", &folder).env("PATH", &options.path);
        let command = container.command.iter().flatten();
        let (mut words, args) = (command.peekable(), container.args.iter().flatten());
        if words.peek().is_none() {
            program = program.arg(&options.entry_point);
        }
        for word in words.chain(args) {
            program = program.arg(paths.here(word));
        }
        if let Some(folder) = paths.folder("/tmp") {
            program = program.env("TMPDIR", folder);
        }
        for (name, value) in given {
            program = program.env(name, paths.here(&value));
        }
        self.waits = None;
        self.started.push(Started {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            is_init,
            process: program.start()?,
            at: now(),
            ended: None,
        });
        Ok(())
    }

    /// SIGTERM once, and SIGKILL after the grace.
    fn end(&mut self, pod: &Pod) {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30).max(0).unsigned_abs();
        let running = self.started.iter().filter(|started| started.ended.is_none());
        match self.kill_at {
            None => {
                for started in running {
                    if let Some(pid) = pid(started.process.pid()) {
                        // It may be ending at this moment.
                        let _ = kill_process(pid, Signal::TERM);
                    }
                }
                self.kill_at = Some(Instant::now() + Duration::from_secs(grace));
            }
            Some(at) if at <= Instant::now() => {
                running.for_each(|started| kill_session(started.process.pid()));
            }
            Some(_) => {}
        }
    }

    fn status(&self, pod: &Pod, is_deleted: bool) -> Value {
        let of = |is_init: bool| self.started.iter().filter(move |started| started.is_init == is_init);
        let wanted = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
        let failed = |started: &Started| matches!(started.ended, Some((code, _)) if code != 0);
        let all_ended = of(false).count() == wanted && of(false).all(|started| started.ended.is_some());
        let none_runs = self.started.iter().all(|started| started.ended.is_some());
        let phase = if all_ended && !of(false).any(failed) {
            "Succeeded"
        } else if all_ended || of(true).any(failed) || (is_deleted && none_runs) {
            "Failed"
        } else if of(false).count() > 0 {
            "Running"
        } else {
            "Pending"
        };
        let mut containers: Vec<Value> = of(false).map(Started::status).collect();
        if let (Some(waits), Some(spec)) = (&self.waits, &pod.spec) {
            containers.extend(spec.containers.iter().filter(|one| of(false).all(|known| known.name != one.name)).map(
                |one| {
                    json!({"name": one.name, "image": one.image, "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"waiting": {"reason": "CreateContainerConfigError", "message": waits}}})
                },
            ));
        }
        let ready = if phase == "Running" { "True" } else { "False" };
        let since = &self.begun;
        let condition =
            |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": since});
        let initialized = if of(false).count() > 0 { "True" } else { "False" };
        json!({
            "phase": phase, "startTime": since,
            "conditions": [condition("PodScheduled", "True"), condition("Initialized", initialized),
                condition("ContainersReady", ready), condition("Ready", ready)],
            "initContainerStatuses": of(true).map(Started::status).collect::<Vec<_>>(),
            "containerStatuses": containers,
        })
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Kills a process, and all whose session it leads.
fn kill_session(leader: u32) {
    let members = || {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let found = processes.filter_map(|entry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            session(&entry.path())?.eq(&leader).then_some(number)
        });
        found.collect::<Vec<u32>>()
    };
    // Each round sees what was started during the one before.
    loop {
        let left = members();
        if left.is_empty() {
            return;
        }
        for number in left {
            if let Some(pid) = pid(number) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The session of a process that still runs: fields 3 and 6 of `stat`, see proc(5).
fn session(process: &Path) -> Option<u32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name before the state is in parentheses, and may hold some itself.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(2)?.parse().ok()
}
