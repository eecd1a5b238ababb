//! Credentials of AWS: of the environment, for a token of a cluster (STS), or of the endpoint that a container has.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use chrono::{DateTime, Utc};
use plural_app::ports::key_encryption::KeyError;
use quick_xml::{Reader, events::Event};
use reqwest::{
    Method, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use secrecy::SecretString;
use serde::Deserialize;

use crate::{
    BadPlace, Options, Variables, bad,
    endpoint::{Endpoint, is_here, literal},
    held::Held,
    http::{Answer, Http, Request, by_status, form, secret_header, told},
    not_understood, read,
};

pub(super) const OPTIONS: [&str; 7] = [
    "auth",
    "role_arn",
    "token_file",
    "session_name",
    "login_endpoint",
    "container_uri",
    "authorization_token_file",
];
/// Where a task of ECS asks.
const TASK: Ipv4Addr = Ipv4Addr::new(169, 254, 170, 2);
/// Where a Pod of EKS asks.
const POD: Ipv4Addr = Ipv4Addr::new(169, 254, 170, 23);
const POD_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23);

/// What signs.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: SecretString,
    pub(super) session: Option<SecretString>,
}

/// Where they are got.
enum Source {
    /// They are there.
    Environment(Keys),
    /// For a role, and a token of the Pod's ServiceAccount.
    WebIdentity { role: String, session: String, token: PathBuf, sts: Endpoint },
    /// Of the container's endpoint.
    Container { url: Url, http: Http, authorization: Authorization },
}

/// What the container's endpoint wants to see.
enum Authorization {
    None,
    Text(SecretString),
    File(PathBuf),
}

/// Keys that are replaced before they are over.
pub(super) struct Credentials {
    source: Source,
    held: Held<Keys>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfContainer {
    access_key_id: String,
    secret_access_key: String,
    token: String,
    expiration: DateTime<Utc>,
}

impl Credentials {
    pub(super) fn open(sts: &str, options: &Options, variables: &Arc<Variables>) -> Result<Self, BadPlace> {
        let has = |name: &str| variables(name).is_some();
        let auth = match options.get("auth") {
            Some(auth) => auth,
            // The order of AWS's own programs.
            None if has("AWS_ACCESS_KEY_ID") => "environment",
            None if has("AWS_WEB_IDENTITY_TOKEN_FILE") || options.get("token_file").is_some() => {
                "web-identity"
            }
            None => "container",
        };
        let source = match auth {
            "environment" => {
                let needs = |name: &str| {
                    variables(name).ok_or_else(|| bad(&format!("the environment has no {name}")))
                };
                Source::Environment(Keys {
                    id: needs("AWS_ACCESS_KEY_ID")?,
                    secret: needs("AWS_SECRET_ACCESS_KEY")?.into(),
                    session: variables("AWS_SESSION_TOKEN").map(Into::into),
                })
            }
            "web-identity" => Source::WebIdentity {
                role: options.or("role_arn", "AWS_ROLE_ARN", &**variables)?,
                session: options
                    .or("session_name", "AWS_ROLE_SESSION_NAME", &**variables)
                    .unwrap_or_else(|_| "plural-console".to_owned()),
                token: options.or("token_file", "AWS_WEB_IDENTITY_TOKEN_FILE", &**variables)?.into(),
                sts: Endpoint::of(sts, "login_endpoint", options)?,
            },
            "container" => Source::Container {
                url: container(options, variables)?,
                http: Http::to_metadata().map_err(BadPlace)?,
                authorization: authorization(options, variables),
            },
            _ => return Err(bad("auth is environment, web-identity or container")),
        };
        Ok(Self { source, held: Held::default() })
    }

    /// Keys that are not over.
    pub(super) async fn get(&self) -> Result<Keys, KeyError> {
        match &self.source {
            Source::Environment(keys) => Ok(keys.clone()),
            source => self.held.get(source.ask()).await,
        }
    }

    /// These were refused.
    pub(super) async fn forget(&self) {
        self.held.forget().await;
    }

    /// Whether others can be got.
    pub(super) fn can_change(&self) -> bool {
        !matches!(self.source, Source::Environment(_))
    }

