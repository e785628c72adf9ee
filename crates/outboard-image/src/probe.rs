// SPDX-License-Identifier: GPL-2.0-only
//! Recognising what is in a disk or partition by its superblock.
//!
//! Each probe looks at fixed places for a magic number and at a few fields that
//! rule out chance. Containers come first (a RAID member also looks like what is in it),
//! then file systems with strong magic numbers, weak ones last.

mod containers;
mod ext;
mod fat;
mod journaling;
mod macintosh;
mod ntfs;
mod old;
mod optical;
mod packed;

use crate::block::Block;
use crate::source::{watched, Source};
use crate::vhd;
use std::io;

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
    /// Whether its journal is on another device, and is not needed: there is nothing to replay.
    pub fn needs_no_journal(&self) -> bool {
        self.detail == ext::EXTERNAL_JOURNAL && self.state == State::Clean
    }

    fn new(class: Class, kind: &'static str) -> Self {
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

    fn file_system(kind: &'static str) -> Self {
        Self::new(Class::FileSystem, kind)
    }

    fn label(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }

    fn uuid(mut self, uuid: Option<String>) -> Self {
        self.uuid = uuid;
        self
    }

    /// Size as a count of blocks. Sizes that make no sense are left out.
    fn blocks(mut self, count: u64, block_size: u64) -> Self {
        if block_size > 0 {
            self.block_size = Some(block_size);
            self.size = count.checked_mul(block_size);
        }
        self
    }

    fn folding(mut self, yes: bool) -> Self {
        self.folds_case = yes;
        self
    }

    fn state(mut self, clean: bool, otherwise: &'static str) -> Self {
        self.state = if clean {
            State::Clean
        } else {
            State::Unclean(otherwise)
        };
        self
    }
}

/// `1 << shift` for a shift from a superblock, 0 if that makes no sense as a block size.
fn block_size(base: u64, shift: u32) -> u64 {
    if shift <= 16 {
        base << shift
    } else {
        0
    }
}

type Prober<'a> = fn(&(dyn Source + 'a)) -> Option<Probe>;

/// The format of a file that holds a disk image in another way than byte by byte, as in "qcow2".
pub fn file_format(source: &(impl Source + ?Sized)) -> io::Result<Option<&'static str>> {
    watched(source, |source| {
        let found = containers::wrapped(source).map(|found| found.kind);
        found.or_else(|| vhd::is_fixed(source).then_some("vhd"))
    })
}

/// The format of a file by its first bytes: an image, an archive, compressed data.
pub fn leading_format(source: &(impl Source + ?Sized)) -> io::Result<Option<&'static str>> {
    watched(source, |source| {
        let found = containers::wrapped(source).or_else(|| containers::tar(source));
        found.map(|found| found.kind)
    })
}

/// Recognises the contents of `source`. `None`: no prober knows them. An error: a probe could not
/// read, so that they are unknown, even if a later probe knows something.
pub fn probe(source: &(impl Source + ?Sized)) -> io::Result<Option<Probe>> {
    watched(source, |source| recognise(source))
}

/// As [`probe`], for a parser that is watched itself.
pub(crate) fn recognise<'a>(source: &(dyn Source + 'a)) -> Option<Probe> {
    let probers: &[Prober<'a>] = &[
        containers::wrapped,
        containers::tar,
        containers::md,
        containers::firmware_raid,
        containers::luks,
        containers::verity,
        containers::integrity,
        containers::bitlocker,
        containers::lvm,
        containers::swap,
        journaling::xfs,
        journaling::bcachefs,
        macintosh::apfs,
        ext::ext,
        journaling::f2fs,
        journaling::btrfs,
        journaling::jfs,
        journaling::reiserfs,
        packed::squashfs,
        packed::erofs,
        packed::cramfs,
        packed::romfs,
        ntfs::ntfs,
        fat::exfat,
        optical::udf,
        optical::iso9660,
        macintosh::hfsplus,
        macintosh::hfs,
        journaling::nilfs2,
        old::hpfs,
        old::ufs,
        old::befs,
        old::qnx6,
        old::omfs,
        old::vxfs,
        old::efs,
        old::bfs,
        old::sysv,
        old::adfs,
        fat::vfat,
        old::affs,
        old::minix,
        old::qnx4,
        containers::disk_label,
        containers::dmg,
    ];
    let mut found = probers.iter().find_map(|prober| prober(source))?;
    // A damaged superblock may claim 0.
    found.block_size = found.block_size.filter(|&size| size > 0);
    Some(found)
}

/// A little-endian or big-endian field, as the superblock has it.
#[derive(Clone, Copy)]
struct EndianField {
    big: bool,
}

impl EndianField {
    fn get32(self, block: &Block, offset: usize) -> u32 {
        if self.big {
            block.be32(offset)
        } else {
            block.le32(offset)
        }
    }

    fn get64(self, block: &Block, offset: usize) -> u64 {
        if self.big {
            block.be64(offset)
        } else {
            block.le64(offset)
        }
    }

    /// The order in which the field is `magic`.
    fn of(block: &Block, offset: usize, magic: u32) -> Option<Self> {
        if block.le32(offset) == magic {
            return Some(Self { big: false });
        }
        (block.be32(offset) == magic).then_some(Self { big: true })
    }
}

#[cfg(test)]
mod tests;
