//! Signing in with an identity provider, in a browser: accounts, groups, sessions and their end.

use std::sync::Arc;

use plural_kit::Shutdown;
use plural_testkit::{
    FakeIssuer, TestDatabase, each_database,
    fake_issuer::{Behaviour, Halt, Renewal},
};
use serde_json::{Value, json};

use crate::{
    api_server::TestServer,
    sso_browser::{Browser, add_group, add_provider},
};

each_database!(
    a_login_makes_an_account_with_the_groups_that_the_provider_gives,
    accounts_are_tied_to_the_subject_and_found_by_a_verified_address,
    who_is_gone_at_the_provider_is_gone_here,
    what_a_provider_says_while_the_console_stops_is_kept,
    what_a_provider_says_while_keys_are_rotated_is_kept,
    a_provider_that_cannot_be_asked_again_vouches_for_half_a_day,
    a_suspended_user_has_nothing_and_gets_nothing,
    a_session_is_listed_and_ends,
    an_account_is_untied_from_its_provider,
    a_provider_that_is_removed_takes_its_logins_along,
);

const ME: &str = "{ me { email name groups { name } roles { admin } } }";

fn groups(me: &Value) -> Vec<&str> {
    let groups = me["data"]["me"]["groups"].as_array().unwrap_or_else(|| panic!("{me}"));
    let mut names: Vec<&str> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

async fn a_login_makes_an_account_with_the_groups_that_the_provider_gives(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let (ops, dev, other) =
        (add_group(&t, "ops").await, add_group(&t, "dev").await, add_group(&t, "other").await);
    let mapped = json!([
        {"claim": "their ops", "groupId": ops}, {"claim": "their dev", "groupId": dev},
    ]);
    add_provider(&t, &issuer, "acme", json!({"groupsClaim": "roles", "groups": mapped})).await;
    issuer.say(&json!({"roles": ["their ops", "unknown", "system:masters", "other"]}));

    let mut browser = Browser::new(&t);
    let page = browser.get("/auth/sign-in").await;
    assert!(page.text.contains("href=\"/auth/login/acme\""), "{page:?}");
    let back = browser.sign_in("acme").await;
    assert_eq!((back.status, back.location()), (303, "/"), "{back:?}");
    let set = back.set().join("\n");
    assert!(set.contains("plural-session=console-") && set.contains("HttpOnly; SameSite=Lax"), "{set}");
    let account = browser.get("/auth/account").await;
    assert!(account.text.contains("ada@example.com"), "{account:?}");
    let me = browser.gql(ME).await;
    assert_eq!(me["data"]["me"]["email"], "ada@example.com");
    assert_eq!(me["data"]["me"]["name"], "Ada Lovelace");
    assert_eq!(me["data"]["me"]["roles"]["admin"], false);
    assert_eq!(groups(&me), ["ops"]);

    // What an administrator gave is not the provider's to take.
    let id =
        t.admin.data("{ user(email: \"ada@example.com\") { id } }", json!({})).await["user"]["id"].clone();
    for group in [&dev, &other] {
        let join = "mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }";
        t.admin.data(join, json!({"g": group, "u": id})).await;
    }
    issuer.say(&json!({"roles": ["their dev"]}));
    browser.sign_in("acme").await;
    assert_eq!(groups(&browser.gql(ME).await), ["dev", "other"]);
    issuer.say(&json!({}));
    browser.sign_in("acme").await;
    assert_eq!(groups(&browser.gql(ME).await), ["dev", "other"]);

    // Asked again, without anybody signing in.
    issuer.say(&json!({"roles": "their ops"}));
    t.sql("UPDATE user_identities SET checked_at = '2001-01-01T00:00:00+00:00', tried_at = '2001-01-01T00:00:00+00:00'").await;
    assert_eq!(t.console.app().identities_check().await.unwrap(), 1);
    assert_eq!(groups(&browser.gql(ME).await), ["dev", "ops", "other"]);
    assert_eq!(t.console.app().identities_check().await.unwrap(), 0, "not before the hour is over");
    t.stop().await;
}

async fn accounts_are_tied_to_the_subject_and_found_by_a_verified_address(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    add_provider(&t, &issuer, "acme", json!({"createsUsers": false})).await;
    let mut browser = Browser::new(&t);
    // Nobody gets an account.
    issuer.say(&json!({"sub": "1", "email": "new@example.com"}));
    let refused = browser.sign_in("acme").await;
    assert!(refused.status == 403 && refused.text.contains("no account"), "{refused:?}");
    // An account that there is is found only by an address that counts.
    for (claims, told) in [
        (json!({"sub": "1", "email": "reader@example.com", "email_verified": false}), "is verified"),
        (json!({"sub": "1", "email": "reader@example.com", "email_verified": null}), "is verified"),
        (json!({"sub": "1", "email": "reader@example.org"}), "domain"),
        (json!({"sub": "1", "email": null}), "did not say"),
        (json!({"sub": "1", "email": "system:reader@example.com"}), "cannot be used"),
    ] {
        issuer.say(&claims);
        let refused = browser.sign_in("acme").await;
        assert!(refused.status == 403 && refused.text.contains(told), "{claims}: {refused:?}");
        assert_eq!(browser.session(), None);
    }
    issuer.say(&json!({"sub": "1", "email": "Reader@Example.com"}));
    browser.sign_in("acme").await;
    assert_eq!(browser.gql(ME).await["data"]["me"]["email"], "reader@example.com");
    // From then on the subject counts, whatever address comes with it.
    issuer.say(&json!({"sub": "1", "email": "owner@example.com"}));
    browser.sign_in("acme").await;
    assert_eq!(browser.gql(ME).await["data"]["me"]["email"], "reader@example.com");
    // An address that went to somebody else at the provider does not take the account along, nor does one that looks like it.
    for (email, told) in
        [("reader@example.com", "tied to another user"), ("\u{212a}arl@example.com", "cannot be used")]
    {
        issuer.say(&json!({"sub": "2", "email": email}));
        let mut other = Browser::new(&t);
        let refused = other.sign_in("acme").await;
        assert!(refused.status == 403 && refused.text.contains(told), "{email}: {refused:?}");
        assert_eq!(other.session(), None);
    }
    // The same subject of another issuer is somebody else.
    let second = FakeIssuer::start().unwrap();
    add_provider(&t, &second, "other", json!({"createsUsers": false, "domains": []})).await;
    second.say(&json!({"sub": "1", "email": "reader@example.com"}));
    let refused = Browser::new(&t).sign_in("other").await;
    assert!(refused.status == 403 && refused.text.contains("domain"), "{refused:?}");
    t.stop().await;
}

async fn an_account_is_untied_from_its_provider(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let ops = add_group(&t, "ops").await;
    let mapped = json!([{"claim": "ops", "groupId": ops}]);
    add_provider(&t, &issuer, "acme", json!({"groupsClaim": "groups", "groups": mapped})).await;
    issuer.say(&json!({"sub": "1", "email": "reader@example.com", "groups": ["ops"]}));
    let mut browser = Browser::new(&t);
    browser.sign_in("acme").await;
    assert_eq!(groups(&browser.gql(ME).await), ["ops"]);

    let list = "query ($id: ID!) { userIdentities(userId: $id) { id provider issuer subject lastUsedAt insertedAt } }";
    let found = t.admin.data(list, json!({"id": t.reader.id})).await["userIdentities"].clone();
    let identity = &found[0];
    assert_eq!((&identity["provider"], &identity["subject"]), (&json!("acme"), &json!("1")), "{found}");
    assert_eq!(identity["issuer"], issuer.url(), "{found}");
    assert!(identity["lastUsedAt"].as_str() >= identity["insertedAt"].as_str(), "{found}");
    assert_eq!(found.as_array().unwrap().len(), 1);
    // Who signs in sees their own, and unties nobody.
    let own = t.reader.data(list, json!({"id": t.reader.id})).await["userIdentities"].clone();
    assert_eq!(own, found);
    let untie = "mutation ($u: ID!, $id: ID!) { deleteUserIdentity(userId: $u, id: $id) { subject } }";
    let which = json!({"u": t.reader.id, "id": identity["id"]});
    assert_eq!(t.reader.ask(untie, which.clone()).await.outcome(), "FORBIDDEN");
    // An identity is of one account.
    let other = json!({"u": t.owner.id, "id": identity["id"]});
    assert_eq!(t.admin.ask(untie, other).await.outcome(), "NOT_FOUND");

    let gone = t.admin.data(untie, which.clone()).await;
    assert_eq!(gone["deleteUserIdentity"]["subject"], "1");
    assert_eq!(t.admin.ask(untie, which).await.outcome(), "NOT_FOUND");
    assert!(browser.gql(ME).await["data"]["me"].is_null(), "the session that it made ended");
    // A login with a password is none of the provider's, the groups that it gave are.
    let me = t.reader.ask(ME, json!({})).await;
    assert_eq!((me.status, groups(&me.body).len()), (200, 0), "{me:?}");
    let audit = "{ audits(last: 20) { edges { node { action targetName } } } }";
    let audit = t.admin.data(audit, json!({})).await.to_string();
    assert!(audit.contains("identity.untie"), "{audit}");
    // Its address is somebody else's at the provider by now: that one is tied.
    issuer.say(&json!({"sub": "2", "email": "reader@example.com"}));
    let mut next = Browser::new(&t);
    next.sign_in("acme").await;
    assert_eq!(next.gql(ME).await["data"]["me"]["email"], "reader@example.com");
    let found = t.admin.data(list, json!({"id": t.reader.id})).await["userIdentities"].clone();
    assert_eq!(found[0]["subject"], "2", "{found}");

    // An account without a password that is untied has no way in, and no token.
    issuer.say(&json!({"sub": "3", "email": "new@example.com"}));
    let mut only = Browser::new(&t);
    only.sign_in("acme").await;
    let made = only.gql("mutation { createAccessToken { token } }").await;
    let token = made["data"]["createAccessToken"]["token"].as_str().unwrap_or_else(|| panic!("{made}"));
    let program = t.nobody.with_token(token);
    assert_eq!(program.ask(ME, json!({})).await.status, 200);
    let id =
        t.admin.data("{ user(email: \"new@example.com\") { id } }", json!({})).await["user"]["id"].clone();
    let found = t.admin.data(list, json!({"id": id})).await["userIdentities"].clone();
    t.admin.data(untie, json!({"u": id, "id": found[0]["id"]})).await;
    assert_eq!(program.ask(ME, json!({})).await.status, 401);
    t.stop().await;
}

async fn who_is_gone_at_the_provider_is_gone_here(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let ops = add_group(&t, "ops").await;
    let mapped = json!([{"claim": "ops", "groupId": ops}]);
    add_provider(&t, &issuer, "acme", json!({"groupsClaim": "groups", "groups": mapped})).await;
    issuer.say(&json!({"groups": ["ops"]}));
    let mut browser = Browser::new(&t);
    browser.sign_in("acme").await;
    let made = browser.gql("mutation { createAccessToken { token } }").await;
    let token =
        made["data"]["createAccessToken"]["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let program = t.nobody.with_token(&token);
    assert_eq!(program.ask(ME, json!({})).await.status, 200);
    let may =
        "mutation ($g: ID!, $p: ID) { changeBindings(role: WRITE, add: [{groupId: $g}], projectId: $p) }";
    t.admin.data(may, json!({"g": ops, "p": t.project})).await;
    let made = format!(
        "mutation {{ createBootstrapToken(attributes: {{projectId: \"{}\"}}) {{ token }} }}",
        t.project
    );
    let made = browser.gql(&made).await;
    let machine = made["data"]["createBootstrapToken"]["token"].as_str().unwrap_or_else(|| panic!("{made}"));
    let machine = t.nobody.with_token(machine);
    let register = "mutation ($n: String!) { createCluster(attributes: {name: $n}) { id } }";
    assert_eq!(machine.ask(register, json!({"n": "one"})).await.outcome(), "OK");

    let long_ago = "UPDATE user_identities SET checked_at = '2001-01-01T00:00:00+00:00', tried_at = '2001-01-01T00:00:00+00:00'";
    let an_hour_ago = chrono::Utc::now() - chrono::TimeDelta::hours(1);
    let an_hour_ago = long_ago.replacen("2001-01-01T00:00:00+00:00", &an_hour_ago.to_rfc3339(), 1);
    // A provider that does not answer for an hour says nothing about anybody.
    issuer.behave(Behaviour { renewal: Renewal::Broken, ..Behaviour::default() });
    t.sql(&an_hour_ago).await;
    assert_eq!(t.console.app().identities_check().await.unwrap(), 1);
    assert_eq!(program.ask(ME, json!({})).await.status, 200);
    // One that refuses does.
    issuer.behave(Behaviour { renewal: Renewal::Refused, ..Behaviour::default() });
    t.sql(&an_hour_ago).await;
    assert_eq!(t.console.app().identities_check().await.unwrap(), 1);
    assert_eq!(program.ask(ME, json!({})).await.status, 401);
    // Nor does a machine go on in their name.
    assert_eq!(machine.ask(register, json!({"n": "two"})).await.outcome(), "401");
    let home = browser.home.clone();
    assert_eq!(browser.gql_from(&[("origin", &home), ("x-plural-csrf", "1")], ME).await.status, 401);
    assert!(browser.get("/auth/account").await.location().ends_with("/auth/sign-in"));
    let user = t.admin.data("{ user(email: \"ada@example.com\") { groups { name } } }", json!({})).await;
    assert_eq!(user["user"]["groups"], json!([]));

    // Silence counts as a refusal after half a day.
    issuer.say(&json!({}));
    browser.sign_in("acme").await;
    assert_eq!(browser.gql(ME).await["data"]["me"]["email"], "ada@example.com");
    issuer.behave(Behaviour { renewal: Renewal::Broken, ..Behaviour::default() });
    t.sql(long_ago).await;
    assert_eq!(t.console.app().identities_check().await.unwrap(), 1);
    assert_eq!(browser.gql_from(&[("origin", &home), ("x-plural-csrf", "1")], ME).await.status, 401);
    t.stop().await;
}

async fn what_a_provider_says_while_the_console_stops_is_kept(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    add_provider(&t, &issuer, "acme", json!({})).await;
    let mut browser = Browser::new(&t);
    browser.sign_in("acme").await;
    let an_hour_ago = (chrono::Utc::now() - chrono::TimeDelta::hours(1)).to_rfc3339();
    let an_hour_ago =
        format!("UPDATE user_identities SET checked_at = '{an_hour_ago}', tried_at = '{an_hour_ago}'");

    // It took the token that is good once, and did not say yet which one is next.
    let halt = Arc::new(Halt::default());
    issuer.behave(Behaviour { halt: Some(Arc::clone(&halt)), ..Behaviour::default() });
    t.sql(&an_hour_ago).await;
    let (shutdown, app) = (Shutdown::new(), t.console.app());
    let signal = shutdown.signal();
    let stops = async {
        halt.came.notified().await;
        shutdown.request();
        tokio::task::yield_now().await;
        halt.goes.notify_one();
    };
    let (asked, ()) = tokio::join!(app.identities_check_until(&signal), stops);
    assert_eq!(asked.unwrap(), 1);

    issuer.say(&json!({}));
    t.sql(&an_hour_ago).await;
    assert_eq!(app.identities_check_until(&signal).await.unwrap(), 0, "nothing is begun any more");
    t.sql(&an_hour_ago).await;
    assert_eq!(app.identities_check().await.unwrap(), 1);
    assert_eq!(browser.gql(ME).await["data"]["me"]["email"], "ada@example.com");
    t.stop().await;
}

/// The refresh token that a provider is asked with is sealed anew meanwhile: it is the same, and the next one takes its place.
async fn what_a_provider_says_while_keys_are_rotated_is_kept(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    add_provider(&t, &issuer, "acme", json!({})).await;
    let mut browser = Browser::new(&t);
    browser.sign_in("acme").await;
    let an_hour_ago = (chrono::Utc::now() - chrono::TimeDelta::hours(1)).to_rfc3339();
    let an_hour_ago =
        format!("UPDATE user_identities SET checked_at = '{an_hour_ago}', tried_at = '{an_hour_ago}'");
    let app = t.console.app();

    let halt = Arc::new(Halt::default());
    issuer.behave(Behaviour { halt: Some(Arc::clone(&halt)), ..Behaviour::default() });
    t.sql(&an_hour_ago).await;
    let rotates = async {
        halt.came.notified().await;
        t.admin.data("mutation { rotateInstallationDataKey { id } }", json!({})).await;
        app.reseal().await.unwrap();
        halt.goes.notify_one();
    };
    let (asked, ()) = tokio::join!(app.identities_check(), rotates);
    assert_eq!(asked.unwrap(), 1);

    // The one that was used is good no more: with it, the provider would say that they are gone.
    issuer.say(&json!({}));
    t.sql(&an_hour_ago).await;
    assert_eq!(app.identities_check().await.unwrap(), 1);
    assert_eq!(browser.gql(ME).await["data"]["me"]["email"], "ada@example.com");
    t.stop().await;
}

async fn a_provider_that_cannot_be_asked_again_vouches_for_half_a_day(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    add_provider(&t, &issuer, "acme", json!({})).await;
    issuer.behave(Behaviour { renewal: Renewal::None, ..Behaviour::default() });
    let mut browser = Browser::new(&t);
    let back = browser.sign_in("acme").await;
    assert!(back.set()[0].contains("Max-Age=43200;"), "{back:?}");
    // Whatever is made with it ends with it, however fresh the session is.
    let made = browser.gql("mutation { createAccessToken { expiresAt } }").await;
    let ends = made["data"]["createAccessToken"]["expiresAt"].as_str().unwrap_or_else(|| panic!("{made}"));
    let ends: chrono::DateTime<chrono::Utc> = ends.parse().unwrap();
    assert!(ends <= chrono::Utc::now() + chrono::TimeDelta::hours(12), "{ends}");
    assert_eq!(t.console.app().identities_check().await.unwrap(), 0);

    // One that can be asked again vouches for as long as a password does, and for tokens without an end.
    issuer.say(&json!({}));
    let back = browser.sign_in("acme").await;
    assert!(back.set()[0].contains("Max-Age=86400;"), "{back:?}");
    let made = browser.gql("mutation { createAccessToken { expiresAt } }").await;
    assert_eq!(made["data"]["createAccessToken"]["expiresAt"], Value::Null, "{made}");
    t.stop().await;
}

async fn a_suspended_user_has_nothing_and_gets_nothing(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    add_provider(&t, &issuer, "acme", json!({})).await;
    issuer.say(&json!({"email": "reader@example.com"}));
    let mut browser = Browser::new(&t);
    browser.sign_in("acme").await;
    assert_eq!(browser.gql(ME).await["data"]["me"]["email"], "reader@example.com");
    let suspend = "mutation ($id: ID!) { suspendUser(id: $id) { suspendedAt } }";
    let refused = t.owner.ask(suspend, json!({"id": t.reader.id})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    let done = t.admin.data(suspend, json!({"id": t.reader.id})).await;
    assert!(done["suspendUser"]["suspendedAt"].is_string(), "{done}");
    assert_eq!(t.reader.ask(ME, json!({})).await.status, 401);
    let home = browser.home.clone();
    assert_eq!(browser.gql_from(&[("origin", &home), ("x-plural-csrf", "1")], ME).await.status, 401);
    // No way in: with the provider, with a password, or with a token that somebody makes for them.
    let back = Browser::new(&t).sign_in("acme").await;
    assert_eq!(back.status, 401, "{back:?}");
    let fields = [("email", "reader@example.com"), ("password", "another long password")];
    let mut other = Browser::new(&t);
    assert_eq!(other.submit("/auth/sign-in", &fields).await.status, 401);
    let sign_in =
        "mutation { signIn(email: \"reader@example.com\", password: \"another long password\") { jwt } }";
    assert_ne!(t.nobody.ask(sign_in, json!({})).await.outcome(), "OK");
    // The last administrator stays.
    let refused = t.admin.ask(suspend, json!({"id": t.admin.id})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    let resume = "mutation ($id: ID!) { resumeUser(id: $id) { suspendedAt } }";
    t.admin.data(resume, json!({"id": t.reader.id})).await;
    assert_eq!(t.reader.ask(ME, json!({})).await.status, 401, "what ended does not come back");
    assert_eq!(other.submit("/auth/sign-in", &fields).await.status, 303);
    assert_eq!(other.gql(ME).await["data"]["me"]["email"], "reader@example.com");
    t.stop().await;
}

async fn a_session_is_listed_and_ends(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    add_provider(&t, &issuer, "acme", json!({})).await;
    let mut browser = Browser::new(&t);
    browser.sign_in("acme").await;
    let list = "{ accessTokens { edges { node { id session expiresAt } } } }";
    let listed = browser.gql(list).await;
    let tokens = listed["data"]["accessTokens"]["edges"].as_array().unwrap();
    assert!(tokens.len() == 1 && tokens[0]["node"]["session"] == true, "{listed}");
    let session = browser.session().unwrap().to_owned();
    let out = browser.submit("/auth/sign-out", &[]).await;
    assert!(
        out.status == 200 && out.text.contains(&format!("{}/end?client_id=plural", issuer.url())),
        "{out:?}"
    );
    assert_eq!(browser.session(), None);
    assert_eq!(t.nobody.with_token(&session).ask(ME, json!({})).await.status, 401);
    // Revoked from elsewhere, by its id.
    browser.sign_in("acme").await;
    let mut second = Browser::new(&t);
    second.sign_in("acme").await;
    let home = browser.home.clone();
    let listed = second.gql(list).await;
    for token in listed["data"]["accessTokens"]["edges"].as_array().unwrap() {
        let id = &token["node"]["id"];
        second.gql(&format!("mutation {{ deleteAccessToken(token: {id}) {{ id }} }}")).await;
    }
    for browser in [&mut browser, &mut second] {
        assert_eq!(browser.gql_from(&[("origin", &home), ("x-plural-csrf", "1")], ME).await.status, 401);
    }
    t.stop().await;
}

async fn a_provider_that_is_removed_takes_its_logins_along(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let ops = add_group(&t, "ops").await;
    let mapped = json!([{"claim": "ops", "groupId": ops}]);
    let id = add_provider(&t, &issuer, "acme", json!({"groupsClaim": "groups", "groups": mapped})).await;
    issuer.say(&json!({"groups": ["ops"]}));
    let mut browser = Browser::new(&t);
    browser.sign_in("acme").await;
    assert_eq!(groups(&browser.gql(ME).await), ["ops"]);
    // It maps another claim: what it gave before ends.
    let update = "mutation ($id: ID!, $a: IdentityProviderUpdateAttributes!) { updateIdentityProvider(id: $id, attributes: $a) { id } }";
    t.admin.data(update, json!({"id": id, "a": {"groups": []}})).await;
    assert!(groups(&browser.gql(ME).await).is_empty());
    t.admin.data("mutation ($id: ID!) { deleteIdentityProvider(id: $id) { id } }", json!({"id": id})).await;
    let home = browser.home.clone();
    assert_eq!(browser.gql_from(&[("origin", &home), ("x-plural-csrf", "1")], ME).await.status, 401);
    assert_eq!(browser.get("/auth/login/acme").await.status, 404);
    t.stop().await;
}
