//! What code of Terraform, OpenTofu and Terragrunt refers to below its repository: the sources of local modules, and files that it reads.
//!
//! Only what stands there as a text is seen. A path that is put together while the tool runs has to be named with the stack's files.

use serde_json::Value;

use super::references::{Reference, ReferenceKind};

/// Whether a file of this name is such code.
pub(super) fn is_one(name: &str) -> bool {
    let ends = [".tf", ".tofu", ".tf.json", ".tofu.json"];
    ends.into_iter().any(|end| name.ends_with(end)) || name == "terragrunt.hcl"
}

/// All that the code refers to by a path that begins with `./`, `../` or `${path.module}/`.
pub(super) fn references(text: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    if text.trim_start().starts_with('{') {
        if let Ok(document) = serde_json::from_str::<Value>(text) {
            json(&document, false, &mut found);
        }
    } else {
        hcl(text, &mut found);
    }
    found
}

fn json(value: &Value, is_source: bool, found: &mut Vec<Reference>) {
    match value {
        Value::String(text) => add(text, is_source, found),
        Value::Array(many) => many.iter().for_each(|one| json(one, is_source, found)),
        Value::Object(map) => map.iter().for_each(|(name, one)| json(one, name == "source", found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Goes over the code and looks at each text in quotes, but for those in comments.
fn hcl(text: &str, found: &mut Vec<Reference>) {
    let mut rest = text;
    // The name that a value is about to be given to, and whether the equals sign was there.
    let (mut name, mut is_given) = ("", false);
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        if first == '#' || rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, next)| next);
        } else if rest.starts_with("/*") {
            rest = rest[2..].split_once("*/").map_or("", |(_, next)| next);
        } else if rest.starts_with("<<") {
            rest = behind_heredoc(rest);
        } else if first == '"' {
            let (quoted, next) = quoted(after);
            add(quoted, is_given && name == "source", found);
            (rest, name, is_given) = (next, "", false);
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "_-".contains(c))).unwrap_or(rest.len());
            (name, is_given) = (&rest[..end], false);
            rest = &rest[end..];
        } else {
            if first == '=' {
                is_given = true;
            } else if !first.is_whitespace() {
                (name, is_given) = ("", false);
            }
            rest = after;
        }
    }
}

/// A text up to its closing quote, and what is behind that. Quotes of what is put into it do not close it.
fn quoted(text: &str) -> (&str, &str) {
    let (mut depth, mut escaped, mut inner) = (0_usize, false, false);
    let mut last = '\0';
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if depth == 0 && c == '"' {
            return (&text[..at], &text[at + 1..]);
        } else if depth == 0 && c == '\n' {
            // It was none: what follows is looked at as if it had been closed.
            return ("", &text[at..]);
        } else if c == '"' {
            inner = !inner;
        } else if !inner && c == '{' && (depth > 0 || last == '$' || last == '%') {
            depth += 1;
        } else if !inner && c == '}' {
            depth = depth.saturating_sub(1);
        }
        last = c;
    }
    ("", "")
}

/// Behind a text of several lines, `<<END` or `<<-END`, which ends with the line `END`.
fn behind_heredoc(text: &str) -> &str {
    let Some((head, mut rest)) = text.split_once('\n') else { return "" };
    let end = head.trim_start_matches('<');
    let end = end.strip_prefix('-').unwrap_or(end).trim_end();
    // `<<` of anything else.
    if !end.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return &text[2..];
    }
    while let Some((line, next)) = rest.split_once('\n') {
        if line.trim() == end {
            return next;
        }
        rest = next;
    }
    ""
}

fn add(text: &str, is_source: bool, found: &mut Vec<Reference>) {
    let target = text.strip_prefix("${path.module}/").unwrap_or(text);
    let is_local = target != text || target.starts_with("./") || target.starts_with("../");
    if !is_local || target.contains("${") || target.contains("%{") || target.contains('\\') {
        return;
    }
    let (target, kind) = if is_source {
        // The tools take all of what stands before `//`.
        (target.split_once("//").map_or(target, |(all, _)| all), ReferenceKind::Maybe)
    } else {
        (target, ReferenceKind::MaybeFile)
    };
    let reference = Reference { target: target.to_owned(), kind };
    if !found.contains(&reference) {
        found.push(reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReferenceKind::{Maybe, MaybeFile};

    fn check(text: &str, expect: &[(ReferenceKind, &str)]) {
        let found: Vec<_> = references(text).into_iter().map(|it| (it.kind, it.target)).collect();
        let expect: Vec<_> = expect.iter().map(|(kind, target)| (*kind, (*target).to_owned())).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn sources_of_local_modules_and_files_are_seen() {
        check(
            r#"
module "net" {
  source = "../modules/net" # as a folder
  cidr   = "10.0.0.0/16"
  source_of = "../not-a-folder"
}
module "registry" { source = "hashicorp/consul/aws" }
module "git" { source = "git::https://example.com/x.git//../y" }
locals {
  policy = file("${path.module}/../policies/a.json")
  template = templatefile("./a.tftpl", { name = "${var.name}" })
  built = "../${var.name}/x"
  nested = "${join("/", ["../seen-only-inside"])}"
}
"#,
            &[
                (Maybe, "../modules/net"),
                (MaybeFile, "../not-a-folder"),
                (MaybeFile, "../policies/a.json"),
                (MaybeFile, "./a.tftpl"),
            ],
        );
        check(r#"terraform { source = "../../modules//vpc" }"#, &[(Maybe, "../../modules")]);
        check(
            r#"{"module": {"net": {"source": "../modules/net"}}, "locals": {"a": "${file(\"x\")}", "b": "./b"}}"#,
            &[(MaybeFile, "./b"), (Maybe, "../modules/net")],
        );
    }

    #[test]
    fn comments_and_texts_of_several_lines_are_not() {
        check(
            "# source = \"../a\"\n// source = \"../b\"\n/* source = \"../c\"\n */\nx = <<-END\n  \"../d\n  END\nsource = \"../e\"\n",
            &[(Maybe, "../e")],
        );
        check("x = \"open\nsource = \"../a\"\n", &[(Maybe, "../a")]);
        check("x = 1 << 2\nsource = \"../a\"\n", &[(Maybe, "../a")]);
        for broken in ["\"", "x = <<END\n", "/*", "\"${", "\"${\"", "<<", "\\", "{", "source = \"../a"] {
            check(broken, &[]);
        }
    }

    #[test]
    fn only_code_is_looked_into() {
        for (name, is) in [
            ("main.tf", true),
            ("main.tofu", true),
            ("main.tf.json", true),
            ("terragrunt.hcl", true),
            (".terraform.lock.hcl", false),
            ("a.tfvars", false),
            ("a.yaml", false),
        ] {
            assert_eq!(is_one(name), is, "{name}");
        }
    }
}
