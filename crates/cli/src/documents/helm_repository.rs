//! Documents of chart repositories.

use plural_wire::{ReadHelmRepository, RemoveHelmRepository, SaveHelmRepository};
use serde_json::{Value, json};

use super::{
    console::{Console, text, there},
    kind::{Info, Kind},
    project::RECONCILIATION,
    schema::{Field, Type, field, refused},
    state::{Hidden, State, picked},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "HelmRepository",
    singular: "helmrepository",
    plural: "helmrepositories",
    short: &["helm", "helmrepo", "helmrepos"],
    named_by: "URL",
    docs: "A chart repository or registry that needs credentials. It is known by its address.",
    fields: FIELDS,
};

const CLOUD: &str =
    "the console does not sign in at clouds; give basic or bearer credentials of the registry";

const PROXY: &[Field] = &[
    field("url", Type::Text, "http://host:port.").required(),
    refused("noproxy", "a proxy belongs to one repository; leave it out where that needs none"),
];

const BASIC: &[Field] = &[
    field("username", Type::Text, "User name.").required(),
    field("passwordSecretRef", Type::Secret, "Secret among the files with the key password."),
    field("passwordSecretKeyRef", Type::SecretKey, "Key of a Secret among the files."),
];

const BEARER: &[Field] = &[
    field("tokenSecretRef", Type::Secret, "Secret among the files with the key token."),
    field("tokenSecretKeyRef", Type::SecretKey, "Key of a Secret among the files."),
];

const AUTH: &[Field] = &[
    field("basic", Type::Fields(BASIC), "User name and password."),
    field("bearer", Type::Fields(BEARER), "A token."),
    field("proxy", Type::Fields(PROXY), "Proxy to go through."),
    refused("aws", CLOUD),
    refused("azure", CLOUD),
    refused("gcp", CLOUD),
];

const FIELDS: &[Field] = &[
    field("url", Type::Text, "Where it is: https:// or oci://.").required(),
    field("provider", Type::Word(&["BASIC", "BEARER"]), "Which credentials count; follows from auth."),
    field("auth", Type::Fields(AUTH), "The credentials.").hidden(),
    field("caCertificate", Type::Text, "Certificates (PEM) to trust besides the system's.").hidden().added(),
    field(
        "projectRef",
        Type::Reference(Kind::Project),
        "The only project whose services use it; else those of all do.",
    )
    .added(),
    RECONCILIATION,
];

pub(super) fn prepare(said: &mut State, hidden: &mut Hidden, problems: &mut Vec<String>) -> String {
    let url = super::state::text(said, "url").unwrap_or_default().trim_end_matches('/').to_owned();
    said.insert("url".into(), url.clone().into());
    if hidden.get("auth").is_some_and(Value::is_null) {
        problems
            .push("spec.auth: cannot be taken away; delete the repository and create it again".to_owned());
    }
    if let Some(Value::Object(auth)) = hidden.0.get_mut("auth") {
        for (kind, secret, one, key) in [
            ("basic", "password", "passwordSecretKeyRef", "passwordSecretRef"),
            ("bearer", "token", "tokenSecretKeyRef", "tokenSecretRef"),
        ] {
            let Some(Value::Object(given)) = auth.get_mut(kind) else { continue };
            let whole = given.remove(key).and_then(|all| all.get(secret).cloned());
            match given.remove(one).or(whole) {
                Some(value) => drop(given.insert(secret.into(), value)),
                None => problems.push(format!(
                    "spec.auth.{kind}: {key} or {one} must name a Secret that has the {secret}"
                )),
            }
        }
    }
    url
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let ask = ReadHelmRepository(json!({"url": key}));
    let Some(answer) = there(console.client.send(&ask).await)? else { return Ok(None) };
    let mut state = picked(&answer, &["url", "provider"]);
    if let Some(project) = answer.get("project").and_then(|project| text(project, "id")) {
        state.extend(
            console.key(Kind::Project, &project).await?.map(|name| ("projectRef".into(), name.into())),
        );
    }
    let mut live = Live::new(Kind::HelmRepository, key, &answer, &state);
    if let Some(provider) = text(&answer, "provider") {
        live.notes.push(format!(
            "secret keys of spec.auth.{}: {}",
            provider.to_lowercase(),
            match provider.as_str() {
                "BASIC" => "password",
                _ => "token",
            }
        ));
    }
    Ok(Some(live))
}

pub(super) async fn save(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let Hidden(hidden) = &desired.hidden;
    let mut attributes = json!({});
    if let Some(auth) = hidden.get("auth").filter(|auth| !auth.is_null()) {
        attributes["auth"] = auth.clone();
    }
    if let Some(certificate) = hidden.get("caCertificate") {
        attributes["caCertificate"] = json!(certificate.as_str().unwrap_or_default());
    }
    attributes["projectId"] = match super::state::text(state, "projectRef") {
        Some(project) => console.known_id(Kind::Project, project).await?.into(),
        None => json!(""),
    };
    if let Some(provider) = desired.said.get("provider").filter(|provider| !provider.is_null()) {
        attributes["provider"] = provider.clone();
    }
    console.send(SaveHelmRepository(json!({"url": desired.key, "attributes": attributes}))).await
}

pub(super) async fn remove(live: &Live, console: &Console<'_>) -> Result<Value, CliError> {
    console.send(RemoveHelmRepository(json!({"url": live.key}))).await
}
