//! What secret values of a project the console holds. They are opened to see whether there are any, and not shown.

use std::collections::{BTreeMap, BTreeSet};

use plural_core::ids::{GlobalServiceId, HelmRepositoryId, ProjectId, ServiceContextId, ServiceId};
use plural_core::project::Project;
use plural_core::secret_backend::SecretBackend;
use plural_core::secret_holding::{SecretHolding, SecretHoldings, SecretKind};
use plural_core::service::Configuration;
use plural_core::{Error, Result};
use uuid::Uuid;

use crate::access::{Admin, Authorized};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::data_key::{HeldService, HeldValue};
use crate::kept::backend_of;
use crate::project::ProjectSelector;
use crate::rendering::ServiceSecrets;
use crate::seal::Sealed;

/// Services and other things at a time.
const CHUNK: u64 = 20;
/// Revisions and other values that one request looks into, before it leaves the rest to the next one.
const LOOKED: usize = 1000;
/// Names of things that are told of each kind.
const NAMES: usize = 100;
/// What does not open is a secret as well.
const UNKNOWN: &str = "unknown";

/// What is counted without a look into it.
const COUNTED: [SecretKind; 9] = [
    SecretKind::RepositoryCredentials,
    SecretKind::RepositoryReach,
    SecretKind::RepositoryWebhook,
    SecretKind::ScmCredentials,
    SecretKind::Recordings,
    SecretKind::StackStates,
    SecretKind::StackInputs,
    SecretKind::StackPlans,
    SecretKind::StackOutputs,
];

/// What is looked into, in this order.
const LOOKED_INTO: [Stage; 4] = [
    Stage::Services,
    Stage::Values(SecretKind::TemplateSecrets),
    Stage::Values(SecretKind::ContextSecrets),
    Stage::Values(SecretKind::ChartCredentials),
];

#[derive(Clone, Copy)]
enum Stage {
    /// All that is in services, and their seeds.
    Services,
    /// Values of other things.
    Values(SecretKind),
}

/// Values of a kind in a backend.
type Kind = (SecretKind, SecretBackend);

/// How many values things have, by their names.
type Found = BTreeMap<Kind, BTreeMap<String, u64>>;

/// How far a request looked.
struct Step {
    looked: usize,
    /// The last thing; none when there was nothing left.
    last: Option<Uuid>,
}

impl App {
    /// How many secret values of a project the console holds, and of what; for its administrators. One request looks into a limited
    /// number of them, and says where the next one goes on.
    pub async fn secret_holdings(
        &self,
        ctx: &OpCtx,
        id: ProjectId,
        after: Option<&str>,
    ) -> Result<SecretHoldings> {
        let project = self.authorized::<Project, Admin>(ctx, &ProjectSelector::Id(id)).await?;
        // Clients send an empty cursor for "from the start".
        let after = after.filter(|text| !text.is_empty());
        let (mut stage, mut last) = after.map_or(Ok((0, None)), parse_cursor)?;
        let (mut found, mut looked) = (Found::new(), 0);
        while looked < LOOKED
            && let Some(of) = LOOKED_INTO.get(stage)
        {
            let step = match of {
                Stage::Services => self.look_into_services(&project, last, &mut found).await?,
                Stage::Values(kind) => self.look_into_values(&project, *kind, last, &mut found).await?,
            };
            looked += step.looked;
            last = step.last;
            if last.is_none() {
                stage += 1;
            }
        }
        let mut holdings: Vec<SecretHolding> =
            found.into_iter().map(|(kind, values)| holding(kind, values)).collect();
        if after.is_none() {
            for kind in COUNTED {
                holdings.push(self.store.values_counted(&project, kind, NAMES as u64).await?);
            }
        }
        holdings.retain(|holding| holding.things > 0);
        let end_cursor = (stage < LOOKED_INTO.len()).then(|| cursor(stage, last));
        Ok(SecretHoldings { holdings, goes_on: after.is_some(), end_cursor })
    }

