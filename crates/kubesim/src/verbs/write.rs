//! Create, update and patch: one pipeline for built-in kinds and custom resources.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Call, FieldValidation, Outcome, now, options_invalid};
use crate::managed::set::FieldSet;
use crate::managed::{self, Booking, Managers, typed};
use crate::patch::{self, PatchKind};
use crate::schema::Schema;
use crate::status::{ApiError, Cause};
use crate::store::{Store, text};
use crate::{convert, crd, decode, defaults, kinds, names, validate};

/// Options of one write.
struct Options {
    dry_run: bool,
    validation: FieldValidation,
    manager: String,
    now: String,
}

impl Options {
    fn read(call: Call<'_>, kind: &str) -> Result<Self, ApiError> {
        let manager = call.info.param("fieldManager");
        if manager.len() > 128 {
            return Err(options_invalid(
                kind,
                vec![Cause::too_long("fieldManager", "may not be more than 128 bytes")],
            ));
        }
        Ok(Self {
            dry_run: call.dry_run(kind)?,
            validation: call.validation(kind)?,
            manager: call.manager(),
            now: now(),
        })
    }
}

fn schema(call: Call<'_>) -> Result<&Schema, ApiError> {
    call.version.schema.as_ref().ok_or_else(ApiError::method_not_allowed)
}

/// Makes a body an object of the path: apiVersion and kind agree, metadata is there, names agree.
fn adopt(call: Call<'_>, body: &mut Value, named: bool) -> Result<(), ApiError> {
    let Some(o) = body.as_object_mut() else {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: \
             the body is not a JSON object",
            call.res.kind
        )));
    };
    let api_version = call.api_version();
    let given = o.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !given.is_empty() && given != api_version {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({api_version})"
        )));
    }
    let kind = o.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if (!kind.is_empty() && kind != call.res.kind)
        || (call.res.custom && (kind.is_empty() || given.is_empty()))
    {
        if kind.is_empty() || given.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): apiVersion and kind must be set",
                call.res.kind
            )));
        }
        return Err(ApiError::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {}: converting ({given}, Kind={kind}) to ({api_version}, Kind={}): \
             unknown conversion",
            call.version.name, call.res.kind, call.res.kind
        )));
    }
    o.insert("apiVersion".into(), api_version.into());
    o.insert("kind".into(), call.res.kind.clone().into());
    let meta = o.entry("metadata").or_insert_with(|| json!({}));
    if meta.is_null() {
        *meta = json!({});
    }
    let Some(meta) = meta.as_object_mut() else {
        return Err(ApiError::bad_request("metadata must be an object"));
    };
    if call.res.namespaced {
        let ns = meta.get("namespace").and_then(Value::as_str).unwrap_or_default();
        if !ns.is_empty() && ns != call.info.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        meta.insert("namespace".into(), call.info.namespace.clone().into());
    } else {
        meta.remove("namespace");
    }
    let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
    if named && name != call.info.name {
        if name.is_empty() && !call.res.custom {
            meta.insert("name".into(), call.info.name.clone().into());
            return Ok(());
        }
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.info.name
        )));
    }
    Ok(())
}

/// Drops unknown fields, checks types; warnings for what was dropped.
fn clean(call: Call<'_>, schema: &Schema, o: &Options, object: &mut Value) -> Result<Vec<String>, ApiError> {
    let findings = if call.res.custom {
        decode::custom(schema, object)
    } else {
        decode::built_in(schema, &call.res.kind, &call.version.name, object)?
    };
    if findings.unknown.is_empty() {
        return Ok(Vec::new());
    }
    let mut unknown = findings.unknown;
    unknown.sort();
    match o.validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(unknown.into_iter().map(|f| format!("unknown field \"{f}\"")).collect()),
        FieldValidation::Strict => {
            let list: Vec<String> = unknown.iter().map(|f| format!("unknown field \"{f}\"")).collect();
            let (kind, version) = (&call.res.kind, &call.version.name);
            let list = list.join(", ");
            Err(ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {list}"
            )))
        }
    }
}

