//! From the first plan to the end of a stack.

use plural_testkit::{TestDatabase, each_database, eventually, one_database, program_or_report};
use serde_json::{Value, json};

use super::world::{PATIENCE, World};

each_database!(opentofu_on_a_simulated_cluster, commands_of_a_stack_of_its_own);
one_database!(
    sqlite,
    "the cluster is what is different here: the simulated one has each database";
    opentofu_on_a_real_control_plane,
    terraform_on_a_simulated_cluster,
    a_playbook_of_ansible,
    a_plan_that_was_not_read_is_not_approved
);

/// A resource of the kind that is built in, and an output.
pub(super) fn configuration(input: &str) -> String {
    format!(
        "resource \"terraform_data\" \"one\" {{\n  input = \"{input}\"\n}}\n\n\
         output \"word\" {{\n  value = terraform_data.one.output\n}}\n\n\
         output \"hidden\" {{\n  value     = \"s3cr3t-{input}\"\n  sensitive = true\n}}\n"
    )
}

async fn opentofu_on_a_simulated_cluster(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    plans_applies_and_destroys(World::simulated(&database).await?, "tofu").await
}

/// The last one that is free.
async fn terraform_on_a_simulated_cluster(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("terraform").is_none() {
        return Ok(());
    }
    plans_applies_and_destroys(World::simulated(&database).await?, "terraform").await
}

async fn opentofu_on_a_real_control_plane(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("tofu").is_none() {
        return Ok(());
    }
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    plans_applies_and_destroys(world, "tofu").await
}

async fn plans_applies_and_destroys(world: World, tool: &str) -> anyhow::Result<()> {
    let first = world.remote.push_files([("infra/main.tf", configuration("one"))])?;
    let image = json!({"image": "example.org/tools", "tag": "1", "terraform": {"tofu": tool == "tofu"}});
    let more = json!({"manageState": true, "configuration": image});
    let stack = world.stack("TERRAFORM", "infra", more).await?;

    // Planned, and nothing is changed yet.
    let run = world.planned(&stack, None).await;
    assert_eq!(
        (&run["plan"]["add"], &run["plan"]["destroy"]),
        (&json!(1), &json!(0)),
        "{}",
        world.told(&run)
    );
    assert_eq!(run["sha"], first.as_str(), "{}", world.told(&run));
    let text = run["plan"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("terraform_data.one"), "{}", world.told(&run));
    assert_eq!(run["steps"][0]["cmd"], tool, "{}", world.told(&run));
    let known = world.known(&stack).await?;
    assert_eq!((&known["stateVersion"], &known["lock"]), (&Value::Null, &Value::Null), "{known}");

    // Applied: what was planned, and read.
    let (number, digest) = (&run["number"], run["plan"]["digest"].as_str().unwrap_or_default());
    let wrong = "0".repeat(64);
    let refused = world.plural(&format!("cd stacks approve infra/{number} --digest {wrong}")).await;
    assert!(refused.is_err_and(|error| error.to_string().contains(digest)), "another plan is not approved");
    world.plural(&format!("cd stacks approve infra/{number} --digest {digest}")).await?;
    let run = world.until(&run, "SUCCESSFUL").await;
    assert!(World::printed(&run).contains("1 added, 0 changed, 0 destroyed"), "{}", world.told(&run));
    assert_eq!(run["approvals"][0]["digest"], run["plan"]["digest"], "{run}");
    let known = world.known(&stack).await?;
    assert_eq!(known["stateVersion"]["resources"], 1, "{known}");
    assert_eq!((&known["sha"], &known["lock"]), (&json!(first), &Value::Null), "{known}");
    let output = |known: &Value, name: &str| {
        let outputs = known["output"].as_array().cloned().unwrap_or_default();
        outputs.into_iter().find(|output| output["name"] == name).unwrap_or_default()
    };
    assert_eq!(output(&known, "word")["value"], "one", "{known}");
    assert_eq!(output(&known, "hidden")["secret"], true, "{known}");
    let shown = world.plural("cd stacks outputs infra").await?;
    assert!(shown.contains("word") && !shown.contains("s3cr3t-one"), "{shown}");
    let shown = world.plural(&format!("cd stacks logs infra/{}", run["number"])).await?;
    assert!(shown.contains("1 added, 0 changed, 0 destroyed"), "{shown}");
    let shown = world.plural("cd stacks runs infra").await?;
    assert!(shown.to_lowercase().contains("successful"), "{shown}");

    // Nothing to do is nothing to approve.
    let again = world.trigger(&stack).await?;
    let again = world.until(&json!({"id": again}), "SUCCESSFUL").await;
    assert_eq!(
        (&again["plan"]["add"], &again["phase"]),
        (&json!(0), &json!("PLAN")),
        "{}",
        world.told(&again)
    );

    // A commit plans by itself; what is rejected changes nothing.
    let second = world.remote.push_files([("infra/main.tf", configuration("two"))])?;
    let run = world.planned(&stack, Some(&second)).await;
    assert_eq!(
        (&run["plan"]["change"], &run["trigger"]),
        (&json!(1), &json!("COMMIT")),
        "{}",
        world.told(&run)
    );
    let reject = "mutation ($id: ID!) { rejectStackRun(id: $id, reason: \"not on a Friday\") { id } }";
    world.admin.data(reject, json!({"id": run["id"]})).await?;
    let run = world.until(&run, "CANCELLED").await;
    assert!(run["error"].as_str().is_some_and(|why| why.contains("not on a Friday")), "{}", world.told(&run));
    let known = world.known(&stack).await?;
    assert_eq!(output(&known, "word")["value"], "one", "{known}");

    // Destroyed before it is gone.
    world.does("deleteStack", &stack).await?;
    let run = world.planned(&stack, None).await;
    assert_eq!(
        (&run["kind"], &run["plan"]["destroy"]),
        (&json!("DESTROY"), &json!(1)),
        "{}",
        world.told(&run)
    );
    world.approve(&run).await?;
    is_gone(&world, &stack).await;
    world.end();
    Ok(())
}

