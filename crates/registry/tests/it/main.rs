//! The client against a real static web server and a real registry.

mod attacks;
mod charts;
mod oci;
mod support;
