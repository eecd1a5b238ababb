//! Filters of Liquid that are functions of Sprig, beside Sprig itself in Helm's engine: each call over the same values.

use plural_render::{Drawing, expand_with};
use plural_testkit::note_compared;
use serde_json::{Value, json};

use super::{Folder, Peer};

/// What is done with the words of a page: strings, numbers, and values of `data` by name, as `$list`.
const CALLS: &[(&str, &str)] = &[
    // Text.
    ("abbrev", "5 'hello world'"),
    ("abbrev", "20 'hello world'"),
    ("abbrevboth", "5 10 '1234 5678 9123'"),
    ("camelcase", "'http_server'"),
    ("camelcase", "'no_https'"),
    ("cat", "'hello' 'beautiful' 'world'"),
    ("contains", "'cat' 'catch'"),
    ("hasPrefix", "'cat' 'catch'"),
    ("hasSuffix", "'ch' 'catch'"),
    ("initials", "'First Try'"),
    ("kebabcase", "'FirstName'"),
    ("kebabcase", "'HTTPServer2'"),
    ("lower", "'HELLO Ü'"),
    ("nospace", "'hello w o r l d'"),
    ("plural", "'one anchovy' 'many anchovies' 1"),
    ("plural", "'one anchovy' 'many anchovies' 2"),
    ("quote", "'x'"),
    ("quote", "'x' 'y' 3"),
    ("repeat", "3 'hello'"),
    ("snakecase", "'FirstName'"),
    ("snakecase", "'GO_PATH'"),
    ("snakecase", "'Duration2m3s'"),
    ("snakecase", "'with space-and.dots'"),
    ("sortAlpha", "$list"),
    ("splitList", "'$' 'foo$bar$baz'"),
    ("splitn", "'$' 2 'foo$bar$baz'"),
    ("squote", "'x' 'y'"),
    ("substr", "0 5 'hello world'"),
    ("substr", "6 -1 'hello world'"),
    ("swapcase", "'This Is A.Test'"),
    ("title", "'hello world'"),
    ("toString", "1.5"),
    ("toStrings", "$numbers"),
    ("trim", "'   hello    '"),
    ("trimAll", "'$' '$5.00'"),
    ("trimPrefix", "'-' '-hello'"),
    ("trimSuffix", "'-' 'hello-'"),
    ("trimall", "'$' '$5.00'"),
    ("trunc", "5 'hello world'"),
    ("trunc", "-5 'hello world'"),
    ("untitle", "'Hello World'"),
    ("upper", "'hello ü'"),
    ("wrap", "5 'Hello World of words'"),
    ("wrapWith", "5 '/' 'Hello World'"),
    // Numbers.
    ("add", "1 2 3"),
    ("add1", "1"),
    ("add1f", "1.5"),
    ("addf", "1.5 2 2"),
    ("atoi", "'5'"),
    ("biggest", "1 2 3"),
    ("div", "7 2"),
    ("divf", "10 2 4"),
    ("float64", "'5.5'"),
    ("int", "'5'"),
    ("int64", "'5'"),
    ("max", "1 2 3"),
    ("maxf", "1 2.5 2"),
    ("min", "1 2 3"),
    ("minf", "1.5 2 3"),
    ("mod", "7 2"),
    ("mul", "1 2 3"),
    ("mulf", "1.5 2 2"),
    ("seq", "5"),
    ("seq", "2 -2"),
    ("seq", "0 2 10"),
    ("sub", "5 2"),
    ("subf", "7.5 2 3"),
    ("toDecimal", "'0777'"),
    ("until", "5"),
    ("untilStep", "3 6 2"),
    // Lists.
    ("all", "0 1"),
    ("any", "0 1"),
    ("chunk", "2 $letters"),
    ("coalesce", "'' 'x'"),
    ("has", "'a' $list"),
    ("initial", "$letters"),
    ("list", "1 'b' 3"),
    ("mustAppend", "$list 'c'"),
    ("mustChunk", "3 $letters"),
    ("mustCompact", "$gaps"),
    ("mustFirst", "$letters"),
    ("mustHas", "'z' $list"),
    ("mustInitial", "$letters"),
    ("mustLast", "$letters"),
    ("mustPrepend", "$list 'c'"),
    ("mustPush", "$list 'c'"),
    ("mustRest", "$letters"),
    ("mustReverse", "$letters"),
    ("mustSlice", "$letters 1 3"),
    ("mustUniq", "$twice"),
    ("mustWithout", "$twice 'a' 'c'"),
    ("push", "$list 'c'"),
    ("rest", "$letters"),
    ("tuple", "1 2"),
    ("without", "$list 'a'"),
    // Maps.
    ("deepCopy", "$nested"),
    ("deepEqual", "$map $other"),
    ("deepEqual", "$map $map"),
    ("dict", "'a' 1 'b' 'two'"),
    ("dig", "'a' 'none' $map"),
    ("dig", "'in' 'deep' 'none' $nested"),
    ("dig", "'in' 'missing' 'none' $nested"),
    ("get", "$map 'a'"),
    ("get", "$map 'z'"),
    ("hasKey", "$map 'b'"),
    ("keys", "$map"),
    ("merge", "$map $other"),
    ("mergeOverwrite", "$map $other"),
    ("mustDeepCopy", "$nested"),
    ("mustMerge", "$map $other"),
    ("mustMergeOverwrite", "$map $other"),
    ("omit", "$other 'b'"),
    ("pick", "$other 'b' 'z'"),
    ("pluck", "'a' $map $other"),
    ("set", "$map 'b' 2"),
    ("unset", "$map 'a'"),
    ("values", "$map"),
    // Types.
    ("empty", "''"),
    ("empty", "$map"),
    ("kindIs", "'slice' $list"),
    ("kindOf", "'x'"),
    ("kindOf", "$list"),
    ("kindOf", "$map"),
    ("typeIs", "'string' 'x'"),
    ("typeIsLike", "'string' 'x'"),
    ("typeOf", "'x'"),
    // Encodings.
    ("b32dec", "'ME======'"),
    ("b32enc", "'a'"),
    ("b64dec", "'aGVsbG8='"),
    ("b64enc", "'hello'"),
    ("fromJson", "'{\"a\": [1, null, true]}'"),
    ("mustFromJson", "'{\"a\": 1}'"),
    ("mustToJson", "$nested"),
    ("mustToPrettyJson", "$nested"),
    ("mustToRawJson", "'<'"),
    ("toJson", "$nested"),
    ("toJson", "'<'"),
    ("toPrettyJson", "$nested"),
    ("toRawJson", "'<'"),
    ("urlParse", "'http://admin:secret@server.com:8080/api?list=false#anchor'"),
    // Expressions.
    ("mustRegexFind", "'[a-zA-Z][1-9]' 'abcd1234'"),
    ("mustRegexFindAll", "'[2,4,6,8]' '123456789' 2"),
    ("mustRegexMatch", "'^a+$' 'aaa'"),
    ("mustRegexReplaceAll", "'a(x*)b' '-ab-axxb-' '${1}W'"),
    ("mustRegexReplaceAllLiteral", "'a(x*)b' '-ab-axxb-' '${1}'"),
    ("mustRegexSplit", "'z+' 'pizza' -1"),
    ("regexFind", "'[a-zA-Z][1-9]' 'abcd1234'"),
    ("regexFindAll", "'[2,4,6,8]' '123456789' -1"),
    ("regexMatch", "'^a+$' 'aab'"),
    ("regexQuoteMeta", "'1.2.3'"),
    ("regexReplaceAll", "'a(x*)b' '-ab-axxb-' '${1}W'"),
    ("regexReplaceAllLiteral", "'a(x*)b' '-ab-axxb-' '${1}'"),
    ("regexSplit", "'z+' 'pizza' -1"),
    // Times.
    ("duration", "'95'"),
    ("durationRound", "'2h10m5s'"),
    ("durationRound", "'2400h10m5s'"),
    // Paths.
    ("base", "'foo/bar.txt'"),
    ("clean", "'foo/bar/../baz'"),
    ("dir", "'foo/bar/baz'"),
    ("ext", "'foo/bar.txt'"),
    ("isAbs", "'/foo'"),
    ("osBase", "'/srv/fs_path.txt'"),
    ("osClean", "'/srv/../fs_path.txt'"),
    ("osDir", "'/srv/fs_path.txt'"),
    ("osExt", "'/srv/fs_path.txt'"),
    ("osIsAbs", "'root'"),
    // Digests and versions.
    ("adler32sum", "'Hello world!'"),
    ("derivePassword", "1 'long' 'password' 'user' 'example.com'"),
    ("sha1sum", "'Hello world!'"),
    ("sha256sum", "'Hello world!'"),
    ("sha512sum", "'Hello world!'"),
    ("semverCompare", "'^1.2.0' '1.3.0'"),
    ("semverCompare", "'>=1.2.0 <2' '2.0.0'"),
    // What both refuse.
    ("fail", "'no'"),
    ("mustRegexMatch", "'a(' 'a'"),
    ("mustFromJson", "'{'"),
    ("semverCompare", "'nonsense' '1'"),
];

