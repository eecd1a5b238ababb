//! Ports for programs that cannot be told "any".

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::OwnedFd,
};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, ipproto, socket, sockopt};

/// A loopback port that was free a moment ago. Another process may take it before the program binds it, so
/// callers start again with a new one when the program ends early.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A loopback address that the OS gives to nobody else while this lives, for a server that is to come back where it was.
///
/// It is a socket that is bound and never listens. Linux lets another one with `SO_REUSEADDR`, as servers have it, listen
/// there, but chooses the port neither for a server that takes any nor for an outgoing connection.
#[derive(Debug)]
pub struct HeldAddress {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl HeldAddress {
    /// Holds a port that the OS chooses.
    ///
    /// # Errors
    /// When there is none.
    pub fn new() -> io::Result<Self> {
        let held = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP))?;
        rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::CLOEXEC)?;
        sockopt::set_socket_reuseaddr(&held, true)?;
        bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = SocketAddr::try_from(getsockname(&held)?)?;
        Ok(Self { address, _socket: held })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_comes_and_goes_where_it_is_held() {
        let held = HeldAddress::new().unwrap();
        for _ in 0..3 {
            assert!(std::net::TcpStream::connect(held.address()).is_err(), "nobody listens");
            let server = TcpListener::bind(held.address()).unwrap();
            std::net::TcpStream::connect(held.address()).unwrap();
            drop(server);
        }
        let others: Vec<TcpListener> = (0..500).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap() != held.address()));
    }
}
