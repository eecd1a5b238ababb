//! Failures as the API reports them: a `Status` body with reason, details and causes.

use serde_json::{Map, Value, json};

/// One cause inside `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Machine word, e.g. `FieldValueInvalid`.
    pub reason: &'static str,
    /// Words for a person.
    pub message: String,
    /// Path of the field, in the notation of the check that failed.
    pub field: String,
}

impl Cause {
    /// A required value that is missing.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    /// A value that breaks a rule. `value` is shown as JSON.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value}: {detail}"),
            field: field.into(),
        }
    }

    /// A value of the wrong JSON type.
    pub(crate) fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self {
            reason: "FieldValueTypeInvalid",
            message: format!("Invalid value: {value}: {detail}"),
            field: field.into(),
        }
    }

    /// A value that is not one of those allowed.
    pub(crate) fn not_supported(field: impl Into<String>, value: &Value, allowed: &[&str]) -> Self {
        let list = allowed.iter().map(|a| format!("\"{a}\"")).collect::<Vec<_>>().join(", ");
        Self {
            reason: "FieldValueNotSupported",
            message: format!("Unsupported value: {value}: supported values: {list}"),
            field: field.into(),
        }
    }

    /// A field that may not be set (now).
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden", message: format!("Forbidden: {detail}"), field: field.into() }
    }

    /// The same value twice in a set.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {value}"),
            field: field.into(),
        }
    }

    /// A list or text that is too long.
    pub(crate) fn too_long(field: impl Into<String>, detail: &str) -> Self {
        Self { reason: "FieldValueTooLong", message: format!("Too long: {detail}"), field: field.into() }
    }
}

/// A failure with everything its `Status` body needs.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    /// HTTP status.
    pub code: u16,
    /// Machine word, empty where the real server sends none.
    pub reason: &'static str,
    /// Words for a person.
    pub message: String,
    /// `details` without causes.
    pub details: Option<Box<Map<String, Value>>>,
    /// `details.causes`.
    pub causes: Vec<Cause>,
    /// `metadata.continue`, sent with an expired continue token.
    pub continue_token: Option<String>,
    /// Seconds for a `Retry-After` header.
    pub retry_after: Option<u32>,
}

/// What an error speaks of: `deployments.apps "web"`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Plural resource, or kind, as the particular error wants it.
    pub kind: &'a str,
    /// Object name; may be empty.
    pub name: &'a str,
}

impl Subject<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.to_owned() } else { format!("{}.{}", self.kind, self.group) }
    }

    fn details(&self) -> Map<String, Value> {
        let mut d = Map::new();
        if !self.name.is_empty() {
            d.insert("name".into(), self.name.into());
        }
        if !self.group.is_empty() {
            d.insert("group".into(), self.group.into());
        }
        d.insert("kind".into(), self.kind.into());
        d
    }
}

impl ApiError {
    /// A failure with no details.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            causes: Vec::new(),
            continue_token: None,
            retry_after: None,
        }
    }

    fn about(code: u16, reason: &'static str, s: Subject<'_>, message: String) -> Self {
        let mut e = Self::new(code, reason, message);
        e.details = Some(Box::new(s.details()));
        e
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 500 without a reason, as unclassified failures are reported.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 404 of an object.
    pub(crate) fn not_found(s: Subject<'_>) -> Self {
        let m = format!("{} \"{}\" not found", s.qualified(), s.name);
        Self::about(404, "NotFound", s, m)
    }

    /// 404 of a route that the server knows nothing of.
    pub(crate) fn no_route() -> Self {
        let mut e = Self::new(404, "NotFound", "the server could not find the requested resource");
        e.details = Some(Box::default());
        e
    }

    /// 409 on create.
    pub(crate) fn already_exists(s: Subject<'_>) -> Self {
        let m = format!("{} \"{}\" already exists", s.qualified(), s.name);
        Self::about(409, "AlreadyExists", s, m)
    }

    /// 409 of optimistic concurrency and preconditions.
    pub(crate) fn conflict(s: Subject<'_>, why: &str) -> Self {
        let m = format!("Operation cannot be fulfilled on {} \"{}\": {why}", s.qualified(), s.name);
        Self::about(409, "Conflict", s, m)
    }

    /// 403.
    pub(crate) fn forbidden(s: Subject<'_>, why: &str) -> Self {
        let q = s.qualified();
        let m = if s.name.is_empty() {
            format!("{q} is forbidden: {why}")
        } else {
            format!("{q} \"{}\" is forbidden: {why}", s.name)
        };
        Self::about(403, "Forbidden", s, m)
    }

    /// 422 with causes; `s.kind` is the kind, not the plural.
    pub(crate) fn invalid(s: Subject<'_>, causes: Vec<Cause>) -> Self {
        let text: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let text = if let [one] = text.as_slice() { one.clone() } else { format!("[{}]", text.join(", ")) };
        let m = format!("{} \"{}\" is invalid: {text}", s.qualified(), s.name);
        let mut e = Self::about(422, "Invalid", s, m);
        e.causes = causes;
        e
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        let mut e = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        e.details = Some(Box::default());
        e
    }

    /// 410 of a watch or list that starts before what is still known.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 415.
    pub(crate) fn unsupported_media(message: impl Into<String>) -> Self {
        let mut e = Self::new(415, "UnsupportedMediaType", message);
        e.details = Some(Box::default());
        e
    }

    /// 429 with `Retry-After`.
    pub(crate) fn too_many_requests(retry_after: u32, message: impl Into<String>) -> Self {
        let mut e = Self::new(429, "TooManyRequests", message);
        e.retry_after = Some(retry_after);
        e
    }

    /// 401.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The body.
    pub(crate) fn body(&self) -> Value {
        let mut meta = Map::new();
        if let Some(c) = &self.continue_token {
            meta.insert("continue".into(), c.clone().into());
        }
        let mut out = Map::new();
        out.insert("kind".into(), "Status".into());
        out.insert("apiVersion".into(), "v1".into());
        out.insert("metadata".into(), meta.into());
        out.insert("status".into(), "Failure".into());
        out.insert("message".into(), self.message.clone().into());
        if !self.reason.is_empty() {
            out.insert("reason".into(), self.reason.into());
        }
        let mut details = self.details.clone();
        if !self.causes.is_empty() {
            let causes: Vec<Value> = self
                .causes
                .iter()
                .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
                .collect();
            details.get_or_insert_default().insert("causes".into(), causes.into());
        }
        if let Some(s) = self.retry_after {
            details.get_or_insert_default().insert("retryAfterSeconds".into(), s.into());
        }
        if let Some(d) = details {
            out.insert("details".into(), Value::Object(*d));
        }
        out.insert("code".into(), self.code.into());
        out.into()
    }
}
