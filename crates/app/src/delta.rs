//! Deltas: which services, clusters and stacks changed, for pages that are open in browsers.
//!
//! Whoever writes a change names the service, cluster or stack in the same transaction; that of a run is its stack's. Each replica
//! reads these rows while somebody listens here, so it does not matter which replica an agent or a user spoke to. The agents' feed is
//! not used: reports of agents would fill it, and whoever falls behind in it gets a snapshot.
//!
//! # Guarantees
//! - A subscriber is told *that* something changed, never what: they read it again, with the rights that they have then.
//! - Rights are asked for each event. Ids of what the subscriber may not see are left out.
//! - A subscriber who listens slowly costs [`MOST_NEWS`] ids; then they are told to read everything again.
//! - Who does not see everything is told to read again when bindings, roles, groups or administrators changed: what they see then may be more or less.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::access::{Visibility, visibility};
use plural_core::cluster::Cluster;
use plural_core::ids::{ClusterId, ServiceId, StackId};
use plural_core::service::Service;
use plural_core::stack::Stack;
use plural_core::{Error, Result};
use plural_kit::{Backoff, ShutdownSignal};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::service::ServiceSelector;
use crate::stack::StackSelector;

/// For so long deltas are kept.
pub(crate) const KEEP: TimeDelta = TimeDelta::minutes(40);
/// A cursor older than this is too old: deltas after it may be gone.
const RESUME: TimeDelta = TimeDelta::minutes(30);
/// Ids that wait for one subscriber.
pub const MOST_NEWS: usize = 1_000;
/// Ids of which a subscriber is known to have seen them.
const MOST_TOLD: usize = 2_000;
/// A change of rights is told with the time of its request: it may be written so much later, and clocks of replicas differ.
const LATE: TimeDelta = TimeDelta::minutes(1);
/// Between two events of one subscription.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two reads of the table.
const GATHER: Duration = Duration::from_millis(50);
/// Reads even when nobody woke us.
const SAFETY: Duration = Duration::from_secs(15);
/// How soon to ask again for what is written but not yet safe to read.
const PENDING: Duration = Duration::from_millis(100);

/// A place among the deltas, as [`crate::ports::agents::FeedPosition`] is in the feed.
pub type DeltaPosition = u64;

/// What came, changed or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta {
    /// A cluster.
    Cluster(ClusterId),
    /// A service.
    Service {
        /// Its cluster.
        cluster_id: ClusterId,
        /// The service.
        service_id: ServiceId,
    },
    /// A stack, or a run of it.
    Stack(StackId),
}

impl Delta {
    /// The cluster that says who saw it, where one does.
    fn cluster(self) -> Option<ClusterId> {
        match self {
            Self::Cluster(cluster_id) | Self::Service { cluster_id, service_id: _ } => Some(cluster_id),
            Self::Stack(_) => None,
        }
    }
}

/// Deltas after a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeltaBatch {
    /// In order.
    pub deltas: Vec<Delta>,
    /// Everything up to here was read.
    pub position: DeltaPosition,
    /// More is written but not yet safe to read: ask again soon.
    pub pending: bool,
    /// There were more than are read at once; those up to `position` are skipped.
    pub skipped: bool,
    /// When bindings, roles, groups or administrators were changed last, if they were.
    pub rights_at: Option<DateTime<Utc>>,
}

/// The deltas' part of a store. They are written with what they tell of.
#[async_trait]
pub trait DeltaStore: Send + Sync + 'static {
    /// The place up to which everything that commits can be read.
    async fn deltas_head(&self) -> Result<DeltaPosition>;
    /// What comes after a place.
    async fn deltas_read(&self, after: DeltaPosition) -> Result<DeltaBatch>;
    /// Which of these are not there any more.
    async fn deltas_gone(&self, of: &[Delta]) -> Result<HashSet<Uuid>>;
    /// Changes when there is more to read.
    fn deltas_wake(&self) -> watch::Receiver<u64>;
    /// Removes old ones: how many.
    async fn deltas_prune(&self, before: DateTime<Utc>) -> Result<u64>;
}

