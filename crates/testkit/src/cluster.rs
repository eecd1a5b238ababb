//! One test body, two kinds of cluster.
