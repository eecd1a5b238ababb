use super::*;
use crate::cluster::ClusterFacts;
use crate::ids::ProjectId;
use crate::name::{Handle, Name};

fn cluster(tags: &[(&str, &str)]) -> Cluster {
    let now = DateTime::UNIX_EPOCH;
    Cluster {
        id: ClusterId::new(),
        name: "c".parse::<Name>().unwrap(),
        handle: "c".parse::<Handle>().unwrap(),
        project_id: ProjectId::new(),
        tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        tag_levels: BTreeMap::new(),
        metadata: serde_json::Map::new(),
        distro: None,
        version: None,
        facts: ClusterFacts::default(),
        agent_contract: None,
        protect: false,
        pinged_at: None,
        deleted_at: None,
        created_at: now,
        updated_at: now,
    }
}

fn strategy() -> RolloutStrategy {
    RolloutStrategy {
        cohorts: vec![Cohort {
            name: "canary".into(),
            members: CohortMembers::Tags([("tier".to_owned(), "canary".to_owned())].into()),
        }],
        max_unavailable: Share::Count(2),
        soak_seconds: 60,
        timeout_seconds: 300,
        max_failures: 0,
        undo: false,
    }
}

/// A fleet of one canary and four others, and a clock.
struct Fleet {
    strategy: RolloutStrategy,
    places: BTreeMap<ClusterId, usize>,
    members: Vec<Member>,
    rollout: Rollout,
    now: DateTime<Utc>,
}

impl Fleet {
    fn new(strategy: RolloutStrategy) -> Self {
        let mut clusters = vec![cluster(&[("tier", "canary")])];
        clusters.extend((0..4).map(|_| cluster(&[])));
        let now = DateTime::UNIX_EPOCH;
        let members = clusters.iter().map(|cluster| Member {
            cluster_id: cluster.id,
            generation: 1,
            since: now,
            healthy: true,
            failed: false,
        });
        Self {
            places: strategy.places(&clusters.iter().collect::<Vec<_>>()),
            members: members.collect(),
            rollout: Rollout::begin(1, 2, now),
            strategy,
            now,
        }
    }

    /// One step; what moves is unwell until told otherwise. Answers how many moved.
    fn step(&mut self) -> usize {
        let advance = self.rollout.advance(&self.strategy, &self.places, &self.members, self.now);
        let again = self.rollout.advance(&self.strategy, &self.places, &self.members, self.now);
        assert_eq!(advance, again, "asked twice with the same facts");
        self.rollout = advance.rollout;
        for member in &mut self.members {
            if advance.moves.contains(&member.cluster_id) {
                (member.generation, member.since, member.healthy) = (advance.generation, self.now, false);
            }
        }
        advance.moves.len()
    }

    fn heal(&mut self) {
        self.members.iter_mut().for_each(|member| (member.healthy, member.failed) = (true, false));
    }

    fn wait(&mut self, seconds: i64) {
        self.now += TimeDelta::seconds(seconds);
    }

    fn on(&self, generation: u64) -> usize {
        self.members.iter().filter(|member| member.generation == generation).count()
    }
}

#[test]
fn cohorts_move_in_order_and_soak_between() {
    let mut fleet = Fleet::new(strategy());
    assert_eq!(fleet.step(), 1, "the canary first");
    assert_eq!(fleet.members[0].generation, 2);
    assert_eq!(fleet.step(), 0, "it is not healthy yet");
    fleet.heal();
    assert_eq!(fleet.step(), 0);
    assert_eq!(fleet.rollout.state, RolloutState::Soaking);
    fleet.wait(59);
    assert_eq!(fleet.step(), 0);
    fleet.wait(1);
    assert_eq!(fleet.step(), 2, "no more than two at once");
    assert_eq!(fleet.step(), 0);
    fleet.heal();
    assert_eq!(fleet.step(), 2);
    fleet.heal();
    fleet.step();
    fleet.wait(60);
    fleet.step();
    assert_eq!(fleet.rollout.state, RolloutState::Complete);
    assert_eq!(fleet.on(2), 5);
}

#[test]
fn a_relapse_starts_the_soak_again() {
    let mut fleet = Fleet::new(strategy());
    fleet.step();
    fleet.heal();
    fleet.step();
    fleet.wait(30);
    fleet.members[0].healthy = false;
    fleet.step();
    assert_eq!(fleet.rollout.state, RolloutState::Progressing);
    fleet.heal();
    fleet.step();
    fleet.wait(59);
    assert_eq!(fleet.step(), 0, "the minute began anew");
}

#[test]
fn a_failure_halts_and_a_person_goes_on() {
    let mut fleet = Fleet::new(strategy());
    fleet.step();
    fleet.members[0].failed = true;
    assert_eq!(fleet.step(), 0);
    assert_eq!(fleet.rollout.state, RolloutState::Halted);
    assert_eq!(fleet.rollout.message.as_deref(), Some("1 cluster is not healthy with the change"));
    fleet.wait(10_000);
    assert_eq!(fleet.step(), 0, "a halt lasts");
    fleet.rollout = fleet.rollout.resume(&fleet.members).unwrap();
    fleet.step();
    fleet.wait(60);
    assert_eq!(fleet.step(), 2, "the unwell one is not waited for");
    assert!(fleet.rollout.resume(&fleet.members).is_err());
}

