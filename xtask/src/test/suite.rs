//! `--suite`: the tests that guard what worked before, in groups that are counted one by one.
//!
//! A group is a few modules, listed here, and the tests and modules that a page of the documentation names in its tables. Each
//! of them has to run at least one test: a module that was renamed, or a corpus that is missing, fails the run.

mod pages;

use std::{collections::BTreeSet, fmt, fs, path::Path};

use anyhow::Context as _;

use self::pages::Named;
use super::lanes::Outcome;

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Suite {
    /// All of the groups below
    Regression,
    /// Charts, overlays and other input, compared with what the original programs print
    Corpora,
    /// Faults of networks, disks, databases, clocks and processes
    BadDays,
    /// Hostile input, callers and agents
    Attacks,
    /// Commands and API documents as the pages and existing clients write them
    Commands,
}

struct Group {
    suite: Suite,
    title: &'static str,
    /// Pages whose tables name further tests and modules, with the headings of their sections.
    pages: &'static [(&'static str, &'static str)],
    /// Programs, and parts of the names of their tests; an empty part is the whole program.
    modules: &'static [(&'static str, &'static [&'static str])],
}

const GROUPS: [Group; 4] = [
    Group {
        suite: Suite::Corpora,
        title: "corpora",
        pages: &[],
        modules: &[
            ("render it", &["helm_corpus::", "charts::", "differential::"]),
            ("kustomize it", &["corpus::", "cases::"]),
            ("fuzz it", &[""]),
        ],
    },
    Group {
        suite: Suite::BadDays,
        title: "bad days",
        pages: &[("docs/testing.md", "## Bad days")],
        modules: &[
            (
                "plural it",
                &[
                    "line::",
                    "line_days::",
                    "replicas::",
                    "replicas_killed::",
                    "killed::",
                    "database_days::",
                    "recordings::",
                    "door::",
                    "backup::",
                    "disk::",
                    "source_days::",
                    "chart_days::",
                    "cluster_days::",
                    "mirrors::",
                    "previous_agent::",
                ],
            ),
            ("store it", &["crash::", "clock::", "replicas::", "recording::"]),
            ("store lib", &["migration::"]),
            ("agent it", &["trouble::"]),
            ("sync it", &["days::", "overload::", "trouble::", "crash::"]),
            ("git it", &["crash::", "blobs::"]),
            ("console it", &["previous_build::"]),
            ("console lib", &["blobs::s3::"]),
            ("tunnel it", &["contract::"]),
        ],
    },
    Group {
        suite: Suite::Attacks,
        title: "attacks",
        pages: &[
            ("docs/security.md", "## The attacks that are tried"),
            ("docs/security.md", "## Holes that were closed"),
        ],
        modules: &[
            (ANYWHERE, &["attack_"]),
            (
                "plural it",
                &[
                    "attacks::",
                    "proxy_attacks::",
                    "proxy_access::",
                    "route_sweep::",
                    "tenancy::",
                    "tokens::",
                    "heavy::",
                    "masked::",
                    "secrets::",
                    "sandbox::",
                    "private_files::",
                ],
            ),
            (
                "console it",
                &[
                    "api_access::",
                    "api_attacks::",
                    "api_secrets::",
                    "api_tokens::",
                    "credentials::",
                    "field_sweep::",
                ],
            ),
            ("store it", &["access::", "tenancy::"]),
            ("sync it", &["attacks::", "tenancy::"]),
            ("git it", &["attacks::", "reach::", "quota::"]),
            ("render it", &["attacks::"]),
            ("registry it", &["attacks::"]),
            ("cli it", &["hostile::"]),
            ("api lib", &["document::"]),
            ("tunnel lib", &["codec::", "gate::"]),
        ],
    },
    Group {
        suite: Suite::Commands,
        title: "documented commands",
        pages: &[],
        modules: &[
            ("plural bin plural", &["documented::"]),
            ("cli lib", &["reference::"]),
            ("cli it", &[""]),
            ("api it", &[""]),
            ("wire it", &[""]),
            (
                "plural it",
                &[
                    "acceptance::",
                    "canaries::",
                    "charts::",
                    "coming_from::",
                    "contexts::",
                    "demo::",
                    "dependencies::",
                    "descriptions::",
                    "global_services::",
                    "health::",
                    "keys::",
                    "kubectl::",
                    "managed_namespaces::",
                    "pages::",
                    "rendering::",
                    "sync::",
                    "template::",
                ],
            ),
        ],
    },
];

/// In the place of a program: all of them.
const ANYWHERE: &str = "";

/// Where a rule looks for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    Anything,
    Program(&'static str),
    /// All programs of a crate.
    Crate(String),
}

/// One line of a group: it has to run a test.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    of: Of,
    part: String,
    /// The page that names the test.
    page: Option<&'static str>,
}

