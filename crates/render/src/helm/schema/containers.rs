//! Keywords about objects and arrays.

use serde_json::{Map, Value};

use super::{Findings, Validator, equal, quote, quoted, texts};

impl<'s> Validator<'s> {
    pub(super) fn object(
        &mut self,
        schema: &'s Map<String, Value>,
        object: &Map<String, Value>,
        at: &mut Vec<String>,
        depth: usize,
        found: &mut Findings,
    ) {
        let size = |key: &str| schema.get(key).and_then(Value::as_f64).map(|size| size as usize);
        if let Some(least) = size("minProperties").filter(|least| object.len() < *least) {
            found.add(format!("minProperties: got {}, want {least}", object.len()));
        }
        if let Some(most) = size("maxProperties").filter(|most| object.len() > *most) {
            found.add(format!("maxProperties: got {}, want {most}", object.len()));
        }
        let missing = |names: &Value| -> Vec<String> {
            texts(names).into_iter().filter(|name| !object.contains_key(name)).collect()
        };
        if let Some(required) = schema.get("required") {
            match missing(required).as_slice() {
                [] => {}
                [one] => found.add(format!("missing property {}", quote(one))),
                many => found.add(format!("missing properties {}", quoted(many))),
            }
        }
        if let Some(Value::Object(dependencies)) = schema.get("dependencies") {
            for (name, needs) in dependencies.iter().filter(|(name, _)| object.contains_key(*name)) {
                if needs.is_array() {
                    let missing = missing(needs);
                    if !missing.is_empty() {
                        found.add(format!(
                            "properties {} required, if {} exists",
                            quoted(&missing),
                            quote(name)
                        ));
                    }
                } else {
                    let result = self.check(needs, &Value::Object(object.clone()), at, depth + 1);
                    found.add_result(result);
                }
            }
        }
        let mut additional = Vec::new();
        let names: usize = object.keys().map(String::len).sum();
        let patterns: Vec<_> = match schema.get("patternProperties") {
            Some(Value::Object(patterns)) => patterns
                .iter()
                .filter_map(|(pattern, schema)| Some((self.pattern(pattern, names).ok()?, schema)))
                .collect(),
            _ => Vec::new(),
        };
        for (name, value) in object {
            let mut seen = false;
            if let Some(inner) = schema.get("properties").and_then(|properties| properties.get(name)) {
                seen = true;
                let result = self.child(inner, value, at, name, depth);
                found.add_child(result);
            }
            for (pattern, inner) in &patterns {
                if pattern.is_match(name) {
                    seen = true;
                    let result = self.child(inner, value, at, name, depth);
                    found.add_child(result);
                }
            }
            if !seen && let Some(inner) = schema.get("additionalProperties") {
                seen = true;
                match inner {
                    Value::Bool(false) => additional.push(name.clone()),
                    Value::Bool(true) => {}
                    inner => {
                        let result = self.child(inner, value, at, name, depth);
                        found.add_child(result);
                    }
                }
            }
            if seen {
                found.seen.properties.insert(name.clone());
            }
        }
        if !additional.is_empty() {
            found.add(format!("additional properties {} not allowed", quoted(&additional)));
        }
        if let Some(names) = schema.get("propertyNames").filter(|_| self.draft > 4) {
            for name in object.keys() {
                if let Err(problem) =
                    self.check(names, &Value::String(name.clone()), &mut Vec::new(), depth + 1)
                {
                    found.add_with(format!("invalid propertyName {}", quote(name)), vec![problem]);
                }
            }
        }
        if let Some(Value::Object(schemas)) = schema.get("dependentSchemas") {
            for (_, inner) in schemas.iter().filter(|(name, _)| object.contains_key(*name)) {
                let result = self.check(inner, &Value::Object(object.clone()), at, depth + 1);
                found.add_result(result);
            }
        }
        if let Some(Value::Object(needs)) = schema.get("dependentRequired") {
            for (name, needs) in needs.iter().filter(|(name, _)| object.contains_key(*name)) {
                let missing = missing(needs);
                if !missing.is_empty() {
                    found.add(format!("properties {} required, if {} exists", quoted(&missing), quote(name)));
                }
            }
        }
    }

    pub(super) fn array(
        &mut self,
        schema: &'s Map<String, Value>,
        items: &[Value],
        at: &mut Vec<String>,
        depth: usize,
        found: &mut Findings,
    ) {
        let size = |key: &str| schema.get(key).and_then(Value::as_f64).map(|size| size as usize);
        if let Some(least) = size("minItems").filter(|least| items.len() < *least) {
            found.add(format!("minItems: got {}, want {least}", items.len()));
        }
        if let Some(most) = size("maxItems").filter(|most| items.len() > *most) {
            found.add(format!("maxItems: got {}, want {most}", items.len()));
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true))
            && self.pay(items.len().saturating_mul(items.len()) / 64)
        {
            let twins =
                (0..items.len()).find_map(|b| (0..b).find(|a| equal(&items[*a], &items[b])).map(|a| (a, b)));
            if let Some((a, b)) = twins {
                found.add(format!("items at {a} and {b} are equal"));
            }
        }
        let (first, rest) = if self.draft < 2020 {
            match schema.get("items") {
                Some(Value::Array(first)) => (first.as_slice(), schema.get("additionalItems")),
                rest => (&[][..], rest),
            }
        } else {
            let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            (first, schema.get("items"))
        };
        for (index, (inner, item)) in first.iter().zip(items).enumerate() {
            let result = self.child(inner, item, at, &index.to_string(), depth);
            found.add_child(result);
            found.seen.items.insert(index);
        }
        if let Some(inner) = rest {
            if *inner == Value::Bool(false) && self.draft < 2020 {
                if items.len() > first.len() {
                    found.add(format!("last {} additionalItem(s) not allowed", items.len() - first.len()));
                }
            } else {
                for (index, item) in items.iter().enumerate().skip(first.len()) {
                    let result = self.child(inner, item, at, &index.to_string(), depth);
                    found.add_child(result);
                    found.seen.items.insert(index);
                }
            }
        }
        if let Some(inner) = schema.get("contains").filter(|_| self.draft > 4) {
            let (mut matched, mut problems) = (Vec::new(), Vec::new());
            for (index, item) in items.iter().enumerate() {
                match self.child(inner, item, at, &index.to_string(), depth) {
                    Ok(_) => matched.push(index),
                    Err(problem) => problems.push(problem),
                }
            }
            let list = matched.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            match size("minContains").filter(|_| self.draft >= 2019) {
                Some(least) if matched.len() < least => {
                    found.add_with(
                        if matched.is_empty() {
                            format!("min {least} items required to match contains schema, but none matched")
                        } else {
                            format!(
                                "min {least} items required to match contains schema, but matched {} items at {list}",
                                matched.len()
                            )
                        },
                        problems,
                    );
                }
                None if matched.is_empty() => found.add_with("no items match contains schema", problems),
                _ => {}
            }
            if let Some(most) = size("maxContains").filter(|most| matched.len() > *most) {
                let count = matched.len();
                found.add(format!(
                    "max {most} items required to match contains schema, but matched {count} items at {list}"
                ));
            }
            if self.draft >= 2020 {
                found.seen.items.extend(matched);
            }
        }
    }
}
