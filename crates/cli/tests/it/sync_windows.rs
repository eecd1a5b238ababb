//! `plural cd sync-windows`.

use serde_json::json;

use crate::{
    answers::{ID, cluster},
    run::Person,
    server::Server,
};

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
