//! Two ends of a channel, in one process.

use bytes::Bytes;
use futures::StreamExt;
use tokio::{sync::mpsc, task::JoinSet};

use super::{Broken, Channel, ChannelError, ChannelOptions, Exchange, Receiving, window::FIRST};
use crate::v1::{ProxyFrame, ProxyHead, ProxyOpen, proxy_frame};

struct Pair {
    console: Channel,
    agent: Channel,
    opened: mpsc::Receiver<(Exchange, ProxyOpen)>,
    _tasks: JoinSet<()>,
}

fn pair(streams: usize) -> Pair {
    let options = ChannelOptions { streams };
    let (console, from_console) = Channel::new(options);
    let (agent, from_agent) = Channel::new(options);
    let (seen, opened) = mpsc::channel(64);
    let mut tasks = JoinSet::new();
    let (one, other) = (console.clone(), agent.clone());
    tasks.spawn(async move { one.run(from_agent.map(Ok), None).await });
    tasks.spawn(async move {
        let mut opened = |exchange, open| drop(seen.try_send((exchange, open)));
        other.run(from_console.map(Ok), Some(&mut opened)).await;
    });
    Pair { console, agent, opened, _tasks: tasks }
}

fn ask() -> ProxyOpen {
    ProxyOpen { method: "GET".into(), target: "/api".into(), ..ProxyOpen::default() }
}

fn head(data: &'static [u8], end: bool) -> ProxyHead {
    ProxyHead { status: 200, data: Bytes::from_static(data), end, ..ProxyHead::default() }
}

async fn all(receiving: &mut Receiving) -> Result<usize, Broken> {
    let mut bytes = 0;
    while let Some(piece) = receiving.piece().await {
        bytes += piece?.len();
    }
    Ok(bytes)
}

#[tokio::test]
async fn a_small_answer_is_there_at_once() {
    let mut pair = pair(4);
    let (_sending, mut receiving) = pair.console.open(ProxyOpen { end: true, ..ask() }).unwrap().split();
    let (exchange, open) = pair.opened.recv().await.unwrap();
    assert_eq!(open.target, "/api");
    let (mut sending, mut request) = exchange.split();
    assert_eq!(all(&mut request).await, Ok(0));
    assert!(sending.begin(head(b"hello", true)).is_empty());
    assert_eq!(receiving.head().await.unwrap().status, 200);
    assert_eq!(receiving.whole_length(), Some(5));
    assert_eq!(all(&mut receiving).await, Ok(5));
}

#[tokio::test]
async fn large_bodies_pass_both_ways() {
    let mut pair = pair(4);
    let (mut up, mut down) = pair.console.open(ask()).unwrap().split();
    let (exchange, _) = pair.opened.recv().await.unwrap();
    let (mut sending, mut receiving) = exchange.split();
    let size = 5 << 20;
    let body = Bytes::from(vec![7; size]);
    let there = async {
        up.send(body.clone()).await?;
        up.finish().await
    };
    let back = async {
        assert!(sending.begin(head(b"", false)).is_empty());
        sending.send(body.clone()).await?;
        sending.finish().await
    };
    let (there, back, received, answered) = tokio::join!(there, back, all(&mut receiving), all(&mut down));
    assert_eq!((there, back), (Ok(()), Ok(())));
    assert_eq!((received, answered), (Ok(size), Ok(size)));
    drop((up, down, sending, receiving));
    assert_eq!((pair.console.streams(), pair.agent.streams()), (0, 0));
}

#[tokio::test]
async fn who_does_not_read_stops_only_its_own_sender() {
    let mut pair = pair(4);
    let (_up, lazy) = pair.console.open(ask()).unwrap().split();
    let (exchange, _) = pair.opened.recv().await.unwrap();
    let (mut sending, _request) = exchange.split();
    let _ = sending.begin(head(b"", false));
    let flood = tokio::spawn(async move { sending.send(Bytes::from(vec![0; 64 << 20])).await });
    for _ in 0..50 {
        let (_up, mut receiving) = pair.console.open(ProxyOpen { end: true, ..ask() }).unwrap().split();
        let (exchange, _) = pair.opened.recv().await.unwrap();
        let (mut sending, _request) = exchange.split();
        let _ = sending.begin(head(b"x", true));
        assert_eq!(all(&mut receiving).await, Ok(1));
    }
    assert!(!flood.is_finished());
    // What it may hold is its window, and no more.
    assert_eq!(lazy.waiting(), FIRST);
    drop(lazy.resetting_on_drop());
    assert!(flood.await.unwrap().is_err());
}

#[tokio::test]
async fn going_away_is_told() {
    let mut pair = pair(4);
    let exchange = pair.console.open(ask()).unwrap();
    let (far, _) = pair.opened.recv().await.unwrap();
    let gone = far.gone();
    drop(exchange);
    gone.cancelled().await;
    let (_, mut request) = far.split();
    assert!(request.piece().await.unwrap().is_err());

    // And the other way round.
    let (_up, mut receiving) = pair.console.open(ask()).unwrap().split();
    let (far, _) = pair.opened.recv().await.unwrap();
    drop(far);
    assert!(receiving.head().await.is_err());

    // And when the line breaks.
    let (_up, mut receiving) = pair.console.open(ask()).unwrap().split();
    pair.agent.close("cut");
    assert!(receiving.head().await.is_err());
    pair.console.closed().await;
    assert_eq!(pair.console.open(ask()).unwrap_err(), ChannelError::Closed);
}

