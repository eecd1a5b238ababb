//! Reading nouns: the one port, and the use cases that find one, some or a page of them.
//!
//! A noun whose rows stand under policies, or belong to the installation, is read here. What reads otherwise has use cases of
//! its own and says why: [`crate::token`], [`crate::recording`], [`crate::helm_repository`].

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

use async_trait::async_trait;
use plural_core::access::{Actor, Scope, Visibility, visibility};
use plural_core::page::Keyed;
use plural_core::sort::{Place, Sort, SortColumn};
use plural_core::{Error, Page, PageArgs, PageRequest, Result};
use uuid::Uuid;

use crate::access::{Act, Authorized, Guarded, Noun, Read, authorize_each, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::store::Store;

/// A noun that is found by id or by name, and listed in pages.
pub trait Record: Noun + Keyed + Clone + Send + Sync + 'static {
    /// Its id.
    type Id: Copy + Debug + Eq + Hash + Into<Uuid> + Send + Sync + 'static;
    /// Names one of them.
    type Find: Debug + Send + Sync + 'static;
    /// Which of them a list shows.
    type Filter: Debug + Default + Send + Sync + 'static;
    /// What decides who may list them.
    const LISTED: Listed = Listed::ByPolicy;

    /// Its id.
    fn id(&self) -> Self::Id;
}

/// What decides who may list a noun.
#[derive(Debug)]
pub enum Listed {
    /// The policies that each of them stands under: a list shows those that the caller may read.
    ByPolicy,
    /// This scope: whoever may read it sees all of them.
    Under(Scope),
}

/// Which rows of a list: those with a text in what they are called by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// The text, in any case; an empty one is none.
    pub q: Option<String>,
}

/// Says how a noun is read; the noun has to be a [`Noun`].
///
/// `record!(Stack, StackId, StackSelector, Search);`, and with `, under: SCOPE` for one that stands under no policy.
macro_rules! record {
    ($type:ty, $id:ty, $find:ty, $filter:ty $(, under: $scope:expr)?) => {
        impl $crate::records::Record for $type {
            type Id = $id;
            type Find = $find;
            type Filter = $filter;
            $(const LISTED: $crate::records::Listed = $crate::records::Listed::Under($scope);)?

            fn id(&self) -> $id {
                self.id
            }
        }
    };
}
pub(crate) use record;

/// What is read of a noun.
#[async_trait]
pub trait Records<N: Record>: Send + Sync + 'static {
    /// One of them, guarded by what concerns `actor`; [`plural_core::Error::NotFound`] when there is none.
    async fn find(&self, actor: &Actor, by: &N::Find) -> Result<Guarded<N>>;
    /// Some of them, each guarded by what concerns `actor`, in no order. Ids that are not there are left out.
    async fn find_many(&self, actor: &Actor, ids: &[N::Id]) -> Result<Vec<Guarded<N>>>;
    /// A page of those that are visible.
    async fn list(&self, visible: &Visibility, filter: &N::Filter, page: &PageRequest) -> Result<Page<N>>;
}

/// A noun whose list may be in another order than that of its ids.
pub trait Sortable: Record {
    /// What it may be sorted by.
    type Column: SortColumn;
}

/// What is read of a noun in an order.
#[async_trait]
pub trait SortedRecords<N: Sortable>: Send + Sync + 'static {
    /// A page of those that are visible, in this order.
    async fn list_sorted(
        &self,
        visible: &Visibility,
        filter: &N::Filter,
        sort: &Sort<N::Column>,
        page: &PageRequest<Place>,
    ) -> Result<Page<N>>;
}

impl App {
    /// One thing, to do `A` to. There is no other way to a handle of one.
    pub(crate) async fn authorized<N: Record, A: Act>(
        &self,
        ctx: &OpCtx,
        by: &N::Find,
    ) -> Result<Authorized<N, A>>
    where
        dyn Store: Records<N>,
    {
        Records::<N>::find(&*self.store, ctx.actor(), by).await?.authorize(ctx)
    }

    /// Some things, to do `A` to; those that the caller may not are left out.
    pub(crate) async fn authorized_many<N: Record, A: Act>(
        &self,
        ctx: &OpCtx,
        ids: &[N::Id],
    ) -> Result<Vec<Authorized<N, A>>>
    where
        dyn Store: Records<N>,
    {
        authorize_each(ctx, Records::<N>::find_many(&*self.store, ctx.actor(), ids).await?)
    }

    /// One thing.
    pub async fn get<N: Record>(&self, ctx: &OpCtx, by: &N::Find) -> Result<N>
    where
        dyn Store: Records<N>,
    {
        Ok(self.authorized::<N, Read>(ctx, by).await?.into_inner())
    }

    /// Things by id; those that the caller may not see are left out.
    pub async fn get_many<N: Record>(&self, ctx: &OpCtx, ids: &[N::Id]) -> Result<HashMap<N::Id, N>>
    where
        dyn Store: Records<N>,
    {
        if let Listed::Under(scope) = N::LISTED {
            authorize_installation::<Read>(ctx, scope)?;
        }
        let found = self.authorized_many::<N, Read>(ctx, ids).await?;
        Ok(found.into_iter().map(|one| (one.id(), one.into_inner())).collect())
    }

    /// A page of the things that the caller may see.
    pub async fn list<N: Record>(&self, ctx: &OpCtx, filter: &N::Filter, page: &PageArgs) -> Result<Page<N>>
    where
        dyn Store: Records<N>,
    {
        Records::<N>::list(&*self.store, &listed::<N>(ctx)?, filter, &page.request()?).await
    }

    /// The same in an order that the caller chose.
    pub async fn list_sorted<N: Sortable>(
        &self,
        ctx: &OpCtx,
        filter: &N::Filter,
        sort: &Sort<N::Column>,
        page: &PageArgs,
    ) -> Result<Page<N>>
    where
        dyn Store: SortedRecords<N>,
    {
        let visible = listed::<N>(ctx)?;
        SortedRecords::<N>::list_sorted(&*self.store, &visible, filter, sort, &sort.request(page)?).await
    }
}

/// For whoever finds that something is gone, or is not shown to them, and has nothing to do then.
pub(crate) fn there<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What of a noun a list shows to the caller.
fn listed<N: Record>(ctx: &OpCtx) -> Result<Visibility> {
    match N::LISTED {
        Listed::ByPolicy => visibility(ctx.actor()),
        Listed::Under(scope) => {
            authorize_installation::<Read>(ctx, scope)?;
            Ok(Visibility::All)
        }
    }
}
