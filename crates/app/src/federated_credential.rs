//! Federated credentials: tokens of CI systems and clusters that stand for a service account.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::{Actor, UserActor};
use plural_core::cluster::Cluster;
use plural_core::cluster_issuer::{ClusterKey, SILENT};
use plural_core::federated_credential::{FederatedCredential, FederationTerms, TokenIssuer};
use plural_core::identity_provider::Issuer;
use plural_core::ids::{ClusterId, FederatedCredentialId, MachineAccountId, ProjectId, TokenId};
use plural_core::machine_account::MachineAccount;
use plural_core::policy::Role;
use plural_core::token::{PresentedToken, USER_TOKEN_PREFIX};
use plural_core::{Error, Result};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use crate::access::{Admin, Assume, Audited, Authorized, Read, check_given};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::machine_account::MachineAccountSelector;
use crate::ports::identity::ProviderError;
use crate::secret::NewToken;
use crate::token::{CreatedToken, TokenCreate};
use crate::user::Proof;

/// How long a token holds that another one was exchanged for.
const TOKEN_LASTS: TimeDelta = TimeDelta::hours(1);
/// Bytes of a token to exchange.
const LONGEST: usize = 7 * 1024;
/// Credentials that a token is held against: those of exactly its subject, and as many whose pattern begins as it does.
const MOST_HELD: u64 = 100;
/// Characters of a subject in the audit log.
const TOLD: usize = 200;
/// Clusters whose keys a token is held against.
const MOST_CLUSTERS: u64 = 500;
/// Different keys of clusters that one token is held against: those of one id are usually one, of clusters that are copies.
const MOST_TRIED: usize = 20;
/// Of these, keys of one project's clusters: whoever has many clusters keeps no other project's tokens out.
const MOST_OF_PROJECT: usize = 3;
/// What a proof is for.
const WHAT: &str = "a federated credential";

/// Who is to sign the tokens of a new credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuerChoice {
    /// An issuer that the console asks for its keys.
    Address(Issuer),
    /// A cluster whose agent reports them.
    Cluster(ClusterSelector),
}

/// Federated credentials.
#[async_trait]
pub trait FederatedCredentialStore: Send + Sync + 'static {
    /// Keeps a new one.
    ///
    /// # Errors
    /// [`Error::Conflict`] for one too many of an account.
    async fn federated_credential_create(
        &self,
        by: Audited<'_, MachineAccount, Admin>,
        credential: &FederatedCredential,
        proof: Option<&Proof>,
    ) -> Result<()>;
    /// Keeps the changed one.
    async fn federated_credential_update(
        &self,
        by: Audited<'_, MachineAccount, Admin>,
        credential: &FederatedCredential,
        proof: Option<&Proof>,
    ) -> Result<()>;
    /// Removes one with the tokens that were given for it.
    async fn federated_credential_delete(
        &self,
        by: Audited<'_, MachineAccount, Admin>,
        id: FederatedCredentialId,
    ) -> Result<()>;
    /// Those of an account, oldest first.
    async fn federated_credentials_of(
        &self,
        account: &Authorized<MachineAccount, Read>,
    ) -> Result<Vec<FederatedCredential>>;
    /// One, to find the account that decides who may see it.
    async fn federated_credential_row(
        &self,
        id: FederatedCredentialId,
    ) -> Result<Option<FederatedCredential>>;
    /// The keys of this id of clusters that report exactly this issuer, whose agents were heard of `since`, and that a credential
    /// with this audience names: at most `limit`, for whoever has a token that says so: nobody yet.
    async fn cluster_keys_for(
        &self,
        claimed: &ClaimedToken,
        since: DateTime<Utc>,
        limit: u64,
    ) -> Result<Vec<ClusterKey>>;
    /// Those that name this cluster, with exactly this audience, and that this subject may fit: as many as of an issuer.
    async fn federated_credentials_of_cluster(
        &self,
        cluster: ClusterId,
        claimed: &ClaimedToken,
        limit: u64,
    ) -> Result<Vec<FederatedCredential>>;
    /// Those with exactly this issuer, which is no cluster, and audience that this subject may fit, for whoever has such a token:
    /// nobody yet. At most `limit` of exactly this subject, and as many of patterns that begin as it does, the longest beginnings first.
    async fn federated_credentials_for(
        &self,
        claimed: &ClaimedToken,
        limit: u64,
    ) -> Result<Vec<FederatedCredential>>;
}

