//! How many files know of a noun, and which files know of nearly all of them.

use super::{
    Chapter, Figure, Tree,
    words::{Words, plural},
};
use crate::tidy::has_extension;

/// Nouns that the API serves, as their files are called.
const NOUNS: [&str; 15] = [
    "binding",
    "cluster",
    "global_service",
    "group",
    "helm_repository",
    "managed_namespace",
    "project",
    "project_limit",
    "recording",
    "repository",
    "service",
    "service_context",
    "sync_window",
    "token",
    "user",
];

const TOUCH_POINTS: usize = 12;
const LINES: usize = 950;
const LISTS: usize = 5;
/// A file that knows of so many of a hundred nouns is a list of them.
const NEARLY_ALL: usize = 80;

/// What one noun is spread over.
#[derive(Debug, Default, PartialEq, Eq)]
struct Spread {
    /// Files named after it, or below a folder of its name.
    own: usize,
    /// Other files that name it.
    others: Vec<String>,
    /// All lines of its own files, and those of others that name it.
    lines: usize,
}

pub(super) fn count(tree: &Tree, asked: &[String]) -> Chapter {
    let mut chapter = Chapter { title: "Nouns: files that know of one", ..Chapter::default() };
    let all = NOUNS.map(str::to_owned);
    for noun in if asked.is_empty() { all.as_slice() } else { asked } {
        let Spread { own, others, lines } = spread(tree, noun);
        // A name of one part is an English word, too: only its own files are certain.
        if !noun.contains('_') {
            chapter.figures.push(Figure::plain(format!("{noun}: its own files"), own, "files"));
            continue;
        }
        let all = own + others.len();
        chapter.figures.push(Figure::count(format!("{noun}: touch points"), all, "files", TOUCH_POINTS));
        chapter.figures.push(Figure::plain(format!("{noun}: of these its own"), own, "files"));
        chapter.figures.push(Figure::count(format!("{noun}: lines"), lines, "lines", LINES));
        if !asked.is_empty() {
            chapter.details.extend(others);
        }
    }
    chapter
}

/// Files that name nearly all nouns: whoever adds one has to know of them.
pub(super) fn lists(tree: &Tree) -> Chapter {
    let words = NOUNS.map(Words::of_noun);
    let mut found: Vec<(usize, &str)> = tree
        .texts()
        .filter(|(path, _)| !has_extension(path, "md"))
        .map(|(path, text)| {
            (words.iter().filter(|words| text.lines().any(|l| words.are_in(l))).count(), path)
        })
        .filter(|(known, _)| known * 100 >= NOUNS.len() * NEARLY_ALL)
        .collect();
    found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    Chapter {
        title: "Central lists",
        figures: vec![Figure::count("files that name nearly all nouns", found.len(), "files", LISTS)],
        details: found.iter().map(|(known, path)| format!("{known} of {}: {path}", NOUNS.len())).collect(),
    }
}

fn spread(tree: &Tree, noun: &str) -> Spread {
    let (words, names) = (Words::of_noun(noun), [noun.to_owned(), plural(noun)]);
    let mut spread = Spread::default();
    for (path, text) in tree.texts() {
        let mut parts = path.split('/').rev();
        let file = parts.next().unwrap_or_default();
        let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
        if parts.chain([stem]).any(|part| names.iter().any(|name| name == part)) {
            spread.own += 1;
            spread.lines += text.lines().count();
            continue;
        }
        let lines = words.lines_in(text);
        if lines > 0 {
            spread.others.push(format!("{noun}: {path} ({lines} lines)"));
            spread.lines += lines;
        }
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::tests::tree;

    #[test]
    fn a_noun_is_spread_over_its_own_files_and_others() {
        let tree = tree(&[
            ("crates/core/src/saved_view.rs", "a\nb\n"),
            ("crates/cli/src/saved_views.rs", "c\n"),
            ("crates/store/src/saved_view/rows.rs", "d\n"),
            ("crates/core/src/lib.rs", "mod saved_view;\nmod other;\npub use saved_view::SavedView;\n"),
            ("docs/a.md", "Nothing of it.\n"),
        ]);
        let spread = spread(&tree, "saved_view");
        assert_eq!((spread.own, spread.lines), (3, 6));
        assert_eq!(spread.others, ["saved_view: crates/core/src/lib.rs (2 lines)"]);
        let figures = count(&tree, &["saved_view".to_owned()]).figures;
        assert_eq!(figures[0], Figure::count("saved_view: touch points", 4, "files", TOUCH_POINTS));
        assert_eq!(count(&tree, &["cluster".to_owned()]).figures.len(), 1, "a common word");
    }

    #[test]
    fn a_file_that_names_nearly_all_nouns_is_a_list() {
        let most = NOUNS[..12].join("\n");
        let tree = tree(&[("a.rs", most.as_str()), ("b.rs", "cluster\nproject\n"), ("c.md", most.as_str())]);
        let chapter = lists(&tree);
        assert_eq!(chapter.figures, [Figure::count("files that name nearly all nouns", 1, "files", LISTS)]);
        assert_eq!(chapter.details, ["12 of 15: a.rs"]);
    }
}
