//! What every resolver reaches: the use cases, who asks, and what this request has looked up already.

use std::{collections::HashMap, future::Future, hash::Hash, sync::Arc};

use async_graphql::Context;
use plural_app::{App, OpCtx};
use plural_core::{ClusterId, Error, GroupId, ProjectId, RepositoryId, Result, UserId};
use tokio::sync::{Mutex, OnceCell};

/// One request.
pub(crate) struct Request {
    pub(crate) app: Arc<App>,
    pub(crate) op: OpCtx,
    /// The console's address as others reach it.
    pub(crate) public_url: Option<String>,
    /// A page of services of one cluster asks for that cluster once.
    pub(crate) clusters: Memo<ClusterId, plural_core::Cluster>,
    pub(crate) projects: Memo<ProjectId, plural_core::Project>,
    pub(crate) repositories: Memo<RepositoryId, plural_core::Repository>,
    pub(crate) users: Memo<UserId, plural_core::User>,
    pub(crate) groups: Memo<GroupId, plural_core::Group>,
}

impl Request {
    pub(crate) fn new(app: Arc<App>, op: OpCtx, public_url: Option<String>) -> Self {
        Self {
            app,
            op,
            public_url,
            clusters: Memo::default(),
            projects: Memo::default(),
            repositories: Memo::default(),
            users: Memo::default(),
            groups: Memo::default(),
        }
    }
}

/// What was looked up in this request; `None` when the caller may not see it. Lives as long as the request,
/// whose size bounds it.
pub(crate) struct Memo<K, V> {
    cells: Mutex<HashMap<K, Arc<OnceCell<Option<V>>>>>,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self { cells: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Clone> Memo<K, V> {
    /// The value of `key`; `None` when it does not exist for the caller.
    pub(crate) async fn get<F: Future<Output = Result<V>>>(
        &self,
        key: K,
        look_up: impl FnOnce() -> F,
    ) -> Result<Option<V>> {
        let cell = Arc::clone(self.cells.lock().await.entry(key).or_default());
        let value = cell
            .get_or_try_init(async || match look_up().await {
                Ok(value) => Ok(Some(value)),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            })
            .await?;
        Ok(value.clone())
    }
}

/// The request of a resolver.
pub(crate) fn request<'a>(ctx: &Context<'a>) -> &'a Request {
    ctx.data_unchecked::<Request>()
}
