//! What is wrong with a service, where, and who noticed.

/// One error of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceError {
    /// Where it went wrong: "git" (console), "source", "render", "sync", "prune" (agent).
    pub source: String,
    /// What is wrong and the next step, never with a secret in it.
    pub message: String,
    /// Does not make the service fail.
    pub warning: bool,
    /// Trying again does not help: somebody has to change something first.
    pub terminal: bool,
    /// "path/in/the/repository.yaml:12" where one is known.
    pub location: Option<String>,
}

impl ServiceError {
    /// The console's own source: what it notices before an agent hears of the service.
    pub const GIT: &'static str = "git";

    /// Deletions of objects that left git.
    pub const PRUNE: &'static str = "prune";

    /// Notes on what a service depends on.
    pub const DEPENDENCIES: &'static str = "dependencies";

    /// Where it went wrong, as people are told: the console reads charts as well as git.
    pub fn word(&self) -> &str {
        if self.source == Self::GIT { "source" } else { &self.source }
    }

    /// Something that everybody who looks at a service should know; it does not make it fail.
    pub fn note(source: &str, message: impl Into<String>) -> Self {
        Self {
            source: source.to_owned(),
            message: message.into(),
            warning: true,
            terminal: false,
            location: None,
        }
    }

    /// An error of the console's git work.
    pub fn git(message: impl Into<String>, location: Option<String>) -> Self {
        Self {
            source: Self::GIT.to_owned(),
            message: message.into(),
            warning: false,
            terminal: false,
            location,
        }
    }
}
