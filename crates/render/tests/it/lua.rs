//! Scripts: what they may, what they may not, and what ends them.

use std::sync::{Arc, atomic::AtomicBool};

use plural_render::{
    ClusterInput, Inputs, ServiceInput, Tree,
    lua::{LuaError, LuaLimits, Sandbox, lua_values},
};
use serde_json::{Value, json};

fn inputs() -> Inputs {
    Inputs {
        folder: "app".to_owned(),
        templated: true,
        service: ServiceInput {
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            ..ServiceInput::default()
        },
        cluster: ClusterInput { handle: "blue".to_owned(), ..ClusterInput::default() },
        configuration: [("host".to_owned(), "web.example.com".to_owned())].into(),
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms: 1_700_000_000_000,
        seed: vec![1; 32],
        rendering: plural_render::RenderingInput::default(),
        api_server: None,
    }
}

fn tree() -> Tree {
    Tree::from_files([
        ("app/base.yaml", "replicas: 2\ningress:\n  hosts: [a]\n"),
        ("app/sub/more.yaml", "x: 1\n"),
        ("secret.txt", "not of this service"),
    ])
    .unwrap()
}

fn run(script: &str) -> Result<(Value, Vec<String>), LuaError> {
    let scripts = [("values.lua".to_owned(), script.to_owned())];
    let made = lua_values(&tree(), &inputs(), &scripts, LuaLimits::default())?;
    Ok((Value::Object(made.values), made.values_files))
}

fn eval(script: &str) -> Result<Vec<Value>, LuaError> {
    Sandbox::new(LuaLimits::default(), 1_700_000_000_000)?.run("test", script)
}

#[test]
fn scripts_go_on_with_goto() {
    let kept = eval(
        r"
        local kept = {}
        for i = 1, 6 do
            if i % 2 == 0 then goto continue end
            for _, skipped in ipairs({ 3 }) do
                if i == skipped then goto continue end
            end
            kept[#kept + 1] = i
            ::continue::
        end
        do goto done end
        kept = nil
        ::done::
        return kept
    ",
    );
    assert_eq!(kept.unwrap(), [json!([1, 5])]);
    let error = eval("goto nowhere").unwrap_err().to_string();
    assert!(error.contains("nowhere"), "{error}");
}

#[test]
fn the_language_is_that_of_lua_5_1() {
    let script = r#"
        local maxn = table.maxn({ 1, 2, [10] = 3 })
        return _VERSION, maxn, math.log10(1000), math.pow(2, 3), select('#', unpack({ 1, 2, 3 })),
            string.format("%d %s %5.1f", 3.7, "x", 2), 10 / 4, 7 % 3, 2 ^ 10, 1e15, "10" + 5, 10 .. "", math.huge > 1,
            table.getn({ 1, 2, 3 }), table.pack == nil and table.unpack == nil and rawlen == nil and bit32 == nil
    "#;
    let expected =
        json!(["Lua 5.1", 10, 3, 8, 3, "3 x   2.0", 2.5, 1, 1024, 1e15 as i64, 15, "10", true, 3, true]);
    assert_eq!(json!(eval(script).unwrap()), expected);
}

#[test]
fn no_finalizer_runs_where_nothing_would_end_it() {
    let script = r"
        local ran = false
        local meta = { __gc = function() ran = true while true do end end }
        for i = 1, 100 do setmetatable({}, meta) end
        local waste = {}
        for i = 1, 20000 do waste[i % 100] = { i } end
        return ran, meta.__gc ~= nil, getmetatable(setmetatable({}, meta)) == meta
    ";
    assert_eq!(eval(script).unwrap(), [json!(false), json!(true), json!(true)]);
}

#[test]
fn a_script_computes_values_from_files_and_data() {
    let (values, files) = run(r#"
        local encoding, fs, utils = require("encoding"), require("fs"), require("utils")
        local base = encoding.yamlDecode(fs.read("base.yaml"))
        values = utils.merge(base, { ingress = { hosts = { configuration.host } } }, "append")
        values.cluster = cluster.handle
        values.empty = {}
        valuesFiles = { utils.pathJoin("sub", "more.yaml") }
    "#)
    .unwrap();
    let hosts = json!(["a", "web.example.com"]);
    let expected = json!({"replicas": 2, "ingress": {"hosts": hosts}, "cluster": "blue", "empty": {}});
    assert_eq!(values, expected);
    assert_eq!(files, ["sub/more.yaml"]);
}

#[test]
fn files_outside_of_the_service_are_out_of_reach() {
    for path in ["../secret.txt", "/../secret.txt", "sub/../../secret.txt"] {
        let (values, _) =
            run(&format!("local text, why = fs.read({path:?}); values.text = text; values.why = why"))
                .unwrap();
        assert_eq!(values["text"], Value::Null, "{path}");
        assert!(values["why"].as_str().unwrap().contains("outside"), "{values}");
    }
    let (values, _) = run("values.all = fs.walk()").unwrap();
    assert_eq!(values["all"], json!(["base.yaml", "sub/more.yaml"]));
}

#[test]
fn dangerous_globals_do_not_exist() {
    let names = [
        "io",
        "debug",
        "package",
        "dofile",
        "loadfile",
        "load",
        "loadstring",
        "print",
        "collectgarbage",
        "coroutine",
        "getfenv",
        "setfenv",
        "newproxy",
        "module",
        "os.execute",
        "os.getenv",
        "os.exit",
        "os.remove",
        "math.random",
        "string.dump",
    ];
    for name in names {
        assert_eq!(eval(&format!("return {name} == nil")).unwrap(), [json!(true)], "{name}");
    }
    let error = run("require('os')").unwrap_err();
    assert!(error.to_string().contains("does not exist here"), "{error}");
}

#[test]
fn the_clock_stands_still() {
    let got = eval("return os.time(), os.date('!%Y-%m-%dT%H:%M:%SZ'), os.date('*t', 0).year").unwrap();
    assert_eq!(got, [json!(1_700_000_000), json!("2023-11-14T22:13:20Z"), json!(1970)]);
    let noon = eval("return os.time({year=2024, month=2, day=29})").unwrap();
    assert_eq!(noon, [json!(1_709_208_000)]);
}

#[test]
fn endless_scripts_end_whatever_they_catch() {
    let scripts = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return f() end f()",
        "while true do pcall(string.rep, 'x', 1e6) end",
        "local s = ('a'):rep(10000); return s:find(('a*'):rep(20) .. 'b')",
        "local t = {} for i = 1, 100000 do t[i] = i end while true do table.insert(t, 1, 0); table.remove(t, 1) end",
    ];
    for script in scripts {
        match eval(script).unwrap_err() {
            LuaError::Limit { unit: "steps", .. } => {}
            other => panic!("{script}: {other:?}"),
        }
    }
}

#[test]
fn memory_is_bounded() {
    for script in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1e6) .. #t end",
        "local s = 'x' while true do s = s .. s end",
        "while true do pcall(function() local s = 'x' while true do s = s .. s end end) end",
    ] {
        match eval(script).unwrap_err() {
            LuaError::Limit { unit: "bytes of memory", .. } => {}
            other => panic!("{script}: {other:?}"),
        }
    }
}

