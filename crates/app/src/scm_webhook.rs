//! Webhooks of git hosts. What one tells is a hint: it is kept as a job, and what follows from it is read from the host.

use async_trait::async_trait;
use plural_core::data_key::KeyOwner;
use plural_core::ids::{ProjectId, RepositoryId, ScmConnectionId, ScmWebhookId};
use plural_core::repository::RepositoryUrl;
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::scm_webhook::{NewScmWebhook, ScmWebhook, check_secret};
use plural_core::{Error, PageArgs, Result};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::access::{Audited, Authorized, Write, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::{HearPullRequest, HearScmWebhook, HeardPullRequest, HeardRepository};
use crate::records::{Search, record};
use crate::scm_connection::ScmConnectionSelector;
use crate::seal::Sealed;
use crate::secret::random;
use crate::webhook::{WebhookProvider, WebhookRequest, is_genuine};

/// Which webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScmWebhookSelector {
    /// By id.
    Id(ScmWebhookId),
    /// By what its address ends with.
    ExternalId(String),
}

/// A webhook with what decides whether it is believed.
#[derive(Debug, Clone)]
pub struct ScmWebhookRow {
    /// The webhook.
    pub webhook: ScmWebhook,
    /// Its connection.
    pub connection: ScmConnection,
    /// Its secret, sealed for `scm_webhook:ID:hmac`.
    pub hmac: Sealed,
}

noun!(ScmWebhook, "scm webhook", w => Some(w.id.uuid()), w.name());
record!(ScmWebhook, ScmWebhookId, ScmWebhookSelector, Search);

