//! For fuzzing: parsers of this crate that nothing else has to reach.
#![doc(hidden)]

use crate::proxy::question::Question;

/// Group, resource, subresource, namespace and name that a request is about.
pub fn question(method: &str, target: &str, upgrade: bool) -> [String; 5] {
    let Question { method: _, group, resource, namespace, name, subresource, upgrade: _ } =
        Question::parse(method, target, upgrade);
    [group, resource, subresource, namespace, name]
}
