//! What only the simulation has: outages, faults, audit, forgetting, many clusters.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::authentication::v1::{
    TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec, TokenReviewStatus,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job};
use kube::api::{
    Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::KubeConfigOptions;
use kube::{Client, Config, ResourceExt};
use plural_kubesim::{Cluster, ClusterOptions, Fault, Kubelet, Sim, User};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

fn quick(name: &str) -> ClusterOptions {
    let mut o = ClusterOptions::named(name);
    o.pod_ready_after = Duration::from_millis(20);
    o.job_runs_for = Duration::from_millis(20);
    o
}

async fn cluster() -> Cluster {
    Sim::new().unwrap().cluster(quick("test")).await.unwrap()
}

async fn client_for(config: &str) -> Client {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(config).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.read_timeout = Some(Duration::from_secs(2));
    Client::try_from(config).unwrap()
}

async fn client(c: &Cluster) -> Client {
    client_for(&c.kubeconfig()).await
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..Default::default() }, ..Default::default() }
}

async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(v) = probe().await {
            return v;
        }
        assert!(start.elapsed() < SOON, "never: {what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_outage_cuts_and_refuses_and_keeps_objects() {
    let c = cluster().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&c).await);
    api.create(&PostParams::default(), &map("a")).await.unwrap();
    let mut watch = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    watch.try_next().await.unwrap();
    c.set_available(false);
    while let Some(Ok(_)) = watch.next().await {}
    assert!(api.get("a").await.is_err());
    c.set_available(true);
    eventually("back", async || api.get("a").await.ok()).await;
    c.stop().await;
}

#[tokio::test]
async fn a_token_for_others_is_none_for_the_api_server() {
    let c = cluster().await;
    let client = client(&c).await;
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let metadata = ObjectMeta { name: Some("deployer".into()), ..Default::default() };
    let account = ServiceAccount { metadata, ..Default::default() };
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let made = async |audiences: Option<&str>| {
        let audiences = audiences.map(|audience| vec![audience.to_owned()]);
        let spec = Some(TokenRequestSpec { audiences, ..Default::default() });
        let asked = TokenRequest { spec, ..Default::default() };
        let made = accounts.create_token_request("deployer", &PostParams::default(), &asked).await.unwrap();
        made.status.unwrap().token.unwrap()
    };
    let reviewed = async |token: &str, audience: Option<&str>| -> TokenReviewStatus {
        let audiences = audience.map(|audience| vec![audience.to_owned()]);
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let asked = TokenReview { spec, ..Default::default() };
        let reviews: Api<TokenReview> = Api::all(client.clone());
        reviews.create(&PostParams::default(), &asked).await.unwrap().status.unwrap()
    };
    let (own, vault) = (made(None).await, made(Some("vault")).await);
    for (token, audience, good) in [
        (&own, None, true),
        (&own, Some("vault"), false),
        (&vault, Some("vault"), true),
        (&vault, Some("another"), false),
        (&vault, None, false),
    ] {
        let status = reviewed(token, audience).await;
        assert_eq!(status.authenticated == Some(true), good, "{audience:?}: {status:?}");
    }
    let status = reviewed(&vault, Some("vault")).await;
    assert_eq!(status.audiences, Some(vec!["vault".to_owned()]));
    let user = status.user.and_then(|user| user.username);
    assert_eq!(user.as_deref(), Some("system:serviceaccount:default:deployer"));
    let maps = async |token: &str| {
        let api: Api<ConfigMap> = Api::default_namespaced(client_for(&c.kubeconfig_for(token)).await);
        api.list(&ListParams::default()).await.unwrap_err().to_string()
    };
    // The own one says who asks, who may not; the other one says nothing.
    assert!(maps(&own).await.contains("deployer"));
    assert!(maps(&vault).await.contains("Unauthorized"));
    c.stop().await;
}

