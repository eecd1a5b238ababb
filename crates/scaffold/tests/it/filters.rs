//! Filters, by the examples of Liquid's and Sprig's documentation.

use plural_scaffold::run;
use serde_json::json;

use super::{refused, text, with_context};

fn check(template: &str, expected: &str) {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let context = json!({
        "list": ["b", "a"], "name": "Ground control", "map": {"a": 1}, "other": {"a": 2, "b": 3}, "gaps": ["a", null, "b"],
        "numbers": [1, 2, "3"], "nested": [1, [2, [3, "4"], "much"]],
        "stock": [{"name": "mop", "count": 3, "sold": false}, {"name": "pan", "count": 4}, {"name": "pot", "count": "0.5", "sold": true}],
        "animals": ["zebra", "octopus", "giraffe", "Sally Snake"],
        "items": [{"name": "mop", "room": "hall"}, {"name": "pan", "room": "kitchen"}, {"name": "pot", "room": "kitchen"}],
    });
    let outcome = run(&with_context(automation, context, &[("in", template)]));
    match outcome {
        Ok(outcome) => assert_eq!(text(&outcome, "out"), expected, "{template}"),
        Err(error) => panic!("{template}: {error}"),
    }
}

#[test]
fn liquid_as_documented() {
    for (template, expected) in [
        ("{{ 'title' | capitalize }}", "Title"),
        ("{{ 'a,b' | split: ',' | join: '-' }}", "a-b"),
        ("{{ context.list | sort | first }}", "a"),
        ("{{ 4 | plus: 2 }}", "6"),
        ("{{ 20 | divided_by: 7 }}", "2"),
        ("{{ 'I strained' | remove: 'rain' }}", "I sted"),
        ("{{ 'Ground control' | slice: 0, 6 }}", "Ground"),
        ("{{ '<p>' | escape }}", "&lt;p&gt;"),
        ("{% for i in (1..3) %}{{ i }}{% endfor %}", "123"),
        ("{% if context.list contains 'a' %}yes{% endif %}", "yes"),
        ("{% raw %}{{ .Values.x }}{% endraw %}", "{{ .Values.x }}"),
    ] {
        check(template, expected);
    }
}

