//! Chance that is the same on every run: a stream from a seed.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// A stream of bytes from a secret seed and the name of what draws from it.
#[derive(Clone)]
pub struct Random {
    seed: Vec<u8>,
    counter: u64,
    block: [u8; 32],
    used: usize,
}

impl Random {
    /// The stream of `seed` for `name`.
    pub fn new(seed: &[u8], name: &str) -> Self {
        let seed = hash(seed, name.as_bytes()).to_vec();
        Self { seed, counter: 0, block: [0; 32], used: 32 }
    }

    /// Goes to the stream for `name`: what is drawn there does not depend on what was drawn before.
    pub fn restart(&mut self, seed: &[u8], name: &str) {
        *self = Self::new(seed, name);
    }

    /// A stream of its own that begins here: what draws from it, now or later, draws nothing from this one.
    pub(crate) fn fork(&mut self) -> Self {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Self::new(&seed, "")
    }

    /// Whether anything was drawn since it began.
    pub fn was_drawn_from(&self) -> bool {
        self.counter > 0
    }

    /// Fills `out`.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.used == self.block.len() {
                self.block = hash(&self.seed, &self.counter.to_be_bytes());
                self.counter += 1;
                self.used = 0;
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }

    /// The next 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_be_bytes(bytes)
    }

    /// A number from 0 to `limit` - 1, each as likely as the others; 0 when `limit` is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 {
            return 0;
        }
        let zone = u64::MAX - u64::MAX % limit;
        loop {
            let value = self.next_u64();
            if value < zone {
                return value % limit;
            }
        }
    }

    /// A text of characters from `set`.
    pub(crate) fn text(&mut self, set: &[u8], count: usize) -> String {
        (0..count).map(|_| set[self.below(set.len() as u64) as usize] as char).collect()
    }
}

fn hash(key: &[u8], data: &[u8]) -> [u8; 32] {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(data);
            mac.finalize().into_bytes().into()
        }
        // HMAC takes keys of any length.
        Err(_) => [0; 32],
    }
}