/// Webhooks of git hosts.
#[async_trait]
pub trait ScmWebhookStore: Send + Sync + 'static {
    /// A new webhook; [`Error::Conflict`] where the connection has one for the owner already.
    async fn scm_webhook_create(
        &self,
        by: Audited<'_, ScmConnection, Write>,
        webhook: &ScmWebhook,
        hmac: &Sealed,
    ) -> Result<()>;
    /// Notes what is about to be done at the host with a webhook of the connection.
    async fn scm_webhook_acted(&self, by: Audited<'_, ScmConnection, Write>) -> Result<()>;
    /// The webhook of a connection for this owner, in any case: the first that was made.
    async fn scm_webhook_of(&self, connection: ScmConnectionId, owner: &str)
    -> Result<Option<ScmWebhookRow>>;
    /// Removes a webhook with its secret.
    async fn scm_webhook_delete(&self, by: Audited<'_, ScmWebhook, Write>) -> Result<()>;
    /// The webhook with its secret and its connection. Nobody's question: nobody is told.
    async fn scm_webhook_row(&self, by: &ScmWebhookSelector) -> Result<Option<ScmWebhookRow>>;
    /// The git repositories of a project, or of all, with their addresses.
    async fn scm_webhook_repositories(
        &self,
        project: Option<ProjectId>,
    ) -> Result<Vec<(RepositoryId, RepositoryUrl)>>;
    /// Whether the connection has pull requests in the repository with this slug, in any case.
    async fn scm_webhook_has_pull_requests(&self, connection: ScmConnectionId, slug: &str) -> Result<bool>;
}

impl App {
    /// A new webhook, which somebody has made at the host or is about to; needs write access to its connection.
    pub async fn scm_webhook_create(
        &self,
        ctx: &OpCtx,
        new: NewScmWebhook,
        hmac: SecretString,
    ) -> Result<ScmWebhook> {
        let NewScmWebhook { connection_id, kind, owner } = new;
        check_secret(hmac.expose_secret())?;
        let connection = self.webhook_connection(ctx, connection_id, kind, &owner).await?;
        if connection.kind != kind {
            return Err(Error::invalid("attributes.type", "must be the type of the connection"));
        }
        if kind == ScmType::Plain {
            return Err(Error::invalid(
                "attributes.type",
                "must be a host that sends webhooks: PLAIN is git alone",
            ));
        }
        let owner_is_slug = !owner.is_empty()
            && owner.len() <= 255
            && owner.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
            && !owner.contains(|c: char| c.is_control() || c.is_whitespace() || "\\?#%:@*".contains(c));
        if !owner_is_slug {
            return Err(Error::invalid(
                "attributes.owner",
                "must be an organization, a group or a user, such as acme",
            ));
        }
        self.webhook_made(ctx, &connection, owner, &hmac).await
    }

    /// A new webhook of a connection, with this secret.
    pub(crate) async fn webhook_made(
        &self,
        ctx: &OpCtx,
        connection: &Authorized<ScmConnection, Write>,
        owner: String,
        hmac: &SecretString,
    ) -> Result<ScmWebhook> {
        let (kind, id, at) = (connection.kind, ScmWebhookId::new(), ctx.now());
        let webhook = ScmWebhook {
            id,
            connection_id: connection.id,
            project_id: connection.project_id,
            external_id: hex::encode(random::<16>()?),
            kind,
            owner,
            created_at: at,
            updated_at: at,
        };
        let owner = KeyOwner::of(connection.project_id);
        let sealed = self.sealer.seal(owner, &seal_context(id), hmac.expose_secret().as_bytes()).await?;
        let by = connection.audited_new(ctx, "scm_webhook.create", "scm webhook", id, &webhook.name());
        self.store.scm_webhook_create(by, &webhook, &sealed).await?;
        Ok(webhook)
    }

    /// The secret of a webhook.
    pub(crate) async fn scm_webhook_secret(&self, id: ScmWebhookId, hmac: &Sealed) -> Result<SecretString> {
        let secret = String::from_utf8(self.sealer.open(&seal_context(id), hmac).await?);
        // The error would quote it.
        let secret =
            secret.map_err(|_| Error::internal("reading a webhook's secret", "it is not what was sealed"))?;
        Ok(SecretString::from(secret))
    }

    /// Removes a webhook: what the host sends to its address is refused from then on.
    pub async fn scm_webhook_delete(&self, ctx: &OpCtx, id: ScmWebhookId) -> Result<ScmWebhook> {
        let webhook = self.authorized::<ScmWebhook, Write>(ctx, &ScmWebhookSelector::Id(id)).await?;
        self.store.scm_webhook_delete(webhook.audited(ctx, "scm_webhook.delete")).await?;
        Ok(webhook.into_inner())
    }

    /// The connection of a new webhook. Clients of the original console name none: then it is the only one that fits.
    async fn webhook_connection(
        &self,
        ctx: &OpCtx,
        id: Option<ScmConnectionId>,
        kind: ScmType,
        owner: &str,
    ) -> Result<Authorized<ScmConnection, Write>> {
        let id = match id {
            Some(id) => id,
            None => self.only_connection(ctx, kind, owner).await?,
        };
        let found = self.authorized::<ScmConnection, Write>(ctx, &ScmConnectionSelector::Id(id)).await;
        found.map_err(|error| error.named_in("attributes.connectionId"))
    }

    async fn only_connection(&self, ctx: &OpCtx, kind: ScmType, owner: &str) -> Result<ScmConnectionId> {
        let (mut fitting, mut after) = (Vec::new(), None);
        loop {
            let args = PageArgs { after, first: Some(100), ..PageArgs::default() };
            let page = self.list::<ScmConnection>(ctx, &Search::default(), &args).await?;
            after = page.edges.last().map(|edge| edge.cursor.clone()).filter(|_| page.has_next_page);
            let of_owner = |one: &ScmConnection| {
                one.kind == kind
                    && one.spec.owner.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(owner))
            };
            fitting.extend(page.into_nodes().into_iter().filter(of_owner).map(|one| one.id));
            if after.is_none() {
                break;
            }
        }
        match fitting.as_slice() {
            [id] => Ok(*id),
            _ => Err(Error::invalid(
                "attributes.connectionId",
                "must be given, unless exactly one connection of this type has this owner",
            )),
        }
    }

    /// Verifies what came to the address of a webhook, and keeps it as a hint; how many repositories it is about. `None` where there is no
    /// such webhook.
    pub(crate) async fn scm_webhook_receive(&self, request: &WebhookRequest<'_>) -> Result<Option<usize>> {
        let Some(about) = request.about else { return Ok(None) };
        let by = ScmWebhookSelector::ExternalId(about.to_owned());
        let Some(row) = self.store.scm_webhook_row(&by).await? else { return Ok(None) };
        let ScmWebhookRow { webhook, connection, hmac } = row;
        let secret = self.scm_webhook_secret(webhook.id, &hmac).await?;
        let is_of_type = WebhookProvider::of(webhook.kind) == Some(request.provider);
        if !is_of_type || !is_genuine(request, &secret) {
            return Err(Error::Unauthenticated);
        }
        let body: Value = serde_json::from_slice(request.body).map_err(|_| {
            Error::invalid("body", "must be JSON: set the webhook's content type to application/json")
        })?;
        let Some(slug) = slug(webhook.kind, &body).filter(|slug| webhook.is_believed(&connection, slug))
        else {
            return Ok(Some(0));
        };
        // Whoever has the secret could make up names without end, each of which would be a job.
        if !self.scm_webhook_concerns(&connection, &slug).await? {
            return Ok(Some(0));
        }
        // One job for a repository, however often the host tells: what it finds then is what counts.
        let slug = slug.to_ascii_lowercase();
        let pull = pull_request(webhook.kind, &body);
        let heard = HeardRepository { webhook_id: webhook.id, slug: slug.clone() };
        let mut jobs = vec![NewJob::of::<HearScmWebhook>(&heard)?];
        if let Some((number, head)) = pull {
            let heard = HeardPullRequest { webhook_id: webhook.id, slug, number, head };
            jobs.push(NewJob::of::<HearPullRequest>(&heard)?);
        }
        self.store.jobs_enqueue(&jobs, self.now()).await?;
        Ok(Some(1))
    }

    /// Whether something here is about a repository of this connection: a git repository, or a pull request.
    async fn scm_webhook_concerns(&self, connection: &ScmConnection, slug: &str) -> Result<bool> {
        if !self.scm_repositories(connection, slug).await?.is_empty() {
            return Ok(true);
        }
        self.store.scm_webhook_has_pull_requests(connection.id, slug).await
    }

    /// Has the git repositories fetched that a webhook told of, as far as it is believed by now.
    pub(crate) async fn scm_webhook_heard(&self, heard: &HeardRepository) -> Result<()> {
        let HeardRepository { webhook_id, slug } = heard;
        let by = ScmWebhookSelector::Id(*webhook_id);
        let Some(ScmWebhookRow { webhook, connection, hmac: _ }) = self.store.scm_webhook_row(&by).await?
        else {
            return Ok(());
        };
        if !webhook.is_believed(&connection, slug) {
            return Ok(());
        }
        let ids = self.scm_repositories(&connection, slug).await?;
        if !ids.is_empty() {
            self.store.repository_notify(&ids).await?;
        }
        Ok(())
    }
}

