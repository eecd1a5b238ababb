//! Recordings of shells.

use async_graphql::{Context, Enum, ID, Object};
use chrono::{DateTime, Utc};
use plural_app::recording::RecordingsSelector;

use super::{
    error::{IntoGraphql, List, Nullable, exactly_one, id, list, nullable},
    page::{connection, page_args},
    record::by_id,
    request::request,
    user::User,
};

/// How a shell came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::recording::ShellKind")]
pub(crate) enum ShellKind {
    /// A command was started in a container.
    Exec,
    /// A terminal was attached to what runs in a container already.
    Attach,
}

/// Where a recording is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::recording::RecordingState")]
pub(crate) enum RecordingState {
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

/// A recording of a shell. What was recorded is at `/ext/v1/recordings/ID`, as an asciicast.
pub(crate) struct Recording(plural_core::recording::Recording);

impl From<plural_core::recording::Recording> for Recording {
    fn from(recording: plural_core::recording::Recording) -> Self {
        Self(recording)
    }
}

connection!(RecordingConnection, RecordingEdge, Recording);

/// A recording of a shell. What was recorded is at `/ext/v1/recordings/ID`, as an asciicast.
#[Object]
impl Recording {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// In which cluster: its id, which it had while it was there.
    async fn cluster_id(&self) -> ID {
        self.0.cluster_id.to_string().into()
    }

    /// In a cluster of which project: its id, which it had while it was there.
    async fn project_id(&self) -> ID {
        self.0.project_id.to_string().into()
    }

    /// The project's name, or the last that it had.
    async fn project_name(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let request = request(ctx);
            let look_up = async |ids: Vec<_>| {
                request.app.recorded_projects_get(&request.op, &ids).await.into_graphql(ctx)
            };
            let found = request.batches.recorded_projects.get(self.0.project_id, look_up).await?;
            Ok(found.map(|project| project.name))
        })
        .await
    }

    /// The user who was in the shell, as long as it exists.
    async fn actor(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.user_id)).await
    }

    /// Who was in the shell, as it was called then.
    async fn actor_name(&self) -> &str {
        &self.0.actor
    }

    /// How the shell came about.
    async fn kind(&self) -> ShellKind {
        self.0.shell.kind.into()
    }

    /// Namespace of the Pod.
    async fn namespace(&self) -> &str {
        &self.0.shell.namespace
    }

    /// The Pod.
    async fn pod(&self) -> &str {
        &self.0.shell.pod
    }

    /// The container, when one was named.
    async fn container(&self) -> Option<&str> {
        self.0.shell.container.as_deref()
    }

    /// The command and its arguments; none when a terminal was attached.
    async fn command(&self) -> List<String> {
        list(self.0.shell.command.iter().cloned())
    }

    /// It had a terminal.
    async fn tty(&self) -> Option<bool> {
        Some(self.0.shell.tty)
    }

    /// Where it is.
    async fn state(&self, ctx: &Context<'_>) -> RecordingState {
        self.0.state(request(ctx).op.now()).into()
    }

    /// Bytes recorded so far.
    async fn bytes(&self) -> f64 {
        self.0.bytes as f64
    }

    /// Milliseconds from its beginning to what is known last.
    async fn duration_ms(&self) -> f64 {
        self.0.duration_ms() as f64
    }

    /// In which request.
    async fn request_id(&self) -> ID {
        self.0.request_id.to_string().into()
    }

    /// When it began.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.started_at)
    }

    /// When it goes.
    async fn expires_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.expires_at)
    }
}

/// Reading recordings.
#[derive(Default)]
pub(crate) struct RecordingQuery;

/// Reading recordings.
#[Object]
impl RecordingQuery {
    /// What was recorded of shells and you may read, also in clusters and projects that are gone.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn recordings(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only of the project of this name.")] project_name: Option<String>,
    ) -> Nullable<RecordingConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let of = match (project_id, project_name) {
                (None, None) => RecordingsSelector::Readable,
                (Some(project), None) => RecordingsSelector::Project(id(&project).into_graphql(ctx)?),
                (None, Some(name)) => RecordingsSelector::ProjectNamed(name),
                (Some(_), Some(_)) => return Err(exactly_one("projectId and projectName")).into_graphql(ctx),
            };
            let found = request.app.recording_list(&request.op, &of, &page).await;
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }
}
