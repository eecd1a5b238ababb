//! Whether shells are recorded, and who reads what was.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{StreamExt, stream};
use plural_core::access::{Actor, Visibility, visibility};
use plural_core::asciicast::cast_header;
use plural_core::group::Group;
use plural_core::ids::{ClusterId, GroupId, ProjectId, RecordingId, UserId};
use plural_core::page::{Edge, Keyed};
use plural_core::policy::{BindingSubject, Role};
use plural_core::project::Project;
use plural_core::recording::{Recording, RecordingEnd};
use plural_core::recording_policy::RecordingPolicy;
use plural_core::user::User;
use plural_core::{Error, Page, PageArgs, PageRequest, Result};
use uuid::Uuid;

use crate::access::{
    Admin, Audited, Authorized, Guarded, Noun as _, Read, ReadRecordings, authorize_each, noun,
};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::group::GroupSelector;
use crate::ports::blobs::BlobStream;
use crate::project::ProjectSelector;
use crate::seal::Sealed;
use crate::user::UserSelector;

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
    /// By their project, which may be gone.
    Project(ProjectId),
    /// By the name of their project, which may be gone: of two that had it, the one that there is, or the last that there was.
    ProjectNamed(String),
    /// All that whoever asks may read.
    Readable,
}

/// A project of which there are recordings, whether it is still there or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedProject {
    /// Its id.
    pub id: ProjectId,
    /// Its name, or the last that it had.
    pub name: String,
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
    /// How what is sealed with its key begins, where that is known to be a data key.
    pub sealed_with: Option<Vec<u8>>,
}

// No record: what is recorded is opened by its readers only, and belongs to clusters and projects that may be gone.
noun!(RecordingRow, "recording", r => Some(r.recording.id.uuid()), recording_name(r), denied: NO_READER);
noun!(Recordings, "recording", all => Some(of_whom(all)), String::new(), denied: NO_READER);
noun!(RecordedProject, "project", p => Some(p.id.uuid()), p.name.clone());

const NO_READER: &str = "you are not a reader of this project's recordings; ask a project administrator to \
                         add you (`plural cd projects recordings PROJECT on --user E-MAIL`)";

fn of_whom(recordings: &Recordings) -> Uuid {
    match recordings {
        Recordings::OfCluster(id) => id.uuid(),
        Recordings::OfProject(id) => id.uuid(),
    }
}

/// `shop/web`: namespace and Pod.
fn recording_name(row: &RecordingRow) -> String {
    format!("{}/{}", row.recording.shell.namespace, row.recording.shell.pod)
}

/// Recordings.
#[async_trait]
pub trait RecordingStore: Send + Sync + 'static {
    /// What a project's administrators said.
    async fn recording_policy(&self, project: &Authorized<Project, Read>) -> Result<RecordingPolicy>;
    /// Says something else, and who may read from now on.
    async fn recording_policy_set(
        &self,
        by: Audited<'_, Project, Admin>,
        policy: &RecordingPolicy,
        readers: &[BindingSubject],
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
    /// The recordings in a cluster, guarded by the bindings of the cluster and its project that concern `actor`.
    async fn recordings_for_cluster(
        &self,
        actor: &Actor,
        of: &ClusterSelector,
    ) -> Result<Guarded<Recordings>>;
    /// Those of a project, which may be gone, guarded by its bindings that concern `actor`.
    async fn recordings_for_project(&self, actor: &Actor, of: ProjectId) -> Result<Guarded<Recordings>>;
    /// The project of this name, or the last that had it and of which there are recordings.
    async fn recorded_project_named(&self, name: &str) -> Result<Option<ProjectId>>;
    /// Projects, also those that are gone, each guarded by its bindings that concern `actor`. Ids that are not there are left out.
    async fn recorded_projects_for(
        &self,
        actor: &Actor,
        ids: &[ProjectId],
    ) -> Result<Vec<Guarded<RecordedProject>>>;
    /// One recording.
    async fn recording_for(&self, actor: &Actor, id: RecordingId) -> Result<Guarded<RecordingRow>>;
    /// They themselves.
    async fn recording_list(
        &self,
        of: &Authorized<Recordings, ReadRecordings>,
        page: &PageRequest,
    ) -> Result<Page<RecordingRow>>;
    /// Recordings that may be read.
    async fn recordings_readable(
        &self,
        visibility: &Visibility,
        page: &PageRequest,
    ) -> Result<Page<RecordingRow>>;
    /// Its pieces in order; that somebody reads them is told in the audit log.
    async fn recording_pieces(
        &self,
        by: Audited<'_, RecordingRow, ReadRecordings>,
    ) -> Result<Vec<RecordingPiece>>;
    /// Removes recordings that are to go by now; returns how many went. Their blobs are then named by none.
    async fn recording_prune(&self, now: DateTime<Utc>) -> Result<u64>;
}

