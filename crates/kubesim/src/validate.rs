//! Checks of built-in kinds: required fields, values out of range, fields that may not change.

use serde_json::Value;

use crate::names;
use crate::selector::Labels;
use crate::status::Cause;

fn text<'a>(v: &'a Value, p: &str) -> &'a str {
    v.pointer(p).and_then(Value::as_str).unwrap_or_default()
}

fn field<'a>(v: &'a Value, p: &str) -> &'a Value {
    v.pointer(p).unwrap_or(&Value::Null)
}

fn immutable(out: &mut Vec<Cause>, path: &str, old: &Value, new: &Value) {
    let p = format!("/{}", path.replace('.', "/"));
    if field(old, &p) != field(new, &p) {
        out.push(Cause::invalid(path, field(new, &p), "field is immutable"));
    }
}

fn not_negative(out: &mut Vec<Cause>, path: &str, o: &Value) {
    let v = field(o, &format!("/{}", path.replace('.', "/")));
    if v.as_i64().is_some_and(|n| n < 0) {
        out.push(Cause::invalid(path, v, "must be greater than or equal to 0"));
    }
}

/// What is wrong with an object of `table`; `old` on updates.
pub(crate) fn object(table: &str, o: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut out = Vec::new();
    match table {
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            workload(table, o, old, &mut out);
        }
        "pods" => {
            pod(field(o, "/spec"), "spec", &mut out);
            if let Some(old) = old {
                pod_update(old, o, &mut out);
            }
        }
        "jobs.batch" => {
            template(o, "/spec/template", "spec.template", &["OnFailure", "Never"], &mut out);
            not_negative(&mut out, "spec.parallelism", o);
            not_negative(&mut out, "spec.completions", o);
            not_negative(&mut out, "spec.backoffLimit", o);
            if let Some(old) = old {
                for f in ["spec.completions", "spec.selector", "spec.template", "spec.completionMode"] {
                    immutable(&mut out, f, old, o);
                }
            }
        }
        "cronjobs.batch" => {
            if text(o, "/spec/schedule").is_empty() {
                out.push(Cause::required("spec.schedule", ""));
            } else if !is_cron(text(o, "/spec/schedule")) {
                let v = field(o, "/spec/schedule");
                out.push(Cause::invalid("spec.schedule", v, "expected exactly 5 fields or a @descriptor"));
            }
            template(
                o,
                "/spec/jobTemplate/spec/template",
                "spec.jobTemplate.spec.template",
                &["OnFailure", "Never"],
                &mut out,
            );
        }
        "services" => service(o, old, &mut out),
        "configmaps" => {
            keys(o, "data", &mut out);
            keys(o, "binaryData", &mut out);
            sealed(o, old, &["data", "binaryData"], &mut out);
        }
        "secrets" => {
            keys(o, "data", &mut out);
            sealed(o, old, &["data"], &mut out);
            if let Some(old) = old {
                immutable(&mut out, "type", old, o);
            }
            let size: usize = o
                .get("data")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(_, v)| v.as_str().map_or(0, |s| s.len() / 4 * 3))
                .sum();
            if size > 1_048_576 {
                out.push(Cause::too_long("data", "may not be more than 1048576 bytes"));
            }
            base64_values(o, &mut out);
        }
        "persistentvolumeclaims" => {
            if field(o, "/spec/accessModes").as_array().is_none_or(Vec::is_empty) {
                out.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
            }
            if field(o, "/spec/resources/requests/storage").is_null() {
                out.push(Cause::required("spec.resources[storage]", ""));
            }
            if let Some(old) = old
                && (field(old, "/spec/accessModes") != field(o, "/spec/accessModes")
                    || field(old, "/spec/storageClassName") != field(o, "/spec/storageClassName"))
            {
                out.push(Cause::forbidden(
                    "spec",
                    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
                ));
            }
        }
        "ingresses.networking.k8s.io" => {
            let rules = field(o, "/spec/rules").as_array().is_none_or(Vec::is_empty);
            if rules && field(o, "/spec/defaultBackend").is_null() {
                out.push(Cause::invalid(
                    "spec",
                    field(o, "/spec"),
                    "either `defaultBackend` or `rules` must be specified",
                ));
            }
            for (i, r) in field(o, "/spec/rules").as_array().into_iter().flatten().enumerate() {
                for (j, p) in field(r, "/http/paths").as_array().into_iter().flatten().enumerate() {
                    if text(p, "/pathType").is_empty() {
                        out.push(Cause::required(
                            format!("spec.rules[{i}].http.paths[{j}].pathType"),
                            "pathType must be specified",
                        ));
                    }
                }
            }
        }
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            if text(o, "/roleRef/name").is_empty() {
                out.push(Cause::required("roleRef.name", ""));
            }
            if let Some(old) = old
                && old["roleRef"] != o["roleRef"]
            {
                out.push(Cause::invalid("roleRef", &o["roleRef"], "cannot change roleRef"));
            }
        }
        "storageclasses.storage.k8s.io" => {
            if text(o, "/provisioner").is_empty() {
                out.push(Cause::required("provisioner", ""));
            }
            if let Some(old) = old {
                for f in ["provisioner", "reclaimPolicy", "parameters", "volumeBindingMode"] {
                    if old.get(f) != o.get(f) {
                        out.push(Cause::forbidden(f, &format!("updates to {f} are forbidden.")));
                    }
                }
            }
        }
        "horizontalpodautoscalers.autoscaling" if field(o, "/spec/maxReplicas").as_i64().unwrap_or(0) < 1 => {
            out.push(Cause::invalid(
                "spec.maxReplicas",
                field(o, "/spec/maxReplicas"),
                "must be greater than 0",
            ));
        }
        "priorityclasses.scheduling.k8s.io" => {
            if let Some(old) = old
                && old["value"] != o["value"]
            {
                out.push(Cause::forbidden("value", "may not be changed in an update."));
            }
        }
        _ => {}
    }
    out
}

