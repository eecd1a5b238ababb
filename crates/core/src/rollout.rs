//! How a change moves through a fleet: cohort by cohort, each healthy for a while before the next begins.
//!
//! Nothing here does anything. [`Rollout::advance`] is asked again and again with what the members look like now, and
//! says which of them may move and what the rollout has come to. Asked twice with the same facts it says the same, so
//! that whoever carries it out may be killed between any two steps.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, check_tags};
use crate::error::{Error, Result};
use crate::ids::ClusterId;
use crate::target::has_tags;

/// The rules by which changes move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutStrategy {
    /// In order. Clusters in none of them make the last cohort.
    pub cohorts: Vec<Cohort>,
    /// How many members may be moving or unwell at once.
    pub max_unavailable: Share,
    /// Seconds that a cohort must stay healthy before the next begins.
    pub soak_seconds: u32,
    /// Seconds that a member may take to become healthy before it counts as failed.
    pub timeout_seconds: u32,
    /// Members that may fail before the rollout halts.
    pub max_failures: u32,
    /// A rollout that halts moves everybody back.
    pub undo: bool,
}

/// One group of clusters that moves together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cohort {
    /// For people.
    pub name: String,
    /// Who is in it.
    #[serde(flatten)]
    pub members: CohortMembers,
}

/// Who is in a cohort. A cluster belongs to the first cohort that takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CohortMembers {
    /// Clusters with all of these tags.
    Tags(BTreeMap<String, String>),
    /// So much of all members, 1 to 100, by id: the same clusters each time.
    Percent(u8),
    /// These.
    Clusters(Vec<ClusterId>),
}

/// A number of members, or a part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// So many.
    Count(u32),
    /// So much of all, 1 to 100, never less than one member.
    Percent(u8),
}

impl Share {
    fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX).max(1),
            Self::Percent(percent) => (all * usize::from(percent) / 100).max(1),
        }
    }
}

impl RolloutStrategy {
    const MAX_COHORTS: usize = 50;
    /// Clusters that one cohort names: more are better told by a tag.
    const MAX_NAMED: usize = 1000;
    /// Bytes of a cohort's name.
    const MAX_NAME: usize = 255;

    /// Checks that it can be followed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for cohorts without a name or with the same one, for percentages that are none, and for what is
    /// too long.
    pub fn check(&self) -> Result<()> {
        if self.cohorts.len() > Self::MAX_COHORTS {
            return Err(Error::invalid(
                "attributes.rollout.cohorts",
                format!("must not name more than {}", Self::MAX_COHORTS),
            ));
        }
        let mut names = BTreeSet::new();
        for cohort in &self.cohorts {
            if cohort.name.trim().is_empty() || !names.insert(cohort.name.as_str()) {
                return Err(Error::invalid("attributes.rollout.cohorts", "must each have a name of its own"));
            }
            if cohort.name.len() > Self::MAX_NAME {
                let reason = format!("must have names of at most {} bytes", Self::MAX_NAME);
                return Err(Error::invalid("attributes.rollout.cohorts", reason));
            }
            match &cohort.members {
                CohortMembers::Percent(1..=100) => {}
                CohortMembers::Percent(_) => {
                    let reason = "must be between 1 and 100";
                    return Err(Error::invalid("attributes.rollout.cohorts.percent", reason));
                }
                CohortMembers::Tags(tags) if tags.is_empty() => {
                    return Err(Error::invalid("attributes.rollout.cohorts.tags", "must name a tag"));
                }
                CohortMembers::Tags(tags) => check_tags("attributes.rollout.cohorts.tags", tags)?,
                CohortMembers::Clusters(clusters) if clusters.len() > Self::MAX_NAMED => {
                    let reason = format!("must not name more than {}; select them by a tag", Self::MAX_NAMED);
                    return Err(Error::invalid("attributes.rollout.cohorts.clusters", reason));
                }
                CohortMembers::Clusters(_) => {}
            }
        }
        match self.max_unavailable {
            Share::Count(0) => {
                let reason = "must be at least 1";
                Err(Error::invalid("attributes.rollout.maxUnavailable", reason))
            }
            Share::Percent(0 | 101..) => {
                Err(Error::invalid("attributes.rollout.maxUnavailable", "must be between 1% and 100%"))
            }
            Share::Count(_) | Share::Percent(_) => Ok(()),
        }
    }

