//! Outputs of a stack in the objects of a service: from the apply of the one to a ConfigMap of the other.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::DeleteParams};
use plural_testkit::{TestDatabase, each_database, eventually, one_database, program_or_report};
use serde_json::json;

use super::world::{PATIENCE, World};

each_database!(
    outputs_land_in_objects_on_a_simulated_cluster,
    a_context_takes_outputs_and_its_service_follows_them,
);
one_database!(
    sqlite,
    "the cluster is what is different here: the simulated one has each database";
    outputs_land_in_objects_on_a_real_control_plane
);

const NAMESPACE: &str = "shop";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: given}\ndata:\n  \
    word: {{ imports[\"infra\"][\"word\"] }}\n  \
    second: {{ imports[\"infra\"][\"zones\"][1] | upcase }}\n  \
    size: \"{{ imports.infra.hidden | size }}\"\n";

fn configuration(word: &str) -> String {
    format!(
        "resource \"terraform_data\" \"one\" {{\n  input = \"{word}\"\n}}\n\n\
         output \"word\" {{\n  value = terraform_data.one.output\n}}\n\n\
         output \"zones\" {{\n  value = [\"a\", \"b\"]\n}}\n\n\
         output \"hidden\" {{\n  value     = \"s3cr3t-{word}\"\n  sensitive = true\n}}\n"
    )
}

async fn outputs_land_in_objects_on_a_simulated_cluster(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    outputs(World::simulated(&database).await?).await
}

async fn outputs_land_in_objects_on_a_real_control_plane(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    outputs(world).await
}

/// Waits until the ConfigMap holds this.
async fn holds(world: &World, maps: &Api<ConfigMap>, word: &str, size: usize) {
    eventually(PATIENCE, async || {
        let map = maps.get("given").await.map_err(|error| format!("{error}; {}", world.agent.log()))?;
        let data = map.data.unwrap_or_default();
        let is_so = data.get("word").is_some_and(|found| found == word)
            && data.get("second").is_some_and(|found| found == "B")
            && data.get("size").is_some_and(|found| *found == size.to_string());
        is_so.then_some(()).ok_or_else(|| format!("{data:?}"))
    })
    .await;
}

async fn outputs(mut world: World) -> anyhow::Result<()> {
    world.place.namespace(NAMESPACE).await?;
    world
        .remote
        .push_files([("infra/main.tf", configuration("one")), ("app/map.yaml.liquid", MAP.to_owned())])?;
    let stack = world.stack("TERRAFORM", "infra", json!({"manageState": true})).await?;
    let run = world.planned(&stack, None).await;

    let create = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $c, attributes: $a) { id } }";
    let attributes = json!({
        "name": "app", "namespace": NAMESPACE, "repositoryId": world.repository,
        "git": {"ref": "main", "folder": "app"}, "imports": [{"stackId": stack}],
        "syncConfig": {"createNamespace": false},
    });
    let made = world.admin.data(create, json!({"c": world.cluster, "a": attributes})).await?;
    let service = made["createServiceDeployment"]["id"].as_str().unwrap_or_default().to_owned();
    let errors = "query ($id: ID) { serviceDeployment(id: $id) { errors { source message } } }";
    // Nothing is applied yet: the service says what it waits for.
    eventually(PATIENCE, async || {
        let told = world.admin.data(errors, json!({"id": service})).await;
        let told = told.map_err(|error| format!("{error:#}"))?.to_string();
        let names_it = told.contains("infra") && told.contains("word") && told.contains("no output");
        names_it.then_some(()).ok_or(told)
    })
    .await;

    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    let maps: Api<ConfigMap> = Api::namespaced(world.place.client().await?, NAMESPACE);
    holds(&world, &maps, "one", "s3cr3t-one".len()).await;

    // A change of the stack alone changes the service's objects.
    let second = world.remote.push_files([("infra/main.tf", configuration("second"))])?;
    let run = world.planned(&stack, Some(&second)).await;
    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    holds(&world, &maps, "second", "s3cr3t-second".len()).await;

    // An agent that begins anew knows what it was given.
    world.agent.kill();
    maps.delete("given", &DeleteParams::default()).await?;
    world.agent.restart()?;
    holds(&world, &maps, "second", "s3cr3t-second".len()).await;

    let shown = world.plural("cd services describe blue/app").await?;
    assert!(shown.contains("Imports:") && shown.contains("infra"), "{shown}");
    assert!(!shown.contains("s3cr3t"), "{shown}");

    // What lost an output keeps what runs, and says so.
    let less = configuration("second").replace("output \"word\"", "output \"other\"");
    let third = world.remote.push_files([("infra/main.tf", less)])?;
    let run = world.planned(&stack, Some(&third)).await;
    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    eventually(PATIENCE, async || {
        let told = world.admin.data(errors, json!({"id": service})).await;
        let told = told.map_err(|error| format!("{error:#}"))?.to_string();
        let names_it = told.contains("no output") && told.contains("other, zones");
        names_it.then_some(()).ok_or(told)
    })
    .await;
    holds(&world, &maps, "second", "s3cr3t-second".len()).await;
    world.end();
    Ok(())
}

const TAKEN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: given}\ndata:\n  \
    word: {{ contexts.infra.given }}\n  \
    second: {{ contexts.infra.zones[1] | upcase }}\n  \
    size: \"{{ contexts.infra.hidden | size }}\"\n";

