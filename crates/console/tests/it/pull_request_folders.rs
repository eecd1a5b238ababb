//! Which folders of a repository are looked into for a pull request: what an automation names is found as in the whole tree, and hosts are
//! asked for no more.
//!
//! SQLite alone: nothing of it is recorded.

use plural_testkit::{ScmDialect, ScmServer};
use serde_json::{Value, json};

use crate::api_server::{Answer, TestServer};

const PREVIEW: &str = "mutation ($id: ID!, $context: Json) {
  previewPullRequest(id: $id, context: $context) { patch warnings files { path change } }
}";

/// Requests of a host that the console asks for itself meanwhile.
const OWN: usize = 4;

struct World {
    t: TestServer,
    host: ScmServer,
    connection: Value,
}

impl World {
    async fn new(dialect: ScmDialect, kind: &str) -> Self {
        let (t, host) = (TestServer::start().await, ScmServer::start(dialect).unwrap());
        let texts = [
            ("templates/app/deploy.yaml", "name: {{ context.name }}\n"),
            ("templates/app/deep/service.yaml", "of: {{ context.name }}\n"),
            ("templates/other.yaml", "not: meant\n"),
            ("apps/first/deploy.yaml", "name: first\n"),
            ("old/a.yaml", "a: 1\n"),
            ("old/b.txt", "b\n"),
            ("old/deep/c.yaml", "c: 1\n"),
            ("gone/x", "x\n"),
            ("gone/deep/y", "y\n"),
            ("index.yaml", "kept: 1\n"),
        ];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let many =
            (0..10_000).map(|number| (format!("other/{}/{number}", number / 100), String::from("x\n")));
        // As large as Gitea's are.
        host.set_page(1000);
        host.push_files("main", texts.into_iter().chain(many));
        let attributes = json!({
            "name": "forge", "type": kind, "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
            "repositories": [host.repository()],
        });
        Self { connection: t.admin.scm_connection(&attributes).await, t, host }
    }

    async fn automation(&self, name: &str, parts: Value) -> Value {
        let mut automation = json!({
            "name": name, "projectId": self.t.project, "connectionId": self.connection,
            "identifier": self.host.repository(), "title": "Add {{ context.name }}", "message": "Adds it.",
            "configuration": [{"name": "name", "type": "STRING"}],
        });
        automation.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
        self.t.admin.pr_automation(&automation).await
    }

    async fn preview(&self, name: &str, parts: Value) -> Answer {
        self.again(&self.automation(name, parts).await).await
    }

    async fn again(&self, automation: &Value) -> Answer {
        self.t.admin.ask(PREVIEW, json!({"id": automation, "context": {"name": "shop"}})).await
    }
}

/// Files that are made of a folder, changed, and taken away by a glob and as a folder.
fn parts() -> Value {
    json!({
        "creates": {"templates": [
            {"source": "templates/app", "destination": "apps/{{ context.name }}", "external": false},
        ]},
        "updates": {"yamlOverlays": [{"file": "index.yaml", "yaml": "made: true"}]},
        "deletes": {"files": ["old/*.yaml", "nothing/{{ context.name }}*"], "folders": ["gone", "nowhere"]},
    })
}

fn previewed(answer: &Answer) -> &Value {
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    &answer.body["data"]["previewPullRequest"]
}

