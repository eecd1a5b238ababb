//! How long each of our crates takes to build, with everything else built before.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use serde::Deserialize;

use super::{Chapter, Figure};
use crate::shell;

const SECONDS: f64 = 60.0;
/// Of other work; above it, the figures would say how busy the machine is.
const LOAD: f64 = 0.5;

/// A line of cargo's report: one run of the compiler.
#[derive(Debug, Deserialize)]
struct Unit {
    name: String,
    duration: f64,
}

pub(super) fn count(root: &Path) -> anyhow::Result<Chapter> {
    let load = load();
    anyhow::ensure!(
        load.is_none_or(|load| load <= LOAD),
        "the machine has other work (load {:.2}, at most {LOAD}): wait until it has none",
        load.unwrap_or_default()
    );
    let packages: Vec<String> =
        shell::read_metadata(root)?.packages.into_iter().map(|package| package.name).collect();
    let target = shell::metadata()?.target_directory.join("house");
    let cargo = |args: &[&str]| {
        let mut command = shell::cargo();
        command.args(args).current_dir(root).env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "0");
        command
    };
    shell::run(&mut cargo(&["build", "--workspace"]))?;
    let mut clean = cargo(&["clean"]);
    for package in &packages {
        clean.args(["--package", package]);
    }
    shell::run(&mut clean)?;
    shell::run(&mut cargo(&["build", "--workspace", "--timings", "-j2"]))?;

    let report = target.join("cargo-timings").join("cargo-timing.html");
    let text = fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
    let mut seconds: Vec<(String, f64)> = sums(&units(&text)?, &packages).into_iter().collect();
    seconds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let figures = seconds
        .into_iter()
        .map(|(name, seconds)| Figure::at_most(name, (seconds * 10.0).round() / 10.0, "s", SECONDS));
    Ok(Chapter {
        title: "Seconds to build a crate, two at once",
        figures: figures.collect(),
        details: vec![format!("load before: {:.2}", load.unwrap_or_default())],
    })
}

/// The load of the last minute, where the system tells.
fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// On a stable toolchain, the report's figures are only in the script of its page.
fn units(page: &str) -> anyhow::Result<Vec<Unit>> {
    let data =
        page.split_once("UNIT_DATA = ").map(|(_, data)| data).context("cargo's report has no UNIT_DATA")?;
    let mut values = serde_json::Deserializer::from_str(data).into_iter::<Vec<Unit>>();
    values.next().context("cargo's report has no units")?.context("cannot read the units of cargo's report")
}

/// All runs of the compiler for a package, together.
fn sums(units: &[Unit], packages: &[String]) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for unit in units.iter().filter(|unit| packages.contains(&unit.name)) {
        *sums.entry(unit.name.clone()).or_default() += unit.duration;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_cargo_is_read() {
        let page = "<script>\nconst DURATION = 3;\nconst UNIT_DATA = [\n  {\"i\": 0, \"name\": \"plural-core\", \
                    \"version\": \"0.1.0\", \"mode\": \"todo\", \"target\": \"\", \"start\": 0.1, \"duration\": 2.5, \
                    \"rmeta_time\": 1.0, \"unlocked_units\": [1]},\n  {\"i\": 1, \"name\": \"plural-core\", \"version\": \
                    \"0.1.0\", \"mode\": \"todo\", \"target\": \" build script\", \"start\": 0.1, \"duration\": 0.5},\n  \
                    {\"i\": 2, \"name\": \"serde\", \"duration\": 9.0}\n];\nconst CONCURRENCY_DATA = [];\n</script>";
        let sums = sums(&units(page).unwrap(), &["plural-core".to_owned()]);
        assert_eq!(sums, BTreeMap::from([("plural-core".to_owned(), 3.0)]));
        assert!(units("<html>").is_err());
    }
}