/// Each filter of Liquid by an example of its documentation, but for `slice`: here it is the original's, from and to.
#[test]
fn every_filter_of_liquid_as_documented() {
    for (template, expected) in [
        ("{{ -17 | abs }}", "17"),
        ("{{ '/my/fancy/url' | append: '.html' }}", "/my/fancy/url.html"),
        ("{{ 4 | at_least: 5 }}", "5"),
        ("{{ 4 | at_most: 3 }}", "3"),
        ("{{ 'title' | capitalize }}", "Title"),
        ("{{ 1.2 | ceil }}", "2"),
        ("{{ context.gaps | compact | join: ',' }}", "a,b"),
        ("{{ context.list | concat: context.animals | size }}", "6"),
        ("{{ 'now' | date: '%Y-%m-%d' }}", "1970-01-01"),
        ("{{ '' | default: 2.99 }}", "2.99"),
        ("{{ 5 | divided_by: 3 }}", "1"),
        ("{{ 16 | divided_by: 4 }}", "4"),
        ("{{ 'Parker Moore' | downcase }}", "parker moore"),
        ("{{ 'Tetsuro & Co <b>' | escape }}", "Tetsuro &amp; Co &lt;b&gt;"),
        ("{{ '1 &lt; 2 &amp; 3' | escape_once }}", "1 &lt; 2 &amp; 3"),
        ("{{ context.animals | first }}", "zebra"),
        ("{{ 183.357 | floor }}", "183"),
        ("{{ context.animals | join: ' and ' }}", "zebra and octopus and giraffe and Sally Snake"),
        ("{{ context.animals | last }}", "Sally Snake"),
        ("{{ '  So much room   ' | lstrip }}!", "So much room   !"),
        ("{{ context.items | map: 'room' | join: ',' }}", "hall,kitchen,kitchen"),
        ("{{ 16 | minus: 4 }}", "12"),
        ("{{ 24 | modulo: 7 }}", "3"),
        ("{{ 'Hello\nthere' | newline_to_br }}", "Hello<br />\nthere"),
        ("{{ 183.357 | plus: 12 }}", "195.357"),
        ("{{ 'apples, oranges' | prepend: 'Some fruit: ' }}", "Some fruit: apples, oranges"),
        ("{{ 'I strained to see the train' | remove: 'rain' }}", "I sted to see the t"),
        ("{{ 'I strained to see the train' | remove_first: 'rain' }}", "I sted to see the train"),
        ("{{ 'my pills and my helmet' | replace: 'my', 'your' }}", "your pills and your helmet"),
        ("{{ 'my pills and my helmet' | replace_first: 'my', 'your' }}", "your pills and my helmet"),
        ("{{ context.list | reverse | join: ',' }}", "a,b"),
        ("{{ 1.2 | round }}", "1"),
        ("{{ 183.357 | round: 2 }}", "183.36"),
        ("{{ '  So much room   ' | rstrip }}!", "  So much room!"),
        ("{{ 'Ground control to Major Tom.' | size }}", "28"),
        ("{{ context.list | sort | join: ',' }}", "a,b"),
        ("{{ context.animals | sort_natural | join: ',' }}", "giraffe,octopus,Sally Snake,zebra"),
        ("{{ 'John, Paul, George' | split: ', ' | join: '+' }}", "John+Paul+George"),
        ("{{ '  So much room   ' | strip }}!", "So much room!"),
        ("{{ 'Have <em>you</em> read <strong>it</strong>?' | strip_html }}", "Have you read it?"),
        ("{{ '\nHello\nthere\n' | strip_newlines }}", "Hellothere"),
        ("{{ 24 | times: 7 }}", "168"),
        ("{{ 'Ground control to Major Tom.' | truncate: 20 }}", "Ground control to..."),
        ("{{ 'Ground control to Major Tom.' | truncate: 25, ', and so on' }}", "Ground control, and so on"),
        ("{{ 'Ground control to Major Tom.' | truncatewords: 3 }}", "Ground control to..."),
        ("{{ 'ants bugs bees bugs ants' | split: ' ' | uniq | join: ',' }}", "ants,bugs,bees"),
        ("{{ 'Parker Moore' | upcase }}", "PARKER MOORE"),
        ("{{ '%27Stop%21%27+said+Fred' | url_decode }}", "'Stop!' said Fred"),
        ("{{ 'john@liquid.com' | url_encode }}", "john%40liquid.com"),
        ("{{ context.items | where: 'room', 'kitchen' | map: 'name' | join: ',' }}", "pan,pot"),
    ] {
        check(template, expected);
    }
}

/// Those that the engine lacks. `has` is Sprig's.
#[test]
fn every_newer_filter_of_liquid_as_documented() {
    for (template, expected) in [
        (
            "{{ 'Take my protein pills and put my helmet on' | replace_last: 'my', 'your' }}",
            "Take my protein pills and put your helmet on",
        ),
        ("{{ 'a' | replace_last: 'b', 'c' }}", "a"),
        ("{{ 'a' | replace_last: '', 'b' }}", "ab"),
        ("{{ 'äöü' | replace_last: 'ö', 'o' }}", "äoü"),
        (
            "{{ 'I strained to see the train through the rain' | remove_last: 'rain' }}",
            "I strained to see the train through the ",
        ),
        ("{{ context.numbers | sum }}", "6"),
        ("{{ context.stock | sum: 'count' }}", "7.5"),
        ("{{ context.stock | sum: 'unknown' }}", "0"),
        ("{{ context.nested | sum }}", "10"),
        ("{{ nil | sum }}", "0"),
        ("{{ 'inf' | sum }}", "0"),
        ("{{ context.items | find: 'room', 'kitchen' | get: 'name' }}", "pan"),
        ("{{ context.stock | find: 'sold' | get: 'name' }}", "pot"),
        ("{{ context.stock | find: 'count', 4 | get: 'name' }}", "pan"),
        ("{{ context.items | find: 'room', 'attic' }}", ""),
        ("{{ context.items | find_index: 'room', 'kitchen' }}", "1"),
        ("{{ context.items | find_index: 'room', 'attic' }}", ""),
        ("{{ context.items | reject: 'room', 'kitchen' | map: 'name' | join: ',' }}", "mop"),
        ("{{ context.stock | reject: 'sold' | map: 'name' | join: ',' }}", "mop,pan"),
        ("{{ nil | reject: 'sold' | size }}", "0"),
        ("{{ nil | find: 'sold' }}{{ nil | find_index: 'sold' }}", ""),
    ] {
        check(template, expected);
    }
}

