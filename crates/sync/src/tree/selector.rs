//! The selector of a workload as a query of the API.

use serde_json::Value;

use crate::key::GroupKind;

/// The labels by which a workload finds its Pods; nothing when it names none.
pub(super) fn of(kind: &GroupKind, object: &Value) -> Option<String> {
    let selector = object["spec"]["selector"].as_object()?;
    let mut terms = Vec::new();
    if kind.group.is_empty() {
        // A ReplicationController has a plain map.
        terms.extend(selector.iter().map(|(name, value)| equal(name, value)));
    } else {
        for (name, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            terms.push(equal(name, value));
        }
        for term in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            terms.push(expression(term)?);
        }
    }
    (!terms.is_empty()).then(|| terms.join(","))
}

fn equal(name: &str, value: &Value) -> String {
    format!("{name}={}", value.as_str().unwrap_or_default())
}

fn expression(term: &Value) -> Option<String> {
    let key = term["key"].as_str()?;
    let values: Vec<&str> =
        term["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    Some(match term["operator"].as_str()? {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_of_workloads() {
        let of = |api_version: &str, kind: &str, selector: Value| {
            super::of(&GroupKind::parse(api_version, kind).0, &json!({"spec": {"selector": selector}}))
        };
        let labels = json!({"matchLabels": {"app": "web", "tier": "front"}});
        assert_eq!(of("apps/v1", "Deployment", labels).as_deref(), Some("app=web,tier=front"));
        let expressions = json!({"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "NotIn", "values": ["c"]},
            {"key": "y", "operator": "Exists"}, {"key": "z", "operator": "DoesNotExist"}]});
        assert_eq!(of("apps/v1", "DaemonSet", expressions).as_deref(), Some("app in (a,b),x notin (c),y,!z"));
        assert_eq!(of("v1", "ReplicationController", json!({"app": "old"})).as_deref(), Some("app=old"));
        assert_eq!(
            of("apps/v1", "Deployment", json!({"matchExpressions": [{"key": "a", "operator": "Near"}]})),
            None
        );
        assert_eq!(of("example.org/v1", "Thing", json!({})), None);
    }
}
