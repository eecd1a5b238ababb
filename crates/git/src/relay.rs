//! The way out of git over https and http: a SOCKS5 server on loopback that lives as long as one run of git.
//!
//! git looks names up and follows redirects by itself, so a check before it starts proves nothing about where it connects.
//! Here every connection is made by us, to an address that was looked up and checked a moment before.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use plural_reach::{Guard, NoAddress, OutOfReach, Reach};
use secrecy::SecretString;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::timeout,
};

/// How long git may take to say where it wants to go.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections at once; git needs two or three.
const CONNECTIONS: usize = 16;
/// Who git signs in to the relay as. The password is another one for each run, so that no other program of this machine
/// gets through.
const USER: &str = "git";

/// A running relay. Dropping it ends it with all of its connections.
pub(crate) struct Relay {
    address: SocketAddr,
    password: String,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// What the relay has seen so far.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// A host that was not connected to.
    pub(crate) refused: Option<OutOfReach>,
    /// Why a host was not reached.
    pub(crate) failed: Option<&'static str>,
    /// It was asked to connect to an address that is not of the internet.
    pub(crate) inside: bool,
}

impl Relay {
    /// `patience` is how long one connection may take to be made.
    pub(crate) async fn start(guard: Guard, patience: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let password = hex::encode(rand::random::<[u8; 16]>());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let work = Work { guard, patience, password: password.clone(), seen: Arc::clone(&seen) };
        let task = tokio::spawn(accept(listener, Arc::new(work)));
        Ok(Self { address, password, seen, task })
    }

