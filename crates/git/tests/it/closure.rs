//! What makes a service's source.

use std::sync::Arc;

use plural_git::{Closure, Error, NoteKind, Repository, ServiceSource};
use plural_testkit::GitRemote;
use proptest::prelude::*;

use crate::support::{in_place, oid};

fn paths(closure: &Closure) -> Vec<&str> {
    closure.entries.iter().map(|e| e.path.as_str()).collect()
}

fn notes(closure: &Closure) -> Vec<(NoteKind, &str)> {
    closure.notes.iter().map(|n| (n.kind, n.target.as_str())).collect()
}

fn at(repo: &Repository, commit: &str, folder: &str) -> Result<Arc<Closure>, Error> {
    repo.closure(oid(commit), &ServiceSource::new(folder).unwrap())
}

#[tokio::test]
async fn a_plain_folder_is_its_files_and_nothing_else() {
    let git = GitRemote::new().unwrap();
    let first = git
        .push_files([("apps/web/a.yaml", "a"), ("apps/web/sub/b.yaml", "b"), ("apps/db/c.yaml", "c")])
        .unwrap();
    let (_home, repo) = in_place(&git).await;
    let closure = at(&repo, &first, "apps/web").unwrap();
    assert_eq!(paths(&closure), ["apps/web/a.yaml", "apps/web/sub/b.yaml"]);
    assert_eq!((closure.root.as_str(), closure.folder.as_str()), ("apps/web", ""));
    assert_eq!(
        closure.digest,
        at(&repo, &first, "/apps//web/").unwrap().digest,
        "one folder, however it is written"
    );

    let elsewhere = git.push_files([("apps/db/c.yaml", "d")]).unwrap();
    assert_eq!(at(&repo, &elsewhere, "apps/web").unwrap().digest, closure.digest);
    let inside = git.push_files([("apps/web/sub/b.yaml", "B")]).unwrap();
    assert_ne!(at(&repo, &inside, "apps/web").unwrap().digest, closure.digest);
    let mode = git.commit("main").executable("apps/web/sub/b.yaml", "b").push().unwrap();
    let mode = at(&repo, &mode, "apps/web").unwrap();
    assert_ne!(mode.digest, closure.digest, "a mode is part of the source");
    let back = git.commit("main").file("apps/web/sub/b.yaml", "b").push().unwrap();
    assert_eq!(at(&repo, &back, "apps/web").unwrap().digest, closure.digest, "back to what it was");

    let whole = at(&repo, &first, "").unwrap();
    assert_eq!((whole.entries.len(), whole.root.as_str()), (3, ""));
}