#[tokio::test]
async fn an_answer_is_whole_though_nobody_reads_the_question_to_its_end() {
    let mut pair = pair(4);
    for _ in 0..50 {
        let (mut up, mut down) = pair.console.open(ask()).unwrap().split();
        let (exchange, _) = pair.opened.recv().await.unwrap();
        let asking = tokio::spawn(async move { up.send(Bytes::from(vec![1; 4 << 20])).await });
        let (mut sending, request) = exchange.split();
        let _ = sending.begin(head(b"", false));
        sending.send(Bytes::from(vec![2; 200_000])).await.unwrap();
        sending.finish().await.unwrap();
        drop((sending, request));
        assert_eq!(down.head().await.unwrap().status, 200);
        assert_eq!(all(&mut down).await, Ok(200_000));
        assert!(asking.await.unwrap().is_err(), "nobody reads it");
    }
}

#[tokio::test]
async fn there_is_a_limit_of_streams() {
    let pair = pair(2);
    let held: Vec<_> = (0..2).map(|_| pair.console.open(ask()).unwrap()).collect();
    assert_eq!(pair.console.open(ask()).unwrap_err(), ChannelError::Full);
    drop(held);
    assert!(pair.console.open(ask()).is_ok());
}

#[tokio::test]
async fn whoever_breaks_the_contract_is_cut_off() {
    let data = |bytes: usize| proxy_frame::Frame::Data(Bytes::from(vec![0; bytes]));
    let cases = [
        // An agent opens a stream, speaks on one that was never opened, or without any.
        vec![(5, proxy_frame::Frame::Open(ask()))],
        vec![(9, data(1))],
        vec![(0, data(1))],
        // More than was granted, nothing at all for ever, and two heads.
        vec![(1, data(FIRST)), (1, data(1))],
        vec![(1, data(0))],
        vec![
            (1, proxy_frame::Frame::Head(head(b"", false))),
            (1, proxy_frame::Frame::Head(head(b"", false))),
        ],
    ];
    for frames in cases {
        let (console, _outgoing) = Channel::new(ChannelOptions { streams: 4 });
        let held = console.open(ask()).unwrap();
        let frames: Vec<_> =
            frames.into_iter().map(|(stream, frame)| Ok(ProxyFrame { stream, frame: Some(frame) })).collect();
        let told = format!("{frames:?}");
        let endless = futures::stream::iter(frames).chain(futures::stream::pending());
        let run = console.run(endless, None);
        assert!(tokio::time::timeout(std::time::Duration::from_secs(30), run).await.is_ok(), "{told:.200}");
        assert!(console.is_closed());
        assert!(held.gone().is_cancelled());
    }
}

#[tokio::test]
async fn questions_that_nobody_reads_the_answers_of_end_the_channel() {
    let (agent, _outgoing) = Channel::new(ChannelOptions { streams: 4 });
    let pings = futures::stream::repeat_with(|| {
        Ok(ProxyFrame { stream: 0, frame: Some(proxy_frame::Frame::Ping(1)) })
    });
    agent.run(pings, None).await;
    assert!(agent.is_closed());
}

/// A stream's beginning and its first piece travel by different ways to the line.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_piece_never_overtakes_the_beginning_of_its_stream() {
    const TASKS: usize = 16;
    const EACH: usize = 1_000;
    let Pair { console, agent, mut opened, _tasks } = pair(1_000);
    let answering = tokio::spawn(async move {
        let mut answers = JoinSet::new();
        while let Some((exchange, _)) = opened.recv().await {
            while answers.try_join_next().is_some() {}
            answers.spawn(async move {
                let (mut sending, mut receiving) = exchange.split();
                let _ = sending.begin(head(b"", false));
                let _ = sending.send(Bytes::from_static(b"answer")).await;
                let _ = sending.finish().await;
                all(&mut receiving).await
            });
        }
    });
    let mut asking = JoinSet::new();
    for _ in 0..TASKS {
        let console = console.clone();
        asking.spawn(async move {
            for _ in 0..EACH {
                let (mut up, mut down) = console.open(ask()).unwrap().split();
                up.send(Bytes::from_static(b"question")).await.unwrap();
                up.finish().await.unwrap();
                assert_eq!(down.head().await.unwrap().status, 200);
                assert_eq!(all(&mut down).await, Ok(6));
            }
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }
    assert!(!console.is_closed() && !agent.is_closed());
    answering.abort();
}

#[tokio::test]
async fn streams_are_told_of_in_the_order_of_their_numbers() {
    const THREADS: usize = 8;
    const EACH: usize = 500;
    let (console, mut outgoing) = Channel::new(ChannelOptions { streams: THREADS * EACH });
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let console = console.clone();
            std::thread::spawn(move || (0..EACH).map(|_| console.open(ask()).unwrap()).collect::<Vec<_>>())
        })
        .collect();
    let open: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let mut last = 0;
    for _ in 0..THREADS * EACH {
        let stream = outgoing.next().await.unwrap().stream;
        assert!(stream > last, "{stream} after {last}");
        last = stream;
    }
    drop(open);
}