    async fn look_into_services(
        &self,
        project: &Authorized<Project, Admin>,
        after: Option<Uuid>,
        found: &mut Found,
    ) -> Result<Step> {
        let services = self.store.services_held(project, after.map(ServiceId::from_uuid), CHUNK).await?;
        let last = services.last().map(|service| service.id.uuid());
        let secrets = services.iter().flat_map(|service| &service.revisions);
        self.sealer.kept().fetch(secrets.flat_map(ServiceSecrets::sealed)).await;
        let mut looked = 0;
        for HeldService { id, name, seed, revisions } in services {
            looked += revisions.len();
            let mut kinds: BTreeMap<Kind, BTreeSet<String>> = BTreeMap::new();
            for secrets in &revisions {
                self.look_into(id, secrets, &mut kinds).await?;
            }
            // The console draws one for each service.
            found.entry((SecretKind::Seeds, place(seed.as_ref()))).or_default().insert(name.clone(), 1);
            for (kind, values) in kinds {
                found.entry(kind).or_default().insert(name.clone(), values.len() as u64);
            }
        }
        Ok(Step { looked, last })
    }

    async fn look_into(
        &self,
        service: ServiceId,
        secrets: &ServiceSecrets,
        kinds: &mut BTreeMap<Kind, BTreeSet<String>>,
    ) -> Result<()> {
        let ServiceSecrets { configuration, helm_values, renderer_values } = secrets;
        let places = BTreeMap::from([
            (SecretKind::Configuration, backend_of(configuration)),
            (SecretKind::HelmValues, place(helm_values.as_ref())),
            (SecretKind::RendererValues, place(renderer_values.as_ref())),
        ]);
        let mut add = |kind, value: &str| {
            let backend = places.get(&kind).copied().unwrap_or(SecretBackend::Database);
            kinds.entry((kind, backend)).or_default().insert(value.to_owned());
        };
        match known(self.open_configuration(service, configuration).await)? {
            Some(Configuration { values, references: _ }) => {
                for value in values.keys() {
                    add(SecretKind::Configuration, value);
                }
            }
            None => add(SecretKind::Configuration, UNKNOWN),
        }
        let Some(values) = known(self.open_values(service, secrets).await)? else {
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

    async fn look_into_values(
        &self,
        project: &Authorized<Project, Admin>,
        kind: SecretKind,
        after: Option<Uuid>,
        found: &mut Found,
    ) -> Result<Step> {
        let values = self.store.values_held(project, kind, after, CHUNK).await?;
        let (looked, last) = (values.len(), values.last().map(|value| value.of));
        self.sealer.kept().fetch(values.iter().filter_map(|value| value.sealed.as_ref())).await;
        for value in values {
            if value.values > 0 && self.holds_secret(kind, &value).await? {
                let held = found.entry((kind, place(value.sealed.as_ref()))).or_default();
                *held.entry(value.name).or_default() += value.values;
            }
        }
        Ok(Step { looked, last })
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
            | SecretKind::ScmCredentials
            | SecretKind::Recordings
            | SecretKind::StackStates
            | SecretKind::StackInputs
            | SecretKind::StackPlans
            | SecretKind::StackOutputs
            | SecretKind::Seeds => true,
        })
    }
}

/// Where a value is; what is not read out is in the database.
fn place(sealed: Option<&Sealed>) -> SecretBackend {
    sealed.map_or(SecretBackend::Database, backend_of)
}

fn holding((kind, backend): Kind, found: BTreeMap<String, u64>) -> SecretHolding {
    let (values, things) = (found.values().sum(), found.len() as u64);
    SecretHolding { kind, backend, values, things, names: found.into_keys().take(NAMES).collect() }
}

/// `STAGE:THING`, the thing behind which it goes on.
fn cursor(stage: usize, last: Option<Uuid>) -> String {
    format!("{stage}:{}", last.unwrap_or_else(Uuid::nil).simple())
}

fn parse_cursor(text: &str) -> Result<(usize, Option<Uuid>)> {
    let parts = text.split_once(':').and_then(|(stage, last)| {
        let stage: usize = stage.parse().ok().filter(|stage| *stage < LOOKED_INTO.len())?;
        Some((stage, Some(Uuid::try_parse(last).ok()?).filter(|last| !last.is_nil())))
    });
    parts.ok_or_else(|| {
        Error::invalid("after", "is not a cursor of this answer: pass an unmodified \"endCursor\"")
    })
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
