//! Which addresses are talked to: [`Reach`], for the HTTP client.

use std::net::SocketAddr;

use plural_reach::{Guard, NoAddress, Reach};
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

use crate::{
    access::shown,
    error::{Cause, Error, Result},
};

/// Checks a literal address in a URL, which is connected to without being looked up.
pub(crate) fn check_url(reach: Reach, url: &Url) -> Result<()> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(address) => reach.check(address).map_err(|why| {
            Error::new(
                Cause::Refused,
                format!("{} {why}, which this console does not connect to", shown(url)),
            )
        }),
        Err(_) => Ok(()),
    }
}

/// The guard as the HTTP client's resolver. Connections are made to what it returns, so nothing is looked up a second time
/// between the check and the use.
pub(crate) struct Resolver(pub(crate) Guard);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_address_is_checked_however_it_is_written() {
        for address in [
            "http://169.254.169.254/",
            "http://0xa9fea9fe/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://2852039166/",
        ] {
            let error = check_url(Reach::Local, &Url::parse(address).unwrap()).unwrap_err();
            assert_eq!(error.cause, Cause::Refused, "{address}");
        }
        for address in ["http://127.1/", "http://0x7f.0.0.1/", "http://[::1]/"] {
            assert!(check_url(Reach::Private, &Url::parse(address).unwrap()).is_err(), "{address}");
        }
    }
}
