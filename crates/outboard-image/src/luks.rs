// SPDX-License-Identifier: GPL-2.0-only
//! The headers of encrypted disks: LUKS version 1 and 2.
//!
//! Both have the same contents in different formats: key slots, each a copy of the volume's key
//! encrypted by one passphrase; a digest that identifies the right key; place and cipher of the
//! data.

mod parts;
mod version1;
mod version2;

pub use parts::{Derivation, Digest, KeySlot, KeyslotArea, LuksHeader, LuksSegment};
pub(crate) use version1::MAGIC;
pub(crate) use version2::{COPY_MAGIC, SIZES as COPIES};

use crate::block::fetch;
use crate::source::{watched, Source};
use std::io;

impl LuksHeader {
    /// Reads the header at the beginning of an encrypted volume. The inner error is a text: what is
    /// wrong with the header.
    pub fn read(source: &(impl Source + ?Sized)) -> io::Result<Result<Self, String>> {
        watched(source, |source| Self::parse(source))
    }

    fn parse(source: &(impl Source + ?Sized)) -> Result<Self, String> {
        let start = fetch(source, 0, 8).ok_or("the header is cut off")?;
        // An overwritten header may have a copy.
        let version = if start.has(0, version1::MAGIC) {
            start.be16(6)
        } else {
            2
        };
        let header = match version {
            1 => version1::read(source)?,
            2 => version2::read(source)?,
            other => return Err(format!("LUKS version {other} is not known")),
        };
        header.segment.check(source.size())?;
        for slot in &header.slots {
            slot.check(source.size())?;
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests;
