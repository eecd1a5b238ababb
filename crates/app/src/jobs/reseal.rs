//! Secrets are sealed with the current data key of their owner, and data keys are wrapped by the current key-encryption key: a job sees
//! to it, after either was replaced, and after an upgrade from a release without data keys.
//!
//! Data keys are wrapped anew in their rows; values are sealed anew in place; pieces of recordings are stored anew, since a
//! blob's name is its digest, and the old ones go with the next collection of what nothing names. A retired data key is
//! destroyed once nothing is sealed with it. Stopped anywhere, what is done is done, and the next run finds the rest: a value is
//! always sealed with a key that is there.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use plural_core::data_key::KeyOwner;
use plural_core::ids::DataKeyId;
use plural_core::job::{BackgroundJob, JobState};
use plural_core::{Error, PageArgs, Result};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::app::App;
use crate::data_key::RETIRED_KEPT;
use crate::job::{Job, JobFailure, JobFilter, NewJob};
use crate::recording::{RecordingPiece, piece_context};
use crate::seal::{Sealed, SealedColumn, SealedPiece, SealedRow, SealedStep, SealedValue};
use crate::{kept, keyring};

/// Values at a time.
const CHUNK: u64 = 100;
/// Values of one place whose failures are logged one by one; the job's error counts all of them.
const LOGGED: u64 = 10;
/// After so long a dead job is tried again: the database or the blob store may answer by then, and nobody else asks for it.
const RESTS: TimeDelta = TimeDelta::hours(2);
/// So long after the last replica without data keys was gone, nobody seals as that did.
const SETTLED: TimeDelta = TimeDelta::minutes(10);

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Values and data keys that are sealed with the current key by now.
    pub done: u64,
    /// Values and data keys that no key of ours opens.
    pub failed: u64,
}

/// Seals with the current keys whatever is sealed with other ones.
#[derive(Debug)]
pub enum Reseal {}

/// With which key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResealedWith {
    /// The name of the key-encryption key that wraps.
    pub key: String,
    /// The names of those that unwrap: with other ones, a run that failed may work.
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

/// A job that seals with the keys of this console.
pub(crate) fn reseal_job(app: &App) -> Result<NewJob> {
    let previous = app.sealer.names().skip(1).map(str::to_owned).collect();
    NewJob::of::<Reseal>(&ResealedWith { key: key_name(app), previous })
}

/// Enqueues [`Reseal`] where something is sealed with another key. While one runs, it is not asked to run once more: what it leaves,
/// because it was sealed behind it, is found by the next pass. One that is dead rests while the keys are the same.
pub(super) async fn enqueue(app: &App) -> Result<u64> {
    if !app.sealer.uses_data_keys().await? {
        tracing::info!(
            "secrets are sealed as the release before seals them, as long as a replica of that is alive"
        );
        return Ok(0);
    }
    app.store.data_keys_of_gone_destroy(app.now()).await?;
    let (now, has_others) = (app.now(), app.sealer.names().count() > 1);
    let differ = app.keys_differ().await?;
    let is_settled =
        app.store.data_keys_everywhere().await? && app.store.data_keys_retired(now).await?.is_empty();
    if !differ && (is_settled || !app.seals_differ().await?) {
        if !is_settled {
            app.destroy_unused_keys().await?;
            app.settle(now).await?;
        }
        if has_others {
            log_done(0);
        }
        return Ok(0);
    }
    warn_of_dead(app).await?;
    app.store.jobs_enqueue_absent(&[reseal_job(app)?], now - RESTS, now).await
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
    app.sealer.names().next().unwrap_or_default().to_owned()
}

fn log_done(resealed: u64) {
    tracing::info!(
        resealed,
        "everything is sealed with the current encryption key: the older ones can be removed from its file, once every replica \
         was started with it"
    );
}

impl App {
    /// Seals with the current keys whatever is sealed with older ones. Each place is walked once, along the primary key of its table: what
    /// does not open is passed and counted, and what is sealed with an old key behind the walk is left to the next one.
    ///
    /// # Errors
    /// When the database, the blob store or a key management service does not answer: what was done until then stays done.
    pub async fn reseal(&self) -> Result<Resealed> {
        let mut all = Resealed::default();
        if !self.sealer.uses_data_keys().await? {
            return Ok(all);
        }
        let began = self.now();
        // Another replica may have replaced keys that this one remembers.
        self.sealer.forget_all_current();
        self.rewrap_keys(&mut all).await?;
        for column in SealedColumn::ALL {
            self.reseal_column(column, &mut all).await?;
        }
        self.reseal_pieces(&mut all).await?;
        // What a change copied behind this walk is found by the next: nothing that it needs goes before one finds nothing to do.
        if all == Resealed::default() {
            self.destroy_unused_keys().await?;
            self.settle(began).await?;
        }
        Ok(all)
    }

