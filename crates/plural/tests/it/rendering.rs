//! A service of each kind, from the console through an agent into a cluster; and what the console shows of it before.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret as KubeSecret};
use kube::{Api, api::PostParams};
use plural_agent::{Agent, CommandRenderers};
use plural_sandbox::{Helper, Limits, Program};
use plural_testkit::{TestCluster, each_cluster};
use plural_wire::{
    GetServicePreview, HelmConfigAttributes, HelmMinimalAttributes, KustomizeAttributes, RendererAttributes,
    RenderingAttributes, Secret, ServiceUpdateAttributes, UpdateServiceDeployment,
};
use serde_json::json;

use crate::world::{World, attributes, map, value};

each_cluster!(
    a_service_of_each_kind_is_applied_and_previewed,
    a_chart_looks_up_what_its_service_may_see,
    a_program_that_nobody_declared_is_not_run,
    attack_13_nothing_is_read_from_another_namespace_or_cluster,
);

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
/// A chart's template: its values, and what it is told.
const TEMPLATE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  key: {{ list .Values.file .Values.inline .Values.lua (.Capabilities.APIVersions.Has \"apps/v1\") | join \" \" | quote }}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}
stringData:
  password: {{ randAlphaNum 20 }}
";
const VALUES: &str = "file: none\ninline: none\nlua: none\n";
/// What the declared program does: a ConfigMap of the words in its input.
const PROGRAM: &str = r"read -r word < word.txt
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: command\ndata:\n  key: %s\n' $word";

fn files() -> Vec<(&'static str, String)> {
    let text = str::to_owned;
    vec![
        ("chart/Chart.yaml", text(CHART)),
        ("chart/values.yaml", text(VALUES)),
        ("chart/prod.yaml.liquid", text("file: {{ configuration.stage }}\n")),
        ("chart/values.lua", text("values.lua = cluster.handle")),
        ("chart/templates/all.yaml", text(TEMPLATE)),
        ("kustomize/base/kustomization.yaml", text("resources: [map.yaml]\n")),
        ("kustomize/base/map.yaml", map("kustomize", "base")),
        (
            "kustomize/components/loud/kustomization.yaml",
            text(
                "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- patch: |-\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: kustomize}\n    data: {key: component}\n",
            ),
        ),
        (
            "kustomize/overlay/kustomization.yaml",
            text("resources: [../base]\ncomponents: [../components/loud]\nnameSuffix: -eu\n"),
        ),
        ("liquid/map.yaml.liquid", map("liquid", "{{ cluster.handle }} {{ configuration.stage }}")),
        ("command/word.txt", text("said\n")),
        ("many/one/Chart.yaml", text(CHART)),
        ("many/one/values.yaml", text(VALUES)),
        ("many/one/templates/all.yaml", text(TEMPLATE)),
        ("many/two/map.yaml", map("two", "raw")),
        ("many/unlisted.yaml", map("unlisted", "raw")),
        ("many/post/kustomization.yaml", text("namePrefix: post-\n")),
    ]
}

fn renderer(path: &str, kind: &str) -> RendererAttributes {
    RendererAttributes { path: path.to_owned(), kind: kind.to_owned(), helm: None, command: None }
}

/// Folder of a service, how it is rendered, and the ConfigMaps that come of it.
type Kind = (&'static str, RenderingAttributes, Vec<(&'static str, &'static str)>);

fn kinds() -> Vec<Kind> {
    let nothing = RenderingAttributes::default;
    vec![
        (
            "chart",
            RenderingAttributes {
                helm: Some(HelmConfigAttributes {
                    release: Some("shop".to_owned()),
                    values: Some(Secret::new("inline: inline\nlua: lost")),
                    values_files: Some(vec!["prod.yaml.liquid".to_owned()]),
                    lua_file: Some("values.lua".to_owned()),
                    ..HelmConfigAttributes::default()
                }),
                ..nothing()
            },
            vec![("shop", "prod inline blue true")],
        ),
        (
            "kustomize",
            RenderingAttributes {
                kustomize: Some(KustomizeAttributes {
                    path: "overlay".to_owned(),
                    ..KustomizeAttributes::default()
                }),
                ..nothing()
            },
            vec![("kustomize-eu", "component")],
        ),
        ("liquid", nothing(), vec![("liquid", "blue prod")]),
        (
            "command",
            RenderingAttributes {
                renderers: Some(vec![RendererAttributes {
                    command: Some("say".to_owned()),
                    ..renderer(".", "COMMAND")
                }]),
                ..nothing()
            },
            vec![("command", "said")],
        ),
        (
            "many",
            RenderingAttributes {
                helm: Some(HelmConfigAttributes {
                    kustomize_postrender: Some("post".to_owned()),
                    ..HelmConfigAttributes::default()
                }),
                renderers: Some(vec![
                    RendererAttributes {
                        helm: Some(HelmMinimalAttributes {
                            values: Some(Secret::new("inline: own")),
                            release: Some("one".to_owned()),
                            ..HelmMinimalAttributes::default()
                        }),
                        ..renderer("one", "HELM")
                    },
                    renderer("two/map.yaml", "RAW"),
                ]),
                ..nothing()
            },
            vec![("post-one", "none own none true"), ("post-two", "raw")],
        ),
    ]
}

/// The program that confines others.
fn commands(programs: impl IntoIterator<Item = (&'static str, Program)>) -> CommandRenderers {
    CommandRenderers {
        programs: programs.into_iter().map(|(name, program)| (name.to_owned(), program)).collect(),
        helper: Helper { program: env!("CARGO_BIN_EXE_plural").into(), args: vec!["sandbox".into()] },
        limits: Limits::default(),
    }
}

async fn world(cluster: TestCluster) -> anyhow::Result<World> {
    let mut w = World::without_agent(cluster).await?;
    let mut config = w.agent_config().await?;
    let say = Program {
        path: "/bin/sh".into(),
        args: vec!["-c".to_owned(), PROGRAM.to_owned()],
        readable: Vec::new(),
    };
    config.commands = Some(commands([("say", say)]));
    w.agent = Some(Agent::start(config)?);
    Ok(w)
}

async fn a_service_of_each_kind_is_applied_and_previewed(cluster: TestCluster) -> anyhow::Result<()> {
    let w = world(cluster).await?;
    let sha = w.remote.push_files(files())?;
    let mut services = BTreeMap::new();
    for (folder, rendering, _) in kinds() {
        let mut attributes = attributes(folder, &w.namespace, &w.repository, "main", folder);
        attributes.configuration = Some(vec![value("stage", "prod")]);
        attributes.rendering = rendering;
        services.insert(folder, w.person.service_of(&w.registered, attributes).await?);
    }
    let secrets: Api<KubeSecret> = Api::namespaced(w.client.clone(), &w.namespace);
    for (folder, _, maps) in kinds() {
        let id = &services[folder];
        w.person.stands_at(id, &sha).await;
        for (name, value) in maps {
            assert_eq!(w.value(name).await?.as_deref(), Some(value), "{folder}: {name}");
        }
        let asked = GetServicePreview { id: Some(id.clone()), cluster: None, name: None };
        let preview = w.person.client.send(&asked).await?;
        if folder == "command" {
            assert!(preview.objects.is_empty());
            assert!(preview.errors[0].message.contains("runs in an agent that declares it"), "{preview:?}");
            continue;
        }
        // The console shows what the agent applied, but for the values of Secrets.
        assert!(preview.errors.is_empty(), "{preview:?}");
        for object in &preview.objects {
            if object.kind == "Secret" {
                assert_eq!(object.content.as_ref().unwrap()["stringData"]["password"], "********");
                let applied = secrets.get(&object.name).await?.data.unwrap_or_default();
                let applied = String::from_utf8(applied["password"].0.clone())?;
                assert!(applied.len() == 20 && !format!("{preview:?}").contains(&applied));
            } else {
                let applied = w.value(&object.name).await?;
                assert_eq!(
                    object.content.as_ref().unwrap()["data"]["key"].as_str(),
                    applied.as_deref(),
                    "{folder}"
                );
            }
        }
    }
    assert_eq!(w.map_names().await?, ["command", "kustomize-eu", "liquid", "post-one", "post-two", "shop"]);

    // Another value is another revision; what does not depend on it is not written again.
    let helm = HelmConfigAttributes { values: Some(Secret::new("inline: other")), ..Default::default() };
    let rendering = RenderingAttributes { helm: Some(helm), ..Default::default() };
    let attributes = ServiceUpdateAttributes { rendering, ..ServiceUpdateAttributes::default() };
    let id = Some(services["chart"].clone());
    w.person.client.send(&UpdateServiceDeployment { id, cluster: None, name: None, attributes }).await?;
    w.until_value("chart", "none other none true").await;
    assert_eq!(w.writes_of("liquid")?, 1);
    w.end().await
}

const LOOKS: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: looked
data:
  key: {{ list (dig \"data\" \"key\" \"nothing\" (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"there\")) (dig \"data\" \"key\" \"nothing\" (lookup \"v1\" \"ConfigMap\" .Values.other \"there\")) (len (lookup \"v1\" \"ConfigMap\" \"\" \"\")) (dig \"metadata\" \"name\" \"nothing\" (lookup \"v1\" \"Namespace\" \"\" .Release.Namespace) | eq .Release.Namespace) (len (lookup \"no.such/v1\" \"Kind\" \"\" \"a\")) (.Capabilities.APIVersions.Has \"apps/v1/Deployment\") | join \" \" | quote }}
";

async fn a_chart_looks_up_what_its_service_may_see(cluster: TestCluster) -> anyhow::Result<()> {
    let w = world(cluster).await?;
    let other = w.cluster.namespace().await?;
    for namespace in [&w.namespace, &other] {
        let mut there =
            ConfigMap { data: Some([("key".to_owned(), "seen".to_owned())].into()), ..ConfigMap::default() };
        there.metadata.name = Some("there".to_owned());
        let maps: Api<ConfigMap> = Api::namespaced(w.client.clone(), namespace);
        maps.create(&PostParams::default(), &there).await?;
    }
    let sha = w.remote.push_files([
        ("chart/Chart.yaml", CHART.to_owned()),
        ("chart/values.yaml", format!("other: {other}\n")),
        ("chart/templates/map.yaml", LOOKS.to_owned()),
    ])?;
    let id = w.service("chart").await?;
    w.person.stands_at(&id, &sha).await;
    // Its own namespace and what belongs to none; not another namespace, not all of them.
    assert_eq!(w.value("looked").await?.as_deref(), Some("seen nothing 0 true 0 true"));
    w.end().await
}

async fn a_program_that_nobody_declared_is_not_run(cluster: TestCluster) -> anyhow::Result<()> {
    let w = world(cluster).await?;
    w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let mut attributes = attributes("app", &w.namespace, &w.repository, "main", "app");
    attributes.rendering.renderers =
        Some(vec![RendererAttributes { command: Some("/bin/sh".to_owned()), ..renderer(".", "COMMAND") }]);
    let id = w.person.service_of(&w.registered, attributes).await?;
    w.person.fails_with(&id, &["declares no command renderer", "/bin/sh", "it declares: say"]).await;
    w.end().await
}

const SPIES: &str = "{{- $found := list -}}
{{- range $kind := list \"Secret\" \"ConfigMap\" -}}
{{- range $namespace := list $.Values.other \"kube-system\" \"\" -}}
{{- $found = append $found (lookup \"v1\" $kind $namespace \"\" | toJson) -}}
{{- $found = append $found (lookup \"v1\" $kind $namespace \"theirs\" | toJson) -}}
{{- end -}}
{{- end -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: spied
data:
  key: {{ $found | uniq | join \" \" | quote }}
";

/// Values of another namespace are not to be had by `lookup`, by names with paths in them, or by the references
/// that other tools have; and what a service says of clusters is about its own.
async fn attack_13_nothing_is_read_from_another_namespace_or_cluster(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let other = w.cluster.namespace().await?;
    let secrets: Api<KubeSecret> = Api::namespaced(w.client.clone(), &other);
    let mut theirs = KubeSecret {
        string_data: Some([("password".to_owned(), "canary-13".to_owned())].into()),
        ..KubeSecret::default()
    };
    theirs.metadata.name = Some("theirs".to_owned());
    secrets.create(&PostParams::default(), &theirs).await?;
    let sha = w.remote.push_files([
        ("chart/Chart.yaml", CHART.to_owned()),
        ("chart/values.yaml", format!("other: {other}\n")),
        ("chart/templates/map.yaml", SPIES.to_owned()),
        ("paths/Chart.yaml", CHART.to_owned()),
        (
            "paths/templates/map.yaml",
            map(
                "walked",
                "{{ lookup `v1` `Secret` .Release.Namespace `../../NAMESPACE/secrets/theirs` | toJson }}",
            )
            .replace("NAMESPACE", &format!("namespaces/{other}")),
        ),
    ])?;
    let (spy, walker) = (w.service("chart").await?, w.service("paths").await?);
    w.person.stands_at(&spy, &sha).await;
    assert_eq!(w.value("spied").await?.as_deref(), Some("{}"), "every answer is empty");
    w.person.stands_at(&walker, &sha).await;
    assert_eq!(w.value("walked").await?.as_deref(), Some("{}"));
    // There is no way to name one in a service.
    let api = crate::charts::Api::new(&w).await?;
    for reference in [
        json!({"helm": {"valuesFrom": [{"kind": "Secret", "name": "theirs", "namespace": other}]}}),
        json!({"configurationRef": {"name": "theirs", "namespace": other}}),
        json!({"helm": {"valuesFiles": [format!("secret://{other}/theirs")]}, "repositoryId": w.repository,
            "git": {"ref": "main", "folder": "chart"}}),
    ] {
        match api.service(&w, "referring", reference).await {
            Err(error) => assert!(!error.to_string().contains("canary"), "{error}"),
            // What is taken is a path of the repository, and not there.
            Ok(id) => drop(w.person.fails_with(&id, &["secret:"]).await),
        }
    }
    w.end().await
}
