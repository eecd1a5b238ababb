//! Questions about access: who may ask what; and what is answered is what happens.

use plural_app::OpCtx;
use plural_app::question::{AccessAnswer, Question};
use plural_core::question::Thing;
use plural_core::{Error, Result};

use super::{
    Case, World, global_service, machine_account, managed_namespace, role, saved_view, service_context,
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("access_check", "uaaaaa", w, c => ask(w, c, "delete cluster/{cluster}")),
        case!("access_holders", "uhddaa", w, c => async { w.door.app.access_holders(c, &question(w, "delete cluster/{cluster}").await).await }),
    ]
}

/// A question as people type it, about the things of a world: `VERB THING [THING]`.
pub(super) async fn question(w: &World<'_>, text: &str) -> Question {
    let mut text = text.to_owned();
    for (word, id) in [
        ("{project}", w.project.id.to_string()),
        ("{cluster}", w.cluster.cluster.id.to_string()),
        ("{service}", w.service.id.to_string()),
        ("{repository}", w.repository.id.to_string()),
        ("{user}", w.user.id.to_string()),
        ("{group}", w.group.id.to_string()),
    ] {
        text = text.replace(word, &id);
    }
    if text.contains("{global}") {
        text = text.replace("{global}", &global_service::global_id(w).await.to_string());
    }
    if text.contains("{managed}") {
        text = text.replace("{managed}", &managed_namespace::managed_id(w).await.to_string());
    }
    if text.contains("{context}") {
        text = text.replace("{context}", &service_context::context(w).await.id.to_string());
    }
    if text.contains("{view}") {
        text = text.replace("{view}", &saved_view::view(w).await.id.to_string());
    }
    if text.contains("{machine}") {
        text = text.replace("{machine}", &machine_account::machine(w).await.to_string());
    }
    if text.contains("{role}") {
        text = text.replace("{role}", &role::role(w).await.to_string());
    }
    let words: Vec<&str> = text.split(' ').collect();
    let thing = |text: &str| text.parse::<Thing>().unwrap();
    Question {
        verb: words[0].to_owned(),
        thing: thing(words[1]),
        within: words.get(2).map(|text| thing(text)),
        user: None,
    }
}

pub(super) async fn ask(w: &World<'_>, c: &OpCtx, text: &str) -> Result<AccessAnswer> {
    w.door.app.access_check(c, &question(w, text).await).await
}

/// What the table would say of an answer.
pub(super) fn letter(answer: &Result<AccessAnswer>) -> char {
    match answer {
        Ok(answer) if answer.allowed => 'a',
        Ok(answer) if answer.reason.starts_with("there is no such") => 'h',
        Ok(_) => 'd',
        Err(Error::Unauthenticated) => 'u',
        Err(other) => panic!("{}", other.log_text()),
    }
}

