//! Who may reach a cluster's API server through the console, and for how long that holds.
//!
//! The right to reach it is the right to read the cluster; what a person may do there, Kubernetes' own RBAC
//! decides. A custom role may withhold shells, and the user's groups. A decision is a [`ProxyGrant`]: it is kept for a moment, looked at again while anything holds it, and
//! revoked as soon as anything about it changed.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use plural_core::access::{Action, Actor, UserActor};
use plural_core::cluster::Cluster;
use plural_core::cluster_audit::{ClusterAuditEntry, ClusterAuditRow, Impersonated};
use plural_core::data_key::KeyOwner;
use plural_core::ids::TokenId;
use plural_core::ids::{ClusterId, UserId};
use plural_core::specs::Handle;
use plural_core::user::User;
use plural_core::{Error, Page, PageRequest, Result};
use plural_kit::ShutdownSignal;
use secrecy::{ExposeSecret, SecretBox};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::access::{Admin, Authorized, Read, actor_name};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::keyring::Keyring;
use crate::seal::Sealed;
use crate::secret::{TokenHash, random};
use crate::store::Store;
use crate::user::UserSelector;

/// The auth proxy's part of a store.
#[async_trait]
pub trait ProxyStore: Send + Sync + 'static {
    /// The sealed seed of the key that assertions are signed with; `fresh` when none was kept before.
    async fn proxy_key(&self, fresh: &Sealed) -> Result<Sealed>;
    /// Stores lines of the clusters' audit log in one transaction. Not somebody's write: it tells of one.
    async fn cluster_audit_write(&self, entries: &[ClusterAuditEntry]) -> Result<()>;
    /// Lines about one cluster.
    async fn cluster_audit_list(
        &self,
        cluster: &Authorized<Cluster, Admin>,
        page: &PageRequest,
    ) -> Result<Page<ClusterAuditRow>>;
}

/// What the key's seed is sealed for.
pub(crate) const KEY: &str = "installation:proxy-key";
/// Between two looks at what was granted.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A decision that was not looked at for so long is made anew before it is used.
const STALE: Duration = Duration::from_secs(4);
/// With a database that does not answer, what was granted still holds for so long.
const GRACE: Duration = Duration::from_secs(30);
/// Decisions that are remembered at most; those in use are never forgotten.
const REMEMBERED: usize = 10_000;
/// A decision that nobody used for so long is forgotten.
const UNUSED: Duration = Duration::from_mins(1);

/// That a user may reach a cluster, and as whom.
#[derive(Debug)]
pub struct ProxyGrant {
    /// Which cluster.
    pub cluster_id: ClusterId,
    /// Its handle.
    pub cluster_handle: Handle,
    /// Who.
    pub user_id: UserId,
    /// The user's address: their name in the cluster.
    pub email: String,
    /// What audit lines call them: a service account is named together with whoever assumed it.
    pub actor: String,
    /// Names of the user's groups, in order; none where a custom role withholds [`Action::ImpersonateGroup`].
    pub groups: Vec<String>,
    /// The same for audit lines.
    pub impersonated: Arc<Impersonated>,
    /// Whether shells may be opened: [`Action::Exec`], which a custom role may withhold.
    pub shells: bool,
    /// With which token.
    pub token_id: Option<TokenId>,
    revoked: CancellationToken,
}

impl ProxyGrant {
    /// Cancelled when it holds no longer.
    pub fn revoked(&self) -> &CancellationToken {
        &self.revoked
    }

    fn says_the_same(&self, other: &Self) -> bool {
        let Self {
            cluster_id,
            cluster_handle: _,
            user_id,
            email,
            actor,
            groups,
            impersonated: _,
            shells,
            token_id,
            revoked: _,
        } = self;
        *cluster_id == other.cluster_id
            && *user_id == other.user_id
            && *email == other.email
            && *actor == other.actor
            && *groups == other.groups
            && *shells == other.shells
            && *token_id == other.token_id
    }
}

/// What was granted, by token and by how the cluster was named.
pub(crate) struct GrantCache {
    seed: SecretBox<[u8; 32]>,
    granted: Mutex<HashMap<GrantKey, Granted>>,
    look: Notify,
}

type GrantKey = (TokenHash, ClusterSelector);

struct Granted {
    grant: Arc<ProxyGrant>,
    checked: Instant,
    used: Instant,
}

impl GrantCache {
    pub(crate) async fn open(store: &dyn Store, sealer: &Keyring) -> Result<Self> {
        let fresh = sealer.seal(KeyOwner::Installation, KEY, &random::<32>()?).await?;
        let kept = store.proxy_key(&fresh).await?;
        let seed = <[u8; 32]>::try_from(sealer.open(KEY, &kept).await?)
            .map_err(|_| Error::internal("opening the key of the proxy", "it has the wrong size"))?;
        Ok(Self { seed: SecretBox::new(Box::new(seed)), granted: Mutex::default(), look: Notify::new() })
    }

    /// Something about who may do what changed: look at once, and take nothing on trust until then.
    pub(crate) fn access_changed(&self) {
        for granted in self.granted.lock().values_mut() {
            granted.checked = granted.checked.checked_sub(STALE).unwrap_or(granted.checked);
        }
        self.look.notify_one();
    }
}

impl App {
    /// Seed of the Ed25519 key that assertions to agents are signed with; the same on all replicas.
    pub fn proxy_seed(&self) -> &[u8; 32] {
        self.proxy.seed.expose_secret()
    }