fn workload(table: &str, o: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let kind = match table {
        "deployments.apps" => "deployment",
        "statefulsets.apps" => "statefulset",
        "daemonsets.apps" => "daemonset",
        _ => "replicaset",
    };
    not_negative(out, "spec.replicas", o);
    not_negative(out, "spec.minReadySeconds", o);
    let selector = field(o, "/spec/selector");
    if selector.is_null() {
        out.push(Cause::required("spec.selector", ""));
    } else if Labels::from_object(selector).is_empty() {
        let m = format!("empty selector is invalid for {kind}");
        out.push(Cause::invalid("spec.selector", selector, &m));
    }
    let template_labels = field(o, "/spec/template/metadata/labels");
    if !selector.is_null() && !Labels::from_object(selector).matches(field(o, "/spec/template")) {
        let empty = Value::Object(serde_json::Map::new());
        let shown = if template_labels.is_null() { &empty } else { template_labels };
        out.push(Cause::invalid(
            "spec.template.metadata.labels",
            shown,
            "`selector` does not match template `labels`",
        ));
    }
    template(o, "/spec/template", "spec.template", &["Always"], out);
    if let Some(old) = old {
        if table == "statefulsets.apps" {
            let changed = |v: &Value| {
                let mut v = v["spec"].clone();
                for f in [
                    "replicas",
                    "ordinals",
                    "template",
                    "updateStrategy",
                    "revisionHistoryLimit",
                    "persistentVolumeClaimRetentionPolicy",
                    "minReadySeconds",
                ] {
                    if let Some(m) = v.as_object_mut() {
                        m.remove(f);
                    }
                }
                v
            };
            if changed(old) != changed(o) {
                out.push(Cause::forbidden(
                    "spec",
                    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
                ));
            }
        } else {
            immutable(out, "spec.selector", old, o);
        }
    }
}

