//! The inputs that fuzzing begins with: `fuzz/corpus/TARGET/`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where the inputs of a target lie in this checkout.
pub fn corpus_folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// The inputs of a target, by name.
///
/// # Errors
/// When the folder cannot be read.
pub fn corpus(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(corpus_folder(target))? {
        let entry = entry?;
        found.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    found.sort();
    Ok(found)
}
