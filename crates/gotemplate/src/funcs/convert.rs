//! Sprig's conversions.

use crate::{
    format, strconv,
    value::{Str, Value},
};

/// Sprig's `strval`: any value as text.
pub(crate) fn text_of(value: &Value) -> Str {
    match value {
        Value::Str(text) => text.clone(),
        Value::Raw(bytes) | Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        other => format::display(other).into(),
    }
}

/// The same, bytes kept.
pub(crate) fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Raw(bytes) | Value::Bytes(bytes) => bytes.to_vec(),
        other => {
            let mut out = Vec::new();
            format::print_value(&mut out, other);
            out
        }
    }
}

/// Sprig's `empty`.
pub(crate) fn is_empty(value: &Value) -> bool {
    !value.truth()
}

/// `cast.ToInt64`: numbers are cut, texts read, everything else is 0.
pub(crate) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Bool(value) => i64::from(*value),
        Value::Int(value) | Value::Int64(value) | Value::Duration(value) => *value,
        Value::Uint64(value) => *value as i64,
        Value::Float(value) => float_to_int(*value),
        Value::Str(text) => parse_int(text),
        _ => 0,
    }
}

/// Go's conversion on amd64: what does not fit is the smallest integer.
pub(crate) fn float_to_int(value: f64) -> i64 {
    if value.is_nan() || !(-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value) {
        return i64::MIN;
    }
    value as i64
}

fn parse_int(text: &str) -> i64 {
    // A fraction of zeros is ignored.
    let text = match text.rsplit_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        _ => text,
    };
    plural_yaml::numbers::parse_int(text, 0).unwrap_or(0)
}

/// `cast.ToFloat64`
pub(crate) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Int(value) | Value::Int64(value) | Value::Duration(value) => *value as f64,
        Value::Uint64(value) => *value as f64,
        Value::Float(value) => *value,
        Value::Str(text) => strconv::parse_float(text).unwrap_or(0.0),
        _ => 0.0,
    }
}