/// What a project's administrators said of shells, and whom they let read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingSettings {
    /// Whether shells are recorded, and how.
    pub policy: RecordingPolicy,
    /// Who may read what was recorded, besides administrators of the installation.
    pub readers: Vec<BindingSubject>,
}

/// What is to be said of shells in a project's clusters, in place of what was said so far.
#[derive(Debug, Clone, Default)]
pub struct NewRecordingPolicy {
    /// Every shell is recorded, or there is none.
    pub record: bool,
    /// What is typed is recorded too.
    pub input: bool,
    /// Days that a recording is kept; the default when absent.
    pub keep_days: Option<u32>,
    /// Megabytes that a recording may take; the default when absent.
    pub limit_megabytes: Option<u32>,
    /// Who may read: ids or e-mail addresses.
    pub users: Vec<String>,
    /// And members of: ids or names of groups.
    pub groups: Vec<String>,
}

impl App {
    /// What a project's administrators said of shells.
    pub async fn recording_policy_get(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
    ) -> Result<RecordingSettings> {
        let project = self.authorized::<Project, Read>(ctx, selector).await?;
        let policy = self.store.recording_policy(&project).await?;
        let bindings = self.store.binding_list(&project.policy()).await?;
        let readers = bindings.into_iter().filter(|binding| binding.role == Role::Recordings);
        Ok(RecordingSettings { policy, readers: readers.map(|binding| binding.subject).collect() })
    }

    /// Says something else; it holds for shells that are opened from now on, and for who reads what there is.
    pub async fn recording_policy_set(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
        new: NewRecordingPolicy,
    ) -> Result<RecordingSettings> {
        let project = self.authorized::<Project, Admin>(ctx, selector).await?;
        let NewRecordingPolicy { record, input, keep_days, limit_megabytes, users, groups } = new;
        // Before each of them is looked up.
        RecordingPolicy::check_readers(users.len(), groups.len())?;
        let default = RecordingPolicy::default();
        let policy = RecordingPolicy {
            record,
            input,
            keep_days: keep_days.unwrap_or(default.keep_days),
            limit_megabytes: limit_megabytes.unwrap_or(default.limit_megabytes),
        };
        policy.check()?;
        let mut readers = Vec::with_capacity(users.len() + groups.len());
        for name in &users {
            let unknown = |_| no_reader("userReaders", name);
            let selector = match name.parse::<UserId>() {
                Ok(id) => UserSelector::Id(id),
                Err(_) => UserSelector::Email(name.parse().map_err(unknown)?),
            };
            let user = self.authorized::<User, Read>(ctx, &selector).await;
            let user = user.map_err(|error| unless_known(error, "userReaders", name))?;
            readers.push(BindingSubject::User(user.id));
        }
        for name in &groups {
            let selector = match name.parse::<GroupId>() {
                Ok(id) => GroupSelector::Id(id),
                Err(_) => GroupSelector::Name(name.clone()),
            };
            let group = self.authorized::<Group, Read>(ctx, &selector).await;
            let group = group.map_err(|error| unless_known(error, "groupReaders", name))?;
            readers.push(BindingSubject::Group(group.id));
        }
        let by = project.audited(ctx, "project.recordings");
        self.store.recording_policy_set(by, &policy, &readers).await?;
        Ok(RecordingSettings { policy, readers })
    }

