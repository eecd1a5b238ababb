//! Whether the schema serves a document.

use std::sync::Arc;

use async_graphql::{
    Request, Response, Value,
    extensions::{Extension, ExtensionContext, ExtensionFactory, NextExecute},
};

/// Stops a request after validation.
struct ValidateOnly;

impl ExtensionFactory for ValidateOnly {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_graphql::async_trait::async_trait]
impl Extension for ValidateOnly {
    async fn execute(
        &self,
        _ctx: &ExtensionContext<'_>,
        _operation_name: Option<&str>,
        _next: NextExecute<'_>,
    ) -> Response {
        Response::new(Value::Null)
    }
}

/// Parses and validates a document with one operation, limits included; executes nothing.
pub(crate) async fn validate(document: &str) -> Result<(), Vec<String>> {
    let response = super::builder().extension(ValidateOnly).finish().execute(Request::new(document)).await;
    if response.errors.is_empty() {
        Ok(())
    } else {
        Err(response.errors.into_iter().map(|error| error.message).collect())
    }
}
