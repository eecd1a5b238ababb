//! Whose signature a commit carries: [`Signers`].
//!
//! Signatures are judged by the programs that people sign with, `ssh-keygen` and `gpg`, on the bytes of the commit alone:
//! no configuration of the repository, the machine or the user has a say in it.

use std::{ffi::OsStr, fs, path::Path, process::Stdio, time::Duration};

use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};

use crate::{
    error::{Error, Result},
    mirrors::{Options, blocking},
};

/// How long one program may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How much of what a program says is kept.
const SAID: u64 = 64 << 10;
/// Names of one key that are tried.
const PRINCIPALS: usize = 16;

/// Whose signatures are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Signers {
    /// SSH keys as in git's `gpg.ssh.allowedSignersFile`: a name, options, and a public key a line.
    pub ssh: Option<String>,
    /// OpenPGP public keys, armoured, one after the other.
    pub openpgp: Option<String>,
}

impl Signers {
    /// Whether nobody's signature is accepted because none is asked for.
    pub fn is_empty(&self) -> bool {
        self.ssh.is_none() && self.openpgp.is_none()
    }

    /// Tells apart what was verified against others.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [&self.ssh, &self.openpgp] {
            let text = part.as_deref().unwrap_or("");
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }
}

/// A commit's signature, and what it is over.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    pub(crate) commit: String,
    /// As it stands in the commit; nothing for a commit that is not signed.
    pub(crate) signature: Option<String>,
    /// The commit without it.
    pub(crate) payload: Vec<u8>,
    /// When it was committed, in seconds since 1970-01-01 UTC.
    pub(crate) time: i64,
}

impl Signed {
    /// Whether one of these signed it.
    ///
    /// # Errors
    /// [`Error::Unverified`] says why not.
    pub(crate) async fn verify(&self, signers: &Signers, options: &Options, sessions: &Path) -> Result<()> {
        let Some(signature) = &self.signature else { return Err(self.refused("it is not signed")) };
        let folder = folder(sessions).await?;
        let desk = Desk { folder: folder.path(), options };
        let file = desk.write("signature", signature.clone()).await?;
        match signature.trim_start().lines().next().unwrap_or_default() {
            "-----BEGIN SSH SIGNATURE-----" => match &signers.ssh {
                Some(allowed) => self.by_ssh(&desk, &file, allowed).await,
                None => Err(self.refused("it is signed with an SSH key, and none are allowed")),
            },
            "-----BEGIN PGP SIGNATURE-----" => match &signers.openpgp {
                Some(keys) => self.by_openpgp(&desk, &file, keys).await,
                None => Err(self.refused("it is signed with an OpenPGP key, and none are allowed")),
            },
            _ => Err(self.refused("its signature is of a kind that is not supported; use SSH or OpenPGP")),
        }
    }

    async fn by_ssh(&self, desk: &Desk<'_>, signature: &OsStr, allowed: &str) -> Result<()> {
        let allowed = desk.write("allowed_signers", format!("{}\n", allowed.trim_end())).await?;
        let program = desk.options.ssh_keygen.as_os_str();
        // Keys come and go: what counts is which were allowed when it was committed, as git has it.
        let mut at = OsStr::new("-Overify-time=").to_owned();
        at.push(stamp(self.time));
        let words = |words: &[&str]| words.iter().map(|w| OsStr::new(w).to_owned()).collect::<Vec<_>>();
        let mut find = words(&["-Y", "find-principals", "-s"]);
        find.extend([signature.to_owned(), "-f".into(), allowed.clone(), at.clone()]);
        let found = desk.run(program, &find, &[]).await?;
        if !found.succeeded {
            return Err(self.refused("the SSH key that signed it is not among the allowed signers"));
        }
        let mut said = String::new();
        for principal in found.stdout.lines().filter(|line| !line.is_empty()).take(PRINCIPALS) {
            let mut verify = words(&["-Y", "verify", "-n", "git", "-I", principal, "-s"]);
            verify.extend([signature.to_owned(), "-f".into(), allowed.clone(), at.clone()]);
            let verified = desk.run(program, &verify, &self.payload).await?;
            if verified.succeeded {
                return Ok(());
            }
            said = verified.stdout + &verified.stderr;
        }
        Err(self.refused(&format!("its SSH signature is not valid ({})", short(&said))))
    }

    async fn by_openpgp(&self, desk: &Desk<'_>, signature: &OsStr, keys: &str) -> Result<()> {
        let verify = ["--verify".as_ref(), signature, "-".as_ref()];
        let judged = desk.gpg(keys, &verify, &self.payload).await?;
        judged.map_err(|why| self.refused(&why))
    }

    fn refused(&self, why: &str) -> Error {
        Error::Unverified { commit: self.commit.clone(), why: why.to_owned() }
    }
}

/// The text of a clear-signed document (RFC 9580, section 7), if one of these OpenPGP keys (armoured) signed it.
///
/// # Errors
/// [`Error::Unsigned`] says why not.
pub(crate) async fn signed_text(
    document: &str,
    keys: &str,
    options: &Options,
    sessions: &Path,
) -> Result<String> {
    let refused = |why: &str| Error::Unsigned { why: why.to_owned() };
    // One signed text and nothing besides: what stands around it, or in a second one, nobody signed.
    let armour = document.lines().filter(|line| line.starts_with("-----BEGIN ")).count();
    if !document.starts_with("-----BEGIN PGP SIGNED MESSAGE-----") || armour != 2 {
        return Err(refused("it is not one text with an OpenPGP signature"));
    }
    let folder = folder(sessions).await?;
    let desk = Desk { folder: folder.path(), options };
    let signed = desk.write("signed.asc", document.to_owned()).await?;
    let text = folder.path().join("text");
    let decrypt = ["--output".as_ref(), text.as_os_str(), "--decrypt".as_ref(), &signed];
    desk.gpg(keys, &decrypt, &[]).await?.map_err(|why| refused(&why))?;
    blocking("reading a signed text", move || {
        fs::read_to_string(&text).map_err(|e| Error::io("cannot read", &text, e))
    })
    .await
}

