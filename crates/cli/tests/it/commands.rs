use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::{
    run::{Person, without_environment},
    server::Server,
};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

fn cluster(handle: &str) -> Value {
    json!({"id": ID, "name": handle, "handle": handle, "distro": "K3S", "currentVersion": "v1.36.2",
        "protect": false, "insertedAt": "2020-01-01T00:00:00Z", "pingedAt": null, "deletedAt": null,
        "metadata": {"owner": "ada"}, "tags": [{"name": "stage", "value": "prod"}],
        "project": {"id": ID, "name": "default"}})
}

fn clusters(handles: &[&str]) -> Value {
    let edges: Vec<Value> = handles.iter().map(|handle| json!({"node": cluster(handle)})).collect();
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges})
}

/// Errors as the console tells them.
fn errors_of(errors: &Value) -> Value {
    let mut errors = errors.clone();
    for error in errors.as_array_mut().into_iter().flatten() {
        if error.get("terminal").is_none() {
            error["terminal"] = json!(false);
        }
    }
    errors
}

fn service(status: &str, errors: &Value) -> Value {
    let errors = errors_of(errors);
    json!({"id": ID, "name": "web", "namespace": "shop", "status": status, "sha": "5f3c1d0e9a7b6c5d",
        "protect": false, "deletedAt": null, "git": {"ref": "main", "folder": "web"},
        "repository": repository(), "cluster": {"id": ID, "name": "Blue", "handle": "blue"},
        "revision": {"id": ID, "sha": "5f3c1d0e9a7b6c5d"}, "dryRun": false, "templated": true,
        "components": [{"id": ID, "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop",
            "name": "web", "state": "RUNNING", "synced": true}],
        "errors": errors, "configuration": [{"name": "replicas"}]})
}

fn repository() -> Value {
    json!({"id": ID, "url": "https://git.example.com/a.git", "authMethod": "BASIC", "signedCommits": false, "health": "PULLABLE",
        "error": null})
}

#[tokio::test]
async fn login_signs_in_creates_a_token_and_remembers_it() {
    let server = Server::start()
        .await
        .data("SignIn", "signIn", &json!({"id": ID, "email": "ada@example.com", "jwt": "session.token.x"}))
        .data("CreateAccessToken", "createAccessToken", &json!({"id": ID, "token": "console-new"}))
        .data("Me", "me", &json!({"id": ID, "name": "Ada", "email": "ada@example.com"}))
        .data("ListClusters", "clusters", &clusters(&["blue"]));
    let person = Person::new().piping("hunter2\n");
    let line = format!("login --url {} --email ada@example.com --password-stdin", server.url);
    let done = person.run(&line).await;
    let text = done.text().replace(&server.url, "URL");
    insta::assert_snapshot!("login", text);
    assert_eq!(server.asked("SignIn"), [json!({"email": "ada@example.com", "password": "hunter2"})]);
    let file = person.home().join(".plural/profiles.yml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // The next command needs nothing more, and the token goes to no other console.
    let done = person.run("cd clusters list -o name").await;
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "cluster/blue\n", ""));
    let done = person.run("cd clusters list --url http://127.0.0.1:9").await;
    assert_eq!(done.code, 1);
    assert!(
        done.err.starts_with("error: not logged in to http://127.0.0.1:9\nhint: log in with"),
        "{}",
        done.err
    );

    let credentials: Vec<Option<String>> = server.credentials().into_iter().map(|(_, value)| value).collect();
    let expected =
        [None, Some("Bearer session.token.x"), Some("Token console-new"), Some("Token console-new")];
    assert_eq!(credentials, expected.map(|value| value.map(str::to_owned)));
}

#[tokio::test]
async fn a_wrong_password_is_said_and_nothing_is_saved() {
    let server = Server::start().await.error("SignIn", "UNAUTHENTICATED", "unauthenticated");
    let person = Person::new().piping("wrong");
    let done =
        person.run(&format!("login --url {} --email a@example.com --password-stdin", server.url)).await;
    assert_eq!((done.code, done.out.as_str()), (1, ""));
    assert!(
        done.err.starts_with("error: the e-mail address or the password is wrong\nhint: "),
        "{}",
        done.err
    );
    assert!(!person.home().join(".plural").exists());
}

#[tokio::test]
async fn without_any_login_the_next_step_is_told() {
    let done = Person::new().run("cd clusters list").await;
    insta::assert_snapshot!("no_login", done.text());
    let done = Person::new().run("login --email a@example.com").await;
    assert_eq!(done.code, 2, "{}", done.err);
}

