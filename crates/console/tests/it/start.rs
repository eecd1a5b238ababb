//! What a console does not start with, and what it does to the files that it finds.

use std::{
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use plural_console::{ConsoleConfig, RunningConsole};

fn config(folder: &Path) -> ConsoleConfig {
    // Another test may have installed the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ConsoleConfig::local(folder.join("data"))
}

async fn refusal(config: ConsoleConfig) -> String {
    RunningConsole::start(config, None).await.expect_err("it does not start").to_string()
}

#[tokio::test]
async fn an_empty_secret_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for empty in ["", " ", "\n\t "] {
        let webhook_secret = Some(empty.into());
        let told = refusal(ConsoleConfig { webhook_secret, ..config(folder.path()) }).await;
        assert!(told.contains("PLURAL_WEBHOOK_SECRET"), "{told}");
        let metrics_token = Some(empty.into());
        let told = refusal(ConsoleConfig { metrics_token, ..config(folder.path()) }).await;
        assert!(told.contains("PLURAL_METRICS_TOKEN"), "{told}");
    }
    let metrics_token = Some("fifteen letters".into());
    let told = refusal(ConsoleConfig { metrics_token, ..config(folder.path()) }).await;
    assert!(told.contains("16 characters") && !told.contains("fifteen letters"), "{told}");
    // The file that it would be read from is as empty as the variable.
    fs::create_dir_all(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/webhook.secret"), " \n").unwrap();
    let told = refusal(config(folder.path())).await;
    assert!(told.contains("webhook.secret") && told.contains("empty"), "{told}");
}

#[tokio::test]
async fn plain_http_beyond_this_machine_is_refused_unless_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    for beyond in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[2001:db8::1]:0", "[::ffff:10.0.0.1]:0"] {
        let listen: SocketAddr = beyond.parse().unwrap();
        let told = refusal(ConsoleConfig { listen, ..config(folder.path()) }).await;
        for word in ["plain HTTP", "--tls-cert", "--insecure-http", "ingress"] {
            assert!(told.contains(word), "{beyond}: {told}");
        }
        // Nothing was made before that was known.
        assert!(!folder.path().join("data").exists(), "{beyond}");
    }
    let loopback: SocketAddr = "127.0.0.3:0".parse().unwrap();
    for (listen, insecure_http) in [("0.0.0.0:0".parse().unwrap(), true), (loopback, false)] {
        let config = ConsoleConfig { listen, insecure_http, ..config(folder.path()) };
        let console = RunningConsole::start(config, None).await.unwrap();
        // No certificate and no client knows "every address": the URL is one that works from here.
        let host = if listen == loopback { "127.0.0.3" } else { "127.0.0.1" };
        assert_eq!(console.url, format!("http://{host}:{}", console.address.port()));
        assert_eq!(console.public_url, console.url);
        console.stop().await.unwrap();
    }
    // With TLS it listens anywhere.
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert_file, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&cert_file, key.cert.pem()).unwrap();
    fs::write(&key_file, key.signing_key.serialize_pem()).unwrap();
    let config = ConsoleConfig {
        listen: "0.0.0.0:0".parse().unwrap(),
        tls_cert: Some(cert_file),
        tls_key: Some(key_file),
        public_url: Some("https://plural.example.com/".to_owned()),
        ..config(folder.path())
    };
    let console = RunningConsole::start(config, None).await.unwrap();
    assert_eq!(console.public_url, "https://plural.example.com");
    console.stop().await.unwrap();
}

/// The first password is told once: a start that fails must not have used it up.
#[tokio::test]
async fn what_cannot_be_served_is_found_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = || Some(folder.path().join("nowhere.pem"));
    let told =
        refusal(ConsoleConfig { tls_cert: nowhere(), tls_key: nowhere(), ..config(folder.path()) }).await;
    assert!(told.contains("nowhere.pem"), "{told}");
    // As `openssl req -x509` makes them: no agent would take it from a server.
    let mut authority = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let (cert_file, key_file) = (folder.path().join("ca.pem"), folder.path().join("ca.key"));
    fs::write(&cert_file, authority.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let (tls_cert, tls_key) = (Some(cert_file), Some(key_file));
    let told = refusal(ConsoleConfig { tls_cert, tls_key, ..config(folder.path()) }).await;
    assert!(told.contains("ca.pem") && told.contains("CA:FALSE"), "{told}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let told = refusal(ConsoleConfig { listen: address, ..config(folder.path()) }).await;
    assert!(told.contains(&address.to_string()), "{told}");
    let told = refusal(ConsoleConfig { replica_listen: Some(address), ..config(folder.path()) }).await;
    assert!(told.contains(&address.to_string()), "{told}");
    assert!(!folder.path().join("data").exists());
}

#[tokio::test]
async fn one_console_at_a_time_has_a_sqlite_database() {
    let folder = tempfile::tempdir().unwrap();
    let console = RunningConsole::start(config(folder.path()), None).await.unwrap();
    let told = refusal(config(folder.path())).await;
    let holder = format!("another console (process {} on ", std::process::id());
    assert!(told.contains(&holder) && told.contains("plural.db"), "{told}");
    console.stop().await.unwrap();
    let killed = RunningConsole::start(config(folder.path()), None).await.unwrap();
    killed.kill().await;
    RunningConsole::start(config(folder.path()), None).await.unwrap().stop().await.unwrap();
}

#[tokio::test]
async fn what_others_could_read_is_tightened_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    RunningConsole::start(config(folder.path()), None).await.unwrap().stop().await.unwrap();
    // As a release before left it, and worse.
    fs::write(data.join("plural.db-wal"), "").unwrap();
    let of = |name: &str| data.join(name);
    let before = fs::read(of("encryption.key")).unwrap();
    for (name, mode) in [
        ("", 0o755),
        ("git", 0o755),
        ("git/mirrors", 0o777),
        ("artifacts", 0o755),
        ("plural.db", 0o644),
        ("plural.db-wal", 0o666),
        ("encryption.key", 0o640),
        ("webhook.secret", 0o644),
    ] {
        fs::set_permissions(of(name), Permissions::from_mode(mode)).unwrap();
    }
    let console = RunningConsole::start(config(folder.path()), None).await.unwrap();
    for (name, mode) in [
        ("", 0o700),
        ("git", 0o700),
        ("git/mirrors", 0o700),
        ("artifacts", 0o700),
        ("plural.db", 0o600),
        ("plural.db-wal", 0o600),
        ("plural.db-shm", 0o600),
        ("encryption.key", 0o600),
        ("webhook.secret", 0o600),
    ] {
        let found = fs::metadata(of(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name:?} is {found:o}");
    }
    console.stop().await.unwrap();
    assert_eq!(fs::read(of("encryption.key")).unwrap(), before);
}
