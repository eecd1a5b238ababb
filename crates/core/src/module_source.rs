//! From where the code of a project's stacks may take modules.

use crate::address::Address;
use crate::address_pattern::{AddressPattern, address_allowed};
use crate::error::{Error, Result};
use crate::module_code::{Unreadable, module_sources};
use crate::module_terragrunt::{Part, parts};
use crate::pattern::matches;

/// Services that the tools know by their names alone.
const KNOWN_HOSTS: [&str; 3] = ["github.com", "bitbucket.org", "gitlab.com"];
/// What an address may say besides where something is. A checksum, for one, may be fetched from elsewhere.
const QUESTIONS: [&str; 4] = ["ref", "depth", "archive", "version"];

/// Checks patterns of sources: `*`, an address, or the parts of a registry's module.
///
/// # Errors
/// [`Error::Invalid`] for one that can match nothing.
pub fn check_module_patterns(field: &'static str, patterns: &[String]) -> Result<()> {
    for pattern in patterns {
        let is_fine = if pattern.contains(':') {
            pattern.parse::<AddressPattern>().is_ok()
        } else {
            pattern == "*" || is_of_registry(pattern, "*")
        };
        if !is_fine {
            return Err(Error::invalid(
                field,
                format!(
                    "{pattern:?} must be an address such as https://git.example.com/modules/*, a module of a registry such as \
                     acme/*/aws or registry.example.com/acme/*/*, or *"
                ),
            ));
        }
    }
    Ok(())
}

/// Why a file of a stack's code may not be run, if it may not.
pub fn module_problem(project: &str, patterns: &[String], path: &str, content: &[u8]) -> Option<String> {
    if patterns.is_empty() {
        return None;
    }
    let allows = format!("project {project} names from where modules may be taken (limit moduleSources)");
    let Ok(parts) = parts(path, content) else { return Some(unread(path, &allows)) };
    for part in parts {
        let problem = match part {
            Part::Unchecked(why) => Some(format!("{path}: {why}, and {allows}")),
            Part::Writes(code) => written_problem(patterns, (path, &code), &allows),
        };
        if problem.is_some() {
            return problem;
        }
    }
    sources_problem(patterns, (path, content), &allows)
}

/// Why code that Terragrunt writes may not be run, if it may not. It is for the tool, or for Terragrunt itself.
fn written_problem(patterns: &[String], (path, code): (&str, &str), allows: &str) -> Option<String> {
    let path = format!("{path} (generate).hcl");
    match parts(&path, code.as_bytes()) {
        Ok(parts) if parts.is_empty() => sources_problem(patterns, (&path, code.as_bytes()), allows),
        Ok(_) => Some(format!("{path}: is more than code of the tool, and {allows}")),
        Err(Unreadable) => Some(unread(&path, allows)),
    }
}

fn unread(path: &str, allows: &str) -> String {
    format!("{path}: cannot be read as code, and {allows}")
}

fn sources_problem(patterns: &[String], (path, content): (&str, &[u8]), allows: &str) -> Option<String> {
    let Ok(sources) = module_sources(path, content) else { return Some(unread(path, allows)) };
    sources.iter().find_map(|source| {
        let place = place(source.as_deref())?;
        let Ok(place) = place else {
            return Some(format!(
                "{path}: a module has a source that cannot be told before it runs, and {allows}"
            ));
        };
        (!place.is_allowed(patterns)).then(|| {
            format!("{path}: a module is taken from {}, and {allows}: not from there", place.shown())
        })
    })
}

/// Where a module is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// In a registry: two or three names, after those of its host where one is named.
    Registry(String),
    /// At an address.
    Address(Address),
}

impl Place {
    fn is_allowed(&self, patterns: &[String]) -> bool {
        patterns.iter().any(|pattern| match self {
            _ if pattern == "*" => true,
            Self::Registry(_) if pattern.contains(':') => false,
            Self::Registry(module) => {
                let (asked, allowed): (Vec<&str>, Vec<&str>) =
                    (module.split('/').collect(), pattern.split('/').collect());
                asked.len() == allowed.len()
                    && allowed.iter().zip(&asked).all(|(pattern, part)| matches(pattern, part))
            }
            Self::Address(_) if !pattern.contains(':') => false,
            Self::Address(address) => address_allowed(std::slice::from_ref(pattern), &address.to_string()),
        })
    }

