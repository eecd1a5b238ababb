use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{parse, parse_documents, split_documents, to_string};

fn read(text: &str) -> Value {
    parse(text.as_bytes()).unwrap()
}

fn fails(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn scalars_have_the_types_of_yaml_1_1() {
    assert_eq!(
        read("[yes, Off, y, ~, null, 0o17, 017, 0x1F, 0b11, 1_000, +1, -0b1, 1e3, .5, 1., 12e03, 1.5]"),
        json!([true, false, true, null, null, 15, 15, 31, 3, 1000, 1, -1, 1000, 0.5, 1, 12000, 1.5])
    );
    assert_eq!(
        read("[1.2.3, 08, 1:30, 2001-01-02, 12e, '1', \"yes\", !!str 5, !!int \"7\", 1__0, <<]"),
        json!(["1.2.3", 8, "1:30", "2001-01-02", "12e", "1", "yes", "5", 7, 10, "<<"])
    );
}

#[test]
fn collections_and_blocks() {
    assert_eq!(
        read(
            "a:\n- 1\n- b: 2\n  c: |\n    x\n     y\n\n  d: >-\n    one\n    two\n\n    three\n'e f': {g: [h, i: j], k}\n"
        ),
        json!({"a": [1, {"b": 2, "c": "x\n y\n", "d": "one two\nthree"}],
               "e f": {"g": ["h", {"i": "j"}], "k": null}})
    );
    assert_eq!(read("a: b\n  c\n  d # no\ne: \"x\\\n  y\\u00e9\\n\"\n"), json!({"a": "b c d", "e": "xyé\n"}));
    assert_eq!(read("? a\n: b\n? c\n"), json!({"a": "b", "c": null}));
    assert_eq!(read("1: a\ntrue: b\n1.5: c\n"), json!({"1": "a", "true": "b", "1.5": "c"}));
    assert_eq!(read("a: 1\na: 2\n"), json!({"a": 2}));
    assert_eq!(read("--- \na: 1\n---\nb: 2\n"), json!({"a": 1}));
    assert_eq!(read("# nothing\n"), Value::Null);
}

#[test]
fn anchors_and_merges() {
    assert_eq!(
        read("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\nc: *x\nd:\n  <<: [{q: 5}, *x]\n"),
        json!({"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}, "c": {"p": 1, "q": 2}, "d": {"p": 1, "q": 5}})
    );
    assert_eq!(fails("a: *nope\n"), "yaml: unknown anchor 'nope' referenced");
    assert_eq!(fails("a: &a [*a]\n"), "yaml: anchor 'a' value contains itself");
    let bomb = "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\n";
    assert_eq!(fails(bomb), "yaml: document contains excessive aliasing");
}

#[test]
fn errors_are_worded_as_in_go() {
    assert_eq!(fails("a: b: c\n"), "yaml: mapping values are not allowed in this context");
    assert_eq!(fails("x: 1\na: b: c\n"), "yaml: line 2: mapping values are not allowed in this context");
    assert_eq!(fails("a: 'b\n"), "yaml: line 2: found unexpected end of stream");
    assert_eq!(fails("a: @b\n"), "yaml: found character that cannot start any token");
    assert_eq!(
        fails("a:\n  - b\n c: d\n"),
        "yaml: line 2: did not find expected '-' indicator".replace("'-' indicator", "key")
    );
    assert_eq!(
        fails("a: [b\nc: d\n"),
        "yaml: line 2: did not find expected ',' or ']'".replace("line 2", "line 1")
    );
    assert_eq!(fails("a: .inf\n"), "json: unsupported value: +Inf");
    assert!(fails(&"[".repeat(5000)).contains("exceeded max depth"), "{}", fails(&"[".repeat(5000)));
}

#[test]
fn texts_are_quoted_where_they_must_be() {
    let cases = [
        ("plain text", "plain text"),
        ("", "\"\""),
        ("true", "\"true\""),
        ("y", "\"y\""),
        ("1", "\"1\""),
        ("2001-01-02", "\"2001-01-02\""),
        ("12:30", "\"12:30\""),
        ("<<", "<<"),
        ("a\u{FEFF}b c", "\"a\\uFEFFb c\""),
        ("\u{FEFF}b c", "\"\\uFEFF\\x62\\x20\\x63\""),
        ("- a", "'- a'"),
        ("a: b", "'a: b'"),
        ("a:b", "a:b"),
        ("it's", "it's"),
        ("'", "''''"),
        ("#x", "'#x'"),
        ("a #x", "'a #x'"),
        ("a\tb", "\"a\\tb\""),
        (" a", "' a'"),
        ("{{ x }}", "'{{ x }}'"),
        ("é", "é"),
        ("😀", "\"\\U0001F600\""),
        ("a\nb", "|-\n  a\n  b"),
        ("a\nb\n", "|\n  a\n  b"),
        ("a\n\n", "|+\n  a\n"),
        (" a\nb", "|2-\n   a\n  b"),
        ("a \nb", "\"a \\nb\""),
        ("a\nb ", "\"a\\nb \""),
    ];
    for (text, expect) in cases {
        assert_eq!(to_string(&json!(text)), format!("{expect}\n"), "{text:?}");
    }
}

#[test]
fn documents_are_laid_out_as_in_go() {
    let value = json!({"b": [1, {"c": 2, "d": [[3, 4], []]}, {}], "a": {"x": null, "y10": 1, "y9": true}, "k\nl": "v",
                       "m": "1\n2\n", "f": 1.5, "g": 1_234_567.5});
    assert_eq!(
        to_string(&value),
        "a:\n  x: null\n  y9: true\n  y10: 1\nb:\n- 1\n- c: 2\n  d:\n  - - 3\n    - 4\n  - []\n- {}\nf: 1.5\ng: 1.2345675e+06\n\
         ? |-\n  k\n  l\n: v\nm: |\n  1\n  2\n"
    );
    assert_eq!(read(&to_string(&value)), value);
}

#[test]
fn documents_split_as_helm_splits() {
    assert_eq!(split_documents("---\na\n---\nb\n--- # c\nd"), ["a", "b", "# c\nd"]);
    assert_eq!(split_documents("a: |\n  ---\nb"), ["a: |\n  ---\nb"]);
    assert_eq!(split_documents("a\n\n\n---\n---\n\nb\n---\n"), ["a", "---\n\nb"]);
    assert_eq!(split_documents("x---\ny"), ["x---\ny"]);
    assert_eq!(split_documents("\n \n"), Vec::<&str>::new());
}

#[test]
fn streams_have_documents_that_know_their_lines() {
    let lines = |text: &str| -> Vec<(usize, Value)> {
        let documents = parse_documents(text.as_bytes(), 1000).unwrap();
        documents.into_iter().map(|document| (document.line, document.value)).collect()
    };
    assert_eq!(
        lines("# c\n---\na: 1\n---\n---\n\nb: 2\n...\n"),
        [(3, json!({"a": 1})), (3, Value::Null), (7, json!({"b": 2}))]
    );
    assert_eq!(
        lines("a: &x 1\n--- # next\nb: |\n  --- no\n"),
        [(1, json!({"a": 1})), (3, json!({"b": "--- no\n"}))]
    );
    assert_eq!(lines(""), []);
    assert_eq!(lines("%YAML 1.1\n---\na\n...\nb\n"), [(3, json!("a")), (5, json!("b"))]);
    let fails = |text: &str| parse_documents(text.as_bytes(), 1000).unwrap_err();
    // An anchor ends with its document.
    assert!(fails("a: &x 1\n---\nb: *x\n").to_string().contains("unknown anchor"));
    let twice = fails("a: 1\nb: {c: 1, d: 2, c: 3}\n");
    assert_eq!((twice.line(), twice.reason()), (2, "the key \"c\" appears twice"));
    assert!(fails(&"- 1\n".repeat(2000)).to_string().contains("more than 1000 values"));
    assert!(fails("'a' b\n").to_string().contains("did not find expected"));
}

#[test]
fn aliases_do_not_make_values_deeper_than_the_limit() {
    let mut text = "a0: &a0 x\n".to_owned();
    for n in 1..100 {
        let (open, close) = ("[".repeat(900), "]".repeat(900));
        let _ = writeln!(text, "a{n}: &a{n} {open}*a{}{close}", n - 1);
    }
    assert_eq!(fails(&text), "yaml: exceeded max depth of 1000");
}

/// Texts of lines and pieces of lines that are often, seldom or never YAML.
fn random_text(state: &mut u64) -> String {
    const PIECES: [&str; 58] = [
        "a",
        "b1",
        "a: ",
        "b: ",
        "c:",
        "key:\n",
        "- ",
        "- ",
        "-",
        "-1",
        "- - ",
        "\n",
        "\n",
        "\n",
        "\n",
        "\n",
        "\n  ",
        "\n  ",
        "\n  ",
        "\n    ",
        "\n    ",
        "\n   ",
        "\n\n",
        "\n \n",
        "  ",
        " ",
        " # note\n",
        "# x",
        "'q'",
        "\"d\"",
        "\"d\": ",
        "'it''s'",
        "\"\\n\"",
        "{}",
        "[]",
        "{a: b}",
        "[x, y]",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "|\n",
        ">-\n",
        "&x ",
        "*x",
        "!!str ",
        "? ",
        ": ",
        "---\n",
        "...\n",
        "\t",
        "\r\n",
        "é",
        "\u{2028}",
        "<<: ",
        "true",
        "1.5",
    ];
    let mut next = |below: usize| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % below
    };
    (0..=next(24)).map(|_| PIECES[next(PIECES.len())]).collect()
}

#[test]
fn the_short_way_through_blocks_reads_what_the_tokens_say() {
    let read = |text: &str, tokens: bool| {
        let mut build = super::JsonBuild { keep_floats: false };
        let composer = super::compose::Composer::new(text, &mut build, super::compose::Rules::GO);
        let mut composer = if tokens { composer.tokens_only() } else { composer };
        composer.documents().map_err(|error| error.to_string())
    };
    let mut state = 7;
    let mut read_well = 0;
    for _ in 0..200_000 {
        let text = random_text(&mut state);
        let by_tokens = read(&text, true);
        let quickly = read(&text, false);
        // Of two things that are wrong, the scanner may see the later one first: it looks a token ahead.
        let about_meaning =
            |error: &String| ["map key", "anchor", "map merge"].iter().any(|words| error.contains(words));
        if !(by_tokens.is_err() && quickly.as_ref().is_err_and(about_meaning)) {
            assert_eq!(quickly, by_tokens, "{text:?}");
        }
        read_well += usize::from(by_tokens.is_ok_and(|documents| !documents.is_empty()));
    }
    assert!(read_well > 20_000, "{read_well} of them are YAML");
}
