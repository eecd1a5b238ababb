//! The guard as an HTTP client's resolver.

use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::{Guard, NoAddress};

/// Connections are made to what it returns, so nothing is looked up a second time between the check and the use. The client does not ask
/// it for a literal address: whoever takes an address from others checks that with [`Reach::check`](crate::Reach::check).
impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            match guard.addresses(name.as_str()).await {
                Ok(allowed) => {
                    Ok(Box::new(allowed.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
                }
                Err(NoAddress::OutOfReach(error)) => Err(error.into()),
                Err(NoAddress::Lookup(error)) => Err(error.into()),
            }
        })
    }
}
