//! Opens files that SOPS encrypted for age recipients, from the public description of its format: values are encrypted one by one with
//! AES-256-GCM and a key that each recipient can open, and a MAC over all of them says that none was changed, moved or removed.

use std::{borrow::Cow, collections::BTreeSet, fmt::Write as _};

use aes_gcm::{
    AesGcm, KeyInit as _,
    aead::{
        Aead as _, Payload,
        consts::{U12, U32},
    },
    aes::Aes256,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use plural_render::yaml::{self, numbers::format_f_shortest};
use regex::Regex;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha512};

use super::age::{self, AgeError, Identity};

/// The cipher, with the nonces that SOPS makes.
type Usual = AesGcm<Aes256, U32>;
/// The same with shorter ones.
type Short = AesGcm<Aes256, U12>;
/// What an encrypted value begins with.
const SEALED: &str = "ENC[AES256_GCM,";
/// The same in base64, at each of the three places that it may have in a group of three bytes.
const ENCODED: [&str; 3] = ["RU5DW0FFUzI1Nl9HQ00s", "Q1tBRVMyNTZfR0NNL", "TkNbQUVTMjU2X0dDTS"];
/// The name of the metadata, and the beginning of their names where a file has no maps.
const METADATA: &str = "sops";
/// Keys that end so are not encrypted unless the file says otherwise.
const OPEN: &str = "_unencrypted";
/// What a MAC begins with that covers encrypted values only.
const ONLY_ENCRYPTED: [u8; 32] = [
    0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b, 0x0b,
    0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
];

/// Why a file does not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SopsError {
    #[error("it is no file that SOPS encrypted")]
    Format,
    #[error("it cannot be read as {0}")]
    Text(&'static str),
    #[error("its SOPS metadata cannot be read")]
    Metadata,
    #[error(
        "it is encrypted for {0} only: the agent opens files for age recipients, so add one of the project (sops updatekeys)"
    )]
    NoAge(String),
    #[error("its key is split among groups of keys, which the agent does not put together")]
    Groups,
    #[error(
        "comments say which of its values are encrypted, which the agent does not read: use encrypted_regex"
    )]
    Comments,
    #[error("it is an INI file, which the agent does not read")]
    Ini,
    #[error("none of the project's age identities opens it; it is encrypted for {0}")]
    NoIdentity(String),
    #[error("its key cannot be read")]
    Key(#[source] AgeError),
    #[error("the value {0} was changed, or was moved from elsewhere")]
    Value(String),
    #[error("a value of it was changed, moved or removed since SOPS encrypted it: its MAC does not fit")]
    Mac,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Yaml,
    Json,
    Env,
    Ini,
    /// Anything, as one value.
    Binary,
}

impl Format {
    /// By the name; what makes a file a template is no part of it.
    pub(crate) fn of(path: &str) -> Self {
        let name = path.strip_suffix(".liquid").unwrap_or(path);
        match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "yaml" | "yml" => Self::Yaml,
            "json" => Self::Json,
            "env" => Self::Env,
            "ini" => Self::Ini,
            _ => Self::Binary,
        }
    }
}

/// A value, with its maps in the order of the file.
#[derive(Clone)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// A file that was opened.
pub(crate) struct Opened {
    pub(crate) format: Format,
    pub(crate) documents: Vec<Node>,
    /// What was encrypted in it.
    pub(crate) secrets: BTreeSet<String>,
}

/// A look at the bytes says whether a file is one at all; it may say so of one that is not.
pub(crate) fn may_be(content: &[u8]) -> bool {
    memchr::memmem::find(content, SEALED.as_bytes()).is_some()
        && memchr::memmem::find(content, METADATA.as_bytes()).is_some()
}

/// Whether a text holds a value that is still encrypted, in clear or in base64.
pub(crate) fn holds_sealed(text: &str) -> bool {
    text.contains(SEALED) || ENCODED.iter().any(|encoded| text.contains(encoded))
}

/// Opens a file.
pub(crate) fn open(path: &str, content: &[u8], identities: &[Identity]) -> Result<Opened, SopsError> {
    let format = Format::of(path);
    let (mut documents, metadata) = read(format, content)?;
    let metadata: Metadata = serde_json::from_value(metadata).map_err(|_| SopsError::Metadata)?;
    let key = metadata.key(identities)?;
    let rules = Rules::of(&metadata)?;
    let mut opening = Opening { key, rules, hash: Sha512::new(), secrets: BTreeSet::new() };
    if opening.rules.only_encrypted {
        opening.hash.update(ONLY_ENCRYPTED);
    }
    for document in &mut documents {
        opening.walk(document, &mut Vec::new())?;
    }
    let mac = unseal(&opening.key, &metadata.mac, &metadata.lastmodified).ok_or(SopsError::Mac)?;
    let Opening { hash, secrets, .. } = opening;
    let mut digest = String::with_capacity(128);
    for byte in hash.finalize() {
        let _ = write!(digest, "{byte:02X}");
    }
    if mac.0 != digest.as_bytes() {
        return Err(SopsError::Mac);
    }
    Ok(Opened { format, documents, secrets })
}