fn fill(call: Call<'_>, schema: &Schema, object: &mut Value) {
    if call.res.custom {
        decode::defaults(&schema.arena, schema.root, object);
    } else {
        defaults::apply(&call.res.table, object);
    }
}

fn check(call: Call<'_>, schema: &Schema, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let mut causes = names::check_metadata(
        object,
        names::Rules {
            table: &call.res.table,
            namespaced: call.res.namespaced,
            known_finalizers: !call.res.custom && &*call.res.table != kinds::CRDS,
        },
    );
    if call.res.custom {
        causes.extend(crd::rules::validate(&schema.arena, schema.root, object));
    } else {
        causes.extend(validate::object(&call.res.table, object, old));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(call.kind_subject(text(object, "/metadata/name")), causes))
}

fn too_large(object: &Value) -> Result<(), ApiError> {
    // What etcd takes in one request.
    const LIMIT: usize = 1_572_864;
    let size = approximate_size(object);
    if size > LIMIT {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {LIMIT}"),
        ));
    }
    Ok(())
}

fn approximate_size(v: &Value) -> usize {
    match v {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(s) => s.len() + 2,
        Value::Array(l) => l.iter().map(|v| approximate_size(v) + 1).sum(),
        Value::Object(m) => m.iter().map(|(k, v)| k.len() + 4 + approximate_size(v)).sum(),
    }
}

/// Fields an endpoint cannot write.
fn ignored(call: Call<'_>) -> FieldSet {
    let mut out = FieldSet::default();
    let mut add = |p: &str| out.insert(&managed::set::fields(p));
    match call.info.subresource.as_str() {
        "" if call.version.status => add("status"),
        "status" if call.res.custom => {
            add("metadata");
            add("spec");
        }
        "status" => {
            add("spec");
            add("metadata.labels");
        }
        _ => {}
    }
    out
}

/// A new object.
///
/// # Errors
/// 400, 403, 404 (namespace), 409, 413, 422 as the real server answers.
pub(crate) fn create(s: &mut Store, call: Call<'_>, mut body: Value) -> Result<Outcome, ApiError> {
    let o = Options::read(call, "CreateOptions")?;
    adopt(call, &mut body, false)?;
    let warnings = clean(call, schema(call)?, &o, &mut body)?;
    let fields = Managers::from_object(&body).unwrap_or_default();
    let object = insert(s, call, &o, body, |schema, o, object| {
        let mut managers = fields;
        let blank = managed::blank(schema, call.res.custom, &call.api_version(), &call.res.kind);
        managed::update(booking(call, schema, o, &ignored(call)).view(), &blank, object, &mut managers);
        managers
    })?;
    Ok(Outcome { body: object, code: 201, warnings })
}

fn booking<'a>(
    call: Call<'a>,
    schema: &'a Schema,
    o: &'a Options,
    ignored: &'a FieldSet,
) -> BookingParts<'a> {
    BookingParts { api_version: call.api_version(), call, schema, o, ignored }
}

/// Owns the text that a [`Booking`] borrows.
struct BookingParts<'a> {
    api_version: String,
    call: Call<'a>,
    schema: &'a Schema,
    o: &'a Options,
    ignored: &'a FieldSet,
}

impl BookingParts<'_> {
    fn view(&self) -> Booking<'_> {
        Booking {
            schema: self.schema,
            api_version: &self.api_version,
            manager: &self.o.manager,
            subresource: &self.call.info.subresource,
            ignored: self.ignored,
            now: &self.o.now,
        }
    }
}

