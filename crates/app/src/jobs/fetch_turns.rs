//! Whose repository is fetched next, or whose chart is looked for: no host and no project keeps all turns.
//!
//! A fetch waits for another machine, which may be slow, or be made slow by somebody who wants others to wait. So fetches of
//! one host are few at a time, no project takes all turns of a host or of the console, and first fetches, which may take half
//! an hour, have turns of their own. A build waits for nobody and ends soon: there a project may take all turns, as long as
//! nobody else wants one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use plural_core::ids::ProjectId;
use tokio::sync::oneshot;

/// Turns of one kind.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// At once.
    all: usize,
    /// Of one host.
    host: usize,
    /// Of one project: the rest, if there is one, is for others.
    project: usize,
    /// Of one project at one host.
    project_at_host: usize,
}

/// Fetches wait for other machines, so many may run at once.
const FETCHES: Shares = Shares { all: 64, host: 8, project: 48, project_at_host: 6 };
/// First fetches take a processor and a disk as well.
const CLONES: Shares = Shares { all: 32, host: 8, project: 24, project_at_host: 6 };
/// Artifacts that are built: they take a processor, and no other machine. None is kept for others, who wait for one build at
/// most: the next turn is theirs.
const BUILDS: Shares = Shares { all: 4, host: 4, project: 4, project_at_host: 4 };
/// Looks at charts, with all that they are put together from.
const LOOKS: Shares = Shares { all: 256, host: 8, project: 192, project_at_host: 6 };

/// Who wants to fetch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asker {
    /// None: the installation itself.
    pub(crate) project: Option<ProjectId>,
    /// Where from; none where no other machine is asked.
    pub(crate) host: Option<String>,
}

/// The turns of this console.
#[derive(Debug)]
pub(crate) struct FetchTurns {
    fetches: Arc<Line>,
    clones: Arc<Line>,
    looks: Arc<Line>,
    builds: Arc<Line>,
}

impl Default for FetchTurns {
    fn default() -> Self {
        let [fetches, clones, looks, builds] = [FETCHES, CLONES, LOOKS, BUILDS].map(Line::new);
        Self { fetches, clones, looks, builds }
    }
}

impl FetchTurns {
    /// Waits for a turn to fetch what was fetched before.
    pub(crate) async fn fetch(&self, asker: Asker) -> Turn {
        Line::turn(&self.fetches, asker).await
    }

    /// Waits for a turn to fetch something for the first time, or for the first time after it failed.
    pub(crate) async fn first(&self, asker: Asker) -> Turn {
        Line::turn(&self.clones, asker).await
    }

    /// Waits for a turn to look for a chart.
    pub(crate) async fn look(&self, asker: Asker) -> Turn {
        Line::turn(&self.looks, asker).await
    }

    /// Waits for a turn to build one artifact, or to digest the folders of one commit.
    pub(crate) async fn build(&self, project: Option<ProjectId>) -> Turn {
        Line::turn(&self.builds, Asker { project, host: None }).await
    }
}

#[derive(Debug)]
struct Line {
    shares: Shares,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Turns that are taken.
    all: usize,
    /// And by whom.
    projects: HashMap<Option<ProjectId>, usize>,
    hosts: HashMap<String, usize>,
    askers: HashMap<Asker, usize>,
    /// In the order in which they came.
    waiting: Vec<(Asker, oneshot::Sender<Turn>)>,
}

impl State {
    /// Turns of a project.
    fn of_project(&self, asker: &Asker) -> usize {
        self.projects.get(&asker.project).copied().unwrap_or_default()
    }

    /// Whether somebody may go now.
    fn admits(&self, shares: Shares, asker: &Asker) -> bool {
        let at_host = asker.host.as_ref().is_none_or(|host| {
            let there = self.hosts.get(host).copied().unwrap_or_default();
            let own = self.askers.get(asker).copied().unwrap_or_default();
            there < shares.host && own < shares.project_at_host
        });
        at_host && self.all < shares.all && self.of_project(asker) < shares.project
    }

    fn take(&mut self, asker: &Asker) {
        self.all += 1;
        *self.projects.entry(asker.project).or_default() += 1;
        if let Some(host) = &asker.host {
            *self.hosts.entry(host.clone()).or_default() += 1;
            *self.askers.entry(asker.clone()).or_default() += 1;
        }
    }

    fn give_back(&mut self, asker: &Asker) {
        self.all -= 1;
        one_less(&mut self.projects, &asker.project);
        if let Some(host) = &asker.host {
            one_less(&mut self.hosts, host);
            one_less(&mut self.askers, asker);
        }
    }

