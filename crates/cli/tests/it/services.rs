//! `plural cd services`: what is asked for, what is sent, what is shown.

use serde_json::{Value, json};

use crate::{
    answers::{ID, errors_of, facts, repository, service},
    run::Person,
    server::Server,
};

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
         --folder web --conf replicas=3 --conf-from token=secret:auth/web#token --conf-from db=vault:secret/shop/db#pass \
         --conf-from key=age:key.age --conf-from pin=sops:keys.enc.yaml#data.pin --conf-file {} --wait",
        conf.display()
    );
    insta::assert_snapshot!("service_created", person.run(&line).await.text());
    let asked = &server.asked("CreateServiceDeployment")[0];
    assert_eq!((&asked["cluster"], &asked["clusterId"]), (&json!("blue"), &Value::Null));
    assert_eq!(
        asked["attributes"],
        json!({"name": "web", "namespace": "shop", "repositoryId": ID, "git": {"ref": "main", "folder": "web"},
            "configuration": [{"name": "db", "valueFrom": {"vaultKeyRef": {"path": "secret/shop/db", "key": "pass"}}},
                {"name": "host", "value": "shop.example.com"}, {"name": "key", "valueFrom": {"ageKeyRef": {"file": "key.age"}}},
                {"name": "pin", "valueFrom": {"sopsKeyRef": {"file": "keys.enc.yaml", "key": "data.pin"}}},
                {"name": "replicas", "value": "3"},
                {"name": "tls", "value": "true"},
                {"name": "token", "valueFrom": {"secretKeyRef": {"name": "web", "key": "token", "namespace": "auth"}}}]})
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
async fn a_deletion_says_what_becomes_of_the_namespace() {
    for (delete, said) in [
        (true, "its namespace shop is deleted as well, unless others use it"),
        (false, "its namespace shop stays (--delete-namespace removes it)"),
    ] {
        let mut made = service("HEALTHY", &json!([]));
        made["syncConfig"] = json!({"createNamespace": true, "deleteNamespace": delete});
        let server = Server::start().await.data("GetServiceDeployment", "serviceDeployment", &made).data(
            "GetServiceDeletion",
            "serviceDeletion",
            &json!({"hidden": 0, "omitted": 0, "services": []}),
        );
        let asked = Person::of(&server.url).answering("n\n").run("cd services delete blue/web").await;
        assert!(asked.err.contains(said), "{}", asked.text());
    }
}

#[tokio::test]
async fn a_deletion_takes_the_namespace_along_when_that_is_asked_for() {
    let mut made = service("HEALTHY", &json!([]));
    made["syncConfig"] = json!({"createNamespace": true, "deleteNamespace": false});
    let server = Server::start()
        .await
        .data("GetServiceDeployment", "serviceDeployment", &made)
        .data("GetServiceDeletion", "serviceDeletion", &json!({"hidden": 0, "omitted": 0, "services": []}))
        .data("UpdateServiceDeployment", "updateServiceDeployment", &made)
        .data("DeleteServiceDeployment", "deleteServiceDeployment", &json!({"id": ID}));
    let person = Person::of(&server.url);
    let done = person.run("cd services delete blue/web --delete-namespace --yes").await;
    assert_eq!(done.code, 0, "{}", done.text());
    assert!(done.err.contains("its namespace shop is deleted as well"), "{}", done.text());
    let asked = server.asked("UpdateServiceDeployment");
    assert_eq!(asked[0]["attributes"]["syncConfig"], json!({"deleteNamespace": true}), "{asked:?}");
}

#[tokio::test]
async fn a_pinned_service_is_released_before_its_namespace_goes_with_it() {
    let mut made = service("HEALTHY", &json!([]));
    made["syncConfig"] = json!({"createNamespace": true, "deleteNamespace": false});
    made["pin"] = json!({"revisionId": ID, "newestRevisionId": ID, "by": "ada@example.com", "until": "RELEASE",
        "insertedAt": "2026-01-01T00:00:00Z"});
    let server = Server::start().await.data("GetServiceDeployment", "serviceDeployment", &made);
    let person = Person::of(&server.url);
    let done = person.run("cd services delete blue/web --delete-namespace --yes").await;
    assert_eq!(done.code, 1, "{}", done.text());
    assert!(done.err.contains("is pinned to a revision"), "{}", done.text());
    assert!(done.err.contains("`plural cd services release blue/web` first"), "{}", done.text());
    assert!(server.asked("DeleteServiceDeployment").is_empty(), "nothing was deleted");
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
