//! Operations whose variables and answers stay JSON: those behind documents that users write as files, and settings that they may give so.
//!
//! A file names some fields and leaves others alone, and null clears one. A struct for each input would have to tell absent
//! from null in every field; here the variables are what the file says. [`UNTYPED_DOCUMENTS`] lists the texts, so that a test
//! can compare them with the schema.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::{
    document::{Operation, OperationKind},
    page::Connection,
};

macro_rules! git {
    () => {
        "git { ref folder files }"
    };
}

macro_rules! rendering {
    ($values:literal) => {
        concat!(
            "helm { chart version url repositoryId ",
            git!(),
            " release valuesFiles ",
            $values,
            " ignoreHooks ignoreCrds luaScript luaFile luaFolder kustomizePostrender verify { cosignKey openpgpKeys } }
    kustomize { path enableHelm envsubst }
    renderers { path type command helm { valuesFiles release ignoreHooks } }
    sources { path repositoryId ",
            git!(),
            " }"
        )
    };
}

macro_rules! sync_config {
    () => {
        "syncConfig {
      createNamespace deleteNamespace enforceNamespace requireOwnership namespaceMetadata { labels annotations }
      diffNormalizers { name kind namespace jsonPointers backfill managers } serviceAccount
      policy {
        manual prune selfHeal waveWait waveTimeout retryLimit retryWait retryMaxWait prunePercent pruneObjects
      }
    }"
    };
}

macro_rules! template {
    () => {
        concat!(
            "{
    name namespace version templated protect dryRun repositoryId contexts dependencyNames ",
            git!(),
            "
    ",
            rendering!(""),
            "
    ",
            sync_config!(),
            "
  }"
        )
    };
}

macro_rules! tools {
    () => {
        "terraform { parallelism refresh approveEmpty tofu }
    terragrunt { parallelism refresh approveEmpty } pulumi { parallel refresh approveEmpty stack backendUrl }"
    };
}

macro_rules! stack_settings {
    () => {
        "{ jobSpec {
      namespace labels annotations nodeSelector serviceAccount tolerations { key operator value effect }
      requests { requests { cpu memory } limits { cpu memory } }
    } }"
    };
}

macro_rules! bindings {
    () => {
        "readBindings { user { email } group { name } } writeBindings { user { email } group { name } }"
    };
}

macro_rules! page {
    ($root:literal, $node:literal) => {
        concat!($root, " { pageInfo { hasNextPage endCursor } edges { node { ", $node, " } } }")
    };
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($kind:ident, $field:literal) -> $data:ty = $variables:tt, $body:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// `Debug` does not show the variables: some are secret.
            #[derive(Clone, Serialize)]
            #[serde(transparent)]
            pub struct $name(pub Value);

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct(stringify!($name)).finish_non_exhaustive()
                }
            }

            impl Operation for $name {
                type Data = $data;
                const NAME: &'static str = stringify!($name);
                const KIND: OperationKind = OperationKind::$kind;
                const FIELD: &'static str = $field;
                const DOCUMENT: &'static str =
                    concat!(operations!(@$kind), " ", stringify!($name), operations!(@variables $variables), " {\n  ", $body, "\n}");
            }
        )*

        /// Every operation of this module: its name, and what is sent.
        pub const UNTYPED_DOCUMENTS: &[(&str, &str)] = &[$(($name::NAME, $name::DOCUMENT)),*];
    };
    (@Query) => { "query" };
    (@Mutation) => { "mutation" };
    (@variables "") => { "" };
    (@variables $variables:tt) => { concat!("(", $variables, ")") };
}

