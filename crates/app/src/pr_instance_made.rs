//! What becomes of a repository when something that was generated in it is upgraded or taken away. What a version generates is always
//! asked on the commit that the instance was first generated on, so that both versions start from the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use plural_core::pr_automation_spec::PrAutomationSpec;
use plural_core::pr_instance::{PrGenerated, PrInstanceFile, PrParts, file_digest};
use plural_core::pr_tree::Within;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::app::App;
use crate::ports::git_hosts::{Host, HostEntry};
use crate::ports::scaffolds::{ScaffoldConflict, ScaffoldEntry, ScaffoldMerge, ScaffoldMerged, Scaffolded};
use crate::pull_request_made::{AT_ONCE, Asked, Commits, MAX_BYTES, MAX_FILES, Made, Stop};

/// Files that a text of a pull request names.
const NAMED: usize = 50;
/// Bytes of a text that names no more: there are hosts that take 4 000 characters and refuse a longer one.
const LISTED: usize = 3_000;

/// How long all files of an answer are compared.
const COMPARING: Duration = Duration::from_secs(30);

/// Files by path.
pub(crate) type Tree = BTreeMap<String, ScaffoldEntry>;

/// A file before and after.
pub(crate) struct Compared {
    pub(crate) path: String,
    pub(crate) before: Option<ScaffoldEntry>,
    pub(crate) after: Option<ScaffoldEntry>,
}

/// What an instance is, and what is done to it. It has no `Debug`: answers may be secret.
#[derive(Serialize, Deserialize)]
pub(crate) struct AskedChange {
    /// The version that it is of.
    pub(crate) spec: PrAutomationSpec,
    /// What was answered then.
    pub(crate) answers: Map<String, Value>,
    /// The commit that it was first generated on.
    pub(crate) commit: String,
    /// The commit that its own templates were read from.
    pub(crate) templates: String,
    /// What its random filters draw from.
    pub(crate) seed: String,
    /// The time that its templates see.
    pub(crate) clock_ms: i64,
    /// What it generated then.
    pub(crate) files: Vec<PrInstanceFile>,
    /// What it took from elsewhere then, where that was kept.
    #[serde(default)]
    pub(crate) parts: Option<PrParts>,
    /// It brings a Secret, or takes one away, and whoever asked may not have that done without a merge.
    #[serde(default)]
    pub(crate) needs_merge: bool,
    /// What is done.
    pub(crate) kind: AskedKind,
}

/// What is done to an instance.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum AskedKind {
    /// It becomes what is asked for.
    Upgrade {
        /// Lines that both changed come between markers; else nothing is done.
        allow_conflicts: bool,
        /// Its files become those of the new version, whatever people changed in them.
        #[serde(default)]
        overwrite: bool,
    },
    /// It is taken away.
    Uninstall {
        /// Paths that others generated, too.
        shared: BTreeSet<String>,
    },
}

impl AskedChange {
    /// Whether it may be done where a person has to settle something.
    pub(crate) fn may_conflict(&self) -> bool {
        match &self.kind {
            AskedKind::Upgrade { allow_conflicts, overwrite: _ } => *allow_conflicts,
            // It leaves what it cannot take away.
            AskedKind::Uninstall { shared: _ } => true,
        }
    }

    /// What is generated otherwise than it was: by a console that renders otherwise, or as a secret answer is another one. What was changed
    /// since cannot be told from it.
    fn otherwise(&self, made: &Made) -> Vec<String> {
        let now = made.files();
        let is_same =
            |was: &&PrInstanceFile| now.iter().any(|now| now.path == was.path && now.digest == was.digest);
        let other = self.files.iter().filter(|was| !is_same(was));
        other
            .map(|was| format!("{}: its version generates something else now than it did then", was.path))
            .collect()
    }

    /// What it took from elsewhere then; nothing where that is not known.
    fn parts_then(&self) -> Option<PrParts> {
        self.parts.clone().or_else(|| (!self.spec.takes_parts()).then(PrParts::default))
    }

    /// The files of the next version where its first commit is not there any more: what was only its own stays so.
    fn recorded(&self, mut now: Vec<PrInstanceFile>) -> Vec<PrInstanceFile> {
        for was in &self.files {
            if let Some(known) = now.iter_mut().find(|known| known.path == was.path) {
                known.is_new |= was.is_new;
            } else {
                now.push(was.clone());
            }
        }
        now.sort_by(|one, other| one.path.cmp(&other.path));
        now
    }

