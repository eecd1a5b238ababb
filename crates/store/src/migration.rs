//! The schema, step by step. A shipped step is never edited.

mod m0001_first;
mod m0002_rendering;
mod m0003_component_children;
mod m0004_service_list;
mod m0005_cluster_audit;
mod m0006_charts;
mod m0007_service_life;
mod m0008_global_services;
mod m0009_sync;
mod m0010_dependencies;
mod m0011_replicas;
mod m0012_short_tokens;
mod m0014_contexts;
mod m0015_unused_column;
mod m0016_git_cache;
mod m0017_managed_namespaces;
mod m0019_recordings;
mod m0021_service_metadata;
mod m0022_canary_gates;
mod m0023_promotions;
mod m0025_recordings_of_projects;
mod m0033_agent_upgrades;
mod m0034_secrets;
mod m0035_token_scopes;
mod m0036_deploy_tokens;
mod m0038_repository_webhooks;
mod m0039_resealed_pieces;
mod m0040_chart_projects;
mod m0041_policies;
mod m0042_recording_readers;
mod m0043_sync_configs;
mod m0050_work;
mod m0051_jobs;
mod m0052_instances_index;
mod m0053_no_nul;
mod m0054_cleared_asks;
mod m0055_agent_contracts;
mod m0056_instances_by_cluster;
mod m0057_saved_views;
mod m0058_terminal_errors;
mod m0059_healthy_revisions;
mod m0060_plan_errors;
mod m0061_clients;
mod m0062_window_names;
mod m0063_commit_authors;
mod m0064_audit_chain;
mod m0067_roles;
mod m0068_service_accounts;
mod m0071_identity_providers;
mod m0072_program_logins;
mod m0073_federated_credentials;
mod m0074_second_factors;
mod m0075_passkeys;
mod m0076_invites;
mod m0077_sign_ins;
mod m0078_impersonated;
mod m0079_registration_tokens;
mod m0080_cluster_issuers;
mod m0081_personas;
mod m0082_data_keys;
mod m0086_federated_subjects;
mod m0087_deltas;
mod m0088_audit_filters;
mod m0089_secret_backends;
mod m0090_service_orders;
mod m0091_health_changes;
mod m0092_project_invites;
mod m0093_service_counts;
mod m0094_stacks;
mod m0095_stack_runs;
mod m0096_stack_clock;
mod m0097_service_imports;
mod m0098_stack_policy;
mod m0100_stack_dependencies;
mod m0101_run_actors;
mod m0102_policies_by_noun;
mod m0103_stack_definitions;
mod m0104_custom_stack_runs;
mod m0105_sealed_findings;
mod m0106_scm_connections;
mod m0107_scm_webhooks;
mod m0108_pr_automations;
mod m0109_pull_requests;
mod m0110_pull_request_phases;
mod m0111_changed_as;
mod m0112_pull_request_life;
mod m0113_fleet_plans;
mod m0114_stack_pull_requests;
mod m0115_pr_instances;
mod m0116_pr_governances;
mod m0117_merge_windows;
mod m0118_fleet_previews;
mod m0119_pr_secrets;
mod m0120_context_imports;
mod m0121_pr_instance_parts;
mod m0122_fleet_plan_merges;
mod m0124_pull_request_mergers;
mod m0125_stack_settings;
mod m0126_fleet_plan_bases;
mod m0128_stack_tags;
mod m0129_pr_secret_upgrades;
#[cfg(test)]
mod tests;

use sea_orm_migration::{MigrationTrait, MigratorTrait};

