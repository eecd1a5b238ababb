//! The age identities of projects: Secrets in the agent's own namespace, where no service writes or reads.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::ListParams};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::age::Identity;

/// Marks the Secrets.
const LABEL: &str = "deployments.plural.sh/decryption=age";
/// Names the project that a Secret belongs to: one.
const PROJECT: &str = "deployments.plural.sh/project";
/// What the names of keys end with that hold identities, as Flux has it.
const SUFFIX: &str = ".agekey";
/// What was listed is believed for so long.
const KNOWN_FOR: Duration = Duration::from_mins(1);
/// Where nothing opens a file, what was listed is believed for so long.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// One list.
const DEADLINE: Duration = Duration::from_secs(10);

/// The identities of one project.
pub(crate) type Identities = Arc<[Identity]>;

/// By project.
type All = HashMap<String, Vec<Identity>>;

/// The identities that this cluster has.
pub(crate) struct Keys {
    secrets: Api<Secret>,
    namespace: String,
    /// One lists; who waits for it finds what it found.
    one: tokio::sync::Mutex<()>,
    known: Mutex<Option<(Arc<All>, Instant)>>,
}

impl Keys {
    pub(crate) fn new(client: kube::Client, namespace: &str) -> Self {
        let secrets = Api::namespaced(client, namespace);
        Self {
            secrets,
            namespace: namespace.to_owned(),
            one: tokio::sync::Mutex::new(()),
            known: Mutex::default(),
        }
    }

    /// Identities of a project, never those of another one.
    pub(crate) async fn of(&self, project: &str) -> Result<Identities, String> {
        self.read(project, KNOWN_FOR).await
    }

    /// The same after they opened nothing: one may have been added meanwhile.
    pub(crate) async fn again(&self, project: &str) -> Result<Identities, String> {
        self.read(project, ASK_AGAIN).await
    }

    async fn read(&self, project: &str, fresh: Duration) -> Result<Identities, String> {
        let _one = self.one.lock().await;
        let known = self.known.lock().clone().filter(|(_, at)| at.elapsed() < fresh);
        let all = if let Some((all, _)) = known {
            all
        } else {
            let all = Arc::new(self.list().await?);
            *self.known.lock() = Some((Arc::clone(&all), Instant::now()));
            all
        };
        Ok(all.get(project).cloned().unwrap_or_default().into())
    }

    async fn list(&self) -> Result<All, String> {
        let wanted = ListParams::default().labels(LABEL);
        let failed = |why: &str| {
            format!("cannot read the project's age identities in namespace {}: {why}", self.namespace)
        };
        let found = tokio::time::timeout(DEADLINE, self.secrets.list(&wanted)).await;
        let found =
            found.map_err(|_| failed("the API server does not answer"))?.map_err(|error| match error {
                kube::Error::Api(status) => failed(&format!("the API server answers {}", status.code)),
                _ => failed("the API server does not answer"),
            })?;
        let mut all = All::new();
        for secret in found {
            let name = secret.metadata.name.as_deref().unwrap_or_default();
            let Some(project) = secret.metadata.annotations.as_ref().and_then(|notes| notes.get(PROJECT))
            else {
                tracing::warn!(
                    secret = name,
                    annotation = PROJECT,
                    "a Secret with age identities names no project, and is not used"
                );
                continue;
            };
            for (key, content) in secret.data.iter().flatten().filter(|(key, _)| key.ends_with(SUFFIX)) {
                let (identities, wrong) = Identity::parse_all(&String::from_utf8_lossy(&content.0));
                if wrong > 0 {
                    tracing::warn!(
                        secret = name,
                        key,
                        wrong,
                        "lines that are no age identities of the kind AGE-SECRET-KEY-1… are not used"
                    );
                }
                all.entry(project.clone()).or_default().extend(identities);
            }
        }
        Ok(all)
    }
}
