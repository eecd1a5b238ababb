//! The values of a chart, from all the places that may set some.
//!
//! Later ones win, maps are merged: the chart's own; `values.yaml.liquid`; the values files in order, then those that
//! Lua names; the inline values; `values.yaml.static`; the one that is set by name; Lua's `values`.

use serde_json::{Map, Value};

use crate::{
    error::{Problem, RenderError},
    helm::{merge_values, set_value},
    inputs::Inputs,
    liquid::Liquid,
    lua::{LuaLimits, LuaValues, lua_values},
    rendering::HelmInput,
    tpl,
    tree::{self, Tree},
    yaml,
};

/// The values that are a template.
const VALUES_TEMPLATE: &str = "values.yaml.liquid";
/// Values that stand over the inline ones.
const VALUES_STATIC: &str = "values.yaml.static";
/// Where inline values are said to be from.
const INLINE: &str = "helm.values";

/// The user's values of the chart in `folder`.
pub(super) fn values(
    tree: &Tree,
    folder: &str,
    helm: &HelmInput,
    inputs: &Inputs,
) -> Result<Map<String, Value>, RenderError> {
    let files = Files { tree, folder, inputs };
    let lua = files.lua(helm)?;
    let mut values = Map::new();
    let template = tree::join(folder, VALUES_TEMPLATE);
    if inputs.templated && tree.read(&template).is_some() {
        files.merge_file(&mut values, &template)?;
    }
    for name in helm.values_files.iter().chain(&lua.values_files) {
        let path = files.find(name)?;
        files.merge_file(&mut values, &path)?;
    }
    if let Some(inline) = &helm.values {
        merge(&mut values, parse(INLINE, inline.as_bytes())?, INLINE)?;
    }
    let fixed = tree::join(folder, VALUES_STATIC);
    if tree.read(&fixed).is_some() {
        files.merge_file(&mut values, &fixed)?;
    }
    if let Some((name, value)) = &helm.set {
        set_value(&mut values, name, value).map_err(|message| wrong("helm.set", 0, message))?;
    }
    merge(&mut values, lua.values, "Lua's values")?;
    Ok(values)
}

/// A message of a template without the inline values and the configuration that it may quote.
pub(super) fn hidden(helm: &HelmInput, inputs: &Inputs, message: &str) -> String {
    let mut texts = Vec::new();
    if let Some(Ok(inline)) = helm.values.as_ref().map(|values| yaml::parse(values.as_bytes())) {
        collect_texts(inline, &mut texts);
    }
    texts.extend(helm.set.iter().map(|(_, value)| value.clone()));
    // Short ones are words that say nothing; the longest goes first, since one may hold another.
    texts.retain(|text| text.len() > 3);
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let message = inputs.without_values(message);
    texts.iter().fold(message, |message, text| message.replace(text.as_str(), "…"))
}

fn collect_texts(value: Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.into_iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(map) => map.into_iter().for_each(|(_, item)| collect_texts(item, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

struct Files<'a> {
    tree: &'a Tree,
    folder: &'a str,
    inputs: &'a Inputs,
}

impl Files<'_> {
    /// The path of a file that a setting names: beside the chart, or from the service's folder.
    fn find(&self, name: &str) -> Result<String, RenderError> {
        [self.folder, &self.inputs.folder]
            .into_iter()
            .filter_map(|base| tree::resolve(base, name))
            .find(|path| self.tree.read(path).is_some())
            .ok_or_else(|| {
                let message =
                    "the values file does not exist at this commit: correct the service's valuesFiles";
                wrong(name, 0, message.to_owned())
            })
    }

    fn merge_file(&self, values: &mut Map<String, Value>, path: &str) -> Result<(), RenderError> {
        let bytes = self.tree.read(path).unwrap_or_default();
        let text = match path.rsplit_once('.') {
            Some((_, "liquid")) if self.inputs.templated => {
                Some(Liquid::new(self.inputs).render(path, bytes))
            }
            Some((_, "tpl")) if self.inputs.templated => Some(tpl::render(path, bytes, self.inputs)),
            _ => None,
        };
        let map = match text.transpose().map_err(|problem| RenderError::Files(vec![problem]))? {
            Some(text) => parse(path, text.as_bytes())?,
            None => parse(path, bytes)?,
        };
        merge(values, map, path)
    }

    fn lua(&self, helm: &HelmInput) -> Result<LuaValues, RenderError> {
        let scripts = self.scripts(helm)?;
        if scripts.is_empty() {
            return Ok(LuaValues::default());
        }
        lua_values(self.tree, self.inputs, &scripts, LuaLimits::default()).map_err(|error| {
            let path = scripts.last().map_or("helm.luaScript", |(name, _)| name);
            wrong(path, 0, self.inputs.without_values(&error.to_string()))
        })
    }

    /// Name and source of each script: those of the folder by path, then the script or the file.
    fn scripts(&self, helm: &HelmInput) -> Result<Vec<(String, String)>, RenderError> {
        let mut scripts = Vec::new();
        if let Some(folder) = &helm.lua_folder {
            let path = tree::resolve(&self.inputs.folder, folder)
                .filter(|path| self.tree.has_folder(path))
                .ok_or_else(|| {
                wrong(folder, 0, "the folder of helm.luaFolder does not exist".to_owned())
            })?;
            for (file, bytes) in self.tree.walk(&path) {
                if file.rsplit_once('.').is_some_and(|(_, extension)| extension == "lua") {
                    scripts.push((file.to_owned(), text(file, bytes)?));
                }
            }
            if scripts.is_empty() {
                return Err(wrong(folder, 0, "the folder of helm.luaFolder holds no .lua file".to_owned()));
            }
        }
        if let Some(script) = helm.lua_script.as_ref().filter(|script| !script.is_empty()) {
            scripts.push(("helm.luaScript".to_owned(), script.clone()));
        } else if let Some(name) = &helm.lua_file {
            let missing = || wrong(name, 0, "the file of helm.luaFile does not exist".to_owned());
            let path = tree::resolve(&self.inputs.folder, name).ok_or_else(missing)?;
            let bytes = self.tree.read(&path).ok_or_else(missing)?;
            scripts.push((path.clone(), text(&path, bytes)?));
        }
        Ok(scripts)
    }
}

fn text(path: &str, bytes: &[u8]) -> Result<String, RenderError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| wrong(path, 0, "the script is not UTF-8 text".to_owned()))
}

fn parse(path: &str, bytes: &[u8]) -> Result<Map<String, Value>, RenderError> {
    match yaml::parse(bytes) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(wrong(path, 1, "the values are not a map of names".to_owned())),
        Err(error) => Err(wrong(path, error.line(), error.to_string())),
    }
}

fn merge(values: &mut Map<String, Value>, over: Map<String, Value>, path: &str) -> Result<(), RenderError> {
    merge_values(values, over).map_err(|message| wrong(path, 0, message))
}

fn wrong(path: &str, line: usize, message: String) -> RenderError {
    RenderError::Files(vec![Problem { path: path.to_owned(), line, message }])
}
