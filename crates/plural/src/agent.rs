//! `plural agent`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use plural_agent::{Agent, AgentConfig, CommandRenderers};
use plural_kit::Shutdown;
use plural_sandbox::{Helper, Limits, Program};
use plural_tunnel::ConsoleOptions;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

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

    /// YAML file that declares programs by which services may be rendered, each by a name: its "command" (an absolute
    /// path), its "args", and what it may read besides its input ("readable")
    #[arg(long, env = "PLURAL_AGENT_COMMAND_RENDERERS", value_name = "FILE")]
    command_renderers: Option<PathBuf>,

    #[command(flatten)]
    log: LogArgs,
}

/// First argument of the process that confines a command renderer.
pub(crate) const SANDBOX: &str = "sandbox";

/// A program that renders.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    command: PathBuf,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    readable: Vec<PathBuf>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Args { console_url, deploy_token, console_ca_file, namespace, cache_dir, command_renderers, log } =
        args;
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
    let mut config = AgentConfig::new(console, kube, cache_dir).in_namespace(namespace);
    config.commands = command_renderers.as_deref().map(declared).transpose()?;
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

/// The programs that the operator of the agent declares.
fn declared(file: &Path) -> anyhow::Result<CommandRenderers> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let value =
        plural_render::yaml::parse(&text).with_context(|| format!("{} is not YAML", file.display()))?;
    let declared: BTreeMap<String, Declared> = serde_json::from_value(value)
        .with_context(|| format!("{} does not declare programs", file.display()))?;
    let mut programs = BTreeMap::new();
    for (name, Declared { command, args, readable }) in declared {
        anyhow::ensure!(
            command.is_absolute() && command.is_file(),
            "the command renderer {name}: {} is not the absolute path of a program",
            command.display()
        );
        programs.insert(name, Program { path: command, args, readable });
    }
    let helper = Helper {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        args: vec![SANDBOX.into()],
    };
    Ok(CommandRenderers { programs, helper, limits: Limits::default() })
}