#[tokio::test]
async fn clusters_are_listed_in_every_format() {
    let server = Server::start().await.data("ListClusters", "clusters", &clusters(&["blue", "green"]));
    let person = Person::of(&server.url);
    let json: Value = serde_json::from_str(&person.run("cd clusters list -o json").await.out).unwrap();
    assert_eq!(json[1]["handle"], "green");
    assert_eq!(json[0]["tags"], json!([{"name": "stage", "value": "prod"}]));
    let yaml = person.run("cd clusters list -o yaml").await;
    insta::assert_snapshot!("clusters_yaml", yaml.text());
    assert_eq!(person.run("cd cluster ls -o name").await.out, "cluster/blue\ncluster/green\n");
    let table = person.run("cd clusters list").await.out;
    assert!(
        table.starts_with(
            "HANDLE   VERSION   STATUS    CONNECTED   LAST PING   AGE\nblue     v1.36.2   Pending   -           -"
        ),
        "{table}"
    );

    person.run("cd clusters list --tag stage=prod --tag region=eu").await;
    assert_eq!(
        server.asked("ListClusters").last().unwrap()["tagQuery"],
        json!({"op": "AND", "tags": [{"name": "stage", "value": "prod"}, {"name": "region", "value": "eu"}]})
    );
}

#[tokio::test]
async fn an_empty_list_says_so_on_stderr_and_is_empty_on_stdout() {
    let server = Server::start().await.data("ListClusters", "clusters", &clusters(&[]));
    let person = Person::of(&server.url);
    insta::assert_snapshot!("no_clusters", person.run("cd clusters list").await.text());
    let done = person.run("cd clusters list -o json").await;
    assert_eq!((done.out.as_str(), done.err.as_str()), ("[]\n", ""));
}

#[tokio::test]
async fn a_cluster_is_created_with_what_was_said() {
    let server = Server::start()
        .await
        .data("CreateCluster", "createCluster", &cluster("blue"))
        .data(
            "GetProject",
            "project",
            &json!({"id": ID, "name": "shop", "default": false, "description": null}),
        )
        .data("GetCluster", "cluster", &cluster("blue"))
        .data("GetCluster", "cluster", &{
            let mut ready = cluster("blue");
            ready["pingedAt"] = json!("2026-01-01T00:00:00Z");
            ready
        });
    let person = Person::of(&server.url).piping("owner: ada\nzones: [a, b]\n");
    let done = person
        .run("cd clusters create Blue --handle blue --tag stage=prod --project shop --metadata - --protect -o name")
        .await;
    assert_eq!((done.code, done.out.as_str()), (0, "cluster/blue\n"));
    assert!(done.err.contains("plural cd clusters bootstrap"), "{}", done.err);
    let asked = &server.asked("CreateCluster")[0]["attributes"];
    let metadata: Value = serde_json::from_str(asked["metadata"].as_str().unwrap()).unwrap();
    assert_eq!(metadata, json!({"owner": "ada", "zones": ["a", "b"]}));
    assert_eq!(
        (&asked["name"], &asked["handle"], &asked["projectId"], &asked["protect"]),
        (&json!("Blue"), &json!("blue"), &json!(ID), &json!(true))
    );

    let done = person.run("cd clusters create Blue --wait -o name").await;
    assert_eq!(done.err, "waiting for cluster blue: its agent has not reported yet\n");
}

#[tokio::test]
async fn waiting_has_an_end() {
    let server = Server::start().await.data("CreateCluster", "createCluster", &cluster("blue")).data(
        "GetCluster",
        "cluster",
        &cluster("blue"),
    );
    let done = Person::of(&server.url).run("cd clusters create blue --wait --timeout 1s").await;
    assert_eq!(done.code, 1);
    assert!(done.err.contains("error: timed out after 1 s waiting for cluster blue"), "{}", done.err);
}

#[tokio::test]
async fn an_unknown_cluster_is_named_with_a_hint() {
    let server = Server::start().await.error("GetCluster", "NOT_FOUND", "could not find resource");
    insta::assert_snapshot!(
        "unknown_cluster",
        Person::of(&server.url).run("cd clusters describe @red").await.text()
    );
}

