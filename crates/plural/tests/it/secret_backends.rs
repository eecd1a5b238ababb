//! The secret values of a project in Vault, moved there and back by the command line, while an agent renders them.
//!
//! Vault and OpenBao cannot be built where these tests run: a server stands in that was written from their public descriptions.

use std::{fs, process::Command};

use plural_testkit::{TestCluster, TransitServer, each_cluster, eventually};
use plural_wire::ServiceDeploymentAttributes;
use serde_json::{Value, json};

use crate::{
    asker::Asker,
    proxy_world::Said,
    world::{PATIENCE, World, attributes, value},
};

each_cluster!(values_are_rendered_wherever_they_are_kept);

const FILLED: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ service.name }}"}
data: {key: "{{ configuration.password }}"}
"#;

async fn plural(w: &World, token: &str, line: &str) -> anyhow::Result<Said> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plural"));
    command
        .args(line.split(' '))
        .env_clear()
        .env("HOME", w.folder.path())
        .env("PLURAL_CONSOLE_URL", &w.console.url)
        .env("PLURAL_CONSOLE_TOKEN", token)
        .current_dir(w.folder.path());
    crate::proxy_world::run(command, None).await
}

async fn values_are_rendered_wherever_they_are_kept(cluster: TestCluster) -> anyhow::Result<()> {
    let vault = TransitServer::start()?;
    let folder = tempfile::tempdir()?;
    let jwt = folder.path().join("jwt");
    fs::write(&jwt, vault.jwt())?;
    let place = vault.kv_place(&format!("auth=kubernetes&role=plural&token_file={}", jwt.display()));
    let mut w = World::with_config(cluster, |config| config.secret_backend = vec![place]).await?;
    w.start_agent().await?;
    let admin = Asker::administrator(&w.console.url).await?;
    w.remote.push_files([("app/a.yaml.liquid", FILLED)])?;
    let id = w
        .person
        .service_of(
            &w.registered,
            ServiceDeploymentAttributes {
                configuration: Some(vec![value("password", "canary-one")]),
                ..attributes("app", &w.namespace, &w.repository, "main", "app")
            },
        )
        .await?;
    w.until_value("app", "canary-one").await;

    let refused = plural(&w, &admin.token, "cd projects secret-backend default kubernetes --yes").await?;
    assert!(refused.code == Some(1) && refused.err.contains("--secret-backend"), "{refused:?}");
    for (backend, value) in [("vault", "canary-two"), ("database", "canary-three")] {
        let line = format!("cd projects secret-backend default {backend} --yes");
        let moved = plural(&w, &admin.token, &line).await?;
        assert!(moved.code == Some(0) && moved.out.contains(backend), "{moved:?}");
        eventually(PATIENCE, async || {
            let line = "cd projects secret-backend default -o json";
            let told = plural(&w, &admin.token, line).await.map_err(|error| format!("{error:#}"))?;
            let storage: Value =
                serde_json::from_str(&told.out).map_err(|error| format!("{error}: {told:?}"))?;
            let is_there =
                storage["waiting"] == 0 && storage["kept"][0]["backend"] == *backend.to_uppercase();
            if is_there { Ok(()) } else { Err(storage.to_string()) }
        })
        .await;
        let update = "mutation ($id: ID, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }";
        let secret = json!({"mergeConfiguration": [{"name": "password", "value": value}]});
        admin.data(update, json!({"id": id, "a": secret})).await?;
        w.until_value("app", value).await;
        let held = plural(&w, &admin.token, "cd projects secrets default -o wide").await?;
        assert!(
            held.out.lines().any(|line| line.contains("configuration") && line.contains(backend)),
            "{held:?}"
        );
    }
    let kept = vault.kept();
    assert!(!kept.is_empty(), "what is not named any more is there for an hour");
    for (path, data) in kept {
        assert!(!data.to_string().contains("canary"), "{path}: {data}");
    }
    w.end().await
}
