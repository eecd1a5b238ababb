//! What a service is given.

use std::collections::BTreeMap;

use async_graphql::{ID, InputObject, MaybeUndefined};
use plural_core::service::{
    Configuration, ConfigurationEdit, ConfigurationValue, FileKeyRef, GitRef, KeyRef, NewService, Reference,
    ServiceChange, VaultKeyRef,
};
use plural_core::specs::{Document as _, Edit, Fault, Seconds, SyncConfig};
use plural_core::{Error, Result};
use plural_specs::SyncConfigPatch;

use super::{
    dependency::{ServiceDependencyAttributes, links},
    error::{List, id_in, items, parse, parse_option, unsupported},
    global_service_input::NO_PARENT,
    rendering_input::{
        HelmConfigAttributes, KustomizeAttributes, RendererAttributes, RenderingAttributes,
        ServiceSourceAttributes,
    },
    service_context::ContextBindingAttributes,
    service_import::ServiceImportAttributes,
    shared::{PolicyBindingAttributes, RbacAttributes},
};

/// A place in a repository.
#[derive(Debug, InputObject)]
pub(crate) struct GitRefAttributes {
    /// Branch, tag, commit, or semver range of tags.
    #[graphql(name = "ref")]
    reference: String,
    /// Folder, empty for the root.
    folder: String,
    /// Further files to take along.
    files: Option<Vec<String>>,
}

/// A value for templates.
#[derive(InputObject)]
pub(crate) struct ConfigAttributes {
    /// Its name.
    name: String,
    /// Its value.
    value: Option<String>,
    /// Where the agent of the service's cluster finds the value, instead of `value`.
    value_from: Option<ConfigurationReferenceAttributes>,
}

/// Where the agent of the service's cluster finds a value; exactly one.
#[derive(InputObject)]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(crate) struct ConfigurationReferenceAttributes {
    /// A key of a Secret.
    secret_key_ref: Option<ConfigurationKeyRefAttributes>,
    /// A key of a ConfigMap.
    config_map_key_ref: Option<ConfigurationKeyRefAttributes>,
    /// A key of a secret in the Vault that the agent's operator names. It is read as the service's ServiceAccount.
    vault_key_ref: Option<ConfigurationVaultRefAttributes>,
    /// A value of a file that SOPS encrypted for an age recipient of the project.
    sops_key_ref: Option<ConfigurationFileRefAttributes>,
    /// A file that age encrypted for a recipient of the project, or a value of it.
    age_key_ref: Option<ConfigurationFileRefAttributes>,
}

/// A key of a secret in Vault.
#[derive(InputObject)]
pub(crate) struct ConfigurationVaultRefAttributes {
    /// The secret, with its mount first: `secret/shop/db`.
    path: String,
    /// The key in it.
    key: String,
}

/// A value in a file of the service's source.
#[derive(InputObject)]
pub(crate) struct ConfigurationFileRefAttributes {
    /// The file, from the service's folder.
    file: String,
    /// The value in it, as keys with dots between them; the whole file when absent.
    key: Option<String>,
}

/// A key of an object.
#[derive(InputObject)]
pub(crate) struct ConfigurationKeyRefAttributes {
    /// Name of the object.
    name: String,
    /// The key in its data.
    key: String,
    /// Its namespace; the service's own when absent. Another one takes the limit `referenceNamespaces` of the project.
    namespace: Option<String>,
}