#[tokio::test]
async fn deleting_asks_a_person_and_refuses_a_program() {
    let server = Server::start()
        .await
        .data("GetCluster", "cluster", &cluster("blue"))
        .data("DeleteCluster", "deleteCluster", &json!({"id": ID}))
        .data("DetachCluster", "detachCluster", &json!({"id": ID}));
    insta::assert_snapshot!(
        "delete_refused",
        Person::of(&server.url).run("cd clusters delete blue").await.text()
    );
    insta::assert_snapshot!(
        "delete_declined",
        Person::of(&server.url).answering("n\n").run("cd clusters delete blue").await.text()
    );
    assert!(server.asked("DeleteCluster").is_empty());

    let done = Person::of(&server.url).answering("y\n").run("cd clusters delete blue").await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.ends_with("cluster blue is being deleted\n"), "{}", done.err);
    let done = Person::of(&server.url).run("cd clusters delete blue --soft --yes").await;
    assert_eq!(done.err, "cluster blue detached\n");
    assert_eq!((server.asked("DeleteCluster").len(), server.asked("DetachCluster").len()), (1, 1));
}

#[tokio::test]
async fn repositories_take_their_secrets_from_pipes_and_files() {
    let server = Server::start()
        .await
        .data("CreateGitRepository", "createGitRepository", &repository())
        .data("GetGitRepository", "gitRepository", &repository())
        .data(
            "ListServicesUsing",
            "serviceDeployments",
            &json!({"pageInfo": {"hasNextPage": false}, "edges": []}),
        )
        .error("DeleteGitRepository", "CONFLICT", "could not delete repository");
    let url = "https://git.example.com/a.git";
    let person = Person::of(&server.url).piping("s3cret\n");
    let done =
        person.run(&format!("cd repositories create {url} --username bot --password-stdin -o name")).await;
    assert_eq!((done.code, done.out), (0, format!("repository/{ID}\n")), "{}", done.err);
    let key = person.home().join("key");
    std::fs::write(&key, "KEY").unwrap();
    let line = format!("cd repos create git@git.example.com:a.git --private-key {} --wait", key.display());
    assert_eq!(person.run(&line).await.code, 0);
    let asked = server.asked("CreateGitRepository");
    assert_eq!(asked[0]["attributes"], json!({"url": url, "username": "bot", "password": "s3cret"}));
    assert_eq!(asked[1]["attributes"], json!({"url": "git@git.example.com:a.git", "privateKey": "KEY"}));

    let done = Person::of(&server.url).run(&format!("cd repositories create {url} --username bot")).await;
    assert_eq!(done.code, 2);
    insta::assert_snapshot!("repository_password", done.text());
    insta::assert_snapshot!(
        "repository_in_use",
        person.run(&format!("cd repositories delete {url} --yes")).await.text()
    );
}

#[tokio::test]
async fn removed_credentials_of_a_chart_repository_are_told() {
    let why = "the stored credentials were removed because the CA certificate changed; set them again";
    let removed = json!({"id": ID, "url": "https://charts.example.com", "provider": null, "health": "FAILED", "error": why});
    let server = Server::start().await.data("UpsertHelmRepository", "upsertHelmRepository", &removed);
    let person = Person::of(&server.url);
    let ca = person.home().join("ca.pem");
    std::fs::write(&ca, "-----BEGIN CERTIFICATE-----").unwrap();
    let line =
        format!("cd helm-repos set https://charts.example.com --ca-certificate {} -o name", ca.display());
    let done = person.run(&line).await;
    assert_eq!((done.code, done.out), (0, format!("helmrepository/{ID}\n")), "{}", done.err);
    assert!(done.err.contains(why), "{}", done.err);
    let asked = server.asked("UpsertHelmRepository");
    assert_eq!(asked[0]["attributes"], json!({"caCertificate": "-----BEGIN CERTIFICATE-----"}));
}

