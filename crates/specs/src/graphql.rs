//! Values of documents in GraphQL: the scalars `Json` (in) and `Map` (out), and a [`Change`] as an input that may be
//! absent, null or a value.

use std::borrow::Cow;
use std::collections::BTreeMap;

use async_graphql::registry::Registry;
use async_graphql::{InputType, InputValueError, InputValueResult, Scalar, ScalarType, Value};

use crate::{Change, HOLDS_NUL, Json, json_has_nul};

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
pub struct Map(pub serde_json::Map<String, serde_json::Value>);

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

impl From<BTreeMap<String, String>> for Map {
    fn from(map: BTreeMap<String, String>) -> Self {
        Self(map.into_iter().map(|(name, value)| (name, value.into())).collect())
    }
}

impl<T: InputType> InputType for Change<T> {
    type RawValueType = T::RawValueType;

    fn type_name() -> Cow<'static, str> {
        T::type_name()
    }

    fn qualified_type_name() -> String {
        T::type_name().into_owned()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        T::create_type_info(registry);
        T::type_name().into_owned()
    }

    fn parse(value: Option<Value>) -> InputValueResult<Self> {
        match value {
            None => Ok(Self::Keep),
            Some(Value::Null) => Ok(Self::Clear),
            Some(value) => T::parse(Some(value)).map(Self::Set).map_err(InputValueError::propagate),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Keep | Self::Clear => Value::Null,
            Self::Set(value) => value.to_value(),
        }
    }

    fn as_raw_value(&self) -> Option<&Self::RawValueType> {
        match self {
            Self::Keep | Self::Clear => None,
            Self::Set(value) => value.as_raw_value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::value;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_given_as_text_or_as_it_is() {
        let parsed = |value| <Json as ScalarType>::parse(value).map(|json| json.0).map_err(drop);
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

    #[test]
    fn null_clears_and_nothing_keeps() {
        let parsed = |value| <Change<u32> as InputType>::parse(value).map_err(drop);
        assert_eq!(parsed(None), Ok(Change::Keep));
        assert_eq!(parsed(Some(Value::Null)), Ok(Change::Clear));
        assert_eq!(parsed(Some(value!(3))), Ok(Change::Set(3)));
        assert_eq!(parsed(Some(value!("x"))), Err(()));
    }
}