/// What takes its value first here, is asked for a part of what it makes, or has several names.
const PAIRS: &[(&str, &str)] = &[
    ("'' | default: 'foo'", "default \"foo\" \"\""),
    ("'x' | default: 'foo'", "default \"foo\" \"x\""),
    ("'a\nb' | indent: 2", "indent 2 \"a\\nb\""),
    ("'a\nb' | nindent: 2", "nindent 2 \"a\\nb\""),
    ("data.letters | slice: 1, 3", "slice .Values.data.letters 1 3"),
    ("true | ternary: 'a', 'b'", "ternary \"a\" \"b\" true"),
    ("false | ternary: 'a', 'b'", "ternary \"a\" \"b\" false"),
    ("'http://server.com/api' | urlParse | urlJoin", "urlParse \"http://server.com/api\" | urlJoin"),
    ("'2006-01-02' | toDate: '2017-12-31' | htmlDate", "toDate \"2006-01-02\" \"2017-12-31\" | htmlDate"),
    (
        "'2006-01-02' | mustToDate: '2017-12-31' | unixEpoch",
        "mustToDate \"2006-01-02\" \"2017-12-31\" | unixEpoch",
    ),
    (
        "'2006-01-02' | toDate: '2017-12-31' | htmlDateInZone: 'UTC'",
        "htmlDateInZone (toDate \"2006-01-02\" \"2017-12-31\") \"UTC\"",
    ),
    ("'key' | encryptAES: 'plain' | size", "encryptAES \"key\" \"plain\" | len"),
    ("'1.2.3-alpha.1+b' | semver | get: 'Prerelease'", "(semver \"1.2.3-alpha.1+b\").Prerelease"),
    ("'1.2.3-alpha.1+b' | semver | get: 'Minor'", "(semver \"1.2.3-alpha.1+b\").Minor"),
    ("'^1.2.0' | semver_compare: '1.3.0'", "semverCompare \"^1.2.0\" \"1.3.0\""),
    ("'Hello world!' | sha26sum", "sha256sum \"Hello world!\""),
    ("data.nested | to_json", "toJson .Values.data.nested"),
    // Helm's own takes maps alone.
    ("'{\"a\": [1]}' | from_json", "fromJson \"{\\\"a\\\": [1]}\""),
];

