//! `cargo xtask release`: the program as it is given away, linked statically.
//!
//! Runs of stacks put it into images of others, and those may have another C library than this machine, or none.

use std::{
    fs,
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::Context as _;
use object::{
    Endianness,
    elf::{FileHeader64, PT_INTERP},
    read::elf::{FileHeader as _, ProgramHeader as _},
};
use serde::Deserialize;

use crate::{shell, web_console};

/// Its headers are at the beginning of a program.
const BEGINNING: u64 = 64 * 1024;
/// The exit code of `chroot` that changes no root.
const CANNOT_CONFINE: i32 = 125;

/// Where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder that gets the program; target/static without it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        cfg!(target_os = "linux"),
        "a program is linked statically on Linux only: build it on a machine with the processor of your nodes"
    );
    // Before the program that embeds it.
    web_console::build()?;
    let built = build()?;
    let target = &shell::metadata()?.target_directory;
    if let Some(interpreter) = interpreter(&built)? {
        anyhow::bail!("{} is not linked statically: it needs {interpreter}", built.display());
    }
    let folder = args.out.clone().unwrap_or_else(|| target.join("static"));
    let program = write(&built, &folder)?;
    let root = target.join(format!("static-root.{}", std::process::id()));
    let started = start(&program, &root);
    drop(fs::remove_dir_all(&root));
    match started? {
        Some(said) => eprintln!("started in an empty root: {said}"),
        None => eprintln!(
            "not started in an empty root: neither chroot nor a user namespace is allowed here (run as root, or install util-linux)"
        ),
    }
    println!("{}", program.display());
    Ok(())
}

/// Builds the program, and answers where it is: with `build.target` or `CARGO_BUILD_TARGET` that is a folder of its own.
fn build() -> anyhow::Result<PathBuf> {
    let mut command = shell::cargo();
    // The flag reaches the last link alone: what is compiled for other builds of this profile is used as it is.
    command
        .args(["rustc", "--release", "--package", "plural", "--bin", "plural"])
        .args(["--message-format", "json-render-diagnostics", "--manifest-path"])
        .arg(shell::root().join("Cargo.toml"))
        .args(["--", "-C", "target-feature=+crt-static"])
        .stderr(Stdio::inherit());
    executable_in(&shell::output(&mut command)?)
        .context("cargo built the program and does not say where it is")
}

/// One message of cargo, as far as it says where a program is.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    target: Option<MessageTarget>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct MessageTarget {
    name: String,
    kind: Vec<String>,
}

/// Where the program is by what cargo said, one message in a line.
fn executable_in(messages: &str) -> Option<PathBuf> {
    messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok()).find_map(|message| {
        let Message { reason, target, executable } = message;
        let MessageTarget { name, kind } = target?;
        let is_it = reason == "compiler-artifact" && name == "plural" && kind == ["bin"];
        executable.filter(|_| is_it)
    })
}

/// The dynamic linker that a program names. One that names none is static, and starts wherever its processor is.
fn interpreter(program: &Path) -> anyhow::Result<Option<String>> {
    let cannot = || format!("cannot read {} as a program", program.display());
    let mut beginning = Vec::new();
    fs::File::open(program)
        .with_context(cannot)?
        .take(BEGINNING)
        .read_to_end(&mut beginning)
        .with_context(cannot)?;
    named_in(&beginning).with_context(cannot)
}

fn named_in(beginning: &[u8]) -> anyhow::Result<Option<String>> {
    let header = FileHeader64::<Endianness>::parse(beginning)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, beginning)?;
    let Some(segment) = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP) else {
        return Ok(None);
    };
    let name = segment.interpreter(endian, beginning)?.unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(name).into_owned()))
}