/// The same by a context: it shows none of the outputs, and its service is rendered anew when they change.
async fn a_context_takes_outputs_and_its_service_follows_them(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let world = World::simulated(&database).await?;
    world.place.namespace(NAMESPACE).await?;
    world
        .remote
        .push_files([("infra/main.tf", configuration("one")), ("app/map.yaml.liquid", TAKEN.to_owned())])?;
    let stack = world.stack("TERRAFORM", "infra", json!({"manageState": true})).await?;
    let run = world.planned(&stack, None).await;

    let save =
        "mutation ($a: ServiceContextAttributes!) { saveServiceContext(name: \"infra\", attributes: $a) {
        id configuration imports { name output sensitive stack { id } } } }";
    let imports = json!([
        {"stackId": stack, "output": "word", "name": "given"}, {"stackId": stack, "output": "zones"},
        {"stackId": stack, "output": "hidden", "sensitive": true},
    ]);
    let attributes = json!({"configuration": {"given": "none"}, "imports": imports});
    let saved = world.admin.data(save, json!({"a": attributes})).await?["saveServiceContext"].clone();
    assert_eq!(saved["imports"][2]["stack"]["id"], json!(stack), "{saved}");

    // Before the first apply the key of the document stands there; what has none is missing, and the service says so.
    let create = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $c, attributes: $a) { id } }";
    let attributes = json!({
        "name": "app", "namespace": NAMESPACE, "repositoryId": world.repository,
        "git": {"ref": "main", "folder": "app"}, "contextBindings": [{"contextId": saved["id"]}],
        "syncConfig": {"createNamespace": false},
    });
    let made = world.admin.data(create, json!({"c": world.cluster, "a": attributes})).await?;
    let service = made["createServiceDeployment"]["id"].as_str().unwrap_or_default().to_owned();
    let errors = "query ($id: ID) { serviceDeployment(id: $id) { errors { source message } } }";
    eventually(PATIENCE, async || {
        let told = world.admin.data(errors, json!({"id": service})).await;
        let told = told.map_err(|error| format!("{error:#}"))?.to_string();
        told.contains("zones").then_some(()).ok_or(told)
    })
    .await;

    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    let maps: Api<ConfigMap> = Api::namespaced(world.place.client().await?, NAMESPACE);
    holds(&world, &maps, "one", "s3cr3t-one".len()).await;
    // The service gets its first revision before the first commit is fetched: by now what it holds is of its newest.
    let revision = "query ($id: ID) { serviceDeployment(id: $id) { revision { id } } }";
    let settled = world.admin.data(revision, json!({"id": service})).await?;

    let second = world.remote.push_files([("infra/main.tf", configuration("second"))])?;
    let run = world.planned(&stack, Some(&second)).await;
    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    holds(&world, &maps, "second", "s3cr3t-second".len()).await;
    assert_eq!(
        world.admin.data(revision, json!({"id": service})).await?,
        settled,
        "outputs are no part of a revision"
    );

    // Nobody is shown a value by the context, the sensitive one least of all.
    let read = "query { serviceContext(name: \"infra\") { configuration secretNames imports { name output sensitive } } }";
    let shown = world.admin.data(read, json!({})).await?.to_string()
        + &world.plural("cd contexts get infra -o json").await?;
    assert!(shown.contains("hidden") && !shown.contains("s3cr3t") && !shown.contains("second"), "{shown}");
    world.end();
    Ok(())
}
