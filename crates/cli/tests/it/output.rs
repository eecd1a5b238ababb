//! How lists are printed, sorted, and filled into templates.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789a";

fn service(at: usize, name: &str, status: &str, ready: &str, reason: Option<&str>) -> Value {
    json!({"id": format!("{ID}{at}"), "name": name, "namespace": "shop", "status": status,
        "componentStatus": ready, "sha": "5f3c1d0e9a7b6c5d", "protect": false, "deletedAt": null,
        "git": {"ref": "main", "folder": "web"},
        "reason": reason.map(|message| json!({"kind": "ERROR", "message": message, "terminal": false})),
        "cluster": {"id": format!("{ID}0"), "name": "Blue", "handle": "blue"}})
}

fn page(nodes: &[Value]) -> Value {
    let edges: Vec<Value> = nodes.iter().map(|node| json!({"node": node})).collect();
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges})
}

async fn fleet() -> Server {
    let long =
        "the folder apps/shop of https://git.example.com/shop.git has no kustomization, chart or manifest";
    let services = [
        service(1, "web-10", "HEALTHY", "2 / 2", None),
        service(2, "web-9", "FAILED", "0 / 2", Some(long)),
        service(3, "db", "STALE", "1 / 2", Some("waits for a volume")),
    ];
    Server::start().await.data("ListServiceDeployments", "serviceDeployments", &page(&services))
}

#[tokio::test]
async fn lists_are_sorted_by_columns_and_fields() {
    let server = fleet().await;
    let person = Person::of(&server.url);
    for (by, order) in [
        ("service", ["db", "web-9", "web-10"]),
        ("READY", ["web-9", "db", "web-10"]),
        (".name", ["db", "web-9", "web-10"]),
        ("{.reason.message}", ["web-9", "db", "web-10"]),
    ] {
        let names = person.run(&format!("cd services list -o name --sort-by {by}")).await;
        let expected: Vec<String> = order.map(|name| format!("service/blue/{name}")).to_vec();
        assert_eq!(names.out.lines().collect::<Vec<_>>(), expected, "{by}: {}", names.err);
        let json = person.run(&format!("cd services list -o json --sort-by {by}")).await.out;
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()[0]["name"], order[0], "{by}");
    }
    let done = person.run("cd services list --sort-by colour").await;
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    assert!(
        done.err.starts_with("error: there is no column \"colour\"; the columns are SERVICE, READY, STATUS"),
        "{}",
        done.err
    );
    let done = person.run("cd services list --sort-by .colour").await;
    assert_eq!(done.code, 2);
    assert!(
        done.err.contains("nothing in the list has the field .colour\nhint: its fields are ."),
        "{}",
        done.err
    );
    let done = person.run("cd services list --sort-by .colour[").await;
    assert_eq!(done.code, 2);
    assert!(done.err.contains("in the path, expected"), "{}", done.err);
}

#[tokio::test]
async fn headings_can_be_left_out() {
    let server = fleet().await;
    let person = Person::of(&server.url);
    let with = person.run("cd services list").await.out;
    let without = person.run("cd services list --no-headers").await.out;
    assert!(with.starts_with("SERVICE"), "{with}");
    assert_eq!(without.lines().count(), 3);
    assert!(without.starts_with("blue/web-10   2/2   HEALTHY   "), "{without}");
    // Nothing is nothing, and the talk about it is no data.
    let server = Server::start().await.data("ListServiceDeployments", "serviceDeployments", &page(&[]));
    let done = Person::of(&server.url).run("cd services list --no-headers").await;
    assert_eq!((done.code, done.out.as_str()), (0, ""));
}