fn template(o: &Value, pointer: &str, path: &str, policies: &[&str], out: &mut Vec<Cause>) {
    let spec = field(o, &format!("{pointer}/spec"));
    names::labels(o.pointer(&format!("{pointer}/metadata/labels")), &format!("{path}.labels"), out);
    pod(spec, &format!("{path}.spec"), out);
    let policy = text(spec, "/restartPolicy");
    if !policies.contains(&policy) {
        out.push(Cause::not_supported(format!("{path}.spec.restartPolicy"), &policy.into(), policies));
    }
}

fn pod(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let containers = field(spec, "/containers").as_array();
    if containers.is_none_or(Vec::is_empty) {
        out.push(Cause::required(format!("{path}.containers"), ""));
    }
    let volumes: Vec<&str> =
        field(spec, "/volumes").as_array().into_iter().flatten().map(|v| text(v, "/name")).collect();
    let mut seen: Vec<&str> = Vec::new();
    for list in ["initContainers", "containers"] {
        for (i, c) in field(spec, &format!("/{list}")).as_array().into_iter().flatten().enumerate() {
            let at = format!("{path}.{list}[{i}]");
            let name = text(c, "/name");
            if name.is_empty() {
                out.push(Cause::required(format!("{at}.name"), ""));
            } else if !names::is_label(name) {
                out.push(Cause::invalid(
                    format!("{at}.name"),
                    &name.into(),
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ));
            } else if seen.contains(&name) {
                out.push(Cause::duplicate(format!("{at}.name"), &name.into()));
            }
            seen.push(name);
            if text(c, "/image").is_empty() {
                out.push(Cause::required(format!("{at}.image"), ""));
            }
            for (j, p) in field(c, "/ports").as_array().into_iter().flatten().enumerate() {
                let n = field(p, "/containerPort");
                if !(1..=65_535).contains(&n.as_i64().unwrap_or(0)) {
                    let at = format!("{at}.ports[{j}].containerPort");
                    if n.as_i64().unwrap_or(0) == 0 {
                        out.push(Cause::required(at, ""));
                    } else {
                        out.push(Cause::invalid(at, n, "must be between 1 and 65535, inclusive"));
                    }
                }
            }
            for (j, m) in field(c, "/volumeMounts").as_array().into_iter().flatten().enumerate() {
                let v = text(m, "/name");
                if !volumes.contains(&v) {
                    let mut c = Cause::required(format!("{at}.volumeMounts[{j}].name"), "");
                    c.reason = "FieldValueNotFound";
                    c.message = format!("Not found: \"{v}\"");
                    out.push(c);
                }
            }
            for (j, e) in field(c, "/env").as_array().into_iter().flatten().enumerate() {
                if text(e, "/name").is_empty() {
                    out.push(Cause::required(format!("{at}.env[{j}].name"), ""));
                }
            }
            let limits = field(c, "/resources/limits");
            for (k, v) in field(c, "/resources/requests").as_object().into_iter().flatten() {
                if let (Some(req), Some(lim)) =
                    (v.as_str().and_then(milli), limits.get(k).and_then(Value::as_str).and_then(milli))
                    && req > lim
                {
                    out.push(Cause::invalid(
                        format!("{at}.resources.requests"),
                        v,
                        &format!(
                            "must be less than or equal to {k} limit of {}",
                            limits[k].as_str().unwrap_or_default()
                        ),
                    ));
                }
            }
        }
    }
    let policy = text(spec, "/restartPolicy");
    if !policy.is_empty() && !matches!(policy, "Always" | "OnFailure" | "Never") {
        out.push(Cause::not_supported(
            format!("{path}.restartPolicy"),
            &policy.into(),
            &["Always", "OnFailure", "Never"],
        ));
    }
}

/// An amount in thousandths, as a float: only for comparing.
fn milli(text: &str) -> Option<f64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    let n: f64 = text[..split].parse().ok()?;
    let factor = match &text[split..] {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        _ => return None,
    };
    Some(n * factor)
}

