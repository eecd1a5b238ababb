//! Looks for pull requests of the repositories that stacks follow: a webhook may be lost, and nobody has to make one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;

use parking_lot::Mutex;
use plural_core::ids::ScmConnectionId;
use plural_core::page::PageArgs;
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::scm_webhook::identities;
use plural_core::{Error, Result};

use crate::app::App;
use crate::job::NewJob;
use crate::jobs::PlanPullRequest;
use crate::records::Search;
use crate::stack_pull_request::{PullAddress, StackRepository};

/// Heads that are remembered; beyond that all are looked at anew.
const MAX_SEEN: usize = 20_000;
/// Pull requests of one repository that one pass has planned; the next one goes on.
const AT_ONCE: usize = 50;
/// Repositories of one connection that one pass lists; the next one goes on. Hosts count requests, and a webhook tells sooner.
const LISTED: usize = 100;
/// Repositories that a host cannot answer about, one after the other, until it counts as down.
const DOWN_AFTER: usize = 10;
/// Connections of one page.
const CONNECTIONS: i64 = 100;

/// What this console has seen of pull requests.
#[derive(Default)]
pub(crate) struct SeenPulls {
    /// The heads of open ones, with the branches that they go into, by their keys.
    heads: Mutex<HashMap<String, String>>,
    /// The repository of each connection that was listed last.
    listed: Mutex<HashMap<ScmConnectionId, String>>,
    /// The connections that there were at the last pass.
    connections: Mutex<HashSet<ScmConnectionId>>,
}

impl SeenPulls {
    /// Whether this head is another one than was seen last.
    fn is_news(&self, key: &str, head: &str) -> bool {
        self.heads.lock().get(key).is_none_or(|seen| seen != head)
    }

    fn saw(&self, key: String, head: String) {
        let mut seen = self.heads.lock();
        if seen.len() >= MAX_SEEN {
            seen.clear();
        }
        seen.insert(key, head);
    }

    /// Those of a connection's repositories whose turn it is: behind the one that was listed last, and then from the first one on.
    fn turn(&self, connection: ScmConnectionId, slugs: &BTreeSet<String>) -> Vec<String> {
        let last = self.listed.lock().get(&connection).cloned().unwrap_or_default();
        let behind = slugs.range::<str, _>((Bound::Excluded(last.as_str()), Bound::Unbounded));
        let before = slugs.range::<str, _>((Bound::Unbounded, Bound::Included(last.as_str())));
        behind.chain(before).take(LISTED).cloned().collect()
    }

    fn listed(&self, connection: ScmConnectionId, slug: String) {
        self.listed.lock().insert(connection, slug);
    }

    /// These are all connections. What was planned through one that went is planned through others, which may have seen its head before:
    /// all heads are news again.
    fn all(&self, connections: HashSet<ScmConnectionId>) {
        let mut known = self.connections.lock();
        if !known.is_subset(&connections) {
            self.heads.lock().clear();
            self.listed.lock().retain(|id, _| connections.contains(id));
        }
        *known = connections;
    }
}

impl App {
    /// One pass over the repositories that stacks follow, through each connection that may touch them: how many pull requests it has
    /// planned, or ended. A loop does this by itself.
    ///
    /// # Errors
    /// When the stacks or connections cannot be read. What a host fails with is logged, and does not hold up the others.
    pub async fn stack_pulls_poll(&self) -> Result<u64> {
        let repositories = self.store.stack_repositories().await?;
        if repositories.is_empty() {
            return Ok(0);
        }
        let (system, mut count, mut after) = (self.system_ctx(), 0, None);
        let mut all = HashSet::new();
        loop {
            let args = PageArgs { after, first: Some(CONNECTIONS), ..PageArgs::default() };
            let page = self.list::<ScmConnection>(&system, &Search::default(), &args).await?;
            after = page.edges.last().map(|edge| edge.cursor.clone()).filter(|_| page.has_next_page);
            for connection in page.into_nodes() {
                all.insert(connection.id);
                let mut failed = 0;
                for slug in self.seen_pulls.turn(connection.id, &slugs(&connection, &repositories)) {
                    match self.stack_pulls_listed(&connection, &slug).await {
                        Ok(planned) => {
                            failed = 0;
                            count += planned;
                        }
                        Err(error) => {
                            failed += usize::from(matches!(error, Error::Unavailable { .. }));
                            let error = error.log_text();
                            tracing::warn!(connection.id = %connection.id, slug, error, "cannot list pull requests; trying again");
                        }
                    }
                    self.seen_pulls.listed(connection.id, slug);
                    // Each repository of a host that is down holds up all others until the request is given up.
                    if failed >= DOWN_AFTER {
                        break;
                    }
                }
            }
            if after.is_none() {
                self.seen_pulls.all(all);
                return Ok(count);
            }
        }
    }

    /// Has those planned whose heads this console has not seen, and those looked at that are known and not open any more.
    async fn stack_pulls_listed(&self, connection: &ScmConnection, slug: &str) -> Result<u64> {
        let host = match self.scm_host(connection.id).await {
            Ok((_, host)) => host,
            // It went a moment ago, or has nothing to sign in with.
            Err(Error::NotFound { .. } | Error::Invalid { .. }) => return Ok(0),
            Err(error) => return Err(error),
        };
        let open = host.pulls_open(slug).await?;
        let address =
            |number: u64| PullAddress { connection_id: connection.id, repository: slug.to_owned(), number };
        let (mut jobs, mut news) = (Vec::new(), Vec::new());
        for (number, head) in &open.0 {
            let pull = address(*number);
            if self.seen_pulls.is_news(&pull.key(), head) && jobs.len() < AT_ONCE {
                jobs.push(NewJob::of::<PlanPullRequest>(&pull)?);
                news.push((pull.key(), head.clone()));
            }
        }
        // What a list that was cut does not name may be open.
        if !open.1 {
            let numbers: BTreeSet<u64> = open.0.iter().map(|(number, _)| *number).collect();
            for number in self.store.stack_pull_numbers(connection.id, slug).await? {
                if !numbers.contains(&number) {
                    jobs.push(NewJob::of::<PlanPullRequest>(&address(number))?);
                }
            }
        }
        if !jobs.is_empty() {
            self.store.jobs_enqueue(&jobs, self.now()).await?;
        }
        // Afterwards: what is not enqueued is news the next time.
        for (key, head) in news {
            self.seen_pulls.saw(key, head);
        }
        Ok(jobs.len() as u64)
    }
}

