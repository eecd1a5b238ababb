//! What the console says of a service, as the renderer takes it.

use std::collections::BTreeMap;

use plural_render::{
    ChartAsked, ClusterInput, HelmInput, Inputs, KustomizeInput, RendererInput, RendererKind, RenderingInput,
    ServiceInput,
};
use plural_tunnel::v1;
use serde_json::{Map, Value};

/// The inputs of a render; what only the cluster knows is filled in when it is needed.
///
/// # Errors
/// What of it cannot be read. To render without it would make another service of it.
pub(crate) fn inputs(
    service: &v1::Service,
    cluster: Option<&v1::ClusterData>,
) -> Result<Inputs, &'static str> {
    let cluster = cluster.cloned().unwrap_or_default();
    Ok(Inputs {
        folder: folder(service),
        templated: service.templated,
        service: ServiceInput {
            id: service.id.clone(),
            name: service.name.clone(),
            namespace: service.namespace.clone(),
        },
        cluster: ClusterInput {
            id: cluster.id,
            name: cluster.name,
            handle: cluster.handle,
            distro: cluster.distro,
            version: cluster.version,
            tags: cluster.tags.into_iter().collect::<BTreeMap<_, _>>(),
            metadata: object(&cluster.metadata_json).map(Value::Object).ok_or("the cluster's metadata")?,
        },
        configuration: service.configuration.clone().into_iter().collect(),
        contexts: object(&service.contexts_json).ok_or("the service's contexts")?,
        imports: object(&service.imports_json).ok_or("the outputs of stacks that the service imports")?,
        clock_ms: service.revision_time_ms,
        seed: service.seed.clone(),
        rendering: service.rendering.clone().map(rendering).unwrap_or_default(),
        api_server: None,
    })
}

/// A JSON object; an empty text is an empty one.
fn object(text: &str) -> Option<Map<String, Value>> {
    if text.is_empty() { Some(Map::new()) } else { serde_json::from_str(text).ok() }
}

fn rendering(rendering: v1::Rendering) -> RenderingInput {
    let v1::Rendering { helm, kustomize, renderers } = rendering;
    RenderingInput {
        helm: helm.map(chart).unwrap_or_default(),
        kustomize: kustomize.map(|spec| {
            let v1::Kustomize { path, enable_helm, envsubst } = spec;
            KustomizeInput { path, enable_helm, envsubst }
        }),
        renderers: renderers.into_iter().map(renderer).collect(),
    }
}

fn chart(helm: v1::Helm) -> HelmInput {
    let v1::Helm {
        release,
        values,
        values_files,
        set,
        ignore_hooks,
        ignore_crds,
        lua_script,
        lua_file,
        lua_folder,
        kustomize_postrender,
        chart,
        version,
        url,
    } = helm;
    HelmInput {
        release: some(release),
        values: some(values),
        set: set.map(|v1::HelmValue { name, value }| (name, value)),
        values_files,
        ignore_hooks,
        ignore_crds,
        lua_script: some(lua_script),
        lua_file: some(lua_file),
        lua_folder,
        kustomize_postrender,
        asked: ChartAsked { chart, version, url },
    }
}

fn renderer(renderer: v1::Renderer) -> RendererInput {
    let kind = renderer.r#type();
    let v1::Renderer { path, r#type: _, helm, command } = renderer;
    let own = helm.filter(|helm| *helm != v1::RendererHelm::default()).map(|helm| {
        let v1::RendererHelm { values, values_files, release, ignore_hooks } = helm;
        HelmInput {
            release: some(release),
            values: some(values),
            values_files,
            ignore_hooks,
            ..HelmInput::default()
        }
    });
    let kind = match kind {
        v1::RendererType::Auto => RendererKind::Auto(own),
        v1::RendererType::Raw => RendererKind::Raw,
        v1::RendererType::Helm => RendererKind::Helm(own),
        v1::RendererType::Kustomize => RendererKind::Kustomize,
        v1::RendererType::Command => RendererKind::Command(command),
    };
    RendererInput { path, kind }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The service's folder, as a path of the repository.
fn folder(service: &v1::Service) -> String {
    let parts = [service.source_root.trim_matches('/'), service.folder.trim_matches('/')];
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}