/// A folder of one's own, gone when it is dropped.
async fn folder(sessions: &Path) -> Result<tempfile::TempDir> {
    let sessions = sessions.to_path_buf();
    blocking("making a folder", move || {
        tempfile::Builder::new()
            .prefix("signature-")
            .permissions(crate::sessions::owner_only())
            .tempdir_in(&sessions)
            .map_err(|e| Error::io("cannot make a folder in", &sessions, e))
    })
    .await
}

/// What `gpg` says of a signature that must not be taken.
const BAD: [&str; 6] = ["BADSIG", "ERRSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "NODATA"];

/// Where one signature is looked at: a folder of its own.
struct Desk<'a> {
    folder: &'a Path,
    options: &'a Options,
}

/// What a program answered.
struct Said {
    succeeded: bool,
    stdout: String,
    stderr: String,
}

impl Desk<'_> {
    async fn write(&self, name: &str, content: String) -> Result<std::ffi::OsString> {
        let path = self.folder.join(name);
        blocking("writing what is verified", move || {
            fs::write(&path, content).map_err(|e| Error::io("cannot write", &path, e))?;
            Ok(path.into_os_string())
        })
        .await
    }

    /// What `gpg` makes of a signature by one of these keys: nothing where it is good, else why it is not.
    async fn gpg(
        &self,
        keys: &str,
        command: &[&OsStr],
        input: &[u8],
    ) -> Result<std::result::Result<(), String>> {
        let keys = self.write("keys.asc", keys.to_owned()).await?;
        let program = self.options.gpg.as_os_str();
        let words = |words: &[&OsStr]| {
            let always = ["--batch", "--no-tty", "--no-options", "--no-autostart", "--homedir"];
            let mut all: Vec<_> = always.iter().map(|w| OsStr::new(w).to_owned()).collect();
            all.push(self.folder.as_os_str().to_owned());
            all.extend(words.iter().map(|w| (*w).to_owned()));
            all
        };
        let imported = self.run(program, &words(&["--import".as_ref(), &keys]), &[]).await?;
        if !imported.succeeded {
            return Ok(Err(format!("the allowed OpenPGP keys cannot be read ({})", short(&imported.stderr))));
        }
        // Only keys that are allowed are in the ring, so whose they are has been decided.
        let trust = ["--trust-model", "always", "--status-fd", "1"].map(OsStr::new);
        let judged = self.run(program, &words(&[&trust, command].concat()), input).await?;
        let mut states = judged.stdout.lines().filter_map(|line| line.strip_prefix("[GNUPG:] "));
        let good = judged.stdout.lines().filter(|line| line.starts_with("[GNUPG:] GOODSIG ")).count();
        let bad = states.any(|state| BAD.iter().any(|bad| state.starts_with(bad)));
        Ok(if judged.succeeded && good == 1 && !bad {
            Ok(())
        } else {
            Err(format!("its OpenPGP signature is not valid ({})", short(&judged.stderr)))
        })
    }

    async fn run(&self, program: &OsStr, arguments: &[std::ffi::OsString], input: &[u8]) -> Result<Said> {
        let missing =
            |detail: String| Error::NoProgram { program: program.to_string_lossy().into_owned(), detail };
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.folder)
            .env_clear()
            .env("PATH", &self.options.path)
            .env("HOME", self.folder)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| missing(e.to_string()))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program that has read enough closes it early; what it says counts.
                let _ = stdin.write_all(input).await;
            }
        };
        let talk = async {
            let ((), stdout, stderr) = tokio::join!(feed, listen(stdout), listen(stderr));
            Ok::<_, std::io::Error>((child.wait().await?.success(), stdout?, stderr?))
        };
        match tokio::time::timeout(LIMIT, talk).await {
            Ok(Ok((succeeded, stdout, stderr))) => Ok(Said { succeeded, stdout, stderr }),
            Ok(Err(e)) => Err(missing(e.to_string())),
            Err(_) => Err(Error::Stopped { doing: "verifying a signature" }),
        }
    }
}

async fn listen(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut said = Vec::new();
    if let Some(pipe) = pipe {
        let mut pipe = pipe.take(SAID);
        pipe.read_to_end(&mut said).await?;
        // The rest is not kept, and read all the same: nobody waits for room in a pipe.
        tokio::io::copy(&mut pipe.into_inner(), &mut tokio::io::sink()).await?;
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The last line of what a program said, as it may be shown.
fn short(said: &str) -> String {
    let line = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// `YYYYMMDDhhmmss` in UTC.
fn stamp(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01, in eras of 400 years (H. Hinnant's civil calendar).
    let day = days + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (date, number) =
        (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + i64::from(number <= 2);
    format!("{year:04}{number:02}{date:02}{:02}{:02}{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_ssh_keygen_reads_them() {
        for (seconds, expected) in [
            (0, "19700101000000"),
            (951_782_399, "20000228235959"),
            (951_782_400, "20000229000000"),
            (1_767_225_600, "20260101000000"),
            (4_102_444_799, "20991231235959"),
            (-1, "19691231235959"),
        ] {
            assert_eq!(stamp(seconds), expected);
        }
    }

    #[test]
    fn only_the_end_of_what_was_said_is_shown() {
        assert_eq!(short("a\nb\u{1b}[31m\n\n"), "b[31m");
        assert_eq!(short(""), "it gave no reason");
    }
}
