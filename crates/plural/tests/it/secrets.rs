//! No secret in a log, a database, an audit row, an error, a metric or an answer.
//!
//! One backend is enough: secrets are kept by the console, on each database; the cluster only has to be there.

use std::path::{Path, PathBuf};

use plural_testkit::{
    GitRemote, GitServer, TestCluster, TestDatabase, each_database, postgres::find_programs,
};
use plural_wire::{
    CreateAccessToken, CreateGitRepository, GetCluster, GitAttributes, ListClusters, ListGitRepositories,
    ListServiceDeployments, Me, Operation, OperationKind, PAGE_SIZE, Secret, UpdateServiceDeployment,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    asker::{Asker, OF_A_SERVICE, holds_none},
    program::{AgentProcess, ConsoleProcess, Home},
    shells::{self, Shells},
    world::{PASSWORD, PATIENCE, Person, attributes, map, value},
};

each_database!(attack_19_no_secret_leaves_its_place);

const CONFIGURED: &str = "configured-3f9c1d7e";
const GIT_PASSWORD: &str = "gitpassword-91b2ac44";
const WRONG_PASSWORD: &str = "wrongpassword-5d0e6f18";
const IN_A_CONTEXT: &str = "contextsecret-66aa77bb";
const INLINE: &str = "inlinevalue-c0ffee12";
const RENDERER_INLINE: &str = "rendererinline-d00d4411";
const SSH_KEY: &str = "c3NoLWtleS1jYW5hcnktOGIxZjRh";
const PASSPHRASE: &str = "passphrase-33dd55ee";
const PROXY_PASSWORD: &str = "proxypassword-0fa1b2c3";
const CHART_PASSWORD: &str = "chartpassword-7d8e9f01";
const CHART_TOKEN: &str = "charttoken-1a2b3c4d";
const IN_A_GLOBAL: &str = "globalsecret-9c8b7a65";

/// The audit log with all its texts.
#[derive(Debug, Serialize)]
struct Audit {}

impl Operation for Audit {
    type Data = serde_json::Value;
    const NAME: &'static str = "Audits";
    const KIND: OperationKind = OperationKind::Query;
    const FIELD: &'static str = "audits";
    const DOCUMENT: &'static str = "query Audits { audits(first: 100) { edges { node {
          id action noun targetId targetName actorName requestId actor { email }
        } } } }";
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

