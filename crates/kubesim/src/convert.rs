//! Kinds that several versions or groups show in different shapes. All other versions differ only in name.

use serde_json::{Value, json};

use crate::events;
use crate::resource::Resource;
use crate::store::text;

/// True for kinds whose shape depends on the version.
pub(crate) fn is_shaped(res: &Resource) -> bool {
    !res.custom && matches!(res.plural.as_str(), "events" | "horizontalpodautoscalers")
}

/// `group/version` an object is stored in.
pub(crate) fn storage_version(res: &Resource) -> String {
    if res.plural == "events" && !res.custom {
        return "v1".into();
    }
    res.api_version(&res.versions[res.storage].name)
}

/// Brings an object into the shape of `api_version`.
pub(crate) fn convert(res: &Resource, object: &mut Value, api_version: &str) {
    if text(object, "/apiVersion") == api_version {
        return;
    }
    if res.plural == "events" && !res.custom {
        return events::convert(object, api_version);
    }
    if is_shaped(res) {
        autoscaler(object, api_version == "autoscaling/v1");
    }
    object["apiVersion"] = api_version.into();
}

/// The older version knows one target, of the processor; other metrics do not show in it.
fn autoscaler(object: &mut Value, to_old: bool) {
    let cpu = |m: &&Value| text(m, "/resource/name") == "cpu";
    if to_old {
        let target =
            object.pointer("/spec/metrics").and_then(Value::as_array).and_then(|l| l.iter().find(cpu));
        let target = target.and_then(|m| m.pointer("/resource/target/averageUtilization")).cloned();
        let current = object
            .pointer("/status/currentMetrics")
            .and_then(Value::as_array)
            .and_then(|l| l.iter().find(cpu));
        let current = current.and_then(|m| m.pointer("/resource/current/averageUtilization")).cloned();
        if let Some(s) = object["spec"].as_object_mut() {
            s.remove("metrics");
            s.remove("behavior");
            if let Some(t) = target {
                s.insert("targetCPUUtilizationPercentage".into(), t);
            }
        }
        if let Some(s) = object.get_mut("status").and_then(Value::as_object_mut) {
            s.remove("currentMetrics");
            s.remove("conditions");
            s.entry("currentReplicas").or_insert_with(|| 0.into());
            if let Some(c) = current {
                s.insert("currentCPUUtilizationPercentage".into(), c);
            }
        }
        return;
    }
    if let Some(s) = object["spec"].as_object_mut()
        && let Some(t) = s.remove("targetCPUUtilizationPercentage")
    {
        let target = json!({"type": "Utilization", "averageUtilization": t});
        s.insert(
            "metrics".into(),
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
        );
    }
    if let Some(s) = object.get_mut("status").and_then(Value::as_object_mut) {
        s.remove("currentCPUUtilizationPercentage");
    }
}
