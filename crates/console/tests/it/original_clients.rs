//! Clients of the original console: their documents, executed as they send them, and what they may give that this console
//! cannot honour.
//!
//! One backend is enough: for what is refused, which reaches no database. The documents are executed on both: by one console on
//! SQLite, and by three on PostgreSQL.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    time::Duration,
};

use graphql_parser::query::{Definition, OperationDefinition, Selection, parse_query};
use plural_testkit::{GitRemote, TestDatabase, eventually, run_case};
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

/// What they send, for all operations.
const DOCUMENTS: &str = include_str!("../../../api/tests/it/documents.graphql");

/// The operation of this name with the fragments that it reaches.
fn document(name: &str) -> String {
    let parsed = parse_query::<String>(DOCUMENTS).unwrap();
    let mut fragments = BTreeMap::new();
    let mut found = None;
    for definition in &parsed.definitions {
        match definition {
            Definition::Fragment(fragment) => drop(fragments.insert(fragment.name.as_str(), fragment)),
            Definition::Operation(operation) => {
                let (named, selections) = match operation {
                    OperationDefinition::Query(it) => (&it.name, &it.selection_set),
                    OperationDefinition::Mutation(it) => (&it.name, &it.selection_set),
                    // They are told over a socket (`deltas`).
                    OperationDefinition::Subscription(_) => continue,
                    other @ OperationDefinition::SelectionSet(_) => panic!("{other:?}"),
                };
                if named.as_deref() == Some(name) {
                    found = Some((operation, selections));
                }
            }
        }
    }
    let (operation, selections) = found.unwrap_or_else(|| panic!("no document {name}"));
    let mut reached = BTreeSet::new();
    let mut open = vec![selections];
    while let Some(set) = open.pop() {
        for selection in &set.items {
            match selection {
                Selection::Field(field) => open.push(&field.selection_set),
                Selection::InlineFragment(inline) => open.push(&inline.selection_set),
                Selection::FragmentSpread(spread) => {
                    if reached.insert(spread.fragment_name.as_str()) {
                        open.push(&fragments[spread.fragment_name.as_str()].selection_set);
                    }
                }
            }
        }
    }
    reached.into_iter().fold(operation.to_string(), |text, name| text + &fragments[name].to_string())
}

/// The root field of an operation that succeeds.
async fn sent(person: &Person, name: &str, variables: Value) -> Value {
    let data = person.data(&document(name), variables).await;
    let (_, answer) = data.as_object().unwrap().iter().next().unwrap();
    answer.clone()
}

#[tokio::test]
async fn a_client_of_the_original_is_served() {
    let own = |config: &mut plural_console::ConsoleConfig| config.own_cluster = Some("mgmt".to_owned());
    the_documents(TestServer::with(own).await, true).await;
}

#[test]
fn a_client_of_the_original_is_served_by_replicas_on_postgres() {
    run_case(async {
        let Some(database) = TestDatabase::postgres_or_report() else { return };
        the_documents(TestServer::replicas(&database).await, false).await;
    });
}

async fn the_documents(t: TestServer, told_own: bool) {
    let admin = &t.admin;
    clusters(admin, told_own).await;
    let repository = repositories(admin).await;
    services(&t, &repository).await;
    globals(admin, &repository).await;
    stacks(admin, &repository).await;
    people(&t).await;
    t.stop().await;
}

async fn clusters(admin: &Person, told_own: bool) {
    let made = sent(admin, "CreateCluster", json!({"attributes": {"name": "mgmt", "disableAi": true}})).await;
    assert!(made["deployToken"].as_str().unwrap().starts_with("deploy-"));
    assert_eq!(made["self"], told_own);
    for field in ["provider", "credential", "nodePools"] {
        assert_eq!(made[field], Value::Null, "{field}");
    }
    let condition = &made["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Ready"), &json!("False")));
    assert_eq!(condition["reason"], "NeverConnected");
    sent(admin, "CreateCluster", json!({"attributes": {"name": "blue"}})).await;
    let listed = sent(admin, "ListClusters", json!({})).await;
    let own: Vec<&Value> =
        listed["edges"].as_array().unwrap().iter().map(|edge| &edge["node"]["self"]).collect();
    assert_eq!(own, [&json!(told_own), &json!(false)]);
    let change = json!({"id": made["id"], "attributes": {"handle": "hub", "protect": false}});
    assert_eq!(sent(admin, "UpdateCluster", change).await["handle"], "hub");
}

