//! Charts that a chart needs and does not bring: [`missing`], [`complete`].

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::{
    access::{Access, printable},
    archive::{File, Files, Limits, unpack_chart},
    chart::{ChartFile, Dependency, path},
    client::{Client, Freshness, Wanted},
    error::{Error, Result},
};

/// Charts in charts in charts, by way of `file://`.
const MAX_DEPTH: usize = 8;

/// Knows how to sign in to a repository that a chart names.
#[async_trait]
pub trait Repositories: Send + Sync {
    /// The access to an address.
    ///
    /// # Errors
    /// When it is none, or its credentials cannot be read.
    async fn access(&self, address: &str) -> Result<Access>;
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
                unpack_chart(&file.content, limits).and_then(|inner| ChartFile::read(&inner, ""))
            }
            _ => continue,
        };
        names.extend(read.ok().map(|chart| chart.name));
    }
    names
}

/// Puts what [`missing`] names into `charts/` of the chart in `folder`: archives as `NAME-VERSION.tgz`, charts of the same
/// tree (`file://`) as folders. Gives the digests of the archives, in order.
///
/// # Errors
/// When one cannot be found; its name is part of the error.
pub async fn complete(
    client: &Client,
    repositories: &dyn Repositories,
    files: &mut Files,
    folder: &str,
    limits: &Limits,
) -> Result<Vec<String>> {
    let mut digests = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for dependency in missing(files, &folder, limits)? {
            let named = |error: Error| Error {
                message: format!(
                    "cannot get the dependency {}: {}",
                    printable(&dependency.name),
                    error.message
                ),
                ..error
            };
            if let Some(relative) = dependency.repository.strip_prefix("file://") {
                let inner = copy(files, &folder, relative, &dependency).map_err(named)?;
                if depth >= MAX_DEPTH {
                    return Err(named(Error::malformed("charts are nested too deep by file://")));
                }
                folders.push((inner, depth + 1));
                continue;
            }
            let (name, content, digest) = fetch(client, repositories, &dependency).await.map_err(named)?;
            digests.push(digest);
            files.insert(path(&folder, &format!("charts/{name}")), File { content, executable: false });
        }
    }
    Ok(digests)
}

/// Name for the archive, its content and its digest.
pub(crate) async fn fetch(
    client: &Client,
    repositories: &dyn Repositories,
    dependency: &Dependency,
) -> Result<(String, Vec<u8>, String)> {
    let address = dependency.repository.as_str();
    if address.is_empty() {
        return Err(Error::invalid(
            "it names no repository, and is not in charts/: commit it there, or name one",
        ));
    }
    if address.starts_with('@') || address.starts_with("alias:") {
        return Err(Error::invalid(format!(
            "its repository {:?} is a name on somebody's machine: give the address",
            printable(address)
        )));
    }
    let access = repositories.access(address).await?;
    let wanted = Wanted::chart(&access, &dependency.name, &dependency.version, Freshness::default());
    let resolved = client.resolve(&wanted).await?;
    let content = client.content(&access, &resolved).await?;
    // A slash or the like would lead elsewhere.
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' }).collect()
    };
    let name = format!("{}-{}.tgz", plain(&dependency.name), plain(&resolved.version));
    Ok((name, content.to_vec(), resolved.digest))
}

/// Copies a chart of the same tree into `charts/`; gives its new folder.
fn copy(files: &mut Files, folder: &str, relative: &str, dependency: &Dependency) -> Result<String> {
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
        return Err(Error::malformed("its name is no name of a chart"));
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
    let copies: Vec<(String, File)> = files
        .range(prefix.clone()..)
        .take_while(|(path, _)| path.starts_with(&prefix))
        .map(|(path, file)| (format!("{target}/{}", &path[prefix.len()..]), file.clone()))
        .collect();
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
        assert_eq!(copy(&mut tree, "app", "../lib", &dependency).unwrap(), "app/charts/lib");
        assert_eq!(tree["app/charts/lib/values.yaml"].content, b"a: 1");
        assert!(copy(&mut tree, "app", "../../lib", &dependency).is_err(), "leads out");
        assert!(copy(&mut tree, "app", ".", &dependency).is_err(), "holds itself");
        let two = Dependency { version: "2.x".into(), ..dependency };
        assert!(copy(&mut tree, "app", "../lib", &two).is_err(), "another version");
    }
}
