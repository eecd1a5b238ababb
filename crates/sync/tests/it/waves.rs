//! Phases, waves and hooks.

use std::time::Duration;

use plural_core::specs::Seconds;
use plural_render::Object;
use plural_sync::{Engine, Outcome, Phase, ProgressStep, Request, Retry};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use crate::fixture::{Fixture, PATIENCE, config_map, deployment, object, options, service};

each_cluster!(
    a_wave_waits_for_the_health_of_the_one_before,
    kinds_alone_do_not_wait_for_each_other,
    a_wave_may_choose_not_to_be_waited_for,
    a_wave_that_takes_too_long_is_told,
    phases_run_in_order,
    a_hook_runs_once_until_its_manifest_changes,
    finished_hooks_are_deleted_as_they_ask,
    a_failed_hook_stops_the_sync_and_runs_sync_fail,
    a_hook_that_never_ends_is_told,
    helm_tests_run_only_when_asked_for,
    a_job_that_deletes_itself_is_not_made_again,
    an_agent_restarted_between_waves_goes_on,
);

pub(crate) fn annotated(mut object: Object, annotations: Value) -> Object {
    object.value["metadata"]["annotations"] = annotations;
    object
}

fn wave(object: Object, wave: i32) -> Object {
    annotated(object, json!({"argocd.argoproj.io/sync-wave": wave.to_string()}))
}

/// A Deployment whose Pod never becomes ready.
pub(crate) fn stuck(name: &str) -> Object {
    let mut found = deployment(name);
    found.value["spec"]["template"]["metadata"]["annotations"] =
        json!({"test.plural.sh/pod": "pending", "kubesim.plural.sh/ready-after": "3600s"});
    found
}

/// A Job that ends: well, badly, or never.
pub(crate) fn job(name: &str, end: &str, annotations: Value) -> Object {
    let pod = match end {
        "badly" => json!({"test.plural.sh/pod": "failed", "kubesim.plural.sh/fail": "JobFailed"}),
        "never" => json!({"test.plural.sh/pod": "pending", "kubesim.plural.sh/ready-after": "3600s"}),
        _ => json!({}),
    };
    annotated(
        object(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": pod}, "spec": {
                "restartPolicy": "Never", "containers": [{"name": "run", "image": "example.org/run:1"}]}}}})),
        annotations,
    )
}

