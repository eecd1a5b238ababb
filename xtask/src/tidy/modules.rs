//! Source files that no `mod` leads to: the compiler never sees them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{Findings, SourceFile, normal};
use crate::shell::{self, Metadata};

pub(super) fn check(metadata: &Metadata, files: &[SourceFile], findings: &mut Findings) {
    let root = shell::root();
    let mut reached = BTreeSet::new();
    for target in metadata.packages.iter().flat_map(|p| &p.targets) {
        if let Ok(path) = target.src_path.strip_prefix(root) {
            // A crate's root and a build script look for modules in their own folder.
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            walk(path, &folder, files, &mut reached);
        }
    }
    // The programs of cargo fuzz are roots of a workspace of their own, which needs a nightly toolchain.
    for file in files.iter().filter(|f| f.is_rust() && !f.path.starts_with("fuzz/fuzz_targets/")) {
        if !reached.contains(Path::new(&file.path)) {
            findings.error(format!("{}: no `mod` leads to this file, so nothing compiles it", file.path));
        }
    }
}

/// Follow the declarations of one file; `folder` is where its modules' files are.
fn walk(path: &Path, folder: &Path, files: &[SourceFile], reached: &mut BTreeSet<PathBuf>) {
    let Some(text) = text_of(path, files) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    for declaration in declarations(text) {
        let Declaration { name, path: given, inside } = declaration;
        let mut base = folder.to_owned();
        base.extend(&inside);
        if let Some(given) = given {
            let from = if inside.is_empty() { path.parent().unwrap_or(Path::new("")) } else { &base };
            let file = normal(&from.join(given));
            let folder = file.parent().unwrap_or(Path::new("")).to_owned();
            walk(&file, &folder, files, reached);
        } else {
            walk(&base.join(format!("{name}.rs")), &base.join(&name), files, reached);
            walk(&base.join(&name).join("mod.rs"), &base.join(&name), files, reached);
        }
    }
}

fn text_of<'a>(path: &Path, files: &'a [SourceFile]) -> Option<&'a str> {
    files.iter().find(|f| Path::new(&f.path) == path)?.text.as_deref()
}

#[derive(Debug, PartialEq, Eq)]
struct Declaration {
    name: String,
    /// From `#[path = "…"]`.
    path: Option<String>,
    /// Inline modules around it, outermost first.
    inside: Vec<String>,
}

/// Every `mod name;` of a source text, comments left out. Declarations stand on lines of their own, as rustfmt
/// writes them; an inline module ends at a brace that is indented like its beginning.
fn declarations(text: &str) -> Vec<Declaration> {
    let mut found = Vec::new();
    let mut path = None;
    let mut inside: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim();
        if let Some(given) = code.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            path = Some(given.to_owned());
            continue;
        }
        if code == "}" && inside.last().is_some_and(|(at, _)| *at == indent) {
            inside.pop();
            continue;
        }
        let rest = code.strip_prefix("pub ").or_else(|| {
            let visible = code.strip_prefix("pub(")?;
            Some(visible.split_once(") ")?.1)
        });
        let Some(module) = rest.unwrap_or(code).strip_prefix("mod ") else {
            if !code.starts_with("#[") && !code.starts_with("//") {
                path = None;
            }
            continue;
        };
        if let Some(name) = module.strip_suffix(';') {
            found.push(Declaration {
                name: name.to_owned(),
                path: path.take(),
                inside: inside.iter().map(|(_, name)| name.clone()).collect(),
            });
        } else if let Some(name) = module.strip_suffix(" {") {
            inside.push((indent, name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found() {
        let text = "\
mod a;
pub mod b;
// mod commented;
#[cfg(test)]
#[path = \"c_tests.rs\"]
pub(crate) mod c;
mod inline {
    mod deep;
}
mod after;
";
        let found: Vec<(String, Option<String>, Vec<String>)> =
            declarations(text).into_iter().map(|d| (d.name, d.path, d.inside)).collect();
        let plain = |name: &str| (name.to_owned(), None, Vec::new());
        assert_eq!(
            found,
            [
                plain("a"),
                plain("b"),
                ("c".to_owned(), Some("c_tests.rs".to_owned()), Vec::new()),
                ("deep".to_owned(), None, vec!["inline".to_owned()]),
                plain("after"),
            ]
        );
    }

    #[test]
    fn modules_lead_to_files() {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: Some(text.to_owned()) };
        let files = [
            file("src/lib.rs", "mod a;\nmod inline {\n    mod deep;\n}\n"),
            file("src/a.rs", "mod b;\n#[path = \"../elsewhere.rs\"]\nmod c;\n"),
            file("src/a/b.rs", ""),
            file("src/inline/deep.rs", ""),
            file("elsewhere.rs", ""),
            file("src/lost.rs", ""),
        ];
        let mut reached = BTreeSet::new();
        walk(Path::new("src/lib.rs"), Path::new("src"), &files, &mut reached);
        let lost: Vec<&str> =
            files.iter().map(|f| f.path.as_str()).filter(|p| !reached.contains(Path::new(p))).collect();
        assert_eq!(lost, ["src/lost.rs"]);
    }
}
