//! Saved views.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::saved_view::SavedViewFilter;
use plural_core::policy::Role;
use plural_core::saved_view::{NewSavedView, SavedViewChange};

use super::{
    binding::{PolicyBinding, bindings_of},
    error::{IntoGraphql, List, Nullable, id, nullable, parse, parse_option},
    page::{connection, page_args},
    record::{by_id, one, page_of},
    request::request,
    shared::{PolicyBindingAttributes, RbacAttributes},
    user::User,
};

/// A page of the web console with its filters, under a name.
pub(crate) struct SavedView(plural_core::saved_view::SavedView);

impl From<plural_core::saved_view::SavedView> for SavedView {
    fn from(view: plural_core::saved_view::SavedView) -> Self {
        Self(view)
    }
}

connection!(SavedViewConnection, SavedViewEdge, SavedView);

/// A page of the web console with its filters, under a name.
#[Object]
impl SavedView {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique among the owner's views of the page.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// The page, as its address names it.
    async fn page(&self) -> &str {
        self.0.page.as_str()
    }

    /// The query of the page's address, without `?`.
    async fn query(&self) -> &str {
        &self.0.query
    }

    /// Who made it.
    async fn owner(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.owner_id)).await
    }

    /// Who may read it.
    async fn read_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Read)).await
    }

    /// Who may change it.
    async fn write_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Write)).await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// What a new view is made from.
#[derive(Debug, InputObject)]
pub(crate) struct SavedViewAttributes {
    /// Unique among your views of the page.
    name: String,
    /// The page, as its address names it: lower-case letters, digits and `-`.
    page: String,
    /// The query of the page's address, without `?`: one line of at most 4096 bytes.
    query: String,
    /// Who may read it.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it.
    write_bindings: List<PolicyBindingAttributes>,
}

/// What changes of a view; what is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct SavedViewUpdateAttributes {
    /// A new name.
    name: Option<String>,
    /// Another query.
    query: Option<String>,
    /// Who may read it; replaces the list.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it; replaces the list.
    write_bindings: List<PolicyBindingAttributes>,
}

/// Reading saved views.
#[derive(Default)]
pub(crate) struct SavedViewQuery;

/// Reading saved views.
#[Object]
impl SavedViewQuery {
    /// One saved view.
    async fn saved_view(&self, ctx: &Context<'_>, #[graphql(name = "id")] view: ID) -> Nullable<SavedView> {
        one::<plural_core::saved_view::SavedView, _>(ctx, id(&view)).await
    }

    /// Your saved views, and those that are shared with you; administrators of the installation see all.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn saved_views(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this page.")] page: Option<String>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<SavedViewConnection> {
        let filter = SavedViewFilter { page, q };
        page_of::<plural_core::saved_view::SavedView, _>(
            ctx,
            Ok(filter),
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing saved views.
#[derive(Default)]
pub(crate) struct SavedViewMutation;

/// Changing saved views.
#[Object]
impl SavedViewMutation {
    /// Saves a view; you own it.
    async fn create_saved_view(
        &self,
        ctx: &Context<'_>,
        attributes: SavedViewAttributes,
    ) -> Nullable<SavedView> {
        nullable(async {
            let request = request(ctx);
            let SavedViewAttributes { name, page, query, read_bindings, write_bindings } = attributes;
            let rbac = RbacAttributes { read_bindings, write_bindings, admin_bindings: None };
            let new = NewSavedView {
                name: parse("attributes.name", &name).into_graphql(ctx)?,
                page: parse("attributes.page", &page).into_graphql(ctx)?,
                query,
                bindings: rbac.change().into_graphql(ctx)?,
            };
            Ok(Some(request.app.saved_view_create(&request.op, new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a view; who may read and change it needs admin access, which its owner has.
    async fn update_saved_view(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] view: ID,
        attributes: SavedViewUpdateAttributes,
    ) -> Nullable<SavedView> {
        nullable(async {
            let request = request(ctx);
            let SavedViewUpdateAttributes { name, query, read_bindings, write_bindings } = attributes;
            let rbac = RbacAttributes { read_bindings, write_bindings, admin_bindings: None };
            let view = id(&view).into_graphql(ctx)?;
            let change = SavedViewChange {
                name: parse_option("attributes.name", name.as_deref()).into_graphql(ctx)?,
                query,
                bindings: rbac.change().into_graphql(ctx)?,
            };
            Ok(Some(
                request.app.saved_view_update(&request.op, view, &change).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Deletes a view.
    async fn delete_saved_view(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] view: ID,
    ) -> Nullable<SavedView> {
        nullable(async {
            let request = request(ctx);
            let view = id(&view).into_graphql(ctx)?;
            Ok(Some(request.app.saved_view_delete(&request.op, view).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