impl ConfigurationReferenceAttributes {
    fn parse(self, argument: &'static str, name: &str) -> Result<Reference> {
        let Self { secret_key_ref, config_map_key_ref, vault_key_ref, sops_key_ref, age_key_ref } = self;
        let key = |ConfigurationKeyRefAttributes { name, key, namespace }| KeyRef { name, key, namespace };
        let vault = |ConfigurationVaultRefAttributes { path, key }| VaultKeyRef { path, key };
        let file = |ConfigurationFileRefAttributes { file, key }| FileKeyRef { file, key };
        let given = [
            secret_key_ref.map(key).map(Reference::SecretKeyRef),
            config_map_key_ref.map(key).map(Reference::ConfigMapKeyRef),
            vault_key_ref.map(vault).map(Reference::VaultKeyRef),
            sops_key_ref.map(file).map(Reference::SopsKeyRef),
            age_key_ref.map(file).map(Reference::AgeKeyRef),
        ];
        let mut given = given.into_iter().flatten();
        if let (Some(reference), None) = (given.next(), given.next()) {
            return Ok(reference);
        }
        let reason = format!(
            "the reference of {name:?} must be one of secretKeyRef, configMapKeyRef, vaultKeyRef, sopsKeyRef and ageKeyRef"
        );
        Err(Error::invalid(argument, reason))
    }
}

/// What a new service is given.
#[derive(InputObject)]
pub(crate) struct ServiceDeploymentAttributes {
    /// Name, unique on its cluster.
    name: String,
    /// Namespace that its objects go to unless they name one.
    namespace: String,
    /// A label for people.
    version: Option<String>,
    /// Folder in the repository with documentation.
    docs_path: Option<String>,
    /// How it is applied.
    sync_config: Option<SyncConfigPatch>,
    /// Refuse its deletion.
    protect: Option<bool>,
    /// The repository.
    repository_id: Option<ID>,
    /// Plan and report, apply nothing.
    dry_run: Option<bool>,
    /// Time between full checks: `90s`, `5m`, `1h`.
    interval: Option<String>,
    /// Render `.liquid` files.
    templated: Option<bool>,
    /// Where in the repository.
    git: Option<GitRefAttributes>,
    /// A chart, and how it is rendered; null clears it.
    helm: MaybeUndefined<HelmConfigAttributes>,
    /// A Kustomization in the folder; null clears it.
    kustomize: MaybeUndefined<KustomizeAttributes>,
    /// What renders which part of the folder, instead of what its root holds.
    renderers: MaybeUndefined<Vec<Option<RendererAttributes>>>,
    /// Further places in git whose files join the service's.
    sources: MaybeUndefined<Vec<Option<ServiceSourceAttributes>>>,
    /// Values for templates.
    configuration: List<ConfigAttributes>,
    /// Services that have to be healthy before it gets a revision.
    dependencies: List<ServiceDependencyAttributes>,
    /// Contexts that its templates read.
    context_bindings: List<ContextBindingAttributes>,
    /// Who may look at it.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it.
    write_bindings: List<PolicyBindingAttributes>,
    /// Refused: a service is not made by another one here.
    parent_id: Option<ID>,
    /// Refused: agents for coding are not part of this console.
    agent_id: Option<ID>,
    /// Refused: there are no flows here.
    flow_id: Option<ID>,
    /// Stacks whose outputs its templates read, as `imports["NAME"]`.
    imports: List<ServiceImportAttributes>,
}

/// What of a service changes; what is absent stays as it is.
#[derive(InputObject)]
pub(crate) struct ServiceUpdateAttributes {
    /// Another namespace for its objects; those in the one before are deleted once that is approved.
    namespace: Option<String>,
    /// A label for people.
    version: Option<String>,
    /// How it is applied.
    sync_config: Option<SyncConfigPatch>,
    /// Refuse its deletion.
    protect: Option<bool>,
    /// The repository.
    repository_id: Option<ID>,
    /// Plan and report, apply nothing.
    dry_run: Option<bool>,
    /// Time between full checks: `90s`, `5m`, `1h`.
    interval: Option<String>,
    /// Render `.liquid` files.
    templated: Option<bool>,
    /// Where in the repository.
    git: Option<GitRefAttributes>,
    /// A chart, and how it is rendered; null clears it.
    helm: MaybeUndefined<HelmConfigAttributes>,
    /// A Kustomization in the folder; null clears it.
    kustomize: MaybeUndefined<KustomizeAttributes>,
    /// What renders which part of the folder, instead of what its root holds; replaces the list.
    renderers: MaybeUndefined<Vec<Option<RendererAttributes>>>,
    /// Further places in git whose files join the service's; replaces the list.
    sources: MaybeUndefined<Vec<Option<ServiceSourceAttributes>>>,
    /// Values for templates; replaces the whole list.
    configuration: List<ConfigAttributes>,
    /// Values for templates that are set, or removed where the value is null; all others stay. Not together with
    /// `configuration`.
    merge_configuration: List<ConfigAttributes>,
    /// Services that have to be healthy before it gets a new revision; replaces the list.
    dependencies: List<ServiceDependencyAttributes>,
    /// Contexts that its templates read; replaces the list.
    context_bindings: List<ContextBindingAttributes>,
    /// Who may look at it; replaces the list.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it; replaces the list.
    write_bindings: List<PolicyBindingAttributes>,
    /// Refused: a service is not made by another one here.
    parent_id: Option<ID>,
    /// Refused: agents for coding are not part of this console.
    agent_id: Option<ID>,
    /// Refused: there are no flows here.
    flow_id: Option<ID>,
    /// Stacks whose outputs its templates read, as `imports["NAME"]`; replaces the list.
    imports: List<ServiceImportAttributes>,
}

