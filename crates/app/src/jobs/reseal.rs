//! After a new encryption key was put before the old one: a job seals everything with it, so that the old one can go.
//!
//! Values of the database are re-wrapped in place; pieces of recordings are stored anew, since a blob's name is its digest, and
//! the old ones go with the next collection of what nothing names. Stopped anywhere, what is done is done, and the next
//! run finds the rest: a value is always sealed with one key or the other.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use plural_core::ids::RecordingId;
use plural_core::job::{BackgroundJob, JobState};
use plural_core::{Error, PageArgs, Result};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::app::App;
use crate::job::{Job, JobFailure, JobFilter, NewJob};
use crate::recording::{RecordingPiece, piece_context};
use crate::seal::{Sealed, SealedColumn};

/// Values at a time.
const CHUNK: u64 = 100;
/// After so long a dead job is tried again: the database or the blob store may answer by then, and nobody else asks for it.
const RESTS: TimeDelta = TimeDelta::hours(2);

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Values that are sealed with the current key by now.
    pub done: u64,
    /// Values that no key of ours opens.
    pub failed: u64,
}

/// Seals with the current key whatever is sealed with another one.
#[derive(Debug)]
pub enum Reseal {}

/// With which key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResealedWith {
    /// The id of the key, as it stands in what that seals.
    pub key: String,
    /// The ids of the keys that open what was sealed before: with other ones, a run that failed may work.
    #[serde(default)]
    pub previous: Vec<String>,
}

impl Job for Reseal {
    const KIND: &'static str = "reseal";
    const ATTEMPTS: u32 = 3;
    const DEADLINE: Duration = Duration::from_hours(6);
    type Payload = ResealedWith;

    fn key(with: &ResealedWith) -> String {
        with.key.clone()
    }

    async fn run(app: &Arc<App>, with: ResealedWith) -> Result<(), JobFailure> {
        if with.key != key_name(app) {
            // A replica whose key it is enqueues it again, as long as there is one that was started with older keys, too.
            tracing::info!(
                key = with.key,
                "sealing with a key that is not this console's first is left to others"
            );
            return Ok(());
        }
        match app.reseal().await? {
            Resealed { done, failed: 0 } => {
                log_done(done);
                Ok(())
            }
            Resealed { done: _, failed } => Err(JobFailure::Terminal(Error::conflict(format!(
                "no key opens {failed} of the sealed values: put the keys that sealed them back into the key file"
            )))),
        }
    }
}

/// Enqueues [`Reseal`] where something is sealed with another key. While one runs, it is not asked to run once more: what it leaves,
/// because it was sealed behind it, is found by the next pass. One that is dead rests while the keys are the same.
pub(super) async fn enqueue(app: &App) -> Result<u64> {
    if !app.seals_differ().await? {
        log_done(0);
        return Ok(0);
    }
    warn_of_dead(app).await?;
    let previous = app.sealer.previous_ids().map(hex::encode).collect();
    let job = NewJob::of::<Reseal>(&ResealedWith { key: key_name(app), previous })?;
    let now = app.now();
    app.store.jobs_enqueue_absent(&[job], now - RESTS, now).await
}

/// While it is dead, nothing else says that the old keys still have to be kept.
async fn warn_of_dead(app: &App) -> Result<()> {
    let filter = JobFilter { state: Some(JobState::Dead), kind: Some(Reseal::KIND.to_owned()) };
    let dead = app.list::<BackgroundJob>(&app.system_ctx(), &filter, &PageArgs::default()).await?;
    let key = key_name(app);
    for job in dead.into_nodes().into_iter().filter(|job| job.key == key) {
        let error = job.error.unwrap_or_default();
        tracing::warn!(
            job.id = %job.id, error,
            "not everything is sealed with the current encryption key, because the job for it failed: keep the older keys. It is tried \
             again two hours after it failed, or with `plural cd jobs retry`"
        );
    }
    Ok(())
}

fn key_name(app: &App) -> String {
    hex::encode(app.sealer.key_id())
}

fn log_done(resealed: u64) {
    tracing::info!(
        resealed,
        "everything is sealed with the current encryption key: the older ones can be removed from its file, once every replica \
         was started with it"
    );
}

impl App {
    /// Seals with the current key whatever is sealed with an older one.
    ///
    /// # Errors
    /// When the database or the blob store does not answer: what was done until then stays done.
    pub async fn reseal(&self) -> Result<Resealed> {
        let mut all = Resealed::default();
        for column in SealedColumn::ALL {
            self.reseal_column(column, &mut all).await?;
        }
        self.reseal_pieces(&mut all).await?;
        Ok(all)
    }

