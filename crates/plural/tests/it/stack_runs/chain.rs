//! A stack's whole life in one world, as a person has it on the command line: made, planned, approved, applied, its outputs in the objects
//! of a service, drifted, destroyed. On a real control plane, with the tool itself.

use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use plural_testkit::{TestDatabase, each_database, eventually, program_or_report};
use serde_json::{Value, json};

use super::{
    drift::{NOTE, REGISTRY, mirror},
    life::is_gone,
    world::{PATIENCE, World},
};

each_database!(
    commands_of_a_stack_of_its_own_from_creation_to_destruction,
    ansible_from_creation_to_destruction,
    opentofu_from_creation_to_destruction_in_order
);

pub(super) const NAMESPACE: &str = "shop";

/// What the service `web` has of the stack `infra`: what is open in a ConfigMap, what is sensitive in a Secret.
pub(super) const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: given}\ndata:\n  \
    word: {{ imports[\"infra\"][\"word\"] }}\n  \
    second: {{ imports[\"infra\"][\"zones\"][1] | upcase }}\n";
pub(super) const HIDDEN: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: given}\nstringData:\n  \
    hidden: {{ imports[\"infra\"][\"hidden\"] }}\n";

/// Makes a stack of the folder of its name, whose plans wait for approval. What has no option is in a file; its id. Where its Jobs run, its
/// project says.
async fn create(world: &World, name: &str, options: &str, settings: &Value) -> anyhow::Result<String> {
    let defaults = world.home.path().join("defaults.json");
    std::fs::write(&defaults, json!({"jobSpec": world.place.job_spec()}).to_string())?;
    world.plural(&format!("cd projects stack-settings default --settings {}", defaults.display())).await?;
    let file = world.home.path().join(format!("{name}.json"));
    std::fs::write(&file, settings.to_string())?;
    let line = format!(
        "cd stacks create {name} {options} --repository {} --ref main --folder {name} --cluster blue --approval \
         --tool-image example.org/tools --tool-version 1 --settings {} -o json",
        world.repository,
        file.display()
    );
    let made: Value = serde_json::from_str(&world.plural(&line).await?)?;
    Ok(made["id"].as_str().unwrap_or_default().to_owned())
}

/// Agrees to what a run of a stack planned, by the digest of that.
async fn approve(world: &World, name: &str, run: &Value) -> anyhow::Result<()> {
    let digest = run["plan"]["digest"].as_str().unwrap_or_default();
    world.plural(&format!("cd stacks approve {name}/{} --digest {digest}", run["number"])).await.map(drop)
}

/// Waits for the plan of a stack, agrees to it, and waits until it is applied.
async fn apply(world: &World, name: &str, stack: &str) -> anyhow::Result<Value> {
    let run = world.planned(stack, None).await;
    approve(world, name, &run).await?;
    let done = world.until(&run, "SUCCESSFUL").await;
    assert_eq!(done["phase"], "APPLY", "{}", world.told(&done));
    // What is sensitive is in no log of it.
    assert!(!World::printed(&done).contains("s3cr3t"), "{}", world.told(&done));
    Ok(done)
}

/// Makes the service `web`, which reads the outputs of `imports`.
async fn serve(world: &World, imports: &str) -> anyhow::Result<()> {
    world.place.namespace(NAMESPACE).await?;
    let line = format!(
        "cd services create blue/web --namespace {NAMESPACE} --repository {} --ref main --folder web \
         --create-namespace=false {imports}",
        world.repository
    );
    world.plural(&line).await.map(drop)
}

/// Waits until the objects of the service hold this.
pub(super) async fn holds(world: &World, word: &str, hidden: &str) -> anyhow::Result<()> {
    let client = world.place.client().await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    eventually(PATIENCE, async || {
        let told = |error: kube::Error| format!("{error}; {}; {}", world.agent.log(), world.console.log());
        let map = maps.get("given").await.map_err(told)?.data.unwrap_or_default();
        let secret = secrets.get("given").await.map_err(told)?.data.unwrap_or_default();
        let is_so = map.get("word").is_some_and(|found| found == word)
            && map.get("second").is_some_and(|found| found == "B")
            && secret.get("hidden").is_some_and(|found| found.0 == hidden.as_bytes());
        is_so.then_some(()).ok_or_else(|| format!("{map:?}"))
    })
    .await;
    Ok(())
}

/// Looks for drift of a stack now.
async fn look(world: &World, name: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&world.plural(&format!("cd stacks drift {name} --now -o json")).await?)?)
}

/// Looks, and finds that nothing drifted.
async fn is_in_sync(world: &World, name: &str) -> anyhow::Result<()> {
    let found = look(world, name).await?;
    assert_eq!((&found["driftStatus"], &found["drift"]), (&json!("IN_SYNC"), &json!([])), "{found}");
    Ok(())
}

/// Looks, and finds that one thing drifted.
async fn has_drifted(world: &World, name: &str, resource: &Value) -> anyhow::Result<()> {
    let found = look(world, name).await?;
    assert_eq!(
        (&found["driftStatus"], &found["driftCheck"]["count"]),
        (&json!("DRIFTED"), &json!(1)),
        "{found}"
    );
    for (field, value) in resource.as_object().into_iter().flatten() {
        assert_eq!(&found["drift"][0][field], value, "{field}: {found}");
    }
    let refused = world.plural(&format!("cd stacks drift {name} --exit-code")).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("Some(2)")), "it drifted");
    Ok(())
}

/// Deletes a stack that nothing needs any more: what it has is destroyed first, when people agreed.
async fn destroy(world: &World, name: &str, stack: &str) -> anyhow::Result<()> {
    world.plural(&format!("cd stacks delete {name} --yes")).await?;
    let destruction = eventually(PATIENCE, async || {
        let run = world.newest(stack).await.map_err(|error| format!("{error:#}"))?;
        let waits = run["kind"] == "DESTROY" && run["status"] == "PENDING_APPROVAL";
        if waits { Ok(run) } else { Err(world.told(&run)) }
    })
    .await;
    approve(world, name, &destruction).await?;
    is_gone(world, stack).await;
    Ok(())
}

/// From its first plan to its end, of a stack `infra` that writes the word `one` into `made`.
async fn lives(world: &World, stack: &str, made: &Path, resource: &Value) -> anyhow::Result<()> {
    world.planned(stack, None).await;
    assert!(!made.exists(), "it was only planned");
    apply(world, "infra", stack).await?;
    assert_eq!(std::fs::read_to_string(made)?, "one");
    let known = world.known(stack).await?;
    let outputs = known["output"].as_array().cloned().unwrap_or_default();
    let secret = |name: &str| {
        outputs.iter().find(|output| output["name"] == name).map(|output| output["secret"].clone())
    };
    assert_eq!(
        (secret("word"), secret("zones"), secret("hidden")),
        (Some(json!(false)), Some(json!(false)), Some(json!(true))),
        "{known}"
    );
    let shown = world.plural("cd stacks outputs infra").await?;
    assert!(shown.contains("word") && !shown.contains("s3cr3t-one"), "{shown}");

    serve(world, "--import infra").await?;
    holds(world, "one", "s3cr3t-one").await?;

    is_in_sync(world, "infra").await?;
    std::fs::write(made, "theirs")?;
    has_drifted(world, "infra", resource).await?;
    assert_eq!(std::fs::read_to_string(made)?, "theirs", "it was only looked at");

    let refused = world.plural("cd stacks delete infra --yes").await;
    assert!(refused.is_err_and(|error| error.to_string().contains("web")), "a service imports it");
    world.plural("cd services delete blue/web --yes --wait").await?;
    destroy(world, "infra", stack).await?;
    assert!(!made.exists(), "it was undone");
    Ok(())
}

/// Everything that the commands of a stack of its own do.
pub(super) const SCRIPT: &str = r#"set -eu
case "$1" in
plan) echo "would write $WORD" ;;
apply)
  printf %s "$WORD" >"$MADE"
  cat >"$PLURAL_OUTPUTS" <<EOF
{"word": "$WORD", "zones": {"value": ["a", "b"], "sensitive": false}, "hidden": {"value": "s3cr3t-$WORD", "sensitive": true}}
EOF
  ;;
