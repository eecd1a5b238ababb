//! The controllers of a cluster: one task that looks at every object that changed.
//!
//! Each controller is a function of the store and one address. It looks at the level, not at what changed, and may
//! run any number of times.

mod claim;
mod daemonset;
mod definition;
mod deployment;
mod garbage;
mod job;
mod namespace;
mod pod;
mod replicaset;
mod statefulset;
mod template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::Inner;
use crate::store::{Address, Store};

/// Annotations that steer the simulation. They work on a Pod, on a Pod template, and on the workload itself.
pub mod annotations {
    /// `ImagePullBackOff`, `CrashLoop`, `Unschedulable`: the Pod never gets ready, with the state, reason and events
    /// a real one has. `JobFailed`: the Pod ends with exit code 1 and the Job fails.
    pub const FAIL: &str = "kubesim.plural.sh/fail";
    /// Time from creation to ready, e.g. `0s`, `250ms`, `5s`.
    pub const READY_AFTER: &str = "kubesim.plural.sh/ready-after";
    /// Of a Pod: what commands in its containers print, as a JSON object of command lines and texts, e.g.
    /// `{"ls /srv": "index.html\n"}`.
    pub const EXEC: &str = "kubesim.plural.sh/exec";
}

/// What a controller asks of the loop: look again at an address, after a while.
#[derive(Debug, Default)]
pub(crate) struct Later(Vec<(Duration, Address)>);

impl Later {
    /// Look again at `a` after `d`.
    pub(crate) fn again(&mut self, d: Duration, a: &Address) {
        self.0.push((d, a.clone()));
    }
}

/// Name of the controllers as field manager.
pub(crate) const MANAGER: &str = "kube-controller-manager";
/// Addresses looked at before requests get their turn again.
const BATCH: usize = 64;

/// Runs the controllers until `stop` turns true.
pub(crate) async fn run(inner: Arc<Inner>, mut stop: watch::Receiver<bool>) {
    let mut timers: BTreeMap<Instant, Vec<Address>> = BTreeMap::new();
    loop {
        let now = Instant::now();
        let due = timers.split_off(&(now + Duration::from_nanos(1)));
        let due = std::mem::replace(&mut timers, due);
        let mut later = Later::default();
        let more = inner.write_quietly(|s| {
            for a in due.into_values().flatten() {
                s.mark(a);
            }
            for _ in 0..BATCH {
                let Some(a) = s.next_dirty() else { return false };
                look(s, &a, &inner, &mut later);
            }
            true
        });
        for (d, a) in later.0 {
            timers.entry(Instant::now() + d).or_default().push(a);
        }
        if more {
            tokio::task::yield_now().await;
            continue;
        }
        let next = timers.keys().next().copied();
        let sleep = async {
            match next {
                Some(t) => tokio::time::sleep_until(t).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = stop.wait_for(|s| *s) => return,
            () = inner.work.notified() => {}
            () = sleep => {}
        }
    }
}

fn look(s: &mut Store, a: &Address, inner: &Inner, later: &mut Later) {
    namespace::touched(s, a);
    if !garbage::reconcile(s, a) {
        return;
    }
    match &*a.0 {
        "namespaces" => namespace::reconcile(s, a),
        crate::kinds::CRDS => definition::reconcile(s, a),
        _ => {
            definition::touched(s, a);
            if inner.options.workloads {
                workload(s, a, inner, later);
            }
        }
    }
}

fn workload(s: &mut Store, a: &Address, inner: &Inner, later: &mut Later) {
    match &*a.0 {
        "pods" => pod::reconcile(s, a, inner, later),
        "replicasets.apps" => replicaset::reconcile(s, a),
        "deployments.apps" => deployment::reconcile(s, a, later),
        "statefulsets.apps" => statefulset::reconcile(s, a),
        "daemonsets.apps" => daemonset::reconcile(s, a),
        "jobs.batch" => job::reconcile(s, a, later),
        "persistentvolumeclaims" => claim::reconcile(s, a),
        "services" | "ingresses.networking.k8s.io" => claim::balance(s, a),
        _ => {}
    }
}
