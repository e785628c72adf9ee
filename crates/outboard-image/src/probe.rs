// SPDX-License-Identifier: GPL-2.0-only
//! Recognising what is in a disk or partition by its superblock.
//!
//! Each probe looks at fixed places for a magic number and at a few fields that
//! rule out chance. Containers come first (a RAID member also looks like what is in it),
//! then file systems with strong magic numbers, weak ones last.

mod containers;
mod ext;
mod fat;
mod found;
mod journaling;
mod macintosh;
mod ntfs;
mod old;
mod optical;
mod packed;

pub use found::{Class, Probe, State};

use crate::source::{watched, Source};
use crate::vhd;
use std::io;

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

#[cfg(test)]
mod tests;
