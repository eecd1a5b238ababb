//! Sizes and contents of files.

use super::{Findings, SourceFile, has_extension};

const LINES_WARN: usize = 700;
const LINES_ERROR: usize = 1000;

/// Put together here so that this file does not hold what it forbids.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

pub(super) fn check(files: &[SourceFile], findings: &mut Findings) {
    for file in files {
        let Some(text) = &file.text else { continue };
        if file.is_rust() {
            check_source(file, text, findings);
        }
        if !is_made_by_tools(&file.path) {
            check_text(file, text, findings);
        }
    }
}

fn check_source(file: &SourceFile, text: &str, findings: &mut Findings) {
    let path = &file.path;
    let lines = text.lines().count();
    if lines > LINES_ERROR {
        findings
            .error(format!("{path}: {lines} lines; a file has one subject and at most {LINES_ERROR} lines"));
    } else if lines > LINES_WARN {
        findings.warn(format!("{path}: {lines} lines; split it by subject before it has {LINES_ERROR}"));
    }
    if path.ends_with("/mod.rs") {
        findings.error(format!("{path}: name the file after its module instead of mod.rs"));
    }
    if let Some((_, test)) = path.split_once("/tests/")
        && !test.contains('/')
    {
        findings.error(format!(
            "{path}: a crate has one integration-test program, tests/it/main.rs; make this a module of it"
        ));
    }
    let is_test_program = path.contains("/tests/");
    for (number, line) in numbered(text) {
        if is_test_program && !line.trim_start().starts_with("//") && line.contains("sleep(") {
            findings.warn(format!(
                "{path}:{number}: a test waits for a value with a deadline (testkit's `eventually`), not for a time"
            ));
        }
        if line.trim_start().starts_with(concat!("#[", "ignore")) {
            findings.error(format!(
                "{path}:{number}: no test is ignored: assert today's behaviour and say why it is wrong"
            ));
        }
    }
}

fn check_text(file: &SourceFile, text: &str, findings: &mut Findings) {
    let path = &file.path;
    for (number, line) in numbered(text) {
        for machine in MACHINE_PATHS {
            if let Some(at) = line.find(machine)
                && starts_a_path(line, at)
            {
                findings.error(format!("{path}:{number}: `{machine}` is a path of one machine"));
            }
        }
        if line.ends_with([' ', '\t']) && !has_extension(path, "md") && !is_expected_output(path) {
            findings.error(format!("{path}:{number}: blanks at the end of the line"));
        }
        if ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)) {
            findings.error(format!("{path}:{number}: a merge's mark is left over"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') && !is_expected_output(path) {
        findings.error(format!("{path}: the last line has no end"));
    }
}

/// `/data` + the forbidden word is a path of its own, not of a machine.
fn starts_a_path(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|b| b.chars().next_back());
    !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '}' | '>' | '$' | '*'))
}

fn is_made_by_tools(path: &str) -> bool {
    path == "Cargo.lock" || path.ends_with("/go.sum") || path.starts_with("LICENSE")
}

fn is_expected_output(path: &str) -> bool {
    let is_test_data = path.contains("/tests/it/") && !has_extension(path, "rs");
    let is_fuzz_input = path.starts_with("fuzz/corpus/");
    has_extension(path, "snap")
        || is_test_data
        || is_fuzz_input
        || path.contains("/testdata/")
        || path.contains("/data/")
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(path: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check(&[SourceFile { path: path.to_owned(), text: Some(text.to_owned()) }], &mut findings);
        findings.errors
    }

    #[test]
    fn long_files_are_errors() {
        assert!(errors("crates/a/src/b.rs", &"//\n".repeat(1000)).is_empty());
        assert_eq!(errors("crates/a/src/b.rs", &"//\n".repeat(1001)).len(), 1);
        assert!(errors("docs/b.md", &"a\n".repeat(2000)).is_empty());
    }

    #[test]
    fn machine_paths_are_errors() {
        let path = format!("let a = \"{}main\";\n", MACHINE_PATHS[0]);
        assert_eq!(errors("crates/a/src/b.rs", &path).len(), 1);
        let inside = format!("see docs{}x\n", MACHINE_PATHS[0]);
        assert!(errors("crates/a/src/b.rs", &inside).is_empty());
    }

    #[test]
    fn loose_test_programs_ignored_tests_and_mod_rs_are_errors() {
        assert_eq!(errors("crates/a/tests/b.rs", "\n").len(), 1);
        assert!(errors("crates/a/tests/it/main.rs", "\n").is_empty());
        assert_eq!(errors("crates/a/src/b.rs", concat!("#[", "ignore]\n")).len(), 1);
        assert_eq!(errors("crates/a/src/b/mod.rs", "\n").len(), 1);
    }

    #[test]
    fn ends_of_lines_and_files() {
        assert_eq!(errors("a.yaml", "a: 1 \n").len(), 1);
        assert_eq!(errors("a.yaml", "a: 1").len(), 1);
        assert!(errors("a.yaml", "a: 1\n").is_empty());
    }
}
