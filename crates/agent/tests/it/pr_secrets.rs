//! Secrets that automations ask for: written once, never over what is somebody else's, deleted when they are to go.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use plural_core::ids::PullRequestId;
use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_tunnel::v1::{self, secret_outcome::State};

use crate::fixture::{Fixture, KEPT, PATIENCE};

each_cluster!(
    a_secret_is_written_and_kept_nowhere_else,
    a_secret_of_somebody_else_stays_as_it_is,
    what_the_limits_forbid_is_refused,
    a_namespace_that_is_missing_is_waited_for,
    killed_before_it_was_told_it_is_told_by_the_next_agent,
    only_what_is_its_own_is_deleted,
    one_of_an_upgrade_takes_the_place_and_keeps_what_nobody_gave_anew,
    values_that_stay_count_towards_the_size_of_all,
);

const VALUE: &str = "s3cr3t-value-51ad";
const OWNER: &str = "deployments.plural.sh/pull-request";

fn wanted(namespace: &str) -> v1::WantedSecret {
    v1::WantedSecret {
        id: PullRequestId::new().to_string(),
        namespace: namespace.to_owned(),
        name: "db".to_owned(),
        gone: false,
        values: [("password".to_owned(), VALUE.to_owned())].into(),
        limits: Some(v1::ProjectLimits { project: "shop".to_owned(), ..v1::ProjectLimits::default() }),
        previous: String::new(),
        kept: Vec::new(),
    }
}

fn secrets(f: &Fixture, namespace: &str) -> Api<Secret> {
    Api::namespaced(f.client.clone(), namespace)
}

fn password(secret: Secret) -> Option<Vec<u8>> {
    secret.data.unwrap_or_default().remove("password").map(|value| value.0)
}

/// One that somebody made by hand.
async fn foreign(f: &Fixture) -> anyhow::Result<()> {
    let secret = Secret {
        metadata: ObjectMeta { name: Some("db".to_owned()), ..ObjectMeta::default() },
        data: Some([("password".to_owned(), ByteString(b"mine".to_vec()))].into()),
        ..Secret::default()
    };
    secrets(f, &f.namespace).create(&PostParams::default(), &secret).await?;
    Ok(())
}

async fn a_secret_is_written_and_kept_nowhere_else(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let one = wanted(&f.namespace);
    f.console.want_secret(one.clone());
    f.console.secret_told(&one.id, "it is written", |told| told.state() == State::Written).await?;
    let found = secrets(&f, &f.namespace).get("db").await?;
    let labels = found.metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels.get(OWNER), Some(&one.id), "{labels:?}");
    assert_eq!(password(found).as_deref(), Some(VALUE.as_bytes()));
    let kept = f.folder.path().join(KEPT);
    let kept = eventually(PATIENCE, async || std::fs::read(&kept).map_err(|error| error.to_string())).await;
    assert!(!kept.windows(VALUE.len()).any(|window| window == VALUE.as_bytes()), "values are on disk");
    assert!(f.console.memory().secrets.is_empty());
    // A second one is no news of the first, and is written as well.
    let other = v1::WantedSecret { name: "other".to_owned(), ..wanted(&f.namespace) };
    f.console.want_secret(other.clone());
    f.console.secret_told(&other.id, "the other is written", |told| told.state() == State::Written).await?;
    Ok(())
}

async fn a_secret_of_somebody_else_stays_as_it_is(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    foreign(&f).await?;
    let one = wanted(&f.namespace);
    f.console.want_secret(one.clone());
    let told = f.console.secret_told(&one.id, "it is refused", |told| told.state() == State::Waits).await?;
    assert!(
        told.message.contains("is not of this pull request") && !told.message.contains(VALUE),
        "{told:?}"
    );
    let api = secrets(&f, &f.namespace);
    assert_eq!(password(api.get("db").await?).as_deref(), Some(b"mine".as_slice()));
    // Once that is gone, there is room.
    api.delete("db", &DeleteParams::default()).await?;
    f.console.secret_told(&one.id, "it is written", |told| told.state() == State::Written).await?;
    assert_eq!(password(api.get("db").await?).as_deref(), Some(VALUE.as_bytes()));
    Ok(())
}

