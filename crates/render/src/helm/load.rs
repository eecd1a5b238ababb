//! Files become a chart.

use std::{collections::BTreeMap, io::Read as _, sync::Arc};

use plural_gotemplate::funcs::clean_path;
use plural_yaml::governor;
use serde_json::{Map, Value};

use super::{
    chart::{Chart, Dependency, Maintainer, Metadata, Template},
    ignore::Rules,
    render::{HelmError, Stage},
};
use crate::{
    tree::{Tree, join},
    yaml,
};

/// How large an archive of a chart may be, as Helm limits it.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Files and folders.
    pub entries: usize,
    /// Charts inside charts.
    pub depth: usize,
    /// How often larger the content may be than the archive; archives with up to 10 MiB of content are not asked.
    pub ratio: u64,
}

/// Content that no ratio is asked of.
const FREE_BYTES: u64 = 10 << 20;

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { bytes: 100 << 20, file_bytes: 5 << 20, entries: 50_000, depth: 20, ratio: 200 }
    }
}

type Files = Vec<(String, Arc<[u8]>)>;

fn failed<T>(message: impl Into<String>) -> Result<T, HelmError> {
    Err(HelmError::new(Stage::Load, message))
}

impl Chart {
    /// The chart in `folder` of a tree, without what its `.helmignore` leaves out.
    ///
    /// # Errors
    /// As Helm words them.
    pub fn from_tree(tree: &Tree, folder: &str, limits: &ArchiveLimits) -> Result<Self, HelmError> {
        let ignore = tree.read(&join(folder, ".helmignore")).unwrap_or_default();
        let rules = Rules::parse(&String::from_utf8_lossy(ignore)).or_else(failed)?;
        let skip = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let mut files = Files::new();
        for (path, content) in tree.walk(folder) {
            let path = &path[skip..];
            if rules.leave_out(path) {
                continue;
            }
            if content.len() as u64 > limits.file_bytes {
                let name = path.rsplit('/').next().unwrap_or(path);
                return failed(format!(
                    "chart file {name:?} is larger than the maximum file size {}",
                    limits.file_bytes
                ));
            }
            if !governor::may_go_on(content.len() as u64) {
                return failed(governor::STOPPED);
            }
            files.push((path.to_owned(), without_bom(content).into()));
        }
        from_files(files, limits, 0, &mut limits.bytes.clone())
    }

    /// The chart in a `.tgz`.
    ///
    /// # Errors
    /// As Helm words them.
    pub fn from_archive(archive: &[u8], limits: &ArchiveLimits) -> Result<Self, HelmError> {
        let mut left = limits.bytes;
        let files = unpack(archive, limits, &mut left)?;
        from_files(files, limits, 0, &mut left)
    }
}

/// The caller ended the render.
fn stopped() -> std::io::Error {
    std::io::Error::other(governor::STOPPED)
}

/// Between two questions to the caller so much is unpacked.
const PIECE: u64 = 1 << 20;

/// What came out of a compressed stream, and why no more did: that matters only to who reads on.
struct Unpacked {
    content: Vec<u8>,
    error: Option<std::io::Error>,
}

/// How much a stream is likely to unpack to: it says so in its end, and is believed as far as streams are
/// usually packed.
fn room(archive: &[u8], most: u64) -> usize {
    let told = archive.last_chunk::<4>().map_or(0, |len| u32::from_le_bytes(*len) as usize);
    told.min(archive.len().saturating_mul(16)).min(most as usize)
}

