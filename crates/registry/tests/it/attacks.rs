//! What a repository of somebody else could try.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use plural_registry::{Access, Cause, Client, Freshness, Lookup, Options, Reach, Wanted};
use plural_testkit::WebFolder;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};

use crate::support::{Memory, basic, chart, client, options, publish};

fn wanted<'a>(access: &'a Access, version: &'a str) -> Wanted<'a> {
    Wanted::chart(access, "web", version, Freshness::Now)
}

/// The credentials that a server was sent.
fn credentials(web: &WebFolder) -> Vec<String> {
    web.seen().into_iter().filter_map(|seen| seen.authorization).collect()
}

/// Serves 3 MB of 4 MB to everybody, and then nothing more.
async fn stalling() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4000000\r\n\r\n").await;
            let _ = stream.write_all(&vec![b'#'; 3_000_000]).await;
            open.push(stream);
        }
    });
    (url, serving)
}

#[tokio::test]
async fn answers_that_stall_leave_room_for_others() {
    let (url, _serving) = stalling().await;
    let client =
        Arc::new(Client::new(Options { held_bytes: 8 << 20, ..options() }, Arc::new(Memory::default())));
    let mut stalled = JoinSet::new();
    for n in 0..6 {
        let (client, url) = (Arc::clone(&client), format!("{url}/{n}"));
        stalled.spawn(async move {
            let access = Access::new(&url).unwrap().with_party("one");
            client.resolve(&wanted(&access, "")).await.map(drop).unwrap_err()
        });
    }
    // Six have more than their party may hold: some give up, the others wait.
    let error = stalled.join_next().await.unwrap().unwrap();
    assert!(error.message.contains("too much is being read"), "{error}");
    let web = WebFolder::start().unwrap();
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (state >> 27) as u8 % 26)
    });
    let archive = chart("web", "1.0.0", &noise.take(3 << 20).collect::<String>());
    assert!(archive.len() > 1 << 20, "{}", archive.len());
    publish(&web, "charts", &[("web", "1.0.0", &archive, "web.tgz")]);
    let access = Access::new(&web.url("/charts")).unwrap().with_party("another");
    let resolved = client.resolve(&wanted(&access, "")).await.unwrap();
    assert_eq!(client.content(&access, &resolved).await.unwrap().len(), archive.len());
    assert!(!stalled.is_empty(), "they still wait");
}

#[tokio::test]
async fn a_foreign_address_in_the_index_gets_no_credentials() {
    let (home, foreign) = (WebFolder::start().unwrap(), WebFolder::start().unwrap());
    let archive = chart("web", "1.0.0", "a: 1");
    foreign.write("web.tgz", &archive).unwrap();
    publish(&home, "charts", &[("web", "1.0.0", &archive, &foreign.url("/web.tgz"))]);
    home.require_basic("ada", "hunter2");
    let access = basic(&home.url("/charts"), "ada", "hunter2");
    let client = client();
    let resolved = client.resolve(&wanted(&access, "")).await.unwrap();
    assert_eq!(client.content(&access, &resolved).await.unwrap()[..], archive[..]);
    assert_eq!(foreign.seen().len(), 1);
    assert!(credentials(&foreign).is_empty(), "{:?}", foreign.seen());
    assert!(!credentials(&home).is_empty());
}

#[tokio::test]
async fn a_redirect_to_another_host_carries_no_credentials_and_neither_does_the_way_back() {
    let (home, foreign) = (WebFolder::start().unwrap(), WebFolder::start().unwrap());
    let archive = chart("web", "1.0.0", "a: 1");
    publish(&home, "charts", &[("web", "1.0.0", &archive, "web.tgz")]);
    foreign.write("web.tgz", &archive).unwrap();
    home.require_basic("ada", "hunter2");
    home.redirect("/charts/web.tgz", &foreign.url("/web.tgz"));
    let access = basic(&home.url("/charts"), "ada", "hunter2");
    let client = client();
    let resolved = client.resolve(&wanted(&access, "")).await.unwrap();
    assert!(client.content(&access, &resolved).await.is_ok());
    assert!(credentials(&foreign).is_empty(), "{:?}", foreign.seen());
    // There and back again: home is asked without them, and refuses.
    foreign.redirect("/back", &home.url("/charts/index.yaml"));
    home.redirect("/other/index.yaml", &foreign.url("/back"));
    let access = basic(&home.url("/other"), "ada", "hunter2");
    assert_eq!(client.resolve(&wanted(&access, "")).await.unwrap_err().cause, Cause::Unauthorized);
    assert!(credentials(&foreign).is_empty(), "{:?}", foreign.seen());
}

#[tokio::test]
async fn redirects_end_and_stay_on_the_web() {
    let web = WebFolder::start().unwrap();
    web.redirect("/loop/index.yaml", &web.url("/loop/index.yaml"));
    web.redirect("/file/index.yaml", "file:///etc/passwd");
    web.redirect("/meta/index.yaml", "http://169.254.169.254/latest/meta-data/");
    let client = client();
    for path in ["/loop", "/file", "/meta"] {
        let access = Access::new(&web.url(path)).unwrap();
        let error = client.resolve(&wanted(&access, "")).await.unwrap_err();
        assert_eq!(error.cause, Cause::Refused, "{path}: {error}");
    }
    assert_eq!(web.seen().iter().filter(|seen| seen.path.starts_with("/loop")).count(), 6);
}

