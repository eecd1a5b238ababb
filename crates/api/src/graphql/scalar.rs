//! `Json` (JSON, or a string that holds its text, in) and `Map` (a JSON object, out).

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use plural_core::{Error, HOLDS_NUL, json_has_nul};
use serde_json::Map as JsonMap;

/// A JSON value: a string with its text, or an object or a list as it is.
#[derive(Debug, Clone)]
pub(crate) struct Json(pub(crate) serde_json::Value);

impl Json {
    /// The object that was given in `field`; a null is as good as nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] for any other value.
    pub(crate) fn object(
        self,
        field: &'static str,
    ) -> Result<Option<JsonMap<String, serde_json::Value>>, Error> {
        match self.0 {
            serde_json::Value::Null => Ok(None),
            serde_json::Value::Object(map) => Ok(Some(map)),
            _ => Err(Error::invalid(field, "must be a JSON object")),
        }
    }
}

#[Scalar(name = "Json")]
impl ScalarType for Json {
    fn parse(value: Value) -> InputValueResult<Self> {
        let json: serde_json::Value = match &value {
            Value::String(text) => serde_json::from_str(text)
                .map_err(|error| InputValueError::<Self>::custom(format!("is not JSON text: {error}")))?,
            Value::Object(_) | Value::List(_) => {
                value.into_json().map_err(InputValueError::<Self>::custom)?
            }
            _ => return Err(InputValueError::expected_type(value)),
        };
        // As text it may have been written as an escape.
        if json_has_nul(&json) { Err(InputValueError::custom(HOLDS_NUL)) } else { Ok(Self(json)) }
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.to_string())
    }
}

/// A JSON object.
#[derive(Debug, Clone)]
pub(crate) struct Map(pub(crate) JsonMap<String, serde_json::Value>);

#[Scalar(name = "Map")]
impl ScalarType for Map {
    fn parse(value: Value) -> InputValueResult<Self> {
        match value.clone().into_json() {
            Ok(serde_json::Value::Object(map)) => Ok(Self(map)),
            _ => Err(InputValueError::expected_type(value)),
        }
    }

    fn to_value(&self) -> Value {
        // A JSON object always has a GraphQL form; its numbers and texts are carried over as they are.
        Value::from_json(serde_json::Value::Object(self.0.clone())).unwrap_or(Value::Null)
    }
}

impl From<std::collections::BTreeMap<String, String>> for Map {
    fn from(map: std::collections::BTreeMap<String, String>) -> Self {
        Self(map.into_iter().map(|(name, value)| (name, value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::{ScalarType as _, value};
    use serde_json::json;

    use super::Json;

    #[test]
    fn json_is_given_as_text_or_as_it_is() {
        let parsed = |value| Json::parse(value).map(|json| json.0).map_err(drop);
        assert_eq!(parsed(value!("{\"domain\": \"example.com\"}")), Ok(json!({"domain": "example.com"})));
        assert_eq!(
            parsed(value!({"domain": "example.com", "zones": [1, 2]})),
            Ok(json!({"domain": "example.com", "zones": [1, 2]}))
        );
        assert_eq!(parsed(value!("{")), Err(()));
        assert_eq!(parsed(value!(3)), Err(()), "as a text it is one");
        assert_eq!(parsed(value!("3")), Ok(json!(3)));
        // However it is written.
        assert_eq!(parsed(value!("{\"a\": [\"\\u0000\"]}")), Err(()));
        assert_eq!(parsed(value!("{\"\\u0000\": 1}")), Err(()));
        assert_eq!(parsed(value!({"a": "\u{0}"})), Err(()));
        assert_eq!(parsed(value!("\"\\\\u0000\"")), Ok(json!("\\u0000")));
    }
}