#[tokio::test]
async fn faults_hit_what_they_name_as_often_as_they_say() {
    let c = cluster().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&c).await);
    let fault = Fault::Status { code: 500, message: "broken on purpose".into() };
    c.faults().inject(fault, Some(2), |r| r.verb == "create" && r.resource == "configmaps");
    for _ in 0..2 {
        let e = api.create(&PostParams::default(), &map("a")).await.unwrap_err();
        assert!(e.to_string().contains("broken on purpose"), "{e}");
        api.list(&ListParams::default()).await.unwrap();
    }
    api.create(&PostParams::default(), &map("a")).await.unwrap();

    c.faults().inject(Fault::Drop, Some(1), |r| r.verb == "delete");
    assert!(api.delete("a", &DeleteParams::default()).await.is_err());
    assert_eq!(c.count("", "configmaps"), 5);
    c.faults().inject(Fault::DropAfter, Some(1), |r| r.verb == "delete");
    assert!(api.delete("a", &DeleteParams::default()).await.is_err());
    assert_eq!(c.count("", "configmaps"), 4);

    c.faults().inject(Fault::Hang, None, |r| r.verb == "list");
    let hung = tokio::time::timeout(Duration::from_millis(300), api.list(&ListParams::default())).await;
    assert!(hung.is_err());
    c.faults().clear();
    api.list(&ListParams::default()).await.unwrap();
}

#[tokio::test]
async fn requests_are_counted_by_verb_resource_and_user() {
    let c = cluster().await;
    c.add_token("of-jane", User::new("jane", &["system:masters"]));
    let jane: Api<ConfigMap> = Api::default_namespaced(client_for(&c.kubeconfig_for("of-jane")).await);
    let admin: Api<ConfigMap> = Api::default_namespaced(client(&c).await);
    jane.create(&PostParams::default(), &map("a")).await.unwrap();
    admin.get("a").await.unwrap();
    admin.get("a").await.unwrap();
    assert_eq!(c.audit().count(|k| k.user == "jane" && k.verb == "create" && k.resource == "configmaps"), 1);
    assert_eq!(c.audit().count(|k| k.user == "admin" && k.verb == "get"), 2);
    assert_eq!(c.audit().writes(), 1);
    c.audit().reset();
    assert!(c.audit().counts().is_empty());
    assert!(c.revoke_token("of-jane"));
    let e = jane.get("a").await.unwrap_err();
    assert!(matches!(&e, kube::Error::Api(s) if s.code == 401), "{e}");
}

