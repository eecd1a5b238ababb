//! Signing in by a browser, before there is a token: the console's routes under `/auth/`, in the shapes of RFC 8628 and RFC 8252.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Client, Failure};
use crate::{ClientError, Secret};

/// Bytes of an answer.
const LARGEST: usize = 64 << 10;
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A login that waits until somebody allows it.
#[derive(Debug, Deserialize)]
pub struct ProgramLogin {
    /// The program's own secret.
    pub device_code: Secret,
    /// What the person enters.
    pub user_code: String,
    /// The page for it.
    pub verification_uri: String,
    /// The same with the code filled in.
    pub verification_uri_complete: String,
    /// Seconds until both codes are worth nothing.
    pub expires_in: u64,
    /// Seconds between two questions.
    pub interval: u64,
    /// Where the browser brings the grant; absent at a console that only answers questions.
    pub redirect_uri: Option<String>,
}

/// A page of the program on this machine, to which the browser brings the grant.
#[derive(Debug, Clone, Copy)]
pub struct ProgramPage<'a> {
    /// `http://127.0.0.1:PORT/PATH`.
    pub redirect_uri: &'a str,
    /// Base64 of the SHA-256 of the program's verifier.
    pub code_challenge: &'a str,
    /// What the browser brings along.
    pub state: &'a str,
}

/// What became of a login.
#[derive(Debug)]
pub enum ProgramLoginState {
    /// Nobody allowed it yet.
    Pending,
    /// The same; the program asks too often, and waits five seconds longer from now on.
    SlowDown,
    /// The token.
    Allowed(Secret),
    /// It was refused, or took too long.
    Gone,
}

#[derive(Deserialize)]
struct Providers {
    providers: Vec<String>,
}

#[derive(Deserialize)]
struct Fetched {
    access_token: Option<Secret>,
    error: Option<String>,
    error_description: Option<String>,
}

impl Client {
    /// Names of the identity providers that people sign in with at this console; none at one that knows no such page.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn sign_in_providers(&self) -> Result<Vec<String>, ClientError> {
        let request = self.http.get(self.at("/auth/providers"));
        let (status, bytes) = self.answered(request).await?;
        match status {
            200 => Ok(self.parsed::<Providers>(&bytes)?.providers),
            404 | 405 => Ok(Vec::new()),
            _ => Err(self.unhappy_with(status, &bytes)),
        }
    }

    /// Begins a login that somebody allows in a browser. `program` is what they are shown.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn program_login(
        &self,
        program: &str,
        page: Option<ProgramPage<'_>>,
    ) -> Result<ProgramLogin, ClientError> {
        let mut fields = vec![("client_id", program)];
        if let Some(ProgramPage { redirect_uri, code_challenge, state }) = page {
            fields.extend([
                ("redirect_uri", redirect_uri),
                ("code_challenge", code_challenge),
                ("code_challenge_method", "S256"),
                ("state", state),
            ]);
        }
        let (status, bytes) = self.posted("/auth/device/code", &fields).await?;
        if status == 200 { self.parsed(&bytes) } else { Err(self.unhappy_with(status, &bytes)) }
    }

    /// What became of a login.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn program_login_state(&self, device: &Secret) -> Result<ProgramLoginState, ClientError> {
        self.login_state(&[("grant_type", GRANT), ("device_code", device.expose())]).await
    }

    /// What became of a login whose grant the browser brought.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn program_login_redeem(
        &self,
        grant: &Secret,
        verifier: &Secret,
        redirect_uri: &str,
    ) -> Result<ProgramLoginState, ClientError> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", grant.expose()),
            ("code_verifier", verifier.expose()),
            ("redirect_uri", redirect_uri),
        ];
        self.login_state(&fields).await
    }

    async fn login_state(&self, fields: &[(&str, &str)]) -> Result<ProgramLoginState, ClientError> {
        let (status, bytes) = self.posted("/auth/token", fields).await?;
        if !matches!(status, 200 | 400) {
            return Err(self.unhappy_with(status, &bytes));
        }
        let Fetched { access_token, error, error_description: _ } = self.parsed(&bytes)?;
        match (access_token, error.as_deref()) {
            (Some(token), None) => Ok(ProgramLoginState::Allowed(token)),
            (None, Some("authorization_pending")) => Ok(ProgramLoginState::Pending),
            (None, Some("slow_down")) => Ok(ProgramLoginState::SlowDown),
            _ => Ok(ProgramLoginState::Gone),
        }
    }

    /// A token of a service account for a token of a CI system or a cluster that stands for it
    /// ([RFC 8693](https://www.rfc-editor.org/rfc/rfc8693)). `account` is its address or id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn exchange_token(&self, token: &Secret, account: Option<&str>) -> Result<Secret, ClientError> {
        let fields = [
            ("grant_type", EXCHANGE),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
            ("subject_token", token.expose()),
            ("audience", account.unwrap_or_default()),
        ];
        let (status, bytes) = self.posted("/auth/token", &fields).await?;
        if !matches!(status, 200 | 400) {
            return Err(self.unhappy_with(status, &bytes));
        }
        let Fetched { access_token, error: _, error_description } = self.parsed(&bytes)?;
        access_token.ok_or_else(|| ClientError::Refusal {
            message: error_description.unwrap_or_else(|| "the console does not exchange tokens".to_owned()),
            code: None,
            request_id: None,
        })
    }

    fn at(&self, path: &str) -> reqwest::Url {
        let mut url = self.endpoint.clone();
        let base = url.path().strip_suffix("/gql").unwrap_or_default().to_owned();
        url.set_path(&format!("{base}{path}"));
        url
    }

    async fn posted(&self, path: &str, fields: &[(&str, &str)]) -> Result<(u16, Vec<u8>), ClientError> {
        let mut form = self.endpoint.clone();
        form.query_pairs_mut().clear().extend_pairs(fields);
        let body = form.query().unwrap_or_default().to_owned();
        let request = self.http.post(self.at(path));
        self.answered(request.header("content-type", "application/x-www-form-urlencoded").body(body)).await
    }

    async fn answered(&self, request: reqwest::RequestBuilder) -> Result<(u16, Vec<u8>), ClientError> {
        let mut response = request.send().await.map_err(|cause| self.broken(cause).error)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|cause| self.broken(cause).error)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST {
                let reason = format!("it is larger than {} KiB", LARGEST >> 10);
                return Err(ClientError::Answer { operation: "sign-in", reason });
            }
        }
        Ok((response.status().as_u16(), bytes))
    }

    fn parsed<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, ClientError> {
        // The parser's own message could quote a token.
        serde_json::from_slice(bytes).map_err(|_| ClientError::Answer {
            operation: "sign-in",
            reason: format!("{} answers with something else", self.url),
        })
    }

    fn unhappy_with(&self, status: u16, bytes: &[u8]) -> ClientError {
        let status = reqwest::StatusCode::from_u16(status).unwrap_or(reqwest::StatusCode::BAD_GATEWAY);
        let Failure { error, .. } = self.unhappy(status, bytes);
        error
    }
}
