//! Values that services read from Vault, each with the token of its own ServiceAccount.
//!
//! Which Vault that is the agent's operator says, in the cluster: whoever may change a service names a path, and no address that the
//! account's token would be sent to. Vault has no watch, so that what is in use is read again from time to time: once for each path
//! and account, whatever the number of services and references.

mod server;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use http::HeaderValue;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount as Account,
};
use kube::api::PostParams;
use parking_lot::Mutex;
use plural_core::ids::ServiceId;
use plural_core::service::{Reference, VaultKeyRef};
use plural_core::specs::ServiceAccount;
use plural_kit::about;
use plural_sync::{Resolved, Retry, Target};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

pub use self::server::VaultConfigError;
use self::server::{Data, Mount, Server, VaultError};
use crate::inbox::{Inbox, Wake};

/// A token of an account lasts no shorter in Kubernetes; it is used once, at once.
const TOKEN_SECONDS: i64 = 600;
/// One request to the API server.
const DEADLINE: Duration = Duration::from_secs(10);
/// Requests at once.
const AT_ONCE: usize = 8;
/// A failure is an answer for so long: many services that fail together ask once.
const FAILED_FOR: Duration = Duration::from_secs(5);
/// A login that has no end is made anew after this.
const LONGEST_LOGIN: Duration = Duration::from_hours(1);

/// The Vault of this cluster, as the agent's operator describes it.
#[derive(Debug, Clone)]
pub struct VaultConfig {
    /// `https://HOST[:PORT]`.
    pub address: String,
    /// Certificate authorities (PEM) besides those of the system.
    pub ca_pem: Option<String>,
    /// Where its Kubernetes auth method is mounted.
    pub auth_mount: String,
    /// The role to log in as; `{namespace}` and `{account}` stand for those of the service's ServiceAccount.
    pub role: String,
    /// For whom the token of the account is made: the audience of the role.
    pub audience: String,
    /// A namespace of Vault.
    pub namespace: Option<String>,
    /// How often what is in use is read again.
    pub poll_every: Duration,
}

impl VaultConfig {
    /// Usual settings for the Vault at an address.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            ca_pem: None,
            auth_mount: "kubernetes".to_owned(),
            role: "{namespace}-{account}".to_owned(),
            audience: "vault".to_owned(),
            namespace: None,
            poll_every: Duration::from_mins(1),
        }
    }
}

/// A secret, as one account sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    namespace: String,
    account: String,
    path: String,
}

/// Why a place could not be read, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    message: String,
    retry: Retry,
    is_transient: bool,
    /// Vault itself does not answer: nobody else gets an answer either.
    is_down: bool,
}

#[derive(Default)]
struct Source {
    services: BTreeSet<ServiceId>,
    /// What was read last, and when; nothing before the first time.
    known: Option<(Result<Arc<Data>, Problem>, Instant)>,
    due: Option<Instant>,
    /// One reads; who waits for it finds what it read.
    reading: Arc<tokio::sync::Mutex<()>>,
}

/// A login of an account.
#[derive(Clone)]
struct Session {
    token: HeaderValue,
    since: Instant,
    until: Instant,
    mounts: Vec<Mount>,
}

type Kept = Arc<tokio::sync::Mutex<Option<Session>>>;

#[derive(Default)]
struct Known {
    places: HashMap<Place, Source>,
    of: HashMap<ServiceId, BTreeSet<Place>>,
    /// By namespace and name of the account.
    sessions: HashMap<(String, String), Kept>,
    /// Vault itself does not answer, since then.
    trouble: Option<(Problem, Instant)>,
}

/// All that services of a cluster read from Vault.
pub(crate) struct Vaults {
    client: kube::Client,
    vault: Option<(VaultConfig, Server)>,
    known: Mutex<Known>,
    /// There is something to read that was not there before.
    asked: Notify,
    at_once: Semaphore,
}

impl Vaults {
    pub(crate) fn new(client: kube::Client, config: Option<VaultConfig>) -> Result<Self, VaultConfigError> {
        let vault = config.map(|config| Server::new(&config).map(|server| (config, server))).transpose()?;
        let (known, asked, at_once) = (Mutex::default(), Notify::new(), Semaphore::new(AT_ONCE));
        Ok(Self { client, vault, known, asked, at_once })
    }

