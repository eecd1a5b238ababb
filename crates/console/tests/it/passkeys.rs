//! Passkeys: signing in with them on the console's pages, and what must not sign anybody in.

use plural_testkit::{
    FakeIssuer, PasskeyVisit, SoftAuthenticator, TestDatabase, browse_with_passkeys, each_database,
};
use serde_json::{Value, json};

use crate::{
    api_server::{Person, TestServer},
    second_factor::{decoded, enabled, shown},
    sso_browser::{Browser, Page, add_provider},
};

each_database!(
    a_passkey_signs_in_without_password_and_code,
    adding_one_needs_more_than_an_open_session,
    attack_25_an_answer_is_good_once_from_its_browser_and_origin,
    attack_25_a_passkey_opens_its_own_account_alone,
    a_passkey_that_may_be_copied_signs_nobody_in,
    nobody_loses_their_only_way_in,
    one_from_before_an_account_was_tied_to_a_provider_signs_nobody_in,
    a_code_of_a_fresh_session_stands_in_the_place_of_a_password,
);

/// The console as browsers know it.
const ORIGIN: &str = "https://console.example.com";
const PASSWORD: &str = "another long password";
const SESSION: &str = "__Host-plural-session";

async fn start(database: &TestDatabase) -> TestServer {
    TestServer::on_with(database, |config| config.public_url = Some(ORIGIN.to_owned())).await
}

/// Sends a form as one of the console's pages does.
async fn submit(browser: &mut Browser, path: &str, fields: &[(&str, &str)]) -> Page {
    browser.submit_from(&[("origin", ORIGIN)], path, fields).await
}

/// A browser in which somebody signed in with their password.
async fn signed_in(t: &TestServer, email: &str) -> Browser {
    let mut browser = Browser::new(t);
    let page = submit(&mut browser, "/auth/sign-in", &[("email", email), ("password", PASSWORD)]).await;
    assert_eq!(page.status, 303, "{page:?}");
    browser
}

async fn challenge(browser: &mut Browser, path: &str, fields: &[(&str, &str)]) -> Value {
    let page = submit(browser, path, fields).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.set().iter().any(|line| line.contains("HttpOnly") && line.contains("SameSite")), "{page:?}");
    serde_json::from_str(&page.text).unwrap()
}

/// Somebody who is signed in adds a passkey of this device.
async fn add(browser: &mut Browser, device: &mut SoftAuthenticator) {
    let options = challenge(browser, "/auth/passkeys/challenge", &[]).await;
    let answer = device.create(&options, ORIGIN);
    let page = submit(browser, "/auth/passkeys", &[("name", "blue"), ("answer", &answer)]).await;
    assert_eq!((page.status, page.location()), (303, "/auth/passkeys"), "{page:?}");
}

async fn ask(browser: &mut Browser) -> Value {
    challenge(browser, "/auth/sign-in/challenge", &[]).await
}

async fn answer(browser: &mut Browser, answer: &str) -> Page {
    submit(browser, "/auth/sign-in/passkey", &[("answer", answer)]).await
}

/// Signs in with a passkey, in a browser of its own.
async fn sign_in(t: &TestServer, device: &mut SoftAuthenticator) -> (Browser, Page) {
    let mut browser = Browser::new(t);
    let options = ask(&mut browser).await;
    let page = answer(&mut browser, &device.get(&options, ORIGIN)).await;
    (browser, page)
}

fn is_refused(browser: &Browser, page: &Page) -> bool {
    page.status == 401 && page.text.contains("signs nobody in") && !browser.cookies.contains_key(SESSION)
}

async fn passkeys_of(person: &Person) -> Vec<Value> {
    let list = "{ passkeys { id name lastUsedAt insertedAt user { email } } }";
    person.data(list, json!({})).await["passkeys"].as_array().unwrap().clone()
}

async fn actions(t: &TestServer) -> Vec<String> {
    let lines = t.admin.data("{ audits(first: 100) { edges { node { action } } } }", json!({})).await;
    let lines = lines["audits"]["edges"].as_array().unwrap().clone();
    lines.iter().map(|line| line["node"]["action"].as_str().unwrap().to_owned()).collect()
}