async fn repositories(admin: &Person) -> Value {
    let url = "https://git.example.com/team/app.git";
    let attributes = json!({"url": url, "decrypt": false, "recurseSubmodules": false,
        "httpsPath": "https://code.example.com/app", "urlFormat": "{url}/src/{ref}/{folder}"});
    let made = sent(admin, "CreateGitRepository", json!({"attributes": attributes})).await;
    assert_eq!((&made["decrypt"], &made["recurseSubmodules"]), (&json!(false), &json!(false)));
    let web = "query ($url: String) { gitRepository(url: $url) { httpsPath urlFormat } }";
    let read = async || admin.data(web, json!({"url": url})).await["gitRepository"].clone();
    let expected =
        json!({"httpsPath": "https://code.example.com/app", "urlFormat": "{url}/src/{ref}/{folder}"});
    assert_eq!(read().await, expected);
    // What is not named stays, and an empty text ends it.
    sent(admin, "UpdateGitRepository", json!({"id": made["id"], "attributes": {"url": url}})).await;
    assert_eq!(read().await, expected);
    let clear = json!({"id": made["id"], "attributes": {"url": url, "urlFormat": ""}});
    sent(admin, "UpdateGitRepository", clear).await;
    assert_eq!(read().await, json!({"httpsPath": "https://code.example.com/app", "urlFormat": null}));
    made
}

async fn services(t: &TestServer, unfetched: &Value) {
    let remote = GitRemote::new().unwrap();
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    remote.push_files([("web/a.yaml", manifest), ("other/b.yaml", manifest)]).unwrap();
    let attributes = json!({"attributes": {"url": remote.path().to_str().unwrap()}});
    let repository = sent(&t.admin, "CreateGitRepository", attributes).await;
    let attributes = |name: &str, repository: &Value| {
        json!({"name": name, "namespace": "shop", "repositoryId": repository["id"], "interval": "5m",
            "git": {"ref": "main", "folder": "web"}, "imports": [], "parentId": null,
            "configuration": [{"name": "replicas", "value": "2"}]})
    };
    let create = json!({"cluster": "blue", "attributes": attributes("web", &repository)});
    let made = sent(&t.admin, "CreateServiceDeploymentWithHandle", create).await;
    assert_eq!((&made["flow"], &made["configuration"][0]["value"]), (&Value::Null, &json!("2")));
    let key = json!({"cluster": "blue", "name": "web"});
    let get = async |person: &Person, tarball: &str| {
        let mut request = person.http().get(tarball);
        if let Some(token) = &person.token {
            request = request.header("authorization", format!("Token {token}"));
        }
        request.send().await.unwrap()
    };
    // These replicas share no store of artifacts: the one that fetched the repository has it, and each tells its own address.
    let (found, response) = eventually(Duration::from_secs(30), async || {
        let found = sent(&t.admin, "GetServiceDeploymentByHandle", key.clone()).await;
        let response = get(&t.admin, found["tarball"].as_str()?).await;
        (response.status() == 200).then_some((found, response))
    })
    .await;
    let tarball = found["tarball"].as_str().unwrap();
    assert_eq!(response.headers()["content-type"], "application/gzip");
    let bytes = response.bytes().await.unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(entry.path().unwrap().display().to_string(), text);
    }
    assert_eq!(files, BTreeMap::from([("web/a.yaml".to_owned(), manifest.to_owned())]));
    // Files may hold what readers of the service may not see.
    for (person, status) in [(&t.nobody, 401), (&t.stranger, 404), (&t.reader, 403), (&t.owner, 200)] {
        assert_eq!(get(person, tarball).await.status().as_u16(), status);
    }
    let audits = "{ audits(last: 20) { edges { node { action actorName } } } }";
    let audits = t.admin.data(audits, json!({})).await["audits"]["edges"].to_string();
    assert!(audits.contains("service.files.read"), "{audits}");

    let create = json!({"cluster": "blue", "attributes": attributes("unfetched", unfetched)});
    let made = sent(&t.admin, "CreateServiceDeploymentWithHandle", create).await;
    assert_eq!(made["tarball"], Value::Null);
    let page = "query ($id: ID!) { serviceDeployment(id: $id) { folderUrl interval } }";
    let page = t.admin.data(page, json!({"id": made["id"]})).await["serviceDeployment"].clone();
    assert_eq!(page, json!({"folderUrl": "https://code.example.com/app/tree/main/web", "interval": "300s"}));
    let copy = json!({"clusterId": found["cluster"]["id"], "cluster": "blue", "name": "web", "attributes": {"name": "copy"}});
    assert_eq!(sent(&t.admin, "CloneServiceDeploymentWithHandle", copy).await["name"], "copy");
    sent(&t.admin, "KickServiceByHandle", key).await;
    let change = json!({"id": found["id"], "attributes": {"protect": true}});
    assert_eq!(sent(&t.admin, "UpdateServiceDeployment", change).await["protect"], true);
}