    /// A service refers to nothing in Vault any more.
    pub(crate) fn forget(&self, id: ServiceId) {
        self.expect(id, BTreeSet::new());
    }

    /// Reads what a service refers to in Vault, besides what `resolved` holds already.
    pub(crate) async fn read(
        &self,
        target: &Target,
        references: &BTreeMap<String, Reference>,
        resolved: &mut Resolved,
    ) {
        let wanted: Vec<(&String, &VaultKeyRef)> = references
            .iter()
            .filter_map(|(name, reference)| match reference {
                Reference::VaultKeyRef(place) => Some((name, place)),
                Reference::SecretKeyRef(_)
                | Reference::ConfigMapKeyRef(_)
                | Reference::SopsKeyRef(_)
                | Reference::AgeKeyRef(_) => None,
            })
            .collect();
        if wanted.is_empty() {
            return self.forget(target.id);
        }
        let account = match self.account(target) {
            Ok(account) => account,
            Err(problem) => {
                self.forget(target.id);
                return resolved.problems.push(problem.to_owned());
            }
        };
        let place = |path: &str| Place {
            namespace: account.namespace.clone(),
            account: account.name.clone(),
            path: path.to_owned(),
        };
        let places: BTreeSet<Place> = wanted.iter().map(|(_, key)| place(&key.path)).collect();
        self.expect(target.id, places.clone());
        let read = |place: Place| async move { (place.path.clone(), self.once(&place).await) };
        let all: HashMap<String, Result<Arc<Data>, Problem>> =
            stream::iter(places).map(read).buffer_unordered(AT_ONCE).collect().await;
        for (name, VaultKeyRef { path, key }) in wanted {
            let mut failed = |what: String, retry| {
                resolved
                    .problems
                    .push(format!("configuration value {name:?}: secret {path} of Vault: {what}"));
                resolved.retry = resolved.retry.sooner(retry);
            };
            match all.get(path) {
                // What is missing is noticed when it comes: what is in use is read again.
                Some(Ok(data)) => match data.get(key) {
                    Some(Some(value)) => drop(resolved.values.insert(name.clone(), value.clone())),
                    Some(None) => failed(format!("its key {key:?} is null"), Retry::OnChange),
                    None => failed(format!("it has no key {key:?}"), Retry::OnChange),
                },
                Some(Err(Problem { message, retry, .. })) => failed(message.clone(), *retry),
                None => failed("it was not read".to_owned(), Retry::Soon),
            }
        }
    }

