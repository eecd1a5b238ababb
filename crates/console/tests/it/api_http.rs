//! The door itself: credentials, limits, webhooks, health.

use std::{net::IpAddr, time::Duration};

use hmac::{Hmac, KeyInit, Mac};
use plural_testkit::eventually;
use serde_json::json;
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::api_server::{Answer, TestServer, WEBHOOK_SECRET};

#[tokio::test]
async fn a_missing_or_wrong_credential_is_401_in_one_form() {
    let t = TestServer::start().await;
    let cluster = t.admin.cluster("blue").await;
    let deploy_token = cluster["deployToken"].as_str().unwrap();
    for person in [
        t.nobody.clone(),
        t.nobody.with_token("console-0000000000000000000000000000000000000000000000000000000000000000"),
        t.nobody.with_token("nonsense"),
        // An agent's token opens the agents' door only.
        t.nobody.with_token(deploy_token),
    ] {
        let answer = person.ask("{ me { id } }", json!({})).await;
        assert_eq!((answer.status, answer.message()), (401, "unauthenticated"), "{answer:?}");
    }
    // Hiding a field in a fragment, another operation or a syntax error gets nobody further.
    for document in [
        "{ ...A } fragment A on RootQueryType { me { id } }",
        "{ ... { me { id } } }",
        "{ ...Unknown }",
        "query A { __typename } query B { me { id } }",
        "{ me",
    ] {
        assert_eq!(t.nobody.ask(document, json!({})).await.status, 401, "{document}");
    }
    for scheme in ["Bearer ", "token ", "Token: "] {
        let request = t.nobody.http().post(t.url("/gql")).header("content-type", "application/json");
        let token = t.admin.token.as_deref().unwrap();
        let request =
            request.header("authorization", format!("{scheme}{token}")).body(r#"{"query": "{ me { id } }"}"#);
        assert_eq!(Answer::of(request.send().await.unwrap()).await.outcome(), "OK", "{scheme}");
    }
}

#[tokio::test]
async fn a_revoked_token_and_a_deleted_user_are_out_at_once() {
    let t = TestServer::start().await;
    let data = t.reader.data("mutation { createAccessToken { id token } }", json!({})).await;
    let token = data["createAccessToken"]["token"].as_str().unwrap();
    assert!(token.starts_with("console-"), "{token}");
    let program = t.nobody.with_token(token);
    let me = program.data("{ me { email } }", json!({})).await;
    assert_eq!(me["me"]["email"], "reader@example.com");
    // Told once: neither the list nor the single view tells it again.
    let again = program.ask("query ($id: ID!) { accessToken(id: $id) { token } accessTokens { edges { node { id token } } } }",
        json!({"id": data["createAccessToken"]["id"]})).await;
    assert!(!again.body.to_string().contains(token), "{again:?}");

    program.data("mutation ($t: String!) { deleteAccessToken(token: $t) { id } }", json!({"t": token})).await;
    assert_eq!(program.ask("{ me { id } }", json!({})).await.status, 401);
    t.admin.data("mutation ($id: ID!) { deleteUser(id: $id) { id } }", json!({"id": t.reader.id})).await;
    assert_eq!(t.reader.ask("{ me { id } }", json!({})).await.status, 401);
}

#[tokio::test]
async fn a_wrong_password_says_nothing_and_too_many_have_to_wait() {
    let t = TestServer::start().await;
    let document = "mutation ($e: String!, $p: String!) { signIn(email: $e, password: $p) { jwt } }";
    for email in ["nobody-of-that-name@example.com", "not an address", "stranger@example.com"] {
        let answer = t.nobody.ask(document, json!({"e": email, "p": "wrong password"})).await;
        assert_eq!(
            (answer.outcome().as_str(), answer.message()),
            ("UNAUTHENTICATED", "unauthenticated"),
            "{email}"
        );
    }
    let wrong = json!({"e": "owner@example.com", "p": "wrong password"});
    for _ in 0..5 {
        assert_eq!(t.nobody.ask(document, wrong.clone()).await.outcome(), "UNAUTHENTICATED");
    }
    let right = json!({"e": "owner@example.com", "p": "another long password"});
    let answer = t.nobody.ask(document, right.clone()).await;
    assert_eq!(answer.outcome(), "UNAVAILABLE");
    assert!(answer.message().contains("too many wrong passwords; retry in"), "{}", answer.message());
    // Nor may a client that is no proxy of ours choose where it is.
    let elsewhere = t.nobody.http().post(t.url("/gql")).header("x-forwarded-for", "192.0.2.1");
    let body = json!({"query": document, "variables": right}).to_string();
    let answer = elsewhere.header("content-type", "application/json").body(body).send().await.unwrap();
    assert_eq!(Answer::of(answer).await.outcome(), "UNAVAILABLE");
}

#[tokio::test]
async fn requests_out_of_bounds_are_refused_with_the_reason() {
    let t = TestServer::start().await;
    let admin = &t.admin;
    let query = |document: &str| json!({"query": document}).to_string();
    for (content_type, body, status, reason) in [
        ("text/plain", query("{ me { id } }"), 415, "application/json"),
        ("application/json", "{".into(), 400, "not a GraphQL request"),
        ("application/json", "[]".into(), 400, "not a GraphQL request"),
        ("application/json", json!({"variables": {}}).to_string(), 400, "query"),
        ("application/json", query(&"#".repeat(70_000)), 413, "longer than 64 KiB"),
        ("application/json", "x".repeat(5 << 20), 413, ""),
        (
            "application/json",
            query(&format!(
                "{{ {} }}",
                (0..51).map(|n| format!("a{n}: me {{ id }}")).collect::<Vec<_>>().join(" ")
            )),
            400,
            "at most 50 root fields",
        ),
        (
            "application/json",
            query(&format!(
                "mutation {{ {} }}",
                (0..11).map(|n| format!("a{n}: createAccessToken {{ id }}")).collect::<Vec<_>>().join(" ")
            )),
            400,
            "at most 10 root fields",
        ),
    ] {
        let answer = admin.post("/gql", content_type, body).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.message().contains(reason), "{answer:?}");
    }
    let answer = admin.ask("{ me { shoeSize } }", json!({})).await;
    assert_eq!(answer.outcome(), "INVALID");
    assert_eq!(answer.body["errors"][0]["extensions"]["requestId"], answer.request_id.as_str());
    assert!(answer.body["errors"][0]["locations"][0]["line"].is_number());
    // A filter that an address made up is called by its name.
    let services =
        "query ($s: ServiceDeploymentStatus) { serviceDeployments(status: $s) { edges { cursor } } }";
    let clusters = "query ($s: ClusterDistro) { clusters(distro: $s) { edges { cursor } } }";
    let facets = "query ($s: String) { clusterFacets(version: $s) { states { count } } }";
    for document in [services, clusters, facets] {
        let answer = admin.ask(document, json!({"s": "NONSENSE"})).await;
        assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
        assert!(answer.message().contains("NONSENSE"), "{answer:?}");
    }
    let answer = admin.ask("{ clusters(first: 0) { edges { cursor } } }", json!({})).await;
    assert_eq!((answer.outcome().as_str(), answer.message()), ("INVALID", "first: must be at least 1"));
    assert_eq!(answer.body["errors"][0]["extensions"]["field"], "first");
    let no_socket = t.nobody.http().get(t.url("/gql")).send().await.unwrap();
    assert_eq!(no_socket.status().as_u16(), 426);
}

