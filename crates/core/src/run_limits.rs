//! What the runs of a project's stacks may be: said by its administrators, and held to by the console and by each agent.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::module_source::check_module_patterns;
use crate::name::KubeName;
use crate::pattern::matches;
use crate::stack::StackTool;
use crate::stack_settings::JobLevel;
use crate::stack_spec::StackSpec;
use crate::stack_steps::image;

/// Entries of one list at most.
const MAX_ENTRIES: usize = 200;

/// What the runs of a project's stacks may be. In all patterns `*` stands for any run of characters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLimits {
    /// Namespaces of their Jobs; empty: those that services may write to, and where these say nothing, each agent's own for runs.
    pub namespaces: Vec<String>,
    /// Images with the tools; empty: all.
    pub images: Vec<String>,
    /// The `ServiceAccount` of the Jobs that plan, whatever a stack says.
    pub plan_account: Option<String>,
    /// Of those that apply.
    pub apply_account: Option<String>,
    /// From where modules may be taken; empty: from anywhere. See [`crate::module_source`].
    pub modules: Vec<String>,
}

impl RunLimits {
    /// They limit no Job: from where modules come is another matter.
    pub fn is_of_no_job(&self) -> bool {
        let Self { namespaces, images, plan_account, apply_account, modules: _ } = self;
        namespaces.is_empty() && images.is_empty() && plan_account.is_none() && apply_account.is_none()
    }

