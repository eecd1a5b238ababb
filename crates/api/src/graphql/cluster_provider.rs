//! What the original console provisions clusters with. This console provisions none: clients that ask for these things get
//! null, and what they give is refused with the reason.

use async_graphql::{ID, InputObject, SimpleObject};
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_specs::{Json, Map};

use super::{
    error::{List, unsupported},
    git_repository::GitRepository,
    service::ServiceDeployment,
    service_input::GitRefAttributes,
};

/// Why nothing of this is taken.
const NOT_PROVISIONED: &str = "is not supported: this console does not provision clusters. Leave it out, and run an agent in a cluster that exists";

/// Why no kubeconfig is taken.
const NO_KUBECONFIG: &str = "is not supported: this console keeps no kubeconfig. Leave it out, and run an agent in the cluster (clusters bootstrap)";

/// A cloud that clusters are provisioned in. There is none: fields of this type are null.
#[derive(SimpleObject)]
pub(crate) struct ClusterProvider {
    /// Id.
    id: ID,
    /// Name.
    name: String,
    /// Namespace of its objects.
    namespace: String,
    /// The cloud.
    cloud: String,
    /// It may be changed.
    editable: Option<bool>,
    /// When its deletion was asked for.
    deleted_at: Option<DateTime<Utc>>,
    /// The repository that it is made from.
    repository: Option<GitRepository>,
    /// The service that makes it.
    service: Option<ServiceDeployment>,
    /// Its credentials.
    credentials: List<ProviderCredential>,
}

/// A credential for a cloud. There is none: fields of this type are null.
#[derive(SimpleObject)]
pub(crate) struct ProviderCredential {
    /// Id.
    id: ID,
    /// Name of the object.
    name: String,
    /// Its namespace.
    namespace: String,
    /// Its kind.
    kind: String,
}

/// Nodes that are provisioned together. There are none: fields of this type are null.
#[derive(SimpleObject)]
pub(crate) struct NodePool {
    /// Id.
    id: ID,
    /// Name.
    name: String,
    /// At least so many nodes.
    min_size: i32,
    /// At most so many nodes.
    max_size: i32,
    /// The machines' type.
    instance_type: String,
    /// Labels of the nodes.
    labels: Option<Map>,
    /// Taints of the nodes.
    taints: List<Taint>,
}

/// A taint of nodes.
#[derive(SimpleObject)]
pub(crate) struct Taint {
    /// Its key.
    key: String,
    /// Its value.
    value: String,
    /// What it does to Pods.
    effect: String,
}

/// How to reach a cluster. Refused: only agents reach clusters.
#[derive(InputObject)]
pub(crate) struct KubeconfigAttributes {
    /// The kubeconfig.
    raw: Option<String>,
}

/// Where a cluster is provisioned. Refused.
#[derive(InputObject)]
pub(crate) struct CloudSettingsAttributes {
    /// In Amazon's cloud.
    aws: Option<AwsCloudAttributes>,
    /// In Google's cloud.
    gcp: Option<GcpCloudAttributes>,
    /// In Azure.
    azure: Option<AzureCloudAttributes>,
}

/// A place in Amazon's cloud.
#[derive(InputObject)]
pub(crate) struct AwsCloudAttributes {
    /// The region.
    region: Option<String>,
}

/// A place in Google's cloud.
#[derive(InputObject)]
pub(crate) struct GcpCloudAttributes {
    /// The project.
    project: Option<String>,
    /// The network.
    network: Option<String>,
    /// The region.
    region: Option<String>,
}

/// A place in Azure.
#[derive(InputObject)]
pub(crate) struct AzureCloudAttributes {
    /// The location.
    location: Option<String>,
    /// The subscription.
    subscription_id: Option<String>,
    /// The resource group.
    resource_group: Option<String>,
    /// The network.
    network: Option<String>,
}

