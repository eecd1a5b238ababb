//! What only Gitea itself can show: webhooks that it signs.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use plural_scm::{Scope, WebhookSpec};
use plural_testkit::{Deliveries, eventually};
use reqwest::header::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::World;

/// Whether a delivery is signed as the console wants one of Gitea to be.
fn is_signed(headers: &HeaderMap, body: &[u8], secret: &SecretString) -> bool {
    let signature =
        headers.get("x-gitea-signature").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()).unwrap().chain_update(body);
    mac.verify_slice(&hex::decode(signature).unwrap()).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_proven_by_the_secret_that_was_set_last() {
    let Some(world) = World::real() else { return };
    let deliveries = Deliveries::start().unwrap();
    let url = format!("http://{}/", deliveries.address());
    let secrets = ["first", "second"].map(SecretString::from);
    for secret in &secrets {
        let spec = WebhookSpec { url: url.clone(), secret: secret.clone() };
        world.host.ensure_webhook(&Scope::Repository(world.repository.clone()), &spec).await.unwrap();
    }
    let pull = world.pull_request("hooked").await;
    let number = pull.number;
    let told = eventually(Duration::from_mins(1), || {
        let seen = deliveries.seen();
        async move {
            let mut bodies = seen.iter().filter_map(|(_, body)| serde_json::from_slice::<Value>(body).ok());
            bodies.find(|body| body["pull_request"]["number"] == json!(number))
        }
    })
    .await;
    assert_eq!(told["repository"]["full_name"], world.repository.to_string());
    assert_eq!(told["pull_request"]["head"]["sha"], pull.head_commit);
    for (headers, body) in deliveries.seen() {
        assert!(is_signed(&headers, &body, &secrets[1]));
        assert!(!is_signed(&headers, &body, &secrets[0]));
    }
}
