// SPDX-License-Identifier: GPL-2.0-only
//! Finds out whether the data of a hard link with a size follow its header.
//!
//! POSIX allows data in PAX archives. Old programs write the size of the other file without data.
//! Without PAX records, the blocks behind the header tell: those at the place of the data, and the
//! block that would follow the data. The data can be an archive themselves.

use super::header::{is_sound, is_zero, number, padding, BLOCK};
use super::stream::StopReason;
use ::tar::Header;

/// Most bytes that are looked at. They stay in memory.
const MOST: u64 = 1 << 20;

/// Whether data follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkData {
    Present,
    Absent,
    /// Both are possible.
    Unclear,
}

/// A block behind the header of the link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    /// A header. The bytes that its member has in the archive follow.
    Header(u64),
    Zero,
    Other,
    /// The archive ends right before the block.
    End,
    /// The archive ends earlier.
    Past,
    /// It is too far away.
    Unseen,
}

/// How a chain of members ends that begins right behind the header of the link.
enum ChainEnd {
    /// A member ends where the data would end.
    There,
    /// A member reaches over that place.
    Over,
    /// At this distance, blocks of zeroes or the end of the input mark the end of an archive.
    Marked(u64),
    /// At this distance, a block is no header.
    Broken(u64),
    Unseen,
}

/// The block at each distance; `None`: the archive ends there or earlier.
pub trait Peek: FnMut(u64) -> Result<Option<[u8; BLOCK]>, StopReason> {}

impl<P: FnMut(u64) -> Result<Option<[u8; BLOCK]>, StopReason>> Peek for P {}

/// Whether `size` bytes of data follow the header of a hard link, in an archive without PAX
/// records.
pub fn find(link: &Header, size: u64, mut peek: impl Peek) -> Result<LinkData, StopReason> {
    let end = size.saturating_add(padding(size));
    let chain = chain(end, &mut peek)?;
    let behind = behind(end, &mut peek)?;
    Ok(match (chain, behind) {
        (ChainEnd::Broken(0), _) => LinkData::Present,
        (_, BlockKind::Past) => LinkData::Absent,
        (ChainEnd::Marked(at), BlockKind::Zero | BlockKind::End) => {
            if !are_zero(at, end, &mut peek)? {
                LinkData::Present
            } else if at > 0 {
                LinkData::Unclear
            } else {
                data_of_zeroes(link, behind)
            }
        }
        // More than an end follows the mark.
        (ChainEnd::Marked(_), _) | (ChainEnd::Broken(_), BlockKind::Header(_)) => LinkData::Present,
        (_, BlockKind::Other) | (ChainEnd::Over, BlockKind::Zero | BlockKind::End) => {
            LinkData::Absent
        }
        _ => LinkData::Unclear,
    })
}

/// Whether zeroes behind the header are data, or the end of the archive. GNU tar writes no data of
/// hard links.
fn data_of_zeroes(link: &Header, behind: BlockKind) -> LinkData {
    match link.as_ustar() {
        Some(_) if behind == BlockKind::Zero => LinkData::Present,
        _ => LinkData::Absent,
    }
}

fn kind(block: &[u8; BLOCK]) -> BlockKind {
    if is_zero(block) {
        return BlockKind::Zero;
    }
    let header = Header::from_byte_slice(block);
    let old = header.as_old();
    let size = number(&old.size).and_then(|size| u64::try_from(size).ok());
    match size {
        Some(size) if is_sound(header) => BlockKind::Header(match old.linkflag[0] {
            b'1'..=b'6' => 0,
            _ => size.saturating_add(padding(size)),
        }),
        _ => BlockKind::Other,
    }
}

fn chain(end: u64, peek: &mut impl Peek) -> Result<ChainEnd, StopReason> {
    let mut at = 0;
    loop {
        if at == end {
            return Ok(ChainEnd::There);
        }
        if at > end {
            return Ok(ChainEnd::Over);
        }
        if at >= MOST {
            return Ok(ChainEnd::Unseen);
        }
        let Some(block) = peek(at)? else {
            return Ok(ChainEnd::Marked(at));
        };
        match kind(&block) {
            BlockKind::Header(length) => at = (at + BLOCK as u64).saturating_add(length),
            BlockKind::Zero => return Ok(ChainEnd::Marked(at)),
            _ => return Ok(ChainEnd::Broken(at)),
        }
    }
}

