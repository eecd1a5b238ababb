//! The small node: what Kubernetes starts on it runs.
//!
//! Each case has a control plane of its own: a node is seen by all who share one.

use std::time::Duration;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, Secret},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use plural_testkit::{
    eventually,
    node::{Node, NodeOptions, TAINT},
    real::RealCluster,
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);

async fn node(client: Client) -> anyhow::Result<Node> {
    let options =
        NodeOptions { name: "here".to_owned(), entry_point: "/bin/sh".into(), path: "/usr/bin:/bin".into() };
    Node::start(client, options).await
}

/// A Job of one try whose Pod comes to the node.
fn job(name: &str, spec: Value) -> Job {
    let mut pod = spec;
    pod["restartPolicy"] = "Never".into();
    pod["nodeSelector"] = json!({TAINT: "here"});
    pod["tolerations"] = json!([{"key": TAINT, "operator": "Exists"}]);
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }))
    .unwrap()
}

/// The one Pod of a Job, once it is as wanted.
async fn pod_of(pods: &Api<Pod>, job: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
    eventually(PATIENCE, async || {
        let found = pods.list(&of_job).await.map_err(|error| error.to_string())?;
        let pod = found.items.into_iter().next().ok_or("there is none")?;
        if wanted(&pod) { Ok(pod) } else { Err(format!("{:?}", pod.status)) }
    })
    .await
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn exit_code(pod: &Pod) -> Option<i32> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    Some(statuses.first()?.state.as_ref()?.terminated.as_ref()?.exit_code)
}

#[tokio::test]
async fn a_job_runs_as_processes() -> anyhow::Result<()> {
    let Some(cluster) = RealCluster::start_or_report().await? else { return Ok(()) };
    let client = cluster.client().await?;
    let node = node(client.clone()).await?;
    let (jobs, pods): (Api<Job>, Api<Pod>) =
        (Api::namespaced(client.clone(), "default"), Api::namespaced(client.clone(), "default"));
    let secrets: Api<Secret> = Api::namespaced(client, "default");

    // It waits for its Secret.
    let mounts = json!([{"name": "work", "mountPath": "/scratch"}, {"name": "keys", "mountPath": "/keys"}]);
    let spec = json!({
        "volumes": [{"name": "work", "emptyDir": {}}, {"name": "keys", "secret": {"secretName": "given"}}],
        "initContainers": [{"name": "first", "image": "any", "volumeMounts": mounts,
            "args": ["-c", "cat /keys/word > \"$0\"", "/scratch/file"]}],
        "containers": [{"name": "then", "image": "any", "volumeMounts": mounts,
            "command": ["/bin/sh", "-c"], "args": ["cat \"$FILE\"; echo $WORD $POD; test \"$(cat \"$FILE\")\" = \"$WORD\" && exit 3"],
            "env": [
                {"name": "FILE", "value": "/scratch/file"},
                {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "given", "key": "word"}}},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ]}],
    });
    jobs.create(&PostParams::default(), &job("one", spec)).await?;
    pod_of(&pods, "one", |pod| format!("{:?}", pod.status).contains("is not there")).await;
    let given =
        serde_json::from_value(json!({"metadata": {"name": "given"}, "stringData": {"word": "hello"}}))?;
    secrets.create(&PostParams::default(), &given).await?;
    let pod = pod_of(&pods, "one", |pod| phase(pod) == "Failed").await;
    assert_eq!(exit_code(&pod), Some(3), "{:?}\n{}", pod.status, node.logs());
    assert!(node.logs().contains(&format!("hello {}", pod.name_any())), "{}", node.logs());
    eventually(PATIENCE, async || {
        let job = jobs.get("one").await.map_err(|error| error.to_string())?;
        job.status
            .and_then(|status| status.failed)
            .filter(|failed| *failed == 1)
            .ok_or("not failed".to_owned())
    })
    .await;

    node.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_pod_that_is_deleted_gets_sigterm_and_its_grace() -> anyhow::Result<()> {
    let Some(cluster) = RealCluster::start_or_report().await? else { return Ok(()) };
    let client = cluster.client().await?;
    let node = node(client.clone()).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let jobs: Api<Job> = Api::namespaced(client, "default");
    // One hears it and says so; what it left in a session of its process group's own is killed. The other hears nothing.
    let hears = "trap 'echo heard; exit 0' TERM; sleep 3600 & echo ready; wait";
    let deaf = "trap '' TERM; echo ready; while :; do sleep 3600; done";
    for (name, script, grace) in [("hears", hears, 600), ("deaf", deaf, 1)] {
        let spec = json!({
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": name, "image": "any", "args": ["-c", script]}],
        });
        jobs.create(&PostParams::default(), &job(name, spec)).await?;
        let pod = pod_of(&pods, name, |pod| phase(pod) == "Running").await;
        let log = format!("{}/containers/{name}/setsid.log", pod.name_any());
        eventually(PATIENCE, async || {
            let logs = node.logs();
            if logs.contains(&format!("== {log}\nready")) { Ok(()) } else { Err(logs) }
        })
        .await;
        jobs.delete(name, &DeleteParams::background()).await?;
        eventually(PATIENCE, async || match pods.get_opt(&pod.name_any()).await {
            Ok(None) => Ok(()),
            Ok(Some(pod)) => Err(format!("{:?}", pod.metadata)),
            Err(error) => Err(error.to_string()),
        })
        .await;
    }
    assert_eq!(node.logs().matches("heard").count(), 1, "{}", node.logs());
    node.stop().await;
    Ok(())
}
