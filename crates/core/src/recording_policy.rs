//! Whether shells of a project's clusters are recorded. Who may read that, bindings say.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Readers of one kind at most.
const MAX_READERS: usize = 200;
/// Days that a recording may be kept.
const DAYS: std::ops::RangeInclusive<u32> = 1..=3650;
/// Megabytes that one recording may take.
const MEGABYTES: std::ops::RangeInclusive<u32> = 1..=4096;

/// What a project's administrators say of shells in its clusters. Off unless they say otherwise; neither an agent nor
/// whoever opens a shell is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordingPolicy {
    /// Every shell is recorded, or there is none.
    pub record: bool,
    /// What is typed is recorded too, passwords included.
    pub input: bool,
    /// A recording is kept for so many days from its beginning.
    pub keep_days: u32,
    /// Megabytes (of 10^6 bytes) that a recording may take; a shell ends there.
    pub limit_megabytes: u32,
}

impl Default for RecordingPolicy {
    fn default() -> Self {
        Self { record: false, input: false, keep_days: 90, limit_megabytes: 64 }
    }
}

impl RecordingPolicy {
    /// Checks the numbers.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that is out of its range.
    pub fn check(&self) -> Result<()> {
        let Self { record: _, input: _, keep_days, limit_megabytes } = self;
        for (field, value, range) in [
            ("attributes.keepDays", keep_days, DAYS),
            ("attributes.limitMegabytes", limit_megabytes, MEGABYTES),
        ] {
            if !range.contains(value) {
                let (from, to) = (range.start(), range.end());
                return Err(Error::invalid(field, format!("must be between {from} and {to}")));
            }
        }
        Ok(())
    }

    /// Checks how many may read.
    ///
    /// # Errors
    /// [`Error::Invalid`] for too many.
    pub fn check_readers(users: usize, groups: usize) -> Result<()> {
        for (field, readers) in [("attributes.userReaders", users), ("attributes.groupReaders", groups)] {
            if readers > MAX_READERS {
                return Err(Error::invalid(field, format!("at most {MAX_READERS} are allowed")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_by_default_and_numbers_have_bounds() {
        let policy = RecordingPolicy::default();
        assert!(!policy.record && !policy.input);
        policy.check().unwrap();
        assert!(RecordingPolicy { keep_days: 0, ..policy.clone() }.check().is_err());
        assert!(RecordingPolicy { limit_megabytes: 5000, ..policy.clone() }.check().is_err());
        assert!(RecordingPolicy::check_readers(200, 200).is_ok());
        assert!(
            RecordingPolicy::check_readers(201, 0).is_err()
                && RecordingPolicy::check_readers(0, 201).is_err()
        );
        let json = serde_json::to_value(&policy).unwrap();
        assert_eq!(serde_json::from_value::<RecordingPolicy>(json).unwrap(), policy);
    }
}
