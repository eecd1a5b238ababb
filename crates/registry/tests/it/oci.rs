//! Registries: the distribution project's own server.

use plural_registry::{
    Access, Cause, Credentials, Freshness, Kind, Limits, Pin, PublicKey, Wanted, unpack, unpack_chart,
};
use plural_testkit::{
    OciRegistry,
    oci_registry::{SignIn, public_key_pem, signing_key, tar_gz},
};

use crate::support::{basic, chart, client};

const FLUX: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";

fn wanted<'a>(access: &'a Access, version: &'a str) -> Wanted<'a> {
    Wanted::chart(access, "web", version, Freshness::Now)
}

fn artifact<'a>(access: &'a Access, version: &'a str) -> Wanted<'a> {
    Wanted { chart: None, ..wanted(access, version) }
}

#[tokio::test]
async fn charts_by_version_range_and_digest() {
    let Some(registry) = OciRegistry::start(&SignIn::Open).unwrap() else { return };
    let (old, new) = (chart("web", "1.2.0", "a: 1"), chart("web", "1.10.0+b", "a: 2"));
    let old_digest = registry.push_chart("team/charts/web", "1.2.0", &old).await.unwrap();
    let new_digest = registry.push_chart("team/charts/web", "1.10.0_b", &new).await.unwrap();
    registry.push_chart("team/charts/web", "2.0.0-rc.1", &new).await.unwrap();
    let access = Access::new(&registry.url("team/charts")).unwrap();
    let client = client();
    for (version, found, digest) in [
        ("1.2.0", "1.2.0", &old_digest),
        ("1.x", "1.10.0+b", &new_digest),
        ("", "1.10.0+b", &new_digest),
        ("1.10.0+b", "1.10.0+b", &new_digest),
        (old_digest.as_str(), old_digest.as_str(), &old_digest),
    ] {
        let resolved = client.resolve(&wanted(&access, version)).await.unwrap();
        assert_eq!(
            (resolved.version.as_str(), &resolved.digest, resolved.kind),
            (found, digest, Kind::Chart),
            "{version}"
        );
    }
    let resolved = client.resolve(&wanted(&access, "1.2.0")).await.unwrap();
    let files = unpack_chart(&client.content(&access, &resolved).await.unwrap(), &Limits::default()).unwrap();
    assert_eq!(files["templates/map.yaml"].content, b"a: 1");
    // The repository itself may be the address.
    let direct = Access::new(&registry.url("team/charts/web")).unwrap();
    assert_eq!(client.resolve(&artifact(&direct, "~1.2")).await.unwrap().digest, old_digest);
    assert_eq!(client.resolve(&wanted(&access, "3.0.0")).await.unwrap_err().cause, Cause::NotFound);
    assert_eq!(client.resolve(&wanted(&access, "^3")).await.unwrap_err().cause, Cause::NotFound);
    let other = Wanted { chart: Some("none"), ..wanted(&access, "1.x") };
    assert_eq!(client.resolve(&other).await.unwrap_err().cause, Cause::NotFound);
}

#[tokio::test]
async fn manifests_as_an_artifact() {
    let Some(registry) = OciRegistry::start(&SignIn::Open).unwrap() else { return };
    let layer = tar_gz([("deploy/app.yaml", "kind: A"), ("kustomization.yaml", "resources: []")]);
    let digest = registry.push_artifact("team/manifests", "latest", FLUX, &layer).await.unwrap();
    registry
        .push_artifact("team/manifests", "v1.0.0", "application/vnd.oci.image.layer.v1.tar+gzip", &layer)
        .await
        .unwrap();
    let access = Access::new(&registry.url("team/manifests")).unwrap();
    let client = client();
    let resolved = client.resolve(&artifact(&access, "latest")).await.unwrap();
    assert_eq!(
        (resolved.version.as_str(), &resolved.digest, resolved.kind),
        ("latest", &digest, Kind::Manifests)
    );
    let files = unpack(&client.content(&access, &resolved).await.unwrap(), &Limits::default()).unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["deploy/app.yaml", "kustomization.yaml"]);
    assert_eq!(client.resolve(&artifact(&access, "1.x")).await.unwrap().version, "v1.0.0");
    let chart = Access::new(&registry.url("team")).unwrap();
    let chart = Wanted { chart: Some("manifests"), ..wanted(&chart, "latest") };
    let error = client.resolve(&chart).await.unwrap_err();
    assert!(error.message.contains("not a Helm chart"), "{error}");
}

