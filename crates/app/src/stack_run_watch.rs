//! For how long this console has watched runs go on as they are. A clock jumps, and a console is away for a while; both make runs look
//! late that nobody had time for. So what counts is the time that the console was there.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::ids::StackRunId;
use plural_core::stack_run::RunStatus;
use plural_core::stack_turns::{OpenRun, watch_needed};

/// A pass counts as so long at least: the loop makes none earlier after another.
const SHORTEST: TimeDelta = TimeDelta::seconds(5);
/// And as so long at most: however far a clock jumps between two passes.
const LONGEST: TimeDelta = TimeDelta::seconds(30);

/// The runs that have their time, and how long they were watched.
#[derive(Default)]
pub(crate) struct WatchedRuns {
    passes: Mutex<Passes>,
}

#[derive(Default)]
struct Passes {
    last: Option<DateTime<Utc>>,
    runs: HashMap<StackRunId, Watched>,
}

struct Watched {
    /// As what it is watched, and since when it is that.
    of: (RunStatus, DateTime<Utc>),
    /// What had gone by of its time when that began, as far as the clock was right then.
    before: TimeDelta,
    counted: TimeDelta,
}

/// One pass over all runs.
pub(crate) struct WatchPass<'a> {
    runs: &'a WatchedRuns,
    now: DateTime<Utc>,
    /// What it counts as.
    counts: TimeDelta,
    met: HashSet<StackRunId>,
}

impl WatchedRuns {
    /// A pass begins.
    pub(crate) fn pass(&self, now: DateTime<Utc>) -> WatchPass<'_> {
        let last = self.passes.lock().last.replace(now);
        let counts = last.map_or(SHORTEST, |last| (now - last).clamp(SHORTEST, LONGEST));
        WatchPass { runs: self, now, counts, met: HashSet::new() }
    }
}

impl WatchPass<'_> {
    /// The pass meets this run: whether it was watched for as long as its time is.
    pub(crate) fn meets(&mut self, run: &OpenRun) -> bool {
        let Some((since, term)) = run.term() else { return true };
        self.met.insert(run.id);
        let mut passes = self.runs.passes.lock();
        let of = (run.status, since);
        if let Some(known) = passes.runs.get_mut(&run.id).filter(|known| known.of == of) {
            known.counted += self.counts;
            return known.counted >= watch_needed(term, known.before);
        }
        let before = (self.now - since).max(TimeDelta::zero());
        passes.runs.insert(run.id, Watched { of, before, counted: TimeDelta::zero() });
        false
    }

    /// It has met all that there are: others are forgotten.
    pub(crate) fn ends(self) {
        let Self { runs, now: _, counts: _, met } = self;
        runs.passes.lock().runs.retain(|id, _| met.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use plural_core::ids::StackId;
    use plural_core::stack_spec::StackApproval;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_000_000 + seconds, 0).unwrap()
    }

    fn pending(since: i64) -> OpenRun {
        OpenRun {
            id: StackRunId::new(),
            stack_id: StackId::new(),
            status: RunStatus::Pending,
            is_prepared: true,
            is_held: false,
            heartbeat_at: Some(at(since)),
            created_at: at(since),
            plan: None,
            approvals: Vec::new(),
            approval: StackApproval::default(),
            more_emails: false,
        }
    }

    /// In how many passes at these moments a run had its time.
    fn counted(runs: &WatchedRuns, run: &OpenRun, moments: impl IntoIterator<Item = i64>) -> usize {
        let meets = |seconds| {
            let mut pass = runs.pass(at(seconds));
            let is_enough = pass.meets(run);
            pass.ends();
            is_enough
        };
        moments.into_iter().filter(|seconds| meets(*seconds)).count()
    }

    #[test]
    fn an_agent_has_its_time_while_the_console_is_there() {
        let (runs, run) = (WatchedRuns::default(), pending(0));
        assert_eq!(counted(&runs, &run, (0..180).map(|pass| pass * 5)), 0);
        assert_eq!(counted(&runs, &run, [900]), 1);
        // Its Job began, and it waits for another one.
        let run = OpenRun { heartbeat_at: Some(at(905)), ..run };
        assert_eq!(counted(&runs, &run, [910, 915]), 0);
    }

    #[test]
    fn a_clock_that_jumps_and_a_console_that_was_away_take_no_time_from_it() {
        let (runs, run) = (WatchedRuns::default(), pending(0));
        // An hour ahead, back again, and a day on.
        assert_eq!(counted(&runs, &run, [0, 3600, 5, 10, 86_400, 86_405]), 0);
        // A console that begins long after the run does.
        let other = WatchedRuns::default();
        assert_eq!(counted(&other, &run, (0..180).map(|pass| 100_000 + pass * 5)), 0);
        assert_eq!(counted(&other, &run, [100_900]), 1);
    }

    #[test]
    fn passes_that_are_late_count_as_what_they_are() {
        let (runs, run) = (WatchedRuns::default(), pending(0));
        assert_eq!(counted(&runs, &run, (0..45).map(|pass| pass * 20)), 0);
        assert_eq!(counted(&runs, &run, [900]), 1);
        // What a pass does not meet is forgotten.
        runs.pass(at(905)).ends();
        assert_eq!(counted(&runs, &run, [910]), 0);
    }
}
