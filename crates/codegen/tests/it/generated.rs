//! The client's files are made from the documents and the schema.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

/// Set to anything, this makes the test write instead of compare; `cargo xtask gen` sets it.
const WRITE_ENV: &str = "PLURAL_GEN";

/// Not testkit's `golden_file`: this crate is built alone, also while `plural-wire` does not compile.
#[test]
fn client() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let wire = root.join("crates/wire");
    let schema = fs::read_to_string(root.join("docs/reference/schema.graphql")).unwrap();
    let made = plural_codegen::client(&documents(&wire.join("documents")), &schema)
        .unwrap_or_else(|fault| panic!("crates/wire/{fault}"));

    let source = wire.join("src");
    let write = env::var_os(WRITE_ENV).is_some();
    if write {
        fs::create_dir_all(source.join("generated")).unwrap();
    }
    let mut stale = BTreeSet::new();
    for (path, text) in &made {
        let file = source.join(path);
        if fs::read_to_string(&file).is_ok_and(|on_disk| on_disk == *text) {
            continue;
        }
        if write {
            fs::write(&file, text).unwrap();
        } else {
            stale.insert(file);
        }
    }
    for file in files(&source.join("generated"), "rs") {
        let name = format!("generated/{}", file.file_name().unwrap().to_string_lossy());
        if made.contains_key(&name) {
            continue;
        }
        if write {
            fs::remove_file(&file).unwrap();
        } else {
            stale.insert(file);
        }
    }
    assert!(stale.is_empty(), "stale, `cargo xtask gen` makes them anew: {stale:?}");
}

fn documents(folder: &Path) -> BTreeMap<String, String> {
    let noun = |file: &Path| file.file_stem().unwrap().to_string_lossy().into_owned();
    files(folder, "graphql").into_iter().map(|it| (noun(&it), fs::read_to_string(&it).unwrap())).collect()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
}
