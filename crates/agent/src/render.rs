//! A service's artifact becomes objects.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use plural_core::ids::ServiceId;
use plural_core::managed_namespace::NamespaceContent;
use plural_core::service::Reference;
use plural_kit::Hold;
use plural_render::{Inputs, Object, Origin, Ports, RenderError, Rendered, Tree, TreeLimits, render_with};
use plural_sync::{Engine, Part, Resolved, Retry, Target};
use plural_tunnel::{ArtifactDigest, v1};
use tokio::runtime::Handle;

use crate::{
    agent::Core,
    artifacts::ArtifactError,
    cluster::{Asker, Lookup},
    config::Parts,
    encrypted::{Encrypted, Unlocked, sealed_objects},
    inputs::inputs,
    renders::within,
    target::references,
};

/// Something that kept a service from being rendered.
pub(crate) struct Obstacle {
    pub(crate) source: &'static str,
    /// Message and location of each.
    pub(crate) problems: Vec<(String, String)>,
    pub(crate) retry: Retry,
}

impl Obstacle {
    pub(crate) fn new(source: &'static str, message: String, retry: Retry) -> Self {
        Self { source, problems: vec![(message, String::new())], retry }
    }

    /// The same, where files stayed encrypted that may be the cause.
    fn with_closed(mut self, files: &BTreeMap<String, String>) -> Self {
        if !files.is_empty() {
            let told =
                files.iter().map(|(path, why)| (format!("the file stays encrypted: {why}"), path.clone()));
            self.problems.extend(told);
            // A key may come.
            self.retry = self.retry.sooner(Retry::Later);
        }
        self
    }

    /// One that stays until the service changes.
    pub(crate) fn lasting(message: String) -> Self {
        Self::new("render", message, Retry::OnChange)
    }
}

/// The objects of a service, and the memory that they were given: nobody else gets it while this lives.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) rendered: Rendered,
    pub(crate) hold: Option<Arc<Hold>>,
    /// They were made with values that are to be hidden.
    pub(crate) holds_secrets: bool,
}

/// What templates may look up in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// What the service may see.
    Service,
    /// Of that, what is in the service's own namespace, and no value of a Secret: nobody has reviewed the templates yet.
    OwnNamespace,
}

/// The objects of a service as they should be; notes in `parts` how long what took.
pub(crate) async fn rendered(
    by: (&Arc<Core>, &Engine),
    id: ServiceId,
    service: &Arc<v1::Service>,
    target: &Target,
    parts: &mut Parts,
) -> Result<Made, Obstacle> {
    rendered_with(by, id, service, (target, Sight::Service), parts).await
}

/// The same, with this sight.
pub(crate) async fn rendered_with(
    (core, engine): (&Arc<Core>, &Engine),
    id: ServiceId,
    service: &Arc<v1::Service>,
    (target, sight): (&Target, Sight),
    parts: &mut Parts,
) -> Result<Made, Obstacle> {
    let bounds = engine.bounds(target);
    // Before a template can ask for anything.
    if let Some(message) = bounds.refusal() {
        core.vaults.forget(id);
        return Err(Obstacle::new(Part::Limits.as_str(), message, Retry::OnChange));
    }
    if let Some(content) = &service.managed_namespace {
        let rendered = Rendered { objects: namespace(content, &service.namespace), warnings: Vec::new() };
        return Ok(Made { rendered, ..Made::default() });
    }
    let digest: ArtifactDigest = service
        .artifact_digest
        .parse()
        .map_err(|error| Obstacle::new("source", format!("{error}"), Retry::OnChange))?;
    let mut inputs = inputs(service, core.desired.cluster().as_deref()).map_err(|what| {
        // The text stays out: it holds secret values.
        Obstacle::new("render", format!("{what} cannot be read as the console sent them"), Retry::Later)
    })?;
    let references = Arc::new(references(service).map_err(Obstacle::lasting)?);
    inputs.configuration.extend(resolved((core, engine), &references, target).await?);
    let inputs = Arc::new(inputs);
    let only = (sight == Sight::OwnNamespace).then(|| target.namespace.clone());
    let asker = Asker { user: target.user(), bounds, only };
    let attempt = |hold| {
        let what = (id, Arc::clone(service), digest.clone());
        let inputs = (Arc::clone(&inputs), Arc::clone(&references));
        attempt(Arc::clone(core), what, inputs, asker.clone(), hold)
    };
    let (Attempted { rendered, holds_secrets, held, fetch, render }, hold) =
        core.renders.run(id, service, attempt).await?;
    (parts.fetch, parts.render) = (fetch, render);
    // A plan compares what is wanted with what is there: about as much again.
    hold.keep(held.saturating_mul(2)).await;
    let holds_secrets = holds_secrets || references.values().any(Reference::is_secret);
    Ok(Made { rendered, hold: Some(hold), holds_secrets })
}

