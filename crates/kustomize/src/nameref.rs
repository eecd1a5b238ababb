//! References follow the objects whose names changed.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::config::BackReference;
use super::error::{Error, Res, Within};
use super::fields::{set_field, set_self, visit};
use super::id::{Gvk, ResId};
use super::resmap::ResMap;
use super::target::Env;
use super::yaml::node::{Data, Node};

/// What is known of an object that may be referred to.
struct Known {
    id: Rc<ResId>,
    original: ResId,
    previous: Vec<ResId>,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
}

struct Names {
    all: Vec<Known>,
    /// Objects by earlier name, in order.
    by_name: HashMap<String, Vec<usize>>,
}

/// Rewrites the fields that name other objects.
///
/// # Errors
/// A name that several objects had, or a reference of the wrong shape.
pub(crate) fn fix(map: &mut ResMap, references: &[BackReference], env: &Env<'_>) -> Res<()> {
    let mut names = Names { all: Vec::with_capacity(map.list.len()), by_name: HashMap::new() };
    for (i, r) in map.list.iter().enumerate() {
        let previous = r.previous_ids(env.schema);
        for id in &previous {
            let list = names.by_name.entry(id.name.clone()).or_default();
            if list.last() != Some(&i) {
                list.push(i);
            }
        }
        names.all.push(Known {
            id: Rc::clone(r.id(env.schema)),
            original: r.original_id(env.schema),
            previous,
            prefixes: r.memory.prefixes.clone(),
            suffixes: r.memory.suffixes.clone(),
        });
    }
    for (i, r) in map.list.iter_mut().enumerate() {
        let Some(own) = names.all.get(i) else { continue };
        let mut referrer: Option<Referrer<'_>> = None;
        for b in references {
            for spec in b.referrers.iter().filter(|s| own.original.gvk.is_selected(&s.gvk)) {
                if referrer.is_none() {
                    let granted = granted_namespaces(r.node(), own)?;
                    referrer = Some(Referrer { names: &names, own, granted, role: role_of(r.node()) });
                }
                let Some(f) = &referrer else { continue };
                env.budget.spend(1)?;
                let is_role = spec.path.ends_with("roleRef/name");
                // The kind was checked against the object as it was loaded.
                let mut spec = spec.clone();
                spec.gvk = Gvk::default();
                visit(r.node_mut(), &spec, None, &mut |n| f.set(n, &b.gvk, is_role))
                    .within(|| format!("updating name reference in '{}' field of '{}'", spec.path, own.id))?;
            }
        }
    }
    Ok(())
}

/// Namespaces of the service accounts that a RoleBinding names.
fn granted_namespaces(node: &Node, own: &Known) -> Res<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    if own.id.gvk.kind != "RoleBinding" {
        return Ok(out);
    }
    for subject in node.get("subjects").map(Node::items).unwrap_or_default() {
        if subject.get("kind").is_some_and(|k| k.text() == "ServiceAccount")
            && let Some(ns) = subject.get("namespace")
        {
            if ns.is_null() || !matches!(ns.data, Data::Scalar(_)) {
                return Err(Error::new(format!(
                    "Invalid Input: namespace is blank for resource {}\n",
                    super::quote::quote(&own.id.to_string())
                )));
            }
            out.insert(ns.text().to_owned());
        }
    }
    Ok(out)
}

fn role_of(node: &Node) -> Option<Gvk> {
    let role = node.get("roleRef")?;
    let group = role.get("apiGroup").filter(|n| !n.is_null())?.text();
    let kind = role.get("kind").filter(|n| !n.is_null())?.text();
    Some(Gvk::new(group, "", kind))
}

struct Referrer<'a> {
    names: &'a Names,
    own: &'a Known,
    granted: BTreeSet<String>,
    role: Option<Gvk>,
}

