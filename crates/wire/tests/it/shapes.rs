//! What answers become, and what is printed of them: scripts read the command line's JSON.

use plural_wire::{
    ClusterDeprecations, DOCUMENTS, Operation, ServiceDeploymentAttributes, ServiceDetails, ServiceFile,
    ServiceTree, SyncWindowKind, UserAttributes,
};
use serde_json::{Value, json};

fn service(more: &Value) -> Value {
    let mut service = json!({
        "id": "1", "name": "web", "namespace": "shop", "status": "HEALTHY", "sha": null, "protect": false,
        "deletedAt": null, "updatedAt": "2026-01-02T03:04:05Z", "git": {"ref": "main", "folder": "web"},
        "repository": null, "cluster": {"id": "2", "name": "Blue", "handle": "blue"}, "revision": null, "paused": false,
        "pin": null, "pendingApproval": null, "sync": {"step": "WAITING", "phase": "PRE_SYNC", "wave": -1, "waves": 3, "wavesDone": 0},
    });
    for (name, value) in more.as_object().unwrap() {
        service[name] = value.clone();
    }
    service
}

const LISTED: &str = r#""id":"1","name":"web","namespace":"shop","status":"HEALTHY","componentStatus":null,"sha":null,"message":null,"protect":false,"insertedAt":null,"deletedAt":null,"updatedAt":"2026-01-02T03:04:05Z","reason":null,"git":{"ref":"main","folder":"web"},"repository":null,"cluster":{"id":"2","name":"Blue","handle":"blue"},"revision":null,"paused":false,"pin":null,"pendingApproval":null,"sync":{"step":"WAITING","phase":"PRE_SYNC","wave":-1,"waves":3,"wavesDone":0"#;

#[test]
fn what_only_some_ask_for_is_not_printed_by_others() {
    let tree: ServiceTree = serde_json::from_value(service(&json!({"components": null}))).unwrap();
    assert_eq!(serde_json::to_string(&tree).unwrap(), format!("{{{LISTED}}},\"components\":[]}}"));

    let details = service(&json!({
        "dryRun": false, "templated": true, "syncConfig": null, "errors": [], "helm": null, "kustomize": null, "renderers": [null],
        "configuration": null, "dependencies": [], "contexts": [{"name": "network"}],
        "components": [{"id": "3", "group": "", "version": "v1", "kind": "ConfigMap", "namespace": null, "name": "a", "state": "ODD", "synced": true}],
        "sync": {
            "step": "WAITING", "phase": "PRE_SYNC", "wave": -1, "waves": 3, "wavesDone": 0,
            "waitingFor": [{"object": {"group": "", "kind": "Job", "namespace": "shop", "name": "m"}, "why": "it runs"}],
            "hooks": null, "requestDone": "4", "planRequest": null, "promoted": {"id": "5", "problems": []},
        },
    }));
    let details: ServiceDetails = serde_json::from_value(details).unwrap();
    let expected = format!(
        "{{{LISTED}{}",
        concat!(
            r#","waitingFor":[{"object":{"group":"","kind":"Job","namespace":"shop","name":"m"},"why":"it runs"}],"#,
            r#""requestDone":"4","promoted":{"id":"5"}},"dryRun":false,"templated":true,"author":null,"syncConfig":null,"#,
            r#""components":[{"id":"3","group":"","version":"v1","kind":"ConfigMap","namespace":null,"name":"a","#,
            r#""state":"UNKNOWN","synced":true}],"errors":[],"helm":null,"kustomize":null,"renderers":[],"#,
            r#""configuration":[],"dependencies":[],"contexts":[{"name":"network"}],"imports":[]}"#
        )
    );
    assert_eq!(serde_json::to_string(&details).unwrap(), expected);
}

#[test]
fn fields_of_other_fragments_are_read_where_they_are_added() {
    let file: ServiceFile = serde_json::from_value(json!({"path": "a", "size": 1})).unwrap();
    assert_eq!(
        serde_json::to_string(&file).unwrap(),
        r#"{"path":"a","size":1,"binary":null,"leftOut":null}"#
    );
    let cluster: ClusterDeprecations = serde_json::from_value(json!({
        "id": "1", "name": "Blue", "handle": "blue", "currentVersion": null,
        "apiDeprecations": [{"blocking": true, "component": {"kind": "Ingress", "name": "web",
            "service": {"id": "2", "name": "web", "repository": {"url": "https://git.example.com/a"}}}}],
    }))
    .unwrap();
    let component = cluster.api_deprecations[0].component.as_ref().unwrap();
    assert_eq!(component.service.as_ref().unwrap().name, "web");
    assert_eq!(cluster.cluster.handle.as_deref(), Some("blue"));
}

#[test]
fn what_is_not_given_is_not_sent_and_no_secret_is_shown() {
    let attributes = ServiceDeploymentAttributes {
        name: "web".into(),
        namespace: "shop".into(),
        ..ServiceDeploymentAttributes::default()
    };
    assert_eq!(serde_json::to_value(&attributes).unwrap(), json!({"name": "web", "namespace": "shop"}));
    let secret =
        UserAttributes { password: Some(plural_wire::Secret::new("hunter2")), ..UserAttributes::default() };
    assert!(!format!("{secret:?}").contains("hunter2"));
    assert_eq!(serde_json::to_value(&secret).unwrap(), json!({"password": "hunter2"}));
    assert_eq!(serde_json::to_value(SyncWindowKind::Deny).unwrap(), SyncWindowKind::Deny.as_str());
}

#[test]
fn every_operation_is_in_the_list_once() {
    let mut names: Vec<&str> = DOCUMENTS.iter().map(|(name, _)| *name).collect();
    assert!(names.contains(&plural_wire::Me::NAME));
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    for (name, text) in DOCUMENTS {
        assert!(text.contains(name) && !text.contains('#'), "{text}");
    }
}