    /// May the bearer of this token reach this cluster? From memory when it was asked a moment ago.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a token that is none (any more), [`Error::NotFound`] for a
    /// cluster that the user may not see.
    pub async fn proxy_grant(&self, token: &str, cluster: &ClusterSelector) -> Result<Arc<ProxyGrant>> {
        let key = (TokenHash::of(token), cluster.clone());
        let now = Instant::now();
        if let Some(granted) = self.proxy.granted.lock().get_mut(&key)
            && now.duration_since(granted.checked) < STALE
        {
            granted.used = now;
            return Ok(Arc::clone(&granted.grant));
        }
        let found = match self.actor_authenticate(token).await {
            Ok(Actor::User(user)) => self.proxy_decide(Actor::User(user), cluster).await,
            Ok(
                Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::Nobody | Actor::System,
            ) => Err(Error::Unauthenticated),
            Err(error) => Err(error),
        };
        self.proxy_keep(key, found)
    }

    /// The decision for whom a token speaks for.
    async fn proxy_decide(&self, actor: Actor, cluster: &ClusterSelector) -> Result<ProxyGrant> {
        let Actor::User(user) = actor else { return Err(Error::Unauthenticated) };
        let (user_id, name) = (user.id, actor_name(&Actor::User(user.clone())));
        // What the token is good for is decided here; who its user is, and what they may read, as for any other.
        let (token, user) = (user.token.clone(), UserActor { token: None, ..user });
        let ctx = self.ctx(Actor::User(user));
        let cluster = self.authorized::<Cluster, Read>(&ctx, cluster).await?;
        if let Some(token) = token.as_ref().filter(|token| !token.scopes.reaches(cluster.id)) {
            return Err(Error::forbidden(format!(
                "this token is limited to {}, not this cluster; `plural cd clusters kubeconfig {}` writes a \
                 kubeconfig for it",
                token.scopes, cluster.handle
            )));
        }
        let token_id = token.map(|token| token.id);
        let user = self.authorized::<User, Read>(&ctx, &UserSelector::Id(user_id)).await?;
        let held = cluster.held();
        let mut groups: Vec<String> = if held.allow(Action::ImpersonateGroup) {
            self.store.groups_of(&user).await?.into_iter().map(|group| group.name.to_string()).collect()
        } else {
            Vec::new()
        };
        groups.sort();
        Ok(ProxyGrant {
            cluster_id: cluster.id,
            cluster_handle: cluster.handle.clone(),
            user_id,
            email: user.email.to_string(),
            actor: name,
            impersonated: Arc::new(Impersonated::new(user.email.as_str(), &groups)),
            groups,
            shells: held.allow(Action::Exec),
            token_id,
            revoked: CancellationToken::new(),
        })
    }

    /// Remembers a fresh decision; whatever an older one allowed that this one does not ends.
    fn proxy_keep(&self, key: GrantKey, found: Result<ProxyGrant>) -> Result<Arc<ProxyGrant>> {
        let now = Instant::now();
        let mut granted = self.proxy.granted.lock();
        match found {
            Ok(found) => {
                if let Some(known) = granted.get_mut(&key)
                    && known.grant.says_the_same(&found)
                {
                    known.checked = now;
                    known.used = now;
                    return Ok(Arc::clone(&known.grant));
                }
                if granted.len() >= REMEMBERED {
                    granted.retain(|_, old| Arc::strong_count(&old.grant) > 1);
                }
                let grant = Arc::new(found);
                let entry = Granted { grant: Arc::clone(&grant), checked: now, used: now };
                if let Some(old) = granted.insert(key, entry) {
                    old.grant.revoked.cancel();
                }
                Ok(grant)
            }
            Err(error) => {
                if is_refusal(&error)
                    && let Some(old) = granted.remove(&key)
                {
                    old.grant.revoked.cancel();
                }
                Err(error)
            }
        }
    }

    /// Looks at what was granted again and again until asked to stop.
    pub(crate) async fn proxy_run(&self, stop: &ShutdownSignal) -> Result<()> {
        loop {
            let wait = tokio::time::timeout(LOOK_EVERY, self.proxy.look.notified());
            if stop.or(wait).await.is_none() {
                return Ok(());
            }
            self.recheck_grants().await;
        }
    }

    async fn recheck_grants(&self) {
        let now = Instant::now();
        let held: Vec<(GrantKey, Weak<ProxyGrant>)> = {
            let mut granted = self.proxy.granted.lock();
            granted.retain(|_, entry| {
                Arc::strong_count(&entry.grant) > 1 || now.duration_since(entry.used) < UNUSED
            });
            granted.iter().map(|(key, entry)| (key.clone(), Arc::downgrade(&entry.grant))).collect()
        };
        for (key, grant) in held {
            let found = match self.store.token_actor(&key.0, self.clock.now()).await {
                Ok(Some(user)) => self.proxy_decide(Actor::User(user), &key.1).await,
                Ok(None) => Err(Error::Unauthenticated),
                Err(error) => Err(error),
            };
            let mut granted = self.proxy.granted.lock();
            // Another decision came in between: it is the newer one.
            let Some(known) =
                granted.get_mut(&key).filter(|known| grant.ptr_eq(&Arc::downgrade(&known.grant)))
            else {
                continue;
            };
            let ends = match &found {
                Ok(found) if known.grant.says_the_same(found) => {
                    known.checked = Instant::now();
                    false
                }
                Ok(_) => true,
                Err(error) => {
                    if !is_refusal(error) {
                        tracing::warn!(error = error.log_text(), "cannot look at what the proxy granted");
                    }
                    is_refusal(error) || known.checked.elapsed() > GRACE
                }
            };
            if ends && let Some(old) = granted.remove(&key) {
                tracing::info!(
                    cluster.id = %old.grant.cluster_id, user.id = %old.grant.user_id,
                    "access to a cluster was revoked: what was open is closed"
                );
                old.grant.revoked.cancel();
            }
        }
    }
}

/// It was decided, not merely impossible to decide.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Unauthenticated | Error::NotFound { .. } | Error::Forbidden { .. })
}
