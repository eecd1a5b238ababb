//! Whether the schema serves a document.

use std::sync::{Arc, LazyLock};

use async_graphql::{
    Request, Response, Value, Variables,
    extensions::{Extension, ExtensionContext, ExtensionFactory, NextExecute},
};

use super::Schema;
use crate::document::{Rejection, Sender, read};

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

/// Parses and validates a document, limits included; executes nothing.
pub(crate) async fn validate(document: &str) -> Result<(), Vec<String>> {
    let variables = Variables::default();
    let document = read(document, &variables, Sender::Known).map_err(|rejection| match rejection {
        Rejection::Unauthenticated | Rejection::NotForIt => vec!["unauthenticated".to_owned()],
        Rejection::TooLong(told) | Rejection::Limit(told) => vec![told],
        Rejection::Syntax(error) => vec![error.message],
        Rejection::Invalid(error) => vec![error.to_string()],
    })?;
    let mut request = Request::new("");
    request.set_parsed_query(document);
    validate_request(request).await
}

/// Validates a request that was read; executes nothing.
pub(crate) async fn validate_request(request: Request) -> Result<(), Vec<String>> {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| super::builder().extension(ValidateOnly).finish());
    let response = SCHEMA.execute(request).await;
    if response.errors.is_empty() {
        Ok(())
    } else {
        Err(response.errors.into_iter().map(|error| error.message).collect())
    }
}