/// Waits until a stack is not there any more.
pub(super) async fn is_gone(world: &World, stack: &str) {
    eventually(PATIENCE, async || match world.known(stack).await {
        Ok(Value::Null) => Ok(()),
        Ok(known) => Err(match world.newest(stack).await {
            Ok(run) => world.told(&run),
            Err(_) => known.to_string(),
        }),
        // An error beside a null.
        Err(error) if format!("{error:#}").contains("could not find") => Ok(()),
        Err(error) => Err(format!("{error:#}")),
    })
    .await;
}

/// Commands that say what they are told, and where they are to write outputs, write these.
fn saying(outputs: &str) -> String {
    format!(
        "echo \"$1 for $WHOM\"\nif test -n \"${{PLURAL_OUTPUTS-}}\"; then echo '{outputs}' >\"$PLURAL_OUTPUTS\"; fi\n"
    )
}

async fn commands_of_a_stack_of_its_own(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    let outputs = r#"{"word": "given", "hidden": {"value": "s3cr3t-given", "sensitive": true}}"#;
    world.remote.push_files([("shop/say.sh", saying(outputs))])?;
    let command = |stage: &str, word: &str| json!({"stage": stage, "cmd": "sh", "args": ["say.sh", word]});
    let more = json!({
        "commands": [command("PLAN", "planned"), command("APPLY", "applied")],
        "deleteCommands": [command("PLAN", "to be undone"), command("DESTROY", "undone")],
        "environment": [{"name": "WHOM", "value": "everybody"}],
    });
    let stack = world.stack("CUSTOM", "shop", more).await?;
    let run = world.planned(&stack, None).await;
    assert_eq!(run["plan"]["other"], true, "{}", world.told(&run));
    let text = run["plan"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("planned for everybody"), "{}", world.told(&run));
    world.approve(&run).await?;
    let run = world.until(&run, "SUCCESSFUL").await;
    assert!(World::printed(&run).contains("applied for everybody"), "{}", world.told(&run));
    let told = |known: &Value| {
        let mut outputs = known["output"].as_array().cloned().unwrap_or_default();
        outputs.sort_by_key(|output| output["name"].to_string());
        outputs
    };
    let given = [
        json!({"name": "hidden", "value": "s3cr3t-given", "secret": true}),
        json!({"name": "word", "value": "given", "secret": false}),
    ];
    assert_eq!(told(&world.known(&stack).await?), given, "{}", world.told(&run));

    // What is no JSON is told, and the outputs stay as they were.
    let sha = world.remote.push_files([("shop/say.sh", saying("word: s3cr3t-other"))])?;
    let run = world.planned(&stack, Some(&sha)).await;
    world.approve(&run).await?;
    let run = world.fails(&run, &["the apply itself succeeded", "is no JSON", "may have changed"]).await;
    assert!(!run.to_string().contains("s3cr3t-other"), "{}", world.told(&run));
    assert_eq!(told(&world.known(&stack).await?), given, "{}", world.told(&run));

    // Undone by its own commands, on demand.
    let destroy = "mutation ($id: ID!) { triggerRun(id: $id, destroy: true) { id } }";
    let made = world.admin.data(destroy, json!({"id": stack})).await?;
    let run = world.until(&made["triggerRun"], "PENDING_APPROVAL").await;
    world.approve(&run).await?;
    let run = world.until(&run, "SUCCESSFUL").await;
    assert!(World::printed(&run).contains("undone for everybody"), "{}", world.told(&run));
    assert!(told(&world.known(&stack).await?).is_empty(), "nothing is left that could have outputs");
    world.end();
    Ok(())
}

