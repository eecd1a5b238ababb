//! Patches and the objects they are for.

use super::error::{Error, Res, Within};
use super::jsonpatch::JsonPatch;
use super::kustomization::Patch;
use super::loader::Loader;
use super::merge::merge;
use super::quote::quote;
use super::resmap::{ResMap, copy_metadata};
use super::resource::{Resource, parse_all};
use super::selector::{Matcher, Selector};
use super::target::Env;

/// A patch that was read.
pub(crate) struct Loaded {
    target: Option<Selector>,
    source: String,
    body: Body,
}

enum Body {
    Merge(Vec<Resource>),
    Json(JsonPatch),
}

/// Reads one of `patches`.
///
/// # Errors
/// Neither or both of text and file, or text that is neither kind of patch.
pub(crate) fn load(p: &Patch, loader: &Loader<'_>, env: &Env<'_>) -> Res<Loaded> {
    let inline = p.inline.trim();
    let (text, source) = match (inline.is_empty(), p.path.is_empty()) {
        (true, true) => {
            return Err(Error::new(format!(
                "must specify one of patch and path in\n{}",
                super::shown::patch(p)
            )));
        }
        (false, false) => {
            let shown = super::shown::patch(p);
            return Err(Error::new(format!("patch and path can't be set at the same time\n{shown}")));
        }
        (false, true) => (inline, format!("[patch: {}]", quote(inline))),
        (true, false) => {
            let text = loader
                .load_text(&p.path)
                .within(|| format!("failed to get the patch file from path({})", p.path))?;
            (text, format!("[path: {}]", quote(&p.path)))
        }
    };
    let merges = parse_all(text, env.budget);
    let json = if text.is_empty() {
        Err(Error::new("empty json patch operations"))
    } else {
        JsonPatch::parse(text, env.budget)
    };
    let body = match (merges, json) {
        (Err(e), _) | (_, Err(e)) if e.kind() == super::ErrorKind::Limit => return Err(e),
        (Ok(m), Ok(j)) if !m.is_empty() && !j.is_empty() => {
            return Err(Error::new(format!("illegally qualifies as both an SM and JSON patch: {source}")));
        }
        (Err(_), Err(_)) => {
            return Err(Error::new(format!("unable to parse SM or JSON patch from {source}")));
        }
        (Ok(mut list), _) => {
            for patch in &mut list {
                patch.memory.allow_name_change = p.allow_name_change;
                patch.memory.allow_kind_change = p.allow_kind_change;
                if p.allow_name_change || p.allow_kind_change {
                    // The program notes this in the annotations, which rewrites them as texts.
                    super::resource::rewrite_annotations(patch.node_mut())?;
                }
            }
            Body::Merge(list)
        }
        (Err(_), Ok(j)) => Body::Json(j),
    };
    Ok(Loaded { target: p.target.clone(), source, body })
}

/// Reads `patchesStrategicMerge`: each is a text or a file.
///
/// # Errors
/// A file that cannot be read, or no patch at all.
pub(crate) fn load_merges(
    paths: &[String],
    inline: &str,
    loader: &Loader<'_>,
    env: &Env<'_>,
) -> Res<Vec<Resource>> {
    if paths.is_empty() && inline.is_empty() {
        return Err(Error::new("empty file path and empty patch content"));
    }
    let mut all = Vec::new();
    for path in paths {
        if let Ok(list) = parse_all(path, env.budget) {
            all.extend(list);
        } else {
            let text = loader.load_text(path)?;
            all.extend(parse_all(text, env.budget).map_err(|e| in_file(e, path))?);
        }
    }
    if !inline.is_empty() {
        all.extend(parse_all(inline, env.budget)?);
    }
    if all.is_empty() {
        return Err(Error::new(format!(
            "patch appears to be empty; files=[{}], Patch={inline}",
            paths.join(" ")
        )));
    }
    Ok(all)
}

/// Names the file of a malformed text.
pub(crate) fn in_file(e: Error, path: &str) -> Error {
    if e.message().contains("MalformedYAMLError") {
        let text = format!("{} in File: {path}", e.message());
        return e.reworded(text);
    }
    e
}

