//! Groups that providers give: for how long, and when several give the same one.

use chrono::{TimeDelta, Utc};
use plural_testkit::{
    FakeIssuer, TestDatabase, each_database,
    fake_issuer::{Behaviour, Renewal},
};
use serde_json::{Value, json};

use crate::{
    api_server::{Person, TestServer},
    sso_browser::{Browser, add_group, add_provider},
};

each_database!(
    what_two_providers_give_ends_with_the_last_one,
    what_a_provider_gave_ends_when_it_vouches_no_longer,
);

async fn groups(person: &Person) -> Vec<String> {
    let me = person.data("{ me { groups { name } } }", json!({})).await;
    let groups = me["me"]["groups"].as_array().unwrap();
    groups.iter().map(|group| group["name"].as_str().unwrap().to_owned()).collect()
}

/// The providers were last asked about everybody so long ago.
async fn asked_before(t: &TestServer, hours: i64) -> u64 {
    let then = (Utc::now() - TimeDelta::hours(hours)).to_rfc3339();
    t.sql(&format!("UPDATE user_identities SET checked_at = '{then}', tried_at = '{then}'")).await;
    t.console.app().identities_check().await.unwrap()
}

fn reader_in(groups: &[&str]) -> Value {
    json!({"email": "reader@example.com", "groups": groups})
}

async fn what_two_providers_give_ends_with_the_last_one(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let issuers = [FakeIssuer::start().unwrap(), FakeIssuer::start().unwrap()];
    let ops = add_group(&t, "ops").await;
    let mapped = json!([{"claim": "ops", "groupId": ops}]);
    let mut ids = Vec::new();
    for (name, issuer) in ["one", "two"].into_iter().zip(&issuers) {
        let settings = json!({"groupsClaim": "groups", "groups": mapped});
        ids.push(add_provider(&t, issuer, name, settings).await);
        issuer.say(&reader_in(&["ops"]));
        let back = Browser::new(&t).sign_in(name).await;
        assert_eq!(back.status, 303, "{back:?}");
    }
    assert_eq!(groups(&t.reader).await, ["ops"]);
    // Whichever takes it away first, the other one still gives it.
    for (first, last) in [(0, 1), (1, 0)] {
        issuers[first].say(&reader_in(&[]));
        assert_eq!(asked_before(&t, 1).await, 2);
        assert_eq!(groups(&t.reader).await, ["ops"], "{last} still gives it");
        issuers[last].say(&reader_in(&[]));
        assert_eq!(asked_before(&t, 1).await, 2);
        assert!(groups(&t.reader).await.is_empty());
        for issuer in &issuers {
            issuer.say(&reader_in(&["ops"]));
        }
        assert_eq!(asked_before(&t, 1).await, 2);
        assert_eq!(groups(&t.reader).await, ["ops"]);
    }
    // Nor does one that maps it no longer, refuses, or is removed.
    let update = "mutation ($id: ID!, $a: IdentityProviderUpdateAttributes!) { updateIdentityProvider(id: $id, attributes: $a) { id } }";
    t.admin.data(update, json!({"id": ids[0], "a": {"groups": []}})).await;
    assert_eq!(groups(&t.reader).await, ["ops"]);
    t.admin.data(update, json!({"id": ids[0], "a": {"groups": mapped}})).await;
    assert_eq!(asked_before(&t, 1).await, 2);
    issuers[1].behave(Behaviour { renewal: Renewal::Refused, ..Behaviour::default() });
    assert_eq!(asked_before(&t, 1).await, 2);
    assert_eq!(groups(&t.reader).await, ["ops"], "the first one gives it again");
    issuers[1].say(&reader_in(&["ops"]));
    Browser::new(&t).sign_in("two").await;
    let delete = "mutation ($id: ID!) { deleteIdentityProvider(id: $id) { id } }";
    t.admin.data(delete, json!({"id": ids[0]})).await;
    assert_eq!(groups(&t.reader).await, ["ops"]);
    t.admin.data(delete, json!({"id": ids[1]})).await;
    assert!(groups(&t.reader).await.is_empty());
    t.stop().await;
}

async fn what_a_provider_gave_ends_when_it_vouches_no_longer(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let ops = add_group(&t, "ops").await;
    let settings = json!({"groupsClaim": "groups", "groups": [{"claim": "ops", "groupId": ops}]});
    add_provider(&t, &issuer, "acme", settings).await;
    let Value::Object(claims) = reader_in(&["ops"]) else { panic!("no object") };
    issuer.behave(Behaviour { renewal: Renewal::None, claims, ..Behaviour::default() });
    // Somebody with a password, whose tokens outlast what the provider says of them.
    let mut browser = Browser::new(&t);
    browser.sign_in("acme").await;
    let session = t.nobody.with_token(browser.session().unwrap());
    assert_eq!(groups(&t.reader).await, ["ops"]);
    assert_eq!(asked_before(&t, 11).await, 0);
    assert_eq!(groups(&t.reader).await, ["ops"]);
    assert_eq!(asked_before(&t, 13).await, 1);
    assert!(groups(&t.reader).await.is_empty());
    assert_eq!(session.ask("{ me { id } }", json!({})).await.status, 401);
    assert_eq!(asked_before(&t, 13).await, 0, "there is nothing left to end");
    let line = "{ audits(first: 100, action: \"identity.end\") { edges { node { targetName } } } }";
    let lines = t.admin.data(line, json!({})).await;
    assert_eq!(lines["audits"]["edges"][0]["node"]["targetName"], "reader@example.com", "{lines}");
    // Whoever signs in again is vouched for again.
    browser.sign_in("acme").await;
    assert_eq!(groups(&t.reader).await, ["ops"]);
    t.stop().await;
}