/// The question that each case of the table answers, in the order of the cases of one name.
pub(super) const QUESTIONS: &[(&str, &[&str])] = &[
    ("get::<BackgroundJob>", &["get jobs"]),
    ("list::<BackgroundJob>", &["list jobs"]),
    ("background_job_retry", &["retry jobs"]),
    ("background_job_delete", &["delete jobs"]),
    ("binding_list", &["get cluster/{cluster}"]),
    ("binding_replace", &["bind service/{service}"]),
    ("binding_change", &["admin service/{service}"]),
    ("get::<Cluster>", &["get cluster/{cluster}"]),
    ("get_many::<Cluster>", &["read cluster/{cluster}"]),
    ("clusters_presence", &["get cluster/{cluster}"]),
    ("cluster_create", &["create clusters project/{project}", "bind clusters project/{project}"]),
    ("cluster_update", &["update cluster/{cluster}", "bind cluster/{cluster}"]),
    ("cluster_token_rotate", &["rotate-token cluster/{cluster}"]),
    ("cluster_token_renew", &["rotate-token cluster/{cluster}"]),
    ("cluster_join_token", &["rotate-token cluster/{cluster}"]),
    ("cluster_delete", &["delete cluster/{cluster}"]),
    ("cluster_detach", &["detach cluster/{cluster}"]),
    ("cluster_deprecations", &["get cluster/{cluster}"]),
    ("cluster_audit_list", &["audit cluster/{cluster}"]),
    ("get::<GlobalService>", &["get global-service/{global}"]),
    ("global_service_create", &["create global-services project/{project}"]),
    ("global_service_update", &["update global-service/{global}"]),
    ("global_service_delete", &["delete global-service/{global}"]),
    ("global_service_steer", &["steer global-service/{global}"]),
    ("global_service_instances", &["get global-service/{global}"]),
    ("get::<Group>", &["get group/{group}"]),
    ("list::<Group>", &["list groups"]),
    ("group_members", &["get group/{group}"]),
    ("group_create", &["create groups"]),
    ("group_update", &["update group/{group}"]),
    ("group_delete", &["delete group/{group}"]),
    ("group_member_create", &["update group/{group}"]),
    ("group_member_delete", &["update group/{group}"]),
    ("helm_repository_get", &["get helm-repositories"]),
    ("helm_repository_list", &["list helm-repositories"]),
    ("helm_repository_upsert", &["create helm-repositories"]),
    ("helm_repository_delete", &["delete helm-repositories"]),
    ("audit_list", &["list audit-log"]),
    ("audit_find", &["list audit-log"]),
    ("audit_verify", &["verify audit-log"]),
    ("audit_export", &["export audit-log"]),
    ("audit_public_key", &["get audit-log"]),
    ("audit_checkpoint_list", &["get audit-log"]),
    ("webhook_secret", &["read audit-log"]),
    ("get::<IdentityProvider>", &["get providers"]),
    ("list::<IdentityProvider>", &["list providers"]),
    ("get_many::<IdentityProvider>", &["list providers"]),
    ("identity_provider_create", &["create providers"]),
    ("identity_provider_update", &["update providers"]),
    ("identity_provider_delete", &["delete providers"]),
    ("get::<MachineAccount>", &["get service-account/{machine}"]),
    ("list::<MachineAccount>", &["list service-accounts"]),
    ("machine_account_create", &["create service-accounts project/{project}"]),
    ("machine_account_update", &["update service-account/{machine}"]),
    ("machine_account_delete", &["delete service-account/{machine}"]),
    ("machine_account_token", &["assume service-account/{machine}"]),
    ("machine_account_end_tokens", &["end-tokens service-account/{machine}"]),
    ("federated_credentials", &["get service-account/{machine}"]),
    ("federated_credential", &["get service-account/{machine}"]),
    ("federated_credential_create", &["federate service-account/{machine}"]),
    ("federated_credential_update", &["federate service-account/{machine}"]),
    ("federated_credential_delete", &["federate service-account/{machine}"]),
    ("get::<ManagedNamespace>", &["get managed-namespace/{managed}"]),
    ("managed_namespace_create", &["create managed-namespaces project/{project}"]),
    ("managed_namespace_update", &["update managed-namespace/{managed}"]),
    ("managed_namespace_delete", &["delete managed-namespace/{managed}"]),
    ("get::<Project>", &["get project/{project}"]),
    ("list::<Project>", &["list projects"]),
    ("project_create", &["create projects", "create projects"]),
    ("project_update", &["update project/{project}", "bind project/{project}"]),
    ("project_delete", &["delete project/{project}"]),
    ("project_limits_set", &["limit project/{project}"]),
    ("recording_policy_get", &["get project/{project}"]),
    ("recording_policy_set", &["record project/{project}"]),
    ("recording_list", &["recordings cluster/{cluster}", "recordings project/{project}"]),
    ("get::<Repository>", &["get repository/{repository}"]),
    ("repository_create", &["create repositories project/{project}"]),
    ("repository_update", &["update repository/{repository}"]),
    ("repository_webhook_secret", &["update repository/{repository}"]),
    ("repository_webhook_rotate", &["update repository/{repository}"]),
    ("repository_delete", &["delete repository/{repository}"]),
    ("repository_kick", &["refresh repository/{repository}"]),
    ("get::<CustomRole>", &["get role/{role}"]),
    ("list::<CustomRole>", &["list roles"]),
    ("role_create", &["create roles"]),
    ("role_update", &["update role/{role}"]),
    ("role_delete", &["delete role/{role}"]),
    ("get::<SavedView>", &["get saved-view/{view}"]),
    ("list::<SavedView>", &["list saved-views"]),
    ("saved_view_create", &["create saved-views"]),
    ("saved_view_update", &["update saved-view/{view}"]),
    ("saved_view_delete", &["delete saved-view/{view}"]),
    ("get::<Service>", &["get service/{service}"]),
    ("get_many::<Service>", &["get services cluster/{cluster}"]),
    ("service_files", &["read-secrets service/{service}"]),
    ("service_archive", &["read-secrets service/{service}"]),
    ("canary_gate_path", &["write service/{service}"]),
    ("service_create", &["create services cluster/{cluster}", "bind services cluster/{cluster}"]),
    ("service_update", &["update service/{service}", "grant service/{service}"]),
    ("service_delete", &["delete service/{service}"]),
    ("service_detach", &["detach service/{service}"]),
    ("service_kick", &["refresh service/{service}"]),
    ("service_preview", &["preview service/{service}"]),
    ("service_rollback", &["rollback service/{service}"]),
    ("service_release", &["release service/{service}"]),
    ("service_pause", &["pause service/{service}"]),
    ("service_resume", &["resume service/{service}"]),
    ("service_clone", &["clone service/{service}"]),
    ("service_events", &["get service/{service}"]),
    ("service_sync", &["sync service/{service}"]),
    ("service_promote", &["promote service/{service}"]),
    ("service_plan_request", &["plan service/{service}"]),
    ("service_prune_approve", &["approve-prune service/{service}"]),
    ("service_drift_ignore", &["update service/{service}"]),
    ("service_plan", &["get service/{service}"]),
    ("service_plans", &["get service/{service}"]),
    ("service_drift", &["get service/{service}"]),
    ("service_components", &["get service/{service}"]),
    ("service_errors", &["get service/{service}"]),
    ("service_revisions", &["get service/{service}"]),
    ("service_revision", &["get service/{service}"]),
    ("service_configuration", &["read-secrets service/{service}"]),
    ("service_values", &["read-secrets service/{service}"]),
    ("service_deletion", &["get service/{service}"]),
    ("service_delete_cascade", &["delete service/{service}"]),
    ("get::<ServiceContext>", &["get context/{context}"]),
    ("list::<ServiceContext>", &["list contexts"]),
    ("context_save", &["create contexts project/{project}"]),
    ("context_delete", &["delete context/{context}"]),
    ("sync_window_list", &["get service/{service}"]),
    ("sync_window_create", &["schedule service/{service}"]),
    ("sync_window_update", &["schedule service/{service}"]),
    ("sync_window_delete", &["schedule service/{service}"]),
    ("get::<User>", &["get user/{user}"]),
    ("list::<User>", &["list users"]),
    ("user_groups", &["get user/{user}"]),
    ("user_create", &["create users"]),
    ("user_update", &["update user/{user}"]),
    ("user_delete", &["delete user/{user}"]),
    ("invite_create", &["create users"]),
    ("password_reset_create", &["admin user/{user}"]),
    ("second_factor_is_on", &["update user/{user}"]),
    ("second_factor_reset", &["admin user/{user}"]),
    ("user_suspend", &["suspend user/{user}"]),
    ("user_resume", &["resume user/{user}"]),
    ("token_create", &["update user/{user}"]),
    ("token_create_as", &["update user/{user}"]),
    ("token_list_of", &["update user/{user}"]),
];