/// On the real control plane: Ansible needs semaphores in `/dev/shm`, which the runner of simulated clusters keeps from it.
async fn a_playbook_of_ansible(database: TestDatabase) -> anyhow::Result<()> {
    if program_or_report("ansible-playbook").is_none() {
        return Ok(());
    }
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let file = world.home.path().join("written");
    let playbook = |state: &str| {
        format!(
            "- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n    - ansible.builtin.{state}\n"
        )
    };
    let write = format!("copy:\n        dest: {}\n        content: \"{{{{ word }}}}\"", file.display());
    let remove = format!("file:\n        path: {}\n        state: absent", file.display());
    world
        .remote
        .push_files([("machines/main.yaml", playbook(&write)), ("machines/undo.yaml", playbook(&remove))])?;
    let more = json!({
        "variables": {"word": "hello"},
        "configuration": {"image": "example.org/ansible", "tag": "1",
            "ansible": {"playbook": "main.yaml", "deletePlaybook": "undo.yaml"}},
    });
    let stack = world.stack("ANSIBLE", "machines", more).await?;
    let run = world.planned(&stack, None).await;
    assert_eq!(run["plan"]["change"], 1, "{}", world.told(&run));
    assert!(!file.exists(), "it was only planned");
    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    assert_eq!(std::fs::read_to_string(&file)?, "hello");
    // It is as it should be: nothing is to be approved.
    let again = world.trigger(&stack).await?;
    world.until(&json!({"id": again}), "SUCCESSFUL").await;

    world.does("deleteStack", &stack).await?;
    let destruction = eventually(PATIENCE, async || {
        let run = world.newest(&stack).await.map_err(|error| format!("{error:#}"))?;
        let waits = run["kind"] == "DESTROY" && run["status"] == "PENDING_APPROVAL";
        if waits { Ok(run) } else { Err(world.told(&run)) }
    })
    .await;
    world.approve(&destruction).await?;
    is_gone(&world, &stack).await;
    assert!(!file.exists(), "it was undone");
    world.end();
    Ok(())
}

async fn a_plan_that_was_not_read_is_not_approved(database: TestDatabase) -> anyhow::Result<()> {
    let world = World::simulated(&database).await?;
    world.remote.push_files([("shop/say.sh", "echo \"$1\"\n")])?;
    let more = json!({"commands": [
        {"stage": "PLAN", "cmd": "sh", "args": ["say.sh", "planned"]},
        {"stage": "APPLY", "cmd": "sh", "args": ["say.sh", "applied"]},
    ]});
    let stack = world.stack("CUSTOM", "shop", more).await?;
    let first = world.planned(&stack, None).await;
    let approve = "mutation ($id: ID!, $d: String) { approveStackRun(id: $id, digest: $d) { id } }";
    let digest = first["plan"]["digest"].as_str().unwrap_or_default().to_owned();
    for (given, why) in [(json!("0".repeat(64)), digest.as_str()), (Value::Null, "digest")] {
        let refused = world.admin.ask(approve, json!({"id": first["id"], "d": given})).await?;
        assert!(refused["errors"].to_string().contains(why), "{refused}");
    }
    assert_eq!(world.run(first["id"].as_str().unwrap_or_default()).await?["status"], "PENDING_APPROVAL");

    // A newer plan takes its place, and the older one cannot be approved any more.
    let second = world.plan(&stack).await?;
    assert_ne!(first["id"], second["id"], "{second}");
    world.until(&first, "CANCELLED").await;
    let refused = world.admin.ask(approve, json!({"id": first["id"], "d": digest})).await?;
    assert!(!refused["errors"].is_null(), "{refused}");
    world.approve(&second).await?;
    world.until(&second, "SUCCESSFUL").await;
    world.end();
    Ok(())
}
