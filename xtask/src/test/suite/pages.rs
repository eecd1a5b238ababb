//! What the tables of a page name: tests, and modules of tests.
//!
//! The last column, when its title is `test` or `tests`, holds names between backquotes: of a test, of several (`attack_32_…`),
//! or of a module (`door`, `document/scan.rs`), whose tests are meant where no test stands beside it. A crate before a colon
//! is where the modules after it are, up to the next semicolon; without one they are of `plural`. In a table without that
//! column each row begins with the number of an attack.

use std::collections::BTreeSet;

/// The crate of modules that stand without one.
const HOME: &str = "plural";
/// How the cell of a row begins that has no test; the reason follows.
const NONE: &str = "no test";

/// What a row names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    /// A test, or how the names of several begin: then it ends in an underscore.
    Test(String),
    /// The tests of a module: `document::scan::`.
    Module { of: String, path: String },
}

/// Where a line of the page is.
enum Place {
    Outside,
    /// Below the titles of the columns, of which the last one may be of tests.
    Titles(bool),
    Rows(bool),
}

/// What the tables of a section name.
///
/// # Errors
/// For a row that names nothing and does not say so, and for one that is in no table.
pub(super) fn named(text: &str, heading: &str, crates: &BTreeSet<String>) -> anyhow::Result<BTreeSet<Named>> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1);
    let mut found = BTreeSet::new();
    let mut place = Place::Outside;
    for line in section.take_while(|line| !line.starts_with("## ")) {
        let cells = cells(line);
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
            place = Place::Outside;
            continue;
        };
        let is_rule = cells.iter().all(|cell| cell.chars().all(|c| c == '-'));
        place = match place {
            Place::Outside => Place::Titles(last.starts_with("test")),
            Place::Titles(has_tests) => {
                anyhow::ensure!(is_rule, "below `{heading}`, a row is in no table: {line}");
                Place::Rows(has_tests)
            }
            Place::Rows(has_tests) => {
                let names = if has_tests { in_cell(last, crates) } else { numbered(first) };
                anyhow::ensure!(
                    !names.is_empty() || last.starts_with(NONE),
                    "below `{heading}`, a row names no test; name one, or say `{NONE}` and why: {line}"
                );
                found.extend(names);
                Place::Rows(has_tests)
            }
        };
    }
    Ok(found)
}

/// The cells of a row; none of any other line.
fn cells(line: &str) -> Vec<&str> {
    let Some(row) = line.trim_end().strip_prefix('|') else { return Vec::new() };
    row.strip_suffix('|').unwrap_or(row).split('|').map(str::trim).collect()
}

fn in_cell(cell: &str, crates: &BTreeSet<String>) -> Vec<Named> {
    let mut found = Vec::new();
    for part in cell.split(';') {
        let mut of = HOME;
        for piece in part.split(',') {
            let (mut tests, mut modules) = (Vec::new(), Vec::new());
            // What stands between backquotes is every second part.
            let parts: Vec<&str> = piece.split('`').collect();
            for quoted in parts.get(1..).unwrap_or_default().chunks(2) {
                let (word, after) = (quoted[0], quoted.get(1).copied().unwrap_or_default());
                if let Some(test) = test_of(word) {
                    tests.push(test);
                } else if crates.contains(word) && after.starts_with(':') {
                    of = word;
                } else if let Some(path) = module_of(word) {
                    modules.push(Named::Module { of: of.to_owned(), path });
                }
            }
            found.extend(if tests.is_empty() { modules } else { tests });
        }
    }
    found
}

fn numbered(cell: &str) -> Vec<Named> {
    cell.parse::<u32>().map(|number| Named::Test(format!("attack_{number}_"))).into_iter().collect()
}

/// Three words or more, joined by underscores; or their beginning, with an ellipsis.
fn test_of(word: &str) -> Option<Named> {
    let name = word.trim_end_matches('…');
    let is_whole = name == word;
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let fits = !name.starts_with('_') && name.chars().all(letters) && name.matches('_').count() >= 2;
    (fits && is_whole != name.ends_with('_')).then(|| Named::Test(name.to_owned()))
}

/// `document/scan.rs` and `document/scan` are `document::scan::`.
fn module_of(word: &str) -> Option<String> {
    let path = word.strip_suffix(".rs").unwrap_or(word);
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '/';
    let fits = path.starts_with(|c: char| c.is_ascii_lowercase()) && path.chars().all(letters);
    fits.then(|| format!("{}::", path.replace('/', "::")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> anyhow::Result<Vec<Named>> {
        let crates: BTreeSet<String> = ["api", "kit", "store"].map(str::to_owned).into();
        named(text, "## One", &crates).map(|found| found.into_iter().collect())
    }

    /// What a table with this cell names.
    fn check(cell: &str, tests: &[&str], modules: &[(&str, &str)]) {
        let text = format!(
            "# Page\n\n## One\n\n`not_in_a_table`\n\n| what | tests |\n|---|---|\n| a `set_of_it` | {cell} |\n\n## Two\n"
        );
        let tests = tests.iter().map(|test| Named::Test((*test).to_owned()));
        let modules =
            modules.iter().map(|(of, path)| Named::Module { of: (*of).to_owned(), path: (*path).to_owned() });
        assert_eq!(of(&text).unwrap(), tests.chain(modules).collect::<Vec<_>>(), "{cell}");
    }

    #[test]
    fn a_cell_names_tests_or_modules() {
        check("`store`: `a_test_here`, `of.rs`: `b_test_there`", &["a_test_here", "b_test_there"], &[]);
        check("`attack_1_…` (`api`: `of.rs`)", &["attack_1_"], &[]);
        check("`killed`", &[], &[("plural", "killed::")]);
        check("`disk`, `store`: `a_full_disk`", &["a_full_disk"], &[("plural", "disk::")]);
        check(
            "`api`: `document/scan.rs`, `sending.rs`; `sweep`: a row without a test fails",
            &[],
            &[("api", "document::scan::"), ("api", "sending::"), ("plural", "sweep::")],
        );
        check("`kit`: `lanes.rs`; `store`: `x.rs`: `a_b_c`", &["a_b_c"], &[("kit", "lanes::")]);
        check("no test: nothing of ours takes part", &[], &[]);
    }

    #[test]
    fn a_row_without_a_test_is_refused() {
        let refused = |text: &str| of(text).unwrap_err().to_string();
        let told = refused("## One\n| what | test |\n|---|---|\n| `a_b_c` | all of them |\n");
        assert!(told.contains("names no test") && told.contains("all of them"), "{told}");
        let told = refused("## One\n| number | what |\n|---|---|\n| many | `a_b_c` |\n");
        assert!(told.contains("names no test"), "{told}");
        let told = refused("## One\n\n| a | `a_b_c` |\n| b | `d_e_f` |\n");
        assert!(told.contains("in no table"), "{told}");
    }

    #[test]
    fn a_table_without_tests_is_of_numbered_attacks() {
        let text =
            "## One\n| number | what |\n|---|---|\n| 7 | bombs |\n| 12 | hooks |\n## Two\n| `a_b_c` |\n";
        let attacks = ["attack_12_", "attack_7_"].map(|name| Named::Test(name.to_owned()));
        assert_eq!(of(text).unwrap(), attacks);
        assert!(of("## Three\n").unwrap().is_empty());
    }
}
