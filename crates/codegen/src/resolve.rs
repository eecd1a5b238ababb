//! From documents and the schema to the model.

use std::collections::{BTreeMap, BTreeSet};

use graphql_parser::query::{self, Selection, SelectionSet, Value};

use crate::{
    document::{Documents, Fragment, Operation, base},
    fault::Fault,
    model::{Call, Enumeration, Field, Kind, Module, Modules, Shape, Ty, Use},
    schema::{self, Schema, plain},
    tables::{
        BY_HAND, NULLABLE_LISTS, NULLABLE_ROOTS, PAGING, PARTS, SCALARS, SECRET_FIELDS, SECRET_NAMES,
        SPREADS, TEXT_MAPS,
    },
};

type AstField = query::Field<'static, String>;
type AstSet = SelectionSet<'static, String>;

/// The file of enumerations and inputs that several nouns use.
const COMMON: &str = "common";

/// Where an enumeration or an input is used.
#[derive(Default)]
struct Used {
    nouns: BTreeSet<String>,
    read: bool,
}

/// Where something is asked for.
#[derive(Clone, Copy)]
struct Site<'a> {
    noun: &'a str,
    place: &'a str,
}

pub(crate) struct Resolver<'a> {
    schema: &'a Schema,
    documents: &'a Documents,
    enums: BTreeMap<String, Used>,
    inputs: BTreeMap<String, Used>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(schema: &'a Schema, documents: &'a Documents) -> Self {
        Self { schema, documents, enums: BTreeMap::new(), inputs: BTreeMap::new() }
    }

    pub(crate) fn modules(mut self) -> Result<Modules, Fault> {
        let mut modules = Modules::new();
        for (noun, docs) in &self.documents.nouns {
            modules.insert(noun.clone(), Module { docs: docs.clone(), ..Module::default() });
        }
        for fragment in self.documents.fragments.values() {
            self.check_fragment(fragment)?;
        }
        for fragment in self.documents.fragments.values() {
            if fragment.base() == fragment.name && by_hand(&fragment.name).is_none() {
                let shape = self.answer(fragment)?;
                modules.entry(fragment.noun.clone()).or_default().answers.push(shape);
            }
        }
        for operation in &self.documents.operations {
            let call = self.call(operation)?;
            modules.entry(operation.noun.clone()).or_default().calls.push(call);
        }
        for (name, used) in std::mem::take(&mut self.inputs) {
            let shape = self.input(&name)?;
            modules.entry(home(&used)).or_default().inputs.push(shape);
        }
        for (name, used) in std::mem::take(&mut self.enums) {
            let enumeration = self.enumeration(&name, used.read)?;
            modules.entry(home(&used)).or_default().enums.push(enumeration);
        }
        Ok(modules)
    }

    /// What holds of a fragment before anything is made of it.
    fn check_fragment(&self, fragment: &Fragment) -> Result<(), Fault> {
        let Fragment { place, name, on, selections, .. } = fragment;
        if self.schema.object(on).is_none() {
            return Err(Fault::new(place, format!("the schema has no type {on}")));
        }
        if fragment.base() != name {
            let whole = self.documents.fragment(fragment.base(), place)?;
            if whole.on != *on {
                let reason =
                    format!("{name} adds to {}, which is on {} and not on {on}", whole.name, whole.on);
                return Err(Fault::new(place, reason));
            }
        }
        self.check_acyclic(fragment, &mut vec![name])?;
        self.check_fields(place, on, selections)
    }

    fn check_acyclic<'f>(&'f self, fragment: &'f Fragment, open: &mut Vec<&'f str>) -> Result<(), Fault> {
        let mut sets = vec![&fragment.selections];
        while let Some(set) = sets.pop() {
            for selection in &set.items {
                match selection {
                    Selection::Field(field) => sets.push(&field.selection_set),
                    Selection::InlineFragment(inline) => sets.push(&inline.selection_set),
                    Selection::FragmentSpread(spread) => {
                        let next = self.documents.fragment(&spread.fragment_name, &fragment.place)?;
                        if open.contains(&next.name.as_str()) {
                            let reason = format!("{} reaches itself", next.name);
                            return Err(Fault::new(&fragment.place, reason));
                        }
                        open.push(&next.name);
                        self.check_acyclic(next, open)?;
                        open.pop();
                    }
                }
            }
        }
        Ok(())
    }

    /// Every field is one of the schema, and fragments are on the type that they are spread in.
    fn check_fields(&self, place: &str, on: &str, set: &AstSet) -> Result<(), Fault> {
        for selection in &set.items {
            match selection {
                Selection::InlineFragment(_) => {
                    return Err(Fault::new(place, "fragments have names here"));
                }
                Selection::FragmentSpread(spread) => {
                    let fragment = self.documents.fragment(&spread.fragment_name, place)?;
                    if fragment.on != on {
                        let reason = format!("{} is on {}, not on {on}", fragment.name, fragment.on);
                        return Err(Fault::new(place, reason));
                    }
                }
                Selection::Field(field) => {
                    if field.alias.is_some() {
                        return Err(Fault::new(place, format!("{}: a field keeps its name", field.name)));
                    }
                    let known = self.known(place, on, &field.name)?;
                    for (name, _) in &field.arguments {
                        if schema::argument(known, name).is_none() {
                            return Err(Fault::new(
                                place,
                                format!("{on}.{} has no argument {name}", field.name),
                            ));
                        }
                    }
                    let ty = plain(&known.field_type).map_or("", |it| it.name);
                    match (self.schema.object(ty).is_some(), field.selection_set.items.is_empty()) {
                        (true, false) => self.check_fields(place, ty, &field.selection_set)?,
                        (false, true) => {}
                        (true, true) => {
                            return Err(Fault::new(
                                place,
                                format!("{on}.{}: select fields of it", field.name),
                            ));
                        }
                        (false, false) => {
                            return Err(Fault::new(place, format!("{on}.{} has no fields", field.name)));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn known(
        &self,
        place: &str,
        on: &str,
        field: &str,
    ) -> Result<&'a graphql_parser::schema::Field<'static, String>, Fault> {
        let schema = self.schema;
        schema.field(on, field).ok_or_else(|| Fault::new(place, format!("{on} has no field {field}")))
    }

    fn answer(&mut self, fragment: &Fragment) -> Result<Shape, Fault> {
        let Fragment { noun, place, name, docs, on, selections, .. } = fragment;
        let site = Site { noun, place };
        let mut fields: Vec<Field> = Vec::new();
        let mut spread_bases: Vec<String> = Vec::new();
        for selection in &selections.items {
            match selection {
                Selection::FragmentSpread(spread) => {
                    let whole = base(&spread.fragment_name);
                    if whole == name {
                        return Err(Fault::new(
                            place,
                            format!("{} belongs where {name} is used", spread.fragment_name),
                        ));
                    }
                    if spread_bases.iter().any(|it| it == whole) {
                        continue;
                    }
                    spread_bases.push(whole.to_owned());
                    let rust = rust_name(whole);
                    let called = SPREADS.iter().find(|(fragment, _)| *fragment == whole);
                    fields.push(Field {
                        name: called.map_or_else(|| snake(whole), |(_, name)| (*name).to_owned()),
                        docs: self
                            .documents
                            .fragment(whole, place)?
                            .docs
                            .clone()
                            .or_else(|| self.docs_of(on)),
                        ty: Ty { kind: Kind::Struct(rust), list: false, optional: false },
                        flat: true,
                        added: false,
                        null_list: false,
                    });
                }
                Selection::Field(field) => {
                    let mut inherited = false;
                    for whole in &spread_bases {
                        inherited |= self.adds(site, on, whole, field)?;
                    }
                    if !inherited {
                        fields.push(self.field(site, on, field)?);
                    }
                }
                Selection::InlineFragment(_) => {}
            }
        }
        for more in self.documents.fragments.values() {
            if more.base() != name || more.name == *name {
                continue;
            }
            for selection in &more.selections.items {
                let Selection::Field(field) = selection else {
                    return Err(Fault::new(&more.place, "it adds fields, no fragments"));
                };
                if fields.iter().any(|it| it.name == field.name) {
                    return Err(Fault::new(&more.place, format!("{name} has {} already", field.name)));
                }
                let mut field = self.field(Site { noun, place: &more.place }, on, field)?;
                if matches!(field.ty.kind, Kind::Page(_)) {
                    return Err(Fault::new(
                        &more.place,
                        format!("{}: a page needs a struct of its own", field.name),
                    ));
                }
                field.added = true;
                field.ty.optional = true;
                fields.push(field);
            }
        }
        let docs = docs.clone().or_else(|| self.docs_of(on));
        Ok(Shape { name: name.clone(), docs, fields, used: Use::Answer })
    }

    fn docs_of(&self, object: &str) -> Option<String> {
        self.schema.object(object)?.description.clone()
    }

    fn field(&mut self, site: Site<'_>, on: &str, field: &AstField) -> Result<Field, Fault> {
        let known = self.known(site.place, on, &field.name)?;
        let ty = self.selected(site, on, field)?;
        let null_list = NULLABLE_LISTS.contains(&format!("{on}.{}", field.name).as_str());
        let docs = known.description.clone();
        Ok(Field { name: field.name.clone(), docs, ty, flat: false, added: false, null_list })
    }

    /// The type of a selected field.
    fn selected(&mut self, site: Site<'_>, on: &str, field: &AstField) -> Result<Ty, Fault> {
        let Site { noun, place } = site;
        let known = self.known(place, on, &field.name)?;
        let at = format!("{on}.{}", field.name);
        let ty =
            plain(&known.field_type).ok_or_else(|| Fault::new(place, format!("{at} is a list of lists")))?;
        let kind = if self.schema.object(ty.name).is_some() {
            self.object_kind(site, ty.name, &field.selection_set)?
        } else if self.schema.enumeration(ty.name).is_some() {
            let used = self.enums.entry(ty.name.to_owned()).or_default();
            used.nouns.insert(noun.to_owned());
            used.read = true;
            Kind::Enum(ty.name.to_owned())
        } else {
            scalar(place, on, &field.name, ty.name)?
        };
        Ok(Ty { kind, list: ty.list, optional: ty.optional })
    }

    /// The type of an object by what is selected of it.
    fn object_kind(&mut self, site: Site<'_>, on: &str, set: &AstSet) -> Result<Kind, Fault> {
        let place = site.place;
        // A connection to something is no page of a list.
        if on.ends_with("Connection") && self.schema.field(on, "edges").is_some() {
            return self.page(site, on, set);
        }
        let mut whole: Option<&str> = None;
        for selection in &set.items {
            if let Selection::FragmentSpread(spread) = selection {
                let this = base(&spread.fragment_name);
                match whole {
                    None => whole = Some(this),
                    Some(other) if other == this => {}
                    Some(other) => {
                        return Err(Fault::new(
                            place,
                            format!("one {on} is {other} and {this}: make it one fragment"),
                        ));
                    }
                }
            }
        }
        let Some(whole) = whole else {
            if let [Selection::Field(field)] = set.items.as_slice()
                && field.name == "id"
            {
                return Ok(Kind::Id);
            }
            return Err(Fault::new(place, format!("select {on} by a fragment, whose name its struct has")));
        };
        for selection in &set.items {
            if let Selection::Field(field) = selection
                && !self.adds(site, on, whole, field)?
            {
                let reason = format!("{whole} has no {}: add it by a fragment {whole}_…", field.name);
                return Err(Fault::new(place, reason));
            }
        }
        Ok(Kind::Struct(rust_name(whole)))
    }

    /// A field beside a spread fragment that has it already: it may only ask for more below it.
    fn adds(&mut self, site: Site<'_>, on: &str, whole: &str, field: &AstField) -> Result<bool, Fault> {
        let place = site.place;
        if by_hand(whole).is_some() {
            return Ok(false);
        }
        let documents = self.documents;
        let Some(present) = find(documents, whole, &field.name) else { return Ok(false) };
        let same = self.selected(site, on, present)? == self.selected(site, on, field)?;
        if same {
            Ok(true)
        } else {
            Err(Fault::new(place, format!("{} is of another type in {whole}", field.name)))
        }
    }

    fn page(&mut self, site: Site<'_>, on: &str, set: &AstSet) -> Result<Kind, Fault> {
        let place = site.place;
        let wrong = || {
            let reason =
                format!("select {on} as `pageInfo {{ hasNextPage endCursor }} edges {{ node {{ … }} }}`");
            Fault::new(place, reason)
        };
        let [Selection::Field(info), Selection::Field(edges)] = set.items.as_slice() else {
            return Err(wrong());
        };
        let names: Vec<&str> = info
            .selection_set
            .items
            .iter()
            .filter_map(|it| if let Selection::Field(field) = it { Some(field.name.as_str()) } else { None })
            .collect();
        let [Selection::Field(node)] = edges.selection_set.items.as_slice() else { return Err(wrong()) };
        if (info.name.as_str(), edges.name.as_str(), node.name.as_str()) != ("pageInfo", "edges", "node")
            || names != ["hasNextPage", "endCursor"]
        {
            return Err(wrong());
        }
        let item = |of: &str, field: &str| {
            let known = self.schema.field(of, field)?;
            Some(plain(&known.field_type)?.name)
        };
        let node_type = item(on, "edges").and_then(|edge| item(edge, "node")).ok_or_else(wrong)?;
        match self.object_kind(site, node_type, &node.selection_set)? {
            Kind::Struct(name) => Ok(Kind::Page(name)),
            _ => Err(wrong()),
        }
    }

    fn call(&mut self, operation: &Operation) -> Result<Call, Fault> {
        let Operation { noun, place, name, docs, mutation, variables, selections, .. } = operation;
        let site = Site { noun, place };
        let root = if *mutation { &self.schema.mutation } else { &self.schema.query };
        self.check_fields(place, root, selections)?;
        let [Selection::Field(field)] = selections.items.as_slice() else {
            return Err(Fault::new(place, format!("{name} asks for one root field")));
        };
        let mut data = self.selected(site, root, field)?;
        data.optional = NULLABLE_ROOTS.contains(&field.name.as_str());
        let mut fields = Vec::new();
        for variable in variables {
            let at = format!("${}", variable.name);
            let ty = plain(&variable.var_type)
                .ok_or_else(|| Fault::new(place, format!("{at} is a list of lists")))?;
            let kind = self.input_kind(site, name, &variable.name, ty.name)?;
            let docs = self.variable_docs(root, selections, &variable.name).or_else(|| {
                let (_, docs) = PAGING.iter().find(|(name, _)| *name == variable.name)?;
                Some((*docs).to_owned())
            });
            let ty = Ty { kind, list: ty.list, optional: ty.optional };
            fields.push(Field {
                name: variable.name.clone(),
                docs,
                ty,
                flat: false,
                added: false,
                null_list: false,
            });
        }
        let docs = docs.clone().or_else(|| self.known(place, root, &field.name).ok()?.description.clone());
        Ok(Call {
            variables: Shape { name: name.clone(), docs, fields, used: Use::Variables },
            mutation: *mutation,
            field: field.name.clone(),
            data,
            text: self.documents.text_of(operation)?,
        })
    }

    /// The description of the argument that a variable is given to.
    fn variable_docs(&self, on: &str, set: &AstSet, variable: &str) -> Option<String> {
        set.items.iter().find_map(|selection| match selection {
            Selection::Field(field) => {
                let known = self.schema.field(on, &field.name)?;
                let mut given = field.arguments.iter();
                let here =
                    given.find(|(_, value)| matches!(value, Value::Variable(name) if name == variable));
                match here {
                    Some((argument, _)) => schema::argument(known, argument)?.description.clone(),
                    None => {
                        self.variable_docs(plain(&known.field_type)?.name, &field.selection_set, variable)
                    }
                }
            }
            Selection::FragmentSpread(spread) => {
                let fragment = self.documents.fragments.get(&spread.fragment_name)?;
                self.variable_docs(on, &fragment.selections, variable)
            }
            Selection::InlineFragment(_) => None,
        })
    }

    fn input_kind(&mut self, site: Site<'_>, owner: &str, field: &str, ty: &str) -> Result<Kind, Fault> {
        let Site { noun, place } = site;
        if let Some(rust) = by_hand(ty) {
            return Ok(Kind::Struct(rust.to_owned()));
        }
        if self.schema.enumeration(ty).is_some() {
            self.enums.entry(ty.to_owned()).or_default().nouns.insert(noun.to_owned());
            return Ok(Kind::Enum(ty.to_owned()));
        }
        let Some(input) = self.schema.input(ty) else { return scalar(place, owner, field, ty) };
        if self.inputs.entry(ty.to_owned()).or_default().nouns.insert(noun.to_owned()) {
            for inner in &input.fields {
                if let Some(inner_type) = plain(&inner.value_type) {
                    self.input_kind(site, ty, &inner.name, inner_type.name)?;
                }
            }
        }
        Ok(Kind::Struct(ty.to_owned()))
    }

    fn input(&self, name: &str) -> Result<Shape, Fault> {
        let schema = self.schema;
        let place = schema::PLACE;
        let input =
            schema.input(name).ok_or_else(|| Fault::new(place, format!("the schema has no input {name}")))?;
        let mut fields = Vec::new();
        for field in &input.fields {
            let at = format!("{name}.{}", field.name);
            let ty = plain(&field.value_type)
                .ok_or_else(|| Fault::new(place, format!("{at} is a list of lists")))?;
            let kind = if let Some(rust) = by_hand(ty.name) {
                Kind::Struct(rust.to_owned())
            } else if schema.enumeration(ty.name).is_some() {
                Kind::Enum(ty.name.to_owned())
            } else if schema.input(ty.name).is_some() {
                Kind::Struct(ty.name.to_owned())
            } else {
                scalar(place, name, &field.name, ty.name)?
            };
            fields.push(Field {
                name: field.name.clone(),
                docs: field.description.clone(),
                ty: Ty { kind, list: ty.list, optional: ty.optional },
                flat: false,
                added: false,
                null_list: false,
            });
        }
        for part in PARTS.iter().filter(|part| part.inputs.contains(&name)) {
            let all = fields.len();
            fields.retain(|it| !part.fields.contains(&it.name.as_str()));
            if fields.len() + part.fields.len() != all {
                return Err(Fault::new(place, format!("{name} does not have all fields of {}", part.rust)));
            }
            fields.push(Field {
                name: part.name.to_owned(),
                docs: Some(part.docs.to_owned()),
                ty: Ty { kind: Kind::Struct(part.rust.to_owned()), list: false, optional: false },
                flat: true,
                added: false,
                null_list: false,
            });
        }
        Ok(Shape { name: name.to_owned(), docs: input.description.clone(), fields, used: Use::Input })
    }

    fn enumeration(&self, name: &str, read: bool) -> Result<Enumeration, Fault> {
        let known = self
            .schema
            .enumeration(name)
            .ok_or_else(|| Fault::new(schema::PLACE, format!("the schema has no enum {name}")))?;
        let values = known.values.iter().map(|it| (it.name.clone(), it.description.clone())).collect();
        Ok(Enumeration { name: name.to_owned(), docs: known.description.clone(), values, read })
    }
}

/// The field of this name in a fragment, or in one that it spreads or that adds to it.
fn find<'a>(documents: &'a Documents, whole: &str, field: &str) -> Option<&'a AstField> {
    documents.fragments.values().filter(|it| it.base() == whole).find_map(|fragment| {
        fragment.selections.items.iter().find_map(|selection| match selection {
            Selection::Field(it) => (it.name == field).then_some(it),
            Selection::FragmentSpread(spread) => find(documents, base(&spread.fragment_name), field),
            Selection::InlineFragment(_) => None,
        })
    })
}

fn scalar(place: &str, owner: &str, field: &str, ty: &str) -> Result<Kind, Fault> {
    let at = format!("{owner}.{field}");
    let (_, rust) = SCALARS.iter().find(|(name, _)| *name == ty).ok_or_else(|| {
        Fault::new(place, format!("{at}: {ty} has no Rust type in crates/codegen/src/tables.rs"))
    })?;
    let secret = SECRET_NAMES.contains(&field) || SECRET_FIELDS.contains(&at.as_str());
    if ty == "String" && secret {
        return Ok(Kind::Secret);
    }
    if ty == "Map" && TEXT_MAPS.contains(&at.as_str()) {
        return Ok(Kind::Texts);
    }
    Ok(Kind::Scalar(rust))
}

fn by_hand(name: &str) -> Option<&'static str> {
    BY_HAND.iter().find(|it| it.name == name).map(|it| it.rust)
}

/// The struct of a fragment.
fn rust_name(fragment: &str) -> String {
    by_hand(fragment).unwrap_or(fragment).to_owned()
}

fn home(used: &Used) -> String {
    match used.nouns.iter().next() {
        Some(only) if used.nouns.len() == 1 => only.clone(),
        _ => COMMON.to_owned(),
    }
}

/// `clusterId` as `cluster_id`.
pub(crate) fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