impl Rule {
    fn listed(program: &'static str, part: &str) -> Self {
        let of = if program == ANYWHERE { Of::Anything } else { Of::Program(program) };
        Self { of, part: part.to_owned(), page: None }
    }

    fn named(name: Named, page: &'static str) -> Self {
        let (of, part) = match name {
            Named::Test(part) => (Of::Anything, part),
            Named::Module { of, path } => (Of::Crate(of), path),
        };
        Self { of, part, page: Some(page) }
    }

    fn concerns(&self, program: &str) -> bool {
        match &self.of {
            Of::Anything => true,
            Of::Program(name) => *name == program,
            Of::Crate(name) => program.split(' ').next() == Some(name.as_str()),
        }
    }

    fn holds(&self, program: &str, test: &str) -> bool {
        self.concerns(program) && test.contains(&self.part)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, part, page } = self;
        match of {
            Of::Anything if page.is_some() => f.write_str(part)?,
            Of::Anything => write!(f, "{part} of any program")?,
            Of::Program(program) if part.is_empty() => f.write_str(program)?,
            Of::Program(name) => write!(f, "{part} of `{name}`")?,
            Of::Crate(name) => write!(f, "{part} of `{name}`")?,
        }
        page.map_or(Ok(()), |page| write!(f, ", which {page} names"))
    }
}

/// The groups that were asked for.
#[derive(Debug)]
pub(super) struct Selection {
    groups: Vec<(&'static str, Vec<Rule>)>,
}

impl Selection {
    /// # Errors
    /// When a page cannot be read, has no such section or no test in it, or has a row that names none.
    pub(super) fn read(suite: Suite, root: &Path) -> anyhow::Result<Self> {
        let is_asked = |group: &&Group| suite == Suite::Regression || suite == group.suite;
        let crates = crates(root)?;
        let mut groups = Vec::new();
        for Group { title, pages, modules, .. } in GROUPS.iter().filter(is_asked) {
            let listed = modules
                .iter()
                .flat_map(|(program, parts)| parts.iter().map(move |part| Rule::listed(program, part)));
            let mut rules: Vec<Rule> = listed.collect();
            for (page, heading) in *pages {
                let text =
                    fs::read_to_string(root.join(page)).with_context(|| format!("cannot read {page}"))?;
                let names =
                    pages::named(&text, heading, &crates).with_context(|| format!("cannot take {page}"))?;
                anyhow::ensure!(!names.is_empty(), "{page} names no test below `{heading}`");
                rules.extend(names.into_iter().map(|name| Rule::named(name, page)));
            }
            groups.push((*title, rules));
        }
        Ok(Self { groups })
    }

    /// Which tests of a program to run: none of them, all of them where there is no filter, or those whose names
    /// contain one.
    pub(super) fn filters(&self, program: &str) -> Option<Vec<&str>> {
        let rules = self.groups.iter().flat_map(|(_, rules)| rules);
        let parts: BTreeSet<&str> =
            rules.filter(|rule| rule.concerns(program)).map(|rule| rule.part.as_str()).collect();
        if parts.is_empty() {
            return None;
        }
        Some(if parts.contains("") { Vec::new() } else { parts.into_iter().collect() })
    }

