//! Stored text back into core's types.

use std::collections::BTreeMap;
use std::str::FromStr;

use plural_core::Result;
use sea_orm::JsonValue;
use serde::de::DeserializeOwned;

use crate::database::corrupt;

/// A name, handle, address … from its text.
pub(crate) fn parse<T: FromStr>(text: &str, what: &'static str) -> Result<T> {
    text.parse().map_err(|_| corrupt(what))
}

/// An enum from its word.
pub(crate) fn word<T>(found: Option<T>, what: &'static str) -> Result<T> {
    found.ok_or_else(|| corrupt(what))
}

/// A value from its JSON.
pub(crate) fn json<T: DeserializeOwned>(value: JsonValue, what: &'static str) -> Result<T> {
    serde_json::from_value(value).map_err(|_| corrupt(what))
}

/// JSON of a value that always has one.
pub(crate) fn to_json<T: serde::Serialize>(value: &T, what: &'static str) -> Result<JsonValue> {
    serde_json::to_value(value)
        .map_err(|cause| plural_core::Error::internal(format!("writing {what}"), cause))
}

/// 32 bytes.
pub(crate) fn bytes32(bytes: &[u8], what: &'static str) -> Result<[u8; 32]> {
    bytes.try_into().map_err(|_| corrupt(what))
}

/// Tags as JSON.
pub(crate) fn tags_json(tags: &BTreeMap<String, String>) -> JsonValue {
    tags.iter().map(|(name, value)| (name.clone(), JsonValue::String(value.clone()))).collect()
}
