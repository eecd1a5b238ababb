//! What global services need of a template language.

/// Liquid, as it is in manifests: the same filters, the same limits.
pub trait Templates: Send + Sync + 'static {
    /// `text` with its tags and outputs replaced.
    ///
    /// # Errors
    /// What is wrong with it, for whoever wrote it.
    fn expand(&self, text: &str, data: &serde_json::Value) -> std::result::Result<String, String>;
}
