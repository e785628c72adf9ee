// SPDX-License-Identifier: MIT
//! The bytes that a program reads or writes with one call: at one address, or at those of a list of
//! `iovec`.

use super::memory::{number, CallEnd, Carrier, ProgramMemory};

/// Linux moves no more bytes with one call.
pub(super) const MOST_BYTES: u64 = 0x7fff_f000;
/// `UIO_MAXIOV`.
const MOST_PARTS: u64 = 1024;
/// Bytes of `struct iovec`.
const PART: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The address.
    One(u64),
    /// The address of the list, and the number of its parts.
    List(u64, u64),
}

/// Memory of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgramBuffer {
    place: Place,
    /// Bytes in all.
    pub(super) length: u64,
}

impl ProgramBuffer {
    /// So many bytes at an address.
    pub(super) fn at(address: u64, length: u64) -> Self {
        let place = Place::One(address);
        Self { place, length }
    }

    /// The same with at most so many bytes.
    pub(super) fn limited(self, most: u64) -> Self {
        let length = self.length.min(most);
        Self { length, ..self }
    }

    /// A list of `iovec`. Too many parts, or a part with a negative length, are refused with
    /// `too_many` and `EINVAL`.
    pub(super) fn list(
        memory: &impl ProgramMemory,
        address: u64,
        count: u64,
        too_many: i32,
    ) -> Result<Self, CallEnd> {
        if count > MOST_PARTS {
            return Err(CallEnd::Refused(too_many));
        }
        if address == 0 && count > 0 {
            return Err(CallEnd::Refused(libc::EFAULT));
        }
        let place = Place::List(address, count);
        let mut length: u64 = 0;
        for index in 0..count {
            let (_, part) = part_at(memory, address, index);
            if i64::try_from(part).is_err() {
                return Err(CallEnd::Refused(libc::EINVAL));
            }
            length = length.saturating_add(part);
        }
        Ok(Self { place, length }.limited(MOST_BYTES))
    }

    /// Whether the program gave NULL.
    pub(super) fn is_null(&self) -> bool {
        self.place == Place::One(0)
    }

    fn part(&self, memory: &impl ProgramMemory, index: u64) -> Option<(u64, u64)> {
        match self.place {
            Place::One(address) => (index == 0).then_some((address, self.length)),
            Place::List(address, count) => (index < count).then(|| part_at(memory, address, index)),
        }
    }

    /// Hands out the parts of `length` bytes behind the first `skip` bytes: the address in the
    /// program, the place behind `skip`, and the length.
    fn walk<M: ProgramMemory>(
        &self,
        memory: &mut M,
        mut skip: u64,
        length: u64,
        mut copy: impl FnMut(&mut M, u64, usize, usize),
    ) {
        let mut done = 0;
        let mut index = 0;
        while done < length {
            // Another thread may have changed the list: it cannot lead beyond `length`.
            let Some((address, bytes)) = self.part(memory, index) else {
                return;
            };
            index += 1;
            let skipped = skip.min(bytes);
            skip -= skipped;
            let here = (bytes - skipped).min(length - done);
            if here > 0 {
                copy(memory, address + skipped, done as usize, here as usize);
            }
            done += here;
        }
    }

    /// Copies bytes of the program to an offset of the data.
    pub(super) fn gather(
        &self,
        memory: &mut impl ProgramMemory,
        carrier: &mut impl Carrier,
        (skip, length): (u64, u64),
        offset: u64,
    ) {
        let base = offset as usize;
        self.walk(memory, skip, length, |memory, address, done, length| {
            carrier.write(base + done, memory.bytes(address, length));
        });
    }

    /// Copies bytes of the data back to the program.
    pub(super) fn scatter(
        &self,
        memory: &mut impl ProgramMemory,
        carrier: &impl Carrier,
        (skip, length): (u64, u64),
        offset: u64,
    ) {
        let base = offset as usize;
        self.walk(memory, skip, length, |memory, address, done, length| {
            carrier.read(base + done, memory.bytes_mut(address, length));
        });
    }
}

/// Address and length of a part.
fn part_at(memory: &impl ProgramMemory, list: u64, index: u64) -> (u64, u64) {
    let bytes = memory.bytes(list + PART * index, PART as usize);
    (number(bytes, 0), number(bytes, 8))
}