impl Unpacked {
    fn of(mut stream: impl std::io::Read, room: usize) -> Self {
        if !governor::may_go_on(room as u64) {
            return Self { content: Vec::new(), error: Some(stopped()) };
        }
        let mut content = Vec::with_capacity(room);
        let error = loop {
            // What it grows to is twice as large while it is moved.
            if !governor::may_go_on(content.len() as u64) {
                break Some(stopped());
            }
            match stream.by_ref().take(PIECE).read_to_end(&mut content) {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        Self { content, error }
    }

    fn reader(self) -> impl std::io::Read {
        std::io::Cursor::new(self.content).chain(Failing(self.error))
    }
}

/// Fails once when there is something to say, and is at its end.
struct Failing(Option<std::io::Error>);

impl std::io::Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn without_bom(content: &[u8]) -> &[u8] {
    content.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(content)
}

/// The files of an archive, without the folder that they all lie in.
fn unpack(archive: &[u8], limits: &ArchiveLimits, left: &mut u64) -> Result<Files, HelmError> {
    let too_large = || {
        HelmError::new(
            Stage::Load,
            format!("decompressed chart is larger than the maximum file size {}", limits.bytes),
        )
    };
    let unreadable = |error: std::io::Error| HelmError::new(Stage::Load, error.to_string());
    if !archive.starts_with(&[0x1F, 0x8B]) {
        return failed("gzip: invalid header");
    }
    // Everything that is not a file is limited too: headers cost memory and time.
    let most = left.saturating_add(limits.entries as u64 * 1536);
    let content = flate2::read::MultiGzDecoder::new(archive).take(most);
    let allowed = (archive.len() as u64).saturating_mul(limits.ratio).max(FREE_BYTES);
    let inflated = Inflated { content, left: allowed, ratio: limits.ratio };
    let mut tar = tar::Archive::new(Unpacked::of(inflated, room(archive, most)).reader());
    let mut files = Files::new();
    let mut entries = 0;
    for entry in tar.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        entries += 1;
        if entries > limits.entries {
            return failed(format!("the chart archive holds more than {} entries", limits.entries));
        }
        match entry.header().entry_type() {
            tar::EntryType::Directory | tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => continue,
            _ => {}
        }
        let raw = entry.path_bytes();
        let Ok(full) = std::str::from_utf8(&raw).map(str::to_owned) else {
            return failed("chart contains illegally named files");
        };
        drop(raw);
        let delimiter = if full.contains('\\') { '\\' } else { '/' };
        let (base, name) = full.split_once(delimiter).unwrap_or((&full, ""));
        let name = name.replace(delimiter, "/");
        if name.starts_with('/') {
            return failed("chart illegally contains absolute paths");
        }
        let name = clean_path(&name);
        if name == "." {
            return failed(format!("chart illegally contains content outside the base directory: {full:?}"));
        }
        if name.starts_with("..") {
            return failed("chart illegally references parent directory");
        }
        if matches!(name.as_bytes(), [drive, b':', b'/', ..] if drive.is_ascii_alphabetic()) {
            return failed("chart contains illegally named files");
        }
        if base == "Chart.yaml" {
            return failed("chart yaml not in base directory");
        }
        let size = entry.size();
        if size > *left {
            return Err(too_large());
        }
        if size > limits.file_bytes {
            return failed(format!(
                "decompressed chart file {full:?} is larger than the maximum file size {}",
                limits.file_bytes
            ));
        }
        if !governor::may_go_on(2 * size) {
            return failed(governor::STOPPED);
        }
        let mut content = Vec::with_capacity(size as usize);
        entry.read_to_end(&mut content).map_err(unreadable)?;
        if (content.len() as u64) < size {
            return failed("unexpected EOF");
        }
        *left -= size;
        files.push((name, without_bom(&content).into()));
    }
    if files.is_empty() {
        return failed("no files in chart archive");
    }
    Ok(files)
}

/// Content of an archive as far as its size allows.
struct Inflated<R> {
    content: R,
    left: u64,
    ratio: u64,
}

impl<R: std::io::Read> std::io::Read for Inflated<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.content.read(into)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            std::io::Error::other(format!(
                "the chart archive unpacks to more than {} times its size (limit of ratio)",
                self.ratio
            ))
        })?;
        Ok(count)
    }
}

