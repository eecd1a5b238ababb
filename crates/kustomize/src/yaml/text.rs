//! How a scalar reads when the third generation of the library prints it: list selectors match against it, and every
//! object is printed and read once more before it comes out.

use std::borrow::Cow;

use super::node::{Data, Node, Style, Tag};
use super::resolve::{Dialect, resolve};
use super::scanner;

/// The text after it was printed and read again. Only folded blocks change: the library prints a line break too many
/// before lines that are indented further, which folding does not take back.
pub(crate) fn reread(node: &Node) -> Cow<'_, str> {
    let text = node.text();
    let other = Style::DOUBLE.with(Style::SINGLE).with(Style::LITERAL);
    if !matches!(node.data, Data::Scalar(_)) || !node.style.has(Style::FOLDED) || node.style.has(other) {
        return Cow::Borrowed(text);
    }
    if text.is_empty() || !super::emit::may_be_block(text) {
        return Cow::Borrowed(text);
    }
    match scanner::block_text(&print_folded(text)) {
        Ok(again) => Cow::Owned(again),
        Err(_) => Cow::Borrowed(text),
    }
}

/// A folded block as the library prints it, indented by two.
fn print_folded(text: &str) -> String {
    let mut out = String::from(">");
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    if !text.ends_with('\n') {
        out.push('-');
    } else if text == "\n" || text.ends_with("\n\n") {
        out.push('+');
    }
    out.push('\n');
    // The library looks at the beginning of the text here, whatever line it is at.
    let doubles =
        !text.trim_start_matches('\n').starts_with([' ', '\t']) && !text.trim_start_matches('\n').is_empty();
    let (mut breaks, mut leading_spaces) = (true, true);
    for c in text.chars() {
        if c == '\n' {
            if !breaks && !leading_spaces && doubles {
                out.push('\n');
            }
            out.push('\n');
            breaks = true;
        } else {
            if breaks {
                out.push_str("  ");
                leading_spaces = c == ' ' || c == '\t';
            }
            out.push(c);
            breaks = false;
        }
    }
    out
}

/// The printed form of a scalar, quotes included. Other shapes print as nothing here: they never match.
pub(crate) fn printed(node: &Node) -> Cow<'_, str> {
    let text = node.text();
    let quoted = |q: char| {
        let doubled = if q == '\'' {
            text.replace('\'', "''")
        } else {
            text.replace('\\', "\\\\").replace('"', "\\\"")
        };
        Cow::Owned(format!("{q}{doubled}{q}"))
    };
    if node.style.has(Style::DOUBLE) {
        return quoted('"');
    }
    if node.style.has(Style::SINGLE) {
        return quoted('\'');
    }
    if node.style.has(Style::TAGGED) && node.tag != Tag::None {
        return Cow::Owned(format!("{} {text}", node.tag.short()));
    }
    if node.tag == Tag::Str && !matches!(resolve(Dialect::New, text).0, Tag::Str) {
        return quoted('"');
    }
    Cow::Borrowed(text)
}
