//! Rendering in the console: the agent's renderer, without a cluster.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use async_trait::async_trait;
use plural_app::agent_poll::{ClusterData, ServiceSpec};
use plural_app::ports::previews::{Preview, PreviewObject, Previews};
use plural_app::rendering::RenderingValues;
use plural_core::service::{
    Configuration, Helm, HelmSet, HelmValues, Kustomize, Renderer, RendererHelm, Rendering,
};
use plural_core::service_error::ServiceError;
use plural_core::service_file::ServiceFile;
use plural_core::{Error, Result};
use plural_git::{BlobStore, Digest};
use plural_kit::{Hold, LaneLimits, Lanes, Metered, Overrun};
use plural_render::{
    ChartAsked, ClusterInput, Governor, HelmInput, Inputs, KustomizeInput, RendererInput, RendererKind,
    RenderingInput, ServiceInput, Tree, TreeLimits, governed, mask_secrets, render,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Artifacts looked at at once: each is held whole, and takes a processor.
const AT_ONCE: usize = 4;
/// Part of the memory limit that previews may use together, in percent.
const MEMORY_PERCENT: u64 = 25;
/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// The adapter.
pub(crate) struct Renderers {
    blobs: Arc<dyn BlobStore>,
    turns: Arc<Semaphore>,
    lanes: Arc<Lanes>,
}

impl Renderers {
    /// Previews that use at most so much memory together, or the usual part of what the console may use, and so much time
    /// each.
    pub(crate) fn new(blobs: Arc<dyn BlobStore>, bytes: Option<u64>, time: Duration) -> Self {
        let limits = match bytes {
            Some(bytes) => LaneLimits::new(bytes, time),
            None => LaneLimits::of_memory(MEMORY_PERCENT, time),
        };
        Self { blobs, turns: Arc::new(Semaphore::new(AT_ONCE)), lanes: Lanes::new(limits) }
    }

    /// An artifact, and a turn to hold for as long as it is in use.
    async fn artifact(&self, digest: &str) -> Result<(OwnedSemaphorePermit, Vec<u8>)> {
        let digest: Digest = digest.parse().map_err(|_| Error::not_found("artifact"))?;
        let busy = || Error::unavailable("too many previews in progress; retry in a few seconds");
        let turn = tokio::time::timeout(PATIENCE, Arc::clone(&self.turns).acquire_owned())
            .await
            .map_err(|_| busy())?
            .map_err(|_| busy())?;
        match self.blobs.get(digest).await {
            Ok(Some(tar)) => Ok((turn, tar)),
            Ok(None) => Err(Error::not_found("artifact")),
            Err(error) => Err(Error::internal("reading an artifact", error)),
        }
    }
}

impl Renderers {
    async fn attempt(&self, digest: &str, root: &str, inputs: Inputs, hold: Arc<Hold>) -> Result<Preview> {
        let (turn, tar) = self.artifact(digest).await?;
        let (root, size) = (root.to_owned(), tar.len() as u64);
        // The turn is given back when the work ends. When nobody waits for it any more, it ends soon.
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let meter = Rc::new(Meter(Metered::new(hold, size)));
            governed(meter, || preview(&tar, &root, &inputs))
        })
        .await
        .map_err(|error| Error::internal("rendering a preview", error))
    }
}

struct Meter(Metered);

impl Governor for Meter {
    fn may_go_on(&self, bytes: u64) -> bool {
        self.0.may_go_on(bytes)
    }

    fn grant(&self, wanted: u64) -> u64 {
        self.0.grant(wanted)
    }

    fn wants_more(&self) {
        self.0.wants_more();
    }
}

/// What a service is told that is larger than any preview may be.
fn refused(limits: LaneLimits, overrun: Overrun) -> Preview {
    let setting = match overrun {
        Overrun::Bytes(_) => format!("half of the console's --preview-memory-mib {}", limits.bytes >> 20),
        Overrun::Time(_) => "the console's --preview-seconds".to_owned(),
    };
    let message = format!(
        "there is no preview of the service: {overrun} (limit of one preview, {setting}); its agent has limits of its own"
    );
    let error =
        ServiceError { source: "render".to_owned(), message, warning: false, terminal: true, location: None };
    Preview { objects: Vec::new(), errors: vec![error] }
}