    fn timeout(&self) -> TimeDelta {
        TimeDelta::seconds(i64::from(self.timeout_seconds))
    }

    /// The cohort of each cluster, by its place in the order; the last place is for those in no cohort.
    pub fn places(&self, clusters: &[&Cluster]) -> BTreeMap<ClusterId, usize> {
        let mut ids: Vec<ClusterId> = clusters.iter().map(|cluster| cluster.id).collect();
        ids.sort_unstable();
        let mut places = BTreeMap::new();
        for (place, cohort) in self.cohorts.iter().enumerate() {
            match &cohort.members {
                CohortMembers::Tags(tags) => {
                    for cluster in clusters.iter().filter(|cluster| has_tags(cluster, tags)) {
                        places.entry(cluster.id).or_insert(place);
                    }
                }
                CohortMembers::Clusters(chosen) => {
                    for id in chosen.iter().filter(|id| ids.binary_search(id).is_ok()) {
                        places.entry(*id).or_insert(place);
                    }
                }
                CohortMembers::Percent(percent) => {
                    let count = Share::Percent(*percent).of(ids.len());
                    let free: Vec<ClusterId> =
                        ids.iter().filter(|id| !places.contains_key(id)).take(count).copied().collect();
                    places.extend(free.into_iter().map(|id| (id, place)));
                }
            }
        }
        for id in ids {
            places.entry(id).or_insert(self.cohorts.len());
        }
        places
    }
}

/// Where a rollout stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// What everybody should come to.
    pub generation: u64,
    /// What everybody came from, and goes back to when it is undone.
    pub previous: u64,
    /// The cohort that moves, by its place in the order.
    pub cohort: usize,
    /// Since when every member of the moving cohort is healthy on the new generation.
    pub healthy_since: Option<DateTime<Utc>>,
    /// How it is.
    pub state: RolloutState,
    /// Why it halted, in words.
    pub message: Option<String>,
    /// Members that were unwell when somebody went on after a halt: nobody waits for them any more.
    #[serde(default)]
    pub forgiven: BTreeSet<ClusterId>,
    /// Members that could not be given what they should come to, and since when.
    #[serde(default)]
    pub refused: BTreeMap<ClusterId, DateTime<Utc>>,
    /// When it began.
    pub started_at: DateTime<Utc>,
}

/// How a rollout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RolloutState {
    /// Members move.
    Progressing,
    /// The moved cohorts are healthy; time has to pass.
    Soaking,
    /// It stopped by itself, or somebody stopped it; a person goes on or undoes it.
    Halted,
    /// Members move back.
    Undoing,
    /// Everybody is back.
    Undone,
    /// Everybody is there.
    Complete,
}

impl RolloutState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Progressing, Self::Soaking, Self::Halted, Self::Undoing, Self::Undone, Self::Complete];

    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Progressing => "PROGRESSING",
            Self::Soaking => "SOAKING",
            Self::Halted => "HALTED",
            Self::Undoing => "UNDOING",
            Self::Undone => "UNDONE",
            Self::Complete => "COMPLETE",
        }
    }

    /// Nothing more happens by itself.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Halted | Self::Undone | Self::Complete)
    }
}

/// One cluster in a rollout, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub cluster_id: ClusterId,
    /// The generation that its service was last given.
    pub generation: u64,
    /// When it was given.
    pub since: DateTime<Utc>,
    /// The service is healthy on that generation.
    pub healthy: bool,
    /// The service reports a failure on that generation.
    pub failed: bool,
}

/// What is to be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advance {
    /// The rollout as it is now.
    pub rollout: Rollout,
    /// Members to give [`Advance::generation`].
    pub moves: Vec<ClusterId>,
    /// What to give them.
    pub generation: u64,
}

impl Rollout {
    /// A rollout that begins.
    pub fn begin(previous: u64, generation: u64, at: DateTime<Utc>) -> Self {
        Self {
            generation,
            previous,
            cohort: 0,
            healthy_since: None,
            state: RolloutState::Progressing,
            message: None,
            forgiven: BTreeSet::new(),
            refused: BTreeMap::new(),
            started_at: at,
        }
    }

