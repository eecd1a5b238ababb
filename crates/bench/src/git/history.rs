//! A large repository that is the same for the same seed: many small files in service folders, and a long history.

use std::{fmt::Write as _, io::Write};

use plural_testkit::GitRemote;

use crate::workload::objects;

/// Services whose folders stand beside each other, so that no folder has thousands of entries.
const BESIDE: usize = 100;
/// The first commit's time; each later one is a minute younger.
const EPOCH: usize = 1_767_225_600;
/// Namespace of the services' objects.
pub(super) const NAMESPACE: &str = "bench";

/// How large a history is.
#[derive(Debug, Clone, Copy)]
pub(super) struct History {
    pub(super) seed: u64,
    pub(super) files: usize,
    pub(super) commits: usize,
    pub(super) services: usize,
}

impl History {
    /// Files of each service's folder: its objects, and settings that no object reads.
    fn files_each(&self) -> usize {
        (self.files / self.services).max(1)
    }

    /// The folder of a service.
    pub(super) fn folder(service: usize) -> String {
        format!("fleet/{:03}/service-{service:05}", service / BESIDE)
    }

    fn path(service: usize, file: usize) -> String {
        let folder = Self::folder(service);
        if file == 0 { format!("{folder}/objects.yaml") } else { format!("{folder}/settings-{file:03}.yaml") }
    }

    /// What a file holds after it was changed so many times.
    fn content(&self, service: usize, file: usize, version: usize) -> anyhow::Result<String> {
        let mut text = String::new();
        if file == 0 {
            for object in objects(NAMESPACE, service) {
                text = text + &serde_json::to_string(&object)? + "\n---\n";
            }
        }
        let start =
            [service, file, version].into_iter().fold(self.seed, |seed, n| Random(seed ^ n as u64).next());
        let mut random = Random(start);
        for _ in 0..8 + random.below(24) {
            let (key, value) = (random.below(10_000), random.next());
            writeln!(text, "# key-{key:04}: {value:016x}")?;
        }
        Ok(text)
    }

    /// The content of all files of a service after each was changed so many times, one after the other.
    pub(super) fn service(
        &self,
        service: usize,
        versions: impl Fn(usize) -> usize,
    ) -> anyhow::Result<Vec<u8>> {
        let mut all = Vec::new();
        for file in 0..self.files_each() {
            all.extend(self.content(service, file, versions(file))?.into_bytes());
        }
        Ok(all)
    }

    /// Writes the whole history to `main`: every file in the first commit, two files of one service in each later one.
    pub(super) fn write(&self, remote: &GitRemote) -> anyhow::Result<()> {
        remote.import(|out| {
            commit(out, 0, "everything")?;
            for service in 0..self.services {
                for file in 0..self.files_each() {
                    blob(out, &Self::path(service, file), self.content(service, file, 0)?.as_bytes())?;
                }
            }
            let mut random = Random(self.seed);
            for number in 1..self.commits {
                let service = random.below(self.services as u64) as usize;
                commit(out, number, &format!("settings of service {service}"))?;
                for _ in 0..2 {
                    let file = random.below(self.files_each() as u64) as usize;
                    // Objects stay: what the commits of the bench change is theirs alone.
                    let file = file.max(1);
                    blob(out, &Self::path(service, file), self.content(service, file, number)?.as_bytes())?;
                }
            }
            Ok(())
        })
    }

    /// A commit that changes the objects of some services; returns its id.
    pub(super) fn change(
        &self,
        remote: &GitRemote,
        number: usize,
        services: impl Iterator<Item = usize>,
    ) -> anyhow::Result<String> {
        remote.import(|out| {
            commit(out, self.commits + number, "objects")?;
            writeln!(out, "from refs/heads/main^0")?;
            for service in services {
                let content = self.content(service, 0, self.commits + number)?;
                blob(out, &Self::path(service, 0), content.as_bytes())?;
            }
            Ok(())
        })?;
        remote.resolve("main")
    }

    /// A commit that adds a folder of bytes that do not become smaller.
    pub(super) fn add_large(&self, remote: &GitRemote, folder: &str, bytes: usize) -> anyhow::Result<()> {
        const FILE: usize = 2 << 20;
        remote.import(|out| {
            commit(out, self.commits, "a large service")?;
            writeln!(out, "from refs/heads/main^0")?;
            blob(out, &format!("{folder}/objects.yaml"), self.content(0, 0, 0)?.as_bytes())?;
            let mut random = Random(self.seed);
            for (number, start) in (0..bytes).step_by(FILE).enumerate() {
                let words = FILE.min(bytes - start) / 8;
                let content: Vec<u8> = (0..words).flat_map(|_| random.next().to_le_bytes()).collect();
                blob(out, &format!("{folder}/data-{number}.bin"), &content)?;
            }
            Ok(())
        })
    }
}

fn commit(out: &mut dyn Write, number: usize, message: &str) -> anyhow::Result<()> {
    writeln!(out, "commit refs/heads/main")?;
    writeln!(out, "committer Bench <bench@example.com> {} +0000", EPOCH + number * 60)?;
    data(out, message.as_bytes())
}

fn blob(out: &mut dyn Write, path: &str, content: &[u8]) -> anyhow::Result<()> {
    writeln!(out, "M 100644 inline {path}")?;
    data(out, content)
}

fn data(out: &mut dyn Write, bytes: &[u8]) -> anyhow::Result<()> {
    writeln!(out, "data {}", bytes.len())?;
    out.write_all(bytes)?;
    writeln!(out)?;
    Ok(())
}

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_as_large_as_asked_for_and_always_the_same() {
        let history = History { seed: 7, files: 60, commits: 40, services: 20 };
        let (one, other) = (GitRemote::new().unwrap(), GitRemote::new().unwrap());
        history.write(&one).unwrap();
        history.write(&other).unwrap();
        assert_eq!(one.resolve("main").unwrap(), other.resolve("main").unwrap());
        assert_eq!(one.git(["rev-list", "--count", "main"]).unwrap(), "40");
        assert_eq!(one.git(["ls-tree", "-r", "--name-only", "main"]).unwrap().lines().count(), 60);
        let changed = history.change(&one, 1, [3, 4].into_iter()).unwrap();
        let names = one.git(["diff", "--name-only", "main~1", changed.as_str()]).unwrap();
        assert_eq!(names.lines().collect::<Vec<_>>(), [History::path(3, 0), History::path(4, 0)]);
        let large = History { seed: 8, ..history };
        large.add_large(&one, "large", 3 << 20).unwrap();
        let size = one.git(["cat-file", "-s", "main:large/data-1.bin"]).unwrap();
        assert_eq!(size, (1_u64 << 20).to_string());
    }
}
