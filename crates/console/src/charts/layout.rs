//! Where the files of several places lie in one artifact.

use std::collections::BTreeMap;

use plural_git::SourceFile;

/// Files by their path relative to the service's root, which may lead above it.
#[derive(Default)]
pub(super) struct Layout {
    files: BTreeMap<Relative, SourceFile>,
}

/// So many folders up, then down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Relative {
    up: usize,
    down: Vec<String>,
}

impl Relative {
    fn of(parts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut relative = Self { up: 0, down: Vec::new() };
        for part in parts {
            match part.as_ref() {
                "" | "." => {}
                ".." => {
                    if relative.down.pop().is_none() {
                        relative.up += 1;
                    }
                }
                part => relative.down.push(part.to_owned()),
            }
        }
        relative
    }
}

impl Layout {
    /// Lays files below `path`, so that what is in `folder` of their own tree is at `path` itself, and what is beside that
    /// folder is beside `path`. What is there already is replaced.
    pub(super) fn add(&mut self, path: &str, folder: &str, files: BTreeMap<String, SourceFile>) {
        let folder: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for (name, file) in files {
            let parts: Vec<&str> = name.split('/').collect();
            let common = folder.iter().zip(&parts).take_while(|(a, b)| a == b).count();
            let ups = std::iter::repeat_n("..", folder.len() - common);
            let below = parts.iter().skip(common).copied();
            let place = Relative::of(path.split('/').chain(ups).chain(below));
            self.files.insert(place, file);
        }
    }

    /// Whether there is such a file, or a folder with one.
    pub(super) fn has(&self, path: &str) -> bool {
        let wanted = Relative::of(path.split('/'));
        self.files.keys().any(|known| known.up == wanted.up && known.down.starts_with(&wanted.down))
    }

    /// The files by their path in the artifact, and the service's root in it. As many folders stand above the root as files
    /// lead above it; they have the names of the service's own folder, where it has so many, so that a path through
    /// them still holds.
    pub(super) fn finish(self, own: &str) -> (BTreeMap<String, SourceFile>, String) {
        let above = self.files.keys().map(|place| place.up).max().unwrap_or_default();
        let own: Vec<&str> = own.split('/').filter(|part| !part.is_empty()).collect();
        let unnamed = above.saturating_sub(own.len());
        let root: Vec<&str> = std::iter::repeat_n("_", unnamed)
            .chain(own.iter().skip(own.len() - (above - unnamed)).copied())
            .collect();
        let files = self
            .files
            .into_iter()
            .map(|(Relative { up, down }, file)| {
                let parts = root.iter().take(root.len() - up).copied().chain(down.iter().map(String::as_str));
                (parts.collect::<Vec<_>>().join("/"), file)
            })
            .collect();
        (files, root.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> BTreeMap<String, SourceFile> {
        let file = |name: &str| SourceFile { content: name.as_bytes().to_vec(), executable: false };
        names.iter().map(|name| ((*name).to_owned(), file(name))).collect()
    }

    fn shown(layout: Layout, own: &str) -> (Vec<String>, String) {
        let (files, folder) = layout.finish(own);
        let text = |(path, file): (String, SourceFile)| {
            format!("{path}={}", String::from_utf8(file.content).unwrap())
        };
        (files.into_iter().map(text).collect(), folder)
    }

    #[test]
    fn a_chart_with_values_of_git_beside_it() {
        let mut layout = Layout::default();
        layout.add("", "", files(&["Chart.yaml", "values.yaml"]));
        layout.add("", "apps/web", files(&["apps/web/values.yaml", "values/prod.yaml"]));
        assert!(
            layout.has("../../values/prod.yaml") && layout.has("values.yaml") && !layout.has("prod.yaml")
        );
        let (files, folder) = shown(layout, "apps/web");
        assert_eq!(folder, "apps/web");
        assert_eq!(
            files,
            [
                "apps/web/Chart.yaml=Chart.yaml",
                "apps/web/values.yaml=apps/web/values.yaml",
                "values/prod.yaml=values/prod.yaml"
            ]
        );
    }

    #[test]
    fn sources_go_below_their_paths_and_later_ones_win() {
        let mut layout = Layout::default();
        layout.add("", "", files(&["Chart.yaml"]));
        layout.add("values", "a", files(&["a/x.yaml", "base/y.yaml"]));
        layout.add("values", "b", files(&["b/x.yaml"]));
        assert!(layout.has("values") && layout.has("base/y.yaml"));
        let (files, folder) = shown(layout, "");
        assert_eq!((folder.as_str(), files.len()), ("", 3));
        assert_eq!(files, ["Chart.yaml=Chart.yaml", "base/y.yaml=base/y.yaml", "values/x.yaml=b/x.yaml"]);
    }

    #[test]
    fn what_leads_above_a_root_without_a_name_gets_one() {
        let mut layout = Layout::default();
        layout.add("", "a/b", files(&["a/b/k.yaml", "c/d.yaml"]));
        let (files, folder) = shown(layout, "");
        assert_eq!(folder, "_/_");
        assert_eq!(files, ["_/_/k.yaml=a/b/k.yaml", "c/d.yaml=c/d.yaml"]);
    }
}
