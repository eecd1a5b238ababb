//! What services keep secret, in answers to callers who may not read it.
//!
//! Secrets of a service are its configuration, the inline values of its charts and renderers, the secret values of its contexts, and
//! the sensitive outputs of stacks that it imports, or that its contexts take.
//! Whoever may change a service may read them; those of an instance belong to its global service, and whoever may change that may read
//! them. For everybody else each of these values is hidden wherever it stands in an answer. What agents
//! report of fields' values is stored sealed, and everything that they report is masked each time it is told.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use plural_core::access::Actor;
use plural_core::api_deprecation::DeprecatedComponent;
use plural_core::component::{Component, ComponentChild, ComponentKey};
use plural_core::fleet_plan::FleetPlanPart;
use plural_core::global_service::GlobalService;
use plural_core::health_change::HealthChange;
use plural_core::ids::{ClusterId, GlobalServiceId, ServiceId};
use plural_core::mask::{MASK, Masker, SecretValues};
use plural_core::promotion::Promoted;
use plural_core::service::{SecretsHome, Service};
use plural_core::service_context::ServiceContext;
use plural_core::service_error::ServiceError;
use plural_core::service_metadata::ServiceMetadata;
use plural_core::sync::{
    DriftEvent, FieldChange, ObjectRef, PendingApproval, PlannedObject, ServiceSync, SyncHook, SyncPlan,
    SyncProgress, SyncReport, SyncWaiting,
};
use plural_core::{Error, Result};

