//! Charts that a source needs and does not bring: [`missing`], [`complete`].
//!
//! Who completes a source asks [`complete`] what it lacks, lets go of the files, has the lacking charts fetched to a [`Shelf`], and
//! completes it again: so nothing large is held while other machines take their time.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::{
    access::{Access, printable},
    archive::{File, Files, Limits, chart_file, unpack_chart, weight},
    chart::{ChartFile, Dependency, path},
    client::{Client, Freshness, Wanted},
    error::{Cause, Error, Result},
    kustomize,
};

/// Charts in charts in charts, by way of `file://`.
const MAX_DEPTH: usize = 8;
/// Charts of one source that are looked into, copies by `file://` included.
const MAX_CHARTS: usize = 500;
/// Charts that are fetched for one source.
const MAX_LACKS: usize = 300;

/// Knows how to sign in to a repository that a chart names.
#[async_trait]
pub trait Repositories: Send + Sync {
    /// The access to a chart at an address.
    ///
    /// # Errors
    /// When it is none, or its credentials cannot be read.
    async fn access(&self, address: &str, chart: &str) -> Result<Access>;
}

/// The dependencies of the chart in `folder` that its `charts/` lacks, with the versions that its lock pins.
///
/// # Errors
/// When the chart or its lock cannot be read, or the lock does not fit the chart.
pub fn missing(files: &Files, folder: &str, limits: &Limits) -> Result<Vec<Dependency>> {
    let chart = ChartFile::read(files, folder)?;
    if chart.dependencies.is_empty() {
        return Ok(Vec::new());
    }
    let there = present(files, folder, limits);
    let absent: Vec<&Dependency> =
        chart.dependencies.iter().filter(|dependency| !there.contains(&dependency.name)).collect();
    if absent.is_empty() {
        return Ok(Vec::new());
    }
    let lock = ChartFile::lock(files, folder)?;
    let mut missing: Vec<Dependency> = Vec::new();
    for dependency in absent {
        dependency.check()?;
        let pinned = match &lock {
            // Nothing is pinned of what is in the same tree.
            Some(lock) if !dependency.repository.starts_with("file://") => {
                let same = |pinned: &&Dependency| {
                    pinned.name == dependency.name && dependency.allows(&pinned.version)
                };
                let pinned = lock.iter().find(same).ok_or_else(|| {
                    Error::malformed(format!(
                        "{} does not fit the dependency {} of {}: run `helm dependency update` and commit it",
                        path(folder, "Chart.lock"),
                        printable(&dependency.name),
                        path(folder, "Chart.yaml")
                    ))
                })?;
                // Where to look is the chart's say; the lock only repeats it.
                Dependency { version: pinned.version.clone(), ..dependency.clone() }
            }
            _ => dependency.clone(),
        };
        // An alias uses one chart twice.
        if !missing.contains(&pinned) {
            missing.push(pinned);
        }
    }
    Ok(missing)
}

/// The names of the charts in `charts/`, packed or not. What cannot be read is the renderer's to name.
fn present(files: &Files, folder: &str, limits: &Limits) -> BTreeSet<String> {
    let prefix = path(folder, "charts/");
    let below = files.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
    let mut names = BTreeSet::new();
    for (path, file) in below {
        let rest = &path[prefix.len()..];
        let read = match rest.split_once('/') {
            Some((inner, "Chart.yaml")) => ChartFile::read(files, &format!("{prefix}{inner}")),
            None if rest.rsplit_once('.').is_some_and(|(_, end)| end == "tgz") => {
                chart_file(&file.content, limits).and_then(|content| {
                    let file = File { content, executable: false };
                    ChartFile::read(&Files::from([("Chart.yaml".to_owned(), file)]), "")
                })
            }
            _ => continue,
        };
        names.extend(read.ok().map(|chart| chart.name));
    }
    names
}

/// A chart that a source needs from a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// Which.
    pub(crate) chart: Dependency,
    /// What to say where it cannot be had.
    pub(crate) sentence: String,
}

