//! Shapes that several nouns use.

use serde::{Deserialize, Deserializer, Serialize};

/// A name and a value by which clusters are grouped and selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The tag's name, unique within a cluster.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Just the id, for operations whose answer nobody reads further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Id {
    /// The opaque id.
    pub id: String,
}

/// Reads a nullable list of nullable items, as the schema types its lists, without the nulls.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let items: Option<Vec<Option<T>>> = Option::deserialize(deserializer)?;
    Ok(items.unwrap_or_default().into_iter().flatten().collect())
}

/// Writes a value as the schema's `Json` scalar: a string that holds JSON text.
#[expect(clippy::ref_option, reason = "serde's serialize_with hands over a reference to the field")]
pub(crate) fn json_text<S: serde::Serializer>(
    value: &Option<serde_json::Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.serialize_str(&value.to_string()),
        None => serializer.serialize_none(),
    }
}
