//! Invitations, and links for who has forgotten their password.

use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use crate::{
    api_server::{Person, TestServer},
    sso_browser::{Browser, Page, add_group},
};

each_database!(
    who_is_invited_makes_their_own_account_in_its_groups,
    attack_25_codes_are_good_once_for_a_time_and_guesses_are_slowed,
    an_invitation_is_worth_no_more_than_who_made_it,
    a_forgotten_password_is_replaced_by_its_owner,
);

const PASSWORD: &str = "another long password";
const NEW: &str = "quite another password";
const INVITE: &str = "mutation ($a: InviteAttributes!) { createInvite(attributes: $a) { id token page expiresAt groups { name } inviter { email } } }";
const RESET: &str = "mutation ($u: ID!) { createPasswordReset(userId: $u) { id token user { email } } }";

async fn invited(by: &Person, email: &str, groups: &[&str]) -> Value {
    by.data(INVITE, json!({"a": {"email": email, "groupIds": groups}})).await["createInvite"].clone()
}

async fn accept(t: &TestServer, code: &str, password: &str) -> Page {
    let fields = [("code", code), ("name", "Grace"), ("password", password), ("again", password)];
    Browser::new(t).submit("/auth/invite/accept", &fields).await
}

async fn sign_in(t: &TestServer, email: &str, password: &str) -> bool {
    let fields = [("email", email), ("password", password)];
    Browser::new(t).submit("/auth/sign-in", &fields).await.status == 303
}

async fn who_is_invited_makes_their_own_account_in_its_groups(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let (dev, gone) = (add_group(&t, "dev").await, add_group(&t, "gone").await);
    let made = invited(&t.admin, "grace@example.com", &[&dev, &gone]).await;
    assert_eq!(made["inviter"]["email"], "admin@example.com");
    let code = made["token"].as_str().unwrap();
    let listed = t
        .admin
        .data("{ invites { edges { node { id email token page groups { name } } } } }", json!({}))
        .await;
    let node = &listed["invites"]["edges"][0]["node"];
    assert!(node["email"] == "grace@example.com" && node["token"].is_null(), "{listed}");
    t.admin.data("mutation ($g: ID!) { deleteGroup(groupId: $g) { id } }", json!({"g": gone})).await;

    let mut browser = Browser::new(&t);
    let page = browser.get("/auth/invite").await;
    assert!(page.status == 200 && page.text.contains("Enter the code"), "{page:?}");
    let page = browser.submit("/auth/invite", &[("code", code)]).await;
    assert!(page.status == 200 && page.text.contains("grace@example.com"), "{page:?}");
    // What is wrong with what they typed does not cost them the code.
    let short = accept(&t, code, "short").await;
    assert!(short.status == 422 && short.text.contains("between 8 and 1024"), "{short:?}");
    let fields = [("code", code), ("password", NEW), ("again", "not the same")];
    assert_eq!(browser.submit("/auth/invite/accept", &fields).await.status, 422);
    let forged =
        browser.submit_from(&[("origin", "https://evil.test")], "/auth/invite/accept", &fields).await;
    assert_eq!(forged.status, 403, "{forged:?}");
    let page = accept(&t, code, NEW).await;
    assert!(page.status == 200 && page.text.contains("You can sign in as"), "{page:?}");

    assert!(sign_in(&t, "grace@example.com", NEW).await);
    let grace = t.nobody.sign_in("grace@example.com", NEW).await;
    let me = grace.data("{ me { name roles { admin } groups { name } } }", json!({})).await["me"].clone();
    assert_eq!(me, json!({"name": "Grace", "roles": {"admin": false}, "groups": [{"name": "dev"}]}));
    let lines = t.admin.data("{ audits(first: 50) { edges { node { action } } } }", json!({})).await;
    let lines = lines["audits"].to_string();
    for action in ["invite.create", "invite.accept", "user.create"] {
        assert!(lines.contains(action), "{action}: {lines}");
    }
    t.stop().await;
}

async fn attack_25_codes_are_good_once_for_a_time_and_guesses_are_slowed(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    // Used twice.
    let code = invited(&t.admin, "one@example.com", &[]).await["token"].as_str().unwrap().to_owned();
    assert_eq!(accept(&t, &code, NEW).await.status, 200);
    assert_eq!(accept(&t, &code, "yet another password").await.status, 404);
    assert!(sign_in(&t, "one@example.com", NEW).await);
    // Of two at once one is first.
    let code = invited(&t.admin, "two@example.com", &[]).await["token"].as_str().unwrap().to_owned();
    let (a, b) = tokio::join!(accept(&t, &code, NEW), accept(&t, &code, PASSWORD));
    let mut told = [a.status, b.status];
    told.sort_unstable();
    assert!(told[0] == 200 && told[1] >= 404, "{told:?}");
    // Revoked, and replaced.
    let made = invited(&t.admin, "three@example.com", &[]).await;
    let delete = "mutation ($id: ID!) { deleteInvite(id: $id) { id } }";
    t.admin.data(delete, json!({"id": made["id"]})).await;
    assert_eq!(accept(&t, made["token"].as_str().unwrap(), NEW).await.status, 404);
    let first = invited(&t.admin, "four@example.com", &[]).await;
    let second = invited(&t.admin, "four@example.com", &[]).await;
    assert_eq!(accept(&t, first["token"].as_str().unwrap(), NEW).await.status, 404);
    // Over.
    t.sql("UPDATE invites SET expires_at = created_at").await;
    assert_eq!(accept(&t, second["token"].as_str().unwrap(), NEW).await.status, 404);
    // Guessed. The right one waits, too, from where somebody guesses.
    let right = invited(&t.admin, "five@example.com", &[]).await["token"].as_str().unwrap().to_owned();
    let mut told = Vec::new();
    for n in 0..30 {
        let guess = format!("invite-{n:064x}");
        told.push(Browser::new(&t).submit("/auth/invite", &[("code", &guess)]).await.status);
    }
    assert!(told.iter().all(|status| [404, 503].contains(status)) && told.last() == Some(&503), "{told:?}");
    assert_eq!(accept(&t, &right, NEW).await.status, 503);
    t.stop().await;
}

