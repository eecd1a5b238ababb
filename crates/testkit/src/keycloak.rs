//! Keycloak, as organisations run it, on its development database in a folder of the test's own; and a real browser that signs in with
//! it through the console's pages.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::{
    folder::OwnedFolder,
    missing::Missing,
    port::free_port,
    process::{Program, Running},
    programs::program_or_report,
    real_issuer::{CHROMIUM, LOGIN_WITHIN},
};

/// How long it may take to start: a new database has some hundred tables.
const READY_WITHIN: Duration = Duration::from_mins(4);
/// Its first administrator, with this password, too.
const ADMIN: &str = "admin";
/// The realm of the tests.
const REALM: &str = "acme";

/// A server with one realm on a loopback port. Stops on drop.
#[derive(Debug)]
pub struct Keycloak {
    url: String,
    http: reqwest::Client,
    browser: PathBuf,
    running: Running,
    folder: OwnedFolder,
}

impl Keycloak {
    /// A server with an empty realm. Nothing, said on stderr, where its program, the browser's, or the browser is missing.
    ///
    /// # Errors
    /// When it does not start.
    ///
    /// # Panics
    /// When `CI` is set and something is missing.
    pub async fn start() -> anyhow::Result<Option<Self>> {
        let programs = (program_or_report("keycloak"), program_or_report("oidc-peer"));
        let (Some(program), Some(browser)) = programs else { return Ok(None) };
        if !Path::new(CHROMIUM).is_file() {
            Missing::new(format!("{CHROMIUM} is missing"), "`cargo xtask test` installs it").report();
            return Ok(None);
        }
        let folder = OwnedFolder::new("keycloak")?;
        let port = free_port()?;
        let place = folder.path().display();
        let running = Program::new(&program, folder.path())
            .env("KC_BOOTSTRAP_ADMIN_USERNAME", ADMIN)
            .env("KC_BOOTSTRAP_ADMIN_PASSWORD", ADMIN)
            .env("JAVA_OPTS_KC_HEAP", "-Xms64m -Xmx512m")
            // It lives for a minute: there is nothing to gain by a second compiler.
            .env(
                "JAVA_OPTS_APPEND",
                format!("-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={place} -Dquarkus.transaction-manager.object-store.directory={place}/tx"),
            )
            .arg("start")
            .arg("--optimized")
            .flag("http-enabled", "true")
            .flag("http-host", "127.0.0.1")
            .flag("http-port", port.to_string())
            .flag("hostname-strict", "false")
            .flag("cache", "local")
            .flag("db-url", format!("jdbc:h2:file:{place}/h2/keycloak;NON_KEYWORDS=VALUE"))
            .start()?;
        let http = reqwest::Client::builder().tls_certs_only([]).timeout(Duration::from_mins(1)).build()?;
        let mut keycloak = Self { url: format!("http://127.0.0.1:{port}"), http, browser, running, folder };
        keycloak.until_ready().await?;
        keycloak.admin("POST", "/admin/realms", &json!({"realm": REALM, "enabled": true})).await?;
        Ok(Some(keycloak))
    }

    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + READY_WITHIN;
        loop {
            let asked = self.http.get(format!("{}/realms/master", self.url)).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            self.running.check()?;
            let is_late = tokio::time::Instant::now() > deadline;
            anyhow::ensure!(!is_late, "it did not start: {}", self.running.log_tail());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The realm's issuer.
    pub fn issuer(&self) -> String {
        format!("{}/realms/{REALM}", self.url)
    }

    /// A request to the API of its administrators; the id of what was made, or what was answered.
    ///
    /// # Errors
    /// When it is refused.
    async fn admin(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let form = format!("grant_type=password&client_id=admin-cli&username={ADMIN}&password={ADMIN}");
        let token = self.token_of("master", &form).await?;
        let token = token["access_token"].as_str().context("no token of the administrator")?;
        let request = self.http.request(method.parse()?, format!("{}{path}", self.url));
        let request = request.bearer_auth(token).header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await?;
        let (status, made) = (answer.status(), answer.headers().get("location").cloned());
        let text = answer.text().await?;
        anyhow::ensure!(status.is_success(), "{method} {path}: {status} {text}");
        if let Some(made) = made {
            return Ok(Value::from(made.to_str()?.rsplit('/').next().unwrap_or_default()));
        }
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    async fn make(&self, path: &str, body: &Value) -> anyhow::Result<String> {
        let made = self.admin("POST", &format!("/admin/realms/{REALM}{path}"), body).await?;
        Ok(made.as_str().with_context(|| format!("{path} made nothing"))?.to_owned())
    }

    async fn token_of(&self, realm: &str, form: &str) -> anyhow::Result<Value> {
        let url = format!("{}/realms/{realm}/protocol/openid-connect/token", self.url);
        let request = self.http.post(url).header("content-type", "application/x-www-form-urlencoded");
        let answer = request.body(form.to_owned()).send().await?;
        Ok(serde_json::from_str(&answer.text().await?)?)
    }

    /// Adds a console as a client, with its secret, that is told groups; one that comes to this redirect URI, and back to that page.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn add_console(
        &self,
        id: &str,
        secret: &str,
        redirect: &str,
        back: &str,
    ) -> anyhow::Result<()> {
        let groups = json!({
            "name": "groups", "protocol": "openid-connect", "protocolMapper": "oidc-group-membership-mapper",
            "config": {"claim.name": "groups", "full.path": "false", "id.token.claim": "true", "userinfo.token.claim": "true"},
        });
        let client = json!({
            "clientId": id, "secret": secret, "publicClient": false, "standardFlowEnabled": true,
            "redirectUris": [redirect], "attributes": {"post.logout.redirect.uris": back},
            "protocolMappers": [groups],
        });
        self.make("/clients", &client).await.map(drop)
    }

    /// Adds a job as a client, with its secret, whose tokens are for this audience. Its subject.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn add_job(&self, id: &str, secret: &str, audience: &str) -> anyhow::Result<String> {
        let aud = json!({
            "name": "audience", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper",
            "config": {"included.custom.audience": audience, "access.token.claim": "true"},
        });
        let client = json!({
            "clientId": id, "secret": secret, "publicClient": false, "standardFlowEnabled": false,
            "serviceAccountsEnabled": true, "fullScopeAllowed": false, "protocolMappers": [aud],
        });
        let made = self.make("/clients", &client).await?;
        let path = format!("/admin/realms/{REALM}/clients/{made}/service-account-user");
        let account = self.admin("GET", &path, &Value::Null).await?;
        Ok(account["id"].as_str().context("the job has no subject")?.to_owned())
    }