/// The part of a create that applies share: system fields, defaults, checks, owners, storage.
fn insert(
    s: &mut Store,
    call: Call<'_>,
    o: &Options,
    mut object: Value,
    own: impl FnOnce(&Schema, &Options, &Value) -> Managers,
) -> Result<Arc<Value>, ApiError> {
    let schema = schema(call)?;
    let Some(meta) = object["metadata"].as_object_mut() else {
        return Err(ApiError::bad_request("metadata must be an object"));
    };
    if meta.get("resourceVersion").and_then(Value::as_str).is_some_and(|v| !v.is_empty()) {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    for f in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "selfLink",
        "generation",
        "managedFields",
    ] {
        meta.remove(f);
    }
    let mut name = meta.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let base = meta.get("generateName").and_then(Value::as_str).unwrap_or_default();
    let generated = name.is_empty() && !base.is_empty();
    if generated {
        name = generate_name(s, call, base);
        meta.insert("name".into(), name.clone().into());
    }
    if call.version.status
        && let Some(m) = object.as_object_mut()
    {
        m.remove("status");
    }
    kinds::prepare_create(call, &mut object);
    fill(call, schema, &mut object);
    let managers = own(schema, o, &object);
    let uid = uuid::Uuid::new_v4().to_string();
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.insert("uid".into(), uid.into());
        meta.insert("creationTimestamp".into(), o.now.clone().into());
        if call.res.custom || kinds::has_generation(&call.res.table) {
            meta.insert("generation".into(), 1.into());
        }
    }
    check_namespace(s, call)?;
    check(call, schema, &object, None)?;
    if s.get(&call.res.table, call.namespace(), &name).is_some() {
        return Err(ApiError::already_exists(call.subject(&name)));
    }
    kinds::admit_create(s, call, &mut object)?;
    too_large(&object)?;
    managers.write(&mut object);
    if o.dry_run {
        return Ok(Arc::new(object));
    }
    to_storage(call, &mut object);
    let stored = s.put(&call.res.table, object);
    Ok(super::read::in_version(&stored, call))
}

/// Brings an object into the version it is stored in.
fn to_storage(call: Call<'_>, object: &mut Value) {
    convert::convert(call.res, object, &convert::storage_version(call.res));
}

fn generate_name(s: &Store, call: Call<'_>, base: &str) -> String {
    let base: String = base.chars().take(58).collect();
    loop {
        let name = format!("{base}{}", kinds::random_suffix(5));
        if s.get(&call.res.table, call.namespace(), &name).is_none() {
            return name;
        }
    }
}

fn check_namespace(s: &Store, call: Call<'_>) -> Result<(), ApiError> {
    if !call.res.namespaced {
        return Ok(());
    }
    let ns = call.namespace();
    let Some(n) = s.get("namespaces", "", ns) else {
        return Err(ApiError::not_found(crate::status::Subject { group: "", kind: "namespaces", name: ns }));
    };
    if n.pointer("/metadata/deletionTimestamp").is_some() {
        let mut e = ApiError::forbidden(
            call.subject(&call.info.name),
            &format!("unable to create new content in namespace {ns} because it is being terminated"),
        );
        e.causes.push(Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {ns} is being terminated"),
            field: "metadata.namespace".into(),
        });
        return Err(e);
    }
    Ok(())
}

