//! The objects of one cluster: ordered tables, one revision counter, a bounded history per table for watches.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::catalog::catalog;
use crate::resource::Resource;

/// Namespace (empty for cluster-scoped objects) and name.
pub(crate) type Key = (Arc<str>, Arc<str>);

/// Address of one object.
pub(crate) type Address = (Arc<str>, Key);

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// Created.
    Added,
    /// Changed.
    Modified,
    /// Gone.
    Deleted,
}

/// One entry of the history.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Revision of the change.
    pub rv: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The object after it (for a delete: as it was, with the revision of the delete).
    pub object: Arc<Value>,
    /// The object before it.
    pub before: Option<Arc<Value>>,
}

/// The objects of one resource.
#[derive(Debug)]
pub(crate) struct Table {
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Change>,
    /// Changes up to and including this revision are forgotten.
    floor: u64,
    changed: watch::Sender<u64>,
}

impl Table {
    fn new(floor: u64) -> Self {
        Self { objects: BTreeMap::new(), history: VecDeque::new(), floor, changed: watch::Sender::new(0) }
    }
}

/// All state of one cluster behind its lock.
#[derive(Debug)]
pub(crate) struct Store {
    rv: u64,
    compacted: u64,
    keep: usize,
    tables: HashMap<Arc<str>, Table>,
    by_uid: HashMap<Arc<str>, Address>,
    dependents: HashMap<Arc<str>, BTreeSet<Address>>,
    custom: BTreeMap<(String, String), Arc<Resource>>,
    /// Raised with every change of the set of custom resources.
    pub custom_generation: u64,
    dirty: VecDeque<Address>,
    queued: HashSet<Address>,
}

/// The text at a pointer, or "".
pub(crate) fn text<'a>(v: &'a Value, pointer: &str) -> &'a str {
    v.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn meta<'a>(v: &'a Value, field: &str) -> &'a str {
    v.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// The key of an object.
pub(crate) fn key_of(v: &Value) -> Key {
    (meta(v, "namespace").into(), meta(v, "name").into())
}

/// The uids an object names as its owners.
pub(crate) fn owner_uids(v: &Value) -> impl Iterator<Item = &str> {
    v.pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|o| o.get("uid").and_then(Value::as_str))
}

