//! Tokens of Entra ID: for a token of the cluster (workload identity), or for the secret of an application.

use std::{path::PathBuf, sync::Arc, time::Duration};

use plural_app::ports::key_encryption::KeyError;
use reqwest::{
    Method,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::{
    BadPlace, Options, Variables, bad,
    endpoint::Endpoint,
    held::Held,
    http::{Request, by_status, form, told},
    read,
};

pub(super) const OPTIONS: [&str; 6] =
    ["auth", "tenant", "client_id", "token_file", "secret_file", "login_endpoint"];

/// What proves to be the application.
enum Proof {
    /// A token of the Pod's ServiceAccount, which the application trusts.
    Token(PathBuf),
    /// Its secret.
    Secret(SecretString),
    /// Its secret, in a file that somebody renews.
    SecretFile(PathBuf),
}

/// Tokens that are replaced before they are over.
pub(super) struct Credentials {
    tenant: String,
    client: String,
    scope: String,
    proof: Proof,
    endpoint: Endpoint,
    held: Held<SecretString>,
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    expires_in: u64,
}

#[derive(Deserialize, Default)]
struct Failure {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

impl Credentials {
    pub(super) fn open(
        login: &str,
        vaults: &str,
        options: &Options,
        variables: &Arc<Variables>,
    ) -> Result<Self, BadPlace> {
        let tenant = options.or("tenant", "AZURE_TENANT_ID", &**variables)?;
        if tenant.is_empty()
            || !tenant.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
            || tenant.starts_with('.')
        {
            return Err(bad("its tenant is none"));
        }
        Ok(Self {
            tenant,
            client: options.or("client_id", "AZURE_CLIENT_ID", &**variables)?,
            scope: format!("https://{vaults}/.default"),
            proof: proof(options, variables)?,
            endpoint: Endpoint::of(login, "login_endpoint", options)?,
            held: Held::default(),
        })
    }

    /// A token that is not over.
    pub(super) async fn get(&self) -> Result<SecretString, KeyError> {
        self.held.get(self.ask()).await
    }

    /// This one was refused.
    pub(super) async fn forget(&self) {
        self.held.forget().await;
    }

    #[cfg(test)]
    pub(super) async fn grow_old(&self) {
        self.held.grow_old().await;
    }

    async fn ask(&self) -> Result<(SecretString, Duration), KeyError> {
        let (kind, proof): (&str, SecretString) = match &self.proof {
            Proof::Token(file) => ("client_assertion", read(file).await?.into()),
            Proof::Secret(secret) => ("client_secret", secret.clone()),
            Proof::SecretFile(file) => ("client_secret", read(file).await?.into()),
        };
        let mut fields = vec![
            ("grant_type", "client_credentials"),
            ("client_id", &self.client),
            ("scope", &self.scope),
            (kind, proof.expose_secret()),
        ];
        if kind == "client_assertion" {
            fields.push(("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"));
        }
        let body = form(&fields);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, form)]);
        let url = self.endpoint.path(&format!("/{}/oauth2/v2.0/token", self.tenant));
        let request = Request { method: Method::POST, url, headers, body: &body, is_busy: by_status };
        let answer = self.endpoint.http.ask(&request).await?;
        if !answer.status.is_success() {
            let Failure { error, error_description } =
                serde_json::from_slice(&answer.body).unwrap_or_default();
            let why = told(format!("{error}: {error_description}").as_bytes());
            return Err(KeyError::Refused(format!(
                "Entra ID gives this console no token: it answers {}: {why}",
                answer.status
            )));
        }
        let Token { access_token, expires_in } = answer.json()?;
        Ok((access_token.into(), Duration::from_secs(expires_in)))
    }
}

fn proof(options: &Options, variables: &Arc<Variables>) -> Result<Proof, BadPlace> {
    const TOKEN: &str = "AZURE_FEDERATED_TOKEN_FILE";
    const SECRET: &str = "AZURE_CLIENT_SECRET";
    let auth = match options.get("auth") {
        Some(auth) => auth,
        None if options.get("token_file").is_some() => "workload-identity",
        None if options.get("secret_file").is_some() || variables(SECRET).is_some() => "secret",
        None if variables(TOKEN).is_some() => "workload-identity",
        None => "secret",
    };
    match auth {
        "workload-identity" => Ok(Proof::Token(options.or("token_file", TOKEN, &**variables)?.into())),
        "secret" => match (options.file("secret_file"), variables(SECRET)) {
            (Some(file), _) => Ok(Proof::SecretFile(file)),
            (None, Some(secret)) => Ok(Proof::Secret(secret.into())),
            (None, None) => Err(bad(&format!(
                "it needs the option \"token_file\" or \"secret_file\", or {TOKEN} or {SECRET} in the environment"
            ))),
        },
        _ => Err(bad("auth is workload-identity or secret")),
    }
}