impl App {
    /// A new credential of a service account, and read access to a cluster that it names; needs admin access to that and the right to assume it, and that the caller proves that
    /// it is them: it outlasts their login.
    pub async fn federated_credential_create(
        &self,
        ctx: &OpCtx,
        account: MachineAccountId,
        issuer: IssuerChoice,
        terms: FederationTerms,
        password: Option<SecretString>,
    ) -> Result<FederatedCredential> {
        let selector = MachineAccountSelector::Id(account);
        let account = self.authorized::<MachineAccount, Admin>(ctx, &selector).await?;
        check_given(account.held(), Role::Assume.rights())?;
        let issuer = match issuer {
            IssuerChoice::Address(issuer) => TokenIssuer::Address(issuer),
            IssuerChoice::Cluster(cluster) => {
                let found = self.get::<Cluster>(ctx, &cluster).await;
                let found = found.map_err(|error| error.named_in("attributes.clusterId"))?;
                TokenIssuer::Cluster { id: found.id, reported: None }
            }
        };
        let (id, now) = (FederatedCredentialId::new(), ctx.now());
        let terms = terms.checked()?;
        let proof = self.prove(ctx, password, WHAT).await?;
        let credential =
            FederatedCredential { id, account: account.id, issuer, terms, created_at: now, updated_at: now };
        let by = account.audited(ctx, "service_account.federate");
        self.store.federated_credential_create(by, &credential, proof.as_ref()).await?;
        match credential.issuer {
            TokenIssuer::Address(_) => Ok(credential),
            // With what the cluster reports.
            TokenIssuer::Cluster { .. } => {
                let missing = || Error::not_found("federated credential");
                self.store.federated_credential_row(id).await?.ok_or_else(missing)
            }
        }
    }

    /// A changed credential; as for a new one. Its issuer stays.
    pub async fn federated_credential_update(
        &self,
        ctx: &OpCtx,
        id: FederatedCredentialId,
        change: impl FnOnce(FederationTerms) -> Result<FederationTerms> + Send,
        password: Option<SecretString>,
    ) -> Result<FederatedCredential> {
        let (found, account) = self.credential_and_account::<Admin>(ctx, id).await?;
        check_given(account.held(), Role::Assume.rights())?;
        let terms = change(found.terms.clone())?.checked()?;
        let proof = self.prove(ctx, password, WHAT).await?;
        let credential = FederatedCredential { terms, updated_at: ctx.now(), ..found };
        let by = account.audited(ctx, "service_account.federate");
        self.store.federated_credential_update(by, &credential, proof.as_ref()).await?;
        Ok(credential)
    }

    /// Removes a credential: the tokens that were given for it end.
    pub async fn federated_credential_delete(
        &self,
        ctx: &OpCtx,
        id: FederatedCredentialId,
    ) -> Result<FederatedCredential> {
        let (found, account) = self.credential_and_account::<Admin>(ctx, id).await?;
        let by = account.audited(ctx, "service_account.unfederate");
        self.store.federated_credential_delete(by, id).await?;
        self.proxy.access_changed();
        Ok(found)
    }

    /// One credential, for those who may read its account.
    pub async fn federated_credential(
        &self,
        ctx: &OpCtx,
        id: FederatedCredentialId,
    ) -> Result<FederatedCredential> {
        Ok(self.credential_and_account::<Read>(ctx, id).await?.0)
    }