async fn what_the_limits_forbid_is_refused(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let limited = |change: fn(&mut v1::ProjectLimits)| {
        let mut one = wanted(&f.namespace);
        change(one.limits.as_mut().unwrap());
        one
    };
    let all = [
        (limited(|limits| limits.namespaces = vec!["elsewhere".to_owned()]), "limit namespaces"),
        (limited(|limits| limits.denied_kinds = vec!["/Secret".to_owned()]), "limit deniedKinds"),
        (limited(|limits| limits.require_service_account = true), "limit namespaces"),
        (wanted("kube-system"), "reserved for Kubernetes"),
        (wanted(&f.agent_namespace), "the agent's own"),
    ];
    for (one, _) in &all {
        f.console.want_secret(one.clone());
    }
    for (one, why) in &all {
        let told = f.console.secret_told(&one.id, why, |told| told.state() == State::Waits).await?;
        assert!(told.message.contains(why), "{} not {why}", told.message);
        assert!(secrets(&f, &one.namespace).get_opt("db").await?.is_none(), "{why}");
    }
    Ok(())
}

async fn a_namespace_that_is_missing_is_waited_for(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let name = format!("{}-late", f.namespace);
    let one = wanted(&name);
    f.console.want_secret(one.clone());
    let told = f.console.secret_told(&one.id, "it waits", |told| told.state() == State::Waits).await?;
    assert!(told.message.contains("is not there yet"), "{told:?}");
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    Api::<Namespace>::all(f.client.clone()).create(&PostParams::default(), &namespace).await?;
    f.console.secret_told(&one.id, "it is written", |told| told.state() == State::Written).await?;
    assert_eq!(password(secrets(&f, &name).get("db").await?).as_deref(), Some(VALUE.as_bytes()));
    Ok(())
}

async fn killed_before_it_was_told_it_is_told_by_the_next_agent(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.console.memory().lost_secrets = usize::MAX;
    let one = wanted(&f.namespace);
    f.console.want_secret(one.clone());
    let api = secrets(&f, &f.namespace);
    let uid = eventually(PATIENCE, async || {
        let found = api.get_opt("db").await.ok().flatten();
        found.and_then(|found| found.metadata.uid)
    })
    .await;
    f.kill_and_copy()?;
    f.console.memory().lost_secrets = 0;
    f.start().await?;
    f.console.secret_told(&one.id, "it is written", |told| told.state() == State::Written).await?;
    assert_eq!(api.get("db").await?.metadata.uid, Some(uid), "it was made once");
    Ok(())
}

async fn only_what_is_its_own_is_deleted(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let one = wanted(&f.namespace);
    let gone =
        |one: &v1::WantedSecret| v1::WantedSecret { gone: true, values: BTreeMap::new(), ..one.clone() };
    f.console.want_secret(one.clone());
    f.console.secret_told(&one.id, "it is written", |told| told.state() == State::Written).await?;
    f.console.want_secret(gone(&one));
    f.console.secret_told(&one.id, "it is gone", |told| told.state() == State::Deleted).await?;
    let api = secrets(&f, &f.namespace);
    assert!(api.get_opt("db").await?.is_none());
    // Somebody made another one meanwhile.
    foreign(&f).await?;
    let other = gone(&wanted(&f.namespace));
    f.console.want_secret(other.clone());
    let told = f.console.secret_told(&other.id, "it is left", |told| told.state() == State::Deleted).await?;
    assert!(told.message.contains("left in place"), "{told:?}");
    assert_eq!(password(api.get("db").await?).as_deref(), Some(b"mine".as_slice()));
    Ok(())
}