    /// Recordings, only for whom the project's administrators named: of a cluster, of a project, or all that the caller may read.
    pub async fn recording_list(
        &self,
        ctx: &OpCtx,
        of: &RecordingsSelector,
        page: &PageArgs,
    ) -> Result<Page<Recording>> {
        let of = match of {
            RecordingsSelector::Cluster(cluster) => {
                self.store.recordings_for_cluster(ctx.actor(), cluster).await?
            }
            RecordingsSelector::Project(id) => self.store.recordings_for_project(ctx.actor(), *id).await?,
            RecordingsSelector::ProjectNamed(name) => {
                // Nobody learns names; and an unknown one is answered as one that is hidden.
                visibility(ctx.actor())?;
                let none = Error::not_found(Recordings::NOUN);
                let id = self.store.recorded_project_named(name).await?.ok_or(none)?;
                self.store.recordings_for_project(ctx.actor(), id).await?
            }
            RecordingsSelector::Readable => {
                let seen = visibility(ctx.actor())?;
                let found = self.store.recordings_readable(&seen, &page.request()?).await?;
                return self.recordings_opened(found).await;
            }
        };
        let of = of.authorize::<ReadRecordings>(ctx)?;
        let found = self.store.recording_list(&of, &page.request()?).await?;
        self.recordings_opened(found).await
    }

    /// The names of projects whose recordings the caller may read, also of those that are gone.
    pub async fn recorded_projects_get(
        &self,
        ctx: &OpCtx,
        ids: &[ProjectId],
    ) -> Result<HashMap<ProjectId, RecordedProject>> {
        let found = self.store.recorded_projects_for(ctx.actor(), ids).await?;
        let found = authorize_each::<_, ReadRecordings>(ctx, found)?;
        Ok(found.into_iter().map(|project| (project.id, project.into_inner())).collect())
    }

    /// A recording as an asciicast; that it was read is told in the audit log.
    pub async fn recording_read(&self, ctx: &OpCtx, id: RecordingId) -> Result<(Recording, BlobStream)> {
        let row = self.store.recording_for(ctx.actor(), id).await?.authorize::<ReadRecordings>(ctx)?;
        let pieces = self.store.recording_pieces(row.audited(ctx, "recording.read")).await?;
        let recording = self.recording_open(row.into_inner()).await?;
        let header = Bytes::from(cast_header(&recording));
        let (blobs, sealer) = (Arc::clone(&self.blobs), Arc::clone(&self.sealer));
        let events = stream::iter(pieces).then(move |piece| {
            let (blobs, sealer) = (Arc::clone(&blobs), Arc::clone(&sealer));
            async move {
                let read = async {
                    let sealed = crate::seal::Sealed::from_bytes(blobs.read(piece.digest).await?);
                    sealer.open(&piece_context(id, piece.number), &sealed).await
                };
                read.await.map(Bytes::from).map_err(|error| {
                    tracing::error!(
                        recording.id = %id, piece = piece.number, error = error.log_text(),
                        "cannot read a piece of a recording"
                    );
                    std::io::Error::other("a part of the recording cannot be read")
                })
            }
        });
        let whole = stream::iter([Ok(header)]).chain(events);
        Ok((recording, whole.boxed()))
    }

    /// Removes recordings that were kept as long as their policy says; how many those were. The blobs that held them go with
    /// the next collection of artifacts that nothing names.
    pub async fn recordings_forget(&self) -> Result<u64> {
        self.store.recording_prune(self.clock.now()).await
    }

    async fn recordings_opened(&self, page: Page<RecordingRow>) -> Result<Page<Recording>> {
        let Page { edges, has_next_page, has_previous_page } = page;
        let mut opened = Vec::with_capacity(edges.len());
        for Edge { node, cursor } in edges {
            opened.push(Edge { node: self.recording_open(node).await?, cursor });
        }
        Ok(Page { edges: opened, has_next_page, has_previous_page })
    }

    async fn recording_open(&self, row: RecordingRow) -> Result<Recording> {
        let RecordingRow { mut recording, command } = row;
        let command = self.sealer.open(&command_context(recording.id), &command).await?;
        recording.shell.command = serde_json::from_slice(&command)
            .map_err(|cause| Error::internal("reading the command of a recording", cause))?;
        Ok(recording)
    }
}

/// What the command of a recording is sealed for.
pub(crate) fn command_context(id: RecordingId) -> String {
    format!("recording:{id}:command")
}

/// What a piece of a recording is sealed for: no piece can take the place of another.
pub(crate) fn piece_context(id: RecordingId, number: u32) -> String {
    format!("recording:{id}:{number}")
}

fn no_reader(field: &'static str, name: &str) -> Error {
    let reason = format!("no user or group has the id or name {name:?}");
    Error::invalid(format!("attributes.{field}"), reason)
}

fn unless_known(error: Error, field: &'static str, name: &str) -> Error {
    match error {
        Error::NotFound { .. } => no_reader(field, name),
        other => other,
    }
}