    /// With the seed and the clock of the instance.
    fn run(&self, spec: &PrAutomationSpec, answers: &Map<String, Value>, parts: &PrParts) -> Asked {
        Asked {
            spec: spec.clone(),
            answers: answers.clone(),
            seed: self.seed.clone(),
            clock_ms: self.clock_ms,
            parts: parts.clone(),
            change: None,
        }
    }
}

impl App {
    /// What a change of an instance makes of a commit of its repository.
    pub(crate) async fn pr_instance_made(
        &self,
        host: &Arc<dyn Host>,
        repository: &str,
        commit: &str,
        asked: &Asked,
        change: &AskedChange,
    ) -> Result<Made, Stop> {
        match &change.kind {
            AskedKind::Upgrade { allow_conflicts: _, overwrite } => {
                let run = change.run(&asked.spec, &asked.answers, &asked.parts);
                if *overwrite {
                    Box::pin(self.pr_instance_overwritten(host, repository, commit, change, &run)).await
                } else {
                    Box::pin(self.pr_instance_upgraded(host, repository, commit, change, &run)).await
                }
            }
            AskedKind::Uninstall { shared } => {
                Box::pin(self.pr_instance_uninstalled(host, repository, commit, change, shared)).await
            }
        }
    }

    async fn pr_instance_upgraded(
        &self,
        host: &Arc<dyn Host>,
        repository: &str,
        commit: &str,
        change: &AskedChange,
        run: &Asked,
    ) -> Result<Made, Stop> {
        let old = self.pr_instance_generated(host, repository, change).await.map_err(or_overwrite)?;
        // Its templates are those of now, which may lie in the repository.
        let on = Commits { files: &change.commit, templates: commit };
        let new = Box::pin(self.pull_request_run(host, repository, &on, run)).await;
        let new =
            new.map_err(|stop| in_words("the new version, on the files that it was first made from", stop))?;
        let paths: BTreeSet<String> =
            old.after.changes.keys().chain(new.after.changes.keys()).cloned().collect();
        // What only one of the versions touches is for the other one as it was.
        let one =
            |path: &&String| old.after.changes.contains_key(*path) != new.after.changes.contains_key(*path);
        let untouched: BTreeSet<String> = paths.iter().filter(one).cloned().collect();
        let was = files_at(host, repository, &change.commit, &untouched).await?;
        let tree = |made: &Made| {
            let of = |path: &String| match made.after.changes.get(path) {
                Some(after) => after.clone(),
                None => was.get(path).cloned(),
            };
            paths.iter().filter_map(|path| Some((path.clone(), plain(of(path)?)))).collect::<Tree>()
        };
        let ours = files_at(host, repository, commit, &paths).await?;
        let merge = ScaffoldMerge { base: tree(&old), theirs: tree(&new), ours: ours.clone() };
        let ScaffoldMerged { changes, conflicts } =
            self.scaffolds.merge(merge).await?.map_err(Stop::Failed)?;
        let conflicts: Vec<String> =
            conflicts.iter().map(|(path, why)| format!("{path}: {}", why.told())).collect();
        let mut message = new.after.message.clone();
        add_list(&mut message, "To be settled before it is merged:", &conflicts);
        let files = new.files();
        let Scaffolded { title, skipped, mut warnings, .. } = new.after;
        warnings.extend(change.otherwise(&old));
        Ok(Made {
            before: ours,
            after: Scaffolded { changes, title: titled("Upgrade", &title), message, skipped, warnings },
            generated: Some(PrGenerated {
                commit: change.commit.clone(),
                templates: commit.to_owned(),
                files,
            }),
            conflicts,
        })
    }

