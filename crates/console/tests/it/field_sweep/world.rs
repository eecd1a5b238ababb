//! Everything that one can make, with a secret in each place that takes one, and people who may do more and less with it.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use plural_app::seal::SealedColumn;
use plural_testkit::{GitRemote, eventually};
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer, WEBHOOK_SECRET};

/// Each query and how it is asked. `$name` stands for what the world has under that name.
pub(super) const QUERIES: &[(&str, &str)] = &[
    ("accessDecision", "(verb: \"delete\", thing: \"cluster/blue\")"),
    ("accessHolders", "(verb: \"read\", thing: \"cluster/blue\")"),
    ("accessToken", "(id: \"$token\")"),
    ("accessTokens", ""),
    ("auditCheckpoints", ""),
    ("auditKey", ""),
    ("auditVerify", ""),
    ("audits", ""),
    ("backgroundJobs", ""),
    ("bootstrapToken", "(id: \"$registration\")"),
    ("bootstrapTokens", ""),
    ("cluster", "(id: \"$cluster\")"),
    ("clusterFacets", ""),
    ("clusterManagedNamespaces", ""),
    ("clusterStackRuns", ""),
    ("clusters", ""),
    ("customStackRun", "(id: \"$custom\")"),
    ("customStackRuns", ""),
    ("deploymentSettings", ""),
    ("federatedCredential", "(id: \"$credential\")"),
    ("federatedCredentials", "(userId: \"$machine\")"),
    ("fleetPlan", "(id: \"$fleet\")"),
    ("fleetPlanPart", "(id: \"$fleet_part\")"),
    ("fleetPlans", ""),
    ("gitRepositories", ""),
    ("gitRepository", "(id: \"$repository\")"),
    ("gitRepositoryWebhook", "(id: \"$repository\")"),
    ("globalService", "(id: \"$global\")"),
    ("globalServices", ""),
    ("group", "(name: \"sre\")"),
    ("groups", ""),
    ("healthChanges", ""),
    ("helmRepositories", ""),
    ("helmRepository", "(url: \"https://charts.invalid/stable\")"),
    ("identityProvider", "(name: \"acme\")"),
    ("identityProviders", ""),
    ("infrastructureStack", "(id: \"$stack\")"),
    ("infrastructureStacks", ""),
    ("installationDataKeys", ""),
    ("invites", ""),
    ("managedNamespace", "(id: \"$managed\")"),
    ("managedNamespaces", ""),
    ("me", ""),
    ("passkeys", ""),
    ("persona", "(name: \"developers\")"),
    ("personas", ""),
    ("project", "(id: \"$project\")"),
    ("projects", ""),
    ("recordings", ""),
    ("revisions", ""),
    ("role", "(name: \"operator\")"),
    ("roles", ""),
    ("savedView", "(id: \"$view\")"),
    ("savedViews", ""),
    ("prAutomation", "(id: \"$automation\")"),
    ("prAutomations", ""),
    ("prGovernance", "(id: \"$governance\")"),
    ("prGovernances", ""),
    ("prInstance", "(id: \"$instance\")"),
    ("prInstances", ""),
    ("pullRequest", "(id: \"$opened\")"),
    ("pullRequestMergeTime", ""),
    ("pullRequests", ""),
    ("scmConnection", "(id: \"$scm\")"),
    ("scmConnections", ""),
    ("scmWebhook", "(id: \"$hook\")"),
    ("scmWebhooks", ""),
    ("serviceAccount", "(id: \"$machine\")"),
    ("serviceAccounts", ""),
    ("serviceContext", "(name: \"network\")"),
    ("serviceContexts", ""),
    ("serviceDeletion", "(id: \"$service\", cascade: true)"),
    ("serviceDeployment", "(id: \"$service\")"),
    ("serviceDeployments", ""),
    ("serviceFacets", ""),
    ("serviceGateUrl", "(id: \"$service\")"),
    ("servicePlan", "(serviceId: \"$service\")"),
    ("servicePreview", "(id: \"$service\")"),
    ("serviceStatuses", ""),
    ("serviceTarball", "(id: \"$service\")"),
    ("stackDefinition", "(name: \"deploy\")"),
    ("stackDefinitions", ""),
    ("stackGraph", ""),
    ("stackRun", "(id: \"$run\")"),
    ("stackRunsWaiting", ""),
    ("stackState", "(stackId: \"$stack\")"),
    ("stackStateDiff", "(stackId: \"$stack\", from: \"$first_state\", to: \"$second_state\")"),
    ("stackTags", ""),
    ("syncWindows", "(serviceId: \"$service\")"),
    ("user", "(email: \"admin@example.com\")"),
    ("userIdentities", "(userId: \"$user\")"),
    ("users", ""),
    ("webhookSecret", ""),
];