use crate::access::{Authorized, Home, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::keyring::Sealing;
use crate::many::KeptSecrets;
use crate::ports::agents::ServiceReportRow;
use crate::ports::previews::Preview;
use crate::seal::Sealed;
use crate::service::ServiceSelector;

/// What hides the secrets of services from one caller, kept for one request. No entry: not asked yet.
pub(crate) type MaskCache = Arc<Mutex<HashMap<ServiceId, Option<Arc<Masker>>>>>;

/// What hides the secrets of services from a caller; no entry where the caller may read them.
#[derive(Default)]
pub(crate) struct Masks(HashMap<ServiceId, Arc<Masker>>);

impl Masks {
    /// Hides the secrets of a service in something.
    pub(crate) fn apply<T>(&self, id: ServiceId, thing: &mut T, hide: fn(&Masker, &mut T)) {
        if let Some(masker) = self.0.get(&id) {
            hide(masker, thing);
        }
    }

    /// The caller may read all of them.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same in a list.
    pub(crate) fn apply_all<T>(&self, id: ServiceId, things: &mut [T], hide: fn(&Masker, &mut T)) {
        if let Some(masker) = self.0.get(&id) {
            for thing in things {
                hide(masker, thing);
            }
        }
    }
}

impl App {
    /// A service whose secrets the caller may read.
    ///
    /// # Errors
    /// `Forbidden` for an instance of a global service that the caller may not change, and for a service that once was one.
    pub(crate) async fn service_unsealed(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
    ) -> Result<Authorized<Service, Write>> {
        let service = self.authorized::<Service, Write>(ctx, selector).await?;
        let withheld = match (service.owner, service.withheld) {
            (None, None) => return Ok(service),
            (Some(_), _) => "the global service or managed namespace that it is an instance of",
            (None, Some(_)) => "the global service that it was an instance of",
        };
        let mut readable = self.secrets_readable(ctx, vec![service]).await?;
        readable.pop().ok_or_else(|| {
            Error::forbidden(format!(
                "configuration, values and files come from {withheld}; you need write access to it"
            ))
        })
    }

    /// Those of these services, which the caller may change, whose secrets the caller may read.
    pub(crate) async fn secrets_readable(
        &self,
        ctx: &OpCtx,
        services: Vec<Authorized<Service, Write>>,
    ) -> Result<Vec<Authorized<Service, Write>>> {
        if services.iter().all(|service| service.owner.is_none() && service.withheld.is_none()) {
            return Ok(services);
        }
        let owners: HashSet<GlobalServiceId> = services.iter().filter_map(|service| service.owner).collect();
        let owners: Vec<GlobalServiceId> = owners.into_iter().collect();
        let owners = self.authorized_many::<GlobalService, Write>(ctx, &owners).await?;
        let owners: HashSet<GlobalServiceId> = owners.into_iter().map(|global| global.id).collect();
        let withheld = services.iter().filter(|service| service.owner.is_none());
        let withheld: HashSet<SecretsHome> = withheld.filter_map(|service| service.withheld).collect();
        let mut homes: HashSet<SecretsHome> = HashSet::new();
        for home in withheld {
            if self.may_change_home(ctx, home).await? {
                homes.insert(home);
            }
        }
        Ok(services
            .into_iter()
            .filter(|service| match (service.owner, service.withheld) {
                (Some(owner), _) => owners.contains(&owner),
                (None, Some(home)) => homes.contains(&home),
                (None, None) => true,
            })
            .collect())
    }

    async fn may_change_home(&self, ctx: &OpCtx, home: SecretsHome) -> Result<bool> {
        let project = match home {
            SecretsHome::Installation => None,
            SecretsHome::Project(id) => Some(id),
        };
        let found = match self.store.global_service_home(ctx.actor(), project).await {
            Ok(guarded) => guarded.authorize::<Write>(ctx).map(|_: Authorized<Home, Write>| ()),
            Err(error) => Err(error),
        };
        match found {
            Ok(()) => Ok(true),
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Ok(is_administrator(ctx)),
            Err(error) => Err(error),
        }
    }

    /// What hides the secrets of services, which the caller may see, from the caller.
    pub(crate) async fn masks(&self, ctx: &OpCtx, ids: impl IntoIterator<Item = ServiceId>) -> Result<Masks> {
        if is_administrator(ctx) {
            return Ok(Masks::default());
        }
        let mut ids: Vec<ServiceId> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let unknown: Vec<ServiceId> = {
            let known = ctx.masks().lock();
            ids.iter().filter(|id| !known.contains_key(id)).copied().collect()
        };
        if !unknown.is_empty() {
            let readable = self.authorized_many::<Service, Write>(ctx, &unknown).await?;
            let readable = self.secrets_readable(ctx, readable).await?;
            let readable: HashSet<ServiceId> = readable.into_iter().map(|service| service.id).collect();
            let hidden: Vec<ServiceId> = unknown.into_iter().filter(|id| !readable.contains(id)).collect();
            let made = self.maskers(&hidden).await?;
            let mut known = ctx.masks().lock();
            known.extend(readable.into_iter().map(|id| (id, None)));
            // One that is gone meanwhile has told something that nobody can judge any more.
            let gone = hidden.into_iter().filter(|id| !made.contains_key(id)).collect::<Vec<_>>();
            let all = Arc::new(Masker::new(&SecretValues::everything()));
            known.extend(gone.into_iter().map(|id| (id, Some(Arc::clone(&all)))));
            known.extend(made.into_iter().map(|(id, masker)| (id, Some(masker))));
        }
        let known = ctx.masks().lock();
        let masked = |id| Some((id, known.get(&id)?.clone()?));
        Ok(Masks(ids.into_iter().filter_map(masked).collect()))
    }

    async fn maskers(&self, ids: &[ServiceId]) -> Result<HashMap<ServiceId, Arc<Masker>>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        // Whose secrets they are is not the question: nobody is shown any.
        let system = self.system_ctx();
        let services = self.authorized_many::<Service, Write>(&system, ids).await?;
        let mut kept = self.store.services_kept(&services).await?;
        self.sealer.kept().fetch(kept.values().flat_map(KeptSecrets::sealed)).await;
        let mut all = Vec::with_capacity(services.len());
        for service in &services {
            let kept = kept.remove(&service.id).unwrap_or_default();
            let secrets = self.secret_values(service, kept).await.unwrap_or_else(|error| {
                tracing::error!(service.id = %service.id, error = error.log_text(), "cannot open a service's secrets");
                SecretValues::everything()
            });
            all.push((service.id, secrets));
        }
        let build =
            move || all.into_iter().map(|(id, values)| (id, Arc::new(Masker::new(&values)))).collect();
        tokio::task::spawn_blocking(build).await.map_err(|cause| Error::internal("hiding secrets", cause))
    }

    async fn secret_values(&self, service: &Service, kept: KeptSecrets) -> Result<SecretValues> {
        let KeptSecrets { revisions, contexts, imports } = kept;
        let mut values = SecretValues::default();
        for sealed in revisions {
            let configuration = self.open_configuration(service.id, &sealed.configuration).await?;
            configuration.values.values().for_each(|value| values.add(value));
            let rendering = self.open_values(service.id, &sealed).await?;
            if let Some(set) = &rendering.helm.set {
                values.add(&set.value);
            }
            let inline = rendering.helm.inline.iter().chain(rendering.renderers.iter().flatten());
            inline.for_each(|document| values.add_document(document));
        }
        for context in &contexts {
            let secrets = self.context_secrets(context).await?;
            secrets.values.values().for_each(|value| values.add(value));
            let ServiceContext { created_at, updated_at, .. } = &context.context;
            if context.secrets.is_some() && updated_at != created_at {
                // Those that it had before are not kept, and a record of the sync that follows says what there was.
                values.were_others();
            }
            let outputs = self.context_output_secrets(context).await?;
            for output in &outputs {
                values.add(output);
            }
            if context.context.imports.iter().any(|import| import.sensitive) {
                // As with those of the service's own imports, below.
                values.were_others();
            }
        }
        for import in &imports {
            self.import_secrets(import).await?.iter().for_each(|value| values.add(value));
        }
        if imports.iter().any(|import| import.outputs.iter().any(|output| output.secret)) {
            // Each apply can give others, and a record of the sync that follows says what there was before.
            values.were_others();
        }
        // What the service itself says to everybody who may see it.
        values.is_public(service.name.as_str());
        values.is_public(service.namespace.as_str());
        Ok(values)
    }
}

