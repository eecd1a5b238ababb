//! Real charts, in process: from archive and values to text, beside Helm's own packages and its program.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use plural_render::helm::{ArchiveLimits, Capabilities, Chart, Limits, RenderOptions, render};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{Options, Tools, clock, peer::Peer};
use crate::{
    allocations::{Memory, counted},
    report::Figure,
    samples::Samples,
};

/// So many charts get figures of their own.
const HEAVIEST: usize = 20;
/// A chart is small up to this many bytes of archive: an application with the usual dozen templates.
const SMALL: usize = 16 << 10;
/// The renderer's clock: it must be the same on every run.
const CLOCK_MS: i64 = 1_767_317_945_000;

/// `case.json` of the corpus, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Spec {
    id: String,
    chart: String,
    chart_archive: String,
    release: String,
    namespace: String,
    kube_version: String,
    api_versions: Vec<String>,
    include_crds: bool,
    #[serde(default)]
    skip_schema_validation: bool,
    nondeterministic: bool,
    expect_error: Option<Value>,
}

struct Case {
    spec: Spec,
    archive: PathBuf,
    values_file: PathBuf,
    packed: Vec<u8>,
    values: Vec<u8>,
}

/// What the peer is asked; its names are those of its program.
#[derive(Debug, Serialize)]
struct Request<'c> {
    chart: &'c Path,
    values: &'c Path,
    release: &'c str,
    namespace: &'c str,
    kube_version: &'c str,
    api_versions: &'c [String],
    include_crds: bool,
    skip_schema: bool,
    rounds: usize,
}

#[derive(Debug, Default, Deserialize)]
struct Answer {
    #[serde(default)]
    error: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    cold: Vec<u64>,
    #[serde(default)]
    warm: Vec<u64>,
    #[serde(default)]
    wall: Vec<u64>,
    #[serde(default)]
    allocated: u64,
    #[serde(default)]
    resident: u64,
}

impl Case {
    fn read(root: &Path, folder: &Path) -> anyhow::Result<Self> {
        let spec: Spec = serde_json::from_slice(&fs::read(folder.join("case.json"))?)?;
        let archive = root.join(&spec.chart_archive);
        let values_file = folder.join("values.yaml");
        let packed = fs::read(&archive)?;
        let values = fs::read(&values_file).unwrap_or_default();
        Ok(Self { spec, archive, values_file, packed, values })
    }

    fn load(&self) -> anyhow::Result<Chart> {
        Ok(Chart::from_archive(&self.packed, &ArchiveLimits::default())?)
    }

    /// What comes after loading: values are read, templates run, documents ordered and written.
    fn render(&self, chart: &Chart) -> anyhow::Result<String> {
        let values = match plural_render::yaml::parse(&self.values)? {
            Value::Object(values) => values,
            _ => Map::new(),
        };
        let spec = &self.spec;
        let capabilities =
            Capabilities::new(&spec.kube_version, &spec.api_versions).map_err(anyhow::Error::msg)?;
        let options = RenderOptions {
            release: &spec.release,
            namespace: &spec.namespace,
            values: &values,
            capabilities: &capabilities,
            include_crds: spec.include_crds,
            skip_schema: spec.skip_schema_validation,
            is_upgrade: false,
            seed: b"bench",
            clock_ms: CLOCK_MS,
            lookup: None,
            limits: Limits::default(),
        };
        Ok(render(chart, &options)?.to_text())
    }

    fn request(&self, rounds: usize) -> Request<'_> {
        let spec = &self.spec;
        Request {
            chart: &self.archive,
            values: &self.values_file,
            release: &spec.release,
            namespace: &spec.namespace,
            kube_version: &spec.kube_version,
            api_versions: &spec.api_versions,
            include_crds: spec.include_crds,
            skip_schema: spec.skip_schema_validation,
            rounds,
        }
    }

    fn program(&self, helm: &Path) -> Command {
        let spec = &self.spec;
        let mut command = Command::new(helm);
        command.args(["template", &spec.release]).arg(&self.archive).arg("-f").arg(&self.values_file);
        command.args(["-n", &spec.namespace, "--kube-version", &spec.kube_version]);
        for version in &spec.api_versions {
            command.args(["--api-versions", version]);
        }
        if spec.include_crds {
            command.arg("--include-crds");
        }
        if spec.skip_schema_validation {
            command.arg("--skip-schema-validation");
        }
        command
    }
}

/// All of one case.
#[derive(Debug, Default)]
struct Measured {
    cold: Samples,
    warm: Samples,
    memory: Memory,
    text: usize,
    peer: Answer,
}

