//! Every document is GraphQL, is named as it says, and has exactly the variables of its struct.

use std::collections::BTreeSet;

use graphql_parser::query::{Definition, OperationDefinition, Selection, parse_query};
use plural_wire::{
    BackgroundJobState, ChangePassword, ClusterAttributes, ClusterUpdateAttributes, CreateAccessToken,
    CreateCluster, CreateClusterWithToken, CreateGitRepository, CreateGlobalService, CreateJoinToken,
    CreateLastingAccessToken, CreateManagedNamespace, CreateServiceDeployment, CreateShortAccessToken,
    CreateSyncWindow, DeleteAccessToken, DeleteBackgroundJob, DeleteCluster, DeleteGitRepository,
    DeleteGlobalService, DeleteHelmRepository, DeleteManagedNamespace, DeleteServiceCascade,
    DeleteServiceContext, DeleteServiceDeployment, DeleteSyncWindow, DetachCluster, DetachServiceDeployment,
    GetAgentUrl, GetCluster, GetClusterWithToken, GetGitRepository, GetGlobalService, GetManagedNamespace,
    GetProject, GetRecordingPolicy, GetServiceContext, GetServiceDeletion, GetServiceDeployment,
    GetServiceFacts, GetServiceFiles, GetServiceGateUrl, GetServicePreview, GetServiceRendering,
    GitAttributes, GlobalServiceAttributes, HelmRepositoryAttributes, KickService, ListAccessTokens,
    ListBackgroundJobs, ListClusterDeprecations, ListClusters, ListGitRepositories, ListGlobalServices,
    ListHelmRepositories, ListManagedNamespaces, ListServiceContexts, ListServiceDeployments,
    ListServiceFiles, ListSyncWindows, ManagedNamespaceAttributes, Me, Operation, PasswordAttributes,
    RecordingPolicyAttributes, RenewDeployToken, RetryBackgroundJob, RolloutSteering, RotateDeployToken,
    SaveServiceContext, ScopeAttributes, Secret, ServiceContextAttributes, ServiceDeploymentAttributes,
    ServiceUpdateAttributes, SetRecordingPolicy, SignIn, SteerRollout, SyncWindowAttributes, SyncWindowKind,
    UpdateCluster, UpdateGlobalService, UpdateManagedNamespace, UpdateServiceDeployment,
    UpsertHelmRepository,
};
use serde_json::Value;

fn check<O: Operation>(operation: &O) {
    let document = parse_query::<String>(O::DOCUMENT).expect(O::NAME);
    let mut found = 0;
    for definition in &document.definitions {
        let (name, variables, selections) = match definition {
            Definition::Operation(OperationDefinition::Query(it)) => {
                (&it.name, &it.variable_definitions, &it.selection_set)
            }
            Definition::Operation(OperationDefinition::Mutation(it)) => {
                (&it.name, &it.variable_definitions, &it.selection_set)
            }
            Definition::Fragment(_) => continue,
            Definition::Operation(other) => panic!("{}: {other:?}", O::NAME),
        };
        found += 1;
        assert_eq!(name.as_deref(), Some(O::NAME));
        let declared: BTreeSet<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
        let Value::Object(sent) = serde_json::to_value(operation).unwrap() else { panic!("{}", O::NAME) };
        assert_eq!(declared, sent.keys().map(String::as_str).collect(), "{}", O::NAME);
        let [Selection::Field(root)] = selections.items.as_slice() else { panic!("{}", O::NAME) };
        assert_eq!(root.name, O::FIELD);
        assert_eq!(root.arguments.len(), declared.len(), "{}", O::NAME);
    }
    assert_eq!(found, 1, "{}", O::NAME);
}

