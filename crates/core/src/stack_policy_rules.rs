//! Policy of stacks: rules in Rego that check a plan before anybody may apply it, and the findings of rules and Trivy.
//!
//! It fails closed: rules that are missing, broken or too large, or whose result cannot be parsed, never let a plan pass.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::ids::RepositoryId;
use crate::service::GitRef;
use crate::stack::StackTool;

/// Limit of files in a set of rules.
pub const MAX_RULE_FILES: usize = 200;
/// Limit of the bytes of all files of a set.
pub const MAX_RULE_BYTES: usize = 1 << 20;
/// Limit of files of a project's rules, which are part of its settings.
pub const MAX_PROJECT_RULES: usize = 50;
/// Limit of the bytes of all of those.
pub const MAX_PROJECT_RULE_BYTES: usize = 256 << 10;
/// Limit of findings of one check.
pub const MAX_VIOLATIONS: usize = 500;
/// Limit of a text of a finding, in bytes.
pub const MAX_VIOLATION_TEXT: usize = 2 << 10;
/// Limit of a report from a harness, in bytes.
pub const MAX_FINDING: usize = 4 << 20;
/// The folder with rules in a stack's own repository.
pub const OWN_RULES: &str = ".plural/policies";

/// The severity of a finding, in order. A finding without a rating could be anything, so it ranks above all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Severity {
    /// None.
    None,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
    /// Not rated.
    Unknown,
}

impl Severity {
    /// All variants.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Low, Self::Medium, Self::High, Self::Critical, Self::Unknown];

    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Low => "LOW",
            Self::Medium => "MEDIUM",
            Self::High => "HIGH",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The severity of this word, ignoring case.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str().eq_ignore_ascii_case(word))
    }
}

/// The engine that checks plans besides the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyEngine {
    /// None.
    Rego,
    /// Trivy, in the image of the run.
    Trivy,
}

/// The policy that checks the plans of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StackPolicy {
    /// The engine besides the rules.
    pub engine: PolicyEngine,
    /// Findings that are more severe refuse a plan; absent: all findings that deny do.
    #[serde(default)]
    pub max_severity: Option<Severity>,
    /// The stack's own repository has rules in [`OWN_RULES`].
    #[serde(default)]
    pub custom_policies: bool,
    /// A repository with rules; together with `git`.
    #[serde(default)]
    pub repository_id: Option<RepositoryId>,
    /// Revision and folder of the rules.
    #[serde(default)]
    pub git: Option<GitRef>,
}

impl StackPolicy {
    /// Checks it.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the field.
    pub fn check(&self, tool: StackTool) -> Result<()> {
        let Self { engine, max_severity, custom_policies, repository_id, git } = self;
        if !tool.has_state() {
            return Err(Error::invalid(
                "attributes.policyEngine",
                "checks the plans of Terraform, OpenTofu and Terragrunt only: other tools have no plan that rules can read",
            ));
        }
        if repository_id.is_some() != git.is_some() {
            return Err(Error::invalid(
                "attributes.policyEngine.git",
                "is needed together with repositoryId: say which ref and folder of it has the rules",
            ));
        }
        if *engine == PolicyEngine::Rego && !custom_policies && repository_id.is_none() {
            return Err(Error::invalid(
                "attributes.policyEngine",
                "names no rules: set customPolicies for those in .plural/policies of the stack's repository, or repositoryId and git",
            ));
        }
        if *max_severity == Some(Severity::Unknown) {
            return Err(Error::invalid(
                "attributes.policyEngine.maxSeverity",
                "must not be UNKNOWN: what nobody rated always refuses a plan",
            ));
        }
        Ok(())
    }
}

/// A file of rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleFile {
    /// Its path, for messages.
    pub path: String,
    /// Rego.
    pub text: String,
}

/// Checks the rules of a project.
///
/// # Errors
/// [`Error::Invalid`], which names the field. Whether they compile is only known to the engine that runs them.
pub fn check_project_rules(field: &'static str, rules: &[RuleFile]) -> Result<()> {
    if rules.len() > MAX_PROJECT_RULES {
        return Err(Error::invalid(field, format!("at most {MAX_PROJECT_RULES} are allowed")));
    }
    if rules.iter().map(|rule| rule.text.len()).sum::<usize>() > MAX_PROJECT_RULE_BYTES {
        let told = format!("must not exceed {} KiB together", MAX_PROJECT_RULE_BYTES >> 10);
        return Err(Error::invalid(field, told));
    }
    for (place, RuleFile { path, text }) in rules.iter().enumerate() {
        let odd = |c: char| !(c.is_ascii_alphanumeric() || "._-/".contains(c));
        if path.is_empty() || path.len() > 255 || path.contains(odd) || text.contains('\0') {
            return Err(Error::invalid(
                field,
                "each must have a path such as regions.rego, and Rego without NUL",
            ));
        }
        if rules.iter().skip(place + 1).any(|other| other.path == *path) {
            return Err(Error::invalid(field, format!("{path:?} is there twice")));
        }
    }
    Ok(())
}

