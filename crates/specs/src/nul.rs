//! NUL characters. PostgreSQL has none in texts and JSON, and many a program reads a text up to its first one, so that two
//! would read two different texts. Nothing of ours takes them.

use serde_json::Value;

/// What is said of a text that holds one.
pub const HOLDS_NUL: &str = "must not hold a NUL character";

/// Whether a text holds one.
pub fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

/// Whether one of a JSON value's texts or names holds one.
pub fn json_has_nul(json: &Value) -> bool {
    match json {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => has_nul(text),
        Value::Array(items) => items.iter().any(json_has_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| has_nul(name) || json_has_nul(value)),
    }
}

/// A text of somebody who cannot be asked to correct it, with U+FFFD for each NUL character.
pub fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_searched_in_names_and_values() {
        for json in [json!("\0"), json!([[{"a": "b\0"}]]), json!({"a": {"\0": null}})] {
            assert!(json_has_nul(&json), "{json}");
        }
        assert!(!json_has_nul(&json!({"a": ["\\u0000", 0, null, true]})));
    }
}
