// SPDX-License-Identifier: GPL-2.0-only
//! ext2, ext3 and ext4.

use super::found::{block_size, Probe, State};
use crate::block::fetch;
use crate::source::Source;

const COMPAT_JOURNAL: u32 = 0x4;
const INCOMPAT_RECOVER: u32 = 0x4;
const INCOMPAT_JOURNAL_DEVICE: u32 = 0x8;
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_CASEFOLD: u32 = 0x20000;
/// File types, recovery, journal device, meta block groups: known before ext4.
const INCOMPAT_EXT3: u32 = 0x1e;
/// Sparse superblocks, large files, B-tree directories.
const RO_COMPAT_EXT3: u32 = 0x7;
/// The variant whose journal is on another device.
pub(super) const EXTERNAL_JOURNAL: &str = "external journal";
const STATE_VALID: u16 = 1;
const STATE_ERRORS: u16 = 2;

pub(super) fn ext(source: &(impl Source + ?Sized)) -> Option<Probe> {
    let block = fetch(source, 1024, 1024)?;
    if block.le16(56) != 0xef53 {
        return None;
    }
    let (compat, incompat, ro_compat) = (block.le32(92), block.le32(96), block.le32(100));
    let kind = if incompat & INCOMPAT_JOURNAL_DEVICE != 0 {
        "jbd"
    } else if incompat & !INCOMPAT_EXT3 != 0 || ro_compat & !RO_COMPAT_EXT3 != 0 {
        "ext4"
    } else if compat & COMPAT_JOURNAL != 0 {
        "ext3"
    } else {
        "ext2"
    };
    let high = if incompat & INCOMPAT_64BIT != 0 {
        u64::from(block.le32(336)) << 32
    } else {
        0
    };
    let state = block.le16(58);
    let trouble = if incompat & INCOMPAT_RECOVER != 0 {
        Some("the journal has to be replayed")
    } else if state & STATE_ERRORS != 0 {
        Some("errors were found in it")
    } else if state & STATE_VALID == 0 {
        Some("not unmounted")
    } else {
        None
    };
    let mut probe = Probe::file_system(kind);
    if compat & COMPAT_JOURNAL != 0 && block.le32(224) == 0 {
        probe.detail = EXTERNAL_JOURNAL.to_owned();
    }
    Some(
        probe
            .label(block.text(120, 16))
            .uuid(block.uuid(104))
            .folding(incompat & INCOMPAT_CASEFOLD != 0)
            .blocks(
                high | u64::from(block.le32(4)),
                block_size(1024, block.le32(24)),
            )
            .state(trouble.is_none(), trouble.unwrap_or_default()),
    )
}

impl Probe {
    /// Whether its journal is on another device, and is not needed: there is nothing to replay.
    pub fn needs_no_journal(&self) -> bool {
        self.detail == EXTERNAL_JOURNAL && self.state == State::Clean
    }
}