    /// What git's `http.proxy` is set to. Names are looked up here, not by git.
    pub(crate) fn url(&self) -> SecretString {
        format!("socks5h://{USER}:{}@{}", self.password, self.address).into()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Work {
    guard: Guard,
    patience: Duration,
    password: String,
    seen: Arc<Mutex<Seen>>,
}

async fn accept(listener: TcpListener, work: Arc<Work>) {
    // Dropped with this task, and its tasks with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let work = Arc::clone(&work);
                    connections.spawn(async move {
                        // A connection that breaks is git's to notice.
                        let _ = work.serve(stream).await;
                    });
                }
                // Out of descriptors, most likely: some come back when a connection ends.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

impl Work {
    async fn serve(&self, mut inner: TcpStream) -> io::Result<()> {
        let wanted = timeout(HANDSHAKE, self.wanted(&mut inner)).await??;
        let Some((host, port)) = wanted else { return Ok(()) };
        match self.connect(&host, port).await {
            Ok(mut outer) => {
                inner.write_all(&answer(0)).await?;
                tokio::io::copy_bidirectional(&mut inner, &mut outer).await?;
                Ok(())
            }
            Err(code) => inner.write_all(&answer(code)).await,
        }
    }

    /// Where the client wants to go, by RFC 1928 and RFC 1929; nothing when it may not ask.
    async fn wanted(&self, stream: &mut TcpStream) -> io::Result<Option<(String, u16)>> {
        let [version, methods] = read::<2>(stream).await?;
        let mut offered = vec![0; usize::from(methods)];
        stream.read_exact(&mut offered).await?;
        // Without a password nobody is served.
        if version != 5 || !offered.contains(&2) {
            stream.write_all(&[5, 0xff]).await?;
            return Ok(None);
        }
        stream.write_all(&[5, 2]).await?;
        let [_version] = read::<1>(stream).await?;
        let user = read_text(stream).await?;
        let password = read_text(stream).await?;
        if user != USER.as_bytes() || password != self.password.as_bytes() {
            stream.write_all(&[1, 1]).await?;
            return Ok(None);
        }
        stream.write_all(&[1, 0]).await?;
        let [version, command, _, kind] = read::<4>(stream).await?;
        if version != 5 || command != 1 {
            stream.write_all(&answer(7)).await?;
            return Ok(None);
        }
        let host = match kind {
            1 => Ipv4Addr::from(read::<4>(stream).await?).to_string(),
            4 => Ipv6Addr::from(read::<16>(stream).await?).to_string(),
            3 => String::from_utf8(read_text(stream).await?).unwrap_or_default(),
            _ => {
                stream.write_all(&answer(8)).await?;
                return Ok(None);
            }
        };
        let port = u16::from_be_bytes(read::<2>(stream).await?);
        Ok(Some((host, port)))
    }

    /// A connection, or the code of why there is none.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, u8> {
        let addresses = match self.guard.addresses(host).await {
            Ok(addresses) => addresses,
            Err(NoAddress::OutOfReach(refused)) => {
                self.see(|seen| seen.refused = Some(refused));
                return Err(2);
            }
            Err(NoAddress::Lookup(_)) => {
                self.see(|seen| seen.failed = Some("its host's name cannot be looked up"));
                return Err(4);
            }
        };
        for address in addresses {
            self.see(|seen| seen.inside |= !Reach::is_public(address));
            if let Ok(Ok(stream)) = timeout(self.patience, TcpStream::connect((address, port))).await {
                // Small packets of a handshake must not wait for each other.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
        }
        self.see(|seen| seen.failed = Some("no connection could be made"));
        Err(5)
    }

    fn see(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock());
    }
}

async fn read<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// A text after its length.
async fn read_text(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let [length] = read::<1>(stream).await?;
    let mut text = vec![0; usize::from(length)];
    stream.read_exact(&mut text).await?;
    Ok(text)
}

/// The answer to a request: a code, and an address that nobody looks at.
const fn answer(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// The address to use where a program takes one only: of several the first that accepts a connection.
pub(crate) async fn choose(
    guard: &Guard,
    host: &str,
    port: u16,
    patience: Duration,
) -> Result<IpAddr, NoAddress> {
    let addresses = guard.addresses(host).await?;
    if let [address] = addresses.as_slice() {
        return Ok(*address);
    }
    for address in &addresses {
        if let Ok(Ok(_)) = timeout(patience, TcpStream::connect((*address, port))).await {
            return Ok(*address);
        }
    }
    addresses.first().copied().ok_or_else(|| NoAddress::Lookup(io::ErrorKind::NotFound.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn relay(reach: Reach) -> Relay {
        Relay::start(Guard::new(reach), Duration::from_secs(5)).await.unwrap()
    }

    /// The code that a request is answered with; nothing where it is not answered.
    async fn ask(relay: &Relay, password: &str, kind: &[u8], port: u16) -> Option<(u8, TcpStream)> {
        let mut stream = TcpStream::connect(relay.address).await.unwrap();
        stream.write_all(&[5, 1, 2]).await.unwrap();
        assert_eq!(read::<2>(&mut stream).await.unwrap(), [5, 2]);
        let mut login = vec![1, 3];
        login.extend(b"git");
        login.push(u8::try_from(password.len()).unwrap());
        login.extend(password.as_bytes());
        stream.write_all(&login).await.unwrap();
        if read::<2>(&mut stream).await.unwrap() != [1, 0] {
            return None;
        }
        let mut request = vec![5, 1, 0];
        request.extend(kind);
        request.extend(port.to_be_bytes());
        stream.write_all(&request).await.unwrap();
        let [_, code, ..] = read::<10>(&mut stream).await.unwrap();
        Some((code, stream))
    }

    #[tokio::test]
    async fn only_this_run_gets_through_and_only_within_reach() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let local = relay(Reach::Local).await;
        let password = local.password.clone();
        let (code, mut stream) = ask(&local, &password, &[1, 127, 0, 0, 1], port).await.unwrap();
        assert_eq!(code, 0);
        let (mut far, _) = listener.accept().await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        assert_eq!(&read::<5>(&mut far).await.unwrap(), b"hello");
        assert!(local.seen().inside && local.seen().refused.is_none());

        assert!(ask(&local, "guess", &[1, 127, 0, 0, 1], port).await.is_none());
        let mut nobody = TcpStream::connect(local.address).await.unwrap();
        nobody.write_all(&[5, 1, 0]).await.unwrap();
        assert_eq!(read::<2>(&mut nobody).await.unwrap(), [5, 0xff]);

        let private = relay(Reach::Private).await;
        let password = private.password.clone();
        let mapped = [&[4][..], &Ipv6Addr::from([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]).octets()].concat();
        let name = [&[3, 9][..], b"localhost"].concat();
        let metadata = [1, 169, 254, 169, 254];
        for kind in [&[1, 127, 0, 0, 1][..], &mapped, &name, &metadata] {
            let (code, _) = ask(&private, &password, kind, port).await.unwrap();
            assert_eq!(code, 2, "{kind:?}");
        }
        assert!(private.seen().refused.is_some());
    }

    #[tokio::test]
    async fn dropping_it_ends_its_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let local = relay(Reach::Local).await;
        let password = local.password.clone();
        let (_, mut stream) = ask(&local, &password, &[1, 127, 0, 0, 1], port).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        drop(local);
        assert_eq!(far.read(&mut [0; 1]).await.unwrap_or(0), 0);
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }
}
