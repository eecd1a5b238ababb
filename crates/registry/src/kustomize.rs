//! Charts that Kustomizations name in repositories (`helmCharts` with a `repo`): [`lacks_charts`].

use serde_json::Value;

use crate::{
    access::printable,
    archive::Files,
    chart::{self, Dependency, path},
    dependencies::Lack,
    error::{Error, Result},
};

/// Names of a Kustomization, in no order: a folder has one of them.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// Charts that are fetched for one service.
const MAX_CHARTS: usize = 100;
/// Bytes of a `chartHome`.
const LONGEST_HOME: usize = 1024;

/// A chart that is not in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lacking {
    /// The Kustomization that names it.
    named_by: String,
    /// Where `kustomize build` would unpack it, the chart's own folder included.
    folder: String,
    chart: Dependency,
}

/// Whether a Kustomization among the files names a chart in a repository that is not among them.
pub fn lacks_charts(files: &Files) -> bool {
    found(files).is_ok_and(|lacking| !lacking.is_empty())
}

/// Every chart that a Kustomization names in a repository and that the tree does not hold, with where `kustomize build` would
/// look for it: `CHART_HOME/NAME-VERSION/NAME`, without a version `CHART_HOME/NAME`.
///
/// # Errors
/// When one leads out of the tree; the Kustomization is part of the error.
pub(crate) fn lacking(files: &Files) -> Result<Vec<(String, Lack)>> {
    let named = |Lacking { named_by, folder, chart }: Lacking| {
        let sentence = format!("{named_by}: cannot get the chart {}", printable(&chart.name));
        (folder, Lack { chart, sentence })
    };
    Ok(found(files)?.into_iter().map(named).collect())
}

fn found(files: &Files) -> Result<Vec<Lacking>> {
    let mut lacking: Vec<Lacking> = Vec::new();
    for file in files.keys() {
        let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        if !NAMES.contains(&name) {
            continue;
        }
        // What cannot be read is the renderer's to name.
        let Ok(Some(document)) = chart::document(files, folder, name) else { continue };
        let home = text(&document["helmGlobals"], "chartHome");
        for entry in entries(&document, "helmCharts") {
            let chart = Dependency {
                name: text(entry, "name"),
                version: text(entry, "version"),
                repository: text(entry, "repo"),
            };
            note(files, file, folder, &home, chart, entry["devel"] == true, &mut lacking)?;
        }
        for entry in entries(&document, "helmChartInflationGenerator") {
            let chart = Dependency {
                name: text(entry, "chartName"),
                version: text(entry, "chartVersion"),
                repository: text(entry, "chartRepoUrl"),
            };
            note(files, file, folder, &text(entry, "chartHome"), chart, false, &mut lacking)?;
        }
    }
    Ok(lacking)
}

fn note(
    files: &Files,
    file: &str,
    folder: &str,
    home: &str,
    mut chart: Dependency,
    pre_releases: bool,
    lacking: &mut Vec<Lacking>,
) -> Result<()> {
    if chart.name.is_empty() || chart.repository.is_empty() {
        return Ok(());
    }
    let refused =
        |why: &str| Error::malformed(format!("{file}: the chart {:?} {why}", printable(&chart.name)));
    let plain = |text: &str| !text.contains(['/', '\\', '\0']) && !matches!(text, "." | "..");
    if !plain(&chart.name) || !plain(&chart.version) {
        return Err(refused("has a name or version that is none"));
    }
    chart.check().map_err(|error| Error { message: format!("{file}: {}", error.message), ..error })?;
    if home.len() > LONGEST_HOME {
        return Err(refused("has a chartHome that is too long"));
    }
    let home = if home.is_empty() { "charts" } else { home };
    let home =
        inside(folder, home).ok_or_else(|| refused("has a chartHome that leads out of the repository"))?;
    let beside = path(&home, &chart.name);
    let pulled = if chart.version.is_empty() {
        beside.clone()
    } else {
        path(&home, &format!("{0}-{1}/{0}", chart.name, chart.version))
    };
    let is_there = |folder: &str| files.contains_key(&path(folder, "Chart.yaml"));
    if is_there(&beside) || is_there(&pulled) || lacking.iter().any(|known| known.folder == pulled) {
        return Ok(());
    }
    if lacking.len() == MAX_CHARTS {
        return Err(Error::malformed(format!("the Kustomizations name more than {MAX_CHARTS} charts")));
    }
    if pre_releases && chart.version.is_empty() {
        ">0.0.0-0".clone_into(&mut chart.version);
    }
    lacking.push(Lacking { named_by: file.to_owned(), folder: pulled, chart });
    Ok(())
}