#[tokio::test]
async fn whoever_waits_for_a_plan_hears_why_none_comes() {
    let reason = |kind: &str, message: &str, terminal: bool| {
        let mut found = service("FAILED", &json!([]));
        found["reason"] = json!({"kind": kind, "message": message, "terminal": terminal, "until": null});
        found
    };
    let failed = json!({"id": ID, "requestId": ID, "revisionId": ID, "digest": "", "objects": [], "unchanged": 0,
        "omitted": 0, "error": "the API server cannot be asked", "insertedAt": null});
    let away = "the agent of blue is not connected";
    for (plan, found, told) in [
        // What an agent answers.
        (
            failed,
            reason("PROGRESSING", "", false),
            "service blue/web cannot be planned: the API server cannot be asked\n",
        ),
        // What one of an earlier build reports instead.
        (
            Value::Null,
            reason("ERROR", "render: it is broken", true),
            "service blue/web cannot be planned: render: it is broken\n",
        ),
        (
            Value::Null,
            reason("AGENT", away, false),
            "waiting for a plan of service blue/web: the agent of blue is not connected\nhint: ",
        ),
    ] {
        let server = Server::start()
            .await
            .data("PlanService", "planService", &json!({"requestId": ID}))
            .data("GetServicePlan", "servicePlan", &plan)
            .data("GetServiceDeployment", "serviceDeployment", &found);
        let done = Person::of(&server.url).run("cd services diff blue/web --timeout 1s").await;
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{}", done.err);
        assert!(done.err.contains(told), "{}", done.err);
    }
}

#[tokio::test]
async fn a_service_is_created_and_waited_for() {
    let trouble = json!([{"source": "sync", "message": "the API server is busy"}]);
    let server = Server::start()
        .await
        .data("GetGitRepository", "gitRepository", &repository())
        .data("CreateServiceDeployment", "createServiceDeployment", &service("STALE", &json!([])))
        .data("GetServiceDeployment", "serviceDeployment", &service("FAILED", &trouble))
        .data("GetServiceDeployment", "serviceDeployment", &service("HEALTHY", &json!([])));
    let person = Person::of(&server.url);
    let conf = person.home().join("conf.yml");
    std::fs::write(&conf, "replicas: 2\nhost: shop.example.com\ntls: true\n").unwrap();
    let line = format!(
        "cd services create blue/web --namespace shop --repository https://git.example.com/a.git --ref main \
         --folder web --conf replicas=3 --conf-file {} --wait",
        conf.display()
    );
    insta::assert_snapshot!("service_created", person.run(&line).await.text());
    let asked = &server.asked("CreateServiceDeployment")[0];
    assert_eq!((&asked["cluster"], &asked["clusterId"]), (&json!("blue"), &Value::Null));
    assert_eq!(
        asked["attributes"],
        json!({"name": "web", "namespace": "shop", "repositoryId": ID, "git": {"ref": "main", "folder": "web"},
            "configuration": [{"name": "host", "value": "shop.example.com"}, {"name": "replicas", "value": "3"},
                {"name": "tls", "value": "true"}]})
    );
    let done = person.run("cd services create blue/web --ref main --folder web").await;
    assert_eq!(done.code, 2);
    assert!(
        done.err.starts_with("error: a service needs --repository, or --chart-url\nhint: "),
        "{}",
        done.err
    );
}

#[tokio::test]
async fn a_service_is_told_how_it_is_rendered() {
    let set = json!({"helm": {"chart": "redis", "version": "19.x", "values": "a: s3cret", "valuesFiles": []},
        "kustomize": null});
    let server = Server::start()
        .await
        .data("CreateServiceDeployment", "createServiceDeployment", &service("STALE", &json!([])))
        .data("GetServiceDeployment", "serviceDeployment", &service("HEALTHY", &json!([])))
        .data("GetServiceRendering", "serviceDeployment", &set)
        .data("UpdateServiceDeployment", "updateServiceDeployment", &service("STALE", &json!([])));
    let person = Person::of(&server.url);
    let (values, rendering) = (person.home().join("values.yaml"), person.home().join("rendering.yaml"));
    std::fs::write(&values, "auth: {password: s3cret}").unwrap();
    std::fs::write(&rendering, "renderers: [{path: extra, type: RAW}]").unwrap();
    let line = format!(
        "cd services create blue/redis --chart-url oci://registry.example.com/charts --chart redis \
         --chart-version 19.x --values {} --rendering {} --kustomize-folder k",
        values.display(),
        rendering.display()
    );
    let done = person.run(&line).await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(
        server.asked("CreateServiceDeployment")[0]["attributes"],
        json!({"name": "redis", "namespace": "redis",
            "helm": {"chart": "redis", "version": "19.x", "url": "oci://registry.example.com/charts",
                "values": "{\"auth\":{\"password\":\"s3cret\"}}"},
            "kustomize": {"path": "k"}, "renderers": [{"path": "extra", "type": "RAW"}]})
    );

    // What is not named of the chart stays, its values too; nobody sees them.
    let done = person.run("cd services update blue/web --chart-version 19.1.2 --ignore-hooks").await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(
        server.asked("UpdateServiceDeployment")[0]["attributes"],
        json!({"helm": {"chart": "redis", "version": "19.1.2", "values": "a: s3cret", "valuesFiles": [],
            "ignoreHooks": true}})
    );
    assert!(!done.text().contains("s3cret"));
}

