//! Files of a service that are encrypted in git: the agent opens them where it renders, and nobody before it.
//!
//! What SOPS encrypted is taken by templates, charts and Kustomizations as if it stood in git in clear; a reference takes one value of
//! it, or of what age encrypted. A key belongs to one project: a file that was copied to another one does not open there.

mod age;
mod keys;
mod sops;

use std::collections::{BTreeMap, BTreeSet};

use plural_core::service::{FileKeyRef, Reference};
use plural_render::{Object, Tree};
use serde_json::Value;

pub(crate) use self::keys::Keys;
use self::{
    age::{AgeError, Identity},
    keys::Identities,
    sops::{Format, SopsError},
};

/// Why what looks encrypted is not opened.
const NO_METADATA: &str =
    "the file that they come from has no SOPS metadata that can be read; encrypt it again";

/// What came of the encrypted files of a service.
pub(crate) struct Unlocked {
    /// With the files that were opened in place of the encrypted ones.
    pub(crate) tree: Tree,
    /// Values of references.
    pub(crate) values: BTreeMap<String, String>,
    /// Everything that was encrypted.
    pub(crate) secrets: BTreeSet<String>,
    /// Files that stay as they are, and why.
    pub(crate) locked: BTreeMap<String, String>,
    /// References that lead to nothing.
    pub(crate) problems: Vec<String>,
}

/// The encrypted files of a tree, and what refers to them.
pub(crate) struct Encrypted<'a> {
    tree: &'a Tree,
    folder: &'a str,
    files: Vec<(&'a str, &'a [u8])>,
    references: Vec<(&'a String, &'a Reference)>,
}

impl<'a> Encrypted<'a> {
    /// Looks for them.
    pub(crate) fn of(
        tree: &'a Tree,
        folder: &'a str,
        references: &'a BTreeMap<String, Reference>,
    ) -> Option<Self> {
        // Of other kinds of files a reference has to say that they are to be opened.
        let is_text = |path: &str| !matches!(Format::of(path), Format::Binary | Format::Ini);
        let files: Vec<_> =
            tree.walk("").filter(|(path, content)| is_text(path) && sops::may_be(content)).collect();
        let of_files = |(_, reference): &(&String, &Reference)| match reference {
            Reference::SopsKeyRef(_) | Reference::AgeKeyRef(_) => true,
            Reference::SecretKeyRef(_) | Reference::ConfigMapKeyRef(_) | Reference::VaultKeyRef(_) => false,
        };
        let references: Vec<_> = references.iter().filter(of_files).collect();
        (!files.is_empty() || !references.is_empty()).then_some(Self { tree, folder, files, references })
    }

    /// Opens them with the identities of a project; `again` gets them anew where they open not all.
    pub(crate) fn unlock(
        &self,
        project: &str,
        identities: &Identities,
        again: impl FnOnce() -> Result<Identities, String>,
    ) -> Result<Unlocked, String> {
        let (unlocked, is_all) = self.with(project, identities);
        if is_all {
            return Ok(unlocked);
        }
        Ok(self.with(project, &again()?).0)
    }

    /// Answers too whether no identity was missing.
    fn with(&self, project: &str, identities: &[Identity]) -> (Unlocked, bool) {
        let mut unlocked = Unlocked {
            tree: self.tree.clone(),
            values: BTreeMap::new(),
            secrets: BTreeSet::new(),
            locked: BTreeMap::new(),
            problems: Vec::new(),
        };
        let mut is_all = true;
        let mut opened: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let help =
            format!("the Secrets of the agent's namespace hold {} for project {project}", count(identities));
        for (path, content) in &self.files {
            match sops::open(path, content, identities) {
                Ok(file) => {
                    opened.insert((*path).to_owned(), file.content());
                    unlocked.secrets.extend(file.secrets);
                }
                // Perhaps it only looks like one: what is made of it says so.
                Err(SopsError::Format | SopsError::Text(_)) => {}
                Err(error) => {
                    is_all &= !matches!(error, SopsError::NoIdentity(_));
                    let told = match &error {
                        SopsError::NoIdentity(_) => format!("{error}; {help}"),
                        _ => error.to_string(),
                    };
                    unlocked.locked.insert((*path).to_owned(), told);
                }
            }
        }
        for (name, reference) in &self.references {
            let (place, value) = match reference {
                Reference::SopsKeyRef(place) => (place, self.sops(place, identities)),
                Reference::AgeKeyRef(place) => (place, self.age(place, identities)),
                Reference::SecretKeyRef(_) | Reference::ConfigMapKeyRef(_) | Reference::VaultKeyRef(_) => {
                    continue;
                }
            };
            match value {
                Ok(value) => {
                    unlocked.secrets.insert(value.clone());
                    unlocked.values.insert((*name).clone(), value);
                }
                Err(Unread { message, is_key }) => {
                    is_all &= !is_key;
                    let help = if is_key { format!("; {help}") } else { String::new() };
                    unlocked
                        .problems
                        .push(format!("configuration value {name:?}: file {}: {message}{help}", place.file));
                }
            }
        }
        if !opened.is_empty() {
            unlocked.tree = unlocked.tree.with_files(opened);
        }
        (unlocked, is_all)
    }