/// What is checked off before an upgrade of Kubernetes. Refused.
#[derive(InputObject)]
pub(crate) struct UpgradePlanAttributes {
    /// Add-ons fit the next version.
    compatibilities: Option<bool>,
    /// No add-ons exclude each other.
    incompatibilities: Option<bool>,
    /// No object is written in an API version that goes away.
    deprecations: Option<bool>,
}

/// Nodes to provision together. Refused.
#[derive(InputObject)]
pub(crate) struct NodePoolAttributes {
    /// Name.
    name: String,
    /// At least so many nodes.
    min_size: i32,
    /// At most so many nodes.
    max_size: i32,
    /// The machines' type.
    instance_type: String,
    /// Labels of the nodes.
    labels: Option<Json>,
    /// Taints of the nodes.
    taints: List<TaintAttributes>,
    /// Settings of the cloud.
    cloud_settings: Option<NodePoolCloudAttributes>,
}

/// A taint of nodes.
#[derive(InputObject)]
pub(crate) struct TaintAttributes {
    /// Its key.
    key: String,
    /// Its value.
    value: String,
    /// What it does to Pods.
    effect: String,
}

/// A cloud's settings of nodes.
#[derive(InputObject)]
pub(crate) struct NodePoolCloudAttributes {
    /// Of Amazon's cloud.
    aws: Option<AwsNodeCloudAttributes>,
}

/// Settings of nodes in Amazon's cloud.
#[derive(InputObject)]
pub(crate) struct AwsNodeCloudAttributes {
    /// The launch template.
    launch_template_id: Option<String>,
}

/// The service that provisions a cluster. Refused.
#[derive(InputObject)]
pub(crate) struct ClusterServiceAttributes {
    /// Its id.
    id: ID,
    /// Its repository.
    repository_id: Option<ID>,
    /// Where in it.
    git: GitRefAttributes,
}

/// What clients give of how a cluster is provisioned, run or assisted.
#[derive(Default)]
pub(crate) struct ProvisioningAttributes {
    pub(crate) provider_id: Option<ID>,
    pub(crate) credential_id: Option<ID>,
    pub(crate) service: Option<ClusterServiceAttributes>,
    pub(crate) cloud_settings: Option<CloudSettingsAttributes>,
    pub(crate) node_pools: List<NodePoolAttributes>,
    pub(crate) kubeconfig: Option<KubeconfigAttributes>,
    pub(crate) upgrade_plan: Option<UpgradePlanAttributes>,
    pub(crate) disable_ai: Option<bool>,
}

impl ProvisioningAttributes {
    /// Refuses what cannot be honoured.
    pub(crate) fn check(self) -> Result<()> {
        let Self {
            provider_id,
            credential_id,
            service,
            cloud_settings,
            node_pools,
            kubeconfig,
            upgrade_plan,
            disable_ai,
        } = self;
        let named = |id: Option<ID>| id.is_some_and(|id| !id.is_empty());
        unsupported("attributes.providerId", named(provider_id), NOT_PROVISIONED)?;
        unsupported("attributes.credentialId", named(credential_id), NOT_PROVISIONED)?;
        unsupported("attributes.service", service.is_some(), NOT_PROVISIONED)?;
        unsupported("attributes.cloudSettings", cloud_settings.is_some(), NOT_PROVISIONED)?;
        let pools = node_pools.is_some_and(|pools| pools.iter().any(Option::is_some));
        unsupported("attributes.nodePools", pools, NOT_PROVISIONED)?;
        unsupported("attributes.kubeconfig", kubeconfig.is_some(), NO_KUBECONFIG)?;
        unsupported(
            "attributes.upgradePlan",
            upgrade_plan.is_some(),
            "is not supported: there is no checklist of upgrades. Leave it out; apiDeprecations of the cluster says what blocks one",
        )?;
        unsupported(
            "attributes.disableAi",
            disable_ai == Some(false),
            "cannot be false: this console has no AI to enable. Leave it out, or set it to true",
        )
    }
}