/// The repository that a body is about, as the host writes it.
fn slug(kind: ScmType, body: &Value) -> Option<String> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    match kind {
        ScmType::Github | ScmType::Bitbucket | ScmType::Gitea => {
            text("/repository/full_name").map(str::to_owned)
        }
        ScmType::Gitlab => text("/project/path_with_namespace").map(str::to_owned),
        ScmType::BitbucketDatacenter => {
            let at = ["/repository", "/pullRequest/toRef/repository"];
            at.into_iter().find_map(|at| {
                let key = text(&format!("{at}/project/key"))?;
                Some(format!("{key}/{}", text(&format!("{at}/slug"))?))
            })
        }
        ScmType::AzureDevops => {
            // A comment tells of its pull request, and that of its repository.
            let at = ["/resource/repository", "/resource/pullRequest/repository"];
            at.into_iter().find_map(|at| {
                let project = text(&format!("{at}/project/name"))?;
                Some(format!("{project}/{}", text(&format!("{at}/name"))?))
            })
        }
        ScmType::Plain => None,
    }
}

/// The pull request that a body is about: its number, or else the commit that a check is of.
fn pull_request(kind: ScmType, body: &Value) -> Option<(Option<u64>, Option<String>)> {
    let (numbers, heads): (&[&str], &[&str]) = match kind {
        ScmType::Github | ScmType::Gitea => {
            (&["/pull_request/number"], &["/check_run/head_sha", "/check_suite/head_sha", "/sha"])
        }
        ScmType::Gitlab if body["object_kind"] == "merge_request" => (&["/object_attributes/iid"], &[]),
        ScmType::Gitlab => (&["/merge_request/iid"], &["/object_attributes/sha"]),
        ScmType::Bitbucket => (&["/pullrequest/id"], &["/commit_status/commit/hash"]),
        ScmType::BitbucketDatacenter => (&["/pullRequest/id"], &[]),
        ScmType::AzureDevops => (&["/resource/pullRequestId", "/resource/pullRequest/pullRequestId"], &[]),
        ScmType::Plain => (&[], &[]),
    };
    let number = numbers.iter().find_map(|at| body.pointer(at).and_then(Value::as_u64));
    if number.is_some() {
        return Some((number, None));
    }
    let is_commit =
        |text: &&str| matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let head = heads.iter().find_map(|at| body.pointer(at).and_then(Value::as_str).filter(is_commit))?;
    Some((None, Some(head.to_ascii_lowercase())))
}

