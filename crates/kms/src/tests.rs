//! Places, and what all services have in common.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

pub(crate) fn refused<T>(answer: Result<T, KeyError>) -> String {
    match answer {
        Err(KeyError::Refused(why)) => why,
        Err(KeyError::Unavailable(why)) => panic!("not refused, but unavailable: {why}"),
        Ok(_) => panic!("not refused"),
    }
}

pub(crate) fn unavailable<T>(answer: Result<T, KeyError>) -> String {
    match answer {
        Err(KeyError::Unavailable(why)) => why,
        Err(KeyError::Refused(why)) => panic!("not unavailable, but refused: {why}"),
        Ok(_) => panic!("not unavailable"),
    }
}

fn with(variables: &'static [(&'static str, &'static str)]) -> Arc<Variables> {
    Arc::new(move |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn places_are_checked_before_anything_is_asked() {
    const AWS: &str = "aws-kms:arn:aws:kms:eu-central-1:111122223333:key/1234abcd";
    const GOOGLE: &str = "google-kms:projects/p/locations/global/keyRings/r/cryptoKeys/k";
    const AZURE: &str = "azure-key-vault://example.vault.azure.net/keys/plural";
    for (place, reason) in [
        ("vault-transit://vault.example.com/transit".to_owned(), "MOUNT/KEY"),
        ("vault-transit:http://vault.example.com/transit/plural".to_owned(), "without TLS"),
        ("vault-transit://169.254.169.254/transit/plural".to_owned(), "metadata address"),
        ("aws-kms:alias/plural".to_owned(), "aws-kms:arn:aws:kms:"),
        ("aws-kms:arn:aws:kms:eu-central-1:1111:key/x".to_owned(), "aws-kms:arn:aws:kms:"),
        ("aws-kms:arn:aws:kms:evil.example.com/:111122223333:key/x".to_owned(), "aws-kms:arn:aws:kms:"),
        ("aws-kms:arn:aws-mars:kms:eu-central-1:111122223333:key/x".to_owned(), "partition"),
        (AWS.to_owned(), "the environment has no credentials"),
        (format!("{AWS}?auth=magic"), "auth is"),
        (format!("{AWS}?auth=environment"), "no AWS_ACCESS_KEY_ID"),
        (format!("{AWS}?auth=web-identity"), "AWS_ROLE_ARN"),
        (format!("{AWS}?endpoint=http://kms.example.com"), "without TLS"),
        (format!("{AWS}?endpoint=https://user:secret@kms.example.com"), "a credential"),
        (format!("{AWS}?endpoint=https://169.254.169.254"), "metadata address"),
        (format!("{AWS}?endpoint=https://kms.example.com/path"), "without a path"),
        (format!("{AWS}?auth=container&container_uri=http://169.254.169.254/"), "a container's credentials"),
        (format!("{AWS}?auth=container&container_uri=http://example.com/"), "a container's credentials"),
        (format!("{AWS}?color=red"), "no option \"color\""),
        ("google-kms:projects/p/keyRings/r/cryptoKeys/k".to_owned(), "projects/"),
        (
            "google-kms:projects/p/locations/global/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1".to_owned(),
            "projects/",
        ),
        ("google-kms:projects/../locations/global/keyRings/r/cryptoKeys/k".to_owned(), "projects/"),
        (format!("{GOOGLE}?auth=key"), "GOOGLE_APPLICATION_CREDENTIALS"),
        (format!("{GOOGLE}?auth=key&key_file=/nonexistent"), "/nonexistent"),
        (format!("{GOOGLE}?auth=magic"), "auth is"),
        (format!("{GOOGLE}?auth=metadata&endpoint=https://[fd00:ec2::254]"), "metadata address"),
        ("azure-key-vault://example.com/keys/plural".to_owned(), "vault.azure.net"),
        ("azure-key-vault://evil-vault.azure.net.example.com/keys/plural".to_owned(), "vault.azure.net"),
        ("azure-key-vault://example.vault.azure.net/secrets/plural".to_owned(), "keys/"),
        (AZURE.to_owned(), "AZURE_TENANT_ID"),
        (format!("{AZURE}?tenant=t&client_id=c"), "AZURE_CLIENT_SECRET"),
        (format!("{AZURE}?tenant=../x&client_id=c&token_file=/x"), "tenant"),
        (format!("{AZURE}?tenant=t&client_id=c&auth=magic"), "auth is"),
    ] {
        let told = open(&place, &with(&[])).expect(&place).err().expect(&place).to_string();
        assert!(told.contains(reason), "{place}: {told}");
        assert!(!told.contains("secret@"), "{told}");
    }
    assert!(open("nowhere:x", &with(&[])).is_none());
    assert!(open("file:/x", &with(&[])).is_none());
}

#[test]
fn a_place_needs_no_options_where_the_environment_has_all() {
    let variables = with(&[
        ("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/plural"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/token"),
        ("AZURE_TENANT_ID", "00000000-0000-0000-0000-000000000000"),
        ("AZURE_CLIENT_ID", "00000000-0000-0000-0000-000000000001"),
        ("AZURE_FEDERATED_TOKEN_FILE", "/var/run/secrets/azure/token"),
    ]);
    for place in [
        "aws-kms:arn:aws-cn:kms:cn-north-1:111122223333:alias/plural/console",
        "google-kms:projects/example.com:p/locations/global/keyRings/r/cryptoKeys/k",
        "azure-key-vault://example.vault.usgovcloudapi.net/keys/plural",
    ] {
        let key = open(place, &variables).unwrap().unwrap();
        let name = place.replace("azure-key-vault://", "azure-key-vault:").replace("/keys/", "/");
        assert_eq!(key.name(), name);
        assert!(key.raw().is_none());
    }
}

/// What a client that is within `reach` gets of this address.
async fn ask(url: &str, reach: plural_reach::Reach) -> Result<http::Answer, KeyError> {
    ask_by(&http::Http::new(None, reach, false).unwrap(), url).await
}

async fn ask_by(client: &http::Http, url: &str) -> Result<http::Answer, KeyError> {
    let request = http::Request {
        method: reqwest::Method::GET,
        url: Url::parse(url).unwrap(),
        headers: reqwest::header::HeaderMap::new(),
        body: &[],
        is_busy: http::by_status,
    };
    client.ask(&request).await
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_not_connected_to() {
    let server = plural_testkit::GoogleKmsServer::start().unwrap();
    let place = server.place("");
    let port = place.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split('&').next()).unwrap();
    let url = format!("http://localhost:{port}/v1/x");
    let told = unavailable(ask(&url, plural_reach::Reach::Private).await);
    assert!(told.contains("this machine's own address"), "{told}");
    assert_eq!(ask(&url, plural_reach::Reach::Local).await.expect("an answer").status, 401);
}

/// A server that gives one answer to all who ask, and how often it was asked.
async fn answering(answer: Vec<u8>) -> (String, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/key", listener.local_addr().unwrap());
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let _ = stream.read(&mut [0; 4096]).await;
            // Whoever reads too much of it hangs up.
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, asked)
}

#[tokio::test]
async fn a_credential_follows_no_redirect_and_an_answer_has_an_end() {
    let (elsewhere, reached) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec()).await;
    let redirect = format!("HTTP/1.1 307 Over There\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n");
    let (url, asked) = answering(redirect.into_bytes()).await;
    let told = refused(ask(&url, plural_reach::Reach::Local).await);
    assert!(told.contains("answers with a redirect"), "{told}");
    let count = |of: &std::sync::atomic::AtomicUsize| of.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((count(&asked), count(&reached)), (1, 0));

    let mut endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    endless.resize((1 << 20) + 100_000, b'x');
    let (url, asked) = answering(endless).await;
    let told = refused(ask(&url, plural_reach::Reach::Local).await);
    assert!(told.contains("more than 1048576 bytes"), "{told}");
    assert_eq!(count(&asked), 1, "it is not asked for that again");
}

#[test]
fn a_service_may_have_us_wait_and_not_for_long() {
    let (short, second) = (Duration::from_millis(100), Duration::from_secs(1));
    for (own, asked, waits) in [
        (short, None, short),
        (short, Some(second), second),
        (second, Some(Duration::ZERO), second),
        (short, Some(Duration::from_hours(1)), Duration::from_secs(5)),
        (short, Some(Duration::MAX), Duration::from_secs(5)),
    ] {
        assert_eq!(http::wait_before_the_next(own, asked), waits, "{own:?}, {asked:?}");
    }
}

#[tokio::test]
async fn a_service_that_says_when_to_come_again_is_not_asked_before() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbusy";
    let (url, asked) = answering(busy.into()).await;
    let began = Instant::now();
    let told = unavailable(ask(&url, plural_reach::Reach::Local).await);
    assert!(told.contains("503") && told.contains("busy"), "{told}");
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 3);
    assert!(began.elapsed() >= Duration::from_secs(2), "two waits of a second: {:?}", began.elapsed());

    // What is no number of seconds asks for nothing.
    let odd =
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: -1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let (url, asked) = answering(odd.into()).await;
    assert!(unavailable(ask(&url, plural_reach::Reach::Local).await).contains("429"));
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_service_that_never_answers_is_given_up() {
    let client = http::Http::impatient(Duration::from_millis(200)).unwrap();
    // The system takes the connection, and nobody ever reads from it.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let told = unavailable(ask_by(&client, &format!("http://{}/key", silent.local_addr().unwrap())).await);
    assert!(told.contains("127.0.0.1 does not answer") && told.contains("timed out"), "{told}");

    // The same of one that begins to answer and does not end.
    let (url, asked) = stalling(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{").await;
    let told = unavailable(ask_by(&client, &url).await);
    assert!(told.contains("127.0.0.1 does not answer"), "{told}");
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 3, "each time anew");
}

/// A server that begins to answer all who ask, and how often it was asked. It keeps their connections open.
async fn stalling(beginning: &'static [u8]) -> (String, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/key", listener.local_addr().unwrap());
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let _ = stream.write_all(beginning).await;
            open.push(stream);
        }
    });
    (url, asked)
}