    /// The account that a service enters Vault with. Never the agent's own.
    fn account(&self, target: &Target) -> Result<ServiceAccount, &'static str> {
        if self.vault.is_none() {
            return Err(
                "the service refers to Vault, and the agent of this cluster knows none: its operator names it with --vault",
            );
        }
        let account = target.config.service_account.as_deref().filter(|account| !account.is_empty());
        let account = account.ok_or(
            "the service refers to Vault and has no ServiceAccount to enter it with: set syncConfig.serviceAccount",
        )?;
        ServiceAccount::parse(account, &target.namespace).map_err(
            |_| "the service refers to Vault, and its syncConfig.serviceAccount names no ServiceAccount",
        )
    }

    /// What a service refers to from now on.
    fn expect(&self, id: ServiceId, wanted: BTreeSet<Place>) {
        let mut known = self.known.lock();
        let Known { places, of, sessions, trouble: _ } = &mut *known;
        let before = of.remove(&id).unwrap_or_default();
        if before.is_empty() && wanted.is_empty() {
            return;
        }
        for place in before.difference(&wanted) {
            let Some(source) = places.get_mut(place) else { continue };
            source.services.remove(&id);
            if source.services.is_empty() {
                places.remove(place);
            }
        }
        for place in &wanted {
            places.entry(place.clone()).or_default().services.insert(id);
        }
        if !wanted.is_empty() {
            of.insert(id, wanted);
        }
        sessions.retain(|(namespace, account), _| {
            places.keys().any(|place| place.namespace == *namespace && place.account == *account)
        });
    }

    /// What is known of a place; reads it when nothing is.
    async fn once(&self, place: &Place) -> Result<Arc<Data>, Problem> {
        let Some(reading) = self.reading(place) else { return Err(gone()) };
        let _one = reading.lock().await;
        let known = self.known.lock().places.get(place).and_then(|source| source.known.clone());
        match known {
            Some((Ok(data), _)) => return Ok(data),
            Some((Err(problem), at)) if at.elapsed() < FAILED_FOR => return Err(problem),
            Some((Err(_), _)) | None => {}
        }
        let read = self.fetch(place).await.map(Arc::new);
        self.keep(place, read.clone());
        self.asked.notify_one();
        read
    }

    fn reading(&self, place: &Place) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.known.lock().places.get(place).map(|source| Arc::clone(&source.reading))
    }

    /// Keeps what was read; answers the services to look at again.
    fn keep(&self, place: &Place, read: Result<Arc<Data>, Problem>) -> BTreeSet<ServiceId> {
        let usual = self.vault.as_ref().map_or(DEADLINE, |(config, _)| config.poll_every);
        let mut known = self.known.lock();
        let Some(source) = known.places.get_mut(place) else { return BTreeSet::new() };
        let now = Instant::now();
        let wait = if read.is_ok() { usual } else { usual.min(Duration::from_secs(30)) };
        source.due = Some(now + about(wait));
        let changed = match (&source.known, &read) {
            // A moment without Vault makes no service fail.
            (Some((Ok(_), _)), Err(problem)) if problem.is_transient => return BTreeSet::new(),
            (Some((Ok(before), _)), Ok(data)) => before != data,
            (Some((Err(before), _)), Err(problem)) => before != problem,
            (Some((Ok(_), _)), Err(_)) | (Some((Err(_), _)), Ok(_)) | (None, _) => true,
        };
        source.known = Some((read, now));
        if changed { source.services.clone() } else { BTreeSet::new() }
    }

    /// Reads again what is in use, for ever.
    pub(crate) async fn poll(&self, inbox: &Inbox) -> Infallible {
        // What was read before the agent was the one that acts may be long ago.
        for source in self.known.lock().places.values_mut().filter(|source| source.due.is_some()) {
            source.due = Some(Instant::now());
        }
        loop {
            let next = self.known.lock().places.values().filter_map(|source| source.due).min();
            tokio::select! {
                () = async {
                    match next {
                        Some(due) => tokio::time::sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                } => {}
                () = self.asked.notified() => continue,
            }
            let now = Instant::now();
            let due: Vec<Place> = {
                let known = self.known.lock();
                let due = known.places.iter().filter(|(_, source)| source.due.is_some_and(|due| due <= now));
                due.map(|(place, _)| place.clone()).collect()
            };
            let read = |place: Place| async move { self.again(&place, inbox).await };
            stream::iter(due).for_each_concurrent(AT_ONCE, read).await;
        }
    }

    async fn again(&self, place: &Place, inbox: &Inbox) {
        let Some(reading) = self.reading(place) else { return };
        let services = {
            let _one = reading.lock().await;
            let read = self.fetch(place).await.map(Arc::new);
            self.keep(place, read)
        };
        if !services.is_empty() {
            inbox.wake(services, Wake::default());
        }
    }

    async fn fetch(&self, place: &Place) -> Result<Data, Problem> {
        let Some((config, server)) = &self.vault else { return Err(gone()) };
        let _permit = self.at_once.acquire().await.map_err(|_| gone())?;
        let trouble = self.known.lock().trouble.clone();
        if let Some((problem, since)) = trouble
            && since.elapsed() < FAILED_FOR
        {
            return Err(problem);
        }
        let read = self.fetch_as(config, server, place).await;
        match &read {
            Err(problem) if problem.is_down => {
                self.known.lock().trouble = Some((problem.clone(), Instant::now()));
            }
            // It may be the cluster's API server that makes no token: that says nothing of Vault.
            Err(problem) if problem.is_transient => {}
            Ok(_) | Err(_) => self.known.lock().trouble = None,
        }
        read
    }

    async fn fetch_as(&self, config: &VaultConfig, server: &Server, place: &Place) -> Result<Data, Problem> {
        let kept: Kept = {
            let mut known = self.known.lock();
            let account = (place.namespace.clone(), place.account.clone());
            Arc::clone(known.sessions.entry(account).or_default())
        };
        let role = config.role.replace("{namespace}", &place.namespace).replace("{account}", &place.account);
        let problem = |error: VaultError| {
            let whom = format!("ServiceAccount {}/{}, role {role}", place.namespace, place.account);
            let is_refused = matches!(error, VaultError::Login(_) | VaultError::Denied);
            let message = if is_refused { format!("{error}; asked as {whom}") } else { error.to_string() };
            let retry = if error.is_transient() { Retry::Soon } else { Retry::Later };
            let is_down = matches!(error, VaultError::Unreachable(_) | VaultError::Sealed);
            Problem { message, retry, is_transient: error.is_transient(), is_down }
        };
        let mut is_new = false;
        loop {
            let session = {
                let mut kept = kept.lock().await;
                if kept.as_ref().is_none_or(|session| session.until <= Instant::now()) {
                    let jwt = self.token(config, place).await?;
                    let server::Login { token, lasts } = server.login(&role, &jwt).await.map_err(problem)?;
                    let since = Instant::now();
                    // Made anew while the old one is still good.
                    let lasts = lasts.unwrap_or(LONGEST_LOGIN).min(LONGEST_LOGIN).mul_f64(0.8);
                    *kept = Some(Session { token, since, until: since + lasts, mounts: Vec::new() });
                    is_new = true;
                }
                kept.clone()
            };
            let Some(session) = session else { continue };
            let read = fetch_in(server, &kept, &session, &place.path).await;
            let is_denied = matches!(read, Err(VaultError::Denied));
            // A login that was revoked is denied everything.
            if !is_denied || is_new || server.is_entered(&session.token).await.map_err(problem)? {
                return read.map_err(problem);
            }
            let mut kept = kept.lock().await;
            if kept.as_ref().is_some_and(|now| now.since == session.since) {
                *kept = None;
            }
        }
    }

    /// A short token of the account, for Vault and for nobody else.
    async fn token(&self, config: &VaultConfig, place: &Place) -> Result<String, Problem> {
        let Place { namespace, account, path: _ } = place;
        let problem = |message: String, is_transient: bool| {
            let retry = if is_transient { Retry::Soon } else { Retry::Later };
            Problem { message, retry, is_transient, is_down: false }
        };
        let asked = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(vec![config.audience.clone()]),
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let accounts: kube::Api<Account> = kube::Api::namespaced(self.client.clone(), namespace);
        let post = PostParams::default();
        let made = accounts.create_token_request(account, &post, &asked);
        let unreachable =
            || problem("the cluster's API server makes no token of the account".to_owned(), true);
        match tokio::time::timeout(DEADLINE, made).await.map_err(|_| unreachable())? {
            Ok(made) => made.status.and_then(|status| status.token).ok_or_else(unreachable),
            Err(kube::Error::Api(status)) => Err(match status.code {
                404 => problem(format!("ServiceAccount {namespace}/{account} does not exist"), false),
                401 | 403 => problem(
                    format!(
                        "the agent may not make a token of ServiceAccount {namespace}/{account}: allow it to create \
                         serviceaccounts/token"
                    ),
                    false,
                ),
                code => problem(
                    format!("the cluster's API server makes no token of the account ({code})"),
                    code == 429 || code >= 500,
                ),
            }),
            Err(_) => Err(unreachable()),
        }
    }
}

async fn fetch_in(server: &Server, kept: &Kept, session: &Session, path: &str) -> Result<Data, VaultError> {
    let known = session.mounts.iter().find(|mount| path.starts_with(&mount.path)).cloned();
    if let Some(mount) = known {
        return server.read(&session.token, &mount, path).await;
    }
    let mount = server.mount(&session.token, path).await?;
    if let Some(now) = kept.lock().await.as_mut().filter(|now| now.since == session.since) {
        now.mounts.push(mount.clone());
    }
    server.read(&session.token, &mount, path).await
}

/// Nobody refers to it any more.
fn gone() -> Problem {
    let message = "it is not read any more".to_owned();
    Problem { message, retry: Retry::Soon, is_transient: true, is_down: false }
}
