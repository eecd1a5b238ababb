//! Documents that are made to keep the console busy, or to have it hold too much. Each is refused at once, and others
//! are served meanwhile.

#![expect(
    clippy::format_collect,
    clippy::needless_pass_by_value,
    reason = "documents read as they are put together"
)]

use std::{fmt::Write as _, thread, time::Duration};

use plural_testkit::eventually;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::api_server::{Answer, TestServer};

/// More than a refusal takes on any machine; what these documents asked for took hours, or all memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fragments that each spread the next one, `times` times, in one of the forms that a spread can have.
fn doubling(levels: usize, times: usize, of: &str, form: &str) -> String {
    let mut text = String::new();
    for level in 0..levels {
        let spreads = form.replace('%', &format!("...A{}", level + 1)).repeat(times);
        write!(text, " fragment A{level} on {of} {{ {spreads} }}").unwrap();
    }
    write!(text, " fragment A{levels} on {of} {{ __typename }}").unwrap();
    text
}

fn body(document: &str, variables: &Value) -> String {
    json!({"query": document, "variables": variables}).to_string()
}

/// Bodies that are refused, whoever sends them.
fn hostile() -> Vec<(&'static str, String)> {
    let none = json!({});
    let mut found = Vec::new();
    let mut document = |name, text: String| found.push((name, body(&text, &none)));
    // Fragments in fragments.
    for (name, of, head) in [
        ("schema", "__Schema", "{ __schema { ...A0 } }"),
        ("root", "RootQueryType", "{ ...A0 }"),
        ("root twice", "RootQueryType", "query A { ...A0 ...A0 }"),
        ("field", "User", "{ me { id ...A0 } }"),
        ("mutation", "User", "mutation { signIn(email: \"a\", password: \"b\") { ...A0 } }"),
        ("inline", "User", "{ me { ... { ... on User { ...A0 } } } }"),
        ("nowhere used", "User", "{ me { id } ...A31 }"),
    ] {
        for (levels, times) in [(31, 2), (31, 3), (20, 5), (200, 2)] {
            for form in ["% ", "... { % } ", "... on T { % } ", "x: me { % } ", "% @include(if: true) "] {
                document(name, format!("{head}{}", doubling(levels, times, of, form)));
            }
        }
    }
    document("cycle", "{ ...A } fragment A on RootQueryType { ...A }".into());
    document("cycle", "{ me { ...A } } fragment A on User { ...B ...B } fragment B on User { groups { members { ...A ...A } } }".into());
    document("cycle", "{ me { id } } fragment A on User { ... { ...A } }".into());
    // Operations and spreads.
    let fields = (0..10_000).map(|n| format!("a{n} ")).collect::<String>();
    let operations = (0..40).map(|n| format!("query q{n} {{ {} }} ", "...f ".repeat(50))).collect::<String>();
    document("operations", format!("{operations} fragment f on RootQueryType {{ {fields} }}"));
    document("operations", "query A { __typename } query B { __typename }".into());
    document("operations", "query A { __typename } mutation B { __typename }".into());
    let some = (0..100).map(|n| format!("a{n}: id ")).collect::<String>();
    document("spreads", format!("{{ me {{ {} }} }} fragment f on User {{ {some} }}", "...f ".repeat(40)));
    document(
        "aliases",
        format!("{{ me {{ {} }} }}", (0..3_000).map(|n| format!("a{n}: id ")).collect::<String>()),
    );
    // What the library answers without telling anybody.
    document("type names", "{ me { a: __typename } }".into());
    document("type names", "{ __schema { types { fields { a: __typename } } } }".into());
    document("type names", format!("{{ me {{ {} }} }}", "__typename ".repeat(9)));
    document(
        "type names",
        format!("{{ me {{ {} }} }} fragment f on User {{ __typename }}", "...f ".repeat(9)),
    );
    document("fragments", {
        let fragments = (0..40).map(|n| format!("fragment f{n} on User {{ id }} ")).collect::<String>();
        format!("{{ me {{ {} }} }} {fragments}", (0..40).map(|n| format!("...f{n} ")).collect::<String>())
    });
    // Directives.
    document("directives", format!("{{ me {} {{ id }} }}", "@skip(if: false) ".repeat(1_500)));
    document("directives", format!("{{ me {{ {} }} }}", "id @skip(if: false) ".repeat(1_000)));
    document("directives", format!("query {} {{ me {{ id }} }}", "@x ".repeat(3_000)));
    document(
        "directives",
        format!("{{ me {{ ...f }} }} fragment f on User {} {{ id }}", "@x ".repeat(3_000)),
    );
    // Depth, of all kinds of brackets.
    let deep = 15_000;
    document("selections", format!("{{{}", "a{".repeat(deep)));
    document("selections", format!("{{{}id{}", "a{".repeat(deep), "}".repeat(deep + 1)));
    document("inline", format!("{{{}id{}", "...{".repeat(10_000), "}".repeat(10_001)));
    for (open, close) in [("[", "]"), ("{a:", "}")] {
        let (open, close) = (open.repeat(deep), close.repeat(deep));
        document("values", format!("{{ me(a: {open}1{close}) {{ id }} }}"));
        document("values", format!("{{ me(a: {open}"));
        document("directives", format!("{{ me @x(a: {open}1{close}) {{ id }} }}"));
        document("defaults", format!("query ($a: Int = {open}1{close}) {{ me {{ id }} }}"));
    }
    document("types", format!("query ($a: {}Int{}) {{ me {{ id }} }}", "[".repeat(deep), "]".repeat(deep)));
    // The same behind what only looks like a string or a comment.
    for before in [
        "# \"\n",
        "# \"\"\"\r",
        "\"\\\"\" ",
        "\"\" ",
        "\"\"\"\"\"\" ",
        "\"\"\" \\\"\"\" \"\"\" ",
        "\u{feff}",
        "\"\\\\\" ",
    ] {
        document("hidden", format!("{{ me(a: {before} {}", "[".repeat(deep)));
    }
    // Strings without an end, each of which is read to the end again.
    document("strings", format!("{{ me(a: [{}", "\"\"\"x\\\"\"".repeat(6_000)));
    document("strings", format!("{{ me(a: [{}", "\"\"\" ".repeat(15_001)));
    document("strings", "{ me(a: \"\\u00".into());
    // Many small ones.
    document("arguments", format!("{{ me(a: [{}]) {{ id }} }}", "1 ".repeat(30_000)));
    document("arguments", format!("{{ me({}) {{ id }} }}", "a:1 ".repeat(14_000)));
    document("comments", format!("{{ me {{ id }} }}{}", "#\n".repeat(40_000)));
    // Round in circles.
    let circle = |times: usize| {
        format!(
            "{{ group(name: \"sre\") {{ {} id {} }} }}",
            "members { groups { ".repeat(times),
            "} }".repeat(times)
        )
    };
    document("circle", circle(3));
    document("circle", circle(12));
    let deep_schema = |times: usize| {
        format!(
            "{{ __schema {{ types {{ {} name {} }} }} }}",
            "fields { type { ".repeat(times),
            "} }".repeat(times)
        )
    };
    document("introspection", deep_schema(2));
    document("introspection", deep_schema(8));
    document(
        "introspection",
        format!(
            "{{ {} }}",
            (0..20).map(|n| format!("a{n}: __schema {{ types {{ name }} }} ")).collect::<String>()
        ),
    );
    document("pages", "{ clusters(first: 500) { edges { node { auditLogs(first: 500) { edges { node { id actor { id } } } } } } } }".into());
    // Variables.
    let nested = |depth: usize| (0..depth).fold(json!(1), |value, _| json!([value]));
    let uses = |times: usize, of: &str| {
        format!(
            "query ($a: {of}) {{ {} }}",
            (0..times).map(|n| format!("a{n}: me(x: $a, y: [$a, $a]) {{ id }} ")).collect::<String>()
        )
    };
    found.push(("deep variable", body(&uses(1, "Int"), &json!({"a": nested(100)}))));
    found.push((
        "deeper variable",
        format!("{{\"query\": \"{{ me {{ id }} }}\", \"variables\": {{\"a\": {}", "[".repeat(20_000)),
    ));
    found.push(("wide variable", body(&uses(40, "Int"), &json!({"a": vec![1; 20_000]}))));
    found.push(("object variable", body("{ me { id } }", &json!({"a": vec![json!({}); 250_000]}))));
    found.push(("long cursor", body(
        "query ($a: String) { clusters { edges { node { recordings(after: $a) { edges { cursor } } } } } }",
        &json!({"a": "x".repeat(200_000)}),
    )));
    found
}

