// SPDX-License-Identifier: MIT
//! Calls of clients that share no memory with the server. The frames have what a slot has, and the
//! parts of its data that matter.
//!
//! | bytes of a call | hold |
//! |---|---|
//! | 0 to 3 | the number of the request |
//! | 4 to 7 | the operation |
//! | 8 to 15 | the number of the system call |
//! | 16 to 63 | its arguments |
//! | 64 to 67 | the number of parts that follow |
//! | 68 to 71 | the number of parts that are wanted back, and follow those |
//!
//! A part that follows has its offset in the data and its length, of 4 bytes each, and its bytes. A
//! part that is wanted has its offset and length, and 4 bytes that are 1 if no more of it matters
//! than the result says, and else 0.
//!
//! | bytes of a reply | hold |
//! |---|---|
//! | 0 to 3 | the number of the request |
//! | 4 to 11 | the result |
//! | from 12 on | the parts: the length, of 4 bytes, and the bytes |
//!
//! All numbers are little endian.

use crate::CallRequest;

/// The most parts of a frame, each way.
pub const PARTS_MOST: usize = 8;
/// The most bytes of a part.
pub const PART_MOST: usize = 512 << 10;

/// Bytes that go along with a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPart {
    /// Their first offset in the data.
    pub offset: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Bytes that shall come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedPart {
    /// Their first offset in the data.
    pub offset: u32,
    /// How many they are.
    pub length: u32,
    /// Only as many matter as the result says.
    pub is_counted: bool,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFrame {
    /// The number of the request, as in a slot.
    pub request: u32,
    /// The operation.
    pub operation: u32,
    /// The call.
    pub call: CallRequest,
    /// The parts that go along.
    pub parts: Vec<CallPart>,
    /// The parts that come back.
    pub wanted: Vec<WantedPart>,
}

/// The reply to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyFrame {
    /// The number of the request.
    pub request: u32,
    /// The result.
    pub result: i64,
    /// The parts that were wanted, in their order. They may be shorter.
    pub parts: Vec<Vec<u8>>,
}

