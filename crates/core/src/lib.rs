//! Nouns, ids, states and pure decisions. No IO.
