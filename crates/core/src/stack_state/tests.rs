//! States, locks, and what becomes of writes.

use serde_json::json;

use super::*;

fn state(serial: u64, lineage: &str, value: &str) -> Vec<u8> {
    let state = json!({
        "version": 4, "terraform_version": "1.12.6", "serial": serial, "lineage": lineage,
        "outputs": {"address": {"value": value, "type": "string"}},
        "resources": [
            {"mode": "managed", "type": "terraform_data", "name": "a", "provider": "p", "instances": [
                {"index_key": "blue", "attributes": {"id": "1", "input": value}},
                {"index_key": 0, "attributes": {"id": "2", "input": "same"}},
            ]},
            {"module": "module.m", "mode": "data", "type": "x", "name": "y", "provider": "p", "instances": [{}]},
        ],
    });
    serde_json::to_vec_pretty(&state).unwrap()
}

fn version(serial: u64, lineage: &str, value: &str) -> StateVersion {
    let head = StateHead::read(&state(serial, lineage, value)).unwrap();
    StateVersion {
        id: StateVersionId::new(),
        stack_id: StackId::new(),
        serial,
        lineage: lineage.to_owned(),
        digest: head.digest,
        size: 1,
        resources: head.resources,
        rejected: None,
        accepted_at: None,
        author: String::new(),
        request_id: String::new(),
        fence: None,
        created_at: DateTime::UNIX_EPOCH,
    }
}

fn lock(id: &str) -> StateLock {
    StateLock {
        id: id.to_owned(),
        info: "{}".to_owned(),
        operation: String::new(),
        who: String::new(),
        author: String::new(),
        fence: 1,
        created_at: DateTime::UNIX_EPOCH,
    }
}

#[test]
fn a_head_tells_what_counts() {
    let head = StateHead::read(&state(7, "abc", "x")).unwrap();
    assert_eq!((head.serial, head.lineage.as_str(), head.resources), (7, "abc", Some(2)));
    let encrypted = br#"{"serial": 1, "lineage": "a", "meta": {}, "encrypted_data": "x"}"#;
    assert_eq!(StateHead::read(encrypted).unwrap().resources, None);
}