    /// Checks the lists.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what can match nothing, and too much of it.
    pub fn check(&self) -> Result<()> {
        let Self { namespaces, images, plan_account, apply_account, modules } = self;
        for (field, list) in [
            ("limits.runNamespaces", namespaces),
            ("limits.runImages", images),
            ("limits.moduleSources", modules),
        ] {
            if list.len() > MAX_ENTRIES {
                return Err(Error::invalid(field, format!("at most {MAX_ENTRIES} are allowed")));
            }
            let odd = |c: char| c.is_control() || c.is_whitespace();
            if list.iter().any(|text| text.is_empty() || text.len() > 1024 || text.contains(odd)) {
                return Err(Error::invalid(field, "each must be a name or a pattern such as shop-*"));
            }
        }
        let odd = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "-*".contains(c));
        if let Some(namespace) = namespaces.iter().find(|namespace| namespace.contains(odd)) {
            return Err(Error::invalid(
                "limits.runNamespaces",
                format!(
                    "{namespace:?} cannot match a namespace: use lower-case letters, digits, \"-\" and \"*\""
                ),
            ));
        }
        for (field, account) in
            [("limits.planServiceAccount", plan_account), ("limits.applyServiceAccount", apply_account)]
        {
            if account.as_ref().is_some_and(|name| name.parse::<KubeName>().is_err()) {
                return Err(Error::invalid(
                    field,
                    "must be the name of a ServiceAccount in the namespace of the runs",
                ));
            }
        }
        check_module_patterns("limits.moduleSources", modules)
    }

    /// Why a stack may not have Jobs as its spec says, if it may not. An agent says the same, and more: it knows its cluster.
    pub fn refusal(&self, project: &str, tool: StackTool, spec: &StackSpec) -> Option<String> {
        let Self { namespaces, images, plan_account, apply_account, modules: _ } = self;
        let named = |list: &[String], text: &str| {
            list.is_empty() || list.iter().any(|pattern| matches(pattern, text))
        };
        let ends = format!("project {project} allows for runs");
        let job = spec.whole_job();
        if let Some(namespace) = job.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
            let level = spec.job_level(|job| job.namespace.as_ref().is_some_and(|name| !name.is_empty()));
            let field = level.field("namespace", project);
            if !named(namespaces, namespace) {
                return Some(format!(
                    "{field}: {namespace} is not among the namespaces that {ends}: {}",
                    namespaces.join(", ")
                ));
            }
            // What an agent calls its own, a stack may say, and nobody for many of them.
            if namespaces.is_empty() && level != JobLevel::Stack {
                return Some(format!(
                    "{field}: the limits of project {project} name no namespaces for runs, and agents take none but their own \
                     then: name {namespace} in runNamespaces of the limits first, or no namespace here"
                ));
            }
        }
        // The agent's own image is the operator's.
        let image = image(tool, &spec.configuration);
        if !image.is_empty() && !named(images, &image) {
            return Some(format!(
                "attributes.configuration.image: {image} is not among the images that {ends}: {}",
                images.join(", ")
            ));
        }
        // Where both are named, they count and not the stack's; a phase without one runs as nobody.
        if self.is_of_no_job() || (plan_account.is_some() && apply_account.is_some()) {
            return None;
        }
        job.account().map(|(_, account)| {
            let level =
                spec.job_level(|job| job.service_account.as_ref().is_some_and(|name| !name.is_empty()));
            format!(
                "{}: the limits of project {project} say as whom runs act, and not as {account}",
                level.field("serviceAccount", project)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_settings::JobDefaults;
    use crate::stack_spec::JobSpec;

    fn list(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn limits_are_checked() {
        for (limits, good) in [
            (RunLimits::default(), true),
            (RunLimits { namespaces: list(&["team-*"]), ..RunLimits::default() }, true),
            (RunLimits { namespaces: list(&["Team"]), ..RunLimits::default() }, false),
            (RunLimits { images: list(&["example.org/*"]), ..RunLimits::default() }, true),
            (RunLimits { images: list(&["a b"]), ..RunLimits::default() }, false),
            (RunLimits { images: list(&[""]), ..RunLimits::default() }, false),
            (RunLimits { plan_account: Some("reader".to_owned()), ..RunLimits::default() }, true),
            (RunLimits { apply_account: Some("ns/writer".to_owned()), ..RunLimits::default() }, false),
            (RunLimits { modules: list(&["acme/*/aws"]), ..RunLimits::default() }, true),
            (RunLimits { modules: list(&["acme"]), ..RunLimits::default() }, false),
            (RunLimits { modules: vec!["*".to_owned(); MAX_ENTRIES + 1], ..RunLimits::default() }, false),
        ] {
            assert_eq!(limits.check().is_ok(), good, "{limits:?}");
        }
    }

    #[test]
    fn a_spec_is_held_to_them() {
        let limits = RunLimits {
            namespaces: list(&["team-*"]),
            images: list(&["example.org/*"]),
            plan_account: Some("reader".to_owned()),
            apply_account: Some("writer".to_owned()),
            modules: Vec::new(),
        };
        let mut spec = StackSpec::default();
        spec.job.namespace = Some("team-a".to_owned());
        spec.job.service_account = Some("admin".to_owned());
        spec.configuration.image = Some("example.org/tofu".to_owned());
        let told = |limits: &RunLimits, spec: &StackSpec| limits.refusal("shop", StackTool::Terraform, spec);
        assert_eq!(told(&limits, &spec), None);
        assert_eq!(told(&RunLimits::default(), &spec), None);
        let half = RunLimits { apply_account: None, ..limits.clone() };
        assert!(told(&half, &spec).unwrap().contains("jobSpec.serviceAccount"));
        let mut other = spec.clone();
        other.job.namespace = Some("other".to_owned());
        assert!(told(&limits, &other).unwrap().contains("jobSpec.namespace: other"));
        let mut other = spec.clone();
        other.configuration.image = None;
        assert!(told(&limits, &other).unwrap().contains("ghcr.io/opentofu/opentofu"));
        // A custom stack without an image has the agent's own.
        assert_eq!(limits.refusal("shop", StackTool::Custom, &other), None);
    }

    #[test]
    fn a_default_is_held_to_them_and_who_said_it_is_told() {
        let limits = RunLimits { namespaces: list(&["team-*"]), ..RunLimits::default() };
        let job = |namespace: Option<&str>, account: Option<&str>| JobSpec {
            namespace: namespace.map(str::to_owned),
            service_account: account.map(str::to_owned),
            ..JobSpec::default()
        };
        let told = |own: JobSpec, project: JobSpec, installation: JobSpec| {
            let said = JobDefaults { project, installation };
            let spec = StackSpec { job: own, ..StackSpec::default() }.with_job_defaults(said);
            limits.refusal("shop", StackTool::Custom, &spec).unwrap_or_default()
        };
        let (nothing, other, fine) = (job(None, None), job(Some("other"), None), job(Some("team-a"), None));
        assert!(
            told(nothing.clone(), nothing.clone(), other.clone()).starts_with(
                "jobSpec.namespace in the stack settings of the installation: other is not among"
            )
        );
        assert!(
            told(nothing.clone(), other.clone(), fine.clone())
                .starts_with("jobSpec.namespace in the stack settings of project shop: other is not among")
        );
        assert!(
            told(other.clone(), fine.clone(), fine.clone())
                .starts_with("attributes.jobSpec.namespace: other")
        );
        let open = |own: JobSpec, project: JobSpec, installation: JobSpec| {
            let said = JobDefaults { project, installation };
            let spec = StackSpec { job: own, ..StackSpec::default() }.with_job_defaults(said);
            RunLimits::default().refusal("shop", StackTool::Custom, &spec).unwrap_or_default()
        };
        for (project, installation, of) in
            [(&other, &nothing, "project shop"), (&nothing, &other, "the installation")]
        {
            let refused = open(nothing.clone(), project.clone(), installation.clone());
            let begins =
                format!("jobSpec.namespace in the stack settings of {of}: the limits of project shop");
            assert!(refused.starts_with(&begins), "{refused}");
        }
        // The stack may name the agent's own.
        assert_eq!(open(fine.clone(), other.clone(), other.clone()), "");
        assert_eq!(told(nothing.clone(), fine.clone(), other.clone()), "");
        assert_eq!(told(fine, other.clone(), other), "");
        assert!(
            told(nothing.clone(), job(Some("team-a"), Some("admin")), nothing.clone())
                .starts_with("jobSpec.serviceAccount in the stack settings of project shop: the limits")
        );
        assert!(
            told(nothing.clone(), nothing, job(Some("team-a"), Some("admin")))
                .starts_with("jobSpec.serviceAccount in the stack settings of the installation: the limits")
        );
    }
}
