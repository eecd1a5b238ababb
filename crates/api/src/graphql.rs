//! The GraphQL schema: one file per noun, put together here.

mod access_token;
mod audit;
mod audit_chain;
mod background_job;
mod batch;
mod binding;
mod budget;
mod check;
mod cluster;
mod cluster_audit;
mod cluster_list;
mod cluster_provider;
mod cluster_status;
mod component;
mod configuration;
mod custom_stack_run;
mod data_key;
mod delta;
mod dependency;
mod error;
mod federated_credential;
mod fleet_plan;
mod flow;
mod form;
mod git_repository;
mod global_service;
mod global_service_input;
mod group;
mod health_change;
mod helm_repository;
mod identity_provider;
mod invite;
mod limited;
mod managed_namespace;
mod managed_namespace_input;
mod page;
mod passkey;
mod persona;
mod pr_automation;
mod pr_automation_spec;
mod pr_governance;
mod pr_instance;
mod preview;
mod project;
mod project_limits;
mod pull_request;
mod pull_request_life;
mod pull_request_merge;
mod pull_request_secret;
mod question;
mod record;
mod recording;
mod recording_policy;
mod registration_token;
mod rendering;
mod rendering_input;
mod request;
mod revision;
mod role;
mod rollout_strategy;
mod runner;
mod runner_found;
mod saved_view;
mod scm_connection;
mod scm_webhook;
mod second_factor;
mod secret_backend;
mod service;
mod service_account;
mod service_context;
mod service_file;
mod service_import;
mod service_input;
mod service_life;
mod service_list;
mod service_metadata;
mod service_reason;
mod service_status;
mod shared;
mod stack;
mod stack_clock;
mod stack_definition;
mod stack_dependency;
mod stack_exec;
mod stack_input;
mod stack_list;
mod stack_policy;
mod stack_pull_request;
mod stack_run;
mod stack_run_plan;
mod stack_run_step;
mod stack_settings;
mod stack_spec;
mod stack_spec_input;
mod stack_state;
mod sync;
mod sync_plan;
mod sync_window;
mod user;
mod user_identity;
mod webhook;

use async_graphql::{MergedObject, SchemaBuilder};

pub(crate) use budget::{Budget, MOST_BYTES, MOST_NODES, Pool, Shortage};
pub(crate) use check::{validate, validate_request};
pub(crate) use delta::Subscription;
pub(crate) use error::server_error;
pub(crate) use request::Request;
pub(crate) use runner::{RunnerToken, opens};

/// The schema's type.
pub(crate) type Schema = async_graphql::Schema<Query, Mutation, Subscription>;

/// How deep a document may nest. The introspection query of common tools reaches 15.
const DEEPEST: usize = 20;

/// A part of the roots, from what each file adds to it.
///
/// A merged object asks its members one inside the other, so each of them costs the stack of whoever answers a request.
/// Parts keep that a dozen deep; one row of all nouns overflowed a thread's 2 MiB without optimisation.
macro_rules! part {
    ($queries:ident, $mutations:ident: $($module:ident($(query $query:ident)? $(;)? $(mutation $mutation:ident)?);)+) => {
        #[derive(MergedObject, Default)]
        struct $queries($($($module::$query,)?)+);

        #[derive(MergedObject, Default)]
        struct $mutations($($($module::$mutation,)?)+);
    };
}

part! { IdentityQueries, IdentityMutations:
    access_token(query AccessTokenQuery; mutation AccessTokenMutation);
    binding(mutation BindingMutation);
    federated_credential(query FederatedCredentialQuery; mutation FederatedCredentialMutation);
    group(query GroupQuery; mutation GroupMutation);
    identity_provider(query IdentityProviderQuery; mutation IdentityProviderMutation);
    invite(query InviteQuery; mutation InviteMutation);
    passkey(query PasskeyQuery; mutation PasskeyMutation);
    persona(query PersonaQuery; mutation PersonaMutation);
    question(query QuestionQuery);
    role(query RoleQuery; mutation RoleMutation);
    second_factor(mutation SecondFactorMutation);
    service_account(query ServiceAccountQuery; mutation ServiceAccountMutation);
    user(query UserQuery; mutation UserMutation);
    user_identity(query UserIdentityQuery; mutation UserIdentityMutation);
}

part! { FleetQueries, FleetMutations:
    cluster(query ClusterQuery; mutation ClusterMutation);
    cluster_list(query ClusterListQuery);
    project(query ProjectQuery; mutation ProjectMutation);
    project_limits(mutation ProjectLimitsMutation);
    recording(query RecordingQuery);
    recording_policy(mutation RecordingPolicyMutation);
    registration_token(query RegistrationTokenQuery; mutation RegistrationTokenMutation);
    saved_view(query SavedViewQuery; mutation SavedViewMutation);
}