#[tokio::test]
async fn a_service_is_rendered() {
    let object = |name: &str| {
        json!({"kind": "ConfigMap", "namespace": null, "name": name, "source": "app/a.yaml:1",
            "content": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}})
    };
    let warning = errors_of(&json!([{"source": "render", "message": "written twice"}]));
    let broken = errors_of(&json!([{"source": "render", "message": "app/a.yaml:3: not YAML"}]));
    let server = Server::start()
        .await
        .data(
            "GetServicePreview",
            "servicePreview",
            &json!({"objects": [object("a"), object("b")], "errors": warning}),
        )
        .data("GetServicePreview", "servicePreview", &json!({"objects": [object("a")], "errors": []}))
        .data("GetServicePreview", "servicePreview", &json!({"objects": [], "errors": broken}))
        .error("GetServicePreview", "NOT_FOUND", "could not find resource");
    let person = Person::of(&server.url);
    insta::assert_snapshot!("service_rendered", person.run("cd services render blue/web").await.text());
    let done = person.run("cd services render blue/web -o name").await;
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "configmap/a\n", ""));
    let done = person.run("cd services render blue/web -o json").await;
    assert_eq!((done.code, done.out.as_str()), (1, ""));
    assert!(
        done.err.contains("app/a.yaml:3: not YAML\nerror: the service renders to nothing"),
        "{}",
        done.err
    );
    let done = person.run("cd services render blue/web").await;
    assert!(done.code == 1 && done.err.contains("not found (or you have no access)"), "{}", done.err);
}

#[tokio::test]
async fn an_update_sends_only_what_changes() {
    let server = Server::start()
        .await
        .data("GetServiceDeployment", "serviceDeployment", &service("HEALTHY", &json!([])))
        .data("UpdateServiceDeployment", "updateServiceDeployment", &service("STALE", &json!([])));
    let person = Person::of(&server.url);
    let done = person.run("cd services update @blue/web --ref v1 --dry-run=false -o name").await;
    assert_eq!((done.code, done.out.as_str()), (0, "service/blue/web\n"), "{}", done.err);
    assert_eq!(
        server.asked("UpdateServiceDeployment")[0]["attributes"],
        json!({"git": {"ref": "v1", "folder": "web"}, "dryRun": false})
    );
    let done = person.run("cd services update blue/web").await;
    assert_eq!(done.code, 2);
    assert!(done.err.starts_with("error: nothing to change\nhint: "), "{}", done.err);
}

fn facts() -> Value {
    json!({"metadata": {"images": ["example.com/web:1"], "fqdns": ["web.example.com"]}, "apiDeprecations": [old()]})
}

fn old() -> Value {
    json!({"deprecatedIn": "1.21", "removedIn": "1.25", "replacement": "batch/v1", "blocking": true,
        "component": {"group": "batch", "version": "v1beta1", "kind": "CronJob", "namespace": "shop", "name": "nightly",
            "service": {"id": ID, "name": "web", "repository": {"url": "https://git.example.com/a.git"}}}})
}

#[tokio::test]
async fn api_versions_that_go_away_are_listed_by_service() {
    let told = json!({"id": ID, "name": "blue", "handle": "blue", "currentVersion": "v1.24.2", "apiDeprecations": [old()]});
    let server = Server::start().await.data("GetCluster", "cluster", &cluster("blue")).data(
        "ListClusterDeprecations",
        "cluster",
        &told,
    );
    let person = Person::of(&server.url);
    insta::assert_snapshot!("cluster_deprecations", person.run("cd clusters deprecations blue").await.text());
    let wide = person.run("cd clusters deprecations blue -o wide").await;
    assert!(wide.out.contains("https://git.example.com/a.git"), "{}", wide.out);
    let names = person.run("cd clusters deprecations blue -o name").await;
    assert_eq!(names.out, "CronJob/shop/nightly\n");
    let server = Server::start().await.data("GetCluster", "cluster", &cluster("blue")).data(
        "ListClusterDeprecations",
        "cluster",
        &json!({"id": ID, "name": "blue", "currentVersion": "v1.36.2"}),
    );
    let none = Person::of(&server.url).run("cd clusters deprecations blue").await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("after v1.36.2"), "{}", none.err);
}

