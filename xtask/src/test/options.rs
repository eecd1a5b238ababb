//! The words after `--`: options of libtest, the harness that every test program has.

/// Options whose value may be a word of its own.
const WITH_VALUE: [&str; 7] =
    ["--test-threads", "--skip", "--color", "--format", "--logfile", "--shuffle-seed", "-Z"];

/// What every test program gets from the command line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a> {
    pub(super) filter: Option<&'a str>,
    pub(super) rest: &'a [String],
}

impl<'a> Options<'a> {
    /// All words, in the order in which `cargo test` passes them.
    pub(super) fn words(self) -> impl Iterator<Item = &'a str> {
        self.filter.into_iter().chain(self.rest.iter().map(String::as_str))
    }

    /// Whether an option is given, with or without a value.
    pub(super) fn has(self, option: &str) -> bool {
        self.rest.iter().any(|word| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    }

    /// Whether only some tests are asked for.
    pub(super) fn selects(self) -> bool {
        let mut is_value = false;
        let is_selected = self.rest.iter().any(|word| {
            let is_filter = !is_value && !word.starts_with('-');
            is_value = WITH_VALUE.contains(&word.as_str());
            is_filter
        });
        let options = ["--skip", "--exact", "--ignored", "--include-ignored", "--list"];
        self.filter.is_some() || is_selected || options.into_iter().any(|option| self.has(option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(filter: Option<&str>, rest: &str, selects: bool) {
        let rest: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        assert_eq!(Options { filter, rest: &rest }.selects(), selects, "{filter:?} {rest:?}");
    }

    #[test]
    fn filters_are_told_from_values() {
        check(None, "", false);
        check(Some("renames"), "", true);
        check(None, "renames", true);
        check(None, "--test-threads 1 --nocapture", false);
        check(None, "--test-threads=1 renames", true);
        check(None, "--skip slow", true);
    }

    #[test]
    fn an_option_is_a_whole_word() {
        let rest = ["--test-threads=1".to_owned(), "--nocapture".to_owned()];
        let options = Options { filter: Some("a"), rest: &rest };
        assert!(options.has("--test-threads") && options.has("--nocapture"));
        assert!(!options.has("--test") && !options.has("--color"));
        assert_eq!(options.words().collect::<Vec<_>>(), ["a", "--test-threads=1", "--nocapture"]);
    }
}
