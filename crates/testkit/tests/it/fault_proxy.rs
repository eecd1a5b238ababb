//! The proxy's faults, seen from a client.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use plural_testkit::{FaultProxy, eventually, fault_proxy::Faults};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(10);
const NOT_YET: Duration = Duration::from_millis(200);

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                drop(tokio::io::copy(&mut read, &mut write).await);
            });
        }
    });
    address
}

async fn round_trip(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"ping").await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    assert_eq!(&answer, b"ping");
    Ok(())
}

#[tokio::test]
async fn passes_delays_and_heals() {
    let proxy = FaultProxy::start(echo().await).unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    round_trip(&mut stream).await.unwrap();

    proxy.set(Faults::late(Duration::from_millis(100)));
    let started = Instant::now();
    round_trip(&mut stream).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(200));

    // So late that nobody would see it.
    proxy.set(Faults::late(Duration::from_hours(1)));
    proxy.heal();
    timeout(SOON, round_trip(&mut stream)).await.unwrap().unwrap();
}

#[tokio::test]
async fn half_open_is_silence() {
    let proxy = FaultProxy::start(echo().await).unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    round_trip(&mut stream).await.unwrap();
    proxy.set(Faults::half_open());
    timeout(NOT_YET, round_trip(&mut stream)).await.unwrap_err();
    assert_eq!(proxy.open(), 1);
    proxy.heal();
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    round_trip(&mut fresh).await.unwrap();
}

#[tokio::test]
async fn cut_resets_and_cut_off_refuses() {
    let proxy = FaultProxy::start(echo().await).unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    round_trip(&mut stream).await.unwrap();
    proxy.cut();
    timeout(SOON, stream.read_u8()).await.unwrap().unwrap_err();
    let mut fresh = TcpStream::connect(proxy.address()).await.unwrap();
    round_trip(&mut fresh).await.unwrap();

    proxy.cut_off();
    timeout(SOON, fresh.read_u8()).await.unwrap().unwrap_err();
    // The kernel completes the handshake; the first use shows the refusal.
    if let Ok(mut refused) = TcpStream::connect(proxy.address()).await {
        round_trip(&mut refused).await.unwrap_err();
    }
    proxy.heal();
    let address = proxy.address();
    eventually(SOON, || async move { round_trip(&mut TcpStream::connect(address).await?).await }).await;
}

#[tokio::test]
async fn a_rate_takes_its_time() {
    let proxy = FaultProxy::start(echo().await).unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Faults { rate: Some(100_000), ..Faults::default() });
    let started = Instant::now();
    stream.write_all(&vec![7; 50_000]).await.unwrap();
    let mut answer = vec![0; 50_000];
    stream.read_exact(&mut answer).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(450), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_silent_connection_is_cut_and_no_other() {
    let proxy = FaultProxy::start(echo().await).unwrap();
    proxy.set(Faults::idle_after(Duration::from_millis(300)));
    let mut silent = TcpStream::connect(proxy.address()).await.unwrap();
    let mut spoken = TcpStream::connect(proxy.address()).await.unwrap();
    let cut = silent.read_u8();
    let speak = async {
        loop {
            round_trip(&mut spoken).await.unwrap();
        }
    };
    tokio::select! {
        ended = timeout(SOON, cut) => assert!(ended.unwrap().is_err()),
        () = speak => {}
    }
    assert_eq!(proxy.idled(), 1);
    round_trip(&mut spoken).await.unwrap();
}