#[async_trait]
impl Previews for Renderers {
    async fn render(&self, spec: ServiceSpec, cluster: Option<ClusterData>) -> Result<Preview> {
        let digest = spec.artifact_digest.clone().unwrap_or_default();
        let (root, party) = (spec.source_root.clone(), spec.namespace.to_string());
        let inputs = inputs(spec, cluster);
        let attempt = |hold| self.attempt(&digest, &root, inputs.clone(), hold);
        let patience = PATIENCE + self.lanes.limits().time;
        let outcome = tokio::time::timeout(patience, self.lanes.run(&party, false, attempt)).await;
        match outcome
            .map_err(|_| Error::unavailable("too many large previews in progress; retry in a few seconds"))?
        {
            Ok((made, _)) => made,
            Err(overrun) => Ok(refused(self.lanes.limits(), overrun)),
        }
    }

    async fn files(&self, digest: &str, root: &str, path: &str) -> Result<Vec<ServiceFile>> {
        let (turn, tar) = self.artifact(digest).await?;
        let (root, path) = (root.to_owned(), path.to_owned());
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            files(&tar, &root, &path)
        })
        .await
        .map_err(|error| Error::internal("reading an artifact", error))?
    }

    async fn archive(&self, digest: &str, root: &str) -> Result<Vec<u8>> {
        let (turn, tar) = self.artifact(digest).await?;
        let root = root.to_owned();
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            archive(&tar, &root)
        })
        .await
        .map_err(|error| Error::internal("reading an artifact", error))?
        .map_err(|error| Error::internal("writing an archive", error))
    }
}

fn archive(tar: &[u8], root: &str) -> std::io::Result<Vec<u8>> {
    let tree = Tree::from_tar(tar, &TreeLimits::default()).map_err(std::io::Error::other)?.below(root);
    gzipped(tree.walk("").map(|(path, content)| (path.to_owned(), content)))
}

/// A compressed tar of files.
pub(crate) fn gzipped<'f>(files: impl Iterator<Item = (String, &'f [u8])>) -> std::io::Result<Vec<u8>> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, content)?;
    }
    archive.into_inner()?.finish()
}

fn files(tar: &[u8], root: &str, path: &str) -> Result<Vec<ServiceFile>> {
    let tree = Tree::from_tar(tar, &TreeLimits::default())
        .map_err(|error| Error::internal("reading an artifact", error))?
        .below(root);
    if let Some(content) = tree.read(path) {
        return Ok(ServiceFile::answer([(path, content)], true));
    }
    let found = ServiceFile::answer(tree.walk(path), false);
    if found.is_empty() && !path.is_empty() { Err(Error::not_found("file")) } else { Ok(found) }
}

fn preview(tar: &[u8], root: &str, inputs: &Inputs) -> Preview {
    let failed = |source: &str, message: String, location: Option<String>| ServiceError {
        source: source.to_owned(),
        message,
        warning: false,
        terminal: true,
        location,
    };
    let tree = match Tree::from_tar(tar, &TreeLimits::default()) {
        // Files are named as the repository names them.
        Ok(tree) => tree.below(root),
        Err(error) => {
            return Preview { objects: Vec::new(), errors: vec![failed("source", error.to_string(), None)] };
        }
    };
    let mut rendered = match render(&tree, inputs) {
        Ok(rendered) => rendered,
        Err(error) => {
            let problems = error.problems().into_iter().map(|problem| {
                let location = Some(problem.location()).filter(|location| !location.is_empty());
                failed("render", problem.message, location)
            });
            return Preview { objects: Vec::new(), errors: problems.collect() };
        }
    };
    mask_secrets(&mut rendered.objects);
    let objects = rendered.objects.into_iter().map(|object| PreviewObject {
        value: object.value,
        path: object.origin.path,
        line: u32::try_from(object.origin.line).ok().filter(|line| *line > 0),
    });
    let errors = rendered.warnings.into_iter().map(|warning| ServiceError {
        source: "render".to_owned(),
        message: warning.message,
        warning: true,
        terminal: false,
        location: Some(format!("{}:{}", warning.origin.path, warning.origin.line)),
    });
    Preview { objects: objects.collect(), errors: errors.collect() }
}