/// PUT.
///
/// # Errors
/// As [`create`], and 404 for an object that is not there.
pub(crate) fn update(s: &mut Store, call: Call<'_>, mut body: Value) -> Result<Outcome, ApiError> {
    let o = Options::read(call, "UpdateOptions")?;
    adopt(call, &mut body, true)?;
    let old = find(s, call)?;
    if call.res.custom && text(&body, "/metadata/resourceVersion").is_empty() {
        return Err(ApiError::invalid(
            call.kind_subject(&call.info.name),
            vec![Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update")],
        ));
    }
    let warnings = clean(call, schema(call)?, &o, &mut body)?;
    let object = replace(s, call, &o, &old, body)?;
    Ok(Outcome { body: object, code: 200, warnings })
}

/// The object of the path, as the path's version writes it.
fn find(s: &Store, call: Call<'_>) -> Result<Arc<Value>, ApiError> {
    s.get(&call.res.table, call.namespace(), &call.info.name)
        .map(|o| super::read::in_version(o, call))
        .ok_or_else(|| ApiError::not_found(call.subject(&call.info.name)))
}

/// Replaces `old` by `new`, which is decoded already, and books the difference.
fn replace(
    s: &mut Store,
    call: Call<'_>,
    o: &Options,
    old: &Arc<Value>,
    mut new: Value,
) -> Result<Arc<Value>, ApiError> {
    let schema = schema(call)?;
    let was = Managers::from_object(old).unwrap_or_default();
    // A client may edit managedFields: one empty entry (or list) forgets them all, anything valid replaces them.
    let mut managers = match new.pointer("/metadata/managedFields").and_then(Value::as_array) {
        None => was.clone(),
        Some(l) if l.is_empty() => was.clone(),
        Some(l) if l.len() == 1 && l[0].as_object().is_some_and(Map::is_empty) => Managers::default(),
        Some(_) => Managers::from_object(&new).unwrap_or_else(|| was.clone()),
    };
    let reset = managers.is_empty() && !was.is_empty();
    if was == managers
        && let (Some(m), Some(old)) =
            (new["metadata"].as_object_mut(), old.pointer("/metadata/managedFields"))
    {
        m.insert("managedFields".into(), old.clone());
    }
    merge_system_fields(call, old, &mut new)?;
    fill(call, schema, &mut new);
    let (old_bare, new_bare) = (managed::bare(old), managed::bare(&new));
    if !reset {
        let ignored = ignored(call);
        managed::update(booking(call, schema, o, &ignored).view(), &old_bare, &new_bare, &mut managers);
    }
    finish(s, call, o, old, new_bare, &managers)
}

/// Carries over what this endpoint may not change, and checks preconditions in the body.
fn merge_system_fields(call: Call<'_>, old: &Value, new: &mut Value) -> Result<(), ApiError> {
    let name = &call.info.name;
    let rv = text(new, "/metadata/resourceVersion");
    if !rv.is_empty() && rv != "0" && rv != text(old, "/metadata/resourceVersion") {
        if rv.parse::<u64>().is_err() {
            return Err(ApiError::invalid(
                call.kind_subject(name),
                vec![Cause::invalid("metadata.resourceVersion", &rv.into(), "invalid resourceVersion")],
            ));
        }
        return Err(ApiError::conflict(
            call.subject(name),
            "the object has been modified; please apply your changes to the latest version and try again",
        ));
    }
    let uid = text(new, "/metadata/uid");
    let have = text(old, "/metadata/uid");
    if !uid.is_empty() && uid != have {
        return Err(ApiError::conflict(
            call.subject(name),
            &format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {have}"),
        ));
    }
    let status = call.info.subresource == "status";
    if status {
        let mut kept = old.clone();
        if let Some(k) = kept.as_object_mut() {
            match new.get("status") {
                Some(v) => k.insert("status".into(), v.clone()),
                None => k.remove("status"),
            };
            if !call.res.custom
                && let (Some(m), Some(given)) = (k["metadata"].as_object_mut(), new.get("metadata"))
            {
                for f in ["annotations", "finalizers"] {
                    match given.get(f) {
                        Some(v) => m.insert(f.into(), v.clone()),
                        None => m.remove(f),
                    };
                }
            }
            if let (Some(m), Some(v)) =
                (k["metadata"].as_object_mut(), new.pointer("/metadata/managedFields"))
            {
                m.insert("managedFields".into(), v.clone());
            }
        }
        *new = kept;
    } else if call.version.status
        && let Some(n) = new.as_object_mut()
    {
        match old.get("status") {
            Some(v) => n.insert("status".into(), v.clone()),
            None => n.remove("status"),
        };
    }
    let old_meta = &old["metadata"];
    if let Some(m) = new["metadata"].as_object_mut() {
        for f in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
            "generateName",
        ] {
            match old_meta.get(f) {
                Some(v) => m.insert(f.into(), v.clone()),
                None => m.remove(f),
            };
        }
        m.remove("selfLink");
    }
    if old_meta.get("deletionTimestamp").is_some() {
        let had: Vec<&Value> = list(old, "/metadata/finalizers");
        let extra: Vec<&str> = list(new, "/metadata/finalizers")
            .into_iter()
            .filter(|f| !had.contains(f))
            .filter_map(Value::as_str)
            .collect();
        if !extra.is_empty() {
            let shown = extra.iter().map(|f| format!("\"{f}\"")).collect::<Vec<_>>().join(", ");
            return Err(ApiError::invalid(
                call.kind_subject(name),
                vec![Cause::forbidden(
                    "metadata.finalizers",
                    &format!(
                        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
                    ),
                )],
            ));
        }
    }
    kinds::prepare_update(call, old, new);
    Ok(())
}