/// How a value begins that is stored sealed.
const SEALED: &str = "sealed:";

/// What values of fields that an agent told of a service are sealed for.
fn told_context(id: ServiceId) -> String {
    format!("service:{id}:told")
}

/// What an agent tells of fields' values: a ConfigMap holds what its service was configured with.
fn told_values(report: &mut SyncReport) -> impl Iterator<Item = &mut String> {
    let others = report.candidates.iter_mut().map(|told| &mut told.plan);
    let plans = report.plan.iter_mut().chain(others);
    let planned = plans.flat_map(|plan| &mut plan.objects).map(|object| &mut object.fields);
    let drifted = report.drift.iter_mut().map(|drift| &mut drift.fields);
    let fields = planned.chain(drifted).flatten().filter(|field| !field.hidden);
    fields.flat_map(|field| [&mut field.before, &mut field.after]).flatten()
}

fn seal_values(key: &Sealing<'_>, services: &mut [ServiceReportRow]) -> Result<()> {
    for service in services {
        let context = told_context(service.id);
        for value in told_values(&mut service.sync) {
            let sealed = key.seal(&context, value.as_bytes())?;
            *value = format!("{SEALED}{}", hex::encode(sealed.as_bytes()));
        }
    }
    Ok(())
}

impl App {
    /// Seals the values in a report of a cluster's agent. Most reports have none, and need no key. Where no key opens, the values are
    /// left out, and the rest of the report goes on: health and progress of the fleet do not wait for a key service.
    pub(crate) async fn seal_told(
        &self,
        cluster: ClusterId,
        services: &mut [ServiceReportRow],
    ) -> Result<()> {
        let has_values = services.iter_mut().any(|service| told_values(&mut service.sync).next().is_some());
        if !has_values {
            return Ok(());
        }
        let owner = self.owner_on(cluster).await?;
        match self.sealer.sealing(owner).await {
            Ok(key) => seal_values(&key, services),
            Err(error) => {
                // That a key does not open is in the log already: how often an agent tells something does not fill it.
                tracing::debug!(
                    cluster.id = %cluster, error = error.log_text(), "values of fields are not kept: no key seals them"
                );
                for service in services {
                    told_values(&mut service.sync).for_each(|value| *value = format!("\"{MASK}\""));
                }
                Ok(())
            }
        }
    }
}

