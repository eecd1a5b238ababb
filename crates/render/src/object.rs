//! What a render gives: objects, each with the place it came from.

use serde_json::Value;

/// Where an object was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Origin {
    /// Path from the artifact's root.
    pub path: String,
    /// 1-based line at which its document begins; 0 when none is known.
    pub line: usize,
}

/// One Kubernetes object as it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// A JSON object with `apiVersion`, `kind` and `metadata.name` (or `metadata.generateName`)
    /// as non-empty strings.
    pub value: Value,
    /// Where it was written.
    pub origin: Origin,
}

impl Object {
    /// `apiVersion` as written.
    pub fn api_version(&self) -> &str {
        self.value["apiVersion"].as_str().unwrap_or_default()
    }

    /// `kind` as written.
    pub fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    /// `metadata.name`, empty when absent.
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// `metadata.namespace`, empty when absent.
    pub fn namespace(&self) -> &str {
        self.value["metadata"]["namespace"].as_str().unwrap_or_default()
    }
}

/// Something a person should know although the render succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub origin: Origin,
    /// What.
    pub message: String,
}

/// All objects of a service in the order of their files, and what to tell about them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rendered {
    /// In path order, then in document order; no two with the same group, kind, namespace and name.
    pub objects: Vec<Object>,
    /// For example duplicates that were left out.
    pub warnings: Vec<Warning>,
}
