//! `plural agent`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use plural_agent::{
    Agent, AgentConfig, CommandRenderers, ProxyPolicy, RunsConfig, VaultConfig, usual_render_limits,
};
use plural_kit::{LaneLimits, Lanes, Shutdown};
use plural_sandbox::{Helper, Limits, Program};
use plural_tunnel::{ConsoleOptions, Line, Transport};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::{
    memory,
    process::{LogArgs, keep_private},
};

/// Flags of `plural agent`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The console's address
    #[arg(long, env = "PLURAL_CONSOLE_URL", hide_env_values = true, value_name = "URL")]
    console_url: String,

    /// The token that the agent joins its cluster with, once: it then has a deploy token of its own, in the Secret
    /// plural-agent-token of its namespace, and uses that
    #[arg(
        long,
        env = "PLURAL_JOIN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        required_unless_present = "deploy_token"
    )]
    join_token: Option<SecretString>,

    /// A deploy token of the cluster, where none is in that Secret
    #[arg(long, env = "PLURAL_DEPLOY_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    deploy_token: Option<SecretString>,

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

    /// YAML file that names the Vault or OpenBao which services may refer to: its "address", and where they are not the usual
    /// ones "caFile", "authMount", "role", "audience", "namespace" and "pollSeconds"
    #[arg(long, env = "PLURAL_AGENT_VAULT", value_name = "FILE")]
    vault: Option<PathBuf>,

    /// MiB of memory that all renders may use together; one may use half of it
    /// [default: half of the memory limit, or a quarter of the machine's memory]
    #[arg(long, env = "PLURAL_AGENT_RENDER_MEMORY_MIB", value_name = "MIB",
          value_parser = clap::value_parser!(u64).range(16..=1_048_576))]
    render_memory_mib: Option<u64>,

    /// Seconds that a render may take; command renderers have a limit of their own
    #[arg(long, env = "PLURAL_AGENT_RENDER_SECONDS", value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    render_seconds: u64,

    /// Minutes, give or take a quarter, between two full checks, in which all objects that the agent owns are listed anew:
    /// watches tell of changes in between
    #[arg(long, env = "PLURAL_AGENT_FULL_CHECK_MINUTES", value_name = "MINUTES", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=1440))]
    full_check_minutes: u64,

    #[command(flatten)]
    line: LineArgs,

    #[command(flatten)]
    proxy: ProxyArgs,

    #[command(flatten)]
    runs: RunArgs,

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

/// Where Vault is, and how it is entered.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Vault {
    address: String,
    ca_file: Option<PathBuf>,
    auth_mount: Option<String>,
    role: Option<String>,
    audience: Option<String>,
    namespace: Option<String>,
    poll_seconds: Option<u64>,
}

/// The way to the console
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The way to the console")]
struct LineArgs {
    /// HTTP/2, or HTTP/2 inside a WebSocket where something in between lets only that through
    #[arg(long, env = "PLURAL_AGENT_TRANSPORT", value_enum, default_value_t = TransportArg::Auto)]
    transport: TransportArg,

    /// HTTP proxy that leads to the console: http://[USER:PASSWORD@]HOST:PORT
    #[arg(long, env = "HTTPS_PROXY", hide_env_values = true, value_name = "URL")]
    console_proxy: Option<SecretString>,

    /// Hosts that are reached without the proxy
    #[arg(long, env = "NO_PROXY", value_delimiter = ',', value_name = "HOST")]
    no_console_proxy: Vec<String>,

    /// Seconds between two signs of life on a silent line: fewer than anything in between lets a connection be silent
    #[arg(long, env = "PLURAL_AGENT_KEEP_ALIVE_SECONDS", value_name = "SECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    keep_alive_seconds: u64,

    /// Speak plain HTTP to a console that is not on this machine. The deploy token and the services' secrets go over the
    /// network in clear, unless something in between encrypts
    #[arg(long, env = "PLURAL_INSECURE_HTTP")]
    insecure_http: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum TransportArg {
    /// HTTP/2; a WebSocket while that does not come through
    Auto,
    /// HTTP/2 only
    Http2,
    /// A WebSocket only
    Websocket,
}

impl LineArgs {
    fn line(self, console_url: &str) -> Line {
        let Self { transport, console_proxy, no_console_proxy, keep_alive_seconds, insecure_http } = self;
        Line {
            transport: match transport {
                TransportArg::Auto => Transport::Auto,
                TransportArg::Http2 => Transport::Http2,
                TransportArg::Websocket => Transport::WebSocket,
            },
            proxy: console_proxy
                .map(|url| url.expose_secret().to_owned())
                .filter(|url| !url.is_empty() && !is_here(console_url)),
            no_proxy: no_console_proxy,
            keep_alive: Duration::from_secs(keep_alive_seconds),
            insecure_http,
        }
    }
}

/// A console on this machine: no proxy leads there.
fn is_here(console_url: &str) -> bool {
    let host = console_url.split_once("://").map_or(console_url, |(_, rest)| rest);
    ["localhost", "127.", "[::1]"].iter().any(|name| host.starts_with(name))
}

/// What people may do in this cluster through the console, whatever the console says
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "People who come through the console")]
struct ProxyArgs {
    /// Let nobody through
    #[arg(long = "proxy-off", id = "proxy-off", env = "PLURAL_PROXY_OFF")]
    off: bool,