impl Referrer<'_> {
    fn set(&self, node: &mut Node, target: &Gvk, is_role: bool) -> Res<()> {
        if node.is_null() {
            return Ok(());
        }
        match &mut node.data {
            Data::Scalar(_) => self.set_scalar(node, target, is_role),
            Data::Map(_) => self.set_map(node, target, is_role),
            Data::Seq(items) => {
                for item in items {
                    match item.data {
                        _ if item.is_null() => {}
                        Data::Scalar(_) => self.set_scalar(item, target, is_role)?,
                        Data::Map(_) => self.set_map(item, target, is_role)?,
                        Data::Seq(_) => {
                            return Err(Error::new(
                                "a list is expected to be either a string or a map of string",
                            ));
                        }
                    }
                }
                Ok(())
            }
        }
    }

    fn set_scalar(&self, node: &mut Node, target: &Gvk, is_role: bool) -> Res<()> {
        let candidates = self.named(node.text()).filter(|k| self.may_refer_to(k)).collect();
        let same = |a: &Known, b: &Known| a.id.name == b.id.name;
        let Some(found) = self.choose(candidates, target, is_role, same)? else { return Ok(()) };
        if found.id.name != node.text() {
            set_self(node, Node::bare(&found.id.name))?;
        }
        Ok(())
    }

    fn set_map(&self, node: &mut Node, target: &Gvk, is_role: bool) -> Res<()> {
        let Some(name) = node.get("name") else {
            return Err(Error::new("path config error; no 'name' field in node"));
        };
        let old = name.text().to_owned();
        let mut candidates: Vec<&Known> = self.named(&old).filter(|k| self.may_refer_to(k)).collect();
        if let Some(namespace) = node.get("namespace") {
            let wanted = namespace.text();
            let is_plain = wanted != super::id::NO_NAMESPACE;
            // Whether anyone comes from there decides, whatever its name is.
            let originally = is_plain
                && self
                    .names
                    .all
                    .iter()
                    .any(|k| self.may_refer_to(k) && k.original.effective_namespace() == wanted);
            candidates.retain(|k| {
                let place =
                    if originally { k.original.effective_namespace() } else { k.id.effective_namespace() };
                is_plain && place == wanted
            });
        }
        let same = |a: &Known, b: &Known| a.id.name == b.id.name && a.id.namespace == b.id.namespace;
        let Some(found) = self.choose(candidates, target, is_role, same)? else { return Ok(()) };
        let namespace = &found.id.namespace;
        if found.id.name == old && namespace.is_empty() {
            return Ok(());
        }
        set_field(node, "name", Node::bare(&found.id.name))?;
        if namespace.is_empty() {
            return Ok(());
        }
        set_field(node, "namespace", Node::bare(namespace))
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Known> {
        let list = self.names.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(|i| self.names.all.get(*i))
    }

    fn may_refer_to(&self, k: &Known) -> bool {
        self.own.id.cluster
            || k.id.cluster
            || k.id.same_namespace(&self.own.id)
            || self.granted.contains(&k.id.namespace)
    }

    fn choose<'k>(
        &self,
        mut list: Vec<&'k Known>,
        target: &Gvk,
        is_role: bool,
        same: impl Fn(&Known, &Known) -> bool,
    ) -> Res<Option<&'k Known>> {
        list.retain(|k| k.previous.iter().any(|id| id.gvk.is_selected(target)));
        if let Some(role) = self.role.as_ref().filter(|_| is_role) {
            list.retain(|k| k.previous.iter().any(|id| id.gvk.is_selected(role)));
        }
        if !self.own.id.cluster {
            list.retain(|k| {
                k.id.cluster || k.id.gvk.kind == "ServiceAccount" || k.id.same_namespace(&self.own.id)
            });
        }
        if list.len() != 1 {
            list.retain(|k| self.same_affixes(k, true));
            if list.len() > 1 {
                list.retain(|k| self.same_affixes(k, false));
            }
        }
        let Some((first, rest)) = list.split_first() else { return Ok(None) };
        if rest.iter().all(|k| same(first, k)) {
            return Ok(Some(first));
        }
        let ids: Vec<String> = list.iter().map(|k| k.id.to_string()).collect();
        Err(Error::new(format!("found multiple possible referrals: {}", ids.join(", "))))
    }

    fn same_affixes(&self, k: &Known, empty_fits: bool) -> bool {
        let fits =
            |a: &[String], b: &[String]| (empty_fits && (a.is_empty() || b.is_empty())) || same_ending(a, b);
        fits(&k.prefixes, &self.own.prefixes) && fits(&k.suffixes, &self.own.suffixes)
    }
}

/// Is the shorter list the end of the longer one? An empty one is only the end of an empty one.
fn same_ending(a: &[String], b: &[String]) -> bool {
    let (short, long) = if a.len() > b.len() { (b, a) } else { (a, b) };
    if short.is_empty() { long.is_empty() } else { long.ends_with(short) }
}