operations! {
    /// One project as a document.
    ReadProject(Query, "project") -> Value = "$id: ID, $name: String", concat!(
        "project(id: $id, name: $name) {
    id name description default
    limits {
      namespaces allowedKinds deniedKinds noClusterScoped clusterKinds repositories serviceAccounts
      requireServiceAccount defaultServiceAccount referenceNamespaces
      runNamespaces runImages planServiceAccount applyServiceAccount moduleSources
    }
    stackSettings ", stack_settings!(), "
    ", bindings!(), "
  }");
    /// Names of the projects.
    ReadProjects(Query, "projects") -> Connection<Value> = "$after: String, $first: Int!",
        page!("projects(after: $after, first: $first)", "id name");
    /// Makes a project.
    MakeProject(Mutation, "createProject") -> Value = "$attributes: ProjectAttributes!",
        "createProject(attributes: $attributes) { id }";
    /// Changes a project.
    ChangeProject(Mutation, "updateProject") -> Value = "$id: ID!, $attributes: ProjectAttributes!",
        "updateProject(id: $id, attributes: $attributes) { id }";
    /// Removes a project that holds nothing.
    RemoveProject(Mutation, "deleteProject") -> Value = "$id: ID!", "deleteProject(id: $id) { id }";
    /// Limits the services of a project.
    LimitProject(Mutation, "setProjectLimits") -> Value = "$projectId: ID!, $attributes: ProjectLimitsAttributes!",
        "setProjectLimits(projectId: $projectId, attributes: $attributes) { id }";
    /// What the stacks of a project have where they say nothing themselves.
    ReadProjectStackSettings(Query, "project") -> Value = "$id: ID!",
        concat!("project(id: $id) { stackSettings ", stack_settings!(), " }");
    /// Sets it, in place of what was said before.
    SetProjectStackSettings(Mutation, "setProjectStackSettings") -> Value =
        "$projectId: ID!, $attributes: StackSettingsAttributes!",
        concat!(
            "setProjectStackSettings(projectId: $projectId, attributes: $attributes) { stackSettings ",
            stack_settings!(),
            " }"
        );
    /// Settings of the installation.
    ReadDeploymentSettings(Query, "deploymentSettings") -> Value = "",
        concat!("deploymentSettings { stacks ", stack_settings!(), " }");
    /// Changes them; what is absent stays.
    ChangeDeploymentSettings(Mutation, "updateDeploymentSettings") -> Value =
        "$attributes: DeploymentSettingsAttributes!",
        concat!("updateDeploymentSettings(attributes: $attributes) { stacks ", stack_settings!(), " }");

    /// One cluster as a document.
    ReadCluster(Query, "cluster") -> Value = "$id: ID, $handle: String", concat!(
        "cluster(id: $id, handle: $handle) {
    id name handle version distro protect metadata deletedAt
    project { id } tags { name value } ", bindings!(), "
  }");
    /// Handles of the clusters.
    ReadClusters(Query, "clusters") -> Connection<Value> = "$after: String, $first: Int!",
        page!("clusters(after: $after, first: $first)", "id handle name");
    /// Registers a cluster. Its agent joins with a token that is made apart.
    MakeCluster(Mutation, "createCluster") -> Value = "$attributes: ClusterAttributes!",
        "createCluster(attributes: $attributes) { id }";
    /// Changes a cluster.
    ChangeCluster(Mutation, "updateCluster") -> Value = "$id: ID!, $attributes: ClusterUpdateAttributes!",
        "updateCluster(id: $id, attributes: $attributes) { id }";
    /// Has everything removed that services put into a cluster, then forgets it.
    RemoveCluster(Mutation, "deleteCluster") -> Value = "$id: ID!", "deleteCluster(id: $id) { id }";

    /// One git repository as a document.
    ReadGitRepository(Query, "gitRepository") -> Value = "$id: ID, $url: String",
        "gitRepository(id: $id, url: $url) {
    id url authMethod signedCommits health error pulledAt updatedAt project { id }
  }";
    /// Addresses of the git repositories.
    ReadGitRepositories(Query, "gitRepositories") -> Connection<Value> = "$after: String, $first: Int!",
        page!("gitRepositories(after: $after, first: $first)", "id url");
    /// Registers a git repository.
    MakeGitRepository(Mutation, "createGitRepository") -> Value = "$attributes: GitAttributes!, $projectId: ID",
        "createGitRepository(attributes: $attributes, projectId: $projectId) { id updatedAt }";
    /// Changes a git repository.
    ChangeGitRepository(Mutation, "updateGitRepository") -> Value = "$id: ID!, $attributes: GitAttributes!",
        "updateGitRepository(id: $id, attributes: $attributes) { id updatedAt }";
    /// Forgets a git repository that no service uses.
    RemoveGitRepository(Mutation, "deleteGitRepository") -> Value = "$id: ID!", "deleteGitRepository(id: $id) { id }";

    /// One chart repository as a document.
    ReadHelmRepository(Query, "helmRepository") -> Value = "$url: String!",
        "helmRepository(url: $url) { id url provider health error updatedAt project { id } }";
    /// Addresses of the chart repositories.
    ReadHelmRepositories(Query, "helmRepositories") -> Connection<Value> = "$after: String, $first: Int!",
        page!("helmRepositories(after: $after, first: $first)", "id url");
    /// Registers a chart repository, or changes how it is read.
    SaveHelmRepository(Mutation, "upsertHelmRepository") -> Value = "$url: String!, $attributes: HelmRepositoryAttributes",
        "upsertHelmRepository(url: $url, attributes: $attributes) { id updatedAt }";
    /// Forgets a chart repository.
    RemoveHelmRepository(Mutation, "deleteHelmRepository") -> Value = "$url: String!",
        "deleteHelmRepository(url: $url) { id }";

    /// One definition of stacks as a document.
    ReadStackDefinition(Query, "stackDefinition") -> Value = "$id: ID, $name: String",
        "stackDefinition(id: $id, name: $name) {
    id name description updatedAt steps { cmd args stage requireApproval } deleteSteps { cmd args stage requireApproval }
    configuration { image version tag hooks { cmd args afterStage } }
  }";
    /// Names of the definitions of stacks.
    ReadStackDefinitions(Query, "stackDefinitions") -> Connection<Value> = "$after: String, $first: Int!",
        page!("stackDefinitions(after: $after, first: $first)", "id name");
    /// Makes a definition of stacks.
    MakeStackDefinition(Mutation, "createStackDefinition") -> Value = "$attributes: StackDefinitionAttributes!",
        "createStackDefinition(attributes: $attributes) { id updatedAt }";
    /// Replaces a definition of stacks.
    ChangeStackDefinition(Mutation, "updateStackDefinition") -> Value =
        "$id: ID!, $attributes: StackDefinitionAttributes!, $unchangedSince: DateTime",
        "updateStackDefinition(id: $id, attributes: $attributes, unchangedSince: $unchangedSince) { id updatedAt }";
    /// Removes a definition that no stack names.
    RemoveStackDefinition(Mutation, "deleteStackDefinition") -> Value = "$id: ID!",
        "deleteStackDefinition(id: $id) { id }";

    /// One stack as a document, without values that are secret and without what is in its files.
    ReadStack(Query, "infrastructureStack") -> Value = "$id: ID, $name: String", concat!(
        "infrastructureStack(id: $id, name: $name) {
    id name type protect paused workdir manageState variables timeout deletedAt updatedAt interval tags { name value }
    approval requiredApprovals forbidSelfApproval approvalExpiry commandApproval
    project { id } repository { id } cluster { id handle } ", git!(), "
    actor { email } definition { id name } stateVersion { id resources }
    dependencies { stack { id name } outputs { output variable } }
    environment { name value secret } files { path }
    commands { cmd args stage requireApproval } deleteCommands { cmd args stage requireApproval }
    configuration {
    image version tag hooks { cmd args afterStage }
    ", tools!(), "
    ansible { playbook inventory additionalArgs privateKeyFile configFile supportsCheck deletePlaybook }
    }
    cron { crontab timeZone autoApprove overrides {
    ", tools!(), "
    } }
    driftSchedule { crontab timeZone commands { cmd args stage } }
    jobSpec {
      namespace labels annotations nodeSelector serviceAccount tolerations { key operator value effect }
      requests { requests { cpu memory } limits { cpu memory } }
    }
    policyEngine { type customPolicies maxSeverity repositoryId ", git!(), " }
    ", bindings!(), "
  }");
    /// Names of the stacks.
    ReadStacks(Query, "infrastructureStacks") -> Connection<Value> = "$after: String, $first: Int!",
        page!("infrastructureStacks(after: $after, first: $first)", "id name");
    /// Makes a stack.
    MakeStack(Mutation, "createStack") -> Value = "$attributes: StackAttributes!",
        "createStack(attributes: $attributes) { id updatedAt }";
    /// Changes a stack: what is absent stays as it is.
    ChangeStack(Mutation, "updateStack") -> Value = "$id: ID!, $attributes: StackAttributes!",
        "updateStack(id: $id, attributes: $attributes) { id updatedAt }";

    /// One context as a document.
    ReadContext(Query, "serviceContext") -> Value = "$name: String!",
        "serviceContext(name: $name) { id name configuration secretNames imports { output name sensitive stack { name } } \
         updatedAt project { id } }";
    /// Names of the contexts.
    ReadContexts(Query, "serviceContexts") -> Connection<Value> = "$after: String, $first: Int!",
        page!("serviceContexts(after: $after, first: $first)", "id name");
    /// Makes a context, or changes it.
    SaveContext(Mutation, "saveServiceContext") -> Value = "$name: String!, $attributes: ServiceContextAttributes!",
        "saveServiceContext(name: $name, attributes: $attributes) { id updatedAt }";
    /// Stores commands of stacks under a name.
    AddCustomStackRun(Mutation, "createCustomStackRun") -> Value = "$attributes: CustomStackRunAttributes!",
        "createCustomStackRun(attributes: $attributes) { id }";
    /// Changes commands under a name: what is absent stays as it is.
    ChangeCustomStackRun(Mutation, "updateCustomStackRun") -> Value = "$id: ID!, $attributes: CustomStackRunAttributes!",
        "updateCustomStackRun(id: $id, attributes: $attributes) { id }";
    /// All of an automation that opens pull requests.
    ReadPrAutomation(Query, "prAutomation") -> Value = "$id: ID!", concat!(
        "prAutomation(id: $id) {
    id name role documentation icon darkIcon addon labels identifier branch branchPrefix title message patch mayCreate
    insertedAt updatedAt project { id name } connection { id name } governance { id name } repository { id url }
    cluster { id handle } service { id name } ", git!(), "
    configuration {
      type name default documentation longform displayName placeholder page optional values
      condition { operation field value } validation { regex json uniqBy { scope } }
    }
    confirmation { text checklist { label } }
    secrets { cluster namespace name entries { name documentation autogenerate } }
    creates { ", git!(), " templates { source destination context verbatim condition external } }
    updates {
      regexReplacements { file regex replacement templated }
      yamlOverlays { file yaml listMerge listKey templated document { index kind name } }
      edits { file format document { index kind name } edit }
      regexes files replaceTemplate matchStrategy yq
    }
    deletes { files folders } vendor { helm { url chart version destination } } lua { script folder external }
    mergeWindows { kind schedule duration timeZone }
    ", bindings!(), " createBindings { user { email } group { name } }
  }");
    /// Makes an automation.
    AddPrAutomation(Mutation, "createPrAutomation") -> Value = "$attributes: PrAutomationAttributes!",
        "createPrAutomation(attributes: $attributes) { id }";
    /// Changes an automation: what is absent stays as it is.
    ChangePrAutomation(Mutation, "updatePrAutomation") -> Value = "$id: ID!, $attributes: PrAutomationAttributes!",
        "updatePrAutomation(id: $id, attributes: $attributes) { id }";
    /// Removes a context that no service uses.
    RemoveContext(Mutation, "deleteServiceContext") -> Value = "$id: ID!", "deleteServiceContext(id: $id) { id }";

    /// One service as a document, without values that are secret.
    ReadService(Query, "serviceDeployment") -> Value = "$id: ID, $cluster: String, $name: String", concat!(
        "serviceDeployment(id: $id, cluster: $cluster, name: $name) {
    id name namespace version docsPath protect dryRun interval templated deletedAt status
    cluster { id handle } repository { id } dependencies { name cluster } contexts { name } imports { stack { name } }
    configuration { name valueFrom {
      secretKeyRef { name key namespace } configMapKeyRef { name key namespace } vaultKeyRef { path key }
      sopsKeyRef { file key } ageKeyRef { file key } } }
    ", git!(), "
    ", rendering!(""), "
    ", sync_config!(), "
    ", bindings!(), "
  }");
    /// The values of a service that are secret. Reading them is in the audit log.
    ReadServiceValues(Query, "serviceDeployment") -> Value = "$id: ID!",
        "serviceDeployment(id: $id) {
    configuration {
      name value
      valueFrom {
      secretKeyRef { name key namespace } configMapKeyRef { name key namespace } vaultKeyRef { path key }
      sopsKeyRef { file key } ageKeyRef { file key } }
    }
    helm { values set { name value } } renderers { helm { values } }
  }";
    /// Names of the services.
    ReadServices(Query, "serviceDeployments") -> Connection<Value> = "$after: String, $first: Int!",
        page!("serviceDeployments(after: $after, first: $first)", "id name cluster { handle }");
    /// Puts a service on a cluster.
    MakeService(Mutation, "createServiceDeployment") -> Value =
        "$clusterId: ID!, $attributes: ServiceDeploymentAttributes!",
        "createServiceDeployment(clusterId: $clusterId, attributes: $attributes) { id }";
    /// Changes a service.
    ChangeService(Mutation, "updateServiceDeployment") -> Value = "$id: ID!, $attributes: ServiceUpdateAttributes!",
        "updateServiceDeployment(id: $id, attributes: $attributes) { id }";
    /// Removes the objects of a service, then the service.
    RemoveService(Mutation, "deleteServiceDeployment") -> Value = "$id: ID!", "deleteServiceDeployment(id: $id) { id }";
    /// Forgets a service and leaves its objects.
    DetachService(Mutation, "detachServiceDeployment") -> Value = "$id: ID!", "detachServiceDeployment(id: $id) { id }";

    /// One global service as a document, without values that are secret.
    ReadGlobalService(Query, "globalService") -> Value = "$id: ID, $name: String", concat!(
        "globalService(id: $id, name: $name) {
    id name distro reparent ignoreClusters deletedAt updatedAt
    tags { name value } project { id } service { id } cascade { delete detach } context { raw }
    rolloutStrategy {
      maxUnavailable soakSeconds timeoutSeconds maxFailures undo
      cohorts { name members { percent clusters tag { name value } } }
    }
    template ", template!(), "
  }");
    /// Names of the global services.
    ReadGlobalServices(Query, "globalServices") -> Connection<Value> = "$after: String, $first: Int!",
        page!("globalServices(after: $after, first: $first)", "id name");
    /// Puts a service on every cluster that it targets.
    MakeGlobalService(Mutation, "createGlobalService") -> Value = "$serviceId: ID, $attributes: GlobalServiceAttributes!",
        "createGlobalService(serviceId: $serviceId, attributes: $attributes) { id updatedAt }";
    /// Changes a global service.
    ChangeGlobalService(Mutation, "updateGlobalService") -> Value = "$id: ID!, $attributes: GlobalServiceAttributes!",
        "updateGlobalService(id: $id, attributes: $attributes) { id updatedAt }";
    /// Lets the instances of a global service go, then removes it.
    RemoveGlobalService(Mutation, "deleteGlobalService") -> Value = "$id: ID!", "deleteGlobalService(id: $id) { id }";

    /// One managed namespace as a document, without values that are secret.
    ReadManagedNamespace(Query, "managedNamespace") -> Value = "$id: ID, $name: String", concat!(
        "managedNamespace(id: $id, name: $name) {
    id name namespace description labels annotations pullSecrets deletedAt updatedAt
    target { tags distro } project { id } cascade { delete detach }
    service ", template!(), "
  }");
    /// Names of the managed namespaces.
    ReadManagedNamespaces(Query, "managedNamespaces") -> Connection<Value> = "$after: String, $first: Int!",
        page!("managedNamespaces(after: $after, first: $first)", "id name");
    /// Puts a namespace on every cluster that it targets.
    MakeManagedNamespace(Mutation, "createManagedNamespace") -> Value = "$attributes: ManagedNamespaceAttributes!",
        "createManagedNamespace(attributes: $attributes) { id updatedAt }";
    /// Changes a managed namespace.
    ChangeManagedNamespace(Mutation, "updateManagedNamespace") -> Value =
        "$id: ID!, $attributes: ManagedNamespaceAttributes!",
        "updateManagedNamespace(id: $id, attributes: $attributes) { id updatedAt }";
    /// Lets the namespaces of a managed namespace go, then removes it.
    RemoveManagedNamespace(Mutation, "deleteManagedNamespace") -> Value = "$id: ID!",
        "deleteManagedNamespace(id: $id) { id }";

    /// The windows of a project, a cluster or a service.
    ReadSyncWindows(Query, "syncWindows") -> Value = "$projectId: ID, $clusterId: ID, $serviceId: ID",
        "syncWindows(projectId: $projectId, clusterId: $clusterId, serviceId: $serviceId) {
    id name kind schedule duration timeZone description
  }";
    /// Makes a window.
    MakeSyncWindow(Mutation, "createSyncWindow") -> Value =
        "$projectId: ID, $clusterId: ID, $serviceId: ID, $attributes: SyncWindowAttributes!",
        "createSyncWindow(projectId: $projectId, clusterId: $clusterId, serviceId: $serviceId, attributes: $attributes) { id }";
    /// Changes a window.
    ChangeSyncWindow(Mutation, "updateSyncWindow") -> Value =
        "$id: ID!, $projectId: ID, $clusterId: ID, $serviceId: ID, $attributes: SyncWindowAttributes!",
        "updateSyncWindow(
    id: $id, projectId: $projectId, clusterId: $clusterId, serviceId: $serviceId, attributes: $attributes
  ) { id }";
    /// Removes a window.
    RemoveSyncWindow(Mutation, "deleteSyncWindow") -> Value =
        "$id: ID!, $projectId: ID, $clusterId: ID, $serviceId: ID",
        "deleteSyncWindow(id: $id, projectId: $projectId, clusterId: $clusterId, serviceId: $serviceId) { id }";

    /// The id of a user.
    FindUser(Query, "user") -> Value = "$email: String!", "user(email: $email) { id }";
    /// The id of a group.
    FindGroup(Query, "group") -> Value = "$name: String!", "group(name: $name) { id }";
}