    /// The new version as if nobody had changed anything: its own files as it makes them, its edits on what other files are now. What only
    /// the version of before made goes, where it is still as that made it.
    async fn pr_instance_overwritten(
        &self,
        host: &Arc<dyn Host>,
        repository: &str,
        commit: &str,
        change: &AskedChange,
        run: &Asked,
    ) -> Result<Made, Stop> {
        let on = Commits { files: commit, templates: commit };
        let new = Box::pin(self.pull_request_run(host, repository, &on, run)).await;
        let new = new.map_err(|stop| in_words("the new version, on the files as they are", stop))?;
        // The next version is compared with what this one makes of the first commit, as long as that is there.
        let on = Commits { files: &change.commit, templates: commit };
        let files = match Box::pin(self.pull_request_run(host, repository, &on, run)).await {
            Ok(first) => first.files(),
            Err(Stop::Failed(_)) => change.recorded(new.files()),
            Err(stop @ (Stop::Later(_) | Stop::Ours(_))) => return Err(stop),
        };
        let (gone, left) = obsolete(host, repository, commit, (change, files.as_slice())).await?;
        let Scaffolded { mut changes, title, mut message, skipped, mut warnings } = new.after;
        changes.extend(gone.into_iter().map(|path| (path, None)));
        let before = files_at(host, repository, commit, &changes.keys().cloned().collect()).await?;
        changes.retain(|path, after| after.clone().map(plain).as_ref() != before.get(path));
        message.truncate(message.trim_end().len());
        message.push_str("\n\nIts files become those of this version, whatever was changed in them.\n");
        add_list(&mut message, "Left as it is:", &left);
        warnings.extend(left.iter().map(|left| format!("left as it is: {left}")));
        Ok(Made {
            before,
            after: Scaffolded { changes, title: titled("Upgrade", &title), message, skipped, warnings },
            generated: Some(PrGenerated {
                commit: change.commit.clone(),
                templates: commit.to_owned(),
                files,
            }),
            conflicts: Vec::new(),
        })
    }

    async fn pr_instance_uninstalled(
        &self,
        host: &Arc<dyn Host>,
        repository: &str,
        commit: &str,
        change: &AskedChange,
        shared: &BTreeSet<String>,
    ) -> Result<Made, Stop> {
        let old = self.pr_instance_generated(host, repository, change).await.map_err(after_overwrite)?;
        let mut left = Vec::new();
        let otherwise = change.otherwise(&old);
        let (mut base, mut edited) = (Tree::new(), BTreeSet::new());
        for (path, after) in &old.after.changes {
            let is_new = !old.before.contains_key(path);
            match after {
                None => left.push(format!("{path}: it was taken away, and is not brought back")),
                Some(_) if is_new && shared.contains(path) => {
                    left.push(format!("{path}: another instance generated it, too"));
                }
                Some(after) => {
                    base.insert(path.clone(), plain(after.clone()));
                    if !is_new {
                        edited.insert(path.clone());
                    }
                }
            }
        }
        let theirs = files_at(host, repository, &change.commit, &edited).await?;
        let paths = base.keys().cloned().collect();
        let ours = files_at(host, repository, commit, &paths).await?;
        let merge = ScaffoldMerge { base, theirs, ours: ours.clone() };
        let ScaffoldMerged { mut changes, conflicts } =
            self.scaffolds.merge(merge).await?.map_err(Stop::Failed)?;
        for (path, why) in conflicts {
            changes.remove(&path);
            match why {
                // It is gone.
                ScaffoldConflict::DeletedHere => {}
                ScaffoldConflict::ChangedHere | ScaffoldConflict::BothMade => {
                    left.push(format!("{path}: it was changed since"));
                }
                ScaffoldConflict::Lines | ScaffoldConflict::Binary => {
                    left.push(format!("{path}: the same lines were changed since"));
                }
                ScaffoldConflict::TooLarge => {
                    left.push(format!("{path}: it was changed since, and is too large to be compared"));
                }
            }
        }
        if changes.is_empty() && !left.is_empty() {
            return Err(Stop::Failed(format!(
                "nothing of it can be taken away from {repository} by itself: {}",
                left.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ")
            )));
        }
        let Scaffolded { title, mut message, skipped: _, mut warnings, .. } = old.after;
        message.insert_str(0, "Takes away what this made:\n\n");
        add_list(&mut message, "Left as it is:", &left);
        warnings.extend(otherwise);
        warnings.extend(left.iter().map(|left| format!("left as it is: {left}")));
        Ok(Made {
            before: ours,
            after: Scaffolded {
                changes,
                title: titled("Uninstall", &title),
                message,
                skipped: Vec::new(),
                warnings,
            },
            generated: Some(PrGenerated {
                commit: change.commit.clone(),
                templates: change.templates.clone(),
                files: Vec::new(),
            }),
            conflicts: Vec::new(),
        })
    }

