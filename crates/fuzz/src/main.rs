//! `cargo run -p plural-fuzz --release -- TARGET|all RUNS [SEED]`: mutations on a stable toolchain, without coverage.
//!
//! Before each run the input is kept in a file, so that one that ends the process can be looked at; one that panics is
//! kept under its own name.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::ExitCode,
    sync::mpsc,
    thread,
    time::Duration,
};

use plural_fuzz::{Mutator, TARGETS, Target, corpus};

/// The stack of a thread of a runtime: faults that need a larger one are faults.
const STACK_BYTES: usize = 2 << 20;
/// An input that takes longer is kept and ends the program.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, runs, seed) = match arguments.as_slice() {
        [name, runs] => (name, runs.parse(), Ok(1)),
        [name, runs, seed] => (name, runs.parse(), seed.parse()),
        _ => return usage(),
    };
    let (Ok(runs), Ok(seed)) = (runs, seed) else { return usage() };
    if let Some(file) = name.strip_prefix('@') {
        return replay(file);
    }
    let chosen: Vec<&Target> = TARGETS.iter().filter(|target| name == "all" || target.name == name).collect();
    if chosen.is_empty() {
        return usage();
    }
    let mut faults = 0;
    for target in chosen {
        faults += run_target(target, runs, seed);
    }
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    eprintln!("usage: plural-fuzz all|TARGET|@FILE RUNS [SEED]\ntargets: {}", names.join(" "));
    ExitCode::from(2)
}

/// Runs one kept file, whose name begins with that of its target.
fn replay(file: &str) -> ExitCode {
    let name = file.rsplit('/').next().unwrap_or(file);
    let target = TARGETS.iter().find(|target| name.starts_with(&format!("{}-", target.name)));
    let (Some(target), Ok(bytes)) = (target, fs::read(file)) else { return usage() };
    let run = target.run;
    match thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || run(&bytes))
        .map(thread::JoinHandle::join)
    {
        Ok(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Runs mutations of a target's inputs and returns how many panicked.
fn run_target(target: &'static Target, runs: usize, seed: u64) -> usize {
    let inputs = match corpus(target.name) {
        Ok(inputs) if !inputs.is_empty() => inputs,
        _ => {
            eprintln!("{}: no inputs", target.name);
            return 1;
        }
    };
    let folder = std::env::temp_dir().join("plural-fuzz");
    drop(fs::create_dir_all(&folder));
    let current = folder.join(format!("{}-current-{seed}", target.name));
    let (tell, hear) = mpsc::sync_channel::<Option<PathBuf>>(0);
    let kept = current.clone();
    let worker = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let mut mutator = Mutator::new(seed);
        for number in 0..runs {
            let input = mutator.next(&inputs);
            drop(fs::write(&kept, &input));
            let panicked = catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err();
            let told = panicked.then(|| {
                let file = folder.join(format!("{}-panic-{seed}-{number}", target.name));
                drop(fs::write(&file, &input));
                file
            });
            if tell.send(told).is_err() {
                return;
            }
        }
    });
    let Ok(worker) = worker else { return 1 };
    let mut faults = 0;
    for _ in 0..runs {
        match hear.recv_timeout(PATIENCE) {
            Ok(None) => {}
            Ok(Some(file)) => {
                faults += 1;
                eprintln!("{}: panicked, kept as {}", target.name, file.display());
            }
            Err(_) => {
                eprintln!("{}: does not end, kept as {}", target.name, current.display());
                return faults + 1;
            }
        }
    }
    drop(worker.join());
    eprintln!("{}: {runs} runs, {faults} panicked", target.name);
    faults
}