    /// The credentials of a service account, oldest first.
    pub async fn federated_credentials(
        &self,
        ctx: &OpCtx,
        account: MachineAccountId,
    ) -> Result<Vec<FederatedCredential>> {
        let selector = MachineAccountSelector::Id(account);
        let account = self.authorized::<MachineAccount, Read>(ctx, &selector).await?;
        self.store.federated_credentials_of(&account).await
    }

    async fn credential_and_account<A: crate::access::Act>(
        &self,
        ctx: &OpCtx,
        id: FederatedCredentialId,
    ) -> Result<(FederatedCredential, Authorized<MachineAccount, A>)> {
        let missing = || Error::not_found("federated credential");
        let found = self.store.federated_credential_row(id).await?.ok_or_else(missing)?;
        let selector = MachineAccountSelector::Id(found.account);
        match self.authorized::<MachineAccount, A>(ctx, &selector).await {
            Ok(account) => Ok((found, account)),
            // That there is one is for those to know who see its account.
            Err(Error::NotFound { .. }) => Err(missing()),
            Err(error) => Err(error),
        }
    }

    /// A token of a service account for a token that stands for it; anybody may ask. `account` is its address or id, which has to be
    /// told where the token stands for several.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a token that stands for none; [`Error::Invalid`] for one that stands for several;
    /// [`Error::Unavailable`] when its issuer cannot be asked for its keys.
    pub async fn federated_exchange(
        &self,
        ctx: &OpCtx,
        token: &SecretString,
        account: Option<&str>,
    ) -> Result<CreatedToken> {
        let exchanged = self.exchange(ctx, token, account).await;
        if let Err(Error::Unauthenticated) = &exchanged {
            metrics::counter!("plural_logins_failed_total").increment(1);
            self.audit_sign_in_refused(ctx, None);
        }
        exchanged
    }

    /// The credentials that a token fits, each with what it says by a signature that counts for that credential. An
    /// issuer that is asked for its keys, and each cluster that reports the same one, are looked at on their own: what one of them
    /// signed says nothing to the credentials of another one.
    async fn believed(&self, claimed: &ClaimedToken, token: &SecretString) -> Result<Vec<Believed>> {
        let ClaimedToken { issuer, audience, subject: _, key: _ } = claimed;
        let mut believed = Vec::new();
        let since = self.clock.now() - SILENT;
        let keys = self.store.cluster_keys_for(claimed, since, MOST_CLUSTERS).await?;
        let verified = self.verified(claimed, token, &keys).await?;
        for ClusterKey { cluster, project: _, key } in keys {
            let Some(said) = verified.get(&key) else {
                tracing::debug!(issuer, cluster.id = %cluster, "a token is not of this cluster");
                continue;
            };
            let known = self.store.federated_credentials_of_cluster(cluster, claimed, MOST_HELD).await?;
            let fitting = known.into_iter().filter(|credential| credential.fits(said));
            believed.extend(fitting.map(|credential| (credential, said.clone())));
        }
        // Nobody is asked about a token that no credential is about.
        let known = self.store.federated_credentials_for(claimed, MOST_HELD).await?;
        if known.is_empty() {
            return if believed.is_empty() { Err(Error::Unauthenticated) } else { Ok(believed) };
        }
        let said = self.identities.token_claims(issuer, audience, token).await;
        match said {
            Ok(said) => {
                let fitting = known.into_iter().filter(|credential| credential.fits(&said));
                believed.extend(fitting.map(|credential| (credential, said.clone())));
            }
            // A cluster signed it: that its issuer cannot be reached is usual.
            Err(_) if !believed.is_empty() => {}
            Err(error @ ProviderError::Unavailable(_)) => {
                tracing::warn!(issuer, %error, "cannot verify a token to exchange");
                return Err(Error::unavailable(
                    "the token's issuer does not answer; retry, or ask an administrator to look at the console's log",
                ));
            }
            Err(error @ (ProviderError::Refused(_) | ProviderError::Ended(_))) => {
                tracing::debug!(issuer, %error, "a token to exchange does not count");
                return Err(Error::Unauthenticated);
            }
        }
        Ok(believed)
    }

