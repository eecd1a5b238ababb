//! What goes wrong between a form and a merge: answers that mean harm, branches that do not stand still, two that change one file.
//!
//! SQLite alone, as `pull_requests.rs`.

use serde_json::{Value, json};

use crate::pull_requests::{World, made, read};

const REFRESH: &str = "mutation ($id: ID!) { refreshPullRequest(id: $id) { id status head } }";
const MERGE: &str =
    "mutation ($id: ID!, $head: String) { mergePullRequest(id: $id, head: $head) { id status } }";

/// A file that is there.
const FILE: &str = "apps/web/values.yaml";

/// Texts that are something to one language or another. Each is a good answer to a question for a text.
const HOSTILE: &[&str] = &[
    "{{ 1 | plus: 1 }}",
    "{% for i in (1..9) %}x{% endfor %}",
    "{% raw %}{{ context.name }}",
    "a: b\nc: [d]",
    "- a\n- b",
    "---\nkind: Secret",
    "&a [*a, *a]",
    "!!python/object:os.system",
    "../../etc/passwd",
    "-rf",
    "--upload-pack=id",
    "$(id) `id` ${HOME} $1 \\1",
    "\"'\\\t<b>&",
    "<!-- plural-pull-request: 0190c8a0-0000-7000-8000-000000000000 -->",
];

/// An automation that asks for any text, and writes it as JSON where a value is.
async fn of_text(w: &World, more: Value) -> Value {
    w.host.push("main", "templates/text.yaml", "name: {{ context.name | toJson }}\nfixed: true\n");
    let mut automation = json!({
        "configuration": [{"name": "name", "type": "STRING"}], "title": "Add {{ context.name }}",
        "creates": {"templates": [{"source": "templates/text.yaml", "destination": "apps/text.yaml", "external": false}]},
        "updates": null, "deletes": null,
    });
    automation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    w.automation(automation).await
}

#[tokio::test]
async fn an_answer_that_is_something_elsewhere_stays_a_text() {
    let mut w = World::new().await;
    w.automation = of_text(&w, json!({})).await;
    for answer in HOSTILE {
        let made = made(&w.create(json!({"context": {"name": answer}})).await);
        assert_eq!(made["phase"], "OPENED", "{answer:?}: {made}");
        let file = w.host.file(made["ref"].as_str().unwrap(), "apps/text.yaml").unwrap();
        let value = file.strip_prefix("name: ").and_then(|rest| rest.strip_suffix("\nfixed: true\n"));
        let value: Value =
            serde_json::from_str(value.unwrap_or_else(|| panic!("{answer:?}: {file}"))).unwrap();
        assert_eq!(value, **answer, "{answer:?}: {file}");
        let title = made["title"].as_str().unwrap();
        assert!(!title.contains(char::is_control), "{answer:?}: {title:?}");
        if !answer.contains(char::is_control) {
            assert!(title.contains(answer), "{answer:?}: {title:?}");
        }
    }
    assert_eq!(w.host.pull_requests(), HOSTILE.len());
    w.t.stop().await;
}

#[tokio::test]
async fn an_answer_that_would_be_more_than_a_text_is_refused() {
    let mut w = World::new().await;
    // Control characters, and more than a form holds.
    w.automation = of_text(&w, json!({})).await;
    for answer in ["\u{1b}[2Jshop".to_owned(), "a\u{7}".to_owned(), "a".repeat(1 << 20)] {
        let refused = w.create(json!({"context": {"name": answer}})).await;
        assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
        assert_eq!(refused.body["errors"][0]["extensions"]["field"], "context", "{refused:?}");
        assert!(refused.body.to_string().len() < 2_000, "the answer is not told");
    }
    // Where it is a part of a path, it leads nowhere else.
    let path = json!({"creates": {"templates": [
        {"source": "templates/text.yaml", "destination": "apps/{{ context.name }}", "external": false},
    ]}});
    w.automation = of_text(&w, path).await;
    for answer in [
        "../README.md",
        "../../x",
        "a/../../../x",
        ".git/hooks/post-checkout",
        "a/.GIT/config",
        "-rf",
        "a/-x",
        "a\nb",
        "a\\b",
        "..",
    ] {
        let refused = w.create(json!({"context": {"name": answer}})).await;
        assert!(["CONFLICT", "INVALID"].contains(&refused.outcome().as_str()), "{answer:?}: {refused:?}");
    }
    // Where a template does not quote it, it may be a value and nothing more.
    w.host.push("main", "templates/bare.yaml", "name: {{ context.name }}\nfixed: true\n");
    let bare = json!({"creates": {"templates": [
        {"source": "templates/bare.yaml", "destination": "apps/bare.yaml", "external": false},
    ]}});
    w.automation = of_text(&w, bare).await;
    for answer in ["a\nfixed: false", "a\nadmin: true", "{a: b}", "[a]", "a\n---\nkind: Secret"] {
        let refused = w.create(json!({"context": {"name": answer}})).await;
        assert_eq!(refused.outcome(), "CONFLICT", "{answer:?}: {refused:?}");
        let previewed = w.preview(json!({"name": answer})).await;
        assert_eq!(previewed.outcome(), "CONFLICT", "{answer:?}: {previewed:?}");
    }
    assert_eq!((w.host.pull_requests(), w.host.branches()), (0, vec!["main".to_owned()]));
    assert_eq!(w.host.file("main", "README.md").as_deref(), Some("# Fleet\n"));
    w.t.stop().await;
}

