//! Runs of stacks: their Jobs are made once for each number that the console gives, watched, ended and removed.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Namespace, Pod, ResourceQuota, Secret},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use plural_core::ids::StackRunId;
use plural_testkit::{TestCluster, each_cluster, eventually, one_cluster};
use plural_tunnel::v1::{self, stack_run_report::State};
use serde_json::{Value, json};

use crate::fixture::{Fixture, PATIENCE};

each_cluster!(
    a_run_gets_a_job_and_the_secret_that_it_owns,
    what_the_limits_forbid_is_refused_and_never_taken,
    the_account_of_a_job_is_the_projects_to_name,
    a_job_that_has_spoken_and_is_gone_is_told_and_not_made_again,
    killed_before_its_job_was_made_it_takes_another_number,
    a_lost_answer_is_followed_by_another_number,
    killed_before_the_secret_was_there_it_begins_anew,
    killed_before_the_job_was_let_begin_it_goes_on,
    a_run_that_is_to_end_has_its_job_ended,
    a_run_that_is_over_leaves_nothing,
    an_apply_that_is_over_is_told_to_be_gone,
    an_apply_whose_job_went_without_an_agent_is_told_by_the_next_one,
    an_apply_is_not_gone_before_its_pod_is,
    what_an_earlier_agent_left_is_removed,
    another_job_is_made_when_the_console_asks_for_one,
    several_runs_go_on_beside_each_other_and_beside_services,
);
one_cluster!(kubesim, "Only the simulation has images that cannot be pulled.";
    a_pod_that_cannot_begin_is_told_with_its_reason,
);

/// A run that is to plan. Its Pod never begins, on either kind of cluster.
fn waiting_run() -> (StackRunId, v1::StackRunJob) {
    run_with(
        &json!({"annotations": {"test.plural.sh/pod": "pending", "kubesim.plural.sh/ready-after": "1h"}}),
    )
}

fn run_with(spec: &Value) -> (StackRunId, v1::StackRunJob) {
    let id = StackRunId::new();
    let run = v1::StackRunJob {
        id: id.to_string(),
        stack: "network".to_owned(),
        number: 3,
        project: "shop".to_owned(),
        phase: "plan".to_owned(),
        image: "example.org/tofu:1.12".to_owned(),
        job_json: spec.to_string(),
        grace_seconds: 1,
        ..v1::StackRunJob::default()
    };
    (id, run)
}

fn name(id: StackRunId, attempt: u32) -> String {
    format!("plural-run-{}-plan-{attempt}", &id.uuid().simple().to_string()[20..])
}

