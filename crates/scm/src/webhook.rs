//! What git hosts send: proven by the connection's secret, and no more than a [`Hint`].
//!
//! No host signs the time or the delivery's id, so a delivery can be sent again by whoever saw it. That is harmless as long as a hint only
//! makes the console read the state back from the host.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::{
    connection::HostKind,
    error::{Cause, Error, Result},
    names::printable,
};

/// Something may have changed at a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Which kind of host.
    pub host: HostKind,
    /// The repository, as the host writes it.
    pub repository: String,
    /// The pull request, where it is about one.
    pub number: Option<u64>,
    /// The commit that it says is the newest.
    pub head: Option<String>,
    /// About what.
    pub kind: HintKind,
}

/// About what a hint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintKind {
    /// A pull request: opened, edited, pushed to, merged, closed.
    PullRequest,
    /// A review or an approval.
    Review,
    /// A comment.
    Comment,
    /// Commits of a branch.
    Push,
    /// A check or status of a commit.
    Check,
}

/// Reads a delivery; nothing for an event that is about none of these.
///
/// # Errors
/// [`Cause::Refused`] when the secret does not prove it; [`Cause::Malformed`] when a proven one cannot be read.
pub fn read(host: HostKind, headers: &HeaderMap, body: &[u8], secret: &SecretString) -> Result<Option<Hint>> {
    let secret = secret.expose_secret().as_bytes();
    if secret.is_empty() || !is_proven(host, headers, body, secret) {
        return Err(Error::new(
            Cause::Refused,
            format!("a webhook of {} is not signed with its secret", host.name()),
        ));
    }
    let malformed = |why: &str| Error::new(Cause::Malformed, format!("a webhook of {} {why}", host.name()));
    let body: Value = serde_json::from_slice(body).map_err(|_| malformed("is no JSON"))?;
    let event = match host {
        HostKind::GitHub => text(headers, "x-github-event"),
        HostKind::Gitea => text(headers, "x-gitea-event"),
        HostKind::GitLab => body["object_kind"].as_str(),
        HostKind::BitbucketCloud | HostKind::BitbucketDataCenter => text(headers, "x-event-key"),
        HostKind::AzureDevOps => body["eventType"].as_str(),
    };
    let Some((kind, places)) = event.and_then(|event| places(host, event)) else { return Ok(None) };
    let string = |path: &str| {
        let found = body.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
        found.map(printable)
    };
    let below = |project: &str, name: &str| {
        let project = string(&format!("{}/project/{project}", places.repository));
        let name = string(&format!("{}/{name}", places.repository));
        project.zip(name).map(|(project, name)| format!("{project}/{name}"))
    };
    let repository = match host {
        HostKind::BitbucketDataCenter => below("key", "slug"),
        HostKind::AzureDevOps => below("name", "name"),
        HostKind::GitHub | HostKind::Gitea | HostKind::GitLab | HostKind::BitbucketCloud => {
            string(places.repository)
        }
    };
    let repository = repository.ok_or_else(|| malformed("names no repository"))?;
    let number = body.pointer(places.number).and_then(Value::as_u64);
    Ok(Some(Hint { host, repository, number, head: string(places.head), kind }))
}

/// Where in a body things are (JSON pointers).
struct Places {
    repository: &'static str,
    number: &'static str,
    head: &'static str,
}

/// A pointer to nothing.
const NOWHERE: &str = "/ /";

