//! Recordings of shells: what is kept of them beside the blobs that hold them.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::Actor;
use plural_core::{
    ClusterId, Keyed, Page, PageRequest, Project, ProjectId, Recording, RecordingEnd, RecordingId,
    RecordingPolicy, Result,
};
use uuid::Uuid;

use super::store::ClusterSelector;
use crate::access::{Admin, Audited, Authorized, Guarded, Read};
use crate::seal::Sealed;

/// Recordings that are listed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recordings {
    /// Of shells in one cluster.
    OfCluster(ClusterId),
    /// Of shells in the clusters of a project, those among them that are gone.
    OfProject(ProjectId),
}

/// Names [`Recordings`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordingsSelector {
    /// By their cluster.
    Cluster(ClusterSelector),
    /// By their project.
    Project(ProjectId),
}

/// A recording as it is kept: its command is sealed for `recording:ID:command`, and empty in `recording`.
#[derive(Debug, Clone)]
pub struct RecordingRow {
    /// The recording.
    pub recording: Recording,
    /// The command as a JSON list.
    pub command: Sealed,
}

impl Keyed for RecordingRow {
    fn key(&self) -> Uuid {
        self.recording.id.uuid()
    }
}

/// A part of a recording, in a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingPiece {
    /// Its place, from 0.
    pub number: u32,
    /// SHA-256 of the blob, which is sealed for `recording:ID:NUMBER`.
    pub digest: [u8; 32],
    /// Bytes of events in it.
    pub bytes: u64,
}

/// Recordings.
#[async_trait]
pub trait RecordingStore: Send + Sync + 'static {
    /// What a project's administrators said.
    async fn recording_policy(&self, project: &Authorized<Project, Read>) -> Result<RecordingPolicy>;
    /// Says something else.
    async fn recording_policy_set(
        &self,
        by: Audited<'_, Project, Admin>,
        policy: &RecordingPolicy,
    ) -> Result<()>;
    /// What holds for a shell that is about to be opened: the cluster's project and what was said there. Not somebody's
    /// question: whoever opens the shell was let through already.
    async fn recording_policy_of(&self, cluster: ClusterId) -> Result<(ProjectId, RecordingPolicy)>;
    /// A new recording with its first piece. Not somebody's write: it tells of one, as the audit log does.
    async fn recording_begin(
        &self,
        recording: &Recording,
        command: &Sealed,
        first: &RecordingPiece,
    ) -> Result<()>;
    /// One more piece, and the terminal's first size once it is known.
    async fn recording_append(
        &self,
        id: RecordingId,
        piece: &RecordingPiece,
        size: Option<(u16, u16)>,
        now: DateTime<Utc>,
    ) -> Result<()>;
    /// It goes on, or has ended.
    async fn recording_mark(
        &self,
        id: RecordingId,
        end: Option<RecordingEnd>,
        now: DateTime<Utc>,
    ) -> Result<()>;
    /// Forgets a recording of a shell that was never opened.
    async fn recording_discard(&self, id: RecordingId) -> Result<()>;
    /// The recordings of a cluster or a project, for whom the project's administrators named.
    async fn recordings_for(&self, actor: &Actor, of: &RecordingsSelector) -> Result<Guarded<Recordings>>;
    /// One recording.
    async fn recording_for(&self, actor: &Actor, id: RecordingId) -> Result<Guarded<RecordingRow>>;
    /// They themselves.
    async fn recording_list(
        &self,
        of: &Authorized<Recordings, Read>,
        page: &PageRequest,
    ) -> Result<Page<RecordingRow>>;
    /// Its pieces in order; that somebody reads them is told in the audit log.
    async fn recording_pieces(&self, by: Audited<'_, RecordingRow, Read>) -> Result<Vec<RecordingPiece>>;
    /// Removes recordings that are to go by now; returns how many went. Their blobs are then named by none.
    async fn recording_prune(&self, now: DateTime<Utc>) -> Result<u64>;
}
