//! Nouns that are read alike: named one by one, asked for by the rows of a list, and listed.

use async_graphql::{Context, Result};
use plural_app::Store;
use plural_app::records::{Record, Records, Sortable, SortedRecords};
use plural_core::sort::Sort;
use plural_core::{Page, PageArgs};

use super::{
    error::{IntoGraphql, Nullable},
    request::request,
};

/// The one that a query names.
pub(crate) async fn one<N, T>(ctx: &Context<'_>, by: plural_core::Result<N::Find>) -> Nullable<T>
where
    N: Record,
    T: From<N>,
    dyn Store: Records<N>,
{
    let request = request(ctx);
    let found = async { request.app.get::<N>(&request.op, &by?).await }.await;
    found.into_graphql(ctx).map(|found| Some(found.into())).transpose()
}

/// The page that a query asks for.
pub(crate) async fn page_of<N, C>(
    ctx: &Context<'_>,
    filter: plural_core::Result<N::Filter>,
    page: PageArgs,
) -> Nullable<C>
where
    N: Record,
    C: From<Page<N>>,
    dyn Store: Records<N>,
{
    let request = request(ctx);
    let found = async { request.app.list::<N>(&request.op, &filter?, &page).await }.await;
    found.into_graphql(ctx).map(|found| Some(found.into())).transpose()
}

/// The page that a query asks for in an order.
pub(crate) async fn page_in<N, C>(
    ctx: &Context<'_>,
    filter: plural_core::Result<N::Filter>,
    sort: &Sort<N::Column>,
    page: PageArgs,
) -> Nullable<C>
where
    N: Sortable,
    C: From<Page<N>>,
    dyn Store: SortedRecords<N>,
{
    let request = request(ctx);
    let found = async { request.app.list_sorted::<N>(&request.op, &filter?, sort, &page).await }.await;
    found.into_graphql(ctx).map(|found| Some(found.into())).transpose()
}

/// The one of this id, looked up together with those that other rows ask for; `None` when the caller may not see it, or there is no id.
pub(crate) async fn by_id<N, T>(ctx: &Context<'_>, id: impl Into<Option<N::Id>>) -> Result<Option<T>>
where
    N: Record,
    T: From<N>,
    dyn Store: Records<N>,
{
    let Some(id) = id.into() else { return Ok(None) };
    let request = request(ctx);
    let look_up = async |ids: Vec<_>| request.app.get_many::<N>(&request.op, &ids).await.into_graphql(ctx);
    Ok(request.batch::<N>().get(id, look_up).await?.map(T::from))
}
