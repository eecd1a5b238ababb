//! Documents of existing clients, and our own client's, are served.

use std::collections::{BTreeMap, BTreeSet};

use graphql_parser::query::{Definition, OperationDefinition, Selection, SelectionSet, parse_query};
use graphql_parser::schema::{Definition as SchemaDefinition, TypeDefinition, parse_schema};
use plural_wire::{
    ApproveServicePrune, ChangePassword, CloneService, CreateAccessToken, CreateCluster,
    CreateClusterWithToken, CreateGitRepository, CreateGlobalService, CreateJoinToken,
    CreateLastingAccessToken, CreateManagedNamespace, CreateServiceDeployment, CreateShortAccessToken,
    DeleteAccessToken, DeleteBackgroundJob, DeleteCluster, DeleteGitRepository, DeleteGlobalService,
    DeleteManagedNamespace, DeleteServiceCascade, DeleteServiceContext, DeleteServiceDeployment,
    DetachCluster, DetachServiceDeployment, GetAgentUrl, GetCluster, GetClusterWithToken, GetGitRepository,
    GetGlobalService, GetManagedNamespace, GetProject, GetRecordingPolicy, GetServiceContext,
    GetServiceDeletion, GetServiceDeployment, GetServiceFacts, GetServiceFiles, GetServiceGateUrl,
    GetServicePlan, GetServicePreview, GetServiceRendering, GetServiceTree, IgnoreServiceDrift, KickService,
    ListAccessTokens, ListBackgroundJobs, ListClusterDeprecations, ListClusters, ListGitRepositories,
    ListGlobalServiceInstances, ListGlobalServices, ListManagedNamespaceInstances, ListManagedNamespaces,
    ListReadableRecordings, ListRecordings, ListServiceContexts, ListServiceDeployments, ListServiceDrift,
    ListServiceEvents, ListServiceFiles, ListServiceRevisions, Me, Operation, PauseService, PlanService,
    PromoteService, ReleaseService, RenewDeployToken, ResumeService, RetryBackgroundJob, RollbackService,
    RotateDeployToken, SaveServiceContext, SetProjectLimits, SetRecordingPolicy, SignIn, SteerRollout,
    SyncService, UpdateCluster, UpdateGlobalService, UpdateManagedNamespace, UpdateServiceDeployment,
};

const EXISTING: &str = include_str!("documents.graphql");

/// Root fields that no existing client's document asks for: our own, or the web console's.
const OURS: [&str; 35] = [
    "approveServicePrune",
    "audits",
    "backgroundJobs",
    "createClusterJoinToken",
    "createSyncWindow",
    "deleteBackgroundJob",
    "deleteSyncWindow",
    "gitRepositoryWebhook",
    "globalServices",
    "groups",
    "ignoreServiceDrift",
    "markAgentUpgrade",
    "pauseService",
    "planService",
    "promoteService",
    "recordings",
    "releaseService",
    "renewDeployToken",
    "resumeService",
    "retryBackgroundJob",
    "rotateDeployToken",
    "rotateGitRepositoryWebhook",
    "serviceContexts",
    "serviceDeletion",
    "serviceGateUrl",
    "servicePlan",
    "servicePreview",
    "setProjectLimits",
    "setRecordingPolicy",
    "signIn",
    "steerRollout",
    "syncService",
    "syncWindows",
    "users",
    "webhookSecret",
];

/// A document for each operation of the file, with the fragments that it reaches.
fn documents() -> Vec<(String, String, Vec<String>)> {
    let parsed = parse_query::<String>(EXISTING).unwrap();
    let fragments: BTreeMap<&str, _> = parsed
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            Definition::Fragment(fragment) => Some((fragment.name.as_str(), fragment)),
            Definition::Operation(_) => None,
        })
        .collect();
    parsed
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            Definition::Operation(operation) => Some(operation),
            Definition::Fragment(_) => None,
        })
        .map(|operation| {
            let (name, selections) = match operation {
                OperationDefinition::Query(it) => (it.name.clone().unwrap(), &it.selection_set),
                OperationDefinition::Mutation(it) => (it.name.clone().unwrap(), &it.selection_set),
                other => panic!("{other:?}"),
            };
            let mut reached = BTreeSet::new();
            let mut open = vec![selections];
            while let Some(set) = open.pop() {
                for selection in &set.items {
                    match selection {
                        Selection::Field(field) => open.push(&field.selection_set),
                        Selection::InlineFragment(inline) => open.push(&inline.selection_set),
                        Selection::FragmentSpread(spread) => {
                            let fragment = fragments[spread.fragment_name.as_str()];
                            if reached.insert(spread.fragment_name.as_str()) {
                                open.push(&fragment.selection_set);
                            }
                        }
                    }
                }
            }
            let mut text = operation.to_string();
            for fragment in reached {
                text.push_str(&fragments[fragment].to_string());
            }
            (name, text, root(selections))
        })
        .collect()
}

