//! `plural cd clusters bootstrap`.

use std::process::Stdio;

use plural_wire::{
    Client, ClusterWithToken, CreateClusterWithToken, GetAgentUrl, GetClusterWithToken, Secret,
};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{
    args::BootstrapArgs,
    clusters::{attributes, until_pinged},
    error::CliError,
    manifests::{Agent, manifests},
    output::yaml_text,
    terminal::Terminal,
};

pub(crate) async fn run(
    args: BootstrapArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let cluster = find_or_create(&args, client, terminal).await?;
    let handle = cluster.handle.clone().unwrap_or_else(|| cluster.name.clone());
    let Some(deploy_token) = cluster.deploy_token else {
        return Err(CliError::new(format!("the console does not tell the deploy token of cluster {handle}"))
            .hint("it is told to writers of the cluster only: ask an owner of its project"));
    };
    let console_url = match args.agent_url {
        Some(url) => url,
        None => client
            .send(&GetAgentUrl { id: cluster.id.clone() })
            .await?
            .agent_url
            .unwrap_or_else(|| client.url().to_owned()),
    };
    let objects = manifests(&Agent {
        namespace: &args.namespace,
        image: &args.image,
        console_url: &console_url,
        cluster: &handle,
        deploy_token: &deploy_token,
        ca_pem: None,
    });
    let mut text = String::new();
    for object in &objects {
        text.push_str("---\n");
        text.push_str(&yaml_text(object)?);
    }
    if args.apply {
        apply(&Secret::new(text), args.context.as_deref(), terminal).await?;
    } else {
        write!(terminal.out, "{text}")?;
        terminal.out.flush()?;
    }
    if args.wait.wait {
        until_pinged(&cluster.id, &handle, args.wait.timeout, client, terminal).await?;
        terminal.say(format_args!("cluster {handle} is part of the fleet"));
    } else if args.apply {
        terminal
            .say(format_args!("hint: `plural cd clusters describe {handle}` shows when its agent reports"));
    }
    Ok(())
}

/// The registered cluster of this handle, or a new one.
async fn find_or_create(
    args: &BootstrapArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<ClusterWithToken, CliError> {
    let handle = args.properties.handle.clone().unwrap_or_else(|| args.name.clone());
    match client.send(&GetClusterWithToken { id: None, handle: Some(handle) }).await {
        Ok(cluster) => {
            terminal.say(format_args!("cluster {} is registered already", cluster.name));
            return Ok(cluster);
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let attributes = attributes(&args.name, &args.properties, client, terminal).await?;
    let cluster = client.send(&CreateClusterWithToken { attributes }).await?;
    terminal.say(format_args!("cluster {} registered", cluster.name));
    Ok(cluster)
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
    terminal.say(String::from_utf8_lossy(&done.stdout).trim_end());
    if done.status.success() {
        Ok(())
    } else {
        Err(CliError::new("kubectl could not apply the agent's manifests")
            .hint("its own words are above; the cluster stays registered, so the command can be repeated"))
    }
}
