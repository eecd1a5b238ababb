//! What Terragrunt's code does besides naming modules: it writes code, takes in files of any name, and runs commands before a tool reads
//! anything. Where a project says from where modules may come, that is refused as far as nobody can read it before.

use crate::module_code::{Document, Source, Unreadable, Value, is_module_code, visit};

/// What names of Terragrunt's files end with.
const FILES: [&str; 2] = [".hcl", ".hcl.json"];

/// The function that runs a command wherever it stands.
const RUNS: &str = "run_cmd";
/// The function that reads another file as Terragrunt's code wherever it stands, with all that it runs.
const READS: &str = "read_terragrunt_config";
/// Blocks inside of `terraform` by which other programs, arguments and variables come in.
const INSIDE: [&str; 4] = ["before_hook", "after_hook", "error_hook", "extra_arguments"];

/// A part of the code that matters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It cannot be checked, for this reason.
    Unchecked(String),
    /// It writes this code.
    Writes(String),
}

/// What of a file of this name matters.
///
/// # Errors
/// [`Unreadable`] for what is no such code.
pub(crate) fn parts(path: &str, content: &[u8]) -> Result<Vec<Part>, Unreadable> {
    if !FILES.iter().any(|end| path.ends_with(end)) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let (runs, reads) = match Document::of(path, content)? {
        Document::Json(document) => {
            for (name, inner) in document.entries() {
                match name.as_str() {
                    name @ ("generate" | "remote_state" | "include" | "terraform_binary") => {
                        found.push(Part::Unchecked(format!("{name} in a file of JSON is not read")));
                    }
                    "terraform" => {
                        let inside = inner.entries();
                        let names = inside.iter().map(|(name, _)| name.as_str());
                        found.extend(names.filter(|name| INSIDE.contains(name)).map(inside_terraform));
                    }
                    _ => {}
                }
            }
            (document.says(RUNS), document.says(READS))
        }
        Document::Code(text) => {
            visit(text, &mut |blocks, name, value| found.extend(part(blocks, name, value)))?;
            (
                text.contains(RUNS),
                without_comments(text).split(READS).skip(1).any(|behind| !reads_checked(behind)),
            )
        }
    };
    if runs {
        found.push(Part::Unchecked(format!("{RUNS} runs commands before any module is read")));
    }
    if reads {
        found.push(Part::Unchecked(format!(
            "{READS} names no file that ends with .hcl, and no other is checked"
        )));
    }
    Ok(found)
}

/// Code without the lines that are comments. In a file with block comments or heredocs a line that looks like one may be none.
fn without_comments(text: &str) -> String {
    let is_plain = !text.contains("/*") && !text.contains("<<");
    let is_comment = |line: &str| ["#", "//"].iter().any(|sign| line.trim_start().starts_with(sign));
    text.split_inclusive('\n').filter(|line| !(is_plain && is_comment(line))).collect()
}

fn part(blocks: &[&str], name: &str, value: Option<Value<'_>>) -> Option<Part> {
    let why = match (blocks, name, value) {
        ([], "terraform_binary", Some(_)) => "terraform_binary names another program".to_owned(),
        ([], "generate" | "remote_state", Some(_)) => {
            format!("{name} is put together while the tool runs, and writes code")
        }
        (["generate"], "contents", Some(value)) => match written(value) {
            Some(code) => return Some(Part::Writes(code)),
            None => "generate writes code that cannot be told before it runs".to_owned(),
        },
        (["remote_state"], "generate", _) => {
            "remote_state writes code (generate): name the backend in the code itself".to_owned()
        }
        (["include"], "path", Some(value)) if !is_checked(&value) => {
            "include names no file that ends with .hcl, and no other is checked".to_owned()
        }
        (["terraform"], name, None) if INSIDE.contains(&name) => return Some(inside_terraform(name)),
        _ => return None,
    };
    Some(Part::Unchecked(why))
}

fn inside_terraform(name: &str) -> Part {
    Part::Unchecked(format!("{name} of terraform brings in commands, arguments or variables"))
}

/// What a block writes, where that stands there as it is written.
fn written(value: Value<'_>) -> Source {
    value.text.or(value.lines)
}

