//! Hostile sources through console, agent and cluster, by the numbers of docs/security.md: the service says what is wrong,
//! nothing of the machine reaches the cluster, and the others go on.
//!
//! One backend is enough: what is hostile ends in the console and in the agent; that nothing reaches the cluster is
//! read from its books.

use std::fmt::Write as _;

use plural_testkit::{TestCluster, run_case};
use plural_wire::{DetachServiceDeployment, ServiceDeploymentAttributes};

use crate::world::{World, attributes, map};

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";

async fn world() -> anyhow::Result<World> {
    World::new(TestCluster::kubesim().await?).await
}

/// Deploys each folder and waits until it fails with the words; then a good one still arrives.
async fn all_fail(w: &World, bad: &[(&str, &[&str])]) -> anyhow::Result<()> {
    let mut services = Vec::new();
    for (folder, words) in bad {
        services.push((w.service(folder).await?, words));
    }
    for (id, words) in services {
        w.person.fails_with(&id, words).await;
    }
    let sha = w.remote.push_files([("good/a.yaml", map("good", "1"))])?;
    let good = w.service("good").await?;
    w.person.stands_at(&good, &sha).await;
    assert_eq!(w.map_names().await?, ["good"], "nothing of the others arrived");
    Ok(())
}

/// Refused when it is given; or the service fails, and is taken away for the next.
async fn refused_or_failed(w: &World, attributes: ServiceDeploymentAttributes) {
    let shown = format!("{attributes:?}");
    let Ok(id) = w.person.service_of(&w.registered, attributes).await else { return };
    let told = w.person.fails_with(&id, &[]).await;
    assert!(!told.is_empty(), "{shown}");
    w.person.client.send(&DetachServiceDeployment { id }).await.unwrap();
}

#[test]
fn attack_1_links_out_of_the_repository_are_refused() {
    run_case(async {
        let w = world().await?;
        let database = w.folder.path().join("console").display().to_string();
        w.remote
            .commit("main")
            .symlink("absolute/a.yaml", "/etc/passwd")
            .symlink("up/a.yaml", "../../../../../../../../etc/passwd")
            .symlink("chain/a.yaml", "b.yaml")
            .symlink("chain/b.yaml", "/etc/passwd")
            .symlink("tenant/a.yaml", &database)
            .symlink("dangling/a.yaml", "nowhere.yaml")
            .symlink("loop/a.yaml", "a.yaml")
            .file("chart/Chart.yaml", CHART)
            .file("chart/templates/t.yaml", "a: {{ .Files.Get \"files/passwd\" }}\n")
            .symlink("chart/files/passwd", "/etc/passwd")
            .file("overlay/kustomization.yaml", "resources: [linked.yaml]\n")
            .symlink("overlay/linked.yaml", "/etc/passwd")
            .symlink("folder", "/etc")
            .push()?;
        let bad: [(&str, &[&str]); 9] = [
            ("absolute", &["absolute/a.yaml", "outside"]),
            ("up", &["up/a.yaml", "outside"]),
            ("chain", &["chain/", "outside"]),
            ("tenant", &["tenant/a.yaml", "outside"]),
            ("dangling", &["dangling/a.yaml", "not exist"]),
            ("loop", &["loop/a.yaml", "loops"]),
            ("chart", &["chart/files/passwd", "outside"]),
            ("overlay", &["overlay/linked.yaml", "outside"]),
            ("folder", &["folder", "outside"]),
        ];
        all_fail(&w, &bad).await?;
        w.end().await
    });
}

#[test]
fn attack_2_paths_out_of_the_repository_are_refused() {
    run_case(async {
        let w = world().await?;
        w.remote.push_files([
            ("up/kustomization.yaml", "resources: [../../etc/passwd]\n"),
            ("absolute/kustomization.yaml", "resources: [/etc/passwd]\n"),
            ("name/Chart.yaml", "apiVersion: v2\nname: ..\nversion: 1.0.0\n"),
            ("Case/a.yaml", "a: 1\n"),
        ])?;
        for folder in ["../x", "a/../../x", "a\\b", "a\0b", "a\nb"] {
            let attributes = attributes("odd", &w.namespace, &w.repository, "main", folder);
            refused_or_failed(&w, attributes).await;
        }
        all_fail(
            &w,
            &[
                ("up", &["../../etc/passwd"]),
                ("absolute", &["/etc/passwd"]),
                ("name", &["chart.metadata.name"]),
                ("case", &["case", "does not exist"]),
                ("etc", &["etc", "does not exist"]),
            ],
        )
        .await?;
        w.end().await
    });
}

