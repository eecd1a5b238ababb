//! Access tokens through the doors that people knock at: what narrow ones open, and what stolen ones do not become.

use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer};

const CREATE: &str = "mutation ($s: [ScopeAttributes], $v: Int, $p: String) {
  createAccessToken(scopes: $s, validForSeconds: $v, currentPassword: $p) { id token scopes expiresAt madeWith }
}";
const UPDATE: &str = "mutation ($id: ID, $a: UserAttributes!, $p: String, $e: Boolean) {
  updateUser(id: $id, attributes: $a, currentPassword: $p, endTokens: $e) {
    id remainingTokens { edges { node { id session } } }
  }
}";
const PASSWORD: &str = "another long password";

impl Person {
    async fn token(&self, variables: Value) -> (Self, Value) {
        let made = self.data(CREATE, variables).await["createAccessToken"].clone();
        (self.with_token(made["token"].as_str().unwrap()), made)
    }

    async fn get(&self, url: &str, scheme: &str) -> Answer {
        let request = self.http().get(url);
        let token = self.token.as_deref().unwrap();
        Answer::of(request.header("authorization", format!("{scheme} {token}")).send().await.unwrap()).await
    }
}

#[tokio::test]
async fn a_kubeconfigs_token_opens_its_cluster_and_no_other_door() {
    let t = TestServer::start().await;
    let (blue, red) = (t.admin.cluster("blue").await, t.admin.cluster("red").await);
    let (kubectl, made) =
        t.admin.token(json!({"s": [{"api": "k8s", "identifier": blue["id"]}], "v": 3600})).await;
    assert_eq!(made["scopes"], json!([format!("k8s:{}", blue["id"].as_str().unwrap())]));
    // Its cluster: asked, and not there; 503 is the agent's absence. Every other one: refused, by name and by id.
    for scheme in ["Bearer", "Token"] {
        for name in ["blue", blue["id"].as_str().unwrap()] {
            for path in ["", "/", "/api/v1/namespaces", "/apis?watch=1"] {
                let answer = kubectl.get(&t.url(&format!("/k8s/{name}{path}")), "Bearer").await;
                assert_eq!(answer.status, 503, "{name}{path}: {answer:?}");
            }
        }
        for name in ["red", red["id"].as_str().unwrap()] {
            let answer = kubectl.get(&t.url(&format!("/k8s/{name}/api")), "Bearer").await;
            assert_eq!(answer.status, 403, "{answer:?}");
            assert!(answer.message().contains("not this cluster"), "{answer:?}");
        }
        let recording = t.url("/ext/v1/recordings/0190b8a2-7c11-7def-8000-0123456789ab");
        assert_eq!(kubectl.get(&recording, scheme).await.status, 403);
    }
    // An administrator's, and yet nothing of the console: whatever is asked, in whatever form.
    for document in [
        "{ me { id } }",
        "{ __typename }",
        "{ __schema { queryType { name } } }",
        "{ clusters { edges { node { id } } } }",
        "{ accessTokens { edges { node { id } } } }",
        "mutation { createAccessToken { token } }",
        "mutation { createAccessToken(validForSeconds: 60) { token } }",
        "mutation { updateUser(attributes: {password: \"a new long password\"}) { id } }",
        "mutation { signIn(email: \"admin@example.com\", password: \"correct horse battery\") { jwt } }",
        "{ me",
    ] {
        let answer = kubectl.ask(document, json!({})).await;
        assert_eq!(answer.status, 403, "{document}: {answer:?}");
        assert!(answer.message().contains("k8s:"), "{answer:?}");
    }
    // It ends with the session that it was made with, and is listed with it.
    let listed =
        t.admin.data("{ accessTokens { edges { node { id scopes madeWith session } } } }", json!({})).await;
    let nodes: Vec<Value> =
        listed["accessTokens"]["edges"].as_array().unwrap().iter().map(|edge| edge["node"].clone()).collect();
    let session = nodes.iter().find(|node| node["session"] == true).unwrap();
    assert!(
        nodes.iter().any(|node| node["id"] == made["id"] && node["madeWith"] == session["id"]),
        "{nodes:?}"
    );
    t.admin
        .data("mutation ($t: String!) { deleteAccessToken(token: $t) { id } }", json!({"t": session["id"]}))
        .await;
    assert_eq!(kubectl.get(&t.url("/k8s/blue/api"), "Bearer").await.status, 401);
}

