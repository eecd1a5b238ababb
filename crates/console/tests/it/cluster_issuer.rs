//! Tokens of clusters' service accounts: issuer and keys are what the cluster's agent reports, and count for that cluster alone.

use std::time::Duration;

use plural_app::agent::AgentFacts;
use plural_core::cluster::ClusterFacts;
use plural_core::cluster_issuer::{ClusterIssuer, IssuerReport};
use plural_testkit::{
    FakeIssuer, TestDatabase, each_database, eventually,
    fake_issuer::{Behaviour, Signed},
    one_database,
};
use serde_json::{Value, json};

use crate::api_server::{Answer, TestServer};

each_database!(a_cluster_signs_for_itself_alone, what_a_cluster_signs_counts_while_it_is_there,);

one_database!(
    sqlite, "what is refused comes to no database";
    attack_22_a_cluster_whose_tokens_lie_stands_for_nobody,
);

/// What clusters call themselves, all of them.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const SUBJECT: &str = "system:serviceaccount:ci:deployer";
const CREATE: &str = "mutation ($a: FederatedCredentialAttributes!) {
    createFederatedCredential(attributes: $a) { id issuer cluster { id } } }";

/// A cluster whose agent reports keys, and a service account that its `ci/deployer` stands for.
struct Signing {
    id: String,
    deploy_token: String,
    account: String,
}

async fn exchange(t: &TestServer, token: &str) -> Answer {
    let body = format!(
        "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={token}\
         &subject_token_type=urn:ietf:params:oauth:token-type:jwt"
    );
    t.nobody.post("/auth/token", "application/x-www-form-urlencoded", body).await
}

fn report(t: &TestServer, deploy_token: &str, issuer: IssuerReport) {
    let agent = t.console.app().agent_authenticate(deploy_token).unwrap();
    let facts = AgentFacts { facts: ClusterFacts::default(), distro: None, issuer };
    t.console.app().agent_ping(&agent, Some(facts)).unwrap();
}

fn signs(keys: &Value) -> IssuerReport {
    IssuerReport::Signs(ClusterIssuer::reported(ISSUER, &keys.to_string()).unwrap().unwrap())
}

async fn signing(t: &TestServer, name: &str, keys: &Value) -> Signing {
    let cluster = t.admin.cluster(name).await;
    let (id, deploy_token) = (cluster["id"].as_str().unwrap(), cluster["deployToken"].as_str().unwrap());
    report(t, deploy_token, signs(keys));
    let create = "mutation ($a: ServiceAccountAttributes!) { createServiceAccount(attributes: $a) { id } }";
    let attributes = json!({"name": name, "projectId": t.project});
    let made = t.admin.data(create, json!({"a": attributes})).await;
    let account = made["createServiceAccount"]["id"].as_str().unwrap().to_owned();
    let terms = json!({"userId": account, "clusterId": id, "audience": "plural", "subject": SUBJECT});
    let made = t.admin.data(CREATE, json!({"a": terms})).await["createFederatedCredential"].clone();
    assert_eq!(made["cluster"]["id"], id, "{made}");
    told(t, made["id"].as_str().unwrap(), ISSUER).await;
    Signing { id: id.to_owned(), deploy_token: deploy_token.to_owned(), account }
}