    /// What a token says, by each of these keys that it is signed with. They have the id that the token names, which agents choose: no
    /// more than a few are tried for somebody who is nobody yet, and each once, off the threads that serve others.
    async fn verified(
        &self,
        claimed: &ClaimedToken,
        token: &SecretString,
        keys: &[ClusterKey],
    ) -> Result<HashMap<String, Map<String, Value>>> {
        let mut tried: Vec<String> = Vec::new();
        let mut of_projects: HashMap<ProjectId, usize> = HashMap::new();
        let mut left = 0_usize;
        for ClusterKey { cluster: _, project, key } in keys {
            if tried.contains(key) {
                continue;
            }
            let of_project = of_projects.entry(*project).or_default();
            if tried.len() < MOST_TRIED && *of_project < MOST_OF_PROJECT {
                *of_project += 1;
                tried.push(key.clone());
            } else {
                left += 1;
            }
        }
        if left > 0 {
            tracing::warn!(
                issuer = claimed.issuer,
                keys.left = left,
                "clusters report more keys of one id than a token is held against"
            );
        }
        if tried.is_empty() {
            return Ok(HashMap::new());
        }
        let (claimed, token, identities) = (claimed.clone(), token.clone(), Arc::clone(&self.identities));
        let verify = move || {
            let ClaimedToken { issuer, audience, subject: _, key: _ } = claimed;
            let said = |key: String| {
                let said = identities.token_claims_by(&issuer, &audience, &token, &key).ok()?;
                Some((key, said))
            };
            tried.into_iter().filter_map(said).collect::<HashMap<_, _>>()
        };
        let verified = tokio::task::spawn_blocking(verify).await;
        verified.map_err(|cause| Error::internal("verifying a token", cause))
    }

    async fn exchange(
        &self,
        ctx: &OpCtx,
        token: &SecretString,
        account: Option<&str>,
    ) -> Result<CreatedToken> {
        let claimed = claimed(token.expose_secret()).ok_or(Error::Unauthenticated)?;
        let believed = self.believed(&claimed, token).await?;
        let system = self.system_ctx().with_request_id(ctx.request_id()).with_peer(ctx.peer());
        let mut accounts: Vec<(Authorized<MachineAccount, Assume>, &FederatedCredential)> = Vec::new();
        for (credential, _) in &believed {
            let selector = MachineAccountSelector::Id(credential.account);
            let found = match self.authorized::<MachineAccount, Assume>(&system, &selector).await {
                Ok(found) => found,
                // It was deleted a moment ago.
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            let is_meant = account.is_none_or(|name| {
                name.eq_ignore_ascii_case(found.email.as_str()) || name == found.id.uuid().to_string()
            });
            let is_new = accounts.iter().all(|(known, _)| known.id != found.id);
            if is_meant && is_new && found.suspended_at.is_none() {
                accounts.push((found, credential));
            }
        }
        if accounts.len() > 1 {
            // Which ones is for those to know who see them.
            let told = "must name the service account by its address or id: the token stands for several";
            return Err(Error::invalid("audience", told));
        }
        let (account, credential) = accounts.pop().ok_or(Error::Unauthenticated)?;
        let said = believed.iter().find(|(one, _)| one.id == credential.id).map(|(_, said)| said);
        let subject = said.and_then(|said| said.get("sub")).and_then(Value::as_str).unwrap_or_default();
        let subject: String = subject.chars().filter(|c| !c.is_control()).take(TOLD).collect();
        let NewToken { text, hash, hint } = NewToken::generate(USER_TOKEN_PREFIX)?;
        let create = TokenCreate {
            id: TokenId::new(),
            hash,
            hint,
            session: false,
            scopes: credential.terms.scopes.clone(),
            expires_at: Some(ctx.now() + TOKEN_LASTS),
            made_with: None,
            assumed_by: Some(match &credential.issuer {
                TokenIssuer::Address(issuer) => format!("{subject} of {issuer}"),
                TokenIssuer::Cluster { id, .. } => format!("{subject} of cluster:{id}"),
            }),
            proof: None,
            identity: None,
            federated: Some((credential.id, credential.updated_at)),
        };
        // It is the account that acts, with the token that it gets.
        let actor = UserActor {
            id: account.user_id(),
            email: account.email.to_string(),
            admin: false,
            groups: std::collections::HashSet::new(),
            token: Some(PresentedToken {
                id: create.id,
                scopes: create.scopes.clone(),
                expires_at: create.expires_at,
                signed_in_at: None,
                assumed_by: create.assumed_by.clone(),
            }),
        };
        let acting = self.ctx(Actor::User(actor)).with_request_id(ctx.request_id()).with_peer(ctx.peer());
        let by = account.audited(&acting, "service_account.exchange");
        let token = self.store.machine_account_token(by, &create).await?;
        Ok(CreatedToken { token, text })
    }
}

type Believed = (FederatedCredential, Map<String, Value>);

/// Who signed a token, with which key, for whom and about whom, in its own words, which nothing proves yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedToken {
    /// `iss`.
    pub issuer: String,
    /// `aud`, which is one.
    pub audience: String,
    /// `sub`.
    pub subject: String,
    /// `kid`.
    pub key: Option<String>,
}