/// Sends bodies from a thread and a runtime of their own, so that a console that stands still does not stop the
/// clock that says so. Each is sent by two at once, and the console has to tell that it is well after each.
fn send(url: String, token: Option<String>, bodies: Vec<(&'static str, String)>) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // A connection that ends with a refusal is not used again: its end would look like a fault of the next one.
        let http = reqwest::Client::builder().tls_certs_only([]).pool_max_idle_per_host(0).build().unwrap();
        let mut faults = Vec::new();
        for (name, body) in bodies {
            let ask = async || {
                let mut request = http
                    .post(format!("{url}/gql"))
                    .header("content-type", "application/json")
                    .body(body.clone());
                if let Some(token) = &token {
                    request = request.header("authorization", format!("Token {token}"));
                }
                match request.send().await {
                    Ok(response) => is_refused(&Answer::of(response).await),
                    // What is too long is not read to its end: the connection is closed under it.
                    Err(_) => body.len() > 64 << 10,
                }
            };
            let healthy = async || http.get(format!("{url}/healthz")).send().await.unwrap().status().as_u16();
            let asked = tokio::time::timeout(PATIENCE, async { tokio::join!(ask(), ask(), healthy()) });
            let start: String = body.chars().take(120).collect();
            match asked.await {
                Ok((true, true, 200)) => {}
                Ok((one, two, health)) => {
                    faults.push(format!("{name}: {start}: refused {one} {two}, health {health}"));
                }
                Err(_) => {
                    faults.push(format!("{name}: {start}: no answer in time"));
                    break;
                }
            }
        }
        faults
    })
}