    /// Whether anything is sealed with another key than the current one.
    async fn seals_differ(&self) -> Result<bool> {
        let key = self.sealer.key_id();
        for column in SealedColumn::ALL {
            if !self.store.sealed_otherwise(column, key, 0, 1).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(!self.store.pieces_otherwise(key, 0, 1).await?.is_empty())
    }

    async fn reseal_column(&self, column: SealedColumn, all: &mut Resealed) -> Result<()> {
        let key = self.sealer.key_id();
        let mut failed = 0;
        loop {
            let found = self.store.sealed_otherwise(column, key, failed, CHUNK).await?;
            let mut changes = Vec::with_capacity(found.len());
            for value in found {
                match self.sealer.rewrap(&context(column, value.of), &value.sealed) {
                    Ok(sealed) => changes.push((value, sealed)),
                    Err(error) => {
                        tracing::error!(error = error.log_text(), "cannot seal a value anew");
                        failed += 1;
                    }
                }
            }
            if changes.is_empty() {
                all.failed += failed;
                return Ok(());
            }
            self.store.sealed_replace(column, &changes).await?;
            all.done += changes.len() as u64;
        }
    }

    async fn reseal_pieces(&self, all: &mut Resealed) -> Result<()> {
        let key = self.sealer.key_id();
        let mut failed = 0;
        loop {
            let found = self.store.pieces_otherwise(key, failed, CHUNK).await?;
            if found.is_empty() {
                all.failed += failed;
                return Ok(());
            }
            for (id, piece) in found {
                match self.reseal_piece(id, &piece).await {
                    Ok(digest) => {
                        self.store.piece_resealed(id, &piece, digest, key).await?;
                        // One that was sealed with this key before is marked, so that it is not looked at again.
                        all.done += u64::from(digest != piece.digest);
                    }
                    Err(error) if matches!(error, Error::Unavailable { .. }) => {
                        return Err(error);
                    }
                    Err(error) => {
                        tracing::error!(
                            recording.id = %id, piece = piece.number, error = error.log_text(),
                            "cannot seal a piece of a recording anew"
                        );
                        failed += 1;
                    }
                }
            }
        }
    }

    /// The blob that holds a piece, sealed with the current key.
    async fn reseal_piece(&self, id: RecordingId, piece: &RecordingPiece) -> Result<[u8; 32]> {
        let sealed = Sealed::from_bytes(self.blobs.read(piece.digest).await?);
        if !self.sealer.is_old(&sealed) {
            return Ok(piece.digest);
        }
        let sealed = self.sealer.rewrap(&piece_context(id, piece.number), &sealed)?;
        // Named only when it is stored: in between nothing names it, and it is too young to be collected.
        self.blobs.keep(sealed.into_bytes()).await
    }
}

/// What a value of a column is sealed for.
pub fn context(column: SealedColumn, of: Uuid) -> String {
    match column {
        SealedColumn::KeyCheck => crate::app::KEY_CHECK.to_owned(),
        SealedColumn::ProxyKey => crate::proxy::KEY.to_owned(),
        SealedColumn::AuditKey => crate::audit_chain::KEY.to_owned(),
        SealedColumn::RepositoryCredentials => format!("repository:{of}:credentials"),
        SealedColumn::RepositoryReach => format!("repository:{of}:reach"),
        SealedColumn::RepositoryWebhook => format!("repository:{of}:webhook"),
        SealedColumn::HelmRepositoryAccess => format!("helm_repository:{of}:access"),
        SealedColumn::ServiceSeed => format!("service:{of}:seed"),
        SealedColumn::Configuration => format!("service:{of}:configuration"),
        SealedColumn::HelmValues => format!("service:{of}:helm"),
        SealedColumn::RendererValues => format!("service:{of}:renderers"),
        SealedColumn::GlobalServiceSecrets => format!("global-service:{of}"),
        SealedColumn::ContextSecrets => format!("service_context:{of}:secrets"),
        SealedColumn::RecordingCommand => format!("recording:{of}:command"),
        SealedColumn::IdentityProviderSecret => format!("identity_provider:{of}:secret"),
        SealedColumn::IdentityRefresh => format!("identity:{of}:refresh"),
        SealedColumn::SecondFactor => format!("user:{of}:second-factor"),
    }
}
