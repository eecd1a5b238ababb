//! Providers that lie, cookies and codes that are stolen, other sites that send forms, addresses that nobody may be sent to.

use plural_testkit::{
    FakeIssuer, TestDatabase, each_database,
    fake_issuer::{Behaviour, Signed},
    one_database,
};
use serde_json::{Value, json};

use crate::{
    api_server::TestServer,
    sso_browser::{Browser, Page, add_provider},
};

each_database!(attack_23_what_was_used_or_stolen_opens_nothing);

one_database!(
    sqlite, "what is refused comes to no database";
    attack_22_a_provider_that_lies_signs_nobody_in,
    attack_27_other_sites_send_no_forms_and_use_no_cookies,
    attack_39_a_provider_leads_the_console_nowhere,
);

const ME: &str = "{ me { email } }";

fn claims(value: Value) -> Behaviour {
    let Value::Object(claims) = value else { panic!("no object") };
    Behaviour { claims, ..Behaviour::default() }
}

async fn attack_22_a_provider_that_lies_signs_nobody_in(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    add_provider(&t, &issuer, "acme", json!({"groupsClaim": "groups"})).await;
    let now = chrono::Utc::now().timestamp();
    let signed = |signed| Behaviour { signed, ..Behaviour::default() };
    let header =
        |value: Value| Behaviour { header: value.as_object().unwrap().clone(), ..Behaviour::default() };
    let huge: Vec<String> = (0..40_000).map(|i| format!("a group with a long name, number {i}")).collect();
    let lies = [
        ("another issuer", claims(json!({"iss": "https://evil.test"}))),
        ("no issuer", claims(json!({"iss": null}))),
        ("another audience", claims(json!({"aud": "another"}))),
        ("audiences besides ours", claims(json!({"aud": ["plural", "another"]}))),
        ("no audience", claims(json!({"aud": null}))),
        ("another party", claims(json!({"azp": "another"}))),
        ("another nonce", claims(json!({"nonce": "another"}))),
        ("no nonce", claims(json!({"nonce": null}))),
        ("no subject", claims(json!({"sub": null}))),
        ("an empty subject", claims(json!({"sub": ""}))),
        ("a long subject", claims(json!({"sub": "x".repeat(600)}))),
        ("it is over", claims(json!({"exp": now - 10}))),
        ("it never ends", claims(json!({"exp": null}))),
        ("from the future", claims(json!({"iat": now + 3600}))),
        ("counts later", claims(json!({"nbf": now + 3600}))),
        ("of another access token", claims(json!({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}))),
        ("groups without end", claims(json!({"groups": huge}))),
        ("unsigned", signed(Signed::Not)),
        ("signed by another", signed(Signed::ByAnother)),
        ("signed with the client secret", signed(Signed::WithClientSecret)),
        ("signed with the public key", signed(Signed::WithPublicKey)),
        ("an unknown key", header(json!({"kid": "2"}))),
        ("a key from elsewhere", header(json!({"kid": "2", "jku": format!("{}/jwks", issuer.url())}))),
        ("an extension that must be understood", header(json!({"crit": ["x"], "x": 1}))),
        ("alg none with a signature", header(json!({"alg": "none"}))),
        ("another algorithm than the key's", header(json!({"alg": "RS256"}))),
        (
            "an answer of another",
            Behaviour { answers_as: Some("https://evil.test".into()), ..Behaviour::default() },
        ),
        ("an answer without end", Behaviour { padding: 2 << 20, ..Behaviour::default() }),
    ];
    let mut wrong = Vec::new();
    for (what, lie) in lies {
        issuer.behave(lie);
        let mut browser = Browser::new(&t);
        let back = browser.sign_in("acme").await;
        if ![401, 503].contains(&back.status) || browser.session().is_some() {
            wrong.push(format!("{what}: {} {:?}", back.status, browser.session()));
        }
        // The provider's words are not for whoever is at the page.
        assert!(!back.text.contains("evil.test"), "{what}: {back:?}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let users = t.admin.data("{ users { edges { node { email } } } }", json!({})).await;
    assert!(!users.to_string().contains("ada@example.com"), "{users}");

    // One that promises to name itself in its answers is not believed without.
    let promise = json!({"authorization_response_iss_parameter_supported": true});
    let description = promise.as_object().unwrap().clone();
    let second = FakeIssuer::start().unwrap();
    add_provider(&t, &second, "second", json!({})).await;
    second.behave(Behaviour { description: description.clone(), ..Behaviour::default() });
    assert_eq!(Browser::new(&t).sign_in("second").await.status, 401);
    second.behave(Behaviour { description, answers_as: Some(second.url()), ..Behaviour::default() });
    assert_eq!(Browser::new(&t).sign_in("second").await.status, 303);

    // And the honest one signs in, in a list of audiences, too.
    issuer.behave(claims(json!({"aud": ["plural"], "azp": "plural", "nbf": now - 5})));
    let mut browser = Browser::new(&t);
    assert_eq!(browser.sign_in("acme").await.status, 303);
    assert_eq!(browser.gql(ME).await["data"]["me"]["email"], "ada@example.com");
    t.stop().await;
}

async fn attack_23_what_was_used_or_stolen_opens_nothing(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    add_provider(&t, &issuer, "acme", json!({})).await;
    let second = FakeIssuer::start().unwrap();
    add_provider(&t, &second, "other", json!({})).await;
    // A provider that takes a code twice: the console does not.
    let honest = Behaviour { codes_last: true, ..Behaviour::default() };
    issuer.behave(honest.clone());
    second.behave(honest);
    let mut browser = Browser::new(&t);
    let back = browser.go_to_provider("acme").await;
    let began = browser.cookies.clone();

    // Another browser with the answer, with the answer for its own login, and with half of it.
    let mut thief = Browser::new(&t);
    assert_eq!(thief.get(&back).await.status, 401, "without the cookie");
    let own = thief.go_to_provider("acme").await;
    assert_eq!(thief.get(&back).await.status, 401, "with the cookie of another login");
    let code = |url: &str| url.split("code=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let mixed = own.replace(&code(&own), &code(&back));
    let mut thief = Browser::new(&t);
    thief.cookies = began.clone();
    let wrong = back.replace(&code(&back), &code(&own));
    assert_eq!(thief.get(&wrong).await.status, 401, "the code of another login has another verifier");
    let mut thief = Browser::new(&t);
    thief.go_to_provider("acme").await;
    assert_eq!(thief.get(&mixed).await.status, 401);
    // What one provider answered is not taken to another.
    let mut thief = Browser::new(&t);
    thief.cookies = began.clone();
    assert_eq!(thief.get(&back.replace("/callback/acme", "/callback/other")).await.status, 401);
    // Without code, with an error, with two states.
    for changed in [
        back.replace("code=", "c="),
        back.replace("state=", "state=x&state="),
        back.replace("state=", "s="),
        format!("{back}x"),
    ] {
        let mut thief = Browser::new(&t);
        thief.cookies = began.clone();
        assert_eq!(thief.get(&changed).await.status, 401, "{changed}");
    }
    let mut denied = Browser::new(&t);
    denied.cookies = began.clone();
    let told = denied.get(&back.replace("code=", "error=access_denied%0a<script>&c=")).await;
    assert!(told.status == 403 && !told.text.contains("script>"), "{told:?}");
    // A cookie that was made up, cut or changed.
    for cookie in ["x", "", &began["plural-login"][1..], &format!("{}A", began["plural-login"])] {
        let mut thief = Browser::new(&t);
        thief.cookies.insert("plural-login".into(), cookie.to_owned());
        assert_eq!(thief.get(&back).await.status, 401, "{cookie}");
    }

    // Its owner is signed in, once; whoever copied all that the browser had comes too late.
    assert_eq!(browser.get(&back).await.status, 303);
    assert_eq!(browser.gql(ME).await["data"]["me"]["email"], "ada@example.com");
    assert!(!browser.cookies.contains_key("plural-login"));
    let mut thief = Browser::new(&t);
    thief.cookies = began;
    assert_eq!(thief.get(&back).await.status, 401, "it was finished before");
    assert_eq!(thief.session(), None);
    t.stop().await;
}

/// What protects a page.
fn protected(page: &Page) {
    let header = |name: &str| page.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let policy = header("content-security-policy").unwrap_or_default();
    for part in ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !page.text.contains("<script"), "{page:?}");
    assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"));
    assert_eq!(header("x-frame-options").as_deref(), Some("DENY"));
    assert_eq!(header("cache-control").as_deref(), Some("no-store"));
    assert!(!page.text.contains("http://") && !page.text.contains("https://"), "{page:?}");
}

async fn attack_27_other_sites_send_no_forms_and_use_no_cookies(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let mut browser = Browser::new(&t);
    let home = browser.home.clone();
    let fields = [("email", "reader@example.com"), ("password", "another long password")];
    for headers in [
        &[][..],
        &[("origin", "https://evil.test")],
        &[("origin", "null")],
        &[("origin", home.as_str()), ("origin", "https://evil.test")],
        &[("origin", "http://127.0.0.1")],
        &[("referer", home.as_str())],
    ] {
        let refused = browser.submit_from(headers, "/auth/sign-in", &fields).await;
        assert_eq!(refused.status, 403, "{headers:?}");
        assert_eq!(browser.session(), None, "somebody else's account was forced on the browser");
    }
    for path in ["/auth/sign-in", "/auth/sign-in?then=/auth/device", "/auth/account", "/auth/style.css"] {
        protected(&browser.get(path).await);
    }
    protected(&browser.submit("/auth/sign-in", &[("email", "\"><script>"), ("password", "x")]).await);
    // Nobody is sent elsewhere, and nobody's text becomes markup.
    for then in [
        "https://evil.test",
        "//evil.test",
        "/\\evil.test",
        "\"><script>alert(1)</script>",
        "/auth/../x",
        "javascript:x",
    ] {
        let page = browser.get(&format!("/auth/sign-in?then={then}")).await;
        assert!(!page.text.contains("evil") && !page.text.contains("<script"), "{page:?}");
        let mut visitor = Browser::new(&t);
        let with = [fields[0], fields[1], ("then", then)];
        let sent = visitor.submit("/auth/sign-in", &with).await;
        assert_eq!((sent.status, sent.location()), (303, "/"), "{then}");
    }
    let large = "x".repeat(9 << 10);
    assert_eq!(browser.submit("/auth/sign-in", &[("email", &large)]).await.status, 413);

    assert_eq!(browser.submit("/auth/sign-in", &fields).await.status, 303);
    let good = [("origin", home.as_str()), ("x-plural-csrf", "1")];
    assert_eq!(browser.gql_from(&good, ME).await.outcome(), "OK");
    let change = "mutation { createAccessToken { token } }";
    for headers in [
        &[][..],
        &[("x-plural-csrf", "1")],
        &[("origin", home.as_str())],
        &[("origin", "https://evil.test"), ("x-plural-csrf", "1")],
        &[("origin", "null"), ("x-plural-csrf", "1")],
    ] {
        for document in [ME, change] {
            let refused = browser.gql_from(headers, document).await;
            assert!(
                refused.status == 403 && refused.message().contains("x-plural-csrf"),
                "{headers:?} {refused:?}"
            );
        }
    }
    // A session reaches no cluster, and another site signs nobody out.
    let cluster = browser.get("/k8s/blue/api").await;
    assert!(
        cluster.status == 403 && cluster.text.contains("session reaches clusters only from"),
        "{cluster:?}"
    );
    let out = browser.submit_from(&[("origin", "https://evil.test")], "/auth/sign-out", &[]).await;
    assert_eq!(out.status, 403);
    assert_eq!(browser.gql_from(&good, ME).await.outcome(), "OK");
    t.stop().await;
}

async fn attack_39_a_provider_leads_the_console_nowhere(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let trap = FakeIssuer::start().unwrap();
    let described = |name: &str, url: &str| {
        let description = json!({name: url}).as_object().unwrap().clone();
        Behaviour { description, ..Behaviour::default() }
    };
    let metadata = "http://169.254.169.254/latest/meta-data";
    let mut number = 0;
    for (what, lie) in [
        ("keys at the metadata service", described("jwks_uri", metadata)),
        ("tokens at the metadata service", described("token_endpoint", metadata)),
        (
            "tokens by redirect",
            Behaviour { redirects_to: Some(format!("{}/token", trap.url())), ..Behaviour::default() },
        ),
        ("another issuer in its description", described("issuer", "https://other.test")),
        ("a page that is a script", described("authorization_endpoint", "javascript:alert(1)")),
        ("a page to sign out that is a script", described("end_session_endpoint", "javascript:alert(1)")),
        ("a page that is a file", described("authorization_endpoint", "file:///etc/passwd")),
    ] {
        number += 1;
        let one = FakeIssuer::start().unwrap();
        one.behave(lie);
        let name = format!("p{number}");
        add_provider(&t, &one, &name, json!({})).await;
        let mut browser = Browser::new(&t);
        let mut page = browser.get(&format!("/auth/login/{name}")).await;
        if page.status == 303 {
            let answered = browser.get(page.location()).await;
            page = browser.get(answered.location()).await;
        }
        assert_eq!(page.status, 503, "{what}: {page:?}");
        assert!(!page.text.contains("169.254"), "{what}: {page:?}");
    }
    assert!(trap.requests().is_empty(), "{:?}", trap.requests());
    // Nor does whoever makes one: an address that nobody may be asked at is refused when it is asked.
    let create =
        "mutation ($a: IdentityProviderAttributes!) { createIdentityProvider(attributes: $a) { id } }";
    for bad in
        ["http://169.254.169.254", "file:///etc", "https://u:p@id.example.com", "https://id.example.com?x=1"]
    {
        let attributes = json!({"name": "bad", "issuer": bad, "clientId": "x"});
        let refused = t.admin.ask(create, json!({"a": attributes})).await;
        assert_eq!(refused.outcome(), "INVALID", "{bad}: {refused:?}");
    }
    for (name, issuer) in
        [("link-local", "https://169.254.169.254"), ("mapped", "https://[::ffff:a9fe:a9fe]")]
    {
        let attributes = json!({"name": name, "issuer": issuer, "clientId": "x"});
        t.admin.data(create, json!({"a": attributes})).await;
        assert_eq!(Browser::new(&t).get(&format!("/auth/login/{name}")).await.status, 503, "{issuer}");
    }
    drop(issuer);
    t.stop().await;
}
