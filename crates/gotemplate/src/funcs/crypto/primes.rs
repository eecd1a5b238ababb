//! Primes for RSA keys. Nearly all candidates are no primes; they are told apart here, by division and by
//! Fermat's test to base 2, several times faster than by a library that must not show how long it took. What
//! is left, the library tests.

use std::sync::OnceLock;

use crypto_primes::{Flavor, is_prime};
use rsa::BoxedUint;

use crate::random::Random;

/// Largest prime that candidates are divided by.
const SMALL: u32 = 1 << 16;
/// So many odd numbers are looked at from a random one on: more than ten of them are primes, on average.
const SPAN: usize = 4096;
/// Most limbs of a prime, those of a key of 4096 bits.
const MOST: usize = 32;

/// A random prime of 64 bits for each of the `N` limbs. Its two highest bits are set, so that the product of two
/// has twice as many bits.
pub(super) fn prime<const N: usize>(random: &mut Random) -> BoxedUint {
    loop {
        let mut bytes = vec![0; N * 8];
        random.fill(&mut bytes);
        if let (Some(high), Some(low)) = (bytes.first().copied(), bytes.last().copied()) {
            bytes[0] = high | 0xC0;
            bytes[N * 8 - 1] = low | 1;
        }
        let mut start = [0; N];
        for (limb, chunk) in start.iter_mut().rev().zip(bytes.chunks_exact(8)) {
            *limb = chunk.iter().fold(0, |limb, byte| limb << 8 | u64::from(*byte));
        }
        for step in candidates(&start) {
            // The span does not reach beyond the lowest limb's last numbers often enough to care.
            let Some(low) = start[0].checked_add(2 * step as u64) else { break };
            let mut candidate = start;
            candidate[0] = low;
            if !passes_fermat(&candidate) {
                continue;
            }
            let bytes: Vec<u8> = candidate.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
            let number = BoxedUint::from_be_slice_vartime(&bytes);
            if is_prime(Flavor::Any, &number) {
                return number;
            }
        }
    }
}

fn small_primes() -> &'static [u32] {
    static PRIMES: OnceLock<Vec<u32>> = OnceLock::new();
    PRIMES.get_or_init(|| {
        let mut composite = vec![false; SMALL as usize];
        let mut primes = Vec::new();
        for number in (3..SMALL as usize).step_by(2) {
            if composite[number] {
                continue;
            }
            primes.push(number as u32);
            for multiple in (number * number..SMALL as usize).step_by(2 * number) {
                composite[multiple] = true;
            }
        }
        primes
    })
}

/// Steps of two from an odd number on to those that no small prime divides.
fn candidates<const N: usize>(start: &[u64; N]) -> Vec<usize> {
    let mut composite = [false; SPAN];
    for prime in small_primes() {
        let prime = u64::from(*prime);
        // Two halves of a limb, so that all divisions are those of 64 bits.
        let rest = start.iter().rev().fold(0, |rest: u64, limb| {
            let rest = (rest << 32 | limb >> 32) % prime;
            (rest << 32 | limb & 0xFFFF_FFFF) % prime
        });
        // The first step at which the number is a multiple: half of what is missing, modulo the prime.
        let missing = (prime - rest) % prime;
        let first = if missing.is_multiple_of(2) { missing / 2 } else { u64::midpoint(missing, prime) };
        for step in (first as usize..SPAN).step_by(prime as usize) {
            composite[step] = true;
        }
    }
    (0..SPAN).filter(|step| !composite[*step]).collect()
}

/// Whether 2^(n-1) is 1 modulo the odd number n, whose highest bit is set.
fn passes_fermat<const N: usize>(n: &[u64; N]) -> bool {
    let mut inverse = 1u64;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(n[0].wrapping_mul(inverse)));
    }
    let inverse = inverse.wrapping_neg();
    // One in Montgomery's form is 2^(64 N) - n, as n has all its bits.
    let mut one = [0; N];
    let mut borrow = true;
    for (out, limb) in one.iter_mut().zip(n) {
        // Two's complement: the negated number.
        let (value, over) = (!limb).overflowing_add(u64::from(borrow));
        *out = value;
        borrow = over;
    }
    let mut power = one;
    // n - 1 is n without its lowest bit.
    for (index, limb) in n.iter().enumerate().rev() {
        for bit in (0..64).rev() {
            square(&mut power, n, inverse);
            if limb >> bit & 1 == 1 && (index, bit) != (0, 0) {
                double(&mut power, n);
            }
        }
    }
    power == one
}

