//! `.helmignore`

use plural_gotemplate::glob;

/// Rules of what a chart's folder leaves out.
#[derive(Debug)]
pub(super) struct Rules {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    rule: String,
    negated: bool,
    folders_only: bool,
    /// Matched against the whole path, not the last part of it.
    whole: bool,
}

impl Rules {
    /// Reads a file; no file is an empty one.
    ///
    /// # Errors
    /// When a rule cannot be read.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Self { patterns: Vec::new() };
        for line in text.trim_start_matches('\u{FEFF}').lines().chain(["templates/.?*"]) {
            rules.add(line.trim())?;
        }
        Ok(rules)
    }

    fn add(&mut self, rule: &str) -> Result<(), String> {
        if rule.is_empty() || rule.starts_with('#') {
            return Ok(());
        }
        if rule.contains("**") {
            return Err("double-star (**) syntax is not supported".to_owned());
        }
        if glob::path_match(rule, "abc").is_none() {
            return Err("syntax error in pattern".to_owned());
        }
        let (negated, rule) = rule.strip_prefix('!').map_or((false, rule), |rule| (true, rule));
        let (folders_only, rule) = rule.strip_suffix('/').map_or((false, rule), |rule| (true, rule));
        let whole = rule.contains('/');
        let rule = rule.strip_prefix('/').unwrap_or(rule).to_owned();
        self.patterns.push(Pattern { rule, negated, folders_only, whole });
        Ok(())
    }

    fn ignores(&self, path: &str, folder: bool) -> bool {
        for pattern in &self.patterns {
            let subject = if pattern.whole { path } else { path.rsplit('/').next().unwrap_or(path) };
            let matched = glob::path_match(&pattern.rule, subject).unwrap_or(false);
            if pattern.negated {
                if pattern.folders_only && !folder || !matched {
                    return true;
                }
                continue;
            }
            if (folder || !pattern.folders_only) && matched {
                return true;
            }
        }
        false
    }

    /// Whether a file is left out, or a folder that it lies in.
    pub(super) fn leave_out(&self, path: &str) -> bool {
        path.match_indices('/').any(|(at, _)| self.ignores(&path[..at], true)) || self.ignores(path, false)
    }
}
