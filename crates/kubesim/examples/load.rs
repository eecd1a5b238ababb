//! How many server-side applies a second one simulated cluster takes: `load [SECONDS] [CONNECTIONS]`.
//!
//! Half of them create a ConfigMap or change it, half apply a Deployment again unchanged, as agents do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use plural_kubesim::{ClusterOptions, Sim};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(5), |s| s.parse())?;
    let connections: u64 = args.next().map_or(Ok(32), |s| s.parse())?;
    let mut options = ClusterOptions::named("load");
    options.tls = false;
    options.workloads = false;
    let cluster = Sim::new()?.cluster(options).await?;
    let base = format!("{}/", cluster.url());
    let token = format!("Bearer {}", cluster.admin_token());
    let done = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for c in 0..connections {
        let (base, token, done) = (base.clone(), token.clone(), done.clone());
        tasks.spawn(async move {
            let client: Client<_, Full<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
            let mut n = 0u64;
            while Instant::now() < end {
                let name = format!("o-{c}-{}", n / 4 % 100);
                let (path, body) = if n.is_multiple_of(2) {
                    let data = json!({"a": n.to_string(), "b": "x".repeat(200)});
                    let labels = json!({"app": name, "team": "load"});
                    let o = json!({"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": name, "labels": labels}, "data": data});
                    (format!("api/v1/namespaces/default/configmaps/{name}"), o)
                } else {
                    let pod = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [
                        {"name": "main", "image": "example.com/app:1", "ports": [{"containerPort": 80}],
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}});
                    let o = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": pod}});
                    (format!("apis/apps/v1/namespaces/default/deployments/{name}"), o)
                };
                let request = http::Request::patch(format!("{base}{path}?fieldManager=load"))
                    .header("authorization", &token)
                    .header("content-type", "application/apply-patch+yaml")
                    .body(Full::from(body.to_string()));
                let Ok(request) = request else { return Err("bad request".to_owned()) };
                let answer = client.request(request).await.map_err(|e| e.to_string())?;
                let status = answer.status();
                let body = answer.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
                if !status.is_success() {
                    return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
                }
                done.fetch_add(1, Ordering::Relaxed);
                n += 1;
            }
            Ok(())
        });
    }
    while let Some(r) = tasks.join_next().await {
        r??;
    }
    let n = done.load(Ordering::Relaxed);
    println!("{n} applies in {seconds} s from {connections} connections: {}/s", n / seconds.max(1));
    cluster.stop().await;
    Ok(())
}
