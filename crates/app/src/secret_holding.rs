//! What secret values of a project the console holds. They are opened to see whether there are any, and not shown.

use std::collections::{BTreeMap, BTreeSet};

use plural_core::ids::{GlobalServiceId, HelmRepositoryId, ProjectId, ServiceContextId};
use plural_core::project::Project;
use plural_core::secret_backend::SecretBackend;
use plural_core::secret_holding::{SecretHolding, SecretHoldings, SecretKind};
use plural_core::service::Configuration;
use plural_core::{Error, Result};

use crate::access::Admin;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::data_key::{HeldRevision, HeldValue};
use crate::kept::backend_of;
use crate::project::ProjectSelector;
use crate::seal::Sealed;

/// Revisions at a time.
const CHUNK: u64 = 500;
/// Names of things that are told of each kind.
const NAMES: usize = 100;
/// What does not open is a secret as well.
const UNKNOWN: &str = "unknown";

/// What is not of revisions.
const OTHERS: [SecretKind; 8] = [
    SecretKind::TemplateSecrets,
    SecretKind::ContextSecrets,
    SecretKind::RepositoryCredentials,
    SecretKind::RepositoryReach,
    SecretKind::RepositoryWebhook,
    SecretKind::ChartCredentials,
    SecretKind::Recordings,
    SecretKind::Seeds,
];

/// The values of a thing, by their names.
type Found = BTreeMap<String, BTreeSet<String>>;

impl App {
    /// How many secret values of a project the console holds, and of what; for its administrators.
    pub async fn secret_holdings(&self, ctx: &OpCtx, id: ProjectId) -> Result<SecretHoldings> {
        let project = self.authorized::<Project, Admin>(ctx, &ProjectSelector::Id(id)).await?;
        let mut kinds: BTreeMap<(SecretKind, SecretBackend), Found> = BTreeMap::new();
        let mut after = None;
        loop {
            let revisions = self.store.revisions_held(&project, after, CHUNK).await?;
            let Some(last) = revisions.last() else { break };
            after = Some(last.id);
            self.sealer.kept().fetch(revisions.iter().flat_map(|revision| revision.secrets.sealed())).await;
            for revision in revisions {
                self.look_into(&revision, &mut kinds).await?;
            }
        }
        let found = kinds.into_iter().map(|(kind, found)| {
            let values = found.values().map(|values| values.len() as u64).sum();
            holding(kind, values, found.into_keys())
        });
        let mut holdings: Vec<SecretHolding> = found.collect();
        for kind in OTHERS {
            let mut held: BTreeMap<SecretBackend, BTreeMap<String, u64>> = BTreeMap::new();
            let values = self.store.values_held(&project, kind).await?;
            self.sealer.kept().fetch(values.iter().filter_map(|value| value.sealed.as_ref())).await;
            for value in values {
                if self.holds_secret(kind, &value).await? {
                    let held = held.entry(place(value.sealed.as_ref())).or_default();
                    *held.entry(value.name).or_default() += value.values;
                }
            }
            for (backend, held) in held {
                holdings.push(holding((kind, backend), held.values().sum(), held.into_keys()));
            }
        }
        Ok(SecretHoldings { holdings })
    }

    async fn look_into(
        &self,
        revision: &HeldRevision,
        kinds: &mut BTreeMap<(SecretKind, SecretBackend), Found>,
    ) -> Result<()> {
        let HeldRevision { id: _, service, name, secrets } = revision;
        let places = BTreeMap::from([
            (SecretKind::Configuration, backend_of(&secrets.configuration)),
            (SecretKind::HelmValues, place(secrets.helm_values.as_ref())),
            (SecretKind::RendererValues, place(secrets.renderer_values.as_ref())),
        ]);
        let mut add = |kind, value: &str| {
            let backend = places.get(&kind).copied().unwrap_or(SecretBackend::Database);
            let of = kinds.entry((kind, backend)).or_default().entry(name.clone()).or_default();
            of.insert(value.to_owned());
        };
        match known(self.open_configuration(*service, &secrets.configuration).await)? {
            Some(Configuration { values, references: _ }) => {
                for value in values.keys() {
                    add(SecretKind::Configuration, value);
                }
            }
            None => add(SecretKind::Configuration, UNKNOWN),
        }
        let Some(values) = known(self.open_values(*service, secrets).await)? else {
            add(SecretKind::HelmValues, UNKNOWN);
            return Ok(());
        };
        if values.helm.inline.is_some() {
            add(SecretKind::HelmValues, "values");
        }
        if let Some(set) = &values.helm.set {
            add(SecretKind::HelmValues, &set.name);
        }
        for (place, _) in values.renderers.iter().enumerate().filter(|(_, values)| values.is_some()) {
            add(SecretKind::RendererValues, &place.to_string());
        }
        Ok(())
    }

    async fn holds_secret(&self, kind: SecretKind, value: &HeldValue) -> Result<bool> {
        let HeldValue { of, sealed, .. } = value;
        let Some(sealed) = sealed else { return Ok(true) };
        Ok(match kind {
            SecretKind::TemplateSecrets => {
                let secrets = self.open_template(GlobalServiceId::from_uuid(*of), sealed).await;
                known(secrets)?.is_none_or(|secrets| {
                    !secrets.configuration.values.is_empty()
                        || secrets.helm.inline.is_some()
                        || secrets.helm.set.is_some()
                        || secrets.renderers.iter().any(Option::is_some)
                })
            }
            SecretKind::ContextSecrets => {
                let secrets = self.open_context(ServiceContextId::from_uuid(*of), sealed).await;
                known(secrets)?.is_none_or(|secrets| !secrets.values.is_empty())
            }
            SecretKind::ChartCredentials => {
                known(self.helm_access_is_secret(HelmRepositoryId::from_uuid(*of), sealed).await)?
                    .unwrap_or(true)
            }
            SecretKind::Configuration
            | SecretKind::HelmValues
            | SecretKind::RendererValues
            | SecretKind::RepositoryCredentials
            | SecretKind::RepositoryReach
            | SecretKind::RepositoryWebhook
            | SecretKind::Recordings
            | SecretKind::Seeds => true,
        })
    }
}

/// Where a value is; one that is not read out is in the database.
fn place(sealed: Option<&Sealed>) -> SecretBackend {
    sealed.map_or(SecretBackend::Database, backend_of)
}

fn holding(
    (kind, backend): (SecretKind, SecretBackend),
    values: u64,
    names: impl ExactSizeIterator<Item = String>,
) -> SecretHolding {
    let things = names.len() as u64;
    SecretHolding { kind, backend, values, things, names: names.take(NAMES).collect() }
}

/// What was opened; nothing when no key opens it. That it is sealed is reason enough to say that it is there.
fn known<T>(opened: Result<T>) -> Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error @ Error::Unavailable { .. }) => Err(error),
        Err(error) => {
            tracing::warn!(
                error = error.log_text(),
                "cannot open a value to see whether there is a secret in it"
            );
            Ok(None)
        }
    }
}