look)
  if test ! -e "$MADE"; then
    echo "drift: deleted made"
  elif test "$(cat "$MADE")" != "$WORD"; then
    echo "drift: updated made"
  fi
  ;;
destroy) rm "$MADE" ;;
esac
"#;

async fn commands_of_a_stack_of_its_own_from_creation_to_destruction(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let made = world.home.path().join("made");
    world.remote.push_files([
        ("infra/all.sh", SCRIPT),
        ("web/map.yaml.liquid", MAP),
        ("web/secret.yaml.liquid", HIDDEN),
    ])?;
    let command = |stage: &str, word: &str| json!({"stage": stage, "cmd": "sh", "args": ["all.sh", word]});
    let settings = json!({
        "commands": [command("PLAN", "plan"), command("APPLY", "apply")],
        "deleteCommands": [command("DESTROY", "destroy")],
        "drift": {"commands": [{"cmd": "sh", "args": ["all.sh", "look"]}]},
    });
    let options = format!("--type custom --env WORD=one --env MADE={}", made.display());
    let stack = create(&world, "infra", &options, &settings).await?;
    lives(&world, &stack, &made, &json!({"address": "made", "action": "UPDATED"})).await?;
    world.end();
    Ok(())
}

const PLAYBOOK: &str = r#"- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        dest: "{{ made }}"
        content: "{{ word }}"
    - name: outputs
      ansible.builtin.copy:
        dest: "{{ lookup('env', 'PLURAL_OUTPUTS') }}"
        content: "{{ outputs | to_json }}"
        mode: "0600"
      vars:
        outputs:
          word: "{{ word }}"
          zones: {value: [a, b], sensitive: false}
          hidden: {value: "s3cr3t-{{ word }}", sensitive: true}
      when: not ansible_check_mode
      no_log: true
