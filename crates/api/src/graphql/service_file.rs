//! The files that a service is made of.

use async_graphql::{Context, ID, Object, SimpleObject};
use plural_app::service::ServiceSelector;
use plural_core::service_file::FileContent;

use super::{
    error::{IntoGraphql, Nullable, id, list, nullable},
    preview::turn,
    request::request,
};

/// A file of a service's artifact.
#[derive(SimpleObject)]
pub(crate) struct ServiceFile {
    /// Path, as the repository names it.
    path: String,
    /// What it holds; empty where it is binary or left out.
    content: String,
    /// Bytes.
    size: Option<u64>,
    /// It is no text.
    binary: Option<bool>,
    /// It is too large for this answer: ask for its path alone.
    left_out: Option<bool>,
}

impl From<plural_core::service_file::ServiceFile> for ServiceFile {
    fn from(file: plural_core::service_file::ServiceFile) -> Self {
        let plural_core::service_file::ServiceFile { path, size, content } = file;
        let (binary, left_out) = (content == FileContent::Binary, content == FileContent::LeftOut);
        let content = match content {
            FileContent::Text(text) => text,
            FileContent::Binary | FileContent::LeftOut => String::new(),
        };
        Self { path, content, size: Some(size), binary: Some(binary), left_out: Some(left_out) }
    }
}

/// Files of services.
#[derive(Default)]
pub(crate) struct ServiceFileQuery;

/// Files of services.
#[Object]
impl ServiceFileQuery {
    /// The files of a service's current artifact, in the order of their paths, at most 2000; for those who may change the service.
    /// Configuration, values and contexts are no part of it.
    async fn service_tarball(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
        #[graphql(desc = "Only this file, or the files below this folder.")] path: Option<String>,
    ) -> Nullable<Vec<Option<ServiceFile>>> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let _turn = turn(ctx).await.into_graphql(ctx)?;
            let found =
                request.app.service_files(&request.op, &selector, path.as_deref()).await.into_graphql(ctx)?;
            Ok(list(found.into_iter().map(Into::into)))
        })
        .await
    }
}