async fn one_of_an_upgrade_takes_the_place_and_keeps_what_nobody_gave_anew(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let one = wanted(&f.namespace);
    f.console.want_secret(one.clone());
    f.console.secret_told(&one.id, "it is written", |told| told.state() == State::Written).await?;
    let api = secrets(&f, &f.namespace);
    let uid = api.get("db").await?.metadata.uid;
    let given = |name: &str| [(name.to_owned(), "given".to_owned())].into();
    let next = v1::WantedSecret {
        values: given("user"),
        previous: one.id.clone(),
        kept: vec!["password".to_owned()],
        ..wanted(&f.namespace)
    };
    f.console.want_secret(next.clone());
    f.console.secret_told(&next.id, "it is written", |told| told.state() == State::Written).await?;
    let found = api.get("db").await?;
    assert_eq!(found.metadata.uid, uid, "it was there all the time");
    assert_eq!(found.metadata.labels.clone().unwrap_or_default().get(OWNER), Some(&next.id));
    let data = found.data.clone().unwrap_or_default();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["password", "user"]);
    assert_eq!(password(found).as_deref(), Some(VALUE.as_bytes()));
    // What is left out goes; who is not of the one before takes nothing.
    let third = v1::WantedSecret {
        values: given("host"),
        previous: next.id.clone(),
        kept: vec!["user".to_owned()],
        ..wanted(&f.namespace)
    };
    let stranger =
        v1::WantedSecret { id: PullRequestId::new().to_string(), previous: one.id, ..third.clone() };
    f.console.want_secret(stranger.clone());
    let told = f.console.secret_told(&stranger.id, "it waits", |told| told.state() == State::Waits).await?;
    assert!(told.message.contains("is not of this pull request"), "{told:?}");
    f.console.memory().secrets.clear();
    f.console.want_secret(third.clone());
    f.console.secret_told(&third.id, "it is written", |told| told.state() == State::Written).await?;
    let data = api.get("db").await?.data.unwrap_or_default();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["host", "user"]);
    // Without the one that has them, nothing is made of half of the values.
    api.delete("db", &DeleteParams::default()).await?;
    let last = v1::WantedSecret { previous: third.id, ..next };
    let last = v1::WantedSecret { id: PullRequestId::new().to_string(), ..last };
    f.console.want_secret(last.clone());
    let told = f.console.secret_told(&last.id, "it waits", |told| told.state() == State::Waits).await?;
    assert!(told.message.contains("make it again with password"), "{told:?}");
    assert!(api.get_opt("db").await?.is_none());
    Ok(())
}

async fn values_that_stay_count_towards_the_size_of_all(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let large = |name: &str| [(name.to_owned(), "x".repeat(300 << 10))].into();
    let one = v1::WantedSecret { values: large("password"), ..wanted(&f.namespace) };
    f.console.want_secret(one.clone());
    f.console.secret_told(&one.id, "it is written", |told| told.state() == State::Written).await?;
    let next = v1::WantedSecret {
        values: large("user"),
        previous: one.id.clone(),
        kept: vec!["password".to_owned()],
        ..wanted(&f.namespace)
    };
    f.console.want_secret(next.clone());
    let told = f.console.secret_told(&next.id, "it waits", |told| told.state() == State::Waits).await?;
    assert!(told.message.contains("more than 512 KiB with the values that stay"), "{told:?}");
    let found = secrets(&f, &f.namespace).get("db").await?;
    assert_eq!(found.metadata.labels.clone().unwrap_or_default().get(OWNER), Some(&one.id));
    // Without the other value there is room.
    let third = v1::WantedSecret { kept: Vec::new(), id: PullRequestId::new().to_string(), ..next };
    f.console.memory().secrets.clear();
    f.console.want_secret(third.clone());
    f.console.secret_told(&third.id, "it is written", |told| told.state() == State::Written).await?;
    let data = secrets(&f, &f.namespace).get("db").await?.data.unwrap_or_default();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["user"]);
    Ok(())
}
