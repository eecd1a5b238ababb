//! Signing in with a real Keycloak: in a real browser, by the command line's two logins, and as a job; and that what Keycloak takes away
//! is gone, with all that is open.
//!
//! One Keycloak is started for all of it. One database is enough: `sso.rs` of `console` says the same on both, with a provider of tests.

use std::{process::Stdio, time::Duration};

use anyhow::Context as _;
use plural_testkit::{Keycloak, TestCluster, eventually, one_cluster};
use plural_wire::{
    CreateFederatedCredential, CreateIdentityProvider, CreateServiceAccount, FederatedCredentialAttributes,
    IdentityProviderAttributes, IdentityProviderGroupAttributes, Secret, ServiceAccountAttributes,
};
use sea_orm::ConnectionTrait as _;
use serde_json::{Value, json};

use crate::{
    kubectl::{Running, forward},
    program::Home,
    proxy_world::{Kubectl, ProxyWorld},
    world::{PASSWORD, PATIENCE},
};

one_cluster!(real, "the simulation runs nothing in Pods"; people_and_jobs_come_with_keycloak_and_go_with_it);

/// What is promised of a revocation.
const SOON: Duration = Duration::from_secs(5);
const SECRET: &str = "a-secret-of-the-console";
const SECRET_OF_JOB: &str = "a-secret-of-the-job";
const PASSWORD_THERE: &str = "a password at Keycloak";
const AUDIENCE: &str = "plural-ci";

/// A console whose people come from Keycloak.
struct World {
    w: ProxyWorld,
    keycloak: Keycloak,
    home: Home,
    /// Keycloak's ids of somebody and of one of her groups.
    ada: String,
    dev: String,
}

impl World {
    async fn new(cluster: TestCluster) -> anyhow::Result<Option<Self>> {
        let Some(keycloak) = Keycloak::start().await? else { return Ok(None) };
        let w = ProxyWorld::new(cluster).await?;
        let redirect = format!("{}/auth/callback/keycloak", w.console.url);
        let back = format!("{}/auth/sign-in", w.console.url);
        keycloak.add_console("plural", SECRET, &redirect, &back).await?;
        let (ops, dev) = (keycloak.add_group("ops").await?, keycloak.add_group("dev").await?);
        let ada = keycloak.add_user("ada", PASSWORD_THERE).await?;
        keycloak.join(&ada, &ops).await?;
        keycloak.join(&ada, &dev).await?;

        let admin = w.person().await?;
        let mut groups = Vec::new();
        for claim in ["ops", "dev"] {
            let attributes =
                plural_wire::GroupAttributes { name: format!("our-{claim}"), ..Default::default() };
            let group_id = admin.client.send(&plural_wire::CreateGroup { attributes }).await?.id;
            groups.push(IdentityProviderGroupAttributes { claim: claim.to_owned(), group_id });
        }
        let attributes = IdentityProviderAttributes {
            name: "keycloak".to_owned(),
            issuer: keycloak.issuer(),
            client_id: "plural".to_owned(),
            client_secret: Some(Secret::new(SECRET)),
            domains: Some(vec!["example.com".to_owned()]),
            creates_users: Some(true),
            groups_claim: Some("groups".to_owned()),
            groups: Some(groups),
            ..Default::default()
        };
        let current_password = Some(Secret::new(PASSWORD));
        admin.client.send(&CreateIdentityProvider { attributes, current_password }).await?;
        Ok(Some(Self { w, keycloak, home: Home::new()?, ada, dev }))
    }

    async fn browse(&self, password: &str, page: Option<&str>) -> anyhow::Result<Value> {
        self.keycloak.browse(&self.w.console.url, "ada", password, page).await
    }