/// The repositories of stacks that a connection may touch, as its host calls them.
fn slugs(connection: &ScmConnection, repositories: &[StackRepository]) -> BTreeSet<String> {
    if connection.kind == ScmType::Plain {
        return BTreeSet::new();
    }
    let own = repositories.iter().filter(|it| it.is_of(connection));
    own.filter_map(|it| connection_slug(connection, &it.identity)).collect()
}

/// What a host calls the repository that is cloned from there: the end of its address that leads there again. None where the connection may
/// not touch it.
pub(crate) fn connection_slug(connection: &ScmConnection, identity: &str) -> Option<String> {
    let ends = identity.match_indices('/').map(|(at, _)| identity.get(at + 1..).unwrap_or_default());
    let leads = |slug: &&str| {
        connection.spec.allows(slug)
            && identities(connection.kind, &connection.spec, slug).iter().any(|found| found == identity)
    };
    ends.filter(|slug| slug.contains('/')).find(leads).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use plural_core::ids::{ProjectId, RepositoryId};
    use plural_core::scm_connection::{ScmHeld, ScmSpec};

    use super::*;

    #[test]
    fn a_connection_looks_at_the_repositories_of_its_stacks_that_it_may_touch() {
        let (ours, theirs) = (ProjectId::new(), ProjectId::new());
        let of = |project_id: ProjectId, identity: &str| StackRepository {
            id: RepositoryId::new(),
            project_id,
            connection_id: None,
            identity: identity.to_owned(),
        };
        let all = [
            of(ours, "git.example.com/acme/infra"),
            of(ours, "git.example.com/other/infra"),
            of(ours, "elsewhere.example.com/acme/infra"),
            of(ours, "/srv/git/acme/infra"),
            of(theirs, "git.example.com/acme/shop"),
        ];
        let at = DateTime::from_timestamp(0, 0).unwrap();
        let connection = |project_id, kind| ScmConnection {
            id: ScmConnectionId::new(),
            project_id,
            name: "host".parse().unwrap(),
            kind,
            is_default: false,
            spec: ScmSpec {
                base_url: Some("https://git.example.com".to_owned()),
                repositories: vec!["acme/*".parse().unwrap()],
                ..ScmSpec::default()
            },
            held: ScmHeld::default(),
            created_at: at,
            updated_at: at,
        };
        let found =
            |project_id, kind| slugs(&connection(project_id, kind), &all).into_iter().collect::<Vec<_>>();
        assert_eq!(found(Some(ours), ScmType::Gitea), ["acme/infra"]);
        assert_eq!(found(None, ScmType::Gitea), ["acme/infra", "acme/shop"]);
        assert_eq!(found(Some(ours), ScmType::Plain), [""; 0]);
        // Stacks that name one are looked at through that alone.
        let named = connection(Some(ours), ScmType::Gitea);
        let all = [StackRepository { connection_id: Some(named.id), ..all[0].clone() }];
        assert_eq!(slugs(&named, &all), BTreeSet::from(["acme/infra".to_owned()]));
        assert_eq!(slugs(&connection(Some(ours), ScmType::Gitea), &all), BTreeSet::new());
    }

    #[test]
    fn each_repository_has_its_turn() {
        let (seen, connection) = (SeenPulls::default(), ScmConnectionId::new());
        let slugs: BTreeSet<String> = (0..LISTED + 20).map(|number| format!("acme/{number:04}")).collect();
        let all: Vec<String> = slugs.iter().cloned().collect();
        let pass = || {
            let turn = seen.turn(connection, &slugs);
            for slug in &turn {
                seen.listed(connection, slug.clone());
            }
            turn
        };
        assert_eq!(pass(), all[..LISTED]);
        assert_eq!(pass(), [&all[LISTED..], &all[..LISTED - 20]].concat());
        // One that went meanwhile is no end of it, and other connections have their own turns.
        seen.listed(connection, "acme/0003b".to_owned());
        assert_eq!(pass()[0], all[4]);
        assert_eq!(seen.turn(ScmConnectionId::new(), &slugs)[0], all[0]);
        let one = BTreeSet::from([all[0].clone()]);
        seen.listed(connection, all[0].clone());
        assert_eq!(seen.turn(connection, &one), [all[0].clone()], "the only one is listed each time");
    }

    #[test]
    fn a_head_is_news_until_it_was_seen() {
        let seen = SeenPulls::default();
        assert!(seen.is_news("a", "1"));
        seen.saw("a".to_owned(), "1".to_owned());
        assert!(!seen.is_news("a", "1"));
        assert!(seen.is_news("a", "2") && seen.is_news("b", "1"));
        // The row of a connection goes with it: the others look again at what they saw.
        let (one, other) = (ScmConnectionId::new(), ScmConnectionId::new());
        seen.all(HashSet::from([one]));
        seen.all(HashSet::from([one, other]));
        assert!(!seen.is_news("a", "1"), "none went");
        seen.all(HashSet::from([other]));
        assert!(seen.is_news("a", "1"));
    }
}