    fn content(&self, file: &str) -> Result<&'a [u8], Unread> {
        let folder = self.folder.trim_matches('/');
        let path = if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") };
        self.tree.read(&path).ok_or_else(|| Unread::new("the service's folder has no such file"))
    }

    fn sops(&self, place: &FileKeyRef, identities: &[Identity]) -> Result<String, Unread> {
        let content = self.content(&place.file)?;
        let opened = sops::open(&place.file, content, identities).map_err(|error| Unread {
            is_key: matches!(error, SopsError::NoIdentity(_)),
            message: error.to_string(),
        })?;
        opened.value(place.key.as_deref()).map_err(Unread::new)
    }

    fn age(&self, place: &FileKeyRef, identities: &[Identity]) -> Result<String, Unread> {
        let content = self.content(&place.file)?;
        let opened = age::open(content, identities)
            .map_err(|error| Unread { is_key: error == AgeError::NoIdentity, message: error.to_string() })?;
        let Some(key) = &place.key else {
            return String::from_utf8(opened).map_err(|_| Unread::new("its content is no text"));
        };
        let name = place.file.strip_suffix(".age").unwrap_or(&place.file);
        let format = Format::of(name);
        if format == Format::Binary {
            return Err(Unread::new(
                "its name does not say how it is written: call it NAME.yaml.age, .json.age or .env.age",
            ));
        }
        let documents = sops::plain(format, &opened).map_err(|error| Unread::new(error.to_string()))?;
        sops::value_at(&documents, key).map_err(Unread::new)
    }
}

/// Why a reference leads to nothing.
struct Unread {
    message: String,
    /// No identity opens it.
    is_key: bool,
}

impl Unread {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_key: false }
    }
}

fn count(identities: &[Identity]) -> String {
    match identities {
        [] => "no identity".to_owned(),
        [one] => format!("the identity of {}", one.recipient()),
        several => format!("{} identities", several.len()),
    }
}

/// Why objects may not be applied that hold values which are still encrypted: message and location of each. A file whose metadata is gone
/// or broken is not known to be encrypted: what stands in an object says so.
pub(crate) fn sealed_objects(objects: &[Object], locked: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let is_sealed: fn(&str) -> bool = if locked.is_empty() { holds_sealed_value } else { sops::holds_sealed };
    let sealed = objects.iter().filter(|object| holds(&object.value, is_sealed));
    let told = sealed.map(|object| {
        let path = &object.origin.path;
        let why = match locked.get(path) {
            Some(why) => why.clone(),
            None if locked.is_empty() => NO_METADATA.to_owned(),
            None => locked.iter().map(|(path, why)| format!("{path}: {why}")).collect::<Vec<_>>().join("; "),
        };
        let message = format!(
            "{} {} holds values that are still encrypted, and is not applied: {why}",
            object.kind(),
            object.name()
        );
        (message, path.clone())
    });
    told.collect()
}

/// `ENC[AES256_GCM,data` in base64, at each of the three places that it may have in a group of three bytes.
const SEALED_ENCODED: [&str; 3] =
    ["RU5DW0FFUzI1Nl9HQ00sZGF0", "Q1tBRVMyNTZfR0NNLGRhdGE", "TkNbQUVTMjU2X0dDTSxkYXRh"];

/// Whether a text holds what only an encrypted value looks like, in clear or in base64.
fn holds_sealed_value(text: &str) -> bool {
    text.contains("ENC[AES256_GCM,data:") || SEALED_ENCODED.iter().any(|encoded| text.contains(encoded))
}

fn holds(value: &Value, is_sealed: fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_sealed(text),
        Value::Array(items) => items.iter().any(|item| holds(item, is_sealed)),
        Value::Object(entries) => entries.values().any(|entry| holds(entry, is_sealed)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use plural_render::Origin;
    use serde_json::json;

    use super::*;

    #[test]
    fn ciphertext_is_not_applied_whatever_became_of_its_metadata() {
        let secret = |value: &str| {
            let value = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": value},
            });
            Object { value, origin: Origin { path: "s.yaml".to_owned(), line: 1 } }
        };
        let problems = |value: &str, locked: &[(&str, &str)]| {
            let locked = locked.iter().map(|(path, why)| ((*path).to_owned(), (*why).to_owned())).collect();
            sealed_objects(&[secret(value)], &locked)
        };
        let sealed = "ENC[AES256_GCM,data:mtMyd0R/z/rXQeat0glRMg==,iv:WiH+,tag:MwZH,type:str]";
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, sealed);
        for value in [sealed, &encoded, &format!("postgres://web:{sealed}@db")] {
            let told = problems(value, &[]);
            assert!(told.len() == 1 && told[0].0.contains("metadata") && told[0].1 == "s.yaml", "{told:?}");
            let told = problems(value, &[("s.yaml", "it is locked")]);
            assert!(told[0].0.ends_with("it is locked"), "{told:?}");
        }
        assert_eq!(problems("a value begins with ENC[AES256_GCM, and ends with a bracket", &[]), []);
        assert_eq!(problems("hunter2", &[("s.yaml", "it is locked")]), []);
    }
}
