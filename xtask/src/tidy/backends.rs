//! A test holds on both backends of a kind, or its file says why one is enough.

use super::{Findings, SourceFile};

/// What a test asks for when it chooses a backend by itself.
const CHOSEN: [&str; 6] = [
    "TestCluster::kubesim",
    "TestCluster::real",
    "RealCluster::start",
    "TestDatabase::sqlite",
    "TestDatabase::postgres",
    "PostgresServer::start",
];
/// How a comment of such a file begins.
const REASON: &str = "One backend is enough:";
/// Conditions that tell backends apart.
const TOLD_APART: [&str; 4] = [".backend() ", ".is_postgres()", ".folder().is_", ".as_kubesim().is_"];
/// How far below such a condition the end of a test is looked for.
const NEAR: usize = 2;

pub(super) fn check(files: &[SourceFile], findings: &mut Findings) {
    let is_test = |file: &&SourceFile| file.is_rust() && file.path.contains("/tests/");
    // The testkit's own tests are about the backends.
    for file in files.iter().filter(is_test).filter(|file| !file.path.starts_with("crates/testkit/")) {
        let Some(text) = &file.text else { continue };
        check_choice(&file.path, text, findings);
        check_ends(&file.path, text, findings);
    }
}

fn check_choice(path: &str, text: &str, findings: &mut Findings) {
    let chosen = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .find_map(|line| CHOSEN.iter().find(|chosen| line.contains(*chosen)));
    if let Some(chosen) = chosen
        && !text.lines().any(|line| line.trim_start().starts_with("//") && line.contains(REASON))
    {
        findings.error(format!(
            "{path}: a test chooses its backend ({chosen}): use each_cluster! or each_database!, one_cluster! or \
             one_database! with the reason, or say why in a comment that begins with \"{REASON}\""
        ));
    }
}

/// A test that ends at once on one backend passes there without having asked anything.
fn check_ends(path: &str, text: &str, findings: &mut Findings) {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    for (at, line) in lines.iter().enumerate() {
        let tells_apart = line.starts_with("if ") && TOLD_APART.iter().any(|told| line.contains(told));
        let below = lines.iter().skip(at).take(NEAR + 1);
        let ends = |line: &&str| line.starts_with("return") || line.contains("{ return");
        if tells_apart && below.clone().any(ends) {
            findings.error(format!(
                "{path}:{}: a test that returns on one backend counts as passed there: make it a case of one_cluster! or \
                 one_database!, which say why",
                at + 1
            ));
        }
    }
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
    fn who_chooses_a_backend_says_why() {
        let choice = "async fn a() {\n    let w = World::new(TestCluster::kubesim().await?);\n}\n";
        assert_eq!(errors("crates/a/tests/it/b.rs", choice).len(), 1);
        assert!(errors("crates/a/src/b.rs", choice).is_empty());
        assert!(errors("crates/testkit/tests/it/b.rs", choice).is_empty());
        let told = format!("//! One backend is enough: it only has to be there.\n{choice}");
        assert!(errors("crates/a/tests/it/b.rs", &told).is_empty());
        assert!(errors("crates/a/tests/it/b.rs", "each_cluster!(a);\n").is_empty());
    }

    #[test]
    fn a_test_that_returns_on_one_backend_is_an_error() {
        let text =
            "    if cluster.backend() != Backend::Real {\n        // Why.\n        return Ok(());\n    }\n";
        assert_eq!(errors("crates/a/tests/it/b.rs", text).len(), 1);
        let text = "    if !first.database.is_postgres() {\n        return;\n    }\n";
        assert_eq!(errors("crates/a/tests/it/b.rs", text).len(), 1);
        let text = "    if w.cluster.backend() == Backend::Real {\n        least = 50;\n    }\n    return;\n";
        assert!(errors("crates/a/tests/it/b.rs", text).is_empty());
    }
}