#[tokio::test]
async fn one_whose_branch_moves_twice_is_rebased_once_and_then_told() {
    let w = World::new().await;
    w.host.race("main");
    w.host.race("main");
    let refused = w.create(json!({"branch": "add-shop"})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("moved twice while the changes were made: try again"), "{refused:?}");
    assert_eq!((w.host.pull_requests(), w.host.branches()), (0, vec!["main".to_owned()]));
    let listed = w.t.admin.data("{ pullRequests { edges { node { id phase error } } } }", json!({})).await;
    let edges = listed["pullRequests"]["edges"].as_array().unwrap();
    let [edge] = edges.as_slice() else { panic!("{listed}") };
    assert_eq!(edge["node"]["phase"], "FAILED", "{listed}");
    assert!(edge["node"]["error"].as_str().unwrap().contains("moved twice"), "{listed}");
    // It is told once, and tried no more by itself; asking again is another one.
    let again = made(&w.create(json!({"branch": "add-shop"})).await);
    assert_eq!((&again["phase"], &again["ref"]), (&json!("OPENED"), &json!("add-shop")), "{again}");
    assert_eq!(read(&w.t.admin, &edge["node"]["id"]).await["phase"], "FAILED");
    assert!(w.host.file("add-shop", "raced.txt").is_some(), "it is on top of what came meanwhile");
    assert_eq!(w.host.pull_requests(), 1);
    w.t.stop().await;
}

#[tokio::test]
async fn two_automations_that_change_one_file_lose_nothing_of_each_other() {
    let mut w = World::new().await;
    let sets = |yaml: &str| {
        json!({
            "title": format!("Set {yaml}"), "creates": null, "deletes": null,
            "updates": {"yamlOverlays": [{"file": FILE, "yaml": yaml}]},
        })
    };
    let two = w.automation(sets("replicas: 2")).await;
    let three = w.automation(sets("replicas: 3")).await;
    let image = w.automation(sets("image: web")).await;
    let mut opened = Vec::new();
    for automation in [&two, &three] {
        w.automation = automation.clone();
        opened.push(made(&w.create(json!({})).await));
    }
    let of = |made: &Value| w.host.file(made["ref"].as_str().unwrap(), FILE).unwrap();
    assert_eq!((of(&opened[0]), of(&opened[1])), ("replicas: 2\n".to_owned(), "replicas: 3\n".to_owned()));
    let merge = async |made: &Value| {
        let read = w.t.admin.data(REFRESH, json!({"id": made["id"]})).await["refreshPullRequest"].clone();
        w.t.admin.ask(MERGE, json!({"id": made["id"], "head": read["head"]})).await
    };
    let merged = merge(&opened[0]).await;
    assert_eq!(merged.outcome(), "OK", "{merged:?}");
    // The second one is told, and stays for a person.
    let refused = merge(&opened[1]).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("not mergeable"), "{refused:?}");
    assert_eq!(w.host.file("main", FILE).as_deref(), Some("replicas: 2\n"));
    assert_eq!(read(&w.t.admin, &opened[1]["id"]).await["status"], "OPEN");
    // Asked for again, each is made on what is there by then.
    w.automation = three;
    let again = made(&w.create(json!({})).await);
    w.automation = image;
    let image = made(&w.create(json!({})).await);
    let file = w.host.file(image["ref"].as_str().unwrap(), FILE).unwrap();
    assert!(file.contains("replicas: 2") && file.contains("image: web"), "{file}");
    assert_eq!(w.host.file(again["ref"].as_str().unwrap(), FILE).as_deref(), Some("replicas: 3\n"));
    w.t.stop().await;
}