impl ServiceDeploymentAttributes {
    /// The service, with who may do what with it.
    pub(crate) fn parse(self) -> Result<NewService> {
        let Self {
            name,
            namespace,
            version,
            docs_path,
            sync_config,
            protect,
            repository_id,
            dry_run,
            interval,
            templated,
            git,
            helm,
            kustomize,
            renderers,
            sources,
            configuration,
            dependencies,
            context_bindings,
            read_bindings,
            write_bindings,
            parent_id,
            agent_id,
            flow_id,
            imports,
        } = self;
        unserved(parent_id.as_ref(), agent_id.as_ref(), flow_id.as_ref())?;
        Ok(NewService {
            name: parse("attributes.name", &name)?,
            namespace: parse("attributes.namespace", &namespace)?,
            repository_id: id_in("attributes.repositoryId", repository_id.as_deref())?,
            git: git.map(GitRefAttributes::parse).transpose()?,
            rendering: RenderingAttributes { helm, kustomize, renderers, sources }.change()?,
            version,
            docs_path,
            sync_config: new_sync_config(sync_config)?,
            protect: protect.unwrap_or(false),
            dry_run: dry_run.unwrap_or(false),
            templated: templated.unwrap_or(true),
            interval_seconds: interval_seconds(interval.as_deref())?,
            configuration: values(configuration)?.unwrap_or_default(),
            links: links(dependencies, context_bindings, imports)?,
            bindings: RbacAttributes { read_bindings, write_bindings, admin_bindings: None }.change()?,
        })
    }
}

impl ServiceUpdateAttributes {
    /// The change, with who may do what with the service.
    pub(crate) fn parse(self) -> Result<ServiceChange> {
        let Self {
            namespace,
            version,
            sync_config,
            protect,
            repository_id,
            dry_run,
            interval,
            templated,
            git,
            helm,
            kustomize,
            renderers,
            sources,
            configuration,
            merge_configuration,
            dependencies,
            context_bindings,
            read_bindings,
            write_bindings,
            parent_id,
            agent_id,
            flow_id,
            imports,
        } = self;
        unserved(parent_id.as_ref(), agent_id.as_ref(), flow_id.as_ref())?;
        Ok(ServiceChange {
            namespace: parse_option("attributes.namespace", namespace.as_deref())?,
            repository_id: id_in("attributes.repositoryId", repository_id.as_deref())?,
            git: git.map(GitRefAttributes::parse).transpose()?,
            rendering: RenderingAttributes { helm, kustomize, renderers, sources }.change()?,
            version,
            sync_config: sync_config.map(sync_config_patch).transpose()?,
            protect,
            dry_run,
            templated,
            interval_seconds: interval_seconds(interval.as_deref())?,
            configuration: configuration_edit(configuration, merge_configuration)?,
            links: links(dependencies, context_bindings, imports)?,
            bindings: RbacAttributes { read_bindings, write_bindings, admin_bindings: None }.change()?,
        })
    }
}