/// What can be listened for. An event holds ids and a cursor; who hears of which id is asked in `deltas.rs`.
pub(super) const SUBSCRIPTIONS: &[(&str, &str)] =
    &[("clusterDelta", ""), ("infrastructureStackDelta", ""), ("serviceDeploymentDelta", "")];

/// Mutations that change nothing that another one looks at: their answers are swept, too, and some types are answered
/// by nothing else.
pub(super) const MUTATIONS: &[(&str, &str)] = &[
    ("beginSecondFactor", ""),
    ("createAccessToken", ""),
    ("createBootstrapToken", "(attributes: {projectId: \"$project\"})"),
    ("createGroupMember", "(groupId: \"$group\", userId: \"$user\")"),
    ("kickService", "(serviceId: \"$service\")"),
    // Its pull request is not merged.
    ("diffPrInstance", "(id: \"$instance\")"),
    // None is outdated.
    ("upgradePrInstances", "(automationId: \"$automation\")"),
    // No host is asked: the automation takes parts that are not built.
    ("previewPullRequest", "(id: \"$automation\")"),
    ("planPullRequestPreview", "(id: \"$automation\")"),
    ("planService", "(id: \"$service\")"),
    ("resumeService", "(id: \"$service\")"),
    ("rotateDeployToken", "(id: \"$spare\")"),
    ("saveServiceContext", "(name: \"network\", attributes: {})"),
    ("syncService", "(id: \"$service\")"),
    ("updateCluster", "(id: \"$cluster\", attributes: {})"),
    ("updateGitRepository", "(id: \"$repository\", attributes: {url: \"https://git.invalid/a.git\"})"),
    ("updateServiceDeployment", "(id: \"$service\", attributes: {})"),
    ("updateScmConnection", "(id: \"$scm\", attributes: {name: \"forge\", type: GITEA})"),
    ("upsertHelmRepository", "(url: \"https://charts.invalid/stable\")"),
];

/// The canary of this world that a sealed column holds; else what else looks at it. A new column does not compile before it has either.
fn planted(column: SealedColumn) -> Result<&'static str, &'static str> {
    match column {
        SealedColumn::RepositoryCredentials => Ok("password of a repository"),
        SealedColumn::RepositoryReach => Ok("proxy of a repository"),
        SealedColumn::RepositoryWebhook => Ok("webhook secret of a repository"),
        SealedColumn::HelmRepositoryAccess => Ok("password of a chart repository"),
        SealedColumn::Configuration => Ok("configuration of a service"),
        SealedColumn::HelmValues => Ok("values of a service"),
        SealedColumn::RendererValues => Ok("values of a renderer"),
        SealedColumn::GlobalServiceSecrets => Ok("configuration of a template"),
        SealedColumn::ContextSecrets => Ok("secret of a context"),
        SealedColumn::IdentityProviderSecret => Ok("client secret of a provider"),
        SealedColumn::SecondFactor => Ok("second factor"),
        SealedColumn::StackState => Ok("state of a stack"),
        // A run has its own copy.
        SealedColumn::StackEnvironment | SealedColumn::StackRunEnvironment => Ok("environment of a stack"),
        SealedColumn::StackFiles | SealedColumn::StackRunFiles => Ok("file of a stack"),
        SealedColumn::ScmSecrets => Ok("token of a connection"),
        SealedColumn::ScmWebhookHmac => Ok("secret of a webhook of a git host"),
        SealedColumn::PrGovernanceSecret => Ok("secret of a governance"),
        SealedColumn::PullRequestGovernance => {
            Err("a governance answers it, and none is called here: `pr_governances.rs` looks for it")
        }
        // Cleared when the pull request is open.
        SealedColumn::PullRequestAsked => Err("it is there while a pull request is opened only"),
        // Cleared when the console has looked.
        SealedColumn::FleetPlanAsked => Err("it is there while a preview is looked at only"),
        SealedColumn::PrInstanceSeed => {
            Err("the console draws it itself: `pr_instances.rs` looks for answers")
        }
        SealedColumn::PrRequestKey => {
            Err("a digest of what was asked, which no answer holds: `pull_requests.rs`")
        }
        SealedColumn::PrSecret => Err("cleared when its cluster has it: `pr_secrets.rs`"),
        SealedColumn::StackPlan
        | SealedColumn::StackOutput
        | SealedColumn::StackDrift
        | SealedColumn::StackRunTaken
        | SealedColumn::StackRunFinding => {
            Err("a Job makes it, and no Job runs here: console: stack_runs.rs, stack_runs/schedules.rs")
        }
        SealedColumn::RecordingCommand => Err("plural: secrets.rs: attack_19_no_secret_leaves_its_place"),
        SealedColumn::IdentityRefresh => {
            Err("it is a provider's, and read by what asks that provider alone: console: sso.rs")
        }
        SealedColumn::KeyCheck => Err("no secret: a text that everybody knows, sealed"),
        SealedColumn::ProxyKey | SealedColumn::AuditKey | SealedColumn::ServiceSeed => {
            Err("the console made it, and no use case answers with it")
        }
    }
}