/// What has no question of its own: it is about many things at once, of which what may be seen is answered; about no thing, such
/// as signing in; or about tokens, which are their owner's alone.
pub(super) const UNASKED: &[&str] = &[
    "access_check",
    "access_holders",
    "audit_refused",
    "bindings_list",
    "confirmation_create",
    "contexts_named",
    "federated_exchange",
    "get_many::<BackgroundJob>",
    "get_many::<CustomRole>",
    "get_many::<GlobalService>",
    "get_many::<Group>",
    "get_many::<MachineAccount>",
    "get_many::<Invite>",
    "get_many::<ManagedNamespace>",
    "get_many::<Project>",
    "get_many::<Repository>",
    "get_many::<SavedView>",
    "get_many::<ServiceContext>",
    "get_many::<User>",
    "global_services_counts",
    "global_services_instances",
    "get::<Invite>",
    "groups_members",
    "invite_accept",
    "invite_accept_passkey",
    "invite_delete",
    "invite_look",
    "invite_passkey_begin",
    "list::<Cluster>",
    "list::<GlobalService>",
    "list::<Invite>",
    "list::<ManagedNamespace>",
    "list::<Repository>",
    "list::<Service>",
    "managed_namespace_list_of_cluster",
    "managed_namespaces_counts",
    "managed_namespaces_instances",
    "passkey_add_begin",
    "passkey_add_finish",
    "passkey_delete",
    "passkey_rename",
    "passkey_sign_in_begin",
    "passkey_sign_in_finish",
    "passkeys",
    "program_login_allow",
    "program_login_begin",
    "program_login_fetch",
    "program_login_look",
    "program_login_refuse",
    "proven",
    "recorded_projects_get",
    "recording_read",
    "revisions_plans",
    "second_factor_begin",
    "second_factor_confirm",
    "second_factor_end",
    "service_agent_upgrade",
    "services_components",
    "services_configuration_names",
    "services_configurations",
    "services_contexts",
    "services_dependencies",
    "services_dependents",
    "services_deprecations",
    "services_errors",
    "services_metadata",
    "services_reasons",
    "services_revisions",
    "services_syncs",
    "session_create",
    "session_create_with",
    "session_end",
    "sign_in_begin",
    "sign_in_finish",
    "sync_window_list_all",
    "token_delete",
    "token_get",
    "token_list",
    "user_me",
    "users_groups",
];