#[tokio::test]
async fn kustomizations_reach_outside_of_their_folder() {
    let git = GitRemote::new().unwrap();
    let commit = git
        .push_files([
            (
                "overlays/prod/kustomization.yaml",
                r"
resources: [../../base, extra.yaml, 'github.com/org/repo//x?ref=v1', 'https://example.com/crd.yaml', ../../gone.yaml]
components: [../../components/tls]
patches: [{path: ../../patches/p.yaml}, {patch: '- op: remove'}]
configMapGenerator: [{name: c, files: [key=../../files/f.conf], envs: [../../files/e.env]}]
openapi: {path: ../../schema.json}
transformers: [../../plugins/t.yaml]
generators: [../../plugins/dir]
helmGlobals: {chartHome: ../../charts}
helmCharts: [{name: local, valuesFile: ../../values/local.yaml}]
",
            ),
            ("overlays/prod/extra.yaml", "x"),
            ("base/kustomization.yml", "resources: [deploy.yaml, nested]\nbases: [../common]"),
            ("base/deploy.yaml", "d"),
            ("base/not-listed.yaml", "n"),
            ("base/nested/Kustomization", "resources: [n.yaml]"),
            ("base/nested/n.yaml", "n"),
            ("common/kustomization.yaml", "resources: [c.yaml]"),
            ("common/c.yaml", "c"),
            ("components/tls/kustomization.yaml", "kind: Component\npatchesStrategicMerge: [tls.yaml]"),
            ("components/tls/tls.yaml", "t"),
            ("patches/p.yaml", "p"),
            ("files/f.conf", "f"),
            ("files/e.env", "E=1"),
            ("files/other.conf", "o"),
            ("schema.json", "{}"),
            ("plugins/t.yaml", "kind: PatchTransformer\npath: ../../patches/from-plugin.yaml"),
            ("patches/from-plugin.yaml", "f"),
            ("plugins/dir/kustomization.yaml", "resources: [g.yaml]"),
            ("plugins/dir/g.yaml", "g"),
            ("charts/local/Chart.yaml", "dependencies: [{name: l, repository: 'file://../library'}]"),
            ("charts/local/templates/t.yaml", "t"),
            ("charts/library/Chart.yaml", "name: library"),
            ("charts/other/Chart.yaml", "name: other"),
            ("values/local.yaml", "v: 1"),
        ])
        .unwrap();
    let (_home, repo) = in_place(&git).await;
    let closure = at(&repo, &commit, "overlays/prod").unwrap();
    assert_eq!(
        paths(&closure),
        [
            "base/deploy.yaml",
            "base/kustomization.yml",
            "base/nested/Kustomization",
            "base/nested/n.yaml",
            "charts/library/Chart.yaml",
            "charts/local/Chart.yaml",
            "charts/local/templates/t.yaml",
            "common/c.yaml",
            "common/kustomization.yaml",
            "components/tls/kustomization.yaml",
            "components/tls/tls.yaml",
            "files/e.env",
            "files/f.conf",
            "overlays/prod/extra.yaml",
            "overlays/prod/kustomization.yaml",
            "patches/from-plugin.yaml",
            "patches/p.yaml",
            "plugins/dir/g.yaml",
            "plugins/dir/kustomization.yaml",
            "plugins/t.yaml",
            "schema.json",
            "values/local.yaml",
        ]
    );
    assert_eq!((closure.root.as_str(), closure.folder.as_str()), ("", "overlays/prod"));
    assert_eq!(
        notes(&closure),
        [
            (NoteKind::Missing, "../../gone.yaml"),
            (NoteKind::Remote, "github.com/org/repo//x?ref=v1"),
            (NoteKind::Remote, "https://example.com/crd.yaml"),
        ]
    );

    // Beside what is reached: nothing happens. What is reached, or begins to exist: it does.
    let same = git.push_files([("base/not-listed.yaml", "2"), ("charts/other/Chart.yaml", "2")]).unwrap();
    assert_eq!(at(&repo, &same, "overlays/prod").unwrap().digest, closure.digest);
    let mut last = closure.digest;
    for path in ["common/c.yaml", "patches/from-plugin.yaml", "charts/library/new.yaml", "gone.yaml"] {
        let moved = git.push_files([(path, "changed")]).unwrap();
        let digest = at(&repo, &moved, "overlays/prod").unwrap().digest;
        assert_ne!(digest, last, "{path}");
        last = digest;
    }
}

#[tokio::test]
async fn values_and_extra_files_are_part_of_it() {
    let git = GitRemote::new().unwrap();
    let commit = git
        .push_files([
            ("apps/web/Chart.yaml", "name: web"),
            ("apps/values.yaml", "v"),
            ("shared/all.yaml", "a"),
            ("shared/more/m.txt", "m"),
        ])
        .unwrap();
    let (_home, repo) = in_place(&git).await;
    let plain = ServiceSource::new("apps/web").unwrap();
    let source = plain
        .clone()
        .with_values_files(["../values.yaml", "/shared/all.yaml"])
        .unwrap()
        .with_extra_files(["shared/more"])
        .unwrap();
    let closure = repo.closure(oid(&commit), &source).unwrap();
    assert_eq!(
        paths(&closure),
        ["apps/values.yaml", "apps/web/Chart.yaml", "shared/all.yaml", "shared/more/m.txt"]
    );
    assert_eq!((closure.root.as_str(), closure.folder.as_str()), ("", "apps/web"));

    let missing = plain.clone().with_values_files(["none.yaml"]).unwrap();
    let error = repo.closure(oid(&commit), &missing).unwrap_err();
    assert!(matches!(&error, Error::FileMissing { file, .. } if file == "apps/web/none.yaml"), "{error}");
    for bad in ["../../../etc/passwd", "/../x", "a\\b", "a\0b", "..\\x"] {
        assert!(matches!(plain.clone().with_values_files([bad]), Err(Error::BadInput { .. })), "{bad:?}");
        assert!(matches!(plain.clone().with_extra_files([bad]), Err(Error::BadInput { .. })), "{bad:?}");
    }
    assert!(matches!(ServiceSource::new("../x"), Err(Error::BadInput { .. })));
}

