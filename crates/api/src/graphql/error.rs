//! From a use case's error to an entry of `errors`.

use std::sync::Arc;

use async_graphql::{Context, ErrorExtensions, ID, Name, ServerError, Value, parser::types::OperationType};
use plural_core::ids::RequestId;
use plural_core::{Error, ErrorCode, Result};

use super::request::{Request, request};

/// Turns errors into what the caller may read. The one place where they are logged.
pub(crate) trait IntoGraphql<T> {
    /// The value, or an error with `code`, `requestId` and, for a value at fault, `field`; for answers to the
    /// questions of a form also `answers`: of each question what is wrong.
    fn into_graphql(self, ctx: &Context<'_>) -> async_graphql::Result<T>;
}

impl<T> IntoGraphql<T> for Result<T> {
    fn into_graphql(self, ctx: &Context<'_>) -> async_graphql::Result<T> {
        self.map_err(|error| graphql_error(ctx, &error))
    }
}

/// Audits or logs an error and converts it. It is not generic: each resolver's type would compile a copy of it.
#[cold]
fn graphql_error(ctx: &Context<'_>, error: &Error) -> async_graphql::Error {
    let Request { app, op, .. } = request(ctx);
    let request_id = op.request_id();
    match error.code() {
        // What is read and not there is no news; what is to be changed and hidden may be an attempt.
        code @ ErrorCode::Forbidden => app.audit_refused(op, ctx.field().name(), code),
        code @ ErrorCode::NotFound if changes(ctx) => app.audit_refused(op, ctx.field().name(), code),
        ErrorCode::Internal => {
            tracing::error!(request.id = %request_id, error = error.log_text(), "request failed");
        }
        ErrorCode::Unavailable => {
            tracing::warn!(request.id = %request_id, error = error.log_text(), "request refused for now");
        }
        _ => {}
    }
    let public = public_error(error, request_id);
    if error.code() == ErrorCode::NotFound { gone(ctx, public) } else { public }
}

/// Marks the error of a field whose object was deleted after the query read it.
struct Gone;

/// The error of something that does not exist. It is marked as [`Gone`] if the query has read the object of the field: the field is below
/// another one and has no arguments that could name something else.
fn gone(ctx: &Context<'_>, mut error: async_graphql::Error) -> async_graphql::Error {
    let is_nested = ctx.path_node.is_some_and(|path| path.parent.is_some());
    if is_nested && !changes(ctx) && ctx.item.node.arguments.is_empty() {
        error.source = Some(Arc::new(Gone));
    }
    error
}

/// An error of a request that is not executed.
pub(crate) fn server_error(error: &Error, request_id: RequestId) -> ServerError {
    let async_graphql::Error { message, source, extensions } = public_error(error, request_id);
    ServerError { message, source, locations: Vec::new(), path: Vec::new(), extensions }
}

/// What the caller may read of an error.
fn public_error(error: &Error, request_id: RequestId) -> async_graphql::Error {
    let public = error.public(request_id);
    async_graphql::Error::new(public.message).extend_with(|_, extensions| {
        extensions.set("code", public.code.as_str());
        extensions.set("requestId", public.request_id.to_string());
        if let Some(field) = public.field {
            extensions.set("field", field);
        }
        if !public.answers.is_empty() {
            let answers = public.answers.into_iter().map(|(name, why)| (Name::new(name), Value::from(why)));
            extensions.set("answers", Value::Object(answers.collect()));
        }
    })
}

/// The operation is one that changes something.
fn changes(ctx: &Context<'_>) -> bool {
    ctx.query_env.operation.node.ty == OperationType::Mutation
}

/// A field that becomes null when it fails, with the error beside it. (A resolver that returns `Result`
/// would take its whole parent with it.)
pub(crate) type Nullable<T> = Option<async_graphql::Result<T>>;

/// The outcome of a resolver as a field that may be null. A part of an object that was deleted while the query ran is null without an
/// error: the rest of a list stays readable while its rows come and go.
pub(crate) async fn nullable<T>(
    resolve: impl Future<Output = async_graphql::Result<Option<T>>>,
) -> Nullable<T> {
    match resolve.await {
        Err(error) if error.source.as_ref().is_some_and(|source| source.is::<Gone>()) => None,
        found => found.transpose(),
    }
}

/// A value that was given under `field` and parses or is refused with the parser's words.
pub(crate) fn parse<T>(field: &'static str, text: &str) -> Result<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| Error::invalid(field, error.to_string()))
}

/// [`parse`] of something that may be absent.
pub(crate) fn parse_option<T>(field: &'static str, text: Option<&str>) -> Result<Option<T>>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.map(|text| parse(field, text)).transpose()
}

/// An id; text that is none names nothing that exists.
pub(crate) fn id<T>(text: &str) -> Result<T>
where
    T: std::str::FromStr<Err = plural_core::ids::IdError>,
{
    Ok(text.parse::<T>()?)
}

/// [`id`] of something that may be absent.
pub(crate) fn id_option<T>(text: Option<&String>) -> Result<Option<T>>
where
    T: std::str::FromStr<Err = plural_core::ids::IdError>,
{
    text.map(|text| id(text)).transpose()
}

/// [`id_option`] of the argument `field`, which an error names.
pub(crate) fn id_in<T>(field: &'static str, text: Option<&String>) -> Result<Option<T>>
where
    T: std::str::FromStr<Err = plural_core::ids::IdError>,
{
    id_option(text).map_err(|error| error.named_in(field))
}

/// Either one of two ways to name a thing.
pub(crate) fn exactly_one(names: &'static str) -> Error {
    Error::invalid("arguments", format!("give exactly one of {names}"))
}

/// What a thing is looked up by that has an id and a name.
pub(crate) fn id_or_name<I, S>(
    by_id: Option<ID>,
    by_name: Option<String>,
    of_id: fn(I) -> S,
    of_name: fn(String) -> S,
) -> Result<S>
where
    I: std::str::FromStr<Err = plural_core::ids::IdError>,
{
    match (by_id, by_name) {
        (Some(text), None) => id(&text).map(of_id),
        (None, Some(name)) => Ok(of_name(name)),
        _ => Err(exactly_one("id and name")),
    }
}

/// Refuses what clients of the original console may give and this one cannot honour, with the reason and the next step.
pub(crate) fn unsupported(field: &'static str, given: bool, why: &'static str) -> Result<()> {
    if given { Err(Error::invalid(field, why)) } else { Ok(()) }
}

/// A nullable list of nullable items, as the schema types its lists.
pub(crate) type List<T> = Option<Vec<Option<T>>>;

/// Items as a [`List`].
#[expect(clippy::unnecessary_wraps, reason = "a nullable list is what the schema says")]
pub(crate) fn list<T>(items: impl IntoIterator<Item = T>) -> List<T> {
    Some(items.into_iter().map(Some).collect())
}

/// The items of a [`List`] that was given, without nulls; `None` when it was absent.
pub(crate) fn items<T>(list: List<T>) -> Option<Vec<T>> {
    list.map(|items| items.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use async_graphql::{EmptySubscription, Object, Schema, value};

    use super::*;

    /// An object that was deleted while the query ran.
    struct Deleted;

    async fn missing(ctx: &Context<'_>, what: &str) -> Nullable<i32> {
        nullable(async { Err(gone(ctx, async_graphql::Error::new(format!("could not find {what}")))) }).await
    }

    #[Object]
    impl Deleted {
        async fn part(&self, ctx: &Context<'_>) -> Nullable<i32> {
            missing(ctx, "it").await
        }
        async fn named(&self, ctx: &Context<'_>, name: String) -> Nullable<i32> {
            missing(ctx, &name).await
        }
    }

    struct Roots;

    #[Object]
    impl Roots {
        async fn list(&self) -> Vec<Deleted> {
            vec![Deleted, Deleted]
        }
        async fn one(&self, ctx: &Context<'_>) -> Nullable<i32> {
            missing(ctx, "it").await
        }
    }

    struct Changes;

    #[Object]
    impl Changes {
        async fn change(&self) -> Deleted {
            Deleted
        }
    }

    #[tokio::test]
    async fn only_a_part_of_what_a_query_has_read_is_null_without_an_error() {
        let schema = Schema::new(Roots, Changes, EmptySubscription);
        let answer = schema.execute("{ list { part } }").await;
        assert_eq!(
            (answer.data, answer.errors),
            (value!({"list": [{"part": null}, {"part": null}]}), vec![])
        );
        for query in ["{ one }", "{ list { named(name: \"x\") } }", "mutation { change { part } }"] {
            assert!(!schema.execute(query).await.errors.is_empty(), "{query}");
        }
    }
}
