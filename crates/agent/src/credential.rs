//! What the agent logs in with: how it joins, and how it replaces its deploy token.
//!
//! The agent draws its tokens itself. A token is in the agent's own Secret before the console hears of it, and the one
//! before it stays there until the console said that the new one is in use. Whenever the agent is killed, what the Secret
//! holds is enough to go on: each call to the console can be repeated with the same token.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams},
};
use parking_lot::Mutex;
use plural_core::token::DEPLOY_TOKEN_PREFIX;
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
/// The ones before, the newest first. The console accepts them no more, unless its database is put back to a time when it
/// did, or one of its replicas has not heard of that yet. Which of them comes back nobody knows before it does.
const PREVIOUS: [&str; 3] = ["previous-deploy-token", "previous-deploy-token-2", "previous-deploy-token-3"];
/// How long the API server may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often a token that the console has just accepted is tried: another replica may hear of it a moment later.
const TRIES: u32 = 6;

/// What the Secret holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Kept {
    token: Option<Token>,
    next: Option<Token>,
    previous: Vec<Token>,
}

impl Kept {
    /// The same while the agent uses `current`. What was begun with another token is begun anew; what was kept stays: the
    /// console may accept it again, and `current` no more.
    fn using(self, current: &Token) -> Self {
        if self.token.as_ref() == Some(current) {
            return self;
        }
        let Self { token, next, previous } = self;
        let previous = former(next.into_iter().chain(token).chain(previous), current);
        Self { token: Some(current.clone()), next: None, previous }
    }

    /// With `token` in place of the one in use.
    fn replaced(self, token: &Token) -> Self {
        let Self { token: before, next: _, previous } = self;
        let previous = former(before.into_iter().chain(previous), token);
        Self { token: Some(token.clone()), next: None, previous }
    }
}

