//! Values of documents that are written as text, and JSON whose shape is not ours.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Fault;

/// A time span in seconds, never zero. Written `90s`; read as `90s`, `5m`, `1h30m` or a bare number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u32);

impl From<Seconds> for u32 {
    fn from(Seconds(seconds): Seconds) -> Self {
        seconds
    }
}

impl From<Seconds> for Duration {
    fn from(Seconds(seconds): Seconds) -> Self {
        Self::from_secs(seconds.into())
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seconds) = self;
        write!(f, "{seconds}s")
    }
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is not a time such as 90s, 5m or 1h30m");
        let mut total: u32 = 0;
        let mut number = String::new();
        for letter in text.trim().chars() {
            if letter.is_ascii_digit() {
                number.push(letter);
                continue;
            }
            let unit = match letter {
                's' => 1,
                'm' => 60,
                'h' => 3600,
                _ => return Err(fault()),
            };
            let part =
                number.parse::<u32>().ok().and_then(|count| count.checked_mul(unit)).ok_or_else(fault)?;
            total = total.checked_add(part).ok_or_else(fault)?;
            number.clear();
        }
        if !number.is_empty() {
            total =
                number.parse::<u32>().ok().and_then(|count| total.checked_add(count)).ok_or_else(fault)?;
        }
        if total == 0 { Err(fault()) } else { Ok(Self(total)) }
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Any JSON value. In GraphQL: a string with its text, or an object or a list as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(pub Value);

impl Json {
    /// The object that was given in `field`; null is as good as nothing.
    ///
    /// # Errors
    /// [`Fault`] for any other value.
    pub fn object(self, field: &str) -> Result<Option<Map<String, Value>>, Fault> {
        match self.0 {
            Value::Null => Ok(None),
            Value::Object(map) => Ok(Some(map)),
            _ => Err(Fault::at(field, "must be a JSON object")),
        }
    }

    /// The same of an object of texts.
    ///
    /// # Errors
    /// [`Fault`] for any other value.
    pub fn texts(self, field: &str) -> Result<Option<BTreeMap<String, String>>, Fault> {
        serde_json::from_value(self.0)
            .map_err(|_| Fault::at(field, "must be a JSON object whose values are texts"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, expected) in [("90s", 90), ("5m", 300), ("1h30m", 5400), ("45", 45)] {
            assert_eq!(text.parse::<Seconds>(), Ok(Seconds(expected)), "{text}");
        }
        for wrong in ["", "s", "5d", "-1s", "0s", "99999999999s", "1 h"] {
            assert!(wrong.parse::<Seconds>().is_err(), "{wrong}");
        }
        for seconds in [1, 600, u32::MAX] {
            assert_eq!(Seconds(seconds).to_string().parse(), Ok(Seconds(seconds)), "{seconds}");
        }
    }
}
