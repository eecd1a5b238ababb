//! Each kind of reference beside each place of a service that a value can go to: what is deployed, and that plans, drift, errors and
//! reports show that there is a value, and not which. What a ConfigMap holds is no secret, and is shown.
//!
//! Vault and OpenBao cannot be built where these tests run: a server stands in that was written from their public descriptions.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use plural_agent::{Agent, VaultConfig};
use plural_testkit::{TestCluster, VaultRole, VaultServer, each_cluster, eventually};
use serde_json::{Map, Value, json};

use crate::{
    asker::{Asker, OF_A_SERVICE, holds_none},
    remains::{account, create, identity, object, until_data},
    world::{PATIENCE, World},
};

each_cluster!(
    every_kind_of_reference_goes_to_every_place_and_is_told_nowhere,
    an_error_that_quotes_a_value_of_any_kind_shows_the_mask,
);

const ENV: &str = include_str!("../../../agent/tests/encrypted/keys.enc.env");
const TOKEN: &str = include_str!("../../../agent/tests/encrypted/token.armoured.age");
const MASK: &str = "********";
const CHART: &str = "apiVersion: v2\nname: chart\nversion: 1.0.0\n";

/// A kind of reference.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// The name of the value, and of the key that it goes to.
    name: &'static str,
    value: &'static str,
    is_secret: bool,
}

const OPEN: &str = "inaconfigmap-7c20";
const KINDS: [Kind; 5] = [
    Kind { name: "ofsecret", value: "inasecret-4be1aa07", is_secret: true },
    Kind { name: "ofmap", value: OPEN, is_secret: false },
    Kind { name: "ofvault", value: "invault-91d3c05e", is_secret: true },
    // What is encrypted in `keys.enc.env` and `token.armoured.age`.
    Kind { name: "ofsops", value: "age-canary-5f21", is_secret: true },
    Kind { name: "ofage", value: "a token of these tests", is_secret: true },
];

impl Kind {
    fn reference(self) -> Value {
        let from = match self.name {
            "ofsecret" => json!({"secretKeyRef": {"name": "login", "key": "key"}}),
            "ofmap" => json!({"configMapKeyRef": {"name": "site", "key": "key"}}),
            "ofvault" => json!({"vaultKeyRef": {"path": "secret/shop/db", "key": "key"}}),
            "ofsops" => json!({"sopsKeyRef": {"file": "keys.enc.env", "key": "TOKEN"}}),
            _ => json!({"ageKeyRef": {"file": "token.age"}}),
        };
        json!({"name": self.name, "valueFrom": from})
    }
}

fn secrets() -> Vec<(&'static str, String)> {
    KINDS.iter().filter(|kind| kind.is_secret).map(|kind| (kind.name, kind.value.to_owned())).collect()
}

/// A ConfigMap of this name with a key for each kind.
fn filled(name: &str, value: impl Fn(&str) -> String) -> String {
    let mut text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n");
    for Kind { name, .. } in KINDS {
        text += &format!("  {name}: {}\n", value(name));
    }
    text
}

/// Files of a chart that has the values of this name.
fn chart(folder: &str) -> [(String, String); 2] {
    let template = filled(folder, |name| format!("{{{{ .Values.{name} | trim | quote }}}}"));
    [(format!("{folder}/Chart.yaml"), CHART.to_owned()), (format!("{folder}/templates/map.yaml"), template)]
}