/// The tokens that are kept beside `current`: each once, the newest first.
fn former(tokens: impl Iterator<Item = Token>, current: &Token) -> Vec<Token> {
    let mut former = Vec::with_capacity(PREVIOUS.len());
    for token in tokens {
        if token != *current && !former.contains(&token) && former.len() < PREVIOUS.len() {
            former.push(token);
        }
    }
    former
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
    #[error("the agent has no token; create a join token with `plural cd clusters bootstrap NAME --rejoin`")]
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

    /// TLS with the console does not come about.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Console(error) if error.is_tls())
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
                    let first = [token, self.given.clone(), next];
                    return first.into_iter().flatten().chain(previous).map(|token| token.0).collect();
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
        self.used.lock().1
    }

    /// Finds the token that the console accepts: one that the agent keeps, else the one that it was given. With neither it
    /// joins. What was begun before the agent was killed is brought to its end.
    ///
    /// # Errors
    /// When the console accepts none of them, or cannot be asked.
    pub(crate) async fn settle(&self, core: &Core) -> Result<(), CredentialError> {
        let _turn = self.turn.lock().await;
        let kept = self.read().await?;
        if let Some(next) = kept.next.clone() {
            match core.console.rotate_token(&next.0, &next.0).await {
                Ok(_) => return self.finish(core, &next, kept).await,
                // The console never heard of it, or does not know the call.
                Err(error) if error.is_unauthorized() || error.is_unknown_call() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut known: Vec<&Token> = Vec::new();
        for token in kept.token.iter().chain(&kept.previous).chain(&self.given) {
            if !known.contains(&token) {
                known.push(token);
            }
        }
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
        let next = self.keep_next(core, &kept).await?;
        core.console.join(join, &next.0).await?;
        core.emit(AgentEvent::Token(TokenStep::Told));
        tracing::info!("joined the console");
        self.use_first(core, &next, kept).await
    }

    /// Replaces the token in use by a new one.
    ///
    /// # Errors
    /// When the Secret cannot be written or the console does not answer: what was begun is brought to its end later.
    pub(crate) async fn rotate(&self, core: &Core) -> Result<(), CredentialError> {
        let _turn = self.turn.lock().await;
        let Some(current) = self.used.lock().0.clone() else {
            return Ok(());
        };
        let kept = self.read().await?;
        if kept.next.as_ref() == Some(&current) {
            // The console accepted it, and did not answer its first call.
            return self.use_first(core, &current, kept).await;
        }
        let kept = kept.using(&current);
        let next = self.keep_next(core, &kept).await?;
        core.console.rotate_token(&current.0, &next.0).await?;
        core.emit(AgentEvent::Token(TokenStep::Told));
        // From here on both are accepted. What is called meanwhile carries the new one: the old one may end at any moment.
        self.take(core, &next)?;
        match self.use_first(core, &next, kept).await {
            Err(error) if error.is_refusal() => {
                self.take(core, &current)?;
                Err(error)
            }
            done => done,
        }
    }

    /// The next token, in the Secret: the one that was begun, or a new one beside all that is kept.
    async fn keep_next(&self, core: &Core, kept: &Kept) -> Result<Token, CredentialError> {
        let next = if let Some(next) = &kept.next {
            next.clone()
        } else {
            let next = draw()?;
            self.write(&Kept { next: Some(next.clone()), ..kept.clone() }).await?;
            next
        };
        core.emit(AgentEvent::Token(TokenStep::Kept));
        Ok(next)
    }

    /// The first call with a token that the console has just heard of: the one before ends.
    async fn use_first(&self, core: &Core, next: &Token, kept: Kept) -> Result<(), CredentialError> {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
        for _ in 1..TRIES {
            match core.console.rotate_token(&next.0, &next.0).await {
                Ok(_) => return self.finish(core, next, kept).await,
                Err(error) if error.is_unauthorized() => tokio::time::sleep(backoff.next_wait()).await,
                Err(error) => return Err(error.into()),
            }
        }
        core.console.rotate_token(&next.0, &next.0).await?;
        self.finish(core, next, kept).await
    }

    /// The console accepts this one alone, in place of what is kept.
    async fn finish(&self, core: &Core, token: &Token, kept: Kept) -> Result<(), CredentialError> {
        core.emit(AgentEvent::Token(TokenStep::Used));
        self.take(core, token)?;
        // It is in the Secret already, as the next one: without this write, a restart brings it to its end.
        if let Err(error) = self.write(&kept.replaced(token)).await {
            tracing::warn!(%error, "cannot remove the replaced deploy token from the agent's Secret");
            return Ok(());
        }
        core.emit(AgentEvent::Token(TokenStep::Settled));
        tracing::info!("the agent has a new deploy token");
        Ok(())
    }

    /// Uses a token from now on, for the console and for what is kept on disk.
    fn take(&self, core: &Core, token: &Token) -> Result<(), CredentialError> {
        {
            let mut used = self.used.lock();
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
                tracing::debug!(%error, "the agent has no stored token");
                None
            }
            Err(error) => return Err(error),
        };
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let token = |key: &str| {
            let text = String::from_utf8(data.get(key)?.0.clone()).ok()?;
            text.starts_with(DEPLOY_TOKEN_PREFIX).then(|| Token(text.trim().to_owned()))
        };
        let previous = PREVIOUS.into_iter().filter_map(token).collect();
        Ok(Kept { token: token(TOKEN), next: token(NEXT), previous })
    }

    async fn write(&self, kept: &Kept) -> Result<(), CredentialError> {
        let doing = "write";
        let Kept { token, next, previous } = kept;
        let current = [(TOKEN, token.as_ref()), (NEXT, next.as_ref())];
        let data: BTreeMap<String, ByteString> = current
            .into_iter()
            .chain(PREVIOUS.into_iter().zip(previous.iter().map(Some)))
            .filter_map(|(key, value)| Some((key.to_owned(), ByteString(value?.0.clone().into_bytes()))))
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
        let kept = Kept { token: Some(one.clone()), next: Some(other), previous: vec![one.clone()] };
        assert!(!format!("{kept:?}").contains(&one.0[8..]));
    }

    fn kept(token: &str, next: Option<&str>, previous: &[&str]) -> Kept {
        let token_of = |text: &str| Token(text.to_owned());
        Kept {
            token: Some(token_of(token)),
            next: next.map(token_of),
            previous: previous.iter().copied().map(token_of).collect(),
        }
    }

    #[test]
    fn no_token_is_forgotten_at_once() {
        for (was, current, expected) in [
            // What was begun with the token in use goes on.
            (kept("a", Some("b"), &["c"]), "a", kept("a", Some("b"), &["c"])),
            // Back at one from before: what was in use may be it again.
            (kept("b", None, &["a"]), "a", kept("a", None, &["b"])),
            (kept("c", Some("d"), &["b", "a"]), "b", kept("b", None, &["d", "c", "a"])),
            (kept("d", Some("e"), &["c", "b", "a"]), "x", kept("x", None, &["e", "d", "c"])),
            (Kept::default(), "a", kept("a", None, &[])),
        ] {
            assert_eq!(was.using(&Token(current.to_owned())), expected);
        }
        for (was, token, expected) in [
            (kept("a", Some("b"), &[]), "b", kept("b", None, &["a"])),
            (kept("a", Some("b"), &["c"]), "b", kept("b", None, &["a", "c"])),
            (kept("d", None, &["c", "b", "a"]), "e", kept("e", None, &["d", "c", "b"])),
            (kept("b", None, &["c", "b", "a"]), "c", kept("c", None, &["b", "a"])),
            (Kept::default(), "a", kept("a", None, &[])),
        ] {
            assert_eq!(was.replaced(&Token(token.to_owned())), expected);
        }
    }
}
