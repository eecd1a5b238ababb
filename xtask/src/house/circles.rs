//! Files of a crate that use each other in a circle: none of them can be understood without the others.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Chapter, Figure, Tree,
    exports::{Use, Visibility, uses},
    is_test, without_tests,
};

const LARGEST: usize = 8;
/// How often a name is followed from one re-export to the next.
const HOPS: usize = 8;

/// The path of a module in its crate; the root's is empty.
type Module<'a> = Vec<&'a str>;

/// The modules of a crate, and the `use` declarations of each.
type Modules<'a> = BTreeMap<Module<'a>, Vec<Use<'a>>>;

pub(super) fn count(tree: &Tree) -> Chapter {
    let mut chapter = Chapter { title: "Circles of files in a crate", ..Chapter::default() };
    let mut largest = 0;
    let mut sum = 0;
    for name in tree.crates() {
        let circles = circles(&modules(tree, name));
        sum += circles.len();
        largest = circles.iter().map(BTreeSet::len).max().unwrap_or_default().max(largest);
        for circle in circles.iter().filter(|circle| circle.len() > LARGEST) {
            let shown: Vec<String> = circle.iter().map(|module| shown(module)).collect();
            chapter.details.push(format!("{name}: {} files: {}", circle.len(), shown.join(", ")));
        }
    }
    chapter.figures.push(Figure::plain("circles", sum, "circles"));
    chapter.figures.push(Figure::count("the largest", largest, "files", LARGEST));
    chapter
}

fn shown(module: &Module<'_>) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

fn modules<'a>(tree: &'a Tree, name: &str) -> Modules<'a> {
    let folder = format!("crates/{name}/src/");
    let mut modules = Modules::new();
    for (path, text) in tree.texts().filter(|(path, _)| !is_test(path)) {
        let Some(file) = path.strip_prefix(&folder).and_then(|file| file.strip_suffix(".rs")) else {
            continue;
        };
        let module: Module<'_> = match file {
            "lib" | "main" => Vec::new(),
            _ => file.split('/').collect(),
        };
        if module.first() != Some(&"bin") {
            modules.entry(module).or_default().extend(uses(without_tests(text)));
        }
    }
    modules
}

/// The sets of modules that reach each other.
fn circles<'a>(modules: &Modules<'a>) -> Vec<BTreeSet<Module<'a>>> {
    let edges: BTreeMap<&Module<'a>, BTreeSet<Module<'a>>> = modules
        .iter()
        .map(|(module, uses)| {
            let inside = |used: &&Use<'a>| matches!(used.path.first(), Some(&("crate" | "super")));
            let to: BTreeSet<Module<'a>> =
                uses.iter().filter(inside).map(|used| resolve(modules, module, &used.path, 0)).collect();
            (module, to)
        })
        .collect();
    let reached: BTreeMap<&Module<'a>, BTreeSet<Module<'a>>> =
        modules.keys().map(|module| (module, reachable(&edges, module))).collect();
    let reaches = |from: &Module<'a>, to: &Module<'a>| reached.get(from).is_some_and(|all| all.contains(to));
    let mut found: Vec<BTreeSet<Module<'a>>> = Vec::new();
    for module in modules.keys() {
        if found.iter().any(|circle| circle.contains(module)) {
            continue;
        }
        let circle: BTreeSet<Module<'a>> = modules
            .keys()
            .filter(|other| *other == module || (reaches(module, other) && reaches(other, module)))
            .cloned()
            .collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

fn reachable<'a>(
    edges: &BTreeMap<&Module<'a>, BTreeSet<Module<'a>>>,
    from: &Module<'a>,
) -> BTreeSet<Module<'a>> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.clone()];
    while let Some(module) = next.pop() {
        for to in edges.get(&module).into_iter().flatten() {
            if reached.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    reached
}

/// The module whose file a path leads to: as far as there are modules, and on through what they re-export.
fn resolve<'a>(modules: &Modules<'a>, from: &Module<'a>, path: &[&'a str], hops: usize) -> Module<'a> {
    let mut at = from.clone();
    for part in path {
        match *part {
            "self" => continue,
            "crate" => {
                at.clear();
                continue;
            }
            "super" => {
                at.pop();
                continue;
            }
            _ => {}
        }
        let mut below = at.clone();
        below.push(*part);
        if modules.contains_key(&below) {
            at = below;
            continue;
        }
        let exported = modules.get(&at).into_iter().flatten().find(|used| {
            used.visibility != Visibility::Private && used.name == *part && used.path.last() != Some(&"*")
        });
        return match exported {
            Some(used) if hops < HOPS && is_own(modules, &at, &used.path) => {
                resolve(modules, &at, &used.path, hops + 1)
            }
            _ => at,
        };
    }
    at
}

/// Whether a path begins in this crate.
fn is_own<'a>(modules: &Modules<'a>, at: &Module<'a>, path: &[&'a str]) -> bool {
    let Some(first) = path.first() else { return false };
    let mut below = at.clone();
    below.push(*first);
    matches!(*first, "crate" | "super" | "self") || modules.contains_key(&below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::tests::tree;

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let tree = tree(&[
            ("crates/a/src/lib.rs", "mod one;\nmod two;\nmod three;\npub use one::One;\n"),
            ("crates/a/src/one.rs", "use crate::two::Two;\nuse std::fs;\n"),
            // Through what the root exports.
            ("crates/a/src/two.rs", "use super::One;\n"),
            ("crates/a/src/three.rs", "mod deep;\nuse crate::one::One;\n"),
            (
                "crates/a/src/three/deep.rs",
                "use super::super::two::Two;\n\n#[cfg(test)]\nmod tests {\n    use crate::three::Three;\n}\n",
            ),
            ("crates/b/src/main.rs", "mod one;\nuse crate::one::One;\n"),
            ("crates/b/src/one.rs", "use plural_a::One;\n"),
        ]);
        let modules = modules(&tree, "a");
        assert_eq!(circles(&modules), [BTreeSet::from([vec!["one"], vec!["two"]])]);
        let chapter = count(&tree);
        assert_eq!(
            chapter.figures,
            [Figure::plain("circles", 1, "circles"), Figure::count("the largest", 2, "files", LARGEST)]
        );
    }
}
