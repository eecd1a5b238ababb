//! Ports for programs that cannot be told "any".

use std::{io, net::TcpListener};

/// A loopback port that was free a moment ago. Another process may take it before the program binds it, so
/// callers start again with a new one when the program ends early.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
