//! The template language of global services.

use plural_app::ports::templates::Templates;

/// Liquid as the renderer has it.
pub(crate) struct Liquid;

impl Templates for Liquid {
    fn expand(&self, text: &str, data: &serde_json::Value) -> Result<String, String> {
        plural_render::expand(text, data)
    }
}
