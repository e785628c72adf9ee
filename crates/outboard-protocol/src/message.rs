// SPDX-License-Identifier: MIT
//! The structure in the place of `msghdr`, which the server copies before it looks at it.

/// Bytes of the structure: seven numbers of four bytes each, in the processor's order.
pub const BYTES: u64 = 28;

/// A place in the slot's data; offset 0 is NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub offset: u32,
    /// How many bytes it has.
    pub length: u32,
}

/// A message that is sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The address.
    pub name: Piece,
    /// All pieces of `msg_iov`, one after the other.
    pub contents: Piece,
    /// The control data.
    pub control: Piece,
    /// The flags that the kernel has set on a received message.
    pub flags: u32,
}

impl Message {
    /// Reads it from its place.
    pub fn parse(bytes: &[u8; BYTES as usize]) -> Self {
        let mut numbers = bytes
            .chunks_exact(4)
            .map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]));
        let mut next = || numbers.next().unwrap_or_default();
        let mut piece = || Piece {
            offset: next(),
            length: next(),
        };
        Self {
            name: piece(),
            contents: piece(),
            control: piece(),
            flags: next(),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; BYTES as usize] {
        let numbers = [
            self.name.offset,
            self.name.length,
            self.contents.offset,
            self.contents.length,
            self.control.offset,
            self.control.length,
            self.flags,
        ];
        let mut bytes = [0; BYTES as usize];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let piece = |offset, length| Piece { offset, length };
        let message = Message {
            name: piece(1, 2),
            contents: piece(3, u32::MAX),
            control: piece(5, 6),
            flags: 7,
        };
        assert_eq!(Message::parse(&message.bytes()), message);
    }
}
