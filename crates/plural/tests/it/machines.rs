//! Machines at the console: a cluster that brings itself in, and a pod that logs in by its service account.
//!
//! One backend is enough: for the second cluster of those that report one issuer; the first is of both kinds.

use std::process::Stdio;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, api::PostParams};
use plural_agent::Agent;
use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_wire::{CreateBootstrapToken, GetProject};
use serde_json::{Value, json};

use crate::{
    program::{Done, Home, finish},
    world::{EMAIL, PATIENCE, Person, World},
};

each_cluster!(a_machine_image_brings_its_cluster_in, a_pod_logs_in_by_its_service_account);

const AUDIENCE: &str = "plural";

impl Person {
    /// The id of a project.
    pub(crate) async fn project(&self, name: &str) -> anyhow::Result<String> {
        let asked = GetProject { id: None, name: Some(name.to_owned()) };
        Ok(self.client.send(&asked).await?.id)
    }

    /// A new registration token of a project.
    pub(crate) async fn registration_token(&self, project: &str) -> anyhow::Result<String> {
        let attributes = plural_wire::BootstrapTokenAttributes {
            project_id: project.to_owned(),
            ..plural_wire::BootstrapTokenAttributes::default()
        };
        let made = self.client.send(&CreateBootstrapToken { attributes, current_password: None }).await?;
        Ok(made.token.unwrap().expose().to_owned())
    }
}

/// Runs `plural` with a token, or without a login where that is empty.
async fn as_bearer(home: &Home, url: &str, token: &str, words: &[&str]) -> anyhow::Result<Done> {
    let mut command = home.plural(words);
    command.env("PLURAL_CONSOLE_URL", url);
    if !token.is_empty() {
        command.env("PLURAL_CONSOLE_TOKEN", token);
    }
    finish(command).await
}

fn good(done: Done) -> Done {
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

/// The join token in an agent's manifests.
fn join_token(manifests: &str) -> String {
    let from = manifests.find("join-token: join-").expect(manifests) + "join-token: ".len();
    manifests[from..].lines().next().unwrap().trim().to_owned()
}

async fn a_machine_image_brings_its_cluster_in(cluster: TestCluster) -> anyhow::Result<()> {
    let mut w = World::without_agent(cluster).await?;
    let home = Home::new()?;
    let url = w.console.url.clone();
    let (_, admin) = Person::sign_in(&url, None, EMAIL).await?;
    let words = ["cd", "registration-tokens", "create", "--project", "default", "--prefix", "shop-"];
    let more = ["--tag", "stage=edge", "--limit", "2", "--name", "shops"];
    let made = good(as_bearer(&home, &url, &admin, &[&words[..], &more[..]].concat()).await?);
    let token = made.out.trim().to_owned();
    assert!(token.starts_with("register-"), "{made:?}");
    std::fs::write(home.path().join("token.txt"), &token)?;

    // On the machine, where nobody is logged in.
    let bootstrap = [
        "cd",
        "clusters",
        "bootstrap",
        "Berlin",
        "--token-file",
        "token.txt",
        "--image",
        "example.com/plural:1",
    ];
    let first = good(as_bearer(&home, &url, "", &bootstrap).await?);
    assert!(first.err.contains("cluster Berlin registered"), "{first:?}");
    assert!(!first.out.contains("register-"), "the token stays where it is: {first:?}");
    // The image starts again before its agent was there.
    let again = good(as_bearer(&home, &url, "", &bootstrap).await?);
    let join = join_token(&again.out);
    assert_ne!(join, join_token(&first.out));
    let mut config = w.agent_config().await?;
    config.console.token.clear();
    config.join_token = Some(join);
    w.agent = Some(Agent::start(config)?);
    let list = ["cd", "clusters", "list", "-o", "json"];
    eventually(PATIENCE, async || {
        let listed = as_bearer(&home, &url, &admin, &list).await.map_err(|error| error.to_string())?;
        let clusters: Vec<Value> = serde_json::from_str(&listed.out).map_err(|error| error.to_string())?;
        let berlin = clusters.iter().find(|cluster| cluster["handle"] == "shop-berlin");
        match berlin {
            Some(berlin) if !berlin["pingedAt"].is_null() => {
                assert_eq!(berlin["tags"], json!([{"name": "stage", "value": "edge"}]));
                Ok(())
            }
            _ => Err(listed.out),
        }
    })
    .await;
    // Now it is the agent's.
    let late = as_bearer(&home, &url, "", &bootstrap).await?;
    assert!(late.code == Some(1) && late.err.contains("already exists"), "{late:?}");

    // The token looks at nothing and changes nothing, and goes when it is revoked.
    for words in [
        &list[..],
        &["cd", "clusters", "delete", "shop-berlin", "--yes"],
        &["cd", "projects", "list"],
        &["cd", "services", "list"],
        &["cd", "users", "list"],
        &["whoami"],
    ] {
        let refused = as_bearer(&home, &url, &token, words).await?;
        assert!(refused.code == Some(1) && refused.out.is_empty(), "{words:?}: {refused:?}");
    }
    let listed =
        good(as_bearer(&home, &url, &admin, &["cd", "registration-tokens", "list", "-o", "json"]).await?);
    assert!(!listed.out.contains(&token), "{listed:?}");
    let listed: Vec<Value> = serde_json::from_str(&listed.out)?;
    assert_eq!((&listed[0]["uses"], &listed[0]["limit"]), (&json!(1), &json!(2)), "{listed:?}");
    let id = listed[0]["id"].as_str().unwrap();
    good(as_bearer(&home, &url, &admin, &["cd", "registration-tokens", "delete", id, "--yes"]).await?);
    let other = [
        "cd",
        "clusters",
        "bootstrap",
        "paris",
        "--token-file",
        "token.txt",
        "--image",
        "example.com/plural:1",
    ];
    let ended = as_bearer(&home, &url, "", &other).await?;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    w.end().await
}

/// What a pod of a service account is given for an audience.
async fn pod_token(
    client: &kube::Client,
    namespace: &str,
    account: &str,
    audience: &str,
) -> anyhow::Result<String> {
    let asked = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [audience], "expirationSeconds": 600},
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = http::Request::post(path).header("content-type", "application/json");
    let made: Value = client.request(request.body(serde_json::to_vec(&asked)?)?).await?;
    Ok(made["status"]["token"].as_str().unwrap_or_default().to_owned())
}

