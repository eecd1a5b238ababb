//! What single built-in kinds need beyond the common pipeline.

use serde_json::{Value, json};

use crate::crd;
use crate::status::{ApiError, Cause};
use crate::store::{Store, text};
use crate::verbs::Call;

/// Letters and digits as generated names have them (no vowels, so that no words appear).
pub(crate) fn random_suffix(n: usize) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = Vec::with_capacity(n);
    while bytes.len() < n {
        bytes.extend_from_slice(uuid::Uuid::new_v4().as_bytes());
    }
    bytes.iter().take(n).map(|b| ALPHABET[*b as usize % ALPHABET.len()] as char).collect()
}

/// Kinds whose `metadata.generation` counts changes of the spec.
pub(crate) fn has_generation(table: &str) -> bool {
    matches!(
        table,
        "pods"
            | "replicationcontrollers"
            | "deployments.apps"
            | "replicasets.apps"
            | "statefulsets.apps"
            | "daemonsets.apps"
            | "jobs.batch"
            | "cronjobs.batch"
            | "ingresses.networking.k8s.io"
            | "ingressclasses.networking.k8s.io"
            | "networkpolicies.networking.k8s.io"
            | "poddisruptionbudgets.policy"
            | "customresourcedefinitions.apiextensions.k8s.io"
            | "priorityclasses.scheduling.k8s.io"
            | "mutatingwebhookconfigurations.admissionregistration.k8s.io"
            | "validatingwebhookconfigurations.admissionregistration.k8s.io"
            | "validatingadmissionpolicies.admissionregistration.k8s.io"
            | "validatingadmissionpolicybindings.admissionregistration.k8s.io"
            | "endpointslices.discovery.k8s.io"
    )
}

/// Table of definitions.
pub(crate) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What a kind sets on creation, before defaults.
pub(crate) fn prepare_create(call: Call<'_>, object: &mut Value) {
    match &*call.res.table {
        "pods" | "persistentvolumeclaims" | "persistentvolumes" => {
            object["status"] = json!({"phase": "Pending"});
        }
        "namespaces" => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
            let name = text(object, "/metadata/name").to_owned();
            if !name.is_empty() {
                let meta = &mut object["metadata"];
                if !meta["labels"].is_object() {
                    meta["labels"] = json!({});
                }
                meta["labels"]["kubernetes.io/metadata.name"] = name.into();
            }
        }
        "services" | "ingresses.networking.k8s.io" => object["status"] = json!({"loadBalancer": {}}),
        "deployments.apps" | "jobs.batch" | "cronjobs.batch" | "nodes" => object["status"] = json!({}),
        "replicasets.apps" => object["status"] = json!({"replicas": 0}),
        "statefulsets.apps" => object["status"] = json!({"replicas": 0, "availableReplicas": 0}),
        "daemonsets.apps" => {
            object["status"] = json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0});
        }
        "secrets" => string_data(object),
        _ => {}
    }
}

fn string_data(object: &mut Value) {
    use base64::Engine as _;
    let Some(o) = object.as_object_mut() else { return };
    let Some(Value::Object(plain)) = o.remove("stringData") else { return };
    let data = o.entry("data").or_insert_with(|| json!({}));
    for (k, v) in plain {
        let encoded = base64::engine::general_purpose::STANDARD.encode(v.as_str().unwrap_or_default());
        if let Some(d) = data.as_object_mut() {
            d.insert(k, encoded.into());
        }
    }
}

/// Last step of a create: allocations and checks that need other objects.
///
/// # Errors
/// 404, 409, 422.
pub(crate) fn admit_create(s: &Store, call: Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    match &*call.res.table {
        "services" => allocate_service(s, object),
        CRDS => {
            let causes = crd::check(object);
            if !causes.is_empty() {
                return Err(ApiError::invalid(call.kind_subject(text(object, "/metadata/name")), causes));
            }
            object["status"] = crd_initial_status();
        }
        _ => {}
    }
    Ok(())
}

