// SPDX-License-Identifier: GPL-2.0-only
//! Derives a volume's key from a passphrase. Limits bound the time and memory that a hostile header
//! can demand.

use crate::aside::aside;
use crate::layers::hashes::{self, HashFunction};
use crate::layers::keys::Secret;
use crate::layers::Attempt;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use outboard::tolerating_no_memory;
use outboard_image::luks::{Derivation, Digest, KeySlot};
use zeroize::{Zeroize, Zeroizing};

/// Most iterations of PBKDF2, counted per block of a key: about a minute.
const MOST_ITERATIONS: u64 = 200_000_000;
/// Most memory of Argon2 in KiB: 2 GiB, twice the default of cryptsetup. The sandbox has a limit,
/// too.
const MOST_MEMORY: u32 = 2 << 20;
/// Most KiB of all passes of Argon2: 256 GiB take some minutes.
const MOST_WORK: u64 = 256 << 20;

/// The work that one passphrase may cost over all key slots of a volume.
pub struct Budget {
    iterations: u64,
    /// KiB that Argon2 passes over.
    work: u64,
}

impl Budget {
    pub fn new() -> Self {
        Self {
            iterations: MOST_ITERATIONS,
            work: MOST_WORK,
        }
    }

    fn take_iterations(&mut self, iterations: u32, blocks: usize) -> Attempt<()> {
        let wanted = u64::from(iterations).saturating_mul(blocks as u64);
        let rest = self.iterations.checked_sub(wanted);
        self.iterations = rest.ok_or_else(|| {
            format!(
                "it wants {iterations} iterations of PBKDF2 for {blocks} blocks; {MOST_ITERATIONS} \
                 are the most that is done for a volume"
            )
        })?;
        Ok(())
    }

    fn take_passes(&mut self, time: u32, memory: u32) -> Attempt<()> {
        let rest = self.work.checked_sub(u64::from(memory) * u64::from(time));
        let rest = rest.filter(|_| memory <= MOST_MEMORY);
        self.work = rest.ok_or_else(|| {
            format!(
                "it wants {time} passes of Argon2 over {} MiB; {} MiB, and {} GiB of all passes \
                 for a volume, are the most that is done",
                memory >> 10,
                MOST_MEMORY >> 10,
                MOST_WORK >> 20
            )
        })?;
        Ok(())
    }
}

fn pbkdf2(
    passphrase: &[u8],
    hash: &str,
    salt: &[u8],
    iterations: u32,
    size: usize,
    budget: &mut Budget,
) -> Attempt<Secret> {
    let HashFunction { derive, digest, .. } = hashes::find(hash)?;
    budget.take_iterations(iterations, size.div_ceil(digest(&[]).len()))?;
    let (passphrase, salt) = (Secret::from(passphrase), salt.to_owned());
    aside(move || {
        let mut key = Secret::zeroed(size);
        derive(&passphrase, &salt, iterations, &mut key);
        Ok(key)
    })
}

/// Memory for Argon2, wiped after use.
struct Memory(Vec<Block>);

impl Memory {
    fn new(count: usize) -> Attempt<Self> {
        let mut blocks = Vec::new();
        let reserved = tolerating_no_memory(|| blocks.try_reserve_exact(count));
        reserved.map_err(|_| format!("its Argon2 needs {} MiB of memory", count >> 10))?;
        blocks.resize(count, Block::new());
        Ok(Self(blocks))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Zeroize::zeroize);
    }
}