#[tokio::test]
async fn content_that_is_not_what_the_index_promises_is_refused() {
    let web = WebFolder::start().unwrap();
    let (good, evil) = (chart("web", "1.0.0", "a: good"), chart("web", "1.0.0", "a: evil"));
    publish(&web, "charts", &[("web", "1.0.0", &good, "web.tgz")]);
    web.write("charts/web.tgz", &evil).unwrap();
    let access = Access::new(&web.url("/charts")).unwrap();
    let client = client();
    let resolved = client.resolve(&wanted(&access, "")).await.unwrap();
    let error = client.content(&access, &resolved).await.unwrap_err();
    assert!(error.cause == Cause::Untrusted && error.message.contains("does not have the digest"), "{error}");
    // Nothing of it is kept.
    web.write("charts/web.tgz", &good).unwrap();
    assert_eq!(client.content(&access, &resolved).await.unwrap()[..], good[..]);
}

#[tokio::test]
async fn entries_that_are_there_twice_are_refused() {
    let web = WebFolder::start().unwrap();
    let (good, evil) = (chart("web", "1.0.0", "a: good"), chart("web", "1.0.0", "a: evil"));
    publish(&web, "charts", &[("web", "1.0.0", &good, "web.tgz"), ("web", "1.0.0", &evil, "evil.tgz")]);
    let access = Access::new(&web.url("/charts")).unwrap();
    let error = client().resolve(&wanted(&access, "1.0.0")).await.unwrap_err();
    assert!(error.cause == Cause::Untrusted && error.message.contains("more than once"), "{error}");
}

#[tokio::test]
async fn a_signature_that_is_required_cannot_be_waived_by_a_repository_that_holds_none() {
    let web = WebFolder::start().unwrap();
    publish(&web, "charts", &[("web", "1.0.0", &chart("web", "1.0.0", "a: 1"), "web.tgz")]);
    let key = plural_testkit::oci_registry::public_key_pem(&plural_testkit::oci_registry::signing_key(1));
    let key = plural_registry::PublicKey::from_pem(&key).unwrap();
    let access = Access::new(&web.url("/charts")).unwrap();
    let error = client().resolve(&Wanted { signed_by: Some(&key), ..wanted(&access, "") }).await.unwrap_err();
    assert_eq!(error.cause, Cause::Untrusted);
}

#[tokio::test]
async fn what_is_too_large_is_not_read() {
    let web = WebFolder::start().unwrap();
    web.write("index.yaml", vec![b'#'; 4096]).unwrap();
    let client = Client::new(Options { index_bytes: 1024, ..options() }, Arc::new(Memory::default()));
    let access = Access::new(&web.url("")).unwrap();
    assert_eq!(client.resolve(&wanted(&access, "")).await.unwrap_err().cause, Cause::TooLarge);
}

#[tokio::test]
async fn places_that_are_not_for_repositories_are_out_of_reach() {
    let web = WebFolder::start().unwrap();
    web.write("index.yaml", "entries: {}").unwrap();
    let client = Client::new(Options { reach: Reach::Private, ..options() }, Arc::new(Memory::default()));
    for address in [
        web.url(""),
        format!("http://localhost:{}", web.address().port()),
        format!("http://[::ffff:127.0.0.1]:{}", web.address().port()),
        "http://169.254.169.254/latest".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
        "http://0.0.0.0/".to_owned(),
        format!("oci://{}/team", web.address()),
        format!("oci+http://localhost:{}/team", web.address().port()),
    ] {
        let access = Access::new(&address).unwrap();
        let error = client.resolve(&wanted(&access, "1.0.0")).await.unwrap_err();
        assert_eq!(error.cause, Cause::Refused, "{address}: {error}");
    }
    assert!(web.seen().is_empty());
}

/// A name that leads to a harmless place when it is first looked up, and to another from then on.
#[derive(Default)]
struct Rebinding(AtomicUsize);

#[async_trait]
impl Lookup for Rebinding {
    async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let address = if first { "127.0.0.1" } else { "169.254.169.254" };
        Ok(vec![address.parse().unwrap()])
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_caught_where_it_is_connected_to() {
    let web = WebFolder::start().unwrap();
    publish(&web, "charts", &[("web", "1.0.0", &chart("web", "1.0.0", "a: 1"), "web.tgz")]);
    let lookup = Arc::new(Rebinding::default());
    let client =
        Client::new(Options { lookup: Arc::clone(&lookup) as _, ..options() }, Arc::new(Memory::default()));
    let port = web.address().port();
    let access = Access::new(&format!("http://charts.example:{port}/charts")).unwrap();
    // The first connection is made to the address that was checked.
    assert!(client.resolve(&wanted(&access, "")).await.is_ok());
    assert_eq!(lookup.0.load(Ordering::SeqCst), 1);
    // A new connection is a new look, with the same check.
    let other =
        Access::new(&format!("http://charts.example:{port}/other")).unwrap().with_proxy(None).with_ca(None);
    let fresh = Client::new(Options { lookup, ..options() }, Arc::new(Memory::default()));
    let error = fresh.resolve(&wanted(&other, "")).await.unwrap_err();
    assert!(error.cause == Cause::Refused && error.message.contains("charts.example"), "{error}");
}
