//! Runs of stacks from the commit to what it changes: the console, the agent and the harness are processes of their own, the tools are
//! real, and the Jobs run on a simulated cluster with its runner, or on the real control plane with a small node.

mod actor;
mod chain;
mod days;
mod definition;
mod depends;
mod drift;
mod exec;
mod forged;
mod fork;
mod imports;
mod life;
mod place;
mod pod_days;
mod policy;
mod tool_days;
mod tutorial;
mod web;
mod web_life;
mod world;
