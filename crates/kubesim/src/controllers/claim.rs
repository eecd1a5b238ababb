//! Storage claims are bound at once; load balancers get an address.

use serde_json::{Value, json};

use super::template::{deleting, put_status};
use crate::store::{Address, Store, text};
use crate::verbs::system::{system_create, system_update};

/// Binds a claim to a volume made for it.
pub(super) fn reconcile(s: &mut Store, a: &Address) {
    let Some(pvc) = s.at(a).cloned() else { return };
    if deleting(&pvc) || text(&pvc, "/status/phase") == "Bound" {
        return;
    }
    let given = text(&pvc, "/spec/volumeName").to_owned();
    let volume = if given.is_empty() { format!("pvc-{}", text(&pvc, "/metadata/uid")) } else { given };
    let class =
        pvc.pointer("/spec/storageClassName").and_then(Value::as_str).unwrap_or("standard").to_owned();
    let capacity = json!({"storage": pvc["spec"]["resources"]["requests"]["storage"]});
    let pv = json!({
        "metadata": {"name": volume},
        "spec": {"capacity": capacity, "accessModes": pvc["spec"]["accessModes"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/dev/null", "type": ""},
            "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": &*a.1.0, "name": &*a.1.1,
                "uid": pvc["metadata"]["uid"]}},
        "status": {"phase": "Bound"},
    });
    system_create(s, "persistentvolumes", pv, super::MANAGER);
    let mut new = (*pvc).clone();
    new["spec"]["volumeName"] = volume.into();
    new["spec"]["storageClassName"] = class.into();
    let Some(pvc) = system_update(s, &a.0, &pvc, new, super::MANAGER, "") else { return };
    put_status(
        s,
        a,
        &pvc,
        json!({"phase": "Bound", "accessModes": pvc["spec"]["accessModes"], "capacity": capacity}),
    );
}

/// Gives a load-balanced Service or an Ingress an address from the documentation range.
pub(super) fn balance(s: &mut Store, a: &Address) {
    let Some(o) = s.at(a).cloned() else { return };
    let wants = &*a.0 != "services" || text(&o, "/spec/type") == "LoadBalancer";
    if deleting(&o) || !wants || o.pointer("/status/loadBalancer/ingress").is_some() {
        return;
    }
    let n = s.revision() % 250 + 2;
    let mut status = o["status"].clone();
    status["loadBalancer"] = json!({"ingress": [{"ip": format!("203.0.113.{n}")}]});
    if &*a.0 == "services" {
        status["loadBalancer"]["ingress"][0]["ipMode"] = "VIP".into();
    }
    put_status(s, a, &o, status);
}