async fn a_passkey_signs_in_without_password_and_code(database: TestDatabase) {
    let t = start(&database).await;
    let page = Browser::new(&t).get("/auth/sign-in").await;
    assert!(page.text.contains("Sign in with a passkey"), "{page:?}");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    let script = Browser::new(&t).get("/auth/passkeys.js").await;
    assert!(script.headers["content-type"].to_str().unwrap().starts_with("text/javascript"), "{script:?}");

    let mut browser = signed_in(&t, "reader@example.com").await;
    let mut device = SoftAuthenticator::new(1);
    add(&mut browser, &mut device).await;
    // From now on a code is asked for with the password; the passkey is both.
    enabled(&t.reader).await;
    let (mut other, page) = sign_in(&t, &mut device).await;
    assert_eq!((page.status, page.location()), (303, "/"), "{page:?}");
    assert!(page.set().iter().any(|line| line.starts_with(SESSION) && line.contains("HttpOnly")), "{page:?}");
    let account = other.get("/auth/account").await;
    assert!(account.text.contains("reader@example.com"), "{account:?}");
    let listed = other.get("/auth/passkeys").await;
    assert!(listed.text.contains("blue") && listed.text.contains("last used 20"), "{listed:?}");

    let mine = passkeys_of(&t.reader).await;
    assert!(mine.len() == 1 && mine[0]["lastUsedAt"].is_string(), "{mine:?}");
    assert_eq!(mine[0]["user"]["email"], "reader@example.com");
    let id = mine[0]["id"].as_str().unwrap().to_owned();
    let rename = "mutation ($id: ID!) { updatePasskey(id: $id, attributes: {name: \"green\"}) { name } }";
    let renamed = t.reader.data(rename, json!({"id": id})).await;
    assert_eq!(renamed["updatePasskey"]["name"], "green");

    // Somebody else's page cannot remove it, nor can a form from elsewhere.
    let mut stranger = signed_in(&t, "stranger@example.com").await;
    assert_eq!(submit(&mut stranger, "/auth/passkeys/delete", &[("id", &id)]).await.status, 404);
    let forged = [("origin", "https://evil.test")];
    assert_eq!(other.submit_from(&forged, "/auth/passkeys/delete", &[("id", &id)]).await.status, 403);
    assert_eq!(submit(&mut other, "/auth/passkeys/delete", &[("id", &id)]).await.status, 303);
    assert!(passkeys_of(&t.reader).await.is_empty());
    let (removed, page) = sign_in(&t, &mut device).await;
    assert!(is_refused(&removed, &page), "{page:?}");
    let told = actions(&t).await;
    for action in ["passkey.create", "passkey.use", "passkey.update", "passkey.delete", "session.create"] {
        assert!(told.iter().any(|told| told == action), "{action}: {told:?}");
    }
    t.stop().await;
}

async fn adding_one_needs_more_than_an_open_session(database: TestDatabase) {
    let t = start(&database).await;
    let mut nobody = Browser::new(&t);
    assert_eq!(submit(&mut nobody, "/auth/passkeys/challenge", &[]).await.status, 401);
    // A token that somebody left behind, in a cookie: it was never a login.
    let token = t.reader.data("mutation { createAccessToken { token } }", json!({})).await;
    let mut left = Browser::new(&t);
    left.cookies.insert(SESSION.into(), token["createAccessToken"]["token"].as_str().unwrap().into());
    let page = submit(&mut left, "/auth/passkeys/challenge", &[]).await;
    assert!(page.status == 403 && page.text.contains("current password"), "{page:?}");
    let wrong = [("password", "not the password")];
    assert_eq!(submit(&mut left, "/auth/passkeys/challenge", &wrong).await.status, 422);
    challenge(&mut left, "/auth/passkeys/challenge", &[("password", PASSWORD)]).await;
    // Beside a second factor the password is not enough.
    let (secret, _) = enabled(&t.reader).await;
    let page = submit(&mut left, "/auth/passkeys/challenge", &[("password", PASSWORD)]).await;
    assert!(page.status == 403 && page.text.contains("authenticator app"), "{page:?}");
    let both = [("password", PASSWORD), ("code", &shown(&secret, 0))];
    let options = challenge(&mut left, "/auth/passkeys/challenge", &both).await;
    // And it is that session's challenge: another one of the same person does not answer it.
    let mut device = SoftAuthenticator::new(2);
    let answer = device.create(&options, ORIGIN);
    let mut other = Browser::new(&t);
    other.cookies.clone_from(&left.cookies);
    let token = t.reader.data("mutation { createAccessToken { token } }", json!({})).await;
    other.cookies.insert(SESSION.into(), token["createAccessToken"]["token"].as_str().unwrap().into());
    let form = [("name", "x"), ("answer", answer.as_str())];
    assert_eq!(submit(&mut other, "/auth/passkeys", &form).await.status, 401);
    assert_eq!(submit(&mut left, "/auth/passkeys", &form).await.status, 303);
    assert_eq!(passkeys_of(&t.reader).await.len(), 1);
    t.stop().await;
}

