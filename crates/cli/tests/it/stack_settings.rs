//! What stacks have where they say nothing themselves: for a project, and for the installation.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

fn said() -> Value {
    json!({"jobSpec": {
        "namespace": "shop-runs", "serviceAccount": null, "labels": {"team": "shop"}, "annotations": {}, "nodeSelector": {},
        "tolerations": [{"key": "runs", "operator": "Exists", "value": null, "effect": "NoSchedule"}],
        "requests": {"requests": {"cpu": "500m", "memory": null}, "limits": {"cpu": null, "memory": null}},
    }})
}

async fn server() -> Server {
    let of_project = json!({"stackSettings": said()});
    let of_all = json!({"stacks": said()});
    Server::start()
        .await
        .data("GetProject", "project", &json!({"id": ID, "name": "shop", "default": false}))
        .data("ReadProjectStackSettings", "project", &of_project)
        .data("SetProjectStackSettings", "setProjectStackSettings", &of_project)
        .data("ReadDeploymentSettings", "deploymentSettings", &of_all)
        .data("ChangeDeploymentSettings", "updateDeploymentSettings", &of_all)
}

#[tokio::test]
async fn without_an_option_it_is_shown() {
    let server = server().await;
    let person = Person::of(&server.url);
    for (line, of) in [("cd projects stack-settings shop", "shop"), ("cd settings stacks", "installation")] {
        let shown = person.run(line).await;
        assert_eq!(shown.code, 0, "{shown:?}");
        for word in [of, "shop-runs", "team=shop", "cpu=500m"] {
            assert!(shown.out.contains(word), "{word}: {}", shown.out);
        }
        let wide = person.run(&format!("{line} -o wide")).await;
        assert!(wide.out.contains("runs:NoSchedule"), "{}", wide.out);
        let json: Value = serde_json::from_str(&person.run(&format!("{line} -o json")).await.out).unwrap();
        assert_eq!(json["jobSpec"], said()["jobSpec"]);
    }
    assert_eq!(server.asked("ReadProjectStackSettings")[0], json!({"id": ID}));
    assert!(server.asked("SetProjectStackSettings").is_empty());
    assert!(server.asked("ChangeDeploymentSettings").is_empty());
}

#[tokio::test]
async fn what_is_named_replaces_what_was_said() {
    let server = server().await;
    let person = Person::of(&server.url);
    let path = person.home().join("defaults.yaml");
    let file = "jobSpec:\n  namespace: runs\n  tolerations: [{key: runs, operator: Exists}]\n  labels: {fleet: all}\n";
    std::fs::write(&path, file).unwrap();
    let options = format!(
        "--settings {} --job-namespace shop-runs --job-service-account tofu --job-label team=shop --job-annotation a=b \
         --job-node-label disk=ssd --job-request cpu=500m --job-limit memory=1Gi",
        path.display()
    );
    let attributes = json!({"jobSpec": {
        "namespace": "shop-runs", "serviceAccount": "tofu", "labels": {"fleet": "all", "team": "shop"},
        "annotations": {"a": "b"}, "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "runs", "operator": "Exists"}],
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
    }});
    let done = person.run(&format!("cd projects stack-settings shop {options}")).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(server.asked("SetProjectStackSettings"), [json!({"projectId": ID, "attributes": attributes})]);
    let done = person.run(&format!("cd settings stacks {options}")).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(server.asked("ChangeDeploymentSettings"), [json!({"attributes": {"stacks": attributes}})]);
    // Saying nothing any more is said, and is not said beside something.
    let done = person.run("cd projects stack-settings shop --clear").await;
    assert_eq!(done.code, 0, "{done:?}");
    let cleared = json!({"projectId": ID, "attributes": {}});
    assert_eq!(server.asked("SetProjectStackSettings").last(), Some(&cleared));
    for line in [
        "cd projects stack-settings shop --clear --job-namespace runs",
        "cd projects stack-settings shop --job-request gpu=1",
        "cd settings stacks --job-label team",
        "cd settings",
    ] {
        let refused = person.run(line).await;
        assert_eq!(refused.code, 2, "{line}: {refused:?}");
    }
    assert_eq!(server.asked("SetProjectStackSettings").len(), 2);
}
