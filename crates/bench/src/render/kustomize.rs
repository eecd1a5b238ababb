//! Real overlays, beside Kustomize's own packages and its program.

use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};

use anyhow::Context as _;
use plural_render::kustomize::{Entry, Files, Options as BuildOptions, build};
use serde::{Deserialize, Serialize};

use super::{Options, Tools, clock, peer::Peer};
use crate::{
    allocations::{Memory, counted},
    report::Figure,
    samples::Samples,
};

/// A line of `cases.json`, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    tree: String,
    path: String,
    expect: Expect,
}

#[derive(Debug, Deserialize)]
struct Expect {
    file: Option<String>,
}

#[derive(Debug, Serialize)]
struct Request<'c> {
    path: &'c Path,
    rounds: usize,
}

#[derive(Debug, Default, Deserialize)]
struct Answer {
    #[serde(default)]
    error: String,
    #[serde(default)]
    cpu: Vec<u64>,
    #[serde(default)]
    allocated: u64,
}

enum Item {
    File(Vec<u8>),
    Folder,
    Link(String),
}

/// A tree in memory, as a console or an agent holds it.
#[derive(Default)]
struct Held {
    entries: BTreeMap<String, Item>,
}

impl Held {
    fn read(root: &Path) -> anyhow::Result<Self> {
        let mut held = Self::default();
        held.add(root, "").with_context(|| format!("cannot read {}", root.display()))?;
        Ok(held)
    }

    fn add(&mut self, folder: &Path, at: &str) -> anyhow::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if at.is_empty() { name } else { format!("{at}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                let target = fs::read_link(entry.path())?;
                self.entries.insert(path, Item::Link(target.to_string_lossy().into_owned()));
            } else if kind.is_dir() {
                self.add(&entry.path(), &path)?;
                self.entries.insert(path, Item::Folder);
            } else {
                self.entries.insert(path, Item::File(fs::read(entry.path())?));
            }
        }
        Ok(())
    }
}

impl Files for Held {
    fn entry(&self, path: &str) -> Option<Entry<'_>> {
        if path.is_empty() {
            return Some(Entry::Folder);
        }
        Some(match self.entries.get(path)? {
            Item::File(content) => Entry::File(content),
            Item::Folder => Entry::Folder,
            Item::Link(target) => Entry::Link(target),
        })
    }
}

#[derive(Debug, Default)]
struct Measured {
    ours: Samples,
    memory: Memory,
    peer: Samples,
    peer_allocated: u64,
    process: Option<Duration>,
}

pub(super) fn run(options: &Options, root: &Path, tools: &Tools) -> anyhow::Result<Vec<Figure>> {
    let cases: Vec<Case> = serde_json::from_slice(&fs::read(root.join("cases.json"))?)?;
    let mut trees: BTreeMap<String, Held> = BTreeMap::new();
    let mut peer = match &tools.peer_kustomize {
        Some(program) => Some(Peer::start(program, Some(1))?),
        None => None,
    };
    let wanted = |case: &&Case| {
        case.expect.file.is_some() && options.only.as_ref().is_none_or(|only| case.id.contains(only))
    };
    let mut results = Vec::new();
    for case in cases.iter().filter(wanted) {
        let folder = root.join(&case.tree);
        if !trees.contains_key(&case.tree) {
            trees.insert(case.tree.clone(), Held::read(&folder)?);
        }
        let Some(tree) = trees.get(&case.tree) else { continue };
        let make = || build(tree, &case.path, &BuildOptions::default());
        // A copy of the corpus made without links cannot be built from the disk; the peers are left out then.
        if make().is_err() {
            continue;
        }
        let mut measured = Measured::default();
        for _ in 0..options.rounds {
            let started = clock::thread();
            let built = make();
            let ended = clock::thread();
            drop(built);
            measured.ours.add(ended.saturating_sub(started));
        }
        measured.memory = counted(make).1;
        let path = folder.join(&case.path);
        if let Some(peer) = &mut peer {
            let answer: Answer = peer.ask(&Request { path: &path, rounds: options.peer_rounds })?;
            if !answer.error.is_empty() {
                eprintln!("{}: the peer fails: {}", case.id, answer.error);
            }
            for nanoseconds in answer.cpu {
                measured.peer.add(Duration::from_nanos(nanoseconds));
            }
            measured.peer_allocated = answer.allocated;
        }
        if let Some(kustomize) = &tools.kustomize {
            measured.process = clock::program(Command::new(kustomize).arg("build").arg(&path))?;
        }
        results.push((case.id.as_str(), measured));
    }
    anyhow::ensure!(!results.is_empty(), "no overlay is left to measure");
    Ok(figures(&mut results))
}

fn figures(results: &mut [(&str, Measured)]) -> Vec<Figure> {
    let count = results.len() as f64;
    let total = |of: &dyn Fn(&Measured) -> f64| results.iter().map(|(_, r)| of(r)).sum::<f64>();
    let ours = total(&|r| r.ours.percentile(50));
    let peer = total(&|r| r.peer.percentile(50));
    let process = total(&|r| r.process.map_or(0.0, |time| time.as_secs_f64() * 1000.0));
    let mut all = Samples::default();
    for (_, result) in results.iter() {
        all.merge(result.ours.clone());
    }
    let mut figures = vec![
        Figure::new("kustomize: corpus, mean", ours / count, "ms")
            .beside("Go packages", peer / count)
            .beside("process", process / count)
            .beside("p50 of cases", all.percentile(50))
            .beside("p99", all.percentile(99))
            .beside("cases", count),
        Figure::new(
            "kustomize: corpus, allocated per case",
            total(&|r| r.memory.allocated as f64) / count / 1e6,
            "MB",
        )
        .beside("Go packages", total(&|r| r.peer_allocated as f64) / count / 1e6)
        .beside("most held", results.iter().map(|(_, r)| r.memory.peak).max().unwrap_or(0) as f64 / 1e6),
    ];
    if process > 0.0 {
        figures.push(
            Figure::new("kustomize: corpus, faster than the process", process / ours, "times").at_least(20.0),
        );
    }
    if peer > 0.0 {
        figures.push(Figure::new("kustomize: corpus, faster than the Go packages", peer / ours, "times"));
    }
    results.sort_by(|a, b| b.1.ours.percentile(50).total_cmp(&a.1.ours.percentile(50)));
    for (id, result) in results.iter().take(5) {
        figures.push(
            Figure::new(format!("kustomize: {id}"), result.ours.percentile(50), "ms")
                .beside("p99", result.ours.percentile(99))
                .beside("Go packages", result.peer.percentile(50))
                .beside("process", result.process.map_or(0.0, |time| time.as_secs_f64() * 1000.0)),
        );
    }
    figures
}