/// What templates read: of a reference, where it leads.
fn shown(configuration: Configuration) -> BTreeMap<String, String> {
    let Configuration { mut values, references } = configuration;
    values.extend(references.into_iter().map(|(name, reference)| (name, reference.to_string())));
    values
}

/// What the agent would make of the desired state that it is sent.
fn inputs(spec: ServiceSpec, cluster: Option<ClusterData>) -> Inputs {
    let ServiceSpec {
        id,
        name,
        namespace,
        intent: _,
        revision_id: _,
        sequence: _,
        artifact_digest: _,
        folder,
        source_root,
        sha: _,
        message: _,
        configuration,
        dry_run: _,
        sync_config: _,
        revision_at,
        seed,
        templated,
        rendering,
        values,
        contexts,
        imports,
        // What is previewed is not applied.
        paused: _,
        cascaded: _,
        agent_upgrade: _,
        ask: _,
        project: _,
        limits: _,
        source_url: _,
    } = spec;
    Inputs {
        contexts,
        imports: imports
            .into_iter()
            .map(|(stack, outputs)| (stack, serde_json::Value::Object(serde_json::Map::clone(&outputs))))
            .collect(),
        folder: [source_root, folder]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("/"),
        templated,
        service: ServiceInput {
            id: id.to_string(),
            name: name.to_string(),
            namespace: namespace.to_string(),
        },
        cluster: cluster.map(cluster_input).unwrap_or_default(),
        configuration: shown(configuration),
        clock_ms: revision_at.timestamp_millis(),
        seed,
        rendering: rendering_input(rendering, values),
        api_server: None,
    }
}

fn cluster_input(data: ClusterData) -> ClusterInput {
    let ClusterData { id, name, handle, distro, version, tags, metadata, secrets: _ } = data;
    ClusterInput {
        id: id.to_string(),
        name,
        handle,
        distro: distro.map(|distro| distro.as_str().to_owned()).unwrap_or_default(),
        version,
        tags,
        metadata: serde_json::Value::Object(metadata),
    }
}

fn rendering_input(rendering: Rendering, values: RenderingValues) -> RenderingInput {
    let Rendering { helm, kustomize, renderers, sources: _, managed_namespace: _ } = rendering;
    let RenderingValues { helm: helm_values, renderers: mut renderer_values } = values;
    renderer_values.resize(renderers.len(), None);
    RenderingInput {
        helm: helm.map(|spec| helm_input(spec, helm_values)).unwrap_or_default(),
        kustomize: kustomize.map(|spec| {
            let Kustomize { path, enable_helm, envsubst } = spec;
            KustomizeInput { path, enable_helm, envsubst }
        }),
        renderers: renderers.into_iter().zip(renderer_values).map(renderer_input).collect(),
    }
}

fn helm_input(helm: Helm, values: HelmValues) -> HelmInput {
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
    let asked = ChartAsked {
        chart: chart.unwrap_or_default(),
        version: version.unwrap_or_default(),
        url: url.unwrap_or_default(),
    };
    HelmInput {
        release,
        values: inline,
        set: set.map(|HelmSet { name, value }| (name, value)),
        values_files,
        ignore_hooks,
        ignore_crds,
        lua_script,
        lua_file,
        lua_folder,
        kustomize_postrender,
        asked,
    }
}

fn renderer_input((renderer, values): (Renderer, Option<String>)) -> RendererInput {
    let Renderer { path, kind } = renderer;
    let own = |helm: RendererHelm| {
        if helm == RendererHelm::default() && values.is_none() {
            return None;
        }
        let RendererHelm { values_files, release, ignore_hooks } = helm;
        Some(HelmInput { release, values, values_files, ignore_hooks, ..HelmInput::default() })
    };
    let kind = match kind {
        plural_core::service::RendererKind::Auto { helm } => RendererKind::Auto(own(helm)),
        plural_core::service::RendererKind::Raw => RendererKind::Raw,
        plural_core::service::RendererKind::Helm { helm } => RendererKind::Helm(own(helm)),
        plural_core::service::RendererKind::Kustomize => RendererKind::Kustomize,
        plural_core::service::RendererKind::Command { command } => RendererKind::Command(command),
    };
    RendererInput { path, kind }
}