    /// Let nothing through that changes something or leads into a container
    #[arg(long = "proxy-read-only", id = "proxy-read-only", env = "PLURAL_PROXY_READ_ONLY")]
    read_only: bool,

    /// Let only members of this group through, and name no other group to Kubernetes; may be given several times
    #[arg(
        long = "proxy-group",
        id = "proxy-group",
        env = "PLURAL_PROXY_GROUPS",
        value_delimiter = ',',
        value_name = "GROUP"
    )]
    groups: Vec<String>,

    /// Let nobody reach this namespace; may be given several times
    #[arg(
        long = "proxy-deny-namespace",
        id = "proxy-deny-namespace",
        env = "PLURAL_PROXY_DENY_NAMESPACES",
        value_delimiter = ',',
        value_name = "NAME"
    )]
    denied_namespaces: Vec<String>,

    /// Let no Secret and no token of a service account through
    #[arg(long = "proxy-no-secrets", id = "proxy-no-secrets", env = "PLURAL_PROXY_NO_SECRETS")]
    no_secrets: bool,
}

impl ProxyArgs {
    fn policy(self) -> ProxyPolicy {
        let Self { off, read_only, groups, denied_namespaces, no_secrets } = self;
        let groups = (!groups.is_empty()).then_some(groups);
        ProxyPolicy { off, read_only, groups, denied_namespaces, no_secrets }
    }
}

/// Jobs of runs of stacks
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Runs of stacks")]
struct RunArgs {
    /// Namespace of runs that name none. It is made on first use, with "restricted" pod security
    #[arg(
        long,
        env = "PLURAL_AGENT_RUNS_NAMESPACE",
        value_name = "NAME",
        default_value = "plural-runs",
        value_parser = runs_namespace
    )]
    runs_namespace: String,

    /// Image whose entry point is this program, such as the agent's own: it brings the harness of a run into the image of its tool.
    /// Without one, the images of tools must have `plural` in their PATH
    #[arg(long, env = "PLURAL_AGENT_RUN_IMAGE", value_name = "IMAGE")]
    run_image: Option<String>,

    /// What all runs together may take of that namespace, as in a ResourceQuota; may be given several times. "none": no quota
    #[arg(
        long,
        env = "PLURAL_AGENT_RUNS_QUOTA",
        value_delimiter = ',',
        value_name = "RESOURCE=QUANTITY",
        default_value = "pods=50"
    )]
    runs_quota: Vec<String>,
}

impl RunArgs {
    fn config(self) -> anyhow::Result<RunsConfig> {
        let Self { runs_namespace, run_image, runs_quota } = self;
        let mut quota = BTreeMap::new();
        for said in runs_quota.iter().filter(|said| *said != "none") {
            let (resource, quantity) = said
                .split_once('=')
                .filter(|(resource, quantity)| !resource.is_empty() && !quantity.is_empty())
                .with_context(|| {
                    format!("--runs-quota: {said:?} must be RESOURCE=QUANTITY, such as pods=50")
                })?;
            quota.insert(resource.to_owned(), quantity.to_owned());
        }
        let image = run_image.filter(|image| !image.is_empty());
        Ok(RunsConfig { namespace: runs_namespace, image, quota })
    }
}