impl Fixture {
    /// Syncs until `done`, whenever something happened or the time that the engine named has come.
    pub(crate) async fn sync_until(
        &self,
        objects: &[Object],
        done: impl Fn(&Outcome) -> bool,
    ) -> anyhow::Result<Outcome> {
        let mut last = self.sync(objects.to_vec()).await;
        let wait = async {
            while !done(&last) {
                let soon = match last.retry {
                    Retry::Soon => Duration::from_millis(200),
                    Retry::After(wait) => wait,
                    Retry::Later | Retry::OnChange => Duration::from_hours(1),
                };
                let _ = tokio::time::timeout(soon, self.engine.changes()).await;
                last = self.sync(objects.to_vec()).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.map_err(|_| {
            anyhow::anyhow!("not reached; the last sync says {:?}", self.engine.components(self.target.id))
        })?;
        Ok(last)
    }

    pub(crate) async fn complete(&self, objects: &[Object]) -> anyhow::Result<Outcome> {
        self.sync_until(objects, |outcome| outcome.progress.step == ProgressStep::Complete).await
    }

    /// How often objects of a resource were created, by name.
    pub(crate) fn created(&self, resource: &str, name: &str) -> anyhow::Result<usize> {
        let writes = self.cluster.writes(&self.namespace)?;
        Ok(writes.iter().filter(|w| w.resource == resource && w.name == name && w.code == 201).count())
    }
}

async fn a_wave_waits_for_the_health_of_the_one_before(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let objects =
        [wave(config_map("late", "1"), 1), wave(stuck("web"), 0), wave(config_map("early", "1"), -1)];
    let outcome = f.sync(objects.to_vec()).await;
    assert_eq!(outcome.progress.step, ProgressStep::Waiting, "{outcome:?}");
    assert_eq!((outcome.progress.wave, outcome.progress.waves, outcome.progress.waves_done), (0, 3, 1));
    assert_eq!(outcome.progress.waiting_for[0].0.name, "web");
    assert!(!outcome.applied && outcome.problems.is_empty(), "{outcome:?}");
    assert_eq!(f.config_map_names().await?, ["early"]);
    // Asked again and again, nothing else happens.
    let again = f.sync(objects.to_vec()).await;
    assert_eq!((again.changed, again.unchanged), (0, 2), "{again:?}");

    let objects = [objects[0].clone(), wave(deployment("web"), 0), objects[2].clone()];
    let outcome = f.complete(&objects).await?;
    assert!(outcome.applied, "{outcome:?}");
    assert_eq!(f.config_map_names().await?, ["early", "late"]);

    // What was brought in is put right at once, whatever its health.
    f.meddle(&f.config_maps(), "late", json!({"data": {"key": "evil"}})).await?;
    f.settle(&objects, |outcome| outcome.changed == 1).await?;
    Ok(())
}

async fn kinds_alone_do_not_wait_for_each_other(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let outcome = f.sync(vec![service("web"), stuck("web"), config_map("a", "1")]).await;
    assert!(outcome.applied && outcome.changed == 3, "{outcome:?}");
    assert_eq!(outcome.progress.step, ProgressStep::Complete);
    let components = f.engine.components(f.target.id);
    let waves: Vec<(&str, i32)> =
        components.iter().map(|found| (found.key.kind.kind.as_str(), found.wave)).collect();
    assert_eq!(waves, [("ConfigMap", 1), ("Service", 3), ("Deployment", 2)]);
    Ok(())
}

async fn a_wave_may_choose_not_to_be_waited_for(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let web = annotated(
        stuck("web"),
        json!({"deployment.plural.sh/sync-wave": "0", "deployment.plural.sh/sync-wave-wait": "false"}),
    );
    let outcome = f.sync(vec![wave(config_map("late", "1"), 1), web]).await;
    assert!(outcome.applied, "{outcome:?}");

    f.target = crate::fixture::target("other", &f.namespace);
    f.target.config.policy.wave_wait = false;
    let outcome = f.sync(vec![wave(config_map("late-2", "1"), 1), wave(stuck("web-2"), 0)]).await;
    assert!(outcome.applied, "{outcome:?}");
    Ok(())
}

async fn a_wave_that_takes_too_long_is_told(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let web = annotated(
        stuck("web"),
        json!({"deployment.plural.sh/sync-wave": "0", "deployment.plural.sh/sync-wave-timeout": "1s"}),
    );
    let objects = [wave(config_map("late", "1"), 1), web];
    let outcome = f.sync_until(&objects, |outcome| outcome.progress.step == ProgressStep::Failed).await?;
    assert!(outcome.problems[0].message.contains("is not ready after 1s"), "{outcome:?}");
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());
    // It goes on as soon as it can.
    let objects = [objects[0].clone(), wave(deployment("web"), 0)];
    f.complete(&objects).await?;
    Ok(())
}

async fn phases_run_in_order(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let objects = [
        job("after", "well", json!({"helm.sh/hook": "post-install,post-upgrade"})),
        deployment("web"),
        job("before", "well", json!({"deployment.plural.sh/sync-hook": "pre-sync"})),
        annotated(config_map("never", "1"), json!({"argocd.argoproj.io/hook": "Skip"})),
    ];
    let first = f.sync(objects.to_vec()).await;
    assert_eq!(first.progress.phase, Some(Phase::PreSync), "{first:?}");
    assert_eq!(first.progress.step, ProgressStep::Waiting);
    let outcome = f.complete(&objects).await?;
    assert!(outcome.applied, "{outcome:?}");
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());
    let writes = f.cluster.writes(&f.namespace)?;
    let at = |name: &str| writes.iter().position(|w| w.name == name && w.code == 201).expect(name);
    assert!(at("before") < at("web") && at("web") < at("after"), "{writes:?}");
    let hooks = &outcome.progress.hooks;
    assert!(hooks.iter().all(|hook| hook.succeeded == Some(true)) && hooks.len() == 2, "{hooks:?}");
    Ok(())
}

async fn a_hook_runs_once_until_its_manifest_changes(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let mut migrate = job("migrate", "well", json!({"argocd.argoproj.io/hook": "PreSync"}));
    let objects = [migrate.clone(), config_map("a", "1")];
    f.complete(&objects).await?;
    assert_eq!(f.created("jobs", "migrate")?, 1);
    // Another change does not run it again, nor does a new agent, nor its deletion.
    f.complete(&[migrate.clone(), config_map("a", "2")]).await?;
    f.restart().await?;
    f.complete(&[migrate.clone(), config_map("a", "3")]).await?;
    let jobs = f.api("batch/v1", "Job", "jobs");
    jobs.delete("migrate", &kube::api::DeleteParams::background()).await?;
    let gone = async || jobs.get_opt("migrate").await.is_ok_and(|found| found.is_none());
    plural_testkit::eventually(PATIENCE, gone).await;
    f.complete(&[migrate.clone(), config_map("a", "4")]).await?;
    assert_eq!(f.created("jobs", "migrate")?, 1);
    assert!(f.component("migrate").unwrap().synced);

    migrate.value["spec"]["template"]["spec"]["containers"][0]["image"] = "example.org/run:2".into();
    f.complete(&[migrate.clone(), config_map("a", "4")]).await?;
    assert_eq!(f.created("jobs", "migrate")?, 2);
    // A person may ask for it; and changed once more, the old Job has to go first.
    f.target.request = Some(Request { id: "r1".to_owned(), repeat_hooks: true, ..Request::default() });
    let outcome = f.complete(&[migrate.clone(), config_map("a", "4")]).await?;
    assert_eq!(outcome.request_done.as_deref(), Some("r1"));
    f.restart().await?;
    let outcome = f.complete(&[migrate, config_map("a", "4")]).await?;
    assert_eq!(outcome.request_done.as_deref(), Some("r1"));
    assert_eq!(f.created("jobs", "migrate")?, 3);
    Ok(())
}

