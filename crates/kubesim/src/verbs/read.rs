//! Get, list and the versions objects are shown in.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};

use super::Call;
use crate::convert;
use crate::selector::{Fields, Labels};
use crate::status::{ApiError, Cause};
use crate::store::{Store, key_of, text};

/// The object as the path's version writes it.
pub(crate) fn in_version(object: &Arc<Value>, call: Call<'_>) -> Arc<Value> {
    if call.res.versions.len() < 2 && !convert::is_shaped(call.res) {
        return object.clone();
    }
    let wanted = call.api_version();
    if text(object, "/apiVersion") == wanted {
        return object.clone();
    }
    let mut out = (**object).clone();
    convert::convert(call.res, &mut out, &wanted);
    if call.res.custom
        && let Some(schema) = &call.version.schema
    {
        crate::decode::custom(schema, &mut out);
        crate::decode::defaults(&schema.arena, schema.root, &mut out);
    }
    Arc::new(out)
}

/// One object.
///
/// # Errors
/// 404.
pub(crate) fn get(s: &Store, call: Call<'_>) -> Result<Arc<Value>, ApiError> {
    s.get(&call.res.table, call.namespace(), &call.info.name)
        .map(|o| in_version(o, call))
        .ok_or_else(|| ApiError::not_found(call.subject(&call.info.name)))
}

/// Which objects of a table a list or watch wants.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Label selector.
    pub labels: Labels,
    /// Field selector.
    pub fields: Fields,
}

impl Filter {
    /// Reads namespace and selectors of a request.
    ///
    /// # Errors
    /// 400 for a malformed selector.
    pub(crate) fn of(call: Call<'_>) -> Result<Self, ApiError> {
        let ns = call.namespace();
        let mut fields = call.info.param("fieldSelector").to_owned();
        if !call.info.name.is_empty() {
            // A watch of one object by its path.
            if !fields.is_empty() {
                fields.push(',');
            }
            fields.push_str("metadata.name=");
            fields.push_str(&call.info.name);
        }
        Ok(Self {
            namespace: (!ns.is_empty()).then(|| ns.to_owned()),
            labels: Labels::parse(call.info.param("labelSelector"))?,
            fields: Fields::parse(&fields, &call.res.table)?,
        })
    }

    /// True if the object is wanted.
    pub(crate) fn matches(&self, o: &Value) -> bool {
        self.namespace.as_deref().is_none_or(|n| text(o, "/metadata/namespace") == n)
            && self.labels.matches(o)
            && self.fields.matches(o)
    }
}

/// One page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Objects in the path's version.
    pub items: Vec<Arc<Value>>,
    /// Revision of the list.
    pub revision: u64,
    /// Token of the next page.
    pub next: Option<String>,
    /// Objects after this page, where that is known.
    pub remaining: Option<usize>,
}

fn encode_token(rv: u64, ns: &str, name: &str) -> String {
    let body = json!({"v": "meta.k8s.io/v1", "rv": rv, "ns": ns, "name": name}).to_string();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(body)
}

fn decode_token(token: &str) -> Option<(u64, String, String)> {
    let body = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).ok()?;
    let v: Value = serde_json::from_slice(&body).ok()?;
    Some((v.get("rv")?.as_u64()?, v.get("ns")?.as_str()?.to_owned(), v.get("name")?.as_str()?.to_owned()))
}

/// A list, or one page of it.
///
/// # Errors
/// 400 for bad parameters, 410 for a page or revision from before what is still known.
pub(crate) fn list(s: &Store, call: Call<'_>) -> Result<Page, ApiError> {
    let filter = Filter::of(call)?;
    let limit: usize = match call.info.param("limit") {
        "" => 0,
        n => n
            .parse()
            .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {n:?}: invalid syntax")))?,
    };
    let wanted = call.info.param("resourceVersion");
    let matching = call.info.param("resourceVersionMatch");
    let token = call.info.param("continue");
    if !matching.is_empty() && wanted.is_empty() {
        return Err(super::options_invalid(
            "ListOptions",
            vec![Cause::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )],
        ));
    }
    let ns = filter.namespace.as_deref();
    let (all, revision, after) = if token.is_empty() {
        match wanted {
            "" | "0" => (s.list(&call.res.table, ns), s.revision(), None),
            v => {
                let rv: u64 = v.parse().map_err(|_| {
                    ApiError::bad_request(format!(
                        "invalid resource version: resourceVersion: Invalid value: {v:?}: strconv.ParseUint: parsing {v:?}: \
                         invalid syntax"
                    ))
                })?;
                if rv > s.revision() {
                    let mut e = ApiError::new(
                        504,
                        "Timeout",
                        format!("Too large resource version: {rv}, current: {}", s.revision()),
                    );
                    e.details = Some(Box::default());
                    e.causes.push(Cause {
                        reason: "ResourceVersionTooLarge",
                        message: "Too large resource version".into(),
                        field: String::new(),
                    });
                    e.retry_after = Some(1);
                    return Err(e);
                }
                if matching == "Exact" {
                    let then = s.list_at(&call.res.table, ns, rv).ok_or_else(|| {
                        ApiError::expired(format!(
                            "The resourceVersion for the provided list is too old: {rv}"
                        ))
                    })?;
                    (then, rv, None)
                } else {
                    (s.list(&call.res.table, ns), s.revision(), None)
                }
            }
        }
    } else {
        if !wanted.is_empty() && wanted != "0" {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let (rv, ns0, name) = decode_token(token)
            .ok_or_else(|| ApiError::bad_request("continue key is not valid: illegal base64 or JSON"))?;
        // Revision 0 marks a token that was given out with a 410: whatever is there now.
        let rv = if rv == 0 { s.revision() } else { rv };
        let then = s.list_at(&call.res.table, ns, rv).ok_or_else(|| {
            let mut e = ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                 without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
                 results. Continuing with the provided token results in an inconsistent list - objects that were created, \
                 modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            );
            e.continue_token = Some(encode_token(0, &ns0, &name));
            e
        })?;
        (then, rv, Some((ns0, name)))
    };
    let mut items: Vec<Arc<Value>> = Vec::new();
    let mut rest = 0usize;
    let selective = !filter.labels.is_empty() || !filter.fields.is_empty();
    let mut next = None;
    for o in all {
        let key = key_of(&o);
        if let Some((ns0, name)) = &after
            && (&*key.0, &*key.1) <= (ns0.as_str(), name.as_str())
        {
            continue;
        }
        if !filter.matches(&o) {
            continue;
        }
        if limit > 0 && items.len() == limit {
            rest += 1;
            continue;
        }
        items.push(o);
    }
    if rest > 0
        && let Some(last) = items.last()
    {
        let key = key_of(last);
        next = Some(encode_token(revision, &key.0, &key.1));
    }
    let items = items.iter().map(|o| in_version(o, call)).collect();
    Ok(Page { items, revision, next, remaining: (rest > 0 && !selective).then_some(rest) })
}