/// Whether a file that is taken in is checked as all code is, wherever it is: by what its name ends with.
fn is_checked(Value { text, lines: _, is_quoted, raw }: &Value<'_>) -> bool {
    if let Some(path) = text {
        return is_checked_name(path);
    }
    let inside = |raw: &str| raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).map(str::to_owned);
    let is_name = |name: &str| !name.contains(|c: char| "\"\\${}%".contains(c)) && is_checked_name(name);
    if *is_quoted {
        // Whatever is put in before the last step.
        return inside(raw).is_some_and(|path| path.rsplit_once('/').is_some_and(|(_, name)| is_name(name)));
    }
    let Some(asked) = raw.strip_prefix("find_in_parent_folders(").and_then(|raw| raw.strip_suffix(')'))
    else {
        return false;
    };
    // `terragrunt.hcl`, unless it is told.
    asked.trim().is_empty() || inside(asked.trim()).is_some_and(|name| is_name(&name))
}

/// Whether a file of this name is checked as Terragrunt's code. A `.tf` is code of the tool to us, and Terragrunt would read it all the same.
fn is_checked_name(path: &str) -> bool {
    FILES.iter().any(|end| path.ends_with(end)) && is_module_code(path)
}

/// Whether what stands behind the name of [`READS`] begins with a call that reads a file which is checked.
fn reads_checked(behind: &str) -> bool {
    let Some(inside) = behind.trim_start().strip_prefix('(') else { return false };
    let mut depth = 0_usize;
    let end = inside.find(|c: char| {
        match c {
            ')' | ',' if depth == 0 => return true,
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        false
    });
    // Wherever it is cut: what is one whole text up to a comma or a bracket is the first argument.
    let Some(asked) = end.and_then(|end| inside.get(..end)).map(str::trim) else { return false };
    // Behind a comment the argument may go on.
    if ["\n", "#", "//", "/*"].iter().any(|odd| asked.contains(odd)) {
        return false;
    }
    let code = format!("asked = {asked}\n");
    let mut checked = Vec::new();
    let read = visit(&code, &mut |_, _, value| checked.push(value.is_some_and(|value| is_checked(&value))));
    read.is_ok() && checked == [true]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<Part> {
        parts(path, text.as_bytes()).unwrap_or_else(|_| panic!("unreadable: {text}"))
    }

    #[test]
    fn what_writes_code_is_read_or_refused() {
        let code = "module \"x\" {\n  source = \"a/b/c\"\n}\n";
        assert_eq!(
            told(
                "a/terragrunt.hcl",
                &format!("generate \"x\" {{\n  path = \"x.tf\"\n  contents = <<EOT\n{code}EOT\n}}\n")
            ),
            [Part::Writes(code.to_owned())]
        );
        assert_eq!(
            told("a/terragrunt.hcl", "generate \"x\" {\n  contents = \"a = 1\"\n}\n"),
            [Part::Writes("a = 1".to_owned())]
        );
        for (text, why) in [
            ("generate \"x\" {\n  contents = <<EOT\n${local.code}\nEOT\n}\n", "generate writes code"),
            ("generate \"x\" {\n  contents = file(\"x\")\n}\n", "generate writes code"),
            ("generate \"x\" {\n  contents = \"a\\nb\"\n}\n", "generate writes code"),
            ("generate = local.all\n", "generate is put together"),
            ("remote_state = local.all\n", "remote_state is put together"),
            ("remote_state {\n  generate = { path = \"b.tf\" }\n}\n", "remote_state writes code"),
            ("remote_state {\n  generate {\n    path = \"b.tf\"\n  }\n}\n", "remote_state writes code"),
            ("terraform_binary = \"./evil\"\n", "terraform_binary"),
            ("terraform {\n  before_hook \"x\" {\n    commands = []\n  }\n}\n", "before_hook"),
            ("terraform {\n  extra_arguments \"x\" {\n    env_vars = {}\n  }\n}\n", "extra_arguments"),
            ("locals {\n  x = run_cmd(\"curl\")\n}\n", "run_cmd"),
        ] {
            let found = told("terragrunt.hcl", text);
            assert!(
                matches!(found.as_slice(), [Part::Unchecked(told)] if told.contains(why)),
                "{text}: {found:?}"
            );
            assert!(told("main.tf", text).is_empty(), "{text}");
        }
        for fine in [
            "terraform {\n  source = \"../x\"\n}\ninputs = { generate = 1 }\n",
            "remote_state {\n  backend = \"http\"\n  config = {}\n}\n",
            "dependency \"a\" {\n  config_path = \"../a\"\n}\n",
        ] {
            assert!(told("terragrunt.hcl", fine).is_empty(), "{fine}");
        }
    }

    #[test]
    fn what_is_taken_in_is_checked_by_its_name() {
        for (path, checked) in [
            ("find_in_parent_folders()", true),
            ("find_in_parent_folders(\"root.hcl\")", true),
            ("find_in_parent_folders(\"root.txt\")", false),
            ("find_in_parent_folders(\"root.tf\")", false),
            ("\"../root.tf\"", false),
            ("\"${get_repo_root()}/env/root.tofu.json\"", false),
            ("find_in_parent_folders(\"a.hcl\", \"b.txt\")", false),
            ("find_in_parent_folders(\".terraform.lock.hcl\")", false),
            ("\"../root.hcl\" # as all do", true),
            ("\"../root.inc\" # \"root.hcl\"", false),
            ("\"${get_repo_root()}/env/root.hcl\"", true),
            ("\"${get_repo_root()}/env/.terraform.lock.hcl\"", false),
            ("\"${\".terraform.lock\"}.hcl\"", false),
            ("\"${local.a}/${local.b}.hcl\"", false),
            ("local.x ? \"a.inc\" : \"/b.hcl\"", false),
            ("local.path", false),
        ] {
            let found = told("terragrunt.hcl", &format!("include \"root\" {{\n  path = {path}\n}}\n"));
            assert_eq!(found.is_empty(), checked, "{path}: {found:?}");
        }
    }

    #[test]
    fn what_a_function_reads_is_checked_by_its_name() {
        for (asked, checked) in [
            ("(\"env.hcl\")", true),
            ("(\"env.hcl\", {})", true),
            ("(find_in_parent_folders(\"env.hcl\")).locals.a", true),
            ("(find_in_parent_folders())", true),
            ("(\"${get_repo_root()}/env.hcl\")", true),
            ("(\n    \"env.hcl\"\n  )", true),
            ("(\"env.tf\")", false),
            ("(\"env.inc\", \"a.hcl\")", false),
            ("(find_in_parent_folders(\"env.tf\"))", false),
            ("(local.path)", false),
            ("(true ? \"env.inc\" : \"a.hcl\")", false),
            (" /* a */ (\"env.inc\")", false),
            ("(\"a.hcl\" # ,\n == \"\" ? \"\" : \"env.inc\")", false),
        ] {
            let text = format!("locals {{\n  x = read_terragrunt_config{asked}\n}}\n");
            let found = told("terragrunt.hcl", &text);
            assert_eq!(found.is_empty(), checked, "{asked}: {found:?}");
        }
        let said = "# env.hcl is for read_terragrunt_config, see root.hcl\nlocals {\n  // read_terragrunt_config(x)\n}\n";
        assert!(told("terragrunt.hcl", said).is_empty(), "a comment reads nothing");
        // The second line is code.
        let hidden = "locals {\n  a = <<E\nx\nE\n  b = [ /*\n# */ read_terragrunt_config(\"env.inc\") ]\n}\n";
        assert!(!told("terragrunt.hcl", hidden).is_empty());
    }

    #[test]
    fn json_is_refused_where_it_does_more_than_name_modules() {
        for (text, why) in [
            (r#"{"generate": {"x": {"contents": "a"}}}"#, "generate"),
            (r#"{"include": {"x": {"path": "../root.hcl"}}}"#, "include"),
            (r#"[{"remote_state": {}}]"#, "remote_state"),
            (r#"{"terraform": [{"after_hook": {"x": {}}}]}"#, "after_hook"),
            (r#"{"locals": {"x": "${\u0072un_cmd(\"curl\")}"}}"#, "run_cmd"),
            (r#"{"locals": {"x": "${read_terragrunt_config(\"a.hcl\")}"}}"#, "read_terragrunt_config"),
        ] {
            let found = told("terragrunt.hcl.json", text);
            assert!(
                matches!(found.as_slice(), [Part::Unchecked(told)] if told.contains(why)),
                "{text}: {found:?}"
            );
        }
        assert!(
            told("terragrunt.hcl.json", r#"{"terraform": {"source": "../a"}, "inputs": {"a": 1}}"#)
                .is_empty()
        );
    }
}
