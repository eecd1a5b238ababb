//! All that use cases need of a database: one method per transaction. Each part stands beside the use cases that need it.
//!
//! Every method that changes desired state, people or access takes an [`Audited`](crate::access::Audited) handle and writes
//! its audit line in the same transaction; times of such writes are the line's. What the console's own jobs
//! and agents record about the world (fetches, reports, pings) takes none: it is not somebody's wish.

use plural_core::cluster::Cluster;
use plural_core::custom_stack_run::CustomStackRun;
use plural_core::fleet_plan::FleetPlan;
use plural_core::global_service::GlobalService;
use plural_core::group::Group;
use plural_core::identity_provider::IdentityProvider;
use plural_core::invite::Invite;
use plural_core::job::BackgroundJob;
use plural_core::machine_account::MachineAccount;
use plural_core::managed_namespace::ManagedNamespace;
use plural_core::persona::Persona;
use plural_core::pr_automation::PrAutomation;
use plural_core::pr_governance::PrGovernance;
use plural_core::pr_instance::PrInstance;
use plural_core::pr_secret::PrSecret;
use plural_core::project::Project;
use plural_core::pull_request::PullRequest;
use plural_core::registration_token::RegistrationToken;
use plural_core::repository::Repository;
use plural_core::role::CustomRole;
use plural_core::saved_view::SavedView;
use plural_core::scm_connection::ScmConnection;
use plural_core::scm_webhook::ScmWebhook;
use plural_core::service::Service;
use plural_core::service_context::ServiceContext;
use plural_core::stack::Stack;
use plural_core::stack_definition::StackDefinition;
use plural_core::user::User;

use crate::api_deprecation::ApiDeprecationStore;
use crate::audit::AuditStore;
use crate::audit_chain::AuditChainStore;
use crate::canary_gate::CanaryGateStore;
use crate::cluster::ClusterStore;
use crate::cluster_facet::ClusterFacetStore;
use crate::confirmation::ConfirmationStore;
use crate::custom_stack_run::CustomStackRunStore;
use crate::data_key::DataKeyStore;
use crate::delta::DeltaStore;
use crate::dependency::DependencyStore;
use crate::deploy_token::DeployTokenStore;
use crate::federated_credential::FederatedCredentialStore;
use crate::fleet_plan::FleetPlanStore;
use crate::global_service::{GlobalServiceStore, InstanceStore};
use crate::group::GroupStore;
use crate::health_change::HealthChangeStore;
use crate::helm_repository::HelmRepositoryStore;
use crate::identity::IdentityStore;
use crate::identity_provider::IdentityProviderStore;
use crate::instance::InstanceListStore;
use crate::invite::InviteStore;
use crate::job::JobStore;
use crate::machine_account::MachineAccountStore;
use crate::managed_namespace::ManagedNamespaceStore;
use crate::many::ManyStore;
use crate::mirror::MirrorStore;
use crate::passkey::PasskeyStore;
use crate::persona::PersonaStore;
use crate::policy::PolicyStore;
use crate::ports::agents::AgentStore;
use crate::pr_automation::PrAutomationStore;
use crate::pr_governance::PrGovernanceStore;
use crate::pr_instance::PrInstanceStore;
use crate::pr_secret::PrSecretStore;
use crate::program_login::ProgramLoginStore;
use crate::project::ProjectStore;
use crate::project_stack_rules::ProjectStackRulesStore;
use crate::proxy::ProxyStore;
use crate::pull_request::PullRequestStore;
use crate::pull_request_life::PullRequestLifeStore;
use crate::pull_request_merge::PullRequestMergeStore;
use crate::recording::RecordingStore;
use crate::records::{Records, SortedRecords};
use crate::registration_token::RegistrationTokenStore;
use crate::replica::ReplicaStore;
use crate::repository::RepositoryStore;
use crate::repository_webhook::RepositoryWebhookStore;
use crate::revision::RevisionStore;
use crate::role::RoleStore;
use crate::saved_view::SavedViewStore;
use crate::scm_connection::ScmConnectionStore;
use crate::scm_webhook::ScmWebhookStore;
use crate::seal::SealStore;
use crate::second_factor::SecondFactorStore;
use crate::secret_backend::SecretBackendStore;
use crate::service::ServiceStore;
use crate::service_context::ServiceContextStore;
use crate::service_facet::ServiceFacetStore;
use crate::service_import::ServiceImportStore;
use crate::service_life::ServiceLifeStore;
use crate::service_metadata::ServiceMetadataStore;
use crate::service_status::ServiceStatusStore;
use crate::source::SourceStore;
use crate::stack::StackStore;
use crate::stack_clock::StackClockStore;
use crate::stack_definition::StackDefinitionStore;
use crate::stack_drift::StackDriftStore;
use crate::stack_pull_request::StackPullRequestStore;
use crate::stack_run::StackRunStore;
use crate::stack_settings::StackSettingsStore;
use crate::stack_state::StackStateStore;
use crate::sync::SyncStore;
use crate::sync_window::SyncWindowStore;
use crate::throttle::LoginStore;
use crate::token::TokenStore;
use crate::user::UserStore;
use crate::user_identity::UserIdentityStore;

