//! The API server, asked with the agent's own credentials in another's name.

use std::{fmt::Write as _, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{Either, Empty};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::client::ConfigExt as _;
use plural_tunnel::{
    proxy::{Asserted, Receiving, forwarded_request_headers, header_map},
    v1::ProxyOpen,
};
use tower::{BoxError, ServiceBuilder, ServiceExt as _, util::BoxCloneSyncService};

use super::answer::Refusal;

/// How long a connection to the API server may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Connections that are kept for the next request.
const IDLE: usize = 64;

type RequestBody = Either<Empty<Bytes>, Receiving>;

pub(super) struct Upstream {
    service: BoxCloneSyncService<Request<RequestBody>, Response<Incoming>, BoxError>,
}

/// How the API server answered.
pub(super) enum Answer {
    Response(Response<Incoming>),
    /// Both directions are raw bytes.
    Upgraded {
        response: Response<()>,
        upgraded: Upgraded,
        receiving: Receiving,
    },
}

impl Upstream {
    pub(super) fn new(config: &kube::Config) -> kube::Result<Self> {
        if config.proxy_url.is_some() {
            tracing::warn!("the kubeconfig's proxy-url is not used for proxied requests");
        }
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_keepalive(Some(Duration::from_mins(1)));
        // HTTP/1.1 only: a connection for each stream, which a slow reader has for itself, and which can be upgraded.
        let connector = config.rustls_https_connector_with_connector(connector)?;
        let client: Client<_, RequestBody> = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE)
            .pool_idle_timeout(Duration::from_mins(1))
            .build(connector);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .map_err(BoxError::from)
            .service(client);
        Ok(Self { service: BoxCloneSyncService::new(service.map_err(BoxError::from)) })
    }

    /// Asks. What the client said about who it is was stripped by the console, and is again here.
    pub(super) async fn send(
        &self,
        open: &ProxyOpen,
        asserted: &Asserted,
        receiving: Receiving,
    ) -> Result<Answer, Refusal> {
        let bad = |what: &str| {
            Refusal::new(StatusCode::BAD_REQUEST, format!("the request's {what} cannot be used"))
        };
        let method: Method = open.method.parse().map_err(|_| bad("method"))?;
        if !ACCEPTED.contains(&method) {
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not proxied")));
        }
        let uri: Uri = open.target.parse().map_err(|_| bad("path"))?;
        let told = header_map(open.headers.clone()).ok_or_else(|| bad("headers"))?;
        let mut headers = header_map(forwarded_request_headers(&told)).ok_or_else(|| bad("headers"))?;
        impersonate(&mut headers, asserted).ok_or_else(|| bad("identity"))?;
        let upgrades = !open.upgrade.is_empty();
        if upgrades {
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, open.upgrade.parse().map_err(|_| bad("upgrade"))?);
        }
        let (body, kept) = match (upgrades, open.end) {
            // The client's bytes are no body: they begin when the API server has agreed.
            (true, _) => (Either::Left(Empty::new()), Some(receiving)),
            (false, true) => (Either::Left(Empty::new()), None),
            (false, false) => (Either::Right(receiving), None),
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let response = self.service.clone().oneshot(request).await.map_err(|error| {
            tracing::warn!(error = %chain(&*error), "the API server did not answer a proxied request");
            Refusal::new(StatusCode::BAD_GATEWAY, "this cluster's API server does not answer its agent")
        })?;
        match kept {
            Some(receiving) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let mut response = response;
                let upgraded = hyper::upgrade::on(&mut response).await.map_err(|error| {
                    tracing::warn!(%error, "the API server agreed to another protocol and then did not speak it");
                    Refusal::new(StatusCode::BAD_GATEWAY, "this cluster's API server ended the connection")
                })?;
                Ok(Answer::Upgraded { response: response.map(drop), upgraded, receiving })
            }
            _ => Ok(Answer::Response(response)),
        }
    }
}

/// What is proxied.
const ACCEPTED: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Adds whom the request is to be answered as; `None` when a name cannot stand in a header.
fn impersonate(headers: &mut HeaderMap, asserted: &Asserted) -> Option<()> {
    let Asserted { user, uid, groups, extra } = asserted;
    headers.insert("impersonate-user", HeaderValue::from_str(user).ok()?);
    if !uid.is_empty() {
        headers.insert("impersonate-uid", HeaderValue::from_str(uid).ok()?);
    }
    for group in groups {
        headers.append("impersonate-group", HeaderValue::from_str(group).ok()?);
    }
    for (name, values) in extra {
        let mut escaped = String::from("impersonate-extra-");
        for byte in name.bytes() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => escaped.push(char::from(byte)),
                _ => write!(escaped, "%{byte:02x}").ok()?,
            }
        }
        let name = HeaderName::from_bytes(escaped.as_bytes()).ok()?;
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value).ok()?);
        }
    }
    Some(())
}

/// An error and what caused it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_person_in_headers() {
        let mut headers = HeaderMap::new();
        let ada = Asserted {
            user: "ada@example.com".into(),
            uid: "1".into(),
            groups: vec!["ops".into(), "on call".into()],
            extra: BTreeMap::from([("plural.sh/token".into(), vec!["2".into()])]),
        };
        impersonate(&mut headers, &ada).unwrap();
        let all = |name: &str| -> Vec<String> {
            headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(all("impersonate-user"), ["ada@example.com"]);
        assert_eq!(all("impersonate-uid"), ["1"]);
        assert_eq!(all("impersonate-group"), ["ops", "on call"]);
        assert_eq!(all("impersonate-extra-plural.sh%2ftoken"), ["2"]);
        let evil = Asserted { user: "ada\r\nimpersonate-group: x".into(), ..Asserted::default() };
        assert!(impersonate(&mut headers, &evil).is_none());
    }
}