fn seal_context(id: ScmWebhookId) -> String {
    format!("scm_webhook:{id}:hmac")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_name_their_pull_request_or_a_commit() {
        let numbered = |number| Some((Some(number), None));
        for (kind, body, expected) in [
            (ScmType::Github, json!({"pull_request": {"number": 7}, "sha": "a".repeat(40)}), numbered(7)),
            (ScmType::Gitea, json!({"issue": {"number": 8}}), None),
            (ScmType::Github, json!({"sha": "A".repeat(40)}), Some((None, Some("a".repeat(40))))),
            (
                ScmType::Github,
                json!({"check_run": {"head_sha": "b".repeat(40)}}),
                Some((None, Some("b".repeat(40)))),
            ),
            (ScmType::Github, json!({"sha": "../x", "pull_request": {"number": -1}}), None),
            (
                ScmType::Gitlab,
                json!({"object_kind": "merge_request", "object_attributes": {"iid": 9}}),
                numbered(9),
            ),
            (ScmType::Gitlab, json!({"object_kind": "issue", "object_attributes": {"iid": 9}}), None),
            (ScmType::Gitlab, json!({"object_kind": "note", "merge_request": {"iid": 3}}), numbered(3)),
            (ScmType::Bitbucket, json!({"pullrequest": {"id": 4}}), numbered(4)),
            (ScmType::BitbucketDatacenter, json!({"pullRequest": {"id": 5}}), numbered(5)),
            (ScmType::AzureDevops, json!({"resource": {"pullRequestId": 6}}), numbered(6)),
            (ScmType::Plain, json!({"pull_request": {"number": 7}}), None),
        ] {
            assert_eq!(pull_request(kind, &body), expected, "{kind:?} {body}");
        }
    }

    #[test]
    fn bodies_name_their_repository() {
        let of = |kind, body: Value| slug(kind, &body);
        let named = json!({"repository": {"full_name": "acme/shop"}});
        for kind in [ScmType::Github, ScmType::Bitbucket, ScmType::Gitea] {
            assert_eq!(of(kind, named.clone()).as_deref(), Some("acme/shop"), "{kind:?}");
        }
        let gitlab = json!({"project": {"path_with_namespace": "acme/team/shop"}});
        assert_eq!(of(ScmType::Gitlab, gitlab).as_deref(), Some("acme/team/shop"));
        let repository = json!({"slug": "shop", "project": {"key": "ACME"}});
        let pushed = json!({"repository": repository});
        assert_eq!(of(ScmType::BitbucketDatacenter, pushed).as_deref(), Some("ACME/shop"));
        let opened = json!({"pullRequest": {"toRef": {"repository": repository}}});
        assert_eq!(of(ScmType::BitbucketDatacenter, opened).as_deref(), Some("ACME/shop"));
        let azure = json!({"resource": {"repository": {"name": "web", "project": {"name": "shop"}}}});
        assert_eq!(of(ScmType::AzureDevops, azure).as_deref(), Some("shop/web"));
        let repository = json!({"name": "web", "project": {"name": "shop"}});
        let said = json!({"resource": {"pullRequest": {"repository": repository}}});
        assert_eq!(of(ScmType::AzureDevops, said).as_deref(), Some("shop/web"));
        for kind in ScmType::ALL {
            assert_eq!(of(kind, json!({"repository": {"full_name": 1}, "project": []})), None, "{kind:?}");
        }
    }
}
