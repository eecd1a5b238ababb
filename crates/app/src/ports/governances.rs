//! What use cases need of governances of pull requests.

use async_trait::async_trait;
use secrecy::SecretString;

/// What a governance is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GovernanceVerb {
    /// To take note of a pull request, or of another head of it.
    Open,
    /// Whether it confirms the head.
    Confirm,
    /// To take note that it is over.
    Close,
}

impl GovernanceVerb {
    /// The word in its address.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Confirm => "confirm",
            Self::Close => "close",
        }
    }
}

/// One call. It has no `Debug`: the body may hold what the governance keeps secret.
pub struct GovernanceCall {
    /// The address of the governance.
    pub url: String,
    /// What the call is signed with; it is not signed without.
    pub secret: Option<SecretString>,
    /// What for.
    pub verb: GovernanceVerb,
    /// Names the call: one that is repeated has the same name.
    pub delivery: String,
    /// JSON.
    pub body: Vec<u8>,
}

/// What came back.
pub struct GovernanceAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body: bounded.
    pub body: Vec<u8>,
}

/// Governances of pull requests, wherever they are.
#[async_trait]
pub trait Governances: Send + Sync + 'static {
    /// Why this console does not connect to such an address, as far as that can be told without a name server.
    ///
    /// # Errors
    /// In words for whoever gave the address.
    fn check(&self, url: &str) -> Result<(), String>;
    /// Makes a call. Bounded in time, and in what is read of the answer; a redirect is not followed.
    ///
    /// # Errors
    /// Why there is no answer, in words for those who may read the pull request: without a secret, and without the address.
    async fn call(&self, call: GovernanceCall) -> Result<GovernanceAnswer, String>;
}