async fn stacks(admin: &Person, repository: &Value) {
    let blue = admin.data("{ cluster(handle: \"blue\") { id } }", json!({})).await["cluster"]["id"].clone();
    let attributes = json!({
        "name": "network", "type": "TERRAFORM", "repositoryId": repository["id"], "clusterId": blue, "approval": true,
        "git": {"ref": "main", "folder": "network"}, "manageState": true, "variables": "{\"region\": \"eu\"}",
        "jobSpec": {"namespace": "runs", "serviceAccount": "tofu", "containers": [], "resources": {"limits": {"memory": "1Gi"}}},
        "configuration": {"version": "1.12", "terraform": {"parallelism": 4}, "hooks": []}, "tags": [], "actorId": "",
        "environment": [{"name": "TOKEN", "value": "hunter2", "secret": true}, {"name": "A", "value": "b"}],
        "files": [{"path": "key.pem", "content": "hunter2"}],
    });
    let made = sent(admin, "CreateStack", json!({"attributes": attributes})).await;
    assert!(!made.to_string().contains("hunter2"), "{made}");
    assert_eq!((&made["approval"], &made["variables"]), (&json!(true), &json!({"region": "eu"})));
    assert_eq!(made["jobSpec"]["requests"]["limits"], json!({"cpu": null, "memory": "1Gi"}));
    assert_eq!(made["configuration"]["terraform"]["parallelism"], 4);
    let secret = json!({"name": "TOKEN", "value": "", "secret": true});
    let environment = made["environment"].as_array().unwrap();
    assert!(environment.len() == 2 && environment.contains(&secret), "{made}");
    assert_eq!(made["files"], json!([{"path": "key.pem", "content": ""}]));
    let id = &made["id"];
    // What is not named stays.
    let change = json!({"id": id, "attributes": {"name": "network", "type": "TERRAFORM", "workdir": "a"}});
    let changed = sent(admin, "UpdateStack", change).await;
    assert_eq!((&changed["workdir"], &changed["configuration"]), (&json!("a"), &made["configuration"]));
    assert_eq!(changed["environment"], made["environment"]);
    let run = sent(admin, "TriggerRun", json!({"id": id})).await;
    assert_eq!((&run["dryRun"], &run["pluralCreds"]), (&json!(false), &Value::Null));
    assert!(run["tarball"].as_str().unwrap().ends_with("/artifact"), "{run}");
    assert_eq!(sent(admin, "GetStackRun", json!({"id": run["id"]})).await["stack"]["id"], *id);
    let runs = sent(admin, "ListStackRuns", json!({"id": id})).await;
    let runs = runs["runs"]["edges"].as_array().unwrap();
    assert!(runs.iter().any(|edge| edge["node"]["id"] == run["id"]), "{runs:?}");
    let listed = sent(admin, "ListInfrastructureStacks", json!({})).await;
    assert_eq!(listed["edges"][0]["node"]["name"], "network");
    // Who names no plan approves none.
    let blind = admin.ask(&document("ApproveStackRun"), json!({"id": run["id"]})).await;
    assert!(blind.outcome() == "INVALID" && blind.message().contains("digest"), "{blind:?}");
}

