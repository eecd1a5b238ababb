//! What only Gitea itself can show: webhooks that it signs.

use std::time::Duration;

use plural_scm::{
    HostKind, Scope, WebhookSpec,
    webhook::{self, HintKind},
};
use plural_testkit::{Deliveries, eventually};
use secrecy::SecretString;

use crate::support::World;

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
    let hint = eventually(Duration::from_mins(1), || {
        let seen = deliveries.seen();
        let last = &secrets[1];
        async move {
            seen.iter()
                .filter_map(|(headers, body)| webhook::read(HostKind::Gitea, headers, body, last).unwrap())
                .find(|hint| hint.kind == HintKind::PullRequest && hint.number == Some(number))
        }
    })
    .await;
    assert_eq!(hint.repository, world.repository.to_string());
    assert_eq!(hint.head, Some(pull.head_commit));
    for (headers, body) in deliveries.seen() {
        assert!(webhook::read(HostKind::Gitea, &headers, &body, &secrets[0]).is_err());
    }
}
