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

use super::reseal::context;
use crate::app::App;
use crate::job::{Job, JobFailure, NewJob};
use crate::kept;
use crate::seal::{Sealed, SealedColumn, SealedValue};

/// Values at a time.
const CHUNK: u64 = 100;
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
        // What a deleted project left goes at once.
        app.secret_objects_collect().await?;
        Ok(())
    }
}

/// Enqueues moves of what was sealed behind them, and deletes objects that nothing names; how many of both.
pub(super) async fn pass(app: &App) -> Result<u64> {
    let mut jobs = Vec::new();
    for project in app.store.projects_with_backend().await? {
        let backend = app.store.secret_backend(project).await?;
        let kept = app.store.secrets_kept(project).await?;
        if app.sealer.kept().has(backend) && kept.iter().any(|kept| kept.backend != backend) {
            jobs.push(NewJob::of::<MoveSecrets>(&MovedSecrets { project })?);
        }
    }
    let now = app.now();
    let enqueued = app.store.jobs_enqueue_absent(&jobs, now - RESTS, now).await?;
    Ok(enqueued + app.secret_objects_collect().await?)
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
        let (mut moved, mut failed) = (0, 0);
        loop {
            let found = self.store.sealed_elsewhere(column, project, backend, failed, CHUNK).await?;
            // Revisions of a service share values: each is put once.
            let mut different: HashMap<(Uuid, Vec<u8>), u64> = HashMap::new();
            let mut values = Vec::with_capacity(found.len());
            for value in found {
                let rows = different.entry((value.of, value.sealed.as_bytes().to_vec())).or_default();
                *rows += 1;
                if *rows == 1 {
                    values.push(value);
                }
            }
            let rows_of = |value: &SealedValue| {
                different.get(&(value.of, value.sealed.as_bytes().to_vec())).copied().unwrap_or(1)
            };
            self.sealer.kept().fetch(values.iter().map(|value| &value.sealed)).await;
            // Futures of a loop instead of a closure's: what they borrow must not depend on the closure's lifetime.
            let mut put = Vec::with_capacity(values.len());
            for value in &values {
                put.push(self.moved(column, value, backend));
            }
            let put: Vec<Result<Sealed>> = stream::iter(put).buffered(AT_ONCE).collect().await;
            let (mut changes, mut away) = (Vec::with_capacity(values.len()), None);
            for (value, put) in values.into_iter().zip(put) {
                match put {
                    Ok(sealed) => changes.push((value, sealed)),
                    Err(error @ Error::Unavailable { .. }) => away = Some(error),
                    Err(error) => {
                        tracing::error!(error = error.log_text(), "cannot move a secret value");
                        failed += rows_of(&value);
                        failures.add(rows_of(&value), &error);
                    }
                }
            }
            let rows: u64 = changes.iter().map(|(value, _)| rows_of(value)).sum();
            self.store.sealed_replace(column, &changes).await?;
            moved += rows;
            if let Some(error) = away {
                return Err(error);
            }
            if changes.is_empty() {
                return Ok(moved);
            }
        }
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
        let now = self.now();
        let found = self.store.secret_objects_unnamed(now - UNNAMED_KEPT, now, OBJECTS).await?;
        let mut objects = found;
        objects.retain(|object| self.sealer.kept().has(object.backend));
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
    fn add(&mut self, values: u64, error: &Error) {
        self.values += values;
        self.first.get_or_insert_with(|| error.to_string());
    }

    fn told(self, backend: SecretBackend) -> Result<()> {
        let Some(first) = self.first else { return Ok(()) };
        let values = self.values;
        Err(Error::conflict(format!("{values} values cannot be moved to the {backend}; the first: {first}")))
    }
}
