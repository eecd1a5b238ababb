//! `.liquid` files: Liquid templates over configuration, cluster and service.
//!
//! The engine is the `liquid` crate. What could run or grow without end is replaced or wrapped:
//! loops and captures are our own, every filter pays for the bytes it reads and writes, the output
//! has a limit, nesting is measured before parsing, and time comes from the inputs.

mod blocks;
mod budget;
mod filters;
mod newer;
mod sprig;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use liquid::{Object, Parser, ParserBuilder};
use parking_lot::Mutex;
use plural_gotemplate::random::Random;

use self::sprig::Chance;
use crate::{
    error::Problem,
    inputs::{ClusterInput, Inputs, ServiceInput},
    rendering::RenderingInput,
};

/// Output of one template.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
/// Source of one template.
const MAX_SOURCE_BYTES: usize = 4 << 20;
/// Blocks inside blocks, and brackets inside one tag: the engine's parser recurses over both.
const MAX_NESTING: usize = 50;

/// Templates of one service.
pub(crate) struct Liquid<'i> {
    parser: Result<Parser, String>,
    data: Object,
    inputs: &'i Inputs,
    chance: Chance,
}

impl<'i> Liquid<'i> {
    /// Templates that see the data of `inputs`.
    pub(crate) fn new(inputs: &'i Inputs) -> Self {
        let chance: Chance = Arc::new(Mutex::new(Random::new(&inputs.seed, "")));
        let parser = blocks::register(filters::register(ParserBuilder::new(), inputs.clock_ms, &chance))
            .build()
            .map_err(|error| error.to_string());
        let data = liquid::to_object(&inputs.data()).unwrap_or_default();
        Self { parser, data, inputs, chance }
    }

    /// The text that the template at `path` gives.
    pub(crate) fn render(&self, path: &str, source: &[u8]) -> Result<String, Problem> {
        let problem = |line, message| Problem { path: path.to_owned(), line, message };
        let source = std::str::from_utf8(source)
            .map_err(|_| problem(0, "the template is not UTF-8 text".to_owned()))?;
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("the template is larger than {} MiB", MAX_SOURCE_BYTES >> 20);
            return Err(problem(0, message));
        }
        if let Some(line) = nested_too_deep(source) {
            return Err(problem(line, format!("blocks or brackets nest deeper than {MAX_NESTING}")));
        }
        let parser = self.parser.as_ref().map_err(|message| problem(0, message.clone()))?;
        // What a file draws does not depend on the files before it.
        self.chance.lock().restart(&self.inputs.seed, path);
        // The engine panics on a few inputs (an integer that fits no i64): that is this file's
        // problem, not the agent's.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let template = parser.parse(source).map_err(|error| error.to_string())?;
            let mut output = budget::Output::new(MAX_OUTPUT_BYTES);
            template.render_to(&mut output, &self.data).map_err(|error| error.to_string())?;
            Ok(output.into_bytes())
        }));
        let bytes = outcome
            .unwrap_or_else(|_| Err("the template engine cannot read this template".to_owned()))
            .map_err(|message| {
                let (line, message) = self.explain(source, &message);
                problem(line, message)
            })?;
        String::from_utf8(bytes).map_err(|_| problem(0, "the output is not UTF-8".to_owned()))
    }

    /// The engine's message in one line without anything that it quotes from the data.
    fn explain(&self, source: &str, message: &str) -> (usize, String) {
        if let Some((line, words)) = unknown_name(source, message) {
            let words = self.inputs.without_values(&words);
            return (line, words.chars().take(500).collect());
        }
        let line = message
            .lines()
            .find_map(|line| line.trim_start_matches("liquid:").trim().strip_prefix("--> "))
            .and_then(|place| place.split(':').next()?.parse().ok())
            .unwrap_or(0);
        let mut lines = message.lines();
        let first = lines.next().unwrap_or_default().trim().trim_start_matches("liquid: ");
        let mut words = if line > 0 {
            // A parse error draws the line; its last line says what was expected.
            let reason = message.lines().find_map(|line| line.trim().strip_prefix("= "));
            reason.unwrap_or(first).to_owned()
        } else {
            first.to_owned()
        };
        for line in lines {
            let line = line.trim();
            if ["requested ", "variable=", "available ", "from: "].iter().any(|p| line.starts_with(p)) {
                words.push_str("; ");
                words.push_str(line);
            }
        }
        let words = self.inputs.without_values(&words);
        (line, words.chars().take(500).collect())
    }
}

