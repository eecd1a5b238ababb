//! `plural get`: tables for people, documents that `plural apply` takes back.

use std::collections::HashSet;

use plural_wire::{
    Client, ClientError, ListClusters, ListGitRepositories, ListGlobalServiceInstances, ListGlobalServices,
    ListHelmRepositories, ListManagedNamespaceInstances, ListManagedNamespaces, ListServiceContexts,
    ListServiceDeployments, PAGE_SIZE, all_pages,
};
use serde_json::Value;

use super::{
    apply::list,
    args::{GetArgs, GetFormat},
    console::Console,
    kind::Kind,
    print::{self, Names},
    set::is_record,
    sync_window,
    thing::{self, Live},
};
use crate::{
    error::CliError,
    key,
    output::{self, Format, Row},
    plain::one_line,
    terminal::Terminal,
};

pub(crate) async fn run(args: GetArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let kinds = kinds(&args.kinds)?;
    if kinds.len() > 1 && !args.names.is_empty() {
        return Err(CliError::usage("names are of one kind: name that one"));
    }
    let mut console = Console::new(client);
    let format = match args.output {
        GetFormat::Table if args.names.is_empty() => return tables(&kinds, &mut console, terminal).await,
        GetFormat::Table => return some(&kinds, &args.names, &mut console, terminal).await,
        other => other,
    };
    let mut documents = Vec::new();
    let mut left_out = 0;
    let is_export = args.names.is_empty() && format != GetFormat::Name;
    let instances = if is_export && kinds.contains(&Kind::ServiceDeployment) {
        instances(client).await?
    } else {
        HashSet::new()
    };
    for kind in kinds {
        let keys = keys(kind, &args.names, &mut console).await?;
        if format == GetFormat::Name {
            for key in keys {
                let name = console.document_name(kind, &key).await?;
                writeln!(terminal.out, "{}", one_line(&super::resolve::shown(kind, &name, &key)))?;
            }
            continue;
        }
        for key in keys {
            // It may go between the list and this look.
            let Some(mut live) = thing::read(kind, &key, &mut console).await? else { continue };
            let record = kind == Kind::ServiceContext && is_record(live.state.get("configuration"));
            if record && is_export {
                continue;
            }
            if instances.contains(&live.id) {
                left_out += 1;
                continue;
            }
            if args.secret_names {
                thing::unhide(kind, &mut live, &console).await?;
            }
            documents.push(document(kind, &live, &mut console).await?);
        }
    }
    if left_out > 0 {
        terminal.say(format_args!(
            "left out {left_out} services that global services and managed namespaces made"
        ));
    }
    match format {
        GetFormat::Json => {
            if let ([(document, _)], 1) = (documents.as_slice(), args.names.len()) {
                return output::json(document, terminal);
            }
            let items: Vec<Value> = documents.into_iter().map(|(document, _)| document).collect();
            list(&items, true, terminal)
        }
        GetFormat::Yaml => {
            for (at, (document, notes)) in documents.iter().enumerate() {
                let rule = if at == 0 { "" } else { "---\n" };
                write!(terminal.out, "{rule}{}", print::yaml(document, notes)?)?;
            }
            Ok(())
        }
        GetFormat::Name | GetFormat::Table => Ok(()),
    }
}

/// The services that come from a global service or a managed namespace: those say what they are.
async fn instances(client: &Client) -> Result<HashSet<String>, CliError> {
    let first = PAGE_SIZE;
    let mut found = HashSet::new();
    for global in all_pages(client, |after| ListGlobalServices { after, first }).await? {
        let page = |after| ListGlobalServiceInstances { id: global.id.clone(), after, first };
        found.extend(all_pages(client, page).await?.into_iter().map(|one| one.service_id));
    }
    for managed in all_pages(client, |after| ListManagedNamespaces { after, first }).await? {
        let page = |after| ListManagedNamespaceInstances { id: managed.id.clone(), after, first };
        let parts = all_pages(client, page).await?.into_iter();
        found.extend(parts.flat_map(|one| [one.service_id, one.namespace_id]).flatten());
    }
    Ok(found)
}

async fn document(
    kind: Kind,
    live: &Live,
    console: &mut Console<'_>,
) -> Result<(Value, Vec<String>), CliError> {
    let name = console.document_name(kind, &live.key).await?;
    let document = print::document(kind, &name, &live.state, &Names::new(), console).await?;
    Ok((document, print::notes(live)))
}

fn kinds(text: &str) -> Result<Vec<Kind>, CliError> {
    if text == "all" {
        return Ok(Kind::ALL.to_vec());
    }
    text.split(',').map(|word| Kind::parse(word).map_err(CliError::usage)).collect()
}

