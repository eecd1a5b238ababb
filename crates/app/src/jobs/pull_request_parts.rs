//! What an automation takes from elsewhere: templates of another repository, and a chart. Both are pinned when a pull request is asked for,
//! so that each repetition makes the same.

use std::collections::BTreeMap;

use plural_core::ids::{ProjectId, RepositoryId};
use plural_core::pr_automation::PrAutomation;
use plural_core::pr_automation_spec::{PrAutomationSpec, PrVendorHelm};
use plural_core::pr_instance::{PrChart, PrParts, PrTemplates};
use plural_core::project::Project;
use plural_core::{Error, Result};

use crate::app::App;
use crate::ports::charts::{ChartPart, ChartPin, ComposeError, Composed, Composition};
use crate::ports::git::{FolderFile, GitAccess, GitError};
use crate::ports::scaffolds::ScaffoldEntry;
use crate::project::ProjectSelector;
use crate::pull_request_made::Stop;
use crate::source::SourceLimits;
use crate::stack::stack_limits;

/// What was fetched.
#[derive(Default)]
pub(crate) struct Fetched {
    /// The folder of templates.
    pub(crate) external: BTreeMap<String, ScaffoldEntry>,
    /// The chart, as charts are published.
    pub(crate) chart: Option<Vec<u8>>,
}

/// An error of git or of a chart repository, with what it is about.
fn stopped(doing: &str, error: GitError) -> Stop {
    let GitError { message, location, transient } = error;
    let told = match location {
        Some(location) => format!("{doing}: {message} ({location})"),
        None => format!("{doing}: {message}"),
    };
    if transient { Stop::Later(told) } else { Stop::Failed(told) }
}

impl App {
    /// What an automation takes from elsewhere, as it is now.
    pub(crate) async fn pull_request_parts(&self, automation: &PrAutomation) -> Result<PrParts> {
        let (project, spec) = (automation.project_id, &automation.spec);
        let mut parts = PrParts::default();
        if spec.takes_templates() {
            let git = spec.creates.git.as_ref().or(spec.git.as_ref());
            let (Some(repository), Some(git)) = (automation.links.repository_id, git) else {
                return Err(Error::conflict(
                    "the automation takes templates from another repository, and does not say from which branch and folder of which: \
                     give it --repository and git",
                ));
            };
            let access = self.templates_access(project, repository).await?;
            let commit = self.git.resolve(&access, &git.reference).await;
            let commit = commit.map_err(|error| stopped("the templates cannot be found", error))?;
            let folder = git.folder.clone();
            parts.templates = Some(PrTemplates { project, repository, sha: commit.sha, folder });
        }
        if let Some(helm) = &spec.vendor.helm {
            let Composed { built: _, chart } = self.chart_composed(project, helm, None).await?;
            let pin = chart.ok_or_else(|| Error::internal("pinning a chart", "it has no version"))?;
            parts.chart = Some(PrChart { project, version: pin.version, digest: pin.digest });
        }
        Ok(parts)
    }

    /// Fetches what was pinned.
    pub(crate) async fn pull_request_fetched(
        &self,
        spec: &PrAutomationSpec,
        parts: &PrParts,
    ) -> Result<Fetched, Stop> {
        let mut fetched = Fetched::default();
        if let Some(PrTemplates { project, repository, sha, folder }) = &parts.templates {
            let access = self.templates_access(*project, *repository).await?;
            let _turn = self.repositories.turns.build(Some(*project)).await;
            let files = self.git.folder(&access, sha, folder).await;
            let files = files.map_err(|error| stopped("the templates cannot be read", error))?;
            let entry =
                |FolderFile { path, bytes, executable }| (path, ScaffoldEntry::File { bytes, executable });
            fetched.external = files.into_iter().map(entry).collect();
        }
        if let (Some(PrChart { project, version, digest }), Some(helm)) = (&parts.chart, &spec.vendor.helm) {
            let pin = ChartPin { version: version.clone(), digest: digest.clone() };
            let Composed { built, chart } = self.chart_composed(*project, helm, Some(pin.clone())).await?;
            if chart.as_ref() != Some(&pin) {
                return Err(Stop::Failed(format!(
                    "the chart {} {version} is another one than when the pull request was asked for: ask again",
                    helm.chart
                )));
            }
            fetched.chart = Some(self.blobs.archive(&built.digest, &built.folder, "chart").await?);
        }
        Ok(fetched)
    }

    /// The right to read a repository of templates, which is as new as what is known of it.
    async fn templates_access(
        &self,
        project: ProjectId,
        repository: RepositoryId,
    ) -> Result<GitAccess, Stop> {
        let failed = |why: String| Stop::Failed(format!("the templates cannot be read: {why}"));
        let Some(work) = self.store.repository_work(repository).await? else {
            return Err(failed("their git repository no longer exists".to_owned()));
        };
        let by = ProjectSelector::Id(project);
        let project = self.get::<Project>(&self.system_ctx(), &by).await?;
        if let Some(problem) = stack_limits(&project).problem(&work.repository.url.to_string()) {
            return Err(failed(problem));
        }
        if work.repository.pulled_at.is_none() {
            return Err(match work.repository.error {
                Some(error) => failed(format!("their git repository cannot be fetched: {error}")),
                None => Stop::Later("the repository of templates was not fetched yet".to_owned()),
            });
        }
        let access = self.git_access(&work).await?;
        let renewed = self.mirror_renew(&access).await;
        renewed.map_err(|error| stopped("the templates cannot be fetched", error))?;
        Ok(access)
    }

    /// A chart, from where services of the project may be read and with the credentials that they have there.
    async fn chart_composed(
        &self,
        project: ProjectId,
        helm: &PrVendorHelm,
        pin: Option<ChartPin>,
    ) -> Result<Composed, Stop> {
        let by = ProjectSelector::Id(project);
        let project = self.get::<Project>(&self.system_ctx(), &by).await?;
        let version = pin.as_ref().map_or_else(|| helm.version.clone(), |pin| pin.version.clone());
        let composition = Composition {
            chart: Some(ChartPart::Repository {
                address: helm.url.clone(),
                chart: Some(helm.chart.clone()),
                version,
                verify: None,
                pin,
            }),
            repositories: self.chart_accesses().await?,
            project: Some(project.id),
            limits: SourceLimits {
                project: project.name.to_string(),
                repositories: project.limits.repositories.clone(),
                charts_of: Some(project.id),
            },
            ..Composition::default()
        };
        let doing = format!("the chart {} {} cannot be fetched", helm.chart, helm.version);
        let composed = self.composer.compose(&composition).await;
        composed.map_err(|ComposeError { error, repository: _ }| stopped(&doing, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_tried_again() {
        let terminal = GitError { location: Some("a".to_owned()), ..GitError::terminal("no such folder") };
        assert!(matches!(stopped("read", terminal), Stop::Failed(why) if why == "read: no such folder (a)"));
        let passing = GitError { transient: true, ..GitError::terminal("no route to host") };
        assert!(matches!(stopped("read", passing), Stop::Later(why) if why == "read: no route to host"));
    }
}
