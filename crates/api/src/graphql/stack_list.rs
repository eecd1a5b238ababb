//! Lists of stacks, and the number of stacks per tag.

use std::collections::BTreeMap;

use async_graphql::{Context, ID, Object, SimpleObject};
use plural_app::cluster_facet::TagCount;
use plural_app::stack::StackFilter;
use plural_core::{Error, Result};

use super::{
    cluster_list::TagQuery,
    error::{Nullable, id_option},
    page::{counted, counts, page_args},
    record::page_of,
    request::request,
    shared::{Tag, TagInput},
    stack::InfrastructureStackConnection,
};

/// Number of stacks with a tag.
#[derive(SimpleObject)]
pub(crate) struct StackTagCount {
    /// The tag.
    tag: Tag,
    /// Number of stacks.
    count: i32,
}

impl From<TagCount> for StackTagCount {
    fn from(((name, value), count): TagCount) -> Self {
        Self { tag: Tag { name, value }, count: counted(count) }
    }
}

/// The filter in the arguments of a query.
struct Chosen {
    project_id: Option<ID>,
    q: Option<String>,
    drifted: Option<bool>,
    tag: Option<TagInput>,
    tag_query: Option<TagQuery>,
}

impl Chosen {
    fn filter(self) -> Result<StackFilter> {
        let Self { project_id, q, drifted, tag, tag_query } = self;
        let project_id = id_option(project_id.as_deref())?;
        let (tags, any_tag) = match (tag, tag_query) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("tag", "cannot be combined with tagQuery: name the tag there"));
            }
            (Some(TagInput { name, value }), None) => ([(name, value)].into(), false),
            (None, Some(query)) => query.chosen()?,
            (None, None) => (BTreeMap::new(), false),
        };
        Ok(StackFilter { project_id, q, drifted, tags, any_tag })
    }
}

/// Lists of stacks.
#[derive(Default)]
pub(crate) struct StackListQuery;

/// Lists of stacks.
#[Object]
impl StackListQuery {
    /// The stacks that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn infrastructure_stacks(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
        #[graphql(desc = "Only those that drifted; `false`: only those that did not, as far as is known.")]
        drifted: Option<bool>,
        #[graphql(desc = "Only with this tag. Not together with `tagQuery`.")] tag: Option<TagInput>,
        #[graphql(desc = "Only with these tags.")] tag_query: Option<TagQuery>,
    ) -> Nullable<InfrastructureStackConnection> {
        let filter = Chosen { project_id, q, drifted, tag, tag_query }.filter();
        page_of::<plural_core::stack::Stack, _>(ctx, filter, page_args(after, first, before, last)).await
    }

    /// Number of stacks per tag, among those that you may see: the hundred most frequent tags, most frequent first. A stack can have
    /// several tags: the tags in the arguments count here, too.
    async fn stack_tags(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only of stacks of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only of stacks with this in their name.")] q: Option<String>,
        #[graphql(desc = "Only of stacks that drifted; `false`: of those that did not, as far as is known.")]
        drifted: Option<bool>,
        #[graphql(desc = "Only of stacks with this tag. Not together with `tagQuery`.")] tag: Option<
            TagInput,
        >,
        #[graphql(desc = "Only of stacks with these tags.")] tag_query: Option<TagQuery>,
    ) -> Nullable<Vec<StackTagCount>> {
        let request = request(ctx);
        let found = async {
            let filter = Chosen { project_id, q, drifted, tag, tag_query }.filter()?;
            request.app.stack_tags(&request.op, &filter).await
        };
        counts(ctx, found).await
    }
}
