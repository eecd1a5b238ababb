//! `plural cd services delete`: what goes is shown before it goes.

use plural_wire::{
    Client, DeleteServiceCascade, DeleteServiceDeployment, DetachServiceDeployment, DoomedService,
    GetServiceDeletion, GetServiceDeployment, ObjectRef, ServiceDeletion, ServiceDetails,
};

use crate::{
    args::ServiceDeleteArgs,
    error::CliError,
    output::or_dash,
    service_sync::list_objects,
    services::{address, standing},
    terminal::Terminal,
    wait,
};

pub(crate) async fn run(
    args: ServiceDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ServiceDetails { service, components, .. } = args.service.get(client).await?;
    let address = address(&service);
    if args.soft {
        let plan =
            format!("service {address} is removed from the console; its {} objects stay", components.len());
        terminal.confirm(&plan, args.confirm.yes)?;
        client.send(&DetachServiceDeployment { id: service.id }).await?;
        terminal.say(format_args!("service {address} detached"));
        return Ok(());
    }
    // A person's own deletion is its approval: this is what is approved.
    let plan = if args.cascade {
        let ask = GetServiceDeletion { id: service.id.clone(), cascade: true };
        shown_cascade(&client.send(&ask).await?, &address, terminal)?
    } else {
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
            terminal.say("to be removed, except what is annotated to stay:");
            list_objects(&objects, count, terminal);
        }
        format!("the {count} objects of service {address} are removed from its cluster")
    };
    terminal.confirm(&plan, args.confirm.yes)?;
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
        return Err(CliError::new(format!(
            "{hidden} services that you may not see depend on service {address}: it cannot be deleted with them"
        )));
    }
    terminal.say("to be removed, in this order, except what is annotated to stay:");
    let mut objects = 0;
    for DoomedService { id: _, name, cluster, protect, components } in services {
        let name = match cluster {
            Some(cluster) => format!("{}/{name}", cluster.handle.as_deref().unwrap_or(&cluster.id)),
            None => name.clone(),
        };
        let kept = if *protect == Some(true) { ", which is protected" } else { "" };
        objects += components.len();
        let plural = if components.len() == 1 { "" } else { "s" };
        let all = components.len();
        terminal.say(format_args!("service {}{kept}, {all} object{plural}:", or_dash(Some(&name))));
        list_objects(components, count(components.len()), terminal);
    }
    let more = match omitted {
        Some(omitted) if *omitted > 0 => {
            terminal.say(format_args!("and {omitted} more services"));
            format!(", and those of {omitted} more services,")
        }
        _ => String::new(),
    };
    Ok(match services.len() {
        0 | 1 => format!("the {objects} objects of service {address} are removed from its cluster"),
        all => format!(
            "the {objects} objects of {all} services{more} are removed from their clusters, service {address} last"
        ),
    })
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