impl Fixture {
    fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), &self.runs_namespace())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.runs_namespace())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.runs_namespace())
    }

    async fn created(&self, id: StackRunId, attempt: u32) -> anyhow::Result<v1::StackRunReport> {
        // A Pod that ends at once has its Job told as ended, and as nothing before.
        let fits = |report: &v1::StackRunReport| {
            matches!(report.state(), State::Created | State::Ended) && report.attempt == attempt
        };
        self.console.run_report(id, &format!("says that Job {attempt} was made"), fits).await
    }

    async fn job_names(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.jobs().list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect())
    }

    /// Waits until there is neither a Job nor a Secret nor a Pod of a run.
    async fn until_nothing_is_left(&self) {
        eventually(PATIENCE, async || {
            let all = ListParams::default();
            let left = async {
                let of_runs = all.clone().labels("deployments.plural.sh/run");
                anyhow::Ok((
                    self.job_names().await?,
                    self.secrets().list(&of_runs).await?.items.len(),
                    self.pods().list(&of_runs).await?.items.len(),
                ))
            };
            match left.await {
                Ok((jobs, 0, 0)) if jobs.is_empty() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// A namespace for runs with the suspended Job of an agent that was killed when it had just made it.
    async fn half_made(&self, id: StackRunId, attempt: u32) -> anyhow::Result<Job> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = json!({"metadata": {"name": self.runs_namespace()}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        let labels = json!({
            "deployments.plural.sh/run": id.to_string(),
            "deployments.plural.sh/run-agent": self.agent_namespace,
            "deployments.plural.sh/run-phase": "plan",
            "deployments.plural.sh/run-attempt": attempt.to_string(),
        });
        let job = json!({
            "metadata": {"name": name(id, attempt), "labels": labels},
            "spec": {"suspend": true, "backoffLimit": 0, "template": {
                "metadata": {"labels": labels, "annotations": {"test.plural.sh/pod": "pending"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "run", "image": "example.org/tofu:1.12"}]},
            }},
        });
        Ok(self.jobs().create(&PostParams::default(), &serde_json::from_value(job)?).await?)
    }
}

async fn a_run_gets_a_job_and_the_secret_that_it_owns(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, run) = run_with(&json!({"labels": {"team": "a"}}));
    f.console.want_run(run);
    let told = f.created(id, 1).await?;
    assert_eq!(
        (told.namespace.as_str(), told.job.as_str()),
        (f.runs_namespace().as_str(), name(id, 1).as_str())
    );
    assert_eq!((told.phase.as_str(), f.console.takes()), ("plan", vec![0]));

    let job = f.jobs().get(&name(id, 1)).await?;
    assert_eq!(job.labels()["team"], "a");
    assert_eq!(job.labels()["deployments.plural.sh/run"], id.to_string());
    let secret = f.secrets().get(&name(id, 1)).await?;
    let owner = &secret.owner_references()[0];
    assert_eq!((Some(&owner.uid), owner.kind.as_str()), (job.metadata.uid.as_ref(), "Job"));
    let token = secret.data.unwrap_or_default().remove("token").map(|token| token.0);
    assert_eq!(token.as_deref(), Some(b"run-of-attempt-1".as_slice()));
    assert!(!serde_json::to_string(&job)?.contains("run-of-attempt-1"));

    let namespaces: Api<Namespace> = Api::all(f.client.clone());
    let namespace = namespaces.get(&f.runs_namespace()).await?;
    assert_eq!(namespace.labels()["pod-security.kubernetes.io/enforce"], "restricted");
    let quotas: Api<ResourceQuota> = Api::namespaced(f.client.clone(), &f.runs_namespace());
    assert_eq!(quotas.list(&ListParams::default()).await?.items.len(), 1);

    // What confines it lets it begin, and how it ended is told.
    let ended = f.console.run_report(id, "tells the end", |report| report.state() == State::Ended).await?;
    assert_eq!((ended.exit_code, ended.attempt), (0, 1));
    // The agent keeps no credential.
    let kept = std::fs::read(f.folder.path().join(crate::fixture::KEPT))?;
    assert!(!kept.windows(b"run-of-attempt".len()).any(|window| window == b"run-of-attempt"));
    Ok(())
}

async fn what_the_limits_forbid_is_refused_and_never_taken(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let limits = v1::RunLimits { images: vec!["other.example.org/*".to_owned()], ..v1::RunLimits::default() };
    let (foreign, run) = run_with(&json!({}));
    f.console.want_run(v1::StackRunJob { limits: Some(limits), ..run });
    let mut refused = vec![(foreign, "not among the images")];
    for (spec, why) in [
        (json!({"namespace": "kube-system"}), "reserved for Kubernetes"),
        (json!({"namespace": f.agent_namespace}), "the agent's own"),
        (json!({"namespace": f.namespace}), "limits for runs"),
        (json!({"requests": {"nvidia.com/gpu": "1"}}), "nvidia.com/gpu"),
    ] {
        let (id, run) = run_with(&spec);
        f.console.want_run(run);
        refused.push((id, why));
    }
    for (id, why) in refused {
        let told = f.console.run_report(id, why, |report| report.state() == State::Refused).await?;
        assert!(told.message.contains(why), "{} not {why}", told.message);
    }
    assert_eq!(f.console.takes(), Vec::<u32>::new());
    let namespaces: Api<Namespace> = Api::all(f.client.clone());
    assert!(namespaces.get_opt(&f.runs_namespace()).await?.is_none(), "nothing was made for them");
    Ok(())
}

async fn the_account_of_a_job_is_the_projects_to_name(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let limits = v1::RunLimits {
        plan_account: "reader".to_owned(),
        apply_account: "writer".to_owned(),
        ..v1::RunLimits::default()
    };
    let (id, run) = run_with(&json!({"serviceAccount": "admin"}));
    f.console.want_run(v1::StackRunJob { limits: Some(limits.clone()), ..run });
    // On a real cluster its Pod waits for the account, which nobody has made.
    let job =
        eventually(PATIENCE, async || f.jobs().get(&name(id, 1)).await.map_err(|error| error.to_string()))
            .await;
    let pod = job.spec.and_then(|spec| spec.template.spec).unwrap_or_default();
    assert_eq!(pod.service_account_name.as_deref(), Some("reader"));

    // One that names an account for applies alone has none for plans: the stack's is none either.
    let half = v1::RunLimits { plan_account: String::new(), ..limits };
    let (id, run) = run_with(&json!({"serviceAccount": "admin"}));
    f.console.want_run(v1::StackRunJob { limits: Some(half), ..run });
    let told = f.console.run_report(id, "is refused", |report| report.state() == State::Refused).await?;
    assert!(told.message.contains("name no account for the phase plan"), "{}", told.message);
    Ok(())
}

async fn a_job_that_has_spoken_and_is_gone_is_told_and_not_made_again(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, run) = waiting_run();
    f.console.want_run(run);
    f.created(id, 1).await?;
    f.console.change_run(id, |run| run.spoken = true);
    f.console.told_spoken().await;
    f.jobs().delete(&name(id, 1), &DeleteParams::background()).await?;
    let told =
        f.console.run_report(id, "says that it is gone", |report| report.state() == State::Gone).await?;
    assert_eq!((told.attempt, f.console.run(id).attempt), (1, 1));
    assert_eq!(f.job_names().await?, Vec::<String>::new());
    Ok(())
}

async fn killed_before_its_job_was_made_it_takes_another_number(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    // As the console knows it after an agent took it and was killed.
    let (id, run) = waiting_run();
    f.console.want_run(v1::StackRunJob { attempt: 1, ..run });
    f.start().await?;
    f.created(id, 2).await?;
    assert_eq!((f.console.takes(), f.job_names().await?), (vec![1], vec![name(id, 2)]));

    // Killed later, it goes on with the Job that is there.
    f.kill();
    f.folder = tempfile::tempdir()?;
    f.console.memory().run_reports.clear();
    f.start().await?;
    f.created(id, 2).await?;
    assert_eq!((f.console.takes(), f.job_names().await?), (vec![1], vec![name(id, 2)]));
    Ok(())
}

async fn a_lost_answer_is_followed_by_another_number(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.console.memory().lost_takes = 1;
    let (id, run) = waiting_run();
    f.console.want_run(run);
    f.created(id, 2).await?;
    assert_eq!(f.job_names().await?, [name(id, 2)]);
    // It may have asked once more with what it knew, and was refused.
    let takes = f.console.takes();
    assert_eq!((takes.first(), takes.last()), (Some(&0), Some(&1)));
    Ok(())
}

async fn killed_before_the_secret_was_there_it_begins_anew(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    let (id, run) = waiting_run();
    f.half_made(id, 1).await?;
    f.console.want_run(v1::StackRunJob { attempt: 1, ..run });
    f.start().await?;
    f.created(id, 2).await?;
    assert_eq!(f.console.takes(), [1], "the credential of the first is known to nobody");
    eventually(PATIENCE, async || match f.job_names().await {
        Ok(names) if names == [name(id, 2)] => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    Ok(())
}

async fn killed_before_the_job_was_let_begin_it_goes_on(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    let (id, run) = waiting_run();
    let job = f.half_made(id, 1).await?;
    let secret = json!({
        "metadata": {"name": name(id, 1), "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": name(id, 1), "uid": job.metadata.uid}]},
        "stringData": {"token": "run-of-before"},
    });
    f.secrets().create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    f.console.want_run(v1::StackRunJob { attempt: 1, ..run });
    f.start().await?;
    f.created(id, 1).await?;
    assert_eq!(f.console.takes(), Vec::<u32>::new(), "its credential is in the cluster");
    eventually(PATIENCE, async || match f.pods().list(&ListParams::default()).await {
        Ok(pods) if pods.items.len() == 1 => Ok(()),
        other => Err(format!("{:?}", other.map(|pods| pods.items.len()))),
    })
    .await;
    Ok(())
}

async fn a_run_that_is_to_end_has_its_job_ended(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, run) = waiting_run();
    f.console.want_run(run);
    f.created(id, 1).await?;
    f.console.change_run(id, |run| (run.spoken, run.cancel) = (true, true));
    let told =
        f.console.run_report(id, "says that it is gone", |report| report.state() == State::Gone).await?;
    assert!(told.message.contains("as somebody asked"), "{}", told.message);
    assert_eq!(f.job_names().await?, Vec::<String>::new());
    f.console.end_run(id);
    f.until_nothing_is_left().await;
    assert_eq!(f.console.takes(), [0]);
    Ok(())
}

