//! What the services of a project may touch.

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use plural_app::ProjectSelector;

use super::{
    error::{List, Nullable, Told, id, items, list, nullable},
    project::Project,
    request::request,
};

/// What the services of a project may touch. `*` stands for any run of characters.
#[derive(SimpleObject)]
pub(crate) struct ProjectLimits {
    /// Namespaces that may be written to; empty: all.
    namespaces: List<String>,
    /// `group/Kind`, `/Kind` of the core group; empty: all that is not denied.
    allowed_kinds: List<String>,
    /// Kinds that may not be written, whatever else is said.
    denied_kinds: List<String>,
    /// Objects of no namespace may not be written, except kinds that `allowedKinds` names in full.
    no_cluster_scoped: Option<bool>,
    /// Where services may be read from; empty: anywhere.
    repositories: List<String>,
}

impl From<plural_core::ProjectLimits> for ProjectLimits {
    fn from(limits: plural_core::ProjectLimits) -> Self {
        let plural_core::ProjectLimits {
            namespaces,
            allowed_kinds,
            denied_kinds,
            no_cluster_scoped,
            repositories,
        } = limits;
        Self {
            namespaces: list(namespaces),
            allowed_kinds: list(allowed_kinds),
            denied_kinds: list(denied_kinds),
            no_cluster_scoped: Some(no_cluster_scoped),
            repositories: list(repositories),
        }
    }
}

/// What the services of a project may touch; what is absent is not limited.
#[derive(Debug, InputObject)]
pub(crate) struct ProjectLimitsAttributes {
    /// Namespaces that may be written to; empty: all.
    namespaces: List<String>,
    /// `group/Kind`, `/Kind` of the core group; empty: all that is not denied.
    allowed_kinds: List<String>,
    /// Kinds that may not be written, whatever else is said.
    denied_kinds: List<String>,
    /// Objects of no namespace may not be written, except kinds that `allowedKinds` names in full.
    no_cluster_scoped: Option<bool>,
    /// Where services may be read from: URLs of git repositories and of charts; empty: anywhere.
    repositories: List<String>,
}

/// Limiting projects.
#[derive(Default)]
pub(crate) struct ProjectLimitsMutation;

/// Limiting projects.
#[Object]
impl ProjectLimitsMutation {
    /// Limits what the services of a project may touch, in place of its limits so far.
    async fn set_project_limits(
        &self,
        ctx: &Context<'_>,
        project_id: ID,
        attributes: ProjectLimitsAttributes,
    ) -> Nullable<Project> {
        nullable(async {
            let request = request(ctx);
            let selector = ProjectSelector::Id(id(&project_id).told(ctx)?);
            let ProjectLimitsAttributes {
                namespaces,
                allowed_kinds,
                denied_kinds,
                no_cluster_scoped,
                repositories,
            } = attributes;
            let limits = plural_core::ProjectLimits {
                namespaces: items(namespaces).unwrap_or_default(),
                allowed_kinds: items(allowed_kinds).unwrap_or_default(),
                denied_kinds: items(denied_kinds).unwrap_or_default(),
                no_cluster_scoped: no_cluster_scoped.unwrap_or(false),
                repositories: items(repositories).unwrap_or_default(),
            };
            Ok(Some(request.app.project_limits_set(&request.op, &selector, &limits).await.told(ctx)?.into()))
        })
        .await
    }
}
