//! Signing in through the pages in a real browser, with a certified provider.

use plural_testkit::{RealIssuer, TestDatabase, each_database};
use serde_json::json;

use crate::{api_server::TestServer, sso_browser::add_group};

each_database!(somebody_signs_in_with_a_real_browser_at_a_real_provider);

async fn somebody_signs_in_with_a_real_browser_at_a_real_provider(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let redirect = format!("{}/auth/callback/real", t.console.url);
    let Some(issuer) = RealIssuer::start(&redirect).unwrap() else { return t.stop().await };
    let (ops, dev) = (add_group(&t, "our-ops").await, add_group(&t, "our-dev").await);
    let attributes = json!({
        "name": "real", "issuer": issuer.url(), "clientId": "plural", "clientSecret": "a secret of the console",
        "domains": ["example.com"], "createsUsers": true, "groupsClaim": "groups",
        "scopes": ["email", "profile", "groups", "offline_access"],
        "groups": [{"claim": "ops", "groupId": ops}, {"claim": "dev", "groupId": dev}],
    });
    let create =
        "mutation ($a: IdentityProviderAttributes!) { createIdentityProvider(attributes: $a) { id } }";
    t.admin.data(create, json!({"a": attributes})).await;

    let console = t.console.url.clone();
    let (seen, issuer) =
        tokio::task::spawn_blocking(move || (issuer.browse(&console, "ada", None), issuer)).await.unwrap();
    let Some(seen) = seen.unwrap() else { return t.stop().await };
    assert_eq!(seen["url"], format!("{}/", t.console.url), "{seen}");
    assert!(seen["account"].as_str().unwrap().contains("ada@example.com"), "{seen}");
    assert_eq!(seen["problems"], json!([]), "{seen}");
    assert_eq!(
        seen["cookies"],
        json!([{"name": "plural-session", "httpOnly": true, "sameSite": "Lax"}]),
        "{seen}"
    );
    let me = json!({"data": {"me": {"email": "ada@example.com", "groups": [{"name": "our-ops"}]}}});
    assert_eq!(seen["gql"], json!([200, me]), "{seen}");
    assert_eq!(seen["unmarked"][0], 403, "{seen}");
    assert_eq!(seen["foreign"], json!([0, null]), "another origin may not even ask: {seen}");
    assert!(seen["out"].as_str().unwrap().contains("sign out there, too"), "{seen}");
    assert_eq!(seen["after"], format!("{}/auth/sign-in", t.console.url), "{seen}");

    // The provider is asked again, by its refresh token.
    t.sql("UPDATE user_identities SET checked_at = '2001-01-01T00:00:00+00:00', tried_at = '2001-01-01T00:00:00+00:00'").await;
    assert_eq!(t.console.app().identities_check().await.unwrap(), 0, "nobody is signed in");

    // A program of somebody else, who allows it in the browser.
    let login = t.nobody.begin_program("plural on a test").await;
    let code = login["user_code"].as_str().unwrap().to_owned();
    let console = t.console.url.clone();
    let (seen, issuer) =
        tokio::task::spawn_blocking(move || (issuer.browse(&console, "grace", Some(&code)), issuer))
            .await
            .unwrap();
    let seen = seen.unwrap().unwrap();
    let asked = seen["asked"].as_str().unwrap();
    for part in ["plural on a test", "127.0.0.1", "grace@example.com", "30 days"] {
        assert!(asked.contains(part), "{part}: {seen}");
    }
    assert!(seen["allowed"].as_str().unwrap().contains("may sign in"), "{seen}");
    // She signed out: what she allowed with that session, and nobody fetched, is gone.
    let fetched = t.nobody.fetch_program(login["device_code"].as_str().unwrap()).await;
    assert_eq!(fetched.body["error"], "expired_token", "{fetched:?}");
    drop(issuer);
    t.stop().await;
}
