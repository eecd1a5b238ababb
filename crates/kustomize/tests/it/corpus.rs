//! Real Kustomizations: what comes out must equal what the program printed, byte for byte.
//!
//! `PLURAL_CORPUS` names the folder that holds `kustomize-corpus`. Without it the test says that it did not run; in
//! continuous integration (`CI`) that is a failure. `PLURAL_CORPUS_ONLY` narrows to cases whose id contains it,
//! `PLURAL_CORPUS_SHOW` writes what came out into a folder.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use plural_kustomize::{Entry, Files, Options, build};
use plural_testkit::{corpus_or_report, exclusive_blocking, note_compared};
use serde_json::Value;

/// Cases that pass today; it only grows.
const FLOOR: usize = 978;

/// A tree read from a disk with its links.
#[derive(Default)]
pub(crate) struct DiskTree {
    entries: BTreeMap<String, Item>,
}

enum Item {
    File(Vec<u8>),
    Folder,
    Link(String),
}

impl DiskTree {
    pub(crate) fn read(root: &Path) -> Self {
        let mut tree = Self::default();
        tree.add(root, "");
        tree.restore_links();
        tree
    }

    /// A copy made where links cannot be holds their targets as text; they become links again.
    fn restore_links(&mut self) {
        let mut links = Vec::new();
        for (path, item) in &self.entries {
            let Item::File(bytes) = item else { continue };
            let Ok(text) = std::str::from_utf8(bytes) else { continue };
            if text.len() < 200 && text.starts_with("../") && !text.contains(char::is_whitespace) {
                let mut at: Vec<&str> = path.split('/').collect();
                at.pop();
                for part in text.split('/') {
                    match part {
                        ".." => drop(at.pop()),
                        "." => {}
                        p => at.push(p),
                    }
                }
                if self.entries.contains_key(&at.join("/")) {
                    links.push((path.clone(), text.to_owned()));
                }
            }
        }
        for (path, target) in links {
            self.entries.insert(path, Item::Link(target));
        }
    }

    fn add(&mut self, folder: &Path, at: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = if at.is_empty() { name } else { format!("{at}/{name}") };
            let kind = entry.file_type().unwrap();
            if kind.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                self.entries.insert(path, Item::Link(target.to_str().unwrap().to_owned()));
            } else if kind.is_dir() {
                self.add(&entry.path(), &path);
                self.entries.insert(path, Item::Folder);
            } else {
                self.entries.insert(path, Item::File(std::fs::read(entry.path()).unwrap()));
            }
        }
    }
}

impl Files for DiskTree {
    fn entry(&self, path: &str) -> Option<Entry<'_>> {
        if path.is_empty() {
            return Some(Entry::Folder);
        }
        Some(match self.entries.get(path)? {
            Item::File(b) => Entry::File(b),
            Item::Folder => Entry::Folder,
            Item::Link(t) => Entry::Link(t),
        })
    }
}

fn expected(corpus: &Path, file: &str) -> String {
    let plain = corpus.join(file);
    if plain.exists() {
        return String::from_utf8(std::fs::read(plain).unwrap()).unwrap();
    }
    let mut text = String::new();
    let packed = std::fs::File::open(corpus.join(format!("{file}.gz"))).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text
}

fn first_difference(want: &str, got: &str) -> String {
    let line = want.lines().zip(got.lines()).position(|(a, b)| a != b);
    match line {
        Some(i) => {
            let at = |t: &str| t.lines().nth(i).unwrap_or_default().chars().take(160).collect::<String>();
            format!("line {}: want {:?} got {:?}", i + 1, at(want), at(got))
        }
        None => format!("{} lines wanted, {} got", want.lines().count(), got.lines().count()),
    }
}

/// The program of the corpus was built by a distribution, without a version stamp.
fn options() -> Options<'static> {
    Options { shown_root: "<TREE>", program_version: "(devel)", ..Options::default() }
}

fn check(case: &Value, corpus: &Path, tree: &DiskTree) -> Result<(), String> {
    let options = options();
    let got = build(tree, case["path"].as_str().unwrap(), &options);
    if let Some(dir) = std::env::var_os("PLURAL_CORPUS_SHOW") {
        let name = case["id"].as_str().unwrap().replace('/', "__");
        let text = match &got {
            Ok(b) => b.yaml.clone(),
            Err(e) => format!("Error: {e}\n"),
        };
        std::fs::write(PathBuf::from(dir).join(name), text).unwrap();
    }
    let expect = &case["expect"];
    match (expect["file"].as_str(), got) {
        (Some(file), Ok(b)) => {
            let want = expected(corpus, file.strip_suffix(".gz").unwrap_or(file));
            if want != b.yaml {
                return Err(first_difference(&want, &b.yaml));
            }
            let warned: Vec<&str> = b.warnings.iter().filter_map(|w| w.split('\'').nth(1)).collect();
            let deprecated: Vec<&str> =
                case["deprecated"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if warned == deprecated {
                Ok(())
            } else {
                Err(format!("warned {warned:?}, expected {deprecated:?}"))
            }
        }
        (Some(_), Err(e)) => Err(format!("failed: {}", e.message().chars().take(300).collect::<String>())),
        (None, Ok(_)) => Err(format!("should fail: {}", expect["error_substring"])),
        (None, Err(e)) => {
            let part = expect["error_substring"].as_str().unwrap();
            if e.message().contains(part) {
                Ok(())
            } else {
                Err(format!("error {:?} lacks {part:?}", e.message()))
            }
        }
    }
}

#[test]
fn corpus() {
    let Some(corpus) = corpus_or_report("kustomize-corpus") else { return };
    let _alone = exclusive_blocking();
    let cases: Vec<Value> =
        serde_json::from_slice(&std::fs::read(corpus.join("cases.json")).unwrap()).unwrap();
    let only = std::env::var("PLURAL_CORPUS_ONLY").unwrap_or_default();
    let mut trees: BTreeMap<String, DiskTree> = BTreeMap::new();
    let (mut passed, mut exact, mut total) = (0, 0, 0);
    let mut failed = Vec::new();
    for case in cases.iter().filter(|c| c["id"].as_str().unwrap().contains(&only)) {
        let name = case["tree"].as_str().unwrap();
        let tree = trees.entry(name.to_owned()).or_insert_with(|| DiskTree::read(&corpus.join(name)));
        total += 1;
        match check(case, &corpus, tree) {
            Ok(()) => passed += 1,
            Err(e) => failed.push(format!("{}: {e}", case["id"].as_str().unwrap())),
        }
        if let Some(want) = case["expect"]["error"].as_str()
            && let Err(e) = build(tree, case["path"].as_str().unwrap(), &options())
            && format!("Error: {e}") == want
        {
            exact += 1;
        }
    }
    for f in &failed {
        eprintln!("{f}");
    }
    eprintln!("kustomize corpus: {passed}/{total} passed, {exact} errors equal to the last byte");
    note_compared("builds of the Kustomize corpus", passed, total);
    if only.is_empty() {
        assert!(passed >= FLOOR, "{passed} of {total} pass, {FLOOR} did before");
    }
}