/// The keys of what is named, or of all.
async fn keys(kind: Kind, names: &[String], console: &mut Console<'_>) -> Result<Vec<String>, CliError> {
    if names.is_empty() {
        return if kind == Kind::SyncWindow {
            sync_window::all(console).await
        } else {
            console.all(kind).await
        };
    }
    let mut keys = Vec::new();
    for name in names {
        let missing = || {
            let hint = format!("`plural get {}` shows those there are", kind.info().plural);
            CliError::missing(format_args!("{} {name:?}", kind.info().name), hint)
        };
        // As its document calls it, or as other commands do.
        let key = match console.named(kind, name).await? {
            Some(key) => key,
            None => name.trim_start_matches('@').to_owned(),
        };
        let found = match kind {
            Kind::SyncWindow => thing::read(kind, &key, console).await?.map(|live| live.id),
            _ if key::is_id(name) => {
                keys.push(console.key(kind, name).await?.ok_or_else(missing)?);
                continue;
            }
            _ => console.id(kind, &key).await?,
        };
        found.ok_or_else(missing)?;
        keys.push(key);
    }
    Ok(keys)
}

async fn tables(
    kinds: &[Kind],
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    for (at, kind) in kinds.iter().enumerate() {
        if kinds.len() > 1 {
            let rule = if at == 0 { "" } else { "\n" };
            writeln!(terminal.out, "{rule}{}:", kind.info().plural)?;
        }
        table(*kind, &|_: &str| true, console, terminal).await?;
    }
    Ok(())
}

async fn some(
    kinds: &[Kind],
    names: &[String],
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    for kind in kinds {
        let mut ids = Vec::new();
        for key in keys(*kind, names, console).await? {
            ids.extend(thing::read(*kind, &key, console).await?.map(|live| live.id));
        }
        table(*kind, &|id: &str| ids.iter().any(|one| one == id), console, terminal).await?;
    }
    Ok(())
}

/// A table of those whose id is wanted.
async fn table(
    kind: Kind,
    wanted: &dyn Fn(&str) -> bool,
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let client = console.client;
    let first = PAGE_SIZE;
    match kind {
        Kind::Cluster => {
            let all =
                all_pages(client, |after| ListClusters { after, first, project_id: None, tag_query: None })
                    .await;
            rows(all, wanted, kind, terminal)
        }
        Kind::GitRepository => rows(
            all_pages(client, |after| ListGitRepositories { after, first }).await,
            wanted,
            kind,
            terminal,
        ),
        Kind::HelmRepository => rows(
            all_pages(client, |after| ListHelmRepositories { after, first }).await,
            wanted,
            kind,
            terminal,
        ),
        Kind::ServiceContext => rows(
            all_pages(client, |after| ListServiceContexts { after, first }).await,
            wanted,
            kind,
            terminal,
        ),
        Kind::ServiceDeployment => {
            let page = |after| ListServiceDeployments { after, first, cluster_id: None, cluster: None };
            rows(all_pages(client, page).await, wanted, kind, terminal)
        }
        Kind::GlobalService => {
            rows(all_pages(client, |after| ListGlobalServices { after, first }).await, wanted, kind, terminal)
        }
        Kind::ManagedNamespace => rows(
            all_pages(client, |after| ListManagedNamespaces { after, first }).await,
            wanted,
            kind,
            terminal,
        ),
        Kind::Project => {
            let mut projects = Vec::new();
            for name in console.all(kind).await? {
                projects.push(key::project(client, &name).await?);
            }
            rows(Ok(projects), wanted, kind, terminal)
        }
        Kind::SyncWindow => windows(wanted, console, terminal).await,
    }
}

fn rows<T: Row>(
    all: Result<Vec<T>, ClientError>,
    wanted: &dyn Fn(&str) -> bool,
    kind: Kind,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let all: Vec<T> = all?.into_iter().filter(|one| wanted(one.id())).collect();
    output::list(&all, Format::Table, &format!("no {} found", kind.info().plural), terminal)
}

/// Windows with what they are of, which a window alone does not say.
async fn windows(
    wanted: &dyn Fn(&str) -> bool,
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let headings = ["WINDOW", "KIND", "SCHEDULE", "DURATION", "TIME ZONE", "DESCRIPTION"];
    let mut lines = vec![headings.map(str::to_owned).to_vec()];
    for key in sync_window::all(console).await? {
        let Some(live) = thing::read(Kind::SyncWindow, &key, console).await?.filter(|live| wanted(&live.id))
        else {
            continue;
        };
        let cell = |name: &str| output::or_dash(super::state::text(&live.state, name));
        let zone = super::state::text(&live.state, "timeZone").unwrap_or("UTC").to_owned();
        lines.push(vec![
            output::or_dash(Some(&key)),
            cell("kind"),
            cell("schedule"),
            cell("duration"),
            zone,
            cell("description"),
        ]);
    }
    if lines.len() == 1 {
        terminal.say("no syncwindows found");
        return Ok(());
    }
    write!(terminal.out, "{}", output::columns(&lines, headings.len()))?;
    Ok(())
}
