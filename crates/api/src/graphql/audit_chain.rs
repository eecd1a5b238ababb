//! The chain of the audit log: checking it, and its checkpoints.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::audit_verify::{AuditVerification as Verified, AuditVerify};
use plural_core::audit_chain::{AuditCheckpoint as Signed, AuditLog as Log};
use plural_core::audit_verify::{AuditProblem as Problem, AuditProblemKind as Kind};

use super::{
    error::{IntoGraphql, List, Nullable, items, list, nullable},
    request::request,
};

/// Which audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::audit_chain::AuditLog")]
pub(crate) enum AuditLog {
    /// What was done in the console.
    Console,
    /// What was asked of clusters through it.
    Clusters,
}

/// What is wrong with the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::audit_verify::AuditProblemKind")]
pub(crate) enum AuditProblemKind {
    /// A line says something else than when it was written.
    Edited,
    /// A line is gone.
    Removed,
    /// A line was added to a batch, or stands in another one.
    Inserted,
    /// The lines of a batch, or batches, are in another order.
    Reordered,
    /// A batch itself was changed.
    Batch,
    /// Batches are missing.
    Gap,
    /// The chain ends before a checkpoint.
    Cut,
    /// The chain has another batch than a checkpoint says.
    Rewritten,
    /// The lines of a batch were removed, and no line of the log says so.
    Expired,
    /// A checkpoint that this log's key did not sign.
    Checkpoint,
}

/// Something that is wrong with the audit log.
#[derive(SimpleObject)]
pub(crate) struct AuditProblem {
    /// What.
    kind: AuditProblemKind,
    /// Of which log, where it is about one.
    log: Option<AuditLog>,
    /// The batch.
    sequence: Option<f64>,
    /// The line.
    line_id: Option<ID>,
    /// In words.
    message: String,
}

impl From<Problem> for AuditProblem {
    fn from(problem: Problem) -> Self {
        let Problem { kind, log, sequence, line, message } = problem;
        let kind: Kind = kind;
        let log: Option<Log> = log;
        Self {
            kind: kind.into(),
            log: log.map(Into::into),
            sequence: sequence.map(|sequence| sequence as f64),
            line_id: line.map(|line| line.to_string().into()),
            message,
        }
    }
}

/// What a check of a part of the audit log found.
#[derive(SimpleObject)]
pub(crate) struct AuditVerification {
    /// Batches that were checked.
    batches: f64,
    /// Lines that were checked.
    lines: f64,
    /// Lines that are too new to be in the chain: nothing can be said of them. Counted with the end of the chain.
    unchained: f64,
    /// Checkpoints of the blob store that were compared with.
    kept_outside: u32,
    /// The last batch that was checked: pass it as `after` to go on.
    sequence: f64,
    /// Its digest.
    digest: String,
    /// There are more batches behind it.
    more: bool,
    /// What is wrong, of this part.
    problems: List<AuditProblem>,
    /// Problems beyond those.
    more_problems: f64,
}

impl From<Verified> for AuditVerification {
    fn from(found: Verified) -> Self {
        let Verified {
            batches,
            lines,
            unchained,
            kept_outside,
            sequence,
            digest,
            more,
            problems,
            more_problems,
        } = found;
        Self {
            batches: batches as f64,
            lines: lines as f64,
            unchained: unchained as f64,
            kept_outside: u32::try_from(kept_outside).unwrap_or(u32::MAX),
            sequence: sequence as f64,
            digest: hex::encode(digest),
            more,
            problems: list(problems.into_iter().map(Into::into)),
            more_problems: more_problems as f64,
        }
    }
}

/// The signed statement how far the audit log's chain went.
#[derive(SimpleObject)]
pub(crate) struct AuditCheckpoint {
    /// The last batch.
    sequence: f64,
    /// Its digest.
    digest: String,
    /// When it was signed.
    signed_at: Option<DateTime<Utc>>,
    /// The public key in base64.
    key: String,
    /// The checkpoint as text, with its signature: keep it outside of the console, and pass it to `auditVerify`.
    text: String,
}

impl From<Signed> for AuditCheckpoint {
    fn from(signed: Signed) -> Self {
        Self {
            text: signed.text(),
            sequence: signed.sequence as f64,
            digest: signed.digest,
            signed_at: DateTime::parse_from_rfc3339(&signed.at).ok().map(|at| at.to_utc()),
            key: signed.key,
        }
    }
}

/// What is checked of the audit log.
#[derive(Debug, Default, InputObject)]
pub(crate) struct AuditVerifyAttributes {
    /// Behind this batch, which was checked before; from the beginning when absent.
    after: Option<f64>,
    /// Batches: 50 by default, 100 at most.
    batches: Option<u32>,
    /// Checkpoints that were kept outside, as text.
    checkpoints: List<String>,
    /// Compare with the checkpoints in the blob store, too; done by default.
    blob_store: Option<bool>,
}

/// Checking the audit log.
#[derive(Default)]
pub(crate) struct AuditChainQuery;

/// Checking the audit log.
#[Object]
impl AuditChainQuery {
    /// Checks a part of the audit log, for administrators: lines that were edited, removed, inserted or reordered, and, against
    /// checkpoints, a chain that was cut or written anew.
    async fn audit_verify(
        &self,
        ctx: &Context<'_>,
        attributes: Option<AuditVerifyAttributes>,
    ) -> Nullable<AuditVerification> {
        nullable(async {
            let AuditVerifyAttributes { after, batches, checkpoints, blob_store } =
                attributes.unwrap_or_default();
            let checkpoints: plural_core::Result<Vec<Signed>> =
                items(checkpoints).unwrap_or_default().iter().map(|text| Signed::parse(text)).collect();
            let verify = AuditVerify {
                after: after.unwrap_or_default().max(0.0) as u64,
                limit: u64::from(batches.unwrap_or(50)),
                checkpoints: checkpoints.into_graphql(ctx)?,
                blob_store: blob_store.unwrap_or(true),
            };
            let request = request(ctx);
            Ok(Some(request.app.audit_verify(&request.op, verify).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// The newest checkpoints of the audit log, newest first, for administrators.
    async fn audit_checkpoints(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many: 20 by default, 1000 at most.")] last: Option<i32>,
    ) -> Nullable<Vec<AuditCheckpoint>> {
        nullable(async {
            let request = request(ctx);
            let limit = u64::try_from(last.unwrap_or(20)).unwrap_or(1);
            let found = request.app.audit_checkpoint_list(&request.op, limit).await.into_graphql(ctx)?;
            Ok(Some(found.into_iter().map(Into::into).collect()))
        })
        .await
    }

    /// The public key that checkpoints of the audit log are signed with, in base64, for administrators.
    async fn audit_key(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let request = request(ctx);
            Ok(Some(request.app.audit_public_key(&request.op).into_graphql(ctx)?))
        })
        .await
    }
}
