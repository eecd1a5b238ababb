//! Tokens of CI systems that stand for service accounts: exchanged at `POST /auth/token`, as RFC 8693 has it.

use plural_testkit::{
    FakeIssuer, TestDatabase, each_database,
    fake_issuer::{Behaviour, Signed},
    one_database,
};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer};

each_database!(a_job_works_as_the_account_that_its_token_stands_for);

one_database!(
    sqlite, "what is refused comes to no database";
    attack_22_a_token_that_lies_stands_for_nobody,
    a_token_that_stands_for_several_names_one,
);

const FORM: &str = "application/x-www-form-urlencoded";
const SUBJECT: &str = "repo:acme/shop:ref:refs/heads/main";
const CREATE: &str =
    "mutation ($a: FederatedCredentialAttributes!) { createFederatedCredential(attributes: $a) { id } }";

impl Person {
    async fn exchange(&self, token: &str, account: &str) -> Answer {
        let body = format!(
            "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={token}&audience={account}\
             &subject_token_type=urn:ietf:params:oauth:token-type:jwt"
        );
        self.post("/auth/token", FORM, body).await
    }
}

/// What the issuer says of a job.
fn job() -> Value {
    json!({"aud": "plural-ci", "sub": SUBJECT, "environment": "production", "email": null})
}

async fn account(t: &TestServer, name: &str) -> String {
    let create = "mutation ($a: ServiceAccountAttributes!) { createServiceAccount(attributes: $a) { id } }";
    let attributes =
        json!({"name": name, "email": format!("{name}@machines.example.com"), "projectId": t.project});
    let made = t.admin.data(create, json!({"a": attributes})).await;
    made["createServiceAccount"]["id"].as_str().unwrap().to_owned()
}

fn terms(account: &str, issuer: &FakeIssuer) -> Value {
    json!({
        "userId": account, "issuer": issuer.url(), "audience": "plural-ci", "subject": "repo:acme/shop:ref:refs/heads/*",
        "claimsLike": {"environment": "production"},
    })
}

async fn a_job_works_as_the_account_that_its_token_stands_for(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let account = account(&t, "deployer").await;
    let made = t.admin.data(CREATE, json!({"a": terms(&account, &issuer)})).await;
    let credential = made["createFederatedCredential"]["id"].as_str().unwrap().to_owned();
    issuer.say(&job());
    let answer = t.nobody.exchange(&issuer.token(), "").await;
    let lasts = answer.body["expires_in"].as_i64().unwrap_or_default();
    assert!(answer.status == 200 && (3_500..=3_600).contains(&lasts), "{answer:?}");
    let job = t.nobody.with_token(answer.body["access_token"].as_str().unwrap());
    let me = job.data("{ me { id email serviceAccount } }", json!({})).await;
    assert_eq!(me["me"]["id"], account);
    assert_eq!(me["me"]["serviceAccount"], true);
    // What it does is told under both names.
    let bind =
        "mutation ($p: ID, $u: ID!) { changeBindings(role: WRITE, add: [{userId: $u}], projectId: $p) }";
    t.admin.data(bind, json!({"p": t.project, "u": account})).await;
    job.data(
        "mutation ($p: ID!) { createCluster(attributes: {name: \"ci\", projectId: $p}) { id } }",
        json!({"p": t.project}),
    )
    .await;
    let lines =
        t.admin.data("{ audits(first: 20) { edges { node { action actorName } } } }", json!({})).await;
    let by = format!("deployer@machines.example.com (assumed by {SUBJECT} of {})", issuer.url());
    let lines = lines["audits"]["edges"].as_array().unwrap().clone();
    let line = lines.iter().find(|line| line["node"]["action"] == "cluster.create").unwrap();
    assert_eq!(line["node"]["actorName"], by, "{lines:?}");

    // Keys are asked for once; where a credential is gone, its tokens stand for nobody.
    issuer.say(&self::job());
    assert_eq!(t.nobody.exchange(&issuer.token(), "deployer@machines.example.com").await.status, 200);
    assert_eq!(issuer.requests(), ["description", "keys"]);
    assert_eq!(t.nobody.exchange(&issuer.token(), "another@machines.example.com").await.status, 400);
    let delete = "mutation ($id: ID!) { deleteFederatedCredential(id: $id) { id } }";
    t.admin.data(delete, json!({"id": credential})).await;
    assert_eq!(t.nobody.exchange(&issuer.token(), "").await.body["error"], "invalid_grant");
    t.stop().await;
}