    /// Destroys keys that were replaced long enough ago and that nothing is sealed with any more.
    async fn destroy_unused_keys(&self) -> Result<()> {
        let now = self.now();
        let retired = self.store.data_keys_retired(now - RETIRED_KEPT).await?;
        let used =
            if retired.is_empty() { HashSet::new() } else { self.store.data_keys_used(&retired).await? };
        let unused: Vec<DataKeyId> =
            retired.into_iter().map(|key| key.id).filter(|id| !used.contains(id)).collect();
        let destroyed = self.store.data_keys_destroy(&unused, now).await?;
        if destroyed > 0 {
            tracing::info!(destroyed, "destroyed retired data keys: nothing was sealed with them");
        }
        Ok(())
    }

    /// A walk that began then found nothing that is sealed with other keys than the current ones. Where it had found something, what
    /// was copied behind it is for the next one to see.
    async fn settle(&self, began: DateTime<Utc>) -> Result<()> {
        let now = self.now();
        let since = self.store.data_keys_begin(now).await?;
        if since.is_some_and(|since| began - since >= SETTLED) {
            self.store.data_keys_are_everywhere(now).await?;
        }
        Ok(())
    }

    /// Whether a data key is wrapped by another key-encryption key than the current one, or by another version of it.
    async fn keys_differ(&self) -> Result<bool> {
        let version = self.sealer.version().await?;
        let name = key_name(self);
        Ok(!self.store.data_keys_otherwise(&name, version.as_deref(), None, 1).await?.is_empty())
    }

