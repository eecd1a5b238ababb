//! The demo's stack: infrastructure that is planned at the start, and waits for a person.

use plural_wire::{
    Client, CreateStack, GetCluster, GetGitRepository, GetInfrastructureStack, StackAttributes,
};
use serde_json::{Value, json};

/// Its name.
pub(super) const NAME: &str = "demo-infra";
/// Its folder in the sample repository.
pub(super) const FOLDER: &str = "infra";

/// Makes the stack, whose runs run on `cluster`, unless an earlier start did. The console plans the first commit that it sees.
pub(super) async fn ensure(
    client: &Client,
    repository: &str,
    reference: &str,
    cluster: &str,
) -> anyhow::Result<()> {
    let known = GetInfrastructureStack { id: None, name: Some(NAME.to_owned()) };
    match client.send(&known).await {
        Ok(_) => return Ok(()),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let repository = client.send(&GetGitRepository { id: None, url: Some(repository.to_owned()) }).await?.id;
    let cluster = client.send(&GetCluster { id: None, handle: Some(cluster.to_owned()) }).await?.id;
    let mut attributes = if has_tofu() { of_tofu() } else { of_commands() };
    attributes["name"] = NAME.into();
    attributes["repositoryId"] = repository.into();
    attributes["clusterId"] = cluster.into();
    attributes["git"] = json!({"ref": reference, "folder": FOLDER});
    attributes["approval"] = true.into();
    let Value::Object(attributes) = attributes else {
        anyhow::bail!("the attributes of a stack are an object")
    };
    client.send(&CreateStack { attributes: StackAttributes(attributes) }).await?;
    Ok(())
}

fn of_tofu() -> Value {
    json!({"type": "TERRAFORM", "manageState": true})
}

fn of_commands() -> Value {
    let command = |stage: &str, script: &str| json!({"stage": stage, "cmd": "sh", "args": [script]});
    json!({
        "type": "CUSTOM",
        // No image is looked at here, but a run has to name one.
        "configuration": {"image": "localhost/shell"},
        "commands": [command("PLAN", "plan.sh"), command("APPLY", "apply.sh")],
        "deleteCommands": [command("DESTROY", "undo.sh")],
    })
}

/// Whether runs find OpenTofu.
fn has_tofu() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("tofu").is_file())
}
