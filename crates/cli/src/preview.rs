//! `plural cd services render`.

use clap::{Args, ValueEnum};
use plural_wire::{Client, GetServicePreview, RenderedObject, ServicePreview};

use crate::{
    error::CliError,
    key::ServiceKey,
    output::{self, or_dash},
    plain::one_line,
    terminal::Terminal,
};

/// Render a service without touching its cluster
///
/// The console renders the service's current revision with the code that its agent runs, with its configuration and
/// values. What only the cluster knows is missing: `lookup` finds nothing, charts see the APIs that every cluster
/// serves, and programs that an agent declares are not run. Values of Secrets are masked.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services render blue/web
  plural cd services render blue/web -o name
  plural cd services render blue/web | kubectl diff -f -")]
pub(crate) struct ServiceRenderArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    service: ServiceKey,

    /// How to print the objects
    #[arg(short, long, value_enum, default_value_t = RenderFormat::Yaml)]
    output: RenderFormat,
}

/// How to print objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RenderFormat {
    /// Manifests, each with the file that it is from.
    Yaml,
    /// One array of manifests.
    Json,
    /// One kind/name a line.
    Name,
}

pub(crate) async fn run(
    args: ServiceRenderArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let (id, cluster, name) = args.service.variables(client).await?;
    let ServicePreview { objects, errors } = client
        .send(&GetServicePreview { id, cluster, name })
        .await
        .map_err(|error| CliError::absent(error, || args.service.missing()))?;
    for error in &errors {
        terminal.say(format_args!("{}: {}", or_dash(Some(&error.source)), or_dash(Some(&error.message))));
    }
    if objects.is_empty() && !errors.is_empty() {
        return Err(CliError::new("the service renders to nothing"));
    }
    print(&objects, args.output, terminal)
}

fn print(
    objects: &[RenderedObject],
    format: RenderFormat,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match format {
        RenderFormat::Json => {
            let all: Vec<_> = objects.iter().map(|object| &object.content).collect();
            output::json(&all, terminal)
        }
        RenderFormat::Name => {
            for object in objects {
                let name = format!("{}/{}", object.kind.to_lowercase(), object.name);
                writeln!(terminal.out, "{}", one_line(&name))?;
            }
            Ok(())
        }
        RenderFormat::Yaml => {
            for object in objects {
                let source = one_line(&object.source);
                write!(terminal.out, "---\n# Source: {source}\n{}", output::yaml_text(&object.content)?)?;
            }
            Ok(())
        }
    }
}
