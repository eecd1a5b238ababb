//! What git and ssh say when they fail, cleaned of secrets and given a name.
//!
//! git has one exit code for everything, so its words are all there is to go by. They are read in the C locale, and tested
//! against real failures; what is not recognised is shown as it is.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    error::Error,
    remote::{Remote, RemoteUrl},
};

/// What a failed fetch means.
pub(crate) fn classify(remote: &Remote, stderr: &str, took: Duration, folder: &str) -> Error {
    let url = remote.url.to_string();
    let said = gits_own(remote, stderr);
    let detail = clean(&said, &remote.secrets());
    let text = said.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|w| text.contains(w));
    if says(&["no space left on device", "disk quota exceeded"]) {
        return Error::DiskFull { doing: format!("cannot fetch {url}"), path: folder.to_owned() };
    }
    if let RemoteUrl::Ssh { .. } = &remote.url
        && says(&[
            "cannot run ssh",
            "ssh: not found",
            "ssh: no such file",
            "ssh: command not found",
            "/ssh': not found",
        ])
    {
        return Error::NoProgram { program: "ssh".to_owned(), detail };
    }
    if says(&["host key verification failed", "remote host identification has changed"]) {
        return Error::HostKey { url, detail };
    }
    if says(&[
        "authentication failed",
        "could not read username",
        "could not read password",
        "terminal prompts disabled",
        "permission denied (publickey",
        "returned error: 401",
        "returned error: 403",
        "incorrect passphrase",
        "error in libcrypto",
        "invalid format",
        "access denied",
    ]) {
        return Error::Auth { url, detail };
    }
    if says(&[
        "operation too slow",
        "operation timed out",
        "connection timed out",
        "not responding",
        "timed out",
    ]) {
        return Error::TimedOut { url, after: took, detail };
    }
    if says(&[
        "could not resolve host",
        "name or service not known",
        "connection refused",
        "failed to connect",
        "couldn't connect",
        "network is unreachable",
        "no route to host",
        "connection reset",
        "connection closed",
        "ssl certificate",
        "certificate verification",
        "ssl_error",
        "gnutls",
        "empty reply from server",
        "could not resolve proxy",
        "returned error: 5",
        "unable to connect",
    ]) {
        return Error::Unreachable { url, detail };
    }
    // Damage is looked for before "not found": both can be said at once when the mirror itself is gone.
    if text.lines().filter(|l| !l.starts_with("remote:")).any(is_damage) {
        return Error::Corrupt { what: format!("the mirror of {url}"), detail };
    }
    if says(&[
        "repository not found",
        "' not found",
        "does not appear to be a git repository",
        "returned error: 404",
        "project you were looking for could not be found",
        "does not exist",
        "not valid: is this a git repository",
    ]) {
        return Error::NotFound { url, detail };
    }
    if says(&["early eof", "hung up unexpectedly", "unexpected disconnect", "rpc failed", "unable to access"])
    {
        return Error::Unreachable { url, detail };
    }
    Error::Git { url, detail }
}