async fn attack_25_an_answer_is_good_once_from_its_browser_and_origin(database: TestDatabase) {
    let t = start(&database).await;
    let mut device = SoftAuthenticator::new(3);
    add(&mut signed_in(&t, "reader@example.com").await, &mut device).await;

    // The same answer again, with the cookie that the console took away.
    let mut browser = Browser::new(&t);
    let options = ask(&mut browser).await;
    let kept = browser.cookies.clone();
    let said = device.get(&options, ORIGIN);
    // Not from another browser, which asked for itself.
    let mut other = Browser::new(&t);
    ask(&mut other).await;
    let page = answer(&mut other, &said).await;
    assert!(is_refused(&other, &page), "another browser: {page:?}");
    let page = answer(&mut Browser::new(&t), &said).await;
    assert_eq!(page.status, 401, "a browser that did not ask: {page:?}");
    assert_eq!(answer(&mut browser, &said).await.status, 303);
    let mut again = Browser::new(&t);
    again.cookies = kept;
    let page = answer(&mut again, &said).await;
    assert!(is_refused(&again, &page), "used before: {page:?}");

    // Said to another site, or without looking at the person.
    for wrong in ["https://evil.test", "http://console.example.com", "https://console.example.com:444"] {
        let mut browser = Browser::new(&t);
        let options = ask(&mut browser).await;
        let page = answer(&mut browser, &device.get(&options, wrong)).await;
        assert!(is_refused(&browser, &page), "{wrong}: {page:?}");
    }
    device.is_verified = false;
    let (browser, page) = sign_in(&t, &mut device).await;
    assert!(is_refused(&browser, &page), "nobody was verified: {page:?}");
    device.is_verified = true;
    // Another site's page cannot send it for the browser either.
    let mut browser = Browser::new(&t);
    let options = ask(&mut browser).await;
    let said = device.get(&options, ORIGIN);
    let foreign = [("origin", "https://evil.test")];
    let forged = browser.submit_from(&foreign, "/auth/sign-in/passkey", &[("answer", &said)]).await;
    assert_eq!(forged.status, 403);
    for nonsense in ["", "{}", "[]", "\u{0}", &"x".repeat(7000)] {
        let mut browser = Browser::new(&t);
        ask(&mut browser).await;
        let page = answer(&mut browser, nonsense).await;
        assert!(is_refused(&browser, &page), "{nonsense:.20}: {page:?}");
    }
    t.stop().await;
}

async fn attack_25_a_passkey_opens_its_own_account_alone(database: TestDatabase) {
    let t = start(&database).await;
    let (mut readers, mut strangers) = (SoftAuthenticator::new(4), SoftAuthenticator::new(5));
    add(&mut signed_in(&t, "reader@example.com").await, &mut readers).await;
    let mut stranger = signed_in(&t, "stranger@example.com").await;
    add(&mut stranger, &mut strangers).await;
    strangers.claims = Some(readers.user().to_owned());
    let (browser, page) = sign_in(&t, &mut strangers).await;
    assert!(is_refused(&browser, &page), "{page:?}");
    strangers.claims = None;
    let (mut browser, page) = sign_in(&t, &mut strangers).await;
    assert_eq!(page.status, 303, "{page:?}");
    assert!(browser.get("/auth/account").await.text.contains("stranger@example.com"));

    // A passkey that somebody has is nobody else's.
    let mut copied = SoftAuthenticator::new(4);
    let options = challenge(&mut stranger, "/auth/passkeys/challenge", &[]).await;
    let answer = copied.create(&options, ORIGIN);
    let page = submit(&mut stranger, "/auth/passkeys", &[("name", "x"), ("answer", &answer)]).await;
    assert!(page.status == 409 && page.text.contains("known already"), "{page:?}");

    let suspend = "mutation ($id: ID!) { suspendUser(id: $id) { id } }";
    t.admin.data(suspend, json!({"id": t.reader.id})).await;
    let (browser, page) = sign_in(&t, &mut readers).await;
    assert!(is_refused(&browser, &page), "suspended: {page:?}");
    let resume = "mutation ($id: ID!) { resumeUser(id: $id) { id } }";
    t.admin.data(resume, json!({"id": t.reader.id})).await;
    let (_, page) = sign_in(&t, &mut readers).await;
    assert_eq!(page.status, 303, "{page:?}");

    // An administrator removes one whose device is lost.
    let list = "query ($u: ID) { passkeys(userId: $u) { id } }";
    let found = t.admin.data(list, json!({"u": t.reader.id})).await;
    let id = found["passkeys"][0]["id"].clone();
    let delete = "mutation ($id: ID!) { deletePasskey(id: $id) { id } }";
    assert_eq!(t.stranger.ask(delete, json!({"id": id})).await.outcome(), "NOT_FOUND");
    t.admin.data(delete, json!({"id": id})).await;
    let (browser, page) = sign_in(&t, &mut readers).await;
    assert!(is_refused(&browser, &page), "revoked: {page:?}");
    t.stop().await;
}

