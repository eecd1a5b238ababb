//! YAML as the build reads and writes it: a tree that remembers tags and quoting, read with the grammar of libyaml,
//! and a writer for objects with sorted keys.

pub(crate) mod emit;
pub(crate) mod load;
pub(crate) mod node;
pub(crate) mod number;
pub(crate) mod resolve;
pub(crate) mod scanner;
pub(crate) mod text;
pub(crate) mod write;