/// What is there, and what must not be seen.
pub(super) struct World {
    t: TestServer,
    _remote: GitRemote,
    people: [(&'static str, Person); 8],
    ids: Vec<(&'static str, String)>,
    /// Name and forms of each secret: as it is, and as Kubernetes writes it.
    pub(super) canaries: Vec<(String, Vec<String>)>,
}

/// Makes secrets and keeps them.
struct Canaries(Vec<(String, Vec<String>)>);

impl Canaries {
    fn plant(&mut self, place: &str) -> String {
        let text = format!("canary-{}-of-{}", self.0.len(), place.replace(' ', "-"));
        self.keep(place, &text);
        text
    }

    fn keep(&mut self, place: &str, text: &str) {
        let forms = [text.to_owned(), STANDARD.encode(text), hex::encode(text), text.replace('-', "%2D")];
        self.0.push((place.to_owned(), forms.to_vec()));
    }
}

impl World {
    pub(super) async fn new() -> Self {
        let t = TestServer::start().await;
        let admin = &t.admin;
        let mut canaries = Canaries(Vec::new());
        let (remote, service_reader, sibling_writer) = (
            remote(),
            admin.add_user("service-reader@example.com").await,
            admin.add_user("sibling-writer@example.com").await,
        );
        let writer = admin.add_user("writer@example.com").await;
        let made = async |document: &str, variables: Value| {
            let data = admin.data(document, variables).await;
            let thing = data.as_object().unwrap().values().next().unwrap();
            thing["id"].as_str().unwrap_or_default().to_owned()
        };
        let sibling = made(
            "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }",
            json!({"a": {"name": "sibling", "writeBindings": [{"userId": sibling_writer.id}]}}),
        )
        .await;
        let bind = "mutation ($r: RbacAttributes!, $p: ID) { updateRbac(rbac: $r, projectId: $p) }";
        let shared =
            json!({"readBindings": [{"userId": t.reader.id}], "writeBindings": [{"userId": writer.id}]});
        admin.data(bind, json!({"r": shared, "p": t.project})).await;

        let cluster = admin.cluster("blue").await;
        canaries.keep("deploy token", cluster["deployToken"].as_str().unwrap());
        let cluster = cluster["id"].as_str().unwrap().to_owned();
        let spare = admin.cluster("spare").await["id"].as_str().unwrap().to_owned();
        let elsewhere = json!({"a": {"name": "elsewhere", "projectId": sibling}});
        made("mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id } }", elsewhere).await;

        let source =
            admin.repository(remote.path().to_str().unwrap()).await["id"].as_str().unwrap().to_owned();
        let repository = "mutation ($a: GitAttributes!) { createGitRepository(attributes: $a) { id } }";
        let proxy = format!("http://ada:{}@proxy.invalid:3128", canaries.plant("proxy of a repository"));
        let https = json!({
            "url": "https://git.invalid/a.git", "username": "ada", "password": canaries.plant("password of a repository"),
            "proxy": {"url": proxy},
        });
        let repository_id = made(repository, json!({"a": https})).await;
        let key = format!(
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----",
            canaries.plant("key of a repository")
        );
        let ssh = json!({
            "url": "git@git.invalid:b.git", "privateKey": key, "passphrase": canaries.plant("passphrase of a key"),
        });
        made(repository, json!({"a": ssh})).await;
        let rotate = "mutation ($r: ID!) { rotateGitRepositoryWebhook(id: $r) { secret } }";
        let webhook = admin.data(rotate, json!({"r": repository_id})).await;
        let secret = webhook["rotateGitRepositoryWebhook"]["secret"].as_str().unwrap();
        canaries.keep("webhook secret of a repository", secret);
        let charts = "mutation ($u: String!, $a: HelmRepositoryAttributes) { upsertHelmRepository(url: $u, attributes: $a) { id } }";
        let basic = json!({
            "provider": "BASIC", "auth": {
                "basic": {"username": "ada", "password": canaries.plant("password of a chart repository")},
            },
        });
        made(charts, json!({"u": "https://charts.invalid/stable", "a": basic})).await;
        let bearer = json!({"provider": "BEARER", "auth": {"bearer": {"token": canaries.plant("token of a chart repository")}}});
        made(charts, json!({"u": "oci://charts.invalid/team", "a": bearer})).await;

        let context = json!({
            "projectId": t.project, "configuration": {"domain": "example.com"},
            "secrets": [{"name": "key", "value": canaries.plant("secret of a context")}],
        });
        let save = "mutation ($a: ServiceContextAttributes!) { saveServiceContext(name: \"network\", attributes: $a) { id } }";
        let context = made(save, json!({"a": context})).await;

        let service = json!({
            "name": "web", "namespace": "shop", "repositoryId": source, "git": {"ref": "main", "folder": "web"},
            "templated": true, "readBindings": [{"userId": service_reader.id}],
            "contextBindings": [{"contextId": context}],
            "configuration": [
                {"name": "password", "value": canaries.plant("configuration of a service")},
                {"name": "other", "value": canaries.plant("configuration that nothing shows")},
            ],
            "helm": {
                "values": format!("key: {}\n", canaries.plant("values of a service")),
                "set": {"name": "image.tag", "value": canaries.plant("value that a service sets")},
            },
            "renderers": [{"path": "raw", "type": "RAW"}, {
                "path": "charts/a", "type": "HELM",
                "helm": {"values": format!("key: {}\n", canaries.plant("values of a renderer"))},
            }],
        });
        let create = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) { createServiceDeployment(clusterId: $c, attributes: $a) { id } }";
        let service = made(create, json!({"c": cluster, "a": service})).await;
        let window = "mutation ($s: ID, $a: SyncWindowAttributes!) { createSyncWindow(serviceId: $s, attributes: $a) { id } }";
        made(window, json!({"s": service, "a": {"kind": "DENY", "schedule": "0 0 1 1 *", "duration": 60}}))
            .await;
        // A second revision, and things that hold the first one's values.
        let update = "mutation ($s: ID, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $s, attributes: $a) { id } }";
        made(update, json!({"s": service, "a": {"git": {"ref": "main", "folder": "web"}}})).await;
        let clone = "mutation ($c: ID!, $s: ID!) { cloneService(clusterId: $c, serviceId: $s, attributes: {name: \"copy\"}) { id } }";
        made(clone, json!({"c": cluster, "s": service})).await;

        let template = |value: String, values: String| {
            json!({
                "repositoryId": source, "git": {"ref": "main", "folder": "web"}, "templated": true, "namespace": "shop",
                "configuration": [{"name": "password", "value": value}], "helm": {"values": format!("key: {values}\n")},
            })
        };
        let global = json!({
            "name": "everywhere", "projectId": t.project, "tags": [{"name": "stage", "value": "blue"}],
            "template": template(canaries.plant("configuration of a template"), canaries.plant("values of a template")),
        });
        let create = "mutation ($a: GlobalServiceAttributes!) { createGlobalService(attributes: $a) { id } }";
        let global = made(create, json!({"a": global})).await;
        let managed = json!({
            "name": "team", "projectId": t.project, "target": {"tags": {"stage": "blue"}},
            "service": template(
                canaries.plant("configuration of a managed namespace"), canaries.plant("values of a managed namespace"),
            ),
        });
        let create =
            "mutation ($a: ManagedNamespaceAttributes!) { createManagedNamespace(attributes: $a) { id } }";
        let managed = made(create, json!({"a": managed})).await;
        let policy = json!({"record": true, "input": true, "userReaders": ["writer@example.com"]});
        let set = "mutation ($p: ID!, $a: RecordingPolicyAttributes!) { setRecordingPolicy(projectId: $p, attributes: $a) { record } }";
        admin.data(set, json!({"p": t.project, "a": policy})).await;

        let group = made("mutation { createGroup(attributes: {name: \"sre\"}) { id } }", json!({})).await;
        let member = json!({"g": group, "u": t.reader.id});
        admin
            .data("mutation ($g: ID!, $u: ID!) { createGroupMember(groupId: $g, userId: $u) { id } }", member)
            .await;
        let role = "mutation { createRole(attributes: {name: \"operator\", actions: [\"read\"]}) { id } }";
        let bound = json!({"r": made(role, json!({})).await, "u": t.reader.id, "c": cluster});
        let bind = "mutation ($r: ID, $u: ID!, $c: ID) { changeBindings(roleId: $r, add: [{userId: $u}], clusterId: $c) }";
        admin.data(bind, bound).await;
        let machine = "mutation { createServiceAccount(attributes: {name: \"deployer\"}) { id } }";
        let account = made(machine, json!({})).await;
        let federate = "mutation ($a: FederatedCredentialAttributes!) { createFederatedCredential(attributes: $a) { id } }";
        let credential = json!({"userId": account, "issuer": "https://ci.invalid", "audience": "plural", "subject": "job"});
        let credential = made(federate, json!({"a": credential})).await;
        let register =
            "mutation ($a: BootstrapTokenAttributes!) { createBootstrapToken(attributes: $a) { id token } }";
        let terms = json!({
            "projectId": t.project, "name": "shops", "limit": 7, "prefix": "shop-", "tags": [{"name": "a", "value": "b"}],
        });
        let registration = admin.data(register, json!({"a": terms})).await["createBootstrapToken"].clone();
        canaries.keep("registration token", registration["token"].as_str().unwrap());
        let machine = t.nobody.with_token(registration["token"].as_str().unwrap());
        let persona = json!({
            "name": "developers", "description": "they deploy", "role": "DEVELOPER", "bindings": [{"groupId": group}],
            "configuration": {
                "all": false, "home": {"manager": true}, "deployments": {"clusters": true}, "flows": {"pipelines": false},
                "sidebar": {"cd": true}, "services": {"secrets": false}, "ai": {"pr": false},
            },
        });
        made(
            "mutation ($a: PersonaAttributes!) { createPersona(attributes: $a) { id } }",
            json!({"a": persona}),
        )
        .await;
        let provider = json!({
            "name": "acme", "issuer": "https://id.invalid", "clientId": "plural", "groupsClaim": "groups", "scopes": ["email"],
            "domains": ["example.com"], "groups": [{"claim": "ops", "groupId": group}],
            "clientSecret": canaries.plant("client secret of a provider"),
        });
        let create =
            "mutation ($a: IdentityProviderAttributes!) { createIdentityProvider(attributes: $a) { id } }";
        admin.data(create, json!({"a": provider})).await;
        let invite = "mutation ($a: InviteAttributes!) { createInvite(attributes: $a) { id token } }";
        let invite =
            admin.data(invite, json!({"a": {"email": "invited@example.com", "groupIds": [group]}})).await;
        canaries.keep("code of an invitation", invite["createInvite"]["token"].as_str().unwrap());
        t.plant_passkey(&t.admin.id).await;
        let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
        let key = |canary: String| {
            format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{canary}\n-----END OPENSSH PRIVATE KEY-----")
        };
        let proxy = format!("http://ada:{}@proxy.invalid:3128", canaries.plant("proxy of a connection"));
        let forge = json!({
            "name": "forge", "type": "GITEA", "projectId": t.project, "default": true, "owner": "acme", "username": "bot",
            "baseUrl": "https://git.invalid", "apiUrl": "https://git.invalid/api/v1", "repositories": ["acme/*"],
            "token": canaries.plant("token of a connection"), "proxy": {"url": proxy},
            "signingPrivateKey": key(canaries.plant("signing key of a connection")),
        });
        let scm = made(create, json!({"a": forge})).await;
        let plain = json!({
            "name": "plain", "type": "PLAIN", "projectId": t.project, "baseUrl": "ssh://git@git.invalid/srv",
            "knownHosts": "git.invalid ssh-ed25519 AAAA", "sshPrivateKey": key(canaries.plant("ssh key of a connection")),
            "sshPassphrase": canaries.plant("passphrase of a connection"),
        });
        made(create, json!({"a": plain})).await;
        let create = "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }";
        let mut automation = json!({
            "name": "Add a service", "projectId": t.project, "connectionId": scm, "repositoryId": repository_id, "serviceId": service,
            "clusterId": cluster, "role": "SERVICE", "documentation": "Adds one.", "icon": "https://example.com/a.png",
            "darkIcon": "https://example.com/b.png", "addon": "redis", "labels": ["infra"], "identifier": "shop", "branch": "main",
            "branchPrefix": "plural/service", "title": "Add {{ context.name }}", "message": "Adds it", "patch": false,
            "configuration": [{"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$", "uniqBy": {"scope": "CLUSTER"}}}],
            "confirmation": {"text": "Sure?", "checklist": [{"label": "I asked"}]},
            "secrets": {"cluster": "blue", "namespace": "shop", "name": "db", "entries": [{"name": "password", "autogenerate": true}]},
            "git": {"ref": "main", "folder": "templates"}, "readBindings": [], "createBindings": [{"groupId": group}],
        });
        let actions = json!({
            "creates": {"git": {"ref": "main", "folder": "more"}, "templates": [
                {"source": "a.yaml", "destination": "b.yaml", "external": true, "context": "{\"a\": 1}", "condition": "a == 1",
                 "verbatim": ["name"]},
            ]},
            "updates": {
                "regexReplacements": [{"file": "a", "regex": "b", "replacement": "c"}], "regexes": ["a"], "files": ["b"],
                "yamlOverlays": [{"file": "a", "yaml": "b: 1", "listMerge": "APPEND", "listKey": "name",
                                  "document": {"index": 0, "kind": "Service", "name": "web"}}],
                "edits": [{"file": "a", "format": "yaml", "document": {"index": 0, "kind": "Service", "name": "web"},
                           "edit": {"op": "set", "path": "a.b", "value": 1}}],
                "replaceTemplate": "c", "yq": ".", "matchStrategy": "ANY",
            },
            "deletes": {"files": ["old.yaml"], "folders": ["gone"]},
            "vendor": {"helm": {"url": "oci://example.com/charts", "chart": "redis", "version": "1.0.0", "destination": "charts"}},
            "lua": {"script": "return"},
        });
        automation.as_object_mut().unwrap().extend(actions.as_object().unwrap().clone());
        let automation = made(create, json!({"a": automation})).await;
        let opened = t.plant_pull_request(&json!(automation)).await;
        let plan = "mutation ($id: ID!) { createFleetPlan(repositoryId: $id, ref: \"main\") { id } }";
        let fleet = made(plan, json!({"id": repository_id})).await;
        let fleet_part = t.plant_fleet_part(&json!(fleet), &json!(service)).await;
        let simple = json!({
            "name": "Add a secret", "projectId": t.project, "connectionId": scm, "title": "Add", "message": "Adds it",
            "configuration": [{"name": "key", "type": "PASSWORD"}, {"name": "name", "type": "STRING"}],
        });
        let simple = made(create, json!({"a": simple})).await;
        let answers = json!({"key": canaries.plant("secret answer to an automation"), "name": "shop"});
        let instance = t.plant_instance(&json!(simple), &answers).await;
        let create =
            "mutation ($a: ScmWebhookAttributes!) { createScmWebhookPointer(attributes: $a) { id } }";
        let hook = json!({
            "connectionId": scm, "type": "GITEA", "owner": "acme", "hmac": canaries.plant("secret of a webhook of a git host"),
        });
        let hook = made(create, json!({"a": hook})).await;
        let create = "mutation ($a: PrGovernanceAttributes!) { upsertPrGovernance(attributes: $a) { id } }";
        let governance = json!({
            "type": "WEBHOOK", "name": "board", "connectionId": scm, "projectId": t.project,
            "configuration": {"webhook": {
                "url": "https://governance.invalid", "secret": canaries.plant("secret of a governance"),
            }},
        });
        let governance = made(create, json!({"a": governance})).await;
        let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
        let app = json!({
            "name": "app", "type": "GITHUB", "projectId": t.project, "repositories": ["acme/**"],
            "github": {"appId": "1", "installationId": "2", "privateKey": key(canaries.plant("key of an App"))},
        });
        made(create, json!({"a": app})).await;
        let azure = json!({
            "name": "azure", "type": "AZURE_DEVOPS", "token": canaries.plant("token of Azure DevOps"),
            "azure": {"username": "bot", "organization": "acme", "project": "shop"},
        });
        made(create, json!({"a": azure})).await;
        let datacenter = json!({
            "name": "datacenter", "type": "BITBUCKET_DATACENTER", "projectId": t.project, "baseUrl": "https://bitbucket.invalid",
            "username": "bot", "token": canaries.plant("password of Bitbucket"), "bitbucketDatacenter": {"userSlug": "bot"},
        });
        made(create, json!({"a": datacenter})).await;
        let view = json!({"name": "All", "page": "services", "query": ""});
        let create = "mutation ($a: SavedViewAttributes!) { createSavedView(attributes: $a) { id } }";
        let view = made(create, json!({"a": view})).await;
        let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
        let stack = json!({
            "name": "infra", "type": "TERRAFORM", "projectId": t.project, "clusterId": cluster, "repositoryId": repository_id,
            "git": {"ref": "main", "folder": ""}, "approval": true, "approvalExpiry": "24h", "timeout": "2h",
            "manageState": true, "variables": {"region": "eu"}, "tags": [{"name": "stage", "value": "blue"}],
            "interval": "24h",
            "cron": {
                "crontab": "@yearly", "timeZone": "Europe/Berlin", "autoApprove": true,
                "overrides": {"terraform": {"parallelism": 2}},
            },
            "drift": {"crontab": "@yearly", "timeZone": "Europe/Berlin"},
            "jobSpec": {
                "namespace": "runs", "labels": {"a": "b"}, "annotations": {"a": "b"}, "nodeSelector": {"a": "b"},
                "serviceAccount": "tofu", "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
            },
            "configuration": {
                "image": "tools/tofu", "version": "1.12", "tag": "1.12",
                "hooks": [{"cmd": "tflint", "args": ["--format"], "afterStage": "INIT"}],
                "terraform": {"parallelism": 4, "refresh": true, "approveEmpty": true, "tofu": true, "tofuRegistry": false},
                "terragrunt": {"parallelism": 4, "refresh": true, "approveEmpty": true},
                "pulumi": {"parallel": 4, "refresh": true, "approveEmpty": true, "stack": "dev", "backendUrl": "file:///state"},
                "ansible": {
                    "playbook": "main.yaml", "inventory": "hosts", "additionalArgs": ["-v"], "privateKeyFile": "key",
                    "configFile": "ansible.cfg", "supportsCheck": true, "deletePlaybook": "undo.yaml",
                },
            },
            "environment": [{"name": "TOKEN", "value": canaries.plant("environment of a stack"), "secret": true}],
            "files": [{"path": "key.pem", "content": canaries.plant("file of a stack")}],
        });
        let stack = made(create, json!({"a": stack})).await;
        // Where the limits of a project name no namespaces for runs, it can name none.
        let job = json!({"jobSpec": {"labels": {"a": "b"}, "tolerations": [{"key": "a"}]}});
        let mut all = job.clone();
        all["jobSpec"]["namespace"] = json!("runs");
        let settings = "mutation ($p: ID!, $a: StackSettingsAttributes!, $all: StackSettingsAttributes!) {
            setProjectStackSettings(projectId: $p, attributes: $a) { id }
            updateDeploymentSettings(attributes: {stacks: $all}) { stacks { jobSpec { namespace } } } }";
        admin.data(settings, json!({"p": t.project, "a": job, "all": all})).await;
        let definition = "mutation { createStackDefinition(attributes: {name: \"deploy\", description: \"for all\", steps: [{cmd: \"make\", args: [\"-k\"]}], deleteSteps: [{cmd: \"undo\"}]}) { id } }";
        made(definition, json!({})).await;
        let create =
            "mutation ($a: CustomStackRunAttributes!) { createCustomStackRun(attributes: $a) { id } }";
        let custom = json!({
            "name": "Grow", "documentation": "Makes it larger.", "stackId": stack,
            "commands": [{"cmd": "grow", "args": ["-v"], "dir": "deep", "approve": true}],
            "configuration": [
                {"type": "BOOL", "name": "LARGER", "default": "true", "optional": true},
                {
                    "type": "ENUM", "name": "SIZE", "default": "3", "documentation": "How large", "longform": "In pods.",
                    "displayName": "Size", "placeholder": "5", "page": 1, "values": ["3", "5"],
                    "condition": {"operation": "EQ", "field": "LARGER", "value": "true"},
                    "validation": {"regex": "^[0-9]$", "json": true},
                },
            ],
        });
        let custom = made(create, json!({"a": custom})).await;
        let trigger = "mutation ($id: ID!) { triggerRun(id: $id, dryRun: true) { id } }";
        let run = made(trigger, json!({"id": stack})).await;
        let states = [canaries.plant("state of a stack"), canaries.plant("later state of a stack")];
        let (first_state, second_state) = write_states(admin, &stack, &states).await;
        let token =
            admin.data("mutation { createAccessToken { id token } }", json!({})).await["createAccessToken"]
                .clone();
        canaries.keep("access token", token["token"].as_str().unwrap());
        let gate = admin.data("query ($s: ID!) { serviceGateUrl(id: $s) }", json!({"s": service})).await;
        canaries
            .keep("address of a gate", gate["serviceGateUrl"].as_str().unwrap().rsplit('/').next().unwrap());
        t.dead_job("of-the-sweep", &canaries.plant("payload of a job")).await;
        canaries.keep("webhook secret", WEBHOOK_SECRET);
        canaries.keep("password of the administrator", "correct horse battery");
        canaries.keep("password of users", "another long password");
        let sessions = [&t.admin, &t.reader, &writer].map(|person| person.token.clone().unwrap());
        for session in &sessions {
            canaries.keep("session", session);
        }

        let begin = "mutation { beginSecondFactor { secret } }";
        let begun = writer.data(begin, json!({})).await;
        canaries.keep("second factor", begun["beginSecondFactor"]["secret"].as_str().unwrap());
        // A canary is in whatever is sealed, but where another test plants one.
        for column in SealedColumn::ALL {
            let Ok(place) = planted(column) else { continue };
            let is_there = canaries.0.iter().any(|(name, _)| name == place);
            assert!(is_there, "no secret is planted in {column:?}, as {place:?}");
        }

        // The artifact is there, and so is what it renders to.
        eventually(Duration::from_mins(1), async || {
            let ask = "query ($id: ID) { servicePreview(id: $id) { objects { name } errors { message } } }";
            let preview = admin.data(ask, json!({"id": service})).await["servicePreview"].clone();
            let errors = "query ($id: ID) { serviceDeployment(id: $id) { status errors { source message } repository { error health } } }";
            let errors = admin.data(errors, json!({"id": service})).await;
            let objects = preview["objects"].as_array().map_or(0, Vec::len);
            if objects >= 4 { Ok(()) } else { Err(format!("{preview} {errors}")) }
        })
        .await;

        let ids = vec![
            ("token", token["id"].as_str().unwrap().to_owned()),
            ("cluster", cluster),
            ("spare", spare),
            ("repository", repository_id),
            ("global", global),
            ("managed", managed),
            ("project", t.project.clone()),
            ("service", service),
            ("stack", stack),
            ("run", run),
            ("custom", custom),
            ("first_state", first_state),
            ("second_state", second_state),
            ("view", view),
            ("scm", scm),
            ("automation", automation),
            ("instance", instance),
            ("opened", opened),
            ("fleet", fleet),
            ("fleet_part", fleet_part),
            ("hook", hook),
            ("governance", governance),
            ("machine", account),
            ("credential", credential),
            ("registration", registration["id"].as_str().unwrap().to_owned()),
            ("group", group),
            ("user", writer.id.clone()),
        ];
        let people = [
            ("nobody", t.nobody.clone()),
            ("stranger", t.stranger.clone()),
            ("service reader", service_reader),
            ("reader", t.reader.clone()),
            ("sibling's writer", sibling_writer),
            ("writer", writer),
            ("registration token", machine),
            ("admin", t.admin.clone()),
        ];
        Self { t, _remote: remote, people, ids, canaries: canaries.0 }
    }