async fn globals(admin: &Person, repository: &Value) {
    let template = json!({"namespace": "shop", "repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"},
        "helm": {"valuesFiles": ["a.yaml"], "values": "password: hunter2", "release": "shop"},
        "kustomize": {"path": "overlay"}});
    let attributes = json!({"name": "everywhere", "mgmt": true, "tags": [{"name": "no", "value": "where"}],
        "template": template});
    let made =
        sent(admin, "CreateGlobalServiceDeploymentFromTemplate", json!({"attributes": attributes})).await;
    assert_eq!(made["provider"], Value::Null);
    let shown = "query ($id: ID!) { globalService(id: $id) { template { helm { release valuesFiles values set { name } } kustomize { path } } } }";
    let shown = admin.data(shown, json!({"id": made["id"]})).await["globalService"]["template"].clone();
    let helm = json!({"release": "shop", "valuesFiles": ["a.yaml"], "values": null, "set": null});
    assert_eq!(shown, json!({"helm": helm, "kustomize": {"path": "overlay"}}));
    let attributes =
        json!({"name": "team-a", "target": {"tags": "{\"no\": \"where\"}"}, "service": template});
    let made = sent(admin, "CreateNamespace", json!({"attributes": attributes})).await;
    assert_eq!(made["service"]["helm"]["values"], Value::Null);
    assert_eq!(made["service"]["kustomize"]["path"], "overlay");
    let made =
        sent(admin, "CreateProject", json!({"attributes": {"name": "shop", "disableInsights": true}})).await;
    assert_eq!(made["disableInsights"], true);
}

/// Every user is a member of a global group, with all that this gives, as long as it is one.
async fn people(t: &TestServer) {
    let made =
        sent(&t.admin, "CreateGroup", json!({"attributtes": {"name": "everybody", "global": true}})).await;
    assert_eq!(made["global"], true);
    let cluster = "query { cluster(handle: \"blue\") { id } }";
    assert_eq!(t.stranger.ask(cluster, json!({})).await.outcome(), "NOT_FOUND");
    let blue = t.admin.data(cluster, json!({})).await["cluster"]["id"].clone();
    let rbac = json!({"clusterId": blue, "rbac": {"readBindings": [{"groupId": made["id"]}]}});
    assert_eq!(sent(&t.admin, "UpdateRbac", rbac).await, true);
    t.stranger.data(cluster, json!({})).await;
    let late = t.admin.add_user("late@example.com").await;
    late.data(cluster, json!({})).await;
    let names = "query { me { groups { name } } group(name: \"everybody\") { members { email } } }";
    let names = late.data(names, json!({})).await;
    assert_eq!(names["me"]["groups"], json!([{"name": "everybody"}]));
    let members = names["group"]["members"].to_string();
    for email in ["admin@", "stranger@", "late@"] {
        assert!(members.contains(email), "{members}");
    }
    let out = json!({"groupId": made["id"], "userId": late.id});
    let refused = t.admin.ask(&document("DeleteGroupMember"), out.clone()).await;
    assert!(refused.outcome() == "CONFLICT" && refused.message().contains("global"), "{refused:?}");
    // Who was made a member stays one.
    sent(&t.admin, "AddGroupMember", out).await;
    let change = json!({"groupId": made["id"], "attributtes": {"name": "everybody", "global": false}});
    assert_eq!(sent(&t.admin, "UpdateGroup", change).await["global"], false);
    assert_eq!(t.stranger.ask(cluster, json!({})).await.outcome(), "NOT_FOUND");
    late.data(cluster, json!({})).await;
}

