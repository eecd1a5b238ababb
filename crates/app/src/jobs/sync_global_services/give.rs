//! The clusters' instances of one generation.

use std::collections::{BTreeMap, HashMap};

use plural_core::cluster::Cluster;
use plural_core::global_service::{ServiceTemplate, TemplateSecrets};
use plural_core::ids::{ClusterId, ServiceId};
use plural_core::service::{NewService, Service, ServiceChange};
use plural_core::{Error, Result};

use super::is_ours;
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::global_service::{Generation, GlobalServiceWork, Instance, Ownership, looks_templated};
use crate::service::ServiceSelector;

/// A generation with its secrets in clear.
pub(super) struct Given<'a> {
    pub(super) work: &'a GlobalServiceWork,
    pub(super) generation: &'a Generation,
    pub(super) secrets: TemplateSecrets,
}

/// Clusters that cannot have it, and why.
pub(super) type Refused = BTreeMap<ClusterId, Error>;

/// What is written for clusters.
#[derive(Default)]
struct Gifts {
    made: Vec<(ClusterId, NewService)>,
    changed: Vec<(ClusterId, ServiceId, ServiceChange)>,
    /// Those that are held back where they are. Mostly they cannot be changed, which is no news for the others.
    held: Vec<(ClusterId, ServiceId, ServiceChange)>,
}

impl Given<'_> {
    /// Gives it to clusters, each of which comes with its instance if it has one.
    ///
    /// # Errors
    /// What is wrong with the console itself.
    pub(super) async fn to(
        &self,
        app: &App,
        ctx: &OpCtx,
        clusters: &[(&Cluster, Option<&Instance>)],
    ) -> Result<Refused> {
        let mut refused = Refused::new();
        let Gifts { made, changed, held } = self.gifts(app, clusters, &mut refused).await?;
        let owner = Ownership { owner: self.work.global.id, generation: self.generation.number };
        let at_once =
            made.len() > 1 && is_done(Box::pin(app.instances_make(ctx, made.clone(), owner)).await)?;
        for (cluster, new) in made.into_iter().filter(|_| !at_once) {
            let selector = ClusterSelector::Id(cluster);
            let outcome = app.service_make(ctx, &selector, new, Some(owner)).await;
            note(&mut refused, cluster, outcome.map(drop))?;
        }
        let all = changed.iter().map(|(_, id, change)| (*id, change.clone())).collect();
        let at_once = changed.len() > 1 && is_done(Box::pin(app.instances_change(ctx, all, owner)).await)?;
        for (cluster, id, change) in changed.into_iter().filter(|_| !at_once).chain(held) {
            let outcome = app.service_change(ctx, &ServiceSelector::Id(id), change, Some(owner)).await;
            note(&mut refused, cluster, outcome.map(drop))?;
        }
        Ok(refused)
    }

    async fn gifts(
        &self,
        app: &App,
        clusters: &[(&Cluster, Option<&Instance>)],
        refused: &mut Refused,
    ) -> Result<Gifts> {
        let mut expanded = Vec::with_capacity(clusters.len());
        let mut names = Vec::new();
        for (cluster, instance) in clusters {
            let template = self.template(app, cluster).and_then(|(template, secrets)| {
                if instance.is_none() {
                    let name = template.instance_name(&self.work.global.name)?;
                    names.push((cluster.id, name.to_string()));
                }
                Ok((template, secrets))
            });
            match template {
                Ok((template, secrets)) => expanded.push((cluster.id, *instance, template, secrets)),
                Err(error) => note(refused, cluster.id, Err(error))?,
            }
        }
        let there = app.store.services_named(&names).await?;
        let there: HashMap<ClusterId, Service> =
            there.into_iter().map(|service| (service.cluster_id, service)).collect();
        let mut gifts = Gifts::default();
        for (cluster, instance, template, secrets) in expanded {
            let sorted =
                gifts.sort(self.work, (cluster, instance), there.get(&cluster), (&template, &secrets));
            note(refused, cluster, sorted)?;
        }
        Ok(gifts)
    }

    /// It as it is for one cluster.
    fn template(&self, app: &App, cluster: &Cluster) -> Result<(ServiceTemplate, TemplateSecrets)> {
        let Self { generation, secrets, .. } = self;
        let (mut template, secrets) = match &generation.context {
            None => (generation.template.clone(), secrets.clone()),
            Some(context) => expand(app, context, cluster, &generation.template, secrets)?,
        };
        if let (Some(git), Some(sha)) = (&mut template.git, &generation.sha) {
            git.reference.clone_from(sha);
        }
        Ok((template, secrets))
    }
}

