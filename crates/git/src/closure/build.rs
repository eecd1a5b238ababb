//! Following references, links and folders from a service's source through one tree.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    At, Closure, Note, NoteKind, Outcome, ParseCache, Seen, ServiceSource,
    references::{KUSTOMIZATION_NAMES, PARSE_LIMIT, Parsed, Reference, ReferenceKind, looks_remote},
};
use crate::{
    error::{Error, Result},
    objects::{Mode, Objects, Oid},
    path,
};

/// As many links as Linux follows in one path.
const MAX_HOPS: usize = 40;

/// Finds everything, and records each look-up outside of the service's folder.
pub(super) fn build(
    objects: &mut Objects<'_>,
    parses: &ParseCache,
    at: At<'_>,
    source: &ServiceSource,
) -> Outcome {
    let mut build = Build {
        objects,
        parses,
        at,
        folder: &source.folder,
        lookups: BTreeMap::new(),
        files: BTreeMap::new(),
        notes: Vec::new(),
        todo: Vec::new(),
        seen: BTreeSet::new(),
        walked: BTreeSet::new(),
    };
    let result = build.run(source);
    let Build { lookups, files, notes, .. } = build;
    let result = result.map(|()| Arc::new(Closure::new(&source.folder, files, notes)));
    Outcome { seen: lookups, result }
}

struct Build<'a, 'o> {
    objects: &'a mut Objects<'o>,
    parses: &'a ParseCache,
    at: At<'a>,
    folder: &'a str,
    lookups: BTreeMap<String, Seen>,
    files: BTreeMap<String, (Oid, bool)>,
    notes: Vec<Note>,
    /// Files still to be looked into: path, blob, what it is, and the folder that its references start from.
    todo: Vec<(String, Oid, Parsed, String)>,
    seen: BTreeSet<(String, &'static str)>,
    /// Folders that are in with everything they hold.
    walked: BTreeSet<String>,
}

/// What a path leads to when links are followed.
struct Target {
    /// Where it really is.
    real: String,
    node: Option<(Mode, Oid)>,
}

impl Build<'_, '_> {
    fn run(&mut self, source: &ServiceSource) -> Result<()> {
        let commit = || self.at.commit.to_hex();
        let missing = Error::FolderMissing { folder: source.folder.clone(), commit: commit() };
        let not_a_folder = Error::NotAFolder { folder: source.folder.clone(), commit: commit() };
        let target = self.resolve(&source.folder)?;
        match target.node {
            Some((Mode::Tree, oid)) => {
                self.take_folder(&source.folder, &target, oid, &mut Vec::new())?;
            }
            Some(_) => return Err(not_a_folder),
            None => return Err(missing),
        }
        for file in &source.files {
            if !self.include(file)? {
                return Err(Error::FileMissing { file: file.clone(), commit: self.at.commit.to_hex() });
            }
        }
        while let Some((file, oid, parsed, base)) = self.todo.pop() {
            for reference in self.parse(&file, oid, parsed)?.iter() {
                self.follow(&file, &base, reference)?;
            }
        }
        self.notes.sort_by(|a, b| (&a.file, &a.target).cmp(&(&b.file, &b.target)));
        Ok(())
    }

    fn parse(&mut self, file: &str, oid: Oid, parsed: Parsed) -> Result<Arc<Vec<Reference>>> {
        let key = (self.at.number, oid, parsed);
        if let Some(known) = self.parses.get(&key) {
            return Ok(known);
        }
        let found = match self.objects.blob(oid, PARSE_LIMIT, file) {
            Ok(content) => parsed.parse(&content),
            // Too large to be what its name says; packing and rendering have their own say about it.
            Err(Error::Limit { .. }) => Vec::new(),
            Err(e) => return Err(e),
        };
        let found = Arc::new(found);
        self.parses.put(key, Arc::clone(&found), found.len() + 1);
        Ok(found)
    }

    /// Looks up a path without following links, and records the answer unless the service's folder covers it.
    fn lookup(&mut self, path: &str) -> Result<Option<(Mode, Oid)>> {
        let found = self.objects.entry(self.at.root, path)?;
        if self.must_record(path) {
            let seen = match found {
                None => Seen::Nothing,
                Some((Mode::Tree, _)) => Seen::Folder,
                Some((mode, oid)) => Seen::Exactly(mode, oid),
            };
            // Never weaken what is known of a folder that counts as a whole.
            self.lookups.entry(path.to_owned()).or_insert(seen);
        }
        Ok(found)
    }

    fn must_record(&self, path: &str) -> bool {
        !path.is_empty() && !path::is_within(path, self.folder)
    }