/// `a + b * c + carry`, the high half going to the carry.
#[inline]
fn multiply_add(a: u64, b: u64, c: u64, carry: &mut u64) -> u64 {
    let sum = u128::from(a) + u128::from(b) * u128::from(c) + u128::from(*carry);
    *carry = (sum >> 64) as u64;
    sum as u64
}

/// Squares a number in Montgomery's form.
fn square<const N: usize>(number: &mut [u64; N], n: &[u64; N], inverse: u64) {
    let mut wide = [0u64; 2 * MOST];
    // Products of different limbs, which count twice.
    for i in 0..N {
        let mut carry = 0;
        let row = &mut wide[i..];
        for j in i + 1..N {
            row[j] = multiply_add(row[j], number[i], number[j], &mut carry);
        }
        row[N] = carry;
    }
    let mut top = 0;
    for limb in &mut wide[..2 * N] {
        let next = *limb >> 63;
        *limb = *limb << 1 | top;
        top = next;
    }
    let mut carry = 0u64;
    for (i, limb) in number.iter().enumerate() {
        wide[2 * i] = multiply_add(wide[2 * i], *limb, *limb, &mut carry);
        let (sum, over) = wide[2 * i + 1].overflowing_add(carry);
        wide[2 * i + 1] = sum;
        carry = u64::from(over);
    }
    // Reduction: each step makes the lowest limb zero.
    let mut over = 0u64;
    for i in 0..N {
        let row = &mut wide[i..=i + N];
        let factor = row[0].wrapping_mul(inverse);
        let mut carry = 0;
        for j in 0..N {
            row[j] = multiply_add(row[j], factor, n[j], &mut carry);
        }
        let sum = u128::from(row[N]) + u128::from(carry) + u128::from(over);
        row[N] = sum as u64;
        over = (sum >> 64) as u64;
    }
    number.copy_from_slice(&wide[N..2 * N]);
    if over > 0 || !is_less(number, n) {
        subtract(number, n);
    }
}

fn double<const N: usize>(number: &mut [u64; N], n: &[u64; N]) {
    let mut top = 0;
    for limb in number.iter_mut() {
        let next = *limb >> 63;
        *limb = *limb << 1 | top;
        top = next;
    }
    if top > 0 || !is_less(number, n) {
        subtract(number, n);
    }
}

fn is_less<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

fn subtract<const N: usize>(number: &mut [u64; N], n: &[u64; N]) {
    let mut borrow = 0u64;
    for (limb, other) in number.iter_mut().zip(n) {
        let (value, first) = limb.overflowing_sub(*other);
        let (value, second) = value.overflowing_sub(borrow);
        *limb = value;
        borrow = u64::from(first || second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fermat_tells_primes_from_products() {
        // 2^64 - 59 is the largest prime of 64 bits, and 2^128 - 159 that of 128.
        assert!(passes_fermat(&[u64::MAX - 58]));
        assert!(!passes_fermat(&[u64::MAX - 60]));
        assert!(passes_fermat(&[u64::MAX - 158, u64::MAX]));
        assert!(!passes_fermat(&[u64::MAX - 160, u64::MAX]));
    }

    #[test]
    fn no_small_prime_divides_a_candidate() {
        let start = [0x1234_5678_9ABC_DEF1, 0xC000_0000_0000_0001];
        let number = |step: usize| (u128::from(start[1]) << 64 | u128::from(start[0])) + 2 * step as u128;
        let left = candidates(&start);
        for step in 0..SPAN {
            let divided = small_primes().iter().any(|p| number(step).is_multiple_of(u128::from(*p)));
            assert_eq!(left.contains(&step), !divided, "step {step}");
        }
    }

    #[test]
    fn primes_have_all_their_bits() {
        let mut random = Random::new(b"seed", "primes");
        let prime = prime::<4>(&mut random);
        assert_eq!(prime.bits(), 256);
        assert!(is_prime(Flavor::Any, &prime));
    }
}