fn changes(answer: &Answer) -> Vec<(String, String)> {
    let files = previewed(answer)["files"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    files.map(|file| (text(&file["path"]), text(&file["change"]))).collect()
}

async fn finds_what_it_names(world: World) {
    let first = world.preview("app", parts()).await;
    let expected = [
        ("apps/shop/deep/service.yaml", "CREATED"),
        ("apps/shop/deploy.yaml", "CREATED"),
        ("gone/deep/y", "DELETED"),
        ("gone/x", "DELETED"),
        ("index.yaml", "CHANGED"),
        ("old/a.yaml", "DELETED"),
    ]
    .map(|(path, change)| (path.to_owned(), change.to_owned()));
    assert_eq!(changes(&first), expected);
    let patch = previewed(&first)["patch"].as_str().unwrap();
    for line in ["+of: shop", "-a: 1", "-y", " kept: 1", "+made: true"] {
        assert!(patch.lines().any(|found| found == line), "{line}: {patch}");
    }
    let warnings = previewed(&first)["warnings"].to_string();
    for warning in ["deletes.files[1]: no file matches", "deletes.folders[1]: there is no such folder"] {
        assert!(warnings.contains(warning), "{warnings}");
    }
    // A repository that moved is looked at as it is.
    world.host.push("main", "index.yaml", "kept: 2\n");
    world.host.push("main", "gone/new", "z\n");
    let moved = world.preview("moved", parts()).await;
    assert!(changes(&moved).contains(&("gone/new".to_owned(), "DELETED".to_owned())), "{moved:?}");
    assert!(previewed(&moved)["patch"].as_str().unwrap().contains(" kept: 2"), "{moved:?}");
    // What is missing is told by its name.
    let source = json!({"creates": {"templates": [
        {"source": "templates/none", "destination": "apps/{{ context.name }}", "external": false},
    ]}});
    let missing = world.preview("missing", source).await;
    assert_eq!(missing.outcome(), "CONFLICT", "{missing:?}");
    assert!(missing.message().contains("templates/none does not exist in the repository"), "{missing:?}");
    // A folder is in the way of a file, and is not looked past.
    let folder = json!({"creates": {"templates": [
        {"source": "templates/other.yaml", "destination": "apps/first", "external": false},
    ]}});
    let in_the_way = world.preview("in-the-way", folder).await;
    assert!(in_the_way.message().contains("it is a folder"), "{in_the_way:?}");
    // Regexes of paths look at the whole tree.
    let old = json!({"updates": {
        "regexes": ["x"], "files": ["^other/99/99[0-9]9$"], "replaceTemplate": "y", "matchStrategy": "ANY",
    }});
    let found = changes(&world.preview("old", old).await);
    assert_eq!(found.len(), 10, "{found:?}");
    world.t.stop().await;
}

#[tokio::test]
async fn gitea_finds_what_an_automation_names() {
    finds_what_it_names(World::new(ScmDialect::Gitea, "GITEA").await).await;
}

#[tokio::test]
async fn gitlab_finds_what_an_automation_names() {
    finds_what_it_names(World::new(ScmDialect::GitLab, "GITLAB").await).await;
}

#[tokio::test]
async fn github_finds_what_an_automation_names_where_it_cuts_trees() {
    let world = World::new(ScmDialect::GitHub, "GITHUB").await;
    world.host.cut_trees(2);
    finds_what_it_names(world).await;
}

#[tokio::test]
async fn a_preview_of_a_large_repository_asks_for_little_and_then_for_its_head() {
    let world = World::new(ScmDialect::Gitea, "GITEA").await;
    let parts = json!({
        "creates": {"templates": [
            {"source": "templates/other.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
        ]},
        "updates": {"yamlOverlays": [{"file": "index.yaml", "yaml": "made: true"}]},
        "deletes": {"files": ["README.md"]},
    });
    let automation = world.automation("app", parts).await;
    // The head, three folders and three files.
    for most in [7, 1] {
        let before = world.host.requests();
        let preview = world.again(&automation).await;
        assert_eq!(changes(&preview).len(), 3, "{preview:?}");
        let asked = world.host.requests() - before;
        assert!(asked <= most + OWN, "{asked} requests, and {most} are needed");
    }
    world.t.stop().await;
}

/// What was told for another token is told to none that the host does not know.
#[tokio::test]
async fn a_connection_whose_token_changes_signs_in_with_the_new_one() {
    let world = World::new(ScmDialect::Gitea, "GITEA").await;
    let automation = world.automation("app", parts()).await;
    let first = changes(&world.again(&automation).await);
    let with = async |token: String| {
        let update = "mutation ($id: ID!, $a: ScmConnectionAttributes!) { updateScmConnection(id: $id, attributes: $a) { id } }";
        let attributes = json!({"name": "forge", "type": "GITEA", "token": token});
        world.t.admin.data(update, json!({"id": world.connection, "a": attributes})).await;
        world.again(&automation).await
    };
    let refused = with("nobodys".to_owned()).await;
    assert_ne!(refused.outcome(), "OK", "{refused:?}");
    assert_eq!(changes(&with(world.host.token()).await), first);
    world.t.stop().await;
}