/// Charts that were fetched for one source, under what asked for each. Holds no content: that is kept under its digest.
#[derive(Debug, Clone, Default)]
pub struct Shelf {
    charts: HashMap<Dependency, Archive>,
}

#[derive(Debug, Clone)]
struct Archive {
    /// `NAME-VERSION.tgz`.
    name: String,
    /// Hex SHA-256.
    digest: String,
}

/// The content of what is on a shelf.
#[derive(Debug, Default)]
pub struct Loaded {
    charts: HashMap<Dependency, (String, Bytes)>,
}

/// What asks whether so many bytes more may be held.
pub type Room<'a> = &'a mut (dyn FnMut(usize) -> Result<()> + Send);

/// Asks whether files may be added to others: `added` are their paths, and the bytes of their content.
fn reserve<'a>(
    files: &Files,
    added: impl Iterator<Item = (&'a str, usize)>,
    below: usize,
    limits: &Limits,
    room: Room<'_>,
) -> Result<()> {
    let (mut count, mut bytes) = (files.len(), 0_usize);
    for (path, content) in added {
        count += 1;
        bytes = bytes.saturating_add(weight(path, content)).saturating_add(below);
    }
    if count > limits.entries {
        let told = format!("with the charts that it needs the source has more than {} files", limits.entries);
        return Err(Error::new(Cause::TooLarge, told));
    }
    room(bytes)
}

impl Shelf {
    /// Fetches a chart, and keeps it with all that the client keeps.
    ///
    /// # Errors
    /// When it cannot be had; its name is part of the error.
    pub async fn fetch(
        &mut self,
        client: &Client,
        repositories: &dyn Repositories,
        lack: &Lack,
    ) -> Result<()> {
        let Lack { chart, sentence } = lack;
        let archive = fetch(client, repositories, chart)
            .await
            .map_err(|error| Error { message: format!("{sentence}: {}", error.message), ..error })?;
        self.charts.insert(chart.clone(), archive);
        Ok(())
    }

    /// Reads what is on it. What is not kept any more is left out, and lacks again.
    ///
    /// # Errors
    /// When it cannot be read, or `room` says no.
    pub async fn load(&self, client: &Client, room: Room<'_>) -> Result<Loaded> {
        let mut charts = HashMap::new();
        for (chart, Archive { name, digest }) in &self.charts {
            if let Some(content) = client.kept_content(digest).await? {
                room(content.len())?;
                charts.insert(chart.clone(), (name.clone(), content));
            }
        }
        Ok(Loaded { charts })
    }
}