    /// Her groups at the console, as she sees them with a token.
    async fn groups(&self, token: &str) -> anyhow::Result<Vec<String>> {
        let pem = reqwest::Certificate::from_pem(self.w.ca_pem.as_bytes())?;
        let http = reqwest::Client::builder().tls_certs_only([pem]).build()?;
        let request = http.post(format!("{}/gql", self.w.console.url)).bearer_auth(token);
        let request = request.header("content-type", "application/json");
        let body = json!({"query": "{ me { email groups { name } } }"}).to_string();
        let answer: Value = serde_json::from_str(&request.body(body).send().await?.text().await?)?;
        let groups = answer["data"]["me"]["groups"].as_array().with_context(|| answer.to_string())?;
        let mut names: Vec<String> =
            groups.iter().filter_map(|group| group["name"].as_str().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    /// Has Keycloak asked about everybody, as if it was long ago; and that it was.
    async fn ask_again(&self) -> anyhow::Result<()> {
        let path = self.w.folder.path().join("console/plural.db");
        let database = sea_orm::Database::connect(format!("sqlite://{}", path.display())).await?;
        let long_ago = "2001-01-01T00:00:00+00:00";
        // Whom it did not ask for twelve hours it takes for gone: it was asked an hour ago.
        let hour_ago = (chrono::Utc::now() - chrono::TimeDelta::hours(1)).to_rfc3339();
        let sql = format!("UPDATE user_identities SET checked_at = '{hour_ago}', tried_at = '{long_ago}'");
        database.execute_unprepared(&sql).await?;
        database.close().await?;
        assert_eq!(self.w.app().identities_check().await?, 1);
        Ok(())
    }

    /// `plural` at this console, as its own home has it.
    fn plural(&self, words: &[&str]) -> tokio::process::Command {
        self.home.plural(words)
    }

    fn login(&self, words: &[&str]) -> tokio::process::Command {
        let ca = self.w.folder.path().join("tls.crt");
        let mut command = self.plural(&["login", "--url", &self.w.console.url, "--ca-file"]);
        command.arg(ca).args(words);
        command
    }

    fn token(&self, profile: &str) -> anyhow::Result<String> {
        let profiles = std::fs::read_to_string(self.home.path().join(".plural/profiles.yml"))?;
        let of = profiles.split_once(&format!("{profile}:")).with_context(|| format!("no {profile}"))?.1;
        let token = of.lines().find_map(|line| line.trim().strip_prefix("token:")).context("no token")?;
        Ok(token.trim().trim_matches(['"', '\'']).to_owned())
    }
}

async fn people_and_jobs_come_with_keycloak_and_go_with_it(cluster: TestCluster) -> anyhow::Result<()> {
    let Some(t) = World::new(cluster).await? else { return Ok(()) };
    a_browser_signs_in_and_out(&t).await?;
    let by_code = by_a_code(&t).await?;
    let by_page = by_a_page_of_the_program(&t).await?;
    assert_ne!(by_code, by_page);
    assert_eq!(t.groups(&by_page).await?, ["our-dev", "our-ops"]);

    // What Keycloak takes away is gone at the next question.
    t.keycloak.leave(&t.ada, &t.dev).await?;
    t.ask_again().await?;
    assert_eq!(t.groups(&by_code).await?, ["our-ops"]);

    a_job_comes_with_its_own_token(&t).await?;
    who_is_disabled_there_is_out_here(&t, [by_code, by_page]).await?;
    t.w.end().await
}

async fn a_browser_signs_in_and_out(t: &World) -> anyhow::Result<()> {
    let seen = t.browse("wrong", None).await?;
    assert_eq!(seen["refused"], "Invalid username or password.", "{seen}");
    let seen = t.browse(PASSWORD_THERE, None).await?;
    assert!(seen["account"].as_str().unwrap_or_default().contains("ada@example.com"), "{seen}");
    let me = &seen["gql"][1]["data"]["me"];
    let groups = me["groups"].to_string();
    assert!(
        me["email"] == "ada@example.com" && groups.contains("our-ops") && groups.contains("our-dev"),
        "{seen}"
    );
    // Signed out there, too: it sent the browser back, and asks for the password again.
    assert_eq!(seen["back"], format!("{}/auth/sign-in", t.w.console.url), "{seen}");
    assert_eq!(seen["again"], "Sign in to your account", "{seen}");
    Ok(())
}

/// The command line on a machine without a browser.
async fn by_a_code(t: &World) -> anyhow::Result<String> {
    let told = t.home.path().join("told");
    let mut login = t.login(&["--device", "--profile", "code"]);
    let mut login = login.stderr(std::fs::File::create(&told)?).spawn()?;
    let code = eventually(PATIENCE, async || {
        let told = std::fs::read_to_string(&told).unwrap_or_default();
        let code = told.lines().find_map(|line| line.strip_prefix("and allow the login with the code "));
        code.map(str::to_owned).ok_or(told)
    })
    .await;
    let page = format!("{}/auth/device?user_code={code}", t.w.console.url);
    let seen = t.browse(PASSWORD_THERE, Some(&page)).await?;
    let asked = seen["asked"].as_str().unwrap_or_default();
    for part in [&*code, "ada@example.com", "127.0.0.1", "30 days"] {
        assert!(asked.contains(part), "{part}: {seen}");
    }
    assert!(seen["allowed"].as_str().unwrap_or_default().contains("The program may sign in"), "{seen}");
    let ended = tokio::time::timeout(PATIENCE, login.wait()).await??;
    let text = std::fs::read_to_string(&told)?;
    assert!(ended.success() && text.contains("as ada@example.com"), "{text}");
    t.token("code")
}

/// The command line on the machine of the browser, which it opens itself.
async fn by_a_page_of_the_program(t: &World) -> anyhow::Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let (script, saw) = (t.home.path().join("browser"), t.home.path().join("saw"));
    let browser = t.keycloak.browser(&t.w.console.url, "ada", PASSWORD_THERE);
    let words = std::iter::once(browser.get_program()).chain(browser.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let text = format!("#!/bin/sh\nexec {} \"$1\" >'{}' 2>&1\n", words.join(" "), saw.display());
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    let mut login = t.login(&["--browser", "--profile", "page"]);
    let output = login.env("BROWSER", &script).stdin(Stdio::null()).output();
    let output = tokio::time::timeout(PATIENCE * 2, output).await??;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let saw = eventually(PATIENCE, async || {
        let text = std::fs::read_to_string(&saw).unwrap_or_default();
        serde_json::from_str::<Value>(&text).map_err(|_| text)
    })
    .await;
    assert!(output.status.success() && told.contains("as ada@example.com"), "{told} {saw}");
    assert!(!told.contains("/callback"), "{told}");
    assert!(saw["asked"].as_str().unwrap_or_default().contains("ada@example.com"), "{saw}");
    assert!(saw["url"].as_str().unwrap_or_default().starts_with("http://127.0.0.1:"), "{saw}");
    assert!(saw["allowed"].as_str().unwrap_or_default().contains("the program goes on"), "{saw}");
    t.token("page")
}

async fn a_job_comes_with_its_own_token(t: &World) -> anyhow::Result<()> {
    let subject = t.keycloak.add_job("ci", SECRET_OF_JOB, AUDIENCE).await?;
    let admin = t.w.person().await?;
    let account = ServiceAccountAttributes {
        name: Some("deployer".to_owned()),
        email: Some("deployer@machines.example.com".to_owned()),
        ..Default::default()
    };
    let user_id = admin.client.send(&CreateServiceAccount { attributes: account }).await?.id;
    let attributes = FederatedCredentialAttributes {
        user_id,
        issuer: Some(t.keycloak.issuer()),
        audience: Some(AUDIENCE.to_owned()),
        subject: Some(subject),
        ..Default::default()
    };
    let current_password = Some(Secret::new(PASSWORD));
    admin.client.send(&CreateFederatedCredential { attributes, current_password }).await?;
    let login = async |token: &str| -> anyhow::Result<(bool, String)> {
        let file = t.home.path().join("id-token");
        std::fs::write(&file, token)?;
        let mut login = t.login(&["--id-token-stdin", "--profile", "job"]);
        let done = login.stdin(std::fs::File::open(&file)?).output();
        let done = tokio::time::timeout(PATIENCE, done).await??;
        Ok((done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned()))
    };
    let token = t.keycloak.job_token("ci", SECRET_OF_JOB).await?;
    let (is_in, told) = login(&token).await?;
    assert!(is_in && told.contains("as deployer@machines.example.com"), "{told}");
    // Another job of the same realm is another subject.
    t.keycloak.add_job("other", SECRET_OF_JOB, AUDIENCE).await?;
    let (is_in, told) = login(&t.keycloak.job_token("other", SECRET_OF_JOB).await?).await?;
    assert!(!is_in && told.contains("no federated credential fits this token"), "{told}");
    Ok(())
}

/// A command that goes on for longer than a revocation takes.
async fn shell(kubectl: &Kubectl) -> anyhow::Result<Running> {
    let mut command = kubectl.command();
    command.args(["exec", "-i", "shell", "--", "sh", "-c", "echo ready; sleep 600"]).stdin(Stdio::piped());
    let mut running = Running::start(command)?;
    running.until("ready").await?;
    Ok(running)
}

async fn who_is_disabled_there_is_out_here(t: &World, tokens: [String; 2]) -> anyhow::Result<()> {
    let w = &t.w;
    let [token, other] = &tokens;
    let ada = w.app().actor_authenticate(token).await?;
    let plural_core::access::Actor::User(ada) = ada else { anyhow::bail!("no user") };
    w.bind_at_console(&[ada.id]).await?;
    w.bind_in_namespace("User", "ada@example.com", "edit").await?;
    let (Some(kubectl), Some(second)) = (w.kubectl(token)?, w.kubectl(other)?) else { return Ok(()) };
    let granted = eventually(PATIENCE, async || {
        kubectl.ok(&["auth", "can-i", "create", "pods/exec"]).await.map_err(|error| format!("{error:#}"))
    });
    assert_eq!(granted.await.trim(), "yes");
    kubectl.ok(&["run", "shell", "--image=example.com/shell:1"]).await?;
    kubectl.ok(&["wait", "pod/shell", "--for=condition=Ready", "--timeout=60s"]).await?;

    let path = format!("/k8s/blue/api/v1/namespaces/{}/configmaps?watch=1", w.namespace);
    let mut watches =
        [w.http().await?.watch(&path, token).await?, w.http().await?.watch(&path, other).await?];
    let follow = |kubectl: &Kubectl| {
        let mut command = kubectl.command();
        command.args(["logs", "-f", "shell"]);
        Running::start(command)
    };
    let mut logs = follow(&kubectl)?;
    logs.line().await.context("logs -f")?;
    let mut open = [shell(&kubectl).await?, shell(&second).await?, forward(&kubectl, "true").await?.0, logs];

    t.keycloak.disable(&t.ada).await?;
    // Until Keycloak is asked, all of it goes on.
    for running in &mut open {
        assert!(running.ended(Duration::ZERO).await.is_err());
    }
    for line in &mut watches {
        assert!(line.until_closed(Duration::ZERO).await.is_err());
    }
    t.ask_again().await?;
    let shells = futures::future::join_all(open.iter_mut().map(|running| running.ended(SOON)));
    let watched = futures::future::join_all(watches.iter_mut().map(|line| line.until_closed(SOON)));
    let (shells, watched) = futures::future::join(shells, watched).await;
    shells.into_iter().chain(watched).collect::<anyhow::Result<Vec<()>>>()?;
    for token in &tokens {
        assert!(w.app().actor_authenticate(token).await.is_err());
        assert_eq!(w.get(token, "/version").await?.0, 401);
    }
    let whoami = crate::program::finish(t.plural(&["whoami", "--profile", "code"])).await?;
    assert!(whoami.code != Some(0), "{whoami:?}");
    // Nor does Keycloak let her in again.
    let seen = t.browse(PASSWORD_THERE, None).await?;
    assert!(seen["refused"].as_str().unwrap_or_default().contains("disabled"), "{seen}");
    Ok(())
}
