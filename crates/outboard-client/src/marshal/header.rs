// SPDX-License-Identifier: MIT
//! The program's `struct msghdr`.

use super::buffer::ProgramBuffer;
use super::memory::{number, word, CallEnd, ProgramMemory};

/// Bytes of the structure.
const BYTES: usize = 56;
/// Linux looks at no more bytes of an address: `struct sockaddr_storage`.
const MOST_NAME: u32 = 128;

/// Places in the structure that the kernel writes.
const NAME_LENGTH: u64 = 8;
const CONTROL_LENGTH: u64 = 40;
const FLAGS: u64 = 48;

/// The header's fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageHeader {
    /// Its address in the program.
    address: u64,
    /// The place of a socket's address.
    pub(super) name: ProgramBuffer,
    /// The bytes of the message.
    pub(super) contents: ProgramBuffer,
    /// The place of the control data.
    pub(super) control: ProgramBuffer,
}

impl MessageHeader {
    /// Reads the structure, and checks its lengths as Linux does.
    pub(super) fn read(memory: &impl ProgramMemory, address: u64) -> Result<Self, CallEnd> {
        let bytes = memory.bytes(address, BYTES);
        let (name, name_length) = (number(bytes, 0), word(bytes, 8));
        let (list, parts) = (number(bytes, 16), number(bytes, 24));
        let (control, control_length) = (number(bytes, 32), number(bytes, 40));
        if i32::try_from(name_length).is_err() {
            return Err(CallEnd::Refused(libc::EINVAL));
        }
        let length = |address, length| if address == 0 { 0 } else { length };
        let name_length = length(name, name_length.min(MOST_NAME).into());
        Ok(Self {
            address,
            name: ProgramBuffer::at(name, name_length),
            contents: ProgramBuffer::list(memory, list, parts, libc::EMSGSIZE)?,
            control: ProgramBuffer::at(control, length(control, control_length)),
        })
    }

    /// Writes what the kernel has changed. Lengths can be larger than those of the buffers.
    pub(super) fn update(
        &self,
        memory: &mut impl ProgramMemory,
        name_length: u32,
        control_length: u64,
        flags: u32,
    ) {
        let mut write = |place, bytes: &[u8]| {
            let address = self.address + place;
            memory
                .bytes_mut(address, bytes.len())
                .copy_from_slice(bytes);
        };
        if !self.name.is_null() {
            write(NAME_LENGTH, &name_length.to_ne_bytes());
        }
        write(CONTROL_LENGTH, &control_length.to_ne_bytes());
        write(FLAGS, &flags.to_ne_bytes());
    }
}