/// The values that the service reads in the cluster and in Vault. They are known to be secret from here on.
async fn resolved(
    (core, engine): (&Core, &Engine),
    references: &BTreeMap<String, Reference>,
    target: &Target,
) -> Result<BTreeMap<String, String>, Obstacle> {
    if references.is_empty() {
        core.vaults.forget(target.id);
        engine.drop_references(target.id);
        return Ok(BTreeMap::new());
    }
    let mut resolved = engine.read_references(target, references).await;
    if resolved.problems.is_empty() {
        core.vaults.read(target, references, &mut resolved).await;
    }
    let Resolved { values, problems, retry } = resolved;
    let secret = |(name, value): (&String, &String)| {
        references.get(name).is_some_and(Reference::is_secret).then(|| value.clone())
    };
    core.secrets.learn(target.id, values.iter().filter_map(secret).collect());
    if problems.is_empty() {
        return Ok(values);
    }
    let problems = problems.into_iter().map(|problem| (problem, String::new())).collect();
    Err(Obstacle { source: "render", problems, retry })
}

/// What one try to render a service gave.
struct Attempted {
    rendered: Rendered,
    /// Encrypted files are part of it.
    holds_secrets: bool,
    /// Bytes of it.
    held: u64,
    fetch: Duration,
    render: Duration,
}

async fn attempt(
    core: Arc<Core>,
    (id, service, digest): (ServiceId, Arc<v1::Service>, ArtifactDigest),
    (inputs, references): (Arc<Inputs>, Arc<BTreeMap<String, Reference>>),
    asker: Asker,
    hold: Arc<Hold>,
) -> Result<Attempted, Obstacle> {
    let started = Instant::now();
    let tar = core.artifacts.get(&core.console, &digest, &hold).await.map_err(|error: ArtifactError| {
        let retry = if error.is_transient() { Retry::Soon } else { Retry::Later };
        Obstacle::new("source", error.to_string(), retry)
    })?;
    let fetch = started.elapsed();
    let started = Instant::now();
    // It is not the render's to free: its bytes are counted apart.
    let kept = Arc::clone(&tar);
    let runtime = Handle::current();
    // Off the runtime's threads: a template may think for a while.
    let own = Arc::clone(&core);
    let made = tokio::task::spawn_blocking(move || {
        let core = own;
        let _note = core.renders.note(id, &service, hold.is_alone());
        let root = service.source_root.clone();
        within(Arc::clone(&hold), tar.len() as u64, || {
            let tree = Tree::from_tar(tar, &TreeLimits::default())
                .map_err(|error| Obstacle::new("source", error.to_string(), Retry::OnChange))?
                // What is told of a file names it as the repository does.
                .below(&root);
            // What is allocated here is freed here: only that is counted.
            let mut inputs = Inputs::clone(&inputs);
            let Some(encrypted) = Encrypted::of(&tree, &inputs.folder, &references) else {
                let rendered = objects(&core, runtime, &tree, inputs, asker, &hold)?;
                return Ok((unsealed(rendered, &BTreeMap::new())?, false));
            };
            let Unlocked { tree, values, locked, secrets, problems: _ } =
                unlocked(&core, &runtime, &encrypted, (id, &service))?;
            inputs.configuration.extend(values);
            let rendered = objects(&core, runtime, &tree, inputs, asker, &hold)
                .map_err(|obstacle| obstacle.with_closed(&locked))?;
            Ok((unsealed(rendered, &locked)?, !secrets.is_empty()))
        })
    })
    .await;
    drop(kept);
    core.renders.survived(id);
    let (rendered, held) = made
        .map_err(|_| Obstacle::new("render", "the renderer failed unexpectedly".to_owned(), Retry::Later))?;
    let (rendered, holds_secrets) = rendered?;
    Ok(Attempted { rendered, holds_secrets, held, fetch, render: started.elapsed() })
}

