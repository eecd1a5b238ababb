use serde_json::json;

use super::*;
use crate::stack_run::{RunPhase, samples};
use crate::stack_spec::StackSpec;

fn ids<const N: usize>() -> [StackId; N] {
    std::array::from_fn(|_| StackId::new())
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_000_000 + seconds, 0).unwrap()
}

fn run(status: RunStatus, ended: i64) -> StackRun {
    let finished_at = status.is_over().then(|| at(ended));
    StackRun { number: 7, finished_at, ..samples::run(status, RunPhase::Plan) }
}

#[test]
fn a_cycle_is_told_as_a_way() {
    let [net, db, app, other] = ids();
    let graph: StackGraph = [(db, net), (app, db), (app, net), (other, net)].into_iter().collect();
    for stack in [net, db, app, other] {
        assert_eq!(graph.cycle(stack), None);
    }
    assert_eq!(
        graph.with(net, &[app]).cycle(net).map(|path| (path[0], path[1], path.len())),
        Some((net, app, 3))
    );
    let only = graph.with(app, &[db]).with(net, &[app]);
    assert_eq!(only.cycle(net), Some(vec![net, app, db, net]));
    assert_eq!(graph.with(net, &[net]).cycle(net), Some(vec![net, net]));
    // What another one had does not come back, and what this one had goes.
    assert_eq!(graph.with(app, &[other]).upstream(app).collect::<Vec<_>>(), [other]);
    assert_eq!(graph.with(app, &[other]).upstream(db).collect::<Vec<_>>(), [net]);
}

#[test]
fn the_order_is_that_of_the_longest_way() {
    let [net, db, app, sink] = ids();
    // Also by itself: the sink comes after the app all the same.
    let graph: StackGraph = [(db, net), (app, db), (sink, app), (sink, net)].into_iter().collect();
    assert_eq!(graph.upstream_first(vec![sink, app, net, db], |id| *id), [net, db, app, sink]);
    assert_eq!([net, db, app, sink].map(|stack| graph.depth(stack)), [4; 4]);
    assert_eq!(graph.ancestors(sink), BTreeSet::from([net, db, app]));
    assert_eq!(graph.descendants(db), BTreeSet::from([app, sink]));
    assert_eq!(graph.depth(StackId::new()), 1);
    // Nothing here goes round for ever.
    let round = graph.with(net, &[sink]);
    assert!(round.depth(net) > 4);
    assert_eq!(round.ancestors(net).len(), 4);
}

#[test]
fn a_run_goes_on_when_all_that_it_depends_on_is_done() {
    let of = |run: Option<&StackRun>, is_direct, is_applied| {
        let now = UpstreamNow { name: "net", is_direct, is_applied, newest: run };
        hold(at(10), &[now])
    };
    let open = run(RunStatus::PendingApproval, 0);
    let waits = Hold::Waits("waits for run 7 of stack net".to_owned());
    assert_eq!(of(Some(&open), true, true), waits);
    assert_eq!(of(Some(&open), false, true), waits);
    let (before, since) = (run(RunStatus::Failed, 9), run(RunStatus::Failed, 11));
    // What failed before is what the stack is: its outputs are those of the last time that it was applied.
    assert_eq!(of(Some(&before), true, true), Hold::Goes);
    let Hold::Skipped(why) = of(Some(&since), true, true) else { panic!() };
    assert_eq!(why, "skipped: run 7 of stack net, which it waited for, is failed");
    assert_eq!(of(Some(&since), false, true), Hold::Goes);
    assert_eq!(of(Some(&run(RunStatus::Successful, 11)), true, true), Hold::Goes);
    let never = Hold::Waits("waits for stack net, which was not applied yet".to_owned());
    assert_eq!(of(None, true, false), never);
    assert_eq!(of(Some(&before), true, false), never);
    assert_eq!(of(None, false, false), Hold::Goes);
}