/// The places: a folder for each, and what its service is given besides.
const PLACES: [(&str, &str); 5] = [
    ("manifest", "{}"),
    ("gotemplate", "{}"),
    ("valuesfile", r#"{"helm": {"valuesFiles": ["prod.yaml.liquid"]}}"#),
    ("helmvalues", r#"{"helm": {"luaFile": "values.lua"}}"#),
    // What is no template takes no value: it is applied as it stands.
    ("raw", "{}"),
];
const RAW: &str = "raw";

/// What stands in the raw manifest, and stays.
fn unfilled(name: &str) -> String {
    format!("{{{{ configuration.{name} }}}}")
}

fn files() -> Vec<(String, String)> {
    let liquid = |name: &str| format!("{{{{ configuration.{name} | strip | toJson }}}}");
    let mut values = String::new();
    let mut lua = String::from("values = {}\n");
    for Kind { name, .. } in KINDS {
        values += &format!("{name}: {}\n", liquid(name));
        lua += &format!("values.{name} = configuration.{name}\n");
    }
    let go = |name: &str| format!("{{{{ .Configuration.{name} | trim | quote }}}}");
    let mut files = vec![
        ("manifest/a.yaml.liquid".to_owned(), filled("manifest", liquid)),
        ("gotemplate/a.yaml.tpl".to_owned(), filled("gotemplate", go)),
        ("valuesfile/prod.yaml.liquid".to_owned(), values),
        ("helmvalues/values.lua".to_owned(), lua),
        ("raw/a.yaml".to_owned(), filled(RAW, |name| format!("\"{}\"", unfilled(name)))),
    ];
    files.extend(chart("valuesfile"));
    files.extend(chart("helmvalues"));
    for (folder, _) in PLACES {
        files.extend(encrypted(folder));
    }
    files
}

fn encrypted(folder: &str) -> [(String, String); 2] {
    [(format!("{folder}/keys.enc.env"), ENV.to_owned()), (format!("{folder}/token.age"), TOKEN.to_owned())]
}

/// A world in which references of every kind lead to something.
struct Case {
    w: World,
    admin: Asker,
    /// Runs as long as the world does.
    _vault: VaultServer,
}

impl Case {
    async fn new(cluster: TestCluster) -> anyhow::Result<Self> {
        let mut w = World::without_agent(cluster).await?;
        let vault = VaultServer::start(w.cluster.kubeconfig())?;
        let mut config = w.agent_config().await?;
        let mut known = VaultConfig::new(vault.url());
        known.poll_every = Duration::from_millis(300);
        config.vault = Some(known);
        let admin = Asker::administrator(&w.console.url).await?;
        let projects = admin.data("{ projects { edges { node { name } } } }", json!({})).await?;
        let project =
            projects["projects"]["edges"][0]["node"]["name"].as_str().unwrap_or_default().to_owned();
        identity(&w.client, w.agent_namespace(), &project).await?;
        account(&w.client, &w.namespace).await?;
        let [of_secret, of_map, of_vault, ..] = KINDS.map(|kind| kind.value);
        let login: Secret = object(json!({"metadata": {"name": "login"}, "stringData": {"key": of_secret}}));
        let logins: Api<Secret> = Api::namespaced(w.client.clone(), &w.namespace);
        logins.create(&PostParams::default(), &login).await?;
        let site: ConfigMap = object(json!({"metadata": {"name": "site"}, "data": {"key": of_map}}));
        w.maps().create(&PostParams::default(), &site).await?;
        vault.put("secret/shop/db", &json!({"key": of_vault}));
        let role = VaultRole {
            account: (w.namespace.clone(), "deployer".to_owned()),
            audience: "vault".to_owned(),
            reads: vec!["secret/data/shop/".to_owned()],
            lasts: 3600,
        };
        vault.set_role(&format!("{}-deployer", w.namespace), role);
        w.agent = Some(Agent::start(config)?);
        Ok(Self { w, admin, _vault: vault })
    }

    /// A service of this folder with these references.
    async fn service(&self, folder: &str, kinds: &[Kind], more: &str) -> anyhow::Result<String> {
        let references: Vec<Value> = kinds.iter().map(|kind| kind.reference()).collect();
        let mut attributes = json!({"name": folder, "namespace": self.w.namespace, "repositoryId": self.w.repository,
            "git": {"ref": "main", "folder": folder}, "configuration": references, "syncConfig": sync(false)});
        let more: Map<String, Value> = serde_json::from_str(more)?;
        attributes.as_object_mut().unwrap().extend(more);
        create(&self.admin, &self.w.registered.id, attributes).await
    }

    async fn data(&self, document: &str, variables: Value) -> Result<Value, String> {
        self.admin.data(document, variables).await.map_err(|error| format!("{error:#}"))
    }

    /// Nothing that the console tells of a service holds a secret.
    async fn tells_nothing(&self, name: &str, id: &str) -> anyhow::Result<()> {
        for (place, document) in OF_A_SERVICE {
            let answer = self.admin.ask(document, json!({"id": id})).await?.to_string();
            holds_none(&format!("{place} of {name}"), answer.as_bytes(), &secrets());
        }
        Ok(())
    }
}

/// How the services are synchronised: by themselves, or only when somebody says so.
fn sync(is_manual: bool) -> Value {
    json!({"createNamespace": false, "serviceAccount": "deployer",
        "policy": {"manual": is_manual, "selfHeal": !is_manual}})
}

/// Before and after of the field that a kind goes to, in plans and drift.
fn sides(told: &Value, name: &str) -> Vec<String> {
    match told {
        Value::Object(fields)
            if fields.get("path").and_then(Value::as_str).is_some_and(|path| path.ends_with(name)) =>
        {
            vec![format!("{} {}", fields["before"], fields["after"])]
        }
        Value::Object(fields) => fields.values().flat_map(|value| sides(value, name)).collect(),
        Value::Array(items) => items.iter().flat_map(|item| sides(item, name)).collect(),
        _ => Vec::new(),
    }
}

/// Each kind is told of, as it may be.
fn shows_masks(told: &Value) -> Result<(), String> {
    for Kind { name, value, is_secret } in KINDS {
        let sides = sides(told, name);
        let is_right = |side: &String| {
            if is_secret { side.contains(MASK) && !side.contains(value) } else { side.contains(value) }
        };
        if sides.is_empty() || !sides.iter().all(is_right) {
            return Err(format!("{name}: {sides:?} in {told}"));
        }
    }
    Ok(())
}

async fn every_kind_of_reference_goes_to_every_place_and_is_told_nowhere(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let case = Box::pin(Case::new(cluster)).await?;
    let w = &case.w;
    let sha = w.remote.push_files(files())?;
    let mut services = Vec::new();
    for (folder, more) in PLACES {
        services.push((folder, case.service(folder, &KINDS, more).await?));
    }
    let maps = w.maps();
    let is_filled = async |folder: &str| {
        for Kind { name, value, .. } in KINDS {
            let value = if folder == RAW { unfilled(name) } else { value.to_owned() };
            until_data(&maps, folder, name, &value).await;
        }
    };
    for (folder, id) in &services {
        w.person.stands_at(id, &sha).await;
        is_filled(folder).await;
    }

    let by_hand: Map<String, Value> =
        KINDS.iter().map(|kind| (kind.name.to_owned(), json!("by hand"))).collect();
    let by_hand = Patch::Merge(json!({"data": by_hand}));
    let [_, _, _, (_, drift), _] = OF_A_SERVICE;
    let update = "mutation ($id: ID!, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }";
    let ask = "mutation ($id: ID!) { planService(id: $id) { requestId } }";
    let plan = "query ($id: ID!, $request: ID) { servicePlan(serviceId: $id, requestId: $request) {
        error objects { object { name } fields { path before after } } } }";
    for (folder, id) in services.iter().filter(|(folder, _)| *folder != RAW) {
        // Somebody changes the object, and the agent changes it back: that is told as drift.
        maps.patch(folder, &PatchParams::default(), &by_hand).await?;
        is_filled(folder).await;
        eventually(PATIENCE, async || shows_masks(&case.data(drift, json!({"id": id})).await?)).await;
        // Where nobody changes it back, it is a plan.
        case.data(update, json!({"id": id, "a": {"syncConfig": sync(true)}}))
            .await
            .map_err(anyhow::Error::msg)?;
        eventually(PATIENCE, async || {
            // Until the agent knows that it is not to, it changes the object back.
            maps.patch(folder, &PatchParams::default(), &by_hand).await.map_err(|error| error.to_string())?;
            let request = case.data(ask, json!({"id": id})).await?["planService"]["requestId"].take();
            eventually(PATIENCE, async || {
                let told = case.data(plan, json!({"id": id, "request": request})).await?;
                if told["servicePlan"].is_null() { Err("no plan yet".to_owned()) } else { Ok(()) }
            })
            .await;
            shows_masks(&case.data(plan, json!({"id": id, "request": request})).await?)
        })
        .await;
    }
    for (folder, id) in &services {
        case.tells_nothing(folder, id).await?;
    }
    case.w.end().await
}