async fn a_run_that_is_over_leaves_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, run) = run_with(&json!({}));
    f.console.want_run(run);
    f.console.run_report(id, "tells the end", |report| report.state() == State::Ended).await?;
    f.console.end_run(id);
    f.until_nothing_is_left().await;
    Ok(())
}

/// The console releases what it held of the state of its stack.
async fn an_apply_that_is_over_is_told_to_be_gone(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, run) = waiting_run();
    f.console.want_run(v1::StackRunJob { phase: "apply".to_owned(), ..run });
    f.created(id, 1).await?;
    // It was not heard of any more, and is over for the console.
    f.console.end_run(id);
    let told =
        f.console.run_report(id, "says that it is gone", |report| report.state() == State::Gone).await?;
    assert_eq!((told.phase.as_str(), told.attempt), ("apply", 1));
    f.until_nothing_is_left().await;
    Ok(())
}

async fn an_apply_whose_job_went_without_an_agent_is_told_by_the_next_one(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (id, run) = waiting_run();
    f.console.want_run(v1::StackRunJob { phase: "apply".to_owned(), ..run });
    f.created(id, 1).await?;
    f.kill();
    let [job] = <[String; 1]>::try_from(f.job_names().await?).unwrap();
    f.jobs().delete(&job, &DeleteParams::background()).await?;
    f.console.end_run(id);
    f.folder = tempfile::tempdir()?;
    f.console.memory().run_reports.clear();
    f.start().await?;
    let told =
        f.console.run_report(id, "says that it is gone", |report| report.state() == State::Gone).await?;
    assert_eq!((told.phase.as_str(), told.attempt), ("apply", 1));
    f.until_nothing_is_left().await;
    Ok(())
}

