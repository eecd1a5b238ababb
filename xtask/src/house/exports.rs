//! How many names crates export at their root, and the reading of `use` declarations.

use super::{Chapter, Figure, Tree, without_tests};

const OF_A_CRATE: usize = 40;
const OF_THE_THREE: usize = 100;
/// What everything else is written in terms of.
const THE_THREE: [&str; 3] = ["core", "app", "wire"];

/// One name of a `use` declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use<'a> {
    /// `pub`, or `pub(…)`.
    pub(super) visibility: Visibility,
    /// `crate::a::B` in parts; a glob ends with `*`.
    pub(super) path: Vec<&'a str>,
    /// The name that it is used by.
    pub(super) name: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visibility {
    Private,
    InCrate,
    Public,
}

pub(super) fn count(tree: &Tree) -> Chapter {
    let mut chapter = Chapter { title: "Names exported at a crate's root", ..Chapter::default() };
    let mut of_the_three = 0;
    for name in tree.crates() {
        let exported = exported(tree, &format!("crates/{name}/src"), "lib.rs", 0);
        if THE_THREE.contains(&name) {
            of_the_three += exported;
        }
        if exported > 0 {
            chapter.figures.push(Figure::count(name, exported, "names", OF_A_CRATE));
        }
    }
    let three = format!("{} together", THE_THREE.join(", "));
    chapter.figures.push(Figure::count(three, of_the_three, "names", OF_THE_THREE));
    chapter
}

/// Names in `pub use` declarations; a glob counts as what its module has.
fn exported(tree: &Tree, folder: &str, file: &str, depth: usize) -> usize {
    let path = format!("{folder}/{file}");
    let Some((_, text)) = tree.texts().find(|(known, _)| *known == path) else { return 0 };
    let text = without_tests(text);
    let mut sum = 0;
    for used in uses(text).iter().filter(|used| used.visibility == Visibility::Public) {
        match used.path.as_slice() {
            [module, "*"] if depth < 4 => {
                sum += exported(tree, folder, &format!("{module}.rs"), depth + 1);
            }
            _ => sum += 1,
        }
    }
    // What a glob brings are the module's own items, too.
    if depth > 0 {
        let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static", "async", "unsafe", "union"];
        sum += text
            .lines()
            .filter_map(|line| line.strip_prefix("pub ")?.split_whitespace().next())
            .filter(|kind| kinds.contains(kind))
            .count();
    }
    sum
}

/// The `use` declarations of a source, one by one.
pub(super) fn uses(text: &str) -> Vec<Use<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let code = line.trim_start();
        let start = at + (line.len() - code.len());
        at += line.len();
        let (visibility, rest) = if let Some(rest) = code.strip_prefix("pub(") {
            let Some((_, rest)) = rest.split_once(") ") else { continue };
            (Visibility::InCrate, rest)
        } else if let Some(rest) = code.strip_prefix("pub ") {
            (Visibility::Public, rest)
        } else {
            (Visibility::Private, code)
        };
        let Some(declared) = rest.strip_prefix("use ") else { continue };
        let begins = start + (code.len() - declared.len());
        let Some(whole) = text.get(begins..).and_then(|text| text.split_once(';')) else { continue };
        leaves(whole.0, &mut Vec::new(), visibility, &mut found);
    }
    found
}

/// Take `a::{b, c::{d as e, *}}` apart.
fn leaves<'a>(tree: &'a str, before: &mut Vec<&'a str>, visibility: Visibility, found: &mut Vec<Use<'a>>) {
    let tree = tree.trim();
    let depth = before.len();
    match tree.split_once('{') {
        Some((head, group)) => {
            before.extend(parts(head));
            let group = group.strip_suffix('}').unwrap_or(group);
            for item in items(group) {
                leaves(item, before, visibility, found);
            }
        }
        None if tree.is_empty() => {}
        None => {
            let (path, name) =
                tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
            before.extend(parts(path));
            let last = before.iter().rev().find(|part| **part != "self").copied().unwrap_or_default();
            found.push(Use { visibility, path: before.clone(), name: name.map_or(last, str::trim) });
        }
    }
    before.truncate(depth);
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split("::").map(str::trim).filter(|part| !part.is_empty())
}

/// What commas separate at the outermost level.
fn items(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.extend(group.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.extend(group.get(start..));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::tests::tree;

    #[test]
    fn declarations_are_taken_apart() {
        use Visibility::{InCrate, Private, Public};
        let text = "\
//! use not::this;
use std::fs;
pub use a::{B, c::{self, D as E}, f::*};
pub(crate) use crate::{
    g::H,
    I,
};
fn f() {
    use super::J as _;
}
";
        let found: Vec<(String, &str, Visibility)> =
            uses(text).into_iter().map(|u| (u.path.join("::"), u.name, u.visibility)).collect();
        assert_eq!(
            found,
            [
                ("std::fs".to_owned(), "fs", Private),
                ("a::B".to_owned(), "B", Public),
                ("a::c::self".to_owned(), "c", Public),
                ("a::c::D".to_owned(), "E", Public),
                ("a::f::*".to_owned(), "*", Public),
                ("crate::g::H".to_owned(), "H", InCrate),
                ("crate::I".to_owned(), "I", InCrate),
                ("super::J".to_owned(), "_", Private),
            ]
        );
    }

    #[test]
    fn a_glob_counts_as_what_its_module_has() {
        let tree = tree(&[
            ("crates/app/src/lib.rs", "mod a;\nmod ports;\npub use a::{A, B};\npub use ports::*;\n"),
            ("crates/app/src/a.rs", "pub struct A;\npub struct B;\n"),
            (
                "crates/app/src/ports.rs",
                "pub use store::C;\npub trait D {}\npub(crate) struct E;\nstruct F;\n",
            ),
        ]);
        let figures = count(&tree).figures;
        assert_eq!(figures[0], Figure::count("app", 4, "names", OF_A_CRATE));
        assert_eq!(figures[1], Figure::count("core, app, wire together", 4, "names", OF_THE_THREE));
    }
}
