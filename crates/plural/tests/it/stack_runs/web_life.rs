//! Two stacks of which one depends on the other, from the wizard of the web console to their end, in a real browser, driven by
//! `ui/tests/stack_life.mjs`: their outputs in the objects of a service, drift that is found and mended, a destruction in order. On a real
//! control plane, with the tool itself.

use std::path::Path;

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{Api, api::PostParams};
use plural_testkit::{TestDatabase, each_database, one_database, program_or_report};
use serde_json::{Value, json};

use super::{
    chain::{APP, HIDDEN, MAP, NAMESPACE, SCRIPT, holds, made_by_a_provider},
    drift::{NOTE, mirror},
    world::World,
};
use crate::{
    web_console::{built, node, seen},
    world::{EMAIL, PASSWORD},
};

each_database!(within std::time::Duration::from_mins(20); stacks_give_drift_and_go_in_order);
one_database!(
    sqlite,
    "the pages are the same, whatever keeps what they show";
    stacks_of_commands_give_drift_and_go_in_order,
    a_playbook_is_checked_applied_and_undone
);

/// What is walked before the cluster is looked at.
const GIVES: [&str; 6] = ["signsIn", "makes", "applies", "sees", "imports", "arrives"];
/// What is walked after it.
const ENDS: [&str; 7] = ["signsIn", "isInSync", "finds", "mends", "deletes", "isRefused", "destroys"];

/// Of one stack, from the wizard to its end.
const PLAYS: [&str; 5] = ["signsIn", "plays", "finds", "mends", "undoes"];

async fn stacks_give_drift_and_go_in_order(database: TestDatabase) -> anyhow::Result<()> {
    let (Some(ui), Some(_), Some(provider)) =
        (built(), program_or_report("tofu"), program_or_report("terraform-provider-note"))
    else {
        return Ok(());
    };
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let made = world.home.path().join("made");
    let settings = mirror(world.home.path(), &[(NOTE, provider)])?;
    world.remote.push_files([
        ("infra/main.tf", made_by_a_provider(&made)),
        ("app/main.tf", APP.to_owned()),
        ("web/map.yaml.liquid", map()),
        ("web/secret.yaml.liquid", HIDDEN.to_owned()),
    ])?;
    let environment = json!({"TF_CLI_CONFIG_FILE": settings});
    live(world, &ui, &made, ("TERRAFORM", environment)).await
}

async fn stacks_of_commands_give_drift_and_go_in_order(database: TestDatabase) -> anyhow::Result<()> {
    let Some(ui) = built() else { return Ok(()) };
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let made = world.home.path().join("made");
    world.remote.push_files([
        ("infra/all.sh", SCRIPT.to_owned()),
        ("app/README.md", "its commands are those of the stack".to_owned()),
        ("web/map.yaml.liquid", map()),
        ("web/secret.yaml.liquid", HIDDEN.to_owned()),
    ])?;
    let environment = json!({"WORD": "one", "MADE": made});
    live(world, &ui, &made, ("CUSTOM", environment)).await
}

const PLAYBOOK: &str = r#"- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        dest: "{{ lookup('env', 'MADE') }}"
        content: "{{ lookup('env', 'WORD') }}"
"#;
const UNDO: &str = r#"- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.file:
        path: "{{ lookup('env', 'MADE') }}"
        state: absent
"#;

async fn a_playbook_is_checked_applied_and_undone(database: TestDatabase) -> anyhow::Result<()> {
    let (Some(ui), Some(_)) = (built(), program_or_report("ansible-playbook")) else { return Ok(()) };
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let made = world.home.path().join("made");
    world.remote.push_files([("infra/main.yaml", PLAYBOOK), ("infra/undo.yaml", UNDO)])?;
    let environment = json!({"WORD": "one", "MADE": made});
    let told = told(&world, &made, ("ANSIBLE", environment));
    let walked = seen(node(&ui, "tests/stack_life.mjs", &["plays", &told])).await?;
    assert_eq!(walked["steps"], json!(PLAYS), "{}", world.told(&walked));
    assert!(!made.exists(), "it was undone");
    world.end();
    Ok(())
}

/// One output of each stack.
fn map() -> String {
    MAP.replace("imports[\"infra\"][\"zones\"]", "imports[\"app\"][\"zones\"]")
}

/// Walks both parts. Between them the cluster has what the stacks gave, and after them nothing is left.
async fn live(world: World, ui: &Path, made: &Path, stack: (&str, Value)) -> anyhow::Result<()> {
    world.place.namespace(NAMESPACE).await?;
    lets_read(&world).await?;
    let told = told(&world, made, stack);
    let walked = seen(node(ui, "tests/stack_life.mjs", &["gives", &told])).await?;
    assert_eq!(walked["steps"], json!(GIVES), "{}", world.told(&walked));
    holds(&world, "one", "s3cr3t-one").await?;
    let walked = seen(node(ui, "tests/stack_life.mjs", &["ends", &told])).await?;
    assert_eq!(walked["steps"], json!(ENDS), "{}", world.told(&walked));
    assert!(!made.exists(), "it was destroyed");
    // What is sensitive was shown to nobody, and is in no log.
    let secrets = [("output", "s3cr3t-one".to_owned())];
    crate::asker::holds_none("the console's log", world.console.log().as_bytes(), &secrets);
    crate::asker::holds_none("the agent's log", world.agent.log().as_bytes(), &secrets);
    world.end();
    Ok(())
}

/// What the walk is told of a world, and of the tool of its stacks.
fn told(world: &World, made: &Path, (tool, environment): (&str, Value)) -> String {
    let job = world.place.job_spec();
    let label = job["nodeSelector"].as_object().into_iter().flatten().next();
    let label = label.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    json!({
        "url": world.console.url(),
        "email": EMAIL,
        "password": PASSWORD,
        "remote": world.remote.path(),
        "cluster": "blue",
        "namespace": NAMESPACE,
        "tool": tool,
        "node": label,
        "taint": job["tolerations"][0]["key"],
        "environment": environment,
        "made": made,
    })
    .to_string()
}

/// The administrator reads what is in the namespace: of the person who asks, the API server judges by its own rules.
async fn lets_read(world: &World) -> anyhow::Result<()> {
    let bindings: Api<RoleBinding> = Api::namespaced(world.place.client().await?, NAMESPACE);
    let binding = serde_json::from_value(json!({
        "metadata": {"name": "administrator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": EMAIL}],
    }))?;
    bindings.create(&PostParams::default(), &binding).await?;
    Ok(())
}
