//! The web console's files: built with Node.js before the program that embeds them, where their sources changed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::Context as _;

use crate::shell::{self, which};

/// Folders of `ui` that are made from the rest.
const MADE: [&str; 3] = ["dist", "gallery", "node_modules"];

/// Builds `ui/dist` unless it is newer than all that it is made from. Without Node.js the program is built without it, which is
/// said.
pub(crate) fn build() -> anyhow::Result<()> {
    let ui = shell::root().join("ui");
    if !ui.join("package.json").is_file() {
        return Ok(());
    }
    let built = changed(&ui.join("dist/index.html"));
    let schema = shell::root().join("docs/reference/schema.graphql");
    let newest = newest_of(&ui)?.max(changed(&schema));
    if built.is_some() && built >= newest {
        return Ok(());
    }
    let Some(npm) = which("npm") else {
        eprintln!("npm is not on $PATH: the program is built without the web console");
        return Ok(());
    };
    install(&npm, &ui)?;
    // What it prints goes to stderr, with the rest of the progress.
    let shown = shell::stdout_of(Command::new(&npm).args(["run", "build"]).current_dir(&ui))?;
    eprint!("{shown}");
    Ok(())
}

/// Types, lints and format of its sources, where Node.js is.
pub(crate) fn check() -> anyhow::Result<()> {
    let Some(npm) = which("npm") else {
        eprintln!("npm is not on $PATH: the web console is not checked");
        return Ok(());
    };
    let ui = shell::root().join("ui");
    install(&npm, &ui)?;
    shell::run(Command::new(&npm).args(["run", "--silent", "check"]).current_dir(&ui))
}

/// Which pictures to take.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct GalleryArgs {
    /// Names of pages; all without one. After `docs`: of those that the documentation shows, taken into docs/web-console
    #[arg(value_name = "docs | PAGE")]
    pages: Vec<String>,
    /// With how many rows, of 0,3,3000; all without it
    #[arg(long)]
    rows: Option<String>,
    /// Windows; 1280x800,1920x1080,390x844 without it
    #[arg(long)]
    sizes: Option<String>,
    /// Of light,dark; both without it
    #[arg(long)]
    schemes: Option<String>,
}

impl GalleryArgs {
    /// What `tests/gallery.mjs` gets, in the folder `ui`.
    fn passed(&self) -> Vec<&str> {
        let (is_docs, pages) = match self.pages.split_first() {
            Some((first, rest)) if first == "docs" => (true, rest),
            _ => (false, self.pages.as_slice()),
        };
        let mut passed = if is_docs { vec!["docs", "../docs/web-console"] } else { vec!["gallery"] };
        passed.extend(pages.iter().map(String::as_str));
        let options = [("--rows", &self.rows), ("--sizes", &self.sizes), ("--schemes", &self.schemes)];
        for (name, value) in options {
            passed.extend(value.iter().flat_map(|value| [name, value.as_str()]));
        }
        passed
    }
}

/// Pictures of pages as they are built, into `ui/gallery` with a page that shows them all; or those of the documentation.
pub(crate) fn gallery(args: &GalleryArgs) -> anyhow::Result<()> {
    build()?;
    let ui = shell::root().join("ui");
    shell::run(Command::new("node").arg("tests/gallery.mjs").args(args.passed()).current_dir(&ui))
}

/// Its packages, where they are not those of the lock file. None of them needs a script of its own.
fn install(npm: &Path, ui: &Path) -> anyhow::Result<()> {
    // What npm writes when it has installed everything.
    let installed = changed(&ui.join("node_modules/.package-lock.json"));
    if installed.is_none() || installed < changed(&ui.join("package-lock.json")) {
        shell::run(
            Command::new(npm)
                .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
                .current_dir(ui),
        )?;
    }
    Ok(())
}

/// When a file was last changed, if it is there.
fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|about| about.modified()).ok()
}

/// The last change of any source.
fn newest_of(ui: &Path) -> anyhow::Result<Option<SystemTime>> {
    let mut newest = None;
    let mut folders: Vec<PathBuf> = vec![ui.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let is_made = folder == ui && MADE.iter().any(|made| entry.file_name() == *made);
            if entry.file_type()?.is_dir() {
                folders.extend((!is_made).then(|| entry.path()));
            } else {
                newest = newest.max(changed(&entry.path()));
            }
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_go_where_they_are_looked_at() {
        let named = |pages: &[&str]| GalleryArgs {
            pages: pages.iter().map(|page| (*page).to_owned()).collect(),
            ..GalleryArgs::default()
        };
        assert_eq!(named(&[]).passed(), ["gallery"]);
        assert_eq!(named(&["docs", "fleet"]).passed(), ["docs", "../docs/web-console", "fleet"]);
        let few = GalleryArgs { rows: Some("3".to_owned()), ..named(&["audit"]) };
        assert_eq!(few.passed(), ["gallery", "audit", "--rows", "3"]);
    }

    #[test]
    fn what_is_made_is_no_source() {
        let folder = std::env::temp_dir().join(format!("plural-ui-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::create_dir_all(folder.join("dist")).unwrap();
        fs::write(folder.join("dist/index.html"), "").unwrap();
        assert_eq!(newest_of(&folder).unwrap(), None);
        fs::write(folder.join("src/main.ts"), "").unwrap();
        assert_eq!(newest_of(&folder).unwrap(), changed(&folder.join("src/main.ts")));
        fs::remove_dir_all(&folder).unwrap();
    }
}