/// All steps in order.
pub(crate) struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_first::Migration),
            Box::new(m0002_rendering::Migration),
            Box::new(m0003_component_children::Migration),
            Box::new(m0004_service_list::Migration),
            Box::new(m0005_cluster_audit::Migration),
            Box::new(m0006_charts::Migration),
            Box::new(m0007_service_life::Migration),
            Box::new(m0008_global_services::Migration),
            Box::new(m0009_sync::Migration),
            Box::new(m0010_dependencies::Migration),
            Box::new(m0011_replicas::Migration),
            Box::new(m0012_short_tokens::Migration),
            Box::new(m0014_contexts::Migration),
            Box::new(m0015_unused_column::Migration),
            Box::new(m0016_git_cache::Migration),
            Box::new(m0017_managed_namespaces::Migration),
            Box::new(m0019_recordings::Migration),
            Box::new(m0021_service_metadata::Migration),
            Box::new(m0022_canary_gates::Migration),
            Box::new(m0023_promotions::Migration),
            Box::new(m0025_recordings_of_projects::Migration),
            Box::new(m0033_agent_upgrades::Migration),
            Box::new(m0034_secrets::Migration),
            Box::new(m0035_token_scopes::Migration),
            Box::new(m0036_deploy_tokens::Migration),
            Box::new(m0038_repository_webhooks::Migration),
            Box::new(m0039_resealed_pieces::Migration),
            Box::new(m0040_chart_projects::Migration),
            Box::new(m0041_policies::Migration),
            Box::new(m0042_recording_readers::Migration),
            Box::new(m0043_sync_configs::Migration),
            Box::new(m0050_work::Migration),
            Box::new(m0051_jobs::Migration),
            Box::new(m0052_instances_index::Migration),
            Box::new(m0053_no_nul::Migration),
            Box::new(m0054_cleared_asks::Migration),
            Box::new(m0055_agent_contracts::Migration),
            Box::new(m0056_instances_by_cluster::Migration),
            Box::new(m0057_saved_views::Migration),
            Box::new(m0058_terminal_errors::Migration),
            Box::new(m0059_healthy_revisions::Migration),
            Box::new(m0060_plan_errors::Migration),
            Box::new(m0061_clients::Migration),
            Box::new(m0062_window_names::Migration),
            Box::new(m0063_commit_authors::Migration),
            Box::new(m0064_audit_chain::Migration),
            Box::new(m0067_roles::Migration),
            Box::new(m0068_service_accounts::Migration),
            Box::new(m0071_identity_providers::Migration),
            Box::new(m0072_program_logins::Migration),
            Box::new(m0073_federated_credentials::Migration),
            Box::new(m0074_second_factors::Migration),
            Box::new(m0075_passkeys::Migration),
            Box::new(m0076_invites::Migration),
            Box::new(m0077_sign_ins::Migration),
            Box::new(m0078_impersonated::Migration),
            Box::new(m0079_registration_tokens::Migration),
            Box::new(m0080_cluster_issuers::Migration),
            Box::new(m0081_personas::Migration),
            Box::new(m0082_data_keys::Migration),
            Box::new(m0086_federated_subjects::Migration),
            Box::new(m0087_deltas::Migration),
            Box::new(m0088_audit_filters::Migration),
            Box::new(m0089_secret_backends::Migration),
            Box::new(m0090_service_orders::Migration),
            Box::new(m0091_health_changes::Migration),
            Box::new(m0092_project_invites::Migration),
            Box::new(m0093_service_counts::Migration),
            Box::new(m0094_stacks::Migration),
            Box::new(m0095_stack_runs::Migration),
            Box::new(m0096_stack_clock::Migration),
            Box::new(m0097_service_imports::Migration),
            Box::new(m0098_stack_policy::Migration),
            Box::new(m0100_stack_dependencies::Migration),
            Box::new(m0101_run_actors::Migration),
            Box::new(m0102_policies_by_noun::Migration),
            Box::new(m0103_stack_definitions::Migration),
            Box::new(m0104_custom_stack_runs::Migration),
            Box::new(m0105_sealed_findings::Migration),
            Box::new(m0106_scm_connections::Migration),
            Box::new(m0107_scm_webhooks::Migration),
            Box::new(m0108_pr_automations::Migration),
            Box::new(m0109_pull_requests::Migration),
            Box::new(m0110_pull_request_phases::Migration),
            Box::new(m0111_changed_as::Migration),
            Box::new(m0112_pull_request_life::Migration),
            Box::new(m0113_fleet_plans::Migration),
            Box::new(m0114_stack_pull_requests::Migration),
            Box::new(m0115_pr_instances::Migration),
            Box::new(m0116_pr_governances::Migration),
            Box::new(m0117_merge_windows::Migration),
            Box::new(m0118_fleet_previews::Migration),
            Box::new(m0119_pr_secrets::Migration),
            Box::new(m0120_context_imports::Migration),
            Box::new(m0121_pr_instance_parts::Migration),
            Box::new(m0122_fleet_plan_merges::Migration),
            Box::new(m0124_pull_request_mergers::Migration),
            Box::new(m0125_stack_settings::Migration),
            Box::new(m0126_fleet_plan_bases::Migration),
            Box::new(m0128_stack_tags::Migration),
            Box::new(m0129_pr_secret_upgrades::Migration),
        ]
    }
}
