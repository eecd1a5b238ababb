//! The files that a service is made of.

use serde::{Deserialize, Serialize};

use crate::document::operations;

/// A file of a service's artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceFile {
    /// Path, as the repository names it.
    pub path: String,
    /// Bytes.
    pub size: Option<u64>,
    /// It is no text.
    pub binary: Option<bool>,
    /// It is too large for the answer.
    pub left_out: Option<bool>,
    /// What it holds, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

operations! {
    /// The files of a service's artifact, without what they hold.
    Query ListServiceFiles {
        /// The service's id.
        id: String,
    } => "serviceTarball": Vec<ServiceFile>,
    "query ListServiceFiles($id: ID!) {
  serviceTarball(id: $id) { path size binary leftOut }
}";

    /// One file of a service's artifact, or those below a folder.
    Query GetServiceFiles {
        /// The service's id.
        id: String,
        /// The path of the file, or of the folder.
        path: String,
    } => "serviceTarball": Vec<ServiceFile>,
    "query GetServiceFiles($id: ID!, $path: String) {
  serviceTarball(id: $id, path: $path) { path size binary leftOut content }
}";
}
