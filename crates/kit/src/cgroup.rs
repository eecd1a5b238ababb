//! How much memory this process may use: the limit of its cgroups, or the memory of the machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A limit this large is how version 1 writes "none".
const NO_LIMIT: u64 = 1 << 60;

/// Bytes that the cgroups of this process let it use: the smallest limit among its own cgroup and all ancestors that can be
/// seen. None without a limit, or where there are no cgroups.
pub fn memory_limit() -> Option<u64> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    smallest_limit(&cgroup, &mounts, |path| fs::read_to_string(path).ok())
}

/// Bytes of memory that the machine has.
pub fn machine_memory() -> Option<u64> {
    total_memory(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// The smallest limit that the files of the cgroups hold, given the texts of `/proc/self/cgroup` and
/// `/proc/self/mountinfo`. `read` answers the text of a file, or nothing.
pub fn smallest_limit(cgroup: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut smallest: Option<u64> = None;
    for folder in folders(cgroup, mounts) {
        let texts = ["memory.max", "memory.limit_in_bytes"].map(|file| read(&folder.join(file)));
        let own = texts.iter().flatten().filter_map(|text| limit(text));
        // Version 1 tells here what ancestors allow that a container cannot see.
        let stat = read(&folder.join("memory.stat")).unwrap_or_default();
        let inherited =
            stat.lines().filter_map(|line| line.strip_prefix("hierarchical_memory_limit ")).filter_map(limit);
        smallest = own.chain(inherited).chain(smallest).min();
    }
    smallest
}

fn limit(text: &str) -> Option<u64> {
    // "max" is no number.
    text.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT)
}

/// Folders of the memory controller from this process's cgroup up to the root of each mount.
fn folders(cgroup: &str, mounts: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let own = cgroup.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_it = match mount.version {
                Version::One => controllers.split(',').any(|name| name == "memory"),
                Version::Two => hierarchy == "0" && controllers.is_empty(),
            };
            is_it.then_some(path)
        });
        let Some(own) = own else { continue };
        // A container sees its own cgroup as the root of the mount, by whatever name the host calls it.
        let below = Path::new(own).strip_prefix(&mount.root).unwrap_or_else(|_| Path::new(""));
        let is_plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let below = if is_plain { below } else { Path::new("") };
        folders.extend(below.ancestors().map(|part| mount.at.join(part)));
    }
    folders
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A mounted hierarchy that may limit memory.
#[derive(Debug)]
struct Mount {
    version: Version,
    /// The cgroup that is mounted.
    root: PathBuf,
    at: PathBuf,
}

impl Mount {
    /// One line of `mountinfo`: `31 23 0:26 ROOT AT OPTIONS [TAGS …] - TYPE SOURCE OPTIONS`.
    fn parse(line: &str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let version = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", options) if options.split(',').any(|option| option == "memory") => Version::One,
            _ => return None,
        };
        let mut place = place.split(' ').skip(3);
        Some(Self { version, root: unescaped(place.next()?), at: unescaped(place.next()?) })
    }
}

/// `mountinfo` writes spaces, tabs, line ends and backslashes as three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut path = text.to_owned();
    for (escape, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        path = path.replace(escape, plain);
    }
    path.into()
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cgroup: &str, mounts: &str, files: &[(&str, &str)], expected: Option<u64>) {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        assert_eq!(smallest_limit(cgroup, mounts, read), expected, "{cgroup} {files:?}");
    }

    const V2: &str = "24 18 0:22 / /proc rw - proc proc rw\n\
        31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_smallest_of_all_ancestors_counts() {
        let own = "0::/kubepods.slice/pod1/agent\n";
        let at = |folder: &str| format!("/sys/fs/cgroup{folder}/memory.max");
        let (leaf, pod, root) = (at("/kubepods.slice/pod1/agent"), at("/kubepods.slice/pod1"), at(""));
        check(own, V2, &[(&leaf, "536870912\n")], Some(512 << 20));
        check(own, V2, &[(&leaf, "max\n"), (&pod, "268435456\n")], Some(256 << 20));
        check(own, V2, &[(&leaf, "536870912\n"), (&pod, "268435456\n")], Some(256 << 20));
        check(own, V2, &[(&leaf, "268435456\n"), (&pod, "536870912\n")], Some(256 << 20));
        check(own, V2, &[(&leaf, "max\n"), (&pod, "max\n"), (&root, "max")], None);
        check(own, V2, &[], None);
    }

    #[test]
    fn a_container_sees_its_cgroup_as_the_root() {
        check("0::/\n", V2, &[("/sys/fs/cgroup/memory.max", "536870912\n")], Some(512 << 20));
        // A process that was moved in from outside of the namespace.
        check("0::/../other\n", V2, &[("/sys/fs/cgroup/memory.max", "536870912\n")], Some(512 << 20));
        // Version 1 without a namespace: the path is the host's, the mount is the container's own.
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let limit = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
        check("4:memory:/docker/abc\n", mounts, &[limit], Some(512 << 20));
        check("4:memory:/elsewhere\n", mounts, &[limit], Some(512 << 20));
    }

    #[test]
    fn version_one_is_read_too() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            34 31 0:31 / /sys/fs/cgroup/cpu\\040set rw - cgroup cgroup rw,cpuset\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "5:devices:/\n4:hugetlb,memory:/a/b\n3:cpuset:/\n0::/\n";
        let (leaf, parent) = (
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
        );
        check(own, mounts, &[(leaf, "9223372036854771712\n")], None);
        check(own, mounts, &[(leaf, "1073741824\n"), (parent, "536870912\n")], Some(512 << 20));
        // What is above a container's own root stands in its statistics only.
        let stat =
            ("/sys/fs/cgroup/memory/a/b/memory.stat", "cache 0\nhierarchical_memory_limit 268435456\n");
        check(own, mounts, &[(leaf, "1073741824\n"), stat], Some(256 << 20));
        // The unified hierarchy beside it has no memory controller.
        check("0::/\n", mounts, &[(leaf, "1073741824\n")], None);
    }

    #[test]
    fn odd_lines_are_passed_over() {
        for cgroup in ["", ":", "0:", "0::", "4:memory", "garbage\n\n0::/x"] {
            check(cgroup, "31 23 0:26 /\n - \n31 - cgroup2\nx y - cgroup2 a b\n", &[], None);
        }
        assert_eq!(unescaped("/a\\040b\\134c"), PathBuf::from("/a b\\c"));
        assert_eq!(total_memory("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total_memory("MemTotal: 99999999999999999999 kB\n"), None);
        assert!(machine_memory().is_some_and(|bytes| bytes > 64 << 20));
    }
}
