//! Which assertions were used: for each process that signs, a window over its count.

use std::collections::HashMap;

/// Counts that may overtake each other: far more than requests can be on their way.
const WINDOW: u64 = 1 << 16;
/// Processes that sign, at most: replicas of the console, and those before their restart.
const SIGNERS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Replay {
    signers: HashMap<[u8; 8], Counted>,
}

#[derive(Debug)]
struct Counted {
    highest: u64,
    /// Bit `count % WINDOW` for the last [`WINDOW`] counts.
    used: Vec<u64>,
    /// No assertion of this process that we saw holds longer.
    until_ms: i64,
}

impl Replay {
    /// Whether this count of this signer is new; from now on it is not.
    pub(crate) fn first_time(&mut self, signer: [u8; 8], count: u64, expires_ms: i64, now_ms: i64) -> bool {
        if !self.signers.contains_key(&signer) && self.signers.len() >= SIGNERS {
            // Whoever has nothing left that holds can be forgotten; nobody else.
            self.signers.retain(|_, counted| counted.until_ms > now_ms);
            if self.signers.len() >= SIGNERS {
                return false;
            }
        }
        let counted = self.signers.entry(signer).or_insert_with(|| Counted {
            highest: 0,
            used: vec![0; (WINDOW / 64) as usize],
            until_ms: expires_ms,
        });
        counted.until_ms = counted.until_ms.max(expires_ms);
        counted.first_time(count)
    }
}

impl Counted {
    fn first_time(&mut self, count: u64) -> bool {
        if count == 0 || count.saturating_add(WINDOW) <= self.highest {
            return false;
        }
        if count > self.highest {
            if count - self.highest >= WINDOW {
                self.used.fill(0);
            } else {
                for passed in self.highest + 1..count {
                    self.set(passed, false);
                }
                self.set(count, false);
            }
            self.highest = count;
        }
        let is_new = !self.get(count);
        self.set(count, true);
        is_new
    }

    fn get(&self, count: u64) -> bool {
        let bit = count % WINDOW;
        self.used.get((bit / 64) as usize).is_none_or(|word| word >> (bit % 64) & 1 == 1)
    }

    fn set(&mut self, count: u64, used: bool) {
        let bit = count % WINDOW;
        if let Some(word) = self.used.get_mut((bit / 64) as usize) {
            if used {
                *word |= 1 << (bit % 64);
            } else {
                *word &= !(1 << (bit % 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_once_in_any_order() {
        let mut replay = Replay::default();
        let mut ask = |count| replay.first_time([1; 8], count, 10, 0);
        for count in [3, 1, 2, 700, 650, 70_000, 69_999, 200_000] {
            assert!(ask(count), "{count}");
            assert!(!ask(count), "{count}");
        }
        // Too far behind to know, hence refused; as is what no signer counts.
        for count in [0, 1, 4, 134_463, 134_464] {
            assert!(!ask(count), "{count}");
        }
        assert!(ask(134_465));
        assert!(ask(u64::MAX));
        assert!(!ask(u64::MAX));
    }

    #[test]
    fn a_signer_is_forgotten_only_when_nothing_of_it_holds() {
        let mut replay = Replay::default();
        for signer in 0..SIGNERS as u8 {
            assert!(replay.first_time([signer; 8], 1, 100, 0));
        }
        assert!(!replay.first_time([200; 8], 1, 200, 99));
        assert!(replay.first_time([200; 8], 1, 200, 100));
        assert_eq!(replay.signers.len(), 1);
    }
}