#[tokio::test]
async fn marks_of_persisted_documents_are_accepted() {
    let t = TestServer::start().await;
    let body = json!({
        "query": "query Me { me { id } }", "operationName": "Me", "variables": null,
        "extensions": {"persistedQuery": {"version": 1, "sha256Hash": "sha256:00"}},
    });
    let answer =
        t.admin.post("/gql?documentId=sha256:00", "application/json; charset=utf-8", body.to_string()).await;
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
}

#[tokio::test]
async fn a_signed_webhook_is_taken_and_an_unsigned_one_is_not() {
    let t = TestServer::start().await;
    t.admin.repository("https://git.invalid/team/app.git").await;
    let send = async |kind: &str, header: &str, signature: &str, body: &str| {
        let request =
            t.nobody.http().post(t.url(&format!("/ext/v1/webhooks/{kind}"))).header(header, signature);
        Answer::of(request.body(body.to_owned()).send().await.unwrap()).await
    };
    let sign = |body: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).unwrap();
        mac.update(body.as_bytes());
        format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
    };
    let generic = r#"{"url": "https://git.invalid/team/app"}"#;
    let github = r#"{"repository": {"ssh_url": "git@git.invalid:team/app.git"}}"#;
    let gitlab = r#"{"project": {"git_http_url": "https://git.invalid/team/app.git"}}"#;
    for (kind, header, signature, body) in [
        ("generic", "x-plural-signature-256", sign(generic), generic),
        ("github", "x-hub-signature-256", sign(github), github),
        ("github/some-id", "x-hub-signature-256", sign(github), github),
        ("gitlab", "x-gitlab-token", WEBHOOK_SECRET.to_owned(), gitlab),
    ] {
        let answer = send(kind, header, &signature, body).await;
        assert_eq!((answer.status, &answer.body), (202, &json!({"repositories": 1})), "{kind}");
        assert_eq!(send(kind, header, "sha256=00", body).await.status, 401, "{kind}");
        assert_eq!(send(kind, "x-other", "", body).await.status, 401, "{kind}");
    }
    assert_eq!(send("generic", "x-plural-signature-256", &sign("no JSON"), "no JSON").await.status, 422);
    assert_eq!(send("bitbucket", "x-other", "", "{}").await.status, 401);
    assert_eq!(send("subversion", "x-other", "", "{}").await.status, 404);
    let told = t.admin.data("{ webhookSecret }", json!({})).await;
    assert_eq!(told["webhookSecret"], WEBHOOK_SECRET);
}