#[test]
fn a_member_that_takes_too_long_failed() {
    let mut fleet = Fleet::new(RolloutStrategy { undo: true, ..strategy() });
    fleet.step();
    fleet.wait(299);
    fleet.step();
    assert_eq!(fleet.rollout.state, RolloutState::Progressing);
    fleet.wait(1);
    assert_eq!(fleet.step(), 1, "it goes back");
    assert_eq!(fleet.rollout.state, RolloutState::Undoing);
    fleet.step();
    assert_eq!(fleet.rollout.state, RolloutState::Undone);
    assert_eq!(fleet.on(1), 5);
}

#[test]
fn the_first_rollout_has_nothing_to_go_back_to() {
    let mut fleet = Fleet::new(RolloutStrategy { undo: true, ..strategy() });
    fleet.rollout = Rollout::begin(0, 2, fleet.now);
    fleet.step();
    fleet.members[0].failed = true;
    fleet.step();
    assert_eq!(fleet.rollout.state, RolloutState::Halted);
    assert!(fleet.rollout.undo("a@b.c").is_err());
}

#[test]
fn going_back_is_not_halted() {
    let mut fleet = Fleet::new(strategy());
    fleet.step();
    fleet.rollout = fleet.rollout.undo("a@b.c").unwrap();
    // Whoever resumed a halt would go forward again, to what was just undone.
    let halted = fleet.rollout.stop("a@b.c");
    assert!(matches!(halted, Err(Error::Conflict { .. })), "{halted:?}");
    fleet.step();
    fleet.step();
    assert_eq!(fleet.rollout.state, RolloutState::Undone);
}

#[test]
fn a_member_that_cannot_be_given_it_is_waited_for_and_then_failed() {
    let mut fleet = Fleet::new(strategy());
    let canary = fleet.members[0].cluster_id;
    let refused = |fleet: &mut Fleet| {
        let moved = fleet.step();
        fleet.members[0].generation = 1;
        fleet.rollout.refuse([canary].into_iter(), fleet.now);
        moved
    };
    assert_eq!(refused(&mut fleet), 1);
    fleet.heal();
    fleet.wait(299);
    assert_eq!(refused(&mut fleet), 1, "it is tried again, and nobody else");
    assert_eq!(fleet.on(2), 0);
    fleet.wait(1);
    assert_eq!(fleet.step(), 0);
    assert_eq!(fleet.rollout.state, RolloutState::Halted);
    // A person goes on without it.
    fleet.rollout = fleet.rollout.resume(&fleet.members).unwrap();
    assert_eq!(fleet.step(), 0);
    fleet.wait(60);
    assert_eq!(fleet.step(), 2, "the others");
}

#[test]
fn who_cannot_go_back_is_not_waited_for_for_ever() {
    let mut fleet = Fleet::new(strategy());
    fleet.step();
    let canary = fleet.members[0].cluster_id;
    fleet.rollout = fleet.rollout.undo("a@b.c").unwrap();
    let refused = |fleet: &mut Fleet| {
        fleet.step();
        fleet.members[0].generation = 2;
        fleet.rollout.refuse([canary].into_iter(), fleet.now);
    };
    refused(&mut fleet);
    fleet.wait(299);
    refused(&mut fleet);
    assert_eq!(fleet.rollout.state, RolloutState::Undoing);
    fleet.wait(1);
    refused(&mut fleet);
    assert_eq!(fleet.rollout.state, RolloutState::Undone);
}

#[test]
fn a_percentage_takes_the_same_clusters_each_time() {
    let clusters: Vec<Cluster> = (0..10).map(|_| cluster(&[])).collect();
    let strategy = RolloutStrategy {
        cohorts: vec![
            Cohort { name: "some".into(), members: CohortMembers::Percent(20) },
            Cohort { name: "one".into(), members: CohortMembers::Clusters(vec![clusters[9].id]) },
        ],
        ..strategy()
    };
    let forward = strategy.places(&clusters.iter().collect::<Vec<_>>());
    let backward = strategy.places(&clusters.iter().rev().collect::<Vec<_>>());
    assert_eq!(forward, backward);
    assert_eq!(forward.values().filter(|place| **place == 0).count(), 2);
    assert_eq!(forward[&clusters[9].id], 1);
    assert_eq!(forward.values().filter(|place| **place == 2).count(), 7);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let none = RolloutStrategy { max_unavailable: Share::Percent(0), ..strategy() };
    assert!(none.check().is_err());
    let mut twice = strategy();
    twice.cohorts.push(twice.cohorts[0].clone());
    assert!(twice.check().is_err());
    assert!(strategy().check().is_ok());
}

#[test]
fn what_was_stopped_or_taken_back_is_not_let_loose() {
    let rollout = Rollout::begin(1, 2, DateTime::UNIX_EPOCH);
    for state in RolloutState::ALL {
        let free = Rollout { state, ..rollout.clone() }.can_be_dropped().is_ok();
        let moves = [RolloutState::Progressing, RolloutState::Soaking, RolloutState::Complete];
        assert_eq!(free, moves.contains(&state), "{state:?}");
    }
}
