//! Forms, as `describe` tells of them.

use std::fmt::Write as _;

use plural_wire::PrConfiguration;

use crate::plain::one_line;

/// What a form asks, a line each below a heading; nothing where it asks nothing.
pub(crate) fn asks(questions: &[PrConfiguration]) -> String {
    if questions.is_empty() {
        return String::new();
    }
    let mut text = "Asks:\n".to_owned();
    for question in questions {
        let mut told = format!("{} {}", question.name, question.kind.as_str());
        if !question.values.is_empty() {
            let _ = write!(told, " of {}", question.values.join(", "));
        }
        match &question.default {
            Some(default) => {
                let _ = write!(told, ", else {default}");
            }
            None if question.optional == Some(true) => told.push_str(", optional"),
            None => {}
        }
        if let Some(documentation) = &question.documentation {
            let _ = write!(told, ": {documentation}");
        }
        let _ = writeln!(text, "  {}", one_line(&told));
    }
    text
}
