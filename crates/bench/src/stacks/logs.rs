//! Lines on their way from a command to somebody who follows its log: `plural cd stacks logs --follow`, a process of its own.

use std::{
    process::Stdio,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use plural_testkit::GitRemote;
use plural_wire::{StackRun, StackStatus};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::world::{WITHIN, World};
use crate::{report::Figure, samples::Samples};

/// Milliseconds that a line may take.
const LINE: f64 = 300.0;
/// What was printed before somebody followed is old when it is read, and so is what is printed in the first moments: the process
/// that follows starts.
const SETTLED: Duration = Duration::from_secs(2);
/// Lines that are printed at once.
const BLOCK: usize = 100;

/// One line, then a pause that is never twice the same, so that it does not keep step with who looks.
fn one_by_one(lines: usize) -> String {
    format!(
        "sleep 3\ni=0\nwhile [ $i -lt {lines} ]; do\n  echo \"line $i $(date +%s%N)\"\n  \
         sleep 0.$((17 + i * 7 % 23))\n  i=$((i + 1))\ndone\n"
    )
}

/// A hundred lines in each tenth of a second. The first of them says when.
fn many(seconds: usize) -> String {
    let all = seconds * 10 * BLOCK;
    format!(
        "sleep 3\ni=0\nwhile [ $i -lt {all} ]; do\n  echo \"line $i $(date +%s%N)\"\n  i=$((i + 1))\n  \
         until [ $((i % {BLOCK})) -eq 0 ]; do\n    echo \"line $i - a resource of a configuration is made, changed or read\"\n    \
         i=$((i + 1))\n  done\n  sleep 0.09\ndone\n"
    )
}

/// What arrived of a log.
struct Followed {
    /// How long lines took that say when they were printed.
    took: Samples,
    /// Lines that are not where they should be, or not there.
    misplaced: usize,
    /// Lines printed a second.
    rate: f64,
}

pub(super) async fn run(world: &mut World, lines: usize, seconds: usize) -> anyhow::Result<Vec<Figure>> {
    eprintln!("{lines} lines of a log, one by one");
    let slow = follow(world, "slow", &one_by_one(lines), lines).await?;
    let printed = seconds * 10 * BLOCK;
    eprintln!("{printed} lines of a log, a thousand a second");
    let fast = follow(world, "fast", &many(seconds), printed).await?;
    Ok(vec![
        Figure::new("log line to who follows, p50", slow.took.percentile(50), "ms")
            .at_most(LINE)
            .beside("p99", slow.took.percentile(99))
            .beside("lines", slow.took.len() as f64),
        Figure::new("log lines lost, doubled or out of place", (slow.misplaced + fast.misplaced) as f64, "")
            .at_most(0.0)
            .beside("printed", (lines + printed) as f64)
            .beside("printed a second", fast.rate),
        Figure::new("log line to who follows while many are printed, p50", fast.took.percentile(50), "ms")
            .at_most(LINE)
            .beside("p99", fast.took.percentile(99)),
    ])
}

async fn follow(world: &mut World, name: &str, script: &str, printed: usize) -> anyhow::Result<Followed> {
    let remote = GitRemote::new()?;
    remote.push_files([(format!("{name}/print.sh"), script)])?;
    let commands = json!({"commands": [
        {"stage": "PLAN", "cmd": "sh", "args": ["print.sh"]},
        {"stage": "APPLY", "cmd": "true", "args": []},
    ]});
    let stack = world.stack(&remote, ("CUSTOM", name), commands).await?;
    let runs = |run: &StackRun| run.status == StackStatus::Running;
    world.until(&stack, "a run that prints", runs).await?;
    let mut command = world.plural(&["cd", "stacks", "logs", name, "--follow"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot run plural")?;
    let out = child.stdout.take().context("plural has no output")?;
    let since = now() + SETTLED;
    let mut followed = Followed { took: Samples::default(), misplaced: 0, rate: 0.0 };
    let (mut next, mut first, mut last) = (0, None, Duration::ZERO);
    let read = async {
        let mut lines = BufReader::new(out).lines();
        while let Some(line) = lines.next_line().await? {
            let arrived = now();
            let Some((number, at)) = parsed(&line) else { continue };
            if number != next {
                followed.misplaced += 1;
            }
            next = number + 1;
            let Some(at) = at else { continue };
            let first = *first.get_or_insert((number, at));
            last = at;
            if let Some(passed) = at.checked_sub(first.1).filter(|passed| !passed.is_zero()) {
                followed.rate = (number - first.0) as f64 / passed.as_secs_f64();
            }
            if at >= since {
                followed.took.add(arrived.saturating_sub(at));
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(WITHIN, read).await.context("the log does not end")??;
    let status = child.wait().await?;
    anyhow::ensure!(status.success(), "plural cd stacks logs: {status}");
    followed.misplaced += printed.saturating_sub(next);
    anyhow::ensure!(followed.took.len() > 0, "no line was followed: the last was printed at {last:?}");
    world.until(&stack, "the end of what prints", |run| run.status == StackStatus::PendingApproval).await?;
    Ok(followed)
}

/// The number of a line, and when it was printed where it says so.
fn parsed(line: &str) -> Option<(usize, Option<Duration>)> {
    let mut words = line.strip_prefix("line ")?.split(' ');
    let number = words.next()?.parse().ok()?;
    Some((number, words.next()?.parse().ok().map(Duration::from_nanos)))
}

/// Since 1970, as `date +%s` counts.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_number_and_some_a_time() {
        assert_eq!(parsed("line 7 1000000001"), Some((7, Some(Duration::from_nanos(1_000_000_001)))));
        assert_eq!(parsed("line 8 - a resource"), Some((8, None)));
        assert_eq!(parsed("error: it failed"), None);
    }
}