/// Puts what [`missing`] names into `charts/` of the charts in `folders`: archives as `NAME-VERSION.tgz`, charts of the same tree
/// (`file://`) as folders; and the charts of Kustomizations to where Kustomize looks for them. Asks no other machine: answers
/// what is to be fetched first. Only when that is nothing, the files are whole.
///
/// # Errors
/// When something cannot be read, is too much, or `room` says no.
pub fn complete(
    loaded: &Loaded,
    files: &mut Files,
    folders: &[String],
    limits: &Limits,
    room: Room<'_>,
) -> Result<Vec<Lack>> {
    let mut lacks: Vec<Lack> = Vec::new();
    let mut lacking = |lack: Lack| {
        if lacks.len() == MAX_LACKS {
            return Err(Error::malformed(format!("it needs more than {MAX_LACKS} charts of repositories")));
        }
        if !lacks.iter().any(|known| known.chart == lack.chart) {
            lacks.push(lack);
        }
        Ok(())
    };
    let mut charts = 0;
    let mut open: Vec<(String, usize)> = folders.iter().map(|folder| (folder.clone(), 0)).collect();
    while let Some((folder, depth)) = open.pop() {
        charts += 1;
        if charts > MAX_CHARTS {
            return Err(Error::malformed(format!(
                "more than {MAX_CHARTS} charts name each other by file://"
            )));
        }
        for dependency in missing(files, &folder, limits)? {
            let sentence = format!("cannot get the dependency {}", printable(&dependency.name));
            let named = |error: Error| Error { message: format!("{sentence}: {}", error.message), ..error };
            if let Some(relative) = dependency.repository.strip_prefix("file://") {
                let inner = copy(files, &folder, relative, &dependency, limits, room).map_err(named)?;
                if depth >= MAX_DEPTH {
                    return Err(named(Error::malformed("charts are nested too deep by file://")));
                }
                open.push((inner, depth + 1));
            } else if let Some((name, content)) = loaded.charts.get(&dependency) {
                let target = path(&folder, &format!("charts/{name}"));
                reserve(files, [(target.as_str(), content.len())].into_iter(), 0, limits, room)?;
                files.insert(target, File { content: content.to_vec(), executable: false });
            } else {
                lacking(Lack { chart: dependency, sentence })?;
            }
        }
    }
    for (folder, lack) in kustomize::lacking(files)? {
        let Some((_, content)) = loaded.charts.get(&lack.chart) else {
            lacking(lack)?;
            continue;
        };
        let named =
            |error: Error| Error { message: format!("{}: {}", lack.sentence, error.message), ..error };
        let inner = unpack_chart(content, limits).map_err(named)?;
        let added = inner.iter().map(|(path, file)| (path.as_str(), file.content.len()));
        reserve(files, added, folder.len() + 1, limits, room)?;
        files.extend(inner.into_iter().map(|(inner, file)| (path(&folder, &inner), file)));
    }
    Ok(lacks)
}

async fn fetch(client: &Client, repositories: &dyn Repositories, chart: &Dependency) -> Result<Archive> {
    let address = chart.repository.as_str();
    if address.is_empty() {
        return Err(Error::invalid(
            "it names no repository, and is not in charts/: commit it there, or name one",
        ));
    }
    if address.starts_with('@') || address.starts_with("alias:") {
        return Err(Error::invalid(format!(
            "its repository {:?} is a name on a user's machine; use the address",
            printable(address)
        )));
    }
    let access = repositories.access(address, &chart.name).await?;
    let wanted = Wanted::chart(&access, &chart.name, &chart.version, Freshness::default());
    let resolved = client.resolve(&wanted).await?;
    let content = client.content(&access, &resolved).await?;
    // A slash or the like would lead elsewhere.
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' }).collect()
    };
    if resolved.version.len() > Dependency::LONGEST {
        return Err(Error::malformed("the repository answers with a version that is too long"));
    }
    let name = format!("{}-{}.tgz", plain(&chart.name), plain(&resolved.version));
    Ok(Archive { name, digest: hex::encode(Sha256::digest(&content)) })
}

