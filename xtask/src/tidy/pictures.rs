//! Pictures of the documentation: `cargo xtask gallery docs` takes them.

use super::{Findings, SourceFile, has_extension};

/// Where they are.
pub(super) const FOLDER: &str = "docs/web-console/";
/// Bytes of one: every clone has all that there ever were. `ui/tests/gallery/docs.mjs` has the same.
const MOST: u64 = 120 * 1024;

/// Whether it is one, by its path.
pub(super) fn is_picture(path: &str) -> bool {
    path.starts_with(FOLDER) && has_extension(path, "png")
}

pub(super) fn check(files: &[SourceFile], size: impl Fn(&str) -> u64, findings: &mut Findings) {
    for SourceFile { path, text } in files.iter().filter(|file| file.path.starts_with("docs/")) {
        if is_picture(path) {
            let bytes = size(path);
            if bytes > MOST {
                findings.error(format!("{path}: {bytes} bytes; a picture has at most {MOST}"));
            }
        } else if text.is_none() {
            findings.error(format!("{path}: is no text; pictures are PNG files in {FOLDER}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_small_and_in_one_folder() {
        let file = |path: &str, text: Option<&str>| SourceFile {
            path: path.to_owned(),
            text: text.map(str::to_owned),
        };
        let files = [
            file("docs/a.md", Some("")),
            file("docs/fleet.png", None),
            file("docs/web-console/large.png", None),
            file("docs/web-console/small.png", None),
            file("ui/public/icon.png", None),
        ];
        let mut findings = Findings::default();
        check(&files, |path| if path.contains("large") { MOST + 1 } else { MOST }, &mut findings);
        assert_eq!(
            findings.errors,
            [
                "docs/fleet.png: is no text; pictures are PNG files in docs/web-console/",
                "docs/web-console/large.png: 122881 bytes; a picture has at most 122880"
            ]
        );
    }
}
