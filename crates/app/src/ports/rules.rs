//! What use cases need of an evaluator of rules.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::stack_policy_rules::{RuleFile, RuleFinding};

/// Evaluates rules in Rego.
#[async_trait]
pub trait Rules: Send + Sync + 'static {
    /// What one set of rules says of a plan, which is JSON; or why that cannot be said, in words for those who may read the plan's stack.
    /// Bounded in time, and off the threads that answer requests.
    ///
    /// # Errors
    /// `Unavailable` when too many plans are checked already.
    async fn check(
        &self,
        rules: Vec<RuleFile>,
        plan: String,
    ) -> Result<std::result::Result<Vec<RuleFinding>, String>>;
}
