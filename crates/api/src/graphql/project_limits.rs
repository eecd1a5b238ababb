//! What the services of a project may touch.

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use plural_app::project::ProjectSelector;
use plural_core::project::Project as CoreProject;
use plural_core::run_limits::RunLimits;

use super::{
    error::{IntoGraphql, List, Nullable, id, items, list, nullable},
    project::Project,
    request::request,
    stack_policy::{StackRuleAttributes, rules_of},
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
    /// Objects of no namespace may not be written, except kinds that `clusterKinds` names. Where `namespaces` or
    /// `clusterKinds` names any, it is so in any case.
    no_cluster_scoped: Option<bool>,
    /// Kinds of objects of no namespace that may be written all the same.
    cluster_kinds: List<String>,
    /// Where services may be read from; empty: anywhere.
    repositories: List<String>,
    /// `NAMESPACE/NAME` of the service accounts that services may act as, besides those of their own namespaces.
    service_accounts: List<String>,
    /// Every service acts as a service account: none has the agent's rights.
    require_service_account: Option<bool>,
    /// Name of the service account, in its own namespace, that a service acts as which names none.
    default_service_account: Option<String>,
    /// Namespaces whose Secrets and ConfigMaps the configuration of services may refer to, besides each service's own.
    reference_namespaces: List<String>,
    /// Namespaces of the Jobs of runs of stacks; empty: as `namespaces`, and where these say nothing, each agent's own for runs.
    run_namespaces: List<String>,
    /// Images that runs of stacks may have; empty: all.
    run_images: List<String>,
    /// The service account of Jobs that plan, in the namespace of the run, whatever a stack says.
    plan_service_account: Option<String>,
    /// The service account of Jobs that apply, in the namespace of the run, whatever a stack says.
    apply_service_account: Option<String>,
    /// From where the code of stacks may take modules: addresses, modules of registries such as `acme/*/aws`; empty: from anywhere.
    module_sources: List<String>,
}

impl From<plural_core::project_limits::ProjectLimits> for ProjectLimits {
    fn from(limits: plural_core::project_limits::ProjectLimits) -> Self {
        let plural_core::project_limits::ProjectLimits {
            namespaces,
            allowed_kinds,
            denied_kinds,
            no_cluster_scoped,
            cluster_kinds,
            repositories,
            service_accounts,
            require_service_account,
            default_service_account,
            reference_namespaces,
            runs,
        } = limits;
        let RunLimits { namespaces: run_namespaces, images, plan_account, apply_account, modules } = runs;
        Self {
            namespaces: list(namespaces),
            allowed_kinds: list(allowed_kinds),
            denied_kinds: list(denied_kinds),
            no_cluster_scoped: Some(no_cluster_scoped),
            cluster_kinds: list(cluster_kinds),
            repositories: list(repositories),
            service_accounts: list(service_accounts),
            require_service_account: Some(require_service_account),
            default_service_account,
            reference_namespaces: list(reference_namespaces),
            run_namespaces: list(run_namespaces),
            run_images: list(images),
            plan_service_account: plan_account,
            apply_service_account: apply_account,
            module_sources: list(modules),
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
    /// Objects of no namespace may not be written, except kinds that `clusterKinds` names. Where `namespaces` or
    /// `clusterKinds` names any, it is so in any case.
    no_cluster_scoped: Option<bool>,
    /// Kinds of objects of no namespace that may be written all the same.
    cluster_kinds: List<String>,
    /// Where services may be read from: URLs of git repositories and of charts; empty: anywhere.
    repositories: List<String>,
    /// `NAMESPACE/NAME` of the service accounts that services may act as, besides those of their own namespaces.
    service_accounts: List<String>,
    /// Every service acts as a service account: none has the agent's rights.
    require_service_account: Option<bool>,
    /// Name of the service account, in its own namespace, that a service acts as which names none.
    default_service_account: Option<String>,
    /// Namespaces whose Secrets and ConfigMaps the configuration of services may refer to, besides each service's own.
    reference_namespaces: List<String>,
    /// Namespaces of the Jobs of runs of stacks; empty: as `namespaces`, and where these say nothing, each agent's own for runs.
    run_namespaces: List<String>,
    /// Images that runs of stacks may have; empty: all.
    run_images: List<String>,
    /// The service account of Jobs that plan, in the namespace of the run, whatever a stack says.
    plan_service_account: Option<String>,
    /// The service account of Jobs that apply, in the namespace of the run, whatever a stack says.
    apply_service_account: Option<String>,
    /// From where the code of stacks may take modules: addresses, modules of registries such as `acme/*/aws`; empty: from anywhere.
    module_sources: List<String>,
    /// Rules in Rego that the plans of all its stacks are checked by; what they deny is refused, whatever a stack says. Absent: those
    /// that there are stay. Given alone, the limits stay.
    stack_rules: List<StackRuleAttributes>,
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
            let selector = ProjectSelector::Id(id(&project_id).into_graphql(ctx)?);
            let ProjectLimitsAttributes {
                namespaces,
                allowed_kinds,
                denied_kinds,
                no_cluster_scoped,
                cluster_kinds,
                repositories,
                service_accounts,
                require_service_account,
                default_service_account,
                reference_namespaces,
                run_namespaces,
                run_images,
                plan_service_account,
                apply_service_account,
                module_sources,
                stack_rules,
            } = attributes;
            let stack_rules = items(stack_rules).map(rules_of).transpose().into_graphql(ctx)?;
            let limits = plural_core::project_limits::ProjectLimits {
                namespaces: items(namespaces).unwrap_or_default(),
                allowed_kinds: items(allowed_kinds).unwrap_or_default(),
                denied_kinds: items(denied_kinds).unwrap_or_default(),
                no_cluster_scoped: no_cluster_scoped.unwrap_or(false),
                cluster_kinds: items(cluster_kinds).unwrap_or_default(),
                repositories: items(repositories).unwrap_or_default(),
                service_accounts: items(service_accounts).unwrap_or_default(),
                require_service_account: require_service_account.unwrap_or(false),
                default_service_account,
                reference_namespaces: items(reference_namespaces).unwrap_or_default(),
                runs: RunLimits {
                    namespaces: items(run_namespaces).unwrap_or_default(),
                    images: items(run_images).unwrap_or_default(),
                    plan_account: plan_service_account,
                    apply_account: apply_service_account,
                    modules: items(module_sources).unwrap_or_default(),
                },
            };
            if let Some(rules) = stack_rules {
                limits.check().into_graphql(ctx)?;
                let set = request.app.project_stack_rules_set(&request.op, &selector, &rules).await;
                set.into_graphql(ctx)?;
                if limits.is_empty() {
                    // Nobody said anything of them.
                    let project = request.app.get::<CoreProject>(&request.op, &selector).await;
                    return Ok(Some(project.into_graphql(ctx)?.into()));
                }
            }
            Ok(Some(
                request
                    .app
                    .project_limits_set(&request.op, &selector, &limits)
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }
}
