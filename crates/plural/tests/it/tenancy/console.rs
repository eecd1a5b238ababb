//! What the console refuses when it is written, by any of its replicas.
//!
//! One backend is enough: what is refused is refused before any cluster sees it.

use plural_console::RunningConsole;
use plural_testkit::{TestCluster, postgres::PostgresServer, run_case};
use serde_json::{Value, json};

use crate::world::{Person, World, console_config, map};

#[test]
fn what_limits_refuse_is_refused_when_it_is_written() {
    run_case(refused_when_it_is_written());
}

#[test]
fn attack_15_three_replicas_refuse_the_same() {
    run_case(three_replicas_refuse_the_same());
}

/// A client of one console, as anybody who signs in.
struct Caller {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Caller {
    async fn new(url: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
        let (_, token) = Person::sign_in(url, None, crate::world::EMAIL).await?;
        Ok(Self { http, url: format!("{url}/gql"), token })
    }

    async fn ask(&self, query: &str, variables: Value) -> anyhow::Result<Value> {
        let body = json!({"query": query, "variables": variables});
        let answer = self.http.post(&self.url).bearer_auth(&self.token).json(&body).send().await?;
        Ok(answer.json().await?)
    }

    async fn limit(&self, limits: &Value) -> anyhow::Result<()> {
        let project = self.ask("query { project(name: \"default\") { id } }", json!({})).await?;
        let set = "mutation ($p: ID!, $a: ProjectLimitsAttributes!) {
            setProjectLimits(projectId: $p, attributes: $a) { id }
        }";
        let id = &project["data"]["project"]["id"];
        let answer = self.ask(set, json!({"p": id, "a": limits})).await?;
        anyhow::ensure!(answer["errors"].is_null(), "{answer}");
        Ok(())
    }
}

/// What the console refuses when it is written: limits, what a service asks for, and what the answer names.
fn refusals() -> Vec<(Value, Value, &'static str)> {
    let account = |name: &str| json!({"syncConfig": {"serviceAccount": name}});
    vec![
        (json!({}), account("kube-system/generic-garbage-collector"), "reserved for Kubernetes"),
        (json!({}), account("kube-public/x"), "reserved for Kubernetes"),
        (json!({}), account("other/deployer"), "limit serviceAccounts"),
        (
            json!({"serviceAccounts": ["other/deployer"]}),
            account("other/deployer-2"),
            "limit serviceAccounts",
        ),
        (json!({"serviceAccounts": ["other/deployer"]}), account("Other/deployer"), "NAMESPACE/NAME"),
        (json!({"namespaces": ["other"]}), account("deployer"), "limit namespaces"),
        (json!({"namespaces": ["app"]}), account("deployer"), "limit namespaces"),
        (json!({"namespaces": ["apps-*"]}), account("apps/deployer"), "limit namespaces"),
        (json!({"requireServiceAccount": true}), json!({}), "limit requireServiceAccount"),
        (
            json!({"requireServiceAccount": true}),
            json!({"syncConfig": {"serviceAccount": null}}),
            "limit requireServiceAccount",
        ),
        (json!({}), account(""), "NAMESPACE/NAME"),
        (json!({"repositories": ["https://git.example.org/blue/*"]}), json!({}), "limit repositories"),
        (
            json!({"repositories": ["/nowhere/*"]}),
            json!({"helm": {"url": "https://charts.example.org", "chart": "x", "version": "1.0.0"}}),
            "limit repositories",
        ),
    ]
}

