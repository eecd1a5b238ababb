//! Attributes of a stack that is made or changed, as they are gathered from options and a file.

use serde_json::{Map, Value, json};

/// Attributes by their names in the API.
pub(crate) struct Given(pub(crate) Map<String, Value>);

impl Given {
    /// One that was given.
    pub(crate) fn put<V: Into<Value>>(&mut self, name: &str, value: Option<V>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }

    /// The same of one below others.
    pub(crate) fn put_in<V: Into<Value>>(&mut self, above: &[&str], name: &str, value: Option<V>) {
        let Some(value) = value else { return };
        let mut at = &mut self.0;
        for word in above {
            let below = at.entry(*word).or_insert_with(|| json!({}));
            if !below.is_object() {
                // An object of the settings file that is none: what is typed here wins.
                *below = json!({});
            }
            let Value::Object(inner) = below else { return };
            at = inner;
        }
        at.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_wins_over_the_file() {
        let mut given = Given(Map::new());
        given.put("configuration", Some(json!("none")));
        given.put_in(&["configuration", "terraform"], "tofu", Some(false));
        given.put("approval", None::<bool>);
        assert_eq!(Value::Object(given.0), json!({"configuration": {"terraform": {"tofu": false}}}));
    }
}