fn places(host: HostKind, event: &str) -> Option<(HintKind, Places)> {
    use HintKind::{Check, Comment, PullRequest, Push, Review};
    let (kind, repository, number, head) = match host {
        HostKind::GitHub | HostKind::Gitea => {
            let repository = "/repository/full_name";
            let pull = (repository, "/pull_request/number", "/pull_request/head/sha");
            match event {
                "pull_request"
                | "pull_request_sync"
                | "pull_request_label"
                | "pull_request_review_request" => (PullRequest, pull.0, pull.1, pull.2),
                "pull_request_review" | "pull_request_approved" | "pull_request_rejected" => {
                    (Review, pull.0, pull.1, pull.2)
                }
                "pull_request_review_comment" | "pull_request_comment" => (Comment, pull.0, pull.1, pull.2),
                "issue_comment" => (Comment, repository, "/issue/number", NOWHERE),
                "push" => (Push, repository, NOWHERE, "/after"),
                "status" => (Check, repository, NOWHERE, "/sha"),
                "check_run" => (Check, repository, NOWHERE, "/check_run/head_sha"),
                _ => return None,
            }
        }
        HostKind::GitLab => {
            let repository = "/project/path_with_namespace";
            match event {
                "merge_request" => {
                    (PullRequest, repository, "/object_attributes/iid", "/object_attributes/last_commit/id")
                }
                "note" => (Comment, repository, "/merge_request/iid", "/merge_request/last_commit/id"),
                "push" => (Push, repository, NOWHERE, "/after"),
                "pipeline" => (Check, repository, "/merge_request/iid", "/object_attributes/sha"),
                _ => return None,
            }
        }
        HostKind::BitbucketCloud => {
            let (repository, number) = ("/repository/full_name", "/pullrequest/id");
            let head = "/pullrequest/source/commit/hash";
            match event {
                "pullrequest:approved"
                | "pullrequest:unapproved"
                | "pullrequest:changes_request_created"
                | "pullrequest:changes_request_removed" => (Review, repository, number, head),
                _ if event.starts_with("pullrequest:comment_") => (Comment, repository, number, head),
                _ if event.starts_with("pullrequest:") => (PullRequest, repository, number, head),
                "repo:push" => (Push, repository, NOWHERE, "/push/changes/0/new/target/hash"),
                "repo:commit_status_created" | "repo:commit_status_updated" => {
                    (Check, repository, NOWHERE, NOWHERE)
                }
                _ => return None,
            }
        }
        HostKind::BitbucketDataCenter => {
            let (repository, number) = ("/pullRequest/toRef/repository", "/pullRequest/id");
            let head = "/pullRequest/fromRef/latestCommit";
            match event {
                "pr:reviewer:approved" | "pr:reviewer:unapproved" | "pr:reviewer:needs_work" => {
                    (Review, repository, number, head)
                }
                _ if event.starts_with("pr:comment:") => (Comment, repository, number, head),
                _ if event.starts_with("pr:") => (PullRequest, repository, number, head),
                "repo:refs_changed" => (Push, "/repository", NOWHERE, "/changes/0/toHash"),
                _ => return None,
            }
        }
        HostKind::AzureDevOps => {
            let (repository, number) = ("/resource/repository", "/resource/pullRequestId");
            match event {
                "git.pullrequest.created" | "git.pullrequest.updated" | "git.pullrequest.merged" => {
                    (PullRequest, repository, number, "/resource/lastMergeSourceCommit/commitId")
                }
                "ms.vss-code.git-pullrequest-comment-event" => (
                    Comment,
                    "/resource/pullRequest/repository",
                    "/resource/pullRequest/pullRequestId",
                    "/resource/pullRequest/lastMergeSourceCommit/commitId",
                ),
                "git.push" => (Push, repository, NOWHERE, "/resource/refUpdates/0/newObjectId"),
                _ => return None,
            }
        }
    };
    Some((kind, Places { repository, number, head }))
}

fn is_proven(host: HostKind, headers: &HeaderMap, body: &[u8], secret: &[u8]) -> bool {
    let proof = match host {
        HostKind::GitHub => {
            text(headers, "x-hub-signature-256").and_then(|value| value.strip_prefix("sha256="))
        }
        HostKind::Gitea => text(headers, "x-gitea-signature"),
        HostKind::BitbucketCloud | HostKind::BitbucketDataCenter => {
            text(headers, "x-hub-signature").and_then(|value| value.strip_prefix("sha256="))
        }
        HostKind::GitLab => {
            return text(headers, "x-gitlab-token").is_some_and(|token| is_same(token.as_bytes(), secret));
        }
        HostKind::AzureDevOps => {
            // The user's name is whatever was typed with the password.
            let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            let pair =
                sent.and_then(|sent| sent.strip_prefix("Basic ")).and_then(|pair| STANDARD.decode(pair).ok());
            return pair.is_some_and(|pair| {
                let colon = pair.iter().position(|byte| *byte == b':');
                colon.is_some_and(|colon| is_same(&pair[colon + 1..], secret))
            });
        }
    };
    let (Some(proof), Ok(mac)) = (proof, Hmac::<Sha256>::new_from_slice(secret)) else { return false };
    let Ok(proof) = hex::decode(proof) else { return false };
    mac.chain_update(body).verify_slice(&proof).is_ok()
}