#[tokio::test]
async fn scopes_are_what_can_be_served() {
    let t = TestServer::start().await;
    let (id, other) = ("0190b8a2-7c11-7def-8000-0123456789ab", "0190b8a2-7c11-7def-8000-0123456789ac");
    let many: Vec<String> = (0..33).map(|n| format!("0190b8a2-7c11-7def-8000-{n:012}")).collect();
    for (scopes, expected) in [
        (json!([{"api": "*"}]), json!(["*"])),
        (json!([{"api": "k8s"}]), json!(["k8s:*"])),
        (
            json!([{"apis": ["k8s"], "ids": [other, id]}]),
            json!([format!("k8s:{id}"), format!("k8s:{other}")]),
        ),
    ] {
        let (_, made) = t.reader.token(json!({"s": scopes, "v": 60})).await;
        assert_eq!(made["scopes"], expected, "{scopes}");
    }
    for scopes in [
        json!([]),
        json!([{}]),
        json!([{"api": "updateServiceDeployment", "identifier": id}]),
        json!([{"api": "*", "identifier": id}]),
        json!([{"apis": ["k8s", "*"]}]),
        json!([{"api": "k8s", "identifier": "blue"}]),
        json!([{"api": "k8s", "identifier": "*"}]),
        json!([{"api": "k8s", "ids": many}]),
    ] {
        let answer = t.reader.ask(CREATE, json!({"s": scopes, "v": 60})).await;
        assert_eq!(answer.outcome(), "INVALID", "{scopes}: {answer:?}");
    }
}

#[tokio::test]
async fn a_stolen_token_becomes_neither_lasting_nor_the_account() {
    let t = TestServer::start().await;
    let (minute, _) = t.reader.token(json!({"v": 60})).await;
    let (lasting, _) = t.reader.token(json!({})).await;
    let new = json!({"password": "a thief's password"});
    for thief in [&minute, &lasting] {
        for variables in [json!({}), json!({"v": null, "s": null, "p": null})] {
            let answer = thief.ask(CREATE, variables).await;
            assert_eq!(answer.outcome(), "FORBIDDEN", "{answer:?}");
            assert!(answer.message().contains("currentPassword"), "{answer:?}");
        }
        for document in [
            UPDATE,
            "mutation ($a: UserAttributes!) { upsertUser(attributes: $a) { id } }",
            "mutation ($a: UserAttributes!) { a: updateUser(attributes: {name: \"n\"}) { id } b: updateUser(attributes: $a) { id } }",
        ] {
            let attributes =
                json!({"password": "a thief's password", "email": "reader@example.com", "name": "r"});
            let answer = thief.ask(document, json!({"a": attributes})).await;
            assert_eq!(answer.outcome(), "FORBIDDEN", "{document}: {answer:?}");
        }
        for wrong in ["guess", "correct horse battery"] {
            let answer = thief.ask(UPDATE, json!({"a": new, "p": wrong})).await;
            assert_eq!(answer.outcome(), "INVALID", "{answer:?}");
        }
        assert_eq!(thief.ask(UPDATE, json!({"a": {"name": "n"}, "e": true})).await.outcome(), "INVALID");
    }
    for seconds in [3601, 86_400, i32::MAX] {
        assert_eq!(minute.ask(CREATE, json!({"v": seconds})).await.outcome(), "FORBIDDEN", "{seconds}");
    }
    // An administrator's is no better: nobody's password, and nobody new who has one.
    let (admin, _) = t.admin.token(json!({"v": 60})).await;
    let answer = admin.ask(UPDATE, json!({"id": t.reader.id, "a": new})).await;
    assert_eq!(answer.outcome(), "FORBIDDEN", "{answer:?}");
    let create = "mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }";
    let thief = json!({"name": "t", "email": "thief@example.com", "password": "a thief's password"});
    assert_eq!(admin.ask(create, json!({"a": thief})).await.outcome(), "FORBIDDEN");
    // Nor another administrator, nor an address that the next password would be for.
    let raised = json!({"name": "t", "email": "thief@example.com", "roles": {"admin": true}});
    assert_eq!(admin.ask(create, json!({"a": raised})).await.outcome(), "FORBIDDEN");
    for change in [json!({"roles": {"admin": true}}), json!({"email": "thief@example.com"})] {
        let answer = admin.ask(UPDATE, json!({"id": t.reader.id, "a": change})).await;
        assert_eq!(answer.outcome(), "FORBIDDEN", "{answer:?}");
    }
    // Who has the password is no thief.
    let raise = json!({"id": t.owner.id, "a": {"roles": {"admin": true}}, "p": "guess"});
    assert_eq!(admin.ask(UPDATE, raise.clone()).await.outcome(), "INVALID");
    let right = json!({"id": raise["id"], "a": raise["a"], "p": "correct horse battery"});
    let answer = admin.ask(UPDATE, right).await;
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    assert_eq!(admin.ask(UPDATE, json!({"id": t.reader.id, "a": {"name": "r"}})).await.outcome(), "OK");
    // The owner's password and session are as they were.
    t.nobody.sign_in("reader@example.com", PASSWORD).await;
    assert_eq!(t.reader.ask("{ me { id } }", json!({})).await.outcome(), "OK");
}