fn list<'a>(v: &'a Value, pointer: &str) -> Vec<&'a Value> {
    v.pointer(pointer).and_then(Value::as_array).map(|l| l.iter().collect()).unwrap_or_default()
}

/// Generation, checks, storage; a delete that waited for the last finalizer happens here.
fn finish(
    s: &mut Store,
    call: Call<'_>,
    o: &Options,
    old: &Arc<Value>,
    mut new: Value,
    managers: &Managers,
) -> Result<Arc<Value>, ApiError> {
    let schema = schema(call)?;
    if (call.res.custom || kinds::has_generation(&call.res.table))
        && call.info.subresource != "status"
        && !same_but_meta_and_status(call, old, &new)
        && let Some(m) = new["metadata"].as_object_mut()
    {
        let g = m.get("generation").and_then(Value::as_i64).unwrap_or(0);
        m.insert("generation".into(), (g + 1).into());
    }
    check(call, schema, &new, Some(old))?;
    kinds::admit_update(call, old, &new)?;
    too_large(&new)?;
    managers.write(&mut new);
    if typed::same(old, &new) {
        return Ok(old.clone());
    }
    if o.dry_run {
        return Ok(Arc::new(new));
    }
    to_storage(call, &mut new);
    let gone = super::delete::is_ready_to_go(call, &new);
    let stored = s.put(&call.res.table, new);
    if gone {
        s.remove(&call.res.table, &crate::store::key_of(&stored));
    }
    Ok(super::read::in_version(&stored, call))
}

fn same_but_meta_and_status(call: Call<'_>, a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return false };
    let skip = |k: &str| k == "metadata" || (k == "status" && (call.version.status || !call.res.custom));
    let rest = |m: &Map<String, Value>| m.keys().filter(|k| !skip(k)).count();
    rest(a) == rest(b)
        && a.iter().filter(|(k, _)| !skip(k)).all(|(k, v)| b.get(k).is_some_and(|w| typed::same(v, w)))
}

/// PATCH of any of the four kinds.
///
/// # Errors
/// As [`update`]; 415 for another content type; 409 for apply conflicts.
pub(crate) fn patch(s: &mut Store, call: Call<'_>, body: &[u8]) -> Result<Outcome, ApiError> {
    let kind = PatchKind::of(&call.info.content_type, call.res.custom)?;
    let o = Options::read(call, "PatchOptions")?;
    if kind == PatchKind::Apply {
        return apply(s, call, &o, body);
    }
    if !call.info.param("force").is_empty() {
        return Err(options_invalid(
            "PatchOptions",
            vec![Cause::forbidden("force", "may not be specified for non-apply patch")],
        ));
    }
    let old = find(s, call)?;
    let schema = schema(call)?;
    let mut new = patch::run(kind, &old, body, schema, call)?;
    if new["apiVersion"] != old["apiVersion"] || new["kind"] != old["kind"] {
        return Err(ApiError::bad_request(format!(
            "the patch changes apiVersion or kind of {} \"{}\"; they cannot change",
            call.res.plural, call.info.name
        )));
    }
    adopt(call, &mut new, true)?;
    // What the patch leads to cannot be read: the patch is at fault.
    let warnings = clean(call, schema, &o, &mut new).map_err(|e| {
        let why = e.message.rsplit_once(": json: ").map_or(e.message.clone(), |(_, m)| format!("json: {m}"));
        let cause = Cause::invalid("patch", &"".into(), &why);
        ApiError::invalid(call.kind_subject(&call.info.name), vec![cause])
    })?;
    let object = replace(s, call, &o, &old, new)?;
    Ok(Outcome { body: object, code: 200, warnings })
}

