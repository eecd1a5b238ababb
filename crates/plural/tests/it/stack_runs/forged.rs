//! Jobs that no agent made for a run: the runner of a simulated cluster starts none of their programs.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, Secret},
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use plural_testkit::{TestDatabase, eventually, one_database};
use serde_json::{Value, json};

use super::{
    place::harnesses,
    world::{PATIENCE, World},
};

one_database!(sqlite, "no run is in the database"; jobs_that_no_agent_made_run_nothing_of_their_own);

/// A run that the console does not know.
const RUN: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

/// A Job in the form of an agent's, with this program.
fn job(name: &str, command: &str, args: &[&str]) -> Value {
    let labels = json!({"deployments.plural.sh/run": RUN, "app.kubernetes.io/managed-by": "plural-agent"});
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "run", "image": "any", "command": [command], "args": args, "env": [
                {"name": "PLURAL_RUN_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": "token"}}},
            ]}],
        }}},
    })
}

async fn jobs_that_no_agent_made_run_nothing_of_their_own(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    let client = world.place.client().await?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let mark = world.home.path().join("touched");
    let touch = format!("touch {}", mark.display());
    let (url, elsewhere) = (world.console.url(), "http://127.0.0.1:1");
    let harness = |url: &str| ["harness", "--console-url", url, "--run", RUN].map(str::to_owned);
    for (name, command, args) in [
        ("shell", "/bin/sh", vec!["-c".to_owned(), touch]),
        ("elsewhere", "plural", harness(elsewhere).to_vec()),
        // All of it is right but the credential: the console knows of no such run.
        ("forged", "plural", harness(&url).to_vec()),
    ] {
        let secret =
            json!({"metadata": {"name": name}, "stringData": {"token": format!("run-{}", "a".repeat(64))}});
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        jobs.create(&PostParams::default(), &serde_json::from_value(job(name, command, &args))?).await?;
    }
    let ended = async |name: &str| {
        eventually(PATIENCE, async || {
            let status = jobs.get(name).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            match (status.succeeded, status.failed) {
                (None | Some(0), None | Some(0)) => Err(format!("{name}: {status:?} {}", world.place.logs())),
                (succeeded, failed) => Ok((succeeded.unwrap_or(0), failed.unwrap_or(0))),
            }
        })
        .await
    };
    // Simulated: a Job's Pod ends well there, and nothing has run.
    assert_eq!(ended("shell").await, (1, 0));
    assert_eq!(ended("elsewhere").await, (1, 0));
    assert!(!mark.exists());
    // Sent away by the console.
    assert_eq!(ended("forged").await, (0, 1));
    let of_job = ListParams::default().labels("batch.kubernetes.io/job-name=forged");
    let pod = pods.list(&of_job).await?.items.into_iter().next();
    let statuses = pod.and_then(|pod| pod.status?.container_statuses).unwrap_or_default();
    let terminated = statuses.into_iter().next().and_then(|status| status.state?.terminated);
    assert_eq!(terminated.map(|ended| ended.exit_code), Some(2), "{}", world.place.logs());
    assert!(harnesses(RUN).is_empty());
    world.end();
    Ok(())
}
