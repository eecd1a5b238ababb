//! Why a Job ends before all of its steps are done.

/// Why a Job ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// A failure, which is reported to the console.
    Failed(String),
    /// A user cancelled the run.
    Cancelled,
    /// The process received a signal to stop.
    Terminated,
    /// The console decided otherwise.
    Refused(String),
    /// The credential is not, or no longer, that of a current Job.
    Unknown,
    /// The console was unavailable for too long.
    Away(String),
}

impl End {
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }

    /// In words, for people.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Failed(why) => why.clone(),
            Self::Cancelled => "the run was cancelled".to_owned(),
            Self::Terminated => {
                "the Job was told to stop (SIGTERM): its Pod was deleted, evicted or ran out of time"
                    .to_owned()
            }
            Self::Refused(why) => format!("the console refuses: {why}"),
            Self::Unknown => {
                "the console does not take this Job's credential, or no longer: the run went on without it"
                    .to_owned()
            }
            Self::Away(why) => format!("the console could not be reached: {why}"),
        }
    }
}
