//! Contexts: named documents that the templates of services read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    document::operations,
    page::Connection,
    project::ProjectRef,
    service::ConfigAttributes,
    shared::{Id, list},
};

/// A named document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceContext {
    /// Opaque id.
    pub id: String,
    /// Templates read it as `contexts.NAME`.
    pub name: String,
    /// The document, without secret values.
    #[serde(default)]
    pub configuration: Option<Map<String, Value>>,
    /// Names of its secret values.
    #[serde(default, deserialize_with = "list")]
    pub secret_names: Vec<String>,
    /// Where it belongs.
    #[serde(default)]
    pub project: Option<ProjectRef>,
}

/// The name of a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceContextRef {
    /// Templates read it as `contexts.NAME`.
    pub name: String,
}

/// What a context is given; what is absent stays.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceContextAttributes {
    /// Where a new one belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The whole document, as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// All secret values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Vec<ConfigAttributes>>,
}

/// A context to use.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextBindingAttributes {
    /// Its id.
    pub context_id: String,
}

macro_rules! context_fields {
    () => {
        "fragment ContextFields on ServiceContext {
  id name configuration secretNames project { id name }
}"
    };
}

operations! {
    /// The contexts that the caller may see, by pages.
    Query ListServiceContexts {
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
    } => "serviceContexts": Connection<ServiceContext>,
    concat!("query ListServiceContexts($after: String, $first: Int) {
  serviceContexts(after: $after, first: $first) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...ContextFields } }
  }
}
", context_fields!());

    /// One context.
    Query GetServiceContext {
        /// Its name.
        name: String,
    } => "serviceContext": ServiceContext,
    concat!("query GetServiceContext($name: String!) {
  serviceContext(name: $name) { ...ContextFields }
}
", context_fields!());

    /// Makes or changes a context.
    Mutation SaveServiceContext {
        /// Its name.
        name: String,
        /// What it is given.
        attributes: ServiceContextAttributes,
    } => "saveServiceContext": ServiceContext,
    concat!("mutation SaveServiceContext($name: String!, $attributes: ServiceContextAttributes!) {
  saveServiceContext(name: $name, attributes: $attributes) { ...ContextFields }
}
", context_fields!());

    /// Removes a context.
    Mutation DeleteServiceContext {
        /// Its id.
        id: String,
    } => "deleteServiceContext": Id,
    "mutation DeleteServiceContext($id: ID!) {
  deleteServiceContext(id: $id) { id }
}";
}