async fn a_passkey_that_may_be_copied_signs_nobody_in(database: TestDatabase) {
    let t = start(&database).await;
    let mut device = SoftAuthenticator::new(6);
    add(&mut signed_in(&t, "reader@example.com").await, &mut device).await;
    assert_eq!(sign_in(&t, &mut device).await.1.status, 303);
    let mut copy = device.clone();
    assert_eq!(sign_in(&t, &mut device).await.1.status, 303);
    let (browser, page) = sign_in(&t, &mut copy).await;
    assert!(is_refused(&browser, &page), "{page:?}");
    assert!(actions(&t).await.iter().any(|action| action == "passkey.copied"), "somebody should look at it");
    // The true one goes on.
    assert_eq!(sign_in(&t, &mut device).await.1.status, 303);
    t.stop().await;
}

async fn nobody_loses_their_only_way_in(database: TestDatabase) {
    let t = start(&database).await;
    let invite = "mutation ($a: InviteAttributes!) { createInvite(attributes: $a) { token page } }";
    let made =
        t.admin.data(invite, json!({"a": {"email": "grace@example.com"}})).await["createInvite"].clone();
    assert_eq!(made["page"], format!("{ORIGIN}/auth/invite"));
    let code = made["token"].as_str().unwrap();
    let mut browser = Browser::new(&t);
    let page = submit(&mut browser, "/auth/invite", &[("code", code)]).await;
    assert!(page.status == 200 && page.text.contains("grace@example.com"), "{page:?}");
    let mut device = SoftAuthenticator::new(7);
    let options = challenge(&mut browser, "/auth/invite/challenge", &[("code", code)]).await;
    let answer = device.create(&options, ORIGIN);
    let form = [("code", code), ("name", "Grace"), ("answer", answer.as_str())];
    let page = submit(&mut browser, "/auth/invite/accept", &form).await;
    assert!(page.status == 200 && page.text.contains("You can sign in as"), "{page:?}");
    assert_eq!(submit(&mut browser, "/auth/invite/accept", &form).await.status, 404, "it was used");

    let (mut browser, page) = sign_in(&t, &mut device).await;
    assert_eq!(page.status, 303, "{page:?}");
    let token = browser.cookies[SESSION].clone();
    let grace = t.nobody.with_token(&token);
    let id = passkeys_of(&grace).await[0]["id"].as_str().unwrap().to_owned();
    let page = submit(&mut browser, "/auth/passkeys/delete", &[("id", &id)]).await;
    assert!(page.status == 409 && page.text.contains("only way"), "{page:?}");
    // Of two, one may go.
    let mut second = SoftAuthenticator::new(8);
    add(&mut browser, &mut second).await;
    assert_eq!(submit(&mut browser, "/auth/passkeys/delete", &[("id", &id)]).await.status, 303);
    assert_eq!(sign_in(&t, &mut second).await.1.status, 303);
    t.stop().await;
}

/// Else it outlasts what the provider says of its owner.
async fn one_from_before_an_account_was_tied_to_a_provider_signs_nobody_in(database: TestDatabase) {
    let (t, issuer) = (start(&database).await, FakeIssuer::start().unwrap());
    let mut device = SoftAuthenticator::new(1);
    add(&mut signed_in(&t, "reader@example.com").await, &mut device).await;
    add_provider(&t, &issuer, "acme", json!({})).await;
    let tie = "INSERT INTO user_identities (id, provider_id, subject, user_id, checked_at, tried_at, created_at)
        SELECT users.id, identity_providers.id, 'ada', users.id, users.created_at, users.created_at, users.created_at
        FROM users, identity_providers WHERE users.email = 'reader@example.com'";
    t.sql(tie).await;
    // Beside a password it is one more way in that the console itself gave.
    assert_eq!(sign_in(&t, &mut device).await.1.status, 303);
    t.sql("UPDATE users SET password_hash = NULL WHERE email = 'reader@example.com'").await;
    let (browser, page) = sign_in(&t, &mut device).await;
    assert!(page.status == 403 && page.text.contains("sign in with an identity provider"), "{page:?}");
    assert!(!browser.cookies.contains_key(SESSION), "{page:?}");
    t.stop().await;
}