/// Sends a head and then `pieces` of a body for as long as the server takes them; its answer, and how many it took.
async fn pour(t: &TestServer, head: &str, pieces: usize) -> (String, usize) {
    let mut stream = TcpStream::connect(t.console.address).await.unwrap();
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let pour = async {
        let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        for taken in 0..pieces {
            if write.write_all(piece.as_bytes()).await.is_err() {
                return taken;
            }
        }
        pieces
    };
    let answer = async {
        let mut answer = Vec::new();
        let _ = read.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let both = async { tokio::join!(answer, pour) };
    tokio::time::timeout(Duration::from_mins(1), both).await.expect("an answer")
}

/// Sends `sent`, and reads the head of the answer and as much as its length says.
async fn answered(stream: &mut TcpStream, sent: &str) -> String {
    stream.write_all(sent.as_bytes()).await.unwrap();
    let read = async {
        let mut answer = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
            let length = text
                .split_once("content-length: ")
                .and_then(|(_, rest)| rest.split_once("\r\n")?.0.parse::<usize>().ok());
            if text.split_once("\r\n\r\n").is_some_and(|(_, body)| Some(body.len()) == length) {
                return text;
            }
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "{text}");
        }
    };
    tokio::time::timeout(Duration::from_mins(1), read).await.expect("an answer")
}

/// A proxy in front of consoles keeps connections: without the word it sends the next request into one that closes.
#[tokio::test]
async fn a_request_that_is_refused_before_its_body_was_read_ends_its_connection_and_says_so() {
    let t = TestServer::start().await;
    let body = r#"{"query": "{ me { id } }"}"#;
    let head = |credential: &str| {
        format!(
            "POST /gql HTTP/1.1\r\nhost: c\r\n{credential}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
    };
    // Head and body come apart, as over a slow line.
    let mut stream = TcpStream::connect(t.console.address).await.unwrap();
    let refused = answered(&mut stream, &head("authorization: Bearer console-wrong\r\n")).await;
    assert!(refused.starts_with("http/1.1 401 ") && refused.contains("connection: close\r\n"), "{refused}");
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_mins(1), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok() && rest.is_empty(), "{}", String::from_utf8_lossy(&rest));

    // What is read keeps its connection, and so does what has no body.
    let mut stream = TcpStream::connect(t.console.address).await.unwrap();
    let credential = format!("authorization: Token {}\r\n", t.admin.token.as_deref().unwrap());
    for sent in [
        format!("{}{body}", head(&credential)),
        "GET /healthz HTTP/1.1\r\nhost: c\r\n\r\n".to_owned(),
        format!("{}{body}", head(&credential)),
    ] {
        let answer = answered(&mut stream, &sent).await;
        assert!(answer.starts_with("http/1.1 200 ") && !answer.contains("connection: close"), "{answer}");
    }
}

