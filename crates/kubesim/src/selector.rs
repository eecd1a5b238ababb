//! Label and field selectors.

use serde_json::Value;

use crate::status::ApiError;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

/// A parsed label selector; empty matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    tests: Vec<(String, Test)>,
}

fn bad(text: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement in selector {text:?}: {why}"))
}

impl Labels {
    /// Reads `a=b,c in (d,e),!f`.
    ///
    /// # Errors
    /// 400 if it is not a selector.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut tests = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            tests.push(requirement(part)?);
        }
        Ok(Self { tests })
    }

    /// Reads a `LabelSelector` object (matchLabels and matchExpressions).
    pub(crate) fn from_object(v: &Value) -> Self {
        let mut tests = Vec::new();
        for (k, v) in v.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            tests.push((k.clone(), Test::In(vec![v.as_str().unwrap_or_default().to_owned()])));
        }
        for e in v.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let key = e.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
            let values: Vec<String> = e
                .get("values")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|v| v.as_str().map(ToOwned::to_owned))
                .collect();
            let test = match e.get("operator").and_then(Value::as_str).unwrap_or_default() {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" => Test::Exists,
                _ => Test::Absent,
            };
            tests.push((key, test));
        }
        Self { tests }
    }

    /// True if it matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// True if `object` carries matching labels.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        if self.tests.is_empty() {
            return true;
        }
        let labels = object.pointer("/metadata/labels");
        self.tests.iter().all(|(k, t)| {
            let v = labels.and_then(|l| l.get(k)).and_then(Value::as_str);
            match t {
                Test::Exists => v.is_some(),
                Test::Absent => v.is_none(),
                Test::In(list) => v.is_some_and(|v| list.iter().any(|x| x == v)),
                Test::NotIn(list) => v.is_none_or(|v| list.iter().all(|x| x != v)),
                Test::Above(n) => v.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *n),
                Test::Below(n) => v.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *n),
            }
        })
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut out, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

fn requirement(part: &str) -> Result<(String, Test), ApiError> {
    let key_ok = |k: &str| -> Result<String, ApiError> {
        let k = k.trim();
        if crate::names::is_qualified_name(k) {
            Ok(k.to_owned())
        } else {
            Err(bad(part, "invalid label key"))
        }
    };
    if let Some(k) = part.strip_prefix('!') {
        return Ok((key_ok(k)?, Test::Absent));
    }
    if let Some((k, v)) = part.split_once("!=") {
        return Ok((key_ok(k)?, Test::NotIn(vec![v.trim().to_owned()])));
    }
    if let Some((k, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok((key_ok(k)?, Test::In(vec![v.trim().to_owned()])));
    }
    if let Some((k, v)) = part.split_once('>') {
        let n = v
            .trim()
            .parse()
            .map_err(|_| bad(part, "for 'Gt', 'Lt' operators, the value must be an integer"))?;
        return Ok((key_ok(k)?, Test::Above(n)));
    }
    if let Some((k, v)) = part.split_once('<') {
        let n = v
            .trim()
            .parse()
            .map_err(|_| bad(part, "for 'Gt', 'Lt' operators, the value must be an integer"))?;
        return Ok((key_ok(k)?, Test::Below(n)));
    }
    if let Some(open) = part.find('(') {
        let inside =
            part[open + 1..].trim().strip_suffix(')').ok_or_else(|| bad(part, "found '', expected: ')'"))?;
        let values = inside.split(',').map(|v| v.trim().to_owned()).collect();
        let mut words = part[..open].split_whitespace();
        let (key, op) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        return match op {
            "in" => Ok((key_ok(key)?, Test::In(values))),
            "notin" => Ok((key_ok(key)?, Test::NotIn(values))),
            other => Err(bad(part, &format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"))),
        };
    }
    if part.split_whitespace().count() > 1 {
        return Err(bad(part, "found extra words, expected: in, notin, =, ==, !=, gt, lt"));
    }
    Ok((key_ok(part)?, Test::Exists))
}

/// A parsed field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    tests: Vec<(String, bool, String)>,
}

/// Fields that may be selected on, besides name and namespace.
fn selectable(table: &str) -> &'static [&'static str] {
    match table {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reportingController",
        ],
        "secrets" => &["type"],
        "namespaces" => &["status.phase"],
        "nodes" => &["spec.unschedulable"],
        "replicasets.apps" | "replicationcontrollers" => &["status.replicas"],
        "jobs.batch" => &["status.successful"],
        "services" => &["spec.clusterIP", "spec.type"],
        _ => &[],
    }
}

impl Fields {
    /// Reads `metadata.name=x,status.phase!=Running` for objects of `table`.
    ///
    /// # Errors
    /// 400 if it is malformed or names a field that cannot be selected on.
    pub(crate) fn parse(text: &str, table: &str) -> Result<Self, ApiError> {
        let mut tests = Vec::new();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (field, equal, value) = if let Some((f, v)) = part.split_once("!=") {
                (f, false, v)
            } else if let Some((f, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (f, true, v)
            } else {
                return Err(ApiError::bad_request(format!(
                    "invalid field selector {text:?}: {part:?} is not a comparison; write field=value or field!=value"
                )));
            };
            if field != "metadata.name"
                && field != "metadata.namespace"
                && !selectable(table).contains(&field)
            {
                return Err(ApiError::bad_request(format!("field label not supported: {field}")));
            }
            tests.push((field.to_owned(), equal, value.to_owned()));
        }
        Ok(Self { tests })
    }

    /// True if it matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// True if `object` has the wanted field values.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.tests.iter().all(|(f, equal, wanted)| {
            let mut v = object;
            let path = f
                .replace("regarding.", "involvedObject.")
                .replace("reportingController", "reportingComponent");
            for step in path.split('.') {
                v = v.get(step).unwrap_or(&Value::Null);
            }
            let have = match v {
                Value::String(s) => s.clone(),
                Value::Null if f.ends_with("unschedulable") || f.ends_with("hostNetwork") => "false".into(),
                Value::Null if f == "status.replicas" => "0".into(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            (have == *wanted) == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn label_selectors() {
        let o = json!({"metadata": {"labels": {"app": "web", "tier": "front", "n": "5"}}});
        for (s, want) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier!=back", true),
            ("app in (api, web)", true),
            ("app notin (api,web)", false),
            ("!gone", true),
            ("!app", false),
            ("tier", true),
            ("n>4", true),
            ("n<4", false),
            ("missing!=x", true),
        ] {
            assert_eq!(Labels::parse(s).unwrap().matches(&o), want, "{s}");
        }
        for s in ["app in web", "a b", "app in (x", "-bad=1"] {
            assert_eq!(Labels::parse(s).unwrap_err().code, 400, "{s}");
        }
    }

    #[test]
    fn field_selectors() {
        let o = json!({"metadata": {"name": "a"}, "status": {"phase": "Running"}});
        assert!(Fields::parse("metadata.name=a,status.phase!=Failed", "pods").unwrap().matches(&o));
        assert!(!Fields::parse("metadata.name=b", "pods").unwrap().matches(&o));
        assert!(Fields::parse("status.phase=Running", "configmaps").is_err());
    }
}