    pub(super) fn people(&self) -> impl Iterator<Item = (&'static str, &Person)> {
        self.people.iter().map(|(who, person)| (*who, person))
    }

    /// Arguments with the ids of this world.
    pub(super) fn arguments(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (name, id)| {
            text.replace(&format!("\"${name}\""), &format!("\"{id}\""))
        })
    }

    pub(super) async fn stop(self) {
        self.t.console.stop().await.unwrap();
    }
}

/// Two states of a stack with a secret in each, the second one locked; the ids of both.
async fn write_states(admin: &Person, stack: &str, secrets: &[String; 2]) -> (String, String) {
    let path = format!("/v1/stacks/{stack}/state");
    for (serial, secret) in secrets.iter().enumerate() {
        let instance = json!({"attributes": {"id": "1", "input": secret}, "sensitive_attributes": []});
        let state = json!({
            "version": 4, "serial": serial, "lineage": "a", "outputs": {"address": {"value": secret, "type": "string"}},
            "resources": [{
                "mode": "managed", "type": "terraform_data", "name": "a", "provider": "p", "instances": [instance],
            }],
        });
        let written = admin.post(&path, "application/json", state.to_string()).await;
        assert_eq!(written.status, 200, "{written:?}");
    }
    let lock = reqwest::Method::from_bytes(b"LOCK").unwrap();
    let locked = admin
        .http()
        .request(lock, format!("{}{path}", admin.next_url()))
        .header("authorization", format!("Token {}", admin.token.as_ref().unwrap()))
        .body(json!({"ID": "one", "Operation": "OperationTypeApply", "Who": "ada@box"}).to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(locked.status(), 200);
    let ask = "query ($id: ID) { infrastructureStack(id: $id) { stateVersions { id } } }";
    let versions = admin.data(ask, json!({"id": stack})).await;
    let of = |at: usize| {
        let id = &versions["infrastructureStack"]["stateVersions"][at]["id"];
        id.as_str().unwrap().to_owned()
    };
    (of(1), of(0))
}

/// A folder whose templates show what they are given, in every way that a manifest can.
fn remote() -> GitRemote {
    let remote = GitRemote::new().unwrap();
    let object = |kind: &str, name: &str, rest: &str| {
        format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n{rest}")
    };
    remote
        .push_files([
            (
                "web/raw/map.yaml.liquid",
                object("ConfigMap", "map", "data:\n  password: \"{{ configuration.password }}\"\n  encoded: \"{{ configuration.password | b64enc }}\"\n"),
            ),
            (
                "web/raw/secret.yaml.liquid",
                object("Secret", "login", "  annotations: {note: \"{{ configuration.password }}\"}\nstringData:\n  password: \"{{ configuration.password }}\"\n"),
            ),
            (
                "web/raw/pod.yaml.liquid",
                object("Pod", "pod", "  annotations: {key: \"{{ contexts.network.key }}\"}\nspec:\n  containers:\n  - name: a\n    image: nginx:1\n    env: [{name: A, value: \"{{ configuration.password }}\"}]\n"),
            ),
            ("web/charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n".to_owned()),
            ("web/charts/a/templates/a.yaml", object("ConfigMap", "chart", "data:\n  key: {{ .Values.key | quote }}\n")),
        ])
        .unwrap();
    remote
}
