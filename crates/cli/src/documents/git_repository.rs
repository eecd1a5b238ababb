//! Documents of git repositories.

use plural_core::repository::RepositoryUrl;
use plural_wire::{ChangeGitRepository, MakeGitRepository, ReadGitRepository, RemoveGitRepository};
use serde_json::{Value, json};

use super::{
    console::{Console, text, there},
    kind::{Info, Kind},
    project::RECONCILIATION,
    schema::{Field, Type, field, refused},
    state::{Hidden, State, picked},
    thing::{Desired, Live, Values},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "GitRepository",
    singular: "gitrepository",
    plural: "gitrepositories",
    short: &["repo", "repos", "git", "repository", "repositories"],
    named_by: "URL",
    docs: "A git repository that services are read from. It is known by its address.",
    fields: FIELDS,
};

/// Keys of the Secret that `credentialsRef` names, which are the API's names too.
const CREDENTIALS: [&str; 5] = ["username", "password", "privateKey", "passphrase", "proxy"];

const VERIFY: &[Field] = &[
    field("allowedSigners", Type::Text, "SSH keys, as in git's gpg.ssh.allowedSignersFile."),
    field("openpgpKeys", Type::Text, "OpenPGP public keys, armoured."),
];

const FIELDS: &[Field] = &[
    field("url", Type::Text, "Where it is fetched from: https, ssh or git@host:path.").required(),
    field(
        "credentialsRef",
        Type::Secret,
        "Secret among the files with username and password, or privateKey and passphrase; proxy is the address of a proxy.",
    )
    .hidden(),
    field("caCertificate", Type::Text, "PEM of the authorities that sign the host's certificate.").hidden().added(),
    field("knownHosts", Type::Text, "The only SSH host keys that are accepted.").hidden().added(),
    field("verify", Type::Fields(VERIFY), "Whose signature a commit must carry.").hidden().added(),
    field("projectRef", Type::Reference(Kind::Project), "Where it belongs; the default project when absent. It cannot change.")
        .added(),
    refused("connectionRef", "a repository has credentials of its own; give url and credentialsRef"),
    RECONCILIATION,
];

pub(super) fn prepare(said: &mut State, hidden: &mut Hidden, problems: &mut Vec<String>) -> String {
    let url = super::state::text(said, "url").unwrap_or_default().to_owned();
    let url = match url.parse::<RepositoryUrl>() {
        Ok(url) => url.to_string(),
        Err(error) => {
            problems.push(format!("spec.url: {error}"));
            url
        }
    };
    said.insert("url".into(), url.clone().into());
    if hidden.get("credentialsRef").is_some_and(Value::is_null) {
        problems.push(
            "spec.credentialsRef: cannot be taken away; delete the repository and create it again".to_owned(),
        );
    }
    if let Some(Value::Object(secret)) = hidden.get("credentialsRef") {
        for key in secret.keys().filter(|key| !CREDENTIALS.contains(&key.as_str())) {
            problems.push(format!(
                "spec.credentialsRef: its Secret has the key {key}; the keys are {}",
                CREDENTIALS.join(", ")
            ));
        }
    }
    url
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let ask = ReadGitRepository(json!({"url": key}));
    let Some(answer) = there(console.client.send(&ask).await)? else { return Ok(None) };
    let mut state = picked(&answer, &["url"]);
    if let Some(project) = answer.get("project").and_then(|project| text(project, "id")) {
        state.extend(
            console.key(Kind::Project, &project).await?.map(|name| ("projectRef".into(), name.into())),
        );
    }
    let mut live = Live::new(Kind::GitRepository, key, &answer, &state);
    if let Some(method) = text(&answer, "authMethod") {
        let keys = if method == "SSH" { "privateKey" } else { "username, password" };
        live.notes.push(format!("secret keys of spec.credentialsRef: {keys}"));
    }
    if answer.get("signedCommits") == Some(&Value::Bool(true)) {
        live.notes.push("spec.verify is set, and not told".to_owned());
    }
    Ok(Some(live))
}

/// The console tells how it signs in, and not with what.
pub(super) fn values(live: &Live, desired: &Desired) -> Values {
    let secret = desired.hidden.get("credentialsRef");
    let has = |key: &str| secret.and_then(|secret| secret.get(key)).is_some();
    let known = |key: &str| live.notes.iter().any(|note| note.contains(key));
    let is_other = ["password", "privateKey"].into_iter().any(|key| has(key) && !known(key));
    if is_other { Values::Other } else { Values::Unknown }
}

fn attributes(desired: &Desired) -> Value {
    let Hidden(hidden) = &desired.hidden;
    let mut attributes = json!({"url": desired.key});
    let empty = |value: &Value| if value.is_null() { json!("") } else { value.clone() };
    for name in ["caCertificate", "knownHosts"] {
        if let Some(value) = hidden.get(name) {
            attributes[name] = empty(value);
        }
    }
    if let Some(verify) = hidden.get("verify") {
        // What is named replaces all of it.
        let part = |name: &str| empty(verify.get(name).unwrap_or(&Value::Null));
        attributes["verify"] =
            json!({"allowedSigners": part("allowedSigners"), "openpgpKeys": part("openpgpKeys")});
    }
    for (key, value) in hidden.get("credentialsRef").and_then(Value::as_object).into_iter().flatten() {
        if key == "proxy" {
            attributes["proxy"] = json!({"url": value});
        } else {
            attributes[key] = value.clone();
        }
    }
    attributes
}

pub(super) async fn make(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let project = match super::state::text(state, "projectRef") {
        Some(project) => Some(console.known_id(Kind::Project, project).await?),
        None => None,
    };
    console.send(MakeGitRepository(json!({"attributes": attributes(desired), "projectId": project}))).await
}

pub(super) async fn change(live: &Live, desired: &Desired, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(ChangeGitRepository(json!({"id": live.id, "attributes": attributes(desired)}))).await
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveGitRepository(json!({"id": live.id}))).await
}
