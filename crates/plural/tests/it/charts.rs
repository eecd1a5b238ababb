//! Services whose chart or manifests come from elsewhere: every kind of source reaches a cluster.

use plural_testkit::{
    OciRegistry, TestCluster, WebFolder, each_cluster, eventually,
    oci_registry::{SignIn, tar_gz},
};
use plural_wire::{KickService, ServiceDeploymentStatus};
use serde_json::{Value, json};

use crate::world::{EMAIL, PASSWORD, PATIENCE, World, map};

const FLUX: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";

each_cluster!(every_kind_of_source_deploys, a_chart_follows_its_range_and_its_values_follow_git);

/// The API as any client sees it: without types for what is asked.
pub(crate) struct Api {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Api {
    pub(crate) async fn new(w: &World) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
        let mut api = Self { http, url: format!("{}/gql", w.console.url), token: String::new() };
        let session = api
            .ask(
                "mutation ($e: String!, $p: String!) { signIn(email: $e, password: $p) { jwt } }",
                json!({"e": EMAIL, "p": PASSWORD}),
            )
            .await?;
        session["signIn"]["jwt"].as_str().unwrap().clone_into(&mut api.token);
        Ok(api)
    }

    pub(crate) async fn ask(&self, query: &str, variables: Value) -> anyhow::Result<Value> {
        let mut request = self.http.post(&self.url).json(&json!({"query": query, "variables": variables}));
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        let answer: Value = request.send().await?.json().await?;
        anyhow::ensure!(answer["errors"].is_null(), "{answer}");
        Ok(answer["data"].clone())
    }

    /// A service with these further attributes; returns its id.
    pub(crate) async fn service(&self, w: &World, name: &str, mut more: Value) -> anyhow::Result<String> {
        more["name"] = name.into();
        more["namespace"] = w.namespace.clone().into();
        let query = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) {
            createServiceDeployment(clusterId: $c, attributes: $a) { id }
        }";
        let made = self.ask(query, json!({"c": w.registered.id, "a": more})).await?;
        Ok(made["createServiceDeployment"]["id"].as_str().unwrap().to_owned())
    }
}

/// A world that may talk to this machine.
pub(crate) async fn world(cluster: TestCluster) -> anyhow::Result<World> {
    let mut w = World::without_agent(cluster).await?;
    w.start_agent().await?;
    Ok(w)
}

const TEMPLATE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  key: {{ .Values.key | quote }}
";

