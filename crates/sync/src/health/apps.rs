//! Workloads: Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController.

use super::{
    Health,
    read::{View, number, text},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "Deployment" => deployment(view),
        "StatefulSet" => stateful_set(view),
        "DaemonSet" => daemon_set(view),
        "ReplicaSet" => replica_set(view),
        // Some clusters still serve it under `extensions`. Many controllers never write an address,
        // so none is waited for.
        "Ingress" => Health::healthy(),
        _ => return None,
    })
}

fn deployment(view: &View<'_>) -> Health {
    let View { spec, status, .. } = view;
    if spec["paused"] == true {
        return Health::suspended("its rollout is paused");
    }
    if let Some(behind) = view.behind_or_silent() {
        return behind;
    }
    let failure = view.yes("ReplicaFailure");
    if let Some(progress) = view.no("Progressing")
        && progress.reason == "ProgressDeadlineExceeded"
    {
        let mut words = progress.why("its rollout did not finish in time");
        if let Some(failure) = failure {
            words = format!("{words}: {}", failure.why("its Pods cannot be created"));
        }
        return Health::degraded(words);
    }
    // Quota and admission: a wait helps only when someone else gives way.
    if let Some(failure) = failure {
        return Health::degraded(failure.why("its Pods cannot be created"));
    }
    let wanted = number(&spec["replicas"], 1);
    let updated = number(&status["updatedReplicas"], 0);
    let total = number(&status["replicas"], 0);
    let available = number(&status["availableReplicas"], 0);
    if updated < wanted {
        return Health::progressing(format!("{updated} of {wanted} replicas are updated"));
    }
    if total > updated {
        return Health::progressing(format!("{} old replicas are still there", total - updated));
    }
    if available < wanted {
        return Health::progressing(format!("{available} of {wanted} replicas are available"));
    }
    Health::healthy()
}

fn stateful_set(view: &View<'_>) -> Health {
    let View { spec, status, .. } = view;
    if let Some(behind) = view.behind_or_silent() {
        return behind;
    }
    let wanted = number(&spec["replicas"], 1);
    let ready = number(&status["readyReplicas"], 0);
    if ready < wanted {
        return Health::progressing(format!("{ready} of {wanted} replicas are ready"));
    }
    if spec["updateStrategy"]["type"] == "OnDelete" {
        return Health::healthy();
    }
    // Pods below the partition keep the old revision on purpose.
    let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"], 0);
    let updated = number(&status["updatedReplicas"], 0);
    let to_update = (wanted - partition).max(0);
    let (current, update) = (text(&status["currentRevision"]), text(&status["updateRevision"]));
    if current != update && updated < to_update {
        return Health::progressing(format!("{updated} of {to_update} replicas are updated"));
    }
    let available = number(&status["availableReplicas"], ready);
    if available < wanted {
        return Health::progressing(format!("{available} of {wanted} replicas are available"));
    }
    if current != update && partition > 0 {
        return Health::remark(format!("replicas below {partition} keep the old revision"));
    }
    Health::healthy()
}

fn daemon_set(view: &View<'_>) -> Health {
    let View { spec, status, .. } = view;
    if let Some(behind) = view.behind_or_silent() {
        return behind;
    }
    let wanted = number(&status["desiredNumberScheduled"], 0);
    let updated = number(&status["updatedNumberScheduled"], 0);
    if spec["updateStrategy"]["type"] != "OnDelete" && updated < wanted {
        return Health::progressing(format!("{updated} of {wanted} Pods are updated"));
    }
    let available = number(&status["numberAvailable"], 0);
    if available < wanted {
        return Health::progressing(format!("{available} of {wanted} Pods are available"));
    }
    match number(&status["numberMisscheduled"], 0) {
        0 => Health::healthy(),
        strays => Health::remark(format!("{strays} Pods run on nodes that should not have one")),
    }
}

pub(super) fn replica_set(view: &View<'_>) -> Health {
    let View { spec, status, .. } = view;
    if let Some(behind) = view.behind_or_silent() {
        return behind;
    }
    if let Some(failure) = view.yes("ReplicaFailure") {
        return Health::degraded(failure.why("its Pods cannot be created"));
    }
    let (wanted, available) = (number(&spec["replicas"], 1), number(&status["availableReplicas"], 0));
    if available < wanted {
        return Health::progressing(format!("{available} of {wanted} replicas are available"));
    }
    Health::healthy()
}