#[tokio::test]
async fn templates_print_what_kubectl_prints() {
    let server = fleet()
        .await
        .data("GetServiceDeployment", "serviceDeployment", &service(1, "web", "HEALTHY", "2 / 2", None))
        .data("GetServiceFacts", "serviceDeployment", &json!({}));
    let person = Person::of(&server.url);
    for (format, text) in [
        ("jsonpath={.items[*].name}", "web-10 web-9 db"),
        (
            "jsonpath={range.items[*]}{.name}{\"\\t\"}{.status}{\"\\n\"}{end}",
            "web-10\tHEALTHY\nweb-9\tFAILED\ndb\tSTALE\n",
        ),
        ("jsonpath={.items[?(@.status==\"FAILED\")].name}", "web-9"),
        ("jsonpath={..handle}", "blue blue blue"),
        (
            "custom-columns=NAME:.name,REF:.git.ref,WHY:.reason.kind",
            "NAME     REF    WHY\nweb-10   main   <none>\nweb-9    main   ERROR\ndb       main   ERROR\n",
        ),
    ] {
        let done = person.run(&format!("cd services list -o {format}")).await;
        assert_eq!((done.code, done.out.as_str()), (0, text), "{format}: {}", done.err);
    }
    let done =
        person.run("cd services list --no-headers -o custom-columns=A:.name,B:.none --sort-by .name").await;
    assert_eq!(done.out, "db       <none>\nweb-9    <none>\nweb-10   <none>\n");
    // One thing is itself.
    let done = person.run("cd services get blue/web -o jsonpath={.name}/{.git.ref}").await;
    assert_eq!((done.code, done.out.as_str()), (0, "web/main"), "{}", done.err);
}

#[tokio::test]
async fn a_bad_template_is_told_before_anything_is_asked() {
    let server = Server::start().await;
    let person = Person::of(&server.url);
    for (format, part) in [
        ("jsonpath={.items[*}", "in the template, expected , or ] at position 10"),
        ("jsonpath={range.items[*]}{.name}", "the range has no {end} at position 1"),
        ("custom-columns=NAME", "has not the form NAME:.path"),
        ("xml", "the formats are table, wide, json, yaml, name, jsonpath=, custom-columns="),
    ] {
        let done = person.run(&format!("cd services list -o {format}")).await;
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{format}");
        assert!(done.err.contains(part), "{format}: {}", done.err);
    }
    let server = fleet().await;
    let done = Person::of(&server.url).run("cd services list -o jsonpath={.items[7].name}").await;
    assert_eq!((done.code, done.out.as_str()), (1, ""));
    assert!(done.err.contains("array index out of bounds: index 7, length 3"), "{}", done.err);
}