/// What git says itself. Over http, the rest is what a server answered that need not be a git server: whoever names its
/// address must not read it here.
fn gits_own(remote: &Remote, stderr: &str) -> String {
    if !matches!(remote.url, RemoteUrl::Http { .. }) {
        return stderr.to_owned();
    }
    let quotes = |line: &str, words: &str, what: &str| match line.find(words) {
        Some(at) => format!("{}{words} ({what})", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    };
    let lines: Vec<String> = stderr
        .split(['\n', '\r'])
        .map(str::trim_start)
        .filter(|line| !line.starts_with("remote:") && !line.starts_with("warning: redirecting to"))
        .map(|line| quotes(line, "invalid server response", "it is no git server's"))
        .map(|line| quotes(&line, "bad line length character", "it is no git server's"))
        .collect();
    lines.join("\n")
}

/// The error without what was answered: only whether the remote can be reached, refuses the credentials, or has no such
/// repository. What follows a conversation in git's protocol stays.
pub(crate) fn without_answer(error: Error) -> Error {
    let detail = || "the console's log says more".to_owned();
    match error {
        Error::Unreachable { url, detail: _ } => Error::Unreachable { url, detail: detail() },
        Error::TimedOut { url, after, detail: _ } => Error::TimedOut { url, after, detail: detail() },
        Error::Auth { url, detail: _ } => Error::Auth { url, detail: detail() },
        Error::NotFound { url, detail: said } if !said.contains("couldn't find remote ref") => {
            Error::NotFound { url, detail: detail() }
        }
        other => other,
    }
}

/// Whether a line sounds like damage of the mirror. What the other side says is not asked.
fn is_damage(line: &str) -> bool {
    let lost = line
        .split_once("could not read ")
        .is_some_and(|(_, rest)| rest.len() >= 40 && rest.bytes().take(40).all(|b| b.is_ascii_hexdigit()));
    if lost {
        return true;
    }
    [
        "bad object",
        "is corrupt",
        "is empty",
        "data stream error",
        "does not match index",
        "far too short",
        "not a git repository",
        "bad config",
        "unable to read tree",
        "unable to read sha1",
        "does not point to a valid object",
        "did not send all necessary objects",
        "index file corrupt",
        "packfile",
        "unresolved deltas",
        "unterminated line in",
        "unexpected line in",
        "reference broken",
        "wrong index",
    ]
    .iter()
    .any(|w| line.contains(w))
}

/// Text from another program as it may be shown: the lines that matter, on one line, without secrets, user information in
/// URLs, or control characters, and not too long.
pub(crate) fn clean(stderr: &str, secrets: &[&str]) -> String {
    let mut text = stderr.to_owned();
    for secret in secrets {
        for form in forms(secret) {
            text = text.replace(&form, "***");
        }
    }
    let lines: Vec<&str> = text
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("hint:") && !l.starts_with("Warning: Permanently added"))
        .collect();
    let words: Vec<String> = lines.join("; ").split(' ').map(without_user_info).collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    let mut short: String = line.chars().take(600).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    if short.is_empty() { "it gave no reason".to_owned() } else { short }
}

/// A secret as it is, and as it looks inside a URL. Very short ones are left alone: they would tear words apart and are
/// no secrets to speak of.
fn forms(secret: &str) -> Vec<String> {
    let mut forms: Vec<String> = secret.lines().map(str::to_owned).collect();
    forms.push(secret.to_owned());
    forms.push(percent_encode(secret));
    // A proxy is a URL; its user information is the secret in it.
    if let Some((_, rest)) = secret.split_once("://")
        && let Some((login, _)) = rest.rsplit_once('@')
    {
        forms.push(login.to_owned());
        forms.extend(login.split_once(':').map(|(_, password)| password.to_owned()));
    }
    forms.retain(|f| f.len() >= 4);
    forms.sort_by_key(|f| std::cmp::Reverse(f.len()));
    forms
}

fn without_user_info(word: &str) -> String {
    let Some(at) = word.find("://") else { return word.to_owned() };
    let start = at + 3;
    let end = word[start..].find(['/', '\'', '"']).map_or(word.len(), |e| start + e);
    match word[start..end].rfind('@') {
        Some(user_end) => format!("{}{}", &word[..start], &word[start + user_end + 1..]),
        None => word.to_owned(),
    }
}