#[tokio::test]
async fn what_is_forgotten_answers_410() {
    let c = cluster().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&c).await);
    for n in ["a", "b", "c"] {
        api.create(&PostParams::default(), &map(n)).await.unwrap();
    }
    let page = api.list(&ListParams::default().limit(1)).await.unwrap();
    api.create(&PostParams::default(), &map("d")).await.unwrap();
    c.compact();
    let token = page.metadata.continue_.clone().unwrap();
    let e = api.list(&ListParams::default().limit(1).continue_token(&token)).await.unwrap_err();
    assert!(matches!(&e, kube::Error::Api(s) if s.code == 410 && s.reason == "Expired"), "{e}");
    let old = page.metadata.resource_version.unwrap();
    let mut watch = api.watch(&WatchParams::default(), &old).await.unwrap().boxed();
    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Error(e)) => assert_eq!((e.code, e.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn bookmarks_move_a_quiet_watch_forward() {
    let mut o = quick("test");
    o.bookmark_every = Duration::from_millis(30);
    let c = Sim::new().unwrap().cluster(o).await.unwrap();
    let client = client(&c).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let start = pods.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = pods.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let wanted = c.revision();
    loop {
        match watch.try_next().await.unwrap().expect("the watch ended") {
            WatchEvent::Bookmark(b) if b.metadata.resource_version.parse::<u64>().unwrap() >= wanted => break,
            WatchEvent::Bookmark(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn deployment(name: &str, fail: &str) -> Deployment {
    serde_json::from_value(
        json!({"metadata": {"name": name, "annotations": {"kubesim.plural.sh/fail": fail}},
        "spec": {"replicas": 2, "progressDeadlineSeconds": 1, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}}),
    )
    .unwrap()
}

#[tokio::test]
async fn failures_are_injected_by_annotation() {
    let c = cluster().await;
    let client = client(&c).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for (fail, reason) in [("ImagePullBackOff", "ImagePullBackOff"), ("CrashLoop", "CrashLoopBackOff")] {
        let name = fail.to_lowercase();
        deployments.create(&PostParams::default(), &deployment(&name, fail)).await.unwrap();
        eventually(fail, async || {
            let list = pods.list(&ListParams::default().labels(&format!("app={name}"))).await.unwrap();
            let waiting = |p: &Pod| -> Option<String> {
                p.status
                    .as_ref()?
                    .container_statuses
                    .as_ref()?
                    .first()?
                    .state
                    .as_ref()?
                    .waiting
                    .as_ref()?
                    .reason
                    .clone()
            };
            (list.items.len() == 2 && list.iter().all(|p| waiting(p).as_deref() == Some(reason)))
                .then_some(())
        })
        .await;
    }
    deployments.create(&PostParams::default(), &deployment("stuck", "Unschedulable")).await.unwrap();
    eventually("progress deadline", async || {
        let d = deployments.get("stuck").await.unwrap();
        let conditions = d.status.and_then(|s| s.conditions).unwrap_or_default();
        conditions.iter().any(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded")).then_some(())
    })
    .await;
    let jobs: Api<Job> = Api::default_namespaced(client);
    let job: Job = serde_json::from_value(json!({"metadata": {"name": "j", "annotations": {"kubesim.plural.sh/fail": "JobFailed"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}))
    .unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    eventually("the job to fail", async || {
        let conditions = jobs.get("j").await.unwrap().status.and_then(|s| s.conditions).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Failed" && c.status == "True").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_job_waits_for_the_end_of_its_pods_where_it_says_so() {
    let c = cluster().await;
    let client = client(&c).await;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    for (policy, expected) in [("Failed", 1), ("TerminatingOrFailed", 2)] {
        let name = policy.to_lowercase();
        // They never begin, and a finalizer keeps those that are deleted.
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": {"kubesim.plural.sh/fail": "Unschedulable"}},
            "spec": {"podReplacementPolicy": policy, "template": {
                "metadata": {"finalizers": ["example.org/held"]},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}))
        .unwrap();
        jobs.create(&PostParams::default(), &job).await.unwrap();
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
        let pod = eventually("a Pod", async || {
            pods.list(&of_job).await.unwrap().items.first().map(ResourceExt::name_any)
        })
        .await;
        pods.delete(&pod, &DeleteParams::default()).await.unwrap();
        eventually("the Job to see it", async || {
            let status = jobs.get(&name).await.unwrap().status.unwrap_or_default();
            (status.terminating == Some(1)).then_some(())
        })
        .await;
        assert_eq!(pods.list(&of_job).await.unwrap().items.len(), expected, "{policy}");
    }
}

#[tokio::test]
async fn workloads_of_every_kind_get_ready() {
    let c = cluster().await;
    let client = client(&c).await;
    let template = |name: &str| json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let objects = [
        (
            "apps/v1",
            "statefulsets",
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"},
            "spec": {"replicas": 2, "serviceName": "s", "selector": {"matchLabels": {"app": "s"}}, "template": template("s"),
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}}]}}),
        ),
        (
            "apps/v1",
            "daemonsets",
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template("d")}}),
        ),
        (
            "batch/v1",
            "jobs",
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"completions": 2, "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i:1"}]}}}}),
        ),
    ];
    for (gv, plural, o) in &objects {
        let request = http::Request::post(format!("/apis/{gv}/namespaces/default/{plural}"))
            .header("content-type", "application/json")
            .body(o.to_string().into_bytes())
            .unwrap();
        client.request::<Value>(request).await.unwrap();
    }
    let read = async |path: &str| -> Value {
        client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
    };
    eventually("statefulset", async || {
        let s = read("/apis/apps/v1/namespaces/default/statefulsets/s").await;
        (s["status"]["readyReplicas"] == 2 && s["status"]["currentRevision"] == s["status"]["updateRevision"])
            .then_some(())
    })
    .await;
    let claim = read("/api/v1/namespaces/default/persistentvolumeclaims/data-s-1").await;
    assert_eq!(claim["status"]["phase"], "Bound");
    eventually("daemonset", async || {
        let d = read("/apis/apps/v1/namespaces/default/daemonsets/d").await;
        (d["status"]["numberReady"] == 1).then_some(())
    })
    .await;
    eventually("job", async || {
        let j = read("/apis/batch/v1/namespaces/default/jobs/j").await;
        (j["status"]["succeeded"] == 2 && j["status"]["completionTime"].is_string()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clusters_are_apart_and_cheap() {
    let sim = Sim::new().unwrap();
    let one = sim.cluster(quick("one")).await.unwrap();
    let before = resident();
    let mut many = Vec::new();
    for i in 0..200 {
        many.push(sim.cluster(quick(&format!("c{i}"))).await.unwrap());
    }
    let each = resident().saturating_sub(before) / many.len();
    assert!(each < 200_000, "{each} bytes per cluster");
    let a: Api<ConfigMap> = Api::default_namespaced(client(&one).await);
    let b: Api<ConfigMap> = Api::default_namespaced(client(&many[7]).await);
    a.create(&PostParams::default(), &map("x")).await.unwrap();
    assert!(b.get_opt("x").await.unwrap().is_none());
    // The token of one opens no other.
    let stranger = many[7].kubeconfig_for(one.admin_token());
    let e = Api::<ConfigMap>::default_namespaced(client_for(&stranger).await).get("x").await.unwrap_err();
    assert!(matches!(&e, kube::Error::Api(s) if s.code == 401), "{e}");
    for c in &many {
        c.stop().await;
    }
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn a_stopped_cluster_frees_its_port() {
    let sim = Sim::new().unwrap();
    let c = sim.cluster(quick("a")).await.unwrap();
    let address = c.url().trim_start_matches("https://").parse().unwrap();
    c.stop().await;
    let mut again = quick("b");
    again.bind = address;
    let d = sim.cluster(again.clone()).await.unwrap();
    let e = sim.cluster(again).await.unwrap_err();
    assert!(e.to_string().contains("cannot listen on"), "{e}");
    d.stop().await;
}

#[tokio::test]
async fn plain_http_applies_too() {
    let mut o = quick("plain");
    o.tls = false;
    let c = Sim::new().unwrap().cluster(o).await.unwrap();
    assert!(c.url().starts_with("http://"));
    let api: Api<ConfigMap> = Api::default_namespaced(client(&c).await);
    let patch =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let made = api.patch("a", &PatchParams::apply("me"), &Patch::Apply(&patch)).await.unwrap();
    assert_eq!(made.name_any(), "a");
    assert_eq!(made.metadata.managed_fields.unwrap().len(), 1);
}

#[tokio::test]
async fn a_pod_of_another_kubelet_is_left_to_it() {
    let c = cluster().await;
    let decided = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&decided);
    c.ask_for_kubelet(move |pod| match pod["metadata"]["labels"]["whose"].as_str() {
        Some("other") => Kubelet::Other,
        // Nobody knows for a while.
        Some("asked") if !seen.load(std::sync::atomic::Ordering::Relaxed) => Kubelet::Undecided,
        _ => Kubelet::Simulated,
    });
    let pods: Api<Pod> = Api::default_namespaced(client(&c).await);
    for whose in ["other", "asked", "simulated"] {
        let pod = json!({
            "metadata": {"name": whose, "labels": {"whose": whose}},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let phase = async |name: &str| pods.get(name).await.unwrap().status.and_then(|status| status.phase);
    eventually("runs", async || phase("simulated").await.filter(|phase| phase == "Running")).await;
    for name in ["other", "asked"] {
        assert_ne!(phase(name).await.as_deref(), Some("Running"), "{name}");
        assert!(pods.get(name).await.unwrap().spec.unwrap().node_name.is_some(), "{name} is bound");
    }
    decided.store(true, std::sync::atomic::Ordering::Relaxed);
    eventually("runs", async || phase("asked").await.filter(|phase| phase == "Running")).await;

    // Its deletion waits for that kubelet, too.
    let status = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}});
    pods.patch_status("other", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    pods.delete("other", &DeleteParams::default()).await.unwrap();
    pods.delete("simulated", &DeleteParams::default()).await.unwrap();
    eventually("gone", async || pods.get_opt("simulated").await.unwrap().is_none().then_some(())).await;
    assert!(pods.get("other").await.unwrap().metadata.deletion_timestamp.is_some());
    pods.delete("other", &DeleteParams::default().grace_period(0)).await.unwrap();
    eventually("gone", async || pods.get_opt("other").await.unwrap().is_none().then_some(())).await;
    c.stop().await;
}
