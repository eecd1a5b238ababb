//! A tree whose templates read as what they render to.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use plural_kustomize::{Entry, Files};

use crate::{error::Problem, inputs::Inputs, liquid::Liquid, tree::Tree};

/// What makes a file a template.
const TEMPLATE: &str = ".liquid";

/// A tree, with files that stand before its own. Where `a.yaml.liquid` is, `a.yaml` is what that renders to: rendered
/// when it is read, so that only what a build reaches must be in order.
pub(super) struct Overlay<'a> {
    tree: &'a Tree,
    inputs: &'a Inputs,
    added: BTreeMap<String, Vec<u8>>,
    /// By the path that they are read as.
    templates: BTreeMap<String, OnceCell<Option<String>>>,
    liquid: OnceCell<Liquid<'a>>,
    /// The first template that could not be rendered.
    problem: RefCell<Option<Problem>>,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(tree: &'a Tree, inputs: &'a Inputs, added: BTreeMap<String, Vec<u8>>) -> Self {
        let templates = tree.walk("").filter(|_| inputs.templated).filter_map(|(path, _)| {
            let name = path.strip_suffix(TEMPLATE)?;
            Some((name.to_owned(), OnceCell::new()))
        });
        let (liquid, problem) = (OnceCell::new(), RefCell::new(None));
        Self { tree, inputs, added, templates: templates.collect(), liquid, problem }
    }

    /// What kept a template that was read from being rendered.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.problem.borrow().clone()
    }

    fn rendered(&self, path: &str) -> Option<String> {
        let source = format!("{path}{TEMPLATE}");
        let bytes = self.tree.read(&source)?;
        match self.liquid.get_or_init(|| Liquid::new(self.inputs)).render(&source, bytes) {
            Ok(text) => Some(text),
            Err(problem) => {
                self.problem.borrow_mut().get_or_insert(problem);
                None
            }
        }
    }
}

impl Files for Overlay<'_> {
    fn entry(&self, path: &str) -> Option<Entry<'_>> {
        if let Some(bytes) = self.added.get(path) {
            return Some(Entry::File(bytes));
        }
        if let Some(template) = self.templates.get(path) {
            let text = template.get_or_init(|| self.rendered(path));
            return text.as_ref().map(|text| Entry::File(text.as_bytes()));
        }
        self.tree.entry(path)
    }
}