#[tokio::test]
async fn errors_name_the_file_and_leave_other_services_alone() {
    let git = GitRemote::new().unwrap();
    let commit = git
        .commit("main")
        .file("good/a.yaml", "a")
        .file("escape/kustomization.yaml", "resources: [../../outside]")
        .file("absolute/kustomization.yaml", "resources: [/etc/passwd]")
        .file("chart/Chart.yaml", "dependencies: [{name: x, repository: 'file:///etc'}]")
        .symlink("out/link", "../../etc/passwd")
        .symlink("slash/link", "/etc/passwd")
        .symlink("dangling/link", "nowhere")
        .symlink("self/link", "link")
        .symlink("chain/a", "b")
        .symlink("chain/b", "../chain/a")
        .symlink("up/sub/link", "..")
        .symlink("through/a", "../good/a.yaml/x")
        .file("plain-file", "x")
        .file("mixed/kustomization.yaml", "resources: [../out/link]")
        .push()
        .unwrap();
    let (_home, repo) = in_place(&git).await;
    let folders = [
        "good",
        "escape",
        "absolute",
        "chart",
        "out",
        "slash",
        "dangling",
        "self",
        "chain",
        "up",
        "through",
        "plain-file",
        "nowhere",
        "mixed",
    ];
    let sources: Vec<_> = folders.iter().map(|f| ServiceSource::new(f).unwrap()).collect();
    let found = repo.closures(oid(&commit), &sources).unwrap();
    // A second time, from what is remembered.
    for found in [found, repo.closures(oid(&commit), &sources).unwrap()] {
        for (folder, result) in folders.iter().zip(found) {
            let error = match (*folder, result) {
                ("good", result) => {
                    assert_eq!(paths(&result.unwrap()), ["good/a.yaml"]);
                    continue;
                }
                (_, result) => result.expect_err(folder),
            };
            let right = match *folder {
                "escape" | "absolute" | "chart" => {
                    matches!(&error, Error::LeavesRepository { file, .. } if file.starts_with(folder))
                }
                "out" | "mixed" => matches!(&error, Error::Symlink { path, why, .. }
                    if path == "out/link" && why.contains("outside")),
                "slash" => matches!(&error, Error::Symlink { path, why, .. }
                    if path == "slash/link" && why.contains("outside")),
                "dangling" | "through" => {
                    matches!(&error, Error::Symlink { why, .. } if why.contains("not exist"))
                }
                "self" | "chain" | "up" => {
                    matches!(&error, Error::Symlink { why, .. } if why.contains("loops"))
                }
                "plain-file" => matches!(error, Error::NotAFolder { .. }),
                _ => matches!(error, Error::FolderMissing { .. }),
            };
            assert!(right, "{folder}: {error:?}");
            assert!(!error.is_transient(), "{folder}");
        }
    }
}

