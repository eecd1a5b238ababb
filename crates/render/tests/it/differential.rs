//! Templates, values and overlays that chance writes, rendered by ours and by the original's own packages.
//!
//! The programs are `peer-helm` and `peer-kustomize`, which `cargo xtask test` builds. `PLURAL_DIFFERENTIAL_SEED` and
//! `PLURAL_DIFFERENTIAL_COUNT` ask for other cases and more.

mod filters;
mod overlays;
mod templates;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use plural_render::{
    Tree,
    helm::{ArchiveLimits, Capabilities, Chart, Limits, RenderOptions, render},
    kustomize,
};
use plural_testkit::{note_compared, program_or_report};
use serde_json::{Map, Value, json};

/// Chance that is the same for the same seed.
struct Chance(u64);

impl Chance {
    fn new(seed: u64, case: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ case.wrapping_mul(0xD1B5_4A32_D192_ED03) ^ 1)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// True once in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// A program that answers one line for one line.
struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    fn start(name: &str) -> Option<Self> {
        let program = program_or_report(name)?;
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, stdin, stdout })
    }

    /// What it prints, or why it fails.
    fn ask(&mut self, request: &Value) -> Result<String, String> {
        writeln!(self.stdin.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["text"].as_str().unwrap_or_default().to_owned()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// A folder of the test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plural-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn fill(&self, files: &[(String, String)]) -> &Path {
        let _ = fs::remove_dir_all(&self.0);
        for (path, content) in files {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs cases and says which differ. Both may fail: then the words may differ.
fn compare(
    peer: &str,
    count: u64,
    mut make: impl FnMut(&mut Chance) -> Vec<(String, String)>,
    mut theirs: impl FnMut(&mut Peer, &Path) -> Result<String, String>,
    mut ours: impl FnMut(&[(String, String)]) -> Result<String, String>,
) {
    let Some(mut running) = Peer::start(peer) else { return };
    let folder = Folder::new(peer);
    let seed = number("PLURAL_DIFFERENTIAL_SEED", 1);
    let count = number("PLURAL_DIFFERENTIAL_COUNT", count);
    let (mut rendered, mut problems) = (0_u64, Vec::new());
    let mut case = 0;
    // That both fail is agreement of little worth: half as many cases as are asked for have to render.
    while case < count || (rendered * 2 < count && case < count * 10) {
        let files = make(&mut Chance::new(seed, case));
        let wanted = theirs(&mut running, folder.fill(&files));
        let got = ours(&files);
        rendered += u64::from(wanted.is_ok());
        let same = match (&wanted, &got) {
            (Ok(wanted), Ok(got)) => wanted == got,
            (Err(_), Err(_)) => true,
            _ => false,
        };
        if !same {
            let shown: Vec<String> =
                files.iter().map(|(path, content)| format!("--- {path}\n{content}")).collect();
            problems.push(format!("case {case}:\n{}\nwanted {wanted:?}\ngot    {got:?}", shown.join("\n")));
        }
        case += 1;
    }
    println!("{peer}: {case} cases of seed {seed}, {rendered} of them render, {} differ", problems.len());
    let total = usize::try_from(case).unwrap();
    note_compared(&format!("random cases of {peer}"), total - problems.len(), total);
    let shown: Vec<&str> = problems.iter().take(10).map(String::as_str).collect();
    assert!(problems.is_empty(), "{} differ:\n{}", problems.len(), shown.join("\n\n"));
    assert!(rendered * 2 >= count, "only {rendered} of {case} cases render, so little is compared");
}

#[test]
fn templates_render_as_in_helm() {
    compare(
        "peer-helm",
        400,
        templates::chart,
        |peer, chart| {
            peer.ask(&json!({
                "chart": chart, "values": chart.join("user.yaml"), "release": "demo", "namespace": "apps",
                "kube_version": "1.33.0", "rounds": 0,
            }))
        },
        |files| {
            let tree = Tree::from_files(files.iter().map(|(path, content)| (path, content))).unwrap();
            let chart =
                Chart::from_tree(&tree, "", &ArchiveLimits::default()).map_err(|error| error.to_string())?;
            let user = files.iter().find(|(path, _)| path == "user.yaml").unwrap();
            let values = match plural_render::yaml::parse(user.1.as_bytes()) {
                Ok(Value::Object(values)) => values,
                _ => Map::new(),
            };
            let capabilities = Capabilities::new("1.33.0", &[]).unwrap();
            let options = RenderOptions {
                release: "demo",
                namespace: "apps",
                values: &values,
                capabilities: &capabilities,
                include_crds: false,
                skip_schema: false,
                is_upgrade: false,
                seed: b"differential",
                clock_ms: 0,
                lookup: None,
                limits: Limits::default(),
            };
            render(&chart, &options).map(|release| release.to_text()).map_err(|error| error.to_string())
        },
    );
}

#[test]
fn overlays_build_as_in_kustomize() {
    compare(
        "peer-kustomize",
        150,
        overlays::tree,
        |peer, root| peer.ask(&json!({"path": root.join("overlay"), "rounds": 0})),
        |files| {
            let tree = Tree::from_files(files.iter().map(|(path, content)| (path, content))).unwrap();
            // The peer is built without a version stamp.
            let options = kustomize::Options { program_version: "(devel)", ..kustomize::Options::default() };
            kustomize::build(&tree, "overlay", &options)
                .map(|built| built.yaml)
                .map_err(|error| error.to_string())
        },
    );
}
