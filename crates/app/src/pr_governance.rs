//! Governances of pull requests: who confirms a commit before it is merged. Their secrets go in and are never answered.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::data_key::KeyOwner;
use plural_core::ids::{PrGovernanceId, ProjectId, PullRequestId, ScmConnectionId};
use plural_core::pr_governance::{
    NewPrGovernance, PrGovernance, PrReview, check_governance_secret, governance_url,
};
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::specs::Change;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretString};

use crate::access::{Audited, Authorized, Home, Read, Write, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::records::{Search, record, there};
use crate::scm_connection::ScmConnectionSelector;
use crate::seal::Sealed;

/// The field of its address.
const URL: &str = "attributes.configuration.webhook.url";

/// Which governance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrGovernanceSelector {
    /// By id.
    Id(PrGovernanceId),
    /// By exact name.
    Name(String),
}

/// A governance with what its calls are signed with.
#[derive(Debug, Clone)]
pub struct PrGovernanceRow {
    /// The governance.
    pub governance: PrGovernance,
    /// Its secret, sealed for `pr_governance:ID:secret`.
    pub secret: Option<Sealed>,
}

/// A step of a pull request with its governance.
#[derive(Debug, Clone)]
pub struct PrReviewStep {
    /// What it was decided from: where it stands otherwise by then, nothing is written.
    pub before: PrReview,
    /// How it stands from now on.
    pub after: PrReview,
    /// What the governance wants to have back with the next call, sealed for `pull_request:ID:governance`.
    pub state: Change<Sealed>,
}

noun!(PrGovernance, "pr governance", g => Some(g.id.uuid()), g.name.to_string());
record!(PrGovernance, PrGovernanceId, PrGovernanceSelector, Search);

