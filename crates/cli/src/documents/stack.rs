//! Documents of stacks.

use std::collections::BTreeSet;

use plural_wire::{ChangeStack, DeleteStack, DetachStack, FindUser, MakeStack, ReadStack, Seconds};
use serde_json::{Value, json};

use super::{
    cluster::{changed, tag_list, tags},
    console::{Console, text, there},
    kind::{Info, Kind},
    project::{bind, bindings, id_attribute},
    rendering,
    service::neat,
    stack_fields::{STACK, configuration, job, neat_steps, steps, told_job},
    state::{Hidden, State, below, picked},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "InfrastructureStack",
    singular: "infrastructurestack",
    plural: "infrastructurestacks",
    short: &["stack", "stacks"],
    named_by: "NAME",
    docs: "Infrastructure that Terraform, OpenTofu, Terragrunt, Ansible, Pulumi or commands of your own keep.",
    fields: STACK,
};

pub(super) fn prepare(
    name: &str,
    said: &mut State,
    hidden: &mut Hidden,
    problems: &mut Vec<String>,
) -> String {
    let name = super::state::text(said, "name").unwrap_or(name).to_owned();
    said.insert("name".into(), name.clone().into());
    if let Some(cluster) = said.remove("clusterRef") {
        if said.contains_key("cluster") {
            problems.push("spec.clusterRef: must not be given together with cluster".to_owned());
        } else {
            said.insert("cluster".into(), cluster);
        }
    }
    neat(said, problems);
    if let Some(Value::Object(policy)) = said.get_mut("policyEngine") {
        neat(policy, problems);
    }
    for list in ["commands", "deleteCommands"] {
        neat_steps(said, list);
    }
    if let Some(Value::Object(drift)) = said.get_mut("drift") {
        neat_steps(drift, "commands");
    }
    one_is_usual(said);
    order_dependencies(said);
    environment_of(said, hidden, problems);
    files_of(said, hidden, problems);
    hidden.0.remove("detach");
    name
}

/// One person agrees, whether that is said or not.
fn one_is_usual(state: &mut State) {
    if let Some(many) =
        state.get_mut("requiredApprovals").filter(|many| many.as_u64().is_some_and(|many| many < 2))
    {
        *many = Value::Null;
    }
}

/// Puts dependencies in the order in which they are compared, without names of variables that are the outputs'.
fn order_dependencies(state: &mut State) {
    let Some(Value::Array(all)) = state.get_mut("dependencies") else { return };
    for one in all.iter_mut() {
        let Some(outputs) = one.get_mut("outputs").and_then(Value::as_array_mut) else { continue };
        for output in outputs.iter_mut().filter_map(Value::as_object_mut) {
            if output.get("variable") == output.get("output") {
                output.remove("variable");
            }
        }
        outputs.sort_by_key(Value::to_string);
    }
    all.sort_by_key(|one| text(one, "stackRef"));
}

/// Keeps values of the environment that come from Secrets apart, by the names of their variables.
fn environment_of(said: &mut State, hidden: &mut Hidden, problems: &mut Vec<String>) {
    let Some(Value::Array(all)) = said.get_mut("environment") else { return };
    let mut secrets = State::new();
    for (at, variable) in all.iter_mut().enumerate() {
        let path = format!("environment[{at}]");
        let secret = hidden.0.remove(&format!("{path}.secretKeyRef")).filter(|value| !value.is_null());
        let Some(variable) = variable.as_object_mut() else { continue };
        let name = super::state::text(variable, "name").unwrap_or_default().to_owned();
        let has_value = variable.get("value").is_some_and(Value::is_string);
        let is_secret = variable.get("secret") == Some(&Value::Bool(true));
        match (secret, has_value, is_secret) {
            (Some(value), false, _) => {
                variable.insert("secret".into(), true.into());
                secrets.insert(name, value);
            }
            (None, true, false) | (None, false, true) => {}
            (Some(_), true, _) => {
                problems.push(format!("spec.{path}: value must not be given together with secretKeyRef"));
            }
            (None, true, true) => problems.push(format!(
                "spec.{path}: the value of a secret variable comes from a Secret among the files: name it in secretKeyRef"
            )),
            (None, false, false) => problems.push(format!("spec.{path}: value or secretKeyRef is required")),
        }
    }
    all.sort_by_key(|one| text(one, "name"));
    if !secrets.is_empty() {
        hidden.0.insert("environment".into(), secrets.into());
    }
}