#[test]
fn deep_and_circular_tables_are_errors() {
    let error = eval("local t = {} t.t = t return t").unwrap_err();
    assert!(error.to_string().contains("contains itself"), "{error}");
    let error = eval("local t = {} for i = 1, 100000 do t = {t} end return t").unwrap_err();
    assert!(error.to_string().contains("levels deep"), "{error}");
    let error = eval("return function() end").unwrap_err();
    assert!(error.to_string().contains("function cannot become data"), "{error}");
}

#[test]
fn the_caller_can_stop_a_script() {
    let stop = Arc::new(AtomicBool::new(true));
    let limits = LuaLimits { stop: Some(stop), ..LuaLimits::default() };
    let error = Sandbox::new(limits, 0).unwrap().run("slow", "while true do end").unwrap_err();
    assert_eq!(error, LuaError::Stopped { script: "slow".to_owned() });
}

#[test]
fn errors_name_script_and_line() {
    let error = run("\nlocal x = nil\nreturn x.y").unwrap_err();
    assert!(error.to_string().starts_with("values.lua:3: attempt to index local 'x'"), "{error}");
    let error = run("values = 3").unwrap_err();
    assert_eq!(error.to_string(), "the global values is a number, not a table of names");
    assert!(run("this is no lua").unwrap_err().to_string().starts_with("values.lua:1:"));
}

#[test]
fn a_health_script_returns_its_verdict() {
    let sandbox = Sandbox::new(LuaLimits::default(), 0).unwrap();
    let object =
        json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "no disk"}]}});
    sandbox.set_global("obj", &object).unwrap();
    let got = sandbox
        .run(
            "health",
            r#"
            hs = {}
            if obj.status ~= nil and obj.status.conditions ~= nil then
              for i, condition in ipairs(obj.status.conditions) do
                if condition.type == "Ready" and condition.status == "False" then
                  hs.status = "Degraded"
                  hs.message = condition.message
                  return hs
                end
              end
            end
            hs.status = "Progressing"
            return hs
            "#,
        )
        .unwrap();
    assert_eq!(got, [json!({"status": "Degraded", "message": "no disk"})]);
}

#[test]
fn the_string_library_answers_as_lua_does() {
    let got = eval(
        r#"return ("hello world"):gsub("o", "0"), ("k=v, a=b"):gsub("(%w+)=(%w+)", "%2=%1"),
           ("abc"):gsub("", "-"), ("x y z"):gsub("%w", {x = "1", y = false}), ("%d"):format(3),
           ("a,b"):find(",", 1, true), table.concat({1, 2, 3}, "+")"#,
    )
    .unwrap();
    assert_eq!(
        got,
        [
            json!("hell0 w0rld"),
            json!("v=k, b=a"),
            json!("-a-b-c-"),
            json!("1 y z"),
            json!("3"),
            json!(2),
            json!("1+2+3"),
        ]
    );
    let words = eval("local all = {} for w in ('one two'):gmatch('%a+') do all[#all + 1] = w end return all")
        .unwrap();
    assert_eq!(words, [json!(["one", "two"])]);
}
