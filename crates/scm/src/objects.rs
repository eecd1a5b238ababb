//! What a host told of commits, which never changes: what lies in a folder, what is in a file. Each connection holds its own, so what one
//! may read is no answer for another.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::port::{EntryKind, List};

/// Bytes that are held.
const BYTES: usize = 4 << 20;
/// Folders and files that are held.
const COUNT: usize = 4096;
/// Bytes of one of them.
const LARGEST: usize = 2 << 20;
/// Bytes that an entry takes besides its texts.
const ENTRY: usize = 64;

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Below the folder that was listed.
    pub(crate) path: String,
    /// What it is; nothing for a folder.
    pub(crate) kind: Option<EntryKind>,
    /// Its object's id, where the host tells it: the same one always is the same content.
    pub(crate) id: Option<String>,
}

#[derive(Clone)]
enum Object {
    Folder(Arc<List<Entry>>),
    File(Bytes),
}

struct One {
    object: Object,
    bytes: usize,
    /// When it was used last.
    used: u64,
}

/// The newest of them, up to so many and so many bytes.
#[derive(Default)]
pub(crate) struct Objects {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    objects: HashMap<String, One>,
    /// Keys, those first that were not used for the longest time.
    order: BTreeMap<u64, String>,
    bytes: usize,
    now: u64,
}

impl Objects {
    pub(crate) fn folder(&self, key: &str) -> Option<Arc<List<Entry>>> {
        match self.held.lock().get(key)? {
            Object::Folder(folder) => Some(folder),
            Object::File(_) => None,
        }
    }

    pub(crate) fn file(&self, key: &str) -> Option<Bytes> {
        match self.held.lock().get(key)? {
            Object::File(file) => Some(file),
            Object::Folder(_) => None,
        }
    }

    pub(crate) fn keep_folder(&self, key: String, folder: &Arc<List<Entry>>) {
        let texts = |entry: &Entry| entry.path.len() + entry.id.as_ref().map_or(0, String::len) + ENTRY;
        let bytes = folder.items.iter().map(texts).sum();
        self.held.lock().put(key, Object::Folder(Arc::clone(folder)), bytes);
    }

    pub(crate) fn keep_file(&self, key: String, file: &Bytes) {
        self.held.lock().put(key, Object::File(file.clone()), file.len());
    }
}

impl Held {
    fn get(&mut self, key: &str) -> Option<Object> {
        self.now += 1;
        let one = self.objects.get_mut(key)?;
        if let Some(key) = self.order.remove(&one.used) {
            self.order.insert(self.now, key);
        }
        one.used = self.now;
        Some(one.object.clone())
    }

    fn put(&mut self, key: String, object: Object, bytes: usize) {
        let bytes = bytes + key.len() * 2 + ENTRY;
        if bytes > LARGEST {
            return;
        }
        self.now += 1;
        self.order.insert(self.now, key.clone());
        self.bytes += bytes;
        if let Some(before) = self.objects.insert(key, One { object, bytes, used: self.now }) {
            self.order.remove(&before.used);
            self.bytes -= before.bytes;
        }
        while self.bytes > BYTES || self.objects.len() > COUNT {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            if let Some(gone) = self.objects.remove(&oldest) {
                self.bytes -= gone.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_the_longest_time_goes() {
        let objects = Objects::default();
        let file = Bytes::from(vec![b'x'; 900 << 10]);
        for name in ["a", "b", "c", "d"] {
            objects.keep_file(name.to_owned(), &file);
        }
        assert_eq!(objects.file("a").map(|file| file.len()), Some(900 << 10));
        objects.keep_file("e".to_owned(), &file);
        assert!(objects.file("b").is_none(), "a was used since");
        assert!(["a", "c", "d", "e"].iter().all(|name| objects.file(name).is_some()));
        objects.keep_file("large".to_owned(), &Bytes::from(vec![b'x'; LARGEST]));
        assert!(objects.file("large").is_none() && objects.file("a").is_some());
        // Once more is once.
        for _ in 0..10 {
            objects.keep_file("a".to_owned(), &file);
        }
        assert!(["c", "d", "e"].iter().all(|name| objects.file(name).is_some()));
    }

    #[test]
    fn no_more_are_held_than_are_counted() {
        let objects = Objects::default();
        let folder = Arc::new(List { items: Vec::new(), cut: false });
        for number in 0..=COUNT {
            objects.keep_folder(number.to_string(), &folder);
        }
        assert!(objects.folder("0").is_none());
        assert_eq!(objects.folder("1").as_deref(), Some(&*folder));
        assert!(objects.file("1").is_none(), "a folder is no file");
    }
}
