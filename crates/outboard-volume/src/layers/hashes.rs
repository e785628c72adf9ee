// SPDX-License-Identifier: GPL-2.0-only
//! Hash functions by their names in headers and superblocks.

use crate::layers::Attempt;
use pbkdf2::pbkdf2_hmac;
use ripemd::Ripemd160;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use whirlpool::Whirlpool;
use zeroize::Zeroizing;

pub struct HashFunction {
    pub digest: fn(&[u8]) -> Zeroizing<Vec<u8>>,
    /// PBKDF2: passphrase, salt, iterations, result.
    pub derive: fn(&[u8], &[u8], u32, &mut [u8]),
}

fn digest<D: Digest>(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(D::digest(bytes).as_slice().to_vec())
}

macro_rules! function {
    ($name:ty) => {
        HashFunction {
            digest: digest::<$name>,
            derive: pbkdf2_hmac::<$name>,
        }
    };
}

pub fn find(name: &str) -> Attempt<HashFunction> {
    Ok(match name {
        "sha1" => function!(Sha1),
        "sha224" => function!(Sha224),
        "sha256" => function!(Sha256),
        "sha384" => function!(Sha384),
        "sha512" => function!(Sha512),
        "ripemd160" => function!(Ripemd160),
        "whirlpool" => function!(Whirlpool),
        other => {
            let other = other.escape_debug();
            return Err(format!("the hash function {other} is not supported"));
        }
    })
}
