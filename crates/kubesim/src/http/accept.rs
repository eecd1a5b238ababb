//! Content negotiation: what a client wants to read.

use crate::request::RequestInfo;
use crate::status::ApiError;
use crate::table::Include;

/// Form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The objects themselves.
    Object,
    /// Only their metadata.
    Partial,
    /// Rows for printing.
    Table,
}

/// What a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    /// Form.
    pub shape: Shape,
    /// YAML instead of JSON.
    pub yaml: bool,
    /// Aggregated discovery.
    pub aggregated: bool,
    /// What table rows carry.
    pub include: Include,
}

impl Accept {
    /// Reads the `Accept` header: the first entry that can be served wins.
    ///
    /// # Errors
    /// 406 if none can be.
    pub(crate) fn parse(header: &str, info: &RequestInfo) -> Result<Self, ApiError> {
        let include = match info.param("includeObject") {
            "Object" => Include::Object,
            "None" => Include::None,
            _ => Include::Metadata,
        };
        let plain = Self { shape: Shape::Object, yaml: false, aggregated: false, include };
        if header.trim().is_empty() {
            return Ok(plain);
        }
        for entry in header.split(',') {
            let mut parts = entry.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let yaml = media == "application/yaml";
            if !yaml
                && !matches!(media, "application/json" | "*/*" | "application/*" | "text/plain" | "text/*")
            {
                continue;
            }
            let mut out = Self { yaml, ..plain };
            let (mut group, mut kind) = ("", "");
            for p in parts {
                match p.split_once('=') {
                    Some(("as", v)) => kind = v,
                    Some(("g", v)) => group = v,
                    _ => {}
                }
            }
            match (group, kind) {
                (_, "") => {}
                ("meta.k8s.io", "Table") => out.shape = Shape::Table,
                ("meta.k8s.io", "PartialObjectMetadata" | "PartialObjectMetadataList") => {
                    out.shape = Shape::Partial;
                }
                ("apidiscovery.k8s.io", "APIGroupDiscoveryList") => out.aggregated = true,
                _ => continue,
            }
            return Ok(out);
        }
        Err(ApiError::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml",
        ))
    }
}