/// What stays as it is in the user information of a URL.
const USER_INFO: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes everything but letters, digits and `-._~`, as user information in a URL must be.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, USER_INFO).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::{Credentials, MirrorKey};

    fn check(stderr: &str, is: fn(&Error) -> bool) {
        let remote = Remote::new(MirrorKey::new("k").unwrap(), "https://git.example.com/x.git")
            .unwrap()
            .with_credentials(Credentials::basic("me", "s3cr3t/word"));
        let error = classify(&remote, stderr, Duration::from_secs(3), "/data");
        assert!(is(&error), "{stderr} became {error:?}");
        let text = error.to_string();
        assert!(!text.contains("s3cr3t") && text.contains("git.example.com"), "{text}");
    }

    #[test]
    fn names_the_causes() {
        check("fatal: Authentication failed for 'https://me:s3cr3t%2Fword@git.example.com/x.git/'", |e| {
            matches!(e, Error::Auth { .. })
        });
        check(
            "fatal: could not read Username for 'https://git.example.com': terminal prompts disabled",
            |e| matches!(e, Error::Auth { .. }),
        );
        check(
            "remote: Repository not found.\nfatal: repository 'https://git.example.com/x.git/' not found",
            |e| matches!(e, Error::NotFound { .. }),
        );
        check("fatal: unable to access 'https://x/': Could not resolve host: x", |e| {
            matches!(e, Error::Unreachable { .. })
        });
        check("fatal: unable to access 'https://x/': The requested URL returned error: 503", |e| {
            matches!(e, Error::Unreachable { .. })
        });
        check(
            "error: RPC failed; curl 28 Operation too slow. Less than 100 bytes/sec transferred the last 1 seconds",
            |e| matches!(e, Error::TimedOut { .. }),
        );
        check(
            "fatal: write error: No space left on device\nfatal: fetch-pack: invalid index-pack output",
            |e| matches!(e, Error::DiskFull { path, .. } if path == "/data"),
        );
        check(
            "No ED25519 host key is known for x.\nHost key verification failed.\nfatal: Could not read from remote repository.",
            |e| matches!(e, Error::HostKey { .. }),
        );
        check("git@x: Permission denied (publickey).\nfatal: Could not read from remote repository.", |e| {
            matches!(e, Error::Auth { .. })
        });
        check("error: object file objects/ab/cd is empty\nfatal: loose object abcd is corrupt", |e| {
            matches!(e, Error::Corrupt { .. })
        });
        check("fatal: Could not read from remote repository.", |e| matches!(e, Error::Git { .. }));
        check("remote: object file is corrupt\nfatal: the remote end said no", |e| {
            matches!(e, Error::Git { .. })
        });
        check(
            "remote: No space left on device\nfatal: unable to access: The requested URL returned error: 500",
            |e| matches!(e, Error::Unreachable { .. }),
        );
        check("error: Could not read 6f5cd2a1c3a1e7c1b7ad0a5dd7d2a0b3b8c0ffee", |e| {
            matches!(e, Error::Corrupt { .. })
        });
        check("something new s3cr3t/word", |e| matches!(e, Error::Git { .. }));
    }

    #[test]
    fn a_servers_answer_is_not_shown() {
        let http = Remote::new(MirrorKey::new("k").unwrap(), "https://git.example.com/x.git").unwrap();
        for said in [
            "remote: canary\nfatal: unable to access 'https://x/': The requested URL returned error: 403",
            "remote: a\rremote: canary\nfatal: repository 'https://x/' not found",
            "warning: redirecting to https://inside/?token=canary\nfatal: repository 'https://x/' not found",
            "fatal: protocol error: bad line length character: canary",
            "fatal: invalid server response; got 'canary'",
        ] {
            let error = classify(&http, said, Duration::from_secs(3), "/data");
            assert!(!error.to_string().contains("canary"), "{error}");
            let without = without_answer(error);
            assert!(!without.to_string().contains("403"), "{without}");
        }
        // Over ssh only an ssh server speaks.
        let ssh = Remote::new(MirrorKey::new("k").unwrap(), "git@git.example.com:x.git").unwrap();
        let error = classify(&ssh, "remote: no such project", Duration::from_secs(3), "/data");
        assert!(error.to_string().contains("no such project"), "{error}");
    }

    #[test]
    fn shows_no_secret_and_no_escape() {
        let text =
            clean("\u{1b}[31mfatal\u{1b}[0m: 'http://u:p%40ss@h/x' said tok-1234\nhint: x\n", &["tok-1234"]);
        assert_eq!(text, "[31mfatal[0m: 'http://h/x' said ***");
        let long = clean(&"x".repeat(5000), &[]);
        assert!(long.chars().count() == 601 && long.ends_with('…'));
        assert_eq!(clean("", &[]), "it gave no reason");
        let proxy = clean("proxy http://bob:hunter2@p:1 refused hunter2", &["http://bob:hunter2@p:1"]);
        assert!(!proxy.contains("hunter2"), "{proxy}");
    }
}
