//! Chart repositories and registries on bad days, and what they could try, through the whole console.
//!
//! One backend is enough: charts come to the console; the cluster only takes what they become.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use plural_testkit::{
    OciRegistry, OwnedFolder, TestCluster, WebFolder,
    git_server::Mood,
    oci_registry::{SignIn, public_key_pem, signing_key},
    run_case,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

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
        let mut w = World::with_config(TestCluster::kubesim().await?, |config| config.reach = None).await?;
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

/// Somebody who signs charts as `helm package --sign` does, with an OpenPGP key of their own.
struct Packager {
    home: OwnedFolder,
}

impl Packager {
    fn new() -> anyhow::Result<Self> {
        let packager = Self { home: OwnedFolder::new("packager")? };
        packager.gpg(&["--quick-gen-key", "packager@example.com", "ed25519", "sign", "never"], "")?;
        Ok(packager)
    }

    fn keys(&self) -> anyhow::Result<String> {
        self.gpg(&["--armor", "--export"], "")
    }

    /// The provenance file of an archive.
    fn provenance(&self, chart: &str, version: &str, archive: &[u8]) -> anyhow::Result<String> {
        let digest = hex::encode(Sha256::digest(archive));
        let signed = format!(
            "apiVersion: v2\nname: {chart}\nversion: {version}\n\n...\nfiles:\n  {chart}-{version}.tgz: sha256:{digest}\n"
        );
        self.gpg(&["--output", "-", "--clearsign"], &signed)
    }

    fn gpg(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let mut child = Command::new("gpg")
            .args(["--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", ""])
            .arg("--homedir")
            .arg(self.home.path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        child.stdin.take().unwrap().write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        anyhow::ensure!(output.status.success(), "gpg: {}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }
}

#[test]
fn a_chart_with_provenance_has_to_be_signed_and_to_be_what_was_signed() {
    run_case(async {
        let (ours, theirs) = (Packager::new()?, Packager::new()?);
        let web = WebFolder::start()?;
        let archives = ["1.0.0", "2.0.0"].map(|version| chart("web", version, version));
        publish(&web, "web", &[("1.0.0", &archives[0]), ("2.0.0", &archives[1])])?;
        let w = world(TestCluster::kubesim().await?).await?;
        let api = Api::new(&w).await?;
        let verify = json!({"openpgpKeys": ours.keys()?});
        let helm = |url: String, version: &str| json!({"helm": {"url": url, "chart": "web", "version": version, "verify": verify}});
        let id = api.service(&w, "web", helm(web.url(""), "1.0.0")).await?;
        w.person.fails_with(&id, &["has no provenance file"]).await;
        web.write("web-1.0.0.tgz.prov", theirs.provenance("web", "1.0.0", &archives[0])?)?;
        kick(&w, &id).await?;
        w.person.fails_with(&id, &["signature is not valid"]).await;
        // What was signed is another archive, and then another version.
        web.write("web-1.0.0.tgz.prov", ours.provenance("web", "1.0.0", &archives[1])?)?;
        kick(&w, &id).await?;
        w.person.fails_with(&id, &["does not promise"]).await;
        web.write("web-1.0.0.tgz.prov", ours.provenance("web", "0.9.0", &archives[0])?)?;
        kick(&w, &id).await?;
        w.person.fails_with(&id, &["about web 0.9.0"]).await;
        assert_eq!(w.value("web").await?, None);
        web.write("web-1.0.0.tgz.prov", ours.provenance("web", "1.0.0", &archives[0])?)?;
        kick(&w, &id).await?;
        w.until_value("web", "1.0.0").await;

        // In a registry the file is a layer of the chart's manifest.
        if let Some(registry) = OciRegistry::start(&SignIn::Open)? {
            registry.push_chart("team/web", "1.0.0", &archives[0]).await?;
            let id = api.service(&w, "from-registry", helm(registry.url("team"), "1.0.0")).await?;
            w.person.fails_with(&id, &["has no provenance file"]).await;
            let signed = ours.provenance("web", "2.0.0", &archives[1])?;
            registry.push_chart_with("team/web", "2.0.0", &archives[1], Some(signed.as_bytes())).await?;
            api.service(&w, "signed", helm(registry.url("team"), "2.0.0")).await?;
            w.until_value("signed", "2.0.0").await;
        }
        w.end().await
    });
}