/// What a subscriber wants to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeltaFilter {
    /// Services: one, those of a cluster, or all.
    Services {
        /// One.
        id: Option<ServiceId>,
        /// Those of one cluster.
        cluster: Option<ClusterId>,
    },
    /// Clusters: one, or all.
    Clusters {
        /// One.
        id: Option<ClusterId>,
    },
    /// Stacks with their runs: one, or all.
    Stacks {
        /// One.
        id: Option<StackId>,
    },
}

impl DeltaFilter {
    /// The id that it is told of, if this concerns it.
    fn key(self, delta: Delta) -> Option<Uuid> {
        match (self, delta) {
            (Self::Services { id, cluster }, Delta::Service { cluster_id, service_id }) => {
                let is_meant =
                    id.is_none_or(|id| id == service_id) && cluster.is_none_or(|id| id == cluster_id);
                is_meant.then(|| service_id.uuid())
            }
            (Self::Clusters { id }, Delta::Cluster(cluster)) => {
                id.is_none_or(|id| id == cluster).then(|| cluster.uuid())
            }
            (Self::Stacks { id }, Delta::Stack(stack)) => {
                id.is_none_or(|id| id == stack).then(|| stack.uuid())
            }
            (Self::Services { .. }, Delta::Cluster(_) | Delta::Stack(_))
            | (Self::Clusters { .. }, Delta::Service { .. } | Delta::Stack(_))
            | (Self::Stacks { .. }, Delta::Cluster(_) | Delta::Service { .. }) => None,
        }
    }
}

/// What a subscriber is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaEvent {
    /// Came or changed.
    pub changed: Vec<Uuid>,
    /// Gone.
    pub deleted: Vec<Uuid>,
    /// More happened than was kept: whatever is shown may be old.
    pub read_again: bool,
    /// Where to go on after the connection was lost.
    pub cursor: String,
}

/// Those who listen on this replica.
#[derive(Default)]
pub(crate) struct Subscribers {
    state: Mutex<State>,
    joined: Notify,
}

#[derive(Default)]
struct State {
    seats: Vec<Weak<Seat>>,
    /// How far was read for them; nothing is read while there are none.
    position: Option<DeltaPosition>,
}

/// What waits for one subscriber.
struct Seat {
    filter: DeltaFilter,
    /// What they see they read with the rights of then: that earlier ones changed is no news.
    since: DateTime<Utc>,
    news: Mutex<News>,
    wake: Notify,
}

#[derive(Default)]
struct News {
    ids: HashMap<Uuid, Changed>,
    /// There was more.
    all: bool,
    /// Who may see what has changed.
    rights: bool,
    position: DeltaPosition,
}

/// One thing that changed.
#[derive(Debug, Clone, Copy)]
struct Changed {
    /// The cluster that says who saw it, where one does.
    cluster: Option<ClusterId>,
    /// It is not there any more.
    gone: bool,
}

impl News {
    fn add(&mut self, filter: DeltaFilter, deltas: &[Delta], gone: &HashSet<Uuid>) {
        for delta in deltas {
            if self.all {
                return;
            }
            if let Some(id) = filter.key(*delta) {
                self.insert(id, Changed { cluster: delta.cluster(), gone: gone.contains(&id) });
                if self.ids.len() > MOST_NEWS {
                    self.overflow();
                }
            }
        }
    }

    /// What is gone does not come back.
    fn insert(&mut self, id: Uuid, new: Changed) {
        let known = self.ids.entry(id).or_insert(new);
        known.gone |= new.gone;
    }

    fn overflow(&mut self) {
        self.ids.clear();
        self.all = true;
    }

    fn is_empty(&self) -> bool {
        self.ids.is_empty() && !self.all && !self.rights
    }
}

impl Subscribers {
    fn join(&self, seat: &Arc<Seat>) -> Option<DeltaPosition> {
        let mut state = self.state.lock();
        state.seats.retain(|seat| seat.strong_count() > 0);
        if state.seats.is_empty() {
            // Nobody was read for since the last one left.
            state.position = None;
        }
        state.seats.push(Arc::downgrade(seat));
        state.position
    }