#[tokio::test]
async fn a_terminal_has_colours_and_a_width_and_nothing_else_has() {
    let server = fleet().await;
    let person = || Person::of(&server.url).with("TERM", "xterm").with("COLUMNS", "100");
    let shown = person().run("cd services list").await.out;
    for part in [
        "\u{1b}[32mHEALTHY\u{1b}[0m",
        "\u{1b}[31mFAILED\u{1b}[0m",
        "\u{1b}[33mSTALE\u{1b}[0m",
        "\u{1b}[33m1/2",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    assert!(shown.contains('…'), "{shown}");
    let plain = person().with("NO_COLOR", "1").run("cd services list").await.out;
    assert!(!plain.contains('\u{1b}'), "{plain}");
    assert!(plain.lines().all(|line| line.chars().count() <= 100), "{plain}");
    for (name, value) in [("CLICOLOR", "0"), ("TERM", "dumb")] {
        assert_eq!(person().with(name, value).run("cd services list").await.out, plain, "{name}");
    }
    for line in ["cd services list", "cd services list -o wide"] {
        let file = person().into_a_file().run(line).await.out;
        assert!(!file.contains('\u{1b}'), "{file}");
        // Cells end at 72 characters everywhere; nothing else is cut.
        assert!(file.lines().any(|line| line.chars().count() > 100), "{file}");
    }
}

#[tokio::test]
async fn what_others_write_has_no_colours() {
    let hostile = service(1, "web\u{1b}[31m", "HEALTHY", "2 / 2", Some("\u{1b}]0;title\u{7}"));
    let server =
        Server::start().await.data("ListServiceDeployments", "serviceDeployments", &page(&[hostile]));
    let person = Person::of(&server.url).with("TERM", "xterm");
    for format in ["table", "wide", "name", "custom-columns=NAME:.name,STATUS:.name,WHY:.reason.message"] {
        let done = person.run(&format!("cd services list -o {format}")).await;
        let ours = done.out.replace("\u{1b}[32m", "").replace("\u{1b}[0m", "");
        assert!(!ours.contains('\u{1b}') && !ours.contains('\u{7}'), "{format}: {ours:?}");
    }
}

fn cluster(at: usize, handle: &str, tags: &[(&str, &str)]) -> Value {
    let tags: Vec<Value> = tags.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({"id": format!("{ID}{at}"), "name": handle, "handle": handle, "tags": tags})
}

#[tokio::test]
async fn clusters_are_selected_by_tags() {
    let clusters = [
        cluster(0, "blue", &[("stage", "prod"), ("region", "eu")]),
        cluster(1, "green", &[("stage", "dev")]),
        cluster(2, "red", &[]),
    ];
    let server = Server::start().await.data("ListClusters", "clusters", &page(&clusters));
    let person = Person::of(&server.url);
    for (selector, names) in [
        ("stage=prod", "cluster/blue\n"),
        ("stage in (prod, dev)", "cluster/blue\ncluster/green\n"),
        ("stage!=prod", "cluster/green\ncluster/red\n"),
        ("!stage", "cluster/red\n"),
        ("stage,region notin (us)", "cluster/blue\ncluster/green\n"),
        ("stage=none", ""),
    ] {
        for noun in [&["cd", "clusters", "list"][..], &["get", "clusters"]] {
            let done = person
                .run_words(&[noun, &["-l", selector, "--sort-by", "handle", "--no-headers"]].concat())
                .await;
            let mut shown = String::new();
            for line in done.out.lines() {
                shown += "cluster/";
                shown += line.split(' ').next().unwrap();
                shown += "\n";
            }
            assert_eq!((done.code, shown.as_str()), (0, names), "{selector}: {}", done.err);
        }
    }
    // What the console can look for, it is asked for.
    let asked = server.asked("ListClusters");
    let query = json!({"op": "AND", "tags": [{"name": "stage", "value": "prod"}]});
    assert_eq!(asked[0]["tagQuery"], query);
    assert_eq!(asked[2]["tagQuery"], Value::Null);
    let done = person.run("cd clusters list --tag a=b -l stage=prod -o name").await;
    assert_eq!(done.out, "cluster/blue\n");
    let both = json!([{"name": "a", "value": "b"}, {"name": "stage", "value": "prod"}]);
    assert_eq!(server.asked("ListClusters").last().unwrap()["tagQuery"]["tags"], both);

    let done = person.run("cd clusters list -l stage=none").await;
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "", "no cluster fits\n"));
    let done = person.run("cd clusters list -l stage>prod").await;
    assert_eq!(done.code, 2);
    assert!(done.err.contains("\"stage>prod\" is none of TAG=VALUE, TAG!=VALUE"), "{}", done.err);
    let done = person.run("get repositories -l stage=prod").await;
    assert_eq!(done.code, 2);
    assert!(done.err.contains("gitrepositories have no tags that -l could look at"), "{}", done.err);
}

#[tokio::test]
async fn services_are_selected_by_the_tags_of_their_clusters() {
    let mut elsewhere = service(4, "api", "HEALTHY", "1 / 1", None);
    elsewhere["cluster"] = json!({"id": format!("{ID}9"), "name": "Green", "handle": "green"});
    let mut hidden = service(5, "hidden", "HEALTHY", "1 / 1", None);
    hidden["cluster"] = Value::Null;
    let services = [service(1, "web", "HEALTHY", "2 / 2", None), elsewhere, hidden];
    let clusters = [cluster(0, "blue", &[("stage", "prod")]), cluster(9, "green", &[("stage", "dev")])];
    let server = Server::start()
        .await
        .data("ListServiceDeployments", "serviceDeployments", &page(&services))
        .data("ListClusters", "clusters", &page(&clusters));
    let person = Person::of(&server.url);
    for (selector, names) in [
        ("stage=prod", "service/blue/web\n"),
        ("stage!=prod", "service/green/api\n"),
        ("stage", "service/blue/web\nservice/green/api\n"),
    ] {
        let done = person.run(&format!("cd services list -l {selector} -o name")).await;
        assert_eq!((done.code, done.out.as_str()), (0, names), "{selector}: {}", done.err);
    }
    let done = person.run("get svc -l stage=prod --no-headers").await;
    assert_eq!(done.out.lines().count(), 1, "{}", done.err);
    assert!(done.out.starts_with("blue/web "), "{}", done.out);
    let done = person.run("cd services list -l region").await;
    assert_eq!((done.code, done.err.as_str()), (0, "no service fits\n"));
}
