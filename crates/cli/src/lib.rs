//! The commands of a person. A library.