/// `relative` from `folder`; nothing when it leads out of the tree.
fn inside(folder: &str, relative: &str) -> Option<String> {
    if relative.starts_with('/') || relative.contains(['\\', '\0']) {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(relative.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn entries<'a>(document: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    document.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value, field: &str) -> String {
    chart::text(value, field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::File;

    fn files(entries: &[(&str, &str)]) -> Files {
        let file = |text: &str| File { content: text.as_bytes().to_vec(), executable: false };
        entries.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    fn folders(entries: &[(&str, &str)]) -> Result<Vec<String>> {
        Ok(found(&files(entries))?.into_iter().map(|lacking| lacking.folder).collect())
    }

    const ONE: &str = "helmCharts: [{name: web, version: 1.2.3, repo: 'https://charts.example.com'}]";

    #[test]
    fn charts_of_repositories_go_where_kustomize_looks_for_them() {
        assert_eq!(folders(&[("a/kustomization.yaml", ONE)]).unwrap(), ["a/charts/web-1.2.3/web"]);
        let home = format!("{ONE}\nhelmGlobals: {{chartHome: ../all}}");
        assert_eq!(folders(&[("a/b/Kustomization", &home)]).unwrap(), ["a/all/web-1.2.3/web"]);
        let newest = "helmCharts: [{name: web, repo: 'oci://example.com/charts'}]";
        assert_eq!(folders(&[("kustomization.yml", newest)]).unwrap(), ["charts/web"]);
        let old =
            "helmChartInflationGenerator: [{chartName: web, chartVersion: '2', chartRepoUrl: 'https://a'}]";
        assert_eq!(folders(&[("kustomization.yaml", old)]).unwrap(), ["charts/web-2/web"]);
    }

    #[test]
    fn what_is_there_or_names_no_repository_is_not_fetched() {
        let there = [("kustomization.yaml", ONE), ("charts/web-1.2.3/web/Chart.yaml", "name: web")];
        assert!(folders(&there).unwrap().is_empty());
        let beside = [("kustomization.yaml", ONE), ("charts/web/Chart.yaml", "name: web")];
        assert!(folders(&beside).unwrap().is_empty());
        for text in
            ["helmCharts: [{name: web}]", "helmCharts: null", "helmCharts: [null, 7, {repo: x}]", "]["]
        {
            assert!(folders(&[("kustomization.yaml", text)]).unwrap().is_empty(), "{text}");
        }
        assert!(folders(&[("other.yaml", ONE)]).unwrap().is_empty());
    }

    #[test]
    fn nothing_is_unpacked_outside_of_the_tree() {
        for text in [
            "helmCharts: [{name: ../web, repo: 'https://a'}]",
            "helmCharts: [{name: .., repo: 'https://a'}]",
            "helmCharts: [{name: web, version: ../../1, repo: 'https://a'}]",
            "helmGlobals: {chartHome: ../..}\nhelmCharts: [{name: web, repo: 'https://a'}]",
            "helmGlobals: {chartHome: /etc}\nhelmCharts: [{name: web, repo: 'https://a'}]",
        ] {
            let error = folders(&[("a/kustomization.yaml", text)]).unwrap_err();
            assert!(error.message.contains("a/kustomization.yaml"), "{error}");
        }
    }
}