fn apply(s: &mut Store, call: Call<'_>, o: &Options, body: &[u8]) -> Result<Outcome, ApiError> {
    if call.info.param("fieldManager").is_empty() {
        return Err(options_invalid(
            "PatchOptions",
            vec![Cause::required("fieldManager", "is required for apply patch")],
        ));
    }
    let mut config = patch::parse_yaml(body)?;
    let given = |p: &str| config.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
    if given("/apiVersion").is_empty() || given("/kind").is_empty() {
        return Err(ApiError::bad_request(format!(
            "invalid object type: apiVersion and kind are required in an apply patch of {} \"{}\"",
            call.res.plural, call.info.name
        )));
    }
    if config.pointer("/metadata/managedFields").and_then(Value::as_array).is_some_and(|l| !l.is_empty()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let had_namespace = config.pointer("/metadata/namespace").is_some();
    if config.pointer("/metadata/name").is_none()
        && let Some(m) = config.get_mut("metadata").and_then(Value::as_object_mut)
    {
        m.insert("name".into(), call.info.name.clone().into());
    }
    adopt(call, &mut config, true)?;
    if !had_namespace && let Some(m) = config["metadata"].as_object_mut() {
        m.remove("namespace");
    }
    let force = call.info.flag("force");
    let schema = schema(call)?;
    let ignored = ignored(call);
    let parts = booking(call, schema, o, &ignored);
    let mut warnings = Vec::new();

    let Some(old) =
        s.get(&call.res.table, call.namespace(), &call.info.name).map(|x| super::read::in_version(x, call))
    else {
        if !call.info.subresource.is_empty() {
            return Err(ApiError::not_found(call.subject(&call.info.name)));
        }
        if !text(&config, "/metadata/uid").is_empty() {
            return Err(ApiError::conflict(
                call.subject(&call.info.name),
                "uid mismatch: the provided object specified uid, and no existing object was found",
            ));
        }
        let blank = managed::blank(schema, call.res.custom, &call.api_version(), &call.res.kind);
        let mut managers = Managers::default();
        let mut object = managed::apply(parts.view(), &blank, &config, &mut managers, force)?;
        if let Some(m) = object["metadata"].as_object_mut()
            && call.res.namespaced
        {
            m.insert("namespace".into(), call.info.namespace.clone().into());
        }
        warnings.extend(clean(call, schema, o, &mut object)?);
        let object = insert(s, call, o, object, |_, _, _| managers)?;
        return Ok(Outcome { body: object, code: 201, warnings });
    };

    let rv = text(&config, "/metadata/resourceVersion");
    if !rv.is_empty() && rv != text(&old, "/metadata/resourceVersion") {
        return Err(ApiError::conflict(
            call.subject(&call.info.name),
            "the object has been modified; please apply your changes to the latest version and try again",
        ));
    }
    let mut managers = Managers::from_object(&old).unwrap_or_default();
    let live = managed::bare(&old);
    if managers.is_empty() {
        managed::seed_untracked(schema, &call.api_version(), &live, &mut managers);
    }
    let mut new = managed::apply(parts.view(), &live, &config, &mut managers, force)?;
    warnings.extend(clean(call, schema, o, &mut new)?);
    merge_system_fields(call, &old, &mut new)?;
    fill(call, schema, &mut new);
    let object = finish(s, call, o, &old, managed::bare(&new), &managers)?;
    Ok(Outcome { body: object, code: 200, warnings })
}
