//! The forms that a name has in sources, and where they stand.

/// The words that a name of several parts is found by.
#[derive(Debug)]
pub(super) struct Words {
    /// Where such a form begins a word.
    starts: Vec<String>,
    /// Where such a form is anywhere in a word.
    parts: Vec<String>,
}

impl Words {
    /// Of a noun: `saved_view…`, `…SavedView…`, `savedView…`, `saved-view…`, in the singular and the plural.
    pub(super) fn of_noun(noun: &str) -> Self {
        let mut words = Self { starts: Vec::new(), parts: Vec::new() };
        for name in [noun.to_owned(), plural(noun)] {
            words.starts.extend([name.clone(), camel(&name), name.replace('_', "-")]);
            words.parts.push(pascal(&name));
        }
        words
    }

    /// Of a setting: the same in every case, anywhere in a word.
    pub(super) fn of_setting(name: &str) -> Self {
        let forms = [name.to_owned(), camel(name), pascal(name), name.replace('_', "-"), name.to_uppercase()];
        Self { starts: Vec::new(), parts: forms.into() }
    }

    /// Whether a line has one of them.
    pub(super) fn are_in(&self, line: &str) -> bool {
        self.parts.iter().any(|part| line.contains(part.as_str()))
            || self.starts.iter().any(|start| {
                line.match_indices(start.as_str()).any(|(at, _)| {
                    let before = line.get(..at).and_then(|before| before.chars().next_back());
                    !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                })
            })
    }

    pub(super) fn lines_in(&self, text: &str) -> usize {
        text.lines().filter(|line| self.are_in(line)).count()
    }
}

/// `repository` is `repositories`.
pub(super) fn plural(noun: &str) -> String {
    noun.strip_suffix('y').map_or_else(|| format!("{noun}s"), |stem| format!("{stem}ies"))
}

fn pascal(name: &str) -> String {
    name.split('_').map(upper_first).collect()
}

fn camel(name: &str) -> String {
    let (first, rest) = name.split_once('_').unwrap_or((name, ""));
    format!("{first}{}", pascal(rest))
}

fn upper_first(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_is_found_in_its_forms() {
        let words = Words::of_noun("saved_view");
        for line in
            ["mod saved_view;", "SAVED: NewSavedViewId", "\"savedViews\"", "cd saved-views", "saved_views_by"]
        {
            assert!(words.are_in(line), "{line}");
        }
        for line in ["unsaved_view", "my_saved_view", "unsavedView", "saved view", "savedview"] {
            assert!(!words.are_in(line), "{line}");
        }
        assert!(Words::of_noun("sync_policy").are_in("sync_policies"));
    }

    #[test]
    fn a_setting_is_found_in_every_case() {
        let words = Words::of_setting("prune_percent");
        let text =
            "prune_percent\nprunePercent\nPRUNE_PERCENT\n--prune-percent\nnew_prune_percent\nprune percent\n";
        assert_eq!(words.lines_in(text), 5);
    }
}