fn pod_update(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    let frozen = |v: &Value| {
        let mut s = v["spec"].clone();
        if let Some(m) = s.as_object_mut() {
            for f in [
                "activeDeadlineSeconds",
                "tolerations",
                "terminationGracePeriodSeconds",
                "schedulingGates",
                "nodeName",
                "ephemeralContainers",
            ] {
                m.remove(f);
            }
            for list in ["containers", "initContainers"] {
                for c in m.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Some(c) = c.as_object_mut() {
                        c.remove("image");
                        c.remove("imagePullPolicy");
                        c.remove("resources");
                    }
                }
            }
        }
        s
    };
    if frozen(old) != frozen(new) {
        out.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
}

fn service(o: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let ty = text(o, "/spec/type");
    let headless = text(o, "/spec/clusterIP") == "None";
    let ports = field(o, "/spec/ports").as_array();
    if ports.is_none_or(Vec::is_empty) && ty != "ExternalName" && !headless {
        out.push(Cause::required("spec.ports", ""));
    }
    let several = ports.is_some_and(|p| p.len() > 1);
    let mut seen = Vec::new();
    for (i, p) in ports.into_iter().flatten().enumerate() {
        let at = format!("spec.ports[{i}]");
        let name = text(p, "/name");
        if several && name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), ""));
        }
        if !name.is_empty() && seen.contains(&name) {
            out.push(Cause::duplicate(format!("{at}.name"), &name.into()));
        }
        seen.push(name);
        let n = field(p, "/port");
        if !(1..=65_535).contains(&n.as_i64().unwrap_or(0)) {
            out.push(Cause::invalid(format!("{at}.port"), n, "must be between 1 and 65535, inclusive"));
        }
        let protocol = text(p, "/protocol");
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            out.push(Cause::not_supported(
                format!("{at}.protocol"),
                &protocol.into(),
                &["SCTP", "TCP", "UDP"],
            ));
        }
    }
    if !matches!(ty, "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName") {
        out.push(Cause::not_supported(
            "spec.type",
            &ty.into(),
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        ));
    }
    if let Some(old) = old {
        let (a, b) = (text(old, "/spec/clusterIP"), text(o, "/spec/clusterIP"));
        if !a.is_empty() && a != b && ty != "ExternalName" {
            out.push(Cause::invalid(
                "spec.clusterIPs[0]",
                &serde_json::json!([b]),
                "may not change once set",
            ));
        }
    }
}

fn keys(o: &Value, map: &str, out: &mut Vec<Cause>) {
    for k in o.get(map).and_then(Value::as_object).into_iter().flatten().map(|(k, _)| k) {
        let ok = !k.is_empty()
            && k.len() <= 253
            && k.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && k != "."
            && !k.starts_with("..");
        if !ok {
            out.push(Cause::invalid(
                format!("{map}[{k}]"),
                &k.as_str().into(),
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ));
        }
    }
}

fn base64_values(o: &Value, out: &mut Vec<Cause>) {
    use base64::Engine as _;
    for (k, v) in o.get("data").and_then(Value::as_object).into_iter().flatten() {
        let ok = v.as_str().is_some_and(|s| base64::engine::general_purpose::STANDARD.decode(s).is_ok());
        if !ok {
            // The value is not shown: it may be a secret that somebody forgot to encode.
            out.push(Cause {
                reason: "FieldValueInvalid",
                message: "Invalid value: illegal base64 data; encode the value or use stringData".into(),
                field: format!("data[{k}]"),
            });
        }
    }
}

fn sealed(o: &Value, old: Option<&Value>, maps: &[&str], out: &mut Vec<Cause>) {
    let Some(old) = old else { return };
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    if o.get("immutable") != Some(&Value::Bool(true)) {
        out.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for m in maps {
        if old.get(*m) != o.get(*m) {
            out.push(Cause::forbidden(*m, "field is immutable when `immutable` is set"));
        }
    }
}

fn is_cron(s: &str) -> bool {
    let s = s.trim();
    if let Some(word) = s.strip_prefix('@') {
        return matches!(
            word,
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly"
        ) || word.starts_with("every ");
    }
    s.split_whitespace().count() == 5
}