/// Objects, if none of them holds a value that is still encrypted.
fn unsealed(rendered: Rendered, locked: &BTreeMap<String, String>) -> Result<Rendered, Obstacle> {
    let problems = sealed_objects(&rendered.objects, locked);
    if problems.is_empty() {
        return Ok(rendered);
    }
    Err(Obstacle { source: "render", problems, retry: Retry::Later })
}

/// What of the service is encrypted in git, opened with the identities of its project. It is known to be secret from here on.
fn unlocked(
    core: &Core,
    runtime: &Handle,
    encrypted: &Encrypted<'_>,
    (id, service): (ServiceId, &v1::Service),
) -> Result<Unlocked, Obstacle> {
    let project = service.project.as_str();
    let transient = |message| Obstacle::new("render", message, Retry::Soon);
    let identities = runtime.block_on(core.keys.of(project)).map_err(transient)?;
    let again = || runtime.block_on(core.keys.again(project));
    let unlocked = encrypted.unlock(project, &identities, again).map_err(transient)?;
    core.secrets.learn(id, unlocked.secrets.clone());
    if unlocked.problems.is_empty() {
        return Ok(unlocked);
    }
    let problems = unlocked.problems.into_iter().map(|problem| (problem, String::new())).collect();
    Err(Obstacle { source: "render", problems, retry: Retry::Later })
}

/// The objects of a managed namespace.
fn namespace(content: &v1::ManagedNamespace, name: &str) -> Vec<Object> {
    let v1::ManagedNamespace { labels, annotations, has_pull_secrets, pull_secrets } = content.clone();
    let content = NamespaceContent {
        labels: labels.into_iter().collect(),
        annotations: annotations.into_iter().collect(),
        pull_secrets: has_pull_secrets.then_some(pull_secrets),
    };
    let objects = content.objects(name).into_iter();
    objects.map(|value| Object { value, origin: Origin { path: String::new(), line: 0 } }).collect()
}

fn objects(
    core: &Core,
    runtime: Handle,
    tree: &Tree,
    mut inputs: Inputs,
    asker: Asker,
    hold: &Hold,
) -> Result<Rendered, Obstacle> {
    // Only charts ask what the cluster serves.
    if tree.walk("").any(|(path, _)| path == "Chart.yaml" || path.ends_with("/Chart.yaml")) {
        let server = runtime
            .block_on(core.cluster.api_server())
            .map_err(|error| Obstacle::new("render", error.to_string(), Retry::Soon))?;
        inputs.api_server = Some(server);
    }
    let commands = core.commands.port(runtime.clone(), hold);
    let lookup = Lookup::new(&core.cluster, runtime, asker);
    let ports = Ports { lookup: Some(&lookup), commands: Some(&commands) };
    let outcome = render_with(tree, &inputs, ports);
    // A chart that did not learn what is there could make it anew.
    if let Some(message) = lookup.failure() {
        return Err(Obstacle::new("render", message, Retry::Soon));
    }
    outcome.map_err(|error| unrendered(&error))
}

fn unrendered(error: &RenderError) -> Obstacle {
    let problems = error.problems().into_iter().map(|problem| {
        let location = problem.location();
        (problem.message, location)
    });
    Obstacle { source: "render", problems: problems.collect(), retry: Retry::OnChange }
}