fn root(selections: &SelectionSet<'_, String>) -> Vec<String> {
    selections
        .items
        .iter()
        .map(|selection| match selection {
            Selection::Field(field) => field.name.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Every root field of the schema.
pub(crate) fn root_fields() -> BTreeSet<String> {
    let sdl = plural_api::sdl();
    let schema = parse_schema::<String>(&sdl).unwrap();
    schema
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            SchemaDefinition::TypeDefinition(TypeDefinition::Object(object))
                if object.name.starts_with("Root") =>
            {
                Some(object)
            }
            _ => None,
        })
        .flat_map(|object| object.fields.iter().map(|field| field.name.clone()))
        .collect()
}

#[tokio::test]
async fn documents_of_existing_clients_are_served() {
    let documents = documents();
    assert!(documents.len() > 50, "the file was not read as a whole");
    for (name, document, _) in &documents {
        if let Err(faults) = plural_api::validate(document).await {
            panic!("{name}: {faults:?}\n{document}");
        }
        is_light(name, document);
    }
}

/// Documents of clients stay within the limits with the largest pages that they can ask for.
fn is_light(name: &str, document: &str) {
    // Where the caller says how many rows there are, five times as many as usual are possible.
    let pages = if document.contains("first: $") || document.contains("last: $") { 5 } else { 1 };
    let (weight, most) = plural_api::weigh(document).unwrap();
    println!("{weight:>7} × {pages} of {most}: {name}");
    assert!(weight * pages <= most, "{name} weighs {weight}");
}

#[test]
fn every_root_field_has_such_a_document_or_is_ours() {
    let known: BTreeSet<String> = documents()
        .into_iter()
        .flat_map(|(_, _, fields)| fields)
        .chain(OURS.iter().map(|&field| field.to_owned()))
        .collect();
    assert_eq!(root_fields(), known);
}

#[tokio::test]
async fn documents_of_our_client_are_served() {
    async fn check<O: Operation>() {
        if let Err(faults) = plural_api::validate(O::DOCUMENT).await {
            panic!("{}: {faults:?}", O::NAME);
        }
        is_light(O::NAME, O::DOCUMENT);
    }
    check::<Me>().await;
    check::<SignIn>().await;
    check::<CreateAccessToken>().await;
    check::<CreateShortAccessToken>().await;
    check::<CreateLastingAccessToken>().await;
    check::<ListAccessTokens>().await;
    check::<ChangePassword>().await;
    check::<CreateShortAccessToken>().await;
    check::<DeleteAccessToken>().await;
    check::<GetProject>().await;
    check::<ListRecordings>().await;
    check::<ListReadableRecordings>().await;
    check::<GetRecordingPolicy>().await;
    check::<SetRecordingPolicy>().await;
    check::<ListClusters>().await;
    check::<GetCluster>().await;
    check::<GetClusterWithToken>().await;
    check::<GetAgentUrl>().await;
    check::<CreateCluster>().await;
    check::<CreateClusterWithToken>().await;
    check::<UpdateCluster>().await;
    check::<RotateDeployToken>().await;
    check::<CreateJoinToken>().await;
    check::<RenewDeployToken>().await;
    check::<DeleteCluster>().await;
    check::<DetachCluster>().await;
    check::<ListGitRepositories>().await;
    check::<GetGitRepository>().await;
    check::<CreateGitRepository>().await;
    check::<DeleteGitRepository>().await;
    check::<ListGlobalServices>().await;
    check::<GetGlobalService>().await;
    check::<ListGlobalServiceInstances>().await;
    check::<CreateGlobalService>().await;
    check::<UpdateGlobalService>().await;
    check::<DeleteGlobalService>().await;
    check::<SteerRollout>().await;
    check::<ListManagedNamespaces>().await;
    check::<GetManagedNamespace>().await;
    check::<ListManagedNamespaceInstances>().await;
    check::<CreateManagedNamespace>().await;
    check::<UpdateManagedNamespace>().await;
    check::<DeleteManagedNamespace>().await;
    check::<ListServiceDeployments>().await;
    check::<GetServiceDeployment>().await;
    check::<GetServiceRendering>().await;
    check::<GetServicePreview>().await;
    check::<GetServiceTree>().await;
    check::<ListServiceRevisions>().await;
    check::<ListServiceEvents>().await;
    check::<RollbackService>().await;
    check::<ReleaseService>().await;
    check::<PauseService>().await;
    check::<ResumeService>().await;
    check::<CloneService>().await;
    check::<CreateServiceDeployment>().await;
    check::<UpdateServiceDeployment>().await;
    check::<KickService>().await;
    check::<DeleteServiceCascade>().await;
    check::<DeleteServiceContext>().await;
    check::<GetServiceContext>().await;
    check::<ListServiceContexts>().await;
    check::<SaveServiceContext>().await;
    check::<DeleteServiceDeployment>().await;
    check::<DetachServiceDeployment>().await;
    check::<SyncService>().await;
    check::<PlanService>().await;
    check::<GetServiceDeletion>().await;
    check::<GetServiceFacts>().await;
    check::<GetServiceFiles>().await;
    check::<GetServiceGateUrl>().await;
    check::<ListClusterDeprecations>().await;
    check::<ListServiceFiles>().await;
    check::<PromoteService>().await;
    check::<GetServicePlan>().await;
    check::<ApproveServicePrune>().await;
    check::<ListServiceDrift>().await;
    check::<IgnoreServiceDrift>().await;
    check::<SetProjectLimits>().await;
    check::<ListBackgroundJobs>().await;
    check::<RetryBackgroundJob>().await;
    check::<DeleteBackgroundJob>().await;
}

#[tokio::test]
async fn what_is_not_served_is_not_valid() {
    for (document, fault) in [
        ("{ me { shoeSize } }", "Unknown field"),
        ("{ cluster(id: {a: 1}) { id } }", "Invalid value"),
        (
            "mutation { createCluster(attributes: {name: \"a\", kubeconfig: {raw: \"\"}}) { id } }",
            "unknown field",
        ),
        ("{ pipelines { edges { node { id } } } }", "Unknown field"),
    ] {
        let faults = plural_api::validate(document).await.expect_err(document);
        assert!(faults[0].contains(fault), "{document}: {faults:?}");
    }
}