impl Opened {
    /// The file as it was before.
    pub(crate) fn content(&self) -> Vec<u8> {
        match self.format {
            Format::Yaml => {
                let texts: Vec<String> =
                    self.documents.iter().map(|document| yaml::to_string(&document.json())).collect();
                texts.join("---\n").into_bytes()
            }
            Format::Json => {
                self.documents.first().map(|one| one.json().to_string()).unwrap_or_default().into_bytes()
            }
            Format::Env | Format::Ini => {
                let Some(Node::Map(entries)) = self.documents.first() else { return Vec::new() };
                let mut text = String::new();
                for (name, value) in entries {
                    let value = value.text().unwrap_or_default().replace('\n', "\\n");
                    let _ = writeln!(text, "{name}={value}");
                }
                text.into_bytes()
            }
            Format::Binary => match self.documents.first().and_then(|one| one.at("data")) {
                Some(Node::Text(text)) => text.clone().into_bytes(),
                Some(_) | None => Vec::new(),
            },
        }
    }

    /// The value at a place of the first document that has it; all of a binary file where none is named.
    pub(crate) fn value(&self, key: Option<&str>) -> Result<String, String> {
        match (key, self.format) {
            (None, Format::Binary) => Ok(String::from_utf8_lossy(&self.content()).into_owned()),
            (None, Format::Yaml | Format::Json | Format::Env | Format::Ini) => {
                Err("the reference has to name a value of it: FILE#KEY".to_owned())
            }
            (Some(key), _) => value_at(&self.documents, key),
        }
    }
}

/// The single value at a place, as text.
pub(crate) fn value_at(documents: &[Node], key: &str) -> Result<String, String> {
    let found = documents.iter().find_map(|document| document.at(key));
    let found = found.ok_or_else(|| format!("it has no value {key:?}"))?;
    found.text().ok_or_else(|| format!("its {key:?} is no single value"))
}

/// Reads a file that is not encrypted, or no longer.
pub(crate) fn plain(format: Format, content: &[u8]) -> Result<Vec<Node>, SopsError> {
    Ok(match format {
        Format::Yaml => {
            let text = std::str::from_utf8(content).map_err(|_| SopsError::Text("YAML"))?;
            // The split takes the end of the last line, which a text in it may need.
            let documents = yaml::split_documents(text).into_iter().map(|document| format!("{document}\n"));
            let read = |document: String| {
                yaml::parse_with(document.as_bytes(), &mut Ordered).map_err(|_| SopsError::Text("YAML"))
            };
            let documents: Result<Vec<Node>, SopsError> = documents.map(read).collect();
            documents?
        }
        Format::Json | Format::Binary => {
            vec![serde_json::from_slice(content).map_err(|_| SopsError::Text("JSON"))?]
        }
        Format::Env => {
            let text = std::str::from_utf8(content).map_err(|_| SopsError::Text("NAME=VALUE lines"))?;
            let lines = text.split('\n').filter(|line| !line.is_empty() && !line.starts_with('#'));
            let entry = |line: &str| {
                let (name, value) = line.split_once('=')?;
                Some((name.to_owned(), Node::Text(value.replace("\\n", "\n"))))
            };
            let entries: Option<Vec<_>> = lines.map(entry).collect();
            vec![Node::Map(entries.ok_or(SopsError::Text("NAME=VALUE lines"))?)]
        }
        Format::Ini => return Err(SopsError::Ini),
    })
}

/// The documents of an encrypted file, and the metadata apart from them.
fn read(format: Format, content: &[u8]) -> Result<(Vec<Node>, Value), SopsError> {
    let mut documents = match plain(format, content) {
        Err(SopsError::Text(_)) if format == Format::Binary => return Err(SopsError::Format),
        read => read?,
    };
    let mut metadata = None;
    for document in &mut documents {
        let Node::Map(entries) = document else { continue };
        let (ours, others): (Vec<_>, Vec<_>) = std::mem::take(entries).into_iter().partition(|(name, _)| {
            if format == Format::Env { name.starts_with("sops_") } else { name == METADATA }
        });
        *entries = others;
        if metadata.is_none() && !ours.is_empty() {
            metadata = Some(if format == Format::Env {
                unflattened(ours)
            } else {
                ours.into_iter().next().map(|(_, value)| value.json()).unwrap_or_default()
            });
        }
    }
    Ok((documents, metadata.filter(Value::is_object).ok_or(SopsError::Format)?))
}

