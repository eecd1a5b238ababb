//! A TCP proxy that misbehaves on request. It stands where a network would: the kernel of a test machine
//! may have no traffic shaping.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};

use crate::background::Background;

/// How much is read before it is passed on, at most.
const CHUNK: usize = 64 * 1024;
/// Chunks that are on their way in one direction, at most: 64 MiB.
const ON_THE_WAY: usize = 1024;

/// What the proxy does to bytes, from the next byte on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Every byte in each direction arrives this much later (so a round trip takes twice as long); what follows it
    /// is on its way meanwhile.
    pub delay: Duration,
    /// Bytes a second in each direction of each connection; none: as fast as it goes.
    pub rate: Option<u32>,
    /// Bytes from the client vanish; the connection stays open.
    pub swallow_requests: bool,
    /// Bytes to the client vanish; the connection stays open.
    pub swallow_responses: bool,
    /// New connections are closed at once.
    pub refuse: bool,
    /// A connection on which nothing was said for so long is cut, as by a proxy that thinks it is idle.
    pub idle: Option<Duration>,
}

impl Faults {
    /// A peer that is gone without a word: connections stay open and nothing passes, in either direction.
    pub fn half_open() -> Self {
        Self { swallow_requests: true, swallow_responses: true, ..Self::default() }
    }

    /// Whoever is silent for so long is cut.
    pub fn idle_after(silence: Duration) -> Self {
        Self { idle: Some(silence), ..Self::default() }
    }

    /// Every chunk late by this much.
    pub fn late(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }
}

/// A loopback port that leads to another. Dropping it cuts every connection.
#[derive(Debug)]
pub struct FaultProxy {
    background: Background,
    control: watch::Sender<Control>,
    counters: Arc<Counters>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Control {
    faults: Faults,
    /// Connections of an earlier generation end.
    generation: u64,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    open: AtomicUsize,
    chunks: AtomicU64,
    idled: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Request,
    Response,
}

impl FaultProxy {
    /// A port that leads to `target`, faultless at first.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let (control, watched) = watch::channel(Control::default());
        let counters = Arc::new(Counters::default());
        let shared = Arc::clone(&counters);
        let background = Background::start("fault-proxy", move |listener| async move {
            accept(listener, target, watched, shared).await;
        })?;
        Ok(Self { background, control, counters })
    }

    /// Where to connect.
    pub fn address(&self) -> SocketAddr {
        self.background.address()
    }

    /// Misbehave so from the next byte on.
    pub fn set(&self, faults: Faults) {
        self.control.send_modify(|c| c.faults = faults);
    }

    /// Behave.
    pub fn heal(&self) {
        self.set(Faults::default());
    }

    /// Reset every connection there is; new ones are served.
    pub fn cut(&self) {
        self.control.send_modify(|c| c.generation += 1);
    }

    /// Reset every connection and refuse new ones until [`Self::heal`].
    pub fn cut_off(&self) {
        self.control.send_modify(|c| {
            c.faults.refuse = true;
            c.generation += 1;
        });
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.counters.accepted.load(Ordering::Relaxed)
    }

    /// Pieces passed on so far, in either direction.
    pub fn chunks(&self) -> u64 {
        self.counters.chunks.load(Ordering::Relaxed)
    }

    /// Connections that were cut because nothing was said on them.
    pub fn idled(&self) -> u64 {
        self.counters.idled.load(Ordering::Relaxed)
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.counters.open.load(Ordering::Relaxed)
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    control: watch::Receiver<Control>,
    counters: Arc<Counters>,
) {
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => client,
                Err(_) => continue,
            },
            Some(_) = connections.join_next() => continue,
        };
        if control.borrow().faults.refuse {
            reset(&client);
            continue;
        }
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        let (control, counters) = (control.clone(), Arc::clone(&counters));
        connections.spawn(async move {
            counters.open.fetch_add(1, Ordering::Relaxed);
            connection(client, target, control, &counters).await;
            counters.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Pass bytes both ways until both ends are done or the connection is cut.
async fn connection(
    client: TcpStream,
    target: SocketAddr,
    mut control: watch::Receiver<Control>,
    counters: &Counters,
) {
    let generation = control.borrow_and_update().generation;
    let spoken = watch::Sender::new(());
    let Ok(server) = TcpStream::connect(target).await else {
        reset(&client);
        return;
    };
    let no_delay = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    if no_delay.is_err() {
        return;
    }
    let (mut client, mut server) = (client, server);
    let finished = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        let said = || {
            counters.chunks.fetch_add(1, Ordering::Relaxed);
            spoken.send_replace(());
        };
        let requests = pass(client_read, server_write, control.clone(), Direction::Request, said);
        let responses = pass(server_read, client_write, control.clone(), Direction::Response, said);
        let silent = silence(spoken.subscribe(), control.clone());
        let cut = control.wait_for(|c| c.generation != generation);
        tokio::select! {
            (up, down) = async { tokio::join!(requests, responses) } => up.is_ok() && down.is_ok(),
            _ = cut => false,
            () = silent => {
                counters.idled.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    };
    if !finished {
        reset(&client);
        reset(&server);
    }
}

/// Returns when nothing was said for as long as is allowed.
async fn silence(mut spoken: watch::Receiver<()>, mut control: watch::Receiver<Control>) {
    loop {
        let allowed = control.borrow_and_update().faults.idle;
        let too_long = async {
            match allowed {
                Some(allowed) => tokio::time::sleep(allowed).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = spoken.changed() => {}
            changed = control.changed() => if changed.is_err() { return std::future::pending().await },
            () = too_long => return,
        }
    }
}

/// Reading and writing go on side by side, so that a long line holds as much as is on its way.
async fn pass(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    control: watch::Receiver<Control>,
    direction: Direction,
    said: impl Fn(),
) -> io::Result<()> {
    let (line, mut arriving) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let read = async move {
        let mut buffer = vec![0; CHUNK];
        loop {
            let rate = control.borrow().faults.rate;
            // A slow line moves a tenth of its rate every tenth of a second.
            let portion = rate.map_or(CHUNK, |rate| (rate as usize / 10).clamp(1, CHUNK));
            let read = from.read(buffer.get_mut(..portion).unwrap_or_default()).await?;
            let faults = control.borrow().faults;
            if let Some(rate) = faults.rate {
                tokio::time::sleep(time_of(read, rate)).await;
            }
            let swallowed = match direction {
                Direction::Request => faults.swallow_requests,
                Direction::Response => faults.swallow_responses,
            };
            if read == 0 && swallowed {
                // Whoever swallows the bytes swallows their end too: the peer must not see the close.
                std::future::pending::<()>().await;
            }
            if !swallowed {
                said();
                let bytes = buffer.get(..read).unwrap_or_default().to_vec();
                // The writer is gone only when the connection broke, and says so itself.
                let _ = line.send((Instant::now() + faults.delay, bytes)).await;
            }
            if read == 0 {
                return Ok::<(), io::Error>(());
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = arriving.recv().await {
            if due > Instant::now() {
                tokio::time::sleep_until(due).await;
            }
            if bytes.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&bytes).await?;
        }
        Ok(())
    };
    tokio::try_join!(read, write).map(drop)
}

fn time_of(bytes: usize, rate: u32) -> Duration {
    Duration::from_secs_f64(bytes as f64 / f64::from(rate.max(1)))
}

/// Make the close a reset, as a cut line shows itself.
fn reset(stream: &TcpStream) {
    drop(stream.set_zero_linger());
}
