//! A key of AWS KMS: `aws-kms:ARN?OPTIONS`, the ARN of a symmetric key or of an alias.

mod credentials;
mod sign;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use chrono::Utc;
use plural_app::ports::key_encryption::{ClearKey, KeyEncryption, KeyError, WrappedKey, clear};
use reqwest::{
    Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::credentials::Credentials;
use crate::{
    BadPlace, Place, Variables, bad,
    endpoint::Endpoint,
    http::{Answer, Request, told},
    not_understood,
};

/// The name in the encryption context that what a data key is wrapped for has.
const CONTEXT: &str = "plural";

/// The adapter.
pub(crate) struct AwsKey {
    name: String,
    arn: Arn,
    endpoint: Endpoint,
    credentials: Credentials,
}

/// `arn:PARTITION:kms:REGION:ACCOUNT:key/ID`, or `…:alias/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arn {
    partition: String,
    region: String,
    account: String,
    resource: String,
}

/// What is stored: the key that wrapped, since an alias may lead to another one by now.
#[derive(Serialize, Deserialize)]
struct Sealed {
    key: String,
    blob: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Encrypted {
    ciphertext_blob: String,
    key_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Decrypted {
    plaintext: String,
    key_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    key_metadata: KeyMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyMetadata {
    arn: String,
}

/// What a failure is called, and what it says.
#[derive(Deserialize, Default)]
struct Failure {
    #[serde(rename = "__type", default)]
    kind: String,
    #[serde(default, alias = "Message")]
    message: String,
}

impl Arn {
    fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.splitn(6, ':').collect();
        let ["arn", partition, "kms", region, account, resource] = parts[..] else { return None };
        let is_word = |text: &str, more: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        let is_resource = match resource.split_once('/')? {
            ("key", id) => is_word(id, "-"),
            ("alias", name) => is_word(name, "-_/"),
            _ => false,
        };
        let is_account = account.len() == 12 && account.chars().all(|c| c.is_ascii_digit());
        (is_word(partition, "-") && is_word(region, "-") && is_account && is_resource).then(|| Self {
            partition: partition.to_owned(),
            region: region.to_owned(),
            account: account.to_owned(),
            resource: resource.to_owned(),
        })
    }

    /// The suffix of the hosts of its partition.
    fn domain(&self) -> Option<&'static str> {
        match self.partition.as_str() {
            "aws" | "aws-us-gov" => Some("amazonaws.com"),
            "aws-cn" => Some("amazonaws.com.cn"),
            _ => None,
        }
    }

    fn text(&self) -> String {
        let Self { partition, region, account, resource } = self;
        format!("arn:{partition}:kms:{region}:{account}:{resource}")
    }

    /// The id of the key that it names, when that is one which this place may lead to: of the same account and region. Otherwise who
    /// writes to the database could have a key of his own asked.
    fn key_of(&self, key: &str) -> Option<String> {
        let key = Self::parse(key)?;
        let id = key.resource.strip_prefix("key/")?.to_owned();
        let is_ours = self.resource.starts_with("alias/") || self.resource == key.resource;
        let is_here =
            key.partition == self.partition && key.region == self.region && key.account == self.account;
        (is_ours && is_here).then_some(id)
    }
}

impl AwsKey {
    pub(crate) fn open(place: &Place<'_>, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        let arn = Arn::parse(place.rest)
            .ok_or_else(|| bad("it is aws-kms:arn:aws:kms:REGION:ACCOUNT:key/ID, or …:alias/NAME"))?;
        let domain = arn.domain().ok_or_else(|| bad("its partition is none of aws, aws-cn, aws-us-gov"))?;
        let options = place.options(&[&credentials::OPTIONS[..], &["endpoint", "ca"]].concat())?;
        let region = &arn.region;
        Ok(Self {
            name: format!("aws-kms:{}", arn.text()),
            endpoint: Endpoint::of(&format!("kms.{region}.{domain}"), "endpoint", &options)?,
            credentials: Credentials::open(&format!("sts.{region}.{domain}"), &options, variables)?,
            arn,
        })
    }

    /// Asks, and asks again with other credentials when these are over.
    async fn answer(&self, operation: &str, body: &Value) -> Result<Answer, KeyError> {
        let body = body.to_string().into_bytes();
        let answer = self.send(operation, &body).await?;
        if answer.status.is_success() || !is_over(&answer) || !self.credentials.can_change() {
            return Ok(answer);
        }
        self.credentials.forget().await;
        self.send(operation, &body).await
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        operation: &str,
        body: &Value,
    ) -> Result<T, KeyError> {
        let answer = self.answer(operation, body).await?;
        if answer.status.is_success() { answer.json() } else { Err(refusal(&answer)) }
    }

