//! What becomes of a value that may be absent.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What becomes of a value that may be absent. In JSON a kept value is left out, and null clears.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It goes.
    Clear,
    /// It is this.
    Set(T),
}

impl<T> Change<T> {
    /// It stays as it is.
    pub fn keeps(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// Nothing, if it leads to what there is.
    #[must_use]
    pub fn unless(self, current: Option<&T>) -> Self
    where
        T: PartialEq,
    {
        match (&self, current) {
            (Self::Set(new), Some(old)) if new == old => Self::Keep,
            (Self::Clear, None) => Self::Keep,
            _ => self,
        }
    }

    /// What is set, read by `read`; what is kept or cleared stays so.
    pub fn map<U>(&self, read: impl FnOnce(&T) -> U) -> Change<U> {
        match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(read(value)),
        }
    }

    /// The same with an outcome.
    ///
    /// # Errors
    /// What `read` returns.
    pub fn try_map<U, E>(&self, read: impl FnOnce(&T) -> Result<U, E>) -> Result<Change<U>, E> {
        Ok(match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(read(value)?),
        })
    }

    /// What there is after it, where `old` was.
    pub fn over(self, old: Option<T>) -> Option<T> {
        match self {
            Self::Keep => old,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }
}

/// `Keep` has no JSON of its own: the field is left out (`skip_serializing_if`).
impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Clear => serializer.serialize_none(),
            Self::Set(value) => serializer.serialize_some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Clear, Self::Set))
    }
}