/// Every refusal of `refusals`, by each caller in turn; what the limits allow is taken by each.
async fn refuse(callers: &[Caller], cluster: &str, repository: &str) -> anyhow::Result<()> {
    let create = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $c, attributes: $a) { id }
    }";
    let update = "mutation ($id: ID, $a: ServiceUpdateAttributes!) {
        updateServiceDeployment(id: $id, attributes: $a) { id }
    }";
    let attributes = |name: &str, more: &Value| {
        let mut all = json!({"name": name, "namespace": "apps", "repositoryId": repository,
            "git": {"ref": "main", "folder": "app"}});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let there = {
        let made =
            callers[0].ask(create, json!({"c": cluster, "a": attributes("there", &json!({}))})).await?;
        made["data"]["createServiceDeployment"]["id"].clone()
    };
    assert!(there.is_string(), "{there}");
    for (number, (limits, more, words)) in refusals().into_iter().enumerate() {
        // One replica is told; all hold to it at once: what limits say is read where it is decided.
        callers[number % callers.len()].limit(&limits).await?;
        let mut told = Vec::new();
        for (replica, caller) in callers.iter().enumerate() {
            let name = format!("new-{number}-{replica}");
            let answer = caller.ask(create, json!({"c": cluster, "a": attributes(&name, &more)})).await?;
            let message = answer["errors"][0]["message"].as_str().unwrap_or_default().to_owned();
            assert!(message.contains(words), "{limits} {more}: {answer}");
            told.push(message);
            // A change is held to the same; what names nothing changes nothing.
            if more.get("helm").is_some() || more["syncConfig"]["serviceAccount"].is_string() {
                let answer = caller.ask(update, json!({"id": there, "a": more})).await?;
                let message = answer["errors"][0]["message"].as_str().unwrap_or_default();
                assert!(message.contains(words), "{limits} {more}: {answer}");
            }
        }
        told.dedup();
        assert_eq!(told.len(), 1, "replicas say different things: {told:?}");
    }
    let allowed = json!({"namespaces": ["apps"], "serviceAccounts": ["other/deployer"], "requireServiceAccount": true,
        "defaultServiceAccount": "deployer"});
    callers[0].limit(&allowed).await?;
    for (replica, caller) in callers.iter().enumerate() {
        for (number, account) in
            [None, Some("deployer"), Some("apps/deployer"), Some("other/deployer")].into_iter().enumerate()
        {
            let more =
                account.map_or(json!({}), |account| json!({"syncConfig": {"serviceAccount": account}}));
            let name = format!("fine-{replica}-{number}");
            let answer = caller.ask(create, json!({"c": cluster, "a": attributes(&name, &more)})).await?;
            assert!(answer["errors"].is_null(), "{account:?}: {answer}");
        }
    }
    // Limits that can mean nothing are refused where they are set.
    for limits in [
        json!({"serviceAccounts": ["kube-system/x"]}),
        json!({"serviceAccounts": ["deployer"]}),
        json!({"serviceAccounts": ["*/deployer"]}),
        json!({"namespaces": ["Apps"]}),
        json!({"clusterKinds": ["Namespace"]}),
        json!({"defaultServiceAccount": "a/b"}),
        json!({"repositories": ["https://git.example.org/../*"]}),
    ] {
        for caller in callers {
            assert!(caller.limit(&limits).await.is_err(), "{limits}");
        }
    }
    Ok(())
}

async fn refused_when_it_is_written() -> anyhow::Result<()> {
    let w = World::without_agent(TestCluster::kubesim().await?).await?;
    refuse(&[Caller::new(&w.console.url).await?], &w.registered.id, &w.repository).await?;
    w.end().await
}

async fn three_replicas_refuse_the_same() -> anyhow::Result<()> {
    let Some(server) = PostgresServer::start_or_report()? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let mut consoles = Vec::new();
    let mut callers = Vec::new();
    for name in ["a", "b", "c"] {
        let mut config = console_config(&folder.path().join(name));
        config.database_url = Some(format!("{}/postgres", server.url()).into());
        if name != "a" {
            config.encryption_key_file = Some(folder.path().join("a/console/encryption.key"));
        }
        let console = RunningConsole::start(config, None).await?;
        callers.push(Caller::new(&console.url).await?);
        consoles.push(console);
    }
    let person = Person::administrator(&consoles[0].url).await?;
    let registered = person.cluster("blue").await?;
    let remote = plural_testkit::GitRemote::new()?;
    remote.push_files([("app/map.yaml", map("app", "1"))])?;
    let repository = person.repository(&remote.path().display().to_string()).await?;
    refuse(&callers, &registered.id, &repository).await?;
    for console in consoles {
        console.stop().await?;
    }
    Ok(())
}