#[tokio::test]
async fn attack_26_bodies_without_end_are_not_held() {
    let t = TestServer::start().await;
    // What says that it is a gigabyte is not read at all, signed or not.
    for (path, header, status) in [
        ("/ext/v1/webhooks/github", "x-hub-signature-256: sha256=00", "413"),
        ("/ext/v1/webhooks/github", "x-other: y", "401"),
        ("/gql", "content-type: application/json", "413"),
        ("/gql", "authorization: Bearer console-wrong", "401"),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: c\r\n{header}\r\ncontent-length: 1073741824\r\n");
        let (answer, _) = pour(&t, &head, 0).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} {header}: {answer}");
        // What does not say how long it is ends at its limit, far from the gigabyte that was to come.
        let head = format!("POST {path} HTTP/1.1\r\nhost: c\r\n{header}\r\ntransfer-encoding: chunked\r\n");
        let (_, taken) = pour(&t, &head, 16 << 10).await;
        assert!(taken < 1 << 10, "{path} {header}: {taken} pieces of 64 KiB");
    }
    // Who has signed in may send what a service's configuration takes; who has not, what a login takes.
    let long = json!({"query": "{ __typename }", "variables": {"a": "x".repeat(100_000)}}).to_string();
    assert_eq!(t.admin.post("/gql", "application/json", long.clone()).await.status, 200);
    assert_eq!(t.nobody.post("/gql", "application/json", long).await.status, 413);
    assert_eq!(t.admin.ask("{ me { id } }", json!({})).await.outcome(), "OK");
}

#[tokio::test]
async fn attack_26_bodies_that_never_come_are_given_up() {
    let t = TestServer::start().await;
    let slow = (0..40).map(|_| {
        let head = "POST /ext/v1/webhooks/github HTTP/1.1\r\nhost: c\r\nx-hub-signature-256: sha256=00\r\ncontent-length: 4194304\r\n";
        pour(&t, head, 0)
    });
    // Meanwhile a git host that sits elsewhere is heard.
    let host = reqwest::Client::builder().local_address(IpAddr::from([127, 0, 0, 2]));
    let host = host.tls_certs_only([]).build().unwrap();
    let elsewhere = host.post(t.url("/ext/v1/webhooks/gitlab")).header("x-gitlab-token", WEBHOOK_SECRET);
    let elsewhere = elsewhere.body("{}").send();
    let (answers, others, heard) =
        tokio::join!(futures::future::join_all(slow), t.admin.ask("{ me { id } }", json!({})), elsewhere);
    assert_eq!(others.outcome(), "OK");
    assert_ne!(heard.unwrap().status().as_u16(), 503);
    // One sender may take half of the room for 128 MiB: those wait for their bodies and are given up; the others are sent away
    // at once.
    let with = |status: &str| answers.iter().filter(|(answer, _)| answer.starts_with(status)).count();
    assert_eq!((with("HTTP/1.1 408"), with("HTTP/1.1 503")), (16, 24), "{answers:?}");
}

