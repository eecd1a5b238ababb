//! Settings documents: one definition for the database, the API, the command line, files and agents.
//!
//! `document!` makes three types of one definition: the document, its patch (a GraphQL input object with the feature
//! `graphql`) and, with that feature, the GraphQL object that shows it.
//!
//! # Guarantees
//! - The JSON of a document is the same everywhere. Unknown keys are ignored where a document is read (an older release
//!   reads a newer setting) and refused in a patch (a person mistyped one).
//! - A setting never changes its type, in stored documents and on the way to agents alike: what cannot be read under a known
//!   key is an error. What has to be another becomes a new setting.
//! - [`Document::patched`] is the only way to change a document in part: a patch names what changes, and nothing else
//!   moves. Patches of different settings commute.
//! - No clocks, no IO, and no decision that needs anything but the document itself.

mod change;
mod document;
mod fault;
#[cfg(feature = "graphql")]
mod graphql;
pub mod name;
mod nul;
mod service_account;
mod sync_config;
mod value;

pub use change::Change;
#[cfg(feature = "graphql")]
pub use document::Shown;
pub use document::{Document, Edit};
pub use fault::{Fault, Result};
#[cfg(feature = "graphql")]
pub use graphql::Map;
pub use name::{Email, Handle, KubeName, Name, NameError};
pub use nul::{HOLDS_NUL, has_nul, json_has_nul, without_nul};
pub use service_account::ServiceAccount;
pub use sync_config::{
    DiffNormalizer, DiffNormalizerPatch, NamespaceMetadata, NamespaceMetadataPatch, SyncConfig,
    SyncConfigPatch, SyncPolicy, SyncPolicyPatch,
};
#[cfg(feature = "graphql")]
pub use sync_config::{DiffNormalizerObject, NamespaceMetadataObject, SyncConfigObject, SyncPolicyObject};
pub use value::{Json, Seconds};
