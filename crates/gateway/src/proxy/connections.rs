//! Which agents are here, and the channels they opened for requests of people.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::Stream;
use parking_lot::Mutex;
use plural_core::ids::ClusterId;
use plural_kit::ShutdownSignal;
use plural_tunnel::{
    proxy::{Channel, ChannelOptions, Outgoing},
    v1::ProxyFrame,
};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::Instant,
};
use tonic::Status;

/// Requests to one cluster at once.
const STREAMS: usize = 4_000;
/// A channel that nobody used for so long is closed; the next request asks for another.
const UNUSED: Duration = Duration::from_mins(5);
/// An agent that did not open a channel is asked again after so long.
const ASK_AGAIN: Duration = Duration::from_secs(3);
/// Between two looks whether it is used.
const LOOK: Duration = Duration::from_secs(5);

/// The agents that hold a stream to this console.
pub struct AgentConnections {
    open: Mutex<HashMap<ClusterId, Arc<AgentConnection>>>,
    /// Readers of the channels.
    readers: Mutex<JoinSet<()>>,
    stop: ShutdownSignal,
}

struct AgentConnection {
    wanted: Notify,
    /// When its agent was last asked: many requests at once are one question.
    asked: Mutex<Option<Instant>>,
    channel: watch::Sender<Option<Channel>>,
}

/// Why a cluster cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreachable {
    /// Its agent holds no stream here.
    NotConnected,
    /// Its agent was asked for a channel and opened none.
    Late,
    /// Its channel went away in between.
    Gone,
}

/// An agent's stream is open; dropped with it.
pub struct ConnectionGuard {
    doors: Arc<super::Proxy>,
    cluster: ClusterId,
    door: Arc<AgentConnection>,
}

impl ConnectionGuard {
    /// The agent of a cluster is here and answers when a channel is wanted.
    pub fn enter(proxy: &Arc<super::Proxy>, cluster: ClusterId) -> Self {
        let door = Arc::new(AgentConnection {
            wanted: Notify::new(),
            asked: Mutex::new(None),
            channel: watch::Sender::new(None),
        });
        // The latest stream is the agent's; an older one is about to be noticed as dead.
        let mut open = proxy.doors.open.lock();
        open.insert(cluster, Arc::clone(&door));
        // Still locked: that it opened and that an older one closed are told in the order in which they happened.
        proxy.app.agent_stream_opened(cluster);
        drop(open);
        Self { doors: Arc::clone(proxy), cluster, door }
    }

    /// Resolves when a channel is wanted.
    pub async fn wanted(&self) {
        self.door.wanted.notified().await;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let Self { doors, cluster, door } = self;
        let mut open = doors.doors.open.lock();
        if open.get(cluster).is_some_and(|known| Arc::ptr_eq(known, door)) {
            open.remove(cluster);
            doors.app.agent_stream_closed(*cluster);
        }
        drop(open);
        let channel = door.channel.send_replace(None);
        // A console that stops lets open requests end; otherwise the agent's stream is gone, and its token may be.
        if let Some(channel) = channel
            && !doors.doors.stop.is_requested()
        {
            channel.close("the agent's stream to the console ended");
        }
    }
}

impl AgentConnections {
    pub(super) fn new(stop: ShutdownSignal) -> Self {
        Self { open: Mutex::default(), readers: Mutex::default(), stop }
    }

    /// Whether the agent of a cluster is here.
    pub(super) fn is_open(&self, cluster: ClusterId) -> bool {
        self.open.lock().contains_key(&cluster)
    }

    /// The channel to a cluster; asks its agent for one when there is none.
    pub(super) async fn channel(
        &self,
        cluster: ClusterId,
        patience: Duration,
    ) -> Result<Channel, Unreachable> {
        let door = self.open.lock().get(&cluster).cloned().ok_or(Unreachable::NotConnected)?;
        let usable = |channel: &Option<Channel>| channel.as_ref().is_some_and(|channel| !channel.is_closed());
        let mut opened = door.channel.subscribe();
        if !usable(&opened.borrow_and_update()) {
            let mut asked = door.asked.lock();
            if asked.is_none_or(|at| at.elapsed() >= ASK_AGAIN) {
                *asked = Some(Instant::now());
                door.wanted.notify_one();
            }
        }
        let found = match tokio::time::timeout(patience, opened.wait_for(usable)).await {
            Ok(Ok(channel)) => channel.clone(),
            // The door's guard is gone.
            Ok(Err(_)) => None,
            Err(_) => return Err(Unreachable::Late),
        };
        found.ok_or(Unreachable::Gone)
    }

    /// An agent opened a channel; returns what to say on it.
    ///
    /// # Errors
    /// When the agent holds no stream here.
    pub fn attach<S>(&self, cluster: ClusterId, inbound: S) -> Result<Outgoing, Status>
    where
        S: Stream<Item = Result<ProxyFrame, Status>> + Send + 'static,
    {
        let door = self.open.lock().get(&cluster).cloned();
        let door = door.ok_or_else(|| Status::failed_precondition("open the stream of hints first"))?;
        let (channel, outgoing) = Channel::new(ChannelOptions { streams: STREAMS });
        *door.asked.lock() = None;
        if let Some(old) = door.channel.send_replace(Some(channel.clone())) {
            old.close("the agent opened another channel");
        }
        let stop = self.stop.clone();
        let mut readers = self.readers.lock();
        while readers.try_join_next().is_some() {}
        readers.spawn(async move {
            tokio::select! {
                () = channel.run(inbound, None) => {}
                () = unused(&channel, &stop) => channel.close("nobody uses it"),
            }
        });
        Ok(outgoing)
    }
}

/// Resolves when nobody used the channel for a while, or at once when the console stops.
async fn unused(channel: &Channel, stop: &ShutdownSignal) {
    let mut used = Instant::now();
    loop {
        if channel.streams() > 0 {
            used = Instant::now();
        } else if stop.is_requested() || used.elapsed() >= UNUSED {
            return;
        }
        let pause = if stop.is_requested() { Duration::from_millis(100) } else { LOOK };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.requested(), if !stop.is_requested() => {}
        }
    }
}
