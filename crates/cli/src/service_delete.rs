//! `plural cd services delete`: what goes is shown before it goes.

use plural_wire::{
    Client, DeleteServiceCascade, DeleteServiceDeployment, DetachServiceDeployment, DoomedService,
    GetServiceDeletion, GetServiceDeployment, ObjectRef, ServiceDeletion, ServiceDetails,
    ServiceUpdateAttributes, UpdateServiceDeployment,
};

use crate::{
    args::ServiceDeleteArgs,
    error::CliError,
    output::{counted, or_dash},
    service_life::forgotten,
    service_sync::list_objects,
    services::{address, standing},
    sync_args::namespace_goes,
    terminal::Terminal,
    wait,
};

pub(crate) async fn run(
    args: ServiceDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceDetails { service, components, sync_config, .. } = args.service.get(client).await?;
    let address = address(&service);
    if args.soft {
        terminal.confirm(&forgotten(&address, components.len()), args.confirm.yes)?;
        client.send(&DetachServiceDeployment { id: service.id }).await?;
        terminal.say(format_args!("service {address} detached"));
        return Ok(());
    }
    // Whether it can be deleted at all is said before anything is asked.
    if service.protect == Some(true) {
        return Err(CliError::new(format!("service {address} is protected"))
            .hint(format!("`plural cd services update {address} --protect=false` removes the protection")));
    }
    let goes_already = sync_config.as_ref().is_some_and(|config| config.delete_namespace);
    if args.delete_namespace && !goes_already && service.pin.is_some() {
        return Err(CliError::new(format!(
            "service {address} is pinned to a revision, and whether its namespace goes with it would be another one"
        ))
        .hint(format!(
            "`plural cd services release {address}` first, which lets it go on to its newest revision; or delete it without \
             --delete-namespace, and the namespace afterwards with kubectl"
        )));
    }
    let ask = GetServiceDeletion { id: service.id.clone(), cascade: true };
    let deletion = client.send(&ask).await?;
    // A person's own deletion is its approval: this is what is approved.
    let plan = if args.cascade {
        shown_cascade(&deletion, &address, terminal)?
    } else {
        check_undepended(&deletion, &service.id, &address)?;
        let objects: Vec<ObjectRef> = components
            .iter()
            .map(|component| ObjectRef {
                group: component.group.clone().unwrap_or_default(),
                kind: component.kind.clone(),
                namespace: component.namespace.clone(),
                name: component.name.clone(),
            })
            .collect();
        let count = count(objects.len());
        if count > 0 {
            terminal.say("to be deleted, except what is annotated to stay:");
            list_objects(&objects, count, terminal);
        }
        if let Some(config) = &sync_config {
            let namespace = or_dash(Some(&service.namespace));
            if config.delete_namespace || args.delete_namespace {
                terminal
                    .say(format_args!("its namespace {namespace} is deleted as well, unless others use it"));
            } else if config.create_namespace {
                terminal.say(format_args!("its namespace {namespace} stays (--delete-namespace removes it)"));
            }
        }
        match objects.len() {
            0 => format!("delete service {address}, which has no objects"),
            all => format!("delete service {address} with its {}", counted(all, "object")),
        }
    };
    terminal.confirm(&plan, args.confirm.yes)?;
    if args.delete_namespace && !goes_already {
        let attributes = ServiceUpdateAttributes {
            sync_config: Some(namespace_goes()?),
            ..ServiceUpdateAttributes::default()
        };
        let id = Some(service.id.clone());
        client.send(&UpdateServiceDeployment { id, cluster: None, name: None, attributes }).await?;
    }
    if args.cascade {
        client.send(&DeleteServiceCascade { id: service.id.clone(), cascade: true }).await?;
    } else {
        client.send(&DeleteServiceDeployment { id: service.id.clone() }).await?;
    }
    let ask = GetServiceDeployment { id: Some(service.id), cluster: None, name: None };
    wait::until_gone(&format!("service {address}"), &args.wait, (client, &ask), terminal, standing).await
}

/// Shows the objects of all services that go, service by service in that order; the words to be confirmed.
fn shown_cascade(
    deletion: &ServiceDeletion,
    address: &str,
    terminal: &mut Terminal<'_>,
) -> Result<String, CliError> {
    let ServiceDeletion { services, hidden, omitted } = deletion;
    if let Some(hidden) = hidden.filter(|hidden| *hidden > 0) {
        return Err(hidden_dependents(hidden, address));
    }
    terminal.say("to be deleted, in this order, except what is annotated to stay:");
    let mut objects = 0;
    for service in services {
        let DoomedService { id: _, name: _, cluster: _, protect, components } = service;
        let kept = if *protect == Some(true) { ", which is protected" } else { "" };
        objects += components.len();
        let all = counted(components.len(), "object");
        terminal.say(format_args!("service {}{kept}, {all}:", name_of(service)));
        list_objects(components, count(components.len()), terminal);
    }
    let more = match omitted {
        Some(omitted) if *omitted > 0 => {
            let others = counted(usize::try_from(*omitted).unwrap_or_default(), "more service");
            terminal.say(format_args!("and {others}"));
            format!(" and {others}")
        }
        _ => String::new(),
    };
    let objects = counted(objects, "object");
    Ok(match services.len() {
        0 | 1 => format!("delete service {address} with its {objects}"),
        all => format!("delete {objects} of {}{more}, service {address} last", counted(all, "service")),
    })
}

/// Refuses what the console would refuse after the question: a service that others depend on.
fn check_undepended(deletion: &ServiceDeletion, id: &str, address: &str) -> Result<(), CliError> {
    if let Some(hidden) = deletion.hidden.filter(|hidden| *hidden > 0) {
        return Err(hidden_dependents(hidden, address));
    }
    let others: Vec<String> = deletion.services.iter().filter(|one| one.id != id).map(name_of).collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(CliError::new(format!("services depend on service {address}: {}", others.join(", ")))
        .hint("delete them first, end their dependency, or delete them with it: --cascade"))
}

fn hidden_dependents(hidden: i64, address: &str) -> CliError {
    let services = counted(usize::try_from(hidden).unwrap_or_default(), "service");
    let verb = if hidden == 1 { "depends" } else { "depend" };
    CliError::new(format!(
        "{services} that you may not see {verb} on service {address}: it cannot be deleted"
    ))
}

fn name_of(service: &DoomedService) -> String {
    let name = match &service.cluster {
        Some(cluster) => format!("{}/{}", cluster.handle.as_deref().unwrap_or(&cluster.id), service.name),
        None => service.name.clone(),
    };
    or_dash(Some(&name))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