#[test]
fn newer_filters_refuse_what_they_cannot_do() {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let context = json!({"list": ["s3cret-7f3e"], "numbers": [i64::MAX, 1], "floats": [1e308, 1e308]});
    for (template, part) in [
        ("{{ context.list | find: 'name' }}", "has no properties"),
        ("{{ context.list | find_index: 'name', 1 }}", "has no properties"),
        ("{{ context.list | reject: 'name' }}", "has no properties"),
        ("{{ context.list | sum: 'name' }}", "has no properties"),
        ("{{ context.list | find }}", "the name of a property"),
        ("{{ context.list | reject: '' }}", "the name of a property"),
        ("{{ context.list | find: 'a', 1, 2 }}", "too many"),
        ("{{ 'a' | replace_last: 'a', 'b', 'c' }}", "too many"),
        ("{{ 'a' | remove_last: 'a', 'b' }}", "too many"),
        ("{{ context.numbers | sum }}", "too large"),
        ("{{ context.floats | sum }}", "too large"),
    ] {
        let told = refused(&with_context(automation.clone(), context.clone(), &[("in", template)]));
        assert!(told.contains(part), "{template}: {told}");
        assert!(!told.contains("s3cret"), "{template}: {told}");
    }
}

#[test]
fn sprig_as_documented() {
    for (template, expected) in [
        ("{{ 'hello!' | upper }}", "HELLO!"),
        ("{{ 'First Try' | initials }}", "FT"),
        ("{{ 'FirstName' | snakecase }}", "first_name"),
        ("{{ 'FirstName' | kebabcase }}", "first-name"),
        ("{{ 'http_server' | camelcase }}", "HttpServer"),
        ("{{ 'a b' | nospace }}", "ab"),
        ("{{ 'x' | quote }}", "\"x\""),
        ("{{ 'x' | squote }}", "'x'"),
        ("{{ 'a\nb' | indent: 2 }}", "  a\n  b"),
        ("{{ 'a' | nindent: 2 }}", "\n  a"),
        ("{{ '' | default: 'foo' }}", "foo"),
        ("{{ true | ternary: 'a', 'b' }}", "a"),
        ("{{ 'hello' | b64enc }}", "aGVsbG8="),
        ("{{ 'aGVsbG8=' | b64dec }}", "hello"),
        ("{{ 'hello' | sha256sum }}", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
        ("{{ context.map | toJson }}", "{\"a\":1}"),
        ("{{ '1.2.3' | toString }}", "1.2.3"),
        ("{{ 'foo/bar.txt' | ext }}", ".txt"),
        ("{{ 'foo/bar.txt' | base }}", "bar.txt"),
    ] {
        check(template, expected);
    }
}

/// What stands before the bar is the first argument. Values are those of Sprig's documentation where it has one.
#[test]
fn every_function_of_sprig_is_a_filter() {
    for (template, expected) in [
        // Text.
        ("{{ 5 | abbrev: 'hello world' }}", "he..."),
        ("{{ 5 | abbrevboth: 10, '1234 5678 9123' }}", "...5678..."),
        ("{{ 'This Is A.Test' | swapcase }}", "tHIS iS a.tEST"),
        ("{{ 'hello world' | title }}", "Hello World"),
        ("{{ 'Hello World' | untitle }}", "hello world"),
        ("{{ 'HELLO' | lower }}", "hello"),
        ("{{ '   hello    ' | trim }}", "hello"),
        ("{{ '$' | trimAll: '$5.00' }}", "5.00"),
        ("{{ '-' | trimPrefix: '-hello' }}", "hello"),
        ("{{ '-' | trimSuffix: 'hello-' }}", "hello"),
        ("{{ 5 | trunc: 'hello world' }}", "hello"),
        ("{{ -5 | trunc: 'hello world' }}", "world"),
        ("{{ 0 | substr: 5, 'hello world' }}", "hello"),
        ("{{ 5 | wrapWith: '/', 'Hello World' }}", "Hello/World"),
        ("{{ 'hello w o r l d' | nospace }}", "helloworld"),
        ("{{ 'hello' | cat: 'beautiful', 'world' }}", "hello beautiful world"),
        ("{{ 3 | repeat: 'hello' }}", "hellohellohello"),
        ("{{ 'I Am Henry VIII' | replace: ' ', '-' }}", "I-Am-Henry-VIII"),
        ("{{ 'one anchovy' | plural: 'many anchovies', 1 }}", "one anchovy"),
        ("{{ 'one anchovy' | plural: 'many anchovies', 2 }}", "many anchovies"),
        ("{{ 'cat' | contains: 'catch' }}", "true"),
        ("{{ 'cat' | hasPrefix: 'catch' }}", "true"),
        ("{{ 'ch' | hasSuffix: 'catch' }}", "true"),
        ("{{ '$' | splitList: 'foo$bar$baz' | join: '-' }}", "foo-bar-baz"),
        ("{{ '$' | splitn: 2, 'foo$bar$baz' | get: '_1' }}", "bar$baz"),
        ("{{ context.list | sortAlpha | join: ',' }}", "a,b"),
        ("{{ 1 | list: 2 | toStrings | join: ',' }}", "1,2"),
        // Numbers.
        ("{{ 1 | add: 2, 3 }}", "6"),
        ("{{ 1 | add1 }}", "2"),
        ("{{ 1.5 | addf: 2, 2 }}", "5.5"),
        ("{{ 1.5 | add1f }}", "2.5"),
        ("{{ 5 | sub: 2 }}", "3"),
        ("{{ 7.5 | subf: 2, 3 }}", "2.5"),
        ("{{ 1 | mul: 2, 3 }}", "6"),
        ("{{ 1.5 | mulf: 2, 2 }}", "6"),
        ("{{ 7 | div: 2 }}", "3"),
        ("{{ 10 | divf: 2, 4 }}", "1.25"),
        ("{{ 7 | mod: 2 }}", "1"),
        ("{{ 1 | max: 2, 3 }}", "3"),
        ("{{ 1 | biggest: 2, 3 }}", "3"),
        ("{{ 1 | min: 2, 3 }}", "1"),
        ("{{ 1 | maxf: 2.5, 2 }}", "2.5"),
        ("{{ 1.5 | minf: 2, 3 }}", "1.5"),
        ("{{ 123.001 | ceil }}", "124"),
        ("{{ 123.9999 | floor }}", "123"),
        ("{{ 123.555555 | round: 3 }}", "123.556"),
        ("{{ '5' | int }}", "5"),
        ("{{ '5' | int64 }}", "5"),
        ("{{ '5.5' | float64 }}", "5.5"),
        ("{{ '5' | atoi }}", "5"),
        ("{{ '0777' | toDecimal }}", "511"),
        ("{{ 5 | seq }}", "1 2 3 4 5"),
        ("{{ 5 | until | join: '-' }}", "0-1-2-3-4"),
        ("{{ 3 | untilStep: 6, 2 | join: '-' }}", "3-5"),
        // Lists.
        ("{{ 1 | list: 2, 3 | join: ',' }}", "1,2,3"),
        ("{{ 1 | tuple: 2 | join: ',' }}", "1,2"),
        ("{{ context.list | last }}", "a"),
        ("{{ context.list | rest | join: ',' }}", "a"),
        ("{{ context.list | initial | join: ',' }}", "b"),
        ("{{ context.list | push: 'c' | join: ',' }}", "b,a,c"),
        ("{{ context.list | mustAppend: 'c' | join: ',' }}", "b,a,c"),
        ("{{ context.list | mustPrepend: 'c' | join: ',' }}", "c,b,a"),
        ("{{ context.list | concat: context.list | join: ',' }}", "b,a,b,a"),
        ("{{ context.list | concat: context.list | uniq | join: ',' }}", "b,a"),
        ("{{ context.list | reverse | join: ',' }}", "a,b"),
        ("{{ context.list | without: 'a' | join: ',' }}", "b"),
        ("{{ 'a' | has: context.list }}", "true"),
        ("{{ context.list | mustSlice: 1 | join: ',' }}", "a"),
        ("{{ 1 | chunk: context.list | size }}", "2"),
        ("{{ 0 | all: 1 }}", "false"),
        ("{{ 0 | any: 1 }}", "true"),
        ("{{ '' | coalesce: 'x' }}", "x"),
        ("{{ 'hello' | shuffle | size }}", "5"),
        // Maps.
        ("{{ 'a' | dict: 1 | toJson }}", "{\"a\":1}"),
        ("{{ context.map | get: 'a' }}", "1"),
        ("{{ context.map | set: 'b', 2 | toJson }}", "{\"a\":1,\"b\":2}"),
        ("{{ context.map | unset: 'a' | toJson }}", "{}"),
        ("{{ context.map | hasKey: 'b' }}", "false"),
        ("{{ context.map | keys | join: ',' }}", "a"),
        ("{{ context.map | values | join: ',' }}", "1"),
        ("{{ context.other | pick: 'b' | toJson }}", "{\"b\":3}"),
        ("{{ context.other | omit: 'b' | toJson }}", "{\"a\":2}"),
        ("{{ 'a' | pluck: context.map, context.other | join: ',' }}", "1,2"),
        ("{{ 'a' | dig: 'none', context.map }}", "1"),
        ("{{ 'z' | dig: 'none', context.map }}", "none"),
        ("{{ context.map | merge: context.other | toJson }}", "{\"a\":1,\"b\":3}"),
        ("{{ context.map | mergeOverwrite: context.other | toJson }}", "{\"a\":2,\"b\":3}"),
        ("{{ context.map | deepCopy | toJson }}", "{\"a\":1}"),
        ("{{ context.map | deepEqual: context.other }}", "false"),
        // Types.
        ("{{ 'x' | kindOf }}", "string"),
        ("{{ 'x' | typeOf }}", "string"),
        ("{{ 'string' | kindIs: 'x' }}", "true"),
        ("{{ 'string' | typeIs: 'x' }}", "true"),
        ("{{ 'string' | typeIsLike: 'x' }}", "true"),
        ("{{ '' | empty }}", "true"),
        // Encodings.
        ("{{ 'a' | b32enc }}", "ME======"),
        ("{{ 'ME======' | b32dec }}", "a"),
        ("{{ context.map | toPrettyJson }}", "{\n  \"a\": 1\n}"),
        ("{{ '<' | toRawJson }}", "\"<\""),
        ("{{ '{\"a\": 1}' | fromJson | get: 'a' }}", "1"),
        (
            "{{ 'http://admin:secret@server.com:8080/api?list=false#anchor' | urlParse | get: 'host' }}",
            "server.com:8080",
        ),
        ("{{ 'http://server.com/api' | urlParse | urlJoin }}", "http://server.com/api"),
        // Expressions.
        ("{{ '[a-zA-Z][1-9]' | regexFind: 'abcd1234' }}", "d1"),
        ("{{ '[2,4,6,8]' | regexFindAll: '123456789', -1 | join: ',' }}", "2,4,6,8"),
        ("{{ 'a(x*)b' | regexReplaceAll: '-ab-axxb-', '${1}W' }}", "-W-xxW-"),
        ("{{ 'a(x*)b' | regexReplaceAllLiteral: '-ab-axxb-', '${1}' }}", "-${1}-${1}-"),
        ("{{ 'z+' | regexSplit: 'pizza', -1 | join: ',' }}", "pi,a"),
        ("{{ '1.2.3' | regexQuoteMeta }}", "1\\.2\\.3"),
        ("{{ '^a+$' | regexMatch: 'aab' }}", "false"),
        // Times.
        ("{{ '2006-01-02' | toDate: '2017-12-31' | htmlDate }}", "2017-12-31"),
        ("{{ '2006-01-02' | toDate: '2017-12-31' | unixEpoch }}", "1514678400"),
        ("{{ '95' | duration }}", "1m35s"),
        ("{{ '2h10m5s' | durationRound }}", "2h"),
        (
            "{% assign d = '2006-01-02' | toDate: '2017-12-31' %}{{ '02/01/2006' | dateInZone: d, 'UTC' }}",
            "31/12/2017",
        ),
        (
            "{% assign d = '2006-01-02' | toDate: '2017-12-31' %}{{ '24h' | dateModify: d | htmlDate }}",
            "2018-01-01",
        ),
        // Paths.
        ("{{ 'foo/bar/baz' | dir }}", "foo/bar"),
        ("{{ 'foo/bar/../baz' | clean }}", "foo/baz"),
        ("{{ '/foo' | isAbs }}", "true"),
        ("{{ '/etc/fs_path.txt' | osBase }}", "fs_path.txt"),
        ("{{ '/etc/fs_path.txt' | osDir }}", "/etc"),
        ("{{ '/etc/fs_path.txt' | osExt }}", ".txt"),
        ("{{ '/etc/../fs_path.txt' | osClean }}", "/fs_path.txt"),
        ("{{ 'root' | osIsAbs }}", "false"),
        // Digests, chance, versions.
        ("{{ 'Hello world!' | sha1sum }}", "d3486ae9136e7856bc42212385ea797094475802"),
        ("{{ 'Hello world!' | sha512sum | slice: 0, 16 }}", "f6cde2a0f819314c"),
        ("{{ 'Hello world!' | adler32sum }}", "487130206"),
        ("{{ 1 | derivePassword: 'long', 'password', 'user', 'example.com' }}", "ZedaFaxcZaso9*"),
        ("{% assign c = 'key' | encryptAES: 'plain' %}{{ 'key' | decryptAES: c }}", "plain"),
        ("{{ 'u' | htpasswd: 'p' | slice: 0, 5 }}", "u:$2a"),
        ("{{ 'p' | bcrypt | size }}", "60"),
        ("{{ 'ecdsa' | genPrivateKey | slice: 0, 10 }}", "-----BEGIN"),
        ("{{ 5 | randAlpha | size }}", "5"),
        ("{{ 5 | randNumeric | size }}", "5"),
        ("{{ 5 | randAscii | size }}", "5"),
        ("{{ 8 | randBytes | size }}", "12"),
        ("{{ 5 | randInt: 6 }}", "5"),
        ("{{ '1.2.3-alpha.1+b' | semver | get: 'Prerelease' }}", "alpha.1"),
        ("{{ '^1.2.0' | semverCompare: '1.3.0' }}", "true"),
    ] {
        check(template, expected);
    }
}

#[test]
fn what_reads_the_machine_is_refused_by_name() {
    for filter in ["env", "expandenv", "getHostByName"] {
        let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
        let template = format!("{{{{ 'HOME' | {filter} }}}}");
        let told = refused(&with_context(automation, json!({}), &[("in", &template)]));
        assert!(told.contains(filter) && told.contains("refused"), "{told}");
    }
}

#[test]
fn what_is_unknown_is_told() {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    for (template, part) in
        [("a\n{{ context.nane }}", "line 2"), ("{{ context.nane }}", "nane"), ("{{ 'a' | upcse }}", "upcse")]
    {
        let told = refused(&with_context(automation.clone(), json!({"name": "x"}), &[("in", template)]));
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn chance_is_the_same_on_every_run() {
    let automation = json!({"creates": {"templates": [{"source": "in", "destination": "out"}]}});
    let mut request = with_context(automation, json!({}), &[("in", "{{ 16 | randAlphaNum }}")]);
    let first = run(&request).unwrap();
    assert_eq!(text(&first, "out").len(), 16);
    assert_eq!(run(&request).unwrap(), first);
    request.seed = "another".to_owned();
    assert_ne!(run(&request).unwrap(), first);
}
