//! Every use case, asked by nobody, a stranger, a reader, a writer, an owner (bindings on the project) and
//! an administrator. A use case that is not in the table fails the test.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use plural_app::{
    ClusterFilter, ClusterSelector, CreatedCluster, GlobalServiceSelector, GroupSelector, JobClaimer, JobEnd,
    JobFilter, JobStore as _, ManagedNamespaceSelector, NewCredentials, NewHelmAccess, NewJob,
    NewRecordingPolicy, NewSyncWindow, OpCtx, PlanSelector, ProjectSelector, RecordingsSelector,
    RepositorySelector, RolloutAction, ServiceClone, ServiceContextFilter, ServiceContextSelector,
    ServiceFilter, ServiceSelector, TokenWish, UserSelector,
};
use plural_core::{
    BindingsChange, ClusterChange, Configuration, DiffNormalizer, Error, GlobalServiceChange,
    GlobalServiceId, GlobalServiceSource, GlobalServiceSpec, Group, GroupChange, JobId,
    ManagedNamespaceChange, ManagedNamespaceId, ManagedNamespaceSpec, NewCluster, NewGlobalService, NewGroup,
    NewManagedNamespace, NewProject, NewRepository, NewUser, PageArgs, PinUntil, Policy, Project,
    ProjectChange, ProjectLimits, RecordingId, ReplicaId, Repository, RepositoryChange, Result, Service,
    ServiceChange, ServiceContext, ServiceContextChange, ServiceTemplate, SyncRequest, SyncWindowKind,
    TemplateSecrets, User, UserChange, WindowRule,
};
use plural_testkit::{TestDatabase, each_database};

use crate::door::{Door, by_id, new_service, service_id, subject};
use crate::recording;

each_database!(
    the_table,
    bindings_reach_down_and_never_up_or_sideways,
    users_change_themselves_but_not_their_power,
);

/// What a case may use: each attempt gets a fresh one from the administrator.
struct World<'a> {
    door: &'a Door,
    project: Project,
    cluster: CreatedCluster,
    repository: Repository,
    service: Service,
    group: Group,
    user: User,
}

type Case = (
    &'static str,
    // nobody, stranger, reader, writer, owner, administrator: `u`nauthenticated, `h`idden, `d`enied, `a`llowed.
    &'static str,
    for<'a> fn(&'a World<'a>, &'a OpCtx) -> LocalBoxFuture<'a, Result<()>>,
);

macro_rules! case {
    ($name:literal, $expected:literal, $world:ident, $ctx:ident => $call:expr) => {
        ($name, $expected, |$world: &World<'_>, $ctx: &OpCtx| {
            async move { $call.await.map(drop) }.boxed_local()
        })
    };
}