fn from_files(
    files: Files,
    limits: &ArchiveLimits,
    depth: usize,
    left: &mut u64,
) -> Result<Chart, HelmError> {
    if depth > limits.depth {
        return failed(format!("charts are nested deeper than {} levels", limits.depth));
    }
    let mut metadata: Option<Metadata> = None;
    for (name, content) in &files {
        if name == "Chart.yaml" {
            let metadata = metadata.get_or_insert_default();
            read_metadata(content, metadata)
                .or_else(|error| failed(format!("cannot load Chart.yaml: {error}")))?;
            if metadata.api_version.is_empty() {
                "v1".clone_into(&mut metadata.api_version);
            }
        }
    }
    let mut chart = Chart {
        metadata: Metadata::default(),
        templates: Vec::new(),
        files: Vec::new(),
        values: Map::new(),
        schema: None,
        dependencies: Vec::new(),
    };
    let mut inner: BTreeMap<String, Files> = BTreeMap::new();
    for (name, content) in files {
        let v1 = |metadata: &Option<Metadata>| metadata.as_ref().is_some_and(|m| m.api_version == "v1");
        match name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => {
                yaml::parse(&content).or_else(|error| {
                    failed(format!("cannot load Chart.lock: error converting YAML to JSON: {error}"))
                })?;
            }
            "values.yaml" => {
                chart.values = read_values(&content)
                    .or_else(|error| failed(format!("cannot load values.yaml: {error}")))?;
            }
            "values.schema.json" => chart.schema = Some(content.to_vec()),
            "requirements.yaml" => {
                read_metadata(&content, metadata.get_or_insert_default())
                    .or_else(|error| failed(format!("cannot load requirements.yaml: {error}")))?;
                if v1(&metadata) {
                    chart.files.push((name.into(), content));
                }
            }
            "requirements.lock" => {
                yaml::parse(&content).or_else(|error| {
                    failed(format!("cannot load requirements.lock: error converting YAML to JSON: {error}"))
                })?;
                if v1(&metadata) {
                    chart.files.push((name.into(), content));
                }
            }
            path if path.starts_with("templates/") => {
                let text: Arc<str> = match std::str::from_utf8(&content) {
                    Ok(text) => text.into(),
                    Err(_) => String::from_utf8_lossy(&content).into(),
                };
                chart.templates.push(Template::new(name, text));
            }
            path => match path.strip_prefix("charts/") {
                Some(rest) if extension(rest) == "prov" => chart.files.push((name.into(), content)),
                Some(rest) => {
                    let base = rest.split('/').next().unwrap_or_default().to_owned();
                    inner.entry(base).or_default().push((rest.to_owned(), content));
                }
                None => chart.files.push((name.into(), content)),
            },
        }
    }
    let Some(mut metadata) = metadata else { return failed("Chart.yaml file is missing") };
    metadata.validate().or_else(failed)?;
    chart.metadata = metadata;
    for (base, files) in inner {
        if base.starts_with(['_', '.']) {
            continue;
        }
        let loaded = if extension(&base) == "tgz" {
            let (name, content) = &files[0];
            if *name != base {
                return failed(format!(
                    "error unpacking subchart tar in {}: expected {base}, got {name}",
                    chart.metadata.name
                ));
            }
            unpack(content, limits, left).and_then(|files| from_files(files, limits, depth + 1, left))
        } else {
            let files = files
                .into_iter()
                .filter_map(|(name, content)| Some((name.split_once('/')?.1.to_owned(), content)))
                .collect();
            from_files(files, limits, depth + 1, left)
        };
        match loaded {
            Ok(dependency) => chart.dependencies.push(dependency),
            Err(error) => {
                let HelmError { stage, message } = error;
                let message =
                    format!("error unpacking subchart {base} in {}: {message}", chart.metadata.name);
                return Err(HelmError { stage, message });
            }
        }
    }
    Ok(chart)
}

/// What follows the last dot of a name.
fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Reads values: a map, or nothing.
pub(super) fn read_values(content: &[u8]) -> Result<Map<String, Value>, String> {
    match yaml::parse(content).map_err(|error| format!("error converting YAML to JSON: {error}"))? {
        Value::Null => Ok(Map::new()),
        Value::Object(map) => Ok(map),
        other => Err(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&other)
        )),
    }
}