/// What to say of a name that the data does not have, and where the template asks for it; nothing of other messages.
fn unknown_name(source: &str, message: &str) -> Option<(usize, String)> {
    let field = |name: &str| {
        message.lines().find_map(|line| line.trim().strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let (variable, known) = match (field("variable="), field("requested variable=")) {
        (Some(variable), _) => (Some(variable), field("available indexes=")),
        (None, Some(_)) => (None, field("available variables=")),
        (None, None) => return None,
    };
    let name = field("requested index=").or_else(|| field("requested variable="))?;
    let asked = match &variable {
        Some(variable) => format!("{variable}.{name}"),
        None => name.clone(),
    };
    let line_of = |is_it: &dyn Fn(&str) -> bool| source.lines().position(is_it).map(|place| place + 1);
    // A part may stand in brackets: a["b"].
    let has_parts = |line: &str| asked.split('.').all(|part| line.contains(part));
    let line = line_of(&|line: &str| line.contains(&asked)).or_else(|| line_of(&has_parts)).unwrap_or(0);
    let has = match known.as_deref() {
        // Of the names at the root the engine tells none.
        None if variable.is_none() => "see the page about services for those that there are".to_owned(),
        None | Some("") => "there are none".to_owned(),
        Some(known) => {
            // The engine tells them in any order: the same error must be the same text.
            let mut names: Vec<&str> = known.split(", ").collect();
            names.sort_unstable();
            format!("there are: {}", names.join(", "))
        }
    };
    let words = match variable.as_deref() {
        Some("configuration") => format!(
            "the configuration has no value {name:?}; {has}. `plural cd services update SERVICE --conf {name}=VALUE` \
             sets it"
        ),
        Some("contexts") => {
            format!(
                "the service reads no context {name:?}; {has}. `plural cd services update SERVICE --context {name}` adds it"
            )
        }
        Some("imports") => format!(
            "the service imports no stack {name:?}; {has}. `plural cd services update SERVICE --import {name}` adds it"
        ),
        Some(variable) if variable.starts_with("imports.") => no_output(variable, &name, &has),
        Some(variable) if variable.starts_with("contexts.") => format!(
            "{variable} has no {name:?}; {has}. An output of a stack that a context takes comes with the stack's next apply; a sensitive \
             one only where the context says that it takes it so"
        ),
        Some(variable) => format!("{variable} has no {name:?}; {has}"),
        None => format!("there is no {name:?} in templates; {has}"),
    };
    Some((line, words))
}

/// What to say of an output that a stack does not have.
fn no_output(variable: &str, name: &str, has: &str) -> String {
    let stack = variable.trim_start_matches("imports.");
    match stack.split_once('.') {
        Some((stack, output)) => {
            format!("the output {output:?} of the stack {stack:?} has no {name:?}; {has}")
        }
        None => format!(
            "the stack {stack:?} has no output {name:?} that the service may read; {has}. Outputs come with the stack's next apply; \
             sensitive ones only where somebody imported the stack who may read its state"
        ),
    }
}

/// A short text with Liquid in it, over any data. It sees no clock: time filters start at the epoch. And there is no
/// secret seed to draw from, so that what would be random is refused: everybody could compute it.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn expand(text: &str, data: &serde_json::Value) -> Result<String, String> {
    let inputs = without_service(&[], 0);
    let mut liquid = Liquid::new(&inputs);
    liquid.data = liquid::to_object(data).map_err(|error| error.to_string())?;
    let expanded = liquid.render("", text.as_bytes()).map_err(|problem| problem.message)?;
    if liquid.chance.lock().was_drawn_from() {
        return Err("random functions cannot be used here: every cluster would get the same value, and \
                    anybody could compute it; use them in the files of the service"
            .to_owned());
    }
    Ok(expanded)
}

/// The data and the chance of templates that belong to no service.
pub struct Drawing<'d> {
    /// What templates see.
    pub data: &'d serde_json::Value,
    /// Milliseconds since 1970-01-01 UTC.
    pub clock_ms: i64,
    /// What random functions draw from, for each file another stream.
    pub seed: &'d [u8],
}

/// The text of the template `source` over any data. `path` is what a problem calls it.
///
/// # Errors
/// What is wrong with it. It may quote values of the data.
pub fn expand_with(path: &str, source: &[u8], drawing: &Drawing<'_>) -> Result<String, Problem> {
    let inputs = without_service(drawing.seed, drawing.clock_ms);
    let mut liquid = Liquid::new(&inputs);
    liquid.data = liquid::to_object(drawing.data).map_err(|error| Problem {
        path: path.to_owned(),
        line: 0,
        message: error.to_string(),
    })?;
    liquid.render(path, source)
}

