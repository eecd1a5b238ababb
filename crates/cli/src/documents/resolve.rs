//! From documents to what they ask for: references become keys, Secrets become values, and the order is decided.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    cluster,
    console::Console,
    git_repository, global_service, helm_repository,
    kind::Kind,
    managed_namespace, project,
    read::{Document, Files, Problems, Secret},
    schema::{Field, Type},
    service, service_context, stack, stack_definition,
    state::{Hidden, State, hide},
    sync_window,
    thing::Desired,
};
use crate::error::CliError;

/// A document together with what it asks for.
pub(super) struct Wish {
    pub(super) document: Document,
    pub(super) desired: Desired,
    /// Places in the list of those that have to be there before.
    pub(super) needs: BTreeSet<usize>,
}

impl Wish {
    /// `servicedeployment/blue/web`
    pub(super) fn name(&self) -> String {
        shown(self.document.kind, &self.document.name, &self.desired.key)
    }
}

/// How a thing is called in what commands print.
pub(super) fn shown(kind: Kind, name: &str, key: &str) -> String {
    let shown = match kind {
        // An address is no part of a name.
        Kind::GitRepository | Kind::HelmRepository => name,
        _ => key,
    };
    format!("{}/{shown}", kind.info().singular)
}

/// What a reference stands for: the key, if it is known, and the document.
type Target = (Option<String>, Option<usize>);

struct Resolver<'a> {
    documents: &'a [Document],
    secrets: &'a [Secret],
    used: BTreeSet<usize>,
    /// The keys of the documents that were resolved.
    keys: BTreeMap<usize, String>,
}

/// Resolves all of the files, in an order in which each document follows what it needs.
pub(super) async fn resolve(
    files: Files,
    console: &mut Console<'_>,
) -> Result<(Vec<Wish>, Vec<String>), CliError> {
    let Files { documents, secrets, mut problems, mut warnings } = files;
    let mut resolver =
        Resolver { documents: &documents, secrets: &secrets, used: BTreeSet::new(), keys: BTreeMap::new() };
    resolver.twice(&mut problems);
    let needs = resolver.needs();
    let Some(order) = order(&needs, &documents, &mut problems) else {
        problems.check()?;
        return Ok((Vec::new(), warnings));
    };
    let mut desired: BTreeMap<usize, Desired> = BTreeMap::new();
    for at in &order {
        let wish = resolver.desired(*at, console, &mut problems).await?;
        resolver.keys.insert(*at, wish.key.clone());
        desired.insert(*at, wish);
    }
    let mut known: BTreeMap<(Kind, &str), usize> = BTreeMap::new();
    for at in &order {
        let (document, key) = (&documents[*at], desired[at].key.as_str());
        if let Some(other) = known.insert((document.kind, key), *at).filter(|_| !key.is_empty()) {
            problems.add(
                &document.place,
                format_args!(
                    "{} {key} is also described in {}",
                    document.kind.info().name,
                    documents[other].place
                ),
            );
        }
    }
    let unused = secrets.iter().enumerate().filter(|(at, _)| !resolver.used.contains(at));
    for (_, secret) in unused {
        warnings.push(format!(
            "{}: no document refers to the Secret {}: nothing is done with it",
            secret.place, secret.name
        ));
    }
    problems.check()?;
    let places: BTreeMap<usize, usize> = order.iter().enumerate().map(|(place, at)| (*at, place)).collect();
    let mut documents: Vec<Option<Document>> = documents.into_iter().map(Some).collect();
    let mut wishes = Vec::new();
    for at in order {
        if let (Some(document), Some(desired)) = (documents[at].take(), desired.remove(&at)) {
            let needs = needs[at].iter().filter_map(|need| places.get(need).copied()).collect();
            wishes.push(Wish { document, desired, needs });
        }
    }
    Ok((wishes, warnings))
}

