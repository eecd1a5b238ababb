//! `plural get`: tables for people, documents that `plural apply` takes back.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use plural_wire::{
    Client, ClientError, ListClusters, ListGitRepositories, ListGlobalServiceInstances, ListGlobalServices,
    ListHelmRepositories, ListInfrastructureStacks, ListManagedNamespaceInstances, ListManagedNamespaces,
    ListServiceContexts, ListServiceDeployments, ListStackDefinitions, PAGE_SIZE, all_pages,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    apply::list,
    args::GetArgs,
    console::Console,
    kind::Kind,
    print::{self, Names},
    set::is_record,
    state::State,
    sync_window, thing,
};
use crate::{
    args::ListOutputArgs,
    error::CliError,
    format::Format,
    key,
    output::{self, Row},
    plain::one_line,
    selector::{self, TagSelector},
    table,
    terminal::Terminal,
};

pub(crate) async fn run(
    mut args: GetArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    // As `-o name` prints it: `plural get service/blue/web`.
    let named = args.kinds.split_once('/').map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    if let Some((kind, name)) = named {
        if args.selector.is_some() {
            return Err(CliError::usage("-l goes without names"));
        }
        args.kinds = kind;
        args.names.insert(0, name);
    }
    let kinds = kinds(&args.kinds)?;
    if kinds.len() > 1 && !args.names.is_empty() {
        return Err(CliError::usage("names are of one kind: name that one"));
    }
    if let (Some(_), Some(other)) = (&args.selector, kinds.iter().find(|kind| !has_tags(**kind))) {
        let plural = other.info().plural;
        return Err(CliError::usage(format!("{plural} have no tags that -l could look at"))
            .hint("name clusters or services, which go by the tags of their clusters"));
    }
    let mut console = Console::new(client);
    if matches!(args.output.output, Format::Table | Format::Wide) {
        return if args.names.is_empty() {
            tables(&kinds, &args, &mut console, terminal).await
        } else {
            some(&kinds, &args, &mut console, terminal).await
        };
    }
    let format = &args.output.output;
    let mut documents = Vec::new();
    let mut left_out = 0;
    let is_export = args.names.is_empty() && matches!(format, Format::Json | Format::Yaml);
    let instances = if is_export && kinds.contains(&Kind::ServiceDeployment) {
        instances(client).await?
    } else {
        HashSet::new()
    };
    for kind in kinds {
        let mut keys = keys(kind, &args.names, &mut console).await?;
        if let Some(selector) = &args.selector {
            keys = selected(kind, keys, selector, client).await?;
        }
        if *format == Format::Name && args.output.sort_by.is_none() {
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
            let name = console.document_name(kind, &live.key).await?;
            let document = print::document(kind, &name, &live.state, &Names::new(), &mut console).await?;
            let shown = super::resolve::shown(kind, &name, &live.key);
            documents.push(Printed { document, notes: print::notes(&live), shown });
        }
    }
    if left_out > 0 {
        terminal.say(format_args!(
            "left out {left_out} services that global services and managed namespaces made"
        ));
    }
    print_documents(&documents, &args, terminal)
}

/// A document, what is said under it, and what commands call it.
struct Printed {
    document: Value,
    notes: Vec<String>,
    shown: String,
}

fn print_documents(printed: &[Printed], args: &GetArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let format = &args.output.output;
    let documents: Vec<Value> = printed.iter().map(|one| one.document.clone()).collect();
    let order = table::order(&documents, &args.output)?;
    let in_order = || order.iter().filter_map(|place| printed.get(*place));
    match format {
        Format::Name => {
            for one in in_order() {
                writeln!(terminal.out, "{}", one_line(&one.shown))?;
            }
            return Ok(());
        }
        Format::Yaml => {
            for (at, one) in in_order().enumerate() {
                let rule = if at == 0 { "" } else { "---\n" };
                write!(terminal.out, "{rule}{}", print::yaml(&one.document, &one.notes)?)?;
            }
            return Ok(());
        }
        _ => {}
    }
    if let ([document], [_]) = (documents.as_slice(), args.names.as_slice()) {
        return output::program_one(document, format, terminal);
    }
    let items: Vec<Value> = in_order().map(|one| one.document.clone()).collect();
    if *format == Format::Json {
        return list(&items, true, terminal);
    }
    output::program(&items, &args.output, terminal)
}