/// Refuses what clients of the original console may tie a service to.
fn unserved(parent: Option<&ID>, agent: Option<&ID>, flow: Option<&ID>) -> Result<()> {
    let named = |id: Option<&ID>| id.is_some_and(|id| !id.is_empty());
    unsupported("attributes.parentId", named(parent), NO_PARENT)?;
    unsupported(
        "attributes.agentId",
        named(agent),
        "is not supported: agents for coding are not part of this console. Leave it out",
    )?;
    unsupported(
        "attributes.flowId",
        named(flow),
        "is not supported: there are no flows here. Leave it out, and group services by cluster, tags or project",
    )
}

impl GitRefAttributes {
    pub(super) fn parse(self) -> Result<GitRef> {
        let Self { reference, folder, files } = self;
        GitRef::new(&reference, &folder, &files.unwrap_or_default())
    }
}

/// A change of a configuration: all of it, or some values.
fn configuration_edit(
    all: List<ConfigAttributes>,
    some: List<ConfigAttributes>,
) -> Result<Option<ConfigurationEdit>> {
    match (values(all)?, named_values("attributes.mergeConfiguration", some)?) {
        (Some(_), Some(_)) => Err(Error::invalid(
            "attributes.mergeConfiguration",
            "cannot be given together with \"configuration\", which replaces all values",
        )),
        (all, some) => Ok(all.map(ConfigurationEdit::Replace).or(some.map(ConfigurationEdit::Merge))),
    }
}

pub(crate) fn values(list: List<ConfigAttributes>) -> Result<Option<Configuration>> {
    let values = named_values("attributes.configuration", list)?;
    let value =
        |(name, value): (String, Option<ConfigurationValue>)| (name, value.unwrap_or_else(|| "".into()));
    Ok(values.map(|values| values.into_iter().map(value).collect::<BTreeMap<_, _>>().into()))
}

fn named_values(
    argument: &'static str,
    list: List<ConfigAttributes>,
) -> Result<Option<BTreeMap<String, Option<ConfigurationValue>>>> {
    let Some(list) = items(list) else { return Ok(None) };
    let mut values = BTreeMap::new();
    for ConfigAttributes { name, value, value_from } in list {
        let value = match (value, value_from) {
            (value, None) => value.map(ConfigurationValue::Value),
            (None, Some(from)) => Some(from.parse(argument, &name)?.into()),
            (Some(_), Some(_)) => {
                return Err(Error::invalid(argument, format!("{name:?} has both a value and a reference")));
            }
        };
        if values.insert(name.clone(), value).is_some() {
            return Err(Error::invalid(argument, format!("lists {name:?} twice")));
        }
    }
    Ok(Some(values))
}

/// The sync config of something new.
pub(super) fn new_sync_config(given: Option<SyncConfigPatch>) -> Result<SyncConfig> {
    SyncConfig::made(given.unwrap_or_default()).map_err(in_sync_config)
}

/// A change of one. Its texts are parsed here, so that a fault names the argument; it is applied where the service is locked.
fn sync_config_patch(patch: SyncConfigPatch) -> Result<Edit<SyncConfig>> {
    new_sync_config(Some(patch.clone()))?;
    Ok(Edit::Patch(patch))
}

fn in_sync_config(fault: Fault) -> Error {
    fault.within("attributes.syncConfig").into()
}

/// `90s`, `5m`, `1h30m`, or a bare number of seconds.
fn interval_seconds(given: Option<&str>) -> Result<Option<u32>> {
    Ok(parse_option("attributes.interval", given)?.map(|Seconds(seconds)| seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_named_twice_is_refused() {
        let value = |text: &str| {
            Some(ConfigAttributes { name: "a".into(), value: Some(text.into()), value_from: None })
        };
        assert!(values(Some(vec![value("1"), value("2")])).is_err());
        assert_eq!(values(Some(vec![None, value("1")])).unwrap().unwrap().values["a"], "1");
        assert!(values(None).unwrap().is_none());
    }
}