/// The numbers of a frame, one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    fn long(&mut self) -> Option<u64> {
        let bytes = self.bytes(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// A number of parts.
    fn count(&mut self) -> Option<usize> {
        let count = self.number()? as usize;
        (count <= PARTS_MOST).then_some(count)
    }

    /// The bytes of a part, after their length.
    fn part(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        (length <= PART_MOST).then(|| self.bytes(length))?
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

impl CallFrame {
    /// Reads the contents of a frame. `None`: they are no call.
    pub fn parse(contents: &[u8]) -> Option<Self> {
        let mut reader = Reader(contents);
        let (request, operation) = (reader.number()?, reader.number()?);
        let number = reader.long()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = reader.long()?;
        }
        let (parts, wanted) = (reader.count()?, reader.count()?);
        let part = |_| {
            let offset = reader.number()?;
            let bytes = reader.part()?.to_vec();
            Some(CallPart { offset, bytes })
        };
        let parts = (0..parts).map(part).collect::<Option<_>>()?;
        let want = |_| {
            let (offset, length) = (reader.number()?, reader.number()?);
            let is_counted = match reader.number()? {
                0 => false,
                1 => true,
                _ => return None,
            };
            Some(WantedPart {
                offset,
                length,
                is_counted,
            })
        };
        let wanted = (0..wanted).map(want).collect::<Option<_>>()?;
        reader.end()?;
        Some(Self {
            request,
            operation,
            call: CallRequest { number, arguments },
            parts,
            wanted,
        })
    }

    /// The contents of a frame.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.request.to_le_bytes());
        bytes.extend(self.operation.to_le_bytes());
        bytes.extend(self.call.number.to_le_bytes());
        let arguments = self.call.arguments.iter();
        bytes.extend(arguments.flat_map(|argument| argument.to_le_bytes()));
        bytes.extend((self.parts.len() as u32).to_le_bytes());
        bytes.extend((self.wanted.len() as u32).to_le_bytes());
        for part in &self.parts {
            bytes.extend(part.offset.to_le_bytes());
            bytes.extend((part.bytes.len() as u32).to_le_bytes());
            bytes.extend(&part.bytes);
        }
        for part in &self.wanted {
            let numbers = [part.offset, part.length, part.is_counted.into()];
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        bytes
    }
}

impl WantedPart {
    /// How many bytes come back for this result.
    pub fn length_for(&self, result: i64) -> u32 {
        match (self.is_counted, u32::try_from(result)) {
            (false, _) => self.length,
            (true, Ok(result)) => self.length.min(result),
            // More than a part has, or an error.
            (true, Err(_)) if result > 0 => self.length,
            (true, Err(_)) => 0,
        }
    }
}

impl ReplyFrame {
    /// Reads the contents of a frame. `None`: they are no reply.
    pub fn parse(contents: &[u8]) -> Option<Self> {
        let mut reader = Reader(contents);
        let request = reader.number()?;
        let result = reader.long()? as i64;
        let mut parts = Vec::new();
        while !reader.0.is_empty() {
            if parts.len() == PARTS_MOST {
                return None;
            }
            parts.push(reader.part()?.to_vec());
        }
        Some(Self {
            request,
            result,
            parts,
        })
    }

    /// The contents of a frame.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.request.to_le_bytes());
        bytes.extend(self.result.to_le_bytes());
        for part in &self.parts {
            bytes.extend((part.len() as u32).to_le_bytes());
            bytes.extend(part);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> CallFrame {
        let part = |offset, bytes: &[u8]| CallPart {
            offset,
            bytes: bytes.to_vec(),
        };
        let wanted = |offset, length, is_counted| WantedPart {
            offset,
            length,
            is_counted,
        };
        CallFrame {
            request: u32::MAX,
            operation: 2,
            call: CallRequest {
                number: 7,
                arguments: [1, 2, 3, 4, 5, u64::MAX],
            },
            parts: vec![part(64, b"abc"), part(100, b"")],
            wanted: vec![wanted(9, 10, true), wanted(11, 12, false)],
        }
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let bytes = call().bytes();
        assert_eq!(CallFrame::parse(&bytes), Some(call()));
        let reply = ReplyFrame {
            request: 5,
            result: -4,
            parts: vec![b"one".to_vec(), Vec::new(), vec![7; PART_MOST]],
        };
        assert_eq!(ReplyFrame::parse(&reply.bytes()), Some(reply));
    }

    #[test]
    fn what_is_cut_or_longer_is_refused() {
        let bytes = call().bytes();
        for length in 0..bytes.len() {
            assert_eq!(CallFrame::parse(&bytes[..length]), None, "{length}");
        }
        assert_eq!(CallFrame::parse(&[&bytes[..], b"x"].concat()), None);
        assert_eq!(ReplyFrame::parse(&[0; 11]), None);
        assert_eq!(ReplyFrame::parse(&[0; 13]), None);
    }

    #[test]
    fn numbers_of_parts_have_limits() {
        let mut many = call();
        many.parts = vec![CallPart::default(); PARTS_MOST + 1];
        assert_eq!(CallFrame::parse(&many.bytes()), None);
        let mut long = call();
        long.parts[0].bytes = vec![0; PART_MOST + 1];
        assert_eq!(CallFrame::parse(&long.bytes()), None);
        let parts = ReplyFrame {
            parts: vec![Vec::new(); PARTS_MOST + 1],
            ..ReplyFrame::default()
        };
        assert_eq!(ReplyFrame::parse(&parts.bytes()), None);
    }

    #[test]
    fn a_counted_part_is_as_long_as_the_result() {
        let part = |is_counted| WantedPart {
            offset: 0,
            length: 10,
            is_counted,
        };
        assert_eq!(part(false).length_for(-1), 10);
        let counted = [(-1, 0), (0, 0), (3, 3), (11, 10), (i64::MAX, 10)];
        for (result, length) in counted {
            assert_eq!(part(true).length_for(result), length, "{result}");
        }
    }
}
