//! One cluster's instance of one generation.

use plural_core::{Cluster, Error, Result, ServiceTemplate, TemplateSecrets};

use crate::app::App;
use crate::binding::BindingsChange;
use crate::ctx::OpCtx;
use crate::global_service::looks_templated;
use crate::ports::{ClusterSelector, Generation, GlobalServiceWork, Instance, Ownership, ServiceSelector};

/// A generation with its secrets in clear.
pub(super) struct Given<'a> {
    pub(super) work: &'a GlobalServiceWork,
    pub(super) generation: &'a Generation,
    pub(super) secrets: TemplateSecrets,
}

impl Given<'_> {
    /// Gives it to one cluster, whose instance this is if it has one.
    pub(super) async fn to(
        &self,
        app: &App,
        ctx: &OpCtx,
        cluster: &Cluster,
        instance: Option<&Instance>,
    ) -> Result<()> {
        let Self { work: GlobalServiceWork { global, .. }, generation, secrets } = self;
        let ownership = Some(Ownership { owner: global.id, generation: generation.number });
        let (mut template, secrets) = match &generation.context {
            None => (generation.template.clone(), secrets.clone()),
            Some(context) => expand(app, context, cluster, &generation.template, secrets)?,
        };
        if let (Some(git), Some(sha)) = (&mut template.git, &generation.sha) {
            git.reference.clone_from(sha);
        }
        if let Some(instance) = instance {
            let selector = ServiceSelector::Id(instance.service_id);
            return app.service_change(ctx, &selector, template.change(&secrets)?, ownership).await.map(drop);
        }
        let name = template.instance_name(&global.name)?;
        match app.store.service_named(cluster.id, name.as_str()).await? {
            None => {
                let new = template.instance(&global.name, &secrets)?;
                let selector = ClusterSelector::Id(cluster.id);
                app.service_make(ctx, &selector, new, BindingsChange::default(), ownership).await.map(drop)
            }
            Some(service) if service.owner == Some(global.id) => Ok(()),
            Some(service) if global.spec.reparent && service.owner.is_none() => {
                let selector = ServiceSelector::Id(service.id);
                app.service_change(ctx, &selector, template.change(&secrets)?, ownership).await.map(drop)
            }
            Some(_) => {
                let way = match template.rendering.managed_namespace {
                    None => "give the template another name, or set reparent to take it over",
                    Some(_) => "only one managed namespace can hold a namespace",
                };
                Err(Error::conflict(format!("has a service {name} of its own: {way}")))
            }
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
            "distro": cluster.distro.map(plural_core::ClusterDistro::as_str),
            "version": cluster.facts.current_version,
            "tags": cluster.tags,
            "metadata": cluster.metadata,
        },
    });
    let internal = |cause| Error::internal("writing a template", cause);
    let mut all = serde_json::to_value((template, secrets)).map_err(internal)?;
    texts(&mut all, &mut |text| {
        app.templates
            .expand(text, &data)
            .map_err(|reason| Error::invalid("attributes.template", format!("cannot be expanded: {reason}")))
    })?;
    // Not the parser's own message: it could quote a value.
    serde_json::from_value(all)
        .map_err(|_| Error::invalid("attributes.template", "is no template any more once it is expanded"))
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