#[tokio::test]
async fn passwords() {
    let (user, password) = ("robot".to_owned(), "hunter2".to_owned());
    let Some(registry) = OciRegistry::start(&SignIn::Password { user, password }).unwrap() else { return };
    registry.push_chart("a/web", "1.0.0", &chart("web", "1.0.0", "a: 1")).await.unwrap();
    let client = client();
    let access = basic(&registry.url("a"), "robot", "hunter2");
    let resolved = client.resolve(&wanted(&access, "1.x")).await.unwrap();
    assert!(client.content(&access, &resolved).await.is_ok());
    for wrong in [Access::new(&registry.url("a")).unwrap(), basic(&registry.url("a"), "robot", "wrong-one")] {
        let error = client.resolve(&wanted(&wrong, "1.x")).await.unwrap_err();
        assert!(error.cause == Cause::Unauthorized && !error.message.contains("wrong-one"), "{error}");
    }
}

#[tokio::test]
async fn tokens_are_asked_for_where_the_registry_says_unless_that_is_another_site() {
    let (user, password) = ("robot".to_owned(), "hunter2".to_owned());
    let Some(registry) = OciRegistry::start(&SignIn::Token { user, password }).unwrap() else { return };
    registry.push_chart("a/web", "1.0.0", &chart("web", "1.0.0", "a: 1")).await.unwrap();
    let client = client();
    // The token service is another port of this machine, which is another origin, and no site in common is encrypted.
    let access = basic(&registry.url("a"), "robot", "hunter2");
    let error = client.resolve(&wanted(&access, "1.x")).await.unwrap_err();
    assert!(
        error.cause == Cause::Refused && error.message.contains("not known to be its sign-in service"),
        "{error}"
    );
    assert!(registry.token_requests().is_empty());
    // Without credentials nothing can leak: it is asked, and refuses.
    let anonymous = Access::new(&registry.url("a")).unwrap();
    assert_eq!(client.resolve(&wanted(&anonymous, "1.x")).await.unwrap_err().cause, Cause::Unauthorized);
    assert_eq!(registry.token_requests(), [None]);
    // A token of the owner's goes to the registry itself.
    let bearer = Credentials::Bearer { token: registry.pull_token("a/web").unwrap().into() };
    let access = Access::new(&registry.url("a")).unwrap().with_credentials(bearer);
    let resolved = client.resolve(&wanted(&access, "1.x")).await.unwrap();
    assert!(client.content(&access, &resolved).await.is_ok());
}

#[tokio::test]
async fn a_public_registry_gives_tokens_to_everybody() {
    let (user, password) = (String::new(), String::new());
    let Some(registry) = OciRegistry::start(&SignIn::Token { user, password }).unwrap() else { return };
    registry.push_chart("a/web", "1.0.0", &chart("web", "1.0.0", "a: 1")).await.unwrap();
    let client = client();
    let access = Access::new(&registry.url("a")).unwrap();
    let resolved = client.resolve(&wanted(&access, "1.x")).await.unwrap();
    assert!(client.content(&access, &resolved).await.is_ok());
    assert_eq!(registry.token_requests(), [None], "one token for tags, manifest and blob");
}

