//! What one call needs to know, shared by all verbs.

pub(crate) mod delete;
pub(crate) mod read;
pub(crate) mod review;
pub(crate) mod subresource;
pub(crate) mod system;
pub(crate) mod write;

use std::sync::Arc;

use serde_json::Value;

use crate::auth::User;
use crate::request::RequestInfo;
use crate::resource::{Resource, Version};
use crate::status::{ApiError, Cause, Subject};

/// How unknown and duplicate fields are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped, with a warning header each.
    Warn,
    /// 400.
    Strict,
}

/// One authenticated and authorised call to a resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// The resource.
    pub res: &'a Arc<Resource>,
    /// The version in the path.
    pub version: &'a Version,
    /// The request.
    pub info: &'a RequestInfo,
    /// Who calls.
    pub user: &'a User,
    /// `User-Agent`, which names the field manager if nothing else does.
    pub agent: &'a str,
}

/// What a write did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The object (or a Status) to answer with.
    pub body: Arc<Value>,
    /// HTTP status.
    pub code: u16,
    /// Warning headers.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// 200 with an object.
    pub(crate) fn ok(body: Arc<Value>) -> Self {
        Self { body, code: 200, warnings: Vec::new() }
    }
}

impl<'a> Call<'a> {
    /// `group/version` of the path.
    pub(crate) fn api_version(&self) -> String {
        self.res.api_version(&self.version.name)
    }

    /// Namespace of the path; empty for cluster-scoped resources (the path of a namespace names itself).
    pub(crate) fn namespace(&self) -> &'a str {
        if self.res.namespaced { &self.info.namespace } else { "" }
    }

    /// The subject of errors that name the plural.
    pub(crate) fn subject<'b>(&'b self, name: &'b str) -> Subject<'b> {
        Subject { group: &self.res.group, kind: &self.res.plural, name }
    }

    /// The subject of errors that name the kind.
    pub(crate) fn kind_subject<'b>(&'b self, name: &'b str) -> Subject<'b> {
        Subject { group: &self.res.group, kind: &self.res.kind, name }
    }

    /// The field manager: as asked, else the first part of the user agent.
    pub(crate) fn manager(&self) -> String {
        let asked = self.info.param("fieldManager");
        if !asked.is_empty() {
            return asked.to_owned();
        }
        let agent = self.agent.split('/').next().unwrap_or_default();
        agent.chars().take(128).collect()
    }

    /// Whether nothing is to be stored.
    ///
    /// # Errors
    /// 422 for a value other than `All`.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, ApiError> {
        match self.info.param("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                Err(options_invalid(options, vec![Cause::not_supported("dryRun", &other.into(), &["All"])]))
            }
        }
    }

    /// The `fieldValidation` parameter.
    ///
    /// # Errors
    /// 422 for a value other than `Ignore`, `Warn`, `Strict`.
    pub(crate) fn validation(&self, options: &str) -> Result<FieldValidation, ApiError> {
        match self.info.param("fieldValidation") {
            "Ignore" => Ok(FieldValidation::Ignore),
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            other => Err(options_invalid(
                options,
                vec![Cause::not_supported("fieldValidation", &other.into(), &["Ignore", "Strict", "Warn"])],
            )),
        }
    }
}

/// 422 of request options.
pub(crate) fn options_invalid(kind: &str, causes: Vec<Cause>) -> ApiError {
    ApiError::invalid(Subject { group: "meta.k8s.io", kind, name: "" }, causes)
}

/// Now, as object times are written.
pub(crate) fn now() -> String {
    chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string()
}
