//! How a Kubernetes API server behaves, stated once and tried on every kind of cluster. What holds on the real one
//! decides; the simulation is trusted only as far as these cases go.

mod access;
mod apply;
mod crud;
mod custom;
mod delete;
mod discovery;
mod garbage;
mod lists;
mod patch;
mod subresources;
mod support;
mod tables;
mod watch;