/// Logs in with such a token, in a home where nobody is logged in.
async fn log_in(url: &str, token: &str) -> anyhow::Result<(Home, Done)> {
    let home = Home::new()?;
    std::fs::write(home.path().join("id-token"), token)?;
    let mut command = home.plural(&["login", "--url", url, "--id-token-stdin"]);
    command.stdin(Stdio::from(std::fs::File::open(home.path().join("id-token"))?));
    let done = finish(command).await?;
    Ok((home, done))
}

async fn make_account(client: &kube::Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    accounts.create(&PostParams::default(), &account).await?;
    Ok(())
}

async fn a_pod_logs_in_by_its_service_account(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let home = Home::new()?;
    let url = w.console.url.clone();
    let (_, admin) = Person::sign_in(&url, None, EMAIL).await?;
    let account = "deployer@machines.example.com";
    let create = ["cd", "service-accounts", "create", "deployer", "--email", account];
    good(as_bearer(&home, &url, &admin, &create).await?);
    for name in ["deployer", "other"] {
        make_account(&w.client, &w.namespace, name).await?;
    }
    let federate = ["cd", "federated-credentials", "create", account, "--cluster", "blue"];
    let more = ["--namespace", &w.namespace, "--service-account", "deployer", "--audience", AUDIENCE];
    let made = good(as_bearer(&home, &url, &admin, &[&federate[..], &more[..]].concat()).await?);
    assert!(made.out.contains("cluster/blue"), "{made:?}");

    // As soon as the agent has told who signs here.
    let token = pod_token(&w.client, &w.namespace, "deployer", AUDIENCE).await?;
    let pod = eventually(PATIENCE, async || {
        let (pod, done) = log_in(&url, &token).await.map_err(|error| error.to_string())?;
        if done.code == Some(0) { Ok(pod) } else { Err(format!("{done:?}")) }
    })
    .await;
    let whoami = good(pod.run(&["whoami", "-o", "json"]).await?);
    assert!(whoami.out.contains(account), "{whoami:?}");

    // Another account, a token for somebody else, and the pod's token for its own API server.
    let other = pod_token(&w.client, &w.namespace, "other", AUDIENCE).await?;
    let elsewhere = pod_token(&w.client, &w.namespace, "deployer", "another").await?;
    for (what, token) in [("another account", other), ("another audience", elsewhere)] {
        let (_, refused) = log_in(&url, &token).await?;
        assert_eq!(refused.code, Some(1), "{what}: {refused:?}");
    }
    // Another cluster, with the same names: it is known, but nobody trusts it.
    let red = TestCluster::kubesim().await?;
    let client = red.client().await?;
    let namespace: k8s_openapi::api::core::v1::Namespace =
        serde_json::from_value(json!({"metadata": {"name": w.namespace}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    make_account(&client, &w.namespace, "deployer").await?;
    let (_, refused) = log_in(&url, &pod_token(&client, &w.namespace, "deployer", AUDIENCE).await?).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    w.end().await
}