    /// How files differ, in their order, as `git diff` shows it. Off the threads that answer requests: files may be many, and large.
    ///
    /// # Errors
    /// `Conflict` where that takes too long.
    pub(crate) async fn differences(&self, all: Vec<Compared>) -> plural_core::Result<Vec<String>> {
        let scaffolds = Arc::clone(&self.scaffolds);
        let until = Instant::now() + COMPARING;
        let compare = move || {
            let one = |Compared { path, before, after }: Compared| {
                let is_late = Instant::now() >= until;
                (!is_late).then(|| scaffolds.difference(&path, before.as_ref(), after.as_ref()))
            };
            all.into_iter().map(one).collect::<Option<Vec<String>>>()
        };
        let compared = spawn_blocking(compare).await;
        let compared = compared.map_err(|cause| plural_core::Error::internal("comparing files", cause))?;
        compared.ok_or_else(|| {
            plural_core::Error::conflict("the files are too many and too large to be compared: name fewer")
        })
    }

    /// What the version that an instance is of generates.
    pub(crate) async fn pr_instance_generated(
        &self,
        host: &Arc<dyn Host>,
        repository: &str,
        change: &AskedChange,
    ) -> Result<Made, Stop> {
        let Some(parts) = change.parts_then() else {
            return Err(Stop::Failed(
                "the version that it is of took something from elsewhere, and which of it was not kept then"
                    .to_owned(),
            ));
        };
        let run = change.run(&change.spec, &change.answers, &parts);
        let on = Commits { files: &change.commit, templates: &change.templates };
        let made = Box::pin(self.pull_request_run(host, repository, &on, &run)).await;
        made.map_err(|stop| {
            in_words("the version that it is of, on the files that it was first made from", stop)
        })
    }
}

/// Of the files that the version of before made and the next one does not: those that are still as they were made, and what is told of
/// the others.
async fn obsolete(
    host: &Arc<dyn Host>,
    repository: &str,
    commit: &str,
    (change, next): (&AskedChange, &[PrInstanceFile]),
) -> Result<(Vec<String>, Vec<String>), Stop> {
    let is_made = |path: &str| next.iter().any(|next| next.path == path);
    let made: BTreeMap<String, String> = change
        .files
        .iter()
        .filter(|was| was.is_new && !is_made(&was.path))
        .filter_map(|was| Some((was.path.clone(), was.digest.clone()?)))
        .collect();
    let ours = files_at(host, repository, commit, &made.keys().cloned().collect()).await?;
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    for (path, entry) in ours {
        let is_same = match &entry {
            ScaffoldEntry::File { bytes, executable: _ } => {
                made.get(&path).is_some_and(|digest| *digest == file_digest(bytes))
            }
            ScaffoldEntry::Link => false,
        };
        if is_same {
            gone.push(path);
        } else {
            left.push(format!("{path}: it was changed since"));
        }
    }
    Ok((gone, left))
}

/// Some files of a commit, of those that it has.
pub(crate) async fn files_at(
    host: &Arc<dyn Host>,
    repository: &str,
    commit: &str,
    paths: &BTreeSet<String>,
) -> Result<Tree, Stop> {
    let mut tree = Tree::new();
    if paths.is_empty() {
        return Ok(tree);
    }
    let mut reads = Vec::new();
    let within = Within::of_files(paths.iter().map(String::as_str));
    for (path, entry) in host.tree(repository, commit, &within).await? {
        if !paths.contains(&path) {
            continue;
        }
        match entry {
            HostEntry::Link => {
                tree.insert(path, ScaffoldEntry::Link);
            }
            HostEntry::File | HostEntry::Executable => {
                let (host, repository, commit) = (Arc::clone(host), repository.to_owned(), commit.to_owned());
                reads.push(async move {
                    let read = host.read(&repository, &commit, &path).await;
                    (path, read)
                });
            }
        }
    }
    if reads.len() > MAX_FILES {
        return Err(Stop::Failed(format!("the instance has more than {MAX_FILES} files in {repository}")));
    }
    let (mut reads, mut left) = (stream::iter(reads).buffer_unordered(AT_ONCE), MAX_BYTES);
    while let Some((path, read)) = reads.next().await {
        let bytes = read?;
        left = left.checked_sub(bytes.len()).ok_or_else(|| {
            Stop::Failed(format!("the instance has more than {} MiB in {repository}", MAX_BYTES >> 20))
        })?;
        tree.insert(path, ScaffoldEntry::File { bytes, executable: false });
    }
    Ok(tree)
}

