//! What is generated, before it is text: every name resolved, every type known.

use std::collections::{BTreeMap, BTreeSet};

/// The type of one value, without list and null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Rust type by its text.
    Scalar(&'static str),
    /// A text that is not shown.
    Secret,
    /// A map of texts.
    Texts,
    /// An enumeration of the schema.
    Enum(String),
    /// A struct, generated or written by hand.
    Struct(String),
    /// A page of a list of such structs.
    Page(String),
    /// An object of which only the id is asked for.
    Id,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ty {
    pub(crate) kind: Kind,
    pub(crate) list: bool,
    pub(crate) optional: bool,
}

/// A field of a struct.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// In GraphQL; of a flattened one, in Rust.
    pub(crate) name: String,
    pub(crate) docs: Option<String>,
    pub(crate) ty: Ty,
    /// Its own fields are on the wire, in place of it.
    pub(crate) flat: bool,
    /// Only some operations ask for it.
    pub(crate) added: bool,
    /// Null is not the empty list.
    pub(crate) null_list: bool,
}

/// What a struct is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is read.
    Answer,
    /// It is sent.
    Input,
    /// The variables of an operation.
    Variables,
}

/// A struct.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) docs: Option<String>,
    pub(crate) fields: Vec<Field>,
    pub(crate) used: Use,
}

/// An enumeration.
#[derive(Debug, Clone)]
pub(crate) struct Enumeration {
    pub(crate) name: String,
    pub(crate) docs: Option<String>,
    /// Words with their descriptions.
    pub(crate) values: Vec<(String, Option<String>)>,
    /// It is read: there may be words that are not known.
    pub(crate) read: bool,
}

/// An operation.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) variables: Shape,
    pub(crate) mutation: bool,
    /// The root field.
    pub(crate) field: String,
    /// What it answers.
    pub(crate) data: Ty,
    /// What is sent.
    pub(crate) text: String,
}

/// One file.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) docs: Option<String>,
    pub(crate) answers: Vec<Shape>,
    pub(crate) enums: Vec<Enumeration>,
    pub(crate) inputs: Vec<Shape>,
    pub(crate) calls: Vec<Call>,
}

impl Module {
    /// Names that the file declares.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        let shapes = self.answers.iter().chain(&self.inputs).chain(self.calls.iter().map(|it| &it.variables));
        shapes.map(|it| it.name.as_str()).chain(self.enums.iter().map(|it| it.name.as_str())).collect()
    }
}

/// Files by their nouns.
pub(crate) type Modules = BTreeMap<String, Module>;
