//! A file tree and inputs become Kubernetes objects. No IO, clock or randomness of its own.