    /// What is to be done now, given how the members are. `places` are those of [`RolloutStrategy::places`].
    pub fn advance(
        &self,
        strategy: &RolloutStrategy,
        places: &BTreeMap<ClusterId, usize>,
        members: &[Member],
        now: DateTime<Utc>,
    ) -> Advance {
        let mut next = self.clone();
        match self.state {
            RolloutState::Halted | RolloutState::Undone | RolloutState::Complete => {
                Advance { generation: self.generation, rollout: next, moves: Vec::new() }
            }
            RolloutState::Undoing => {
                next.forget_refusals(self.previous, members);
                next.go_back(strategy, members, now)
            }
            RolloutState::Progressing | RolloutState::Soaking => {
                next.forget_refusals(self.generation, members);
                let failed = next.failures(strategy, members, now);
                if failed > usize::try_from(strategy.max_failures).unwrap_or(usize::MAX) {
                    next.halt(failed, strategy.undo);
                    if next.state == RolloutState::Undoing {
                        return next.go_back(strategy, members, now);
                    }
                    return Advance { generation: self.generation, rollout: next, moves: Vec::new() };
                }
                next.go_on(strategy, places, members, now)
            }
        }
    }

    /// Goes on after a halt, without waiting for those members that are unwell now.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it does not stand still.
    pub fn resume(&self, members: &[Member]) -> Result<Self> {
        if self.state != RolloutState::Halted {
            return Err(Error::conflict("the rollout is not halted"));
        }
        let unwell = members.iter().filter(|member| {
            let refused = self.refused.contains_key(&member.cluster_id);
            if member.generation == self.generation { !member.healthy } else { refused }
        });
        let mut forgiven = self.forgiven.clone();
        forgiven.extend(unwell.map(|member| member.cluster_id));
        let state = RolloutState::Progressing;
        Ok(Self { state, message: None, healthy_since: None, forgiven, ..self.clone() })
    }

    /// Notes which members could not be given what they should come to.
    pub fn refuse(&mut self, members: impl Iterator<Item = ClusterId>, now: DateTime<Utc>) {
        for id in members {
            self.refused.entry(id).or_insert(now);
        }
    }

    /// Stops where it is.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it is over, and while everybody goes back: to go on from there would be to go forward again.
    pub fn stop(&self, who: &str) -> Result<Self> {
        if self.state == RolloutState::Undoing {
            return Err(Error::conflict("the rollout is being undone and cannot be halted"));
        }
        if self.state.is_settled() {
            return Err(Error::conflict("the rollout is not in progress"));
        }
        Ok(Self { state: RolloutState::Halted, message: Some(format!("halted by {who}")), ..self.clone() })
    }

    /// Moves everybody back.
    ///
    /// # Errors
    /// [`Error::Conflict`] when there is nothing to go back to, or it is going back already.
    pub fn undo(&self, who: &str) -> Result<Self> {
        match self.state {
            RolloutState::Undoing | RolloutState::Undone => {
                Err(Error::conflict("the rollout was already undone"))
            }
            _ if self.previous == 0 => Err(Error::conflict("the rollout has no earlier generation")),
            _ => Ok(Self {
                state: RolloutState::Undoing,
                message: Some(format!("undone by {who}")),
                healthy_since: None,
                refused: BTreeMap::new(),
                ..self.clone()
            }),
        }
    }

    /// Whether there may be no rollout any more: without one the newest generation goes to everybody at once.
    ///
    /// # Errors
    /// [`Error::Conflict`] when that generation was stopped or taken back.
    pub fn can_be_dropped(&self) -> Result<()> {
        match self.state {
            RolloutState::Progressing | RolloutState::Soaking | RolloutState::Complete => Ok(()),
            RolloutState::Halted | RolloutState::Undoing | RolloutState::Undone => Err(Error::conflict(
                "cannot remove the rollout: the newest generation was halted or undone and would reach every \
                 cluster at once. Resume the rollout, or change the template in the same update",
            )),
        }
    }

    fn failures(&self, strategy: &RolloutStrategy, members: &[Member], now: DateTime<Utc>) -> usize {
        let timeout = strategy.timeout();
        let moved = self.moved(members);
        let failed =
            moved.filter(|member| !member.healthy && (member.failed || now - member.since >= timeout));
        failed.count() + self.refused.keys().filter(|id| self.gave_up(strategy, id, now)).count()
    }

    /// It could not be given what it should come to for as long as a member may take; nobody has forgiven that.
    fn gave_up(&self, strategy: &RolloutStrategy, id: &ClusterId, now: DateTime<Utc>) -> bool {
        let since = self.refused.get(id);
        since.is_some_and(|since| now - *since >= strategy.timeout()) && !self.forgiven.contains(id)
    }