    /// Who goes next: of those who may, whose project has fewest turns; of these the first that came.
    fn next(&mut self, shares: Shares) -> Option<(Asker, oneshot::Sender<Turn>)> {
        if self.all >= shares.all {
            return None;
        }
        self.waiting.retain(|(_, waiter)| !waiter.is_closed());
        let may = self.waiting.iter().enumerate().filter(|(_, (asker, _))| self.admits(shares, asker));
        let at = may.min_by_key(|(_, (asker, _))| self.of_project(asker)).map(|(at, _)| at)?;
        let (asker, waiter) = self.waiting.remove(at);
        self.take(&asker);
        Some((asker, waiter))
    }
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Line {
    fn new(shares: Shares) -> Arc<Self> {
        Arc::new(Self { shares, state: Mutex::default() })
    }

    async fn turn(this: &Arc<Self>, asker: Asker) -> Turn {
        loop {
            let given = {
                let (sender, receiver) = oneshot::channel();
                this.state.lock().waiting.push((asker.clone(), sender));
                receiver
            };
            this.give();
            if let Ok(turn) = given.await {
                return turn;
            }
        }
    }

    /// Gives turns to all who may have one.
    fn give(self: &Arc<Self>) {
        loop {
            let next = self.state.lock().next(self.shares);
            let Some((asker, waiter)) = next else { return };
            // Who went away meanwhile drops it, and with that gives it on.
            let _ = waiter.send(Turn { line: Arc::clone(self), asker });
        }
    }
}

/// The right to fetch.
#[derive(Debug)]
pub(crate) struct Turn {
    line: Arc<Line>,
    asker: Asker,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.line.state.lock().give_back(&self.asker);
        self.line.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(project: ProjectId, host: &str) -> Asker {
        Asker { project: Some(project), host: Some(host.to_owned()) }
    }

    /// As many turns as are given at once.
    async fn taken(turns: &FetchTurns, askers: impl IntoIterator<Item = Asker>) -> Vec<Turn> {
        let mut taken = Vec::new();
        for asker in askers {
            tokio::select! {
                biased;
                turn = turns.fetch(asker) => taken.push(turn),
                () = tokio::task::yield_now() => {}
            }
        }
        taken
    }

    #[tokio::test]
    async fn a_project_leaves_turns_to_others() {
        let turns = FetchTurns::default();
        let (hostile, other) = (ProjectId::new(), ProjectId::new());
        // Everything at one host.
        let at_host = taken(&turns, (0..64).map(|_| asker(hostile, "slow"))).await;
        assert_eq!(at_host.len(), FETCHES.project_at_host);
        let beside = taken(&turns, (0..64).map(|_| asker(other, "slow"))).await;
        assert_eq!(beside.len(), FETCHES.host - FETCHES.project_at_host);
        drop((at_host, beside));
        // Each at a host of its own.
        let everywhere = taken(&turns, (0..64).map(|at| asker(hostile, &format!("slow-{at}")))).await;
        assert_eq!(everywhere.len(), FETCHES.project);
        let beside = taken(&turns, [asker(other, "well"), Asker { project: Some(other), host: None }]).await;
        assert_eq!(beside.len(), 2);
        drop((everywhere, beside));
        let state = turns.fetches.state.lock();
        assert!(
            state.all == 0 && state.projects.is_empty() && state.hosts.is_empty() && state.askers.is_empty()
        );
    }

    #[tokio::test]
    async fn what_is_here_waits_for_no_host() {
        let turns = FetchTurns::default();
        let project = ProjectId::new();
        let here = taken(&turns, (0..64).map(|_| Asker { project: Some(project), host: None })).await;
        assert_eq!(here.len(), FETCHES.project);
    }

    #[tokio::test]
    async fn a_project_builds_alone_until_somebody_else_wants_to() {
        let turns = Arc::new(FetchTurns::default());
        let (many, few) = (ProjectId::new(), ProjectId::new());
        let mut all = Vec::new();
        for _ in 0..2 * BUILDS.all {
            tokio::select! {
                biased;
                turn = turns.build(Some(many)) => all.push(turn),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(all.len(), BUILDS.all);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for project in [many, many, many, few] {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _turn = turns.build(Some(project)).await;
                order.lock().push(project);
            }));
            tokio::task::yield_now().await;
        }
        // One build ends.
        all.truncate(BUILDS.all - 1);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(order.lock()[0], few);
    }

    #[tokio::test]
    async fn projects_take_turns() {
        let turns = Arc::new(FetchTurns::default());
        let (many, few) = (ProjectId::new(), ProjectId::new());
        let mut all = taken(&turns, (0..FETCHES.all).map(|at| asker(many, &format!("h{at}")))).await;
        let others = (0..FETCHES.all - all.len()).map(|at| asker(ProjectId::new(), &format!("o{at}")));
        all.extend(taken(&turns, others).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for project in [many, many, many, few] {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _turn = turns.fetch(asker(project, "later")).await;
                order.lock().push(project);
            }));
            tokio::task::yield_now().await;
        }
        // One that nobody waits for any more does not keep its turn.
        waiting.remove(0).abort();
        all.truncate(1);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(order.lock()[0], few);
    }
}
