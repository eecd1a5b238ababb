//! Signature version 4 of AWS, of requests without a query.

use std::{collections::BTreeMap, fmt::Write as _};

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use super::credentials::Keys;

/// For whom a signature is.
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// A time as signatures have it: the value of `x-amz-date`.
pub(super) fn stamp(time: DateTime<Utc>) -> String {
    time.format("%Y%m%dT%H%M%SZ").to_string()
}

/// The value of `authorization`. `headers` are those that are signed, by their names in lower case; `x-amz-date` is one of them.
pub(super) fn authorization(
    keys: &Keys,
    scope: &Scope<'_>,
    method: &str,
    path: &str,
    headers: &BTreeMap<&str, String>,
    body: &[u8],
) -> String {
    let names = headers.keys().copied().collect::<Vec<_>>().join(";");
    let mut request = format!("{method}\n{path}\n\n");
    for (name, value) in headers {
        let _ = writeln!(request, "{name}:{}", value.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let _ = write!(request, "\n{names}\n{}", hex::encode(Sha256::digest(body)));
    let stamp = headers.get("x-amz-date").map(String::as_str).unwrap_or_default();
    let date = stamp.split('T').next().unwrap_or_default();
    let Scope { region, service } = scope;
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex::encode(Sha256::digest(request)));
    let mut key = format!("AWS4{}", keys.secret.expose_secret()).into_bytes();
    for part in [date, region, service, "aws4_request"] {
        key = mac(&key, part.as_bytes());
    }
    let signature = hex::encode(mac(&key, text.as_bytes()));
    let id = &keys.id;
    format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}")
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // A key of any length is one.
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the test suite that AWS publishes (`aws-sig-v4-test-suite`), where they have no query.
    #[test]
    fn signatures_are_those_of_the_published_test_suite() {
        const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
        let keys = Keys {
            id: "AKIDEXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned().into(),
            session: None,
        };
        let form = "application/x-www-form-urlencoded";
        for (name, method, more, body, signature) in [
            (
                "get-vanilla",
                "GET",
                vec![],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "post-vanilla",
                "POST",
                vec![],
                "",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "post-header-key-case",
                "POST",
                vec![("my-header1", "value1")],
                "",
                "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
            ),
            (
                "get-header-value-trim",
                "GET",
                vec![("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
                "",
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
            (
                "post-x-www-form-urlencoded",
                "POST",
                vec![("content-type", form)],
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "post-sts-header-before",
                "POST",
                vec![("x-amz-security-token", TOKEN)],
                "",
                "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
            ),
        ] {
            let mut headers = BTreeMap::from([
                ("host", "example.amazonaws.com".to_owned()),
                ("x-amz-date", "20150830T123600Z".to_owned()),
            ]);
            headers.extend(more.into_iter().map(|(name, value)| (name, value.to_owned())));
            let scope = Scope { region: "us-east-1", service: "service" };
            let told = authorization(&keys, &scope, method, "/", &headers, body.as_bytes());
            let names = headers.keys().copied().collect::<Vec<_>>().join(";");
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders={names}, Signature={signature}"
            );
            assert_eq!(told, expected, "{name}");
        }
    }
}
