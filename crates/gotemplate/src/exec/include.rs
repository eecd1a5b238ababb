//! Templates that templates call by name or make out of text: `include` and `tpl`.

use std::{collections::HashMap, rc::Rc, sync::Arc};

use super::{Engine, Fault, MAX_TEMPLATE_DEPTH, NO_VALUE, Result, no_template};
use crate::{
    parse, strconv,
    value::{Str, Value},
};

/// How often a name may be included by itself.
const MAX_INCLUDES: usize = 1000;

/// Bytes that the tree of a text may have for each byte of it.
const TREE_BYTES: usize = 32;

impl Engine<'_> {
    /// `include`
    pub(crate) fn include(&mut self, name: &Str, dot: &Value) -> Result<Value> {
        let count = self.included.entry(name.clone()).or_insert(0);
        if *count > MAX_INCLUDES {
            return Err(Fault::Text(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            )));
        }
        *count += 1;
        let mut out = Vec::new();
        let result = match self.find(name) {
            Some(tree) => self.run(&tree, dot, &mut out),
            None => Err(no_template(name)),
        };
        if let Some(count) = self.included.get_mut(name) {
            *count -= 1;
        }
        result?;
        self.charge(out.len())?;
        Ok(Value::string_of(out))
    }

    /// `tpl`
    pub(crate) fn tpl(&mut self, text: &Str, dot: &Value) -> Result<Value> {
        if memchr::memmem::find(text.as_bytes(), b"{{").is_none() {
            return Ok(Value::Str(strip_no_value(text)));
        }
        let parsed = if let Some(parsed) = self.parsed.get(text) {
            parsed.clone()
        } else {
            self.burn(text.len() as u64 / 16)?;
            // Trees are kept to the end, and are larger than their texts.
            self.charge(text.len().saturating_mul(TREE_BYTES))?;
            let trees = parse::parse("gotpl", text).map(|trees| trees.into_iter().map(Arc::new).collect());
            let parsed = Rc::new(trees);
            self.parsed.insert(text.clone(), parsed.clone());
            parsed
        };
        let trees = parsed.as_ref().as_ref().map_err(|error| {
            Fault::Text(format!("cannot parse template {}: {error}", strconv::quote(text)))
        })?;
        let Some((main, defined)) = trees.split_last() else { return Ok(Value::str("")) };
        let mut scope = HashMap::new();
        for tree in defined {
            if tree.is_empty() && self.find(&tree.name).is_some() {
                continue;
            }
            scope.insert(tree.name.clone(), tree.clone());
        }
        let scoped = !scope.is_empty();
        if scoped {
            self.scopes.push(scope);
        }
        if self.depth >= MAX_TEMPLATE_DEPTH {
            return Err(Fault::Limit(format!(
                "tpl inside tpl nests deeper than {MAX_TEMPLATE_DEPTH} (limit of template depth)"
            )));
        }
        let mut out = Vec::new();
        self.depth += 1;
        let result = self.run(main, dot, &mut out);
        self.depth -= 1;
        if scoped {
            self.scopes.pop();
        }
        match result {
            Ok(()) => {}
            Err(Fault::Exec(error) | Fault::Text(error)) => {
                return Err(Fault::Text(format!(
                    "error during tpl function execution for {}: {error}",
                    strconv::quote(text)
                )));
            }
            Err(limit) => return Err(limit),
        }
        self.charge(out.len())?;
        Ok(match Value::string_of(out) {
            Value::Str(text) => Value::Str(strip_no_value(&text)),
            other => other,
        })
    }
}

/// The text without the marks of values that are not there.
fn strip_no_value(text: &Str) -> Str {
    if text.contains(NO_VALUE) { text.replace(NO_VALUE, "").into() } else { text.clone() }
}
