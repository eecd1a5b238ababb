//! How a service becomes objects, in the contract's words.

use plural_app::rendering::RenderingValues;
use plural_core::service::{
    Helm, HelmSet, HelmValues, Kustomize, Renderer, RendererHelm, RendererKind, Rendering,
};
use plural_tunnel::v1;

/// Nothing, when nothing is set: most services.
pub(super) fn rendering(rendering: Rendering, values: RenderingValues) -> Option<v1::Rendering> {
    // Where further sources come from is ours to know: their files are in the artifact.
    let Rendering { helm, kustomize, renderers, sources: _, managed_namespace: _ } = rendering;
    let RenderingValues { helm: helm_values, renderers: mut renderer_values } = values;
    if helm.is_none() && kustomize.is_none() && renderers.is_empty() {
        return None;
    }
    renderer_values.resize(renderers.len(), None);
    Some(v1::Rendering {
        helm: helm.map(|spec| helm_of(spec, helm_values)),
        kustomize: kustomize.map(|spec| {
            let Kustomize { path, enable_helm, envsubst } = spec;
            v1::Kustomize { path, enable_helm, envsubst }
        }),
        renderers: renderers.into_iter().zip(renderer_values).map(renderer).collect(),
    })
}

fn helm_of(helm: Helm, values: HelmValues) -> v1::Helm {
    let Helm {
        chart,
        version,
        url,
        repository_id: _,
        git: _,
        release,
        values_files,
        ignore_hooks,
        ignore_crds,
        lua_script,
        lua_file,
        lua_folder,
        kustomize_postrender,
        verify: _,
    } = helm;
    let HelmValues { inline, set } = values;
    v1::Helm {
        release: release.unwrap_or_default(),
        values: inline.unwrap_or_default(),
        values_files,
        set: set.map(|HelmSet { name, value }| v1::HelmValue { name, value }),
        ignore_hooks,
        ignore_crds,
        lua_script: lua_script.unwrap_or_default(),
        lua_file: lua_file.unwrap_or_default(),
        lua_folder,
        kustomize_postrender,
        chart: chart.unwrap_or_default(),
        version: version.unwrap_or_default(),
        url: url.unwrap_or_default(),
    }
}

fn renderer((renderer, values): (Renderer, Option<String>)) -> v1::Renderer {
    let Renderer { path, kind } = renderer;
    let values = values.unwrap_or_default();
    let chart = |helm: RendererHelm| {
        let RendererHelm { values_files, release, ignore_hooks } = helm;
        Some(v1::RendererHelm { values, values_files, release: release.unwrap_or_default(), ignore_hooks })
    };
    let (kind, helm, command) = match kind {
        RendererKind::Auto { helm } => (v1::RendererType::Auto, chart(helm), String::new()),
        RendererKind::Raw => (v1::RendererType::Raw, None, String::new()),
        RendererKind::Helm { helm } => (v1::RendererType::Helm, chart(helm), String::new()),
        RendererKind::Kustomize => (v1::RendererType::Kustomize, None, String::new()),
        RendererKind::Command { command } => (v1::RendererType::Command, None, command),
    };
    v1::Renderer { path, r#type: kind.into(), helm, command }
}
