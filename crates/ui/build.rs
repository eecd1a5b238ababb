//! Embeds what Vite wrote to `ui/dist`, with the compressed copies beside it. Without `ui/dist/index.html` it embeds nothing.
use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

/// Kinds of files, by their extension. A file of another kind is an error: a browser told `nosniff` would not use it.
const KINDS: [(&str, &str); 13] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let ui = here.join("../../ui");
    let dist = ui.join("dist");
    // A path that is missing counts as changed each time. So the folder is there before anything is built into it.
    if ui.is_dir() && !dist.is_dir() && fs::create_dir(&dist).is_err() {
        println!("cargo::warning=cannot create ui/dist: the crate plural-ui is compiled at every build");
    }
    println!("cargo::rerun-if-changed={}", dist.display());

    let mut files = BTreeMap::new();
    if dist.join("index.html").is_file() {
        collect(&dist.canonicalize()?, "", &mut files)?;
    }
    let mut code = String::from("static ASSETS: &[Asset] = &[\n");
    for (path, file) in &files {
        let (stem, extension) = path.rsplit_once('.').unwrap_or((path, ""));
        // A compressed copy, which belongs to the file beside it.
        if matches!(extension, "br" | "gz") && files.contains_key(stem) || matches!(extension, "map") {
            continue;
        }
        let kind = KINDS.iter().find(|(of, _)| *of == extension).map(|(_, kind)| kind);
        let kind =
            kind.ok_or_else(|| format!("ui/dist{path}: a file of a kind that build.rs does not know"))?;
        let mut hash = DefaultHasher::new();
        fs::read(file)?.hash(&mut hash);
        let copy = |with: &str| match files.get(&format!("{path}.{with}")) {
            Some(file) => format!("Some(include_bytes!({:?}))", file.display().to_string()),
            None => "None".to_owned(),
        };
        writeln!(
            code,
            "    Asset {{ path: {path:?}, kind: {kind:?}, tag: \"\\\"{:016x}\\\"\", plain: include_bytes!({:?}), \
             brotli: {}, gzip: {} }},",
            hash.finish(),
            file.display().to_string(),
            copy("br"),
            copy("gz"),
        )?;
    }
    code.push_str("];\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("assets.rs"), code)?;
    Ok(())
}

/// All files below a folder, by their path on the console.
fn collect(folder: &Path, path: &str, files: &mut BTreeMap<String, PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| format!("{}: no text", name.display()))?;
        let path = format!("{path}/{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &path, files)?;
        } else {
            files.insert(path, entry.path());
        }
    }
    Ok(())
}