/// Keeps what is in files apart, by their paths.
fn files_of(said: &mut State, hidden: &mut Hidden, problems: &mut Vec<String>) {
    let Some(Value::Array(all)) = said.get_mut("files") else { return };
    let (mut paths, mut contents) = (BTreeSet::new(), State::new());
    for (at, file) in all.iter().enumerate() {
        let place = format!("files[{at}]");
        let secret = hidden.0.remove(&format!("{place}.secretRef")).filter(|value| !value.is_null());
        let given = match (text(file, "path"), secret) {
            (Some(path), None) => vec![path],
            (None, Some(Value::Object(keys))) => {
                let folder = text(file, "mountPath").unwrap_or_default();
                let folder = folder.trim_end_matches('/');
                let path =
                    |key: &str| if folder.is_empty() { key.to_owned() } else { format!("{folder}/{key}") };
                let files: Vec<(String, Value)> =
                    keys.into_iter().map(|(key, content)| (path(&key), content)).collect();
                let given = files.iter().map(|(path, _)| path.clone()).collect();
                contents.extend(files);
                given
            }
            _ => {
                problems.push(format!(
                    "spec.{place}: secretRef is required, or path of a file that the stack has"
                ));
                continue;
            }
        };
        for path in given {
            if !paths.insert(path.clone()) {
                problems.push(format!("spec.{place}: {path} is also given before"));
            }
        }
    }
    *all = paths.into_iter().map(|path| json!({"path": path})).collect();
    if !contents.is_empty() {
        hidden.0.insert("files".into(), contents.into());
    }
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let ask = ReadStack(json!({"name": key}));
    let Some(answer) = there(console.client.send(&ask).await)? else { return Ok(None) };
    let simple = [
        "name",
        "type",
        "protect",
        "paused",
        "git",
        "workdir",
        "manageState",
        "variables",
        "approval",
        "requiredApprovals",
        "forbidSelfApproval",
        "commandApproval",
        "commands",
        "deleteCommands",
        "configuration",
        "cron",
    ];
    let mut state = picked(&answer, &simple);
    state.insert("tags".into(), tags(&answer));
    for name in ["approvalExpiry", "timeout", "interval"] {
        let span = text(&answer, name).and_then(|text| text.parse::<Seconds>().ok());
        state.extend(span.map(|span| (name.to_owned(), json!(span))));
    }
    let of = |name: &str, field: &str| answer.get(name).and_then(|one| text(one, field));
    if let Some(id) = of("project", "id") {
        state.extend(console.key(Kind::Project, &id).await?.map(|name| ("projectRef".into(), name.into())));
    }
    if let Some(id) = of("repository", "id") {
        state.insert("repositoryRef".into(), rendering::repository(&id, console).await?);
    }
    for (field, value) in [
        ("cluster", of("cluster", "handle")),
        ("actor", of("actor", "email")),
        ("stackDefinitionRef", of("definition", "name")),
    ] {
        state.extend(value.map(|value| (field.to_owned(), value.into())));
    }
    for list in ["commands", "deleteCommands"] {
        neat_steps(&mut state, list);
    }
    if let Some(overrides) = state.get_mut("cron").and_then(|cron| cron.get_mut("overrides")) {
        *overrides = only_said(overrides);
    }
    if let Some(schedule) = answer.get("driftSchedule").filter(|schedule| schedule.is_object()) {
        let mut drift = picked(schedule, &["crontab", "timeZone", "commands"]);
        neat_steps(&mut drift, "commands");
        state.insert("drift".into(), drift.into());
    }
    if let Some(job) = answer.get("jobSpec").filter(|job| job.is_object()) {
        state.insert("jobSpec".into(), told_job(job).into());
    }
    if let Some(policy) = answer.get("policyEngine").filter(|policy| policy.is_object()) {
        let mut fields = picked(policy, &["type", "customPolicies", "maxSeverity", "git"]);
        if let Some(id) = text(policy, "repositoryId") {
            fields.insert("repositoryRef".into(), rendering::repository(&id, console).await?);
        }
        state.insert("policyEngine".into(), fields.into());
    }
    let all = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let dependencies = all("dependencies").into_iter().filter_map(|one| {
        // One that the caller may not see has no name.
        let stack = text(one.get("stack")?, "name")?;
        Some(json!({"stackRef": stack, "outputs": one.get("outputs")}))
    });
    state.insert("dependencies".into(), dependencies.collect());
    order_dependencies(&mut state);
    one_is_usual(&mut state);
    let mut environment = all("environment");
    environment.sort_by_key(|one| text(one, "name"));
    let mut files = all("files");
    files.sort_by_key(|one| text(one, "path"));
    let mut notes = Vec::new();
    let is_secret = |one: &&Value| one.get("secret") == Some(&Value::Bool(true));
    let secret: Vec<String> =
        environment.iter().filter(is_secret).filter_map(|one| text(one, "name")).collect();
    if !secret.is_empty() {
        notes.push(format!("secret values of spec.environment: {}", secret.join(", ")));
    }
    if !files.is_empty() {
        notes.push("what is in spec.files is not told".to_owned());
    }
    state.insert("environment".into(), environment.into());
    state.insert("files".into(), files.into());
    state.insert("bindings".into(), bindings(&answer));
    let live = Live::new(Kind::InfrastructureStack, key, &answer, &state);
    Ok(Some(Live { notes, ..live }))
}

