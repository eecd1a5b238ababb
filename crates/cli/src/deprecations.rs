//! `plural cd clusters deprecations`, and what `describe` shows about a service's objects as a whole.

use std::fmt::Write as _;

use clap::Args;
use plural_wire::{
    ApiDeprecation, Client, DeprecatedComponent, ListClusterDeprecations, ServiceFacts, ServiceMetadata,
};

use crate::{
    args::OutputArgs,
    error::CliError,
    key::ClusterKey,
    output::{self, Format, columns, or_dash},
    plain::one_line,
    terminal::Terminal,
};

/// Images and host names that are listed; the rest is counted.
const LISTED: usize = 50;

/// List objects of a cluster's services that use deprecated or removed API versions
///
/// Listed is what is deprecated or gone in the Kubernetes version that the cluster runs, or will be in the next. What blocks an
/// upgrade to the next minor version is marked with `!`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd clusters deprecations blue
  plural cd clusters deprecations blue -o json")]
pub(crate) struct ClusterDeprecationsArgs {
    /// The cluster: its handle or id
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: ClusterKey,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) async fn of_cluster(
    args: ClusterDeprecationsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let cluster = args.cluster.get(client).await?;
    let found = client.send(&ListClusterDeprecations { id: cluster.id }).await?;
    match args.output.output {
        Format::Json => return output::json(&found.api_deprecations, terminal),
        Format::Yaml => return output::yaml(&found.api_deprecations, terminal),
        Format::Name => {
            for component in found.api_deprecations.iter().filter_map(|one| one.component.as_ref()) {
                writeln!(terminal.out, "{}", one_line(&object(component)))?;
            }
            return Ok(());
        }
        Format::Table | Format::Wide => {}
    }
    if found.api_deprecations.is_empty() {
        terminal.say(match &found.current_version {
            Some(version) => format!("no object uses an API version that is removed after {version}"),
            None => "its Kubernetes version is not known: its agent has not reported yet".to_owned(),
        });
        return Ok(());
    }
    let wide = args.output.output == Format::Wide;
    write!(terminal.out, "{}", table(&found.api_deprecations, Some(wide)))?;
    Ok(())
}

/// What `describe` shows after everything else.
pub(crate) fn described(facts: &ServiceFacts) -> String {
    let ServiceFacts { metadata, api_deprecations } = facts;
    let ServiceMetadata { images, fqdns } = metadata.clone().unwrap_or_default();
    let mut text = String::new();
    for (heading, all) in [("Images", images), ("Host names", fqdns)] {
        if all.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{heading}:");
        for one in all.iter().take(LISTED) {
            let _ = writeln!(text, "  {}", or_dash(Some(one)));
        }
        if let Some(more) = all.len().checked_sub(LISTED).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more");
        }
    }
    if !api_deprecations.is_empty() {
        text.push_str("\nDeprecated and removed API versions:\n");
        for line in table(api_deprecations, None).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// `kind/[namespace/]name`.
fn object(component: &DeprecatedComponent) -> String {
    let DeprecatedComponent { kind, namespace, name, .. } = component;
    let place = namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    or_dash(Some(&format!("{kind}/{place}{name}")))
}

/// One line an object; of several services with the service's name, and where it is from when `services` says so.
fn table(all: &[ApiDeprecation], services: Option<bool>) -> String {
    let mut headings = vec!["OBJECT", "WRITTEN AS", "DEPRECATED", "REMOVED", "USE INSTEAD"];
    if let Some(wide) = services {
        headings.insert(0, "SERVICE");
        headings.extend(wide.then_some("REPOSITORY"));
    }
    let mut rows: Vec<Vec<String>> = vec![headings.iter().map(|&heading| heading.to_owned()).collect()];
    for ApiDeprecation { deprecated_in, removed_in, replacement, blocking, component } in all {
        let Some(component) = component else { continue };
        let DeprecatedComponent { group, version, kind: _, namespace: _, name: _, service } = component;
        let group = group.as_deref().filter(|group| !group.is_empty());
        let group = group.map(|group| format!("{group}/")).unwrap_or_default();
        let gone =
            removed_in.as_ref().map(|version| format!("{version}{}", if *blocking { " !" } else { "" }));
        let mut row = vec![
            object(component),
            or_dash(Some(&format!("{group}{}", version.as_deref().unwrap_or_default()))),
            or_dash(deprecated_in.as_deref()),
            or_dash(gone.as_deref()),
            or_dash(replacement.as_deref()),
        ];
        if let Some(wide) = services {
            row.insert(0, or_dash(service.as_ref().map(|service| service.name.as_str())));
            let repository = service.as_ref().and_then(|service| service.repository.as_ref());
            row.extend(wide.then(|| or_dash(repository.map(|repository| repository.url.as_str()))));
        }
        rows.push(row);
    }
    columns(&rows, headings.len())
}