/// A packed chart of one ConfigMap that has the release's name and the value `key`.
pub(crate) fn chart(name: &str, version: &str, key: &str) -> Vec<u8> {
    let files = files(name, version, key);
    tar_gz(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

fn files(name: &str, version: &str, key: &str) -> Vec<(String, String)> {
    vec![
        (format!("{name}/Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: {version}\n")),
        (format!("{name}/values.yaml"), format!("key: {key}\n")),
        (format!("{name}/templates/map.yaml"), TEMPLATE.to_owned()),
    ]
}

/// An index of one chart: version and archive, which is put beside it.
pub(crate) fn publish(web: &WebFolder, chart: &str, versions: &[(&str, &[u8])]) -> anyhow::Result<()> {
    let mut index = format!("apiVersion: v1\nentries:\n  {chart}:\n");
    for (version, archive) in versions {
        index += &format!("  - {{name: {chart}, version: {version}, urls: ['{chart}-{version}.tgz']}}\n");
        web.write(&format!("{chart}-{version}.tgz"), archive)?;
    }
    web.write("index.yaml", index)
}

/// Somebody asks to look again.
pub(crate) async fn kick(w: &World, id: &str) -> anyhow::Result<()> {
    let asked = KickService { service_id: Some(id.to_owned()), cluster: None, name: None };
    w.person.client.send(&asked).await?;
    Ok(())
}

/// The service is well, with nothing to say.
pub(crate) async fn is_healthy(w: &World, id: &str) {
    eventually(PATIENCE, async || {
        let found = w.person.details(id).await.map_err(|error| format!("{error:#}"))?;
        let well = found.service.status == ServiceDeploymentStatus::Healthy && found.errors.is_empty();
        if well { Ok(()) } else { Err(format!("{:?} {:?}", found.service.status, found.errors)) }
    })
    .await;
}

async fn every_kind_of_source_deploys(cluster: TestCluster) -> anyhow::Result<()> {
    let Some(registry) =
        OciRegistry::start(&SignIn::Password { user: "robot".into(), password: "hunter2".into() })?
    else {
        return Ok(());
    };
    let web = WebFolder::start()?;
    web.require_basic("ada", "swordfish");
    publish(&web, "web", &[("1.0.0", &chart("web", "1.0.0", "http"))])?;
    registry.push_chart("team/charts/web", "2.1.0", &chart("web", "2.1.0", "oci")).await?;
    let plain = map("plain-manifest", "artifact");
    registry
        .push_artifact("team/plain", "v1.0.0", FLUX, &tar_gz([("deploy/map.yaml", plain.as_str())]))
        .await?;

    let w = world(cluster).await?;
    let api = Api::new(&w).await?;
    let upsert = "mutation ($u: String!, $a: HelmRepositoryAttributes) {
        upsertHelmRepository(url: $u, attributes: $a) { id provider health }
    }";
    for (url, username, password) in
        [(web.url(""), "ada", "swordfish"), (registry.url("team"), "robot", "hunter2")]
    {
        let auth = json!({"basic": {"username": username, "password": password}});
        let made = api.ask(upsert, json!({"u": url, "a": {"provider": "BASIC", "auth": auth}})).await?;
        assert_eq!(made["upsertHelmRepository"]["provider"], "BASIC");
    }
    let dependent = format!(
        "apiVersion: v2\nname: parent\nversion: 0.1.0\ndependencies:\n- {{name: web, version: 1.x, repository: '{}'}}\n",
        web.url("")
    );
    let mut commit = w
        .remote
        .commit("main")
        .file("parent/Chart.yaml", dependent)
        .file("parent/templates/own.yaml", map("own-of-parent", "git"))
        .file("extra/extra.yaml", map("extra-of-source", "source"))
        .file("raw/raw.yaml", map("raw-of-source", "source"))
        .file("inflated/kustomization.yaml", format!(
            "helmCharts:\n- {{name: web, version: 1.0.0, repo: '{}', releaseName: by-kustomize, valuesInline: {{key: inflated}}}}\n\
             - {{name: web, version: 2.1.0, repo: '{}', releaseName: by-kustomize-oci}}\n",
            web.url(""), registry.url("team/charts"),
        ))
        .file("envs/prod.yaml", "key: prod\n")
        .file("shared/over.yaml", "key: over\n");
    for (path, text) in files("web", "9.0.0", "git") {
        commit = commit.file(&format!("charts/{path}"), text);
    }
    let sha = commit.push()?;

    let git = |folder: &str| json!({"ref": "main", "folder": folder});
    let mut services = Vec::new();
    for (name, attributes) in [
        ("http-chart", json!({"helm": {"url": web.url(""), "chart": "web", "version": "1.x"}})),
        ("oci-chart", json!({"helm": {"url": registry.url("team/charts"), "chart": "web", "version": "^2"}})),
        ("oci-plain", json!({"helm": {"url": registry.url("team/plain"), "version": "v1.0.0"}})),
        ("git-chart", json!({"helm": {"repositoryId": w.repository, "git": git("charts/web")}})),
        ("incomplete", json!({"repositoryId": w.repository, "git": git("parent")})),
        ("inflated", json!({"repositoryId": w.repository, "git": git("inflated")})),
        (
            "several",
            json!({
                "helm": {"url": web.url(""), "chart": "web", "version": "1.0.0"},
                "sources": [{"path": "templates", "repositoryId": w.repository, "git": git("extra")}],
            }),
        ),
        (
            "valued",
            json!({
                "repositoryId": w.repository, "git": git("envs"),
                "helm": {
                    "url": registry.url("team/charts"), "chart": "web", "version": "2.1.0",
                    "valuesFiles": ["prod.yaml", "../shared/over.yaml"],
                },
            }),
        ),
        (
            "valued-by-source",
            json!({
                "helm": {
                    "url": web.url(""), "chart": "web", "version": "1.0.0",
                    "valuesFiles": ["values/prod.yaml"],
                },
                "sources": [{"path": "values", "repositoryId": w.repository, "git": git("envs")}],
            }),
        ),
        (
            "folders",
            json!({"sources": [
                {"path": "a", "repositoryId": w.repository, "git": git("raw")},
                {"path": "b/c", "repositoryId": w.repository, "git": git("extra")},
            ]}),
        ),
    ] {
        services.push((name, api.service(&w, name, attributes).await?));
    }
    for (name, value) in [
        ("http-chart", "http"),
        ("oci-chart", "oci"),
        ("plain-manifest", "artifact"),
        ("git-chart", "git"),
        ("own-of-parent", "git"),
        ("incomplete", "http"),
        ("by-kustomize", "inflated"),
        ("by-kustomize-oci", "oci"),
        ("several", "http"),
        ("valued", "over"),
        ("valued-by-source", "prod"),
        ("raw-of-source", "source"),
    ] {
        w.until_value(name, value).await;
    }
    for (name, id) in &services {
        // Two of them hold the same ConfigMap: which has it is not what this is about.
        if !["several", "folders"].contains(name) {
            is_healthy(&w, id).await;
        }
    }
    let details = w.person.details(&services[3].1).await?;
    assert_eq!(details.service.sha.as_deref(), Some(sha.as_str()));
    let http = w.person.details(&services[0].1).await?.service;
    assert!(http.sha.is_some_and(|sha| sha.starts_with("sha256:")));
    let health = api
        .ask("query ($u: String!) { helmRepository(url: $u) { health error } }", json!({"u": web.url("")}));
    assert_eq!(health.await?["helmRepository"], json!({"health": "PULLABLE", "error": null}));
    w.end().await
}

async fn a_chart_follows_its_range_and_its_values_follow_git(cluster: TestCluster) -> anyhow::Result<()> {
    let web = WebFolder::start()?;
    let (one, two) = (chart("web", "1.0.0", "one"), chart("web", "1.1.0", "two"));
    publish(&web, "web", &[("1.0.0", &one)])?;
    let w = world(cluster).await?;
    let api = Api::new(&w).await?;
    w.remote
        .push_files([("apps/web/prod.yaml", "unused: true\n"), ("values/extra.yaml", "unused: true\n")])?;
    let id = api
        .service(
            &w,
            "ranged",
            json!({
                "repositoryId": w.repository,
                "git": {"ref": "main", "folder": "apps/web"},
                "helm": {
                    "url": web.url(""), "chart": "web", "version": "1.x",
                    "valuesFiles": ["prod.yaml", "../../values/extra.yaml"],
                },
            }),
        )
        .await?;
    w.until_value("ranged", "one").await;
    is_healthy(&w, &id).await;
    let pulls = || web.seen().iter().filter(|seen| seen.path.ends_with("1.0.0.tgz")).count();
    assert_eq!(pulls(), 1);

    // A newer version in the range is taken at a kick, without the interval's end.
    publish(&web, "web", &[("1.0.0", &one), ("1.1.0", &two)])?;
    kick(&w, &id).await?;
    w.until_value("ranged", "two").await;

    // It is withdrawn: what runs stays, and says why.
    publish(&web, "web", &[("1.0.0", &one)])?;
    kick(&w, &id).await?;
    let told = w.person.is_told(&id, &["1.0.0", "1.1.0", "before"]).await;
    assert!(told.errors.iter().all(|error| error.message.contains("stays")), "{:?}", told.errors);
    assert_eq!(w.value("ranged").await?.as_deref(), Some("two"));

    // A values file that nobody has.
    let missing = api
        .service(
            &w,
            "no-values",
            json!({"helm": {"url": web.url(""), "chart": "web", "version": "1.0.0", "valuesFiles": ["absent.yaml"]}}),
        )
        .await?;
    w.person.fails_with(&missing, &["absent.yaml"]).await;
    w.end().await
}
