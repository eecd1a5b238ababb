//! Shapes that several nouns use.

use std::collections::BTreeMap;

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

/// Reads a nullable map of texts.
pub(crate) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