/// Governances of pull requests.
#[async_trait]
pub trait PrGovernanceStore: Send + Sync + 'static {
    /// A new governance; [`Error::Conflict`] for a name that another one has.
    async fn pr_governance_create(
        &self,
        by: Audited<'_, Home, Write>,
        governance: &PrGovernance,
        secret: Option<&Sealed>,
    ) -> Result<()>;
    /// A changed governance; [`Error::Conflict`] where somebody else changed it since it was read.
    async fn pr_governance_update(
        &self,
        by: Audited<'_, PrGovernance, Write>,
        after: &PrGovernance,
        secret: &Change<Sealed>,
    ) -> Result<()>;
    /// Removes a governance with its secret; [`Error::Conflict`] while an automation names it, or an open pull request has it.
    async fn pr_governance_delete(&self, by: Audited<'_, PrGovernance, Write>) -> Result<()>;
    /// A governance with its secret. Nobody's question: nobody is told.
    async fn pr_governance_row(&self, id: PrGovernanceId) -> Result<Option<PrGovernanceRow>>;
    /// What the governance of a pull request wants to have back, sealed for `pull_request:ID:governance`.
    async fn pull_request_review_state(&self, id: PullRequestId) -> Result<Option<Sealed>>;
    /// Records a step with the jobs that follow; `false`, and nothing is written, where the pull request stands otherwise by now.
    async fn pull_request_review_step(
        &self,
        id: PullRequestId,
        step: &PrReviewStep,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<bool>;
}

impl App {
    /// A governance of this name: a new one, or the one that there is, changed. Needs write access to its project, or, without one, an
    /// administrator; and read access to its connection, where that or the address is another one than before. An empty secret ends the one
    /// that there is. Where everything is so already, nothing is written.
    pub async fn pr_governance_upsert(
        &self,
        ctx: &OpCtx,
        new: NewPrGovernance,
        secret: Option<SecretString>,
    ) -> Result<PrGovernance> {
        if let Some(secret) = &secret
            && !secret.expose_secret().is_empty()
        {
            check_governance_secret(secret.expose_secret())?;
        }
        let url = new.url.as_deref().map(|url| self.governance_address(url)).transpose()?;
        let by = PrGovernanceSelector::Name(new.name.to_string());
        let Some(known) = there(self.get::<PrGovernance>(&self.system_ctx(), &by).await)? else {
            return self.pr_governance_create(ctx, new, url, secret).await;
        };
        let by = PrGovernanceSelector::Id(known.id);
        let known = match self.authorized::<PrGovernance, Write>(ctx, &by).await {
            // As for whoever makes two of one name at a time.
            Err(Error::NotFound { .. }) => {
                return Err(Error::conflict("a governance with this name already exists; choose another"));
            }
            known => known?,
        };
        if new.project_id.is_some() && new.project_id != known.project_id {
            return Err(Error::invalid(
                "attributes.projectId",
                "cannot change: make another governance there",
            ));
        }
        // Whoever answers at the address decides what the connection's account approves.
        let is_moved = url.as_ref().is_some_and(|url| *url != known.url);
        if is_moved || new.connection_id != known.connection_id {
            self.governance_connection(ctx, new.connection_id, known.project_id).await?;
        }
        let given = secret.map(|secret| secret.expose_secret().to_owned());
        let change = match given {
            None => Change::Keep,
            Some(text) if text.is_empty() && !known.is_signed => Change::Keep,
            Some(text) if text.is_empty() => Change::Clear,
            Some(text) => Change::Set(self.governance_secret_sealed(&known, &text).await?),
        };
        let after = PrGovernance {
            connection_id: new.connection_id,
            url: url.unwrap_or_else(|| known.url.clone()),
            is_signed: match &change {
                Change::Keep => known.is_signed,
                Change::Clear => false,
                Change::Set(_) => true,
            },
            updated_at: ctx.now(),
            ..(*known).clone()
        };
        let as_before = PrGovernance { updated_at: known.updated_at, ..after.clone() };
        if change.keeps() && as_before == *known {
            return Ok(known.into_inner());
        }
        let by = known.audited(ctx, "pr_governance.update");
        self.store.pr_governance_update(by, &after, &change).await?;
        Ok(after)
    }

    async fn pr_governance_create(
        &self,
        ctx: &OpCtx,
        new: NewPrGovernance,
        url: Option<String>,
        secret: Option<SecretString>,
    ) -> Result<PrGovernance> {
        let NewPrGovernance { name, project_id, connection_id, url: _ } = new;
        let url =
            url.ok_or_else(|| Error::invalid(URL, "must be given: there pull requests are confirmed"))?;
        let by = ScmConnectionSelector::Id(connection_id);
        let connection = self.authorized::<ScmConnection, Read>(ctx, &by).await;
        let connection = connection.map_err(|error| error.named_in("attributes.connectionId"))?;
        let project_id = project_id.or(connection.project_id);
        let guarded = self.store.global_service_home(ctx.actor(), project_id).await;
        let home: Authorized<Home, Write> =
            guarded.map_err(|error| error.named_in("attributes.projectId"))?.authorize(ctx)?;
        check_connection(&connection, project_id)?;
        let (id, at) = (PrGovernanceId::new(), ctx.now());
        let secret = secret.map(|secret| secret.expose_secret().to_owned()).filter(|text| !text.is_empty());
        let governance = PrGovernance {
            id,
            project_id,
            connection_id,
            name,
            url,
            is_signed: secret.is_some(),
            created_at: at,
            updated_at: at,
        };
        let sealed = match &secret {
            Some(text) => Some(self.governance_secret_sealed(&governance, text).await?),
            None => None,
        };
        let by = home.audited_new(ctx, "pr_governance.create", "pr governance", id, &governance.name);
        self.store.pr_governance_create(by, &governance, sealed.as_ref()).await?;
        Ok(governance)
    }

    /// Removes a governance with its secret.
    pub async fn pr_governance_delete(&self, ctx: &OpCtx, id: PrGovernanceId) -> Result<PrGovernance> {
        let by = PrGovernanceSelector::Id(id);
        let governance = self.authorized::<PrGovernance, Write>(ctx, &by).await?;
        self.store.pr_governance_delete(governance.audited(ctx, "pr_governance.delete")).await?;
        Ok(governance.into_inner())
    }

    /// The connection that approves, for whoever may read it.
    async fn governance_connection(
        &self,
        ctx: &OpCtx,
        id: ScmConnectionId,
        project: Option<ProjectId>,
    ) -> Result<()> {
        let connection = self.authorized::<ScmConnection, Read>(ctx, &ScmConnectionSelector::Id(id)).await;
        let connection = connection.map_err(|error| error.named_in("attributes.connectionId"))?;
        check_connection(&connection, project)
    }

    /// The address of a governance that this console may call.
    fn governance_address(&self, url: &str) -> Result<String> {
        let url = governance_url(url)?;
        if url.starts_with("http:") && !self.settings.credentials_over_http {
            return Err(Error::invalid(
                URL,
                "must be https, or the operator has to start the console with --allow-credentials-over-http: what it answers decides about merges",
            ));
        }
        self.governances.check(&url).map_err(|why| Error::invalid(URL, why))?;
        Ok(url)
    }

    async fn governance_secret_sealed(&self, governance: &PrGovernance, text: &str) -> Result<Sealed> {
        let owner = KeyOwner::of(governance.project_id);
        self.sealer.seal(owner, &secret_context(governance.id), text.as_bytes()).await
    }

    /// What calls to a governance are signed with.
    pub(crate) async fn governance_secret(&self, row: &PrGovernanceRow) -> Result<Option<SecretString>> {
        let Some(sealed) = &row.secret else { return Ok(None) };
        let bytes = self.sealer.open(&secret_context(row.governance.id), sealed).await?;
        let text = String::from_utf8(bytes).map_err(|_| {
            Error::internal("reading the secret of a governance", "it is not what was sealed")
        })?;
        Ok(Some(SecretString::from(text)))
    }
}

/// A connection approves where it belongs, or everywhere if it is of the whole installation.
fn check_connection(connection: &ScmConnection, project: Option<ProjectId>) -> Result<()> {
    if connection.project_id.is_some() && connection.project_id != project {
        return Err(Error::invalid(
            "attributes.connectionId",
            "belongs to another project: name one of the governance's project, or of the whole installation",
        ));
    }
    if connection.kind == ScmType::Plain {
        return Err(Error::invalid(
            "attributes.connectionId",
            "is to git alone, where nothing is approved: name one of a git host",
        ));
    }
    Ok(())
}

fn secret_context(id: PrGovernanceId) -> String {
    format!("pr_governance:{id}:secret")
}