async fn an_invitation_is_worth_no_more_than_who_made_it(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let promote = "mutation ($id: ID, $a: UserAttributes!) { updateUser(id: $id, attributes: $a) { id } }";
    let power = |admin: bool| json!({"id": t.owner.id, "a": {"roles": {"admin": admin}}});
    assert_eq!(t.owner.ask(INVITE, json!({"a": {"email": "x@example.com"}})).await.outcome(), "FORBIDDEN");
    t.admin.data(promote, power(true)).await;
    let code = invited(&t.owner, "grace@example.com", &[]).await["token"].as_str().unwrap().to_owned();
    let lost = invited(&t.owner, "lost@example.com", &[]).await["token"].as_str().unwrap().to_owned();
    // Who has no right to invite any more has invited nobody.
    t.admin.data(promote, power(false)).await;
    let page = accept(&t, &code, NEW).await;
    assert!(page.status == 403 && page.text.contains("administrator"), "{page:?}");
    t.admin.data(promote, power(true)).await;
    assert_eq!(accept(&t, &code, NEW).await.status, 200, "and has again");
    t.admin.data("mutation ($id: ID!) { suspendUser(id: $id) { id } }", json!({"id": t.owner.id})).await;
    assert_eq!(accept(&t, &lost, NEW).await.status, 403);

    // An address that has an account.
    let known = t.admin.ask(INVITE, json!({"a": {"email": "reader@example.com"}})).await;
    assert_eq!(known.outcome(), "CONFLICT", "{known:?}");
    let code = invited(&t.admin, "late@example.com", &[]).await["token"].as_str().unwrap().to_owned();
    t.admin.add_user("late@example.com").await;
    let page = accept(&t, &code, NEW).await;
    assert!(page.status == 409 && page.text.contains("there is an account"), "{page:?}");
    assert!(sign_in(&t, "late@example.com", PASSWORD).await && !sign_in(&t, "late@example.com", NEW).await);
    let unknown =
        json!({"a": {"email": "y@example.com", "groupIds": ["0190c8a0-0000-7000-8000-000000000000"]}});
    assert_eq!(t.admin.ask(INVITE, unknown).await.outcome(), "INVALID");
    // A token that was left behind invites nobody.
    let token = t.admin.data("mutation { createAccessToken { token } }", json!({})).await;
    let left = t.nobody.with_token(token["createAccessToken"]["token"].as_str().unwrap());
    let refused = left.ask(INVITE, json!({"a": {"email": "z@example.com"}})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    t.stop().await;
}

async fn a_forgotten_password_is_replaced_by_its_owner(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let own = t.admin.data("{ me { id } }", json!({})).await["me"]["id"].clone();
    assert_eq!(t.admin.ask(RESET, json!({"u": own})).await.outcome(), "CONFLICT");
    let token = t.reader.data("mutation { createAccessToken { token } }", json!({})).await;
    let program = t.nobody.with_token(token["createAccessToken"]["token"].as_str().unwrap());
    let made = t.admin.data(RESET, json!({"u": t.reader.id})).await["createPasswordReset"].clone();
    assert_eq!(made["user"]["email"], "reader@example.com");
    let code = made["token"].as_str().unwrap();
    // Nothing changes before it is used.
    assert!(sign_in(&t, "reader@example.com", PASSWORD).await);
    let page = Browser::new(&t).submit("/auth/invite", &[("code", code)]).await;
    assert!(page.status == 200 && page.text.contains("Choose another password"), "{page:?}");
    assert_eq!(accept(&t, code, NEW).await.status, 200);
    assert!(
        sign_in(&t, "reader@example.com", NEW).await && !sign_in(&t, "reader@example.com", PASSWORD).await
    );
    let over = t.reader.ask("{ me { id } }", json!({})).await;
    assert_eq!(over.status, 401, "sessions ended: {over:?}");
    assert_eq!(program.ask("{ me { id } }", json!({})).await.status, 401, "tokens, too");
    assert_eq!(accept(&t, code, PASSWORD).await.status, 404);

    let code = t.admin.data(RESET, json!({"u": t.stranger.id})).await["createPasswordReset"]["token"].clone();
    t.admin.data("mutation ($id: ID!) { suspendUser(id: $id) { id } }", json!({"id": t.stranger.id})).await;
    let page = accept(&t, code.as_str().unwrap(), NEW).await;
    assert!(page.status == 403 && page.text.contains("suspended"), "{page:?}");
    t.stop().await;
}
