//! `plural agent`.

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use plural_agent::{Agent, AgentConfig};
use plural_kit::Shutdown;
use plural_tunnel::ConsoleOptions;
use secrecy::{ExposeSecret, SecretString};

use crate::process::LogArgs;

/// Flags of `plural agent`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The console's address
    #[arg(long, env = "PLURAL_CONSOLE_URL", value_name = "URL")]
    console_url: String,

    /// The cluster's deploy token
    #[arg(long, env = "PLURAL_DEPLOY_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    deploy_token: SecretString,

    /// Certificate authority (PEM) of the console, where the system does not know it
    #[arg(long, env = "PLURAL_CONSOLE_CA_FILE", value_name = "FILE")]
    console_ca_file: Option<PathBuf>,

    /// The agent's own namespace, for its lease and inventories
    #[arg(long, env = "PLURAL_AGENT_NAMESPACE", value_name = "NAME", default_value = "plural-system")]
    namespace: String,

    /// Disposable folder for artifacts
    #[arg(long, env = "PLURAL_AGENT_CACHE_DIR", value_name = "DIR", default_value = "/tmp/plural-agent")]
    cache_dir: PathBuf,

    #[command(flatten)]
    log: LogArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Args { console_url, deploy_token, console_ca_file, namespace, cache_dir, log } = args;
    log.init()?;
    anyhow::ensure!(
        deploy_token.expose_secret().starts_with("deploy-"),
        "the deploy token does not begin with \"deploy-\": `plural cd clusters bootstrap` tells it"
    );
    let ca_pem = match console_ca_file {
        None => None,
        Some(file) => {
            Some(std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?)
        }
    };
    // In a Pod the service account's token, elsewhere the kubeconfig that kubectl would use.
    let kube = kube::Config::infer().await.context("cannot find a Kubernetes cluster")?;
    let console = ConsoleOptions {
        url: console_url,
        token: deploy_token.expose_secret().to_owned(),
        ca_pem,
        deadline: Duration::from_secs(10),
    };
    let config = AgentConfig::new(console, kube, cache_dir).in_namespace(namespace);
    let mut agent = Agent::start(config).context("the agent cannot start")?;
    let shutdown = Shutdown::new();
    tokio::select! {
        signal = shutdown.on_process_signal() => signal.context("cannot wait for signals")?,
        () = agent.ended() => anyhow::bail!("the agent ended by itself"),
    }
    tracing::info!("stopping");
    agent.stop().await;
    Ok(())
}
