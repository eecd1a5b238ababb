//! What the stacks of a project, or of the installation, have where they say nothing themselves: the Jobs of their runs.
//!
//! A field of a Job is the stack's own, else the project's, else the installation's. Maps are merged by key, lists are replaced.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::project::Project;
use crate::run_limits::RunLimits;
use crate::stack::StackTool;
use crate::stack_spec::{JobSpec, StackSpec};

/// What stacks have where they say nothing themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackSettings {
    /// Their Jobs.
    pub job: JobSpec,
}

impl StackSettings {
    /// Checks them: as those of a stack, and for what an agent or Kubernetes would refuse for each stack.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the field as that of a stack is named.
    pub fn check(&self) -> Result<()> {
        let Self { job } = self;
        job.check()?;
        job.check_fit()
    }

    /// Refuses what the limits of a project do not allow any of its stacks to have from it.
    ///
    /// # Errors
    /// [`Error::Forbidden`], which names the field.
    pub fn check_limits(&self, project: &Project) -> Result<()> {
        let Self { job } = self;
        let defaults = JobDefaults { project: job.clone(), installation: JobSpec::default() };
        let spec = StackSpec::default().with_job_defaults(defaults);
        // Without an image of its own it is the agent's, which is limited by nothing.
        let problem = project.limits.of_runs().refusal(project.name.as_str(), StackTool::Custom, &spec);
        problem.map_or(Ok(()), |problem| Err(Error::forbidden(problem)))
    }
}

/// What was said of the Job of a run besides what its stack says, when the run was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobDefaults {
    /// By the project.
    pub project: JobSpec,
    /// By the installation.
    pub installation: JobSpec,
}

impl JobDefaults {
    /// What both say together.
    pub fn whole(&self) -> JobSpec {
        self.project.over(&self.installation)
    }

    /// What of it counts in a project with these limits: where they name no namespaces for runs, agents take none but their own. An
    /// account that the installation named for another one does not go along.
    #[must_use]
    pub fn within(mut self, limits: &RunLimits) -> Self {
        let is_elsewhere = self.installation.namespace.as_ref().is_some_and(|name| !name.is_empty());
        if is_elsewhere && limits.namespaces.is_empty() {
            self.installation.namespace = None;
            self.installation.service_account = None;
        }
        self
    }

    /// The same without what tells who runs: code that nobody vouches for runs as nobody.
    #[must_use]
    pub fn for_nobody(&self) -> Self {
        Self { project: self.project.of_nobody(), installation: self.installation.of_nobody() }
    }
}

/// Who says something of a Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobLevel {
    /// The stack.
    Stack,
    /// The settings of its project.
    Project,
    /// Those of the installation.
    Installation,
}

impl JobLevel {
    /// A field that was said there, for people.
    pub fn field(self, field: &str, project: &str) -> String {
        match self {
            Self::Stack => format!("attributes.jobSpec.{field}"),
            Self::Project => format!("jobSpec.{field} in the stack settings of project {project}"),
            Self::Installation => format!("jobSpec.{field} in the stack settings of the installation"),
        }
    }
}

impl StackSpec {
    /// What a run is made of when this is said of its Job besides.
    #[must_use]
    pub fn with_job_defaults(self, said: JobDefaults) -> Self {
        let said = if self.is_checked_only() { said.for_nobody() } else { said };
        let job_defaults = (said != JobDefaults::default()).then(|| Box::new(said));
        Self { job_defaults, ..self }
    }

    /// The Job of its runs: its own over the defaults that it was made with.
    pub fn whole_job(&self) -> JobSpec {
        match &self.job_defaults {
            Some(defaults) => self.job.over(&defaults.whole()),
            None => self.job.clone(),
        }
    }

    /// Who says it that a field of the whole Job has a value.
    pub fn job_level(&self, says: impl Fn(&JobSpec) -> bool) -> JobLevel {
        if says(&self.job) {
            return JobLevel::Stack;
        }
        match &self.job_defaults {
            Some(defaults) if says(&defaults.project) => JobLevel::Project,
            Some(_) => JobLevel::Installation,
            None => JobLevel::Stack,
        }
    }
}

impl JobSpec {
    /// This one where it says something, else the other.
    ///
    /// An account is one of the namespace that it was named for: who names another namespace does not get it. A resource that this one
    /// requests or limits has neither from the other: a limit below what is requested elsewhere would be refused.
    #[must_use]
    pub fn over(&self, under: &Self) -> Self {
        let Self {
            namespace,
            labels,
            annotations,
            node_selector,
            tolerations,
            service_account,
            requests,
            limits,
        } = self;
        let said = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let merged = |own: &BTreeMap<String, String>, under: &BTreeMap<String, String>| {
            let mut all = under.clone();
            all.extend(own.clone());
            all
        };
        let takes = |own: &BTreeMap<String, String>, under: &BTreeMap<String, String>| {
            let mut all = under.clone();
            all.retain(|name, _| !requests.contains_key(name) && !limits.contains_key(name));
            all.extend(own.clone());
            all
        };
        let (own, below) = (said(namespace.as_deref()), said(under.namespace.as_deref()));
        let is_elsewhere = own.is_some() && own != below;
        let account = said(service_account.as_deref())
            .or_else(|| said(under.service_account.as_deref()).filter(|_| !is_elsewhere));
        Self {
            namespace: own.or(below),
            labels: merged(labels, &under.labels),
            annotations: merged(annotations, &under.annotations),
            node_selector: merged(node_selector, &under.node_selector),
            tolerations: if tolerations.is_empty() { under.tolerations.clone() } else { tolerations.clone() },
            service_account: account,
            requests: takes(requests, &under.requests),
            limits: takes(limits, &under.limits),
        }
    }