/// Pairs that need a name for a point in time.
const TIMES: &[(&str, &str)] = &[
    ("'02/01/2006' | dateInZone: t, 'UTC'", "dateInZone \"02/01/2006\" $t \"UTC\""),
    ("'02/01/2006' | date_in_zone: t, 'UTC'", "dateInZone \"02/01/2006\" $t \"UTC\""),
    ("'24h' | dateModify: t | htmlDate", "dateModify \"24h\" $t | htmlDate"),
    ("'24h' | date_modify: t | htmlDate", "dateModify \"24h\" $t | htmlDate"),
    ("'-24h' | mustDateModify: t | htmlDate", "mustDateModify \"-24h\" $t | htmlDate"),
];

/// What makes another thing each time, or depends on the clock: the scaffold's tests look at what it makes (`filters.rs`, `certificates.rs`).
const CHANCE: &[&str] = &[
    "ago",
    "bcrypt",
    "buildCustomCert",
    "decryptAES",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "htpasswd",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "randInt",
    "randNumeric",
    "shuffle",
];

/// Names that are Liquid's own, with its order of arguments: the scaffold's tests have the examples of its documentation.
const LIQUID: &[&str] = &[
    "append", "ceil", "compact", "concat", "date", "first", "floor", "join", "last", "prepend", "replace",
    "reverse", "round", "uniq",
];

