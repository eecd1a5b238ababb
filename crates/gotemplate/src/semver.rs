//! Versions and constraints of `plural-versions`, with errors in Go's words.

use plural_versions::ConstraintError;
pub(crate) use plural_versions::Version;

use super::strconv;

/// A constraint that a template asks with.
pub(crate) struct Constraint(plural_versions::Constraint);

impl Constraint {
    /// Reads `>=1.2 <3 || ^4`, `~1.2.x`, `1.2 - 1.4`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        plural_versions::Constraint::parse(text).map(Self).map_err(|error| match error {
            ConstraintError::Improper(part) => format!("improper constraint: {}", strconv::quote(&part)),
            error => error.to_string(),
        })
    }

    /// Whether a version satisfies it.
    pub(crate) fn check(&self, version: &Version) -> bool {
        self.0.check(version)
    }
}