    /// The first one says from where.
    fn begin(&self, head: DeltaPosition) -> DeltaPosition {
        let position = *self.state.lock().position.get_or_insert(head);
        self.joined.notify_one();
        position
    }

    /// From where to read on; `None` while there is nobody to read for.
    fn position(&self) -> Option<DeltaPosition> {
        let mut state = self.state.lock();
        state.seats.retain(|seat| seat.strong_count() > 0);
        if state.seats.is_empty() {
            state.position = None;
        }
        state.position
    }

    fn hand_out(&self, batch: &DeltaBatch, gone: &HashSet<Uuid>) {
        let mut state = self.state.lock();
        state.position = Some(batch.position);
        state.seats.retain(|seat| {
            let Some(seat) = seat.upgrade() else { return false };
            let mut news = seat.news.lock();
            if batch.skipped {
                news.overflow();
            }
            news.add(seat.filter, &batch.deltas, gone);
            news.rights |= batch.rights_at.is_some_and(|at| is_news(at, seat.since));
            news.position = news.position.max(batch.position);
            if !news.is_empty() {
                seat.wake.notify_one();
            }
            true
        });
    }
}

/// Whether rights may have changed after somebody began to listen: once too often costs one reading, once too seldom a page shows what
/// is no longer so.
fn is_news(at: DateTime<Utc>, since: DateTime<Utc>) -> bool {
    at > since - LATE
}

/// One who listens.
pub struct DeltaSubscription {
    seat: Arc<Seat>,
    /// What they were told of, or asked for by id: that it is gone is no news about what they may not see.
    told: HashSet<Uuid>,
    /// When it was looked what to tell them.
    last: Option<Instant>,
    /// They come back: what went meanwhile cannot be told by id where nobody knows whether they knew it.
    resumes: bool,
}

impl std::fmt::Debug for DeltaSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeltaSubscription").field("filter", &self.seat.filter).finish_non_exhaustive()
    }
}

impl DeltaSubscription {
    /// Waits until there may be something to tell: at once for the first time, then once a second at most.
    pub async fn ready(&self) {
        let Some(last) = self.last else { return };
        while self.seat.news.lock().is_empty() {
            self.seat.wake.notified().await;
        }
        sleep_until(last + PAUSE).await;
    }
}

impl App {
    /// Listens from now on, or from where another subscription came to.
    ///
    /// # Errors
    /// [`Error::NotFound`] where the filter names what the caller may not see; [`Error::Invalid`] for a cursor that is none.
    pub async fn deltas_subscribe(
        &self,
        ctx: &OpCtx,
        filter: DeltaFilter,
        after: Option<&str>,
    ) -> Result<DeltaSubscription> {
        visibility(ctx.actor())?;
        let (service, cluster, stack) = match filter {
            DeltaFilter::Services { id, cluster } => (id, cluster, None),
            DeltaFilter::Clusters { id } => (None, id, None),
            DeltaFilter::Stacks { id } => (None, None, id),
        };
        if let Some(id) = service {
            self.get::<Service>(ctx, &ServiceSelector::Id(id)).await?;
        }
        if let Some(id) = cluster {
            self.get::<Cluster>(ctx, &ClusterSelector::Id(id)).await?;
        }
        if let Some(id) = stack {
            self.get::<Stack>(ctx, &StackSelector::Id(id)).await?;
        }
        let after = after.map(|text| DeltaCursor::parse(text).ok_or_else(no_cursor)).transpose()?;

        let since = after.as_ref().map_or(ctx.now(), |after| after.at);
        let seat = Arc::new(Seat { filter, since, news: Mutex::default(), wake: Notify::new() });
        let position = match self.subscribers.join(&seat) {
            Some(position) => position,
            None => self.subscribers.begin(self.store.deltas_head().await?),
        };
        {
            let mut news = seat.news.lock();
            news.position = news.position.max(position);
        }
        let resumes = after.is_some();
        if let Some(after) = after {
            let is_ours = *after.epoch == *self.fleet.epoch() && ctx.now() - after.at < RESUME;
            let mut news = News::default();
            if is_ours && after.position < position {
                let missed = self.store.deltas_read(after.position).await?;
                news.all = missed.skipped;
                news.rights = missed.rights_at.is_some_and(|at| is_news(at, since));
                let of_filter: Vec<Delta> =
                    missed.deltas.into_iter().filter(|delta| filter.key(*delta).is_some()).collect();
                news.add(filter, &of_filter, &self.deltas_gone(&of_filter).await?);
            }
            let mut waiting = seat.news.lock();
            waiting.rights |= news.rights;
            for (id, changed) in news.ids {
                waiting.insert(id, changed);
            }
            if news.all || !is_ours {
                waiting.overflow();
            }
        }
        let told = match filter {
            DeltaFilter::Services { id, cluster: _ } => id.map(ServiceId::uuid),
            DeltaFilter::Clusters { id } => id.map(ClusterId::uuid),
            DeltaFilter::Stacks { id } => id.map(StackId::uuid),
        };
        Ok(DeltaSubscription { seat, told: told.into_iter().collect(), last: None, resumes })
    }