fn crd_initial_status() -> Value {
    json!({"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []})
}

fn allocate_service(s: &Store, object: &mut Value) {
    let ty = text(object, "/spec/type").to_owned();
    if ty == "ExternalName" {
        return;
    }
    let used = |ip: &str| s.iter("services", None).any(|(_, o)| text(o, "/spec/clusterIP") == ip);
    if text(object, "/spec/clusterIP").is_empty() {
        // Walk from a place that depends on the number of services: close to constant time.
        let start = s.count("services") as u32 + 10;
        let ip = (0..65_000u32)
            .map(|i| (start + i) % 65_000 + 2)
            .map(|n| format!("10.96.{}.{}", n / 256, n % 256))
            .find(|ip| !used(ip));
        if let Some(ip) = ip {
            object["spec"]["clusterIP"] = ip.into();
        }
    }
    if object.pointer("/spec/clusterIPs").is_none() {
        object["spec"]["clusterIPs"] = json!([object["spec"]["clusterIP"].clone()]);
    }
    if matches!(ty.as_str(), "NodePort" | "LoadBalancer") {
        let taken: Vec<i64> = s
            .iter("services", None)
            .flat_map(|(_, o)| o.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten())
            .filter_map(|p| p.get("nodePort").and_then(Value::as_i64))
            .collect();
        let mut free = (30_000..32_768).filter(|p| !taken.contains(p));
        if let Some(ports) = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut) {
            for p in ports.iter_mut().filter(|p| p.get("nodePort").is_none()) {
                if let Some(n) = free.next() {
                    p["nodePort"] = n.into();
                }
            }
        }
    }
}

/// What a kind carries over from the old object on update.
pub(crate) fn prepare_update(call: Call<'_>, old: &Value, new: &mut Value) {
    match &*call.res.table {
        "namespaces" if call.info.subresource != "finalize" => {
            new["spec"] = old["spec"].clone();
            let name = text(old, "/metadata/name").to_owned();
            if !new["metadata"]["labels"].is_object() {
                new["metadata"]["labels"] = json!({});
            }
            new["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
        }
        "services" if call.info.subresource.is_empty() => {
            for f in ["clusterIP", "clusterIPs"] {
                if new["spec"].get(f).is_none()
                    && text(new, "/spec/type") != "ExternalName"
                    && let Some(v) = old["spec"].get(f)
                {
                    new["spec"][f] = v.clone();
                }
            }
        }
        "secrets" => {
            string_data(new);
            if new.get("type").is_none()
                && let Some(t) = old.get("type")
            {
                new["type"] = t.clone();
            }
        }
        "persistentvolumeclaims" if call.info.subresource.is_empty() => {
            if new.pointer("/spec/volumeName").is_none()
                && let Some(v) = old.pointer("/spec/volumeName")
            {
                new["spec"]["volumeName"] = v.clone();
            }
        }
        "serviceaccounts" => {
            if new.get("secrets").is_none()
                && let Some(v) = old.get("secrets")
            {
                new["secrets"] = v.clone();
            }
        }
        _ => {}
    }
}

/// Checks of an update that need other objects.
///
/// # Errors
/// 422.
pub(crate) fn admit_update(call: Call<'_>, old: &Value, new: &Value) -> Result<(), ApiError> {
    if &*call.res.table == CRDS && call.info.subresource.is_empty() {
        let mut causes = crd::check(new);
        for f in ["group", "scope"] {
            if old["spec"][f] != new["spec"][f] {
                causes.push(Cause::invalid(format!("spec.{f}"), &new["spec"][f], "field is immutable"));
            }
        }
        for f in ["plural", "kind"] {
            if old["spec"]["names"][f] != new["spec"]["names"][f] {
                causes.push(Cause::invalid(
                    format!("spec.names.{f}"),
                    &new["spec"]["names"][f],
                    "field is immutable",
                ));
            }
        }
        if !causes.is_empty() {
            return Err(ApiError::invalid(call.kind_subject(&call.info.name), causes));
        }
    }
    Ok(())
}

/// Kinds whose delete answers with the object instead of a Status.
pub(crate) fn delete_answers_object(table: &str) -> bool {
    matches!(
        table,
        "pods"
            | "serviceaccounts"
            | "persistentvolumes"
            | "persistentvolumeclaims"
            | "resourcequotas"
            | "podtemplates"
            | "services"
    )
}
