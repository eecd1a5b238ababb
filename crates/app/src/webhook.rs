//! Webhooks: a git host says that something was pushed. Verified, mapped to repositories, and answered
//! before anything is fetched.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use plural_core::access::Scope;
use plural_core::ids::RepositoryId;
use plural_core::repository::RepositoryUrl;
use plural_core::scm_connection::ScmType;
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use crate::access::{Read, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;

/// Whose webhook it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookProvider {
    /// Signature in `X-Hub-Signature-256`: `sha256=` and the hex HMAC-SHA-256 of the body.
    Github,
    /// The secret itself in `X-Gitlab-Token`.
    Gitlab,
    /// Signature in `X-Plural-Signature-256`, formed as GitHub's; the body is `{"url": "…"}` or `{"urls": […]}`.
    Generic,
    /// Signature in `X-Hub-Signature`, formed as GitHub's.
    Bitbucket,
    /// The same of Bitbucket Data Center.
    BitbucketDatacenter,
    /// The secret as the password of basic authentication, whatever the user.
    AzureDevops,
    /// Signature in `X-Gitea-Signature`: the hex HMAC-SHA-256 of the body.
    Gitea,
}

/// One webhook call.
#[derive(Debug, Clone, Copy)]
pub struct WebhookRequest<'a> {
    /// Whose.
    pub provider: WebhookProvider,
    /// The signature or token header's value, `""` when missing.
    pub signature: &'a str,
    /// The body as it came.
    pub body: &'a [u8],
    /// What the path says after the provider: the id of the repository that it is about, what the address of a connection's webhook ends
    /// with, or, from set-ups of before, an id that says nothing.
    pub about: Option<&'a str>,
}

impl WebhookProvider {
    /// The header that carries the signature or token.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Github => "x-hub-signature-256",
            Self::Gitlab => "x-gitlab-token",
            Self::Generic => "x-plural-signature-256",
            Self::Bitbucket | Self::BitbucketDatacenter => "x-hub-signature",
            Self::AzureDevops => "authorization",
            Self::Gitea => "x-gitea-signature",
        }
    }

    /// Of a git host of this type, if it sends any.
    pub(crate) const fn of(kind: ScmType) -> Option<Self> {
        match kind {
            ScmType::Github => Some(Self::Github),
            ScmType::Gitlab => Some(Self::Gitlab),
            ScmType::Bitbucket => Some(Self::Bitbucket),
            ScmType::BitbucketDatacenter => Some(Self::BitbucketDatacenter),
            ScmType::AzureDevops => Some(Self::AzureDevops),
            ScmType::Gitea => Some(Self::Gitea),
            ScmType::Plain => None,
        }
    }

    /// Others send to the addresses of connections' webhooks only.
    const fn is_of_installation(self) -> bool {
        matches!(self, Self::Github | Self::Gitlab | Self::Generic)
    }

    /// The provider of this name in a path: `github`, `gitlab`, `generic`, or the word of a type of git hosts.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "github" => Some(Self::Github),
            "gitlab" => Some(Self::Gitlab),
            "generic" => Some(Self::Generic),
            "bitbucket" => Some(Self::Bitbucket),
            "bitbucket_datacenter" => Some(Self::BitbucketDatacenter),
            "azure_devops" => Some(Self::AzureDevops),
            "gitea" => Some(Self::Gitea),
            _ => None,
        }
    }
}

impl App {
    /// Verifies a webhook and asks for a fetch of the repositories it is about; how many those are. One that names a
    /// repository with a secret of its own is signed with that secret and is about that repository, whatever its body says.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] when the signature is wrong, [`Error::Invalid`] when the body is not
    /// what such a webhook sends.
    pub async fn webhook_receive(&self, request: &WebhookRequest<'_>) -> Result<usize> {
        if let Some(id) = request.about.and_then(|about| about.parse::<RepositoryId>().ok())
            && let Some(secret) = self.repository_webhook_wanted(id).await?
        {
            if !is_genuine(request, &secret) {
                return Err(Error::Unauthenticated);
            }
            self.store.repository_notify(&[id]).await?;
            return Ok(1);
        }
        if let Some(count) = self.scm_webhook_receive(request).await? {
            return Ok(count);
        }
        if !request.provider.is_of_installation() || !is_genuine(request, &self.settings.webhook_secret) {
            return Err(Error::Unauthenticated);
        }
        let body: Value = serde_json::from_slice(request.body).map_err(|_| {
            Error::invalid("body", "must be JSON: set the webhook's content type to application/json")
        })?;
        let mentioned = mentioned(request.provider, &body);
        if mentioned.is_empty() {
            return Ok(0);
        }
        let ids: Vec<RepositoryId> = self
            .store
            .repository_ids()
            .await?
            .into_iter()
            .filter(|(_, url)| mentioned.contains(&url.identity()))
            .map(|(id, _)| id)
            .collect();
        if !ids.is_empty() {
            self.store.repository_notify(&ids).await?;
        }
        Ok(ids.len())
    }

    /// What webhooks of this installation are signed with; administrators only.
    pub async fn webhook_secret(&self, ctx: &OpCtx) -> Result<SecretString> {
        let installation = authorize_installation::<Read>(ctx, Scope::AdminOnly)?;
        self.audit_read(ctx, &installation, "webhook.secret.read").await?;
        Ok(self.settings.webhook_secret.clone())
    }
}