#[tokio::test]
async fn a_join_token_outlasts_no_stolen_token() {
    let t = TestServer::start().await;
    let blue = t.admin.cluster("blue").await;
    let join = "mutation ($id: ID!, $v: Int) {
      createClusterJoinToken(id: $id, validForSeconds: $v) { joinToken joinTokenExpiresAt }
    }";
    let (hour, made) = t.admin.token(json!({"v": 3600})).await;
    for seconds in [Value::Null, json!(86_400), json!(30 * 86_400)] {
        let told = hour.data(join, json!({"id": blue["id"], "v": seconds})).await;
        assert_eq!(told["createClusterJoinToken"]["joinTokenExpiresAt"], made["expiresAt"], "{seconds}");
    }
    // The person who signed in a moment ago gets all of it, and so does a token without an end.
    let (lasting, _) = t.admin.token(json!({})).await;
    for person in [&t.admin, &lasting] {
        let told = person.data(join, json!({"id": blue["id"], "v": 30 * 86_400})).await;
        let end = told["createClusterJoinToken"]["joinTokenExpiresAt"].as_str().unwrap();
        assert!(end > made["expiresAt"].as_str().unwrap(), "{end}");
    }
}

#[tokio::test]
async fn a_demotion_is_not_undone_by_the_demoted() {
    let t = TestServer::start().await;
    let power = |admin: bool| json!({"id": t.owner.id, "a": {"roles": {"admin": admin}}});
    let is_admin = async || {
        let document = "query ($e: String!) { user(email: $e) { roles { admin } } }";
        t.admin.data(document, json!({"e": "owner@example.com"})).await["user"]["roles"]["admin"] == true
    };
    // What is so already when it is asked for is not written, however late that would be.
    for _ in 0..8 {
        t.admin.data(UPDATE, power(true)).await;
        assert!(is_admin().await);
        let raises = futures::future::join_all((0..3).map(|_| t.owner.ask(UPDATE, power(true))));
        let (_, raises) = tokio::join!(t.admin.data(UPDATE, power(false)), raises);
        for raise in raises {
            assert!(["OK", "FORBIDDEN"].contains(&raise.outcome().as_str()), "{raise:?}");
        }
        assert!(!is_admin().await);
    }
    // Nor does a request that began as an administrator's go on as one.
    t.admin.data(UPDATE, power(true)).await;
    let both = "mutation ($id: ID) {
      down: updateUser(id: $id, attributes: {roles: {admin: false}}) { id }
      up: updateUser(id: $id, attributes: {roles: {admin: true}}) { id }
    }";
    let answer = t.owner.ask(both, json!({"id": t.owner.id})).await;
    assert_eq!(answer.outcome(), "FORBIDDEN", "{answer:?}");
    assert!(answer.message().contains("no administrator any more"), "{answer:?}");
    assert_eq!(answer.body["data"]["down"]["id"], json!(t.owner.id));
    assert!(!is_admin().await);
}