#[tokio::test]
async fn files_are_listed_and_printed() {
    let file = |path: &str, content: &str| json!({"path": path, "size": content.len(), "binary": false, "leftOut": false, "content": content});
    let logo = json!({"path": "web/logo.png", "size": 7, "binary": true, "leftOut": false, "content": ""});
    let server = Server::start()
        .await
        .data("GetServiceDeployment", "serviceDeployment", &service("HEALTHY", &json!([])))
        .data("ListServiceFiles", "serviceTarball", &json!([file("web/a.yaml", "a: 1\n"), logo]))
        .data("GetServiceFiles", "serviceTarball", &json!([file("web/a.yaml", "a: 1\n")]))
        .data("GetServiceFiles", "serviceTarball", &json!([logo]))
        .error("GetServiceFiles", "NOT_FOUND", "could not find resource");
    let person = Person::of(&server.url);
    let listed = person.run("cd services files blue/web").await;
    assert_eq!(listed.out, "BYTES   PATH\n5       web/a.yaml\n7       web/logo.png  (no text)\n");
    assert_eq!(person.run("cd services files blue/web /web/a.yaml").await.out, "a: 1\n");
    let binary = person.run("cd services files blue/web web/logo.png").await;
    assert!(binary.code == 1 && binary.err.contains("is not text"), "{}", binary.err);
    let none = person.run("cd services files blue/web web/none").await;
    assert!(none.code == 1 && none.err.contains("no file or folder \"web/none\""), "{}", none.err);
    assert_eq!(server.asked("GetServiceFiles")[0]["path"], "web/a.yaml");
}

#[tokio::test]
async fn a_service_is_described_kicked_and_deleted() {
    let trouble = json!([{"source": "render", "message": "web/a.yaml:3: not YAML"}]);
    let server = Server::start()
        .await
        .data("GetServiceDeployment", "serviceDeployment", &service("FAILED", &trouble))
        .data("GetServiceDeployment", "serviceDeployment", &service("FAILED", &trouble))
        .data("GetServiceDeployment", "serviceDeployment", &service("FAILED", &trouble))
        .error("GetServiceDeployment", "NOT_FOUND", "could not find resource")
        .data("GetServiceFacts", "serviceDeployment", &facts())
        .data("GetServiceDeletion", "serviceDeletion", &json!({"hidden": 0, "omitted": 0, "services": []}))
        .data("KickService", "kickService", &service("STALE", &json!([])))
        .data("DeleteServiceDeployment", "deleteServiceDeployment", &json!({"id": ID}));
    let person = Person::of(&server.url);
    insta::assert_snapshot!("service_described", person.run("cd services describe blue/web").await.text());
    let kicked = person.run("cd services kick blue/web -o json").await;
    assert_eq!(kicked.err, "service blue/web is being reconciled\n");
    assert_eq!(serde_json::from_str::<Value>(&kicked.out).unwrap()["status"], "STALE");
    let deleted = person.run("cd services delete blue/web --yes --wait").await;
    insta::assert_snapshot!("service_deleted", deleted.text());
    let gone = person.run("cd services describe blue/web").await;
    insta::assert_snapshot!("service_gone", gone.text());
}

#[tokio::test]
async fn a_cascade_shows_the_objects_of_every_service_that_goes() {
    let doomed = |name: &str, protect: bool, kind: &str| {
        json!({"id": ID, "name": name, "protect": protect, "cluster": {"id": ID, "name": "Blue", "handle": "blue"},
            "components": [{"group": "apps", "kind": kind, "namespace": "shop", "name": name}]})
    };
    let both = [doomed("api", false, "Deployment"), doomed("web", true, "StatefulSet")];
    let server = Server::start()
        .await
        .data("GetServiceDeployment", "serviceDeployment", &service("HEALTHY", &json!([])))
        .data("GetServiceDeletion", "serviceDeletion", &json!({"hidden": 0, "omitted": 0, "services": both}))
        .data("DeleteServiceCascade", "deleteServiceDeployment", &json!({"id": ID}));
    let done = Person::of(&server.url).answering("y\n").run("cd services delete blue/web --cascade").await;
    insta::assert_snapshot!("service_deleted_with_cascade", done.text());
    assert_eq!(server.asked("DeleteServiceCascade").len(), 1);

    let server = Server::start()
        .await
        .data("GetServiceDeployment", "serviceDeployment", &service("HEALTHY", &json!([])))
        .data("GetServiceDeletion", "serviceDeletion", &json!({"hidden": 2, "omitted": 0, "services": both}));
    let done = Person::of(&server.url).run("cd services delete blue/web --cascade --yes").await;
    assert!(done.code == 1 && done.err.contains("2 services that you may not see"), "{}", done.err);
}