/// Commits that the console makes say nothing of whether a file may be run, so this is no change.
pub(crate) fn plain(entry: ScaffoldEntry) -> ScaffoldEntry {
    match entry {
        ScaffoldEntry::File { bytes, executable: _ } => ScaffoldEntry::File { bytes, executable: false },
        ScaffoldEntry::Link => ScaffoldEntry::Link,
    }
}

/// Without what was generated then, what people changed since cannot be told.
fn or_overwrite(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(why) => Stop::Failed(format!(
            "{why}; so what people changed since cannot be told, and nothing is done. Look at what an overwrite would change, and have the upgrade overwrite its files (`plural pr upgrade --overwrite`)"
        )),
        stop @ (Stop::Later(_) | Stop::Ours(_)) => stop,
    }
}

/// What can be done without what was generated then.
pub(crate) fn after_overwrite(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(why) => Stop::Failed(format!(
            "{why}. Have an upgrade overwrite its files first (`plural pr upgrade --overwrite`), or settle it by hand in the repository"
        )),
        stop @ (Stop::Later(_) | Stop::Ours(_)) => stop,
    }
}

fn in_words(what: &str, stop: Stop) -> Stop {
    match stop {
        Stop::Failed(why) => Stop::Failed(format!("{what}: {why}")),
        stop @ (Stop::Later(_) | Stop::Ours(_)) => stop,
    }
}

/// Longer ones are cut by no host the same way.
fn titled(what: &str, title: &str) -> String {
    let title: String = title.chars().take(200).collect();
    if title.is_empty() { String::new() } else { format!("{what}: {title}") }
}

fn add_list(message: &mut String, heading: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    message.truncate(message.trim_end().len());
    message.push_str("\n\n");
    message.push_str(heading);
    message.push('\n');
    let mut named = 0;
    for line in lines.iter().take(NAMED) {
        if named > 0 && message.len() + line.len() > LISTED {
            break;
        }
        named += 1;
        message.push_str("- ");
        message.push_str(line);
        message.push('\n');
    }
    if lines.len() > named {
        message.push_str("- and ");
        message.push_str(&(lines.len() - named).to_string());
        message.push_str(" more\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_only_its_own_stays_so() {
        let file = |path: &str, is_new| PrInstanceFile { path: path.to_owned(), digest: None, is_new };
        let change = AskedChange {
            spec: PrAutomationSpec::default(),
            answers: Map::new(),
            commit: "a".to_owned(),
            templates: "b".to_owned(),
            seed: "seed".to_owned(),
            clock_ms: 3,
            files: vec![file("own", true), file("kept", true)],
            parts: None,
            needs_merge: false,
            kind: AskedKind::Upgrade { allow_conflicts: false, overwrite: true },
        };
        let recorded = change.recorded(vec![file("own", false), file("edited", false)]);
        assert_eq!(recorded, [file("edited", false), file("kept", true), file("own", true)]);
        assert_eq!(change.parts_then(), Some(PrParts::default()), "it took nothing");
    }

    #[test]
    fn a_list_leaves_room_in_the_text() {
        let lines: Vec<String> = (0..40).map(|at| format!("{}{at}", "x".repeat(200))).collect();
        let mut message = "It is made.\n\n".to_owned();
        add_list(&mut message, "Left as it is:", &lines);
        assert!(message.len() < 3_300, "{}", message.len());
        let named = message.matches("- x").count();
        assert!(named > 10 && message.ends_with(&format!("- and {} more\n", 40 - named)), "{message}");
        let mut short = String::new();
        add_list(&mut short, "Left as it is:", &lines[..2]);
        assert_eq!((short.matches("- x").count(), short.contains("more")), (2, false));
    }
}
