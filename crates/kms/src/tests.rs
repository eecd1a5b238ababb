//! Places, and what all services have in common.

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

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_not_connected_to() {
    let server = plural_testkit::GoogleKmsServer::start().unwrap();
    let place = server.place("");
    let port = place.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split('&').next()).unwrap();
    let ask = async |reach| {
        let url = Url::parse(&format!("http://localhost:{port}/v1/x")).unwrap();
        let request = http::Request {
            method: reqwest::Method::GET,
            url,
            headers: reqwest::header::HeaderMap::new(),
            body: &[],
            is_busy: http::by_status,
        };
        http::Http::new(None, reach, false).unwrap().ask(&request).await
    };
    let told = unavailable(ask(plural_reach::Reach::Private).await);
    assert!(told.contains("this machine's own address"), "{told}");
    assert_eq!(ask(plural_reach::Reach::Local).await.expect("an answer").status, 401);
}