    /// Whether anything is sealed with another key than the current one of its owner.
    async fn seals_differ(&self) -> Result<bool> {
        for column in SealedColumn::ALL {
            let mut walk = Walk::default();
            while !walk.is_over {
                if !walk.goes_on(self.store.sealed_otherwise(column, walk.after, 1).await?).is_empty() {
                    return Ok(true);
                }
            }
        }
        let mut walk = Walk::default();
        while !walk.is_over {
            if !walk.goes_on(self.store.pieces_otherwise(walk.after, 1).await?).is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn rewrap_keys(&self, all: &mut Resealed) -> Result<()> {
        let (name, version) = (key_name(self), self.sealer.version().await?);
        let mut after = None;
        loop {
            let found = self.store.data_keys_otherwise(&name, version.as_deref(), after, CHUNK).await?;
            let Some(last) = found.last() else { return Ok(()) };
            after = Some(last.key.id);
            for row in found {
                match self.sealer.rewrapped(&row).await {
                    Ok(rewrapped) => {
                        self.store.data_key_rewrap(&row, &rewrapped).await?;
                        all.done += 1;
                    }
                    Err(error) if matches!(error, Error::Unavailable { .. }) => return Err(error),
                    Err(error) => {
                        tracing::error!(
                            data_key.id = %row.key.id, key = row.key.encrypted_by, error = error.log_text(),
                            "cannot wrap a data key anew"
                        );
                        all.failed += 1;
                    }
                }
            }
        }
    }

    async fn reseal_column(&self, column: SealedColumn, all: &mut Resealed) -> Result<()> {
        let (mut walk, mut failed) = (Walk::default(), 0);
        while !walk.is_over {
            let found = walk.goes_on(self.store.sealed_otherwise(column, walk.after, CHUNK).await?);
            self.sealer.kept().fetch(found.iter().map(|value| &value.sealed)).await;
            let mut changes = Vec::with_capacity(found.len());
            for value in found {
                match self.resealed(column, &value).await {
                    Ok(sealed) => changes.push((value, sealed)),
                    // The backend of one project keeps no other's values from being sealed anew.
                    Err(error)
                        if matches!(error, Error::Unavailable { .. }) && !kept::is_of_backend(&error) =>
                    {
                        return Err(error);
                    }
                    Err(error) => {
                        failed += 1;
                        if failed <= LOGGED {
                            tracing::error!(error = error.log_text(), "cannot seal a value anew");
                        }
                    }
                }
            }
            if !changes.is_empty() {
                self.store.sealed_replace(column, &changes).await?;
            }
            all.done += changes.len() as u64;
        }
        all.failed += failed;
        Ok(())
    }

    /// What is sealed anew was found because another key than this one seals for its owner.
    fn forget_retired(&self, owner: KeyOwner, sealed: &Sealed) {
        if let Some(id) = keyring::sealed_with(sealed) {
            self.sealer.forget_retired(owner, id);
        }
    }

    async fn resealed(&self, column: SealedColumn, value: &SealedValue) -> Result<Sealed> {
        let context = context(column, value.of);
        let clear = self.sealer.open(&context, &value.sealed).await?;
        self.forget_retired(value.owner, &value.sealed);
        if column.is_movable() {
            self.sealer.keep(value.owner, &context, &clear).await
        } else {
            self.sealer.seal(value.owner, &context, &clear).await
        }
    }

    async fn reseal_pieces(&self, all: &mut Resealed) -> Result<()> {
        let (mut walk, mut failed) = (Walk::default(), 0);
        while !walk.is_over {
            for before in walk.goes_on(self.store.pieces_otherwise(walk.after, CHUNK).await?) {
                match self.reseal_piece(&before).await {
                    Ok(after) => {
                        self.store.piece_resealed(&before, &after).await?;
                        all.done += 1;
                    }
                    Err(error) if matches!(error, Error::Unavailable { .. }) => return Err(error),
                    Err(error) => {
                        failed += 1;
                        if failed <= LOGGED {
                            tracing::error!(
                                recording.id = %before.of, piece = before.piece.number, error = error.log_text(),
                                "cannot seal a piece of a recording anew"
                            );
                        }
                    }
                }
            }
        }
        all.failed += failed;
        Ok(())
    }

    /// The blob that holds a piece, sealed with the current key.
    async fn reseal_piece(&self, before: &SealedPiece) -> Result<RecordingPiece> {
        let SealedPiece { of, owner, piece } = before;
        let sealed = Sealed::from_bytes(self.blobs.read(piece.digest).await?);
        let context = piece_context(*of, piece.number);
        let clear = self.sealer.open(&context, &sealed).await?;
        self.forget_retired(*owner, &sealed);
        let sealed = self.sealer.seal(*owner, &context, &clear).await?;
        let sealed_with = sealed.data_key_prefix();
        // Named only when it is stored: in between nothing names it, and it is too young to be collected.
        let digest = self.blobs.keep(sealed.into_bytes()).await?;
        Ok(RecordingPiece { number: piece.number, digest, bytes: piece.bytes, sealed_with })
    }
}

/// Where a walk through a table is.
#[derive(Default)]
pub(super) struct Walk {
    /// The last row that was looked at.
    pub(super) after: Option<SealedRow>,
    /// It was the last of the table.
    pub(super) is_over: bool,
}

impl Walk {
    /// Takes what a step found.
    pub(super) fn goes_on<T>(&mut self, step: SealedStep<T>) -> Vec<T> {
        let SealedStep { found, next } = step;
        *self = Self { after: next, is_over: next.is_none() };
        found
    }
}

/// What a value of a column is sealed for.
pub(super) fn context(column: SealedColumn, of: Uuid) -> String {
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
        SealedColumn::StackState => format!("stack_state:{of}"),
        SealedColumn::StackEnvironment => format!("stack:{of}:environment"),
        SealedColumn::StackFiles => format!("stack:{of}:files"),
        SealedColumn::StackRunEnvironment => format!("stack_run:{of}:environment"),
        SealedColumn::StackRunFiles => format!("stack_run:{of}:files"),
        SealedColumn::StackRunTaken => format!("stack_run:{of}:taken"),
        SealedColumn::StackRunFinding => format!("stack_run_finding:{of}"),
        SealedColumn::StackPlan => format!("stack_plan:{of}"),
        SealedColumn::StackOutput => format!("stack_output:{of}"),
        SealedColumn::StackDrift => format!("stack_drift:{of}"),
        SealedColumn::ScmSecrets => format!("scm_connection:{of}:secrets"),
        SealedColumn::ScmWebhookHmac => format!("scm_webhook:{of}:hmac"),
        SealedColumn::PullRequestAsked => format!("pull_request:{of}:asked"),
        SealedColumn::PrInstanceSeed => format!("pr_instance:{of}:seed"),
        SealedColumn::PrRequestKey => format!("pr_request_key:{of}:asked"),
        SealedColumn::PrSecret => format!("pr_secret:{of}:values"),
        SealedColumn::PrGovernanceSecret => format!("pr_governance:{of}:secret"),
        SealedColumn::PullRequestGovernance => format!("pull_request:{of}:governance"),
        SealedColumn::FleetPlanAsked => format!("fleet_plan:{of}:asked"),
    }
}