#[tokio::test]
async fn links_inside_the_repository_become_what_they_point_to() {
    let git = GitRemote::new().unwrap();
    let linked = git
        .commit("main")
        .file("shared/a.yaml", "a")
        .file("shared/dir/b.yaml", "b")
        .symlink("app/a.yaml", "../shared/a.yaml")
        .symlink("app/dir", "../hop")
        .symlink("hop", "shared/dir")
        .symlink("alias", "app")
        .push()
        .unwrap();
    let (_home, repo) = in_place(&git).await;
    let closure = at(&repo, &linked, "app").unwrap();
    assert_eq!(paths(&closure), ["app/a.yaml", "app/dir/b.yaml"]);
    assert_eq!(paths(&at(&repo, &linked, "alias").unwrap()), ["alias/a.yaml", "alias/dir/b.yaml"]);

    // What a link leads to counts; and a copy in its place is the same source.
    let moved = git.push_files([("shared/dir/b.yaml", "B")]).unwrap();
    assert_ne!(at(&repo, &moved, "app").unwrap().digest, closure.digest);
    let copied = git
        .commit("main")
        .file("shared/dir/b.yaml", "b")
        .remove("app/dir")
        .remove("app/a.yaml")
        .file("app/dir/b.yaml", "b")
        .file("app/a.yaml", "a")
        .push()
        .unwrap();
    assert_eq!(at(&repo, &copied, "app").unwrap().digest, closure.digest);
}

#[tokio::test]
async fn submodules_are_left_out_and_said_so() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("app/a.yaml", "a")]).unwrap();
    let commit = git.commit("main").submodule("app/vendor", &commit).push().unwrap();
    let (_home, repo) = in_place(&git).await;
    let closure = at(&repo, &commit, "app").unwrap();
    assert_eq!(paths(&closure), ["app/a.yaml"]);
    assert_eq!(notes(&closure), [(NoteKind::Submodule, "app/vendor")]);
}

#[tokio::test]
async fn names_that_would_mean_something_else_once_unpacked_are_refused() {
    let git = GitRemote::new().unwrap();
    git.push_files([("x", "x")]).unwrap();
    let blob = git.git(["rev-parse", "main:x"]).unwrap();
    let (_home, repo) = in_place(&git).await;
    // git itself would not make these trees; whoever writes objects by hand can.
    for name in ["..", ".", ".git", ".GIT", "a\\b", "a\u{1b}[2J", "\u{7f}"] {
        let mut tree = format!("100644 {name}").into_bytes();
        tree.push(0);
        tree.extend(hex::decode(&blob).unwrap());
        let file = git.root().join("tree");
        std::fs::write(&file, tree).unwrap();
        let tree =
            git.git(["hash-object", "-t", "tree", "-w", "--literally", file.to_str().unwrap()]).unwrap();
        let commit = git.git(["commit-tree", "-m", "x", &tree]).unwrap();
        let error = at(&repo, &commit, "").unwrap_err();
        assert!(matches!(error, Error::BadPath { .. }), "{name:?}: {error:?}");
        assert!(!error.to_string().contains('\u{1b}'), "no escape reaches a terminal: {error:?}");
    }
}

#[tokio::test]
async fn a_kustomization_that_cannot_be_read_is_left_to_whoever_renders_it() {
    let git = GitRemote::new().unwrap();
    let broken =
        git.push_files([("app/kustomization.yaml", "resources: [unclosed"), ("base/a.yaml", "a")]).unwrap();
    let (_home, repo) = in_place(&git).await;
    let before = at(&repo, &broken, "app").unwrap();
    assert_eq!(paths(&before), ["app/kustomization.yaml"]);
    let mended = git.push_files([("app/kustomization.yaml", "resources: [../base/a.yaml]")]).unwrap();
    assert_eq!(paths(&at(&repo, &mended, "app").unwrap()), ["app/kustomization.yaml", "base/a.yaml"]);
}

/// One change to a repository of a few folders that refer to each other.
#[derive(Debug, Clone)]
enum Change {
    Write { file: u8, content: u8 },
    Remove { file: u8 },
    Refer { folder: u8, to: Vec<u8> },
    Link { folder: u8, to: u8 },
}

const FOLDERS: u8 = 4;
const FILES: u8 = 8;

/// A service's closure and artifact, nothing when it has none.
type State = Option<(Arc<Closure>, Vec<u8>)>;

