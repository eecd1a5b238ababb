//! A page of this program on this machine, to which the person's browser brings what they allowed at the console (RFC 8252).

use std::{
    convert::Infallible,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use plural_wire::{ProgramPage, Secret};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};
use uuid::Uuid;

/// Connections at once: browsers open some that they do not use.
const AT_ONCE: usize = 16;
/// How long one may last.
const LASTS: Duration = Duration::from_mins(2);
/// Where the browser comes.
const PATH: &str = "/callback";

/// What the browser brought.
#[derive(Debug)]
pub(crate) enum Brought {
    Grant(Secret),
    Refusal,
}

/// The page, and what only this program knows.
#[derive(Debug)]
pub(crate) struct Page {
    listener: TcpListener,
    /// Where the console sends the browser.
    pub(crate) address: String,
    challenge: String,
    state: String,
    /// Proves to the console that this is the program that asked.
    pub(crate) verifier: Secret,
}

impl Page {
    /// Opens it on a port that the system picks.
    pub(crate) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("http://{}{PATH}", listener.local_addr()?);
        let verifier = word();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        Ok(Self { listener, address, challenge, state: word(), verifier: Secret::new(verifier) })
    }

    /// What the console is told of it.
    pub(crate) fn told(&self) -> ProgramPage<'_> {
        ProgramPage { redirect_uri: &self.address, code_challenge: &self.challenge, state: &self.state }
    }

    /// Waits until the browser comes, for so long at most.
    pub(crate) async fn brought(&self, patience: Duration) -> Option<Brought> {
        let (tell, mut told) = mpsc::channel(1);
        tokio::select! {
            brought = told.recv() => brought,
            () = self.serve(&tell) => None,
            () = tokio::time::sleep(patience) => None,
        }
    }

    async fn serve(&self, tell: &mpsc::Sender<Brought>) {
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) if open.len() < AT_ONCE => {
                        let visit = visit(TokioIo::new(stream), self.state.clone(), tell.clone());
                        open.spawn(tokio::time::timeout(LASTS, visit));
                    }
                    // One too many, or one that was gone before it was taken.
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                Some(_) = open.join_next() => {}
            }
        }
    }
}

/// Answers a connection, and tells what it brought once the browser has its answer.
async fn visit(stream: TokioIo<tokio::net::TcpStream>, state: String, tell: mpsc::Sender<Brought>) {
    let brought = Arc::new(OnceLock::new());
    let kept = Arc::clone(&brought);
    let answer = service_fn(move |request: Request<Incoming>| {
        let found = found(request.uri().path(), request.uri().query().unwrap_or_default(), &state);
        let shown = shown(found.as_ref());
        if let Some(found) = found {
            let _ = kept.set(found);
        }
        std::future::ready(Ok::<_, Infallible>(shown))
    });
    // Whatever became of the connection: what came is there.
    let _ = http1::Builder::new().keep_alive(false).serve_connection(stream, answer).await;
    if let Some(brought) = Arc::into_inner(brought).and_then(OnceLock::into_inner) {
        let _ = tell.send(brought).await;
    }
}

/// What an address holds that the console sent the browser to; anybody may open others.
fn found(path: &str, query: &str, state: &str) -> Option<Brought> {
    let field = |name: &str| {
        let mut values =
            query.split('&').filter_map(|field| field.split_once('=')).filter(|(key, _)| *key == name);
        let (_, value) = values.next()?;
        values.next().is_none().then_some(value)
    };
    if path != PATH || field("state") != Some(state) {
        return None;
    }
    match (field("code"), field("error")) {
        (Some(code), None) => Some(Brought::Grant(Secret::new(code))),
        (None, Some(_)) => Some(Brought::Refusal),
        _ => None,
    }
}

fn shown(found: Option<&Brought>) -> Response<String> {
    let (status, text) = match found {
        Some(Brought::Grant(_)) => (StatusCode::OK, "You can close this page: the program goes on."),
        Some(Brought::Refusal) => (StatusCode::OK, "You can close this page: the program was refused."),
        None => (StatusCode::NOT_FOUND, "This is no page of a login that was begun here."),
    };
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>plural login</title></head>\
         <body><main><p>{text}</p></main></body></html>\n"
    );
    let mut response = Response::new(page);
    *response.status_mut() = status;
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        response.headers_mut().insert(name, hyper::header::HeaderValue::from_static(value));
    }
    response
}

/// A word that nobody guesses.
fn word() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    /// What a browser gets at this address.
    async fn open(page: &Page, target: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(page.listener.local_addr().unwrap()).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn what_the_console_sends_is_taken_and_nothing_else() {
        let page = Page::open().await.unwrap();
        let state = page.state.clone();
        // A connection that says nothing keeps nobody out.
        let _idle = tokio::net::TcpStream::connect(page.listener.local_addr().unwrap()).await.unwrap();
        let browser = async {
            for other in [
                "/".to_owned(),
                "/favicon.ico".to_owned(),
                "/callback?code=evil".to_owned(),
                "/callback?code=evil&state=another".to_owned(),
                format!("/callback?code=evil&code=worse&state={state}"),
                format!("/callback?code=evil&error=x&state={state}"),
                format!("/callback?code=evil&state=x&state={state}"),
                format!("/other?code=evil&state={state}"),
            ] {
                let answer = open(&page, &other).await;
                assert!(answer.starts_with("HTTP/1.1 404"), "{other}: {answer}");
            }
            let answer = open(&page, &format!("/callback?code=good&state={state}")).await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("the program goes on"), "{answer}");
            assert!(!answer.contains("good"), "{answer}");
        };
        let (brought, ()) = tokio::join!(page.brought(PATIENCE), browser);
        assert!(matches!(brought, Some(Brought::Grant(grant)) if grant.expose() == "good"));

        let refused = format!("/callback?error=access_denied&state={state}");
        let (brought, answer) = tokio::join!(page.brought(PATIENCE), open(&page, &refused));
        assert!(matches!(brought, Some(Brought::Refusal)) && answer.contains("was refused"), "{answer}");
        assert!(page.brought(Duration::ZERO).await.is_none());
    }

    #[tokio::test]
    async fn the_console_gets_what_proves_the_verifier_and_not_the_verifier() {
        let page = Page::open().await.unwrap();
        let told = page.told();
        assert_eq!(told.code_challenge, URL_SAFE_NO_PAD.encode(Sha256::digest(page.verifier.expose())));
        assert!((43..=128).contains(&page.verifier.expose().len()) && told.state != page.verifier.expose());
        assert!(told.redirect_uri.starts_with("http://127.0.0.1:"), "{}", told.redirect_uri);
    }
}