/// A mapping without what says nothing.
fn only_said(value: &Value) -> Value {
    let Value::Object(all) = value else { return value.clone() };
    let all = all.iter().map(|(name, value)| (name.clone(), only_said(value)));
    let says = |value: &Value| !value.is_null() && value.as_object().is_none_or(|below| !below.is_empty());
    all.filter(|(_, value)| says(value)).collect::<State>().into()
}

/// All variables of the environment that the document names.
fn environment(desired: &Desired) -> Value {
    let secrets = desired.hidden.get("environment");
    let variable = |one: &Value| {
        let mut fields = picked(one, &["name", "value", "secret"]);
        let value = text(one, "name").and_then(|name| secrets?.get(&name).cloned());
        fields.extend(value.map(|value| ("value".to_owned(), value)));
        Value::Object(fields)
    };
    desired.said.get("environment").and_then(Value::as_array).into_iter().flatten().map(variable).collect()
}

/// All files that the document names; those without content keep theirs.
fn files(desired: &Desired) -> Value {
    let contents = desired.hidden.get("files");
    let file = |one: &Value| {
        let mut fields = picked(one, &["path"]);
        let content = text(one, "path").and_then(|path| contents?.get(&path).cloned());
        fields.extend(content.map(|content| ("content".to_owned(), content)));
        Value::Object(fields)
    };
    desired.said.get("files").and_then(Value::as_array).into_iter().flatten().map(file).collect()
}