/// The type of a value as Go's JSON names it.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Reads Chart.yaml or requirements.yaml over what is known already.
fn read_metadata(content: &[u8], metadata: &mut Metadata) -> Result<(), String> {
    let value = yaml::parse_keeping_floats(content)
        .map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    let map = match value {
        Value::Null => return Ok(()),
        Value::Object(map) => map,
        other => {
            return Err(wrong(&other, "Go value of type chart.Metadata"));
        }
    };
    for (key, value) in &map {
        if value.is_null() {
            continue;
        }
        let field = format!("Go struct field Metadata.{key} of type ");
        let text = || text(value, &field);
        match key.to_ascii_lowercase().as_str() {
            "name" => metadata.name = text()?,
            "home" => metadata.home = text()?,
            "sources" => metadata.sources = texts(value, &field)?,
            "version" => metadata.version = text()?,
            "description" => metadata.description = text()?,
            "keywords" => metadata.keywords = texts(value, &field)?,
            "maintainers" => metadata.maintainers = maintainers(value)?,
            "icon" => metadata.icon = text()?,
            "apiversion" => metadata.api_version = text()?,
            "condition" => metadata.condition = text()?,
            "tags" => metadata.tags = text()?,
            "appversion" => metadata.app_version = text()?,
            "deprecated" => {
                metadata.deprecated = value.as_bool().ok_or_else(|| wrong(value, &format!("{field}bool")))?;
            }
            "annotations" => {
                let Value::Object(map) = value else {
                    return Err(wrong(value, &format!("{field}map[string]string")));
                };
                metadata.annotations = map
                    .iter()
                    .map(|(key, value)| {
                        Ok((
                            key.clone(),
                            if value.is_null() { String::new() } else { self::text(value, &field)? },
                        ))
                    })
                    .collect::<Result<_, String>>()?;
            }
            "kubeversion" => metadata.kube_version = text()?,
            "dependencies" => metadata.dependencies = Some(dependencies(value)?),
            "type" => metadata.chart_type = text()?,
            _ => {}
        }
    }
    Ok(())
}

fn wrong(value: &Value, target: &str) -> String {
    format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into {target}",
        json_type(value)
    )
}

/// A text; numbers and booleans count as their text, floats as those of 32 bits.
fn text(value: &Value, field: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => value.to_string(),
            (_, Some(value), _) => value.to_string(),
            (_, _, Some(value)) => yaml::numbers::format_g32(value as f32),
            _ => number.to_string(),
        }),
        other => Err(wrong(other, &format!("{field}string"))),
    }
}

fn texts(value: &Value, field: &str) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) => items.iter().map(|item| text(item, field)).collect(),
        other => Err(wrong(other, &format!("{field}[]string"))),
    }
}

fn maintainers(value: &Value) -> Result<Vec<Maintainer>, String> {
    let Value::Array(items) = value else {
        return Err(wrong(value, "Go struct field Metadata.maintainers of type []*chart.Maintainer"));
    };
    items
        .iter()
        .map(|item| {
            if item.is_null() {
                return Err("validation: maintainers must not contain empty or null nodes".to_owned());
            }
            let part = |name: &str| match item.get(name) {
                None | Some(Value::Null) => Ok(String::new()),
                Some(value) => text(value, "Go struct field Maintainer of type "),
            };
            Ok(Maintainer { name: part("name")?, email: part("email")?, url: part("url")? })
        })
        .collect()
}

fn dependencies(value: &Value) -> Result<Vec<Dependency>, String> {
    let Value::Array(items) = value else {
        return Err(wrong(value, "Go struct field Metadata.dependencies of type []*chart.Dependency"));
    };
    items
        .iter()
        .map(|item| {
            if item.is_null() {
                return Err("validation: dependencies must not contain empty or null nodes".to_owned());
            }
            let field = "Go struct field Dependency of type ";
            let get = |name: &str| item.get(name).filter(|value| !value.is_null());
            let part = |name: &str| get(name).map_or_else(|| Ok(String::new()), |value| text(value, field));
            Ok(Dependency {
                name: part("name")?,
                version: part("version")?,
                repository: part("repository")?,
                condition: part("condition")?,
                tags: get("tags").map_or_else(|| Ok(Vec::new()), |value| texts(value, field))?,
                enabled: get("enabled").and_then(Value::as_bool).unwrap_or(false),
                import_values: get("import-values").and_then(Value::as_array).cloned().unwrap_or_default(),
                alias: part("alias")?,
            })
        })
        .collect()
}