async fn attack_22_a_token_that_lies_stands_for_nobody(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let account = account(&t, "deployer").await;
    t.admin.data(CREATE, json!({"a": terms(&account, &issuer)})).await;
    let now = chrono::Utc::now().timestamp();
    let claims = |over: Value| {
        let mut all = job();
        all.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
        Behaviour { claims: all.as_object().unwrap().clone(), ..Behaviour::default() }
    };
    let signed = |signed| Behaviour { signed, ..claims(json!({})) };
    let lies = [
        ("another issuer", claims(json!({"iss": "https://evil.invalid"}))),
        ("no issuer", claims(json!({"iss": null}))),
        ("another audience", claims(json!({"aud": "another"}))),
        ("audiences besides ours", claims(json!({"aud": ["plural-ci", "another"]}))),
        ("no audience", claims(json!({"aud": null}))),
        ("another subject", claims(json!({"sub": "repo:acme/other:ref:refs/heads/main"}))),
        ("a subject that contains ours", claims(json!({"sub": format!("x{SUBJECT}")}))),
        ("no subject", claims(json!({"sub": null}))),
        ("another environment", claims(json!({"environment": "staging"}))),
        ("no environment", claims(json!({"environment": null}))),
        ("it is over", claims(json!({"exp": now - 10}))),
        ("it never ends", claims(json!({"exp": null}))),
        ("from the future", claims(json!({"iat": now + 3600}))),
        ("counts later", claims(json!({"nbf": now + 3600}))),
        ("unsigned", signed(Signed::Not)),
        ("signed by another", signed(Signed::ByAnother)),
        ("signed with a secret", signed(Signed::WithClientSecret)),
        ("signed with the public key", signed(Signed::WithPublicKey)),
    ];
    let mut wrong = Vec::new();
    for (what, lie) in lies {
        issuer.behave(lie);
        let answer = t.nobody.exchange(&issuer.token(), "").await;
        if answer.status != 400 || answer.body["error"] != "invalid_grant" {
            wrong.push(format!("{what}: {answer:?}"));
        }
    }
    for token in ["", "a.b.c", "..", &"x".repeat(7_000)] {
        let answer = t.nobody.exchange(token, "").await;
        if answer.body["error"] != "invalid_grant" {
            wrong.push(format!("{token}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // An issuer that says so of another's keys.
    issuer.say(&job());
    let good = issuer.token();
    assert_eq!(t.nobody.exchange(&good, "").await.status, 200);
    // Terms that fit everybody are no terms.
    for (field, value) in [
        ("subject", json!("*")),
        ("subject", json!(null)),
        ("issuer", json!("http://ci.example.com")),
        ("issuer", json!("https://ci.example.com/?a=b")),
        ("audience", json!("")),
        ("claimsLike", json!({"groups": ["a"]})),
        ("scopes", json!(["everything"])),
    ] {
        let mut attributes = terms(&account, &issuer);
        attributes[field] = value;
        let answer = t.admin.ask(CREATE, json!({"a": attributes})).await;
        assert!(answer.body["errors"].is_array(), "{field}: {answer:?}");
    }
    t.stop().await;
}

async fn a_token_that_stands_for_several_names_one(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    for name in ["one", "two"] {
        let account = account(&t, name).await;
        t.admin.data(CREATE, json!({"a": terms(&account, &issuer)})).await;
    }
    issuer.say(&job());
    let answer = t.nobody.exchange(&issuer.token(), "").await;
    assert_eq!((answer.status, answer.body["error"].as_str()), (400, Some("invalid_target")), "{answer:?}");
    assert!(
        !answer.body.to_string().contains("machines.example.com"),
        "who they are is not for everybody: {answer:?}"
    );
    assert_eq!(t.nobody.exchange(&issuer.token(), "two@machines.example.com").await.status, 200);
    t.stop().await;
}