"#;
const UNDO: &str = r#"- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.file:
        path: "{{ made }}"
        state: absent
"#;

async fn ansible_from_creation_to_destruction(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("ansible-playbook").is_none() {
        return Ok(());
    }
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let made = world.home.path().join("made");
    world.remote.push_files([
        ("infra/main.yaml", PLAYBOOK),
        ("infra/undo.yaml", UNDO),
        ("web/map.yaml.liquid", MAP),
        ("web/secret.yaml.liquid", HIDDEN),
    ])?;
    let settings = json!({"variables": {"word": "one", "made": made.display().to_string()}});
    let stack = create(&world, "infra", "--type ansible --delete-playbook undo.yaml", &settings).await?;
    let resource = json!({"address": "localhost", "type": "host", "action": "UPDATED"});
    lives(&world, &stack, &made, &resource).await?;
    world.end();
    Ok(())
}

/// A file that a provider makes, to which it is one that was changed when somebody edits it, and what is known of it.
pub(super) fn made_by_a_provider(file: &Path) -> String {
    format!(
        "terraform {{\n  required_providers {{\n    note = {{\n      source = \"{REGISTRY}/hashicorp/note\"\n    }}\n  }}\n}}\n\n\
         resource \"note_file\" \"one\" {{\n  filename = \"{}\"\n  content  = \"one\"\n}}\n\n\
         output \"word\" {{\n  value = note_file.one.content\n}}\n\n\
         output \"hidden\" {{\n  value     = \"s3cr3t-one\"\n  sensitive = true\n}}\n",
        file.display()
    )
}

pub(super) const APP: &str = "variable \"word\" { type = string }\n\n\
    resource \"terraform_data\" \"app\" {\n  input = \"app of ${var.word}\"\n}\n\n\
    output \"zones\" {\n  value = [\"a\", \"b\", terraform_data.app.output]\n}\n";

async fn opentofu_from_creation_to_destruction_in_order(database: TestDatabase) -> anyhow::Result<()> {
    let (Some(_), Some(provider)) = (program_or_report("tofu"), program_or_report("terraform-provider-note"))
    else {
        return Ok(());
    };
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let made = world.home.path().join("made");
    let tool = mirror(world.home.path(), &[(NOTE, provider)])?;
    world.remote.push_files([
        ("infra/main.tf", made_by_a_provider(&made)),
        ("app/main.tf", APP.to_owned()),
        ("web/map.yaml.liquid", MAP.replace("imports[\"infra\"][\"zones\"]", "imports[\"app\"][\"zones\"]")),
        ("web/secret.yaml.liquid", HIDDEN.to_owned()),
    ])?;
    let options = format!("--tofu --env TF_CLI_CONFIG_FILE={}", tool.display());
    let infra = create(&world, "infra", &options, &json!({})).await?;
    let app = create(&world, "app", "--tofu --depends-on infra:word", &json!({})).await?;

    // The one that depends on the other waits for it, and takes what that made.
    let waits = world.planned(&infra, None).await;
    let first = world.begun(&app).await;
    assert_eq!(world.run(&first).await?["status"], "QUEUED", "{}", world.told(&waits));
    assert!(!made.exists(), "it was only planned");
    let done = apply(&world, "infra", &infra).await?;
    assert!(World::printed(&done).contains("1 added, 0 changed, 0 destroyed"), "{}", world.told(&done));
    assert_eq!(std::fs::read_to_string(&made)?, "one");
    apply(&world, "app", &app).await?;

    serve(&world, "--import infra --import app").await?;
    holds(&world, "one", "s3cr3t-one").await?;

    is_in_sync(&world, "infra").await?;
    std::fs::write(&made, "theirs")?;
    let field = json!({
        "path": "content", "before": "\"one\"", "after": "\"theirs\"", "sensitive": false, "cut": false,
    });
    let resource = json!({
        "address": "note_file.one", "type": "note_file", "action": "UPDATED", "fields": [field], "leftOut": 0,
    });
    has_drifted(&world, "infra", &resource).await?;
    world.plural("cd stacks trigger infra").await?;
    apply(&world, "infra", &infra).await?;
    assert_eq!(std::fs::read_to_string(&made)?, "one");

    // What others need goes last.
    world.plural("cd services delete blue/web --yes --wait").await?;
    let refused = world.plural("cd stacks delete infra --yes").await;
    assert!(refused.is_err_and(|error| error.to_string().contains("delete them first, in this order: app")));
    destroy(&world, "app", &app).await?;
    assert!(made.exists(), "the other one was not asked for");
    destroy(&world, "infra", &infra).await?;
    assert!(!made.exists(), "it was destroyed");
    world.end();
    Ok(())
}
