//! Edits of texts that a machine makes up.

use plural_scaffold::edit::{DocumentSelector, Edit, Format, edit};
use proptest::prelude::*;
use serde_json::{Value, json};

proptest! {
    #[test]
    fn lines_that_an_edit_does_not_mean_stay(
        entries in prop::collection::btree_map("k[a-z]{0,5}", "[ -~]{0,20}", 1..12),
        chosen in 0usize..12,
        value in "[ -~]{0,30}",
        indent in prop::sample::select(vec![2usize, 4]),
    ) {
        let mut text = "# head\nroot:\n".to_owned();
        for (key, value) in &entries {
            let line = format!("{}{key}: {} # of {key}\n\n", " ".repeat(indent), Value::String(value.clone()));
            text.push_str(&line);
        }
        let key = entries.keys().nth(chosen % entries.len()).unwrap();
        let wanted: Edit = serde_json::from_value(json!({"op": "set", "path": format!("root.{key}"), "value": value})).unwrap();
        let whole = DocumentSelector::default();
        let edited = edit(&text, Format::Yaml, &whole, &wanted).unwrap();
        prop_assert_eq!(edited.lines().count(), text.lines().count());
        let head = format!("{}{key}: ", " ".repeat(indent));
        for (before, after) in text.lines().zip(edited.lines()) {
            if before.starts_with(&head) {
                let comment = format!(" # of {key}");
                prop_assert!(after.ends_with(&comment));
            } else {
                prop_assert_eq!(before, after);
            }
        }
        prop_assert_eq!(edit(&edited, Format::Yaml, &whole, &wanted).unwrap(), edited);
    }

    #[test]
    fn no_edit_of_any_text_panics(text in "[ -~\n]{0,200}", path in "[a-z.\\[\\]0-9=]{0,12}") {
        let Ok(wanted) = serde_json::from_value::<Edit>(json!({"op": "set", "path": path, "value": {"a": [1, "b"]}})) else {
            return Ok(());
        };
        for format in [Format::Yaml, Format::Json, Format::Toml] {
            let _ = edit(&text, format, &DocumentSelector::default(), &wanted);
        }
    }
}