/// Metadata of a file without maps: `sops_age__list_0__map_enc` is `age[0].enc`.
fn unflattened(entries: Vec<(String, Node)>) -> Value {
    let mut all = Map::new();
    for (name, value) in entries {
        let name = name.strip_prefix("sops_").unwrap_or(&name);
        let Some((list, rest)) = name.split_once("__list_") else {
            all.insert(name.to_owned(), value.json());
            continue;
        };
        let Some((at, key)) = rest.split_once("__map_") else { continue };
        // As many as anybody has; the rest is as if it were not there.
        let Some(at) = at.parse::<usize>().ok().filter(|at| *at < 1000) else { continue };
        let list = all.entry(list.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
        let Some(items) = list.as_array_mut() else { continue };
        if items.len() <= at {
            items.resize(at + 1, Value::Object(Map::new()));
        }
        items[at][key] = value.json();
    }
    Value::Object(all)
}

/// What SOPS says of a file.
#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    age: Option<Vec<Recipient>>,
    #[serde(default)]
    key_groups: Option<Vec<Value>>,
    mac: String,
    lastmodified: String,
    #[serde(default)]
    unencrypted_suffix: Option<String>,
    #[serde(default)]
    encrypted_suffix: Option<String>,
    #[serde(default)]
    unencrypted_regex: Option<String>,
    #[serde(default)]
    encrypted_regex: Option<String>,
    #[serde(default)]
    unencrypted_comment_regex: Option<String>,
    #[serde(default)]
    encrypted_comment_regex: Option<String>,
    /// A text where a file has no other values.
    #[serde(default)]
    mac_only_encrypted: Value,
    /// Recipients of other kinds among them.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
struct Recipient {
    recipient: String,
    enc: String,
}

impl Metadata {
    /// The key of the file.
    fn key(&self, identities: &[Identity]) -> Result<[u8; 32], SopsError> {
        if self.key_groups.as_ref().is_some_and(|groups| !groups.is_empty()) {
            return Err(SopsError::Groups);
        }
        let recipients = self.age.as_deref().unwrap_or_default();
        if recipients.is_empty() {
            return Err(SopsError::NoAge(self.kinds()));
        }
        let mut failed = None;
        for Recipient { enc, .. } in recipients {
            match age::open(enc.as_bytes(), identities) {
                Ok(key) => return key.try_into().map_err(|_| SopsError::Metadata),
                Err(AgeError::NoIdentity) => {}
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.map_or_else(
            || {
                let named: Vec<&str> = recipients
                    .iter()
                    .map(|one| one.recipient.as_str())
                    .filter(|text| text.len() < 100)
                    .collect();
                SopsError::NoIdentity(named[..named.len().min(5)].join(", "))
            },
            SopsError::Key,
        ))
    }

    /// For whom it is encrypted instead.
    fn kinds(&self) -> String {
        let kinds = [
            ("pgp", "PGP keys"),
            ("kms", "AWS KMS"),
            ("gcp_kms", "Google Cloud KMS"),
            ("azure_kv", "Azure Key Vault"),
            ("hc_vault", "Vault transit"),
            ("hckms", "Huawei Cloud KMS"),
        ];
        let is_there =
            |name: &str| self.others.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        let found: Vec<&str> =
            kinds.iter().filter(|(name, _)| is_there(name)).map(|(_, words)| *words).collect();
        if found.is_empty() { "nobody".to_owned() } else { found.join(", ") }
    }
}

/// Which values are encrypted, and what the MAC covers.
struct Rules {
    kind: Rule,
    only_encrypted: bool,
}

enum Rule {
    OpenSuffix(String),
    SealedSuffix(String),
    OpenMatch(Regex),
    SealedMatch(Regex),
}

impl Rules {
    fn of(metadata: &Metadata) -> Result<Self, SopsError> {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let regex = |text: String| Regex::new(&text).map_err(|_| SopsError::Metadata);
        if some(&metadata.unencrypted_comment_regex).is_some()
            || some(&metadata.encrypted_comment_regex).is_some()
        {
            return Err(SopsError::Comments);
        }
        let kind = match (
            some(&metadata.unencrypted_suffix),
            some(&metadata.encrypted_suffix),
            some(&metadata.unencrypted_regex),
            some(&metadata.encrypted_regex),
        ) {
            (None, None, None, None) => Rule::OpenSuffix(OPEN.to_owned()),
            (Some(suffix), None, None, None) => Rule::OpenSuffix(suffix),
            (None, Some(suffix), None, None) => Rule::SealedSuffix(suffix),
            (None, None, Some(text), None) => Rule::OpenMatch(regex(text)?),
            (None, None, None, Some(text)) => Rule::SealedMatch(regex(text)?),
            _ => return Err(SopsError::Metadata),
        };
        let only_encrypted = match &metadata.mac_only_encrypted {
            Value::Bool(only) => *only,
            Value::String(text) => text == "true",
            Value::Null => false,
            Value::Number(_) | Value::Array(_) | Value::Object(_) => return Err(SopsError::Metadata),
        };
        Ok(Self { kind, only_encrypted })
    }

    fn is_sealed(&self, path: &[String]) -> bool {
        let any = |of: &dyn Fn(&str) -> bool| path.iter().any(|part| of(part));
        match &self.kind {
            Rule::OpenSuffix(suffix) => !any(&|part| part.ends_with(suffix.as_str())),
            Rule::SealedSuffix(suffix) => any(&|part| part.ends_with(suffix.as_str())),
            Rule::OpenMatch(regex) => !any(&|part| regex.is_match(part)),
            Rule::SealedMatch(regex) => any(&|part| regex.is_match(part)),
        }
    }
}

struct Opening {
    key: [u8; 32],
    rules: Rules,
    hash: Sha512,
    secrets: BTreeSet<String>,
}

impl Opening {
    /// Opens all values below one, in the order of the file. Items of a list have the path of the list.
    fn walk(&mut self, node: &mut Node, path: &mut Vec<String>) -> Result<(), SopsError> {
        match node {
            Node::Map(entries) => {
                for (name, value) in entries {
                    path.push(name.clone());
                    self.walk(value, path)?;
                    path.pop();
                }
                return Ok(());
            }
            Node::List(items) => {
                let mut kept = Vec::with_capacity(items.len());
                for mut item in std::mem::take(items) {
                    // In a list a comment is an item like the others.
                    let is_comment = matches!(&item, Node::Text(text) if is_comment(text));
                    if is_comment {
                        continue;
                    }
                    self.walk(&mut item, path)?;
                    kept.push(item);
                }
                *items = kept;
                return Ok(());
            }
            Node::Null => return Ok(()),
            Node::Bool(_) | Node::Int(_) | Node::Uint(_) | Node::Float(_) | Node::Text(_) => {}
        }
        let is_sealed = self.rules.is_sealed(path);
        if is_sealed {
            let wrong = || SopsError::Value(path.join("."));
            let Node::Text(text) = &*node else { return Err(wrong()) };
            if !text.is_empty() {
                let bound = path.iter().fold(String::new(), |bound, part| bound + part + ":");
                let (bytes, kind) = unseal(&self.key, text, &bound).ok_or_else(wrong)?;
                *node = typed(bytes, &kind).ok_or_else(wrong)?;
                self.secrets.extend(node.text());
            }
        }
        if is_sealed || !self.rules.only_encrypted {
            self.hash.update(node.mac_text().as_bytes());
        }
        Ok(())
    }
}

fn is_comment(text: &str) -> bool {
    text.starts_with(SEALED) && text.ends_with(",type:comment]")
}

/// Opens `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`; answers the type, too.
fn unseal(key: &[u8; 32], text: &str, bound: &str) -> Option<(Vec<u8>, String)> {
    let rest = text.strip_prefix(SEALED)?.strip_prefix("data:")?.strip_suffix(']')?;
    let (data, rest) = rest.split_once(",iv:")?;
    let (iv, rest) = rest.split_once(",tag:")?;
    let (tag, kind) = rest.split_once(",type:")?;
    let decode = |text: &str| STANDARD.decode(text).ok();
    let (mut data, iv, tag) = (decode(data)?, decode(iv)?, decode(tag)?);
    if tag.len() != 16 {
        return None;
    }
    data.extend_from_slice(&tag);
    let payload = Payload { msg: &data, aad: bound.as_bytes() };
    let opened = if let Ok(iv) = <[u8; 32]>::try_from(iv.as_slice()) {
        Usual::new(&(*key).into()).decrypt(&iv.into(), payload)
    } else {
        let iv = <[u8; 12]>::try_from(iv.as_slice()).ok()?;
        Short::new(&(*key).into()).decrypt(&iv.into(), payload)
    };
    Some((opened.ok()?, kind.to_owned()))
}

fn typed(bytes: Vec<u8>, kind: &str) -> Option<Node> {
    let text = String::from_utf8(bytes).ok()?;
    Some(match kind {
        "str" | "bytes" | "time" => Node::Text(text),
        "int" => Node::Int(text.parse().ok()?),
        "float" => Node::Float(text.parse().ok()?),
        "bool" => Node::Bool(match text.as_str() {
            "True" | "true" => true,
            "False" | "false" => false,
            _ => return None,
        }),
        _ => return None,
    })
}

impl Node {
    fn json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => (*value).into(),
            Self::Uint(value) => (*value).into(),
            Self::Float(value) => {
                // A whole float is an integer, as everywhere where YAML becomes JSON.
                let whole = value.fract() == 0.0 && value.abs() < 9e15;
                if whole { (*value as i64).into() } else { (*value).into() }
            }
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => Value::Array(items.iter().map(Self::json).collect()),
            Self::Map(entries) => {
                Value::Object(entries.iter().map(|(name, value)| (name.clone(), value.json())).collect())
            }
        }
    }

    /// What the MAC takes of a value.
    fn mac_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Bool(value) => Cow::Borrowed(if *value { "True" } else { "False" }),
            Self::Int(value) => Cow::Owned(value.to_string()),
            Self::Uint(value) => Cow::Owned(value.to_string()),
            Self::Float(value) => Cow::Owned(format_f_shortest(*value)),
            Self::Null | Self::List(_) | Self::Map(_) => Cow::Borrowed(""),
        }
    }

    /// A single value as templates read it.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(_) | Self::Uint(_) | Self::Float(_) => Some(self.json().to_string()),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// What is at a place: keys with dots between them, which keys may hold themselves; the longest key that fits counts.
    pub(crate) fn at(&self, place: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => {
                let of =
                    |name: &str| entries.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value);
                if let Some(found) = of(place) {
                    return Some(found);
                }
                place.rmatch_indices('.').find_map(|(dot, _)| of(&place[..dot])?.at(&place[dot + 1..]))
            }
            Self::List(items) => {
                let (at, rest) = place.split_once('.').map_or((place, None), |(at, rest)| (at, Some(rest)));
                let item = items.get(at.parse::<usize>().ok()?)?;
                rest.map_or(Some(item), |rest| item.at(rest))
            }
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Uint(_) | Self::Float(_) | Self::Text(_) => {
                None
            }
        }
    }
}