async fn a_code_of_a_fresh_session_stands_in_the_place_of_a_password(database: TestDatabase) {
    let t = start(&database).await;
    let mut browser = signed_in(&t, "reader@example.com").await;
    let code = async |browser: &mut Browser| {
        let page = submit(browser, "/auth/confirm", &[]).await;
        assert_eq!(page.status, 200, "{page:?}");
        let from = page.text.find("confirm-").unwrap();
        page.text[from..].split('<').next().unwrap().to_owned()
    };
    let token = t.reader.data("mutation { createAccessToken { token } }", json!({})).await;
    let token = token["createAccessToken"]["token"].as_str().unwrap().to_owned();
    let old = t.nobody.with_token(&token);
    let create = "mutation ($p: String) { createAccessToken(currentPassword: $p) { token } }";
    assert_eq!(old.ask(create, json!({})).await.outcome(), "FORBIDDEN");
    let shown = code(&mut browser).await;
    assert_eq!(old.ask(create, json!({"p": shown})).await.outcome(), "OK");
    assert_eq!(old.ask(create, json!({"p": shown})).await.outcome(), "INVALID", "it was used");
    // It is nobody else's, a later one takes its place, and it ends with its session.
    let shown = code(&mut browser).await;
    let strangers = t.stranger.data("mutation { createAccessToken { token } }", json!({})).await;
    let stranger = t.nobody.with_token(strangers["createAccessToken"]["token"].as_str().unwrap());
    assert_eq!(stranger.ask(create, json!({"p": shown})).await.outcome(), "INVALID");
    let later = code(&mut browser).await;
    assert_eq!(old.ask(create, json!({"p": shown})).await.outcome(), "INVALID");
    assert_eq!(submit(&mut browser, "/auth/sign-out", &[]).await.status, 200);
    assert_eq!(old.ask(create, json!({"p": later})).await.outcome(), "INVALID");
    // Who holds a token is shown none.
    let mut left = Browser::new(&t);
    left.cookies.insert(SESSION.into(), token);
    let page = submit(&mut left, "/auth/confirm", &[]).await;
    assert!(page.status == 403 && page.text.contains("Sign in again"), "{page:?}");
    t.stop().await;
}

/// One backend is enough: what the database has to do with it is tested above on both; this is about browsers.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_browser_signs_in_with_a_passkey_and_with_a_code() {
    let t = TestServer::with(|config| config.public_url = Some("http://localhost".to_owned())).await;
    let (secret, _) = enabled(&t.reader).await;
    let invite = "mutation ($a: InviteAttributes!) { createInvite(attributes: $a) { token page } }";
    let made =
        t.admin.data(invite, json!({"a": {"email": "grace@example.com"}})).await["createInvite"].clone();
    let link = format!("{}#{}", made["page"].as_str().unwrap(), made["token"].as_str().unwrap());
    let address = t.console.url.strip_prefix("http://").unwrap().parse().unwrap();
    let secret = decoded(&secret);
    let seen = tokio::task::spawn_blocking(move || {
        browse_with_passkeys(&PasskeyVisit {
            address,
            email: "reader@example.com",
            password: PASSWORD,
            secret: &secret,
            link: &link,
        })
    });
    let Some(seen) = seen.await.unwrap().unwrap() else { return t.stop().await };
    let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
    for name in ["with_code", "with_passkey", "without_scripts"] {
        assert!(text(name).contains("You are signed in as reader@example.com"), "{name}: {seen}");
    }
    assert!(text("listed").contains("test key") && text("listed").contains("never used"), "{seen}");
    assert!(text("twice").contains("has a passkey of this account already"), "{seen}");
    let expected = json!([{"isResidentCredential": true, "rpId": "localhost", "signCount": 1}]);
    assert_eq!(seen["credentials"], expected, "{seen}");
    assert!(text("unverified").contains("No passkey was used"), "{seen}");
    assert!(text("removed").contains("signs nobody in"), "{seen}");
    assert!(text("invited").contains("grace@example.com"), "{seen}");
    assert_eq!(seen["told"], json!([]), "the code of an invitation in an address that was asked for: {seen}");
    assert_eq!(seen["hidden"], true, "without scripts there is no passkey to use: {seen}");
    let cookies = seen["cookies"].as_array().unwrap();
    assert!(cookies.iter().all(|cookie| cookie["httpOnly"] == true && cookie["sameSite"] == "Lax"), "{seen}");
    assert_eq!(seen["problems"], json!([]), "{seen}");
    t.stop().await;
}
