//! What a service's objects say of themselves: the images that they run, the host names that they answer to.

use serde::{Deserialize, Serialize};

/// Images and host names, each sorted and none twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceMetadata {
    /// Container images, as manifests name them.
    pub images: Vec<String>,
    /// Host names; the first label may be `*`.
    pub fqdns: Vec<String>,
}

impl ServiceMetadata {
    /// Entries of one kind that are kept.
    pub const MOST: usize = 500;
    /// Bytes of one image; longer ones are left out.
    pub const LONGEST_IMAGE: usize = 512;
    /// Bytes of one host name (RFC 1035); longer ones are left out.
    pub const LONGEST_FQDN: usize = 253;

    /// In order, without what is twice, too long, odd, or too much.
    pub fn of(images: impl IntoIterator<Item = String>, fqdns: impl IntoIterator<Item = String>) -> Self {
        let images = images.into_iter().filter(|image| is_image(image));
        let fqdns = fqdns.into_iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        Self { images: first(images), fqdns: first(fqdns.filter(|name| is_fqdn(name))) }
    }
}

fn first(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = all.collect();
    all.sort_unstable();
    all.dedup();
    all.truncate(ServiceMetadata::MOST);
    all
}

fn is_image(image: &str) -> bool {
    (1..=ServiceMetadata::LONGEST_IMAGE).contains(&image.len())
        && image.bytes().all(|byte| byte.is_ascii_graphic())
}

/// At least two labels of letters, digits and hyphens: what has one only is a name within a cluster.
fn is_fqdn(name: &str) -> bool {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    // Four numbers are an address.
    let is_address = rest.parse::<std::net::Ipv4Addr>().is_ok();
    name.len() <= ServiceMetadata::LONGEST_FQDN
        && rest.contains('.')
        && rest.split('.').all(label)
        && !is_address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_once_bounded_and_only_what_can_be_one() {
        let many = (0..600).map(|number| format!("example.com/image:{number:03}"));
        let told = ServiceMetadata::of(many.chain(["a b".to_owned(), "x".repeat(600)]), []);
        assert_eq!((told.images.len(), told.images[0].as_str()), (500, "example.com/image:000"));
        let names = [
            "www.example.com",
            "WWW.example.com.",
            "*.example.com",
            "localhost",
            "10.0.0.1",
            "a..b",
            "with space.example.com",
            "",
            "example.com:8080",
            "*",
        ];
        let told = ServiceMetadata::of([], names.map(str::to_owned));
        assert_eq!(told.fqdns, ["*.example.com", "www.example.com"]);
    }
}
