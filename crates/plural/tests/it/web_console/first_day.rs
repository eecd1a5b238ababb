//! The first day of a user in the web console, driven by `ui/tests/first_day.mjs`: a new console, the command that its wizard shows, an
//! agent, git, and a service that is deployed, broken and rolled back.

use anyhow::Context as _;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{EnvVar, Secret},
};
use kube::Api;
use plural_testkit::{
    Backend, GitRemote, TestCluster, each_cluster, eventually, one_cluster,
    process::{Program, Running, StopSignal},
};
use serde_json::json;

use super::{built, node, seen};
use crate::{
    program::{ConsoleProcess, Home, LIMIT, PLURAL},
    world::EMAIL,
};

each_cluster!(
    a_service_is_deployed_broken_understood_and_rolled_back,
    logs_a_terminal_an_edit_and_a_refusal_in_a_cluster_that_was_connected,
);

one_cluster!(kubesim, "the pages are the same, whatever answers below them";
    a_cluster_is_connected_and_a_service_deployed_by_keyboard,
    what_was_made_is_accessible_in_the_dark_and_on_a_phone,
);

async fn a_service_is_deployed_broken_understood_and_rolled_back(cluster: TestCluster) -> anyhow::Result<()> {
    let steps = ["signsIn", "connects", "deploys", "changes", "breaks", "rollsBack", "audits"];
    passes(cluster, "day", &steps).await
}

async fn logs_a_terminal_an_edit_and_a_refusal_in_a_cluster_that_was_connected(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let steps = ["signsIn", "connects", "deploys", "isLetIn", "logs", "exec", "edits", "refuses"];
    passes(cluster, "inside", &steps).await
}

async fn a_cluster_is_connected_and_a_service_deployed_by_keyboard(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    passes(cluster, "keys", &["byKeys"]).await
}

async fn what_was_made_is_accessible_in_the_dark_and_on_a_phone(cluster: TestCluster) -> anyhow::Result<()> {
    let steps = ["signsIn", "connects", "deploys", "changes", "breaks", "looks"];
    passes(cluster, "looks", &steps).await
}

/// A part of the day goes through all its steps, with a console that nobody signed in to before.
async fn passes(cluster: TestCluster, part: &str, steps: &[&str]) -> anyhow::Result<()> {
    let (Some(ui), Some(kubectl)) = (built(), cluster.kubectl_or_report()) else { return Ok(()) };
    let home = Home::new()?;
    let unasked = |program: Program| program.without_env("PLURAL_ADMIN_PASSWORD");
    let mut console = ConsoleProcess::start_in(&home, "console", "info", unasked).await?;
    let password = eventually(LIMIT, async || first_password(&console.log())).await;
    let remote = GitRemote::new()?;

    let bin = home.path().join("bin");
    std::fs::create_dir(&bin)?;
    std::os::unix::fs::symlink(PLURAL, bin.join("plural"))?;
    std::os::unix::fs::symlink(kubectl.get_program(), bin.join("kubectl"))?;
    // Agents of other tests have the usual namespace of a cluster that is shared.
    let own = match cluster.backend() {
        Backend::Real => Some(cluster.namespace().await?),
        Backend::Kubesim => None,
    };
    let world = json!({
        "url": console.url(),
        "email": EMAIL,
        "password": password,
        "remote": remote.path(),
        "namespace": cluster.namespace().await?,
        "folder": home.path(),
        "agentNamespace": own,
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)))?;
    let mut command = node(&ui, "tests/first_day.mjs", &[part, &world.to_string()]);
    command.env("PATH", path).env("HOME", home.path()).env("KUBECONFIG", cluster.kubeconfig());

    let namespace = own.as_deref().unwrap_or("plural-system");
    let (agent, seen) = tokio::try_join!(kubelet(&cluster, &home, namespace), seen(command))?;
    assert_eq!(seen["steps"], json!(steps), "{seen}");
    drop(agent);
    console.stop();
    assert!(!console.log().contains("register-"), "a token is in the log");
    Ok(())
}

/// The password of the first administrator, which a console tells once, to whoever started it.
fn first_password(log: &str) -> Option<String> {
    log.lines().find_map(|line| line.trim().strip_prefix("password: ")).map(ToOwned::to_owned)
}

/// Waits for the agent's Deployment and runs the program as its Pod would: neither backend's nodes run any.
async fn kubelet(cluster: &TestCluster, home: &Home, namespace: &str) -> anyhow::Result<Running> {
    let client = cluster.client().await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = eventually(LIMIT * 3, async || deployments.get("plural-agent").await).await;
    let pod = deployment.spec.template.spec.context("a Deployment without a Pod")?;
    let container = pod.containers.into_iter().next().context("a Pod without a container")?;
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let mut held = secrets.get("plural-agent").await?.data.unwrap_or_default();
    let token = String::from_utf8(held.remove("join-token").context("a Secret without a join token")?.0)?;

    let folder = home.path().join("agent");
    std::fs::create_dir(&folder)?;
    let mut program = Program::new(PLURAL, &folder)
        .stopped_by(StopSignal::Terminate)
        .arg("agent")
        .flag("cache-dir", folder.join("cache"))
        .flag("keep-alive-seconds", "2")
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("PLURAL_AGENT_NAMESPACE", namespace)
        .env("PLURAL_JOIN_TOKEN", token);
    for EnvVar { name, value, .. } in container.env.unwrap_or_default() {
        if let Some(value) = value {
            program = program.env(name, value);
        }
    }
    program.start()
}
