//! The tables that the simulation is built on (`data/` of its crate), compared with what the real server publishes.

use plural_testkit::{TestCluster, run_case};
use serde_json::Value;

use super::support::{Api, api};

/// Takes out prose and what the simulation does not carry. A reference may stand alone or in an `allOf`.
fn bare(v: &Value) -> Value {
    if let Some([only]) = v.get("allOf").and_then(Value::as_array).map(Vec::as_slice)
        && let (Some(m), Some(r)) = (v.as_object(), only.get("$ref"))
    {
        let mut m = m.clone();
        m.remove("allOf");
        m.insert("$ref".into(), r.clone());
        return bare(&m.into());
    }
    match v {
        Value::Object(m) => m
            .iter()
            .filter(|(k, v)| !(*k == "description" && v.is_string()) && *k != "x-kubernetes-unions")
            .map(|(k, v)| (k.clone(), bare(v)))
            .collect(),
        Value::Array(l) => l.iter().map(bare).collect(),
        other => other.clone(),
    }
}

async fn schemas(a: &Api, path: &str) -> serde_json::Map<String, Value> {
    let doc = a.get(&format!("/openapi/v3/{path}")).await.expect(200);
    bare(&doc["components"]["schemas"]).as_object().unwrap().clone()
}

#[test]
fn schemas_are_those_of_the_real_server() {
    run_case(async {
        let Some(real) = TestCluster::real_or_report().await else { return };
        let sim = TestCluster::kubesim().await.unwrap();
        let (real, sim) = (api(&real).await, api(&sim).await);
        let index = sim.get("/openapi/v3").await.expect(200);
        let mut compared = 0;
        for path in index["paths"].as_object().unwrap().keys() {
            let (ours, theirs) = (schemas(&sim, path).await, schemas(&real, path).await);
            for (name, mut schema) in ours {
                let Some(mut wanted) = theirs.get(&name).cloned() else { continue };
                if name.ends_with(".DeleteOptions") || name.ends_with(".WatchEvent") {
                    // These list every group of their server.
                    for s in [&mut schema, &mut wanted] {
                        s.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind");
                    }
                }
                assert_eq!(
                    schema, wanted,
                    "{path}: {name}; take data/schemas.json from the real server again"
                );
                compared += 1;
            }
        }
        assert!(compared > 400, "only {compared} schemas were compared");
    });
}

#[test]
fn resources_are_those_of_the_real_server() {
    run_case(async {
        let Some(real) = TestCluster::real_or_report().await else { return };
        let sim = TestCluster::kubesim().await.unwrap();
        let (real, sim) = (api(&real).await, api(&sim).await);
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let mut compared = 0;
        for path in ["/api", "/apis"] {
            let theirs = real.get_as(path, accept).await.expect(200);
            let ours = sim.get_as(path, accept).await.expect(200);
            for group in ours["items"].as_array().unwrap() {
                let same = |g: &&Value| g["metadata"]["name"] == group["metadata"]["name"];
                let wanted = theirs["items"].as_array().unwrap().iter().find(same).unwrap();
                for version in group["versions"].as_array().unwrap() {
                    let same = |v: &&Value| v["version"] == version["version"];
                    let wanted = wanted["versions"].as_array().unwrap().iter().find(same).unwrap();
                    for resource in version["resources"].as_array().unwrap() {
                        let same = |r: &&Value| r["resource"] == resource["resource"];
                        let mut wanted =
                            wanted["resources"].as_array().unwrap().iter().find(same).unwrap().clone();
                        let mut resource = resource.clone();
                        // The real server leaves out names that are the resource's own.
                        for r in [&mut resource, &mut wanted] {
                            r.as_object_mut().unwrap().remove("responseKind");
                            for s in r["subresources"].as_array_mut().into_iter().flatten() {
                                s.as_object_mut().unwrap().remove("responseKind");
                            }
                            if r["subresources"].is_null() {
                                r.as_object_mut().unwrap().remove("subresources");
                            }
                        }
                        assert_eq!(resource, wanted);
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 50, "only {compared} resources were compared");
    });
}