/// Everything that decides whether a plan is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSets {
    /// Rules of the project: whatever they deny is refused.
    pub project: Vec<RuleFile>,
    /// Rules that the stack names; empty if it names none.
    pub stack: Option<Vec<RuleFile>>,
    /// Findings of the stack's own policy that are more severe refuse a plan.
    pub max_severity: Option<Severity>,
    /// A report of Trivy is required, too.
    pub trivy: bool,
}

impl RuleSets {
    /// Whether nothing is checked.
    pub fn is_empty(&self) -> bool {
        let Self { project, stack, max_severity: _, trivy } = self;
        project.is_empty() && stack.is_none() && !trivy
    }

    /// SHA-256, in hex, over all of it: identifies exactly what checked the plan.
    pub fn digest(&self) -> String {
        let Self { project, stack, max_severity, trivy } = self;
        let mut hash = Sha256::new();
        // Lengths are part of the hash, so that the end of one text cannot be taken for the start of another.
        let mut put = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        put(max_severity.map_or("", Severity::as_str));
        put(if *trivy { "trivy" } else { "" });
        for (kind, rules) in [("project", Some(project)), ("stack", stack.as_ref())] {
            put(kind);
            put(&rules.map_or_else(|| "none".to_owned(), |rules| rules.len().to_string()));
            let mut rules: Vec<&RuleFile> = rules.into_iter().flatten().collect();
            rules.sort();
            for RuleFile { path, text } in rules {
                put(path);
                put(text);
            }
        }
        hex::encode(hash.finalize())
    }
}

/// Refuses a set of rules that is too large or empty.
///
/// # Errors
/// The reason, in words.
pub fn check_rule_files(rules: &[RuleFile]) -> std::result::Result<(), String> {
    if rules.is_empty() {
        return Err("there is no file that ends with .rego".to_owned());
    }
    if rules.len() > MAX_RULE_FILES {
        return Err(format!("there are more than {MAX_RULE_FILES} files of rules"));
    }
    if rules.iter().map(|rule| rule.text.len()).sum::<usize>() > MAX_RULE_BYTES {
        return Err(format!("the rules are larger than {} KiB together", MAX_RULE_BYTES >> 10));
    }
    Ok(())
}

/// A finding of a rule about a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFinding {
    /// Its name: from the finding itself, or else the name of the rule.
    pub rule: String,
    /// The address of the resource.
    pub resource: Option<String>,
    /// Its severity.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// It only warns.
    pub warns: bool,
    /// URL of the documentation.
    pub url: Option<String>,
    /// How to fix it.
    pub resolution: Option<String>,
}

/// Parses the entries of one rule of a policy, from JSON.
///
/// # Errors
/// Why they cannot be parsed, in words: never a part of their content.
pub fn rule_findings(name: &str, entries: &Value) -> std::result::Result<Vec<RuleFinding>, String> {
    let Some(entries) = entries.as_array() else {
        return Err(format!("the rule {name} is no set: write `{name} contains message if {{ … }}`"));
    };
    let warns = name == "warn" || name.starts_with("warn_");
    let read = |entry: &Value| {
        let text = |keys: &[&str]| -> std::result::Result<Option<String>, String> {
            match keys.iter().find_map(|key| entry.get(key)) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) if text.len() > MAX_VIOLATION_TEXT => {
                    Err(format!("the rule {name} says more than {MAX_VIOLATION_TEXT} bytes of one thing"))
                }
                Some(Value::String(text)) => {
                    Ok(Some(text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()))
                }
                Some(_) => {
                    Err(format!("the rule {name} has an entry whose {} is no text", keys.join(" or ")))
                }
            }
        };
        let finding = match entry {
            Value::String(message) if message.len() <= MAX_VIOLATION_TEXT => RuleFinding {
                rule: name.to_owned(),
                resource: None,
                severity: Severity::Unknown,
                message: message.chars().filter(|c| *c == '\n' || !c.is_control()).collect(),
                warns,
                url: None,
                resolution: None,
            },
            Value::String(_) => {
                return Err(format!("the rule {name} says more than {MAX_VIOLATION_TEXT} bytes of one thing"));
            }
            Value::Object(_) => RuleFinding {
                rule: text(&["rule", "id"])?.unwrap_or_else(|| name.to_owned()),
                resource: text(&["resource"])?,
                severity: match text(&["severity"])? {
                    None => Severity::Unknown,
                    Some(word) => Severity::parse(&word).ok_or_else(|| {
                        format!("the rule {name} has an entry whose severity is none of NONE, LOW, MEDIUM, HIGH, CRITICAL, UNKNOWN")
                    })?,
                },
                message: text(&["msg", "message"])?
                    .ok_or_else(|| format!("the rule {name} has an entry without msg"))?,
                warns,
                url: text(&["url"])?,
                resolution: text(&["resolution"])?,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return Err(format!("the rule {name} has an entry that is neither a text nor an object with msg"));
            }
        };
        Ok(finding)
    };
    if entries.len() > MAX_VIOLATIONS {
        return Err(format!("the rule {name} has more than {MAX_VIOLATIONS} entries"));
    }
    entries.iter().map(read).collect()
}

