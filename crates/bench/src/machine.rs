//! Where and of what a figure was measured.

use std::{fs, process::Command, thread};

/// The machine's load average over the last minute: what else was going on.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("unknown").to_owned()
}

/// `2 cores, 23 GiB, Linux 6.1, MODEL, load average 0.1 at the start`
pub(crate) fn describe(load: &str) -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let memory = line_of("/proc/meminfo", "MemTotal:")
        .and_then(|v| v.trim_end_matches("kB").trim().parse::<u64>().ok())
        .map_or_else(String::new, |kib| format!(", {} GiB", kib / 1024 / 1024));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| String::new(), |release| format!(", Linux {}", release.trim()));
    let model = line_of("/proc/cpuinfo", "model name")
        .map_or_else(String::new, |name| format!(", {}", name.trim_start_matches(':').trim()));
    format!("{cores} cores{memory}{kernel}{model}, load average {load} at the start")
}

/// The commit that was built, `-dirty` when files differ from it.
pub(crate) fn commit() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn line_of(file: &str, start: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(start)).map(|rest| rest.trim().to_owned())
}
