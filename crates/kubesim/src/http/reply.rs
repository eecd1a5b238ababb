//! Answers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::accept::{Accept, Shape};
use crate::status::ApiError;
use crate::table;
use crate::verbs::Call;
use crate::verbs::read::Page;

/// Body of every answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A whole body.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// A body that goes on.
pub(crate) fn streaming(s: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(s.map(|b| Ok(Frame::data(b)))).boxed_unsync()
}

/// An answer of a content type.
pub(crate) fn respond(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut r = Response::new(body);
    *r.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    r.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    r.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    r
}

/// A value as JSON or YAML.
pub(crate) fn value<T: Serialize>(code: u16, accept: Accept, v: &T) -> Response<Body> {
    if accept.yaml
        && let Ok(text) = serde_saphyr::to_string(v)
    {
        return respond(code, "application/yaml", full(text));
    }
    respond(code, "application/json", full(serde_json::to_vec(v).unwrap_or_default()))
}

/// A failure.
pub(crate) fn error(e: &ApiError) -> Response<Body> {
    let mut r = respond(e.code, "application/json", full(e.body().to_string()));
    if let Some(s) = e.retry_after {
        r.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(s));
    }
    r
}

/// Adds `Warning` headers.
pub(crate) fn warn(r: &mut Response<Body>, warnings: &[String]) {
    for w in warnings {
        let text: String =
            w.replace('\\', "\\\\").replace('"', "\\\"").chars().filter(|c| !c.is_control()).collect();
        if let Ok(v) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            r.headers_mut().append(header::WARNING, v);
        }
    }
}

/// One object in the form the client wants.
pub(crate) fn object(code: u16, accept: Accept, call: Call<'_>, o: &Arc<Value>) -> Response<Body> {
    if o.get("kind").and_then(Value::as_str) == Some("Status") {
        return value(code, accept, &**o);
    }
    match accept.shape {
        Shape::Object => value(code, accept, &**o),
        Shape::Partial => value(code, accept, &table::partial(o)),
        Shape::Table => {
            let meta = json!({"resourceVersion": o["metadata"]["resourceVersion"]});
            value(code, accept, &table::table(call, &[table::row(call, o, accept.include)], &meta, true))
        }
    }
}

/// An item of a list of a built-in kind, which goes without apiVersion and kind.
struct Item<'a>(&'a Value, bool);

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Some(o) = self.0.as_object().filter(|_| !self.1) else { return self.0.serialize(s) };
        let mut m = s.serialize_map(None)?;
        for (k, v) in o.iter().filter(|(k, _)| *k != "kind" && *k != "apiVersion") {
            m.serialize_entry(k, v)?;
        }
        m.end()
    }
}

struct Items<'a>(&'a [Arc<Value>], bool);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(Some(self.0.len()))?;
        for o in self.0 {
            seq.serialize_element(&Item(o, self.1))?;
        }
        seq.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Value,
    items: Items<'a>,
}

/// A page in the form the client wants.
pub(crate) fn page(accept: Accept, call: Call<'_>, p: &Page) -> Response<Body> {
    let mut meta = json!({"resourceVersion": p.revision.to_string()});
    if let Some(next) = &p.next {
        meta["continue"] = next.clone().into();
    }
    if let Some(n) = p.remaining {
        meta["remainingItemCount"] = n.into();
    }
    match accept.shape {
        Shape::Object => {
            let api_version = call.api_version();
            let list = List {
                kind: &call.res.list_kind,
                api_version: &api_version,
                metadata: meta,
                items: Items(&p.items, call.res.custom),
            };
            value(200, accept, &list)
        }
        Shape::Partial => {
            let items: Vec<Value> = p.items.iter().map(|o| table::partial(o)).collect();
            value(
                200,
                accept,
                &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items}),
            )
        }
        Shape::Table => {
            let rows: Vec<Value> = p.items.iter().map(|o| table::row(call, o, accept.include)).collect();
            value(200, accept, &table::table(call, &rows, &meta, true))
        }
    }
}
