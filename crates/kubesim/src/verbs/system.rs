//! Writes of the server's own controllers: booked like any other, not checked.

use std::sync::Arc;

use serde_json::Value;

use super::now;
use crate::managed::set::FieldSet;
use crate::managed::{self, Booking, Managers, typed};
use crate::store::{Store, text};
use crate::{defaults, kinds};

/// Changes an object on behalf of the server's own controllers: same bookkeeping, no checks.
pub(crate) fn system_update(
    s: &mut Store,
    table: &Arc<str>,
    old: &Arc<Value>,
    mut new: Value,
    manager: &str,
    subresource: &str,
) -> Option<Arc<Value>> {
    let res = s.resource_of_table(table)?;
    let version = &res.versions[res.storage];
    if typed::same(&managed::bare(old), &managed::bare(&new)) {
        return None;
    }
    if let Some(schema) = &version.schema {
        let mut managers = Managers::from_object(old).unwrap_or_default();
        let mut ignored = FieldSet::default();
        if subresource == "status" {
            ignored.insert(&managed::set::fields("spec"));
        }
        let api_version = res.api_version(&version.name);
        let booking = Booking {
            schema,
            api_version: &api_version,
            manager,
            subresource,
            ignored: &ignored,
            now: &now(),
        };
        let (a, b) = (managed::bare(old), managed::bare(&new));
        managed::update(booking, &a, &b, &mut managers);
        new = b;
        managers.write(&mut new);
    }
    Some(s.put(table, new))
}

/// Creates an object on behalf of the server's own controllers.
pub(crate) fn system_create(
    s: &mut Store,
    table: &str,
    mut object: Value,
    manager: &str,
) -> Option<Arc<Value>> {
    let res = s.resource_of_table(table)?;
    let version = &res.versions[res.storage];
    let ns = text(&object, "/metadata/namespace").to_owned();
    let name = text(&object, "/metadata/name").to_owned();
    if s.get(table, &ns, &name).is_some() {
        return None;
    }
    let api_version = res.api_version(&version.name);
    object["apiVersion"] = api_version.clone().into();
    object["kind"] = res.kind.clone().into();
    defaults::apply(table, &mut object);
    let at = now();
    if let Some(schema) = &version.schema {
        let mut managers = Managers::default();
        let blank = managed::blank(schema, false, &api_version, &res.kind);
        let mut ignored = FieldSet::default();
        if version.status {
            ignored.insert(&managed::set::fields("status"));
        }
        let booking = Booking {
            schema,
            api_version: &api_version,
            manager,
            subresource: "",
            ignored: &ignored,
            now: &at,
        };
        managed::update(booking, &blank, &object, &mut managers);
        managers.write(&mut object);
    }
    let m = object["metadata"].as_object_mut()?;
    m.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    m.insert("creationTimestamp".into(), at.into());
    if kinds::has_generation(table) {
        m.insert("generation".into(), 1.into());
    }
    Some(s.put(&res.table, object))
}