/// Canaries ask at their gates while webhooks, and questions at the gates of another service, never come to an end.
#[tokio::test]
async fn attack_26_gates_have_places_of_their_own() {
    let t = TestServer::start().await;
    let (cluster, repository) =
        (t.admin.cluster("blue").await, t.admin.repository("https://git.invalid/a.git").await);
    let mut gates = Vec::new();
    for name in ["one", "two"] {
        let service = t.admin.service(&cluster, &repository, name).await;
        let found =
            t.admin.data("query ($id: ID!) { serviceGateUrl(id: $id) }", json!({"id": service["id"]})).await;
        let url = found["serviceGateUrl"].as_str().unwrap();
        let path = url.find("/ext/").map(|at| &url[at..]).unwrap();
        gates.push(format!("{path}/confirm-rollout"));
    }
    let webhook = "POST /ext/v1/webhooks/github HTTP/1.1\r\nhost: c\r\nx-hub-signature-256: sha256=00\r\ncontent-length: 9\r\n";
    let gate = format!("POST {} HTTP/1.1\r\nhost: c\r\ncontent-length: 9\r\n", gates[0]);
    let webhooks = futures::future::join_all((0..4).map(|_| pour(&t, webhook, 0)));
    let questions = futures::future::join_all((0..8).map(|_| pour(&t, &gate, 0)));
    let question = json!({"name": "web", "namespace": "shop", "checksum": "1"}).to_string();
    let ask = async |path: &str| t.nobody.post(path, "application/json", question.clone()).await;
    // What is asked here may have had one of the places when the last of those came.
    let asked = async {
        eventually(Duration::from_mins(1), async || {
            let answers = futures::future::join_all((0..8).map(|_| ask(&gates[0]))).await;
            if answers.iter().any(|answer| answer.status == 503) {
                Ok(())
            } else {
                Err(format!("{answers:?}"))
            }
        })
        .await;
        ask(&gates[1]).await
    };
    let (webhooks, questions, asked) = tokio::join!(webhooks, questions, asked);
    assert_ne!(asked.status, 503, "{asked:?}");
    assert!(webhooks.iter().all(|(answer, _)| answer.starts_with("HTTP/1.1 408")), "{webhooks:?}");
    let waited = questions.iter().filter(|(answer, _)| answer.starts_with("HTTP/1.1 408")).count();
    assert!(waited > 0, "{questions:?}");
    assert_ne!(ask(&gates[0]).await.status, 503);
}

/// A page that a browser shows may make its own name lead to this console, and then asks in its visitor's name. Here nobody is
/// anybody by a cookie, an address or the console's name, only by a token that a page does not have.
#[tokio::test]
async fn attack_39_a_page_under_another_name_is_nobody() {
    let t = TestServer::start().await;
    let host = t.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let token = t.admin.token.clone().unwrap();
    for (name, origin) in [
        ("evil.example", "http://evil.example"),
        ("localhost:8080", "null"),
        (host.as_str(), "http://evil.example"),
    ] {
        let ask = |credentials: &str| {
            let body = r#"{"query": "{ me { id } }"}"#;
            format!(
                "POST /gql HTTP/1.1\r\nhost: {name}\r\norigin: {origin}\r\ncontent-type: application/json\r\n{credentials}\
                 x-forwarded-host: evil.example\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let cookies = format!("cookie: token={token}; session={token}; authorization={token}\r\n");
        for credentials in ["", cookies.as_str()] {
            let (answer, _) = pour(&t, &ask(credentials), 0).await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{name} {credentials}: {answer}");
        }
        // And whoever has one gets an answer that no page of another origin may read, and nothing to be known by later.
        let (answer, _) = pour(&t, &ask(&format!("authorization: Bearer {token}\r\n")), 0).await;
        let lower = answer.to_lowercase();
        assert!(lower.starts_with("http/1.1 200"), "{answer}");
        assert!(!lower.contains("access-control-allow") && !lower.contains("set-cookie"), "{answer}");
        assert!(!lower.contains("evil.example"), "{answer}");
    }
}

#[tokio::test]
async fn health_needs_no_credential() {
    let t = TestServer::start().await;
    for path in ["/health", "/healthz", "/readyz"] {
        let answer = Answer::of(t.nobody.http().get(t.url(path)).send().await.unwrap()).await;
        assert_eq!((answer.status, &answer.body), (200, &json!("ok\n")), "{path}");
        assert!(!answer.request_id.is_empty());
    }
    let (url, http) = (t.url("/healthz"), t.nobody.http().clone());
    t.console.stop().await.unwrap();
    assert!(http.get(&url).send().await.is_err(), "a stopped console listens");
}