/// The names that automations of public catalogues may use.
const NAMES: &str = "abbrev abbrevboth camelcase kebabcase snakecase swapcase title untitle upper lower trim trimAll \
    trimPrefix trimSuffix trunc substr wrap wrapWith indent nindent nospace quote squote cat repeat replace plural initials \
    contains hasPrefix hasSuffix splitList splitn join toString toStrings sortAlpha add add1 addf add1f sub subf mul mulf div \
    divf mod max min maxf minf biggest ceil floor round int int64 float64 atoi toDecimal seq until untilStep list tuple first \
    last rest initial append prepend concat push reverse uniq without has compact slice chunk all any coalesce shuffle dict \
    get set unset hasKey keys values pick omit pluck dig merge mergeOverwrite deepCopy deepEqual typeOf typeIs typeIsLike \
    kindOf kindIs default empty ternary fail b64enc b64dec b32enc b32dec toJson toPrettyJson toRawJson fromJson urlParse \
    urlJoin regexMatch regexFind regexFindAll regexReplaceAll regexReplaceAllLiteral regexSplit regexQuoteMeta date dateInZone \
    dateModify ago duration durationRound htmlDate htmlDateInZone toDate unixEpoch base dir ext clean isAbs osBase osDir osExt \
    osClean osIsAbs sha1sum sha256sum sha512sum adler32sum bcrypt htpasswd derivePassword encryptAES decryptAES genCA \
    genCAWithKey genPrivateKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert genSignedCertWithKey buildCustomCert \
    randAlpha randAlphaNum randNumeric randAscii randBytes randInt semver semverCompare";

fn data() -> Value {
    json!({
        "list": ["b", "a"], "letters": ["a", "b", "c", "d", "e"], "twice": ["a", "b", "a", "c"], "gaps": ["a", "", "b", 0],
        "numbers": [1, 2], "map": {"a": 1}, "other": {"a": 2, "b": 3}, "nested": {"in": {"deep": ["x", {"y": "<z>"}]}},
    })
}

/// The words of a call: what stands between single quotes is one.
fn words(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = match rest.strip_prefix('\'') {
            Some(inside) => inside.find('\'').unwrap() + 2,
            None => rest.find(' ').unwrap_or(rest.len()),
        };
        found.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    found
}

/// A word as Liquid writes it, and as Go does.
fn both(word: &str) -> (String, String) {
    if let Some(name) = word.strip_prefix('$') {
        return (format!("data.{name}"), format!(".Values.data.{name}"));
    }
    match word.strip_prefix('\'').and_then(|word| word.strip_suffix('\'')) {
        Some(text) => (word.to_owned(), Value::from(text).to_string()),
        None => (word.to_owned(), word.to_owned()),
    }
}

