// SPDX-License-Identifier: GPL-2.0-only
//! Finds data and holes.
//!
//! The host keeps dirty pages and asks the server without writing them first. If the image
//! already has data, dirty pages change nothing. So only the hole that decides the answer is
//! checked again, after the host has written its pages there:
//!
//! | the image at the offset | SEEK_DATA                      | SEEK_HOLE                     |
//! |-------------------------|--------------------------------|-------------------------------|
//! | data                    | certain                        | the next hole may hide data   |
//! | hole                    | the hole may hide data         | the hole may hide data        |
//! | behind the end          | all from the offset on may     | all from the offset on may    |

use super::ServedVolume;
use outboard::Fd;
use std::io;

/// A part of a file; without an end, everything from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub end: Option<u64>,
}

impl Span {
    /// Whether it contains another span.
    fn covers(self, other: Span) -> bool {
        let end = |span: Span| span.end.unwrap_or(u64::MAX);
        self.start <= other.start && end(other) <= end(self)
    }
}

/// The result of a seek in the image.
pub struct Look {
    pub found: io::Result<u64>,
    /// A hole of the image; dirty pages of the host in it would change the result.
    hole: Option<Span>,
}

impl Look {
    /// The hole, unless the host has no dirty pages there.
    pub fn doubt(&self, clean: Option<Span>) -> Option<Span> {
        self.hole
            .filter(|hole| clean.is_none_or(|clean| !clean.covers(*hole)))
    }
}

fn is_behind_the_end(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

/// The hole that decides the result.
fn deciding_hole(fd: &Fd, offset: u64, whence: i32, found: &io::Result<u64>) -> Option<Span> {
    let (start, end) = match (whence, found) {
        (libc::SEEK_DATA, Ok(position)) => (offset, Some(*position)),
        (libc::SEEK_HOLE, Ok(position)) => {
            let next = fd.seek(i64::try_from(*position).ok()?, libc::SEEK_DATA);
            (*position, next.ok())
        }
        (_, Err(error)) if is_behind_the_end(error) => (offset, None),
        _ => return None,
    };
    (end != Some(start)).then_some(Span { start, end })
}

impl ServedVolume {
    /// Finds data or a hole, as lseek(2) does.
    pub fn seek(&self, file: u64, offset: i64, whence: i32) -> io::Result<Look> {
        let file = self.files.get(file)?;
        let found = file.fd.seek(offset, whence);
        let start = offset.unsigned_abs();
        let hole = deciding_hole(&file.fd, start, whence, &found);
        Ok(Look { found, hole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts() {
        let span = |start, end| Span { start, end };
        let look = |hole| Look { found: Ok(0), hole };
        assert_eq!(look(None).doubt(None), None);
        let hole = span(10, Some(20));
        assert_eq!(look(Some(hole)).doubt(None), Some(hole));
        for clean in [hole, span(10, None), span(0, Some(20))] {
            assert_eq!(look(Some(hole)).doubt(Some(clean)), None);
        }
        for clean in [span(11, None), span(10, Some(19))] {
            assert_eq!(look(Some(hole)).doubt(Some(clean)), Some(hole));
        }
        let open = span(10, None);
        assert_eq!(look(Some(open)).doubt(Some(hole)), Some(open));
    }
}
