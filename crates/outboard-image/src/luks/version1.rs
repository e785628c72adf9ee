// SPDX-License-Identifier: GPL-2.0-only
//! LUKS version 1: one block of fields, big-endian.

use super::parts::{Derivation, Digest, KeySlot, KeyslotArea, LuksHeader, LuksSegment, SECTOR};
use crate::block::{fetch, Block};
use crate::source::Source;

pub(crate) const MAGIC: &[u8] = b"LUKS\xba\xbe";
const SIZE: usize = 592;
/// Marks a key slot that is in use.
const ENABLED: u32 = 0x00ac_71f3;
const SALT: usize = 32;

struct Common {
    cipher: String,
    hash: String,
    key_size: usize,
}

fn slot(block: &Block, number: u32, common: &Common) -> Option<KeySlot> {
    let at = 208 + 48 * number as usize;
    (block.be32(at) == ENABLED).then(|| KeySlot {
        number,
        derivation: Derivation::Pbkdf2 {
            hash: common.hash.clone(),
            iterations: block.be32(at + 4),
            salt: block.bytes(at + 8, SALT).to_vec(),
        },
        area: KeyslotArea {
            offset: u64::from(block.be32(at + 40)) * SECTOR,
            cipher: common.cipher.clone(),
            key_size: common.key_size,
        },
        key_size: common.key_size,
        stripes: block.be32(at + 44) as usize,
        hash: common.hash.clone(),
    })
}

pub(super) fn read(source: &(impl Source + ?Sized)) -> Result<LuksHeader, String> {
    let block = fetch(source, 0, SIZE).ok_or("the header is cut off")?;
    let text = |offset, length| block.text(offset, length).unwrap_or_default();
    let common = Common {
        cipher: format!("{}-{}", text(8, 32), text(40, 32)),
        hash: text(72, 32),
        key_size: block.be32(108) as usize,
    };
    let slots = (0..8).filter_map(|number| slot(&block, number, &common));
    Ok(LuksHeader {
        version: 1,
        uuid: text(168, 40),
        slots: slots.collect(),
        digest: Digest {
            hash: common.hash.clone(),
            iterations: block.be32(164),
            salt: block.bytes(132, SALT).to_vec(),
            digest: block.bytes(112, 20).to_vec(),
        },
        segment: LuksSegment {
            offset: u64::from(block.be32(104)) * SECTOR,
            size: None,
            cipher: common.cipher,
            sector_size: 512,
            first: 0,
            integrity: None,
        },
        flags: Vec::new(),
    })
}
