//! What canaries that wait are told: proceed, roll back.

use clap::{Args, Subcommand};
use plural_wire::{Client, GetServiceDeployment, GetServiceGateUrl, PromoteService, ServicePromotion};

use crate::{
    args::WaitArgs,
    error::CliError,
    key::ServiceKey,
    service_sync::chosen,
    services::{address, standing},
    terminal::Terminal,
    wait::{self, Observed},
};

/// Promote or roll back canaries of Argo Rollouts and Flagger
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CanaryArgs {
    #[command(subcommand)]
    pub(crate) command: CanaryCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CanaryCommand {
    Proceed(CanaryProceedArgs),
    Rollback(CanaryRollbackArgs),
    Gate(CanaryGateArgs),
}

/// Print the address of a service's gates, at which its canaries of Flagger ask
///
/// Put it before `/confirm-rollout`, `/confirm-promotion`, `/confirm-traffic-increase` or `/rollback` as `url` of a web hook of that type.
/// It holds a secret.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services canary gate blue/web")]
pub(crate) struct CanaryGateArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,
}

/// Promote waiting canaries of a service
///
/// Each goes to its next step. One that waits at a later step, or another release, has to be told again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services canary proceed blue/web
  plural cd services canary proceed blue/web --object Rollout/shop/web --wait")]
pub(crate) struct CanaryProceedArgs {
    #[command(flatten)]
    pub(crate) told: CanaryOutput,
}

/// Roll back canaries of a service that are in progress
///
/// They stay aborted, and the service FAILED, until git says something else.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services canary rollback blue/web --wait")]
pub(crate) struct CanaryRollbackArgs {
    #[command(flatten)]
    pub(crate) told: CanaryOutput,
}

#[derive(Debug, Args)]
pub(crate) struct CanaryOutput {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// Only this Rollout or Canary; may be given several times
    #[arg(long = "object", value_name = "KIND/[NAMESPACE/]NAME")]
    pub(crate) objects: Vec<String>,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

pub(crate) async fn run(
    args: CanaryArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match args.command {
        CanaryCommand::Proceed(args) => tell(args.told, ServicePromotion::Proceed, client, terminal).await,
        CanaryCommand::Rollback(args) => tell(args.told, ServicePromotion::Rollback, client, terminal).await,
        CanaryCommand::Gate(CanaryGateArgs { service }) => {
            let id = service.get(client).await?.service.id;
            let url = client.send(&GetServiceGateUrl { id }).await?;
            writeln!(terminal.out, "{}", url.expose())?;
            Ok(())
        }
    }
}

async fn tell(
    args: CanaryOutput,
    promotion: ServicePromotion,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = args.service.get(client).await?;
    let address = address(&details.service);
    let objects = chosen(&args.objects, &details, client).await?;
    let id = details.service.id;
    let asked = client.send(&PromoteService { id: id.clone(), promotion, objects }).await?;
    let what = match promotion {
        ServicePromotion::Proceed => "go on",
        ServicePromotion::Rollback => "go back",
    };
    terminal.say(format_args!("service {address}: asked its canaries to {what}"));
    if !args.wait.wait {
        return Ok(());
    }
    let ask = GetServiceDeployment { id: Some(id), cluster: None, name: None };
    let (told, problems) =
        wait::until(&format!("canaries of service {address}"), args.wait.timeout, terminal, async || {
            let now = client.send(&ask).await?;
            let promoted = now.service.sync.as_ref().and_then(|sync| sync.promoted.as_ref());
            Ok(match promoted.filter(|done| done.id == asked.request_id) {
                Some(done) => Observed::Done((now.service.status, done.problems.clone())),
                None => Observed::NotYet(standing(&now)),
            })
        })
        .await?;
    if !problems.is_empty() {
        return Err(CliError::new(format!("service {address}: {}", problems.join("; "))));
    }
    terminal.say(format_args!("service {address} is {}", told.as_str()));
    Ok(())
}
