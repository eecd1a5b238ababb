//! A TCP balancer before several servers, as a cloud has one: each connection goes to the next server that takes it.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::background::Background;

/// A loopback port that leads to several. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Balancer {
    background: Background,
    servers: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Balancer {
    /// A port that leads to these servers in turn.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(servers: Vec<SocketAddr>) -> io::Result<Self> {
        let servers = Arc::new(Mutex::new(servers));
        let known = Arc::clone(&servers);
        let background = Background::start("balancer", move |listener| accept(listener, known))?;
        Ok(Self { background, servers })
    }

    /// Where to connect.
    pub fn address(&self) -> SocketAddr {
        self.background.address()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Leads new connections to these.
    pub fn lead_to(&self, servers: Vec<SocketAddr>) {
        *self.servers.lock() = servers;
    }
}

async fn accept(listener: TcpListener, servers: Arc<Mutex<Vec<SocketAddr>>>) {
    let mut connections = JoinSet::new();
    let turn = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((mut client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let known = servers.lock().clone();
        let first = turn.fetch_add(1, Ordering::Relaxed);
        connections.spawn(async move {
            for next in 0..known.len() {
                let Some(server) = known.get((first + next) % known.len()) else { return };
                // One that is down refuses at once: the next one is asked.
                if let Ok(mut server) = TcpStream::connect(server).await {
                    let _ = (client.set_nodelay(true), server.set_nodelay(true));
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                    return;
                }
            }
        });
    }
}
