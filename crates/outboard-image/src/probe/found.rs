// SPDX-License-Identifier: GPL-2.0-only
//! The result of a probe, and the fields of superblocks.

use crate::block::Block;

/// The kind of contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A file system.
    FileSystem,
    /// Swap space.
    Swap,
    /// A layer that holds volumes or an encrypted or mirrored disk.
    Container,
    /// A file format that has a disk image or files inside, not the disk itself.
    Wrapped,
}

/// Whether a file system was left well, as far as its superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Unmounted cleanly.
    Clean,
    /// In words: what is wrong.
    Unclean(&'static str),
    /// The superblock does not say.
    Unknown,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// File system or container.
    pub class: Class,
    /// The type, as in "ext4" or "crypto_LUKS".
    pub kind: &'static str,
    /// The variant where opening it needs to know it (UFS, md, ext with a journal elsewhere), the
    /// number of its devices (btrfs on several), else empty.
    pub detail: String,
    /// Label, where there is one.
    pub label: Option<String>,
    /// UUID, where there is one.
    pub uuid: Option<String>,
    /// Size in bytes as the superblock has it.
    pub size: Option<u64>,
    /// Bytes of a block; never 0.
    pub block_size: Option<u64>,
    /// Clean or not.
    pub state: State,
    /// There may be directories in which names that differ only in case are the same.
    pub folds_case: bool,
}

impl Probe {
    pub(super) fn new(class: Class, kind: &'static str) -> Self {
        Self {
            class,
            kind,
            detail: String::new(),
            label: None,
            uuid: None,
            size: None,
            block_size: None,
            state: State::Unknown,
            folds_case: false,
        }
    }

    pub(super) fn file_system(kind: &'static str) -> Self {
        Self::new(Class::FileSystem, kind)
    }

    pub(super) fn label(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }

    pub(super) fn uuid(mut self, uuid: Option<String>) -> Self {
        self.uuid = uuid;
        self
    }

    /// Size as a count of blocks. Sizes that make no sense are left out.
    pub(super) fn blocks(mut self, count: u64, block_size: u64) -> Self {
        if block_size > 0 {
            self.block_size = Some(block_size);
            self.size = count.checked_mul(block_size);
        }
        self
    }

    pub(super) fn folding(mut self, yes: bool) -> Self {
        self.folds_case = yes;
        self
    }

    pub(super) fn state(mut self, clean: bool, otherwise: &'static str) -> Self {
        self.state = if clean {
            State::Clean
        } else {
            State::Unclean(otherwise)
        };
        self
    }
}

/// `1 << shift` for a shift from a superblock, 0 if that makes no sense as a block size.
pub fn block_size(base: u64, shift: u32) -> u64 {
    if shift <= 16 {
        base << shift
    } else {
        0
    }
}

/// A little-endian or big-endian field, as the superblock has it.
#[derive(Clone, Copy)]
pub struct EndianField {
    pub(super) big: bool,
}

impl EndianField {
    pub(super) fn get32(self, block: &Block, offset: usize) -> u32 {
        if self.big {
            block.be32(offset)
        } else {
            block.le32(offset)
        }
    }

    pub(super) fn get64(self, block: &Block, offset: usize) -> u64 {
        if self.big {
            block.be64(offset)
        } else {
            block.le64(offset)
        }
    }

    /// The order in which the field is `magic`.
    pub(super) fn of(block: &Block, offset: usize, magic: u32) -> Option<Self> {
        if block.le32(offset) == magic {
            return Some(Self { big: false });
        }
        (block.be32(offset) == magic).then_some(Self { big: true })
    }
}