/// Compares secrets; how long it takes tells nothing of them, their lengths neither.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let digest = |text: &[u8]| -> [u8; 32] { Sha256::digest(text).into() };
    digest(one).as_slice().ct_eq(digest(other).as_slice()).into()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    const SECRET: &str = "It's a Secret to Everybody";

    fn delivery(host: HostKind, event: &str, body: &str, secret: &str) -> Result<Option<Hint>> {
        let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body);
        let digest = hex::encode(mac.finalize().into_bytes());
        let pairs = match host {
            HostKind::GitHub => {
                vec![
                    ("x-github-event", event.to_owned()),
                    ("x-hub-signature-256", format!("sha256={digest}")),
                ]
            }
            HostKind::Gitea => vec![("x-gitea-event", event.to_owned()), ("x-gitea-signature", digest)],
            HostKind::GitLab => vec![("x-gitlab-token", secret.to_owned())],
            HostKind::BitbucketCloud | HostKind::BitbucketDataCenter => {
                vec![("x-event-key", event.to_owned()), ("x-hub-signature", format!("sha256={digest}"))]
            }
            HostKind::AzureDevOps => {
                vec![("authorization", format!("Basic {}", STANDARD.encode(format!("any:{secret}"))))]
            }
        };
        let headers: HeaderMap = pairs
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(&value).unwrap()))
            .collect();
        read(host, &headers, body.as_bytes(), &SECRET.to_owned().into())
    }

    #[test]
    fn each_hosts_pull_request_is_a_hint_and_another_secret_proves_nothing() {
        let head = "a".repeat(40);
        let cases = [
            (
                HostKind::GitHub,
                "pull_request",
                json!({"repository": {"full_name": "o/r"}, "pull_request": {"number": 7, "head": {"sha": head}}}),
            ),
            (
                HostKind::Gitea,
                "pull_request",
                json!({"repository": {"full_name": "o/r"}, "pull_request": {"number": 7, "head": {"sha": head}}}),
            ),
            (
                HostKind::GitLab,
                "",
                json!({
                    "object_kind": "merge_request", "project": {"path_with_namespace": "o/r"},
                    "object_attributes": {"iid": 7, "last_commit": {"id": head}},
                }),
            ),
            (
                HostKind::BitbucketCloud,
                "pullrequest:updated",
                json!({
                    "repository": {"full_name": "o/r"},
                    "pullrequest": {"id": 7, "source": {"commit": {"hash": head}}},
                }),
            ),
            (
                HostKind::BitbucketDataCenter,
                "pr:opened",
                json!({"pullRequest": {
                    "id": 7, "fromRef": {"latestCommit": head},
                    "toRef": {"repository": {"slug": "r", "project": {"key": "o"}}},
                }}),
            ),
            (
                HostKind::AzureDevOps,
                "",
                json!({"eventType": "git.pullrequest.updated", "resource": {
                    "pullRequestId": 7, "repository": {"id": "1", "name": "r", "project": {"id": "2", "name": "o"}},
                    "lastMergeSourceCommit": {"commitId": head},
                }}),
            ),
        ];
        for (host, event, body) in cases {
            let body = body.to_string();
            let hint = delivery(host, event, &body, SECRET).unwrap().unwrap();
            let expected = Hint {
                host,
                repository: "o/r".to_owned(),
                number: Some(7),
                head: Some(head.clone()),
                kind: HintKind::PullRequest,
            };
            assert_eq!(hint, expected);
            let error = delivery(host, event, &body, "another").unwrap_err();
            assert_eq!(error.cause, Cause::Refused, "{host:?}");
            assert!(!error.message.contains(SECRET), "{error}");
        }
    }

    #[test]
    fn comments_and_pushes_of_the_two_that_name_projects_are_hints() {
        let head = "b".repeat(40);
        let home = json!({"slug": "r", "project": {"key": "~o"}});
        let of_azure = json!({"name": "r", "project": {"name": "My Project"}});
        let said = |event: &str, resource: Value| json!({"eventType": event, "resource": resource});
        let (data_center, azure) = (HostKind::BitbucketDataCenter, HostKind::AzureDevOps);
        let cases = [
            (
                data_center,
                "pr:comment:added",
                json!({"pullRequest": {"id": 3, "toRef": {"repository": home}}, "comment": {}}),
                (HintKind::Comment, "~o/r", Some(3), None),
            ),
            (
                data_center,
                "pr:reviewer:approved",
                json!({"pullRequest": {"id": 3, "fromRef": {"latestCommit": head}, "toRef": {"repository": home}}}),
                (HintKind::Review, "~o/r", Some(3), Some(head.clone())),
            ),
            (
                data_center,
                "repo:refs_changed",
                json!({"repository": home, "changes": [{"toHash": head}]}),
                (HintKind::Push, "~o/r", None, Some(head.clone())),
            ),
            (
                azure,
                "",
                said(
                    "ms.vss-code.git-pullrequest-comment-event",
                    json!({"comment": {}, "pullRequest": {"pullRequestId": 3, "repository": of_azure}}),
                ),
                (HintKind::Comment, "My Project/r", Some(3), None),
            ),
            (
                azure,
                "",
                said("git.push", json!({"repository": of_azure, "refUpdates": [{"newObjectId": head}]})),
                (HintKind::Push, "My Project/r", None, Some(head.clone())),
            ),
        ];
        for (host, event, body, (kind, repository, number, head)) in cases {
            let body = body.to_string();
            let hint = delivery(host, event, &body, SECRET).unwrap().unwrap();
            assert_eq!(hint, Hint { host, repository: repository.to_owned(), number, head, kind }, "{body}");
        }
        // What the host sends when somebody presses its button to test.
        assert_eq!(delivery(data_center, "diagnostics:ping", r#"{"test": true}"#, SECRET).unwrap(), None);
        let ping = said("ms.vss-test.ping", json!({})).to_string();
        assert_eq!(delivery(azure, "", &ping, SECRET).unwrap(), None);
    }

    #[test]
    fn a_service_hook_without_a_password_proves_nothing() {
        for sent in ["", "Basic", "Basic ", "Basic §", "Basic Og==", "Bearer It's a Secret to Everybody"] {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", HeaderValue::from_bytes(sent.as_bytes()).unwrap());
            assert!(!is_proven(HostKind::AzureDevOps, &headers, b"{}", SECRET.as_bytes()), "{sent}");
        }
        for sent in ["", "sha256=", "sha1=00", "sha256=zz"] {
            let mut headers = HeaderMap::new();
            headers.insert("x-hub-signature", HeaderValue::from_bytes(sent.as_bytes()).unwrap());
            assert!(!is_proven(HostKind::BitbucketDataCenter, &headers, b"{}", SECRET.as_bytes()), "{sent}");
        }
    }

    #[test]
    fn the_signature_is_the_one_of_githubs_documentation() {
        let mut headers = HeaderMap::new();
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        headers.insert("x-hub-signature-256", HeaderValue::from_static(signature));
        let proven = |body: &[u8]| is_proven(HostKind::GitHub, &headers, body, SECRET.as_bytes());
        assert!(proven(b"Hello, World!"));
        assert!(!proven(b"Hello, World"));
    }

    #[test]
    fn what_is_unknown_is_no_hint_and_what_is_cut_is_an_error() {
        assert_eq!(delivery(HostKind::GitHub, "star", "{}", SECRET).unwrap(), None);
        for body in ["", "{", "{}", "[]", "null", r#"{"repository":{"full_name":7}}"#] {
            let error = delivery(HostKind::GitHub, "push", body, SECRET).unwrap_err();
            assert_eq!(error.cause, Cause::Malformed, "{body}");
        }
        let nothing = read(HostKind::GitHub, &HeaderMap::new(), b"{}", &String::new().into());
        assert_eq!(nothing.unwrap_err().cause, Cause::Refused, "an empty secret proves nothing");
    }
}