impl Store {
    /// An empty store that keeps the last `keep` changes of each table.
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            rv: 1,
            compacted: 0,
            keep,
            tables: HashMap::new(),
            by_uid: HashMap::new(),
            dependents: HashMap::new(),
            custom: BTreeMap::new(),
            custom_generation: 0,
            dirty: VecDeque::new(),
            queued: HashSet::new(),
        }
    }

    /// The current revision.
    pub(crate) fn revision(&self) -> u64 {
        self.rv
    }

    /// One object.
    pub(crate) fn get(&self, table: &str, ns: &str, name: &str) -> Option<&Arc<Value>> {
        self.tables.get(table)?.objects.get(&(Arc::from(ns), Arc::from(name)))
    }

    /// One object by address.
    pub(crate) fn at(&self, a: &Address) -> Option<&Arc<Value>> {
        self.tables.get(&a.0)?.objects.get(&a.1)
    }

    /// Where the object with this uid is.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Address> {
        self.by_uid.get(uid)
    }

    /// Objects that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Address> {
        self.dependents.get(uid).map(|s| s.iter().cloned().collect()).unwrap_or_default()
    }

    /// All objects of a table, or of one namespace in it, in order of namespace and name.
    pub(crate) fn list(&self, table: &str, ns: Option<&str>) -> Vec<Arc<Value>> {
        self.iter(table, ns).map(|(_, o)| o.clone()).collect()
    }

    /// As [`Store::list`], without copies.
    pub(crate) fn iter<'a>(
        &'a self,
        table: &str,
        ns: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> + 'a {
        let start: Key = (ns.unwrap_or_default().into(), "".into());
        self.tables
            .get(table)
            .into_iter()
            .flat_map(move |t| t.objects.range(start.clone()..))
            .take_while(move |((n, _), _)| ns.is_none_or(|ns| &**n == ns))
    }

    /// The tables that hold anything.
    pub(crate) fn tables(&self) -> Vec<Arc<str>> {
        self.tables.iter().filter(|(_, t)| !t.objects.is_empty()).map(|(n, _)| n.clone()).collect()
    }

    /// Number of objects of a table.
    pub(crate) fn count(&self, table: &str) -> usize {
        self.tables.get(table).map_or(0, |t| t.objects.len())
    }

    fn table_mut(&mut self, table: &Arc<str>) -> &mut Table {
        let floor = self.compacted;
        self.tables.entry(table.clone()).or_insert_with(|| Table::new(floor))
    }

    fn stamp(&mut self, object: &mut Value) -> u64 {
        self.rv += 1;
        if let Some(m) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            m.insert("resourceVersion".into(), self.rv.to_string().into());
        }
        self.rv
    }

    fn record(&mut self, table: &Arc<str>, change: Change) {
        let keep = self.keep;
        let rv = change.rv;
        let t = self.table_mut(table);
        t.history.push_back(change);
        while t.history.len() > keep {
            if let Some(old) = t.history.pop_front() {
                t.floor = old.rv;
            }
        }
        t.changed.send_replace(rv);
    }

    /// Creates or replaces an object and gives it with its new revision.
    pub(crate) fn put(&mut self, table: &Arc<str>, mut object: Value) -> Arc<Value> {
        let rv = self.stamp(&mut object);
        let key = key_of(&object);
        let object = Arc::new(object);
        let address = (table.clone(), key.clone());
        let before = self.table_mut(table).objects.insert(key, object.clone());
        if let Some(b) = &before {
            self.unlink(b, &address);
        }
        let uid = meta(&object, "uid");
        if !uid.is_empty() {
            self.by_uid.insert(uid.into(), address.clone());
        }
        for owner in owner_uids(&object) {
            self.dependents.entry(owner.into()).or_default().insert(address.clone());
        }
        let kind = if before.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.mark_owners(&object);
        self.record(table, Change { rv, kind, object: object.clone(), before });
        self.mark(address);
        object
    }

    /// Places shared objects that every cluster starts with, without history.
    pub(crate) fn seed(&mut self, table: &Arc<str>, object: Arc<Value>) {
        let key = key_of(&object);
        let uid = meta(&object, "uid");
        if !uid.is_empty() {
            self.by_uid.insert(uid.into(), (table.clone(), key.clone()));
        }
        self.table_mut(table).objects.insert(key, object);
    }

    /// Removes an object and gives it as watches see it.
    pub(crate) fn remove(&mut self, table: &Arc<str>, key: &Key) -> Option<Arc<Value>> {
        let before = self.tables.get_mut(table)?.objects.remove(key)?;
        let address = (table.clone(), key.clone());
        self.unlink(&before, &address);
        let uid = meta(&before, "uid");
        self.by_uid.remove(uid);
        let mut last = (*before).clone();
        let rv = self.stamp(&mut last);
        let last = Arc::new(last);
        self.record(
            table,
            Change { rv, kind: ChangeKind::Deleted, object: last.clone(), before: Some(before) },
        );
        self.mark_owners(&last);
        let uid = meta(&last, "uid").to_owned();
        for d in self.dependents(&uid) {
            self.mark(d);
        }
        self.mark(address);
        Some(last)
    }

    fn mark_owners(&mut self, object: &Value) {
        let owners: Vec<Address> = owner_uids(object).filter_map(|u| self.by_uid.get(u).cloned()).collect();
        for o in owners {
            self.mark(o);
        }
    }

    fn unlink(&mut self, object: &Value, address: &Address) {
        for owner in owner_uids(object) {
            if let Some(set) = self.dependents.get_mut(owner) {
                set.remove(address);
                if set.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// Forgets history up to now: watches and pages from before answer 410.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.rv;
        for t in self.tables.values_mut() {
            t.floor = self.rv;
            t.history.clear();
        }
    }

    /// Changes of a table after `rv`; `Err` with the oldest usable revision if some are forgotten.
    pub(crate) fn changes_after(&self, table: &str, rv: u64, limit: usize) -> Result<Vec<Change>, u64> {
        let Some(t) = self.tables.get(table) else {
            return if rv < self.compacted { Err(self.compacted) } else { Ok(Vec::new()) };
        };
        if rv < t.floor {
            return Err(t.floor);
        }
        let start = t.history.partition_point(|c| c.rv <= rv);
        Ok(t.history.range(start..).take(limit).cloned().collect())
    }

    /// The table as it was at `rv`; `None` if that is forgotten.
    pub(crate) fn list_at(&self, table: &str, ns: Option<&str>, rv: u64) -> Option<Vec<Arc<Value>>> {
        let Some(t) = self.tables.get(table) else { return (rv >= self.compacted).then(Vec::new) };
        if rv < t.floor {
            return None;
        }
        let start = t.history.partition_point(|c| c.rv <= rv);
        if start == t.history.len() {
            return Some(self.list(table, ns));
        }
        let mut then = t.objects.clone();
        for c in t.history.range(start..).rev() {
            let key = key_of(&c.object);
            match &c.before {
                Some(b) => then.insert(key, b.clone()),
                None => then.remove(&key),
            };
        }
        Some(then.into_iter().filter(|((n, _), _)| ns.is_none_or(|ns| &**n == ns)).map(|(_, o)| o).collect())
    }

    /// Wakes when a table changes; the value is the revision of its last change.
    pub(crate) fn subscribe(&mut self, table: &Arc<str>) -> watch::Receiver<u64> {
        self.table_mut(table).changed.subscribe()
    }

    /// Queues an object for the controllers.
    pub(crate) fn mark(&mut self, a: Address) {
        if self.queued.insert(a.clone()) {
            self.dirty.push_back(a);
        }
    }

    /// The next object that controllers should look at.
    pub(crate) fn next_dirty(&mut self) -> Option<Address> {
        let a = self.dirty.pop_front()?;
        self.queued.remove(&a);
        Some(a)
    }

    /// A resource by group and plural.
    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        if let Some(r) = self.custom.get(&(group.to_owned(), plural.to_owned())) {
            return Some(r.clone());
        }
        catalog().resources.iter().find(|r| r.group == group && r.plural == plural).cloned()
    }

    /// Every resource that keeps objects in this table.
    pub(crate) fn resource_of_table(&self, table: &str) -> Option<Arc<Resource>> {
        self.custom
            .values()
            .find(|r| &*r.table == table)
            .cloned()
            .or_else(|| catalog().resources.iter().find(|r| &*r.table == table).cloned())
    }

    /// All resources: built-in ones, then custom ones by group.
    pub(crate) fn resources(&self) -> impl Iterator<Item = Arc<Resource>> + '_ {
        catalog().resources.iter().cloned().chain(self.custom.values().cloned())
    }

    /// Custom resources.
    pub(crate) fn custom(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.custom.values()
    }

    /// Serves (or replaces) a custom resource.
    pub(crate) fn serve(&mut self, r: Arc<Resource>) {
        self.custom.insert((r.group.clone(), r.plural.clone()), r);
        self.custom_generation += 1;
    }

    /// Stops serving a custom resource.
    pub(crate) fn unserve(&mut self, group: &str, plural: &str) {
        self.custom.remove(&(group.to_owned(), plural.to_owned()));
        self.custom_generation += 1;
    }
}
