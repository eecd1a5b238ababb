//! `plural cd clusters deprecations`, and what `describe` shows about a service's objects as a whole.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    ApiDeprecation, Client, DeprecatedComponent, ListClusterDeprecations, ServiceFacts, ServiceMetadata,
};

use crate::{
    error::CliError,
    format::Format,
    format::ListOutputArgs,
    key::ClusterKey,
    output::{self, Row, columns, or_dash},
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
    pub(crate) output: ListOutputArgs,
}

pub(crate) async fn of_cluster(
    args: ClusterDeprecationsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let cluster = args.cluster.get(client).await?;
    let found = client.send(&ListClusterDeprecations { id: cluster.id }).await?;
    let mut all = found.api_deprecations;
    if matches!(args.output.output, Format::Table | Format::Wide | Format::Name) {
        all.retain(|one| one.component.is_some());
    }
    let nothing = match &found.current_version {
        Some(version) => format!("no object uses an API version that is removed after {version}"),
        None => "its Kubernetes version is not known: its agent has not reported yet".to_owned(),
    };
    output::list(&all, &args.output, &nothing, terminal)
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
        for line in table(api_deprecations).lines() {
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

impl Row for ApiDeprecation {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["SERVICE", "OBJECT", "WRITTEN AS", "DEPRECATED", "REMOVED", "USE INSTEAD", "REPOSITORY"], 6);

    fn id(&self) -> &str {
        self.component.as_ref().map_or("", |component| &component.name)
    }

    fn name(&self) -> String {
        self.component.as_ref().map(object).unwrap_or_default()
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let Self { deprecated_in, removed_in, replacement, blocking, component } = self;
        let written = component.as_ref().map(|component| {
            let group = component.group.as_deref().filter(|group| !group.is_empty());
            let group = group.map(|group| format!("{group}/")).unwrap_or_default();
            format!("{group}{}", component.version.as_deref().unwrap_or_default())
        });
        let gone =
            removed_in.as_ref().map(|version| format!("{version}{}", if *blocking { " !" } else { "" }));
        let service = component.as_ref().and_then(|component| component.service.as_ref());
        let repository = service.and_then(|service| service.repository.as_ref());
        vec![
            or_dash(service.map(|service| service.name.as_str())),
            or_dash(component.as_ref().map(object).as_deref()),
            or_dash(written.as_deref()),
            or_dash(deprecated_in.as_deref()),
            or_dash(gone.as_deref()),
            or_dash(replacement.as_deref()),
            or_dash(repository.map(|repository| repository.url.as_str())),
        ]
    }
}

/// One line an object, of one service.
fn table(all: &[ApiDeprecation]) -> String {
    let (headings, _) = ApiDeprecation::HEADINGS;
    let mut rows: Vec<Vec<String>> = vec![headings.iter().map(|&heading| heading.to_owned()).collect()];
    rows.extend(all.iter().filter(|one| one.component.is_some()).map(|one| one.cells(DateTime::UNIX_EPOCH)));
    for row in &mut rows {
        row.remove(0);
    }
    columns(&rows, 5)
}