    /// Adds a folder with everything in it, and records that all of it counts.
    fn take_folder(
        &mut self,
        logical: &str,
        target: &Target,
        oid: Oid,
        above: &mut Vec<String>,
    ) -> Result<()> {
        if self.must_record(&target.real) {
            self.lookups.insert(target.real.clone(), Seen::Exactly(Mode::Tree, oid));
        }
        self.walk(logical, &target.real, oid, above)
    }

    /// Follows a clean path through links to what it names.
    fn resolve(&mut self, path: &str) -> Result<Target> {
        let mut todo: Vec<String> =
            path.split('/').rev().filter(|p| !p.is_empty()).map(str::to_owned).collect();
        let mut real = String::new();
        let mut node = Some((Mode::Tree, self.at.root));
        let mut link: Option<(String, String)> = None;
        let mut hops = 0;
        while let Some(part) = todo.pop() {
            let Some(next) = path::join(&real, &part) else {
                return Err(bad_link(link, "is outside of the repository"));
            };
            match self.lookup(&next)? {
                Some((Mode::Link, oid)) => {
                    hops += 1;
                    let target = self.objects.blob(oid, 4096, &next)?;
                    let target = String::from_utf8(target).map_err(|_| Error::BadPath {
                        path: next.clone(),
                        why: "it is a symbolic link whose target is not UTF-8",
                    })?;
                    if hops > MAX_HOPS {
                        return Err(bad_link(Some((next, target)), "loops"));
                    }
                    if target.starts_with('/') {
                        return Err(bad_link(Some((next, target)), "is outside of the repository"));
                    }
                    todo.extend(
                        target.split('/').rev().filter(|p| !p.is_empty() && *p != ".").map(str::to_owned),
                    );
                    node = self.lookup(&real)?;
                    link = Some((next, target));
                }
                Some((Mode::Tree, oid)) => {
                    real = next;
                    node = Some((Mode::Tree, oid));
                }
                Some(found) if todo.is_empty() => {
                    real = next;
                    node = Some(found);
                }
                Some(_) | None => {
                    if link.is_some() {
                        return Err(bad_link(link, "does not exist"));
                    }
                    return Ok(Target { real: next, node: None });
                }
            }
        }
        Ok(Target { real, node })
    }