/// Puts the program into a folder, whole or not at all; its new path.
fn write(built: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let (program, partial) = (folder.join("plural"), folder.join(format!(".plural.{}", std::process::id())));
    let cannot = || format!("cannot write {}", program.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    fs::copy(built, &partial).with_context(cannot)?;
    fs::rename(&partial, &program).with_context(cannot)?;
    Ok(program)
}

/// Starts the program in an empty folder as its root, and returns what it said; nothing, where this machine allows no other root.
///
/// # Errors
/// When it does not start, or does not know its version.
fn start(program: &Path, root: &Path) -> anyhow::Result<Option<String>> {
    write(program, root)?;
    let Some(ended) = confined(root)? else { return Ok(None) };
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    anyhow::ensure!(
        ended.status.success() && ended.stdout.starts_with(b"plural "),
        "{} does not start in an empty root ({}): {}",
        program.display(),
        ended.status,
        said(&ended.stderr)
    );
    Ok(Some(said(&ended.stdout)))
}

/// `plural version` in another root: as root, also in a container, else as anyone to whom the kernel gives a namespace.
fn confined(root: &Path) -> anyhow::Result<Option<Output>> {
    const ASKED: [&str; 2] = ["/plural", "version"];
    let plain = tried(Command::new("chroot").arg(root).args(ASKED))?;
    if let Some(output) = plain.filter(|output| output.status.code() != Some(CANNOT_CONFINE)) {
        return Ok(Some(output));
    }
    let namespace = tried(Command::new("unshare").args(["--map-root-user", "true"]))?;
    if !namespace.is_some_and(|output| output.status.success()) {
        return Ok(None);
    }
    tried(Command::new("unshare").args(["--map-root-user", "--root"]).arg(root).args(ASKED))
}

/// What came of it; nothing, where that program is not on this machine.
fn tried(command: &mut Command) -> anyhow::Result<Option<Output>> {
    match command.output() {
        Ok(output) => Ok(Some(output)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => Ok(None),
        Err(error) => Err(error).context("cannot start a program"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program for x86-64 with these segments: their kind, and where in the file they are.
    fn program(segments: &[(u32, u64, u64)], rest: &[u8]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        // Kind: position-independent; processor: x86-64; version.
        file.extend([3_u16.to_le_bytes(), 62_u16.to_le_bytes()].concat());
        file.extend(1_u32.to_le_bytes());
        // Where it begins; where the segments are listed, and the sections.
        for offset in [0_u64, 64, 0] {
            file.extend(offset.to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
        // Sizes and counts: of this header, of segments, of sections; where the sections' names are.
        for size in [64, 56, segments.len() as u16, 0, 0, 0] {
            file.extend(size.to_le_bytes());
        }
        for (kind, offset, size) in segments {
            file.extend(kind.to_le_bytes());
            file.extend(4_u32.to_le_bytes());
            for value in [*offset, 0, 0, *size, *size, 1] {
                file.extend(value.to_le_bytes());
            }
        }
        file.extend(rest);
        file
    }

    #[test]
    fn a_program_says_which_dynamic_linker_it_needs() {
        let (load, dynamic) = (1, 2);
        let alone = program(&[(load, 0, 64), (dynamic, 0, 0)], b"");
        assert_eq!(named_in(&alone).unwrap(), None);
        let at = 64 + 2 * 56;
        let linked = program(&[(load, 0, 64), (PT_INTERP, at, 14)], b"/lib/ld-x.so.1\0");
        assert!(named_in(&linked).is_err(), "its name has no end");
        let linked = program(&[(load, 0, 64), (PT_INTERP, at, 15)], b"/lib/ld-x.so.1\0");
        assert_eq!(named_in(&linked).unwrap().as_deref(), Some("/lib/ld-x.so.1"));
        for broken in [&linked[..at as usize], &linked[..70], b"#!/bin/sh\n", b""] {
            assert!(named_in(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn cargo_says_where_the_program_is() {
        let said = [
            r#"{"reason":"compiler-artifact","target":{"name":"plural","kind":["lib"]},"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"build-script-build","kind":["custom-build"]},"executable":"/t/no"}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"plural","kind":["bin"]},"executable":"/t/x86_64-unknown-linux-musl/release/plural"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ];
        let found = executable_in(&said.join("\n"));
        assert_eq!(found.as_deref(), Some(Path::new("/t/x86_64-unknown-linux-musl/release/plural")));
        assert_eq!(executable_in(said[3]), None);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static")))]
    #[test]
    fn this_test_is_linked_dynamically() {
        let own = std::env::current_exe().unwrap();
        let found = interpreter(&own).unwrap().unwrap_or_default();
        assert!(found.starts_with('/') && found.contains("ld"), "{found}");
    }

    #[test]
    fn a_program_is_written_over_the_one_before() {
        let folder = std::env::temp_dir().join(format!("plural-release-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (one, out) = (folder.join("one"), folder.join("out/deep"));
        for text in ["first", "second"] {
            fs::write(&one, text).unwrap();
            let written = write(&one, &out).unwrap();
            assert_eq!(fs::read_to_string(written).unwrap(), text);
        }
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
