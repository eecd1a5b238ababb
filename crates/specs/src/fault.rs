//! What is wrong with a document, and where.

use std::fmt;

/// Result of a check.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

/// A value that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The field as the API names it, relative to the document: `policy.retryWait`. Empty for the document as a whole.
    pub path: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl Fault {
    /// A fault of this field, named as in the API or as in Rust; `""` for the document as a whole.
    pub fn at(field: &str, reason: impl fmt::Display) -> Self {
        Self { path: camel_case(field), reason: reason.to_string() }
    }

    /// The same, seen from the document of which this one is the field `field`.
    #[must_use]
    pub fn within(self, field: &str) -> Self {
        let Self { path, reason } = self;
        let parent = camel_case(field);
        Self { path: if path.is_empty() { parent } else { format!("{parent}.{path}") }, reason }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, reason } = self;
        if path.is_empty() { f.write_str(reason) } else { write!(f, "{path}: {reason}") }
    }
}

impl std::error::Error for Fault {}

/// `retry_wait` as the API calls it: `retryWait`.
fn camel_case(field: &str) -> String {
    let mut name = String::with_capacity(field.len());
    let mut upper = false;
    for letter in field.chars() {
        match letter {
            '_' => upper = true,
            _ if upper => {
                name.extend(letter.to_uppercase());
                upper = false;
            }
            _ => name.push(letter),
        }
    }
    name
}