#[test]
fn secrets_go_into_the_environment() {
    let values = || {
        let value = |name: &str, value: Value, secret| TakenValue { name: name.to_owned(), value, secret };
        vec![
            value("subnets", json!(["a", "b"]), false),
            value("key", json!("s3cret"), true),
            value("deep", json!({"a": 1}), true),
        ]
    };
    let laid = |tool| {
        let (mut variables, mut environment) = (Map::new(), Vec::new());
        environment.push(InputVariable { name: "key".to_owned(), value: "old".to_owned(), secret: false });
        lay_values(tool, values(), &mut variables, &mut environment);
        let environment: Vec<_> = environment.into_iter().map(|it| (it.name, it.value, it.secret)).collect();
        (Value::Object(variables), environment)
    };
    let text = |name: &str, value: &str, secret| (name.to_owned(), value.to_owned(), secret);
    let (variables, environment) = laid(StackTool::Terraform);
    assert_eq!(variables, json!({"subnets": ["a", "b"]}));
    let wanted = [
        text("key", "old", false),
        text("TF_VAR_key", "s3cret", true),
        text("TF_VAR_deep", r#"{"a":1}"#, true),
    ];
    assert_eq!(environment, wanted);
    let (variables, environment) = laid(StackTool::Custom);
    assert_eq!(variables, json!({}));
    let wanted = [
        text("subnets", r#"["a","b"]"#, false),
        text("key", "s3cret", true),
        text("deep", r#"{"a":1}"#, true),
    ];
    assert_eq!(environment, wanted);
}

#[test]
fn what_cannot_be_taken_is_refused() {
    let one = StackId::new();
    let of = |stack_id, pairs: &[(&str, &str)]| StackDependency {
        stack_id,
        outputs: pairs
            .iter()
            .map(|(output, name)| OutputReference { output: (*output).to_owned(), name: (*name).to_owned() })
            .collect(),
        reads_state: false,
    };
    let variables = json!({"region": "eu"}).as_object().unwrap().clone();
    check_dependencies(&[of(one, &[("id", "vpc"), ("id", "vpc2")]), of(StackId::new(), &[])], &variables)
        .unwrap();
    for (dependencies, told) in [
        (vec![of(one, &[]), of(one, &[])], "there twice"),
        (vec![of(one, &[("a", "x")]), of(StackId::new(), &[("b", "x")])], "given twice"),
        (vec![of(one, &[("a", "region")])], "among `variables`"),
        (vec![of(one, &[("a", "1x")])], "begins with no digit"),
        (vec![of(one, &[("a", "Path")])], "begin with PATH"),
        (vec![of(one, &[("", "x")])], "at most 255 bytes"),
        ((0..=MAX_DEPENDENCIES).map(|_| of(StackId::new(), &[])).collect(), "at most 16 stacks"),
    ] {
        let error = check_dependencies(&dependencies, &variables).unwrap_err().to_string();
        assert!(error.contains(told) && error.contains("attributes.dependencies"), "{error}");
    }
}

#[test]
fn a_document_without_dependencies_is_written_as_before() {
    let text = serde_json::to_string(&StackSpec::default()).unwrap();
    assert!(!text.contains("dependencies"), "{text}");
    let dependency = StackDependency {
        stack_id: StackId::new(),
        outputs: vec![OutputReference { output: "id".to_owned(), name: "vpc".to_owned() }],
        reads_state: true,
    };
    let json = serde_json::to_value(&dependency).unwrap();
    assert_eq!(json["outputs"], json!([{"output": "id", "variable": "vpc"}]));
    assert_eq!(serde_json::from_value::<StackDependency>(json).unwrap(), dependency);
}

#[test]
fn names_are_told_to_those_who_may_see_the_stacks() {
    let (net, db) = (StackId::new(), StackId::new());
    let text = format!("run 1 < 2 of stack {} <x> waits for stack {}", stand_in(net), stand_in(db));
    let ids: Vec<StackId> = stand_ins(&text).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, [net, db]);
    let names = BTreeMap::from([(net, "net".to_owned())]);
    assert_eq!(
        with_names(&text, &names),
        "run 1 < 2 of stack net <x> waits for stack (one that you may not see)"
    );
    for plain in ["", "<", "a <b", "stack net"] {
        assert_eq!(with_names(plain, &names), plain);
    }
}
