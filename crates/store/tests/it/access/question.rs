//! Questions about access: who may ask what; and what is answered is what happens.

use plural_app::OpCtx;
use plural_app::question::{AccessAnswer, Question};
use plural_core::question::Thing;
use plural_core::{Error, Result};

use super::{
    Case, World, global_service, invite, machine_account, managed_namespace, registration_token, role,
    saved_view, service_context, stack,
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
    if text.contains("{stack}") {
        text = text.replace("{stack}", &stack::stack(w).await.id.to_string());
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
    if text.contains("{invite}") {
        text = text.replace("{invite}", &invite::made(w).await.invite.id.to_string());
    }
    if text.contains("{project-invite}") {
        text = text.replace("{project-invite}", &invite::to_project(w).await.invite.id.to_string());
    }
    if text.contains("{registration}") {
        text = text.replace("{registration}", &registration_token::token(w).await.to_string());
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
    ("get::<RegistrationToken>", &["get registration-token/{registration}"]),
    ("list::<RegistrationToken>", &["list registration-tokens"]),
    ("registration_token_create", &["create registration-tokens project/{project}"]),
    ("registration_token_delete", &["revoke registration-token/{registration}"]),
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
    ("project_keys", &["list data-keys project/{project}"]),
    ("project_keys_rotate", &["rotate data-keys project/{project}"]),
    ("installation_keys", &["list data-keys"]),
    ("installation_keys_rotate", &["rotate data-keys"]),
    ("get::<Persona>", &["get personas"]),
    ("list::<Persona>", &["list personas"]),
    ("persona_create", &["create personas"]),
    ("persona_update", &["update personas"]),
    ("persona_delete", &["delete personas"]),
    ("secret_holdings", &["list-secrets project/{project}"]),
    ("secret_storage", &["list-secrets project/{project}"]),
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
    ("service_seed_rotate", &["update service/{service}"]),
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
    ("get::<Stack>", &["get stack/{stack}"]),
    ("list::<Stack>", &["list stacks"]),
    ("stack_create", &["create stacks project/{project}"]),
    ("stack_update", &["update stack/{stack}"]),
    ("stack_delete", &["delete stack/{stack}"]),
    ("stack_state_versions", &["get stack/{stack}"]),
    ("stack_state_listed", &["get stack/{stack}"]),
    ("stack_state_diff", &["get stack/{stack}"]),
    ("stack_state_head", &["state-read stack/{stack}"]),
    ("stack_state_read", &["state-read stack/{stack}"]),
    ("stack_state_may_write", &["state-write stack/{stack}"]),
    ("stack_state_write", &["state-write stack/{stack}"]),
    ("stack_state_restore", &["state-write stack/{stack}"]),
    ("stack_state_lock", &["state-write stack/{stack}"]),
    ("stack_state_unlock", &["state-write stack/{stack}"]),
    ("stack_state_force_unlock", &["state-write stack/{stack}"]),
    ("sync_window_list", &["list sync-windows service/{service}"]),
    ("sync_window_list_all", &["list sync-windows"]),
    ("sync_window_create", &["create sync-windows service/{service}"]),
    ("sync_window_update", &["update sync-windows service/{service}"]),
    ("sync_window_delete", &["delete sync-windows service/{service}"]),
    ("get::<User>", &["get user/{user}"]),
    ("list::<User>", &["list users"]),
    ("user_groups", &["get user/{user}"]),
    ("user_create", &["create users"]),
    ("user_update", &["update user/{user}"]),
    ("user_delete", &["delete user/{user}"]),
    ("get::<Invite>", &["get invitation/{invite}", "get invitation/{project-invite}"]),
    ("invite_create", &["create invitations"]),
    ("project_invite_create", &["create invitations project/{project}"]),
    ("invite_delete", &["revoke invitation/{invite}", "revoke invitation/{project-invite}"]),
    ("password_reset_create", &["admin user/{user}"]),
    ("second_factor_is_on", &["update user/{user}"]),
    ("second_factor_reset", &["admin user/{user}"]),
    ("user_identities", &["update user/{user}"]),
    ("user_identity_delete", &["admin user/{user}"]),
    ("user_suspend", &["suspend user/{user}"]),
    ("user_resume", &["resume user/{user}"]),
    ("token_create", &["update user/{user}"]),
    ("token_create_as", &["update user/{user}"]),
    ("token_list_of", &["update user/{user}"]),
];

/// What has no question of its own: it is about many things at once, of which what may be seen is answered; about no thing, such
/// as signing in; about keys of the installation, which are its administrators'; about tokens, which are their owner's alone; or about
/// personas, which decide nothing.
pub(super) const UNASKED: &[&str] = &[
    "access_check",
    "access_holders",
    "audit_refused",
    "bindings_list",
    "cluster_distros",
    "cluster_projects",
    "cluster_states",
    "cluster_tags",
    "cluster_versions",
    "confirmation_create",
    "contexts_named",
    "deltas_subscribe",
    "deltas_take",
    "federated_exchange",
    "get_many::<BackgroundJob>",
    "get_many::<CustomRole>",
    "get_many::<GlobalService>",
    "get_many::<Group>",
    "get_many::<MachineAccount>",
    "get_many::<Invite>",
    "get_many::<ManagedNamespace>",
    "get_many::<Persona>",
    "get_many::<Project>",
    "get_many::<RegistrationToken>",
    "get_many::<Repository>",
    "get_many::<SavedView>",
    "get_many::<ServiceContext>",
    "get_many::<Stack>",
    "get_many::<User>",
    "global_services_counts",
    "global_services_instances",
    "groups_members",
    "health_change_list",
    "invite_accept",
    "invite_accept_passkey",
    "invite_accept_signed_in",
    "invite_look",
    "invite_passkey_begin",
    "list::<Cluster>",
    "list::<GlobalService>",
    "list::<Invite>",
    "list::<ManagedNamespace>",
    "list::<Repository>",
    "list::<Service>",
    "list_sorted<N: Sortable>",
    "service_clusters",
    "service_projects",
    "service_statuses",
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
    "personas_own",
    "program_login_allow",
    "program_login_begin",
    "program_login_fetch",
    "program_login_look",
    "program_login_redeem",
    "project_make_default",
    "secrets_move",
    "program_login_refuse",
    "sign_in_link_redeem",
    "proven",
    "recorded_projects_get",
    "recording_read",
    "revision_list",
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
    "services_health_changes",
    "services_metadata",
    "services_reasons",
    "services_revisions",
    "services_syncs",
    "session_create",
    "session_create_with",
    "session_end",
    "sign_in_begin",
    "sign_in_finish",
    "token_delete",
    "token_get",
    "token_list",
    "user_me",
    "users_groups",
];