/// Somebody deletes its Job, which is gone at once, and its Pod takes its time.
async fn an_apply_is_not_gone_before_its_pod_is(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, run) = waiting_run();
    f.console.want_run(v1::StackRunJob { phase: "apply".to_owned(), ..run });
    f.created(id, 1).await?;
    // One that has not spoken would be made again when its Job goes.
    f.console.change_run(id, |run| run.spoken = true);
    f.console.told_spoken().await;
    let of_run = ListParams::default().labels(&format!("deployments.plural.sh/run={id}"));
    let pod = eventually(PATIENCE, async || match f.pods().list(&of_run).await {
        Ok(pods) => pods.items.first().map(ResourceExt::name_any).ok_or_else(|| "no Pod".to_owned()),
        Err(error) => Err(error.to_string()),
    })
    .await;
    let finalizers = |held: Value| Patch::Merge(json!({"metadata": {"finalizers": held}}));
    let somebody = PatchParams::default();
    f.pods().patch(&pod, &somebody, &finalizers(json!(["test.plural.sh/slow"]))).await?;
    let [job] = <[String; 1]>::try_from(f.job_names().await?).unwrap();
    f.jobs().delete(&job, &DeleteParams::background()).await?;
    f.console.end_run(id);

    // Another one that is over after it, and is told to be gone.
    let (other, run) = waiting_run();
    f.console.want_run(v1::StackRunJob { phase: "apply".to_owned(), ..run });
    f.created(other, 1).await?;
    f.console.end_run(other);
    f.console.run_report(other, "says that it is gone", |report| report.state() == State::Gone).await?;
    let is_gone =
        |report: &v1::StackRunReport| report.run_id == id.to_string() && report.state() == State::Gone;
    assert!(!f.console.memory().run_reports.iter().any(is_gone), "its Pod is there");

    f.pods().patch(&pod, &somebody, &finalizers(Value::Null)).await?;
    let told =
        f.console.run_report(id, "says that it is gone", |report| report.state() == State::Gone).await?;
    assert_eq!((told.phase.as_str(), told.attempt), ("apply", 1));
    f.until_nothing_is_left().await;
    Ok(())
}

