//! One-time codes of an authenticator app, beside a password.

use plural_core::second_factor::code_at;
use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use crate::{
    api_server::{Answer, Person, TestServer},
    sso_browser::Browser,
};

each_database!(
    a_code_is_asked_for_once_it_was_shown,
    attack_25_codes_are_good_once_and_guesses_are_slowed,
    an_administrator_helps_who_has_lost_the_app,
);

const SIGN_IN: &str =
    "mutation ($e: String!, $p: String!, $c: String) { signIn(email: $e, password: $p, code: $c) { jwt } }";
const PASSWORD: &str = "another long password";
const BEGIN: &str = "mutation { beginSecondFactor { address secret } }";
const CONFIRM: &str = "mutation ($c: String!) { confirmSecondFactor(code: $c) }";
const END: &str = "mutation ($u: ID, $p: String, $c: String) { endSecondFactor(userId: $u, currentPassword: $p, code: $c) }";

/// What is in a secret that people type.
pub(crate) fn decoded(secret: &str) -> Vec<u8> {
    let (mut held, mut bits, mut bytes) = (0_u32, 0, Vec::new());
    for letter in secret.bytes() {
        let number = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == letter).unwrap();
        held = held << 5 | u32::try_from(number).unwrap();
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 255).unwrap());
        }
    }
    bytes
}

/// What an app with this secret shows so many steps from now.
pub(crate) fn shown(secret: &str, later: i64) -> String {
    code_at(&decoded(secret), chrono::Utc::now().timestamp() / 30 + later)
}

async fn sign_in(t: &TestServer, code: Option<&str>) -> Answer {
    t.nobody.ask(SIGN_IN, json!({"e": "reader@example.com", "p": PASSWORD, "c": code})).await
}

fn is_in(answer: &Answer) -> bool {
    answer.body["data"]["signIn"]["jwt"].is_string()
}

/// The secret and the recovery codes of somebody who has a second factor from now on.
pub(crate) async fn enabled(person: &Person) -> (String, Vec<String>) {
    let secret =
        person.data(BEGIN, json!({})).await["beginSecondFactor"]["secret"].as_str().unwrap().to_owned();
    let codes = person.data(CONFIRM, json!({"c": shown(&secret, -1)})).await["confirmSecondFactor"].clone();
    (secret, serde_json::from_value(codes).unwrap())
}

async fn a_code_is_asked_for_once_it_was_shown(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let is_on = async || {
        t.reader.data("{ me { secondFactor } }", json!({})).await["me"]["secondFactor"] == json!(true)
    };
    let begun = t.reader.data(BEGIN, json!({})).await["beginSecondFactor"].clone();
    assert!(
        begun["address"].as_str().unwrap().starts_with("otpauth://totp/Plural:reader%40example.com?"),
        "{begun}"
    );
    // A secret of which no code was shown locks nobody out.
    assert!(is_in(&sign_in(&t, None).await) && !is_on().await);
    let wrong = t.reader.ask(CONFIRM, json!({"c": "000000"})).await;
    assert_eq!(wrong.outcome(), "INVALID", "{wrong:?}");
    let (secret, recovery) = enabled(&t.reader).await;
    assert!(
        is_on().await && recovery.len() == 10 && recovery.iter().all(|code| code.len() == 12),
        "{recovery:?}"
    );
    let again = t.reader.ask(BEGIN, json!({})).await;
    assert_eq!(again.outcome(), "CONFLICT", "{again:?}");

    let missing = sign_in(&t, None).await;
    assert_eq!(missing.outcome(), "FORBIDDEN", "{missing:?}");
    assert!(is_in(&sign_in(&t, Some(&shown(&secret, 0))).await));
    let typed = recovery[0].to_lowercase();
    let typed = format!("{} {}", &typed[..6], &typed[6..]);
    assert!(is_in(&sign_in(&t, Some(&typed)).await));
    // On the page as well.
    let mut browser = Browser::new(&t);
    let fields = [("email", "reader@example.com"), ("password", PASSWORD)];
    let page = browser.submit("/auth/sign-in", &fields).await;
    assert!(page.status == 401 && page.text.contains("authenticator app"), "{page:?}");
    let with = [fields[0], fields[1], ("code", recovery[1].as_str())];
    assert_eq!(browser.submit("/auth/sign-in", &with).await.status, 303);

    // Nobody ends it with what a thief of the password has.
    let missing = t.reader.ask(END, json!({"p": PASSWORD})).await;
    assert_eq!(missing.outcome(), "FORBIDDEN", "{missing:?}");
    let wrong = t.reader.ask(END, json!({"p": PASSWORD, "c": recovery[0]})).await;
    assert_eq!(wrong.outcome(), "INVALID", "it was used: {wrong:?}");
    let ended = t.reader.data(END, json!({"p": PASSWORD, "c": recovery[2]})).await;
    assert_eq!(ended["endSecondFactor"], true);
    assert!(is_in(&sign_in(&t, None).await));
    let lines = t.admin.data("{ audits(first: 50) { edges { node { action } } } }", json!({})).await;
    let actions: Vec<&Value> =
        lines["audits"]["edges"].as_array().unwrap().iter().map(|line| &line["node"]["action"]).collect();
    for action in ["second_factor.begin", "second_factor.confirm", "second_factor.end"] {
        assert!(actions.contains(&&json!(action)), "{action}: {actions:?}");
    }
    t.stop().await;
}

async fn attack_25_codes_are_good_once_and_guesses_are_slowed(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let (secret, recovery) = enabled(&t.reader).await;
    let code = shown(&secret, 0);
    assert!(is_in(&sign_in(&t, Some(&code)).await));
    assert_eq!(sign_in(&t, Some(&code)).await.outcome(), "UNAUTHENTICATED", "a code that somebody looked at");
    assert!(is_in(&sign_in(&t, Some(&recovery[3])).await));
    assert_eq!(sign_in(&t, Some(&recovery[3])).await.outcome(), "UNAUTHENTICATED", "a code that was used");
    // A right code is nothing without the password.
    let guess = json!({"e": "reader@example.com", "p": "not the password", "c": recovery[4]});
    assert_eq!(t.nobody.ask(SIGN_IN, guess).await.outcome(), "UNAUTHENTICATED");
    let mut told = Vec::new();
    for n in 0..30 {
        told.push(sign_in(&t, Some(&format!("{n:06}"))).await.outcome());
    }
    assert!(told.iter().all(|told| told != "OK"), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("UNAVAILABLE"), "guesses are slowed: {told:?}");
    t.stop().await;
}

async fn an_administrator_helps_who_has_lost_the_app(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    enabled(&t.reader).await;
    let stranger = t.stranger.ask(END, json!({"u": t.reader.id, "p": PASSWORD})).await;
    assert_eq!(stranger.outcome(), "FORBIDDEN", "{stranger:?}");
    let helped = t.admin.data(END, json!({"u": t.reader.id})).await;
    assert_eq!(helped["endSecondFactor"], true);
    assert!(is_in(&sign_in(&t, None).await));
    t.stop().await;
}