    fn shown(&self) -> String {
        match self {
            Self::Registry(module) => format!("{module} of a registry"),
            Self::Address(address) => address.to_string(),
        }
    }
}

/// Nothing for a folder of the same code.
fn place(source: Option<&str>) -> Option<std::result::Result<Place, Unreadable>> {
    let Some(source) = source.map(str::trim) else { return Some(Err(Unreadable)) };
    // Where it leads out of the code, the artifact has nothing there.
    if source.starts_with("./") || source.starts_with("../") || matches!(source, "." | "..") {
        return None;
    }
    Some(remote(source).ok_or(Unreadable))
}

fn remote(source: &str) -> Option<Place> {
    let (source, query) = source.split_once('?').unwrap_or((source, ""));
    let is_known = |pair: &str| QUESTIONS.contains(&pair.split_once('=').map_or(pair, |(name, _)| name));
    if !query.is_empty() && !query.split('&').all(is_known) {
        return None;
    }
    // Terragrunt's word for a registry: `tfr://HOST/NAMESPACE/NAME/PROVIDER`, with no host for the tool's own.
    if let Some(module) = source.strip_prefix("tfr://") {
        let module = before_folder(module.strip_prefix('/').unwrap_or(module));
        return is_of_registry(module, "").then(|| Place::Registry(module.to_owned()));
    }
    let address = match source.split_once("::") {
        Some(("git" | "hg" | "http" | "https" | "s3" | "gcs" | "oci", address)) => address,
        Some(_) => return None,
        None if source.contains("://") => source,
        None => {
            let module = before_folder(source);
            let mut parts = module.split('/');
            let host = parts.next().unwrap_or_default().to_ascii_lowercase();
            if KNOWN_HOSTS.contains(&host.as_str()) {
                let (owner, name) = (parts.next()?, parts.next()?);
                return format!("https://{host}/{owner}/{name}").parse().ok().map(Place::Address);
            }
            if is_of_registry(module, "") {
                return Some(Place::Registry(module.to_owned()));
            }
            // `git@host:path`; everything else is no address.
            return if source.contains('@') { module.parse().ok().map(Place::Address) } else { None };
        }
    };
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let rest = before_folder(rest);
    let address = if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") };
    address.parse().ok().map(Place::Address)
}

/// What stands before `//`, behind which is a folder of what is fetched.
fn before_folder(text: &str) -> &str {
    text.split_once("//").map_or(text, |(all, _)| all)
}

