//! Logins of programs that listen on the machine of whoever allows them: RFC 8252, with RFC 7636.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use plural_testkit::{TestDatabase, each_database};
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    api_server::{Answer, TestServer},
    sso_browser::{Browser, Page},
    sso_programs::signed_in,
};

each_database!(
    a_program_that_listens_is_brought_its_grant,
    attack_23_a_grant_is_good_once_and_for_the_program_that_asked,
);

const FORM: &str = "application/x-www-form-urlencoded";
const REDIRECT: &str = "http://127.0.0.1:40123/callback";
const STATE: &str = "0123456789abcdef";
const VERIFIER: &str = "a-verifier-that-nobody-else-has-and-nobody-guesses";

fn form(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form/").unwrap();
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// A program begins; `changes` go over what it says.
async fn begin(t: &TestServer, changes: &[(&str, &str)]) -> Answer {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    let mut fields = vec![
        ("client_id", "plural on a laptop"),
        ("redirect_uri", REDIRECT),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", STATE),
    ];
    for (name, value) in changes {
        fields.retain(|(field, _)| field != name);
        fields.push((*name, *value));
    }
    t.nobody.post("/auth/device/code", FORM, form(&fields)).await
}

async fn redeem(t: &TestServer, grant: &str, verifier: &str, redirect: &str) -> Answer {
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", grant),
        ("code_verifier", verifier),
        ("redirect_uri", redirect),
    ];
    t.nobody.post("/auth/token", FORM, form(&fields)).await
}

/// Somebody decides about a login, and what the browser brings the program.
async fn decided(browser: &mut Browser, login: &Value, decision: &str) -> (Page, Vec<(String, String)>) {
    let code = login["user_code"].as_str().unwrap();
    let page = browser.submit("/auth/device", &[("user_code", code), ("decision", decision)]).await;
    let Ok(to) = Url::parse(page.location()) else { return (page, Vec::new()) };
    let brought = to.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    (page, brought)
}

async fn grant(t: &TestServer, browser: &mut Browser) -> (Value, String) {
    let login = begin(t, &[]).await.body;
    let (page, brought) = decided(browser, &login, "allow").await;
    assert!(page.status == 303 && page.location().starts_with(&format!("{REDIRECT}?")), "{page:?}");
    assert_eq!(brought[1], ("state".to_owned(), STATE.to_owned()));
    assert_eq!(brought[0].0, "code");
    (login, brought[0].1.clone())
}

async fn a_program_that_listens_is_brought_its_grant(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let mut reader = signed_in(&t, "reader").await;
    let login = begin(&t, &[]).await.body;
    assert_eq!(login["redirect_uri"], REDIRECT, "{login}");
    let place = format!("/auth/device?user_code={}", login["user_code"].as_str().unwrap());
    let page = reader.get(&place).await;
    for part in ["plural on a laptop", "127.0.0.1", "reader@example.com", "on this computer", "30 days"] {
        assert!(page.text.contains(part), "{part}: {page:?}");
    }
    // The form may send the browser there, and the page of a login by a code nowhere.
    let policy = |page: &Page| page.headers["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy(&page).contains("form-action 'self' http://127.0.0.1:40123;"), "{page:?}");
    let by_code = t.nobody.begin_program("another").await;
    assert_eq!(by_code["redirect_uri"], Value::Null);
    let other = format!("/auth/device?user_code={}", by_code["user_code"].as_str().unwrap());
    assert!(policy(&reader.get(&other).await).contains("form-action 'self';"));

    let (_, brought) = decided(&mut reader, &login, "allow").await;
    let fetched = redeem(&t, &brought[0].1, VERIFIER, REDIRECT).await;
    let program = t.nobody.with_token(fetched.body["access_token"].as_str().unwrap());
    let me = program.data("{ me { email } }", json!({})).await;
    assert_eq!(me["me"]["email"], "reader@example.com");
    // One that was refused hears of it at once.
    let login = begin(&t, &[]).await.body;
    let (page, brought) = decided(&mut reader, &login, "refuse").await;
    assert_eq!(page.status, 303, "{page:?}");
    let refused = [("error", "access_denied"), ("state", STATE)];
    assert_eq!(brought, refused.map(|(name, value)| (name.to_owned(), value.to_owned())));
    t.stop().await;
}

async fn attack_23_a_grant_is_good_once_and_for_the_program_that_asked(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let mut reader = signed_in(&t, "reader").await;
    // Twice.
    let (login, code) = grant(&t, &mut reader).await;
    assert_eq!(redeem(&t, &code, VERIFIER, REDIRECT).await.status, 200);
    let again = redeem(&t, &code, VERIFIER, REDIRECT).await;
    assert_eq!((again.status, &again.body["error"]), (400, &json!("invalid_grant")));
    // By whoever began it for somebody else to allow, and waits for it elsewhere.
    let device = login["device_code"].as_str().unwrap();
    assert_eq!(t.nobody.fetch_program(device).await.body["error"], "expired_token");
    let (login, code) = grant(&t, &mut reader).await;
    let device = login["device_code"].as_str().unwrap();
    assert_eq!(t.nobody.fetch_program(device).await.body["error"], "expired_token");
    // By whoever saw the address in the browser, who has not the verifier: that ends it for everybody.
    assert_eq!(redeem(&t, &code, "another verifier", REDIRECT).await.body["error"], "invalid_grant");
    assert_eq!(redeem(&t, &code, VERIFIER, REDIRECT).await.body["error"], "invalid_grant");
    for (verifier, redirect) in
        [(VERIFIER, "http://127.0.0.1:40124/callback"), (VERIFIER, ""), ("", REDIRECT)]
    {
        let (_, code) = grant(&t, &mut reader).await;
        assert_eq!(
            redeem(&t, &code, verifier, redirect).await.body["error"],
            "invalid_grant",
            "{verifier} {redirect}"
        );
    }
    // Nothing but a grant is one.
    let login = begin(&t, &[]).await.body;
    for not in
        [login["user_code"].as_str().unwrap(), login["device_code"].as_str().unwrap(), "", &"x".repeat(1000)]
    {
        assert_eq!(redeem(&t, not, VERIFIER, REDIRECT).await.body["error"], "invalid_grant", "{not}");
    }
    // Nor after the session that allowed it ended.
    let (_, code) = grant(&t, &mut reader).await;
    reader.submit("/auth/sign-out", &[]).await;
    assert_eq!(redeem(&t, &code, VERIFIER, REDIRECT).await.body["error"], "invalid_grant");
    // A browser is sent to the machine that it is on, and nowhere else.
    for change in [
        ("redirect_uri", "https://evil.test/"),
        ("redirect_uri", "http://evil.test/"),
        ("redirect_uri", "http://127.0.0.1:40123@evil.test/"),
        ("redirect_uri", "http://127.0.0.1.evil.test:80/"),
        ("redirect_uri", "http://127.0.0.1:40123/?a=b"),
        ("redirect_uri", "http://127.0.0.1:40123/\r\nx: y"),
        ("redirect_uri", "plural://callback"),
        ("code_challenge_method", "plain"),
        ("code_challenge", VERIFIER),
        ("state", ""),
    ] {
        let answer = begin(&t, &[change]).await;
        assert_eq!(answer.status, 422, "{change:?}: {answer:?}");
    }
    t.stop().await;
}
