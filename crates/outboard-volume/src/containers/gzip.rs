// SPDX-License-Identifier: GPL-2.0-only
//! gzip streams, read as gzip(1) reads them.
//!
//! | behind a member | result |
//! |---|---|
//! | another member | its data follow |
//! | zeros up to the end (tapes, dd) | the end |
//! | anything else | a warning, and the end |

use flate2::bufread::GzDecoder;
use outboard_error::warn;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// The first bytes of a member.
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Buffer for compressed bytes.
const COMPRESSED: usize = 256 << 10;

/// The first bytes of a member, which are read already, and the rest.
type Input<R> = Chain<Cursor<Vec<u8>>, BufReader<R>>;

/// The data of all members of a gzip stream.
pub struct GzipReader<R: Read> {
    /// `None` after the last member.
    member: Option<GzDecoder<Input<R>>>,
    /// The file, for the warning; `None`: no warning.
    name: Option<String>,
}

impl<R: Read> GzipReader<R> {
    /// Reads a stream that begins with a member. A warning about bytes behind the last member says
    /// `name`.
    pub fn new(input: R, name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::quiet(input)
        }
    }

    /// Reads a stream without warnings.
    pub fn quiet(input: R) -> Self {
        let input = BufReader::with_capacity(COMPRESSED, input);
        Self {
            member: Some(GzDecoder::new(Cursor::new(Vec::new()).chain(input))),
            name: None,
        }
    }

    /// Goes on to the next member, if there is one.
    fn leave(&mut self, member: GzDecoder<Input<R>>) -> io::Result<()> {
        let mut input = member.into_inner();
        let mut start = Vec::new();
        input.by_ref().take(2).read_to_end(&mut start)?;
        // The first part of the chain was shorter than a member.
        let (_, mut rest) = input.into_inner();
        if start == MAGIC {
            self.member = Some(GzDecoder::new(Cursor::new(start).chain(rest)));
        } else if start.iter().any(|&byte| byte != 0) || !is_zero(&mut rest)? {
            if let Some(name) = &self.name {
                warn(format!(
                    "note: {name}: the bytes behind the end of its gzip data are ignored"
                ));
            }
        }
        Ok(())
    }
}

/// Whether only zeros follow.
fn is_zero(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        match bytes.len() {
            0 => return Ok(true),
            length => input.consume(length),
        }
    }
}

impl<R: Read> Read for GzipReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(mut member) = self.member.take() {
            let length = match member.read(buffer) {
                Ok(length) => length,
                Err(error) => {
                    self.member = Some(member);
                    return Err(error);
                }
            };
            if length > 0 {
                self.member = Some(member);
                return Ok(length);
            }
            self.leave(member)?;
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use flate2::Compression;
    use outboard_error::Notes;
    use std::io::Write;

    fn member(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The data of a stream, and whether there was a warning.
    fn read(stream: &[u8]) -> (io::Result<Vec<u8>>, bool) {
        let notes = Notes::default();
        let data = notes.collect(|| {
            let mut data = Vec::new();
            let read = GzipReader::new(stream, "it").read_to_end(&mut data);
            read.map(|_| data)
        });
        (data, !notes.lines().is_empty())
    }

    #[test]
    fn what_may_follow_the_last_member() {
        let two = [member(b"one"), member(b""), member(b"two")].concat();
        for (tail, warned) in [
            (vec![], false),
            (vec![0], false),
            (vec![0; 1 << 20], false),
            (vec![0x1f], true),
            (b"x".to_vec(), true),
            (vec![0x1f, 0], true),
            ([vec![0; 1024], b"x".to_vec()].concat(), true),
            ([vec![0; 512], member(b"three")].concat(), true),
        ] {
            let (data, warnings) = read(&[two.clone(), tail.clone()].concat());
            assert_eq!(data.unwrap(), b"onetwo", "{} bytes behind", tail.len());
            assert_eq!(warnings, warned, "{} bytes behind", tail.len());
        }
    }

    #[test]
    fn a_member_that_is_cut_or_damaged_is_an_error() {
        let whole = [member(b"one"), member(b"two")].concat();
        for length in 1..whole.len() {
            let (data, _) = read(&whole[..length]);
            let first = length == member(b"one").len();
            // One byte of the next member looks like bytes behind the last.
            let next = length == member(b"one").len() + 1;
            assert_eq!(data.is_ok(), first || next, "{length} bytes");
        }
        let mut damaged = whole;
        let sum = damaged.len() - 8;
        damaged[sum] ^= 1;
        assert!(read(&damaged).0.is_err());
    }
}
