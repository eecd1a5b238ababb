//! What `-o name` prints, commands take.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

fn page(node: &Value) -> Value {
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": node}]})
}

#[tokio::test]
async fn names_are_taken_with_their_kinds() {
    let cluster = json!({"id": ID, "name": "Blue", "handle": "blue", "tags": []});
    let service = json!({"id": ID, "name": "web", "namespace": "shop", "status": "HEALTHY",
        "cluster": {"id": ID, "name": "Blue", "handle": "blue"}});
    let repository = json!({"id": ID, "url": "https://git.example.com/a.git", "authMethod": "BASIC", "signedCommits": false});
    let project = json!({"id": ID, "name": "shop"});
    let context = json!({"id": ID, "name": "network", "configuration": {"region": "eu"}});
    let global = json!({"id": ID, "name": "monitoring", "tags": [], "generation": "1", "spread": false});
    let managed = json!({"id": ID, "name": "team-a", "namespace": "team-a", "spread": false});
    let server = Server::start()
        .await
        .data("ListClusters", "clusters", &page(&cluster))
        .data("GetCluster", "cluster", &cluster)
        .data("ListServiceDeployments", "serviceDeployments", &page(&service))
        .data("GetServiceDeployment", "serviceDeployment", &service)
        .data("GetServiceFacts", "serviceDeployment", &json!({}))
        .data("ListGitRepositories", "gitRepositories", &page(&repository))
        .data("GetGitRepository", "gitRepository", &repository)
        .data("ListProjects", "projects", &page(&project))
        .data("GetProject", "project", &project)
        .data("ListServiceContexts", "serviceContexts", &page(&context))
        .data("GetServiceContext", "serviceContext", &context)
        .data("ListGlobalServices", "globalServices", &page(&global))
        .data("GetGlobalService", "globalService", &global)
        .data("ListGlobalServiceInstances", "globalServiceInstances", &page(&json!(null)))
        .data("ListManagedNamespaces", "managedNamespaces", &page(&managed))
        .data("GetManagedNamespace", "managedNamespace", &managed);
    let person = Person::of(&server.url);
    for (noun, verb) in [
        ("clusters", "describe"),
        ("services", "describe"),
        ("repositories", "get"),
        ("projects", "describe"),
        ("contexts", "get"),
        ("global-services", "describe"),
        ("managed-namespaces", "get"),
    ] {
        let listed = person.run(&format!("cd {noun} list -o name")).await;
        assert_eq!((listed.code, listed.err.as_str()), (0, ""), "{noun}");
        let name = listed.out.trim();
        assert!(name.contains('/'), "{noun}: {name:?}");
        let found = person.run(&format!("cd {noun} {verb} {name} -o name")).await;
        assert_eq!((found.code, found.out.trim()), (0, name), "{noun} {verb} {name}: {}", found.err);
    }
    assert_eq!(server.asked("GetCluster"), [json!({"id": null, "handle": "blue"})]);
    assert_eq!(server.asked("GetServiceContext"), [json!({"name": "network"})]);
    assert_eq!(server.asked("GetProject"), [json!({"id": null, "name": "shop"})]);
    assert_eq!(server.asked("GetGlobalService"), [json!({"id": null, "name": "monitoring"})]);
    assert_eq!(server.asked("GetManagedNamespace"), [json!({"id": null, "name": "team-a"})]);

    // Repositories have addresses; documents of them have names, which are printed by `plural get`.
    let done = person.run("cd repositories get gitrepository/git-example-com-a -o name").await;
    assert_eq!((done.code, done.out), (0, format!("repository/{ID}\n")), "{}", done.err);
    let asked = server.asked("GetGitRepository");
    assert_eq!(asked.last().unwrap()["url"], "https://git.example.com/a.git");
    let done = person.run("cd repositories get gitrepository/git-example-com-b").await;
    assert_eq!(done.code, 1);
    assert!(done.err.starts_with("error: repository \"git-example-com-b\" not found"), "{}", done.err);
}

#[tokio::test]
async fn ids_are_taken_with_their_kinds() {
    let server = Server::start()
        .await
        .data(
            "DeleteBackgroundJob",
            "deleteBackgroundJob",
            &json!({"id": ID, "kind": "a", "key": "b", "state": "DEAD"}),
        )
        .data(
            "DeleteSavedView",
            "deleteSavedView",
            &json!({"id": ID, "name": "a", "page": "b", "query": "c"}),
        )
        .data(
            "ListHelmRepositories",
            "helmRepositories",
            &page(&json!({"id": ID, "url": "https://charts.example.com/stable", "name": null})),
        )
        .data(
            "DeleteHelmRepository",
            "deleteHelmRepository",
            &json!({"id": ID, "url": "https://charts.example.com/stable"}),
        );
    let person = Person::of(&server.url);
    for (line, operation) in [
        (format!("cd jobs delete job/{ID} --yes"), "DeleteBackgroundJob"),
        (format!("cd saved-views delete savedview/{ID} --yes"), "DeleteSavedView"),
    ] {
        let done = person.run(&line).await;
        assert_eq!(done.code, 0, "{line}: {}", done.err);
        assert_eq!(server.asked(operation), [json!({"id": ID})], "{line}");
    }
    for name in [format!("helmrepository/{ID}"), "helmrepository/charts-example-com-stable".to_owned()] {
        let done = person.run(&format!("cd helm-repositories delete {name} --yes")).await;
        assert_eq!(done.code, 0, "{name}: {}", done.err);
        let asked = server.asked("DeleteHelmRepository");
        assert_eq!(asked.last(), Some(&json!({"url": "https://charts.example.com/stable"})), "{name}");
    }
}
