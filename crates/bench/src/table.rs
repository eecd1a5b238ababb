//! A report as a person reads it.

use std::fmt::Write as _;

use crate::report::{Report, shown};

/// So many comparisons fit on a figure's own line; more of them get a line each.
const BESIDE: usize = 2;

/// A table, with the figures of the run before in a column of their own.
pub(crate) fn render(report: &Report, before: Option<&Report>) -> String {
    let mut rows = vec![["figure", "value", "goal", "holds", "before", "beside"].map(str::to_owned)];
    for figure in &report.figures {
        let earlier = before
            .and_then(|b| b.figures.iter().find(|f| f.name == figure.name && f.unit == figure.unit))
            .map_or_else(String::new, |f| shown(f.value));
        let is_long = figure.beside.len() > BESIDE;
        let beside: Vec<String> =
            figure.beside.iter().map(|b| format!("{} {}", b.name, shown(b.value))).collect();
        rows.push([
            figure.name.clone(),
            format!("{} {}", shown(figure.value), figure.unit),
            figure.goal.clone().unwrap_or_default(),
            figure.holds.map_or("", |holds| if holds { "yes" } else { "NO" }).to_owned(),
            earlier,
            if is_long { String::new() } else { beside.join(", ") },
        ]);
        for beside in figure.beside.iter().filter(|_| is_long) {
            let mut row = [const { String::new() }; 6];
            row[0] = format!("  {}", beside.name);
            row[1] = shown(beside.value);
            rows.push(row);
        }
    }
    let mut text = String::new();
    let _ = writeln!(text, "bench {} at {}, on {}", report.bench, report.commit, report.machine);
    let width = |column: usize| {
        rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = width(column).saturating_sub(cell.chars().count()) + 2;
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', padding));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn columns_line_up() {
        let report = |value| Report {
            bench: "commit".to_owned(),
            machine: "2 cores".to_owned(),
            commit: "abc".to_owned(),
            figures: vec![
                Figure::new("p50", value, "ms").at_most(300.0).beside("git", 30.0),
                Figure::new("clusters", 10.0, ""),
                Figure::new("parts", 3.0, "ms").beside("a", 1.0).beside("b", 1.0).beside("c", 1.0),
            ],
        };
        assert_eq!(
            render(&report(120.0), Some(&report(1234.0))),
            "bench commit at abc, on 2 cores\n\
             figure    value   goal   holds  before  beside\n\
             p50       120 ms  ≤ 300  yes    1 234   git 30\n\
             clusters  10                    10\n\
             parts     3 ms                  3\n\
             \u{20} a       1\n\
             \u{20} b       1\n\
             \u{20} c       1\n"
        );
    }
}
