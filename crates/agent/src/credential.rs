//! What the agent logs in with: how it joins, and how it replaces its deploy token.
//!
//! The agent draws its tokens itself. A token is in the agent's own Secret before the console hears of it, and the one
//! before it stays there until the console said that the new one is in use. Whenever the agent is killed, what the Secret
//! holds is enough to go on: each call to the console can be repeated with the same token.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams},
};
use plural_core::DEPLOY_TOKEN_PREFIX;
use plural_kit::Backoff;
use plural_tunnel::TunnelError;
use rand::{TryRng, rngs::SysRng};

use crate::{
    agent::Core,
    config::{AgentEvent, TokenStep},
};

/// The Secret, in the agent's own namespace. Nobody else writes to it.
const NAME: &str = "plural-agent-token";
/// Field manager of what it holds.
const MANAGER: &str = "plural-agent";
/// The token in use.
const TOKEN: &str = "deploy-token";
/// The one that takes its place, from before the console hears of it until it is in use.
const NEXT: &str = "next-deploy-token";
/// The one before. The console accepts it no more, unless its database is put back to a time when it did.
const PREVIOUS: &str = "previous-deploy-token";
/// How long the API server may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often a token that the console has just accepted is tried: another replica may hear of it a moment later.
const TRIES: u32 = 6;

/// What the Secret holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Kept {
    token: Option<Token>,
    next: Option<Token>,
    previous: Option<Token>,
}

/// A token's text, which is never shown.
#[derive(Clone, PartialEq, Eq)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Why the agent has nothing to log in with at this moment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialError {
    #[error("cannot {doing} the Secret {NAME}: {cause}")]
    Cluster { doing: &'static str, cause: Box<kube::Error> },
    #[error("cannot {doing} the Secret {NAME}: no answer within {DEADLINE:?}")]
    Late { doing: &'static str },
    #[error(transparent)]
    Console(#[from] TunnelError),
    #[error("cannot draw a deploy token: {0}")]
    Random(String),
    #[error(
        "the agent has no token to log in with: `plural cd clusters bootstrap NAME --rejoin` makes a join token"
    )]
    Nothing,
}

impl CredentialError {
    /// Whether only a person can help.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Console(error) => error.is_unauthorized(),
            Self::Nothing => true,
            Self::Cluster { .. } | Self::Late { .. } | Self::Random(_) => false,
        }
    }

    /// The agent's role does not let it have a Secret.
    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Cluster { cause, .. } if matches!(&**cause, kube::Error::Api(status) if status.code == 403))
    }
}