/// A namespace that runs may have for their own.
fn runs_namespace(text: &str) -> Result<String, String> {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_name = text.len() <= 63
        && is_end(text.chars().next())
        && is_end(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_name {
        return Err("it must be a name of lower-case letters, digits and \"-\"".to_owned());
    }
    if text.starts_with("kube-") {
        return Err("namespaces that begin with kube- are reserved for Kubernetes".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Args {
        console_url,
        join_token,
        deploy_token,
        console_ca_file,
        namespace,
        cache_dir,
        command_renderers,
        vault,
        render_memory_mib,
        render_seconds,
        full_check_minutes,
        line,
        proxy,
        runs,
        log,
    } = args;
    log.init()?;
    keep_private();
    for (token, noun, prefix) in [(&deploy_token, "deploy", "deploy-"), (&join_token, "join", "join-")] {
        anyhow::ensure!(
            token.as_ref().is_none_or(|token| token.expose_secret().trim().starts_with(prefix)),
            "the {noun} token does not begin with {prefix:?}; `plural cd clusters bootstrap` creates \
             manifests with the right one"
        );
    }
    let ca_pem = match console_ca_file {
        None => None,
        Some(file) => {
            Some(std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?)
        }
    };
    // In a Pod the service account's token, elsewhere the kubeconfig that kubectl would use.
    let kube = kube::Config::infer().await.context("cannot find a Kubernetes cluster")?;
    let way = line.line(&console_url);
    let console = ConsoleOptions {
        url: console_url,
        token: deploy_token.map(|token| token.expose_secret().trim().to_owned()).unwrap_or_default(),
        ca_pem,
        deadline: Duration::from_secs(10),
    };
    let mut config = AgentConfig::new(console, kube, cache_dir).in_namespace(namespace);
    config.join_token = join_token.map(|token| token.expose_secret().trim().to_owned());
    config.commands = command_renderers.as_deref().map(declared).transpose()?;
    config.vault = vault.as_deref().map(vault_of).transpose()?;
    let usual = usual_render_limits();
    config.renders = Lanes::new(LaneLimits {
        bytes: render_memory_mib.map_or(usual.bytes, |mebibytes| mebibytes << 20),
        time: Duration::from_secs(render_seconds),
        ..usual
    });
    config.engine.full_check_every = Duration::from_mins(full_check_minutes);
    config.line = way;
    config.proxy = proxy.policy();
    config.runs = runs.config()?;
    let mut agent = Agent::start(config).context("the agent cannot start")?;
    let shutdown = Shutdown::new();
    tokio::select! {
        signal = shutdown.on_process_signal() => signal.context("cannot wait for signals")?,
        () = agent.ended() => anyhow::bail!("the agent stopped unexpectedly"),
        never = memory::give_back() => match never {},
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

/// The Vault that the operator of the agent names.
fn vault_of(file: &Path) -> anyhow::Result<VaultConfig> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let value =
        plural_render::yaml::parse(&text).with_context(|| format!("{} is not YAML", file.display()))?;
    let said: Vault =
        serde_json::from_value(value).with_context(|| format!("{} does not name a Vault", file.display()))?;
    let Vault { address, ca_file, auth_mount, role, audience, namespace, poll_seconds } = said;
    let seconds = poll_seconds.unwrap_or(60);
    anyhow::ensure!(
        (5..=3600).contains(&seconds),
        "{}: pollSeconds must be between 5 and 3600",
        file.display()
    );
    let usual = VaultConfig::new(address);
    let ca_pem = ca_file.map(|file| {
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    });
    Ok(VaultConfig {
        ca_pem: ca_pem.transpose()?,
        auth_mount: auth_mount.unwrap_or(usual.auth_mount),
        role: role.unwrap_or(usual.role),
        audience: audience.unwrap_or(usual.audience),
        namespace,
        poll_every: Duration::from_secs(seconds),
        address: usual.address,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn runs_are_where_it_is_said() {
        let parsed = |given: &[&str]| {
            let needed = ["agent", "--console-url", "http://localhost", "--deploy-token", "deploy-1"];
            let parsed =
                Program::try_parse_from(needed.iter().chain(given)).map_err(|error| error.to_string())?;
            parsed.args.runs.config().map_err(|error| error.to_string())
        };
        assert_eq!(parsed(&[]), Ok(RunsConfig::default()));
        let said = parsed(&[
            "--runs-namespace",
            "ci",
            "--run-image",
            "example.org/plural:1",
            "--runs-quota",
            "pods=9,limits.cpu=20",
        ]);
        let quota = [("limits.cpu".to_owned(), "20".to_owned()), ("pods".to_owned(), "9".to_owned())].into();
        let image = Some("example.org/plural:1".to_owned());
        assert_eq!(said, Ok(RunsConfig { namespace: "ci".to_owned(), image, quota }));
        assert!(parsed(&["--runs-quota", "none"]).unwrap().quota.is_empty());
        for wrong in
            [["--runs-namespace", "kube-system"], ["--runs-namespace", "A b"], ["--runs-quota", "pods"]]
        {
            assert!(parsed(&wrong).unwrap_err().contains(wrong[1]), "{wrong:?}");
        }
    }

    #[test]
    fn a_full_check_is_every_half_hour_unless_it_is_said() {
        let minutes = |given: &[&str]| {
            let needed = ["agent", "--console-url", "http://localhost", "--deploy-token", "deploy-1"];
            let parsed = Program::try_parse_from(needed.iter().chain(given));
            parsed.map(|program| program.args.full_check_minutes).map_err(|error| error.to_string())
        };
        let usual = plural_sync::EngineOptions::new("plural-system").full_check_every;
        assert_eq!(minutes(&[]).map(Duration::from_mins), Ok(usual));
        assert_eq!(minutes(&["--full-check-minutes", "4"]), Ok(4));
        for wrong in ["0", "1441", "often"] {
            assert!(minutes(&["--full-check-minutes", wrong]).unwrap_err().contains(wrong));
        }
    }
}