/// Makes values of YAML.
struct Ordered;

impl<'a> yaml::Build<'a> for Ordered {
    type Value = Node;
    type Key = String;

    fn key(&mut self, text: Cow<'a, str>) -> String {
        text.into_owned()
    }

    fn null(&mut self) -> Node {
        Node::Null
    }

    fn bool(&mut self, value: bool) -> Node {
        Node::Bool(value)
    }

    fn int(&mut self, value: i64) -> Node {
        Node::Int(value)
    }

    fn uint(&mut self, value: u64) -> Node {
        Node::Uint(value)
    }

    fn float(&mut self, value: f64) -> Node {
        Node::Float(value)
    }

    fn string(&mut self, text: Cow<'a, str>) -> Node {
        Node::Text(text.into_owned())
    }

    fn sequence(&mut self, items: Vec<Node>) -> Node {
        Node::List(items)
    }

    fn mapping(&mut self, entries: Vec<(String, Node)>) -> Node {
        Node::Map(entries)
    }

    fn copy(&mut self, value: &Node) -> Node {
        value.clone()
    }

    fn entries(&mut self, value: &Node) -> Option<Vec<(String, Node)>> {
        if let Node::Map(entries) = value { Some(entries.clone()) } else { None }
    }

    fn items(&mut self, value: &Node) -> Option<Vec<Node>> {
        if let Node::List(items) = value { Some(items.clone()) } else { None }
    }

    fn key_text(&mut self, value: &Node) -> Option<String> {
        value.text()
    }
}

/// Reads JSON with its maps in their order.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Node;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Int(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(i64::try_from(value).map_or(Node::Uint(value), Node::Int))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Float(value))
            }

            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Node::List(all))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    all.push(entry);
                }
                Ok(Node::Map(all))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

#[cfg(test)]
#[path = "sops_tests.rs"]
mod tests;