impl Gifts {
    fn sort(
        &mut self,
        GlobalServiceWork { global, .. }: &GlobalServiceWork,
        (cluster, instance): (ClusterId, Option<&Instance>),
        there: Option<&Service>,
        (template, secrets): (&ServiceTemplate, &TemplateSecrets),
    ) -> Result<()> {
        match (instance, there) {
            (Some(instance), _) => {
                let list = if instance.pinned { &mut self.held } else { &mut self.changed };
                list.push((cluster, instance.service_id, template.change(secrets)?));
            }
            (None, None) => self.made.push((cluster, template.instance(&global.name, secrets)?)),
            // It was made a moment ago; the next look knows it.
            (None, Some(service)) if service.owner == Some(global.id) => {}
            (None, Some(service)) if global.spec.reparent && service.owner.is_none() => {
                self.held.push((cluster, service.id, template.change(secrets)?));
            }
            (None, Some(service)) => {
                let way = match template.rendering.managed_namespace {
                    None => "rename the template, or set reparent to adopt the service",
                    Some(_) => "only one managed namespace can hold a namespace",
                };
                return Err(Error::conflict(format!("already has a service named {}; {way}", service.name)));
            }
        }
        Ok(())
    }
}

/// Whether all were written. Where one of them is to blame that none were, they are tried one by one.
fn is_done(outcome: Result<()>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if is_ours(&error) => Err(error),
        Err(_) => Ok(false),
    }
}

fn note(refused: &mut Refused, cluster: ClusterId, outcome: Result<()>) -> Result<()> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) if is_ours(&error) => Err(error),
        Err(error) => {
            refused.insert(cluster, error);
            Ok(())
        }
    }
}

/// A template with everything in it expanded for one cluster.
fn expand(
    app: &App,
    context: &serde_json::Map<String, serde_json::Value>,
    cluster: &Cluster,
    template: &ServiceTemplate,
    secrets: &TemplateSecrets,
) -> Result<(ServiceTemplate, TemplateSecrets)> {
    let data = serde_json::json!({
        "context": context,
        "cluster": {
            "id": cluster.id,
            "name": cluster.name.as_str(),
            "handle": cluster.handle.as_str(),
            "distro": cluster.distro.map(plural_core::cluster::ClusterDistro::as_str),
            "version": cluster.facts.current_version,
            "tags": cluster.tags,
            "metadata": cluster.metadata,
        },
    });
    let internal = |cause| Error::internal("writing a template", cause);
    let mut template = serde_json::to_value(template).map_err(internal)?;
    texts(&mut template, &mut |text| {
        app.templates
            .expand(text, &data)
            .map_err(|reason| Error::invalid("attributes.template", format!("cannot be expanded: {reason}")))
    })?;
    let mut secrets = serde_json::to_value(secrets).map_err(internal)?;
    texts(&mut secrets, &mut |text| {
        // The reason could quote a value, and is told to whoever may see the global service.
        app.templates.expand(text, &data).map_err(|_| {
            let reason = "cannot be expanded: a configuration value or an inline value is a template with a mistake in it";
            Error::invalid("attributes.template", reason)
        })
    })?;
    // Not the parser's own message: it could quote a value.
    let parsed = |_| Error::invalid("attributes.template", "is not valid after template expansion");
    Ok((serde_json::from_value(template).map_err(parsed)?, serde_json::from_value(secrets).map_err(parsed)?))
}

/// Changes every text in a value that looks like a template.
fn texts(value: &mut serde_json::Value, change: &mut impl FnMut(&str) -> Result<String>) -> Result<()> {
    match value {
        serde_json::Value::String(text) if looks_templated(text) => {
            *text = change(text)?;
            Ok(())
        }
        serde_json::Value::Array(items) => items.iter_mut().try_for_each(|item| texts(item, change)),
        serde_json::Value::Object(fields) => fields.values_mut().try_for_each(|field| texts(field, change)),
        _ => Ok(()),
    }
}