fn without_service(seed: &[u8], clock_ms: i64) -> Inputs {
    Inputs {
        folder: String::new(),
        templated: true,
        service: ServiceInput::default(),
        cluster: ClusterInput::default(),
        configuration: BTreeMap::new(),
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms,
        seed: seed.to_vec(),
        rendering: RenderingInput::default(),
        api_server: None,
    }
}

/// The line at which blocks or brackets nest too deep, if they do.
fn nested_too_deep(source: &str) -> Option<usize> {
    const OPENING: [&str; 6] = ["if", "unless", "for", "case", "capture", "comment"];
    let mut depth = 0usize;
    let mut rest = source;
    let mut line = 1usize;
    while let Some(at) = rest.find("{%").into_iter().chain(rest.find("{{")).min() {
        line += rest[..at].matches('\n').count();
        let tag = &rest[at + 2..];
        let end = tag.find("%}").into_iter().chain(tag.find("}}")).min().unwrap_or(tag.len());
        let body = &tag[..end];
        let mut brackets = 0usize;
        for c in body.chars() {
            match c {
                '[' | '(' => brackets += 1,
                ']' | ')' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            if brackets > MAX_NESTING {
                return Some(line);
            }
        }
        if rest[at..].starts_with("{%") {
            let word = body.trim_start_matches('-').trim_start();
            let word = word.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            if OPENING.contains(&word) {
                depth += 1;
            } else if word.starts_with("end") {
                depth = depth.saturating_sub(1);
            }
            if depth > MAX_NESTING {
                return Some(line);
            }
        }
        line += body.matches('\n').count();
        rest = &tag[end..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_missing_is_told_with_the_way_out() {
        let data = serde_json::json!({"configuration": {"size": "1"}, "contexts": {"region": {"name": "eu"}}, "cluster": {"handle": "blue"},
            "imports": {"core-net": {"zones": ["a"], "address": {"v4": "10.0.0.1"}}}});
        for (text, expected) in [
            (
                "a\n{{ configuration.greeting }}",
                "the configuration has no value \"greeting\"; there are: size. `plural cd services update SERVICE --conf greeting=VALUE` sets it",
            ),
            (
                "{{ contexts.network.region }}",
                "the service reads no context \"network\"; there are: region. `plural cd services update SERVICE --context network` adds it",
            ),
            ("{{ cluster.handel }}", "cluster has no \"handel\"; there are: handle"),
            ("{{ configurations.size }}", "there is no \"configurations\" in templates; see the page"),
            (
                "{{ imports[\"database\"][\"host\"] }}",
                "the service imports no stack \"database\"; there are: core-net. `plural cd services update SERVICE --import database` adds it",
            ),
            (
                "{{ imports[\"core-net\"][\"subnet\"] }}",
                "the stack \"core-net\" has no output \"subnet\" that the service may read; there are: address, zones. Outputs come",
            ),
            (
                "{{ imports[\"core-net\"].address.v6 }}",
                "the output \"address\" of the stack \"core-net\" has no \"v6\"; there are: v4",
            ),
            (
                "{{ contexts.region.zone }}",
                "contexts.region has no \"zone\"; there are: name. An output of a stack",
            ),
        ] {
            let told = expand(text, &data).unwrap_err();
            assert!(told.contains(expected), "{text:?}: {told}");
        }
        let place = |source: &str| {
            let message = "liquid: Unknown index\n  with:\n    variable=imports.core-net\n    requested index=subnet\n    \
                           available indexes=";
            unknown_name(source, message).unwrap().0
        };
        assert_eq!(place("a\n{{ imports[\"core-net\"][\"subnet\"] }}"), 2);
    }

    #[test]
    fn a_text_without_a_seed_draws_nothing() {
        let data = serde_json::json!({"cluster": {"handle": "blue"}});
        assert_eq!(expand("{{ cluster.handle | upcase }}", &data).unwrap(), "BLUE");
        for drawn in ["{{ 8 | randAlphaNum }}", "{{ 'x' | append: '' }}{{ 4 | randNumeric }}"] {
            let refused = expand(drawn, &data).unwrap_err();
            assert!(refused.contains("random functions"), "{drawn}: {refused}");
        }
    }
}