impl Resolver<'_> {
    /// Two documents of one name cannot be told apart by who refers to them.
    fn twice(&self, problems: &mut Problems) {
        let mut known = BTreeMap::new();
        for document in self.documents {
            let name = (document.kind, document.namespace.as_deref(), document.name.as_str());
            if let Some(other) = known.insert(name, &document.place) {
                let words =
                    format!("{} {} is also described in {other}", document.kind.info().name, document.name);
                problems.add(&document.place, words);
            }
        }
    }

    /// The document that a reference names.
    fn document(&self, kind: Kind, reference: &State) -> Option<usize> {
        let name = super::state::text(reference, "name");
        let namespace = super::state::text(reference, "namespace");
        self.documents.iter().position(|document| {
            document.kind == kind
                && Some(document.name.as_str()) == name
                && (namespace.is_none() || document.namespace.as_deref() == namespace)
        })
    }

    /// What each document needs of the others.
    fn needs(&self) -> Vec<BTreeSet<usize>> {
        let of = |document: &Document| {
            let mut needs = BTreeSet::new();
            walk(document.kind.info().fields, &document.spec, &mut |kind, reference| {
                needs.extend(self.document(kind, reference));
            });
            // Things that are named without a reference.
            for (field, kind, own) in
                [("cluster", Kind::Cluster, "handle"), ("contexts", Kind::ServiceContext, "name")]
            {
                let named: Vec<&str> = match document.spec.get(field) {
                    Some(Value::String(name)) => vec![name],
                    Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
                    _ => Vec::new(),
                };
                let all = self.documents.iter().enumerate().filter(|(_, other)| {
                    let name = super::state::text(&other.spec, own).unwrap_or(&other.name);
                    other.kind == kind && named.contains(&name)
                });
                needs.extend(all.map(|(at, _)| at));
            }
            if document.kind == Kind::ServiceDeployment {
                needs.extend(self.depended(document));
            }
            needs
        };
        self.documents.iter().map(of).collect()
    }

    /// The services that a service depends on.
    fn depended(&self, document: &Document) -> Vec<usize> {
        let cluster = |document: &Document| match document.spec.get("clusterRef") {
            Some(Value::Object(reference)) => match self.document(Kind::Cluster, reference) {
                Some(at) => {
                    let cluster = &self.documents[at];
                    super::state::text(&cluster.spec, "handle").unwrap_or(&cluster.name).to_owned()
                }
                None => super::state::text(reference, "name").unwrap_or_default().to_owned(),
            },
            _ => super::state::text(&document.spec, "cluster").unwrap_or_default().to_owned(),
        };
        let own = cluster(document);
        let all = document.spec.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        let all: Vec<(String, &str)> = all
            .filter_map(Value::as_object)
            .filter_map(|one| {
                let on = super::state::text(one, "cluster").map_or_else(|| own.clone(), str::to_owned);
                Some((on, super::state::text(one, "name")?))
            })
            .collect();
        let services =
            self.documents.iter().enumerate().filter(|(_, other)| other.kind == Kind::ServiceDeployment);
        services
            .filter(|(_, other)| {
                let name = super::state::text(&other.spec, "name").unwrap_or(&other.name);
                all.iter().any(|(on, named)| *named == name && *on == cluster(other))
            })
            .map(|(at, _)| at)
            .collect()
    }

    async fn desired(
        &mut self,
        at: usize,
        console: &mut Console<'_>,
        problems: &mut Problems,
    ) -> Result<Desired, CliError> {
        let documents = self.documents;
        let document = &documents[at];
        let who = format!("{} {}", document.kind.info().name, document.name);
        let fields = document.kind.info().fields;
        let mut said = document.spec.clone();
        let mut targets: BTreeMap<(Kind, String), Target> = BTreeMap::new();
        let mut asked = BTreeSet::new();
        walk(fields, &said, &mut |kind, reference| {
            asked.insert((
                kind,
                super::state::text(reference, "name").unwrap_or_default().to_owned(),
                super::state::text(reference, "namespace").map(str::to_owned),
            ));
        });
        for (kind, name, namespace) in asked {
            let mut reference = State::from_iter([("name".to_owned(), name.clone().into())]);
            reference.extend(namespace.map(|namespace| ("namespace".to_owned(), namespace.into())));
            let target = match self.document(kind, &reference) {
                Some(at) => (self.keys.get(&at).cloned(), Some(at)),
                None => match console.named(kind, &name).await {
                    Ok(found) => (found, None),
                    Err(error) => {
                        problems.add(&document.place, format_args!("{who}: {error}"));
                        (Some(String::new()), None)
                    }
                },
            };
            targets.insert((kind, name), target);
        }
        let mut missing = Vec::new();
        self.put(fields, &mut said, "spec", &targets, &mut missing);
        for (path, what) in missing {
            problems.add(&document.place_of(&path), format_args!("{who}: {path}: {what}"));
        }
        let mut hidden = Hidden::default();
        hide(fields, &mut said, "", &mut hidden);
        let mut wrong = Vec::new();
        let name = document.name.as_str();
        let key = match document.kind {
            Kind::Project => project::prepare(&said),
            Kind::Cluster => cluster::prepare(name, &mut said),
            Kind::GitRepository => git_repository::prepare(&mut said, &mut hidden, &mut wrong),
            Kind::HelmRepository => helm_repository::prepare(&mut said, &mut hidden, &mut wrong),
            Kind::StackDefinition => stack_definition::prepare(name, &mut said),
            Kind::InfrastructureStack => stack::prepare(name, &mut said, &mut hidden, &mut wrong),
            Kind::ServiceContext => {
                let name = super::state::text(&said, "name").unwrap_or(name).to_owned();
                said.insert("name".into(), name.clone().into());
                service_context::order_imports(&mut said);
                name
            }
            Kind::ServiceDeployment => service::prepare(name, &mut said, &mut hidden, &mut wrong),
            Kind::GlobalService => global_service::prepare(name, &mut said, &mut hidden, &mut wrong),
            Kind::ManagedNamespace => managed_namespace::prepare(name, &mut said, &mut hidden, &mut wrong),
            Kind::SyncWindow => sync_window::prepare(name, &mut said, &mut wrong),
        };
        project::order_bindings(&mut said);
        self.named_directly(&said, console, &mut wrong).await?;
        for what in wrong {
            let path = what.split(": ").next().unwrap_or_default();
            problems.add(&document.place_of(path), format_args!("{who}: {what}"));
        }
        Ok(Desired { key, said, hidden })
    }

    /// Clusters and contexts that are named without a reference are among the files, or in the console.
    async fn named_directly(
        &self,
        said: &State,
        console: &mut Console<'_>,
        problems: &mut Vec<String>,
    ) -> Result<(), CliError> {
        let contexts = |state: Option<&Value>| -> Vec<String> {
            let all =
                state.and_then(|state| state.get("contexts")).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let whole = Value::Object(said.clone());
        let mut named: Vec<(Kind, &str, String)> = Vec::new();
        named.extend(
            super::state::text(said, "cluster").map(|name| (Kind::Cluster, "spec.cluster", name.to_owned())),
        );
        for (path, state) in [
            ("spec.contexts", Some(&whole)),
            ("spec.template.contexts", said.get("template")),
            ("spec.service.contexts", said.get("service")),
        ] {
            named.extend(contexts(state).into_iter().map(|name| (Kind::ServiceContext, path, name)));
        }
        for (kind, path, name) in named {
            let among_files =
                self.keys.iter().any(|(at, key)| self.documents[*at].kind == kind && *key == name);
            if !among_files && console.id(kind, &name).await?.is_none() {
                problems.push(format!(
                    "{path}: there is no {} {name} among the files or in the console, as far as you may see",
                    kind.info().name
                ));
            }
        }
        Ok(())
    }

    /// Puts keys in place of references, and values in place of Secrets.
    fn put(
        &mut self,
        fields: &'static [Field],
        said: &mut State,
        path: &str,
        targets: &BTreeMap<(Kind, String), Target>,
        missing: &mut Vec<(String, String)>,
    ) {
        for (name, value) in said.iter_mut() {
            let Some(field) = fields.iter().find(|field| field.name == name) else { continue };
            let path = format!("{path}.{name}");
            match (field.ty, &mut *value) {
                (Type::Reference(kind), Value::Object(reference)) => {
                    let to = super::state::text(reference, "name").unwrap_or_default().to_owned();
                    match targets.get(&(kind, to.clone())) {
                        Some((Some(key), _)) => *value = Value::String(key.clone()),
                        _ => missing.push((path, format!(
                            "there is no {} {to} among the files or in the console, as far as you may see",
                            kind.info().name
                        ))),
                    }
                }
                (Type::Secret | Type::SecretKey, Value::Object(reference)) => {
                    match self.secret(reference, matches!(field.ty, Type::SecretKey)) {
                        Ok(secret) => *value = secret,
                        Err(what) => missing.push((path, what)),
                    }
                }
                (Type::Fields(fields), Value::Object(below)) => {
                    self.put(fields, below, &path, targets, missing);
                }
                (Type::List(fields), Value::Array(items)) => {
                    for (at, item) in items.iter_mut().enumerate() {
                        if let Value::Object(item) = item {
                            self.put(fields, item, &format!("{path}[{at}]"), targets, missing);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn secret(&mut self, reference: &State, one: bool) -> Result<Value, String> {
        let name = super::state::text(reference, "name").unwrap_or_default();
        let namespace = super::state::text(reference, "namespace");
        let found = self.secrets.iter().position(|secret| {
            secret.name == name
                && (namespace.is_none()
                    || secret.namespace.is_none()
                    || secret.namespace.as_deref() == namespace)
        });
        let at = found.ok_or_else(|| {
            format!("there is no Secret {name} among the files; `plural apply` reads no cluster, so add a v1 Secret to them")
        })?;
        self.used.insert(at);
        let values = &self.secrets[at].values;
        if !one {
            return Ok(Value::Object(values.clone()));
        }
        let key = super::state::text(reference, "key").unwrap_or_default();
        values.get(key).cloned().ok_or_else(|| format!("the Secret {name} has no key {key}"))
    }
}

/// Calls `see` with each reference of a document.
fn walk(fields: &'static [Field], said: &State, see: &mut dyn FnMut(Kind, &State)) {
    for (name, value) in said {
        let Some(field) = fields.iter().find(|field| field.name == name) else { continue };
        match (field.ty, value) {
            (Type::Reference(kind), Value::Object(reference)) => see(kind, reference),
            (Type::Fields(fields), Value::Object(below)) => walk(fields, below, see),
            (Type::List(fields), Value::Array(items)) => {
                for item in items.iter().filter_map(Value::as_object) {
                    walk(fields, item, see);
                }
            }
            _ => {}
        }
    }
}

/// Places in an order in which each follows what it needs, otherwise by kind and as they were read. A circle is a problem.
fn order(needs: &[BTreeSet<usize>], documents: &[Document], problems: &mut Problems) -> Option<Vec<usize>> {
    let mut left: BTreeSet<(Kind, usize)> =
        documents.iter().enumerate().map(|(at, document)| (document.kind, at)).collect();
    let mut done = BTreeSet::new();
    let mut order = Vec::new();
    while !left.is_empty() {
        let next = left.iter().find(|(_, at)| needs[*at].is_subset(&done)).copied();
        let Some(next) = next else {
            // Whoever is left needs somebody who is left: following that comes back to where it was.
            let mut path: Vec<usize> = left.iter().next().map(|(_, at)| *at).into_iter().collect();
            while let Some(need) =
                path.last().and_then(|at| needs[*at].iter().find(|need| !done.contains(*need)))
            {
                if let Some(start) = path.iter().position(|at| at == need) {
                    path.push(*need);
                    let names: Vec<String> = path[start..]
                        .iter()
                        .map(|at| format!("{} {}", documents[*at].kind.info().name, documents[*at].name))
                        .collect();
                    let words = format!("documents need each other in a circle: {}", names.join(" -> "));
                    problems.add(&documents[path[start]].place, words);
                    break;
                }
                path.push(*need);
            }
            return None;
        };
        left.remove(&next);
        done.insert(next.1);
        order.push(next.1);
    }
    Some(order)
}
