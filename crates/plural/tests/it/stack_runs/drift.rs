//! What real providers made, from a mirror instead of a registry: also drift of it, a file that somebody edits by hand.

use std::{
    env::consts::{ARCH, OS},
    path::{Path, PathBuf},
};

use plural_testkit::{TestDatabase, eventually, one_database, program_or_report};
use serde_json::{Value, json};

use super::world::{PATIENCE, World};

one_database!(
    sqlite,
    "what is found in a plan is tested on both: here it is the plan of a real tool";
    a_file_that_somebody_edits_is_drift,
    resources_of_two_providers_are_applied_in_their_order
);

/// Where the tool finds the provider instead of a registry.
pub(super) const REGISTRY: &str = "plural.test";

/// The providers of these tests, and their versions: see `tools/`.
const LOCAL: (&str, &str) = ("local", "1.4.0");
const TIME: (&str, &str) = ("time", "0.14.2");
/// Ours: to it, a file that somebody edits is one that was changed.
pub(super) const NOTE: (&str, &str) = ("note", "1.0.0");

/// The program of a provider, said on stderr where this machine has none.
fn program_of((name, _): (&str, &str)) -> Option<PathBuf> {
    program_or_report(&format!("terraform-provider-{name}"))
}

/// A mirror of providers below `folder`, and the settings of the tool that name it.
pub(super) fn mirror(folder: &Path, providers: &[((&str, &str), PathBuf)]) -> anyhow::Result<PathBuf> {
    let machine = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mirror = folder.join("mirror");
    for ((name, version), program) in providers {
        let place = mirror.join(format!("{REGISTRY}/hashicorp/{name}/{version}/{OS}_{machine}"));
        std::fs::create_dir_all(&place)?;
        std::fs::copy(program, place.join(format!("terraform-provider-{name}_v{version}")))?;
    }
    let settings = folder.join("tofurc");
    let text = format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path    = \"{}\"\n    include = [\"{REGISTRY}/*/*\"]\n  }}\n}}\n",
        mirror.display()
    );
    std::fs::write(&settings, text)?;
    Ok(settings)
}

fn configuration(file: &Path) -> String {
    format!(
        "terraform {{\n  required_providers {{\n    local = {{\n      source = \"{REGISTRY}/hashicorp/local\"\n    }}\n  }}\n}}\n\n\
         resource \"local_file\" \"one\" {{\n  filename = \"{}\"\n  content  = \"ours\"\n}}\n",
        file.display()
    )
}

/// On the real control plane: the runner of simulated clusters keeps commands from files outside of their folder.
async fn a_file_that_somebody_edits_is_drift(database: TestDatabase) -> anyhow::Result<()> {
    let (Some(_), Some(local)) = (program_or_report("tofu"), program_of(LOCAL)) else {
        return Ok(());
    };
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let settings = mirror(world.home.path(), &[(LOCAL, local)])?;
    let file = world.home.path().join("made");
    world.remote.push_files([("infra/main.tf", configuration(&file))])?;
    let more = json!({
        "manageState": true,
        "environment": [{"name": "TF_CLI_CONFIG_FILE", "value": settings.display().to_string()}],
    });
    let stack = world.stack("TERRAFORM", "infra", more).await?;
    let run = world.planned(&stack, None).await;
    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    assert_eq!(std::fs::read_to_string(&file)?, "ours");
    let drift = async |line: &str| -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&world.plural(&format!("cd stacks drift infra -o json{line}")).await?)?)
    };
    assert_eq!(drift("").await?["driftStatus"], "UNCHECKED");
    let checked = drift(" --now --exit-code").await?;
    assert_eq!((&checked["driftStatus"], &checked["drift"]), (&json!("IN_SYNC"), &json!([])), "{checked}");

    std::fs::write(&file, "theirs")?;
    let found = drift(" --now").await?;
    assert_eq!(
        (&found["driftStatus"], &found["driftCheck"]["count"]),
        (&json!("DRIFTED"), &json!(1)),
        "{found}"
    );
    // To this provider, a file with other content is not the one that it made.
    let resource = &found["drift"][0];
    assert_eq!(
        (&resource["address"], &resource["type"], &resource["action"]),
        (&json!("local_file.one"), &json!("local_file"), &json!("DELETED")),
        "{found}"
    );
    let refused = world.plural("cd stacks drift infra --exit-code").await;
    assert!(refused.is_err_and(|error| error.to_string().contains("Some(2)")), "it drifted");
    assert_eq!(std::fs::read_to_string(&file)?, "theirs", "it was only looked at");

    // An ordinary run brings it back, and the clock looks whether it did.
    let run = world.plan(&stack).await?;
    world.approve(&run).await?;
    world.until(&run, "SUCCESSFUL").await;
    assert_eq!(std::fs::read_to_string(&file)?, "ours");
    eventually(PATIENCE, async || {
        let found = drift("").await.map_err(|error| format!("{error:#}"))?;
        if found["driftStatus"] == "IN_SYNC" { Ok(()) } else { Err(format!("{found}")) }
    })
    .await;
    world.end();
    Ok(())
}

/// One resource of each, of which one needs what the other is made with.
fn two_providers(file: &Path) -> String {
    let required: String = [LOCAL, TIME]
        .map(|(name, version)| {
            format!("    {name} = {{\n      source  = \"{REGISTRY}/hashicorp/{name}\"\n      version = \"{version}\"\n    }}\n")
        })
        .concat();
    format!(
        "terraform {{\n  required_providers {{\n{required}  }}\n}}\n\n\
         resource \"time_static\" \"made\" {{\n  rfc3339 = \"2026-01-02T03:04:05Z\"\n}}\n\n\
         resource \"local_file\" \"one\" {{\n  filename = \"{}\"\n  content  = \"made at ${{time_static.made.unix}}\"\n}}\n",
        file.display()
    )
}

/// On the real control plane, as above.
async fn resources_of_two_providers_are_applied_in_their_order(database: TestDatabase) -> anyhow::Result<()> {
    let (Some(_), Some(local), Some(time)) = (program_or_report("tofu"), program_of(LOCAL), program_of(TIME))
    else {
        return Ok(());
    };
    let Some(world) = World::real(&database).await? else { return Ok(()) };
    let settings = mirror(world.home.path(), &[(LOCAL, local), (TIME, time)])?;
    let file = world.home.path().join("made");
    world.remote.push_files([("infra/main.tf", two_providers(&file))])?;
    let more = json!({
        "manageState": true,
        "environment": [{"name": "TF_CLI_CONFIG_FILE", "value": settings.display().to_string()}],
    });
    let stack = world.stack("TERRAFORM", "infra", more).await?;
    let run = world.planned(&stack, None).await;
    assert_eq!(run["plan"]["add"], 2, "{}", world.told(&run));
    assert!(!file.exists(), "it was only planned");
    world.approve(&run).await?;
    let done = world.until(&run, "SUCCESSFUL").await;
    assert_eq!(std::fs::read_to_string(&file)?, "made at 1767323045", "{}", world.told(&done));
    assert_eq!(world.known(&stack).await?["stateVersion"]["resources"], 2, "{}", world.told(&done));

    // Time is what the resource says: nothing is left to do.
    let next = json!({"id": world.trigger(&stack).await?});
    let next = world.until(&next, "SUCCESSFUL").await;
    assert_eq!((&next["plan"]["add"], &next["phase"]), (&json!(0), &json!("PLAN")), "{}", world.told(&next));
    world.end();
    Ok(())
}
