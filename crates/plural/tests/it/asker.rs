//! People with more and less access, who ask a console in GraphQL's own words.

use std::{io::Read as _, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use memchr::memmem;
use serde_json::{Value, json};

use crate::world::{EMAIL, PASSWORD};

/// Somebody who asks.
#[derive(Clone)]
pub(crate) struct Asker {
    http: reqwest::Client,
    url: String,
    pub(crate) token: String,
    pub(crate) id: String,
}

impl Asker {
    /// The administrator.
    pub(crate) async fn administrator(url: &str) -> anyhow::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().tls_certs_only([]).timeout(Duration::from_mins(1)).build()?;
        let nobody = Self { http, url: url.to_owned(), token: String::new(), id: String::new() };
        nobody.sign_in(EMAIL).await
    }

    async fn sign_in(&self, email: &str) -> anyhow::Result<Self> {
        let document = "mutation ($e: String!, $p: String!) { signIn(email: $e, password: $p) { id jwt } }";
        let nobody = Self { token: String::new(), ..self.clone() };
        let user = nobody.data(document, json!({"e": email, "p": PASSWORD})).await?["signIn"].take();
        let text = |field: &str| user[field].as_str().unwrap_or_default().to_owned();
        Ok(Self { token: text("jwt"), id: text("id"), ..self.clone() })
    }

    /// A new user; the administrator makes it.
    pub(crate) async fn user(&self, email: &str) -> anyhow::Result<Self> {
        let document = "mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }";
        self.data(document, json!({"a": {"name": email, "email": email, "password": PASSWORD}})).await?;
        self.sign_in(email).await
    }

    /// Gives bindings on a `projectId`, `clusterId` or `serviceId`.
    pub(crate) async fn bind(&self, field: &str, id: &str, rbac: Value) -> anyhow::Result<()> {
        let document =
            format!("mutation ($rbac: RbacAttributes!, $id: ID) {{ updateRbac(rbac: $rbac, {field}: $id) }}");
        self.data(&document, json!({"rbac": rbac, "id": id})).await.map(drop)
    }

    /// The same with another credential; with none when that is empty.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), id: String::new(), ..self.clone() }
    }

    /// Status and text of what is at a path, whatever they are.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let mut request = self.http.get(format!("{}{path}", self.url));
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// One answer, whatever it is.
    pub(crate) async fn ask(&self, document: &str, variables: Value) -> anyhow::Result<Value> {
        let mut request = self
            .http
            .post(format!("{}/gql", self.url))
            .header("content-type", "application/json")
            .body(json!({"query": document, "variables": variables}).to_string());
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        let text = request.send().await?.text().await?;
        Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The data of an answer without errors.
    pub(crate) async fn data(&self, document: &str, variables: Value) -> anyhow::Result<Value> {
        let mut answer = self.ask(document, variables).await?;
        anyhow::ensure!(answer["errors"].is_null() && !answer["data"].is_null(), "{document}: {answer}");
        Ok(answer["data"].take())
    }
}

/// Everything that tells of one service.
pub(crate) const OF_A_SERVICE: [(&str, &str); 5] = [
    (
        "service",
        "query ($id: ID!) { serviceDeployment(id: $id) {
           name message configuration { name value } helm { values set { name value } } renderers { helm { values } }
           errors { source message location } contexts { name configuration secretNames }
           components { name namespace kind group message children { name namespace message } }
           metadata { images fqdns } apiDeprecations { component { name } }
           events(first: 50) { edges { node { action targetName } } }
           revisions(first: 50) { edges { node { message git { ref folder } } } } } }",
    ),
    (
        "sync",
        "query ($id: ID!) { serviceDeployment(id: $id) {
           sync { step waitingFor { why object { kind name } } hooks { message object { name } } promoted { problems } }
           pendingApproval { reason objects { kind namespace name } }
           revision { plan { objects { why location object { name } fields { path before after manager } } } } } }",
    ),
    (
        "plans",
        "query ($id: ID!) { serviceDeployment(id: $id) { plans(last: 20) { edges { node {
           objects { action why location object { kind namespace name } fields { path before after manager hidden } } } } } }
           servicePlan(serviceId: $id) { objects { why location object { name } fields { path before after } } } }",
    ),
    (
        "drift",
        "query ($id: ID!) { serviceDeployment(id: $id) { drift(last: 20) { edges { node {
           what object { kind name } fields { path before after manager } } } } } }",
    ),
    (
        "preview",
        "query ($id: ID!) { servicePreview(id: $id) {
           objects { apiVersion kind namespace name source content } errors { message location } } }",
    ),
];

/// The forms in which a secret may stand somewhere.
pub(crate) fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap();
    let json = json[1..json.len() - 1].to_owned();
    let url: String = secret
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    let mut forms = vec![secret.to_owned(), hex::encode(secret), url.to_lowercase(), url];
    forms.push(serde_json::to_string(&json).unwrap().trim_matches('"').to_owned());
    forms.push(json);
    // At each place in what is encoded as a whole, without what stands before and after.
    for (before, start) in [("", 0), ("a", 2), ("ab", 3)] {
        let text = STANDARD.encode(format!("{before}{secret}")).trim_end_matches('=').to_owned();
        forms.push(text[start..text.len() - 1].to_owned());
    }
    forms
}

/// What of these secrets `text` holds, and where.
pub(crate) fn held(text: &[u8], secrets: &[(&str, String)]) -> Option<String> {
    for (name, secret) in secrets {
        for form in forms(secret) {
            if let Some(at) = memmem::find(text, form.as_bytes()) {
                let around = text.get(at.saturating_sub(300)..(at + 100).min(text.len())).unwrap_or_default();
                return Some(format!("the {name}: …{}…", String::from_utf8_lossy(around)));
            }
        }
    }
    let inner = if text.starts_with(&[0x1f, 0x8b]) {
        let mut inner = Vec::new();
        GzDecoder::new(text).read_to_end(&mut inner).ok().map(|_| inner)
    } else if text.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        // As blobs are kept.
        zstd::decode_all(text).ok()
    } else {
        None
    };
    inner.and_then(|inner| held(&inner, secrets))
}

/// Fails when `text` holds a secret in any form.
pub(crate) fn holds_none(place: &str, text: &[u8], secrets: &[(&str, String)]) {
    if let Some(found) = held(text, secrets) {
        panic!("{place} holds {found}");
    }
}
