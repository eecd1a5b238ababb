//! `plural cd clusters bootstrap`.

use std::{path::Path, process::Stdio};

use chrono::{DateTime, SecondsFormat, Utc};
use plural_core::registration_token::REGISTRATION_TOKEN_PREFIX;
use plural_core::specs::Handle;
use plural_wire::{
    Client, ClusterWithToken, CreateClusterWithToken, CreateJoinToken, DetachCluster, GetAgentUrl,
    GetClusterWithToken, RegisterCluster, RegisteredCluster, Secret,
};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{
    args::BootstrapArgs,
    clusters::{attributes, until_pinged},
    connect::Connection,
    error::CliError,
    key::ClusterKey,
    manifests::{Agent, manifests},
    output::yaml_text,
    terminal::Terminal,
};

/// [`run`] for a cluster that is registered: a name that is none is an error, not a new cluster.
pub(crate) async fn again(
    mut args: BootstrapArgs,
    connection: &Connection,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    if args.token_file.is_some() {
        return Err(CliError::usage(
            "a registration token makes clusters: use `plural cd clusters bootstrap`",
        ));
    }
    let client = &connection.client;
    let cluster: ClusterKey = name(&args)?.parse().map_err(CliError::usage)?;
    let known = cluster.get(client).await?;
    args.properties.handle = Some(known.handle.unwrap_or(known.name));
    args.rejoin = true;
    run(args, connection, terminal).await
}

/// The name that was given, in either way.
fn name(args: &BootstrapArgs) -> Result<&str, CliError> {
    let given = args.cluster.as_deref().or(args.name.as_deref());
    given.ok_or_else(|| CliError::usage("a cluster needs a name"))
}

/// The registration token of a file, or of standard input.
pub(crate) fn token(file: &Path, terminal: &mut Terminal<'_>) -> Result<Secret, CliError> {
    let text = if file == Path::new("-") {
        terminal.line()?
    } else {
        let unread = |error| CliError::new(format!("cannot read {}: {error}", file.display()));
        std::fs::read_to_string(file).map_err(unread)?
    };
    let text = text.trim();
    if !text.starts_with(REGISTRATION_TOKEN_PREFIX) {
        return Err(CliError::new(format!("{} holds no registration token", file.display()))
            .hint("`plural cd registration-tokens create --project PROJECT` makes one"));
    }
    Ok(Secret::new(text))
}

pub(crate) async fn run(
    args: BootstrapArgs,
    connection: &Connection,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let client = &connection.client;
    let ca_pem = match connection.ca_pem.as_deref() {
        Some(bytes) => Some(
            std::str::from_utf8(bytes)
                .map_err(|_| CliError::usage("the file of --ca-file is not PEM text"))?,
        ),
        None => None,
    };
    // Before a cluster is registered, whose token is told once.
    if let Some(url) = args.agent_url.as_deref().filter(|url| !args.insecure_http && is_plain(url)) {
        return Err(CliError::new(format!("cannot use {url} as --agent-url: {}", plain_http())));
    }
    let is_machine = connection.token.expose().starts_with(REGISTRATION_TOKEN_PREFIX);
    let joining = if is_machine {
        register(&args, client, terminal).await?
    } else {
        join(&args, client, terminal).await?
    };
    let Joining { id, handle, is_new, join_token, agent_url } = joining;
    let console_url = args.agent_url.or(agent_url).unwrap_or_else(|| client.url().to_owned());
    if !args.insecure_http && is_plain(&console_url) {
        terminal.say(format_args!("the agent will refuse {console_url}: {}", plain_http()));
    }
    let objects = manifests(&Agent {
        insecure_http: args.insecure_http,
        namespace: &args.namespace,
        image: &args.image,
        console_url: &console_url,
        cluster: &handle,
        join_token: &join_token,
        ca_pem,
    });
    let mut text = String::new();
    for object in &objects {
        text.push_str("---\n");
        text.push_str(&yaml_text(object)?);
    }
    if args.apply {
        apply(&Secret::new(text), args.context.as_deref(), terminal).await?;
    } else {
        let written = write!(terminal.out, "{text}").and_then(|()| terminal.out.flush());
        if let Err(cause) = written {
            return Err(unread(&id, &handle, is_new, cause, client).await);
        }
    }
    if args.wait.wait {
        until_pinged(&id, &handle, args.wait.timeout, client, terminal).await?;
        terminal.say(format_args!("cluster {handle} is part of the fleet"));
    } else if args.apply && !is_machine {
        terminal
            .say(format_args!("hint: `plural cd clusters describe {handle}` shows when its agent reports"));
    }
    Ok(())
}

fn plain_http() -> &'static str {
    "plain HTTP would send its token and the services' secrets over the network in clear; name an https:// address with \
     --agent-url, or allow it with --insecure-http if something in between encrypts"
}

/// Whether an address is one of plain HTTP that leads beyond the agent's own machine.
fn is_plain(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let here = ["localhost", "127.", "[::1]"];
    scheme.eq_ignore_ascii_case("http") && !here.iter().any(|name| host.starts_with(name))
}