async fn what_an_earlier_agent_left_is_removed(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    f.half_made(StackRunId::new(), 1).await?;
    f.start().await?;
    f.until_nothing_is_left().await;
    Ok(())
}

async fn another_job_is_made_when_the_console_asks_for_one(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    // One that ends before it has spoken, as where its image has no harness.
    let (id, run) = run_with(&json!({}));
    f.console.want_run(run);
    f.console.run_report(id, "tells the end", |report| report.state() == State::Ended).await?;
    assert_eq!(f.console.takes(), [0], "the console decides whether there is another");
    f.console.change_run(id, |_| {});
    f.created(id, 2).await?;

    // One that spoke, and was not heard of any more.
    let (id, run) = waiting_run();
    f.console.want_run(run);
    f.created(id, 1).await?;
    f.console.change_run(id, |run| run.spoken = true);
    f.console.told_spoken().await;
    f.console.change_run(id, |run| run.spoken = false);
    f.created(id, 2).await?;
    assert_eq!(f.console.run(id).attempt, 2);
    eventually(PATIENCE, async || match f.jobs().get_opt(&name(id, 1)).await {
        Ok(None) => Ok(()),
        other => Err(format!("{:?}", other.map(|job| job.map(|job| job.name_any())))),
    })
    .await;
    Ok(())
}

async fn several_runs_go_on_beside_each_other_and_beside_services(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let mut ids = Vec::new();
    for _ in 0..12 {
        let (id, run) = waiting_run();
        f.console.want_run(run);
        ids.push(id);
    }
    let (service, wanted) = f.service("shop", &[("app/a.yaml", crate::fixture::map("a", "1"))]);
    f.console.want(wanted);
    f.console.applied(service).await?;
    for id in &ids {
        f.created(*id, 1).await?;
    }
    assert_eq!(f.job_names().await?.len(), ids.len());
    for id in ids {
        f.console.end_run(id);
    }
    f.until_nothing_is_left().await;
    assert_eq!(f.map_names().await?, ["a"]);
    Ok(())
}

async fn a_pod_that_cannot_begin_is_told_with_its_reason(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    for (fault, why) in [("ImagePullBackOff", "ImagePullBackOff: "), ("Unschedulable", "Unschedulable: ")] {
        let (id, run) = run_with(&json!({"annotations": {"kubesim.plural.sh/fail": fault}}));
        f.console.want_run(run);
        let told = f.console.run_report(id, why, |report| report.state() == State::Waiting).await?;
        assert!(told.message.starts_with(why), "{}", told.message);
    }
    let (id, run) = run_with(&json!({"annotations": {"kubesim.plural.sh/fail": "JobFailed"}}));
    f.console.want_run(run);
    let told = f.console.run_report(id, "tells the end", |report| report.state() == State::Ended).await?;
    assert_eq!(told.exit_code, 1);
    Ok(())
}