    /// How much of each group ran.
    pub(super) fn count(&self, outcomes: &[Outcome]) -> Groups {
        let groups = self.groups.iter().map(|(title, rules)| {
            let mut counted = Counted { title, ..Counted::default() };
            let mut ran = vec![false; rules.len()];
            for outcome in outcomes {
                let Outcome { name: program, report, not_run, compared, .. } = outcome;
                for case in &report.cases {
                    let holds: Vec<usize> =
                        (0..rules.len()).filter(|at| rules[*at].holds(program, &case.name)).collect();
                    if holds.is_empty() {
                        continue;
                    }
                    if not_run.contains(&case.name) {
                        counted.not_run += 1;
                        continue;
                    }
                    counted.passed += usize::from(case.has_passed);
                    counted.failed += usize::from(!case.has_passed);
                    for at in holds {
                        ran[at] = true;
                    }
                }
                let said = compared.iter().filter_map(|line| line.split_once('\t'));
                let own = said.filter(|(test, _)| rules.iter().any(|rule| rule.holds(program, test)));
                counted.compared.extend(own.map(|(_, text)| text.to_owned()));
            }
            let idle = rules.iter().zip(ran).filter(|(_, ran)| !ran).map(|(rule, _)| rule.to_string());
            counted.idle = idle.collect();
            counted
        });
        Groups(groups.collect())
    }
}

/// Names of the crates, as pages write them.
fn crates(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let folder = root.join("crates");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// What ran of each group.
pub(super) struct Groups(Vec<Counted>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    title: &'static str,
    passed: usize,
    failed: usize,
    not_run: usize,
    /// What tests said of the cases that they hold: `helm corpus: 880 of 880`.
    compared: Vec<String>,
    /// What ran no test.
    idle: Vec<String>,
}

impl Groups {
    /// # Errors
    /// When a part of a group ran no test: what it guarded may be lost.
    pub(super) fn complete(&self) -> anyhow::Result<()> {
        let idle: Vec<&str> = self.0.iter().flat_map(|group| &group.idle).map(String::as_str).collect();
        anyhow::ensure!(idle.is_empty(), "no test ran of: {}", idle.join("; "));
        Ok(())
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Counted { title, passed, failed, not_run, compared, idle } in &self.0 {
            write!(f, "{title}: {passed} tests passed, {failed} failed")?;
            if *not_run > 0 {
                write!(f, ", {not_run} not run")?;
            }
            writeln!(f)?;
            compared.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
            idle.iter().try_for_each(|rule| writeln!(f, "  no test ran of {rule}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{shell, test::report::tests::report};

    fn selection() -> Selection {
        let module = Named::Module { of: "kit".to_owned(), path: "lanes::".to_owned() };
        Selection {
            groups: vec![
                ("corpora", vec![Rule::listed("render it", "corpus::"), Rule::listed("fuzz it", "")]),
                (
                    "attacks",
                    vec![
                        Rule::listed(ANYWHERE, "attack_"),
                        Rule::listed("render it", "attacks::"),
                        Rule::named(module, "docs/a.md"),
                    ],
                ),
            ],
        }
    }

    #[test]
    fn programs_get_the_filters_of_all_groups() {
        let selection = selection();
        assert_eq!(selection.filters("render it"), Some(vec!["attack_", "attacks::", "corpus::"]));
        assert_eq!(selection.filters("fuzz it"), Some(vec![]));
        assert_eq!(selection.filters("store it"), Some(vec!["attack_"]));
        assert_eq!(selection.filters("kit lib"), Some(vec!["attack_", "lanes::"]));
        let corpora = Selection { groups: selection.groups.into_iter().take(1).collect() };
        assert_eq!(corpora.filters("store it"), None);
    }

    #[test]
    fn groups_are_counted_and_a_part_without_tests_is_named() {
        let outcomes = [
            Outcome {
                name: "render it".to_owned(),
                report: report(
                    "test corpus::renders ... ok\n\
                     test attacks::attack_1_links ... FAILED\n\
                     test attacks::others ... ok\n\
                     test result: FAILED. 2 passed; 1 failed; 0 ignored",
                ),
                not_run: vec!["corpus::renders".to_owned()],
                compared: vec!["corpus::renders\thelm corpus: 0 of 0".to_owned()],
                ..Outcome::default()
            },
            Outcome {
                name: "fuzz it".to_owned(),
                report: report("test yaml ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored"),
                ..Outcome::default()
            },
        ];
        let groups = selection().count(&outcomes);
        assert_eq!(
            groups.to_string(),
            "corpora: 1 tests passed, 0 failed, 1 not run\n\
             \u{20} helm corpus: 0 of 0\n\
             \u{20} no test ran of corpus:: of `render it`\n\
             attacks: 1 tests passed, 1 failed\n\
             \u{20} no test ran of lanes:: of `kit`, which docs/a.md names\n"
        );
        let refused = groups.complete().unwrap_err().to_string();
        let idle = "corpus:: of `render it`; lanes:: of `kit`, which docs/a.md names";
        assert_eq!(refused, format!("no test ran of: {idle}"));
        Groups(Vec::new()).complete().unwrap();
    }

    /// A test or module that was renamed is missed here, and not only when the whole suite runs.
    #[test]
    fn what_the_groups_name_is_there() {
        let crates = shell::root().join("crates");
        let mut sources = String::new();
        let mut folders = vec![crates.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    sources.push_str(&fs::read_to_string(&path).unwrap());
                }
            }
        }
        let selection = Selection::read(Suite::Regression, shell::root()).unwrap();
        for rule in selection.groups.iter().flat_map(|(_, rules)| rules) {
            let module = rule.part.strip_suffix("::").map(|path| format!("{}.rs", path.replace("::", "/")));
            let is_there = match (&rule.of, module) {
                (Of::Anything, _) if rule.part.ends_with('_') => {
                    sources.contains(&format!("fn {}", rule.part))
                }
                (Of::Anything, _) => sources.contains(&format!("fn {}(", rule.part)),
                (Of::Program(program), Some(module)) => match program.split_once(' ') {
                    Some((name, "it")) => crates.join(name).join("tests/it").join(module).is_file(),
                    _ => true,
                },
                (Of::Crate(name), Some(module)) => ["tests/it", "src"]
                    .iter()
                    .any(|folder| crates.join(name).join(folder).join(&module).is_file()),
                (Of::Program(_) | Of::Crate(_), None) => true,
            };
            assert!(is_there, "{rule}: there is no such test");
        }
    }
}
