//! What use cases need of the outside besides the parts of a store, which stand beside their use cases. Adapters implement
//! these; `console` joins them.

pub mod agents;
pub mod blobs;
pub mod charts;
pub mod git;
pub mod git_host_pulls;
pub mod git_hosts;
pub mod governances;
pub mod identity;
pub mod key_encryption;
pub mod previews;
pub mod rules;
pub mod scaffolds;
pub mod secret_backend;
pub mod templates;