/// Copies a chart of the same tree into `charts/`; gives its new folder.
fn copy(
    files: &mut Files,
    folder: &str,
    relative: &str,
    dependency: &Dependency,
    limits: &Limits,
    room: Room<'_>,
) -> Result<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts
                    .pop()
                    .ok_or_else(|| Error::malformed("its file:// address leads out of the repository"))?;
            }
            part => parts.push(part),
        }
    }
    let from = parts.join("/");
    let prefix = if from.is_empty() { String::new() } else { format!("{from}/") };
    let target = path(folder, &format!("charts/{}", dependency.name));
    if dependency.name.contains(['/', '\\']) || matches!(dependency.name.as_str(), "." | "..") {
        return Err(Error::malformed("its name is not a chart name"));
    }
    if format!("{target}/").starts_with(&prefix) {
        return Err(Error::malformed("its file:// address holds the chart itself"));
    }
    let chart = ChartFile::read(files, &from)?;
    if !dependency.allows(&chart.version) {
        return Err(Error::malformed(format!(
            "{from} has version {}, which is not in {:?}",
            printable(&chart.version),
            printable(&dependency.version)
        )));
    }
    let below = || files.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
    // Before it is held twice, and further down.
    let added = below().map(|(path, file)| (&path[prefix.len()..], file.content.len()));
    reserve(files, added, target.len() + 1, limits, room)?;
    let copies: Vec<(String, File)> =
        below().map(|(path, file)| (format!("{target}/{}", &path[prefix.len()..]), file.clone())).collect();
    files.extend(copies);
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> Files {
        let file = |text: &str| File { content: text.as_bytes().to_vec(), executable: false };
        entries.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    fn names(entries: &[(&str, &str)]) -> Result<Vec<String>> {
        let found = missing(&files(entries), "app", &Limits::default())?;
        Ok(found
            .into_iter()
            .map(|dependency| format!("{} {}", dependency.name, dependency.version))
            .collect())
    }

    const CHART: &str = "name: app\ndependencies:\n- {name: redis, version: ^1.0, repository: 'https://a/b'}\n- {name: pg, version: 2.x, repository: 'https://a/b'}\n";

    #[test]
    fn what_is_in_charts_is_not_missing() {
        assert_eq!(names(&[("app/Chart.yaml", CHART)]).unwrap(), ["redis ^1.0", "pg 2.x"]);
        let inside = [("app/Chart.yaml", CHART), ("app/charts/x/Chart.yaml", "name: redis")];
        assert_eq!(names(&inside).unwrap(), ["pg 2.x"]);
        assert!(names(&[("app/Chart.yaml", "name: app")]).unwrap().is_empty());
    }

    #[test]
    fn the_lock_pins() {
        let lock = "dependencies:\n- {name: redis, version: 1.2.3}\n- {name: pg, version: 2.0.1}\n";
        assert_eq!(
            names(&[("app/Chart.yaml", CHART), ("app/Chart.lock", lock)]).unwrap(),
            ["redis 1.2.3", "pg 2.0.1"]
        );
        let stale = "dependencies:\n- {name: redis, version: 0.9.0}\n- {name: pg, version: 2.0.1}\n";
        let error = names(&[("app/Chart.yaml", CHART), ("app/Chart.lock", stale)]).unwrap_err();
        assert!(
            error.message.contains("redis") && error.message.contains("helm dependency update"),
            "{error}"
        );
    }

    #[test]
    fn charts_of_the_same_tree_are_copied() {
        let mut tree = files(&[("lib/Chart.yaml", "name: lib\nversion: 1.0.0"), ("lib/values.yaml", "a: 1")]);
        let dependency = Dependency { name: "lib".into(), version: "1.x".into(), repository: String::new() };
        assert_eq!(
            copy(&mut tree, "app", "../lib", &dependency, &Limits::default(), &mut |_| Ok(())).unwrap(),
            "app/charts/lib"
        );
        assert_eq!(tree["app/charts/lib/values.yaml"].content, b"a: 1");
        assert!(
            copy(&mut tree, "app", "../../lib", &dependency, &Limits::default(), &mut |_| Ok(())).is_err(),
            "leads out"
        );
        assert!(
            copy(&mut tree, "app", ".", &dependency, &Limits::default(), &mut |_| Ok(())).is_err(),
            "holds itself"
        );
        let two = Dependency { version: "2.x".into(), ..dependency };
        assert!(
            copy(&mut tree, "app", "../lib", &two, &Limits::default(), &mut |_| Ok(())).is_err(),
            "another version"
        );
    }

    #[test]
    fn names_that_become_paths_are_short() {
        let long = "x".repeat(254);
        for (name, version) in [(long.as_str(), "1.0.0"), ("lib", long.as_str())] {
            let chart = format!(
                "name: app\ndependencies:\n- {{name: {name}, version: '{version}', repository: 'file://../lib'}}\n"
            );
            let tree = [("app/Chart.yaml", chart.as_str()), ("lib/Chart.yaml", "name: lib\nversion: 1.0.0")];
            let error = missing(&files(&tree), "app", &Limits::default()).unwrap_err();
            assert!(error.message.contains("longer than 253 bytes"), "{error}");
        }
    }

    #[test]
    fn of_packed_charts_only_the_name_is_read() {
        use std::io::Write as _;
        let packed = |entries: &[(&str, &[u8])]| {
            let mut tar =
                tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
            for (path, content) in entries {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                tar.append_data(&mut header, path, *content).unwrap();
            }
            tar.into_inner().unwrap().finish().unwrap()
        };
        let mut tree = files(&[("app/Chart.yaml", CHART)]);
        let mut put = |name: &str, content: Vec<u8>| {
            tree.insert(format!("app/charts/{name}"), File { content, executable: false });
        };
        put("redis-1.0.0.tgz", packed(&[("redis/Chart.yaml", b"name: redis"), ("redis/junk", b"x")]));
        // What follows is the renderer's to read, also when it is cut.
        let mut cut = packed(&[("pg/Chart.yaml", b"name: pg"), ("pg/more", &noise(1 << 20))]);
        cut.truncate(cut.len() / 2);
        put("pg-2.0.0.tgz", cut);
        put("none.tgz", b"nonsense".to_vec());
        put("empty.tgz", {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(b"").unwrap();
            gzip.finish().unwrap()
        });
        assert!(missing(&tree, "app", &Limits::default()).unwrap().is_empty());
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    #[test]
    fn copies_of_copies_end_where_there_is_no_room() {
        let many = |below: &str| -> String {
            let names = (0..100)
                .map(|at| format!("- {{name: d{at}, version: 1.0.0, repository: 'file://{below}'}}\n"));
            format!("name: x\nversion: 1.0.0\ndependencies:\n{}", names.collect::<String>())
        };
        let blob = "0".repeat(1 << 20);
        let mut tree = files(&[
            ("app/Chart.yaml", &many("../one")),
            ("one/Chart.yaml", &many("../../../two")),
            ("one/blob", &blob),
            ("two/Chart.yaml", "name: x\nversion: 1.0.0"),
            ("two/blob", &blob),
        ]);
        let mut held = 0;
        let mut room = |bytes: usize| {
            held += bytes;
            if held > 64 << 20 { Err(Error::malformed("no room")) } else { Ok(()) }
        };
        let folders = ["app".to_owned()];
        let error =
            complete(&Loaded::default(), &mut tree, &folders, &Limits::default(), &mut room).unwrap_err();
        assert!(error.message.contains("no room"), "{error}");
        let held: usize = tree.values().map(|file| file.content.len()).sum();
        assert!(held < 80 << 20, "{held}");
        // What is empty has a path, and a place in the tree.
        let lib = (0..9_000).map(|at| (format!("lib/{at}"), File { content: Vec::new(), executable: false }));
        let mut tree: Files = lib.collect();
        tree.extend(files(&[
            ("lib/Chart.yaml", "name: lib\nversion: 1.0.0"),
            ("app/Chart.yaml", &many("../lib")),
        ]));
        let before = tree.len();
        let mut held = 0;
        let mut room = |bytes: usize| {
            held += bytes;
            Ok(())
        };
        let error =
            complete(&Loaded::default(), &mut tree, &folders, &Limits::default(), &mut room).unwrap_err();
        assert!(error.message.contains("more than 20000 files"), "{error}");
        assert!(tree.len() <= 20_000 && tree.len() > before);
        let paths: usize = tree.keys().filter(|path| path.starts_with("app/charts/")).map(String::len).sum();
        assert!(held > paths + 100 * 9_000, "{held}");
        // Small ones end by their number.
        let mut tree = files(&[
            ("app/Chart.yaml", &many("../one")),
            ("one/Chart.yaml", &many("../../../two")),
            ("two/Chart.yaml", "name: x\nversion: 1.0.0"),
        ]);
        let error = complete(&Loaded::default(), &mut tree, &folders, &Limits::default(), &mut |_| Ok(()));
        assert!(error.unwrap_err().message.contains("more than 500 charts"));
    }
}