impl App {
    /// Opens what [`App::seal_told`] sealed. Those of an earlier release are not sealed.
    async fn open_told(&self, id: ServiceId, fields: &mut [FieldChange]) {
        // Loops instead of closures: what is borrowed across an await must not depend on a closure's lifetime.
        for field in fields {
            for value in [&mut field.before, &mut field.after] {
                let Some(text) = value else { continue };
                let Some(sealed) = text.strip_prefix(SEALED) else { continue };
                let opened = match hex::decode(sealed) {
                    Ok(bytes) => self.sealer.open(&told_context(id), &Sealed::from_bytes(bytes)).await.ok(),
                    Err(_) => None,
                };
                let opened = opened.and_then(|bytes| String::from_utf8(bytes).ok());
                *text = opened.unwrap_or_else(|| MASK.to_owned());
            }
        }
    }

    /// Plans as the caller may see them.
    pub(crate) async fn plans_shown<'p>(
        &self,
        ctx: &OpCtx,
        plans: impl IntoIterator<Item = &'p mut SyncPlan>,
    ) -> Result<()> {
        let plans: Vec<&mut SyncPlan> = plans.into_iter().collect();
        let masks = self.masks(ctx, plans.iter().map(|plan| plan.service_id)).await?;
        for told in plans {
            for object in &mut told.objects {
                self.open_told(told.service_id, &mut object.fields).await;
            }
            masks.apply(told.service_id, told, plan);
        }
        Ok(())
    }

    /// The same of foreign changes.
    pub(crate) async fn drift_shown<'p>(
        &self,
        ctx: &OpCtx,
        events: impl IntoIterator<Item = &'p mut DriftEvent>,
    ) -> Result<()> {
        let events: Vec<&mut DriftEvent> = events.into_iter().collect();
        let masks = self.masks(ctx, events.iter().map(|event| event.service_id)).await?;
        for event in events {
            self.open_told(event.service_id, &mut event.told.fields).await;
            masks.apply(event.service_id, event, drift);
        }
        Ok(())
    }
}

/// May read everything.
fn is_administrator(ctx: &OpCtx) -> bool {
    match ctx.actor() {
        Actor::System => true,
        Actor::User(user) => user.admin,
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) => false,
    }
}

/// Hides values in what a service renders to.
pub(crate) fn preview(masker: &Masker, preview: &mut Preview) {
    for object in &mut preview.objects {
        masker.value(&mut object.value);
        masker.string(&mut object.path);
    }
    preview.errors.iter_mut().for_each(|told| error(masker, told));
}

/// Hides values in what is wrong.
pub(crate) fn error(masker: &Masker, error: &mut ServiceError) {
    let ServiceError { source: _, message, warning: _, terminal: _, location } = error;
    masker.string(message);
    option(masker, location);
}

/// Hides values in why a service of a fleet plan is not planned.
pub(crate) fn fleet_part(masker: &Masker, part: &mut FleetPlanPart) {
    option(masker, &mut part.error);
}

