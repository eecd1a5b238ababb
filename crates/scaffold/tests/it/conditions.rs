//! Conditions of templates.

use plural_scaffold::condition::holds;
use serde_json::json;

#[test]
fn conditions_read_the_context() {
    let context =
        json!({"cloud": "aws", "size": 3, "on": true, "off": false, "none": null, "tags": ["a"], "n": "10"});
    for (condition, expected) in [
        ("", true),
        ("context.cloud == \"aws\"", true),
        ("cloud == 'gcp' || context.size >= 3", true),
        ("cloud == 'aws' && !on", false),
        ("not off and (off or on)", true),
        ("context.missing == \"\"", true),
        ("missing.deeper", false),
        ("none == ''", true),
        ("cloud in [\"aws\", \"azure\"]", true),
        ("'a' in tags", true),
        ("n > 9", true),
        ("size == '3'", true),
        ("context[\"cloud\"] != 'aws'", false),
        ("tags[0] == 'a'", true),
        ("on == true", true),
        // Words are no numbers.
        ("'inf' == 'infinity'", false),
        ("'nan' == 'nan'", true),
    ] {
        assert_eq!(holds(condition, &context), Ok(expected), "{condition}");
    }
}

#[test]
fn what_is_no_condition_is_told() {
    for condition in ["cloud ==", "(cloud", "cloud 'aws'", "'open", "a $ b", "context.", "[1"] {
        assert!(holds(condition, &json!({})).is_err(), "{condition}");
    }
    assert!(holds(&"!".repeat(1000), &json!({})).unwrap_err().contains("nests deeper"));
    assert!(holds(&"a".repeat(5000), &json!({})).unwrap_err().contains("longer"));
}
