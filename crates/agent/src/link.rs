//! The line to the console: one stream for hints and reports, and polls.

use std::{sync::Arc, time::Duration};

use plural_core::ids::ServiceId;
use plural_kit::Backoff;
use plural_tunnel::{
    Console, TunnelError,
    v1::{
        AgentMessage, Hello, Hint, KeepAlive, OpenProxy, Welcome, WorkKind, agent_message, console_message,
    },
    work::CONTRACT,
};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use crate::{
    agent::Core,
    config::AgentEvent,
    facts,
    inbox::{Wake, Why},
    reports::Uplink,
};

/// Between two signs of life of a console that does not say.
const USUAL: Duration = Duration::from_secs(20);
/// Signs of life that a console may owe until it counts as gone.
const OWED: u32 = 4;
/// A stream that lasted for so long was good.
const GOOD: Duration = Duration::from_secs(10);
/// Over how long the agents of a console that drains come to the others.
const SPREAD: Duration = Duration::from_secs(2);
/// How often the facts of the cluster are looked at.
const FACTS_EVERY: Duration = Duration::from_mins(10);

/// Channels for requests of people: one that works, and those of consoles that are draining.
const CHANNELS: usize = 4;

/// How often to poll; the console says so in its welcome.
#[derive(Debug, Clone, Copy)]
struct Pace {
    streaming: Duration,
    polling: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { streaming: Duration::from_mins(5), polling: Duration::from_secs(30) }
    }
}

impl Pace {
    fn of(welcome: &Welcome) -> Self {
        let seconds = |given: u32, default: Duration| match given {
            0 => default,
            given => {
                Duration::from_secs(u64::from(given)).clamp(Duration::from_secs(1), Duration::from_hours(1))
            }
        };
        let usual = Self::default();
        Self {
            streaming: seconds(welcome.poll_seconds_streaming, usual.streaming),
            polling: seconds(welcome.poll_seconds_polling, usual.polling),
        }
    }
}

/// Shared between the stream and the poller.
struct Line {
    core: Arc<Core>,
    console: Console,
    uplink: watch::Sender<Uplink>,
    poll_now: Notify,
    hinted: parking_lot::Mutex<Option<Instant>>,
    pace: parking_lot::Mutex<Pace>,
    /// Between two signs of life of ours.
    keep_alive: Duration,
}

/// How a stream ended that did not break.
enum Ended {
    /// The console stops and says so: another one answers, or this one soon again.
    Drained,
    /// With the token that it was opened with, which the agent has replaced.
    Renewed,
    /// Without a word.
    Closed,
}

/// In whole seconds, at least one.
fn seconds_up(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs_f64().ceil() as u64).unwrap_or(u32::MAX).max(1)
}

/// Holds the line for ever.
pub(crate) async fn run(core: Arc<Core>, client: kube::Client, console: Console, keep_alive: Duration) {
    let (uplink, uplink_seen) = watch::channel(None);
    let line = Line {
        core: Arc::clone(&core),
        console: console.clone(),
        uplink,
        poll_now: Notify::new(),
        hinted: parking_lot::Mutex::default(),
        pace: parking_lot::Mutex::default(),
        keep_alive,
    };
    line.log_in().await;
    tokio::join!(line.stream(&client), line.poll(), core.reports.run(&console, &uplink_seen));
}

/// Waiting does not mend it: somebody has to.
fn warn_of_tls(reason: &str) {
    tracing::warn!(
        reason,
        "no secure connection to the console: compare the certificate at its address with the authority that the agent was given \
         (--console-ca-file), and the address with the names in the certificate; trying again"
    );
}

