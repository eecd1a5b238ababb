//! What can go wrong, said so that a person finds the place.

use std::fmt::{self, Write as _};

use crate::inputs::Inputs;

/// One thing that is wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Path from the artifact's root.
    pub path: String,
    /// 1-based line, 0 when none is known.
    pub line: usize,
    /// What is wrong. Never holds a configuration value.
    pub message: String,
}

impl Problem {
    /// `path:line`, or the path alone.
    pub fn location(&self) -> String {
        if self.line == 0 { self.path.clone() } else { format!("{}:{}", self.path, self.line) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location(), self.message)
    }
}

/// Why a service has no objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The service's folder is not in the artifact.
    #[error("the folder {folder:?} does not exist at this commit: correct the service's git folder")]
    FolderMissing {
        /// As configured.
        folder: String,
    },
    /// Files that cannot be used, in path order; never empty.
    #[error("{}", list(.0))]
    Files(Vec<Problem>),
    /// The service would be larger than any cluster should be given at once.
    #[error("the service renders to more than {limit} {unit}: split it into several services")]
    TooMuch {
        /// The limit.
        limit: usize,
        /// "objects", "bytes".
        unit: &'static str,
    },
}

impl RenderError {
    /// The same without values of the configuration, whatever made the messages: a template can fail with any text.
    pub(crate) fn without_values(self, inputs: &Inputs) -> Self {
        let Self::Files(mut problems) = self else { return self };
        for problem in &mut problems {
            problem.message = inputs.without_values(&problem.message);
        }
        Self::Files(problems)
    }

    /// Each problem with its place; a problem of the whole service has an empty path.
    pub fn problems(&self) -> Vec<Problem> {
        match self {
            Self::Files(problems) => problems.clone(),
            other => {
                vec![Problem { path: String::new(), line: 0, message: other.to_string() }]
            }
        }
    }
}

fn list(problems: &[Problem]) -> String {
    const SHOWN: usize = 10;
    let mut text = problems.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if problems.len() > SHOWN {
        let _ = write!(text, "; and {} more", problems.len() - SHOWN);
    }
    text
}
