//! What a bench found out.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// One run of one bench.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) bench: String,
    pub(crate) machine: String,
    pub(crate) commit: String,
    pub(crate) figures: Vec<Figure>,
}

/// One number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    /// What it should be, as in `≤ 300`; none for a number that is only told.
    pub(crate) goal: Option<String>,
    /// Whether the goal is reached; none without a goal.
    pub(crate) holds: Option<bool>,
    /// The limit, a peer, a part of the whole: in the same unit.
    pub(crate) beside: Vec<Beside>,
}

/// A number to compare with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Beside {
    pub(crate) name: String,
    pub(crate) value: f64,
}

impl Figure {
    /// A number that is only told.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &str) -> Self {
        Self { name: name.into(), value, unit: unit.to_owned(), goal: None, holds: None, beside: Vec::new() }
    }

    /// The figure should be at most this.
    pub(crate) fn at_most(mut self, limit: f64) -> Self {
        self.goal = Some(format!("≤ {}", shown(limit)));
        self.holds = Some(self.value <= limit);
        self
    }

    /// The figure should be at least this.
    pub(crate) fn at_least(mut self, limit: f64) -> Self {
        self.goal = Some(format!("≥ {}", shown(limit)));
        self.holds = Some(self.value >= limit);
        self
    }

    /// A number to compare with.
    pub(crate) fn beside(mut self, name: impl Into<String>, value: f64) -> Self {
        self.beside.push(Beside { name: name.into(), value });
        self
    }
}

impl Report {
    /// The last report of a bench; none when there is none that can be read.
    pub(crate) fn read(folder: &Path, bench: &str) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(format!("{bench}.json"))).ok()?).ok()
    }

    /// Has the figures of an earlier run, too, that this one did not take: of the same commit, so that all of them are.
    pub(crate) fn keep(&mut self, earlier: &Self) {
        if earlier.commit != self.commit {
            return;
        }
        let is_new = |figure: &&Figure| self.figures.iter().all(|own| own.name != figure.name);
        let kept: Vec<Figure> = earlier.figures.iter().filter(is_new).cloned().collect();
        self.figures.extend(kept);
    }

    /// Keep it for the next run to compare with.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let file = folder.join(format!("{}.json", self.bench));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&file, serde_json::to_vec_pretty(self)?))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

/// A number as a person reads it: three digits that matter, thousands apart.
pub(crate) fn shown(value: f64) -> String {
    // A sum of nothing may be a negative zero.
    let value = value + 0.0;
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let plain = format!("{value:.digits$}");
    let (whole, fraction) =
        plain.split_once('.').map_or((plain.as_str(), ""), |(w, f)| (w, f.trim_end_matches('0')));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |w| ("-", w));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (value, expected) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (2.3456, "2.35"),
            (23.456, "23.5"),
            (1234.5, "1 234"),
            (-50_000.0, "-50 000"),
        ] {
            assert_eq!(shown(value), expected);
        }
    }

    #[test]
    fn goals_hold_or_not() {
        let figure = Figure::new("p50", 120.0, "ms").at_most(300.0).beside("git", 30.0);
        assert_eq!((figure.goal.as_deref(), figure.holds), (Some("≤ 300"), Some(true)));
        let figure = Figure::new("rate", 1.0, "/s").at_least(50_000.0);
        assert_eq!((figure.goal.as_deref(), figure.holds), (Some("≥ 50 000"), Some(false)));
    }

    #[test]
    fn figures_of_other_parts_are_kept_where_they_are_of_the_same_commit() {
        let report = |commit: &str, figures: &[(&str, f64)]| Report {
            bench: "pr".to_owned(),
            machine: "a machine".to_owned(),
            commit: commit.to_owned(),
            figures: figures.iter().map(|(name, value)| Figure::new(*name, *value, "ms")).collect(),
        };
        let earlier = report("abc", &[("form", 1.0), ("plan", 2.0)]);
        for (commit, expected) in [("abc", vec![("plan", 3.0), ("form", 1.0)]), ("abd", vec![("plan", 3.0)])]
        {
            let mut now = report(commit, &[("plan", 3.0)]);
            now.keep(&earlier);
            let all: Vec<(&str, f64)> =
                now.figures.iter().map(|figure| (figure.name.as_str(), figure.value)).collect();
            assert_eq!(all, expected, "{commit}");
        }
    }

    #[test]
    fn the_schema_is_what_programs_read() {
        let report = Report {
            bench: "commit".to_owned(),
            machine: "a machine".to_owned(),
            commit: "abc".to_owned(),
            figures: vec![Figure::new("p50", 120.0, "ms").at_most(300.0).beside("git", 30.0)],
        };
        assert_eq!(
            serde_json::to_value(&report).unwrap(),
            serde_json::json!({
                "bench": "commit", "machine": "a machine", "commit": "abc",
                "figures": [{
                    "name": "p50", "value": 120.0, "unit": "ms", "goal": "≤ 300", "holds": true,
                    "beside": [{"name": "git", "value": 30.0}],
                }],
            })
        );
    }
}
