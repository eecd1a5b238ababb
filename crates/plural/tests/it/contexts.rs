//! Contexts as templates read them, in a cluster.

use plural_testkit::{TestCluster, each_cluster};
use plural_wire::{
    ContextBindingAttributes, LinksAttributes, SaveServiceContext, ServiceContextAttributes,
    ServiceDeploymentAttributes,
};

use crate::world::{World, attributes, map, value};

each_cluster!(a_context_is_rendered_and_rendered_anew);

async fn a_context_is_rendered_and_rendered_anew(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let liquid = map(
        "net",
        "{{ contexts.network.region }}/{{ contexts.network.zones[1] }}/{{ contexts.network.token }}",
    );
    let chart = "apiVersion: v2\nname: chart\nversion: 1.0.0\n";
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: lua\ndata:\n  key: {{ .Values.region | quote }}\n";
    let sha = w.remote.push_files([
        ("app/net.yaml.liquid", liquid),
        ("app/still.yaml", map("still", "1")),
        ("chart/Chart.yaml", chart.to_owned()),
        ("chart/values.lua", "values = {region = contexts.network.region}\n".to_owned()),
        ("chart/templates/map.yaml", template.to_owned()),
    ])?;
    let save = |region: &str| SaveServiceContext {
        name: "network".to_owned(),
        attributes: ServiceContextAttributes {
            configuration: Some(format!("{{\"region\": \"{region}\", \"zones\": [\"a\", \"b\"]}}")),
            secrets: Some(vec![value("token", "hunter2")]),
            project_id: None,
            imports: None,
        },
    };
    let context = w.person.client.send(&save("eu")).await?;
    assert_eq!(context.secret_names, ["token"]);
    assert!(!serde_json::to_string(&context)?.contains("hunter2"));
    let using = |folder: &str| ServiceDeploymentAttributes {
        links: LinksAttributes {
            context_bindings: Some(vec![ContextBindingAttributes { context_id: context.id.clone() }]),
            ..LinksAttributes::default()
        },
        ..attributes(folder, &w.namespace, &w.repository, "main", folder)
    };
    let app = w.person.service_of(&w.registered, using("app")).await?;
    let mut chart = using("chart");
    chart.rendering.helm = Some(plural_wire::HelmConfigAttributes {
        lua_file: Some("values.lua".to_owned()),
        ..plural_wire::HelmConfigAttributes::default()
    });
    let chart = w.person.service_of(&w.registered, chart).await?;
    w.person.stands_at(&app, &sha).await;
    w.person.stands_at(&chart, &sha).await;
    w.until_value("net", "eu/b/hunter2").await;
    w.until_value("lua", "eu").await;
    assert_eq!(w.person.details(&app).await?.contexts[0].name, "network");

    // No commit: the context alone changes what is applied, and only where it is used.
    w.person.client.send(&save("us")).await?;
    w.until_value("net", "us/b/hunter2").await;
    w.until_value("lua", "us").await;
    assert_eq!(w.writes_of("still")?, 1);

    // One that names a key that is not there says which, and none of the values.
    let wrong = map("net", "{{ contexts.network.nothing }}");
    w.remote.push_files([("app/net.yaml.liquid", wrong)])?;
    let message = w.person.fails_with(&app, &["net.yaml.liquid", "nothing"]).await;
    assert!(!message.contains("hunter2"), "{message}");
    w.end().await
}