async fn attack_19_no_secret_leaves_its_place(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let cluster = TestCluster::kubesim().await?;
    let url = database.is_postgres().then(|| database.url());
    let mut console = ConsoleProcess::start(&home, url, "debug").await?;
    let person = Person::administrator(&console.url()).await?;
    let registered = person.cluster("blue").await?;
    let access = person.client.send(&CreateAccessToken {}).await?.token.unwrap().expose().to_owned();

    let remote = GitRemote::new()?;
    let server = GitServer::start(remote.root())?;
    server.require("ada", GIT_PASSWORD);
    let sha = remote.push_files([
        (
            "good/secret.yaml.liquid",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: \"{{ configuration.password }}\"}\n"
                .to_owned(),
        ),
        // A rendered line that no YAML reader accepts, with the secret on it.
        (
            "malformed/a.yaml.liquid",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: bad}\nstringData: [password: {{ configuration.password }}: {\n"
                .to_owned(),
        ),
        // What the API server refuses, and quotes in its refusal.
        (
            "refused/a.yaml.liquid",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: refused}\nstringData: {password: {deep: \"{{ configuration.password }}\"}}\n"
                .to_owned(),
        ),
        (
            "encoded/a.yaml.liquid",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: encoded}\ndata: {password: \"{{ configuration.password }}\"}\n"
                .to_owned(),
        ),
        // What a template does wrong with it.
        (
            "filtered/a.yaml.liquid",
            "kind: {{ configuration.password | divided_by: 0 }}\n{{ configuration.password | nosuchfilter }}\n".to_owned(),
        ),
        ("elsewhere/a.yaml", map("a", "1")),
        ("filled/a.yaml.liquid", map("filled", "{{ configuration.password }} {{ contexts.shared.token }}")),
        ("charted/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n".to_owned()),
        ("charted/values.yaml", "password: none\n".to_owned()),
        ("charted/templates/a.yaml", map("charted", "{{ .Values.password }}")),
    ])?;
    let repository = |password: &str, name: &str| CreateGitRepository {
        attributes: GitAttributes {
            url: format!("{}{name}", server.url(&remote)),
            username: Some("ada".to_owned()),
            password: Some(Secret::new(password)),
            ..GitAttributes::default()
        },
        project_id: None,
    };
    let right = person.client.send(&repository(GIT_PASSWORD, "")).await?.id;
    // The same repository under another address: addresses are unique.
    let wrong = person.client.send(&repository(WRONG_PASSWORD, "/")).await?.id;
    let namespace = cluster.namespace().await?;
    let mut agent = AgentProcess::start(&home, &console.url(), &registered.token, &cluster, "debug").await?;

    let admin = Asker::administrator(&console.url()).await?;
    let (context, planted) = plant(&admin, &right, &registered.id, &namespace).await?;

    let mut services = Vec::new();
    for folder in ["good", "malformed", "refused", "encoded", "filtered"] {
        let mut given = attributes(folder, &namespace, &right, "main", folder);
        given.configuration = Some(vec![value("password", CONFIGURED)]);
        given.links.context_bindings =
            Some(vec![plural_wire::ContextBindingAttributes { context_id: context.clone() }]);
        services.push((folder, person.service_of(&registered, given).await?));
    }
    // What is made of values in a ConfigMap: plans and drift tell of it, in a database that holds none of it.
    for (folder, id) in [("filled", &planted.filled), ("charted", &planted.charted)] {
        person.stands_at(id, &sha).await;
        services.push((folder, id.clone()));
    }
    let unfetched = attributes("unfetched", &namespace, &wrong, "main", "elsewhere");
    let unfetched = person.service_of(&registered, unfetched).await?;
    let mut errors = vec![person.fails_with(&unfetched, &["authentication failed"]).await];
    for (folder, id) in &services {
        if matches!(*folder, "good" | "filled" | "charted") {
            person.stands_at(id, &sha).await;
        } else {
            errors.push(person.fails_with(id, &[]).await);
        }
    }
    // A change writes an audit row with what was there before and after, if anything does.
    person
        .client
        .send(&UpdateServiceDeployment {
            id: Some(services[0].1.clone()),
            cluster: None,
            name: None,
            attributes: plural_wire::ServiceUpdateAttributes {
                configuration: Some(vec![value("password", CONFIGURED), value("other", "1")]),
                ..plural_wire::ServiceUpdateAttributes::default()
            },
        })
        .await?;
    person.stands_at(&services[0].1, &sha).await;
    let shells = Shells::open(&admin, &cluster, &registered.id, &console.url()).await?;

    let key = std::fs::read_to_string(console.data().join("encryption.key"))?.trim().to_owned();
    let webhook = std::fs::read_to_string(console.data().join("webhook.secret"))?.trim().to_owned();
    let mut secrets = Vec::from([
        ("configuration value", CONFIGURED.to_owned()),
        ("password of a repository", GIT_PASSWORD.to_owned()),
        ("wrong password of a repository", WRONG_PASSWORD.to_owned()),
        ("administrator's password", PASSWORD.to_owned()),
        ("deploy token", registered.token.clone()),
        ("access token", access),
        ("encryption key", key),
        ("webhook secret", webhook),
        ("secret of a context", IN_A_CONTEXT.to_owned()),
        ("inline value of a chart", INLINE.to_owned()),
        ("inline value of a renderer", RENDERER_INLINE.to_owned()),
        ("SSH key", SSH_KEY.to_owned()),
        ("passphrase", PASSPHRASE.to_owned()),
        ("password of a proxy", PROXY_PASSWORD.to_owned()),
        ("password of a chart repository", CHART_PASSWORD.to_owned()),
        ("token of a chart repository", CHART_TOKEN.to_owned()),
        ("secret of a global service", IN_A_GLOBAL.to_owned()),
    ]);
    secrets.extend(shells::secrets());
    holds_none("an error of a service", errors.join("\n").as_bytes(), &secrets);

    let first = PAGE_SIZE;
    let mut answers = vec![
        format!("{:?}", person.client.send(&Me {}).await?),
        format!(
            "{:?}",
            person
                .client
                .send(&ListClusters { after: None, first, project_id: None, tag_query: None })
                .await?
        ),
        format!(
            "{:?}",
            person.client.send(&GetCluster { id: Some(registered.id.clone()), handle: None }).await?
        ),
        format!("{:?}", person.client.send(&ListGitRepositories { after: None, first }).await?),
        format!(
            "{:?}",
            person
                .client
                .send(&ListServiceDeployments { after: None, first, cluster_id: None, cluster: None })
                .await?
        ),
        format!("{:?}", person.client.send(&Audit {}).await?),
        console.metrics().await?,
    ];
    for (_, id) in &services {
        answers.push(format!("{:?}", person.details(id).await?));
    }
    assert!(answers[5].contains("service.create"), "the audit log is not there: {}", answers[5]);
    assert!(answers[6].contains("plural_git_fetch_seconds"), "{}", answers[6]);
    for answer in &answers {
        holds_none("an answer of the API", answer.as_bytes(), &secrets);
    }

    look_around(&admin, &planted, &services, &secrets).await?;
    let (nobody, deployed) = (admin.with_token(""), admin.with_token(&registered.token));
    // Whoever may look at the cluster is told that there is something; to all others there is nothing.
    let others = [
        ("a reader", &planted.reader, 403),
        ("a reader of services", &planted.guest, 404),
        ("a writer of another project", &planted.sibling, 404),
        ("a stranger", &planted.stranger, 404),
        ("nobody", &nobody, 401),
        ("the agent", &deployed, 401),
    ];
    shells.look(&admin, &others, &secrets).await?;

    agent.stop();
    console.stop();
    let (console_log, agent_log) = (console.log(), agent.log());
    assert!(console_log.contains("\"DEBUG\"") && agent_log.contains("\"DEBUG\""), "they log at debug level");
    holds_none("the console's log", console_log.as_bytes(), &secrets);
    holds_none("the agent's log", agent_log.as_bytes(), &secrets);

    let (mut looked_at, mut sealed) = (0, 0);
    for file in files(&console.data()) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if name != "encryption.key" && name != "webhook.secret" {
            let content = std::fs::read(&file)?;
            holds_none(&file.display().to_string(), &content, &secrets);
            looked_at += usize::from(name.starts_with("plural.db"));
            // Whatever is sealed begins with the version of its envelope; sources do not.
            let is_sealed = |inner: Vec<u8>| inner.first() == Some(&plural_app::keyring::VERSION);
            sealed += usize::from(name.ends_with(".zst") && zstd::decode_all(&*content).is_ok_and(is_sealed));
        }
    }
    // Three beginnings, and what passed through two of the shells.
    assert!(sealed >= 5, "the pieces of recordings are among the files: {sealed}");
    if database.is_postgres() {
        let dump = std::process::Command::new(find_programs()?.join("pg_dump"))
            .arg(format!("--dbname={}", database.url()))
            .output()?;
        anyhow::ensure!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        anyhow::ensure!(
            String::from_utf8_lossy(&dump.stdout).contains("unfetched"),
            "the dump holds the rows"
        );
        holds_none("the database", &dump.stdout, &secrets);
    } else {
        assert!(looked_at > 0, "the database is among the files");
    }
    Ok(())
}

/// What was planted besides.
struct Planted {
    filled: String,
    charted: String,
    reader: Asker,
    guest: Asker,
    sibling: Asker,
    stranger: Asker,
}

/// Puts a secret into everything that takes one; also the context that services read.
async fn plant(
    admin: &Asker,
    repository: &str,
    cluster: &str,
    namespace: &str,
) -> anyhow::Result<(String, Planted)> {
    let projects = admin.data("{ projects { edges { node { id } } } }", json!({})).await?;
    let project = projects["projects"]["edges"][0]["node"]["id"].as_str().unwrap().to_owned();
    let other = "mutation { createProject(attributes: {name: \"other\"}) { id } }";
    let other = admin.data(other, json!({})).await?["createProject"]["id"].as_str().unwrap().to_owned();
    let reader = admin.user("reader@example.com").await?;
    let guest = admin.user("guest@example.com").await?;
    let sibling = admin.user("sibling@example.com").await?;
    let stranger = admin.user("stranger@example.com").await?;
    admin.bind("projectId", &project, json!({"readBindings": [{"userId": reader.id}]})).await?;
    admin.bind("projectId", &other, json!({"writeBindings": [{"userId": sibling.id}]})).await?;

    let save = "mutation ($a: ServiceContextAttributes!) { saveServiceContext(name: \"shared\", attributes: $a) { id } }";
    let context = json!({"configuration": "{}", "secrets": [{"name": "token", "value": IN_A_CONTEXT}]});
    let context = admin.data(save, json!({"a": context})).await?["saveServiceContext"]["id"].take();
    let create = "mutation ($a: GitAttributes!) { createGitRepository(attributes: $a) { id error } }";
    let pem = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{SSH_KEY}\n-----END OPENSSH PRIVATE KEY-----\n");
    for attributes in [
        json!({"url": "ssh://git@127.0.0.1:1/a.git", "privateKey": pem, "passphrase": PASSPHRASE}),
        json!({"url": "https://127.0.0.1:1/b.git", "username": "ada", "password": GIT_PASSWORD,
            "proxy": {"url": format!("http://ada:{PROXY_PASSWORD}@127.0.0.1:1")}}),
    ] {
        admin.data(create, json!({"a": attributes})).await?;
    }
    let upsert = "mutation ($url: String!, $a: HelmRepositoryAttributes!) { upsertHelmRepository(url: $url, attributes: $a) { id } }";
    for (url, provider, auth) in [
        (
            "https://charts.example.com/basic",
            "BASIC",
            json!({"basic": {"username": "ada", "password": CHART_PASSWORD}}),
        ),
        ("https://charts.example.com/bearer", "BEARER", json!({"bearer": {"token": CHART_TOKEN}})),
    ] {
        admin.data(upsert, json!({"url": url, "a": {"provider": provider, "auth": auth}})).await?;
    }
    let global = "mutation ($a: GlobalServiceAttributes!) { createGlobalService(attributes: $a) { id } }";
    let template = json!({"namespace": namespace, "repositoryId": repository, "git": {"ref": "main", "folder": "elsewhere"},
        "configuration": [{"name": "password", "value": IN_A_GLOBAL}], "name": "everywhere"});
    admin.data(global, json!({"a": {"name": "everywhere", "template": template}})).await?;

    let create = "mutation ($cluster: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $cluster, attributes: $a) { id } }";
    let mut made = Vec::new();
    for mut attributes in [
        json!({"name": "filled", "configuration": [{"name": "password", "value": CONFIGURED}]}),
        json!({"name": "charted", "helm": {"values": format!("password: {INLINE}\n")}, "renderers": [
            {"path": ".", "type": "HELM", "helm": {"values": format!("password: {RENDERER_INLINE}\n")}}]}),
    ] {
        attributes["namespace"] = json!(namespace);
        attributes["repositoryId"] = json!(repository);
        attributes["git"] = json!({"ref": "main", "folder": attributes["name"]});
        attributes["contextBindings"] = json!([{"contextId": context}]);
        let service = admin.data(create, json!({"cluster": cluster, "a": attributes})).await?;
        made.push(service["createServiceDeployment"]["id"].as_str().unwrap().to_owned());
    }
    let [filled, charted] = <[String; 2]>::try_from(made).unwrap();
    for id in [&filled, &charted] {
        admin.bind("serviceId", id, json!({"readBindings": [{"userId": guest.id}]})).await?;
    }
    Ok((context.as_str().unwrap().to_owned(), Planted { filled, charted, reader, guest, sibling, stranger }))
}

/// Asks for everything, as people with and without access.
async fn look_around(
    admin: &Asker,
    planted: &Planted,
    services: &[(&str, String)],
    secrets: &[(&str, String)],
) -> anyhow::Result<()> {
    // A plan of what holds a value, so that there is one to be told and to be kept.
    let plan = "mutation ($id: ID!) { planService(id: $id) { requestId } }";
    let told = "query ($id: ID!, $request: ID) { servicePlan(serviceId: $id, requestId: $request) { id } }";
    for id in [&planted.filled, &planted.charted] {
        let request = admin.data(plan, json!({"id": id})).await?["planService"]["requestId"].take();
        plural_testkit::eventually(PATIENCE, async || {
            let found = admin.data(told, json!({"id": id, "request": request})).await;
            found.map_err(|error| format!("{error:#}")).and_then(|found| {
                if found["servicePlan"].is_null() { Err(found.to_string()) } else { Ok(()) }
            })
        })
        .await;
    }
    let lists = [
        "{ gitRepositories(first: 20) { edges { node { id url error health authMethod } } } }",
        "{ helmRepositories(first: 20) { edges { node { id url error health provider } } } }",
        "{ serviceContexts(first: 20) { edges { node { id name configuration secretNames } } } }",
        "{ globalServices(first: 20) { edges { node { id name error context { raw } template { name } } } } }",
        "{ managedNamespaces(first: 20) { edges { node { id name error } } } }",
        "{ clusters(first: 20) { edges { node { handle metadata tags { name value } deployToken } } } }",
        "{ users(first: 20) { edges { node { email } } } }",
        "{ accessTokens(first: 20) { edges { node { id token } } } }",
        "{ audits(last: 100) { edges { node { action actorName targetName } } } }",
    ];
    let people = [
        ("the administrator", admin),
        ("a reader", &planted.reader),
        ("a reader of services", &planted.guest),
        ("a writer of another project", &planted.sibling),
        ("a stranger", &planted.stranger),
    ];
    for (name, person) in people {
        for document in lists {
            let answer = person.ask(document, json!({})).await?;
            assert!(answer["data"].is_object(), "{document}: {answer}");
            holds_none(&format!("{document} for {name}"), answer.to_string().as_bytes(), secrets);
        }
        if person.id == admin.id {
            continue;
        }
        for (service, id) in services {
            for (place, document) in OF_A_SERVICE {
                let answer = person.ask(document, json!({"id": id})).await?.to_string();
                holds_none(&format!("{place} of {service} for {name}"), answer.as_bytes(), secrets);
            }
        }
    }
    let seen = planted.guest.data(OF_A_SERVICE[4].1, json!({"id": planted.filled})).await?.to_string();
    assert!(seen.contains("********"), "there was something to hide: {seen}");
    Ok(())
}
