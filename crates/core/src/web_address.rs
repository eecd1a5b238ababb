//! Where people read a git repository with a browser.

use crate::repository::RepositoryUrl;
use crate::service::GitRef;
use crate::specs::Change;
use crate::{Error, Result};

/// How hosts of git address a folder, unless a repository says otherwise.
const USUAL_FORMAT: &str = "{url}/tree/{ref}/{folder}";
/// Bytes of each text.
const LONGEST: usize = 2048;

/// Where people read a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebAddress {
    /// The repository's page; follows from its URL when absent.
    pub https_path: Option<String>,
    /// How the address of a folder is made from `{url}`, `{ref}` and `{folder}`.
    pub url_format: Option<String>,
}

/// What changes of where people read a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebAddressChange {
    https_path: Change<String>,
    url_format: Change<String>,
}

impl WebAddressChange {
    /// A change to these; an empty text clears, an absent one keeps.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what would not become an address of a page.
    pub fn new(https_path: Option<String>, url_format: Option<String>) -> Result<Self> {
        let change = |given: Option<String>| match given {
            None => Change::Keep,
            Some(text) if text.is_empty() => Change::Clear,
            Some(text) => Change::Set(text),
        };
        let plain =
            |text: &str| text.len() <= LONGEST && !text.contains(|c: char| c.is_control() || c == ' ');
        if let Some(path) = https_path.as_deref().filter(|path| !path.is_empty())
            && !(is_page(path) && plain(path))
        {
            return Err(Error::invalid(
                "attributes.httpsPath",
                "must be the address of a page, such as https://git.example.com/team/app",
            ));
        }
        if let Some(format) = url_format.as_deref().filter(|format| !format.is_empty())
            && !((format.starts_with("{url}") || is_page(format)) && plain(format))
        {
            let reason = format!("must begin with {{url}} or https://, such as {USUAL_FORMAT}");
            return Err(Error::invalid("attributes.urlFormat", reason));
        }
        Ok(Self { https_path: change(https_path), url_format: change(url_format) })
    }

    /// What `before` becomes.
    pub fn over(self, before: WebAddress) -> WebAddress {
        let Self { https_path, url_format } = self;
        WebAddress {
            https_path: https_path.over(before.https_path),
            url_format: url_format.over(before.url_format),
        }
    }
}

impl WebAddress {
    /// Where people read a folder of the repository at `url`; `None` where that is not known.
    pub fn of_folder(&self, url: &RepositoryUrl, git: &GitRef) -> Option<String> {
        let page = match &self.https_path {
            Some(path) => path.trim_end_matches('/').to_owned(),
            None if url.is_local() => return None,
            None => match url.as_str().split_once("://") {
                Some(("https" | "http", _)) => {
                    url.as_str().trim_end_matches('/').trim_end_matches(".git").to_owned()
                }
                _ => format!("https://{}", url.identity()),
            },
        };
        let format = self.url_format.as_deref().unwrap_or(USUAL_FORMAT);
        let address = format
            .replace("{url}", &page)
            .replace("{ref}", &escaped(&git.reference))
            .replace("{folder}", &escaped(&git.folder));
        Some(address.trim_end_matches('/').to_owned())
    }
}

/// Nothing but the address of a page: what a browser would run is none.
fn is_page(text: &str) -> bool {
    ["https://", "http://"]
        .iter()
        .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
}

/// A path as addresses write it.
fn escaped(path: &str) -> String {
    let one = |byte: u8| {
        let plain = byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    path.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, https_path: &str, url_format: &str, folder: &str) -> Option<String> {
        let change = WebAddressChange::new(Some(https_path.into()), Some(url_format.into())).unwrap();
        let git = GitRef::new("feature/a#1", folder, &[]).unwrap();
        change.over(WebAddress::default()).of_folder(&url.parse().unwrap(), &git)
    }

    #[test]
    fn a_folder_has_a_page() {
        let url = "git@git.example.com:team/app.git";
        let usual = "https://git.example.com/team/app/tree/feature/a%231/web";
        assert_eq!(of(url, "", "", "web").as_deref(), Some(usual));
        assert_eq!(of("https://git.example.com/team/app.git", "", "", "web").as_deref(), Some(usual));
        let own = of(url, "https://code.example.com/app/", "{url}/src/{ref}/{folder}", "a b");
        assert_eq!(own.as_deref(), Some("https://code.example.com/app/src/feature/a%231/a%20b"));
        assert_eq!(of("/srv/git/app", "", "", "web"), None);
    }

    #[test]
    fn what_is_no_page_is_refused() {
        for bad in ["javascript:alert(1)", "https://", "git.example.com/app", "https://a b"] {
            assert!(WebAddressChange::new(Some(bad.into()), None).is_err(), "{bad}");
            assert!(WebAddressChange::new(None, Some(bad.into())).is_err(), "{bad}");
        }
        assert!(WebAddressChange::new(None, None).is_ok());
    }
}
