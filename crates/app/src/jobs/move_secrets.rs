//! The secret values of a project move to the backend that it keeps them in; and objects of backends go that no row names.
//!
//! A value is put into the new backend and read back, then its row names the new object: stopped anywhere, each value is whole in one
//! of the two, and the next run finds the rest. The former object goes later, when no row named it for a while: a request that read the
//! row before may still ask for it, and so may a copy of the row.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures::{StreamExt as _, stream};
use plural_core::ids::ProjectId;
use plural_core::secret_backend::SecretBackend;
use plural_core::{Error, Result};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::reseal::{Walk, context};
use crate::app::App;
use crate::job::{Job, JobFailure, NewJob};
use crate::kept;
use crate::seal::{Sealed, SealedColumn, SealedValue};

/// Values at a time.
const CHUNK: u64 = 100;
/// Values whose failures are logged one by one; the job's error counts all of them.
const LOGGED: u64 = 10;
/// Values that are put at once.
const AT_ONCE: usize = 8;
/// After so long a dead job is tried again: the backend may answer by then.
const RESTS: TimeDelta = TimeDelta::hours(2);
/// How long an object is kept that no row names: whoever put it a moment ago may not have written its row yet.
const UNNAMED_KEPT: TimeDelta = TimeDelta::hours(1);
/// Objects that are deleted in one pass.
const OBJECTS: u64 = 1000;

/// Moves the values of a project to where it keeps them.
#[derive(Debug)]
pub enum MoveSecrets {}

/// Whose values move.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MovedSecrets {
    /// The project. Where its values go is read when the job runs.
    pub project: ProjectId,
}

impl Job for MoveSecrets {
    const KIND: &'static str = "move_secrets";
    const DEADLINE: Duration = Duration::from_hours(6);
    type Payload = MovedSecrets;

    fn key(moved: &MovedSecrets) -> String {
        moved.project.to_string()
    }

    async fn run(app: &Arc<App>, MovedSecrets { project }: MovedSecrets) -> Result<(), JobFailure> {
        app.sealer.kept().forget_wanted(project);
        let moved = app.secrets_moved(project).await?;
        tracing::info!(project.id = %project, moved, "the secrets of a project are where it keeps them");
        // What a deleted project left goes at once. What stays is for the next pass: the values moved.
        if let Err(error) = app.secret_objects_collect().await {
            tracing::error!(error = error.log_text(), "cannot delete objects of secret backends");
        }
        Ok(())
    }
}

/// Enqueues moves of what was sealed behind them, and deletes objects that nothing names; how many of both.
pub(super) async fn pass(app: &App) -> Result<u64> {
    // First: the time that an object is unnamed counts from here.
    let deleted = app.secret_objects_collect().await?;
    let mut jobs = Vec::new();
    for project in app.store.projects_with_backend().await? {
        match is_elsewhere(app, project).await {
            Ok(false) => {}
            Ok(true) => jobs.push(NewJob::of::<MoveSecrets>(&MovedSecrets { project })?),
            Err(error) => {
                tracing::error!(project.id = %project, error = error.log_text(), "cannot tell where a project's secrets are");
            }
        }
    }
    let now = app.now();
    Ok(deleted + app.store.jobs_enqueue_absent(&jobs, now - RESTS, now).await?)
}

/// Whether values of a project have yet to move, and can.
async fn is_elsewhere(app: &App, project: ProjectId) -> Result<bool> {
    let backend = app.store.secret_backend(project).await?;
    let kept = app.store.secrets_kept(project).await?;
    Ok(app.sealer.kept().has(backend) && kept.iter().any(|kept| kept.backend != backend))
}

impl App {
    /// Moves the values of a project to where it keeps them; how many.
    ///
    /// # Errors
    /// When a backend or the database is away, or a value does not open: what was moved until then stays moved.
    pub async fn secrets_moved(&self, project: ProjectId) -> Result<u64> {
        let backend = self.store.secret_backend(project).await?;
        let (mut moved, mut failures) = (0, Failures::default());
        for column in SealedColumn::ALL.into_iter().filter(|column| column.is_movable()) {
            moved += self.column_moved(column, (project, backend), &mut failures).await?;
        }
        failures.told(backend)?;
        Ok(moved)
    }

