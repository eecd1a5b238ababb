//! What the schema says about its fields, as far as the weight of a document depends on it.

use std::{collections::HashMap, sync::LazyLock};

use async_graphql::parser::{
    parse_schema,
    types::{BaseType, Type, TypeKind, TypeSystemDefinition},
};

/// Output types of the schema.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    types: HashMap<String, HashMap<String, FieldShape>>,
}

/// One field of a type.
#[derive(Debug)]
pub(crate) struct FieldShape {
    /// Name of its type, without list and null marks.
    pub(crate) of: String,
    /// It is a list.
    pub(crate) list: bool,
    /// It is a connection: a list that is asked for in pages.
    pub(crate) paged: bool,
}

impl Shapes {
    /// The shapes of the schema. They are always the same ones, and are read once in a process.
    pub(crate) fn of_schema() -> &'static Self {
        static SHAPES: LazyLock<Shapes> = LazyLock::new(|| Shapes::read(&crate::graphql::sdl()));
        &SHAPES
    }

    fn read(sdl: &str) -> Self {
        // The library printed it, so it can read it: a test looks at what is found.
        let Ok(document) = parse_schema(sdl) else { return Self::default() };
        let mut types = HashMap::new();
        for definition in document.definitions {
            let TypeSystemDefinition::Type(definition) = definition else { continue };
            let TypeKind::Object(object) = definition.node.kind else { continue };
            let fields = object.fields.into_iter().map(|field| {
                let field = field.node;
                let (of, list) = named(&field.ty.node);
                let paged = field.arguments.iter().any(|argument| argument.node.name.node == "first");
                (field.name.node.to_string(), FieldShape { of, list, paged })
            });
            types.insert(definition.node.name.node.to_string(), fields.collect());
        }
        Self { types }
    }

    /// A field of a type.
    pub(crate) fn field(&self, of: &str, name: &str) -> Option<&FieldShape> {
        self.types.get(of)?.get(name)
    }

    /// Whether a type has fields.
    pub(crate) fn is_object(&self, name: &str) -> bool {
        self.types.contains_key(name)
    }
}

fn named(of: &Type) -> (String, bool) {
    match &of.base {
        BaseType::Named(name) => (name.to_string(), false),
        BaseType::List(of) => (named(of).0, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_read_as_a_whole() {
        let shapes = Shapes::of_schema();
        let members = shapes.field("Group", "members").unwrap();
        assert_eq!((members.of.as_str(), members.list, members.paged), ("User", true, false));
        let clusters = shapes.field("RootQueryType", "clusters").unwrap();
        assert_eq!((clusters.of.as_str(), clusters.list, clusters.paged), ("ClusterConnection", false, true));
        assert!(shapes.is_object("ServicePlan") && !shapes.is_object("DateTime"));
        assert!(shapes.types.len() > 100, "{}", shapes.types.len());
    }
}