    #[cfg(test)]
    pub(super) async fn grow_old(&self) {
        self.held.grow_old().await;
    }
}

/// What a container was told, which is a fixed address, or one on this machine, or https.
fn container(options: &Options, variables: &Arc<Variables>) -> Result<Url, BadPlace> {
    let relative = variables("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let text = match (options.get("container_uri"), relative) {
        (Some(uri), _) => uri.to_owned(),
        (None, Some(path)) if path.starts_with('/') => format!("http://{TASK}{path}"),
        (None, Some(_)) => return Err(bad("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is no path")),
        (None, None) => variables("AWS_CONTAINER_CREDENTIALS_FULL_URI").ok_or_else(|| {
            bad("the environment has no credentials: neither AWS_ACCESS_KEY_ID, nor AWS_WEB_IDENTITY_TOKEN_FILE, nor \
                 AWS_CONTAINER_CREDENTIALS_FULL_URI")
        })?,
    };
    let url = Url::parse(&text).map_err(|_| bad("the address of the container's credentials is none"))?;
    let known = [IpAddr::V4(TASK), IpAddr::V4(POD), IpAddr::V6(POD_V6)];
    let is_known = is_here(&url) || literal(&url).is_some_and(|address| known.contains(&address));
    match url.scheme() {
        "http" if is_known => Ok(url),
        "https" if literal(&url).is_none() || is_known => Ok(url),
        _ => Err(bad(
            "a container's credentials are at 169.254.170.2, 169.254.170.23, [fd00:ec2::23] or this machine",
        )),
    }
}

fn authorization(options: &Options, variables: &Arc<Variables>) -> Authorization {
    let file = options.file("authorization_token_file");
    let file = file.or_else(|| variables("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from));
    match (file, variables("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
        (Some(file), _) => Authorization::File(file),
        (None, Some(text)) => Authorization::Text(text.into()),
        (None, None) => Authorization::None,
    }
}

impl Source {
    async fn ask(&self) -> Result<(Keys, Duration), KeyError> {
        match self {
            Self::Environment(keys) => Ok((keys.clone(), Duration::MAX)),
            Self::WebIdentity { role, session, token, sts } => {
                let token = read(token).await?;
                let body = form(&[
                    ("Action", "AssumeRoleWithWebIdentity"),
                    ("Version", "2011-06-15"),
                    ("RoleArn", role),
                    ("RoleSessionName", session),
                    ("WebIdentityToken", &token),
                ]);
                let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
                let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
                let request =
                    Request { method: Method::POST, url: sts.path("/"), headers, body: &body, is_busy };
                let answer = sts.http.ask(&request).await?;
                if !answer.status.is_success() {
                    let why = format!("{}: {}", texts(&answer, "Code"), texts(&answer, "Message"));
                    let why = told(why.as_bytes());
                    return Err(KeyError::Refused(format!(
                        "STS does not give this console its role: it answers {}: {why}",
                        answer.status
                    )));
                }
                let keys = Keys {
                    id: texts(&answer, "AccessKeyId"),
                    secret: texts(&answer, "SecretAccessKey").into(),
                    session: Some(texts(&answer, "SessionToken").into()),
                };
                let expiration = DateTime::parse_from_rfc3339(&texts(&answer, "Expiration"));
                lasting(keys, expiration.map_err(|_| not_understood())?.to_utc())
            }
            Self::Container { url, http, authorization } => {
                let token = match authorization {
                    Authorization::None => None,
                    Authorization::Text(text) => Some(text.clone()),
                    Authorization::File(file) => Some(read(file).await?.into()),
                };
                let mut headers = HeaderMap::new();
                if let Some(token) = token {
                    headers.insert(AUTHORIZATION, secret_header(&token)?);
                }
                let request =
                    Request { method: Method::GET, url: url.clone(), headers, body: &[], is_busy: by_status };
                let answer = http.ask(&request).await?;
                let OfContainer { access_key_id, secret_access_key, token, expiration } =
                    answer.json().map_err(|error| match error {
                        KeyError::Refused(why) => {
                            KeyError::Refused(format!("the container's endpoint gives no credentials: {why}"))
                        }
                        error @ KeyError::Unavailable(_) => error,
                    })?;
                let keys =
                    Keys { id: access_key_id, secret: secret_access_key.into(), session: Some(token.into()) };
                lasting(keys, expiration)
            }
        }
    }
}

/// The keys, with the time that they last.
fn lasting(keys: Keys, expiration: DateTime<Utc>) -> Result<(Keys, Duration), KeyError> {
    let is_whole = !keys.id.is_empty();
    let lasts = (expiration - Utc::now()).to_std().map_err(|_| {
        KeyError::Refused(
            "the credentials that it gets are over already: is this machine's clock right?".to_owned(),
        )
    })?;
    if is_whole { Ok((keys, lasts)) } else { Err(not_understood()) }
}

fn is_busy(answer: &Answer) -> bool {
    matches!(texts(answer, "Code").as_str(), "Throttling" | "ThrottlingException" | "IDPCommunicationError")
}

/// The text of the first element of this name.
fn texts(answer: &Answer, element: &str) -> String {
    let text = String::from_utf8_lossy(&answer.body);
    let mut reader = Reader::from_str(&text);
    let mut found = None;
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) if start.local_name().as_ref() == element.as_bytes() => {
                found = Some(String::new());
            }
            Ok(Event::Text(text)) => {
                if let Some(found) = &mut found {
                    found.push_str(&text.decode().unwrap_or_default());
                }
            }
            Ok(Event::End(end)) if end.local_name().as_ref() == element.as_bytes() => {
                return found.unwrap_or_default();
            }
            Ok(Event::Eof) | Err(_) => return String::new(),
            Ok(_) => {}
        }
    }
}