/// The agent's credential. One per agent.
pub(crate) struct Credential {
    secrets: Api<Secret>,
    /// The deploy token that whoever started the agent gave it.
    given: Option<Token>,
    /// The join token.
    join: Option<String>,
    /// The token in use, and how often it changed.
    used: Mutex<(Option<Token>, u64)>,
    /// One change at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Credential {
    pub(crate) fn new(client: kube::Client, namespace: &str, given: &str, join: Option<String>) -> Self {
        let given = (!given.trim().is_empty()).then(|| Token(given.trim().to_owned()));
        Self {
            secrets: Api::namespaced(client, namespace),
            used: Mutex::new((given.clone(), 0)),
            given,
            join,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The tokens that what was kept on disk may have been kept under, the one in use first. Waits for the API server, without
    /// which the agent can do nothing.
    pub(crate) async fn known(&self) -> Vec<String> {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(10));
        loop {
            match self.read().await {
                Ok(Kept { token, next, previous }) => {
                    let all = [token, self.given.clone(), next, previous];
                    return all.into_iter().flatten().map(|token| token.0).collect();
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot look for the agent's own token");
                    tokio::time::sleep(backoff.next_wait()).await;
                }
            }
        }
    }

    /// Grows each time that another token is used.
    pub(crate) fn generation(&self) -> u64 {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Finds the token that the console accepts: the one that the agent keeps, else the one that it was given. With neither it
    /// joins. What was begun before the agent was killed is brought to its end.
    ///
    /// # Errors
    /// When the console accepts none of them, or cannot be asked.
    pub(crate) async fn settle(&self, core: &Core) -> Result<(), CredentialError> {
        let _turn = self.turn.lock().await;
        let kept = self.read().await?;
        if let Some(next) = &kept.next {
            match core.console.rotate_token(&next.0, &next.0).await {
                Ok(_) => return self.finish(core, next, kept.token.clone()).await,
                // The console never heard of it, or does not know the call.
                Err(error) if error.is_unauthorized() || error.is_unknown_call() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut known: Vec<&Token> = kept.token.iter().chain(&kept.previous).chain(&self.given).collect();
        known.dedup();
        if let ([only], None, None) = (&known[..], &self.join, &kept.next) {
            // Whatever it is used for says whether it is accepted.
            return self.take(core, only);
        }
        let mut refused = CredentialError::Nothing;
        for token in known {
            match core.console.rotate_token(&token.0, &token.0).await {
                Ok(_) => return self.take(core, token),
                Err(error) if error.is_unknown_call() => return self.take(core, token),
                Err(error) if error.is_unauthorized() => refused = error.into(),
                Err(error) => return Err(error.into()),
            }
        }
        match &self.join {
            Some(join) => self.join(core, join, kept).await,
            None => Err(refused),
        }
    }

    async fn join(&self, core: &Core, join: &str, kept: Kept) -> Result<(), CredentialError> {
        let next = self.keep_next(core, kept.token.clone(), kept.next).await?;
        core.console.join(join, &next.0).await?;
        core.tell(AgentEvent::Token(TokenStep::Told));
        tracing::info!("joined the console");
        self.use_first(core, &next, kept.token).await
    }

    /// Replaces the token in use by a new one.
    ///
    /// # Errors
    /// When the Secret cannot be written or the console does not answer: what was begun is brought to its end later.
    pub(crate) async fn rotate(&self, core: &Core) -> Result<(), CredentialError> {
        let _turn = self.turn.lock().await;
        let Some(current) = self.used.lock().unwrap_or_else(PoisonError::into_inner).0.clone() else {
            return Ok(());
        };
        let kept = self.read().await?;
        if kept.next.as_ref() == Some(&current) {
            // The console accepted it, and did not answer its first call.
            return self.use_first(core, &current, kept.token).await;
        }
        // One that was begun with another token is begun anew.
        let begun = kept.next.filter(|_| kept.token.as_ref() == Some(&current));
        let next = self.keep_next(core, Some(current.clone()), begun).await?;
        core.console.rotate_token(&current.0, &next.0).await?;
        core.tell(AgentEvent::Token(TokenStep::Told));
        // From here on both are accepted. What is called meanwhile carries the new one: the old one may end at any moment.
        self.take(core, &next)?;
        match self.use_first(core, &next, Some(current.clone())).await {
            Err(error) if error.is_refusal() => {
                self.take(core, &current)?;
                Err(error)
            }
            done => done,
        }
    }

    /// The next token, in the Secret.
    async fn keep_next(
        &self,
        core: &Core,
        token: Option<Token>,
        begun: Option<Token>,
    ) -> Result<Token, CredentialError> {
        let next = if let Some(next) = begun {
            next
        } else {
            let next = draw()?;
            self.write(&Kept { token, next: Some(next.clone()), previous: None }).await?;
            next
        };
        core.tell(AgentEvent::Token(TokenStep::Kept));
        Ok(next)
    }

    /// The first call with a token that the console has just heard of: the one before ends.
    async fn use_first(
        &self,
        core: &Core,
        next: &Token,
        before: Option<Token>,
    ) -> Result<(), CredentialError> {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
        for _ in 1..TRIES {
            match core.console.rotate_token(&next.0, &next.0).await {
                Ok(_) => return self.finish(core, next, before).await,
                Err(error) if error.is_unauthorized() => tokio::time::sleep(backoff.next_wait()).await,
                Err(error) => return Err(error.into()),
            }
        }
        core.console.rotate_token(&next.0, &next.0).await?;
        self.finish(core, next, before).await
    }

    /// The console accepts this one alone.
    async fn finish(
        &self,
        core: &Core,
        token: &Token,
        previous: Option<Token>,
    ) -> Result<(), CredentialError> {
        core.tell(AgentEvent::Token(TokenStep::Used));
        self.take(core, token)?;
        // It is in the Secret already, as the next one: without this write, a restart brings it to its end.
        let kept = Kept { token: Some(token.clone()), next: None, previous };
        if let Err(error) = self.write(&kept).await {
            tracing::warn!(%error, "cannot remove the replaced deploy token from the agent's Secret");
            return Ok(());
        }
        core.tell(AgentEvent::Token(TokenStep::Settled));
        tracing::info!("the agent has a new deploy token");
        Ok(())
    }

    /// Uses a token from now on, for the console and for what is kept on disk.
    fn take(&self, core: &Core, token: &Token) -> Result<(), CredentialError> {
        {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let (known, changes) = &mut *used;
            if known.as_ref() != Some(token) {
                *changes += 1;
            }
            *known = Some(token.clone());
        }
        core.console.set_token(&token.0)?;
        if let Err(error) = core.desired.own(&token.0) {
            tracing::warn!(%error, "cannot keep the desired state on disk");
        }
        Ok(())
    }

    /// What the Secret holds; nothing without one, or without the right to have one.
    async fn read(&self) -> Result<Kept, CredentialError> {
        let doing = "read";
        let found = tokio::time::timeout(DEADLINE, self.secrets.get_opt(NAME))
            .await
            .map_err(|_| CredentialError::Late { doing })?
            .map_err(|cause| CredentialError::Cluster { doing, cause: Box::new(cause) });
        let secret = match found {
            Ok(secret) => secret,
            Err(error) if error.is_forbidden() => {
                tracing::debug!(%error, "the agent keeps no token of its own");
                None
            }
            Err(error) => return Err(error),
        };
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let token = |key: &str| {
            let text = String::from_utf8(data.get(key)?.0.clone()).ok()?;
            text.starts_with(DEPLOY_TOKEN_PREFIX).then(|| Token(text.trim().to_owned()))
        };
        Ok(Kept { token: token(TOKEN), next: token(NEXT), previous: token(PREVIOUS) })
    }

    async fn write(&self, kept: &Kept) -> Result<(), CredentialError> {
        let doing = "write";
        let Kept { token, next, previous } = kept;
        let values = [(TOKEN, token), (NEXT, next), (PREVIOUS, previous)];
        let data: BTreeMap<String, ByteString> = values
            .into_iter()
            .filter_map(|(key, value)| {
                Some((key.to_owned(), ByteString(value.as_ref()?.0.clone().into_bytes())))
            })
            .collect();
        let secret = Secret {
            metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
            data: Some(data),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        // What is not named any more goes: it is this manager's alone.
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&secret);
        tokio::time::timeout(DEADLINE, self.secrets.patch(NAME, &params, &patch))
            .await
            .map_err(|_| CredentialError::Late { doing })?
            .map(drop)
            .map_err(|cause| CredentialError::Cluster { doing, cause: Box::new(cause) })
    }
}

/// A token of 256 random bits.
fn draw() -> Result<Token, CredentialError> {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| CredentialError::Random(error.to_string()))?;
    Ok(Token(format!("{DEPLOY_TOKEN_PREFIX}{}", hex::encode(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_do_not_show() {
        let (one, other) = (draw().unwrap(), draw().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.0.len(), DEPLOY_TOKEN_PREFIX.len() + 64);
        let kept = Kept { token: Some(one.clone()), next: Some(other), previous: None };
        assert!(!format!("{kept:?}").contains(&one.0[8..]));
    }
}
