//! What was shown in a shell of a cluster, kept.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::ids::{ClusterId, ProjectId, RecordingId, RequestId, UserId};
use crate::page::Keyed;

/// A recording that nothing was written to for so long is not being written any more: its console says at least that it is
/// there once a minute.
const SILENT: TimeDelta = TimeDelta::minutes(5);

/// A recording, without what was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Id.
    pub id: RecordingId,
    /// Of a shell in this cluster.
    pub cluster_id: ClusterId,
    /// Where the cluster belonged; its administrators say who may read.
    pub project_id: ProjectId,
    /// Who was in it.
    pub user_id: UserId,
    /// The user's e-mail at that time.
    pub actor: String,
    /// Which shell.
    pub shell: Shell,
    /// In which request.
    pub request_id: RequestId,
    /// Bytes recorded so far.
    pub bytes: u64,
    /// Columns and rows that the terminal had first; none when it never said.
    pub size: Option<(u16, u16)>,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When its console last said that it goes on, or when it ended.
    pub written_at: DateTime<Utc>,
    /// How it ended, if that was told.
    pub end: Option<RecordingEnd>,
    /// When it goes.
    pub expires_at: DateTime<Utc>,
}

/// A command in a container, or a terminal attached to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// What was asked for.
    pub kind: ShellKind,
    /// Namespace of the Pod.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// The container, when one was named.
    pub container: Option<String>,
    /// The command and its arguments, of an exec.
    pub command: Vec<String>,
    /// With a terminal.
    pub tty: bool,
}

/// How a shell came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellKind {
    /// A command that was started.
    Exec,
    /// What runs already.
    Attach,
}

impl ShellKind {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exec => "EXEC",
            Self::Attach => "ATTACH",
        }
    }

    /// The kind of this word.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Exec, Self::Attach].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingEnd {
    /// With its shell.
    Ended,
    /// It was as large as it may be, and ended the shell.
    Full,
    /// It could not be kept any more, and ended the shell.
    Failed,
}

impl RecordingEnd {
    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ENDED",
            Self::Full => "FULL",
            Self::Failed => "FAILED",
        }
    }

    /// The end of this word.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Ended, Self::Full, Self::Failed].into_iter().find(|end| end.as_str() == text)
    }
}

/// Where a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingState {
    /// Its shell is open.
    Running,
    /// It ended with its shell.
    Ended,
    /// It was as large as it may be, and ended the shell.
    Full,
    /// It could not be kept any more, and ended the shell.
    Failed,
    /// Its console ended in the middle; what was recorded until then is there.
    Broken,
}

impl Recording {
    /// Where it is.
    pub fn state(&self, now: DateTime<Utc>) -> RecordingState {
        match self.end {
            Some(RecordingEnd::Ended) => RecordingState::Ended,
            Some(RecordingEnd::Full) => RecordingState::Full,
            Some(RecordingEnd::Failed) => RecordingState::Failed,
            None if now - self.written_at > SILENT => RecordingState::Broken,
            None => RecordingState::Running,
        }
    }

    /// Milliseconds from its beginning to what is known last.
    pub fn duration_ms(&self) -> u64 {
        u64::try_from((self.written_at - self.started_at).num_milliseconds()).unwrap_or_default()
    }
}

impl Keyed for Recording {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_whose_console_is_silent_is_broken() {
        let at = DateTime::UNIX_EPOCH;
        let mut recording = Recording {
            id: RecordingId::new(),
            cluster_id: ClusterId::new(),
            project_id: ProjectId::new(),
            user_id: UserId::new(),
            actor: "ada@example.com".into(),
            shell: Shell {
                kind: ShellKind::Exec,
                namespace: "shop".into(),
                pod: "web".into(),
                container: None,
                command: vec!["sh".into()],
                tty: true,
            },
            request_id: RequestId::new(),
            bytes: 0,
            size: None,
            started_at: at,
            written_at: at + TimeDelta::seconds(90),
            end: None,
            expires_at: at + TimeDelta::days(1),
        };
        assert_eq!(recording.duration_ms(), 90_000);
        assert_eq!(recording.state(at + TimeDelta::minutes(3)), RecordingState::Running);
        assert_eq!(recording.state(at + TimeDelta::minutes(7)), RecordingState::Broken);
        recording.end = Some(RecordingEnd::Full);
        assert_eq!(recording.state(at + TimeDelta::minutes(7)), RecordingState::Full);
    }
}