#[test]
fn what_is_no_state_is_refused_without_its_text() {
    for (body, told) in [
        ("", "line 1, column 0"),
        ("{\"hunter2", "line 1"),
        ("[]", "JSON"),
        (r#"{"version": 5, "serial": 1, "lineage": "a"}"#, "it has 5"),
        (r#"{"serial": 1, "lineage": "a"}"#, "it has none"),
        (r#"{"version": 4, "lineage": "a"}"#, "serial"),
        (r#"{"version": 4, "serial": 18446744073709551615, "lineage": "a"}"#, "serial"),
        (r#"{"version": 4, "serial": 1, "lineage": ""}"#, "lineage"),
        (r#"{"version": 4, "serial": 1, "lineage": "a\u0000b"}"#, "lineage"),
    ] {
        let error = StateHead::read(body.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(told) && !error.contains("hunter2"), "{body}: {error}");
    }
}

#[test]
fn which_write_counts() {
    use WriteVerdict::{Accept, Locked, Reject, Repeat};
    let head = |serial, lineage, value| StateHead::read(&state(serial, lineage, value)).unwrap();
    let (current, held) = (version(5, "a", "x"), lock("one"));
    let judge =
        |lock: Option<&StateLock>, given, new: &StateHead| judge_write(lock, given, Some(&current), new);
    let next = head(6, "a", "y");
    assert_eq!(judge(None, None, &next), Accept);
    assert_eq!(judge(Some(&held), Some("one"), &next), Accept);
    assert_eq!(judge(Some(&held), None, &next), Locked);
    assert!(matches!(judge(Some(&held), Some("other"), &next), Reject(why) if why.contains("lock")));
    assert!(matches!(judge(None, Some("one"), &next), Reject(why) if why.contains("lock")));
    let same = head(5, "a", "x");
    assert_eq!(judge(None, Some("gone"), &same), Repeat);
    assert_eq!(judge(Some(&held), None, &same), Locked);
    assert!(matches!(judge(None, None, &head(6, "b", "x")), Reject(why) if why.contains("lineage")));
    assert!(matches!(judge(None, None, &head(4, "a", "x")), Reject(why) if why.contains("lower")));
    assert!(matches!(judge(None, None, &head(5, "a", "y")), Reject(why) if why.contains("other content")));
    assert_eq!(judge_write(None, None, None, &head(9, "z", "x")), Accept);
}

#[test]
fn content_is_told_without_values() {
    let (resources, outputs) = StateContent::read(&state(1, "a", "hunter2")).unwrap().listed();
    let addresses: Vec<&str> = resources.iter().map(|one| one.address.as_str()).collect();
    assert_eq!(addresses, ["module.m.data.x.y", "terraform_data.a[\"blue\"]", "terraform_data.a[0]"]);
    assert_eq!(outputs, ["address"]);
    let read = |value| StateContent::read(&state(1, "a", value)).unwrap();
    let changes = read("x").changes_to(&read("hunter2"));
    let expected = StateChange {
        address: "terraform_data.a[\"blue\"]".to_owned(),
        kind: StateChangeKind::Changed,
        attributes: vec!["input".to_owned()],
    };
    assert_eq!(changes, [expected]);
}

/// Of a state with resources that need others: each by its address without links, and its links.
fn links(resources: &serde_json::Value) -> Vec<(String, Option<Vec<String>>)> {
    let state = json!({"version": 4, "serial": 1, "lineage": "a", "resources": resources});
    let (resources, _) = StateContent::read(state.to_string().as_bytes()).unwrap().listed();
    resources.into_iter().map(|resource| (resource.address, resource.links)).collect()
}

fn linked(address: &str, links: &[&str]) -> (String, Option<Vec<String>>) {
    (address.to_owned(), Some(links.iter().map(|&link| link.to_owned()).collect()))
}

#[test]
fn a_resource_says_what_it_needs_by_itself() {
    let resource = |module: Option<&str>, kind: &str, instances: serde_json::Value| json!({"module": module, "type": kind, "name": "n", "provider": "p", "instances": instances});
    // The tools write all that is needed, however far away.
    let all = ["module.m.subnet.n", "vpc.n", "data.zone.n", "gone.n", "vpc.n", "web.n", "a\u{0}b"];
    let found = links(&json!([
        resource(None, "vpc", json!([{"attributes": {}}])),
        {"mode": "data", "type": "zone", "name": "n", "instances": [{"dependencies": null}]},
        resource(Some("module.m[\"a]\\\"[.b\"]"), "subnet", json!([
            {"index_key": 0, "dependencies": ["vpc.n"]}, {"index_key": 1, "dependencies": []},
        ])),
        resource(None, "web", json!([{"index_key": "x", "dependencies": all}])),
    ]));
    let expected = [
        linked("data.zone.n", &[]),
        linked("module.m[\"a]\\\"[.b\"].subnet.n[0]", &["vpc.n"]),
        linked("module.m[\"a]\\\"[.b\"].subnet.n[1]", &[]),
        linked("vpc.n", &[]),
        linked("web.n[\"x\"]", &["data.zone.n", "module.m.subnet.n"]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn resources_that_need_each_other_are_told_as_they_are() {
    let resource = |name: &str, needs: &[&str]| json!({"type": "t", "name": name, "instances": [{"dependencies": needs}]});
    let found = links(&json!([
        resource("a", &["t.b", "t.c"]),
        resource("b", &["t.a", "t.c"]),
        resource("c", &["t.a", "t.b"]),
    ]));
    let expected =
        [linked("t.a", &["t.b", "t.c"]), linked("t.b", &["t.a", "t.c"]), linked("t.c", &["t.a", "t.b"])];
    assert_eq!(found, expected);
}

#[test]
fn where_all_need_all_nothing_is_told_of_it() {
    let needs = |of: usize| (0..of).map(|number| format!("t.n{number}")).collect::<Vec<_>>();
    let of = |count: usize| {
        let resource = |at: usize| json!({"type": "t", "name": format!("n{at}"), "instances": [{"dependencies": needs(at)}]});
        links(&(0..count).map(resource).collect::<Vec<_>>().into())
    };
    let found = of(200);
    assert_eq!(found.len(), 200);
    // Each needs those before it, of which the last one needs all others.
    assert!(
        found.iter().all(|(address, links)| links.as_ref().unwrap().len() == usize::from(address != "t.n0"))
    );
    assert!(of(900).iter().all(|(_, links)| links.is_none()));
}

#[test]
fn what_is_no_list_of_addresses_is_refused_without_its_text() {
    let state = r#"{"resources":[{"type":"t","name":"n","instances":[{"dependencies":{"hunter2":1}}]}]}"#;
    let error = StateContent::read(state.as_bytes()).err().unwrap().to_string();
    assert!(error.contains("line 1") && !error.contains("hunter2"), "{error}");
}

#[test]
fn a_state_that_would_take_many_times_its_bytes_is_not_looked_into() {
    let refused = |body: &str| matches!(StateContent::read(body.as_bytes()), Err(Error::Conflict { .. }));
    let state = |outputs: &str, resources: &str| {
        format!(
            r#"{{"version":4,"serial":1,"lineage":"a","outputs":{{{outputs}}},"resources":[{resources}]}}"#
        )
    };
    let resource = |name: &str, instances: usize| {
        let instances = vec!["{}"; instances].join(",");
        format!(r#"{{"type":"t","name":"{name}","instances":[{instances}]}}"#)
    };
    assert!(!refused(&state("", &resource("n", 1_000))));
    // Each instance would have the long name of its resource.
    assert!(refused(&state("", &resource(&"n".repeat(1 << 20), 100))));
    let many = usize::try_from(MAX_THINGS).unwrap();
    assert!(refused(&state("", &resource("n", many))));
    assert!(refused(&state("", &vec![resource("n", 0); many + 1].join(","))));
    let outputs: Vec<String> = (0..=many).map(|number| format!("\"{number}\":0")).collect();
    assert!(refused(&state(&outputs.join(","), "")));
    // To be kept, it need not be looked into.
    let head = StateHead::read(state("", &resource("n", many)).as_bytes()).unwrap();
    assert_eq!(head.resources, Some(MAX_THINGS));
}

#[test]
fn whatever_differs_in_an_attribute_is_a_change() {
    let read = |value: &str| {
        let state = format!(
            r#"{{"resources":[{{"type":"t","name":"n","instances":[{{"attributes":{{"a":{value}}}}}]}}]}}"#
        );
        StateContent::read(state.as_bytes()).unwrap()
    };
    let values = [
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1",
        "1.5",
        "\"\"",
        "\"1\"",
        "[]",
        "[1]",
        "[[1]]",
        "[1,2]",
        "[2,1]",
        "{}",
        r#"{"a":1}"#,
        r#"{"a":2}"#,
        r#"{"b":1}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":2,"b":1}"#,
    ];
    for one in values {
        for other in values {
            let changes = read(one).changes_to(&read(other));
            assert_eq!(changes.is_empty(), one == other, "{one}, {other}");
        }
    }
    let ordered = read(r#"{"a":1,"b":[2]}"#);
    assert!(
        ordered.changes_to(&read(r#"{ "b" : [2], "a" : 1 }"#)).is_empty(),
        "it is the same in another order"
    );
}

#[test]
fn another_serial_changes_no_other_byte() {
    let tricky = br#"{"a": {"serial": 1}, "b": "\"serial\": 2", "lineage":"l","version":4, "serial" : 41 , "n": 1.10}"#;
    let changed = String::from_utf8(with_serial(tricky, 100).unwrap()).unwrap();
    assert_eq!(changed, String::from_utf8_lossy(tricky).replace("41", "100"));
    let body = state(9, "a", "x");
    assert_eq!(with_serial(&with_serial(&body, 10).unwrap(), 9).unwrap(), body);
}

#[test]
fn a_lock_is_read_as_tools_write_it() {
    let body = br#"{"ID":"one","Operation":"OperationTypeApply","Info":"","Who":"ada@box","Version":"1.12.6","Created":"2026-11-26T18:00:00Z","Path":""}"#;
    let lock = LockRequest::parse(body).unwrap();
    assert_eq!((lock.id.as_str(), lock.who.as_str()), ("one", "ada@box"));
    assert_eq!(lock.info.as_bytes(), body);
    for body in ["", "{}", r#"{"ID":""}"#, r#"{"ID":"a\u0000b"}"#, "{\"ID\":1}", "\u{0}"] {
        assert!(LockRequest::parse(body.as_bytes()).is_err(), "{body:?}");
    }
}
