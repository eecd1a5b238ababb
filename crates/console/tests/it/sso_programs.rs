//! Logins of programs that a person allows on a page: `plural login`.

use plural_testkit::{FakeIssuer, TestDatabase, each_database};
use serde_json::{Value, json};

use crate::{
    api_server::{Answer, Person, TestServer},
    sso_browser::{Browser, add_provider},
};

each_database!(
    a_program_signs_in_when_somebody_allows_it,
    attack_23_a_code_is_good_once_and_for_whom_it_was_made,
    attack_25_codes_are_not_guessed,
    a_program_that_asks_too_often_is_told_to_wait,
    what_a_session_allows_ends_with_it_unless_it_is_fresh,
);

const ME: &str = "{ me { email } }";
const FORM: &str = "application/x-www-form-urlencoded";

impl Person {
    /// A program asks for a login.
    pub(crate) async fn begin_program(&self, name: &str) -> Value {
        let answer =
            self.post("/auth/device/code", FORM, format!("client_id={}", name.replace(' ', "+"))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// And whether it was allowed.
    pub(crate) async fn fetch_program(&self, device: &str) -> Answer {
        let body = format!("grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code={device}");
        self.post("/auth/token", FORM, body).await
    }
}

pub(crate) async fn signed_in(t: &TestServer, name: &str) -> Browser {
    let mut browser = Browser::new(t);
    let email = format!("{name}@example.com");
    let fields = [("email", email.as_str()), ("password", "another long password")];
    assert_eq!(browser.submit("/auth/sign-in", &fields).await.status, 303);
    browser
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name}: {value}"))
}

async fn a_program_signs_in_when_somebody_allows_it(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let providers = Answer::of(t.nobody.http().get(t.url("/auth/providers")).send().await.unwrap()).await;
    assert_eq!(providers.body, json!({"providers": []}));
    add_provider(&t, &issuer, "acme", json!({})).await;
    let providers = Answer::of(t.nobody.http().get(t.url("/auth/providers")).send().await.unwrap()).await;
    assert_eq!(providers.body, json!({"providers": ["acme"]}));

    let login = t.nobody.begin_program("plural on <b>a</b> laptop").await;
    let (code, device) = (text(&login, "user_code"), text(&login, "device_code"));
    assert_eq!((code.len(), &login["expires_in"]), (9, &json!(600)), "{login}");
    assert_eq!(t.nobody.fetch_program(device).await.body["error"], "authorization_pending");
    // Somebody who is not signed in does that first, with the provider, and comes back to the code.
    let mut browser = Browser::new(&t);
    let page = browser.get(text(&login, "verification_uri_complete")).await;
    assert_eq!(page.status, 303);
    let sign_in = browser.get(page.location()).await;
    let query = page.location().split_once('?').unwrap().1.to_owned();
    assert!(sign_in.text.contains(&format!("/auth/login/acme?{query}")), "{sign_in:?}");
    let sent = browser.get(&format!("/auth/login/acme?{query}")).await;
    let answered = browser.get(sent.location()).await;
    let back = browser.get(answered.location()).await;
    assert_eq!(back.location(), format!("/auth/device?user_code={code}"), "{back:?}");
    let page = browser.get(back.location()).await;
    for part in [code, "plural on &lt;b&gt;a&lt;/b&gt; laptop", "127.0.0.1", "ada@example.com", "30 days"] {
        assert!(page.text.contains(part), "{part}: {page:?}");
    }
    // Even a complete address allows nothing by itself; how often it is asked is for another test to say.
    let waits = t.nobody.fetch_program(device).await;
    assert!(["authorization_pending", "slow_down"].contains(&text(&waits.body, "error")), "{waits:?}");
    let typed = code.to_lowercase().replace('-', "");
    let done = browser.submit("/auth/device", &[("user_code", &typed), ("decision", "allow")]).await;
    assert!(done.status == 200 && done.text.contains("may sign in"), "{done:?}");
    let fetched = t.nobody.fetch_program(device).await;
    let program = t.nobody.with_token(text(&fetched.body, "access_token"));
    assert_eq!(program.data(ME, json!({})).await["me"]["email"], "ada@example.com");
    let listed = program.data("{ accessTokens { edges { node { session } } } }", json!({})).await;
    assert_eq!(listed["accessTokens"]["edges"].as_array().unwrap().len(), 2, "{listed}");
    t.stop().await;
}

async fn attack_23_a_code_is_good_once_and_for_whom_it_was_made(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let login = t.nobody.begin_program("a program").await;
    let (code, device) = (text(&login, "user_code"), text(&login, "device_code"));
    let mut reader = signed_in(&t, "reader").await;
    let fields = [("user_code", code), ("decision", "allow")];
    // Another site cannot click; nor does a page by itself.
    for headers in [&[][..], &[("origin", "https://evil.test")]] {
        assert_eq!(reader.submit_from(headers, "/auth/device", &fields).await.status, 403);
    }
    let neither = reader.submit("/auth/device", &[("user_code", code)]).await;
    assert_eq!(neither.status, 400);
    assert_ne!(t.nobody.fetch_program(device).await.status, 200);
    assert_eq!(reader.submit("/auth/device", &fields).await.status, 200);
    // Nobody else allows it again, and the code says nothing any more.
    let mut owner = signed_in(&t, "owner").await;
    assert_eq!(owner.submit("/auth/device", &fields).await.status, 404);
    assert_eq!(owner.get(&format!("/auth/device?user_code={code}")).await.status, 404);
    // The person's code is not the program's secret.
    assert_eq!(t.nobody.fetch_program(code).await.body["error"], "expired_token");
    let fetched = t.nobody.fetch_program(device).await;
    let program = t.nobody.with_token(text(&fetched.body, "access_token"));
    assert_eq!(program.data(ME, json!({})).await["me"]["email"], "reader@example.com");
    assert_eq!(t.nobody.fetch_program(device).await.body["error"], "expired_token", "told once");

    // Refused is refused.
    let login = t.nobody.begin_program("a program").await;
    let (code, device) = (text(&login, "user_code"), text(&login, "device_code"));
    assert_eq!(
        reader.submit("/auth/device", &[("user_code", code), ("decision", "refuse")]).await.status,
        200
    );
    assert_eq!(t.nobody.fetch_program(device).await.body["error"], "expired_token");
    // Ten minutes are ten minutes, allowed or not.
    let login = t.nobody.begin_program("a program").await;
    let (code, device) = (text(&login, "user_code"), text(&login, "device_code"));
    assert_eq!(
        reader.submit("/auth/device", &[("user_code", code), ("decision", "allow")]).await.status,
        200
    );
    t.sql("UPDATE program_logins SET expires_at = '2001-01-01T00:00:00+00:00'").await;
    assert_eq!(t.nobody.fetch_program(device).await.body["error"], "expired_token");
    for (kind, body) in [(FORM, "grant_type=password&device_code=x"), (FORM, ""), ("application/json", "{}")]
    {
        let refused = t.nobody.post("/auth/token", kind, body.to_owned()).await;
        assert!([400, 415].contains(&refused.status), "{refused:?}");
    }
    for name in ["", "%0a", &"x".repeat(81)] {
        let refused = t.nobody.post("/auth/device/code", FORM, format!("client_id={name}")).await;
        assert_eq!(refused.status, 422, "{name}");
    }
    t.stop().await;
}

async fn attack_25_codes_are_not_guessed(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let mut stranger = signed_in(&t, "stranger").await;
    let mut statuses = Vec::new();
    for guess in ["BCDF-GHJK", "BCDF-GHJL", "BCDF-GHJM", "BCDF-GHJN", "BCDF-GHJP", "BCDF-GHJQ", "BCDF-GHJR"] {
        statuses.push(stranger.get(&format!("/auth/device?user_code={guess}")).await.status);
    }
    assert_eq!(statuses, [404, 404, 404, 404, 404, 503, 503], "they wait longer and longer");
    // Nobody else does, and the guesser still signs in.
    let login = t.nobody.begin_program("a program").await;
    let mut reader = signed_in(&t, "reader").await;
    let path = format!("/auth/device?user_code={}", text(&login, "user_code"));
    assert_eq!(reader.get(&path).await.status, 200);
    signed_in(&t, "stranger").await;
    // Nor does anybody fill the table.
    let mut refused = None;
    for _ in 0..30 {
        let answer = t.nobody.post("/auth/device/code", FORM, "client_id=x".to_owned()).await;
        if answer.status != 200 {
            refused = Some(answer.status);
            break;
        }
    }
    assert_eq!(refused, Some(503));
    t.stop().await;
}

async fn a_program_that_asks_too_often_is_told_to_wait(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let login = t.nobody.begin_program("a program").await;
    let (code, device) = (text(&login, "user_code"), text(&login, "device_code"));
    assert_eq!(login["interval"], 2);
    // On a machine that stands still for seconds at a time, some of many questions still come early.
    let mut told = Vec::new();
    for _ in 0..20 {
        told.push(text(&t.nobody.fetch_program(device).await.body, "error").to_owned());
    }
    assert_eq!(told[0], "authorization_pending");
    assert!(told.contains(&"slow_down".to_owned()), "{told:?}");
    // Who is allowed need not wait.
    let mut reader = signed_in(&t, "reader").await;
    reader.submit("/auth/device", &[("user_code", code), ("decision", "allow")]).await;
    assert_eq!(t.nobody.fetch_program(device).await.status, 200);
    t.stop().await;
}

async fn what_a_session_allows_ends_with_it_unless_it_is_fresh(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let mut reader = signed_in(&t, "reader").await;
    // Whoever finds an old session open gets nothing that outlasts it.
    t.sql("UPDATE access_tokens SET created_at = '2001-01-01T00:00:00+00:00'").await;
    let login = t.nobody.begin_program("a program").await;
    let (code, device) = (text(&login, "user_code"), text(&login, "device_code"));
    let page = reader.get(&format!("/auth/device?user_code={code}")).await;
    assert!(page.text.contains("until your session ends"), "{page:?}");
    reader.submit("/auth/device", &[("user_code", code), ("decision", "allow")]).await;
    let fetched = t.nobody.fetch_program(device).await;
    let program = t.nobody.with_token(text(&fetched.body, "access_token"));
    assert_eq!(program.ask(ME, json!({})).await.status, 200);
    reader.submit("/auth/sign-out", &[]).await;
    assert_eq!(program.ask(ME, json!({})).await.status, 401);
    // A fresh one allows what lasts.
    let mut reader = signed_in(&t, "reader").await;
    let login = t.nobody.begin_program("a program").await;
    let (code, device) = (text(&login, "user_code"), text(&login, "device_code"));
    reader.submit("/auth/device", &[("user_code", code), ("decision", "allow")]).await;
    let fetched = t.nobody.fetch_program(device).await;
    let program = t.nobody.with_token(text(&fetched.body, "access_token"));
    reader.submit("/auth/sign-out", &[]).await;
    assert_eq!(program.ask(ME, json!({})).await.status, 200);
    // One that was revoked before it was fetched gives nothing.
    let mut reader = signed_in(&t, "reader").await;
    let login = t.nobody.begin_program("a program").await;
    let (code, device) = (text(&login, "user_code"), text(&login, "device_code"));
    reader.submit("/auth/device", &[("user_code", code), ("decision", "allow")]).await;
    reader.submit("/auth/sign-out", &[]).await;
    assert_eq!(t.nobody.fetch_program(device).await.body["error"], "expired_token");
    t.stop().await;
}