    /// Adds everything in a folder. `logical` is the path it is known by, `real` where it is; they differ below links.
    /// `above` holds the real folders from which links led here.
    fn walk(&mut self, logical: &str, real: &str, oid: Oid, above: &mut Vec<String>) -> Result<()> {
        if !self.walked.insert(logical.to_owned()) {
            return Ok(());
        }
        let depth = logical.split('/').count() as u64;
        let limit = self.at.limits.depth;
        if depth > limit {
            return Err(Error::Limit {
                file: logical.to_owned(),
                what: "its depth in folders",
                actual: depth,
                limit,
            });
        }
        let tree = self.objects.tree(oid)?;
        for entry in &tree.entries {
            let name = check_name(logical, &entry.name)?;
            let child = under(logical, name);
            match entry.mode {
                Mode::File | Mode::Executable => {
                    self.add(&child, entry.oid, entry.mode == Mode::Executable)?;
                }
                Mode::Tree => self.walk(&child, &under(real, name), entry.oid, above)?,
                Mode::Submodule => self.submodule(&child),
                Mode::Link => {
                    let target = self.resolve(&under(real, name))?;
                    match target.node {
                        Some((Mode::Tree, oid)) => {
                            above.push(real.to_owned());
                            if above.iter().any(|from| path::is_within(from, &target.real)) {
                                return Err(bad_link(Some((child, target.real)), "loops"));
                            }
                            self.take_folder(&child, &target, oid, above)?;
                            above.pop();
                        }
                        Some((Mode::Submodule, _)) => self.submodule(&child),
                        Some((mode, oid)) => self.add(&child, oid, mode == Mode::Executable)?,
                        None => return Err(bad_link(Some((child, target.real)), "does not exist")),
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, file: &str, oid: Oid, executable: bool) -> Result<()> {
        if self.files.insert(file.to_owned(), (oid, executable)).is_some() {
            return Ok(());
        }
        let limit = self.at.limits.entries;
        if self.files.len() as u64 > limit {
            return Err(Error::Limit {
                file: if self.folder.is_empty() {
                    "the repository".to_owned()
                } else {
                    self.folder.to_owned()
                },
                what: "its number of files, with what they refer to,",
                actual: self.files.len() as u64,
                limit,
            });
        }
        if let Some(parsed) = Parsed::of(file) {
            self.look_into(file, oid, parsed, path::parent(file));
        }
        Ok(())
    }

    fn look_into(&mut self, file: &str, oid: Oid, parsed: Parsed, base: &str) {
        let name = match parsed {
            Parsed::Kustomization => "kustomization",
            Parsed::Chart => "chart",
            Parsed::Plugin => "plugin",
            Parsed::Module => "module",
        };
        if self.seen.insert((format!("{base}\0{file}"), name)) {
            self.todo.push((file.to_owned(), oid, parsed, base.to_owned()));
        }
    }

    fn submodule(&mut self, path: &str) {
        self.note(path, path, NoteKind::Submodule);
    }

    fn note(&mut self, file: &str, target: &str, kind: NoteKind) {
        let note = Note { file: file.to_owned(), target: shown(target), kind };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds a file, or a folder with everything in it; tells whether it exists.
    fn include(&mut self, path: &str) -> Result<bool> {
        let target = self.resolve(path)?;
        match target.node {
            Some((Mode::Tree, oid)) => self.take_folder(path, &target, oid, &mut Vec::new())?,
            Some((Mode::Submodule, _)) => self.submodule(path),
            Some((mode, oid)) => {
                check_path(path)?;
                self.add(path, oid, mode == Mode::Executable)?;
            }
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Takes in what a file refers to.
    fn follow(&mut self, file: &str, base: &str, reference: &Reference) -> Result<()> {
        let Reference { target, kind } = reference;
        let remote_by_sight = target.contains("://");
        if *kind == ReferenceKind::Remote || remote_by_sight {
            self.note(file, target, NoteKind::Remote);
            return Ok(());
        }
        let may_be = matches!(kind, ReferenceKind::Maybe | ReferenceKind::MaybeFile);
        let Some(path) = path::join(base, target) else {
            // What only may be a path is none when it makes no sense as one.
            if may_be {
                return Ok(());
            }
            return Err(Error::LeavesRepository { file: file.to_owned(), target: shown(target) });
        };
        if may_be && target.contains(char::is_control) {
            return Ok(());
        }
        let found = self.resolve(&path)?;
        match (kind, found.node) {
            (ReferenceKind::Resource | ReferenceKind::Plugin, Some((Mode::Tree, _))) => {
                self.kustomization_in(file, &path)
            }
            (ReferenceKind::Plugin, Some((Mode::File | Mode::Executable, oid))) => {
                self.include(&path)?;
                // Built-in plugins read their files from the kustomization's folder, not from their own.
                self.look_into(&path, oid, Parsed::Plugin, base);
                Ok(())
            }
            (ReferenceKind::MaybeFile, Some((Mode::Tree, _)))
            | (ReferenceKind::Maybe | ReferenceKind::MaybeFile | ReferenceKind::MaybeFolder, None) => Ok(()),
            (_, Some(_)) => self.include(&path).map(|_| ()),
            (_, None) => {
                let kind = if looks_remote(target) { NoteKind::Remote } else { NoteKind::Missing };
                self.note(file, target, kind);
                Ok(())
            }
        }
    }

    /// Adds the kustomization of a folder; what else is in the folder counts only if the kustomization says so.
    fn kustomization_in(&mut self, file: &str, folder: &str) -> Result<()> {
        for name in KUSTOMIZATION_NAMES {
            let candidate = under(folder, name);
            if self.resolve(&candidate)?.node.is_some() {
                self.include(&candidate)?;
                return Ok(());
            }
        }
        self.note(file, &under(folder, "kustomization.yaml"), NoteKind::Missing);
        Ok(())
    }
}

fn bad_link(link: Option<(String, String)>, why: &'static str) -> Error {
    let (path, target) = link.unwrap_or_default();
    Error::Symlink { path, target: shown(&target), why }
}

fn under(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// User-written text for messages: without user information in URLs, control characters, or endless length.
fn shown(text: &str) -> String {
    crate::remote::strip_user_info(text).chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Names that would mean something else once unpacked are refused, whoever made the commit.
fn check_name<'n>(folder: &str, name: &'n [u8]) -> Result<&'n str> {
    let bad = |why| Error::BadPath { path: under(folder, &String::from_utf8_lossy(name)), why };
    let text = std::str::from_utf8(name).map_err(|_| bad("its name is not UTF-8"))?;
    if text.is_empty() || text == "." || text == ".." || text.contains('/') {
        return Err(bad("its name would lead elsewhere"));
    }
    if text.eq_ignore_ascii_case(".git") {
        return Err(bad("it is called like git's own folder"));
    }
    if text.contains(|c: char| c.is_control() || c == '\\') {
        return Err(bad("its name holds a backslash or control character"));
    }
    Ok(text)
}

fn check_path(path: &str) -> Result<()> {
    path.split('/').try_for_each(|part| check_name(path::parent(path), part.as_bytes()).map(|_| ()))
}