/// What becomes of a cluster whose manifests nobody read to their end, as in `| head`: a new one is taken back, so that the same
/// command can be given again.
async fn unread(id: &str, handle: &str, is_new: bool, cause: std::io::Error, client: &Client) -> CliError {
    let told = format!("the manifests were not read to their end ({cause})");
    if is_new && client.send(&DetachCluster { id: id.to_owned() }).await.is_ok() {
        return CliError::new(format!("{told}: cluster {handle} is not registered"))
            .hint("give the whole output to kubectl or a file");
    }
    CliError::new(told)
        .hint(format!("`plural cd clusters bootstrap {handle} --rejoin` prints them with another token"))
}

/// A cluster whose agent is to join.
struct Joining {
    id: String,
    handle: String,
    /// It was made by this command, which may take it back.
    is_new: bool,
    join_token: Secret,
    /// Where the console says that agents reach it.
    agent_url: Option<String>,
}

/// Makes a cluster with a registration token. Asked again, the console answers the same one until its agent has joined.
async fn register(
    args: &BootstrapArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<Joining, CliError> {
    if args.rejoin || args.wait.wait || args.properties.project.is_some() || args.valid_for.is_some() {
        return Err(CliError::usage(
            "a registration token makes clusters of its project and reads nothing: leave out --rejoin, --wait, --project and --valid-for",
        ));
    }
    let attributes = attributes(name(args)?, &args.properties, client, terminal).await?;
    let made = client.send(&RegisterCluster { attributes }).await?;
    let RegisteredCluster { id, name, handle, join_token, join_token_expires_at, agent_url } = made;
    terminal.say(format_args!("cluster {name} registered"));
    say_end(join_token_expires_at, terminal);
    Ok(Joining {
        id,
        handle: handle.unwrap_or(name),
        is_new: false,
        join_token: join_token.ok_or_else(no_join_token)?,
        agent_url,
    })
}

/// Finds or makes a cluster as a user, with another join token.
async fn join(
    args: &BootstrapArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<Joining, CliError> {
    let (cluster, is_new) = find_or_create(args, client, terminal).await?;
    let join_token = join_token(args, &cluster.id, client, terminal).await?;
    let agent_url = match &args.agent_url {
        Some(_) => None,
        None => client.send(&GetAgentUrl { id: cluster.id.clone() }).await?.agent_url,
    };
    let handle = cluster.handle.unwrap_or(cluster.name);
    Ok(Joining { id: cluster.id, handle, is_new, join_token, agent_url })
}

fn no_join_token() -> CliError {
    CliError::new("the console returned no join token")
}

fn say_end(at: Option<DateTime<Utc>>, terminal: &mut Terminal<'_>) {
    if let Some(at) = at {
        let at = at.to_rfc3339_opts(SecondsFormat::Secs, true);
        terminal.say(format_args!("its agent can join once, until {at}"));
    }
}

/// The registered cluster of this handle, if its agent may join anew, or a new one; whether it is new.
async fn find_or_create(
    args: &BootstrapArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(ClusterWithToken, bool), CliError> {
    let handle = match &args.properties.handle {
        Some(handle) => Some(handle.clone()),
        // As the console would make it.
        None => Handle::suggest(name(args)?).ok().map(|handle| handle.to_string()),
    };
    let known = match handle {
        Some(handle) => match client.send(&GetClusterWithToken { id: None, handle: Some(handle) }).await {
            Ok(cluster) => Some(cluster),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    match known {
        Some(known) if args.rejoin => Ok((known, false)),
        Some(known) => Err(CliError::new(format!(
            "cluster {} is registered already",
            known.handle.unwrap_or(known.name)
        ))
        .hint("--rejoin makes another join token; an agent that has joined goes on until another one joins with it")),
        None => {
            let attributes = attributes(name(args)?, &args.properties, client, terminal).await?;
            let cluster = client.send(&CreateClusterWithToken { attributes }).await?;
            terminal.say(format_args!("cluster {} registered", cluster.name));
            Ok((cluster, true))
        }
    }
}

/// A new join token. The one before ends.
async fn join_token(
    args: &BootstrapArgs,
    cluster: &str,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<Secret, CliError> {
    let seconds =
        args.valid_for.map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX).min(i32::MAX.into()));
    let request = CreateJoinToken { id: cluster.to_owned(), valid_for_seconds: seconds };
    let made = client.send(&request).await?;
    say_end(made.join_token_expires_at, terminal);
    made.join_token.ok_or_else(no_join_token)
}

/// Hands the manifests to kubectl on its standard input, so that the token is in no process list or file.
async fn apply(text: &Secret, context: Option<&str>, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["apply", "--server-side", "--field-manager=plural-cli", "-f", "-"]);
    if let Some(context) = context {
        kubectl.args(["--context", context]);
    }
    let mut child = kubectl
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            CliError::new(format!("cannot start kubectl: {error}"))
                .hint("install kubectl, or leave out --apply and apply the printed manifests in another way")
        })?;
    if let Some(mut input) = child.stdin.take() {
        // kubectl may end before it has read everything; its exit code then says why.
        let _ = input.write_all(text.expose().as_bytes()).await;
    }
    let done = child
        .wait_with_output()
        .await
        .map_err(|error| CliError::new(format!("cannot wait for kubectl: {error}")))?;
    // What kubectl did is talk here: the command's own answer is that it was done.
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        terminal.say(line);
    }
    if done.status.success() {
        Ok(())
    } else {
        Err(CliError::new("kubectl could not apply the agent's manifests")
            .hint("kubectl's output is above; the cluster stays registered, so the command can be repeated"))
    }
}