impl Line {
    /// Tries until there is a token to log in with.
    async fn log_in(&self) {
        let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
        while let Err(error) = self.core.credential.settle(&self.core).await {
            let (message, refused) = (error.to_string(), error.is_refusal());
            if refused {
                tracing::error!(reason = %message, "the agent cannot log in to the console");
            } else if error.is_tls() {
                warn_of_tls(&message);
            } else {
                tracing::info!(reason = %message, "the agent cannot log in to the console yet");
            }
            self.core.emit(AgentEvent::Disconnected { message, refused });
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    async fn stream(&self, client: &kube::Client) {
        let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
        // Requests of people outlive the stream that asked for their channel: a console that drains lets them end.
        let mut channels = JoinSet::new();
        loop {
            let started = Instant::now();
            let token = self.core.credential.generation();
            let ended = match self.stream_once(client, &mut channels).await {
                // The token that it was opened with ended because the agent has another one.
                Err(error) if error.is_unauthorized() && self.core.credential.generation() != token => {
                    Ok(Ended::Renewed)
                }
                ended => ended,
            };
            // Only a loss is news: an attempt that failed begins no pause of the polls anew.
            self.uplink.send_if_modified(|up| up.take().is_some());
            let is_tls = ended.as_ref().is_err_and(TunnelError::is_tls);
            let (message, refused) = match &ended {
                Ok(Ended::Drained) => {
                    ("the console is shutting down; reconnecting to another replica".to_owned(), false)
                }
                Ok(Ended::Renewed) => ("the agent has a new deploy token".to_owned(), false),
                Ok(Ended::Closed) => ("the console closed the stream".to_owned(), false),
                Err(error) => (error.to_string(), error.is_unauthorized()),
            };
            if refused {
                tracing::error!(reason = %message, "the console refuses this agent");
            } else if is_tls {
                warn_of_tls(&message);
            } else {
                tracing::info!(reason = %message, "no stream to the console");
            }
            self.core.emit(AgentEvent::Disconnected { message, refused });
            // A stream that lasted was good; one that ends at once again and again is not.
            if started.elapsed() > GOOD {
                backoff.reset();
            }
            let wait = match ended {
                Ok(Ended::Drained) => SPREAD.mul_f64(self.core.chance()),
                Ok(Ended::Renewed) => Duration::ZERO,
                Ok(Ended::Closed) | Err(_) => backoff.next_wait(),
            };
            tokio::time::sleep(wait).await;
            if refused {
                // The Secret may hold another one by now, or the agent may still join.
                self.log_in().await;
            }
        }
    }

    async fn stream_once(
        &self,
        client: &kube::Client,
        channels: &mut JoinSet<()>,
    ) -> Result<Ended, TunnelError> {
        let (up, outgoing) = mpsc::channel(16);
        let hello = agent_message::Message::Hello(Hello {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: Some(facts::read(client).await),
            cursor: self.core.desired.cursor(),
            proxies: self.core.proxy.is_some(),
            keep_alive_seconds: seconds_up(self.keep_alive),
            contract: CONTRACT,
        });
        // The channel is new and empty: there is room for one.
        let _ = up.try_send(AgentMessage { message: Some(hello) });
        let mut incoming = self.console.stream(outgoing).await?;
        let mut keep_alive = tokio::time::interval(self.keep_alive);
        let mut heard = Instant::now();
        let mut silence = USUAL * OWED;
        let mut channel = None;
        loop {
            let message = tokio::select! {
                message = incoming.message() => message?,
                _ = keep_alive.tick() => {
                    if heard.elapsed() > silence {
                        let message = "the console stopped sending".to_owned();
                        return Err(TunnelError::Unavailable { message });
                    }
                    let sign = agent_message::Message::KeepAlive(KeepAlive::default());
                    let _ = up.try_send(AgentMessage { message: Some(sign) });
                    continue;
                }
            };
            heard = Instant::now();
            match message.map(|message| message.message) {
                None => return Ok(Ended::Closed),
                Some(Some(console_message::Message::Drain(_))) => return Ok(Ended::Drained),
                Some(Some(console_message::Message::Welcome(welcome))) => {
                    tracing::info!(cluster.handle = %welcome.cluster_handle, "connected to the console");
                    *self.pace.lock() = Pace::of(&welcome);
                    let every = match welcome.keep_alive_seconds {
                        0 => USUAL,
                        seconds => Duration::from_secs(u64::from(seconds)),
                    };
                    // It is looked at as often as we say something ourselves.
                    silence = every * OWED + self.keep_alive;
                    if let Some(proxy) = &self.core.proxy {
                        proxy.trust(&welcome);
                    }
                    self.uplink.send_replace(Some(up.clone()));
                    self.core.emit(AgentEvent::Connected);
                    // Whatever was missed while there was no stream.
                    self.poll_now.notify_one();
                }
                Some(Some(console_message::Message::Hint(hint))) => self.hint(&hint),
                Some(Some(console_message::Message::OpenProxy(OpenProxy {}))) => {
                    while channels.try_join_next().is_some() {}
                    // Asked twice is asked once: another channel would end the first.
                    let is_open =
                        channel.as_ref().is_some_and(|channel: &AbortHandle| !channel.is_finished());
                    if let Some(proxy) = self.core.proxy.clone()
                        && !is_open
                        && channels.len() < CHANNELS
                    {
                        let console = self.console.clone();
                        channel = Some(channels.spawn(async move { proxy.serve(&console).await }));
                    }
                }
                Some(Some(console_message::Message::Reported(reported))) => {
                    self.core.reports.acknowledged(reported.report_id);
                }
                Some(Some(console_message::Message::KeepAlive(KeepAlive { console_time_ms }))) => {
                    if let Some(proxy) = &self.core.proxy {
                        proxy.time(console_time_ms);
                    }
                }
                // A newer console may say what we do not know.
                Some(None) => {}
            }
        }
    }

    fn hint(&self, hint: &Hint) {
        let services = hint.kicked.iter().filter(|work| work.kind() == WorkKind::Service);
        let kicked: Vec<ServiceId> = services.filter_map(|work| work.id.parse().ok()).collect();
        let known = self.core.desired.cursor().map_or(0, |cursor| cursor.sequence);
        if !kicked.is_empty() {
            self.core.inbox.wake(kicked, Wake { why: Why::News, ..Wake::default() });
        }
        if hint.sequence == 0 || hint.sequence > known {
            self.hinted.lock().get_or_insert_with(Instant::now);
            self.poll_now.notify_one();
        }
    }

    async fn poll(&self) {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
        let mut uplink = self.uplink.subscribe();
        loop {
            let hinted = self.hinted.lock().take();
            let want = self.core.desired.want();
            let cursor = self.core.desired.cursor();
            let polled = if self.core.desired.is_outdated() {
                self.console.poll_whole(cursor, want.clone()).await
            } else {
                self.console.poll(cursor, want.clone()).await
            };
            match polled {
                Ok(answer) => {
                    backoff.reset();
                    let rotate = answer.rotate_token;
                    let moved = self.core.desired.take(answer);
                    let learnt = Some(Instant::now());
                    let woken = moved.changed.iter().chain(&moved.forgotten).copied();
                    self.core.inbox.wake(woken, Wake { hinted, learnt, why: Why::News });
                    if moved.runs {
                        self.core.runs.wake();
                    }
                    if moved.secrets {
                        self.core.pr_secrets.wake();
                    }
                    let asked = Wake { why: Why::Plan, ..Wake::default() };
                    self.core.inbox.wake(moved.asked.iter().copied(), asked);
                    // With the first answer the desired state is whole: what was kept on disk, and what
                    // changed since. A snapshot makes it whole again.
                    if moved.snapshot || !*self.core.whole.borrow() {
                        self.core.whole.send_replace(true);
                    }
                    if moved.is_any() {
                        let core = Arc::clone(&self.core);
                        // Off the way of the change: nobody waits for this file.
                        let saved = tokio::task::spawn_blocking(move || core.desired.save()).await;
                        if let Ok(Err(error)) = saved {
                            tracing::warn!(%error, "cannot keep the desired state on disk");
                        }
                    }
                    if rotate && let Err(error) = self.core.credential.rotate(&self.core).await {
                        tracing::warn!(%error, "cannot replace the deploy token; trying again with the next poll");
                    }
                    // A service that moved from a state that is not known here waits for all of it. What the console was
                    // asked for and did not send is asked for again with the next poll.
                    if self.core.desired.want().iter().any(|work| !want.contains(work)) {
                        if let Some(hinted) = hinted {
                            self.hinted.lock().get_or_insert(hinted);
                        }
                        continue;
                    }
                    loop {
                        let pace = *self.pace.lock();
                        let is_up = uplink.borrow_and_update().is_some();
                        let every = if is_up { pace.streaming } else { pace.polling };
                        let wait = every.mul_f64(0.8 + 0.4 * self.core.chance());
                        tokio::select! {
                            () = self.poll_now.notified() => break,
                            () = self.core.runs.asks() => break,
                            () = tokio::time::sleep(wait) => break,
                            // Without a stream nobody tells us anything: the pause is another one.
                            _ = uplink.changed() => {}
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "a poll failed");
                    if let Some(hinted) = hinted {
                        self.hinted.lock().get_or_insert(hinted);
                    }
                    let wait = backoff.next_wait();
                    if error.is_unauthorized() {
                        // Only a person can help: no need to ask often, unless a stream comes up.
                        let _ =
                            tokio::time::timeout(wait + Duration::from_secs(15), self.poll_now.notified())
                                .await;
                    } else {
                        tokio::time::sleep(wait).await;
                    }
                }
            }
        }
    }
}

/// Tells the console when the facts of the cluster changed.
pub(crate) async fn facts_loop(client: kube::Client, console: Console) {
    let mut told = facts::read(&client).await;
    let mut report_id = 0;
    loop {
        tokio::time::sleep(FACTS_EVERY).await;
        let now = facts::read(&client).await;
        // An API server that does not answer says nothing about the cluster.
        if now == told || now.kubernetes_version.is_empty() {
            continue;
        }
        let request = plural_tunnel::v1::ReportRequest {
            report_id,
            services: Vec::new(),
            cluster: Some(now.clone()),
            stack_runs: Vec::new(),
        };
        if console.report(request).await.is_ok() {
            told = now;
            report_id += 1;
        }
    }
}