#[tokio::test]
async fn a_new_password_tells_which_tokens_remain_and_ends_them_if_asked() {
    let t = TestServer::start().await;
    let (first, first_made) = t.reader.token(json!({})).await;
    let (child, _) = t.reader.token(json!({"v": 600})).await;
    // With a token and the password, as the command line does it.
    let told = first.data(UPDATE, json!({"a": {"password": "a second long password"}, "p": PASSWORD})).await;
    let left = &told["updateUser"]["remainingTokens"]["edges"];
    assert_eq!(left, &json!([{"node": {"id": first_made["id"], "session": false}}]));
    for ended in [&t.reader, &child] {
        assert_eq!(ended.ask("{ me { id } }", json!({})).await.status, 401);
    }
    assert_eq!(first.ask("{ me { id } }", json!({})).await.outcome(), "OK");
    // All of them; and whoever changes only the name is told nothing of tokens.
    let again = t.nobody.sign_in("reader@example.com", "a second long password").await;
    assert_eq!(
        again.data(UPDATE, json!({"a": {"name": "r"}})).await["updateUser"]["remainingTokens"],
        Value::Null
    );
    let told = again.data(UPDATE, json!({"a": {"password": "a third long password"}, "e": true})).await;
    assert_eq!(told["updateUser"]["remainingTokens"]["edges"], json!([]));
    for ended in [&first, &again] {
        assert_eq!(ended.ask("{ me { id } }", json!({})).await.status, 401);
    }
    t.nobody.sign_in("reader@example.com", "a third long password").await;
}

#[tokio::test]
async fn attack_25_doors_tell_nobody_who_is_there() {
    let t = TestServer::start().await;
    let created = t
        .admin
        .data(
            "mutation { createUser(attributes: {name: \"p\", email: \"programs@example.com\"}) { id } }",
            json!({}),
        )
        .await;
    assert!(created["createUser"]["id"].is_string());
    let sign_in = "mutation ($e: String!, $p: String!) { signIn(email: $e, password: $p) { jwt } }";
    let mut answers = Vec::new();
    for email in
        ["reader@example.com", "nobody@example.com", "programs@example.com", "READER@example.com.invalid"]
    {
        let mut answer = t.nobody.ask(sign_in, json!({"e": email, "p": "not the password"})).await;
        if let Some(extensions) = answer.body["errors"][0]["extensions"].as_object_mut() {
            assert!(extensions.remove("requestId").is_some());
        }
        answers.push((answer.status, answer.body.to_string()));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    // A token of somebody else looks like none, by its text and by its id, whatever is done with it.
    let (_, made) = t.owner.token(json!({})).await;
    let none = ("0190b8a2-7c11-7def-8000-0123456789ab", format!("console-{}", "0".repeat(64)));
    for (theirs, nobodys) in
        [(made["id"].as_str().unwrap(), none.0), (made["token"].as_str().unwrap(), none.1.as_str())]
    {
        let delete = "mutation ($t: String!) { deleteAccessToken(token: $t) { id } }";
        let answers = [
            t.reader.ask(delete, json!({"t": theirs})).await,
            t.reader.ask(delete, json!({"t": nobodys})).await,
        ];
        assert_eq!(answers[0].message(), answers[1].message());
        assert_eq!(answers[0].outcome(), answers[1].outcome());
    }
}
