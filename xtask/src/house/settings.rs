//! How many lines know of a setting.

use super::{Chapter, Figure, Tree, is_test, without_tests, words::Words};
use crate::tidy::has_extension;

/// Settings of a service that go all the way from the command line to the agent.
const SETTINGS: [&str; 3] = ["prune_percent", "wave_timeout", "self_heal"];
const LINES: usize = 4;

pub(super) fn count(tree: &Tree) -> Chapter {
    let mut chapter =
        Chapter { title: "Settings: lines that know of one, without tests and docs", ..Chapter::default() };
    for setting in SETTINGS {
        let words = Words::of_setting(setting);
        let mut sum = 0;
        for (path, text) in tree.texts().filter(|(path, _)| is_source(path)) {
            let lines = words.lines_in(without_tests(text));
            if lines > 0 {
                sum += lines;
                chapter.details.push(format!("{setting}: {path} ({lines} lines)"));
            }
        }
        chapter.figures.push(Figure::count(setting, sum, "lines", LINES));
    }
    chapter
}

fn is_source(path: &str) -> bool {
    // This file names them all.
    let names_all = path.starts_with("xtask/");
    let is_page = path.starts_with("docs/") || has_extension(path, "md");
    !is_test(path) && !is_page && !names_all && !is_finished(path)
}

/// Never changed again, so that no new setting comes to it: migrations, and contracts of previous builds.
fn is_finished(path: &str) -> bool {
    path.contains("/migration/m") || path.rsplit('/').next().is_some_and(|name| name.starts_with("contract_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::tests::tree;

    #[test]
    fn tests_and_docs_are_left_out() {
        let source = "prune_percent: u8,\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    prune_percent();\n}\n";
        let tree = tree(&[
            ("crates/core/src/a.rs", source),
            ("crates/wire/src/a.rs", "prunePercent\n\"prune-percent\"\n"),
            ("crates/core/tests/it/a.rs", "prune_percent\n"),
            ("crates/core/src/a_tests.rs", "prune_percent\n"),
            ("docs/a.md", "prune_percent\n"),
            ("crates/store/src/migration/m0043_a.rs", "prune_percent\n"),
            ("crates/tunnel/src/contract_1.rs", "prune_percent\n"),
            ("CHANGELOG.md", "prune_percent\n"),
        ]);
        let chapter = count(&tree);
        assert_eq!(chapter.figures[0], Figure::count("prune_percent", 3, "lines", LINES));
        assert_eq!(chapter.details.len(), 2);
    }
}
