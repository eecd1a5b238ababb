//! Where projects keep their secret values: the database, Vault, or Secrets of the management cluster; and moving between them.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::Scope;
use plural_core::ids::ProjectId;
use plural_core::job::BackgroundJob;
use plural_core::project::Project;
use plural_core::secret_backend::{KeptSecrets, SecretBackend, SecretStorage};
use plural_core::{Error, PageArgs, Result};
use uuid::Uuid;

use crate::access::{Admin, Audited, Authorized, Installation, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::{Job as _, JobFilter, NewJob};
use crate::jobs::{MoveSecrets, MovedSecrets};
use crate::ports::secret_backend::ObjectName;
use crate::project::ProjectSelector;
use crate::seal::{SealedColumn, SealedRow, SealedStep, SealedValue};

/// An object that was put into a backend, or is about to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretObject {
    /// Its name there.
    pub name: ObjectName,
    /// Where.
    pub backend: SecretBackend,
}

/// Where secret values are. What seals and opens asks on nobody's behalf.
#[async_trait]
pub trait SecretBackendStore: Send + Sync + 'static {
    /// Where a project keeps its values; the database where nobody said otherwise.
    async fn secret_backend(&self, project: ProjectId) -> Result<SecretBackend>;
    /// A project keeps its values there from now on, and the job moves those that there are; [`Error::Conflict`] while a replica is
    /// alive that does not know such values.
    async fn secret_backend_set(
        &self,
        by: Audited<'_, Project, Admin>,
        backend: SecretBackend,
        job: &NewJob,
    ) -> Result<()>;
    /// How many values of a project are in each backend that has any.
    async fn secrets_kept(&self, project: ProjectId) -> Result<Vec<KeptSecrets>>;
    /// Values of a project that are not in this backend: at most `limit`, in a bounded number of rows behind `after`. From step to step each
    /// row is looked at once.
    async fn sealed_elsewhere(
        &self,
        column: SealedColumn,
        project: ProjectId,
        backend: SecretBackend,
        after: Option<SealedRow>,
        limit: u64,
    ) -> Result<SealedStep<SealedValue>>;
    /// Projects for which somebody said where they keep their values.
    async fn projects_with_backend(&self) -> Result<Vec<ProjectId>>;
    /// An object is about to be put. That no row names it is noted by the first [`secret_objects_unnamed`](Self::secret_objects_unnamed).
    async fn secret_object_note(&self, object: &SecretObject) -> Result<()>;
    /// Notes which objects no row names by now. Then those of this backend that no row named since `before`, and all of projects
    /// that are gone.
    async fn secret_objects_unnamed(
        &self,
        before: DateTime<Utc>,
        at: DateTime<Utc>,
        backend: SecretBackend,
        limit: u64,
    ) -> Result<Vec<SecretObject>>;
    /// These objects are gone.
    async fn secret_objects_forget(&self, ids: &[Uuid]) -> Result<()>;
}

impl App {
    /// Where the secret values of a project are; for its administrators.
    pub async fn secret_storage(&self, ctx: &OpCtx, id: ProjectId) -> Result<SecretStorage> {
        let project = self.authorized::<Project, Admin>(ctx, &ProjectSelector::Id(id)).await?;
        self.secret_storage_of(&project).await
    }

    /// Keeps the secret values of a project in a backend from now on, and moves those that there are in the background; for
    /// administrators of the installation. The same once more goes on with a move that failed.
    pub async fn secrets_move(
        &self,
        ctx: &OpCtx,
        id: ProjectId,
        backend: SecretBackend,
    ) -> Result<SecretStorage> {
        let project = self.authorized::<Project, Admin>(ctx, &ProjectSelector::Id(id)).await?;
        // The backends are those of the whole installation, and not of who administers a project.
        let _: Authorized<Installation, Admin> = authorize_installation(ctx, Scope::AdminOnly)?;
        if !self.sealer.kept().has(backend) {
            return Err(Error::conflict(format!(
                "this console was started without the secret backend {backend}: name it with --secret-backend"
            )));
        }
        if !self.sealer.uses_data_keys().await? {
            return Err(Error::conflict(
                "replicas of the release before data keys are running: replace them first, and try again",
            ));
        }
        self.sealer.kept().check(project.id, backend).await?;
        let job = NewJob::of::<MoveSecrets>(&MovedSecrets { project: project.id })?;
        let by = project.audited(ctx, move_action(backend));
        self.store.secret_backend_set(by, backend, &job).await?;
        self.sealer.kept().forget_wanted(project.id);
        self.secret_storage_of(&project).await
    }

    async fn secret_storage_of(&self, project: &Authorized<Project, Admin>) -> Result<SecretStorage> {
        let backend = self.store.secret_backend(project.id).await?;
        let kept = self.store.secrets_kept(project.id).await?;
        let mut storage = SecretStorage { backend, kept, problem: None };
        if storage.waiting() > 0 {
            storage.problem = self.move_problem(project.id).await?;
        }
        Ok(storage)
    }

    /// Why the last attempt to move the values of a project failed.
    async fn move_problem(&self, project: ProjectId) -> Result<Option<String>> {
        let key = MoveSecrets::key(&MovedSecrets { project });
        let filter = JobFilter { state: None, kind: Some(MoveSecrets::KIND.to_owned()) };
        let mut after = None;
        loop {
            let args = PageArgs { after, first: Some(100), ..PageArgs::default() };
            let page = self.list::<BackgroundJob>(&self.system_ctx(), &filter, &args).await?;
            let last = page.edges.last().map(|edge| edge.cursor.clone());
            after = last.filter(|_| page.has_next_page);
            if let Some(job) = page.into_nodes().into_iter().find(|job| job.key == key) {
                return Ok(job.error);
            }
            if after.is_none() {
                return Ok(None);
            }
        }
    }
}

/// The action of the audit log's line: it says where the values go.
const fn move_action(backend: SecretBackend) -> &'static str {
    match backend {
        SecretBackend::Database => "project.secrets.move_to_database",
        SecretBackend::Vault => "project.secrets.move_to_vault",
        SecretBackend::Kubernetes => "project.secrets.move_to_kubernetes",
    }
}
