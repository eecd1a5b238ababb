//! Types that several nouns use.

use std::collections::BTreeMap;

use async_graphql::{ID, InputObject, SimpleObject};
use plural_core::policy::{BindingSubject, BindingsChange};
use plural_core::{Error, Result};

use super::error::{List, id, items};

/// A name and a value by which clusters and stacks are grouped and selected.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct Tag {
    /// The name, unique within a cluster or a stack.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: String,
}

/// A tag to set.
#[derive(Debug, Clone, InputObject)]
pub(crate) struct TagAttributes {
    /// The name, unique within a cluster or a stack.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: String,
}

/// A tag to look for.
#[derive(Debug, Clone, InputObject)]
pub(crate) struct TagInput {
    /// The name.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: String,
}

/// Tags by name. A name given twice is refused: one of the two would be lost.
pub(crate) fn tags(
    field: &'static str,
    list: List<TagAttributes>,
) -> Result<Option<BTreeMap<String, String>>> {
    items(list)
        .map(|list| {
            let mut tags = BTreeMap::new();
            for TagAttributes { name, value } in list {
                if tags.insert(name.clone(), value).is_some() {
                    return Err(Error::invalid(field, format!("lists the tag {name:?} twice")));
                }
            }
            Ok(tags)
        })
        .transpose()
}

/// Whom a binding is for: one of `userId` and `groupId`.
#[derive(Debug, Clone, InputObject)]
pub(crate) struct PolicyBindingAttributes {
    /// The binding's own id; ignored, since a list of bindings is always replaced as a whole.
    pub(crate) id: Option<ID>,
    /// A user.
    pub(crate) user_id: Option<ID>,
    /// A group.
    pub(crate) group_id: Option<ID>,
}

/// Who may do what with a thing. A list that is absent stays as it is; one that is given replaces.
#[derive(Debug, Clone, Default, InputObject)]
#[expect(clippy::struct_field_names, reason = "the schema's names")]
pub(crate) struct RbacAttributes {
    /// Who may look.
    pub(crate) read_bindings: List<PolicyBindingAttributes>,
    /// Who may change.
    pub(crate) write_bindings: List<PolicyBindingAttributes>,
    /// Who may delete and decide who may do what.
    pub(crate) admin_bindings: List<PolicyBindingAttributes>,
}

impl RbacAttributes {
    /// The change that it asks for.
    pub(crate) fn change(self) -> Result<BindingsChange> {
        let Self { read_bindings, write_bindings, admin_bindings } = self;
        Ok(BindingsChange {
            read: subjects("readBindings", read_bindings)?,
            write: subjects("writeBindings", write_bindings)?,
            admin: subjects("adminBindings", admin_bindings)?,
            create: None,
        })
    }
}

pub(crate) fn subjects(
    field: &'static str,
    list: List<PolicyBindingAttributes>,
) -> Result<Option<Vec<BindingSubject>>> {
    items(list).map(|list| list.iter().map(|binding| subject(field, binding)).collect()).transpose()
}

fn subject(field: &'static str, binding: &PolicyBindingAttributes) -> Result<BindingSubject> {
    match (&binding.user_id, &binding.group_id) {
        (Some(user), None) => Ok(BindingSubject::User(id(user)?)),
        (None, Some(group)) => Ok(BindingSubject::Group(id(group)?)),
        _ => Err(Error::invalid(field, "each binding must name either a userId or a groupId")),
    }
}