#[test]
fn attack_3_addresses_are_refused_when_they_are_given() {
    run_case(async {
        let w = world().await?;
        for url in [
            "-oProxyCommand=touch x",
            "--upload-pack=touch x",
            "ext::sh -c id",
            "https://example.com/a\nb",
            "git://example.com/x",
            "ssh://-oProxyCommand=x/y",
            "",
        ] {
            let Ok(repository) = w.person.repository(url).await else { continue };
            let attributes = attributes("odd", &w.namespace, &repository, "main", "good");
            refused_or_failed(&w, attributes).await;
        }
        for reference in ["-x", "--upload-pack=x", "a\nb", "a..b"] {
            let attributes = attributes("odd", &w.namespace, &w.repository, reference, "good");
            refused_or_failed(&w, attributes).await;
        }
        w.end().await
    });
}

#[test]
fn attacks_4_to_9_end_in_an_error_of_their_service() {
    run_case(async {
        let w = world().await?;
        let deep = "[".repeat(1_000_000);
        let mut aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..10 {
            let _ = writeln!(aliases, "a{n}: &a{n} [{}]", vec![format!("*a{}", n - 1); 10].join(", "));
        }
        let exec = "apiVersion: example.com/v1\nkind: X\nmetadata:\n  name: x\n  annotations:\n    \
                    config.kubernetes.io/function: |\n      exec: {path: /bin/true}\n";
        w.remote.push_files([
            ("four/kustomization.yaml", "generators: [exec.yaml]\n"),
            ("four/exec.yaml", exec),
            ("remote/kustomization.yaml", "resources: ['https://169.254.169.254/x?ref=main']\n"),
            ("five/Chart.yaml", CHART),
            ("five/templates/t.yaml", "a: {{ range 9000000000000 }}{{ end }}\n"),
            ("sight/Chart.yaml", CHART),
            ("sight/templates/t.yaml", "a: {{ env \"PATH\" }}\n"),
            ("seven/a.yaml", deep.as_str()),
            ("alias/a.yaml", aliases.as_str()),
            ("eight/Chart.yaml", CHART),
            ("eight/values.schema.json", "{\"$ref\": \"file:///dev/zero\"}"),
            ("nine/Chart.yaml", "dependencies: [null]\n"),
            ("nine/values.yaml", "null"),
        ])?;
        // A bomb of a chart inside a chart: zeros, a thousand times smaller when they are packed.
        let zeros = vec![0; 4 << 20];
        let mut tar =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best()));
        for (path, content) in std::iter::once(("sub/Chart.yaml".to_owned(), CHART.as_bytes().to_vec()))
            .chain((0..10).map(|n| (format!("sub/files/{n}"), zeros.clone())))
        {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, content.as_slice())?;
        }
        let bomb = tar.into_inner()?.finish()?;
        w.remote
            .commit("main")
            .file("six/Chart.yaml", CHART)
            .file("six/charts/sub-1.0.0.tgz", bomb)
            .push()?;
        all_fail(
            &w,
            &[
                ("four", &["kustomization.yaml"]),
                ("remote", &["is remote and a build fetches nothing"]),
                ("five", &["limit of fuel"]),
                ("sight", &["function \"env\" not defined"]),
                ("six", &["limit of ratio"]),
                ("seven", &["seven/a.yaml", "max depth"]),
                ("alias", &["alias/a.yaml", "excessive aliasing"]),
                ("eight", &["which is not part of it"]),
                ("nine", &["must not contain empty or null nodes"]),
            ],
        )
        .await?;
        w.end().await
    });
}
