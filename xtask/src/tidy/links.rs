//! Links between the pages of the repository.

use std::{collections::BTreeSet, path::Path};

use super::{Findings, SourceFile, has_extension, normal, pictures};

pub(super) fn check(files: &[SourceFile], findings: &mut Findings) {
    let mut known: BTreeSet<String> = files.iter().map(|f| f.path.clone()).collect();
    for file in files {
        known.extend(Path::new(&file.path).ancestors().skip(1).map(|a| a.display().to_string()));
    }
    let has_pictures = files.iter().any(|f| pictures::is_picture(&f.path));
    for file in files.iter().filter(|f| has_extension(&f.path, "md")) {
        let Some(text) = &file.text else { continue };
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        for (number, target) in links(text) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains(':') {
                continue;
            }
            let wanted = normal(&folder.join(path)).display().to_string();
            if known.contains(wanted.trim_end_matches('/')) {
                continue;
            }
            let told = format!("{}:{number}: the link leads to {wanted}, which is not there", file.path);
            // Where none was taken yet, they all come at once.
            if pictures::is_picture(&wanted) && !has_pictures {
                findings.warn(format!("{told}: `cargo xtask gallery docs` makes it"));
            } else {
                findings.error(told);
            }
        }
    }
}

/// Targets of `[text](target)`, outside of code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // What stands between backquotes is code: every second part.
        for prose in line.split('`').step_by(2) {
            let mut rest = prose;
            while let Some((_, after)) = rest.split_once("](") {
                let Some((target, after)) = after.split_once(')') else { break };
                found.push((index + 1, target));
                rest = after;
            }
        }
        // A link whose text is code: the split above cut it in two.
        for part in line.split("`](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((index + 1, target));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: Some(text.to_owned()) }
    }

    #[test]
    fn links_are_found() {
        let text = "[a](b.md) `[c](d.md)` [`e`](f.md#g)\n```\n[h](i.md)\n```\n[j](https://example.com)\n";
        assert_eq!(links(text), [(1, "b.md"), (1, "f.md#g"), (5, "https://example.com")]);
    }

    #[test]
    fn a_link_to_nothing_is_an_error() {
        let mut findings = Findings::default();
        let files = [
            file(
                "docs/a.md",
                "[b](b.md), [root](../README.md#x), [gone](gone.md), [folder](../docs/), [top](#top)\n",
            ),
            file("docs/b.md", ""),
            file("README.md", ""),
        ];
        check(&files, &mut findings);
        assert_eq!(findings.errors, ["docs/a.md:1: the link leads to docs/gone.md, which is not there"]);
    }

    #[test]
    fn pictures_that_nobody_took_are_a_warning_until_there_are_some() {
        let page = || file("docs/web-console/fleet.md", "![Fleet](fleet.png)\n");
        let mut findings = Findings::default();
        check(&[page()], &mut findings);
        assert_eq!((findings.errors.len(), findings.warnings.len()), (0, 1));
        let mut findings = Findings::default();
        check(&[page(), file("docs/web-console/audit.png", "")], &mut findings);
        assert_eq!(
            findings.errors,
            ["docs/web-console/fleet.md:1: the link leads to docs/web-console/fleet.png, which is not there"]
        );
    }
}
