//! What a service is tied to: what is asked for, and how it is shown.

use std::fmt::Write as _;

use plural_wire::{
    Client, ContextBindingAttributes, LinksAttributes, ServiceDependency, ServiceDependencyAttributes,
    ServiceImport, ServiceImportAttributes,
};

use crate::{
    args::LinksArgs,
    contexts,
    error::CliError,
    key::bare_service,
    output::{columns, or_dash},
    stacks,
};

/// What was named; what was not stays.
pub(crate) async fn attributes(args: &LinksArgs, client: &Client) -> Result<LinksAttributes, CliError> {
    let LinksArgs {
        depends_on,
        no_dependencies,
        contexts: names,
        no_contexts,
        imports: stacks_named,
        no_imports,
    } = args;
    let mut bindings = Vec::with_capacity(names.len());
    for name in names {
        bindings.push(ContextBindingAttributes { context_id: contexts::find(client, name).await?.id });
    }
    let mut imports = Vec::with_capacity(stacks_named.len());
    for name in stacks_named {
        imports.push(ServiceImportAttributes { stack_id: stacks::find(name, client).await?.id });
    }
    let imports = (!stacks_named.is_empty() || *no_imports).then_some(imports);
    let named = !depends_on.is_empty() || *no_dependencies;
    let dependencies = named.then(|| {
        depends_on
            .iter()
            .map(|name| ServiceDependencyAttributes { cluster: None, name: bare_service(name).to_owned() })
            .collect()
    });
    let context_bindings = (!names.is_empty() || *no_contexts).then_some(bindings);
    Ok(LinksAttributes { dependencies, context_bindings, imports })
}

/// Names of the stacks that a service imports.
pub(crate) fn imported(imports: &[ServiceImport]) -> String {
    let stacks = imports.iter().filter_map(|import| import.stack.as_ref());
    stacks.map(|stack| stack.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A table of what a service depends on; nothing when it depends on nothing.
pub(crate) fn described(dependencies: &[ServiceDependency]) -> String {
    if dependencies.is_empty() {
        return String::new();
    }
    let mut rows = vec![["SERVICE", "STATUS", "WAITED FOR BECAUSE"].map(str::to_owned).to_vec()];
    rows.extend(dependencies.iter().map(
        |ServiceDependency { name, cluster, status, healthy: _, message }| {
            let address =
                cluster.as_ref().map_or_else(|| name.clone(), |cluster| format!("{cluster}/{name}"));
            vec![
                or_dash(Some(&address)),
                or_dash(status.map(plural_wire::ServiceDeploymentStatus::as_str)),
                or_dash(message.as_deref()),
            ]
        },
    ));
    let mut text = String::from("\nDepends on:\n");
    for row in columns(&rows, 3).lines() {
        let _ = writeln!(text, "  {row}");
    }
    text
}