/// What cannot be honoured is refused by name, with the next step, and changes nothing.
#[tokio::test]
async fn what_cannot_be_honoured_is_refused() {
    let t = TestServer::start().await;
    let admin = &t.admin;
    let blue = admin.cluster("blue").await;
    let repository = admin.repository("https://git.example.com/b.git").await;
    let known = admin.service(&blue, &repository, "known").await;
    let url = "https://git.example.com/a.git";
    let (pools, id) =
        (json!([{"name": "a", "minSize": 1, "maxSize": 2, "instanceType": "m"}]), t.project.as_str());
    let cluster =
        |field: &str, value: Value| ("CreateCluster", "attributes", json!({"name": "green", field: value}));
    let update = |field: &str, value: Value| ("UpdateCluster", "attributes", json!({field: value}));
    let git =
        |field: &str, value: Value| ("CreateGitRepository", "attributes", json!({"url": url, field: value}));
    let service = |field: &str, value: Value| {
        ("CreateServiceDeployment", "attributes", json!({"name": "web", "namespace": "shop", field: value}))
    };
    let edited = |field: &str, value: Value| ("UpdateServiceDeployment", "attributes", json!({field: value}));
    let global = |field: &str, value: Value| {
        (
            "CreateGlobalServiceDeploymentFromTemplate",
            "attributes",
            json!({"name": "web", "template": {}, field: value}),
        )
    };
    let user = |field: &str, value: Value| {
        ("CreateUser", "attributes", json!({"name": "a", "email": "a@example.com", field: value}))
    };
    let stack = |field: &str, value: Value| {
        ("CreateStack", "attributes", json!({"name": "network", "type": "TERRAFORM", field: value}))
    };
    let chart = |auth: Value| ("UpsertHelmRepository", "attributes", json!({"auth": auth}));
    let cases = [
        (cluster("providerId", json!(id)), "attributes.providerId", "does not provision"),
        (cluster("credentialId", json!(id)), "attributes.credentialId", "does not provision"),
        (cluster("nodePools", pools.clone()), "attributes.nodePools", "does not provision"),
        (
            cluster("cloudSettings", json!({"aws": {"region": "eu"}})),
            "attributes.cloudSettings",
            "does not provision",
        ),
        (cluster("kubeconfig", json!({"raw": "hunter2"})), "attributes.kubeconfig", "run an agent"),
        (cluster("upgradePlan", json!({"deprecations": true})), "attributes.upgradePlan", "apiDeprecations"),
        (cluster("disableAi", json!(false)), "attributes.disableAi", "set it to true"),
        (update("nodePools", pools), "attributes.nodePools", "does not provision"),
        (update("kubeconfig", json!({"raw": "hunter2"})), "attributes.kubeconfig", "run an agent"),
        (
            update("service", json!({"id": id, "git": {"ref": "a", "folder": "b"}})),
            "attributes.service",
            "provision",
        ),
        (git("decrypt", json!(true)), "attributes.decrypt", "git-crypt"),
        (git("recurseSubmodules", json!(true)), "attributes.recurseSubmodules", "one of its sources"),
        (git("connectionId", json!(id)), "attributes.connectionId", "credentials"),
        (
            git("proxy", json!({"url": "http://proxy:1", "noproxy": "a"})),
            "attributes.proxy.noproxy",
            "one repository",
        ),
        (git("httpsPath", json!("javascript:alert(1)")), "attributes.httpsPath", "address of a page"),
        (git("urlFormat", json!("{ref}")), "attributes.urlFormat", "{url}"),
        (service("parentId", json!(id)), "attributes.parentId", "another service"),
        (service("agentId", json!(id)), "attributes.agentId", "agents for coding"),
        (service("flowId", json!(id)), "attributes.flowId", "no flows"),
        (service("helm", json!({"pythonScript": "x"})), "helm.pythonScript", "Lua"),
        (edited("parentId", json!(id)), "attributes.parentId", "another service"),
        (edited("flowId", json!(id)), "attributes.flowId", "no flows"),
        (global("mgmt", json!(false)), "attributes.mgmt", "ignoreClusters"),
        (global("providerId", json!(id)), "attributes.providerId", "target tags"),
        (global("parentId", json!(id)), "attributes.parentId", "another service"),
        (global("interval", json!("5m")), "attributes.interval", "at each change"),
        (
            ("CreateNamespace", "attributes", json!({"name": "a", "parentId": id})),
            "attributes.parentId",
            "another service",
        ),
        (
            ("CreateProject", "attributes", json!({"name": "shop", "disableInsights": false})),
            "attributes.disableInsights",
            "set it to true",
        ),
        (stack("cron", json!({"crontab": "nightly"})), "attributes.cron", "five fields"),
        (
            stack("tags", json!([{"name": "a", "value": "b"}, {"name": "a", "value": "c"}])),
            "attributes.tags",
            "twice",
        ),
        (
            stack("jobSpec", json!({"namespace": "a", "raw": "spec: hunter2"})),
            "attributes.jobSpec.raw",
            "serviceAccount",
        ),
        (
            stack("jobSpec", json!({"namespace": "a", "containers": [{"image": "evil"}]})),
            "attributes.jobSpec.containers",
            "configuration.image",
        ),
        (
            stack("files", json!([{"path": "a", "content": "hunter2"}, {"path": "a", "content": "b"}])),
            "attributes.files",
            "twice",
        ),
        (stack("clusterId", json!(id)), "attributes.repositoryId", "together"),
        (user("homepage", json!("CLUSTERS")), "attributes.homepage", "no page"),
        (user("emailSettings", json!({"digest": true})), "attributes.emailSettings", "no mail"),
        (user("signingPrivateKey", json!("hunter2")), "attributes.signingPrivateKey", "no commits"),
        (chart(json!({"aws": {"secretAccessKey": "hunter2"}})), "attributes.auth.aws", "basic or bearer"),
        (chart(json!({"azure": {"clientSecret": "hunter2"}})), "attributes.auth.azure", "basic or bearer"),
        (
            chart(json!({"gcp": {"applicationCredentials": "hunter2"}})),
            "attributes.auth.gcp",
            "basic or bearer",
        ),
    ];
    for ((name, argument, attributes), field, words) in cases {
        let id = if name == "UpdateServiceDeployment" { &known["id"] } else { &blue["id"] };
        let variables = json!({argument: attributes, "id": id, "clusterId": blue["id"], "url": url});
        let answer = admin.ask(&document(name), variables).await;
        assert_eq!(answer.outcome(), "INVALID", "{name} {field}: {answer:?}");
        assert_eq!(answer.body["errors"][0]["extensions"]["field"], field, "{answer:?}");
        assert!(answer.message().contains(words) && !answer.message().contains("hunter2"), "{answer:?}");
    }
    let left = "{ clusters { edges { node { handle } } } gitRepositories { edges { node { id } } } projects { edges { node { name } } }
        globalServices { edges { node { id } } } managedNamespaces { edges { node { id } } }
        serviceDeployments { edges { node { id } } } helmRepositories { edges { node { id } } } }";
    let left = admin.data(left, json!({})).await;
    for (name, count) in [("clusters", 1), ("projects", 1), ("gitRepositories", 1), ("serviceDeployments", 1)]
    {
        assert_eq!(left[name]["edges"].as_array().unwrap().len(), count, "{left}");
    }
    for name in ["globalServices", "managedNamespaces", "helmRepositories"] {
        assert_eq!(left[name]["edges"], json!([]), "{left}");
    }
    t.stop().await;
}
