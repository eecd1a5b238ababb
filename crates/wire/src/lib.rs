//! What the console says over GraphQL, as its clients read it: shapes, error codes, documents and
//! a typed client.
//!
//! A document is a struct: its fields are the variables, [`Operation::Data`] is what its one root
//! field answers. `client.send(&GetCluster { id, handle })` is the whole call. Documents are in `documents/`, a file for
//! each noun; `cargo xtask gen` makes the structs from them and from the schema.
//!
//! # Guarantees
//! - A token is a [`secrecy::SecretString`] from the moment it is read; no error, log line or
//!   `Debug` output of this crate holds one.
//! - A call is repeated only when repeating it cannot do anything twice.

mod access_token;
mod attributes;
mod client;
mod document;
mod error;
mod error_code;
#[rustfmt::skip]
#[expect(missing_docs, reason = "the schema describes few arguments, and variables are called as these")]
mod generated;
mod links;
mod object_ref;
mod page;
mod rendering;
mod secret;
mod shared;
mod untyped;

pub use attributes::{
    GlobalServiceAttributes, ManagedNamespaceAttributes, StackAttributes, StackDefinitionAttributes,
};
pub use client::{
    Client, ClientOptions, Download, ProgramLogin, ProgramLoginState, ProgramPage, ProxyOptions,
    without_userinfo,
};
pub use document::{Operation, OperationKind};
pub use error::{ClientError, GraphQlError};
pub use error_code::ErrorCode;
pub use generated::*;
pub use links::LinksAttributes;
pub use object_ref::ObjectRef;
pub use page::{Connection, Edge, PAGE_SIZE, PageInfo, all_pages};
pub use plural_specs::{
    Change, DiffNormalizer, DiffNormalizerPatch, Document, Fault, Json, NamespaceMetadata,
    NamespaceMetadataPatch, Seconds, SyncConfig, SyncConfigPatch, SyncPolicy, SyncPolicyPatch,
};
pub use rendering::{
    HelmConfigAttributes, HelmMinimalAttributes, HelmValue, HelmVerify, KustomizeAttributes,
    RendererAttributes, RenderingAttributes, ServiceSourceAttributes, SourceGit,
};
pub use secret::Secret;
pub use shared::{Id, Tag};
pub use untyped::*;