fn cases() -> Vec<Case> {
    vec![
        case!("project_get", "uhaaaa", w, c => w.door.app.project_get(c, &ProjectSelector::Id(w.project.id))),
        case!("project_list", "uaaaaa", w, c => list_projects(w, c)),
        case!("project_create", "udddda", w, c => w.door.app.project_create(c, &NewProject { name: fresh("p").parse().unwrap(), description: None })),
        case!("project_create_bound", "udddda", w, c => w.door.app.project_create_bound(c, &NewProject { name: fresh("p").parse().unwrap(), description: None }, readable(w))),
        case!("project_update", "uhdaaa", w, c => w.door.app.project_update(c, w.project.id, &ProjectChange { name: None, description: Some("d".into()) })),
        case!("project_delete", "uhddaa", w, c => delete_project(w, c)),
        case!("projects_get", "uhaaaa", w, c => async { found(w.door.app.projects_get(c, &[w.project.id]).await?.contains_key(&w.project.id)) }),
        case!("user_me", "uaaaaa", w, c => w.door.app.user_me(c)),
        // Without a password it proves nothing, and says so to nobody.
        case!("proven", "aaaaaa", w, c => w.door.app.proven(c, None)),
        case!("user_get", "uaaaaa", w, c => w.door.app.user_get(c, &UserSelector::Id(w.user.id))),
        case!("user_list", "uaaaaa", w, c => w.door.app.user_list(c, None, &PageArgs::default())),
        case!("user_groups", "uaaaaa", w, c => w.door.app.user_groups(c, w.user.id)),
        case!("users_get", "uaaaaa", w, c => async { found(w.door.app.users_get(c, &[w.user.id]).await?.contains_key(&w.user.id)) }),
        case!("users_groups", "uaaaaa", w, c => w.door.app.users_groups(c, &[w.user.id])),
        case!("user_create", "udddda", w, c => w.door.app.user_create(c, &new_user(), None)),
        case!("user_update", "udddda", w, c => w.door.app.user_update(c, w.user.id, &UserChange::default(), None)),
        case!("user_delete", "udddda", w, c => w.door.app.user_delete(c, w.user.id)),
        case!("group_get", "uaaaaa", w, c => w.door.app.group_get(c, &GroupSelector::Id(w.group.id))),
        case!("group_list", "uaaaaa", w, c => w.door.app.group_list(c, None, &PageArgs::default())),
        case!("group_members", "uaaaaa", w, c => w.door.app.group_members(c, w.group.id)),
        case!("groups_get", "uaaaaa", w, c => async { found(w.door.app.groups_get(c, &[w.group.id]).await?.contains_key(&w.group.id)) }),
        case!("groups_members", "uaaaaa", w, c => w.door.app.groups_members(c, &[w.group.id])),
        case!("group_create", "udddda", w, c => w.door.app.group_create(c, &NewGroup { name: fresh("g").parse().unwrap(), description: None })),
        case!("group_update", "udddda", w, c => w.door.app.group_update(c, w.group.id, &GroupChange::default())),
        case!("group_delete", "udddda", w, c => w.door.app.group_delete(c, w.group.id)),
        case!("group_member_create", "udddda", w, c => w.door.app.group_member_create(c, w.group.id, w.user.id)),
        case!("group_member_delete", "udddda", w, c => delete_member(w, c)),
        case!("binding_list", "uhaaaa", w, c => w.door.app.binding_list(c, w.cluster.cluster.id)),
        case!("binding_replace", "uhddaa", w, c => w.door.app.binding_replace(c, w.service.id, readable(w))),
        case!("bindings_list", "uhaaaa", w, c => many_bindings(w, c)),
        case!("token_list", "uaaaaa", w, c => w.door.app.token_list(c, &PageArgs::default())),
        case!("token_get", "uhhhha", w, c => get_token(w, c)),
        case!("token_create", "udddda", w, c => w.door.app.token_create(c, Some(w.user.id), None)),
        case!("token_create_as", "udddda", w, c => w.door.app.token_create_as(c, Some(w.user.id), TokenWish::default())),
        case!("token_list_of", "udddda", w, c => w.door.app.token_list_of(c, w.user.id, &PageArgs::default())),
        case!("token_delete", "uhhhha", w, c => delete_token(w, c)),
        case!("cluster_get", "uhaaaa", w, c => w.door.app.cluster_get(c, &by_id(&w.cluster.cluster))),
        case!("cluster_list", "uhaaaa", w, c => list_clusters(w, c)),
        case!("clusters_get", "uhaaaa", w, c => async { found(w.door.app.clusters_get(c, &[w.cluster.cluster.id]).await?.contains_key(&w.cluster.cluster.id)) }),
        case!("cluster_create", "uhdaaa", w, c => w.door.app.cluster_create(c, new_cluster(&w.project))),
        case!("cluster_create_bound", "uhddaa", w, c => w.door.app.cluster_create_bound(c, new_cluster(&w.project), readable(w))),
        case!("cluster_update", "uhdaaa", w, c => update_cluster(w, c)),
        case!("cluster_token_rotate", "uhddaa", w, c => rotate_token(w, c)),
        case!("cluster_token_renew", "uhddaa", w, c => w.door.app.cluster_token_renew(c, &by_id(&w.cluster.cluster))),
        case!("cluster_join_token", "uhddaa", w, c => w.door.app.cluster_join_token(c, &by_id(&w.cluster.cluster), None)),
        case!("cluster_delete", "uhddaa", w, c => delete_cluster(w, c)),
        case!("cluster_detach", "uhddaa", w, c => detach_cluster(w, c)),
        case!("repository_get", "uhaaaa", w, c => w.door.app.repository_get(c, &RepositorySelector::Id(w.repository.id))),
        case!("repository_list", "uhaaaa", w, c => list_repositories(w, c)),
        case!("repositories_get", "uhaaaa", w, c => async { found(w.door.app.repositories_get(c, &[w.repository.id]).await?.contains_key(&w.repository.id)) }),
        case!("repository_create", "uhdaaa", w, c => w.door.app.repository_create(c, new_repository(&w.project), NewCredentials::default())),
        case!("repository_update", "uhdaaa", w, c => w.door.app.repository_update(c, w.repository.id, &RepositoryChange::default(), NewCredentials::default())),
        case!("repository_webhook_secret", "uhdaaa", w, c => w.door.app.repository_webhook_secret(c, w.repository.id)),
        case!("repository_webhook_rotate", "uhdaaa", w, c => w.door.app.repository_webhook_rotate(c, w.repository.id)),
        case!("repository_delete", "uhdaaa", w, c => delete_repository(w, c)),
        case!("repository_kick", "uhdaaa", w, c => w.door.app.repository_kick(c, w.repository.id)),
        case!("services_get", "uhaaaa", w, c => async { found(w.door.app.services_get(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        // Of what is hidden, nothing is answered.
        case!("services_metadata", "uaaaaa", w, c => w.door.app.services_metadata(c, &[w.service.id])),
        case!("services_deprecations", "uaaaaa", w, c => w.door.app.services_deprecations(c, &[w.service.id])),
        case!("cluster_deprecations", "uhaaaa", w, c => w.door.app.cluster_deprecations(c, &by_id(&w.cluster.cluster))),
        // Nothing was made of its source yet: whoever may ask is told that.
        case!("service_files", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_files(c, &service_id(&w.service), None).await) }),
        case!("canary_gate_path", "uhdaaa", w, c => w.door.app.canary_gate_path(c, &service_id(&w.service))),
        case!("service_get", "uhaaaa", w, c => w.door.app.service_get(c, &service_id(&w.service))),
        case!("service_list", "uhaaaa", w, c => list_services(w, c)),
        case!("services_components", "uhaaaa", w, c => async { found(w.door.app.services_components(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_errors", "uhaaaa", w, c => async { found(w.door.app.services_errors(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_revisions", "uhaaaa", w, c => async { found(w.door.app.services_revisions(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_configurations", "uhhaaa", w, c => async { found(w.door.app.services_configurations(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("services_configuration_names", "uhhaaa", w, c => async { found(w.door.app.services_configuration_names(c, &[w.service.id]).await?.contains_key(&w.service.id)) }),
        case!("service_create", "uhdaaa", w, c => create_service(w, c)),
        case!("service_create_bound", "uhddaa", w, c => create_bound_service(w, c)),
        case!("service_update", "uhdaaa", w, c => update_service(w, c)),
        case!("service_delete", "uhdaaa", w, c => delete_service(w, c)),
        case!("service_detach", "uhdaaa", w, c => detach_service(w, c)),
        case!("service_kick", "uhdaaa", w, c => kick_service(w, c)),
        case!("service_preview", "uhaaaa", w, c => w.door.app.service_preview(c, &service_id(&w.service))),
        case!("service_rollback", "uhdaaa", w, c => roll_back(w, c)),
        case!("service_release", "uhdaaa", w, c => release(w, c)),
        case!("service_pause", "uhdaaa", w, c => w.door.app.service_pause(c, &service_id(&w.service))),
        case!("service_resume", "uhdaaa", w, c => w.door.app.service_resume(c, &service_id(&w.service))),
        case!("service_agent_upgrade", "uhddda", w, c => w.door.app.service_agent_upgrade(c, &service_id(&w.service), false)),
        case!("service_clone", "uhdaaa", w, c => clone_service(w, c)),
        case!("service_events", "uhaaaa", w, c => w.door.app.service_events(c, w.service.id, &PageArgs::default())),
        case!("sync_window_list", "uhaaaa", w, c => w.door.app.sync_window_list(c, w.service.id)),
        case!("sync_window_create", "uhdaaa", w, c => w.door.app.sync_window_create(c, w.service.id, window())),
        case!("sync_window_delete", "uhdaaa", w, c => delete_window(w, c)),
        // Nothing was made of its source yet: whoever may ask is told that.
        case!("service_sync", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_sync(c, &service_id(&w.service), SyncRequest::default()).await) }),
        case!("service_promote", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_promote(c, &service_id(&w.service), plural_core::Promotion::Proceed, Vec::new()).await) }),
        case!("service_plan_request", "uhaaaa", w, c => async { unless_conflict(w.door.app.service_plan_request(c, &service_id(&w.service)).await) }),
        // Nothing waits for an approval: whoever may approve is told that.
        case!("service_prune_approve", "uhdaaa", w, c => async { unless_conflict(w.door.app.service_prune_approve(c, &service_id(&w.service), "none").await) }),
        case!("service_drift_ignore", "uhdaaa", w, c => ignore_drift(w, c)),
        case!("service_plan", "uhaaaa", w, c => w.door.app.service_plan(c, &service_id(&w.service), PlanSelector::Last)),
        case!("service_plans", "uhaaaa", w, c => w.door.app.service_plans(c, w.service.id, &PageArgs::default())),
        case!("service_drift", "uhaaaa", w, c => w.door.app.service_drift(c, w.service.id, &PageArgs::default())),
        // Of what is hidden, nothing is answered.
        case!("services_syncs", "uaaaaa", w, c => w.door.app.services_syncs(c, &[w.service.id])),
        case!("revisions_plans", "uaaaaa", w, c => w.door.app.revisions_plans(c, &[(w.service.id, w.service.revision_id)])),
        case!("project_limits_set", "uhddaa", w, c => w.door.app.project_limits_set(c, &ProjectSelector::Id(w.project.id), &ProjectLimits::default())),
        case!("recording_policy_get", "uhaaaa", w, c => w.door.app.recording_policy_get(c, &ProjectSelector::Id(w.project.id))),
        case!("recording_policy_set", "uhddaa", w, c => w.door.app.recording_policy_set(c, &ProjectSelector::Id(w.project.id), NewRecordingPolicy::default())),
        // A right of its own: whoever administers the cluster does not have it.
        case!("recording_list", "uhddda", w, c => w.door.app.recording_list(c, &RecordingsSelector::Cluster(by_id(&w.cluster.cluster)), &PageArgs::default())),
        case!("recording_list", "uhddda", w, c => w.door.app.recording_list(c, &RecordingsSelector::Project(w.project.id), &PageArgs::default())),
        case!("recording_list", "uhddda", w, c => w.door.app.recording_list(c, &RecordingsSelector::ProjectNamed(w.project.name.to_string()), &PageArgs::default())),
        // Who may read none finds none.
        case!("recording_list", "uaaaaa", w, c => w.door.app.recording_list(c, &RecordingsSelector::Readable, &PageArgs::default())),
        case!("recorded_projects_get", "uhhhha", w, c => async { found(w.door.app.recorded_projects_get(c, &[w.project.id]).await?.contains_key(&w.project.id)) }),
        case!("recording_read", "uhddda", w, c => async { w.door.app.recording_read(c, recorded(w).await).await }),
        case!("service_components", "uhaaaa", w, c => w.door.app.service_components(c, w.service.id)),
        case!("service_errors", "uhaaaa", w, c => w.door.app.service_errors(c, w.service.id)),
        case!("service_revisions", "uhaaaa", w, c => list_revisions(w, c)),
        case!("service_revision", "uhaaaa", w, c => w.door.app.service_revision(c, w.service.id)),
        case!("service_configuration", "uhdaaa", w, c => w.door.app.service_configuration(c, w.service.id)),
        case!("service_values", "uhdaaa", w, c => w.door.app.service_values(c, w.service.id)),
        case!("helm_repository_get", "uaaaaa", w, c => async { w.door.app.helm_repository_get(c, &helm(w).await).await }),
        case!("helm_repository_list", "uaaaaa", w, c => w.door.app.helm_repository_list(c, &PageArgs::default())),
        case!("helm_repository_upsert", "udddda", w, c => w.door.app.helm_repository_upsert(c, &helm_url(), NewHelmAccess::default())),
        case!("helm_repository_delete", "udddda", w, c => async { w.door.app.helm_repository_delete(c, &helm(w).await).await }),
        case!("cluster_audit_list", "uhddaa", w, c => w.door.app.cluster_audit_list(c, &by_id(&w.cluster.cluster), &PageArgs::default())),
        case!("global_service_get", "uhaaaa", w, c => async { w.door.app.global_service_get(c, &global(w).await).await }),
        case!("global_service_list", "uaaaaa", w, c => w.door.app.global_service_list(c, None, &PageArgs::default())),
        case!("global_service_create", "uhdaaa", w, c => w.door.app.global_service_create(c, new_global(w))),
        case!("global_service_update", "uhdaaa", w, c => async { w.door.app.global_service_update(c, &global(w).await, GlobalServiceChange::default()).await }),
        case!("global_service_delete", "uhdaaa", w, c => async { w.door.app.global_service_delete(c, &global(w).await).await }),
        case!("global_service_steer", "uhdaaa", w, c => steer_global(w, c)),
        case!("global_service_instances", "uhaaaa", w, c => async { w.door.app.global_service_instances(c, global_id(w).await).await }),
        case!("global_services_instances", "uhaaaa", w, c => async { let id = global_id(w).await; found(w.door.app.global_services_instances(c, &[id], &PageArgs::default()).await?.contains_key(&id)) }),
        case!("managed_namespace_get", "uhaaaa", w, c => async { w.door.app.managed_namespace_get(c, &managed(w).await).await }),
        case!("managed_namespace_list", "uaaaaa", w, c => w.door.app.managed_namespace_list(c, None, &PageArgs::default())),
        // Only clusters may.
        case!("managed_namespace_list_of_cluster", "uddddd", w, c => w.door.app.managed_namespace_list_of_cluster(c, &PageArgs::default())),
        case!("managed_namespace_create", "uhdaaa", w, c => w.door.app.managed_namespace_create(c, new_managed(w))),
        case!("managed_namespace_update", "uhdaaa", w, c => async { w.door.app.managed_namespace_update(c, &managed(w).await, ManagedNamespaceChange::default()).await }),
        case!("managed_namespace_delete", "uhdaaa", w, c => async { w.door.app.managed_namespace_delete(c, &managed(w).await).await }),
        case!("managed_namespaces_instances", "uhaaaa", w, c => async { let id = managed_id(w).await; found(w.door.app.managed_namespaces_instances(c, &[id], &PageArgs::default()).await?.contains_key(&id)) }),
        case!("managed_namespaces_counts", "uhaaaa", w, c => async { let id = managed_id(w).await; found(w.door.app.managed_namespaces_counts(c, &[id]).await?.contains_key(&id)) }),
        // Of what is hidden, nothing is answered.
        case!("global_services_counts", "uaaaaa", w, c => async { w.door.app.global_services_counts(c, &[global_id(w).await]).await }),
        case!("services_dependencies", "uaaaaa", w, c => w.door.app.services_dependencies(c, &[w.service.id])),
        case!("services_dependents", "uaaaaa", w, c => w.door.app.services_dependents(c, &[w.service.id])),
        case!("services_contexts", "uaaaaa", w, c => w.door.app.services_contexts(c, &[w.service.id])),
        case!("service_deletion", "uhaaaa", w, c => w.door.app.service_deletion(c, &service_id(&w.service), true)),
        case!("service_delete_cascade", "uhdaaa", w, c => async { w.door.app.service_delete_cascade(c, &service_of(w).await).await }),
        case!("context_get", "uhaaaa", w, c => async { w.door.app.context_get(c, &ServiceContextSelector::Id(context(w).await.id)).await }),
        case!("contexts_get", "uhaaaa", w, c => async { let id = context(w).await.id; found(w.door.app.contexts_get(c, vec![id]).await?.contains_key(&id)) }),
        case!("contexts_named", "uhaaaa", w, c => async { w.door.app.contexts_named(c, &[context(w).await.name.into()]).await }),
        case!("context_list", "uaaaaa", w, c => w.door.app.context_list(c, &ServiceContextFilter::default(), &PageArgs::default())),
        case!("context_save", "uhdaaa", w, c => w.door.app.context_save(c, fresh("x").parse().unwrap(), in_project(w))),
        case!("context_delete", "uhdaaa", w, c => async { w.door.app.context_delete(c, context(w).await.id).await }),
        case!("background_job_list", "udddda", w, c => w.door.app.background_job_list(c, &JobFilter::default(), &PageArgs::default())),
        case!("background_job_retry", "udddda", w, c => async { w.door.app.background_job_retry(c, dead_job(w).await).await }),
        case!("background_job_delete", "udddda", w, c => async { w.door.app.background_job_delete(c, dead_job(w).await).await }),
        case!("audit_list", "udddda", w, c => w.door.app.audit_list(c, &PageArgs::default())),
        // It tells of a refusal, whoever was refused.
        case!("audit_refused", "aaaaaa", w, c => async {
            w.door.app.audit_refused(c, "nothing", plural_core::ErrorCode::Forbidden);
            Ok::<_, Error>(())
        }),
        case!("webhook_secret", "udddda", w, c => async { w.door.app.webhook_secret(c).await }),
        // Anybody may try to sign in; with a right password it works for nobody in particular.
        case!("session_create", "aaaaaa", w, c => w.door.app.session_create(c, "root@example.com", "first password".into())),
    ]
}

async fn the_table(database: TestDatabase) {
    let door = Door::new(database).await;
    let world = world(&door).await;
    let mut actors = vec![("nobody", door.nobody())];
    let mut change = BindingsChange::default();
    for name in ["stranger", "reader", "writer", "owner"] {
        let user = door.user(name).await;
        match name {
            "reader" => change.read = Some(vec![subject(&user)]),
            "writer" => change.write = Some(vec![subject(&user)]),
            "owner" => change.admin = Some(vec![subject(&user)]),
            _ => {}
        }
        actors.push((name, door.as_user(&user).await));
    }
    actors.push(("administrator", door.admin.clone()));
    door.app.binding_replace(&door.admin, world.project.id, change).await.unwrap();

    let mut wrong = Vec::new();
    for (name, expected, call) in cases() {
        assert_eq!(expected.len(), actors.len(), "{name}");
        for ((who, ctx), expected) in actors.iter().zip(expected.chars()) {
            // What a case takes away must be there for the next one to ask.
            let mut world = World { door: &door, ..clone(&world) };
            if name.starts_with("user_") || name.starts_with("group_") {
                world.user = door.user(&fresh("u")).await;
                world.group = group(&door).await;
            }
            let got = match call(&world, ctx).await {
                Ok(()) => 'a',
                Err(Error::Unauthenticated) => 'u',
                Err(Error::NotFound { .. }) => 'h',
                Err(Error::Forbidden { .. }) => 'd',
                Err(other) => panic!("{name} by {who}: {}", other.log_text()),
            };
            if got != expected {
                wrong.push(format!("{name} by {who}: expected {expected}, got {got}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Reads the sources: whatever takes a context is a use case.
#[test]
fn every_use_case_is_in_the_table() {
    let known: BTreeSet<&str> = cases().into_iter().map(|(name, ..)| name).collect();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/src");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for start in ["pub async fn ", "pub fn "] {
            for piece in text.split(start).skip(1) {
                let Some((name, rest)) = piece.split_once('(') else { continue };
                if rest.starts_with("&self, ctx: &OpCtx") || rest.starts_with(" &self, ctx: &OpCtx") {
                    found.insert(name.to_owned());
                }
            }
        }
    }
    assert!(found.len() > 40, "{found:?}");
    let missing: Vec<_> = found.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "use cases without a row in the access table: {missing:?}");
    let gone: Vec<_> = known.iter().filter(|name| !found.contains(**name)).collect();
    assert!(gone.is_empty(), "rows of the access table without a use case: {gone:?}");
}

/// A binding on a cluster reaches its services and nothing beside; one on a service only that.
async fn bindings_reach_down_and_never_up_or_sideways(database: TestDatabase) {
    let door = Door::new(database).await;
    let world = world(&door).await;
    let other = door.service(&world.cluster.cluster, &world.repository, "other").await;
    let (ada, bob) = (door.user("ada").await, door.user("bob").await);
    let group = group(&door).await;
    door.app.group_member_create(&door.admin, group.id, bob.id).await.unwrap();
    let on_cluster = BindingsChange { read: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    let target = world.cluster.cluster.id;
    door.app.binding_replace(&door.admin, target, on_cluster).await.unwrap();
    let on_service = BindingsChange {
        write: Some(vec![plural_core::BindingSubject::Group(group.id)]),
        ..BindingsChange::default()
    };
    let target = world.service.id;
    let bound = door.app.binding_replace(&door.admin, target, on_service).await.unwrap();
    assert!(matches!(&bound[0].subject, plural_app::SubjectNoun::Group(found) if found.id == group.id));

    let (ada, bob) = (door.as_user(&ada).await, door.as_user(&bob).await);
    let services = async |ctx: &OpCtx| {
        let page = door.app.service_list(ctx, &ServiceFilter::default(), &PageArgs::default()).await.unwrap();
        page.into_nodes().into_iter().map(|service| service.id).collect::<Vec<_>>()
    };
    assert_eq!(services(&ada).await, [world.service.id, other.id]);
    assert_eq!(services(&bob).await, [world.service.id]);
    assert!(door.app.service_get(&bob, &service_id(&other)).await.is_err());
    assert!(door.app.cluster_get(&bob, &by_id(&world.cluster.cluster)).await.is_err());
    assert!(door.app.cluster_get(&ada, &by_id(&world.cluster.cluster)).await.is_ok());
    assert!(door.app.project_get(&ada, &ProjectSelector::Id(world.project.id)).await.is_err());
    // Lists say the same as single questions.
    for ctx in [&ada, &bob] {
        let clusters =
            door.app.cluster_list(ctx, &ClusterFilter::default(), &PageArgs::default()).await.unwrap();
        for id in [world.cluster.cluster.id] {
            let listed = clusters.edges.iter().any(|edge| edge.node.id == id);
            assert_eq!(listed, door.app.cluster_get(ctx, &ClusterSelector::Id(id)).await.is_ok());
        }
    }
    // Writing one service is not a way to move it onto a repository that one may not read.
    let change = ServiceChange { repository_id: Some(world.repository.id), ..ServiceChange::default() };
    let moved = door.app.service_update(&bob, &service_id(&world.service), change).await;
    assert!(matches!(moved, Err(Error::NotFound { .. })));
}

async fn users_change_themselves_but_not_their_power(database: TestDatabase) {
    let door = Door::new(database).await;
    let ada = door.user("ada").await;
    let me = door.as_user(&ada).await;
    let name = UserChange { name: Some("Ada L".parse().unwrap()), ..UserChange::default() };
    assert!(
        door.app
            .user_update(&me, ada.id, &name, Some(plural_app::NewPassword::new("a long password".into())))
            .await
            .is_ok()
    );
    let power = UserChange { admin: Some(true), ..UserChange::default() };
    assert!(matches!(door.app.user_update(&me, ada.id, &power, None).await, Err(Error::Forbidden { .. })));
    let address = UserChange { email: Some("root2@example.com".parse().unwrap()), ..UserChange::default() };
    assert!(matches!(door.app.user_update(&me, ada.id, &address, None).await, Err(Error::Forbidden { .. })));
    assert!(door.app.user_delete(&me, ada.id).await.is_err());
}

async fn world(door: &Door) -> World<'_> {
    let project = door.project("team").await;
    let cluster = door.app.cluster_create(&door.admin, new_cluster(&project)).await.unwrap();
    let repository = new_repository(&project);
    let repository =
        door.app.repository_create(&door.admin, repository, NewCredentials::default()).await.unwrap();
    let service = door.service(&cluster.cluster, &repository, "web").await;
    let (group, user) = (group(door).await, door.user("target").await);
    World { door, project, cluster, repository, service, group, user }
}

fn clone<'a>(world: &World<'a>) -> World<'a> {
    let CreatedCluster { cluster, deploy_token } = &world.cluster;
    World {
        door: world.door,
        project: world.project.clone(),
        cluster: CreatedCluster { cluster: cluster.clone(), deploy_token: deploy_token.clone() },
        repository: world.repository.clone(),
        service: world.service.clone(),
        group: world.group.clone(),
        user: world.user.clone(),
    }
}

fn fresh(prefix: &str) -> String {
    format!("{prefix}-{}", uuid::Uuid::now_v7().simple())
}

fn new_user() -> NewUser {
    let name = fresh("u");
    NewUser {
        email: format!("{name}@example.com").parse().unwrap(),
        name: name.parse().unwrap(),
        admin: false,
    }
}

fn new_cluster(project: &Project) -> NewCluster {
    NewCluster { project_id: Some(project.id), ..NewCluster::named(fresh("c").parse().unwrap()) }
}

fn new_repository(project: &Project) -> NewRepository {
    let url = format!("https://example.com/{}", fresh("r")).parse().unwrap();
    NewRepository { url, project_id: Some(project.id) }
}

fn helm_url() -> String {
    format!("https://charts.example.com/{}", fresh("h"))
}

async fn helm(w: &World<'_>) -> String {
    let url = helm_url();
    w.door.app.helm_repository_upsert(&w.door.admin, &url, NewHelmAccess::default()).await.unwrap();
    url
}

fn new_global(w: &World<'_>) -> NewGlobalService {
    let template = ServiceTemplate {
        repository_id: Some(w.repository.id),
        git: Some(plural_core::GitRef::new("main", "web", &[]).unwrap()),
        ..ServiceTemplate::default()
    };
    NewGlobalService {
        name: fresh("g").parse().unwrap(),
        project_id: Some(w.project.id),
        spec: GlobalServiceSpec::default(),
        source: GlobalServiceSource::Template(Box::new(template), TemplateSecrets::default()),
    }
}

async fn global_id(w: &World<'_>) -> GlobalServiceId {
    w.door.app.global_service_create(&w.door.admin, new_global(w)).await.unwrap().id
}

async fn global(w: &World<'_>) -> GlobalServiceSelector {
    GlobalServiceSelector::Id(global_id(w).await)
}

fn new_managed(w: &World<'_>) -> NewManagedNamespace {
    NewManagedNamespace {
        name: fresh("n").parse().unwrap(),
        namespace: Some("team".parse().unwrap()),
        description: None,
        project_id: Some(w.project.id),
        spec: ManagedNamespaceSpec::default(),
        service: None,
    }
}

async fn managed_id(w: &World<'_>) -> ManagedNamespaceId {
    w.door.app.managed_namespace_create(&w.door.admin, new_managed(w)).await.unwrap().id
}

async fn managed(w: &World<'_>) -> ManagedNamespaceSelector {
    ManagedNamespaceSelector::Id(managed_id(w).await)
}

async fn steer_global(w: &World<'_>, c: &OpCtx) -> Result<()> {
    match w.door.app.global_service_steer(c, &global(w).await, RolloutAction::Halt).await {
        // Who may is told that there is nothing to halt.
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn in_project(w: &World<'_>) -> ServiceContextChange {
    ServiceContextChange { project_id: Some(w.project.id), ..ServiceContextChange::default() }
}

async fn context(w: &World<'_>) -> ServiceContext {
    w.door.app.context_save(&w.door.admin, fresh("x").parse().unwrap(), in_project(w)).await.unwrap()
}

async fn group(door: &Door) -> Group {
    let new = NewGroup { name: fresh("g").parse().unwrap(), description: None };
    door.app.group_create(&door.admin, &new).await.unwrap()
}

async fn cluster_of(w: &World<'_>) -> ClusterSelector {
    by_id(&w.door.app.cluster_create(&w.door.admin, new_cluster(&w.project)).await.unwrap().cluster)
}

async fn service_of(w: &World<'_>) -> ServiceSelector {
    service_id(&w.door.service(&w.cluster.cluster, &w.repository, &fresh("s")).await)
}

async fn delete_project(w: &World<'_>, c: &OpCtx) -> Result<()> {
    // Refused for what is in it only after access was decided.
    match w.door.app.project_delete(c, w.project.id).await {
        Err(Error::Conflict { .. }) => Ok(()),
        other => other.map(drop),
    }
}

async fn delete_member(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.group_member_create(&w.door.admin, w.group.id, w.user.id).await?;
    w.door.app.group_member_delete(c, w.group.id, w.user.id).await.map(drop)
}

async fn get_token(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let token = w.door.app.token_create(&w.door.admin, Some(w.user.id), None).await?;
    w.door.app.token_get(c, token.token.id).await.map(drop)
}

async fn delete_token(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let token = w.door.app.token_create(&w.door.admin, Some(w.user.id), None).await?;
    w.door.app.token_delete(c, &token.token.id.to_string()).await.map(drop)
}

/// For lists, what is not there counts as hidden.
fn unless_conflict<T>(answer: Result<T>) -> Result<()> {
    match answer {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn ignore_drift(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let normalizer =
        DiffNormalizer { json_pointers: vec!["/spec/replicas".into()], ..DiffNormalizer::default() };
    w.door.app.service_drift_ignore(c, &service_id(&w.service), &normalizer).await.map(drop)
}

fn found(there: bool) -> Result<()> {
    if there { Ok(()) } else { Err(Error::not_found("row")) }
}

async fn list_projects(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.project_list(c, None, &PageArgs::default()).await.map(drop)
}

async fn list_clusters(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let page = w.door.app.cluster_list(c, &ClusterFilter::default(), &PageArgs::default()).await?;
    found(page.edges.iter().any(|edge| edge.node.id == w.cluster.cluster.id))
}

async fn list_repositories(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let page = w.door.app.repository_list(c, None, &PageArgs::default()).await?;
    found(page.edges.iter().any(|edge| edge.node.id == w.repository.id))
}

async fn list_services(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let page = w.door.app.service_list(c, &ServiceFilter::default(), &PageArgs::default()).await?;
    found(page.edges.iter().any(|edge| edge.node.id == w.service.id))
}

async fn list_revisions(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.service_revisions(c, w.service.id, &PageArgs::default()).await.map(drop)
}

async fn update_cluster(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.cluster_update(c, &by_id(&w.cluster.cluster), &ClusterChange::default()).await.map(drop)
}

async fn rotate_token(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let cluster = cluster_of(w).await;
    w.door.app.cluster_token_rotate(c, &cluster).await.map(drop)
}

async fn delete_cluster(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let cluster = cluster_of(w).await;
    w.door.app.cluster_delete(c, &cluster).await.map(drop)
}

async fn detach_cluster(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let cluster = cluster_of(w).await;
    w.door.app.cluster_detach(c, &cluster).await.map(drop)
}

async fn delete_repository(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let new = new_repository(&w.project);
    let repository = w.door.app.repository_create(&w.door.admin, new, NewCredentials::default()).await?;
    w.door.app.repository_delete(c, repository.id).await.map(drop)
}

async fn create_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let new = new_service(&w.repository, &fresh("s"));
    w.door.app.service_create(c, &by_id(&w.cluster.cluster), new).await.map(drop)
}

async fn recorded(w: &World<'_>) -> RecordingId {
    let grant = recording::grant(w.door, &w.cluster).await;
    let (_, writer) = recording::begin(&w.door.app, &grant).await.unwrap();
    writer.id()
}

async fn dead_job(w: &World<'_>) -> JobId {
    let (database, at) = (&w.door.database, w.door.app.now());
    let job =
        NewJob { kind: "nothing", key: fresh("j"), payload: serde_json::Value::Null, after: Duration::ZERO };
    database.jobs_enqueue(&[job], at).await.unwrap();
    let by = JobClaimer { replica: ReplicaId::new(), kinds: &["nothing"], running: &[] };
    let claimed = database.jobs_claim(&by, 1).await.unwrap();
    let end = JobEnd::Dead { error: "of a test".into() };
    assert!(database.job_end(&claimed[0].claim, &end, at).await.unwrap());
    claimed[0].claim.id
}

async fn many_bindings(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let all: [Policy; 3] = [w.project.id.into(), w.cluster.cluster.id.into(), w.service.id.into()];
    let bindings = w.door.app.bindings_list(c, &all).await?;
    let there = all.map(|policy| bindings.contains_key(&policy));
    assert!(there == [true; 3] || there == [false; 3], "{there:?}");
    found(there[0])
}

async fn create_bound_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let new = new_service(&w.repository, &fresh("s"));
    w.door.app.service_create_bound(c, &by_id(&w.cluster.cluster), new, readable(w)).await.map(drop)
}

/// Bindings that let the world's user look.
fn readable(w: &World<'_>) -> BindingsChange {
    BindingsChange { read: Some(vec![subject(&w.user)]), ..BindingsChange::default() }
}

async fn update_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.service_update(c, &service_id(&w.service), ServiceChange::default()).await.map(drop)
}

async fn delete_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let service = service_of(w).await;
    w.door.app.service_delete(c, &service).await.map(drop)
}

async fn detach_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let service = service_of(w).await;
    w.door.app.service_detach(c, &service).await.map(drop)
}

async fn roll_back(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let now = w.door.app.service_get(&w.door.admin, &service_id(&w.service)).await?;
    let (service, until) = (service_id(&w.service), PinUntil::Release);
    w.door.app.service_rollback(c, &service, now.revision_id, until).await.map(drop)
}

async fn release(w: &World<'_>, c: &OpCtx) -> Result<()> {
    roll_back(w, &w.door.admin).await?;
    w.door.app.service_release(c, &service_id(&w.service)).await?;
    Ok(())
}

async fn clone_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    // Others of this table leave it pinned.
    let _ = w.door.app.service_release(&w.door.admin, &service_id(&w.service)).await;
    let (name, configuration) = (fresh("copy").parse().unwrap(), Configuration::default());
    let clone = ServiceClone { name, namespace: None, configuration };
    w.door.app.service_clone(c, &service_id(&w.service), &by_id(&w.cluster.cluster), clone).await.map(drop)
}

fn window() -> NewSyncWindow {
    let rule = WindowRule::new(SyncWindowKind::Allow, "* * * * *", 60, "UTC").unwrap();
    NewSyncWindow { rule, description: None }
}

async fn delete_window(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let on = w.service.id;
    let made = w.door.app.sync_window_create(&w.door.admin, on, window()).await?;
    w.door.app.sync_window_delete(c, on, made.id).await.map(drop)
}

async fn kick_service(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.service_kick(c, &service_id(&w.service)).await.map(drop)
}
