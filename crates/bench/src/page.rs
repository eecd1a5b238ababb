//! The figures on the page of documentation, from the reports that are kept.

use std::{fs, path::Path};

use anyhow::Context as _;

use crate::report::{Figure, Report, shown};

const PAGE: &str = "docs/benchmarks.md";

/// Put each kept report between its marks on the page: `<!-- figures: NAME -->` and `<!-- end -->`. A bench
/// without a report keeps what stands there.
pub(crate) fn write(reports: &Path) -> anyhow::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = here.ancestors().nth(2).unwrap_or(here).join(PAGE);
    let page = fs::read_to_string(&file).with_context(|| format!("cannot read {PAGE}"))?;
    fs::write(&file, filled(&page, |bench| Report::read(reports, bench))?)
        .with_context(|| format!("cannot write {PAGE}"))?;
    eprintln!("wrote {PAGE}");
    Ok(())
}

fn filled(page: &str, report: impl Fn(&str) -> Option<Report>) -> anyhow::Result<String> {
    let (before, after) = ("<!-- figures: ", "<!-- end -->");
    let mut parts = page.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->").context("a mark of figures has no end")?;
        let (kept, rest) =
            rest.split_once(after).with_context(|| format!("the figures of {name} have no end mark"))?;
        let text = report(name).map_or_else(|| kept.to_owned(), |report| markdown(&report));
        out.extend([before, name, " -->", &text, after, rest]);
    }
    Ok(out)
}

fn markdown(report: &Report) -> String {
    let Report { bench: _, machine, commit, figures } = report;
    let mut lines = vec![
        String::new(),
        format!("At `{commit}`, on {machine}:"),
        String::new(),
        "| figure | value | goal | holds | beside |".to_owned(),
        "|---|---:|---|---|---|".to_owned(),
    ];
    for figure in figures {
        let Figure { name, value, unit, goal, holds, beside } = figure;
        let beside: Vec<String> = beside.iter().map(|b| format!("{} {}", b.name, shown(b.value))).collect();
        let holds = holds.map_or("", |holds| if holds { "yes" } else { "**no**" });
        let goal = goal.as_deref().unwrap_or_default();
        lines.push(
            format!("| {name} | {} {unit} | {goal} | {holds} | {} |", shown(*value), beside.join("; "))
                .replace("  |", " |"),
        );
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_between_their_marks() {
        let report = |name: &str| {
            (name == "commit").then(|| Report {
                bench: name.to_owned(),
                machine: "2 cores".to_owned(),
                commit: "abc".to_owned(),
                figures: vec![Figure::new("p50", 54.0, "ms").at_most(300.0).beside("git", 2.0)],
            })
        };
        let page = "# B\n<!-- figures: commit -->\nold\n<!-- end -->\ntext\n<!-- figures: idle -->\nkept\n<!-- end -->\n";
        let expected = "# B\n<!-- figures: commit -->\nAt `abc`, on 2 cores:\n\n\
            | figure | value | goal | holds | beside |\n|---|---:|---|---|---|\n\
            | p50 | 54 ms | ≤ 300 | yes | git 2 |\n<!-- end -->\ntext\n\
            <!-- figures: idle -->\nkept\n<!-- end -->\n";
        assert_eq!(filled(page, report).unwrap(), expected);
        assert_eq!(filled(expected, report).unwrap(), expected);
        filled("<!-- figures: commit -->\n", report).unwrap_err();
    }
}
