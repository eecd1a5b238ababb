//! Health of objects as controllers really leave them, one table per family of kinds.

use plural_render::yaml;
use plural_sync::{GroupKind, Health, HealthStatus, health, run_script};
use serde_json::{Value, json};

const CLOCK_MS: i64 = 1_790_000_000_000;

fn check(table: &str) {
    let mut wrong = Vec::new();
    for document in yaml::split_documents(table) {
        let case = yaml::parse(document.as_bytes()).unwrap_or_else(|error| panic!("{error}: {document}"));
        let name = case["case"].as_str().unwrap_or(document);
        let object = &case["object"];
        let (kind, _) = GroupKind::parse(
            object["apiVersion"].as_str().expect(name),
            object["kind"].as_str().expect(name),
        );
        let found = health(&kind, object);
        let words = case["words"].as_str().unwrap_or_default();
        let said = if words.is_empty() && case["expect"] == "Healthy" {
            found.message.is_empty()
        } else {
            found.message.contains(words)
        };
        if found.status.as_str() != case["expect"].as_str().expect(name) || !said {
            wrong.push(format!(
                "{kind}, {name}: {} {:?}, not {words:?}",
                found.status.as_str(),
                found.message
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn workloads() {
    check(include_str!("../data/health/workloads.yaml"));
}

#[test]
fn pods() {
    check(include_str!("../data/health/pods.yaml"));
}

#[test]
fn what_a_cluster_has_by_itself() {
    check(include_str!("../data/health/cluster.yaml"));
}

#[test]
fn operators() {
    check(include_str!("../data/health/operators.yaml"));
}

#[test]
fn nothing_that_an_object_holds_breaks_a_rule() {
    let kinds = [
        "apps/v1/Deployment",
        "apps/v1/StatefulSet",
        "apps/v1/DaemonSet",
        "batch/v1/Job",
        "batch/v1/CronJob",
        "v1/Pod",
        "v1/Service",
        "v1/Node",
        "v1/PersistentVolumeClaim",
        "autoscaling/v2/HorizontalPodAutoscaler",
        "policy/v1/PodDisruptionBudget",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
        "gateway.networking.k8s.io/v1/Gateway",
        "gateway.networking.k8s.io/v1/HTTPRoute",
        "cert-manager.io/v1/Certificate",
        "cluster.x-k8s.io/v1beta1/Cluster",
        "argoproj.io/v1alpha1/Rollout",
        "flagger.app/v1beta1/Canary",
        "kustomize.toolkit.fluxcd.io/v1/Kustomization",
        "pkg.crossplane.io/v1/Provider",
        "keda.sh/v1alpha1/ScaledObject",
        "external-secrets.io/v1/ExternalSecret",
        "monitoring.coreos.com/v1/Prometheus",
        "example.org/v1/Thing",
    ];
    let strange = [json!(null), json!(7), json!("text"), json!([1, [], {}]), json!({"conditions": "x"})];
    let conditions = json!({"conditions": [null, 3, {"type": 4}, {"type": "Ready"}], "observedGeneration": {},
        "containerStatuses": [{"state": []}], "parents": [[]], "listeners": {}, "phase": ["x"]});
    for kind in kinds {
        let (api_version, kind) = kind.rsplit_once('/').unwrap();
        let (kind, _) = GroupKind::parse(api_version, kind);
        for part in strange.iter().chain([&conditions]) {
            let object = json!({"metadata": part, "spec": part, "status": part});
            let _ = health(&kind, &object);
            let _ = health(&kind, &json!({"metadata": {"generation": 2}, "status": part}));
            let _ = health(&kind, part);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a literal reads best at the call")]
fn script(text: &str, object: Value) -> Result<Health, String> {
    run_script(text, &object, CLOCK_MS).map_err(|error| error.to_string())
}

/// The contract of Argo CD: `obj` in, a returned table out.
#[test]
fn scripts_as_argo_cd_runs_them() {
    let text = r#"
        hs = {}
        if obj.status ~= nil and obj.status.conditions ~= nil then
          for i, condition in ipairs(obj.status.conditions) do
            if condition.type == "Ready" and condition.status == "False" then
              hs.status = "Degraded"
              hs.message = condition.message
              return hs
            end
            if condition.type == "Ready" and condition.status == "True" then
              hs.status = "Healthy"
              hs.message = condition.message
              return hs
            end
          end
        end
        hs.status = "Progressing"
        hs.message = "Waiting for " .. string.lower(obj.kind)
        return hs"#;
    let widget = |status: Value| json!({"apiVersion": "example.org/v1", "kind": "Widget", "status": status});
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status, "message": "why"}]});
    let found = script(text, widget(ready("False"))).unwrap();
    assert_eq!((found.status, found.message.as_str()), (HealthStatus::Degraded, "why"));
    assert_eq!(script(text, widget(ready("True"))).unwrap().status, HealthStatus::Healthy);
    let found = script(text, widget(Value::Null)).unwrap();
    assert_eq!((found.status, found.message.as_str()), (HealthStatus::Progressing, "Waiting for widget"));
    // Libraries may be asked for by name, and a local table may be returned.
    let text = r#"
        local os = require("os")
        local hs = {status = "Suspended", message = os.date("!%Y", os.time())}
        return hs"#;
    assert_eq!(script(text, widget(Value::Null)).unwrap().message, "2026");
}

/// The contract of `CustomHealth`: `Obj` in, the global `healthStatus` out.
#[test]
fn scripts_of_custom_health() {
    let text = r#"
        healthStatus = { status = "Unknown" }
        if Obj.status ~= nil and statusConditionExists(Obj.status, "Ready") then
          healthStatus = { status = "Progressing" }
          if isStatusConditionTrue(Obj.status, "Ready") then
            healthStatus = { status = "Healthy" }
          elseif isStatusConditionFalse(Obj.status, "Ready") then
            healthStatus = { status = "Degraded", message = Obj.metadata.name }
          end
        end"#;
    let status = |status: Value| script(text, json!({"metadata": {"name": "w"}, "status": status})).unwrap();
    let ready = |word: &str| status(json!({"conditions": [{"type": "Ready", "status": word}]}));
    assert_eq!(ready("True").status, HealthStatus::Healthy);
    assert_eq!(ready("Unknown").status, HealthStatus::Progressing);
    assert_eq!(ready("False").message, "w");
    assert_eq!(status(json!({})).status, HealthStatus::Unknown);
    assert_eq!(status(Value::Null).status, HealthStatus::Unknown);
}

#[test]
fn a_script_that_says_nothing_useful_is_an_error_in_words() {
    for (text, words) in [
        ("return 7", "neither returned a table"),
        ("local x = 1", "neither returned a table"),
        ("return {status = 'Fine'}", "its status is \"Fine\"; it must be one of Healthy, Progressing"),
        ("return {}", "its status is \"\""),
        ("if then", "health.lua:1"),
        ("local a = obj.spec.replicas + 1", "health.lua:1"),
        ("error('no')", "no"),
        ("return require('io')", "there is no module io"),
    ] {
        let error = script(text, json!({})).expect_err(text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

/// Attack test 29: expressions that burn time or memory end by their own budget.
#[test]
fn attack_29_health_scripts_have_fuel() {
    let hungry = [
        "while true do end",
        "local function f() return f() end return f()",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) end",
        "return {status = ('x'):rep(1e9)}",
        "local s = ('a'):rep(30000) return {status = s:find(('a*'):rep(30) .. 'b')}",
        "local s = ('a'):rep(20000) for i = 1, 1e9 do s:gsub('(a+)+$', '') end",
        "while true do pcall(function() while true do end end) end",
        "setmetatable(_G, {__index = function() while true do end end}) return x.y",
        "table.sort({1, 2, 3}, function() while true do end end)",
        "local t = {} for i = 1, 1e8 do t[i] = i end return t",
        "return table.concat({('x'):rep(1e8), ('y'):rep(1e8)})",
        "for k in string.gmatch(('a'):rep(1e6), '.-.-.-.-.-b') do end return {status = 'Healthy'}",
        "return {status = 'Healthy', message = string.format('%99s', 'x'):rep(1e7)}",
    ];
    for text in hungry {
        let started = std::time::Instant::now();
        let ended = run_script(text, &json!({"kind": "Widget"}), CLOCK_MS);
        // Not a measurement: a script without a budget would never come here.
        assert!(started.elapsed().as_secs() < 20, "{text}");
        assert!(ended.is_err(), "{text}: {ended:?}");
    }
    // And none of them reads anything but its object.
    for name in
        ["io", "debug", "load", "loadstring", "dofile", "loadfile", "getfenv", "collectgarbage", "print"]
    {
        let text = format!("return {{status = {name} == nil and 'Healthy' or 'Degraded'}}");
        assert_eq!(script(&text, json!({})).unwrap().status, HealthStatus::Healthy, "{name}");
    }
    for name in ["os.getenv", "os.execute", "os.exit", "os.remove", "math.random"] {
        let text = format!("return {{status = {name} == nil and 'Healthy' or 'Degraded'}}");
        assert_eq!(script(&text, json!({})).unwrap().status, HealthStatus::Healthy, "{name}");
    }
}

/// A recursion as deep as data may be ends in an error, not in a crash.
#[test]
fn deep_objects_end_in_an_error() {
    let mut deep = json!({});
    for _ in 0..2_000 {
        deep = json!({"x": deep});
    }
    let error = script("return {status = 'Healthy'}", deep).unwrap_err();
    assert!(error.contains("nested"), "{error}");
}
