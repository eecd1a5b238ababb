//! Test server with named actors, temporary databases, clusters, git remotes.
