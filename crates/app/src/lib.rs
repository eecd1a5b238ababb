//! Use cases by noun, authorisation, jobs. Knows no adapter.