/// What Liquid and Go are asked.
fn cases() -> Vec<(String, String)> {
    let mut cases = Vec::new();
    for (name, call) in CALLS {
        let (liquid, go): (Vec<String>, Vec<String>) = words(call).into_iter().map(both).unzip();
        let (value, rest) = liquid.split_first().unwrap();
        let arguments = if rest.is_empty() { String::new() } else { format!(": {}", rest.join(", ")) };
        cases.push((
            format!("{{{{ {value} | {name}{arguments} | toJson }}}}"),
            format!("{{{{ {name} {} | toJson | b64enc }}}}", go.join(" ")),
        ));
    }
    for (liquid, go) in PAIRS {
        cases.push((format!("{{{{ {liquid} | toJson }}}}"), format!("{{{{ {go} | toJson | b64enc }}}}")));
    }
    for (liquid, go) in TIMES {
        cases.push((
            format!("{{% assign t = '2006-01-02' | toDate: '2017-12-31' %}}{{{{ {liquid} | toJson }}}}"),
            format!("{{{{ $t := toDate \"2006-01-02\" \"2017-12-31\" }}}}{{{{ {go} | toJson | b64enc }}}}"),
        ));
    }
    cases
}

#[test]
fn filters_do_what_sprig_does() {
    let Some(mut peer) = Peer::start("peer-helm") else { return };
    let folder = Folder::new("filters");
    let (cases, mut problems) = (cases(), Vec::new());
    for (liquid, go) in &cases {
        let files = [
            ("Chart.yaml", "apiVersion: v2\nname: filters\nversion: 1.0.0\n".to_owned()),
            ("user.yaml", json!({"data": data()}).to_string()),
            ("templates/one.yaml", format!("result: {go}\n")),
        ];
        let chart = folder.fill(&files.map(|(path, content)| (path.to_owned(), content)));
        let theirs = peer.ask(&json!({
            "chart": chart, "values": chart.join("user.yaml"), "release": "demo", "namespace": "apps",
            "kube_version": "1.33.0", "rounds": 0,
        }));
        let theirs = theirs.and_then(|text| decoded(&text));
        let drawing = Drawing { data: &json!({"data": data()}), clock_ms: 0, seed: b"filters" };
        let ours = expand_with("one", liquid.as_bytes(), &drawing).map_err(|problem| problem.message);
        let ours =
            ours.and_then(|text| serde_json::from_str(&text).map_err(|error| format!("{error}: {text}")));
        let same = match (&theirs, &ours) {
            (Ok(theirs), Ok(ours)) => is_same(theirs, ours),
            (Err(_), Err(_)) => true,
            _ => false,
        };
        if !same {
            problems.push(format!("{liquid}\n{go}\nwanted {theirs:?}\ngot    {ours:?}"));
        }
    }
    note_compared("calls of filters beside Sprig", cases.len() - problems.len(), cases.len());
    assert!(problems.is_empty(), "{} differ:\n{}", problems.len(), problems.join("\n\n"));
}

/// The JSON that a chart of one file printed.
fn decoded(text: &str) -> Result<Value, String> {
    let line = text.lines().find_map(|line| line.strip_prefix("result: ")).ok_or(text)?;
    let arguments = format!("{{{{ '{}' | b64dec }}}}", line.trim());
    let drawing = Drawing { data: &json!({}), clock_ms: 0, seed: b"" };
    let json = expand_with("line", arguments.as_bytes(), &drawing).map_err(|problem| problem.message)?;
    serde_json::from_str(&json).map_err(|error| format!("{error}: {json}"))
}

/// Equal, whether a number is written as a whole one or not.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}

#[test]
fn every_name_is_compared_or_has_a_reason() {
    let compared = |name: &str| {
        let in_pairs = PAIRS.iter().chain(TIMES).any(|(liquid, _)| {
            liquid.split(" | ").skip(1).any(|filter| filter.split(':').next() == Some(name))
        });
        in_pairs || CALLS.iter().any(|(call, _)| *call == name)
    };
    for name in NAMES.split_whitespace() {
        let times = [compared(name), CHANCE.contains(&name), LIQUID.contains(&name)];
        assert_eq!(
            times.iter().filter(|is_so| **is_so).count(),
            1,
            "{name}: compared, chance, Liquid's: {times:?}"
        );
    }
}