    /// Where it runs and what it takes, without what tells who runs.
    #[must_use]
    pub fn of_nobody(&self) -> Self {
        let Self { namespace, node_selector, tolerations, requests, limits, .. } = self.clone();
        Self { namespace, node_selector, tolerations, requests, limits, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_spec::JobToleration;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn tolerates(key: &str) -> Vec<JobToleration> {
        vec![JobToleration { key: Some(key.to_owned()), ..JobToleration::default() }]
    }

    fn spec(job: JobSpec, project: JobSpec, installation: JobSpec) -> StackSpec {
        StackSpec { job, ..StackSpec::default() }.with_job_defaults(JobDefaults { project, installation })
    }

    #[test]
    fn the_nearest_says_it_maps_are_merged_and_lists_replaced() {
        let installation = JobSpec {
            namespace: Some("all".to_owned()),
            labels: texts(&[("team", "none"), ("fleet", "a")]),
            tolerations: tolerates("all"),
            requests: texts(&[("cpu", "1"), ("memory", "1Gi"), ("ephemeral-storage", "1Gi")]),
            limits: texts(&[("cpu", "1")]),
            ..JobSpec::default()
        };
        let project = JobSpec {
            labels: texts(&[("team", "shop"), ("tier", "1")]),
            tolerations: tolerates("shop"),
            requests: texts(&[("cpu", "2")]),
            limits: texts(&[("memory", "2Gi")]),
            ..JobSpec::default()
        };
        let own = JobSpec {
            namespace: Some("own".to_owned()),
            labels: texts(&[("tier", "2")]),
            node_selector: texts(&[("disk", "ssd")]),
            ..JobSpec::default()
        };
        let whole = spec(own.clone(), project.clone(), installation.clone()).whole_job();
        assert_eq!(
            whole,
            JobSpec {
                namespace: Some("own".to_owned()),
                labels: texts(&[("team", "shop"), ("fleet", "a"), ("tier", "2")]),
                annotations: BTreeMap::new(),
                node_selector: texts(&[("disk", "ssd")]),
                tolerations: tolerates("shop"),
                service_account: None,
                // Neither the lower limit of what the project requests nor the request of what it limits.
                requests: texts(&[("cpu", "2"), ("ephemeral-storage", "1Gi")]),
                limits: texts(&[("memory", "2Gi")]),
            }
        );
        let none = spec(JobSpec::default(), JobSpec::default(), installation.clone());
        assert_eq!(none.whole_job(), installation);
        assert_eq!(StackSpec { job: own.clone(), ..StackSpec::default() }.whole_job(), own);
    }

    #[test]
    fn where_no_namespaces_are_allowed_the_installation_names_none() {
        let job = |namespace: Option<&str>| JobSpec {
            namespace: namespace.map(str::to_owned),
            service_account: Some("runner".to_owned()),
            labels: texts(&[("fleet", "a")]),
            ..JobSpec::default()
        };
        let said = |namespace| JobDefaults { project: JobSpec::default(), installation: job(namespace) };
        let open = RunLimits::default();
        let some = RunLimits { namespaces: vec!["runs".to_owned()], ..RunLimits::default() };
        let left = JobSpec { service_account: None, ..job(None) };
        assert_eq!(said(Some("runs")).within(&open).installation, left);
        assert_eq!(said(Some("runs")).within(&some), said(Some("runs")));
        assert_eq!(said(None).within(&open), said(None));
    }

    #[test]
    fn an_account_stays_in_the_namespace_that_it_was_named_for() {
        let job = |namespace: &str, account: &str| JobSpec {
            namespace: Some(namespace.to_owned()),
            service_account: Some(account.to_owned()),
            ..JobSpec::default()
        };
        for (own, project, installation, namespace, account) in [
            (job("", ""), job("", ""), job("", "c"), None, Some("c")),
            (job("", ""), job("b", ""), job("b", "c"), Some("b"), Some("c")),
            (job("", ""), job("b", ""), job("", "c"), Some("b"), None),
            (job("", ""), job("", "b"), job("c", ""), Some("c"), Some("b")),
            (job("c", ""), job("", "b"), job("c", ""), Some("c"), Some("b")),
            (job("a", ""), job("", "b"), job("c", ""), Some("a"), None),
            (job("a", ""), job("b", "b"), job("c", "c"), Some("a"), None),
            (job("a", "a"), job("b", "b"), job("c", "c"), Some("a"), Some("a")),
            (job("", "default"), job("b", "b"), job("", ""), Some("b"), Some("default")),
        ] {
            let whole = spec(own, project, installation).whole_job();
            assert_eq!((whole.namespace.as_deref(), whole.service_account.as_deref()), (namespace, account));
        }
    }

    #[test]
    fn who_says_it_is_known() {
        let named = |namespace: &str| JobSpec { namespace: Some(namespace.to_owned()), ..JobSpec::default() };
        let level = |spec: &StackSpec| spec.job_level(|job| job.namespace.is_some());
        let nothing = JobSpec::default;
        assert_eq!(level(&spec(named("a"), named("b"), named("c"))), JobLevel::Stack);
        assert_eq!(level(&spec(nothing(), named("b"), named("c"))), JobLevel::Project);
        assert_eq!(level(&spec(nothing(), nothing(), named("c"))), JobLevel::Installation);
        assert_eq!(level(&StackSpec::default()), JobLevel::Stack);
    }
}