    /// What is to be told now, as far as the caller may know of it; nothing where that is all that there was.
    ///
    /// # Errors
    /// When rights cannot be asked. What was to be told is not lost: the next event says to read again.
    pub async fn deltas_take(
        &self,
        ctx: &OpCtx,
        subscription: &mut DeltaSubscription,
    ) -> Result<Option<DeltaEvent>> {
        // Also when all that changed is nothing that the caller may know of: looking is what costs.
        let is_first = subscription.last.replace(Instant::now()).is_none();
        let News { ids, all, rights, position } = {
            let mut news = subscription.seat.news.lock();
            let position = news.position;
            std::mem::replace(&mut *news, News { position, ..News::default() })
        };
        let looked = self.deltas_look(ctx, subscription, &ids).await;
        let Looked { mut changed, mut deleted, unknown } = match looked {
            Ok(looked) => looked,
            Err(error) => {
                subscription.seat.news.lock().overflow();
                return Err(error);
            }
        };
        let sees_other = rights && visibility(ctx.actor())? != Visibility::All;
        // Who comes back cannot be told by id of what they may never have seen.
        let read_again = all || sees_other || (unknown && std::mem::take(&mut subscription.resumes));
        subscription.resumes = false;
        if changed.is_empty() && deleted.is_empty() && !read_again && !is_first {
            return Ok(None);
        }
        changed.sort_unstable();
        deleted.sort_unstable();
        for id in &deleted {
            subscription.told.remove(id);
        }
        let room = MOST_TOLD.saturating_sub(subscription.told.len());
        subscription.told.extend(changed.iter().copied().take(room));
        let cursor = DeltaCursor { epoch: self.fleet.epoch(), position, at: ctx.now() };
        Ok(Some(DeltaEvent { changed, deleted, read_again, cursor: cursor.text() }))
    }

    async fn deltas_look(
        &self,
        ctx: &OpCtx,
        subscription: &DeltaSubscription,
        ids: &HashMap<Uuid, Changed>,
    ) -> Result<Looked> {
        // Who may see everything costs no question: what is gone is known already.
        let sees_all = visibility(ctx.actor())? == Visibility::All;
        let there: Vec<Uuid> = ids.iter().filter(|(_, it)| !it.gone).map(|(id, _)| *id).collect();
        let changed = match subscription.seat.filter {
            _ if sees_all => there,
            DeltaFilter::Services { .. } => {
                let there: Vec<ServiceId> = there.into_iter().map(ServiceId::from_uuid).collect();
                self.get_many::<Service>(ctx, &there).await?.into_keys().map(ServiceId::uuid).collect()
            }
            DeltaFilter::Clusters { .. } => {
                let there: Vec<ClusterId> = there.into_iter().map(ClusterId::from_uuid).collect();
                self.get_many::<Cluster>(ctx, &there).await?.into_keys().map(ClusterId::uuid).collect()
            }
            DeltaFilter::Stacks { .. } => {
                let there: Vec<StackId> = there.into_iter().map(StackId::from_uuid).collect();
                self.get_many::<Stack>(ctx, &there).await?.into_keys().map(StackId::uuid).collect()
            }
        };
        let gone: Vec<(Uuid, Option<ClusterId>)> =
            ids.iter().filter(|(_, it)| it.gone).map(|(id, it)| (*id, it.cluster)).collect();
        let mut looked = Looked { changed, deleted: Vec::new(), unknown: false };
        if gone.is_empty() || sees_all {
            looked.deleted = gone.into_iter().map(|(id, _)| id).collect();
            return Ok(looked);
        }
        // Whoever may see a cluster saw all services on it.
        let clusters: HashSet<ClusterId> = gone.iter().filter_map(|(_, cluster)| *cluster).collect();
        let clusters: Vec<ClusterId> = clusters.into_iter().collect();
        let clusters = self.get_many::<Cluster>(ctx, &clusters).await?;
        for (id, cluster) in gone {
            let is_seen = cluster.is_some_and(|cluster| clusters.contains_key(&cluster));
            if is_seen || subscription.told.contains(&id) {
                looked.deleted.push(id);
            } else {
                looked.unknown = true;
            }
        }
        Ok(looked)
    }

