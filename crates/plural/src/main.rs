//! The one binary: dispatches to cli, console, agent.
fn main() {}