/// The engines, each with the place where it says which value it does not like.
const FAILING: [&str; 2] = ["tpl", "chart"];

async fn an_error_that_quotes_a_value_of_any_kind_shows_the_mask(cluster: TestCluster) -> anyhow::Result<()> {
    let case = Box::pin(Case::new(cluster)).await?;
    let mut files = Vec::new();
    for kind in KINDS {
        for engine in FAILING {
            let folder = format!("{engine}-{}", kind.name);
            let fail =
                |of: &str| format!("{{{{ fail (printf \"no good: <%s>\" ({of}.{} | trim)) }}}}\n", kind.name);
            if engine == "tpl" {
                files.push((format!("{folder}/a.yaml.tpl"), fail(".Configuration")));
            } else {
                files.push((format!("{folder}/Chart.yaml"), CHART.to_owned()));
                files.push((format!("{folder}/templates/a.yaml"), fail(".Values")));
                let value = format!("values = {{{0} = configuration.{0}}}\n", kind.name);
                files.push((format!("{folder}/values.lua"), value));
            }
            files.extend(encrypted(&folder));
        }
    }
    case.w.remote.push_files(files)?;
    let mut services = Vec::new();
    for kind in KINDS {
        for engine in FAILING {
            let folder = format!("{engine}-{}", kind.name);
            let more = if engine == "tpl" { "{}" } else { r#"{"helm": {"luaFile": "values.lua"}}"# };
            services.push((case.service(&folder, &[kind], more).await?, kind, folder));
        }
    }
    for (id, kind, folder) in &services {
        // Errors of templates leave out all values, those of ConfigMaps too.
        let told = case.w.person.fails_with(id, &["no good: <"]).await;
        assert!(!told.contains(kind.value), "{folder}: {told}");
        assert!(told.contains("no good: <…>") || told.contains(MASK), "{folder}: {told}");
        case.tells_nothing(folder, id).await?;
    }
    let maps = case.w.maps();
    for (_, _, folder) in &services {
        assert!(maps.get_opt(folder).await?.is_none(), "{folder} made something");
    }
    case.w.end().await
}
