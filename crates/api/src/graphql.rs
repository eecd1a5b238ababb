//! The GraphQL schema: one file per noun, put together here.

mod access_token;
mod audit;
mod background_job;
mod batch;
mod binding;
mod budget;
mod check;
mod cluster;
mod cluster_audit;
mod component;
mod dependency;
mod error;
mod git_repository;
mod global_service;
mod global_service_input;
mod group;
mod helm_repository;
mod limited;
mod managed_namespace;
mod managed_namespace_input;
mod page;
mod preview;
mod project;
mod project_limits;
mod recording;
mod recording_policy;
mod rendering;
mod rendering_input;
mod request;
mod rollout_strategy;
mod service;
mod service_context;
mod service_file;
mod service_input;
mod service_life;
mod service_metadata;
mod shared;
mod sync;
mod sync_plan;
mod sync_window;
mod user;
mod webhook;

use async_graphql::{EmptySubscription, MergedObject, SchemaBuilder};

pub(crate) use budget::{Budget, MOST_BYTES, MOST_NODES, Pool, Shortage};
pub(crate) use check::{validate, validate_request};
pub(crate) use error::server_error;
pub(crate) use request::Request;

/// The schema's type.
pub(crate) type Schema = async_graphql::Schema<Query, Mutation, EmptySubscription>;

/// How deep a document may nest. The introspection query of common tools reaches 15.
const DEEPEST: usize = 20;

/// Reading.
#[derive(MergedObject, Default)]
#[graphql(name = "RootQueryType")]
pub(crate) struct Query(
    access_token::AccessTokenQuery,
    audit::AuditQuery,
    background_job::BackgroundJobQuery,
    cluster::ClusterQuery,
    dependency::DeletionQuery,
    git_repository::GitRepositoryQuery,
    global_service::GlobalServiceQuery,
    group::GroupQuery,
    preview::PreviewQuery,
    helm_repository::HelmRepositoryQuery,
    managed_namespace::ManagedNamespaceQuery,
    project::ProjectQuery,
    recording::RecordingQuery,
    service::ServiceQuery,
    service_file::ServiceFileQuery,
    sync::SyncQuery,
    service_context::ServiceContextQuery,
    sync_window::SyncWindowQuery,
    user::UserQuery,
    webhook::WebhookQuery,
);

/// Changing.
#[derive(MergedObject, Default)]
#[graphql(name = "RootMutationType")]
pub(crate) struct Mutation(
    access_token::AccessTokenMutation,
    background_job::BackgroundJobMutation,
    binding::BindingMutation,
    cluster::ClusterMutation,
    git_repository::GitRepositoryMutation,
    global_service::GlobalServiceMutation,
    group::GroupMutation,
    helm_repository::HelmRepositoryMutation,
    managed_namespace::ManagedNamespaceMutation,
    project::ProjectMutation,
    project_limits::ProjectLimitsMutation,
    recording_policy::RecordingPolicyMutation,
    service::ServiceMutation,
    service_context::ServiceContextMutation,
    service_life::ServiceLifeMutation,
    sync::SyncMutation,
    sync_window::SyncWindowMutation,
    user::UserMutation,
    webhook::WebhookMutation,
);

/// The schema that requests are executed with.
pub(crate) fn schema() -> Schema {
    builder().extension(budget::Counted).data(preview::turns()).finish()
}

fn builder() -> SchemaBuilder<Query, Mutation, EmptySubscription> {
    Schema::build(Query::default(), Mutation::default(), EmptySubscription)
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