/// The first half is in the services' folders, the second is shared.
fn file_path(file: u8) -> String {
    if file < FOLDERS { format!("svc/{file}/own.yaml") } else { format!("shared/{file}.yaml") }
}

fn reference(to: u8) -> String {
    if to < FOLDERS { format!("../{to}") } else { format!("../../shared/{to}.yaml") }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..FILES, 0..3_u8).prop_map(|(file, content)| Change::Write { file, content }),
        (0..FILES).prop_map(|file| Change::Remove { file }),
        (0..FOLDERS, proptest::collection::vec(0..FILES, 0..4))
            .prop_map(|(folder, to)| Change::Refer { folder, to }),
        (0..FOLDERS, FOLDERS..FILES).prop_map(|(folder, to)| Change::Link { folder, to }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any history: what is remembered gives the same as what is worked out anew; and a source digest moves exactly when
    /// the artifact does.
    #[test]
    fn a_digest_moves_exactly_when_the_artifact_does(history in proptest::collection::vec(change(), 1..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let git = GitRemote::new().unwrap();
            let mut start = git.commit("main");
            for folder in 0..FOLDERS {
                start = start.file(&format!("svc/{folder}/kustomization.yaml"), "resources: [own.yaml]");
            }
            start.push().unwrap();
            let (_warm, repo) = in_place(&git).await;
            let sources: Vec<_> =
                (0..FOLDERS).map(|f| ServiceSource::new(&format!("svc/{f}")).unwrap()).collect();
            let mut before: Option<Vec<State>> = None;
            for change in &history {
                let mut commit = git.commit("main");
                let mut touched = Vec::new();
                match change {
                    Change::Write { file, content } => {
                        touched.push(file_path(*file));
                        commit = commit.file(&file_path(*file), format!("v: {content}"));
                    }
                    Change::Remove { file } => {
                        touched.push(file_path(*file));
                        commit = commit.remove(&file_path(*file));
                    }
                    Change::Refer { folder, to } => {
                        let path = format!("svc/{folder}/kustomization.yaml");
                        let to: Vec<String> = to.iter().map(|t| reference(*t)).collect();
                        commit = commit.file(&path, format!("resources: [{}]", to.join(", ")));
                        touched.push(path);
                    }
                    Change::Link { folder, to } => {
                        let path = format!("svc/{folder}/link.yaml");
                        commit = commit.symlink(&path, &reference(*to));
                        touched.push(path);
                    }
                }
                let commit = commit.push().unwrap();
                let warm = repo.closures(oid(&commit), &sources).unwrap();
                let (_cold, fresh) = in_place(&git).await;
                let cold = fresh.closures(oid(&commit), &sources).unwrap();
                let mut now = Vec::new();
                for (index, (warm, cold)) in warm.into_iter().zip(cold).enumerate() {
                    let closure = match (warm, cold) {
                        (Ok(warm), Ok(cold)) => {
                            assert_eq!(warm, cold, "service {index} after {change:?}");
                            warm
                        }
                        (Err(warm), Err(cold)) => {
                            assert_eq!(warm.to_string(), cold.to_string());
                            now.push(None);
                            continue;
                        }
                        (warm, cold) => panic!("service {index} after {change:?}: {warm:?} but anew {cold:?}"),
                    };
                    let tar = repo.artifact(&closure).unwrap().tar;
                    if let Some(Some((old, old_tar))) = before.as_ref().map(|b| &b[index]) {
                        let same = old.root == closure.root && old.folder == closure.folder && *old_tar == tar;
                        assert_eq!(old.digest == closure.digest, same, "service {index} after {change:?}");
                        let holds = |c: &Closure| touched.iter().any(|t| c.entries.iter().any(|e| e.path == *t));
                        if !holds(old) && !holds(&closure) && !old.entries.iter().any(|e| e.path.ends_with("link.yaml")) {
                            assert!(same, "service {index} moved by {change:?}, which it does not hold");
                        }
                    }
                    now.push(Some((closure, tar)));
                }
                before = Some(now);
            }
        });
    }
}