/// Joins the parts of a store into one trait, which every type that has all parts implements. The nouns of `records` are read
/// by [`Records`], those of `sorted` in several orders; a noun's own part has what changes it.
macro_rules! stores {
    (records: $($noun:ident),+; sorted: $($sorted:ident),+; $($part:ident),+ $(,)?) => {
        /// All of a store.
        pub trait Store: $(Records<$noun> +)+ $(SortedRecords<$sorted> +)+ $($part +)+ {}

        impl<T> Store for T where T: $(Records<$noun> +)+ $(SortedRecords<$sorted> +)+ $($part +)+ {}
    };
}

stores! {
    records: BackgroundJob, Cluster, CustomRole, CustomStackRun, FleetPlan, GlobalService, Group, IdentityProvider, Invite, MachineAccount, ManagedNamespace, Persona, PrAutomation, PrGovernance, PrInstance, PrSecret, Project, PullRequest, RegistrationToken, Repository, SavedView, ScmConnection, ScmWebhook, Service, ServiceContext, Stack, StackDefinition, User;
    sorted: Cluster, Service;
    ProjectStore,
    ProjectStackRulesStore,
    StackSettingsStore,
    UserStore,
    GroupStore,
    IdentityProviderStore,
    IdentityStore,
    UserIdentityStore,
    ProgramLoginStore,
    PasskeyStore,
    ConfirmationStore,
    CustomStackRunStore,
    InviteStore,
    PersonaStore,
    PolicyStore,
    PrAutomationStore,
    PrGovernanceStore,
    PrInstanceStore,
    PrSecretStore,
    PullRequestStore,
    PullRequestLifeStore,
    PullRequestMergeStore,
    TokenStore,
    ClusterStore,
    ClusterFacetStore,
    DeployTokenStore,
    RepositoryStore,
    RepositoryWebhookStore,
    MirrorStore,
    HelmRepositoryStore,
    ServiceStore,
    ServiceLifeStore,
    SyncWindowStore,
    SyncStore,
    GlobalServiceStore,
    InstanceStore,
    MachineAccountStore,
    ManagedNamespaceStore,
    InstanceListStore,
    DataKeyStore,
    DeltaStore,
    DependencyStore,
    FederatedCredentialStore,
    FleetPlanStore,
    HealthChangeStore,
    ServiceContextStore,
    ServiceFacetStore,
    ServiceImportStore,
    ServiceMetadataStore,
    ServiceStatusStore,
    ApiDeprecationStore,
    CanaryGateStore,
    SourceStore,
    StackStore,
    StackClockStore,
    StackDefinitionStore,
    StackDriftStore,
    StackPullRequestStore,
    StackRunStore,
    StackStateStore,
    AuditStore,
    AuditChainStore,
    AgentStore,
    ManyStore,
    ProxyStore,
    RecordingStore,
    RegistrationTokenStore,
    RevisionStore,
    RoleStore,
    SavedViewStore,
    ScmConnectionStore,
    ScmWebhookStore,
    SealStore,
    SecondFactorStore,
    SecretBackendStore,
    ReplicaStore,
    LoginStore,
    JobStore,
}