fn claimed(token: &str) -> Option<ClaimedToken> {
    if token.len() > LONGEST {
        return None;
    }
    let mut parts = token.split('.');
    let (Some(head), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let head: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head).ok()?).ok()?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let audience = match claims.get("aud")? {
        Value::Array(all) => all.first().filter(|_| all.len() == 1)?.as_str()?,
        one => one.as_str()?,
    };
    let is_plain = |text: &&str| !text.chars().any(char::is_control);
    let text = |claim: &str| claims.get(claim)?.as_str().filter(is_plain).map(str::to_owned);
    Some(ClaimedToken {
        issuer: text("iss")?,
        audience: Some(audience).filter(is_plain)?.to_owned(),
        subject: text("sub")?,
        key: head.get("kid").and_then(Value::as_str).filter(is_plain).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_and_audience_are_read_from_a_token_in_three_parts() {
        let token = |claims: &str| format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims));
        let expected = Some(ClaimedToken {
            issuer: "https://ci.example.com".to_owned(),
            audience: "plural".to_owned(),
            subject: "job".to_owned(),
            key: None,
        });
        let good = token(r#"{"iss":"https://ci.example.com","aud":"plural","sub":"job"}"#);
        assert_eq!(claimed(&good), expected);
        let listed = token(r#"{"iss":"https://ci.example.com","aud":["plural"],"sub":"job"}"#);
        assert_eq!(claimed(&listed), expected);
        let long = format!("{good}{}", "x".repeat(LONGEST));
        for token in [
            "",
            "..",
            "a.b.c",
            "e30",
            &format!("{good}.y"),
            &long,
            &token("{}"),
            &token(r#"{"iss":"https://ci.example.com","aud":"plural"}"#),
            &token(r#"{"iss":"https://ci.example.com","aud":"plural","sub":["job"]}"#),
            &token(r#"{"aud":"plural","sub":"job"}"#),
            &token(r#"{"iss":"https://ci.example.com","sub":"job"}"#),
            &token(r#"{"iss":"https://ci.example.com","aud":["plural","other"],"sub":"job"}"#),
            &token(r#"{"iss":"https://ci.example.com","aud":"plural","sub":"a\u0000b"}"#),
            &token(r#"{"iss":7,"aud":"plural","sub":"job"}"#),
        ] {
            assert_eq!(claimed(token), None, "{token}");
        }
    }
}