/// A writer that shares what it was given.
#[derive(Clone, Default)]
struct Shared(std::sync::Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn watching_prints_the_list_and_then_what_changes() {
    let mut ready = clusters(&["blue"]);
    ready["edges"][0]["node"]["currentVersion"] = json!("v1.37.0");
    let server = Server::start()
        .await
        .data("ListClusters", "clusters", &clusters(&["blue"]))
        .data("ListClusters", "clusters", &clusters(&["blue"]))
        .data("ListClusters", "clusters", &ready);
    let command = without_environment(plural_cli::command());
    let matches = command
        .clone()
        .try_get_matches_from([
            "plural",
            "cd",
            "clusters",
            "list",
            "--watch",
            "-o",
            "json",
            "--url",
            &server.url,
        ])
        .unwrap();
    let out = Shared::default();
    let (mut sink, mut err, mut input) = (out.clone(), Vec::new(), std::io::Cursor::new(Vec::new()));
    let mut terminal = plural_cli::Terminal {
        out: &mut sink,
        err: &mut err,
        input: &mut input,
        interactive: false,
        screen: None,
        variable: Box::new(|name| (name == "PLURAL_CONSOLE_TOKEN").then(|| "console-test".to_owned())),
    };
    let seen = plural_testkit::eventually(std::time::Duration::from_secs(30), async || {
        let text = String::from_utf8(out.0.lock().clone()).unwrap();
        (text.lines().count() >= 2).then_some(text)
    });
    let text = tokio::select! {
        code = plural_cli::execute(command, &matches, &mut terminal) => panic!("ended with {code}"),
        text = seen => text,
    };
    let versions: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["currentVersion"].clone())
        .collect();
    assert_eq!(versions, [json!("v1.36.2"), json!("v1.37.0")]);
}

#[tokio::test]
async fn a_kick_waits_for_the_fetch_the_agent_and_health() {
    let stand = |status: &str, updated: u32, pulled: u32| {
        let mut service = service(status, &json!([]));
        service["updatedAt"] = json!(format!("2026-01-01T00:00:{updated:02}Z"));
        service["repository"]["pulledAt"] = json!(format!("2026-01-01T00:00:{pulled:02}Z"));
        service
    };
    let server = Server::start()
        .await
        .data("KickService", "kickService", &stand("HEALTHY", 10, 5))
        // Still as before; fetched; moved to a new commit; applied.
        .data("GetServiceDeployment", "serviceDeployment", &stand("HEALTHY", 10, 5))
        .data("GetServiceDeployment", "serviceDeployment", &stand("HEALTHY", 10, 11))
        .data("GetServiceDeployment", "serviceDeployment", &stand("STALE", 12, 11))
        .data("GetServiceDeployment", "serviceDeployment", &stand("HEALTHY", 13, 11));
    let done = Person::of(&server.url).run("cd services kick blue/web --wait -o name").await;
    insta::assert_snapshot!("service_kicked", done.text());
}

#[tokio::test]
async fn logging_out_revokes_the_token_that_login_made_and_no_other() {
    let server = Server::start()
        .await
        .data("SignIn", "signIn", &json!({"id": ID, "email": "ada@example.com", "jwt": "session.token.x"}))
        .data("CreateAccessToken", "createAccessToken", &json!({"id": ID, "token": "console-new"}))
        .data("Me", "me", &json!({"id": ID, "name": "Ada", "email": "ada@example.com"}))
        .data("DeleteAccessToken", "deleteAccessToken", &json!({"id": ID}));
    let person = Person::new().piping("hunter2\n");
    let login = format!("login --url {} --email ada@example.com --password-stdin", server.url);
    assert_eq!(person.run(&login).await.code, 0);
    let done = person.run("logout").await;
    let told =
        format!("logged out of {}: profile \"default\" is removed and its token revoked\n", server.url);
    assert_eq!((done.code, done.err), (0, told));
    assert_eq!(server.asked("DeleteAccessToken"), [json!({"token": "console-new"})]);
    let file = std::fs::read_to_string(person.home().join(".plural/profiles.yml")).unwrap();
    assert!(!file.contains("console-new"), "{file}");
    assert_eq!(person.run("cd clusters list").await.code, 1);
    assert_eq!(person.run("logout").await.err, "not logged in\n");

    // A token that was made elsewhere may be in use elsewhere.
    let person = Person::new().piping("console-mine\n");
    assert_eq!(person.run(&format!("login --url {} --token-stdin", server.url)).await.code, 0);
    let done = person.run("logout").await;
    assert_eq!(done.code, 0);
    assert!(done.err.contains("its token stays valid"), "{}", done.err);
    assert_eq!(server.asked("DeleteAccessToken").len(), 1);
}

