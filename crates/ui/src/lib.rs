//! The files of the web console, as they were in `ui/dist` when this was compiled. No IO.

/// A file that browsers are given.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Where on the console, `/assets/index-3f2a.js`.
    pub path: &'static str,
    /// Its `Content-Type`.
    pub kind: &'static str,
    /// Its `ETag`, quotes included: of its content.
    pub tag: &'static str,
    /// Its bytes.
    pub plain: &'static [u8],
    /// The same compressed with brotli, where the build made that.
    pub brotli: Option<&'static [u8]>,
    /// The same with gzip.
    pub gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// All files in the order of their paths; none when the web console was not built before this was compiled.
pub const fn assets() -> &'static [Asset] {
    ASSETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_order_and_the_first_page_is_one_of_them() {
        assert!(assets().is_sorted_by_key(|asset| asset.path));
        let has_page = assets().iter().any(|asset| asset.path == "/index.html");
        assert_eq!(has_page, !assets().is_empty());
    }
}