#[test]
fn every_document_is_what_its_struct_says() {
    let id = || "1".to_owned();
    check(&Me {});
    check(&SignIn { email: id(), password: Secret::new("p") });
    check(&CreateAccessToken {});
    check(&CreateShortAccessToken {
        valid_for_seconds: 1,
        scopes: vec![ScopeAttributes::kubernetes(Some(id())), ScopeAttributes::kubernetes(None)],
    });
    check(&CreateLastingAccessToken {
        valid_for_seconds: None,
        scopes: None,
        current_password: Some(Secret::new("p")),
    });
    check(&ListAccessTokens { after: None, first: 1 });
    check(&ChangePassword {
        attributes: PasswordAttributes { password: Secret::new("p") },
        current_password: Secret::new("p"),
        end_tokens: true,
    });
    check(&DeleteAccessToken { token: Secret::new("t") });
    check(&GetProject { id: None, name: None });
    check(&GetRecordingPolicy { id: id() });
    let attributes = RecordingPolicyAttributes {
        record: true,
        input: false,
        keep_days: None,
        limit_megabytes: None,
        user_readers: vec![id()],
        group_readers: Vec::new(),
    };
    check(&SetRecordingPolicy { project_id: id(), attributes });
    check(&ListClusters { after: None, first: 1, project_id: None, tag_query: None });
    check(&GetCluster { id: None, handle: None });
    check(&GetClusterWithToken { id: None, handle: None });
    check(&GetAgentUrl { id: id() });
    check(&CreateCluster { attributes: ClusterAttributes::default() });
    check(&CreateClusterWithToken { attributes: ClusterAttributes::default() });
    check(&UpdateCluster { id: String::new(), attributes: ClusterUpdateAttributes::default() });
    check(&RotateDeployToken { id: id() });
    check(&RenewDeployToken { id: id() });
    check(&CreateJoinToken { id: id(), valid_for_seconds: Some(60) });
    check(&DeleteCluster { id: id() });
    check(&DetachCluster { id: id() });
    check(&ListGlobalServices { after: None, first: 1 });
    check(&GetGlobalService { id: None, name: None });
    let attributes = || GlobalServiceAttributes(serde_json::Map::new());
    check(&CreateGlobalService { service_id: None, attributes: attributes() });
    check(&UpdateGlobalService { id: id(), attributes: attributes() });
    check(&DeleteGlobalService { id: id() });
    check(&ListManagedNamespaces { after: None, first: 1 });
    check(&GetManagedNamespace { id: None, name: None });
    let attributes = || ManagedNamespaceAttributes(serde_json::Map::new());
    check(&CreateManagedNamespace { attributes: attributes() });
    check(&UpdateManagedNamespace { id: id(), attributes: attributes() });
    check(&DeleteManagedNamespace { id: id() });
    check(&SteerRollout { id: id(), action: RolloutSteering::Halt });
    check(&ListGitRepositories { after: None, first: 1 });
    check(&GetGitRepository { id: None, url: None });
    check(&CreateGitRepository { attributes: GitAttributes::default() });
    check(&DeleteGitRepository { id: id() });
    let state = Some(BackgroundJobState::Dead);
    check(&ListBackgroundJobs { state, kind: None, after: None, first: 1 });
    check(&RetryBackgroundJob { id: id() });
    check(&DeleteBackgroundJob { id: id() });
    check(&ListHelmRepositories { after: None, first: 1 });
    check(&UpsertHelmRepository { url: id(), attributes: HelmRepositoryAttributes::default() });
    check(&DeleteHelmRepository { url: id() });
    check(&ListSyncWindows { project_id: None, cluster_id: None, service_id: None });
    check(&CreateSyncWindow {
        project_id: None,
        cluster_id: None,
        service_id: None,
        attributes: SyncWindowAttributes {
            kind: SyncWindowKind::Deny,
            schedule: id(),
            duration: 60,
            time_zone: None,
            description: None,
        },
    });
    check(&DeleteSyncWindow { id: id(), project_id: None, cluster_id: None, service_id: None });
    check(&ListServiceDeployments { after: None, first: 1, cluster_id: None, cluster: None });
    check(&GetServiceDeployment { id: None, cluster: None, name: None });
    check(&GetServiceRendering { id: id() });
    check(&GetServicePreview { id: None, cluster: None, name: None });
    check(&CreateServiceDeployment {
        cluster_id: None,
        cluster: None,
        attributes: ServiceDeploymentAttributes {
            name: id(),
            namespace: id(),
            repository_id: None,
            git: None,
            configuration: None,
            dry_run: None,
            protect: None,
            templated: None,
            rendering: plural_wire::RenderingAttributes::default(),
            links: plural_wire::LinksAttributes::default(),
            sync_config: None,
        },
    });
    check(&UpdateServiceDeployment {
        id: None,
        cluster: None,
        name: None,
        attributes: ServiceUpdateAttributes::default(),
    });
    check(&KickService { service_id: None, cluster: None, name: None });
    check(&GetServiceFacts { id: id() });
    check(&ListClusterDeprecations { id: id() });
    check(&ListServiceFiles { id: id() });
    check(&GetServiceFiles { id: id(), path: id() });
    check(&GetServiceGateUrl { id: id() });
    check(&GetServiceDeletion { id: id(), cascade: true });
    check(&DeleteServiceCascade { id: id(), cascade: true });
    check(&DeleteServiceContext { id: id() });
    check(&GetServiceContext { name: id() });
    check(&ListServiceContexts { after: None, first: 1 });
    check(&SaveServiceContext { name: id(), attributes: ServiceContextAttributes::default() });
    check(&DeleteServiceDeployment { id: id() });
    check(&DetachServiceDeployment { id: id() });
}
