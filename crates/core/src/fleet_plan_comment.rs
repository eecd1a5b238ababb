//! What the host of a pull request is told of its plan of services: one comment, and a check. It holds clusters, services, kinds, counts
//! and a link: everybody who may read the repository reads it. Values, names of objects and words of errors are read in the console, by
//! right.

use std::fmt::Write as _;

use crate::fleet_plan::{
    ClusterSum, FleetFound, FleetPartState, FleetPlan, FleetPlanPart, FleetPlanPhase, KindCount, PlanCounts,
    by_cluster, total,
};
use crate::stack_pull_comment::{PullState, cell, is_link};

/// The name of the check.
pub const CHECK: &str = "plural/services";
/// Clusters that a comment names.
const MAX_CLUSTERS: usize = 100;
/// Services that a comment names: hosts take no longer ones.
const MAX_SERVICES: usize = 150;
/// Kinds that are named of a service.
const MAX_KINDS: usize = 12;

/// The comment. Of services of other projects than the repository's, only their number is told.
pub fn comment(plan: &FleetPlan, parts: &[FleetPlanPart], link: Option<&str>) -> String {
    let commit = match &plan.found {
        Some(found) => short(&found.sha),
        None => short(&plan.reference),
    };
    let mut text = format!("### Services at `{commit}`\n\n");
    merged(&mut text, plan);
    moved(&mut text, plan);
    match plan.phase {
        FleetPlanPhase::Looking => text.push_str("The plan is being made.\n"),
        FleetPlanPhase::Held => text.push_str(
            "This commit comes from a fork: nothing of it is rendered before somebody who may approve releases it, in the console or \
             with `plural pr release`.\n",
        ),
        FleetPlanPhase::Failed => match plan.again_at() {
            None => text.push_str("There is no plan of this commit: the console says why.\n"),
            Some(at) => {
                let _ = writeln!(
                    text,
                    "There is no plan of this commit yet: the console could not look at it, and tries again at {at}. \
                     `plural pr replan` does it at once."
                );
            }
        },
        FleetPlanPhase::Superseded => text.push_str("A newer plan took its place.\n"),
        FleetPlanPhase::Asked | FleetPlanPhase::Done => told(&mut text, plan, parts),
    }
    if let Some(link) = link.filter(|link| is_link(link)) {
        let _ = writeln!(text, "\n[The plan in the console]({link})");
    }
    text.push_str(
        "\nNothing of this is applied. Values are in the console, for those who may read the service.\n",
    );
    text
}

/// Into what it is merged, where that moved on.
fn merged(text: &mut String, plan: &FleetPlan) {
    let Some(FleetFound { base_sha: Some(at), is_merged: true, .. }) = &plan.found else { return };
    let branch = plan.base.as_deref().map(cell).unwrap_or_default();
    let _ = writeln!(text, "Planned as merged into {branch} at `{}`.\n", short(at));
}

/// Where that went since.
fn moved(text: &mut String, plan: &FleetPlan) {
    let Some(at) = plan.found.as_ref().and_then(FleetFound::moved) else { return };
    let branch = plan.base.as_deref().map(cell).unwrap_or_default();
    let _ = writeln!(
        text,
        "**{branch} has moved on to `{}` since, which changes what this is about.** It is planned again within minutes.\n",
        short(at)
    );
}

