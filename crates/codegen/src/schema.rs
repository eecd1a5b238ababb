//! The schema, by the names of its types.

use std::collections::BTreeMap;

use graphql_parser::schema::{
    Definition, EnumType, Field, InputObjectType, InputValue, ObjectType, Type, TypeDefinition, parse_schema,
};

use crate::fault::Fault;

/// The schema's file, as messages name it.
pub(crate) const PLACE: &str = "docs/reference/schema.graphql";

/// The schema, by the names of its types.
pub(crate) struct Schema {
    types: BTreeMap<String, TypeDefinition<'static, String>>,
    /// Name of the type whose fields are queries.
    pub(crate) query: String,
    /// Name of the type whose fields are mutations.
    pub(crate) mutation: String,
}

impl Schema {
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let parsed = parse_schema::<String>(text).map_err(|error| Fault::new(PLACE, error.to_string()))?;
        let mut schema = Self { types: BTreeMap::new(), query: "Query".into(), mutation: "Mutation".into() };
        for definition in parsed.into_static().definitions {
            match definition {
                Definition::TypeDefinition(definition) => {
                    schema.types.insert(name_of(&definition).to_owned(), definition);
                }
                Definition::SchemaDefinition(roots) => {
                    schema.query = roots.query.unwrap_or(schema.query);
                    schema.mutation = roots.mutation.unwrap_or(schema.mutation);
                }
                Definition::TypeExtension(_) | Definition::DirectiveDefinition(_) => {}
            }
        }
        Ok(schema)
    }

    pub(crate) fn object(&self, name: &str) -> Option<&ObjectType<'static, String>> {
        match self.types.get(name) {
            Some(TypeDefinition::Object(object)) => Some(object),
            _ => None,
        }
    }

    pub(crate) fn input(&self, name: &str) -> Option<&InputObjectType<'static, String>> {
        match self.types.get(name) {
            Some(TypeDefinition::InputObject(input)) => Some(input),
            _ => None,
        }
    }

    pub(crate) fn enumeration(&self, name: &str) -> Option<&EnumType<'static, String>> {
        match self.types.get(name) {
            Some(TypeDefinition::Enum(it)) => Some(it),
            _ => None,
        }
    }

    pub(crate) fn field(&self, object: &str, field: &str) -> Option<&Field<'static, String>> {
        self.object(object)?.fields.iter().find(|it| it.name == field)
    }
}

/// A field's argument of this name.
pub(crate) fn argument<'a>(
    field: &'a Field<'static, String>,
    name: &str,
) -> Option<&'a InputValue<'static, String>> {
    field.arguments.iter().find(|it| it.name == name)
}

fn name_of<'a>(definition: &'a TypeDefinition<'static, String>) -> &'a str {
    match definition {
        TypeDefinition::Scalar(it) => &it.name,
        TypeDefinition::Object(it) => &it.name,
        TypeDefinition::Interface(it) => &it.name,
        TypeDefinition::Union(it) => &it.name,
        TypeDefinition::Enum(it) => &it.name,
        TypeDefinition::InputObject(it) => &it.name,
    }
}

/// A type without its wrappers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plain<'a> {
    pub(crate) name: &'a str,
    pub(crate) list: bool,
    pub(crate) optional: bool,
}

/// Takes the wrappers off. Whether items may be null says nothing: clients leave such items out.
/// `None` for a list of lists.
pub(crate) fn plain<'a>(ty: &'a Type<'static, String>) -> Option<Plain<'a>> {
    let (ty, optional) = match ty {
        Type::NonNullType(inner) => (&**inner, false),
        other => (other, true),
    };
    match ty {
        Type::NamedType(name) => Some(Plain { name, list: false, optional }),
        Type::ListType(item) => {
            let item = plain(item)?;
            (!item.list).then_some(Plain { name: item.name, list: true, optional })
        }
        Type::NonNullType(_) => None,
    }
}