    /// Those who have come to a generation, or are no members any more, are refused it no longer.
    fn forget_refusals(&mut self, generation: u64, members: &[Member]) {
        if self.refused.is_empty() {
            return;
        }
        let waiting = members.iter().filter(|member| member.generation != generation);
        let waiting: BTreeSet<ClusterId> = waiting.map(|member| member.cluster_id).collect();
        self.refused.retain(|id, _| waiting.contains(id));
    }

    /// Members on the new generation that are waited for.
    fn moved<'a>(&'a self, members: &'a [Member]) -> impl Iterator<Item = &'a Member> {
        members.iter().filter(|member| {
            member.generation == self.generation && !self.forgiven.contains(&member.cluster_id)
        })
    }

    /// It could not be given the new generation, and a person went on without it.
    fn is_given_up(&self, id: ClusterId) -> bool {
        self.refused.contains_key(&id) && self.forgiven.contains(&id)
    }

    fn halt(&mut self, failed: usize, undo: bool) {
        let going_back = undo && self.previous > 0;
        self.healthy_since = None;
        if going_back {
            self.refused.clear();
        }
        self.state = if going_back { RolloutState::Undoing } else { RolloutState::Halted };
        let clusters = if failed == 1 { "1 cluster is".to_owned() } else { format!("{failed} clusters are") };
        self.message = Some(format!(
            "{clusters} not healthy with the change{}",
            if going_back { ": rolling back on all clusters" } else { "" }
        ));
    }

    /// Everybody back at once: the old generation is known to work. Who cannot be given it for as long as a member may take is
    /// not waited for.
    fn go_back(mut self, strategy: &RolloutStrategy, members: &[Member], now: DateTime<Utc>) -> Advance {
        // Whom a person forgave the new generation is to come back like the others.
        self.forgiven.clear();
        let moves: Vec<ClusterId> = members
            .iter()
            // Not only those on the new one: a rollout that was overtaken may have left some in between.
            .filter(|member| member.generation != self.previous)
            .map(|member| member.cluster_id)
            .collect();
        if moves.iter().all(|id| self.gave_up(strategy, id, now)) {
            self.state = RolloutState::Undone;
        }
        Advance { generation: self.previous, rollout: self, moves }
    }

    fn go_on(
        mut self,
        strategy: &RolloutStrategy,
        places: &BTreeMap<ClusterId, usize>,
        members: &[Member],
        now: DateTime<Utc>,
    ) -> Advance {
        let place = |member: &Member| places.get(&member.cluster_id).copied().unwrap_or(usize::MAX);
        let last = members.iter().map(place).max().unwrap_or(0);
        loop {
            let mut waiting: Vec<&Member> = members
                .iter()
                .filter(|member| place(member) <= self.cohort && member.generation != self.generation)
                .filter(|member| !self.is_given_up(member.cluster_id))
                .collect();
            if !waiting.is_empty() {
                self.state = RolloutState::Progressing;
                self.healthy_since = None;
                // Those who were refused it last: they must not keep it from the others of their cohort.
                let refused = |member: &Member| self.refused.contains_key(&member.cluster_id);
                waiting.sort_unstable_by_key(|member| (refused(member), place(member), member.cluster_id));
                let unavailable = self.moved(members).filter(|member| !member.healthy).count();
                let free = strategy.max_unavailable.of(members.len()).saturating_sub(unavailable);
                let moves = waiting.into_iter().take(free).map(|member| member.cluster_id).collect();
                return Advance { generation: self.generation, rollout: self, moves };
            }
            if self.moved(members).any(|member| !member.healthy) {
                self.state = RolloutState::Progressing;
                self.healthy_since = None;
                return Advance { generation: self.generation, rollout: self, moves: Vec::new() };
            }
            // A cohort without members has nothing to soak.
            let empty = !members.iter().any(|member| place(member) == self.cohort);
            let since = *self.healthy_since.get_or_insert(now);
            if !empty && now - since < TimeDelta::seconds(i64::from(strategy.soak_seconds)) {
                self.state = RolloutState::Soaking;
                return Advance { generation: self.generation, rollout: self, moves: Vec::new() };
            }
            if self.cohort >= last {
                self.state = RolloutState::Complete;
                return Advance { generation: self.generation, rollout: self, moves: Vec::new() };
            }
            self.cohort += 1;
            self.healthy_since = None;
        }
    }
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