fn told(text: &mut String, plan: &FleetPlan, parts: &[FleetPlanPart]) {
    let (own, others): (Vec<&FleetPlanPart>, Vec<&FleetPlanPart>) =
        parts.iter().partition(|part| part.project_id == plan.project_id);
    let own: Vec<FleetPlanPart> = own.into_iter().cloned().collect();
    if own.is_empty() && others.is_empty() {
        text.push_str("This pull request reaches no service.\n");
    }
    if !own.is_empty() {
        text.push_str("| Cluster | Services | Created | Changed | Deleted | Blocked | |\n");
        text.push_str("|---|---:|---:|---:|---:|---:|---|\n");
        let sums = by_cluster(&own);
        for sum in sums.iter().take(MAX_CLUSTERS) {
            cluster(text, sum);
        }
        more(text, sums.len(), MAX_CLUSTERS, "clusters");
        text.push_str("\n<details><summary>Services</summary>\n\n");
        text.push_str("| Service | Created | Changed | Deleted | Blocked | Kinds |\n");
        text.push_str("|---|---:|---:|---:|---:|---|\n");
        for part in own.iter().take(MAX_SERVICES) {
            service(text, part);
        }
        more(text, own.len(), MAX_SERVICES, "services");
        text.push_str("\n</details>\n");
    }
    if !others.is_empty() {
        let _ = writeln!(text, "\nServices of other projects that it reaches: {}", others.len());
    }
    if let Some(FleetFound { composed, omitted, .. }) = &plan.found {
        for (count, words) in [
            (composed, "that are put together from several sources and were not looked at"),
            (omitted, "that it reaches and that are too many for one plan"),
        ] {
            if *count > 0 {
                let _ = writeln!(text, "\nServices {words}: {count}");
            }
        }
    }
}

fn cluster(text: &mut String, sum: &ClusterSum) {
    let ClusterSum { cluster_id: _, cluster, services, waiting, failed, away, late, counts } = sum;
    let rest: Vec<String> = [
        (*failed, "**not plannable**"),
        (*away, "agent away"),
        (*late, "no answer"),
        (*waiting, "being made"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, words)| format!("{count} {words}"))
    .collect();
    let _ = writeln!(
        text,
        "| {} | {services} |{} {} |",
        cell(cluster),
        numbers(*counts, *services > failed + away + late + waiting),
        rest.join(", ")
    );
}

fn service(text: &mut String, part: &FleetPlanPart) {
    let name = format!("{} / {}", cell(&part.cluster), cell(&part.service));
    let is_planned = part.state == FleetPartState::Planned;
    let last = match part.state {
        FleetPartState::Planned => kinds(&part.kinds),
        FleetPartState::Waiting => "being made".to_owned(),
        FleetPartState::Failed => "**not plannable**".to_owned(),
        FleetPartState::Away => "agent away".to_owned(),
        FleetPartState::Late => "no answer".to_owned(),
    };
    let _ = writeln!(text, "| {name} |{} {last} |", numbers(part.counts, is_planned));
}

/// The cells of what would happen; without a plan nothing is said, which is not the same as nothing.
fn numbers(counts: PlanCounts, is_known: bool) -> String {
    if !is_known {
        return " | | | |".to_owned();
    }
    let PlanCounts { created, changed, deleted, hooks: _, unchanged: _, blocked, omitted } = counts;
    // What goes, or does not go through, is to be seen at a glance.
    let loud = |count: u32| if count == 0 { "0".to_owned() } else { format!("**{count}**") };
    let changed = if omitted > 0 { format!("{changed} + {omitted} more") } else { changed.to_string() };
    format!(" {created} | {changed} | {} | {} |", loud(deleted), loud(blocked))
}

fn kinds(kinds: &[KindCount]) -> String {
    let named = kinds.iter().take(MAX_KINDS).map(|KindCount { kind, count }| {
        let kind = if is_kind(kind) { kind.as_str() } else { "of another kind" };
        format!("{count} {kind}")
    });
    let mut named: Vec<String> = named.collect();
    if kinds.len() > MAX_KINDS {
        named.push("…".to_owned());
    }
    named.join(", ")
}