impl Loaded {
    /// # Errors
    /// No object for it, or it does not fit.
    pub(crate) fn apply(&self, map: &mut ResMap, env: &Env<'_>) -> Res<()> {
        match &self.body {
            Body::Merge(list) => self.apply_merges(list, map, env),
            Body::Json(json) => {
                let Some(target) = &self.target else {
                    if json.is_empty() {
                        return Ok(());
                    }
                    return Err(Error::new(format!("must specify a target for JSON patch {}", self.source)));
                };
                for i in map.select(&Matcher::new(target)?, env.schema) {
                    if let Some(r) = map.list.get_mut(i) {
                        r.remember_id(env.schema);
                        apply_json(json, r, env)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn apply_merges(&self, list: &[Resource], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
        if let Some(target) = &self.target {
            if list.len() > 1 {
                return Err(Error::new(format!(
                    "Multiple Strategic-Merge Patches in one `patches` entry is not allowed to set `patches.target` \
                     field: {}",
                    self.source
                )));
            }
            let Some(patch) = list.first() else { return Ok(()) };
            let selected = map.select(&Matcher::new(target)?, env.schema);
            return apply_to(map, &selected, patch, env);
        }
        for patch in list {
            let id = patch.original_id(env.schema);
            let i = map
                .by_id(&id, env.schema)
                .within(|| format!("no resource matches strategic merge patch {}", quote(&id.to_string())))?;
            if let Some(r) = map.list.get_mut(i) {
                apply_merge(r, patch, env)?;
            }
        }
        Ok(())
    }
}

/// Lays `patchesStrategicMerge` over the objects they name.
///
/// # Errors
/// No such object, or the patch does not fit.
pub(crate) fn apply_named(list: &[Resource], map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    for patch in list {
        let i = map.by_id(&patch.original_id(env.schema), env.schema)?;
        apply_to(map, &[i], patch, env)?;
    }
    Ok(())
}

/// Lays a patch over chosen objects, whatever it is called itself.
fn apply_to(map: &mut ResMap, chosen: &[usize], patch: &Resource, env: &Env<'_>) -> Res<()> {
    // The program chooses by identity, so objects are counted once.
    for i in chosen {
        let Some(r) = map.list.get_mut(*i) else { continue };
        env.budget.copy_of(patch.node())?;
        let mut copy = patch.clone();
        copy_metadata(&mut copy, patch)?;
        let gvk = r.id(env.schema).gvk.clone();
        let kind = patch.text_at("kind").to_owned();
        let node = copy.node_mut();
        super::fields::set_field(node, "apiVersion", super::yaml::node::Node::bare(&gvk.api_version()))?;
        super::fields::set_field(node, "kind", super::yaml::node::Node::bare(&kind))?;
        apply_merge(r, &copy, env)?;
    }
    map.drop_empties();
    map.check_unique(env.schema)
}

fn apply_merge(r: &mut Resource, patch: &Resource, env: &Env<'_>) -> Res<()> {
    let id = std::rc::Rc::clone(r.id(env.schema));
    let (renames, converts) = (patch.memory.allow_name_change, patch.memory.allow_kind_change);
    if renames || converts {
        r.remember_id(env.schema);
    }
    env.budget.copy_of(patch.node())?;
    let namespace = super::id::meta_text(r.node(), "namespace").to_owned();
    r.write_notes();
    let stays = merge(r.node_mut(), patch.node().clone(), env.schema, env.budget)?;
    r.settle_shared();
    if !stays {
        *r.node_mut() = super::yaml::node::Node::null();
        return Ok(());
    }
    if r.take_notes() {
        r.memory.allow_name_change |= renames;
        r.memory.allow_kind_change |= converts;
    } else {
        r.memory = patch.memory.clone();
    }
    if r.node().is_nothing() {
        return Ok(());
    }
    if !converts {
        super::fields::set_field(r.node_mut(), "kind", super::yaml::node::Node::bare(&id.gvk.kind))?;
    }
    if !renames {
        r.set_name(&id.name)?;
    }
    r.set_namespace(&namespace)
}

/// Applies a JSON patch; what the build remembers of the object stays.
///
/// # Errors
/// An operation does not apply.
pub(crate) fn apply_json(json: &JsonPatch, r: &mut Resource, env: &Env<'_>) -> Res<()> {
    r.write_notes();
    json.apply(r.node_mut(), env.budget)?;
    r.forget_shared();
    r.take_notes();
    super::resource::rewrite_annotations(r.node_mut())
}

/// A patch from `patchesJson6902`.
pub(crate) struct LoadedJson {
    target: Selector,
    json: JsonPatch,
}

/// Reads one of `patchesJson6902`.
///
/// # Errors
/// No target name, neither or both of text and file, no operations.
pub(crate) fn load_json(
    target: Option<Selector>,
    path: &str,
    text: &str,
    loader: &Loader<'_>,
    env: &Env<'_>,
) -> Res<LoadedJson> {
    let target = target.unwrap_or_default();
    if target.name.is_empty() {
        return Err(Error::new("must specify the target name"));
    }
    let text = match (path.is_empty(), text.is_empty()) {
        (true, true) => return Err(Error::new("empty file path and empty jsonOp")),
        (false, false) => return Err(Error::new("must specify a file path or jsonOp, not both")),
        (false, true) => {
            let text = loader.load_text(path)?;
            if text.is_empty() {
                return Err(Error::new(format!("patch file '{path}' empty seems to be empty")));
            }
            text
        }
        (true, false) => text,
    };
    let json = JsonPatch::parse(text, env.budget).within(|| format!("decoding {text}"))?;
    if json.is_empty() {
        return Err(Error::new(format!("patch appears to be empty; file={path}, JsonOp={text}")));
    }
    Ok(LoadedJson { target, json })
}

impl LoadedJson {
    /// # Errors
    /// An operation does not apply.
    pub(crate) fn apply(&self, map: &mut ResMap, env: &Env<'_>) -> Res<()> {
        for i in map.select(&Matcher::new(&self.target)?, env.schema) {
            if let Some(r) = map.list.get_mut(i) {
                apply_json(&self.json, r, env)?;
            }
        }
        Ok(())
    }
}
