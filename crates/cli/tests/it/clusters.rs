//! `plural cd clusters`: what is asked for, what is sent, what is shown.

use serde_json::{Value, json};

use crate::{
    answers::{ID, cluster, clusters, old},
    run::{Person, without_environment},
    server::Server,
};

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