    /// Which of these are gone. What goes later is told by a later delta.
    async fn deltas_gone(&self, of: &[Delta]) -> Result<HashSet<Uuid>> {
        if of.is_empty() { Ok(HashSet::new()) } else { self.store.deltas_gone(of).await }
    }

    /// What comes after a place, and what of it is gone: looked up once for all who listen here.
    async fn deltas_next(&self, after: DeltaPosition) -> Result<(DeltaBatch, HashSet<Uuid>)> {
        let batch = self.store.deltas_read(after).await?;
        let gone = self.deltas_gone(&batch.deltas).await?;
        Ok((batch, gone))
    }

    /// Reads deltas for those who listen here, until asked to stop. A failing database is tried again for ever.
    pub(crate) async fn deltas_follow(&self, stop: &ShutdownSignal) -> Result<()> {
        let mut wake = self.store.deltas_wake();
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        loop {
            let Some(position) = self.subscribers.position() else {
                if stop.or(self.subscribers.joined.notified()).await.is_none() {
                    return Ok(());
                }
                continue;
            };
            wake.mark_unchanged();
            let wait = match self.deltas_next(position).await {
                Ok((batch, gone)) => {
                    backoff.reset();
                    self.subscribers.hand_out(&batch, &gone);
                    if batch.pending { PENDING } else { SAFETY }
                }
                Err(error) => {
                    tracing::warn!(
                        error = error.log_text(),
                        "cannot read which things changed; trying again"
                    );
                    if stop.or(tokio::time::sleep(backoff.next_wait())).await.is_none() {
                        return Ok(());
                    }
                    continue;
                }
            };
            match stop.or(timeout(wait, wake.changed())).await {
                None => return Ok(()),
                Some(Ok(Err(_))) => {
                    return Err(Error::internal("following what changes", "the store is gone"));
                }
                Some(_) => {}
            }
            // A commit that moves a thousand services, or a thousand reports: few reads.
            if stop.or(tokio::time::sleep(GATHER)).await.is_none() {
                return Ok(());
            }
        }
    }
}

/// What became of what changed, for one subscriber.
struct Looked {
    changed: Vec<Uuid>,
    deleted: Vec<Uuid>,
    /// Something went of which they may not have known.
    unknown: bool,
}

fn no_cursor() -> Error {
    Error::invalid("after", "is not the cursor of an event")
}

/// How far somebody was told.
struct DeltaCursor {
    epoch: Arc<str>,
    position: DeltaPosition,
    at: DateTime<Utc>,
}