/// Whether a kind is one word. An agent says it, and hosts read mentions in what Markdown has escaped.
fn is_kind(kind: &str) -> bool {
    kind.len() <= 63 && !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn more(text: &mut String, all: usize, most: usize, noun: &str) {
    if all > most {
        let _ = writeln!(text, "\n{} more {noun} are in the console.", all - most);
    }
}

fn short(sha: &str) -> String {
    sha.chars().filter(char::is_ascii_hexdigit).take(8).collect()
}

/// How the check stands, and in words; nothing of a plan that another one took the place of. An agent that is away, or does not answer,
/// keeps nobody from merging: the words say so. They count what is of the repository's project; services of others only make it fail.
pub fn check(plan: &FleetPlan, parts: &[FleetPlanPart]) -> Option<(PullState, String)> {
    match plan.phase {
        FleetPlanPhase::Superseded => None,
        FleetPlanPhase::Looking | FleetPlanPhase::Asked => {
            Some((PullState::Pending, "The plan is being made".to_owned()))
        }
        FleetPlanPhase::Held => {
            Some((PullState::Pending, "The plan waits for the release of this commit".to_owned()))
        }
        FleetPlanPhase::Failed => {
            let words = plan.again_at().map_or_else(
                || "There is no plan: see the console".to_owned(),
                |at| format!("There is no plan yet: the console tries again at {at}"),
            );
            Some((PullState::Failure, words))
        }
        FleetPlanPhase::Done => {
            let (own, others): (Vec<FleetPlanPart>, Vec<FleetPlanPart>) =
                parts.iter().cloned().partition(|part| part.project_id == plan.project_id);
            let of = |state: FleetPartState| own.iter().filter(|part| part.state == state).count();
            let PlanCounts { created, changed, deleted, blocked, .. } = total(&own);
            let mut words = format!("{created} created, {changed} changed, {deleted} deleted");
            let failed = of(FleetPartState::Failed);
            let silent = of(FleetPartState::Away) + of(FleetPartState::Late);
            for (count, noun) in [
                (usize::try_from(blocked).unwrap_or(usize::MAX), "blocked"),
                (failed, "services not plannable"),
                (silent, "services without an answer"),
            ] {
                if count > 0 {
                    let _ = write!(words, ", {count} {noun}");
                }
            }
            let is_bad =
                |part: &FleetPlanPart| part.state == FleetPartState::Failed || part.counts.blocked > 0;
            if others.iter().any(is_bad) {
                words.push_str("; services of other projects would not go through");
            }
            if plan.found.as_ref().is_some_and(|found| found.moved().is_some()) {
                words.push_str("; its base has moved on since");
            }
            let is_good = failed == 0 && blocked == 0 && !others.iter().any(is_bad);
            Some((if is_good { PullState::Success } else { PullState::Failure }, words))
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};

    use super::*;
    use crate::fleet_plan::{FleetSince, tried_again};
    use crate::ids::{ClusterId, FleetPartId, FleetPlanId, ProjectId, RepositoryId, ServiceId};

    fn plan(phase: FleetPlanPhase) -> FleetPlan {
        let at = DateTime::UNIX_EPOCH;
        FleetPlan {
            id: FleetPlanId::new(),
            project_id: ProjectId::from_uuid(uuid::Uuid::nil()),
            repository_id: RepositoryId::new(),
            pull_request_id: None,
            creator: "system".to_owned(),
            reference: "4f2c1e9a7b".to_owned(),
            head_reference: None,
            base: Some("main".to_owned()),
            phase,
            found: Some(FleetFound {
                sha: "4f2c1e9a7b".to_owned(),
                message: "Change it".to_owned(),
                base_sha: Some("ab12cd34ef".to_owned()),
                is_merged: false,
                untouched: 7,
                composed: 1,
                omitted: 0,
                deadline: at + TimeDelta::seconds(60),
                about: None,
                since: None,
            }),
            error: Some("render: a secret".to_owned()),
            preview: None,
            created_at: at,
            updated_at: at,
        }
    }

    fn part(cluster: &str, service: &str, state: FleetPartState, counts: PlanCounts) -> FleetPlanPart {
        FleetPlanPart {
            id: FleetPartId::new(),
            plan_id: FleetPlanId::new(),
            service_id: ServiceId::new(),
            cluster_id: ClusterId::from_uuid(uuid::Uuid::nil()),
            service: service.to_owned(),
            cluster: cluster.to_owned(),
            project_id: ProjectId::from_uuid(uuid::Uuid::nil()),
            state,
            counts,
            kinds: vec![KindCount { kind: "ConfigMap".to_owned(), count: 3 }],
            error: Some("render: a secret".to_owned()),
            answered_at: None,
        }
    }

    fn parts() -> Vec<FleetPlanPart> {
        let counts = PlanCounts { created: 1, changed: 2, deleted: 1, unchanged: 9, ..PlanCounts::default() };
        let none = PlanCounts::default();
        let mut other = part("green", "theirs", FleetPartState::Planned, counts);
        other.project_id = ProjectId::new();
        vec![
            part("blue", "shop", FleetPartState::Planned, counts),
            part("blue", "we|b", FleetPartState::Failed, none),
            part("red", "shop", FleetPartState::Away, none),
            other,
        ]
    }

    #[test]
    fn a_comment_holds_counts_and_a_link() {
        let expected = r"### Services at `4f2c1e9a`

| Cluster | Services | Created | Changed | Deleted | Blocked | |
|---|---:|---:|---:|---:|---:|---|
| blue | 2 | 1 | 2 | **1** | 0 | 1 **not plannable** |
| red | 1 | | | | | 1 agent away |

<details><summary>Services</summary>

| Service | Created | Changed | Deleted | Blocked | Kinds |
|---|---:|---:|---:|---:|---|
| blue / shop | 1 | 2 | **1** | 0 | 3 ConfigMap |
| blue / we\|b | | | | | **not plannable** |
| red / shop | | | | | agent away |

</details>

Services of other projects that it reaches: 1

Services that are put together from several sources and were not looked at: 1

[The plan in the console](https://plural.example.com/x)

Nothing of this is applied. Values are in the console, for those who may read the service.
";
        let link = Some("https://plural.example.com/x");
        let text = comment(&plan(FleetPlanPhase::Done), &parts(), link);
        assert_eq!(text, expected);
        let text = comment(&plan(FleetPlanPhase::Done), &parts(), Some("javascript:alert(1)"));
        assert!(!text.contains("javascript"));
    }

    #[test]
    fn a_comment_says_what_was_merged() {
        let merged = |is_merged| {
            let mut plan = plan(FleetPlanPhase::Done);
            plan.found.as_mut().unwrap().is_merged = is_merged;
            plan.base = Some("release/1_0".to_owned());
            comment(&plan, &[], None)
        };
        let says = "Planned as merged into release/1\\_0 at `ab12cd34`.";
        assert!(merged(true).contains(says) && !merged(false).contains(says), "{}", merged(true));
    }

    #[test]
    fn a_comment_says_that_its_base_has_moved_on() {
        let at = |is_other| {
            let mut plan = plan(FleetPlanPhase::Done);
            let since = FleetSince { sha: "cd34ef56ab12".to_owned(), is_other };
            plan.found.as_mut().unwrap().since = Some(since);
            plan
        };
        let says = "main has moved on to `cd34ef56` since";
        assert!(comment(&at(true), &[], None).contains(says), "{}", comment(&at(true), &[], None));
        assert!(!comment(&at(false), &[], None).contains("moved on"));
        let (state, words) = check(&at(true), &[]).unwrap();
        assert_eq!(
            (state, words.as_str()),
            (PullState::Success, "0 created, 0 changed, 0 deleted; its base has moved on since")
        );
        assert_eq!(at(true).found.unwrap().looked_at(), Some(("cd34ef56ab12", true)));
        assert_eq!(plan(FleetPlanPhase::Done).found.unwrap().looked_at(), Some(("ab12cd34ef", false)));
    }

    #[test]
    fn what_an_agent_calls_a_kind_mentions_nobody() {
        let mut odd = part("blue", "shop", FleetPartState::Planned, PlanCounts::default());
        let kinds = ["@acme/all", "https://evil.example", "a|b", "", "ConfigMap"];
        odd.kinds = kinds.map(|kind| KindCount { kind: kind.to_owned(), count: 1 }).to_vec();
        let text = comment(&plan(FleetPlanPhase::Done), &[odd], None);
        let other = "1 of another kind, ".repeat(4);
        assert!(text.contains(&format!("| {other}1 ConfigMap |")) && !text.contains('@'), "{text}");
    }

    #[test]
    fn no_phase_tells_an_error() {
        for phase in FleetPlanPhase::ALL {
            let text = comment(&plan(phase), &parts(), None);
            assert!(!text.contains("secret") && text.starts_with("### Services at `4f2c1e9a`"), "{text}");
        }
        let none = comment(&plan(FleetPlanPhase::Done), &[], None);
        assert!(none.contains("reaches no service"), "{none}");
    }

    #[test]
    fn a_comment_is_as_long_as_hosts_take_it() {
        let counts = PlanCounts { created: u32::MAX, omitted: u32::MAX, ..PlanCounts::default() };
        let many: Vec<FleetPlanPart> = (0..2_000)
            .map(|number| part(&format!("c-{number}"), &"s".repeat(63), FleetPartState::Planned, counts))
            .collect();
        let text = comment(&plan(FleetPlanPhase::Done), &many, None);
        assert!(text.len() < 60_000, "{}", text.len());
        assert!(text.contains("1900 more clusters") && text.contains("1850 more services"), "{text}");
    }

    #[test]
    fn a_check_fails_for_what_would_not_go_through() {
        let done = plan(FleetPlanPhase::Done);
        let (state, words) = check(&done, &parts()).unwrap();
        assert_eq!(state, PullState::Failure);
        assert_eq!(
            words, "1 created, 2 changed, 1 deleted, 1 services not plannable, 1 services without an answer",
            "what is of another project is not counted"
        );
        let good = [part("blue", "shop", FleetPartState::Planned, PlanCounts::default())];
        assert_eq!(
            check(&done, &good).unwrap(),
            (PullState::Success, "0 created, 0 changed, 0 deleted".to_owned())
        );
        let blocked = PlanCounts { blocked: 2, ..PlanCounts::default() };
        let blocked = [part("blue", "shop", FleetPartState::Planned, blocked)];
        assert_eq!(check(&done, &blocked).unwrap().0, PullState::Failure);
        // What is of another project makes it fail, and is not told.
        let mut theirs = part("green", "theirs", FleetPartState::Failed, PlanCounts::default());
        theirs.project_id = ProjectId::new();
        let (state, words) = check(&done, &[good[0].clone(), theirs]).unwrap();
        assert_eq!(state, PullState::Failure);
        assert_eq!(words, "0 created, 0 changed, 0 deleted; services of other projects would not go through");
        assert_eq!(check(&plan(FleetPlanPhase::Held), &[]).unwrap().0, PullState::Pending);
        assert_eq!(check(&plan(FleetPlanPhase::Superseded), &[]), None);
    }

    #[test]
    fn one_that_is_tried_again_says_when_and_not_why() {
        let mut failed = plan(FleetPlanPhase::Failed);
        assert_eq!(check(&failed, &[]).unwrap().1, "There is no plan: see the console");
        failed.error = Some(tried_again(DateTime::UNIX_EPOCH, "git: a secret; more"));
        let at = "tries again at 1970-01-01 00:00 UTC";
        let expected = (PullState::Failure, format!("There is no plan yet: the console {at}"));
        assert_eq!(check(&failed, &[]), Some(expected));
        let text = comment(&failed, &[], None);
        assert!(text.contains(at) && !text.contains("secret"), "{text}");
    }
}
