//! ConfigMaps and Secrets from files, environment files and literals.

use std::collections::BTreeMap;

use super::error::{Error, Res, Within};
use super::fields::set_field;
use super::json::Cx;
use super::loader::Loader;
use super::quote::quote;
use super::resource::{Behavior, Resource};
use super::yaml::node::{Node, Shape, Style, Tag};

/// `options` of a generator.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorOptions {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) disable_name_suffix_hash: bool,
    pub(crate) immutable: bool,
}

/// One of `configMapGenerator` or `secretGenerator`.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorArgs {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) behavior: String,
    pub(crate) literals: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) envs: Vec<String>,
    pub(crate) options: Option<GeneratorOptions>,
    /// Of a Secret.
    pub(crate) kind: String,
}

pub(crate) fn decode(node: &Node, cx: &Cx) -> Res<GeneratorArgs> {
    let mut a = GeneratorArgs::default();
    cx.object(node, |name, value, cx| field(&mut a, name, value, cx))?;
    Ok(a)
}

/// One field of a generator; `false` if it is none.
pub(crate) fn field(a: &mut GeneratorArgs, name: &str, value: &Node, cx: &Cx) -> Res<bool> {
    match name {
        "namespace" => a.namespace = cx.text(value)?,
        "name" => a.name = cx.text(value)?,
        "behavior" => a.behavior = cx.text(value)?,
        "literals" => a.literals = cx.texts(value)?,
        "files" => a.files = cx.texts(value)?,
        "envs" => {
            let single = std::mem::take(&mut a.envs);
            a.envs = cx.texts(value)?;
            a.envs.extend(single);
        }
        "env" => {
            let path = cx.text(value)?;
            if !path.is_empty() {
                a.envs.push(path);
            }
        }
        "options" => a.options = if value.is_null() { None } else { Some(decode_options(value, cx)?) },
        "type" => a.kind = cx.text(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

pub(crate) fn decode_options(node: &Node, cx: &Cx) -> Res<GeneratorOptions> {
    let mut o = GeneratorOptions::default();
    cx.object(node, |name, value, cx| {
        match name {
            "labels" => o.labels = cx.text_map(value)?,
            "annotations" => o.annotations = cx.text_map(value)?,
            "disablenamesuffixhash" => o.disable_name_suffix_hash = cx.bool(value)?,
            "immutable" => o.immutable = cx.bool(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(o)
}

impl GeneratorArgs {
    /// With the Kustomization's own options where this one has none.
    pub(crate) fn with_global(mut self, global: Option<&GeneratorOptions>) -> Self {
        if let Some(g) = global {
            let own = self.options.get_or_insert_default();
            for (k, v) in &g.labels {
                own.labels.entry(k.clone()).or_insert_with(|| v.clone());
            }
            for (k, v) in &g.annotations {
                own.annotations.entry(k.clone()).or_insert_with(|| v.clone());
            }
            own.disable_name_suffix_hash |= g.disable_name_suffix_hash;
            own.immutable |= g.immutable;
        }
        self
    }
}

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generated {
    ConfigMap,
    Secret,
}

/// # Errors
/// No name, a file that cannot be read, a repeated key.
pub(crate) fn generate(args: &GeneratorArgs, what: Generated, loader: &Loader<'_>) -> Res<Resource> {
    let secret = what == Generated::Secret;
    let mut node = Node::empty(Shape::Map);
    node.push_field("apiVersion", Node::tagged("v1", Tag::Str));
    node.push_field("kind", Node::tagged(if secret { "Secret" } else { "ConfigMap" }, Tag::Str));
    if args.name.is_empty() {
        return Err(Error::new("a configmap must have a name"));
    }
    let meta = node.map_field("metadata");
    set_field(meta, "name", Node::string(&args.name))?;
    if !args.namespace.is_empty() {
        set_field(meta, "namespace", Node::string(&args.namespace))?;
    }
    if secret {
        let kind = if args.kind.is_empty() { "Opaque" } else { &args.kind };
        set_field(&mut node, "type", Node::string(kind))?;
    }
    let pairs = pairs(args, secret, loader).within(|| "loading KV pairs")?;
    let mut known: BTreeMap<&str, &[u8]> = BTreeMap::new();
    for (key, value) in &pairs {
        if known.insert(key, value).is_some() {
            return Err(Error::new(format!("configmap {} illegally repeats the key `{key}`", args.name)));
        }
    }
    if secret {
        node.map_field("data");
    }
    for (key, value) in known {
        let (field, text) = match std::str::from_utf8(value) {
            Ok(text) if !secret => ("data", text.to_owned()),
            Err(_) if !secret => ("binaryData", base64_lines(value)),
            _ => ("data", base64_lines(value)),
        };
        set_field(node.map_field(field), key, Node::string(&text))?;
    }
    let mut resource_memory = super::resource::Memory {
        behavior: Some(Behavior::parse(&args.behavior)),
        needs_hash: true,
        ..super::resource::Memory::default()
    };
    if let Some(options) = &args.options {
        for (field, map) in [("labels", &options.labels), ("annotations", &options.annotations)] {
            for (k, v) in map {
                let mut text = Node::string(v);
                text.style = Style::SINGLE;
                set_field(node.map_field("metadata").map_field(field), k, text)?;
            }
        }
        if options.immutable {
            set_field(&mut node, "immutable", Node::tagged("true", Tag::Bool))?;
        }
        resource_memory.needs_hash = !options.disable_name_suffix_hash;
    }
    let mut resource = Resource::new(node);
    resource.memory = resource_memory;
    Ok(resource)
}

type Pair = (String, Vec<u8>);

fn go_list(items: &[String]) -> String {
    format!("[{}]", items.join(" "))
}

fn pairs(args: &GeneratorArgs, secret: bool, loader: &Loader<'_>) -> Res<Vec<Pair>> {
    let mut all = Vec::new();
    for path in &args.envs {
        env_file(path, loader, &mut all).within(|| format!("env source files: {}", go_list(&args.envs)))?;
    }
    // A Secret's values are not for messages.
    let shown = |literal: &String| match literal.split_once('=') {
        Some((key, _)) if secret => format!("{key}=***"),
        None if secret => "***".to_owned(),
        _ => literal.clone(),
    };
    for literal in &args.literals {
        let parsed = parse_literal(literal, &shown(literal));
        let all_shown = || go_list(&args.literals.iter().map(shown).collect::<Vec<_>>());
        all.push(parsed.within(|| format!("literal sources {}", all_shown()))?);
    }
    for source in &args.files {
        let read = || -> Res<Pair> {
            let (key, path) = parse_file_source(source)?;
            Ok((key, loader.load(&path)?.to_vec()))
        };
        all.push(read().within(|| format!("file sources: {}", go_list(&args.files)))?);
    }
    Ok(all)
}

fn parse_literal(source: &str, shown: &str) -> Res<Pair> {
    match source.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), unquoted(value).as_bytes().to_vec())),
        _ => Err(Error::new(format!("invalid literal source {shown}, expected key=value"))),
    }
}

fn unquoted(text: &str) -> &str {
    let inner = |q: char| text.strip_prefix(q).and_then(|t| t.strip_suffix(q));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn parse_file_source(source: &str) -> Res<(String, String)> {
    match source.matches('=').count() {
        0 => {
            let base = source.trim_end_matches('/').rsplit('/').next().unwrap_or(source);
            Ok((base.to_owned(), source.to_owned()))
        }
        1 => {
            let (key, path) = source.split_once('=').unwrap_or_default();
            if key.is_empty() {
                Err(Error::new(format!(
                    "missing key name for file path {} in source {}",
                    quote(path),
                    quote(source)
                )))
            } else if path.is_empty() {
                Err(Error::new(format!(
                    "missing file path for key name {} in source {}",
                    quote(key),
                    quote(source)
                )))
            } else {
                Ok((key.to_owned(), path.to_owned()))
            }
        }
        _ => Err(Error::new(format!("source {} key name or file path contains '='", quote(source)))),
    }
}

fn env_file(path: &str, loader: &Loader<'_>, into: &mut Vec<Pair>) -> Res<()> {
    let content = loader.load(path)?;
    for (i, line) in content.split(|b| *b == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(text) = std::str::from_utf8(line) else {
            return Err(Error::new(format!("line {} has invalid utf8 bytes", i + 1)));
        };
        let text = if i == 0 { text.strip_prefix('\u{FEFF}').unwrap_or(text) } else { text };
        let text = text.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        if !key.is_empty() {
            into.push((key.to_owned(), value.as_bytes().to_vec()));
        }
    }
    Ok(())
}

/// Base64 in lines of 70 characters if there is more than one line.
pub(crate) fn base64_lines(bytes: &[u8]) -> String {
    use base64::Engine as _;
    const LINE: usize = 70;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    if text.len() < LINE {
        return text;
    }
    let mut out = String::with_capacity(text.len() + text.len() / LINE + 1);
    for (i, c) in text.chars().enumerate() {
        if i > 0 && i % LINE == 0 {
            out.push('\n');
        }
        out.push(c);
    }
    out.push('\n');
    out
}
