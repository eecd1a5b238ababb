//! Chart repositories and registries on bad days, and what they could try, through the whole console.

use plural_testkit::{
    OciRegistry, TestCluster, WebFolder,
    git_server::Mood,
    oci_registry::{SignIn, public_key_pem, signing_key},
    run_case,
};
use serde_json::json;

use crate::{
    charts::{Api, chart, is_healthy, kick, publish, world},
    world::{World, map},
};

#[test]
fn a_hung_repository_delays_only_itself() {
    run_case(async {
        let hung = WebFolder::start()?;
        hung.set_mood(Mood::Hanging);
        let well = WebFolder::start()?;
        publish(&well, "web", &[("1.0.0", &chart("web", "1.0.0", "well"))])?;
        let w = world(TestCluster::kubesim().await?).await?;
        let api = Api::new(&w).await?;
        w.remote.push_files([("app/a.yaml", map("from-git", "1"))])?;
        let stuck = api.service(&w, "stuck", json!({"helm": {"url": hung.url(""), "chart": "web"}})).await?;
        for n in 0..12 {
            let helm = json!({"url": hung.url(&format!("/{n}")), "chart": "web"});
            api.service(&w, &format!("stuck-{n}"), json!({"helm": helm})).await?;
        }
        plural_testkit::eventually(crate::world::PATIENCE, async || !hung.seen().is_empty()).await;
        let fine = api.service(&w, "fine", json!({"helm": {"url": well.url(""), "chart": "web"}})).await?;
        w.service("app").await?;
        w.until_value("fine", "well").await;
        w.until_value("from-git", "1").await;
        is_healthy(&w, &fine).await;
        assert!(w.person.details(&stuck).await?.errors.is_empty(), "it still waits");
        w.end().await
    });
}

#[test]
fn credentials_stay_home_and_out_of_every_answer() {
    run_case(async {
        let (home, foreign) = (WebFolder::start()?, WebFolder::start()?);
        home.require_basic("ada", "canary-5b1e");
        foreign.write("web.tgz", chart("web", "1.0.0", "foreign"))?;
        let index = format!("entries:\n  web: [{{version: 1.0.0, urls: ['{}']}}]\n", foreign.url("/web.tgz"));
        home.write("index.yaml", index)?;
        let w = world(TestCluster::kubesim().await?).await?;
        let api = Api::new(&w).await?;
        let upsert = "mutation ($u: String!, $a: HelmRepositoryAttributes) {
            upsertHelmRepository(url: $u, attributes: $a) { id url provider health error }
        }";
        let auth = json!({"auth": {"basic": {"username": "ada", "password": "canary-5b1e"}}});
        let made = api.ask(upsert, json!({"u": home.url(""), "a": auth})).await?;
        assert!(!made.to_string().contains("canary"), "{made}");
        let id = api.service(&w, "web", json!({"helm": {"url": home.url(""), "chart": "web"}})).await?;
        w.until_value("web", "foreign").await;
        assert!(foreign.seen().iter().all(|seen| seen.authorization.is_none()), "{:?}", foreign.seen());
        // A wrong one is said to be wrong, and not said.
        let wrong = json!({"auth": {"basic": {"username": "ada", "password": "canary-77aa"}}});
        api.ask(upsert, json!({"u": home.url(""), "a": wrong})).await?;
        let told = w.person.is_told(&id, &["401"]).await;
        assert!(!format!("{:?}", told.errors).contains("canary"), "{:?}", told.errors);
        let list = api
            .ask("{ helmRepositories { edges { node { url provider health error } } } }", json!({}))
            .await?;
        let text = list.to_string();
        assert!(text.contains("FAILED") && text.contains("401") && !text.contains("canary"), "{text}");
        assert_eq!(w.value("web").await?.as_deref(), Some("foreign"), "what runs goes on running");
        w.end().await
    });
}

#[test]
fn places_that_are_not_for_charts_are_out_of_reach() {
    run_case(async {
        let web = WebFolder::start()?;
        publish(&web, "web", &[("1.0.0", &chart("web", "1.0.0", "local"))])?;
        // As an operator who set nothing.
        let mut w = World::without_agent(TestCluster::kubesim().await?).await?;
        w.start_agent().await?;
        let api = Api::new(&w).await?;
        for (name, url) in [
            ("loopback", web.url("")),
            ("named", format!("http://localhost:{}", web.address().port())),
            ("metadata", "http://169.254.169.254/latest".to_owned()),
            ("registry", format!("oci://{}/team", web.address())),
        ] {
            let id = api
                .service(&w, name, json!({"helm": {"url": url, "chart": "web", "version": "1.0.0"}}))
                .await?;
            w.person.fails_with(&id, &["does not connect to"]).await;
        }
        assert!(web.seen().is_empty());
        w.end().await
    });
}

#[test]
fn a_signature_that_is_required_is_required() {
    run_case(async {
        let Some(registry) = OciRegistry::start(&SignIn::Open)? else { return Ok(()) };
        let digest = registry.push_chart("team/web", "1.0.0", &chart("web", "1.0.0", "signed")).await?;
        let w = world(TestCluster::kubesim().await?).await?;
        let api = Api::new(&w).await?;
        let key = signing_key(3);
        let verify = json!({"cosignKey": public_key_pem(&key)});
        let helm = json!({"url": registry.url("team"), "chart": "web", "version": "1.0.0", "verify": verify});
        let id = api.service(&w, "signed", json!({"helm": helm})).await?;
        w.person.fails_with(&id, &["is not signed"]).await;
        assert_eq!(w.value("signed").await?, None);
        registry.sign("team/web", &digest, &signing_key(4)).await?;
        kick(&w, &id).await?;
        w.person.fails_with(&id, &["no signature"]).await;
        registry.sign("team/web", &digest, &key).await?;
        kick(&w, &id).await?;
        w.until_value("signed", "signed").await;
        // The tag moves to something else, signed as well: the version stays what it was.
        let other = registry.push_chart("team/web", "1.0.0", &chart("web", "1.0.0", "swapped")).await?;
        registry.sign("team/web", &other, &key).await?;
        kick(&w, &id).await?;
        w.person.is_told(&id, &["published again"]).await;
        assert_eq!(w.value("signed").await?.as_deref(), Some("signed"));
        // Signatures in bundles count as well, and only those by the key.
        let digest = registry.push_chart("team/web", "2.0.0", &chart("web", "2.0.0", "bundled")).await?;
        let helm = json!({"url": registry.url("team"), "chart": "web", "version": "2.0.0", "verify": verify});
        let id = api.service(&w, "bundled", json!({"helm": helm})).await?;
        w.person.fails_with(&id, &["is not signed"]).await;
        registry.sign_with_bundle("team/web", &digest, &signing_key(4)).await?;
        kick(&w, &id).await?;
        w.person.fails_with(&id, &["no signature"]).await;
        registry.sign_with_bundle("team/web", &digest, &key).await?;
        kick(&w, &id).await?;
        w.until_value("bundled", "bundled").await;
        w.end().await
    });
}
