//! What a shell is offered while somebody types.

use std::{collections::HashMap, sync::Arc, time::Instant};

use plural_cli::{Lookup, command, completions};
use serde_json::{Value, json};

use crate::server::Server;

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

fn page(nodes: &[Value]) -> Value {
    let edges: Vec<Value> = nodes.iter().map(|node| json!({"node": node})).collect();
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges})
}

/// What is offered for the last word of a line.
async fn offered(line: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let known: HashMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let variable: Lookup = Arc::new(move |name| known.get(name).cloned());
    let ask = move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        completions(command(), &words, words.len() - 1, &variable)
    };
    let all = tokio::task::spawn_blocking(ask).await.unwrap();
    all.into_iter().filter(|one| !one.starts_with('-')).collect()
}

#[tokio::test]
async fn names_are_those_of_the_console() {
    let cluster = |handle: &str| json!({"id": ID, "name": handle, "handle": handle, "tags": []});
    let service = |name: &str| {
        json!({"id": ID, "name": name, "namespace": "shop", "status": "HEALTHY",
            "cluster": {"id": ID, "name": "Blue", "handle": "blue"}})
    };
    let repository = json!({"id": ID, "url": "https://git.example.com/a.git", "authMethod": "BASIC", "signedCommits": false});
    let named = |name: &str| json!({"id": ID, "name": name});
    let global = json!({"id": ID, "name": "monitoring", "tags": [], "generation": "1", "spread": false});
    let server = Server::start()
        .await
        .data("ListClusters", "clusters", &page(&[cluster("blue"), cluster("black"), cluster("green")]))
        .data("ListServiceDeployments", "serviceDeployments", &page(&[service("web"), service("db")]))
        .data("ListGitRepositories", "gitRepositories", &page(&[repository]))
        .data("ListProjects", "projects", &page(&[named("shop")]))
        .data("ListServiceContexts", "serviceContexts", &page(&[named("network")]))
        .data("ListGlobalServices", "globalServices", &page(&[global]));
    let login = [("PLURAL_CONSOLE_TOKEN", "console-test"), ("PLURAL_CONSOLE_URL", server.url.as_str())];
    for (line, names) in [
        ("plural cd clusters describe bl", &["blue", "black"][..]),
        ("plural clusters describe g", &["green"]),
        ("plural clusters describe @gr", &["@green"]),
        ("plural cd services list bl", &["blue", "black"]),
        ("plural cd services describe b", &["blue/", "black/"]),
        ("plural status blue/", &["blue/web", "blue/db"]),
        ("plural status service/blue/w", &["service/blue/web"]),
        ("plural diff blue/w", &["blue/web"]),
        ("plural cd services create blue/new --repository h", &["https://git.example.com/a.git"]),
        ("plural clusters list --project s", &["shop"]),
        ("plural clusters list --project=s", &[]),
        ("plural contexts get n", &["network"]),
        ("plural cd global-services describe m", &["monitoring"]),
        ("plural cd global-services create m", &[]),
        ("plural get svc blue/d", &["blue/db"]),
        ("plural get clusters gr", &["green"]),
        ("plural get clu", &["clusters"]),
        ("plural svc get blue/w", &["blue/web"]),
        ("plural cd clu", &["clusters"]),
        // Not ours: a context of kubectl's.
        ("plural clusters bootstrap --context n", &[]),
    ] {
        assert_eq!(offered(line, &login).await, names, "{line}");
    }
    // The cluster that was typed is the one that is asked for.
    assert_eq!(server.asked("ListServiceDeployments")[0]["cluster"], "blue");
    // Options on the line are heeded.
    let line = format!("plural status --url {} green/", server.url);
    assert_eq!(offered(&line, &login[..1]).await, ["green/web", "green/db"]);
}

#[tokio::test]
async fn names_of_stacks_automations_governances_and_connections_are_offered() {
    let stack = json!({"id": ID, "name": "network", "type": "TERRAFORM", "protect": false, "paused": false});
    let automation = json!({
        "id": ID, "name": "add-service", "role": null, "title": "Add it", "message": "Adds it", "identifier": null, "branch": null,
        "documentation": null, "insertedAt": null, "updatedAt": null, "project": null, "configuration": [],
    });
    let governance = json!({
        "id": ID, "name": "board", "type": "WEBHOOK", "insertedAt": null, "updatedAt": null,
        "configuration": {"webhook": {"url": "https://board.example.com", "signed": true}},
        "connection": {"id": ID, "name": "approver"}, "project": null,
    });
    let connection = json!({
        "id": ID, "name": "forge", "type": "GITEA", "default": true, "owner": "acme", "username": null,
        "baseUrl": "https://git.example.com", "apiUrl": null, "repositories": ["acme/*"], "hasToken": true,
        "hasSigningKey": false, "hasSshKey": false, "knownHosts": null, "hasProxy": false, "insertedAt": null, "updatedAt": null,
        "github": null, "azure": null, "bitbucketDatacenter": null, "project": null,
    });
    let server = Server::start()
        .await
        .data("ListInfrastructureStacks", "infrastructureStacks", &page(&[stack]))
        .data("ListPrAutomations", "prAutomations", &page(&[automation]))
        .data("ListPrGovernances", "prGovernances", &page(&[governance]))
        .data("ListScmConnections", "scmConnections", &page(&[connection]));
    let login = [("PLURAL_CONSOLE_TOKEN", "console-test"), ("PLURAL_CONSOLE_URL", server.url.as_str())];
    for (line, name) in [
        ("plural cd stacks drift n", "network"),
        ("plural cd stacks run n", "network"),
        ("plural pr create a", "add-service"),
        ("plural pr upgrade --automation a", "add-service"),
        ("plural pr automations update add-service --governance b", "board"),
        ("plural pr governance describe b", "board"),
        ("plural pr automations update add-service --connection f", "forge"),
        ("plural cd scm-connections describe f", "forge"),
    ] {
        // Nothing is offered where an answer takes its time: the next tab asks again.
        let patience = std::time::Duration::from_secs(30);
        let names = plural_testkit::eventually(patience, async || {
            Some(offered(line, &login).await).filter(|names| !names.is_empty())
        });
        assert_eq!(names.await, [name], "{line}");
    }
}

#[tokio::test]
async fn without_a_console_nothing_is_offered_and_soon() {
    let home = tempfile::tempdir().unwrap();
    let home = ("HOME", home.path().to_str().unwrap());
    // Nobody is logged in.
    assert!(offered("plural cd clusters describe b", &[home]).await.is_empty());
    // A console that takes the connection and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let login = [home, ("PLURAL_CONSOLE_TOKEN", "console-test"), ("PLURAL_CONSOLE_URL", url.as_str())];
    let started = Instant::now();
    assert!(offered("plural cd clusters describe b", &login).await.is_empty());
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    // One that refuses.
    let server = Server::start().await.error("ListClusters", "UNAUTHENTICATED", "unauthenticated");
    let login = [home, ("PLURAL_CONSOLE_TOKEN", "console-test"), ("PLURAL_CONSOLE_URL", server.url.as_str())];
    assert!(offered("plural cd clusters describe b", &login).await.is_empty());
    // Commands are offered all the same.
    assert!(offered("plural cd clu", &[home]).await.contains(&"clusters".to_owned()));
}