fn measure(case: &Case, rounds: usize) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    // Once unmeasured, as for the peer.
    let chart = case.load()?;
    measured.text = case.render(&chart)?.len();
    for _ in 0..rounds {
        let started = clock::thread();
        let chart = case.load()?;
        let text = case.render(&chart)?;
        let ended = clock::thread();
        // A chart that is used again is dropped at some other time; one that is not, here.
        drop((chart, text));
        measured.cold.add(ended.saturating_sub(started));
    }
    for _ in 0..rounds {
        let started = clock::thread();
        let text = case.render(&chart)?;
        let ended = clock::thread();
        drop(text);
        measured.warm.add(ended.saturating_sub(started));
    }
    let (rendered, memory) = counted(|| case.load().and_then(|chart| case.render(&chart)));
    rendered?;
    measured.memory = memory;
    Ok(measured)
}

fn milliseconds(nanoseconds: &[u64]) -> Samples {
    let mut samples = Samples::default();
    for value in nanoseconds {
        samples.add(Duration::from_nanos(*value));
    }
    samples
}

pub(super) fn run(options: &Options, root: &Path, tools: &Tools) -> anyhow::Result<Vec<Figure>> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root.join("cases"))?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    folders.sort();
    let mut cases = Vec::new();
    for folder in &folders {
        let case = Case::read(root, folder).with_context(|| format!("case {}", folder.display()))?;
        let renders = case.spec.expect_error.is_none() && !case.spec.nondeterministic;
        if renders && options.only.as_ref().is_none_or(|only| case.spec.id.contains(only)) {
            cases.push(case);
        }
    }
    anyhow::ensure!(!cases.is_empty(), "no case is left to measure");
    let mut peer = match &tools.peer_helm {
        Some(program) => Some(Peer::start(program, Some(1))?),
        None => None,
    };
    eprintln!("{} cases that render the same on every run", cases.len());
    let mut results = Vec::with_capacity(cases.len());
    for case in &cases {
        let mut measured = measure(case, options.rounds).with_context(|| format!("case {}", case.spec.id))?;
        if let Some(peer) = &mut peer {
            measured.peer = peer.ask(&case.request(options.peer_rounds))?;
            let Answer { error, digest, .. } = &measured.peer;
            let ours = hex::encode(Sha256::digest(case.render(&case.load()?)?));
            if !error.is_empty() || *digest != ours {
                eprintln!("{}: the peer says something else {error}", case.spec.id);
            }
        }
        results.push(measured);
    }
    drop(peer);
    let mut figures = corpus(&cases, &results);
    figures.extend(small(&cases, options)?);
    if let Some(helm) = &tools.helm {
        eprintln!("the same with the program");
        let mut used = Duration::ZERO;
        for case in &cases {
            used += clock::program(&mut case.program(helm))?.unwrap_or_default();
        }
        let ours: f64 = results.iter().map(|r| r.cold.percentile(50)).sum();
        figures.push(
            Figure::new("helm: corpus, faster than the process", used.as_secs_f64() * 1000.0 / ours, "times")
                .beside("ms per case of the process", used.as_secs_f64() * 1000.0 / cases.len() as f64),
        );
    }
    figures.extend(heaviest(options, &cases, &results, tools)?);
    Ok(figures)
}

fn corpus(cases: &[Case], results: &[Measured]) -> Vec<Figure> {
    let count = cases.len() as f64;
    let total = |of: &dyn Fn(&Measured) -> f64| results.iter().map(of).sum::<f64>();
    let (cold, warm) = (total(&|r| r.cold.percentile(50)), total(&|r| r.warm.percentile(50)));
    let mut all_cold = Samples::default();
    let mut all_warm = Samples::default();
    for result in results {
        all_cold.merge(result.cold.clone());
        all_warm.merge(result.warm.clone());
    }
    let peer = |of: &dyn Fn(&Answer) -> &[u64]| total(&|r| milliseconds(of(&r.peer)).percentile(50));
    let (peer_cold, peer_warm) = (peer(&|a| &a.cold), peer(&|a| &a.warm));
    let bytes = total(&|r| r.memory.allocated as f64);
    let mut figures = vec![
        Figure::new("helm: corpus, cold, mean", cold / count, "ms")
            .beside("Go engine", peer_cold / count)
            .beside("p50 of cases", all_cold.percentile(50))
            .beside("p99", all_cold.percentile(99))
            .beside("cases", count),
        Figure::new("helm: corpus, warm, mean", warm / count, "ms")
            .beside("Go engine without load", peer_warm / count)
            .beside("p50 of cases", all_warm.percentile(50))
            .beside("p99", all_warm.percentile(99)),
        Figure::new("helm: corpus, warm renders per core", count / warm * 1000.0, "/s")
            .beside("Go engine", if peer_warm > 0.0 { count / peer_warm * 1000.0 } else { 0.0 }),
        Figure::new("helm: corpus, allocated per case, cold", bytes / count / 1e6, "MB")
            .beside("Go engine", total(&|r| r.peer.allocated as f64) / count / 1e6)
            .beside("thousand allocations", total(&|r| r.memory.calls as f64) / count / 1e3),
        Figure::new(
            "helm: corpus, most held by one case",
            results.iter().map(|r| r.memory.peak).max().unwrap_or(0) as f64 / 1e6,
            "MB",
        )
        .beside(
            "Go process resident",
            results.iter().map(|r| r.peer.resident).max().unwrap_or(0) as f64 / 1e6,
        ),
    ];
    if peer_cold > 0.0 {
        figures.push(
            Figure::new("helm: corpus, faster than the Go engine, cold", peer_cold / cold, "times")
                .at_least(10.0)
                .beside("by the median case", median_ratio(results)),
        );
        figures.push(Figure::new("helm: corpus, faster than the Go engine, warm", peer_warm / warm, "times"));
    }
    figures
}

