//! Identity providers, as the use cases need them: OpenID Connect's code flow with PKCE, and refreshing.

use async_trait::async_trait;
use plural_core::identity_provider::ProviderClaims;
use secrecy::SecretString;

/// How to talk to a provider.
#[derive(Debug, Clone)]
pub struct ProviderAccess {
    /// Who it says it is; its description is found below.
    pub issuer: String,
    /// What it knows us as.
    pub client_id: String,
    /// What proves that it is us; a public client has none.
    pub secret: Option<SecretString>,
    /// What it is asked for besides `openid`.
    pub scopes: Vec<String>,
    /// The claim that lists groups.
    pub groups_claim: Option<String>,
}

/// What ties the answer of a provider to the browser that was sent to it.
#[derive(Debug)]
pub struct AuthorizationRequest {
    /// Where it sends the browser back to.
    pub redirect: String,
    /// Comes back with the browser.
    pub state: String,
    /// Comes back in the ID token.
    pub nonce: String,
    /// S256 of the verifier.
    pub challenge: String,
}

/// A code that a browser came back with.
#[derive(Debug)]
pub struct CodeExchange {
    /// As it was asked for.
    pub redirect: String,
    /// The code.
    pub code: SecretString,
    /// What the challenge was made from.
    pub verifier: SecretString,
    /// That the ID token must hold.
    pub nonce: String,
}

/// What a provider said, verified.
#[derive(Debug)]
pub struct ProviderAnswer {
    /// Who it is.
    pub claims: ProviderClaims,
    /// With which it can be asked again.
    pub refresh: Option<SecretString>,
}

/// Why a provider gave no answer that counts. The texts are for the log and for administrators; none holds a token.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// It said no, or what it said is not to be believed.
    #[error("{0}")]
    Refused(String),
    /// The refresh token counts no more: the account is gone or disabled, or its session ended.
    #[error("the provider refused to renew the login: {0}")]
    Ended(String),
    /// It did not answer, or not as a provider does.
    #[error("{0}")]
    Unavailable(String),
}

/// Talks to providers.
#[async_trait]
pub trait IdentityPort: Send + Sync + 'static {
    /// Where the browser goes to sign in.
    async fn authorization_url(
        &self,
        access: &ProviderAccess,
        request: &AuthorizationRequest,
    ) -> Result<String, ProviderError>;
    /// What a code stands for.
    async fn exchange(
        &self,
        access: &ProviderAccess,
        exchange: &CodeExchange,
    ) -> Result<ProviderAnswer, ProviderError>;
    /// Whether somebody is still who they were, and their groups.
    async fn refresh(
        &self,
        access: &ProviderAccess,
        refresh: &SecretString,
        subject: &str,
    ) -> Result<ProviderAnswer, ProviderError>;
    /// Whether its answers name the issuer, so that one without is not believed.
    async fn names_issuer(&self, access: &ProviderAccess) -> Result<bool, ProviderError>;
    /// What a token of an issuer says, when the issuer signed it for exactly this audience and it counts now.
    async fn token_claims(
        &self,
        issuer: &str,
        audience: &str,
        token: &SecretString,
    ) -> Result<serde_json::Map<String, serde_json::Value>, ProviderError>;
    /// The same by a key that is known, a JSON Web Key: nobody is asked.
    fn token_claims_by(
        &self,
        issuer: &str,
        audience: &str,
        token: &SecretString,
        key: &str,
    ) -> Result<serde_json::Map<String, serde_json::Value>, ProviderError>;
    /// Where the browser goes to sign out there, too.
    async fn logout_url(&self, access: &ProviderAccess, back: &str) -> Result<Option<String>, ProviderError>;
}
