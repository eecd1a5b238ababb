//! A tree of files, and what makes a path one of it.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a path.
const MAX_PATH: usize = 1024;
/// Bytes of one part of a path, as file systems have it.
const MAX_PART: usize = 255;

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// A file.
    File(File),
    /// A symbolic link. It is never followed, read or written through.
    Link(String),
}

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its content.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub bytes: Vec<u8>,
    /// Whether it may be run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

/// Files by path, without a leading slash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Files {
    entries: BTreeMap<String, Entry>,
}

impl Files {
    /// Of texts, none of which may be run.
    ///
    /// # Errors
    /// A path that is none.
    pub fn of_texts<'t>(texts: impl IntoIterator<Item = (&'t str, &'t str)>) -> Result<Self, String> {
        let mut files = Self::default();
        for (path, text) in texts {
            files.insert(path, Entry::File(File { bytes: text.as_bytes().to_vec(), executable: false }))?;
        }
        Ok(files)
    }

    /// Puts an entry at a path, in the place of what was there.
    ///
    /// # Errors
    /// When the path is none, leads through a link or a file, or to a folder.
    pub fn insert(&mut self, path: &str, entry: Entry) -> Result<(), String> {
        let path = clean_path(path)?;
        for (at, _) in path.match_indices('/') {
            match self.entries.get(&path[..at]) {
                None => {}
                Some(Entry::Link(_)) => {
                    return Err(format!("{path} would be written through the link {}", &path[..at]));
                }
                Some(Entry::File(_)) => {
                    return Err(format!("{path} cannot be written: {} is a file", &path[..at]));
                }
            }
        }
        if self.has_folder(&path) {
            return Err(format!("{path} cannot be written: it is a folder"));
        }
        if let (Entry::File(_), Some(Entry::Link(_))) = (&entry, self.entries.get(&path)) {
            return Err(format!("{path} is a link: no file is written through it"));
        }
        self.entries.insert(path, entry);
        Ok(())
    }

    /// The file at a path, which must be clean.
    pub fn file(&self, path: &str) -> Option<&File> {
        match self.entries.get(path)? {
            Entry::File(file) => Some(file),
            Entry::Link(_) => None,
        }
    }

    /// What stands at a path, which must be clean.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Takes away what stands at a path; whether there was something.
    pub fn remove(&mut self, path: &str) -> bool {
        self.entries.remove(path).is_some()
    }

    /// All entries in path order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Paths below `folder` (empty: all), in order.
    pub fn below(&self, folder: &str) -> Vec<&str> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.entries
            .range(prefix.clone()..)
            .map(|(path, _)| path.as_str())
            .take_while(|path| path.starts_with(&prefix))
            .collect()
    }

    /// Whether something lies below `folder`.
    pub fn has_folder(&self, folder: &str) -> bool {
        let prefix = format!("{folder}/");
        self.entries.range(prefix.clone()..).next().is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> usize {
        self.entries
            .values()
            .map(|entry| match entry {
                Entry::File(file) => file.bytes.len(),
                Entry::Link(target) => target.len(),
            })
            .sum()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What makes `self` of `before`: a path with nothing is deleted.
    pub fn changes_since(&self, before: &Self) -> BTreeMap<String, Option<Entry>> {
        let deleted = before.entries.keys().filter(|path| !self.entries.contains_key(*path));
        let deleted = deleted.map(|path| (path.clone(), None));
        let changed = self.entries.iter().filter(|(path, entry)| before.entries.get(*path) != Some(*entry));
        deleted.chain(changed.map(|(path, entry)| (path.clone(), Some(entry.clone())))).collect()
    }
}

/// A path of a repository as git has it: relative, without `.`, `..`, empty parts, `.git`, and parts that a program would take for
/// an option.
///
/// # Errors
/// What is wrong with it.
pub fn clean_path(path: &str) -> Result<String, String> {
    let shown: String = path.chars().take(120).collect();
    let bad = |why: &str| Err(format!("the path {shown:?} {why}"));
    if path.len() > MAX_PATH {
        return bad("is too long");
    }
    if path.starts_with('/') {
        return bad("is absolute");
    }
    if path
        .chars()
        .any(|c| c.is_control() || c == '\\' || c == '\u{feff}' || ('\u{200b}'..='\u{200f}').contains(&c))
    {
        return bad("holds a line break, a control character or a backslash");
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => continue,
            ".." => return bad("leads out of its folder by .."),
            _ => {}
        }
        if part.len() > MAX_PART {
            return bad("has a part that is too long");
        }
        if part.starts_with('-') {
            return bad("has a part that begins with -");
        }
        // What file systems that know no case, or fold what stands behind a name, would take for it.
        let bare = part.trim_end_matches(['.', ' ']).to_ascii_lowercase();
        if bare == ".git" || bare == "git~1" || bare.starts_with(".git:") {
            return bad("leads into .git");
        }
        if part.trim() != part {
            return bad("has a part that begins or ends with white space");
        }
        parts.push(part);
    }
    if parts.is_empty() {
        return bad("names no file");
    }
    Ok(parts.join("/"))
}