#[tokio::test]
async fn a_login_that_cannot_be_revoked_is_kept_unless_told_otherwise() {
    let server = Server::start()
        .await
        .data("SignIn", "signIn", &json!({"id": ID, "email": "ada@example.com", "jwt": "session.token.x"}))
        .data("CreateAccessToken", "createAccessToken", &json!({"id": ID, "token": "console-new"}))
        .data("Me", "me", &json!({"id": ID, "name": "Ada", "email": "ada@example.com"}))
        .error("DeleteAccessToken", "INTERNAL", "internal error");
    let person = Person::new().piping("hunter2\n");
    let login = format!("login --url {} --email ada@example.com --password-stdin", server.url);
    assert_eq!(person.run(&login).await.code, 0);
    let done = person.run("logout").await;
    assert_eq!(done.code, 1);
    assert!(done.err.contains("was not revoked") && done.err.contains("--local"), "{}", done.err);
    // The file of its authority may be gone by then.
    let file = person.home().join(".plural/profiles.yml");
    let profiles = std::fs::read_to_string(&file).unwrap();
    let url = profiles.lines().find(|line| line.trim().starts_with("url:")).unwrap();
    let indent = &url[..url.len() - url.trim_start().len()];
    std::fs::write(&file, profiles.replace(url, &format!("{url}\n{indent}ca_file: /nowhere/ca.pem")))
        .unwrap();
    let done = person.run("logout").await;
    assert_eq!(done.code, 1);
    assert!(done.err.contains("/nowhere/ca.pem") && done.err.contains("--local"), "{}", done.err);
    let done = person.run("logout --local").await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(person.run("cd clusters list").await.code, 1);
}

#[tokio::test]
async fn sync_windows_are_listed_made_and_removed() {
    let window = json!({"id": ID, "kind": "DENY", "schedule": "0 22 * * fri", "duration": 208_800,
        "timeZone": "Europe/Berlin", "description": "weekend"});
    let server = Server::start()
        .await
        .data("GetCluster", "cluster", &cluster("blue"))
        .data(
            "GetProject",
            "project",
            &json!({"id": ID, "name": "default", "default": true, "description": null}),
        )
        .data("ListSyncWindows", "syncWindows", &json!([window]))
        .data("ListSyncWindows", "syncWindows", &json!([]))
        .data("CreateSyncWindow", "createSyncWindow", &window)
        .data("DeleteSyncWindow", "deleteSyncWindow", &json!({"id": ID}));
    let person = Person::of(&server.url);
    let listed = person.run("cd sync-windows list --cluster blue").await;
    insta::assert_snapshot!("sync_windows", listed.text());
    let none = person.run("cd sync-windows list --project default").await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("new commits are synced at any time"), "{}", none.err);
    let of_cluster = json!({"projectId": null, "clusterId": ID, "serviceId": null});
    let of_project = json!({"projectId": ID, "clusterId": null, "serviceId": null});
    assert_eq!(server.asked("ListSyncWindows"), [of_cluster, of_project]);

    let made = person
        .run("cd sync-windows create deny --cluster blue --schedule 0_22_*_*_fri --duration 58h --time-zone Europe/Berlin -o name")
        .await;
    assert_eq!((made.code, made.out), (0, format!("syncwindow/{ID}\n")));
    let asked = &server.asked("CreateSyncWindow")[0];
    assert_eq!(asked["attributes"]["kind"], "DENY");
    assert_eq!((&asked["attributes"]["duration"], &asked["clusterId"]), (&json!(208_800), &json!(ID)));

    let removed = person.run(&format!("cd sync-windows delete {ID} --cluster blue --yes")).await;
    assert_eq!((removed.code, removed.out.as_str()), (0, ""));
    assert!(removed.err.contains("deleted"), "{}", removed.err);
    // At most one of them is named.
    let line = "cd sync-windows list --cluster blue --project default";
    assert_eq!(person.run(line).await.code, 2, "{line}");
}
