//! Tags of a stack, as options.

use clap::Args;
use serde_json::{Value, json};

use crate::{key::parse_pair, stack_given::Given};

/// By what a stack is grouped and found
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StackTagsArgs {
    /// Tag by which it is grouped and found; may be given several times. Replaces all earlier tags
    #[arg(long = "tag", value_parser = parse_pair, value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<(String, String)>,

    /// Remove all tags
    #[arg(long, conflicts_with = "tags")]
    pub(crate) tag_none: bool,
}

impl StackTagsArgs {
    /// What is given, as the API names it.
    pub(crate) fn put(self, given: &mut Given) {
        let Self { tags, tag_none } = self;
        if tag_none || !tags.is_empty() {
            let tags = tags.into_iter().map(|(name, value)| json!({"name": name, "value": value}));
            given.put("tags", Some(tags.collect::<Value>()));
        }
    }
}