/// Hides values in what an agent saw.
pub(crate) fn component(masker: &Masker, component: &mut Component) {
    let Component { id: _, service_id: _, key, state: _, synced: _, uid: _, message, children } = component;
    component_key(masker, key);
    option(masker, message);
    for child in children {
        let ComponentChild { key, uid: _, parent_uid: _, state: _, message } = child;
        component_key(masker, key);
        option(masker, message);
    }
}

/// The same in an object whose API goes away.
pub(crate) fn deprecated(masker: &Masker, deprecated: &mut DeprecatedComponent) {
    component(masker, &mut deprecated.component);
}

/// Hides values in what objects say of themselves.
pub(crate) fn metadata(masker: &Masker, metadata: &mut ServiceMetadata) {
    let ServiceMetadata { images, fqdns } = metadata;
    images.iter_mut().chain(fqdns).for_each(|text| masker.scalar(text));
}

/// Hides values in why a service's status became another.
pub(crate) fn health_change(masker: &Masker, change: &mut HealthChange) {
    let HealthChange {
        id: _,
        service_id: _,
        revision_id: _,
        sha: _,
        from: _,
        to: _,
        reason,
        failing_since: _,
        at: _,
    } = change;
    option(masker, reason);
}

/// Hides all of why a service's status became another: nobody knows any more what was secret then.
pub(crate) fn forgotten_health_change(_masker: &Masker, change: &mut HealthChange) {
    if let Some(reason) = &mut change.reason {
        MASK.clone_into(reason);
    }
}

/// Hides values in how far a sync is.
pub(crate) fn sync(masker: &Masker, sync: &mut ServiceSync) {
    let ServiceSync { ask: _, progress, pending, request_done: _, promoted } = sync;
    if let Some(SyncProgress { waiting_for, hooks, .. }) = progress {
        for SyncWaiting { object, why } in waiting_for {
            object_ref(masker, object);
            masker.string(why);
        }
        for SyncHook { object, phase: _, outcome: _, message } in hooks {
            object_ref(masker, object);
            option(masker, message);
        }
    }
    if let Some(PendingApproval { digest: _, reason, objects, count: _ }) = pending {
        masker.string(reason);
        for object in objects {
            object_ref(masker, object);
        }
    }
    if let Some(Promoted { id: _, problems }) = promoted {
        for problem in problems {
            masker.string(problem);
        }
    }
}

/// Hides values in what a sync did, or would do.
fn plan(masker: &Masker, plan: &mut SyncPlan) {
    option(masker, &mut plan.error);
    for planned in &mut plan.objects {
        let PlannedObject {
            object,
            version: _,
            action: _,
            phase: _,
            wave: _,
            why,
            fields,
            fields_omitted: _,
            location,
        } = planned;
        object_ref(masker, object);
        option(masker, why);
        option(masker, location);
        for change in fields {
            field(masker, change);
        }
    }
}

/// Hides values in a foreign change.
fn drift(masker: &Masker, event: &mut DriftEvent) {
    let told = &mut event.told;
    object_ref(masker, &mut told.object);
    option(masker, &mut told.what);
    told.fields.iter_mut().for_each(|change| field(masker, change));
}

fn field(masker: &Masker, change: &mut FieldChange) {
    let FieldChange { path, before, after, hidden: _, manager, written_at: _ } = change;
    masker.string(path);
    [before, after].into_iter().flatten().for_each(|value| masker.recorded(value));
    option(masker, manager);
}

fn object_ref(masker: &Masker, object: &mut ObjectRef) {
    let ObjectRef { group, kind, namespace, name } = object;
    for text in [group, kind, namespace, name] {
        masker.scalar(text);
    }
}

fn component_key(masker: &Masker, key: &mut ComponentKey) {
    let ComponentKey { group, version: _, kind, namespace, name } = key;
    for text in [group, kind, namespace, name] {
        masker.scalar(text);
    }
}

fn option(masker: &Masker, text: &mut Option<String>) {
    if let Some(text) = text {
        masker.string(text);
    }
}