/// The keys of clusters with these tags, or of what is on them.
async fn selected(
    kind: Kind,
    mut keys: Vec<String>,
    selector: &TagSelector,
    client: &Client,
) -> Result<Vec<String>, CliError> {
    let page = |after| ListClusters {
        after,
        first: PAGE_SIZE,
        project_id: None,
        tag_query: selector::query(selector.exact()),
    };
    let all = all_pages(client, page).await?;
    let handles: HashSet<String> =
        all.into_iter().filter(|one| selector.takes(one)).map(|one| one.handle.unwrap_or(one.id)).collect();
    keys.retain(|key| {
        let cluster =
            if kind == Kind::Cluster { key.as_str() } else { key.split('/').next().unwrap_or_default() };
        handles.contains(cluster)
    });
    Ok(keys)
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

/// Whether things of this kind are chosen by tags.
fn has_tags(kind: Kind) -> bool {
    matches!(kind, Kind::Cluster | Kind::ServiceDeployment)
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
        let name = match kind {
            Kind::ServiceDeployment => key::bare_service(name),
            _ => kind.bare(name),
        };
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
    args: &GetArgs,
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    for (at, kind) in kinds.iter().enumerate() {
        if kinds.len() > 1 {
            let rule = if at == 0 { "" } else { "\n" };
            writeln!(terminal.out, "{rule}{}:", kind.info().plural)?;
        }
        table(*kind, &|_: &str| true, args, console, terminal).await?;
    }
    Ok(())
}

async fn some(
    kinds: &[Kind],
    args: &GetArgs,
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    for kind in kinds {
        let mut ids = Vec::new();
        for key in keys(*kind, &args.names, console).await? {
            ids.extend(thing::read(*kind, &key, console).await?.map(|live| live.id));
        }
        table(*kind, &|id: &str| ids.iter().any(|one| one == id), args, console, terminal).await?;
    }
    Ok(())
}

/// A table of those whose id is wanted.
async fn table(
    kind: Kind,
    wanted: &dyn Fn(&str) -> bool,
    get: &GetArgs,
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let client = console.client;
    let (args, selector) = (&get.output, get.selector.as_ref());
    let first = PAGE_SIZE;
    match kind {
        Kind::Cluster => {
            let page = |after| ListClusters { after, first, project_id: None, tag_query: None };
            let mut all = all_pages(client, page).await?;
            all.retain(|cluster| selector.is_none_or(|selector| selector.takes(cluster)));
            rows(Ok(all), wanted, kind, args, terminal)
        }
        Kind::GitRepository => rows(
            all_pages(client, |after| ListGitRepositories { after, first }).await,
            wanted,
            kind,
            args,
            terminal,
        ),
        Kind::HelmRepository => rows(
            all_pages(client, |after| ListHelmRepositories { after, first }).await,
            wanted,
            kind,
            args,
            terminal,
        ),
        Kind::StackDefinition => rows(
            all_pages(client, |after| ListStackDefinitions { after, first, q: None }).await,
            wanted,
            kind,
            args,
            terminal,
        ),
        Kind::InfrastructureStack => {
            let page =
                |after| ListInfrastructureStacks { after, first, project_id: None, q: None, tag_query: None };
            rows(all_pages(client, page).await, wanted, kind, args, terminal)
        }
        Kind::ServiceContext => rows(
            all_pages(client, |after| ListServiceContexts { after, first }).await,
            wanted,
            kind,
            args,
            terminal,
        ),
        Kind::ServiceDeployment => {
            let page = |after| ListServiceDeployments { after, first, cluster_id: None, cluster: None };
            let mut all = all_pages(client, page).await?;
            if let Some(selector) = selector {
                all = selector.services(all, client).await?;
            }
            rows(Ok(all), wanted, kind, args, terminal)
        }
        Kind::GlobalService => rows(
            all_pages(client, |after| ListGlobalServices { after, first }).await,
            wanted,
            kind,
            args,
            terminal,
        ),
        Kind::ManagedNamespace => rows(
            all_pages(client, |after| ListManagedNamespaces { after, first }).await,
            wanted,
            kind,
            args,
            terminal,
        ),
        Kind::Project => {
            let mut projects = Vec::new();
            for name in console.all(kind).await? {
                projects.push(key::project(client, &name).await?);
            }
            rows(Ok(projects), wanted, kind, args, terminal)
        }
        Kind::SyncWindow => windows(wanted, args, console, terminal).await,
    }
}

fn rows<T: Row>(
    all: Result<Vec<T>, ClientError>,
    wanted: &dyn Fn(&str) -> bool,
    kind: Kind,
    args: &ListOutputArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let all: Vec<T> = all?.into_iter().filter(|one| wanted(one.id())).collect();
    output::list(&all, args, &format!("no {} found", kind.info().plural), terminal)
}

/// Windows with what they are of, which a window alone does not say.
async fn windows(
    wanted: &dyn Fn(&str) -> bool,
    args: &ListOutputArgs,
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut windows = Vec::new();
    for key in sync_window::all(console).await? {
        let live = thing::read(Kind::SyncWindow, &key, console).await?;
        windows.extend(live.filter(|live| wanted(&live.id)).map(|live| Window {
            key,
            id: live.id,
            state: live.state,
        }));
    }
    output::list(&windows, args, "no syncwindows found", terminal)
}

/// A sync window with what it is of.
#[derive(Serialize)]
struct Window {
    key: String,
    id: String,
    state: State,
}

impl Row for Window {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["WINDOW", "KIND", "SCHEDULE", "DURATION", "TIME ZONE", "DESCRIPTION"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("syncwindow/{}", self.key)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let cell = |name: &str| output::or_dash(super::state::text(&self.state, name));
        let zone = super::state::text(&self.state, "timeZone").unwrap_or("UTC").to_owned();
        vec![
            output::or_dash(Some(&self.key)),
            cell("kind"),
            cell("schedule"),
            cell("duration"),
            zone,
            cell("description"),
        ]
    }
}