/// The source of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationSource {
    /// The project.
    Project,
    /// The stack.
    Stack,
    /// Trivy.
    Trivy,
    /// A program in the Job of another client's runner.
    Runner,
}

impl ViolationSource {
    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Stack => "stack",
            Self::Trivy => "trivy",
            Self::Runner => "runner",
        }
    }
}

/// A violation of a policy by a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The source of the rule.
    pub source: ViolationSource,
    /// It refuses the plan.
    pub refuses: bool,
    /// What is wrong.
    #[serde(flatten)]
    pub finding: RuleFinding,
}

/// Turns findings into violations: those that deny, and are more severe than the limit, refuse the plan.
pub fn judged(
    source: ViolationSource,
    findings: Vec<RuleFinding>,
    max_severity: Option<Severity>,
) -> Vec<Violation> {
    let max_severity = max_severity.filter(|_| source != ViolationSource::Project);
    let judge = |finding: RuleFinding| {
        let is_let_through = max_severity.is_some_and(|most| finding.severity <= most);
        Violation { source, refuses: !finding.warns && !is_let_through, finding }
    };
    findings.into_iter().map(judge).collect()
}

/// Why these refuse a plan; `None` if they do not.
pub fn refusal(violations: &[Violation]) -> Option<String> {
    let mut refusing: Vec<&Violation> = violations.iter().filter(|violation| violation.refuses).collect();
    refusing.sort_by_key(|violation| std::cmp::Reverse(violation.finding.severity));
    let worst = &refusing.first()?.finding;
    let resource = worst.resource.as_ref().map_or_else(String::new, |resource| format!(" ({resource})"));
    let more = match refusing.len() - 1 {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(format!("policy refused the plan: {}{resource}{more}", worst.message))
}

/// Parses a report of `trivy config --format json`.
///
/// # Errors
/// Why it cannot be parsed, in words: never a part of its content.
pub fn trivy_findings(report: &[u8]) -> std::result::Result<Vec<RuleFinding>, String> {
    let report: Value =
        serde_json::from_slice(report).map_err(|_| "the report of Trivy is no JSON".to_owned())?;
    if !report.get("SchemaVersion").is_some_and(Value::is_number) {
        return Err("the report is none of Trivy: it has no SchemaVersion".to_owned());
    }
    let results = report.get("Results").and_then(Value::as_array).filter(|results| !results.is_empty());
    let results =
        results.ok_or("the report of Trivy says nothing of the plan: it did not take it for one")?;
    let mut all = Vec::new();
    for result in results {
        let failures = match result.get("Misconfigurations") {
            None | Some(Value::Null) => continue,
            Some(Value::Array(failures)) => failures,
            Some(_) => return Err("the report of Trivy has misconfigurations that are no list".to_owned()),
        };
        for failure in failures.iter().filter(|failure| failure["Status"] != "PASS") {
            let text = |value: &Value| -> Option<String> {
                let text = value.as_str().filter(|text| !text.is_empty())?;
                let end = text.floor_char_boundary(MAX_VIOLATION_TEXT);
                Some(
                    text.get(..end)
                        .unwrap_or_default()
                        .chars()
                        .filter(|c| *c == '\n' || !c.is_control())
                        .collect(),
                )
            };
            let message = text(&failure["Message"]).or_else(|| text(&failure["Title"]));
            all.push(RuleFinding {
                rule: text(&failure["ID"]).ok_or("the report of Trivy has a finding without an ID")?,
                resource: text(&failure["CauseMetadata"]["Resource"]),
                // A finding without a rating refuses.
                severity: failure["Severity"].as_str().and_then(Severity::parse).unwrap_or(Severity::Unknown),
                message: message.ok_or("the report of Trivy has a finding without a message")?,
                warns: false,
                url: text(&failure["PrimaryURL"]),
                resolution: text(&failure["Resolution"]),
            });
            if all.len() > MAX_VIOLATIONS {
                return Err(format!("the report of Trivy has more than {MAX_VIOLATIONS} findings"));
            }
        }
    }
    Ok(all)
}

/// The check of a plan, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckedPlan {
    /// Digest of the rules that checked it.
    pub digest: String,
    /// Their findings.
    pub violations: Vec<Violation>,
}

#[cfg(test)]
#[path = "stack_policy_rules_tests.rs"]
mod tests;