/// Whether a call is signed with this secret, as its provider signs.
pub(crate) fn is_genuine(request: &WebhookRequest<'_>, secret: &SecretString) -> bool {
    let secret = secret.expose_secret().as_bytes();
    // Whoever sends no secret would know it.
    if secret.is_empty() {
        return false;
    }
    match request.provider {
        WebhookProvider::Gitlab => is_same(request.signature.as_bytes(), secret),
        WebhookProvider::AzureDevops => {
            let given = request.signature.strip_prefix("Basic ").and_then(|text| STANDARD.decode(text).ok());
            let password = given.as_deref().and_then(|login| {
                let at = login.iter().position(|byte| *byte == b':')?;
                login.get(at + 1..)
            });
            password.is_some_and(|password| is_same(password, secret))
        }
        WebhookProvider::Gitea => is_signed(request.body, request.signature, secret),
        WebhookProvider::Github
        | WebhookProvider::Generic
        | WebhookProvider::Bitbucket
        | WebhookProvider::BitbucketDatacenter => request
            .signature
            .strip_prefix("sha256=")
            .is_some_and(|signature| is_signed(request.body, signature, secret)),
    }
}

/// Compares secrets; how long it takes tells nothing of them, their lengths neither.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let digest = |text: &[u8]| -> [u8; 32] { Sha256::digest(text).into() };
    digest(one).as_slice().ct_eq(digest(other).as_slice()).into()
}

/// Whether this is the hex HMAC-SHA-256 of the body.
fn is_signed(body: &[u8], signature: &str, secret: &[u8]) -> bool {
    let Ok(given) = hex::decode(signature) else { return false };
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
    mac.update(body);
    mac.verify_slice(&given).is_ok()
}

/// Identities of the repositories that a body mentions.
fn mentioned(provider: WebhookProvider, body: &Value) -> Vec<String> {
    let pointers: &[&str] = match provider {
        WebhookProvider::Github => {
            &["/repository/clone_url", "/repository/ssh_url", "/repository/html_url", "/repository/git_url"]
        }
        WebhookProvider::Gitlab => &[
            "/project/git_http_url",
            "/project/git_ssh_url",
            "/project/web_url",
            "/repository/git_http_url",
            "/repository/git_ssh_url",
        ],
        WebhookProvider::Generic => &["/url"],
        // They tell of repositories by the addresses of connections' webhooks.
        WebhookProvider::Bitbucket
        | WebhookProvider::BitbucketDatacenter
        | WebhookProvider::AzureDevops
        | WebhookProvider::Gitea => &[],
    };
    let named = pointers.iter().filter_map(|pointer| body.pointer(pointer));
    let listed = body.get("urls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let listed = listed.iter().take(100).filter(|_| provider == WebhookProvider::Generic);
    let mut identities: Vec<String> = named
        .chain(listed)
        .filter_map(Value::as_str)
        .filter_map(|text| text.replacen("git://", "https://", 1).parse::<RepositoryUrl>().ok())
        .map(|url| url.identity())
        .collect();
    identities.sort();
    identities.dedup();
    identities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures() {
        let secret = SecretString::from("It's a Secret to Everybody");
        let body = b"Hello, World!";
        // The example of GitHub's documentation.
        let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let ask = |provider, signature: &str| {
            is_genuine(&WebhookRequest { provider, signature, body, about: None }, &secret)
        };
        assert!(ask(WebhookProvider::Github, good));
        assert!(ask(WebhookProvider::Generic, good));
        assert!(!ask(WebhookProvider::Github, &good.replace("757", "758")));
        assert!(!ask(WebhookProvider::Github, &good[7..]));
        assert!(!ask(WebhookProvider::Github, ""));
        assert!(ask(WebhookProvider::Bitbucket, good) && ask(WebhookProvider::BitbucketDatacenter, good));
        assert!(ask(WebhookProvider::Gitea, &good[7..]) && !ask(WebhookProvider::Gitea, good));
        let basic = |login: &str| format!("Basic {}", STANDARD.encode(login));
        assert!(ask(WebhookProvider::AzureDevops, &basic("any:It's a Secret to Everybody")));
        assert!(!ask(WebhookProvider::AzureDevops, &basic("It's a Secret to Everybody")));
        assert!(!ask(WebhookProvider::AzureDevops, &basic("any:")));
        assert!(!ask(WebhookProvider::AzureDevops, "Basic §"));
        assert!(ask(WebhookProvider::Gitlab, "It's a Secret to Everybody"));
        assert!(!ask(WebhookProvider::Gitlab, ""));
        // A secret that is none opens nothing, signed with it or not.
        let mac = Hmac::<Sha256>::new_from_slice(b"").unwrap().chain_update(body).finalize().into_bytes();
        let signed = format!("sha256={}", hex::encode(mac));
        for (provider, signature) in [
            (WebhookProvider::Gitlab, ""),
            (WebhookProvider::Github, signed.as_str()),
            (WebhookProvider::Generic, signed.as_str()),
            (WebhookProvider::Bitbucket, signed.as_str()),
            (WebhookProvider::Gitea, &signed[7..]),
            (WebhookProvider::AzureDevops, "Basic Og=="),
        ] {
            let request = WebhookRequest { provider, signature, body, about: None };
            assert!(!is_genuine(&request, &SecretString::from("")), "{provider:?}");
        }
    }

    #[test]
    fn bodies() {
        let github = serde_json::json!({"repository": {
            "clone_url": "https://github.com/a/b.git", "ssh_url": "git@github.com:a/b.git"}});
        assert_eq!(mentioned(WebhookProvider::Github, &github), ["github.com/a/b"]);
        let generic = serde_json::json!({"urls": ["https://x.example/c", "/srv/git/d"]});
        assert_eq!(mentioned(WebhookProvider::Generic, &generic), ["/srv/git/d", "x.example/c"]);
        assert!(mentioned(WebhookProvider::Gitlab, &github).is_empty());
    }
}