/// Waits until a credential's cluster is known to report an issuer: signs of life are stored every other second.
async fn told(t: &TestServer, credential: &str, issuer: &str) {
    eventually(Duration::from_mins(1), async || {
        let ask = "query ($id: ID!) { federatedCredential(id: $id) { issuer } }";
        let found = t.admin.data(ask, json!({"id": credential})).await;
        if found["federatedCredential"]["issuer"] == issuer { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

/// What a pod has.
fn pod(over: &Value) -> Behaviour {
    let mut claims = json!({"iss": ISSUER, "aud": ["plural"], "sub": SUBJECT, "email": null, "name": null});
    claims.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
    Behaviour { claims: claims.as_object().unwrap().clone(), ..Behaviour::default() }
}

async fn whose(t: &TestServer, answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    let job = t.nobody.with_token(answer.body["access_token"].as_str().unwrap());
    job.data("{ me { id } }", json!({})).await["me"]["id"].as_str().unwrap().to_owned()
}

/// Two clusters call themselves, their keys, their namespaces and their service accounts the same.
async fn a_cluster_signs_for_itself_alone(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let blue = signing(&t, "blue", &issuer.keys()).await;
    let red = signing(&t, "red", &issuer.keys_of_another()).await;
    issuer.behave(pod(&json!({})));
    let of_blue = issuer.token();
    assert_eq!(whose(&t, &exchange(&t, &of_blue).await).await, blue.account);
    issuer.behave(Behaviour { signed: Signed::ByAnother, ..pod(&json!({})) });
    let of_red = issuer.token();
    assert_eq!(whose(&t, &exchange(&t, &of_red).await).await, red.account);
    // Nobody was asked for keys.
    assert_eq!(issuer.requests(), Vec::<String>::new());
    // A third one that signs with its own key what only blue has.
    let create = "mutation ($a: ServiceAccountAttributes!) { createServiceAccount(attributes: $a) { id } }";
    let made = t.admin.data(create, json!({"a": {"name": "only", "projectId": t.project}})).await;
    let only = made["createServiceAccount"]["id"].clone();
    let terms = json!({"userId": only, "clusterId": blue.id, "audience": "only-blue", "subject": SUBJECT});
    t.admin.data(CREATE, json!({"a": terms})).await;
    issuer.behave(Behaviour { signed: Signed::ByAnother, ..pod(&json!({"aud": ["only-blue"]})) });
    assert_eq!(exchange(&t, &issuer.token()).await.body["error"], "invalid_grant");
    issuer.behave(pod(&json!({"aud": ["only-blue"]})));
    assert_eq!(whose(&t, &exchange(&t, &issuer.token()).await).await, only.as_str().unwrap());

    // What it does is told under the cluster's name, and what the agent reported has a line.
    let lines = t
        .admin
        .data("{ audits(first: 100) { edges { node { action actorName targetName } } } }", json!({}))
        .await;
    let lines = lines["audits"]["edges"].as_array().unwrap().clone();
    let by = format!("assumed by {SUBJECT} of cluster:{}", blue.id);
    let is_told = |line: &&Value| line["node"]["actorName"].as_str().is_some_and(|actor| actor.contains(&by));
    assert!(lines.iter().any(|line| is_told(&line)), "{lines:?}");
    let reports = lines.iter().filter(|line| line["node"]["action"] == "cluster.issuer.report").count();
    assert_eq!(reports, 2, "{lines:?}");
    t.stop().await;
}

async fn what_a_cluster_signs_counts_while_it_is_there(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let blue = signing(&t, "blue", &issuer.keys()).await;
    issuer.behave(pod(&json!({})));
    let good = exchange(&t, &issuer.token()).await;
    let job = t.nobody.with_token(good.body["access_token"].as_str().unwrap());
    job.data("{ me { id } }", json!({})).await;

    // Another key takes the place of the one before.
    report(&t, &blue.deploy_token, signs(&issuer.keys_of_another()));
    eventually(Duration::from_mins(1), async || {
        let answer = exchange(&t, &issuer.token()).await;
        if answer.body["error"] == "invalid_grant" { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
    report(&t, &blue.deploy_token, signs(&issuer.keys()));
    eventually(Duration::from_mins(1), async || {
        let answer = exchange(&t, &issuer.token()).await;
        if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;

    // An agent that was silent for more than a day.
    t.sql("UPDATE clusters SET pinged_at = '2020-01-01T00:00:00+00:00'").await;
    assert_eq!(exchange(&t, &issuer.token()).await.body["error"], "invalid_grant");
    // It says only that it lives.
    report(&t, &blue.deploy_token, IssuerReport::Untold);
    report(&t, &blue.deploy_token, signs(&issuer.keys_of_another()));
    report(&t, &blue.deploy_token, signs(&issuer.keys()));
    eventually(Duration::from_mins(1), async || {
        let answer = exchange(&t, &issuer.token()).await;
        if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;

    // The cluster goes, and with it what was given for its tokens.
    job.data("{ me { id } }", json!({})).await;
    t.admin.data("mutation ($id: ID!) { deleteCluster(id: $id) { id } }", json!({"id": blue.id})).await;
    assert_eq!(exchange(&t, &issuer.token()).await.body["error"], "invalid_grant");
    assert_eq!(job.ask("{ me { id } }", json!({})).await.status, 401);
    let ask = "query ($u: ID!) { federatedCredentials(userId: $u) { id } }";
    let left = t.admin.data(ask, json!({"u": blue.account})).await;
    assert_eq!(left["federatedCredentials"], json!([]));
    t.stop().await;
}

async fn attack_22_a_cluster_whose_tokens_lie_stands_for_nobody(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let blue = signing(&t, "blue", &issuer.keys()).await;
    let now = chrono::Utc::now().timestamp();
    let signed = |signed| Behaviour { signed, ..pod(&json!({})) };
    let headed = |header: Value| Behaviour { header: header.as_object().unwrap().clone(), ..pod(&json!({})) };
    let lies = [
        ("another issuer", pod(&json!({"iss": format!("{ISSUER}.evil.invalid")}))),
        (
            "the cluster's place in the table",
            pod(&json!({"iss": format!("https://{}.clusters.invalid", blue.id)})),
        ),
        ("another audience", pod(&json!({"aud": [ISSUER]}))),
        ("audiences besides ours", pod(&json!({"aud": ["plural", ISSUER]}))),
        ("another account", pod(&json!({"sub": "system:serviceaccount:ci:other"}))),
        ("another namespace", pod(&json!({"sub": "system:serviceaccount:other:deployer"}))),
        ("it is over", pod(&json!({"exp": now - 10}))),
        ("it never ends", pod(&json!({"exp": null}))),
        ("from the future", pod(&json!({"iat": now + 3600}))),
        ("counts later", pod(&json!({"nbf": now + 3600}))),
        ("another key", headed(json!({"kid": "2"}))),
        ("no key", headed(json!({"kid": null}))),
        ("unsigned", signed(Signed::Not)),
        ("signed by another", signed(Signed::ByAnother)),
        ("signed with a secret", signed(Signed::WithClientSecret)),
        ("signed with the public key", signed(Signed::WithPublicKey)),
    ];
    let mut wrong = Vec::new();
    for (what, lie) in lies {
        issuer.behave(lie);
        let answer = exchange(&t, &issuer.token()).await;
        if answer.status != 400 || answer.body["error"] != "invalid_grant" {
            wrong.push(format!("{what}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    issuer.behave(pod(&json!({})));
    assert_eq!(exchange(&t, &issuer.token()).await.status, 200);
    // Either an issuer or a cluster, and one that the caller sees.
    let terms = |more: Value| {
        let mut terms = json!({"userId": blue.account, "audience": "plural", "subject": SUBJECT});
        terms.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        terms
    };
    for (more, expected) in [
        (json!({}), "INVALID"),
        (json!({"clusterId": blue.id, "issuer": "https://ci.invalid"}), "INVALID"),
        (json!({"clusterId": uuid::Uuid::now_v7()}), "NOT_FOUND"),
        (json!({"clusterId": blue.id, "subject": "*"}), "INVALID"),
    ] {
        let answer = t.admin.ask(CREATE, json!({"a": terms(more.clone())})).await;
        assert_eq!(answer.outcome(), expected, "{more}: {answer:?}");
    }
    t.stop().await;
}