fn is_refused(answer: &Answer) -> bool {
    matches!(answer.status, 400 | 401 | 413)
}

async fn attack(t: &TestServer, token: Option<String>) {
    let (url, bodies) = (t.url(""), hostile());
    assert!(bodies.len() > 150, "{}", bodies.len());
    let sender = thread::spawn(move || send(url, token, bodies));
    let faults = tokio::task::spawn_blocking(move || sender.join()).await.unwrap().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_documents_of_nobody_are_refused_at_once() {
    let t = TestServer::start().await;
    attack(&t, None).await;
    t.console.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_documents_of_a_user_are_refused_at_once() {
    let t = TestServer::start().await;
    attack(&t, t.stranger.token.clone()).await;
    assert_eq!(t.stranger.ask("{ me { id } }", json!({})).await.outcome(), "OK");
    t.console.stop().await.unwrap();
}

/// Nobody signs in, or asks for `__typename`, in a small document without fragments.
#[tokio::test]
async fn nobody_signs_in_and_nothing_else() {
    let t = TestServer::start().await;
    let sign_in = "signIn(email: $e, password: $p) { id jwt __typename }";
    let variables = json!({"e": "admin@example.com", "p": "correct horse battery"});
    for document in [
        format!("mutation ($e: String!, $p: String!) {{ {sign_in} }}"),
        format!("mutation SignIn($e: String!, $p: String!) {{ who: {sign_in} __typename }}"),
        "{ __typename }".to_owned(),
    ] {
        let answer = t.nobody.ask(&document, variables.clone()).await;
        let given = if document.contains('$') {
            answer.outcome()
        } else {
            t.nobody.ask(&document, json!({})).await.outcome()
        };
        assert_eq!(given, "OK", "{document} {answer:?}");
    }
    for document in [
        "{ __schema { queryType { name } } }".to_owned(),
        "{ __type(name: \"User\") { name } }".to_owned(),
        "{ me { id } }".to_owned(),
        "{ __typename me { id } }".to_owned(),
        "{ signIn: me { id } }".to_owned(),
        "{ ... { __typename } }".to_owned(),
        "{ ...A } fragment A on RootQueryType { __typename }".to_owned(),
        "{ __typename } fragment A on RootQueryType { __typename }".to_owned(),
        "query A { __typename } query B { __typename }".to_owned(),
        "subscription { __typename }".to_owned(),
        "mutation { createAccessToken { id } }".to_owned(),
        format!("mutation ($e: String!, $p: String!) {{ {sign_in} createAccessToken {{ id }} }}"),
        format!("mutation ($e: String!, $p: String!) {{ a: {sign_in} b: {sign_in} }}"),
        format!(
            "mutation ($e: String!, $p: String!) {{ ...A }} fragment A on RootMutationType {{ {sign_in} }}"
        ),
        "mutation ($e: String!, $p: String!) { signIn(email: $e, password: $p) { ... on User { id } } }"
            .to_owned(),
        "query ($e: String!, $p: String!) { signIn(email: $e, password: $p) { id } }".to_owned(),
        String::new(),
        "{".to_owned(),
    ] {
        // By POST, whatever it is: `ask` would open a socket for a subscription.
        let body = json!({"query": document, "variables": variables}).to_string();
        let answer = t.nobody.post("/gql", "application/json", body).await;
        assert_eq!((answer.status, answer.message()), (401, "unauthenticated"), "{document}");
    }
    let long = format!("{{ __typename }} #{}", "x".repeat(4 << 10));
    assert_eq!(t.nobody.ask(&long, json!({})).await.status, 413);
    assert_eq!(t.stranger.ask(&long, json!({})).await.outcome(), "OK");
    assert_eq!(t.stranger.ask("{ __schema { queryType { name } } }", json!({})).await.outcome(), "OK");
    t.console.stop().await.unwrap();
}

/// Lists and texts that are longer than anybody could know beforehand.
#[tokio::test]
async fn attack_32_answers_end_where_they_are_too_large() {
    let t = TestServer::start().await;
    let group = t.admin.data("mutation { createGroup(attributes: {name: \"sre\"}) { id } }", json!({})).await;
    for i in 0..250 {
        let attributes = json!({"name": "u", "email": format!("u-{i}@example.com")});
        let user = t
            .admin
            .data(
                "mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }",
                json!({"a": attributes}),
            )
            .await;
        t.admin
            .data(
                "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }",
                json!({"g": group["createGroup"]["id"], "u": user["createUser"]["id"]}),
            )
            .await;
    }
    // A user without any right may ask who is in a group, and who is in the groups of its members.
    let names = (0..1_000).map(|n| format!("a{n}: id ")).collect::<String>();
    let wide = format!("{{ group(name: \"sre\") {{ members {{ {names} }} }} }}");
    let deep = "{ group(name: \"sre\") { members { groups { members { id email roles { admin } } } } } }";
    for document in [wide.as_str(), deep, &wide, &wide, &wide] {
        let answer = t.stranger.ask(document, json!({})).await;
        assert_eq!(answer.outcome(), "INVALID", "{}", answer.message());
        assert!(answer.message().contains("more than 200000 values"), "{}", answer.message());
        assert!(answer.body["data"].is_null());
    }
    let once =
        t.stranger.data("{ group(name: \"sre\") { members { id groups { name } } } }", json!({})).await;
    assert_eq!(once["group"]["members"].as_array().unwrap().len(), 250);
    t.console.stop().await.unwrap();
}

/// Large answers that nobody reads keep no answer back but the large ones of whoever asked for them.
#[tokio::test]
async fn attack_32_answers_that_nobody_reads_are_bounded() {
    let t = TestServer::start().await;
    let cluster = t.admin.cluster("blue").await;
    let repository = t.admin.repository("https://git.example.com/a.git").await;
    let attributes = json!({
        "name": "long", "namespace": "shop", "repositoryId": repository["id"], "git": {"ref": "main", "folder": "web"},
        "configuration": [{"name": "long", "value": "x".repeat(900 << 10)}],
    });
    let make = "mutation ($id: ID, $a: ServiceDeploymentAttributes!) { createServiceDeployment(clusterId: $id, attributes: $a) { id } }";
    let service = t.admin.data(make, json!({"id": cluster["id"], "a": attributes})).await;
    let id = &service["createServiceDeployment"]["id"];
    let values = (0..28).map(|n| format!("a{n}: value ")).collect::<String>();
    let document =
        format!("query ($id: ID!) {{ serviceDeployment(id: $id) {{ configuration {{ {values} }} }} }}");
    let body = body(&document, &json!({"id": id}));
    // Each of these has 25 MiB, of which the system takes a few.
    let (mut held, mut refused) = (Vec::new(), false);
    for _ in 0..8 {
        let mut stream = TcpStream::connect(t.console.address).await.unwrap();
        let head = format!(
            "POST /gql HTTP/1.1\r\nhost: c\r\ncontent-type: application/json\r\nauthorization: Token {}\r\ncontent-length: {}\r\n\r\n",
            t.admin.token.as_deref().unwrap(),
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.unwrap();
        held.push(stream);
        if &status == b"HTTP/1.1 503" {
            refused = true;
            break;
        }
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    assert!(refused, "all of {} unread answers were made", held.len());
    let answer = t.admin.ask(&document, json!({"id": id})).await;
    assert_eq!(answer.status, 503, "{}", answer.message());
    assert!(answer.message().contains("still unread"), "{}", answer.message());
    // What is small is answered, and so is what others ask for.
    assert_eq!(t.admin.ask("{ me { id } }", json!({})).await.outcome(), "OK");
    assert_eq!(t.owner.ask(&document, json!({"id": id})).await.outcome(), "OK");
    drop(held);
    eventually(PATIENCE, async || {
        let answer = t.admin.ask(&document, json!({"id": id})).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.message().to_owned()) }
    })
    .await;
    t.console.stop().await.unwrap();
}

#[tokio::test]
async fn attack_32_long_texts_and_long_lists_are_cut_and_told() {
    let t = TestServer::start().await;
    let cluster = t.admin.cluster("blue").await;
    let repository = t.admin.repository("https://git.example.com/a.git").await;
    let service = |name: &str, configuration: Value| {
        json!({
            "name": name, "namespace": "shop", "repositoryId": repository["id"], "configuration": configuration,
            "git": {"ref": "main", "folder": "web"},
        })
    };
    let make = "mutation ($id: ID, $a: ServiceDeploymentAttributes!) { createServiceDeployment(clusterId: $id, attributes: $a) { id } }";
    let long = service("long", json!([{"name": "long", "value": "x".repeat(900 << 10)}]));
    let long = t.admin.data(make, json!({"id": cluster["id"], "a": long})).await;
    let id = &long["createServiceDeployment"]["id"];
    let values = (0..50).map(|n| format!("a{n}: value ")).collect::<String>();
    let configurations = (0..50).map(|n| format!("a{n}: configuration {{ value }} ")).collect::<String>();
    for fields in [format!("configuration {{ {values} }}"), configurations] {
        let document = format!("query ($id: ID!) {{ serviceDeployment(id: $id) {{ {fields} }} }}");
        let answer = t.admin.ask(&document, json!({"id": id})).await;
        assert_eq!(answer.outcome(), "INVALID");
        assert!(answer.message().contains("larger than 32 MiB"), "{}", answer.message());
    }
    let many: Vec<Value> = (0..1_100).map(|n| json!({"name": format!("n{n}"), "value": "x"})).collect();
    let many = t.admin.data(make, json!({"id": cluster["id"], "a": service("many", many.into())})).await;
    let id = &many["createServiceDeployment"]["id"];
    let document = "query ($id: ID!) { it: serviceDeployment(id: $id) { configuration { name } } }";
    let answer = t.admin.ask(document, json!({"id": id})).await;
    assert_eq!(answer.outcome(), "OK");
    assert_eq!(answer.body["data"]["it"]["configuration"].as_array().unwrap().len(), 1_000);
    let cut = json!([{"path": ["it", "configuration"], "count": 1_100, "limit": 1_000}]);
    assert_eq!(answer.body["extensions"], json!({"truncated": cut, "truncatedLists": 1}));
    t.console.stop().await.unwrap();
}