fn median_ratio(results: &[Measured]) -> f64 {
    let mut ratios: Vec<f64> = results
        .iter()
        .map(|r| milliseconds(&r.peer.cold).percentile(50) / r.cold.percentile(50).max(f64::MIN_POSITIVE))
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(0.0)
}

/// Small charts, again and again: on one core, and on all at once, where a lock between renders would show.
fn small(cases: &[Case], options: &Options) -> anyhow::Result<Vec<Figure>> {
    let small: Vec<&Case> = cases.iter().filter(|case| case.packed.len() <= SMALL).collect();
    if small.is_empty() {
        return Ok(Vec::new());
    }
    let charts = small.iter().map(|case| case.load()).collect::<anyhow::Result<Vec<_>>>()?;
    let rounds = options.rounds.max(1);
    let once = || -> anyhow::Result<()> {
        small.iter().zip(&charts).try_for_each(|(case, chart)| case.render(chart).map(drop))
    };
    once()?;
    let started = clock::thread();
    for _ in 0..rounds {
        once()?;
    }
    let alone = (small.len() * rounds) as f64 / clock::thread().saturating_sub(started).as_secs_f64();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let wall = Instant::now();
    let used: Vec<Duration> = thread::scope(|scope| {
        let work = || {
            let started = clock::thread();
            while next.fetch_add(1, Ordering::Relaxed) < rounds * cores {
                if once().is_err() {
                    break;
                }
            }
            clock::thread().saturating_sub(started)
        };
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let renders = (small.len() * rounds * cores) as f64;
    Ok(vec![
        Figure::new("helm: small charts, warm renders per core", alone, "/s")
            .at_least(1000.0)
            .beside("cases", small.len() as f64)
            .beside("per core with all busy", renders / used.iter().sum::<Duration>().as_secs_f64())
            .beside("all cores, on the clock", renders / wall.elapsed().as_secs_f64()),
    ])
}

fn heaviest(
    options: &Options,
    cases: &[Case],
    results: &[Measured],
    tools: &Tools,
) -> anyhow::Result<Vec<Figure>> {
    // Of each chart the case that costs most; by the peer where there is one, so that what we got rid of stays.
    let cost = |r: &Measured| match milliseconds(&r.peer.cold).percentile(50) {
        peer if peer > 0.0 => peer,
        _ => r.cold.percentile(50),
    };
    let mut charts: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for (at, (case, result)) in cases.iter().zip(results).enumerate() {
        let entry = charts.entry(&case.spec.chart).or_insert((0.0, at));
        if cost(result) > entry.0 {
            *entry = (cost(result), at);
        }
    }
    let mut order: Vec<(f64, usize)> = charts.into_values().collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    order.truncate(HEAVIEST);
    let mut free = match &tools.peer_helm {
        Some(program) => Some(Peer::start(program, None)?),
        None => None,
    };
    let mut figures = Vec::new();
    for (_, at) in order {
        let (Some(case), Some(first)) = (cases.get(at), results.get(at)) else { continue };
        let measured = measure(case, options.rounds * 5)?;
        let name = case.spec.id.as_str();
        let mut figure = Figure::new(format!("helm: {name}, warm"), measured.warm.percentile(50), "ms");
        if let Some((_, goal)) = options.goal.iter().find(|(part, _)| name.contains(part.as_str())) {
            figure = figure.at_most(*goal);
        }
        figure = figure
            .beside("p99", measured.warm.percentile(99))
            .beside("cold", measured.cold.percentile(50))
            .beside("cold p99", measured.cold.percentile(99));
        if !first.peer.cold.is_empty() {
            figure = figure
                .beside("Go warm", milliseconds(&first.peer.warm).percentile(50))
                .beside("Go cold", milliseconds(&first.peer.cold).percentile(50));
        }
        if let Some(free) = &mut free {
            let answer: Answer = free.ask(&case.request(options.peer_rounds))?;
            figure = figure.beside("Go cold on all cores, clock", milliseconds(&answer.wall).percentile(50));
        }
        if let Some(helm) = &tools.helm {
            let mut used = Samples::default();
            for _ in 0..options.peer_rounds {
                if let Some(time) = clock::program(&mut case.program(helm))? {
                    used.add(time);
                }
            }
            figure = figure.beside("process", used.percentile(50));
        }
        figures.push(
            figure
                .beside("MB allocated", measured.memory.allocated as f64 / 1e6)
                .beside("MB held", measured.memory.peak as f64 / 1e6)
                .beside("kB of text", measured.text as f64 / 1e3),
        );
    }
    Ok(figures)
}
