//! `plural template`: what the real programs print, the flags of Helm, and folders that are not trusted.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use plural_testkit::{corpus_or_report, run_case};
use serde_json::Value;

use crate::program::{Done, Home};

/// Every so many cases of the corpus: each is a process of its own.
const STEP: usize = 23;

async fn template(home: &Home, arguments: &[&str]) -> anyhow::Result<Done> {
    home.run(&[&["template"], arguments].concat()).await
}

fn write(home: &Home, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn expected(folder: &Path, name: &str) -> String {
    let bytes = fs::read(folder.join(name)).unwrap();
    if !name.ends_with(".gz") {
        return String::from_utf8(bytes).unwrap();
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn charts_of_the_corpus_print_the_expected_bytes() {
    let Some(root) = corpus_or_report("helm-corpus") else { return };
    run_case(async {
        let home = Home::new()?;
        let mut folders: Vec<PathBuf> = fs::read_dir(root.join("cases"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<anyhow::Result<_>>()?;
        folders.sort();
        let mut compared = 0;
        for folder in folders.iter().step_by(STEP) {
            let case: Value = serde_json::from_slice(&fs::read(folder.join("case.json"))?)?;
            if case["nondeterministic"] == true {
                continue;
            }
            let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
            let mut arguments = vec![
                "helm".to_owned(),
                text("release"),
                root.join(text("chart_archive")).display().to_string(),
                "--namespace".to_owned(),
                text("namespace"),
                "--kube-version".to_owned(),
                text("kube_version"),
                "-f".to_owned(),
                folder.join("values.yaml").display().to_string(),
            ];
            for api in case["api_versions"].as_array().into_iter().flatten() {
                arguments.extend(["--api-versions".to_owned(), api.as_str().unwrap_or_default().to_owned()]);
            }
            for (key, flag) in
                [("include_crds", "--include-crds"), ("skip_schema_validation", "--skip-schema-validation")]
            {
                arguments.extend((case[key] == true).then(|| flag.to_owned()));
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let done = template(&home, &arguments).await?;
            let name = text("id");
            match case["expected"].as_str().filter(|_| case["expect_error"].is_null()) {
                Some(file) => {
                    assert_eq!(done.code, Some(0), "{name}: {}", done.err);
                    assert!(done.out == expected(folder, file), "{name}: the output differs");
                }
                None => assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{name}"),
            }
            compared += 1;
        }
        assert!(compared > 10, "{compared}");
        anyhow::Ok(())
    });
}

#[test]
fn the_flags_of_helm_are_there() {
    run_case(async {
        let home = Home::new()?;
        write(
            &home,
            &[
                ("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
                ("web/values.yaml", "a: 1\n"),
                (
                    "web/templates/a.yaml",
                    "kind: A\nname: {{ .Release.Name }}\nnamespace: {{ .Release.Namespace }}\nvalues: {{ .Values | toJson }}\nkube: {{ .Capabilities.KubeVersion }}\nhas: {{ .Capabilities.APIVersions.Has \"x/v1\" }}\n",
                ),
                (
                    "web/templates/hook.yaml",
                    "kind: H\nmetadata:\n  annotations: {helm.sh/hook: pre-install}\n",
                ),
                ("web/templates/test.yaml", "kind: T\nmetadata:\n  annotations: {helm.sh/hook: test}\n"),
                ("web/crds/c.yaml", "kind: C\n"),
                ("values.yaml", "b: file\n"),
                ("text.txt", "content"),
            ],
        );
        let done = template(
            &home,
            &[
                "helm",
                "demo",
                "web",
                "-f",
                "values.yaml",
                "--set",
                "c=1",
                "--set-string",
                "d=1",
                "--set-json",
                "e=[1]",
                "--set-literal",
                "f=a,b",
                "--set-file",
                "g=text.txt",
                "-n",
                "apps",
                "--kube-version",
                "1.31.2",
                "-a",
                "x/v1",
                "--include-crds",
            ],
        )
        .await?;
        assert_eq!(done.code, Some(0), "{}", done.err);
        for part in [
            "name: demo\nnamespace: apps\n",
            "{\"a\":1,\"b\":\"file\",\"c\":1,\"d\":\"1\",\"e\":[1],\"f\":\"a,b\",\"g\":\"content\"}",
            "kube: v1.31.2\nhas: true",
            "kind: C",
            "kind: H",
            "kind: T",
        ] {
            assert!(done.out.contains(part), "{part}\n{}", done.out);
        }
        let kinds = async |more: &[&str]| {
            let done = template(&home, &[&["helm", "web"], more].concat()).await.unwrap();
            assert_eq!(done.code, Some(0), "{}", done.err);
            let kinds: String = done.out.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
            kinds
        };
        assert_eq!(kinds(&["--no-hooks"]).await, "A");
        assert_eq!(kinds(&["--skip-tests"]).await, "AH");
        assert_eq!(kinds(&["--show-only", "templates/hook.yaml"]).await, "H");
        assert_eq!(kinds(&["--release-name", "--no-hooks"]).await, "A");
        for (flag, words) in [
            (["--post-renderer", "x"].as_slice(), "no program is run"),
            (&["--dependency-update"], "nothing is fetched"),
            (&["--validate"], "no cluster is asked"),
        ] {
            let done = template(&home, &[&["helm", "web"], flag].concat()).await?;
            assert_eq!(done.code, Some(1));
            assert!(done.err.contains(words), "{}", done.err);
        }
        anyhow::Ok(())
    });
}

#[test]
fn a_folder_of_manifests_is_rendered_with_what_a_service_would_give() {
    run_case(async {
        let home = Home::new()?;
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {v: \"VALUE\"}\n";
        let file = |name: &str, value: &str| map.replace("NAME", name).replace("VALUE", value);
        write(
            &home,
            &[
                ("app/a.yaml", &file("a", "plain")),
                (
                    "app/b.yaml.liquid",
                    &file("b", "{{ configuration.host }} {{ cluster.tags.tier }} {{ service.namespace }}"),
                ),
                (
                    "app/sub/c.yaml.tpl",
                    &file(
                        "c",
                        "{{ .Configuration.port }} {{ .Cluster.metadata.region }} {{ .Service.Name }}",
                    ),
                ),
                ("conf.yaml", "host: from-file\nport: 8080\n"),
                ("meta.yaml", "region: eu\n"),
            ],
        );
        let done = template(
            &home,
            &[
                "raw",
                "app",
                "-f",
                "conf.yaml",
                "--set",
                "host=web.example.com",
                "--tag",
                "tier=prod",
                "--metadata",
                "meta.yaml",
                "-n",
                "apps",
            ],
        )
        .await?;
        assert_eq!(done.code, Some(0), "{}", done.err);
        for part in ["# Source: a.yaml\n", "v: plain", "v: web.example.com prod apps", "v: 8080 eu app"] {
            assert!(done.out.contains(part), "{part}\n{}", done.out);
        }
        let done = template(&home, &["raw", "app", "--no-templates"]).await?;
        assert!(done.out.contains("{{ configuration.host }}"), "{} {}", done.out, done.err);
        write(&home, &[("bad/a.yaml", "a: [1\n"), ("bad/b.yaml.liquid", "{{ x | nosuch }}")]);
        let done = template(&home, &["raw", "bad"]).await?;
        assert_eq!(done.code, Some(1));
        assert!(done.err.contains("a.yaml:") && done.err.contains("nosuch"), "{}", done.err);
        write(
            &home,
            &[
                ("over/kustomization.yaml", "resources: [a.yaml]\n"),
                (
                    "over/a.yaml",
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${NAME:-web}\ndata:\n  v: ${host} $${host}\n",
                ),
            ],
        );
        let done = template(&home, &["kustomize", "over", "--envsubst", "--set", "host=h"]).await?;
        assert!(
            done.out.contains("name: web") && done.out.contains("v: h ${host}"),
            "{} {}",
            done.out,
            done.err
        );
        anyhow::Ok(())
    });
}

/// As far as `kustomize build` reaches: without a repository there is no other border than the links that leave the folder.
#[test]
fn a_kustomization_outside_of_git_reaches_its_bases() {
    run_case(async {
        let home = Home::new()?;
        write(
            &home,
            &[
                ("base/kustomization.yaml", "resources: [a.yaml]\n"),
                ("base/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
                ("apps/over/kustomization.yaml", "namePrefix: my-\nresources: [../../base]\n"),
            ],
        );
        let done = template(&home, &["kustomize", "apps/over"]).await?;
        assert_eq!((done.code, done.out.contains("name: my-a")), (Some(0), true), "{done:?}");
        // A link is followed to a base, however it is written, and to no file elsewhere.
        fs::create_dir_all(home.path().join("links"))?;
        symlink(home.path().join("base"), home.path().join("links/base"))?;
        symlink("../base/a.yaml", home.path().join("links/a.yaml"))?;
        for (resource, code) in [("base", 0), ("a.yaml", 1), ("../base/a.yaml", 1)] {
            write(&home, &[("links/kustomization.yaml", &format!("resources: [{resource}]\n"))]);
            let done = template(&home, &["kustomize", "links"]).await?;
            assert_eq!(done.code, Some(code), "{resource} {done:?}");
            assert_eq!(done.out.contains("name: a"), code == 0, "{resource} {done:?}");
            assert_eq!(done.err.contains("is not in or below"), code == 1, "{resource} {done:?}");
        }
        // In a repository it ends at the repository.
        fs::create_dir(home.path().join("apps/.git"))?;
        fs::write(home.path().join("apps/.git/HEAD"), "ref: refs/heads/main\n")?;
        let done = template(&home, &["kustomize", "apps/over"]).await?;
        assert_eq!(done.code, Some(1), "{done:?}");
        anyhow::Ok(())
    });
}

/// A pull request's content on a machine of CI: nothing of the machine comes out, and nothing runs.
#[test]
fn attack_1_and_5_a_hostile_folder_shows_nothing_of_the_machine() {
    run_case(async {
        let home = Home::new()?;
        let secret = "canary-77c1";
        write(
            &home,
            &[
                ("secret.txt", secret),
                ("repo/.git/HEAD", "ref: refs/heads/main\n"),
                ("repo/chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
                (
                    "repo/chart/templates/t.yaml",
                    "a: {{ .Files.Get \"link.txt\" | quote }}{{ .Files.Get \"../secret.txt\" }}\n",
                ),
                ("repo/env/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
                ("repo/env/templates/t.yaml", "a: {{ expandenv \"$CANARY\" }}\n"),
                ("repo/over/kustomization.yaml", "resources: [link.yaml]\n"),
                ("repo/up/kustomization.yaml", "resources: [../../secret.txt]\n"),
                ("repo/gen/kustomization.yaml", "configMapGenerator:\n- {name: a, files: [link.yaml]}\n"),
                (
                    "repo/charts/kustomization.yaml",
                    "helmGlobals: {chartHome: ../..}\nhelmCharts:\n- {name: outside}\n",
                ),
                ("outside/Chart.yaml", "apiVersion: v2\nname: outside\nversion: 1.0.0\n"),
                ("outside/templates/t.yaml", secret),
                ("repo/raw/a.yaml.liquid", "a: {{ 'CANARY' | env }}\n"),
            ],
        );
        for link in ["chart/link.txt", "over/link.yaml", "gen/link.yaml"] {
            symlink("../../secret.txt", home.path().join("repo").join(link))?;
        }
        for arguments in [
            ["helm", "repo/chart"],
            ["helm", "repo/env"],
            ["kustomize", "repo/over"],
            ["kustomize", "repo/up"],
            ["kustomize", "repo/gen"],
            ["kustomize", "repo/charts"],
            ["raw", "repo/raw"],
        ] {
            let mut command = home.plural(&[&["template"], arguments.as_slice()].concat());
            command.env("CANARY", secret);
            let done = crate::program::finish(command).await?;
            assert!(!done.out.contains(secret) && !done.err.contains(secret), "{arguments:?} {done:?}");
            let fine = done.code == Some(1) || arguments[1] == "repo/chart";
            assert!(fine, "{arguments:?} {done:?}");
        }
        anyhow::Ok(())
    });
}
