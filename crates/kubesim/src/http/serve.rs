//! Connections of one cluster.

use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::dispatch;
use crate::cluster::Inner;
use crate::exec::Session;

/// Accepts connections until `stop` turns true; all connections end with it.
pub(crate) async fn run(
    inner: Arc<Inner>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Out of file descriptors, most likely: let some connections end first.
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    continue;
                };
                if !*inner.up.borrow() {
                    continue;
                }
                connections.spawn(connection(inner.clone(), stream, tls.clone()));
            }
        }
    }
    connections.shutdown().await;
}

async fn connection(inner: Arc<Inner>, stream: TcpStream, tls: Option<TlsAcceptor>) {
    let mut up = inner.up.subscribe();
    let serving = async {
        let _ = stream.set_nodelay(true);
        let sessions = Arc::new(dispatch::Sessions::default());
        let begun = sessions.clone();
        let service = service_fn(move |req| dispatch::handle(inner.clone(), req, begun.clone()));
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http2().max_concurrent_streams(1000);
        match tls {
            None => {
                // The peer sees the end of the connection; there is nobody else to tell.
                let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            }
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
                }
            }
        }
        // What the connection has become.
        let sessions = std::mem::take(&mut *sessions.lock());
        futures::future::join_all(sessions.into_iter().map(Session::run)).await;
    };
    tokio::select! {
        () = serving => {}
        _ = up.wait_for(|up| !*up) => {}
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which is an end too.
    let _ = stop.wait_for(|s| *s).await;
}