    async fn column_moved(
        &self,
        column: SealedColumn,
        (project, backend): (ProjectId, SecretBackend),
        failures: &mut Failures,
    ) -> Result<u64> {
        let (mut moved, mut walk) = (0, Walk::default());
        while !walk.is_over {
            let found =
                walk.goes_on(self.store.sealed_elsewhere(column, project, backend, walk.after, CHUNK).await?);
            self.sealer.kept().fetch(found.iter().map(|value| &value.sealed)).await;
            // Revisions of a service share values: each is put once.
            let mut different: HashMap<(Uuid, &[u8]), usize> = HashMap::new();
            let mut put = Vec::new();
            let mut shared = Vec::with_capacity(found.len());
            // Futures of a loop instead of a closure's: what they borrow must not depend on the closure's lifetime.
            for value in &found {
                let at = *different.entry((value.of, value.sealed.as_bytes())).or_insert_with(|| {
                    put.push(value);
                    put.len() - 1
                });
                shared.push(at);
            }
            let mut puts = Vec::with_capacity(put.len());
            for value in put {
                puts.push(self.moved(column, value, backend));
            }
            let put: Vec<Result<Sealed>> = stream::iter(puts).buffered(AT_ONCE).collect().await;
            let (mut changes, mut away) = (Vec::with_capacity(found.len()), None);
            for (value, at) in found.into_iter().zip(shared) {
                match &put[at] {
                    Ok(sealed) => changes.push((value, sealed.clone())),
                    Err(Error::Unavailable { .. }) => away = Some(at),
                    Err(error) => failures.add(error),
                }
            }
            if !changes.is_empty() {
                self.store.sealed_replace(column, &changes).await?;
            }
            moved += changes.len() as u64;
            if let Some(error) = away.and_then(|at| put.into_iter().nth(at)?.err()) {
                return Err(error);
            }
        }
        Ok(moved)
    }

    async fn moved(
        &self,
        column: SealedColumn,
        value: &SealedValue,
        backend: SecretBackend,
    ) -> Result<Sealed> {
        let context = context(column, value.of);
        let clear = self.sealer.open(&context, &value.sealed).await?;
        let sealed = self.sealer.keep(value.owner, &context, &clear).await?;
        if kept::backend_of(&sealed) == backend {
            return Ok(sealed);
        }
        Err(Error::unavailable("the project keeps its secrets elsewhere by now: the move begins anew"))
    }

    /// Deletes objects of backends that no row named for an hour, and those of projects that are gone; how many.
    ///
    /// # Errors
    /// When the database does not answer. A backend that does not answer keeps its objects until the next pass.
    pub async fn secret_objects_collect(&self) -> Result<u64> {
        let mut deleted = 0;
        for backend in self.sealer.kept().backends() {
            deleted += self.objects_collect(backend).await?;
        }
        Ok(deleted)
    }

    async fn objects_collect(&self, backend: SecretBackend) -> Result<u64> {
        let now = self.now();
        let objects = self.store.secret_objects_unnamed(now - UNNAMED_KEPT, now, backend, OBJECTS).await?;
        let mut deleted = Vec::with_capacity(objects.len());
        let mut deletions = Vec::with_capacity(objects.len());
        for object in &objects {
            deletions.push(self.sealer.kept().delete(object));
        }
        let ended: Vec<Result<()>> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
        for (object, ended) in objects.iter().zip(ended) {
            match ended {
                Ok(()) => deleted.push(object.name.id),
                Err(error) => {
                    tracing::warn!(object = %object.name, error = error.log_text(), "cannot delete an object of a secret backend");
                }
            }
        }
        self.store.secret_objects_forget(&deleted).await?;
        Ok(deleted.len() as u64)
    }
}

/// Values that cannot be moved, and why the first of them cannot.
#[derive(Default)]
struct Failures {
    values: u64,
    first: Option<String>,
}

impl Failures {
    fn add(&mut self, error: &Error) {
        self.values += 1;
        if self.values <= LOGGED {
            tracing::error!(error = error.log_text(), "cannot move a secret value");
        }
        self.first.get_or_insert_with(|| error.to_string());
    }

    fn told(self, backend: SecretBackend) -> Result<()> {
        let Some(first) = self.first else { return Ok(()) };
        let values = self.values;
        Err(Error::conflict(format!("{values} values cannot be moved to the {backend}; the first: {first}")))
    }
}