/// Whether a text is `NAMESPACE/NAME/PROVIDER`, maybe with a host before it; `also` stands for characters that may be in it besides.
fn is_of_registry(text: &str, also: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let fits = |part: &&str, more: &str| {
        !part.is_empty()
            && part.chars().all(|c| {
                c.is_ascii_alphanumeric() || "-_".contains(c) || also.contains(c) || more.contains(c)
            })
    };
    let names = match parts.as_slice() {
        [host, names @ ..] if names.len() == 3 => {
            if !fits(host, ".") || !(host.contains('.') || host.contains('*')) {
                return false;
            }
            names
        }
        names if names.len() == 3 => names,
        _ => return false,
    };
    names.iter().all(|part| fits(part, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(patterns: &[&str], source: &str) -> Option<String> {
        let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        module_problem(
            "shop",
            &patterns,
            "main.tf",
            format!("module \"m\" {{\n source = {source}\n}}\n").as_bytes(),
        )
    }

    #[test]
    fn a_list_lets_through_what_it_names() {
        for (pattern, source, allowed) in [
            ("*", "a/b/c", true),
            ("*", "git::ssh://git@h/x.git", true),
            ("acme/*/aws", "acme/vpc/aws", true),
            ("acme/*/aws", "acme/vpc/aws//modules/x", true),
            ("acme/*/aws", "evil/vpc/aws", false),
            ("acme/*/aws", "registry.example.com/acme/vpc/aws", false),
            ("registry.example.com/acme/*/*", "registry.example.com/acme/vpc/aws", true),
            ("registry.example.com/acme/*/*", "tfr://registry.example.com/acme/vpc/aws?version=1", true),
            ("acme/*/*", "tfr:///acme/vpc/aws?version=1", true),
            (
                "https://git.example.com/modules/*",
                "git::https://git.example.com/modules/a.git//b?ref=v1",
                true,
            ),
            ("https://git.example.com/modules/*", "git::https://git.example.com/other/a.git", false),
            (
                "https://git.example.com/modules/*",
                "git::https://git.example.com/modules/../other/a.git",
                false,
            ),
            ("https://git.example.com/*", "git::https://git.example.com@evil.test/a.git", false),
            (
                "https://git.example.com/*",
                "https://git.example.com/a.zip?checksum=file:http://evil.test",
                false,
            ),
            ("https://git.example.com/*", "acme/vpc/aws", false),
            ("https://github.com/acme/*", "github.com/acme/net//x?ref=v1", true),
            ("https://github.com/acme/*", "github.com/evil/net", false),
            ("*/*/*/*", "github.com/evil/net/x", false),
            ("ssh://git@h/*", "git::ssh://git@h/x.git", true),
            ("git@h:acme/*", "git@h:acme/x.git", true),
            ("git@h:acme/*", "git::git@h:acme/x.git", true),
            ("https://h/*", "git::git::https://h/x", false),
            ("https://h/*", "file::https://h/x", false),
            ("https://h/*", "/etc/modules", false),
            ("acme/*/*", "./local", true),
            ("acme/*/*", "../local", true),
            ("acme/*/*", "", false),
        ] {
            let told = problem(&[pattern], &format!("{source:?}"));
            assert_eq!(told.is_none(), allowed, "{pattern} {source}: {told:?}");
        }
        assert_eq!(problem(&[], "var.x"), None);
        assert!(problem(&["*"], "var.x").unwrap().contains("cannot be told before it runs"));
        assert!(problem(&["*"], "(").unwrap().contains("cannot be read as code"));
        let told = problem(&["acme/*/*"], "\"git::https://ada:pa55@h/x\"").unwrap();
        assert!(!told.contains("pa55"), "{told}");
    }

    #[test]
    fn what_terragrunt_writes_is_held_to_the_list() {
        let allowed = ["acme/*/aws".to_owned()];
        let told = |source: &str| {
            let code = format!(
                "generate \"x\" {{\n  path = \"x.tf\"\n  contents = <<EOT\nmodule \"m\" {{\n  source = {source:?}\n}}\nEOT\n}}\n"
            );
            module_problem("shop", &allowed, "live/terragrunt.hcl", code.as_bytes())
        };
        assert_eq!(told("acme/vpc/aws"), None);
        let evil = told("evil/vpc/aws").unwrap();
        assert!(evil.contains("live/terragrunt.hcl (generate)") && evil.contains("evil/vpc/aws"), "{evil}");
        let include = b"include \"x\" {\n  path = local.x\n}\n";
        let told = module_problem("shop", &allowed, "live/terragrunt.hcl", include).unwrap();
        assert!(told.contains("include names no file") && told.contains("moduleSources"), "{told}");
        assert_eq!(module_problem("shop", &[], "live/terragrunt.hcl", include), None);
    }

    #[test]
    fn patterns_are_checked() {
        for (pattern, good) in [
            ("*", true),
            ("acme/*/aws", true),
            ("*/*/*", true),
            ("registry.example.com/acme/*/*", true),
            ("https://git.example.com/*", true),
            ("git@h:acme/*", true),
            ("acme/aws", false),
            ("a/b/c/d", false),
            ("https://git.example.com*", false),
            ("acme", false),
        ] {
            assert_eq!(check_module_patterns("f", &[pattern.to_owned()]).is_ok(), good, "{pattern}");
        }
    }
}
