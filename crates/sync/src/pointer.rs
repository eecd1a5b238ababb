//! JSON pointers (RFC 6901) in which a segment `*` stands for every key or element.

use serde_json::Value;

/// A place, or places, in a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pointer(Vec<String>);

impl Pointer {
    /// `None` unless it begins with a slash and names something.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('/')?;
        if rest.is_empty() {
            return None;
        }
        Some(Self(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect()))
    }

    pub(crate) fn of(segments: Vec<String>) -> Self {
        Self(segments)
    }

    pub(crate) fn segments(&self) -> &[String] {
        &self.0
    }

    /// Takes what it points at out of `value`.
    pub(crate) fn remove(&self, value: &mut Value) {
        remove(value, &self.0);
    }

    /// Puts what it points at in `live` into `value`, or takes it out where `live` has nothing. Elements of
    /// lists are matched by position.
    pub(crate) fn copy(&self, live: &Value, value: &mut Value) {
        copy(live, value, &self.0);
    }
}

fn remove(value: &mut Value, path: &[String]) {
    let [segment, rest @ ..] = path else { return };
    if rest.is_empty() {
        match value {
            Value::Object(map) if segment == "*" => map.clear(),
            Value::Object(map) => {
                map.remove(segment);
            }
            Value::Array(items) if segment == "*" => items.clear(),
            Value::Array(items) => {
                if let Ok(index) = segment.parse::<usize>()
                    && index < items.len()
                {
                    items.remove(index);
                }
            }
            _ => {}
        }
        return;
    }
    for child in children(value, segment) {
        remove(child, rest);
    }
}

fn children<'v>(value: &'v mut Value, segment: &str) -> Vec<&'v mut Value> {
    let all = segment == "*";
    match value {
        Value::Object(map) => {
            map.iter_mut().filter(|(name, _)| all || *name == segment).map(|(_, child)| child).collect()
        }
        Value::Array(items) => {
            let index = segment.parse::<usize>().ok();
            let wanted = |at: usize| all || index == Some(at);
            items.iter_mut().enumerate().filter(|(at, _)| wanted(*at)).map(|(_, child)| child).collect()
        }
        _ => Vec::new(),
    }
}

fn copy(live: &Value, value: &mut Value, path: &[String]) {
    let [segment, rest @ ..] = path else { return };
    if segment == "*" {
        let names: Vec<String> = match value {
            Value::Object(map) => map.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => Vec::new(),
        };
        for name in names {
            let mut path = vec![name];
            path.extend_from_slice(rest);
            copy(live, value, &path);
        }
        return;
    }
    let found = match live {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => segment.parse::<usize>().ok().and_then(|index| items.get(index)),
        _ => None,
    };
    let Some(found) = found else {
        remove(value, path);
        return;
    };
    match value {
        Value::Object(map) if rest.is_empty() => {
            map.insert(segment.clone(), found.clone());
        }
        Value::Object(map) => {
            if let Some(child) = map.get_mut(segment) {
                copy(found, child, rest);
            }
        }
        Value::Array(items) => {
            let Some(child) = segment.parse::<usize>().ok().and_then(|index| items.get_mut(index)) else {
                return;
            };
            if rest.is_empty() {
                *child = found.clone();
            } else {
                copy(found, child, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_the_escapes_and_refuses_the_rest() {
        assert_eq!(Pointer::parse("/a~1b/c~0d"), Some(Pointer::of(vec!["a/b".to_owned(), "c~d".to_owned()])));
        for text in ["", "/", "spec.replicas", "spec/replicas"] {
            assert_eq!(Pointer::parse(text), None, "{text}");
        }
    }

    #[test]
    fn removes_and_copies() {
        let mut value =
            json!({"spec": {"replicas": 3, "containers": [{"image": "a", "name": "x"}, {"image": "b"}]}});
        let live = json!({"spec": {"replicas": 7, "containers": [{"image": "z"}]}});
        Pointer::parse("/spec/replicas").unwrap().copy(&live, &mut value);
        Pointer::parse("/spec/containers/*/image").unwrap().copy(&live, &mut value);
        assert_eq!(value, json!({"spec": {"replicas": 7, "containers": [{"image": "z", "name": "x"}, {}]}}));
        Pointer::parse("/spec/containers/0/name").unwrap().remove(&mut value);
        Pointer::parse("/spec/nothing/here").unwrap().remove(&mut value);
        Pointer::parse("/spec/replicas").unwrap().remove(&mut value);
        assert_eq!(value, json!({"spec": {"containers": [{"image": "z"}, {}]}}));
    }
}