part! { DeliveryQueries, DeliveryMutations:
    dependency(query DeletionQuery);
    fleet_plan(query FleetPlanQuery; mutation FleetPlanMutation);
    git_repository(query GitRepositoryQuery; mutation GitRepositoryMutation);
    global_service(query GlobalServiceQuery; mutation GlobalServiceMutation);
    health_change(query HealthChangeQuery);
    helm_repository(query HelmRepositoryQuery; mutation HelmRepositoryMutation);
    managed_namespace(query ManagedNamespaceQuery; mutation ManagedNamespaceMutation);
    preview(query PreviewQuery);
    revision(query RevisionQuery);
    service(query ServiceQuery; mutation ServiceMutation);
    service_context(query ServiceContextQuery; mutation ServiceContextMutation);
    service_file(query ServiceFileQuery);
    service_life(mutation ServiceLifeMutation);
    service_list(query ServiceListQuery);
    service_status(query ServiceStatusQuery);
    sync(query SyncQuery; mutation SyncMutation);
    sync_window(query SyncWindowQuery; mutation SyncWindowMutation);
}

part! { StackQueries, StackMutations:
    custom_stack_run(query CustomStackRunQuery; mutation CustomStackRunMutation);
    runner(query RunnerQuery; mutation RunnerMutation);
    stack(query StackQuery; mutation StackMutation);
    stack_clock(mutation StackClockMutation);
    stack_definition(query StackDefinitionQuery; mutation StackDefinitionMutation);
    stack_dependency(query StackDependencyQuery);
    stack_exec(mutation StackExecMutation);
    stack_list(query StackListQuery);
    stack_pull_request(mutation StackPullRequestMutation);
    stack_run(query StackRunQuery; mutation StackRunMutation);
    stack_settings(query StackSettingsQuery; mutation StackSettingsMutation);
    stack_state(query StackStateQuery; mutation StackStateMutation);
}

part! { SelfServiceQueries, SelfServiceMutations:
    pr_automation(query PrAutomationQuery; mutation PrAutomationMutation);
    pr_governance(query PrGovernanceQuery; mutation PrGovernanceMutation);
    pr_instance(query PrInstanceQuery; mutation PrInstanceMutation);
    pull_request(query PullRequestQuery; mutation PullRequestMutation);
    pull_request_life(mutation PullRequestLifeMutation);
    pull_request_merge(query PullRequestMergeQuery; mutation PullRequestMergeMutation);
    scm_connection(query ScmConnectionQuery; mutation ScmConnectionMutation);
    scm_webhook(query ScmWebhookQuery; mutation ScmWebhookMutation);
}

part! { OperationQueries, OperationMutations:
    audit(query AuditQuery);
    audit_chain(query AuditChainQuery);
    background_job(query BackgroundJobQuery; mutation BackgroundJobMutation);
    data_key(query DataKeyQuery; mutation DataKeyMutation);
    secret_backend(mutation SecretBackendMutation);
    webhook(query WebhookQuery; mutation WebhookMutation);
}

/// Reading.
#[derive(MergedObject, Default)]
#[graphql(name = "RootQueryType")]
pub(crate) struct Query(
    IdentityQueries,
    FleetQueries,
    DeliveryQueries,
    StackQueries,
    SelfServiceQueries,
    OperationQueries,
);

/// Changing.
#[derive(MergedObject, Default)]
#[graphql(name = "RootMutationType")]
pub(crate) struct Mutation(
    IdentityMutations,
    FleetMutations,
    DeliveryMutations,
    StackMutations,
    SelfServiceMutations,
    OperationMutations,
);

/// The schema that requests are executed with.
pub(crate) fn schema() -> Schema {
    builder().extension(budget::Counted).data(preview::turns()).finish()
}

fn builder() -> SchemaBuilder<Query, Mutation, Subscription> {
    Schema::build(Query::default(), Mutation::default(), Subscription)
        .limit_depth(DEEPEST)
        .with_sorted_fields()
        .with_sorted_enums()
}

/// The schema as text.
pub(crate) fn sdl() -> String {
    let options = async_graphql::SDLExportOptions::new()
        .sorted_fields()
        .sorted_enum_items()
        .prefer_single_line_descriptions()
        .use_space_ident()
        .indent_width(2);
    let mut text = builder().finish().sdl_with_options(options).trim().to_owned();
    text.push('\n');
    text
}