async fn finished_hooks_are_deleted_as_they_ask(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let hook = |name: &str, policy: &str| {
        job(name, "well", json!({"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": policy}))
    };
    let objects = [hook("goes", "hook-succeeded"), hook("stays", "hook-failed"), config_map("a", "1")];
    f.complete(&objects).await?;
    let jobs = f.api("batch/v1", "Job", "jobs");
    let gone = async || jobs.get_opt("goes").await.is_ok_and(|found| found.is_none());
    plural_testkit::eventually(PATIENCE, gone).await;
    assert!(jobs.get_opt("stays").await?.is_some());
    f.sync(objects.to_vec()).await;
    assert_eq!((f.created("jobs", "goes")?, f.created("jobs", "stays")?), (1, 1));
    assert!(f.component("goes").unwrap().synced);
    Ok(())
}

async fn a_failed_hook_stops_the_sync_and_runs_sync_fail(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let objects = [
        job("migrate", "badly", json!({"argocd.argoproj.io/hook": "PreSync"})),
        job("alarm", "well", json!({"argocd.argoproj.io/hook": "SyncFail"})),
        config_map("a", "1"),
    ];
    let alarmed = |outcome: &Outcome| {
        outcome.progress.hooks.iter().any(|h| h.key.name == "alarm" && h.succeeded == Some(true))
    };
    let outcome = f.sync_until(&objects, alarmed).await?;
    assert_eq!(outcome.progress.step, ProgressStep::Failed, "{outcome:?}");
    assert!(outcome.problems[0].message.contains("migrate"), "{outcome:?}");
    assert_eq!(outcome.problems[0].part, plural_sync::Part::Hook);
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());
    f.restart().await?;
    f.sync_until(&objects, alarmed).await?;
    assert_eq!((f.created("jobs", "migrate")?, f.created("jobs", "alarm")?), (1, 1));

    // Mended, it goes on; what is not wanted any more goes as well.
    let objects = [
        job("migrate", "well", json!({"argocd.argoproj.io/hook": "PreSync"})),
        objects[1].clone(),
        objects[2].clone(),
    ];
    f.complete(&objects).await?;
    assert_eq!(f.config_map_names().await?, ["a"]);
    Ok(())
}

async fn a_hook_that_never_ends_is_told(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    f.target.config.policy.wave_timeout = Some(Seconds(1));
    let objects = [job("hangs", "never", json!({"helm.sh/hook": "pre-upgrade"})), config_map("a", "1")];
    let outcome = f.sync_until(&objects, |outcome| outcome.progress.step == ProgressStep::Failed).await?;
    assert!(outcome.problems[0].message.contains("hangs"), "{outcome:?}");
    assert!(outcome.problems[0].message.contains("the hook has not ended yet"), "{outcome:?}");
    assert_eq!(f.created("jobs", "hangs")?, 1);
    assert_eq!(f.config_map_names().await?, Vec::<String>::new());
    Ok(())
}

async fn helm_tests_run_only_when_asked_for(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let objects = [job("smoke", "well", json!({"helm.sh/hook": "test"})), config_map("a", "1")];
    f.complete(&objects).await?;
    assert_eq!(f.created("jobs", "smoke")?, 0);
    for round in 1..=2 {
        f.target.request = Some(Request { id: format!("r{round}"), run_tests: true, ..Request::default() });
        let outcome = f.complete(&objects).await?;
        assert_eq!(outcome.request_done, Some(format!("r{round}")));
    }
    assert_eq!(f.created("jobs", "smoke")?, 2);
    f.complete(&objects).await?;
    assert!(f.component("smoke").is_some());
    Ok(())
}

async fn a_job_that_deletes_itself_is_not_made_again(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let mut once = job("once", "well", json!({}));
    once.value["spec"]["ttlSecondsAfterFinished"] = 0.into();
    let objects = [once, config_map("a", "1")];
    f.complete(&objects).await?;
    let jobs = f.api("batch/v1", "Job", "jobs");
    let gone = async || jobs.get_opt("once").await.is_ok_and(|found| found.is_none());
    plural_testkit::eventually(PATIENCE, gone).await;
    for _ in 0..3 {
        f.restart().await?;
        f.complete(&objects).await?;
    }
    assert_eq!(f.created("jobs", "once")?, 1);
    Ok(())
}

async fn an_agent_restarted_between_waves_goes_on(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let objects = [
        job("migrate", "well", json!({"argocd.argoproj.io/hook": "PreSync"})),
        wave(deployment("web"), 0),
        wave(config_map("late", "1"), 1),
    ];
    f.sync(objects.to_vec()).await;
    for _ in 0..3 {
        f.engine = Engine::start(f.client.clone(), options(&f.agent_namespace)).await?;
        f.sync(objects.to_vec()).await;
    }
    f.complete(&objects).await?;
    assert_eq!(f.created("jobs", "migrate")?, 1);
    assert_eq!(f.config_map_names().await?, ["late"]);
    Ok(())
}
