//! The core group.

use super::{
    Health, apps, pod,
    read::{View, items, text, text_or},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "Pod" => pod::health(view),
        "ReplicationController" => apps::replica_set(view),
        "Service" => service(view),
        "PersistentVolumeClaim" => claim(view),
        "PersistentVolume" => volume(view),
        // A namespace that terminates has a deletion time, which is looked at before.
        "Namespace" => Health::healthy(),
        "Node" => node(view),
        _ => return None,
    })
}

fn service(view: &View<'_>) -> Health {
    if view.spec["type"] != "LoadBalancer" {
        return Health::healthy();
    }
    let given = items(&view.status["loadBalancer"]["ingress"])
        .any(|address| !text(&address["ip"]).is_empty() || !text(&address["hostname"]).is_empty());
    if given || items(&view.spec["externalIPs"]).next().is_some() {
        return Health::healthy();
    }
    Health::progressing("its load balancer has no address yet")
}

fn claim(view: &View<'_>) -> Health {
    match view.phase() {
        "Lost" => return Health::degraded("the volume that it was bound to is gone"),
        "Bound" => {}
        phase => {
            return Health::progressing(format!("no volume is bound to it yet{}", {
                if phase.is_empty() { String::new() } else { format!(" (its phase is {phase})") }
            }));
        }
    }
    for kind in ["ControllerResizeError", "NodeResizeError", "ModifyVolumeError"] {
        if let Some(failed) = view.yes(kind) {
            return Health::degraded(failed.why("the volume cannot be changed"));
        }
    }
    for (kind, fallback) in [
        ("Resizing", "the volume is being resized"),
        ("FileSystemResizePending", "the file system grows when a Pod mounts it"),
        ("ModifyingVolume", "the volume is being changed"),
    ] {
        if let Some(busy) = view.yes(kind) {
            return Health::progressing(busy.why(fallback));
        }
    }
    Health::healthy()
}

fn volume(view: &View<'_>) -> Health {
    match view.phase() {
        "Available" | "Bound" => Health::healthy(),
        "Released" => Health::remark("its claim is gone; it keeps the data"),
        "Failed" => Health::degraded(text_or(&view.status["message"], "the volume could not be reclaimed")),
        "" => Health::progressing("the volume has not been reconciled yet"),
        other => Health::progressing(format!("its phase is {other}")),
    }
}

fn node(view: &View<'_>) -> Health {
    match view.condition("Ready") {
        Some(ready) if ready.is_true() => {}
        Some(ready) if ready.is_false() => return Health::degraded(ready.why("the node is not ready")),
        Some(ready) => return Health::unknown(ready.why("the node does not say how it is")),
        None => return Health::progressing("the node has not said how it is"),
    }
    for pressure in ["DiskPressure", "MemoryPressure", "PIDPressure", "NetworkUnavailable"] {
        if let Some(found) = view.yes(pressure) {
            return Health::degraded(found.why(pressure));
        }
    }
    if view.spec["unschedulable"] == true {
        return Health::suspended("the node is cordoned");
    }
    Health::healthy()
}