#[tokio::test]
async fn a_pinned_digest_stays_when_its_tag_moves() {
    let Some(registry) = OciRegistry::start(&SignIn::Open).unwrap() else { return };
    let (before, after) = (chart("web", "1.0.0", "a: good"), chart("web", "1.0.0", "a: evil"));
    let digest = registry.push_chart("a/web", "1.0.0", &before).await.unwrap();
    let access = Access::new(&registry.url("a")).unwrap();
    let client = client();
    let pinned = format!("1.0.0@{digest}");
    let first = client.resolve(&wanted(&access, "1.0.0")).await.unwrap();
    registry.push_chart("a/web", "1.0.0", &after).await.unwrap();
    let still = client.resolve(&wanted(&access, &pinned)).await.unwrap();
    assert_eq!(still.digest, digest);
    let files = unpack_chart(&client.content(&access, &still).await.unwrap(), &Limits::default()).unwrap();
    assert_eq!(files["templates/map.yaml"].content, b"a: good");
    // Without a pin of the owner's, what was resolved first is the pin.
    let pin = Pin { version: first.version, digest: first.digest };
    for version in ["1.0.0", "1.x"] {
        let moved = Wanted { pin: Some(&pin), ..wanted(&access, version) };
        let error = client.resolve(&moved).await.unwrap_err();
        assert!(error.cause == Cause::Untrusted && error.message.contains("other content"), "{error}");
    }
}

#[tokio::test]
async fn a_range_does_not_go_back() {
    let Some(registry) = OciRegistry::start(&SignIn::Open).unwrap() else { return };
    registry.push_chart("a/web", "1.4.0", &chart("web", "1.4.0", "a: old")).await.unwrap();
    let access = Access::new(&registry.url("a")).unwrap();
    let pin = Pin { version: "1.5.0".into(), digest: format!("sha256:{}", "0".repeat(64)) };
    let error = client().resolve(&Wanted { pin: Some(&pin), ..wanted(&access, "1.x") }).await.unwrap_err();
    assert!(error.cause == Cause::Untrusted && error.message.contains("1.4.0"), "{error}");
}

#[tokio::test]
async fn signatures_where_they_are_required() {
    let Some(registry) = OciRegistry::start(&SignIn::Open).unwrap() else { return };
    let (ours, theirs) = (signing_key(1), signing_key(2));
    let key = PublicKey::from_pem(&public_key_pem(&ours)).unwrap();
    let digest = registry.push_chart("a/web", "1.0.0", &chart("web", "1.0.0", "a: 1")).await.unwrap();
    let other = registry.push_chart("a/web", "1.0.1", &chart("web", "1.0.1", "a: 2")).await.unwrap();
    let access = Access::new(&registry.url("a")).unwrap();
    let client = client();
    let signed = |version| Wanted { signed_by: Some(&key), ..wanted(&access, version) };
    let error = client.resolve(&signed("1.0.0")).await.unwrap_err();
    assert!(error.cause == Cause::Untrusted && error.message.contains("not signed"), "{error}");
    registry.sign("a/web", &digest, &theirs).await.unwrap();
    let error = client.resolve(&signed("1.0.0")).await.unwrap_err();
    assert!(error.cause == Cause::Untrusted && error.message.contains("no signature"), "{error}");
    registry.sign("a/web", &digest, &ours).await.unwrap();
    assert_eq!(client.resolve(&signed("1.0.0")).await.unwrap().digest, digest);
    // A good signature of one thing under the tag of another.
    registry.sign_as("a/web", &digest, &other, &ours).await.unwrap();
    let error = client.resolve(&signed("1.0.1")).await.unwrap_err();
    assert!(error.cause == Cause::Untrusted && error.message.contains("no signature"), "{error}");
}

#[tokio::test]
async fn a_registry_that_is_gone_is_said_to_be() {
    let Some(mut registry) = OciRegistry::start(&SignIn::Open).unwrap() else { return };
    registry.stop();
    let access = Access::new(&registry.url("a")).unwrap();
    let error = client().resolve(&wanted(&access, "1.0.0")).await.unwrap_err();
    assert!(error.is_transient() && error.message.contains(registry.address()), "{error}");
}