/// The attributes of what differs.
async fn attributes(
    before: Option<&State>,
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<State, CliError> {
    let none = State::new();
    let was = before.unwrap_or(&none);
    let mut names: Vec<&str> = changed(was, state).map(|(name, _)| name).collect();
    for name in ["environment", "files"] {
        if desired.hidden.get(name).is_some() && !names.contains(&name) {
            names.push(name);
        }
    }
    let mut attributes = State::new();
    for name in names {
        let value = state.get(name).cloned();
        let word = super::state::text(state, name);
        let or = |nothing: Value| value.clone().unwrap_or(nothing);
        let (name, value) = match name {
            "repositoryRef" => match word {
                Some(key) => ("repositoryId", console.known_id(Kind::GitRepository, key).await?.into()),
                None => continue,
            },
            "cluster" => match word {
                Some(key) => ("clusterId", console.known_id(Kind::Cluster, key).await?.into()),
                None => continue,
            },
            "stackDefinitionRef" => match word {
                Some(key) => ("definitionId", console.known_id(Kind::StackDefinition, key).await?.into()),
                None => ("definitionId", json!("")),
            },
            "actor" => ("actorId", actor(word, console).await?),
            "git" => match &value {
                Some(git) => (name, git.clone()),
                None => continue,
            },
            "dependencies" => (name, dependencies(value.as_ref(), console).await?),
            "policyEngine" => (name, policy(below(state, name), console).await?),
            "tags" => (name, tag_list(state)),
            "environment" => (name, environment(desired)),
            "files" => (name, files(desired)),
            "configuration" => (name, configuration(below(was, name), below(state, name))),
            "jobSpec" => (name, job(below(was, name), below(state, name))),
            "cron" => (name, or(json!({"crontab": ""}))),
            "drift" => {
                let drift = below(state, "drift").unwrap_or(&none);
                let said = |field: &str| drift.get(field).cloned().unwrap_or_else(|| json!(""));
                let drift = json!({
                    "crontab": said("crontab"),
                    "timeZone": said("timeZone"),
                    "commands": steps(drift, "commands"),
                });
                (name, drift)
            }
            "variables" => (name, or(json!({}))),
            "commands" | "deleteCommands" => (name, steps(state, name)),
            "requiredApprovals" => (name, or(json!(1))),
            "workdir" | "approvalExpiry" | "timeout" | "interval" => (name, or(json!(""))),
            "approval" | "forbidSelfApproval" | "commandApproval" | "manageState" | "protect" | "paused" => {
                (name, or(json!(false)))
            }
            // The others are sent otherwise, or not at all.
            _ => continue,
        };
        attributes.insert(name.to_owned(), value);
    }
    Ok(attributes)
}

/// The id of whoever has this e-mail address; an empty text is nobody's.
async fn actor(email: Option<&str>, console: &Console<'_>) -> Result<Value, CliError> {
    let Some(email) = email else { return Ok(json!("")) };
    let found = there(console.client.send(&FindUser(json!({"email": email}))).await)?;
    let id = found.as_ref().and_then(|found| text(found, "id"));
    let missing =
        || CliError::missing(format_args!("user or service account {email:?}"), "check its e-mail address");
    Ok(id.ok_or_else(missing)?.into())
}

async fn dependencies(all: Option<&Value>, console: &mut Console<'_>) -> Result<Value, CliError> {
    let mut attributes = Vec::new();
    for one in all.and_then(Value::as_array).into_iter().flatten() {
        let Some(stack) = text(one, "stackRef") else { continue };
        let taken = one.get("outputs").and_then(Value::as_array).into_iter().flatten();
        let taken = taken.map(|taken| {
            let output = text(taken, "output").unwrap_or_default();
            json!({"variable": text(taken, "variable").unwrap_or_else(|| output.clone()), "output": output})
        });
        let taken: Vec<Value> = taken.collect();
        let id = console.known_id(Kind::InfrastructureStack, &stack).await?;
        attributes.push(json!({"stackId": id, "outputs": taken}));
    }
    Ok(attributes.into())
}

async fn policy(said: Option<&State>, console: &mut Console<'_>) -> Result<Value, CliError> {
    let Some(said) = said else { return Ok(json!({"type": "NONE"})) };
    let mut attributes = said.clone();
    if let Some(Value::String(key)) = attributes.remove("repositoryRef") {
        attributes.insert("repositoryId".into(), console.known_id(Kind::GitRepository, &key).await?.into());
    }
    Ok(attributes.into())
}

pub(super) async fn make(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut attributes = attributes(None, state, desired, console).await?;
    attributes.insert("name".into(), desired.key.clone().into());
    attributes.insert("type".into(), state.get("type").cloned().unwrap_or_default());
    attributes.extend(id_attribute(state, console).await?);
    bind(&mut attributes, None, state, console).await?;
    console.send(MakeStack(json!({"attributes": attributes}))).await
}

pub(super) async fn change(
    live: &Live,
    merged: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let mut attributes = attributes(Some(&live.state), merged, desired, console).await?;
    bind(&mut attributes, Some(&live.state), merged, console).await?;
    console.send(ChangeStack(json!({"id": live.id, "attributes": attributes}))).await
}

/// Destroys what it made, then forgets it; `detach` only forgets it.
pub(super) async fn remove(live: &Live, detach: bool, console: &Console<'_>) -> Result<Value, CliError> {
    let id = live.id.clone();
    if detach {
        // Whoever detaches knows of the state that nothing knows of afterwards.
        let answer = there(console.client.send(&ReadStack(json!({"id": id}))).await)?;
        let version = answer.as_ref().and_then(|answer| answer.get("stateVersion"));
        let forget = version.filter(|version| version.get("resources") != Some(&json!(0)));
        let forget = forget.and_then(|version| text(version, "id"));
        console.client.send(&DetachStack { id, forget, leave_dependents: None }).await?;
    } else {
        console.client.send(&DeleteStack { id, forget: None, leave_dependents: None }).await?;
    }
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(mut said: Value, hidden: &[(&str, Value)]) -> (State, Hidden, Vec<String>) {
        let said = said.as_object_mut().unwrap();
        let mut hidden =
            Hidden(hidden.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect());
        let mut problems = Vec::new();
        prepare("net", said, &mut hidden, &mut problems);
        (said.clone(), hidden, problems)
    }

    #[test]
    fn secrets_are_kept_apart_by_name_and_files_by_path() {
        let (said, hidden, problems) = prepared(
            json!({
                "environment": [{"name": "TOKEN"}, {"name": "A", "value": "1"}, {"name": "OLD", "secret": true}],
                "files": [{"mountPath": "certs/"}, {"path": "b.tfvars"}],
            }),
            &[
                ("environment[0].secretKeyRef", json!("hunter2")),
                ("files[0].secretRef", json!({"ca.pem": "hunter3"})),
            ],
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(
            said["environment"],
            json!([{"name": "A", "value": "1"}, {"name": "OLD", "secret": true}, {"name": "TOKEN", "secret": true}])
        );
        assert_eq!(said["files"], json!([{"path": "b.tfvars"}, {"path": "certs/ca.pem"}]));
        assert_eq!(hidden.get("environment"), Some(&json!({"TOKEN": "hunter2"})));
        assert_eq!(hidden.get("files"), Some(&json!({"certs/ca.pem": "hunter3"})));
        let desired = Desired { key: "net".into(), said, hidden };
        assert_eq!(
            environment(&desired),
            json!([
                {"name": "A", "value": "1"}, {"name": "OLD", "secret": true},
                {"name": "TOKEN", "secret": true, "value": "hunter2"},
            ])
        );
        assert_eq!(
            files(&desired),
            json!([{"path": "b.tfvars"}, {"path": "certs/ca.pem", "content": "hunter3"}])
        );
    }

    #[test]
    fn variables_and_files_without_a_value_are_told() {
        let (_, _, problems) = prepared(
            json!({
                "environment": [{"name": "A"}, {"name": "B", "value": "hunter2", "secret": true}, {"name": "C", "value": "x"}],
                "files": [{"mountPath": "certs"}, {"path": "a"}, {"path": "a"}],
                "cluster": "blue", "clusterRef": "green",
            }),
            &[("environment[2].secretKeyRef", json!("hunter2"))],
        );
        let starts = [
            "spec.clusterRef: ",
            "spec.environment[0]: value or secretKeyRef",
            "spec.environment[1]: the value of a secret",
            "spec.environment[2]: value must not",
            "spec.files[0]: secretRef is required",
            "spec.files[2]: a is also given",
        ];
        assert_eq!(problems.len(), starts.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(starts) {
            assert!(problem.starts_with(start) && !problem.contains("hunter2"), "{problem}");
        }
    }

    #[test]
    fn overrides_are_what_somebody_said() {
        let told = json!({"terraform": {"refresh": false, "tofu": null}, "pulumi": null, "terragrunt": {"refresh": null}});
        assert_eq!(only_said(&told), json!({"terraform": {"refresh": false}}));
    }

    #[test]
    fn what_is_usual_is_not_said() {
        let (said, _, problems) = prepared(
            json!({
                "requiredApprovals": 1,
                "dependencies": [
                    {"stackRef": "b", "outputs": [{"output": "z", "variable": "y"}, {"output": "a", "variable": "a"}]},
                    {"stackRef": "a"},
                ],
            "drift": {"commands": [{"cmd": "look", "stage": "APPLY"}]},
            }),
            &[],
        );
        assert_eq!(said["requiredApprovals"], Value::Null);
        assert_eq!(
            said["dependencies"],
            json!([{"stackRef": "a"}, {"stackRef": "b", "outputs": [{"output": "a"}, {"output": "z", "variable": "y"}]}])
        );
        assert_eq!(said["drift"], json!({"commands": [{"cmd": "look"}]}));
        assert_eq!(problems, [""; 0]);
    }
}
