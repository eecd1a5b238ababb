//! Governances of pull requests: services of operators that are called over HTTP.

use std::{net::IpAddr, time::Duration};

use async_trait::async_trait;
use hmac::{Hmac, KeyInit as _, Mac as _};
use plural_app::ports::governances::{GovernanceAnswer, GovernanceCall, Governances};
use plural_reach::{Guard, Reach};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

/// How long a governance may take to answer, all of it.
const ANSWER: Duration = Duration::from_secs(20);
/// Bytes that are read of an answer.
const MAX_ANSWER: usize = 64 << 10;
/// Characters of a failure that are told.
const TOLD: usize = 200;

/// The adapter.
pub(crate) struct HttpGovernances {
    reach: Reach,
    client: reqwest::Client,
}

impl HttpGovernances {
    /// One that connects to nothing out of reach.
    pub(crate) fn new(reach: Reach) -> Result<Self, reqwest::Error> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent("plural-console")
            .connect_timeout(Duration::from_secs(10))
            .timeout(ANSWER)
            .pool_idle_timeout(Duration::from_secs(20))
            // What is signed for one place is not carried to another.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .dns_resolver(Guard::new(reach))
            .build()?;
        Ok(Self { reach, client })
    }
}

#[async_trait]
impl Governances for HttpGovernances {
    fn check(&self, url: &str) -> Result<(), String> {
        let url = Url::parse(url).map_err(|_| "is no address".to_owned())?;
        // A literal address is connected to without being looked up.
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        match host.parse::<IpAddr>().map(|literal| self.reach.check(literal)) {
            Ok(Err(why)) => Err(format!("the host {why}, which this console does not connect to")),
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }

    async fn call(&self, call: GovernanceCall) -> Result<GovernanceAnswer, String> {
        let GovernanceCall { url, secret, verb, delivery, body } = call;
        // It may have been kept by a console that reached more.
        self.check(&url)?;
        let at = chrono::Utc::now().timestamp().to_string();
        let mut request = self
            .client
            .post(format!("{}/v1/{}", url.trim_end_matches('/'), verb.as_str()))
            .header("content-type", "application/json")
            .header("x-plural-delivery", delivery)
            .header("x-plural-timestamp", &at);
        if let Some(secret) = &secret {
            let signature = sign(secret, &at, &body)?;
            request = request.header("x-plural-signature-256", format!("sha256={signature}"));
        }
        let mut answer = request.body(body).send().await.map_err(|error| told(&error))?;
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| told(&error))? {
            if body.len() + piece.len() > MAX_ANSWER {
                return Err(format!("it answered {status} with more than {} KiB", MAX_ANSWER >> 10));
            }
            body.extend_from_slice(&piece);
        }
        Ok(GovernanceAnswer { status, body })
    }
}

/// The signature of the time, a full stop and the body.
fn sign(secret: &SecretString, at: &str, body: &[u8]) -> Result<String, String> {
    let mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes());
    let mac = mac.map_err(|_| "its secret cannot be used".to_owned())?;
    Ok(hex::encode(mac.chain_update(at).chain_update(".").chain_update(body).finalize().into_bytes()))
}

/// What failed, without the address, which the one who reads it need not know.
fn told(error: &reqwest::Error) -> String {
    let mut text = "it does not answer".to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text.chars().take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_out_of_reach_are_refused() {
        let governances = HttpGovernances::new(Reach::Private).unwrap();
        for url in ["http://169.254.169.254/x", "https://127.0.0.1", "https://[::1]:8443/"] {
            assert!(governances.check(url).unwrap_err().contains("does not connect to"), "{url}");
        }
        governances.check("https://governance.example.com").unwrap();
    }

    #[test]
    fn a_signature_is_of_the_time_too() {
        let secret = SecretString::from("0123456789abcdef");
        let one = sign(&secret, "1700000000", b"{}").unwrap();
        assert_eq!(one.len(), 64);
        assert_ne!(one, sign(&secret, "1700000001", b"{}").unwrap());
        assert_ne!(one, sign(&secret, "1700000000", b"{ }").unwrap());
    }
}
