//! What `Chart.yaml` and `Chart.lock` say: [`ChartFile`].

use plural_versions::{Constraint, Version};
use serde_json::Value;

use crate::{
    access::printable,
    archive::Files,
    error::{Error, Result},
    index::options,
};

/// Dependencies of one chart.
const MAX_DEPENDENCIES: usize = 200;
/// Bytes of one of these files.
const MAX_BYTES: usize = 1 << 20;

/// The part of a `Chart.yaml` that says which charts it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChartFile {
    /// Name.
    pub name: String,
    /// Version, as it is written.
    pub version: String,
    /// What it needs.
    pub dependencies: Vec<Dependency>,
}

/// A chart that another needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Dependency {
    /// Name.
    pub name: String,
    /// Version or range; exact when it comes from a lock.
    pub version: String,
    /// Where it is: `https://…`, `oci://…`, `file://…`, or empty.
    pub repository: String,
}

impl ChartFile {
    /// Reads the chart in `folder`. Null or nonsense in place of a field counts as absent.
    ///
    /// # Errors
    /// When there is no `Chart.yaml`, or it cannot be read.
    pub fn read(files: &Files, folder: &str) -> Result<Self> {
        let value = document(files, folder, "Chart.yaml")?
            .ok_or_else(|| Error::malformed(format!("{} does not exist", path(folder, "Chart.yaml"))))?;
        let mut dependencies = dependencies(&value);
        // Charts of Helm 2 keep them beside.
        if let Some(requirements) = document(files, folder, "requirements.yaml")? {
            dependencies.extend(self::dependencies(&requirements));
        }
        if dependencies.len() > MAX_DEPENDENCIES {
            return Err(Error::malformed(format!("the chart has more than {MAX_DEPENDENCIES} dependencies")));
        }
        Ok(Self { name: text(&value, "name"), version: text(&value, "version"), dependencies })
    }

    /// What the lock beside it pins; nothing when there is no lock.
    pub(crate) fn lock(files: &Files, folder: &str) -> Result<Option<Vec<Dependency>>> {
        for name in ["Chart.lock", "requirements.lock"] {
            if let Some(value) = document(files, folder, name)? {
                return Ok(Some(dependencies(&value)));
            }
        }
        Ok(None)
    }
}

impl Dependency {
    /// Bytes of a name or a version: they become parts of paths.
    pub(crate) const LONGEST: usize = 253;

    /// Refuses what is too long to be a part of a path.
    pub(crate) fn check(&self) -> Result<()> {
        if self.name.len() > Self::LONGEST || self.version.len() > Self::LONGEST {
            return Err(Error::malformed(format!(
                "the name or version of {:?} is longer than {} bytes",
                printable(&self.name),
                Self::LONGEST
            )));
        }
        Ok(())
    }

    /// Whether a version is one that is asked for. What is no range is compared as text.
    pub(crate) fn allows(&self, version: &str) -> bool {
        match (Constraint::parse(&self.version), Version::parse(version)) {
            (Ok(range), Ok(version)) => range.check(&version),
            _ => self.version.is_empty() || self.version == version,
        }
    }
}

pub(crate) fn document(files: &Files, folder: &str, name: &str) -> Result<Option<Value>> {
    let path = path(folder, name);
    let Some(file) = files.get(&path) else { return Ok(None) };
    let broken = |why: &str| Error::malformed(format!("{path} cannot be read: {}", printable(why)));
    if file.content.len() > MAX_BYTES {
        return Err(broken("it is too large"));
    }
    let text = std::str::from_utf8(&file.content).map_err(|_| broken("it is not UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    let value = serde_saphyr::from_str_with_options::<Value>(text, options())
        .map_err(|error| broken(error.to_string().lines().next().unwrap_or_default()))?;
    Ok(Some(value))
}

fn dependencies(value: &Value) -> Vec<Dependency> {
    let items = value.get("dependencies").and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .map(|item| Dependency {
            name: text(item, "name"),
            version: text(item, "version"),
            repository: text(item, "repository"),
        })
        .filter(|dependency| !dependency.name.is_empty())
        .collect()
}

pub(crate) fn text(value: &Value, field: &str) -> String {
    match value.get(field) {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

pub(crate) fn path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::File;

    fn read(text: &str) -> Result<ChartFile> {
        let file = File { content: text.as_bytes().to_vec(), executable: false };
        ChartFile::read(&Files::from([("Chart.yaml".to_owned(), file)]), "")
    }

    #[test]
    fn null_and_nonsense_count_as_absent() {
        let chart =
            read("name: null\nversion: 1\ndependencies: [null, 7, {name: null}, {name: a, version: null}]");
        let chart = chart.unwrap();
        assert_eq!((chart.name.as_str(), chart.version.as_str()), ("", "1"));
        assert_eq!(chart.dependencies, [Dependency { name: "a".into(), ..Dependency::default() }]);
        assert!(read("dependencies: null").unwrap().dependencies.is_empty());
        assert!(read("[").is_err());
        assert!(ChartFile::read(&Files::new(), "x").is_err());
    }
}