    async fn send(&self, operation: &str, body: &[u8]) -> Result<Answer, KeyError> {
        let keys = self.credentials.get().await?;
        let url = self.endpoint.path("/");
        let host = match (url.host_str().unwrap_or_default(), url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        let target = format!("TrentService.{operation}");
        let mut signed = BTreeMap::from([
            ("content-type", "application/x-amz-json-1.1".to_owned()),
            ("host", host),
            ("x-amz-date", sign::stamp(Utc::now())),
            ("x-amz-target", target),
        ]);
        if let Some(token) = &keys.session {
            signed.insert("x-amz-security-token", token.expose_secret().to_owned());
        }
        let scope = sign::Scope { region: &self.arn.region, service: "kms" };
        let authorization = sign::authorization(&keys, &scope, "POST", "/", &signed, body);
        let mut headers = HeaderMap::new();
        for (name, value) in signed.into_iter().chain([("authorization", authorization)]) {
            let is_bad = |_| KeyError::Refused(format!("its credentials make no header {name:?}"));
            let mut value = HeaderValue::from_str(&value).map_err(is_bad)?;
            value.set_sensitive(matches!(name, "authorization" | "x-amz-security-token"));
            headers.insert(HeaderName::from_static(name), value);
        }
        self.endpoint.http.ask(&Request { method: Method::POST, url, headers, body, is_busy }).await
    }
}

fn failure(answer: &Answer) -> Failure {
    let mut failure: Failure = serde_json::from_slice(&answer.body).unwrap_or_default();
    // Some services put a namespace in front.
    failure.kind = failure.kind.rsplit('#').next().unwrap_or_default().to_owned();
    failure
}

/// KMS says with 400 that it is asked too often.
fn is_busy(answer: &Answer) -> bool {
    matches!(
        failure(answer).kind.as_str(),
        "ThrottlingException"
            | "Throttling"
            | "TooManyRequestsException"
            | "RequestLimitExceeded"
            | "KMSInternalException"
            | "DependencyTimeoutException"
            | "KeyUnavailableException"
    )
}

fn is_over(answer: &Answer) -> bool {
    matches!(
        failure(answer).kind.as_str(),
        "ExpiredTokenException" | "ExpiredToken" | "UnrecognizedClientException" | "InvalidClientTokenId"
    )
}

fn refusal(answer: &Answer) -> KeyError {
    let failure = failure(answer);
    let why = match failure.kind.as_str() {
        "" => return answer.refusal(),
        // What it says about a signature quotes the request with its session token.
        kind @ ("InvalidSignatureException" | "SignatureDoesNotMatch" | "IncompleteSignatureException") => {
            format!("{kind}: the secret key is another one, or this machine's clock is wrong")
        }
        kind => format!("{kind}: {}", told(failure.message.as_bytes())),
    };
    KeyError::Refused(format!("it answers {}: {why}", answer.status))
}

#[async_trait]
impl KeyEncryption for AwsKey {
    fn name(&self) -> &str {
        &self.name
    }

    async fn wrap(&self, context: &str, key: &ClearKey) -> Result<WrappedKey, KeyError> {
        let body = json!({
            "KeyId": self.arn.text(), "Plaintext": STANDARD.encode(key.expose_secret()),
            "EncryptionContext": {CONTEXT: context},
        });
        let Encrypted { ciphertext_blob, key_id } = self.call("Encrypt", &body).await?;
        let version = self.arn.key_of(&key_id).ok_or_else(|| another(&key_id))?;
        let sealed = Sealed { key: key_id, blob: ciphertext_blob };
        let bytes = serde_json::to_vec(&sealed).map_err(|_| not_understood())?;
        Ok(WrappedKey { bytes, version: Some(version) })
    }

    async fn unwrap(&self, context: &str, wrapped: &[u8]) -> Result<ClearKey, KeyError> {
        let sealed = serde_json::from_slice(wrapped);
        let Sealed { key, blob } =
            sealed.map_err(|_| KeyError::Refused("it was not wrapped by a key of AWS".to_owned()))?;
        self.arn.key_of(&key).ok_or_else(|| another(&key))?;
        let body = json!({"KeyId": key, "CiphertextBlob": blob, "EncryptionContext": {CONTEXT: context}});
        let Decrypted { plaintext, key_id } = self.call("Decrypt", &body).await?;
        if key_id != key {
            return Err(another(&key_id));
        }
        clear(STANDARD.decode(plaintext).map_err(|_| not_understood())?)
    }

    async fn version(&self) -> Result<Option<String>, KeyError> {
        let answer = self.answer("DescribeKey", &json!({"KeyId": self.arn.text()})).await?;
        if !answer.status.is_success() {
            // Who may encrypt and decrypt need not be able to describe: it is not noticed where an alias leads.
            let is_forbidden = failure(&answer).kind == "AccessDeniedException";
            return if is_forbidden { Ok(None) } else { Err(refusal(&answer)) };
        }
        let Described { key_metadata: KeyMetadata { arn } } = answer.json()?;
        Ok(Some(self.arn.key_of(&arn).ok_or_else(|| another(&arn))?))
    }
}

fn another(key: &str) -> KeyError {
    KeyError::Refused(format!("another key than the one that is named: {}", told(key.as_bytes())))
}

#[cfg(test)]
mod tests;