impl DeltaCursor {
    fn text(&self) -> String {
        format!("{}.{}.{}", self.epoch, self.position, self.at.timestamp())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.rsplitn(3, '.');
        let at = DateTime::from_timestamp(parts.next()?.parse().ok()?, 0)?;
        let position = parts.next()?.parse().ok()?;
        let epoch = parts.next().filter(|epoch| epoch.len() <= 64)?;
        Some(Self { epoch: Arc::from(epoch), position, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(service: u128, cluster: u128) -> Delta {
        let cluster_id = ClusterId::from_uuid(Uuid::from_u128(cluster));
        if service == 0 {
            return Delta::Cluster(cluster_id);
        }
        Delta::Service { cluster_id, service_id: ServiceId::from_uuid(Uuid::from_u128(service)) }
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let at = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let cursor = DeltaCursor { epoch: Arc::from("a.b"), position: 7, at };
        let read = DeltaCursor::parse(&cursor.text()).unwrap();
        assert_eq!((&*read.epoch, read.position, read.at), ("a.b", 7, at));
        for none in ["", "a", "a.b", "a.7.x", "a.-7.1", "a.7.99999999999999999"] {
            assert!(DeltaCursor::parse(none).is_none(), "{none}");
        }
    }

    #[test]
    fn a_filter_concerns_what_it_names() {
        let cluster = |id| ClusterId::from_uuid(Uuid::from_u128(id));
        let all = DeltaFilter::Services { id: None, cluster: None };
        let on = DeltaFilter::Services { id: None, cluster: Some(cluster(1)) };
        assert_eq!(all.key(of(5, 1)), Some(Uuid::from_u128(5)));
        assert_eq!((on.key(of(5, 1)), on.key(of(5, 2))), (Some(Uuid::from_u128(5)), None));
        assert_eq!((all.key(of(0, 1)), DeltaFilter::Clusters { id: None }.key(of(5, 1))), (None, None));
        assert_eq!(DeltaFilter::Clusters { id: None }.key(of(0, 2)), Some(Uuid::from_u128(2)));
        let stack = |id| StackId::from_uuid(Uuid::from_u128(id));
        let one = DeltaFilter::Stacks { id: Some(stack(7)) };
        assert_eq!(one.key(Delta::Stack(stack(7))), Some(Uuid::from_u128(7)));
        assert_eq!(
            (one.key(Delta::Stack(stack(8))), one.key(of(7, 7)), one.key(of(0, 7))),
            (None, None, None)
        );
        assert_eq!((all.key(Delta::Stack(stack(5))), on.key(Delta::Stack(stack(1)))), (None, None));
    }

    #[test]
    fn who_listens_slowly_keeps_little_and_is_told_so() {
        let mut news = News::default();
        let filter = DeltaFilter::Services { id: None, cluster: None };
        let many: Vec<Delta> = (1..=MOST_NEWS as u128).map(|id| of(id, 1)).collect();
        news.add(filter, &many, &HashSet::new());
        news.add(filter, &many, &HashSet::new());
        assert!(!news.all && news.ids.len() == MOST_NEWS);
        news.add(filter, &[of(u128::MAX, 1)], &HashSet::new());
        assert!(news.all && news.ids.is_empty());
        news.add(filter, &many, &HashSet::new());
        assert!(news.ids.is_empty(), "it is told to read everything");
    }

    #[test]
    fn nothing_is_read_while_nobody_listens() {
        let subscribers = Subscribers::default();
        assert_eq!(subscribers.position(), None);
        let since = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let seat = Arc::new(Seat {
            filter: DeltaFilter::Clusters { id: None },
            since,
            news: Mutex::default(),
            wake: Notify::new(),
        });
        assert_eq!(subscribers.join(&seat), None);
        assert_eq!((subscribers.begin(4), subscribers.begin(9)), (4, 4));
        let batch = DeltaBatch { deltas: vec![of(0, 3)], position: 6, ..DeltaBatch::default() };
        subscribers.hand_out(&batch, &HashSet::new());
        assert_eq!(seat.news.lock().ids.len(), 1);
        assert_eq!(subscribers.position(), Some(6));
        // Rights that changed long before they listened are those with which they read; a write may take a while.
        for (seconds, is_news) in [(-61, false), (-60, false), (-59, true), (0, true), (1, true)] {
            let rights_at = Some(since + TimeDelta::seconds(seconds));
            let batch = DeltaBatch { position: 7, rights_at, ..DeltaBatch::default() };
            *seat.news.lock() = News::default();
            subscribers.hand_out(&batch, &HashSet::new());
            let news = seat.news.lock();
            assert_eq!((news.rights, news.is_empty()), (is_news, !is_news), "{seconds}");
        }
        drop(seat);
        assert_eq!(subscribers.position(), None);
    }
}