fn argon2(
    passphrase: &[u8],
    algorithm: Algorithm,
    (time, memory, lanes): (u32, u32, u32),
    salt: &[u8],
    size: usize,
    budget: &mut Budget,
) -> Attempt<Secret> {
    budget.take_passes(time, memory)?;
    let wrong = |error: argon2::Error| format!("its Argon2: {error}");
    let params = Params::new(memory, time, lanes, Some(size)).map_err(wrong)?;
    let mut blocks = Memory::new(params.block_count())?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.min(lanes as usize))
        .build()
        .map_err(|error| error.to_string())?;
    let argon2 = Argon2::new(algorithm, Version::V0x13, params);
    let (passphrase, salt) = (Secret::from(passphrase), salt.to_owned());
    aside(move || {
        let mut key = Secret::zeroed(size);
        let derive =
            || argon2.hash_password_into_with_memory(&passphrase, &salt, &mut key, &mut blocks.0);
        pool.install(derive).map_err(wrong)?;
        Ok(key)
    })
}

/// The key of a key slot's area.
pub fn area_key(slot: &KeySlot, passphrase: &[u8], budget: &mut Budget) -> Attempt<Secret> {
    let size = slot.area.key_size;
    match &slot.derivation {
        Derivation::Pbkdf2 {
            hash,
            iterations,
            salt,
        } => pbkdf2(passphrase, hash, salt, *iterations, size, budget),
        Derivation::Argon2 {
            id,
            time,
            memory,
            lanes,
            salt,
        } => {
            let algorithm = if *id {
                Algorithm::Argon2id
            } else {
                Algorithm::Argon2i
            };
            let parameters = (*time, *memory, *lanes);
            argon2(passphrase, algorithm, parameters, salt, size, budget)
        }
    }
}

/// Diffuses a piece: each block of the hash's size becomes the hash of its number and contents.
fn diffuse(piece: &mut [u8], hash: &HashFunction) {
    let block = (hash.digest)(&[]).len();
    for (number, part) in piece.chunks_mut(block).enumerate() {
        let mut input = Zeroizing::new(Vec::with_capacity(4 + block));
        input.extend((number as u32).to_be_bytes());
        input.extend(part.iter());
        let mixed = (hash.digest)(&input);
        let length = part.len();
        part.copy_from_slice(&mixed[..length]);
    }
}

/// Merges the volume's key from its anti-forensic stripes.
pub fn merge(slot: &KeySlot, pieces: &[u8]) -> Attempt<Secret> {
    let hash = hashes::find(&slot.hash)?;
    let mut key = Secret::zeroed(slot.key_size);
    let mut pieces = pieces
        .chunks_exact(slot.key_size)
        .take(slot.stripes)
        .peekable();
    while let Some(piece) = pieces.next() {
        key.iter_mut().zip(piece).for_each(|(a, b)| *a ^= b);
        if pieces.peek().is_some() {
            diffuse(&mut key, &hash);
        }
    }
    Ok(key)
}

/// Whether a key matches the header's digest.
pub fn is_right(digest: &Digest, key: &[u8], budget: &mut Budget) -> Attempt<bool> {
    let (salt, size) = (&digest.salt, digest.digest.len());
    let found = pbkdf2(key, &digest.hash, salt, digest.iterations, size, budget)?;
    Ok(size > 0 && *found == *digest.digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_slots_together_have_a_limit() {
        let mut budget = Budget::new();
        let half = (MOST_ITERATIONS / 2) as u32;
        assert!(budget.take_iterations(half, 3).is_err());
        assert!(budget.take_iterations(u32::MAX, usize::MAX).is_err());
        budget.take_iterations(half, 2).unwrap();
        assert!(budget.take_iterations(1, 1).is_err());
        assert!(budget.take_passes(1, MOST_MEMORY + 1).is_err());
        let passes = (MOST_WORK / u64::from(MOST_MEMORY)) as u32;
        budget.take_passes(passes, MOST_MEMORY).unwrap();
        assert!(budget.take_passes(1, 1).is_err());
    }

    #[test]
    fn what_is_derived_is_counted() {
        let digest = Digest {
            hash: "sha256".to_owned(),
            iterations: u32::MAX,
            salt: Vec::new(),
            digest: vec![0; 32],
        };
        assert!(is_right(&digest, b"key", &mut Budget::new()).is_err());
    }
}
