//! Mirrors, tree ids, artifacts.