    /// A token of a job, by its client credentials.
    ///
    /// # Errors
    /// When it gets none.
    pub async fn job_token(&self, id: &str, secret: &str) -> anyhow::Result<String> {
        let form = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
        let answer = self.token_of(REALM, &form).await?;
        Ok(answer["access_token"].as_str().with_context(|| format!("no token: {answer}"))?.to_owned())
    }

    /// Adds a group; its id.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn add_group(&self, name: &str) -> anyhow::Result<String> {
        self.make("/groups", &json!({"name": name})).await
    }

    /// Adds somebody with a verified address at example.com, a password, and no groups; their id.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn add_user(&self, name: &str, password: &str) -> anyhow::Result<String> {
        let user = json!({
            "username": name, "email": format!("{name}@example.com"), "emailVerified": true, "enabled": true,
            "firstName": name, "lastName": "of Keycloak",
            "credentials": [{"type": "password", "value": password, "temporary": false}],
        });
        self.make("/users", &user).await
    }

    /// Puts somebody into a group.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn join(&self, user: &str, group: &str) -> anyhow::Result<()> {
        self.admin("PUT", &format!("/admin/realms/{REALM}/users/{user}/groups/{group}"), &json!({}))
            .await
            .map(drop)
    }

    /// Takes somebody out of a group.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn leave(&self, user: &str, group: &str) -> anyhow::Result<()> {
        let path = format!("/admin/realms/{REALM}/users/{user}/groups/{group}");
        self.admin("DELETE", &path, &Value::Null).await.map(drop)
    }

    /// Disables somebody.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn disable(&self, user: &str) -> anyhow::Result<()> {
        let path = format!("/admin/realms/{REALM}/users/{user}");
        self.admin("PUT", &path, &json!({"enabled": false})).await.map(drop)
    }

    /// The command of a browser that signs in at a console with the provider "keycloak", as somebody, and prints what it saw as JSON.
    /// With the address of a page as its next argument, it allows what the page asks for.
    pub fn browser(&self, console: &str, user: &str, password: &str) -> Command {
        let mut command = Command::new("timeout");
        command.arg(LOGIN_WITHIN.as_secs().to_string()).arg(&self.browser);
        command.args(["keycloak", console, user, password]);
        command.env("HOME", self.folder.path()).stdin(Stdio::null());
        command
    }

    /// What such a browser saw.
    ///
    /// # Errors
    /// When it does not get through, with what it said.
    pub async fn browse(
        &self,
        console: &str,
        user: &str,
        password: &str,
        page: Option<&str>,
    ) -> anyhow::Result<Value> {
        let mut command = self.browser(console, user, password);
        command.args(page);
        let output = tokio::task::spawn_blocking(move || command.output()).await?;
        let output = output.context("cannot run the browser")?;
        let error = String::from_utf8_lossy(&output.stderr);
        let seen = String::from_utf8_lossy(&output.stdout);
        anyhow::ensure!(output.status.success(), "the browser did not get through: {error} {seen}");
        serde_json::from_str(&seen).context("it did not say what it saw")
    }
}
