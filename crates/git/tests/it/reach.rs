//! Where git may connect to, and what it tells of what answers there: attack 39 of docs/security.md.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use plural_git::{Credentials, Error, HostKeys, Mirrors, NewHostKeys, Remote};
use plural_reach::{Guard, Lookup, Reach};
use plural_testkit::{GitRemote, GitServer, OwnedFolder};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use crate::support::{Home, key, options, remote, resolve};

/// What names lead to: each look-up takes the next answer, the last one stays.
struct Names {
    answers: Vec<&'static str>,
    looks: AtomicUsize,
}

impl Names {
    fn new(answers: &[&'static str]) -> Arc<Self> {
        Arc::new(Self { answers: answers.to_vec(), looks: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Lookup for Names {
    async fn lookup(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        let look = self.looks.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers[look.min(self.answers.len() - 1)];
        Ok(vec![answer.parse().unwrap()])
    }
}

fn guarded(reach: Reach, names: &Arc<Names>) -> Home {
    let lookup = Arc::clone(names) as Arc<dyn Lookup>;
    Home::with(|options| options.guard = Guard { reach, lookup })
}

/// A server that gives one answer to everybody, and counts who connects.
struct Answering {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Answering {
    async fn start(answer: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    let _ = stream.read(&mut buffer).await;
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { address, connections, task }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn refused(home: &Home, remote: &Remote) {
    let error = home.mirrors.fetch(remote).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::OutOfReach { .. }), "{}: {error:?}", remote.url);
    assert!(!error.is_transient() && error.to_string().contains("--reach"), "{error}");
}

/// A stand-in for ssh that writes down how it was called.
fn recording_ssh(folder: &Path) -> PathBuf {
    let script = folder.join("ssh");
    let text = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >> {0}/arguments\nfor last in \"$@\"; do :; done\nexec sh -c \"$last\"\n",
        folder.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_39_this_machine_and_metadata_are_out_of_reach_however_they_are_written() {
    let server = Answering::start(http("200 OK", "", "canary")).await;
    let port = server.address.port();
    let ssh = OwnedFolder::new("ssh").unwrap();
    let script = recording_ssh(ssh.path());
    let home = Home::with(|options| {
        options.guard = Guard::new(Reach::Private);
        options.ssh = script;
    });
    for host in [
        "127.0.0.1",
        "127.9.9.9",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "0.0.0.0",
    ] {
        for scheme in ["http", "https", "ssh"] {
            refused(&home, &remote(&format!("{scheme}://{host}:{port}/x.git"))).await;
        }
        refused(&home, &remote(&format!("git@{host}:x.git"))).await;
    }
    assert_eq!(server.connections(), 0);
    assert!(!ssh.path().join("arguments").exists(), "ssh was not started");
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_39_a_name_that_changes_its_mind_is_caught_where_it_is_connected_to() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let url = format!("http://git.invalid:{}/{}", server.address().port(), git.name());
    // git itself never looks the name up: nobody knows it but us.
    let honest = guarded(Reach::Local, &Names::new(&["127.0.0.1"]));
    assert_eq!(resolve(&honest.fetch(&remote(&url)).await.repository, "main"), commit);
    // One fetch makes several connections, and each of them is checked.
    let names = Names::new(&["127.0.0.1", "169.254.169.254"]);
    refused(&guarded(Reach::Local, &names), &remote(&url)).await;
    assert!(names.looks.load(Ordering::SeqCst) > 1);
    let requests = server.requests();
    refused(&guarded(Reach::Local, &Names::new(&["169.254.169.254"])), &remote(&url)).await;
    assert_eq!(server.requests(), requests);

    let ssh = OwnedFolder::new("ssh").unwrap();
    let names = Names::new(&["127.0.0.1", "169.254.169.254"]);
    let script = recording_ssh(ssh.path());
    let home = Home::with(|options| {
        options.guard = Guard { reach: Reach::Local, lookup: Arc::clone(&names) as _ };
        options.ssh = script;
    });
    let url = format!("ssh://git@git.invalid:2222{}", git.path().display());
    assert_eq!(resolve(&home.fetch(&remote(&url)).await.repository, "main"), commit);
    let arguments = fs::read_to_string(ssh.path().join("arguments")).unwrap();
    for pinned in
        ["HostName=127.0.0.1", "HostKeyAlias=[git.invalid]:2222", "StrictHostKeyChecking=accept-new"]
    {
        assert!(arguments.contains(pinned), "{pinned} in {arguments}");
    }
    refused(&home, &remote(&url)).await;
    assert_eq!(fs::read_to_string(ssh.path().join("arguments")).unwrap(), arguments, "not started again");
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_39_redirects_are_held_to_the_reach() {
    for target in [
        "http://169.254.169.254/latest/meta-data/info/refs?service=git-upload-pack",
        "http://2852039166/x/info/refs?service=git-upload-pack",
        "http://[::ffff:169.254.169.254]/x/info/refs?service=git-upload-pack",
        "http://inside.invalid/x/info/refs?service=git-upload-pack",
    ] {
        let server = Answering::start(http("302 Found", &format!("Location: {target}\r\n"), "")).await;
        let names = Names::new(&["169.254.169.254"]);
        let home = guarded(Reach::Local, &names);
        let redirecting = remote(&format!("http://{}/x.git", server.address));
        let error = home.mirrors.fetch(&redirecting).await.map(drop).unwrap_err();
        assert!(matches!(error, Error::OutOfReach { .. }), "{target}: {error:?}");
        assert_eq!(server.connections(), 1, "{target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_39_a_proxy_of_its_own_is_held_to_the_reach() {
    let thief = Answering::start(http("200 Connection established", "", "")).await;
    let port = thief.address.port();
    let names = Names::new(&["169.254.169.254"]);
    for reach in [Reach::Public, Reach::Private] {
        let home = guarded(reach, &names);
        for scheme in ["http", "https", "socks5", "socks5h"] {
            for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "169.254.169.254", "proxy.invalid"] {
                let mut proxied = remote("https://git.example.com/x.git");
                proxied.proxy = Some(format!("{scheme}://me:canary@{host}:{port}").into());
                refused(&home, &proxied).await;
            }
        }
        // What such a proxy would be told to connect to is checked too, where it is an address.
        let mut proxied = remote("http://169.254.169.254/latest");
        proxied.proxy = Some(format!("http://127.0.0.1:{port}").into());
        refused(&home, &proxied).await;
    }
    // A host that git finds in the text, and others do not.
    let home = guarded(Reach::Public, &Names::new(&["192.0.2.1"]));
    for scheme in ["http", "https", "socks5", "socks5h"] {
        for way in ["#@", "?@", "/@", "\\@", "@canary@", "#", "/canary#@", "%0a@"] {
            let mut proxied = remote("https://git.example.com/x.git");
            proxied.proxy = Some(format!("{scheme}://127.0.0.1:{port}{way}proxy.invalid:3128").into());
            let error = home.mirrors.fetch(&proxied).await.map(drop).unwrap_err();
            assert!(matches!(error, Error::BadInput { .. }), "{scheme} {way}: {error:?}");
            assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        }
    }
    assert_eq!(thief.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_in_reach_is_used_at_the_address_that_was_checked() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("a", "1")]).unwrap();
    // A web proxy is asked for whole addresses, which this server serves whatever their host is.
    let server = GitServer::start(git.root()).unwrap();
    let names = Names::new(&["127.0.0.1"]);
    let home = guarded(Reach::Local, &names);
    let mut proxied = remote(&format!("http://git.invalid/{}", git.name()));
    proxied.proxy = Some(format!("http://me:secret@proxy.invalid:{}", server.address().port()).into());
    assert_eq!(resolve(&home.fetch(&proxied).await.repository, "main"), commit);
    assert!(server.requests() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_answers_is_not_told_unless_it_speaks_git() {
    let home = Home::new();
    let mut told = Vec::new();
    for (status, headers) in [
        ("200 OK", ""),
        ("301 Moved Permanently", "Location: http://127.0.0.1:1/?token=canary\r\n"),
        ("401 Unauthorized", "WWW-Authenticate: Basic realm=\"canary\"\r\n"),
        ("403 Forbidden", ""),
        ("404 Not Found", ""),
        ("418 canary", ""),
        ("500 Internal Server Error", ""),
        ("503 Service Unavailable", "Retry-After: 7\r\n"),
    ] {
        let body = "AWS_SECRET=canary\nremote: canary\nfatal: canary";
        let server = Answering::start(http(status, headers, body)).await;
        let url = format!("http://{}/x.git", server.address);
        for named in [remote(&url), remote(&url).with_credentials(Credentials::basic("u", "password"))] {
            let error = home.mirrors.fetch(&named).await.map(drop).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{status}: {error:?}");
            let text = error.to_string().replace(&url, "URL");
            let code = status.split(' ').next().unwrap();
            assert!(!text.contains(code), "the status {code} is an answer too: {text}");
            told.push(text);
        }
    }
    // Something that is no web server, and nothing at all.
    let server = Answering::start("220 canary ESMTP\r\n".to_owned()).await;
    let url = format!("http://{}/x.git", server.address);
    let smtp =
        home.mirrors.fetch(&remote(&url)).await.map(drop).unwrap_err().to_string().replace(&url, "URL");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x.git", listener.local_addr().unwrap());
    drop(listener);
    let closed = home.mirrors.fetch(&remote(&url)).await.map(drop).unwrap_err();
    assert!(matches!(closed, Error::Unreachable { .. }), "{closed:?}");
    assert_eq!(closed.to_string().replace(&url, "URL"), smtp, "an open port looks like a closed one");
    told.push(smtp);
    told.sort();
    told.dedup();
    assert!(told.len() <= 3, "not reached, not found, other credentials: {told:#?}");
}

#[tokio::test]
async fn credentials_are_not_sent_in_clear_unless_allowed() {
    let server =
        Answering::start(http("401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n", "")).await;
    let home = Home::with(|options| options.credentials_over_http = false);
    let plain = remote(&format!("http://{}/x.git", server.address));
    let signed_in = plain.clone().with_credentials(Credentials::basic("u", "canary"));
    let error = home.mirrors.fetch(&signed_in).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::PlainCredentials { .. }), "{error:?}");
    assert!(
        error.to_string().contains("--allow-credentials-over-http") && !error.to_string().contains("canary")
    );
    assert_eq!(server.connections(), 0);
    // Without credentials it is asked.
    assert!(matches!(home.mirrors.fetch(&plain).await, Err(Error::Auth { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn host_keys_of_forges_are_known_and_new_hosts_can_be_refused() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let ssh = OwnedFolder::new("ssh").unwrap();
    let script = ssh.path().join("ssh");
    let text = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > {0}/arguments\n\
         for word in \"$@\"; do case $word in GlobalKnownHostsFile=*) \
         cat \"$(echo \"${{word#GlobalKnownHostsFile=}}\" | tr -d '\"')\" > {0}/forges;; esac; done\n\
         for last in \"$@\"; do :; done\nexec sh -c \"$last\"\n",
        ssh.path().display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = OwnedFolder::new("mirrors").unwrap();
    let names = Names::new(&["127.0.0.1"]);
    let mirrors = |new_host_keys| {
        let options = options(folder.path(), |options| {
            options.guard = Guard { reach: Reach::Local, lookup: Arc::clone(&names) as _ };
            options.ssh.clone_from(&script);
            options.new_host_keys = new_host_keys;
            options.stall = Duration::from_secs(5);
        });
        Mirrors::open(options).unwrap()
    };
    let read = |name: &str| fs::read_to_string(ssh.path().join(name)).unwrap();
    let url = format!("ssh://git@git.invalid{}", git.path().display());
    let unpinned = Remote::new(key("one"), &url).unwrap();
    mirrors(NewHostKeys::Refuse).fetch(&unpinned).await.unwrap();
    assert!(read("arguments").contains("StrictHostKeyChecking=yes"));
    for line in ["github.com,", "gitlab.com ssh-ed25519 ", "bitbucket.org ssh-rsa ", "ssh.dev.azure.com,"] {
        assert!(read("forges").contains(line), "{line}");
    }
    mirrors(NewHostKeys::Accept).fetch(&unpinned).await.unwrap();
    assert!(read("arguments").contains("StrictHostKeyChecking=accept-new"));
    // Who says which keys a host has means these and no others.
    let pinned = unpinned.with_host_keys(HostKeys::Pinned("git.invalid ssh-ed25519 AAAA".into()));
    mirrors(NewHostKeys::Accept).fetch(&pinned).await.unwrap();
    assert!(read("arguments").contains("StrictHostKeyChecking=yes") && read("forges").is_empty());
}