/// The block behind data that end at this distance.
fn behind(end: u64, peek: &mut impl Peek) -> Result<BlockKind, StopReason> {
    let last = end.min(MOST) - BLOCK as u64;
    if peek(last)?.is_none() {
        return Ok(BlockKind::Past);
    }
    if end > MOST {
        return Ok(BlockKind::Unseen);
    }
    Ok(peek(end)?.map_or(BlockKind::End, |block| kind(&block)))
}

/// Whether all blocks of a stretch are zeroes.
fn are_zero(start: u64, end: u64, peek: &mut impl Peek) -> Result<bool, StopReason> {
    for at in (start..end).step_by(BLOCK) {
        if peek(at)?.is_some_and(|block| !is_zero(&block)) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: [u8; BLOCK] = [0; BLOCK];
    const OTHER: [u8; BLOCK] = [7; BLOCK];

    fn header(size: u64) -> [u8; BLOCK] {
        let mut header = Header::new_ustar();
        header.set_size(size);
        header.set_cksum();
        *header.as_bytes()
    }

    /// The finding for a link whose header these blocks follow.
    fn found(link: &Header, size: u64, blocks: &[[u8; BLOCK]]) -> LinkData {
        let peek = |at: u64| Ok(blocks.get(at as usize / BLOCK).copied());
        find(link, size, peek).unwrap()
    }

    #[test]
    fn blocks_behind_a_link() {
        let (empty, full) = (header(0), header(1));
        let of_ustar = |size, blocks: &[_]| found(&Header::new_ustar(), size, blocks);
        for (size, blocks, wanted) in [
            // Data that are no archive.
            (600, &[OTHER, OTHER, empty, ZERO][..], LinkData::Present),
            (600, &[ZERO, OTHER, ZERO], LinkData::Present),
            (600, &[ZERO, ZERO, empty], LinkData::Present),
            (600, &[OTHER], LinkData::Present),
            // Data that are an archive, with and without its end.
            (2000, &[full, OTHER, ZERO, ZERO, empty], LinkData::Present),
            (2000, &[full, OTHER, ZERO, ZERO, ZERO], LinkData::Unclear),
            (1000, &[full, OTHER, empty], LinkData::Unclear),
            (600, &[empty, full, empty, ZERO], LinkData::Unclear),
            (1000, &[empty, OTHER, empty, ZERO], LinkData::Present),
            // A member follows.
            (5, &[full, OTHER, ZERO], LinkData::Absent),
            (5, &[full, ZERO, ZERO], LinkData::Absent),
            (5, &[full, empty, ZERO], LinkData::Unclear),
            (2000, &[full, OTHER, ZERO], LinkData::Absent),
            (2 * MOST, &[full, OTHER, ZERO], LinkData::Absent),
            (u64::MAX, &[full, OTHER], LinkData::Absent),
            // The end follows.
            (1000, &[ZERO, ZERO], LinkData::Absent),
            (600, &[], LinkData::Absent),
        ] {
            assert_eq!(of_ustar(size, blocks), wanted, "{size} {}", blocks.len());
        }
        let zeroes = [ZERO; 3];
        assert_eq!(of_ustar(600, &zeroes), LinkData::Present);
        assert_eq!(found(&Header::new_gnu(), 600, &zeroes), LinkData::Absent);
    }

    #[test]
    fn data_that_are_too_large_to_look_at() {
        let link = Header::new_ustar();
        let all = |block| found(&link, 2 * MOST, &vec![block; 3 * MOST as usize / BLOCK]);
        assert_eq!(all(header(0)), LinkData::Unclear);
        assert_eq!(all(OTHER), LinkData::Present);
        assert_eq!(all(ZERO), LinkData::Present);
    }
}
