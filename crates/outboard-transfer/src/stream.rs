// SPDX-License-Identifier: GPL-2.0-only
//! Reading a large file of an image with several threads; its pieces come out in order.
//!
//! Thread i of n reads pieces i, i+n, i+2n... and hands each over by a channel of its own; the
//! taker goes round the channels. A piece that is not full ends the file. The page cache is
//! avoided: a file that is read once would only fill memory there, and taking fresh memory from the
//! host costs more than reading. So reads are direct where the file system supports that. Pages
//! that still reach the page cache are dropped.

use outboard::{Fd, Limits};
use std::io;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};

/// Files from this size on are read by several threads, and past the page cache.
pub const LARGE: u64 = 8 << 20;
/// Bytes of a piece.
const PIECE: usize = 512 * 1024;
/// Pieces of one thread that may wait.
const WAITING: usize = 2;

type Piece = io::Result<Vec<u8>>;

/// Fills a buffer from an offset, up to the end of the file. Direct reads end with the first one
/// that is short or refused: the next offset is not aligned. `direct`: reads are direct now.
fn read_full(file: &Fd, direct: &mut bool, buffer: &mut Vec<u8>, offset: u64) -> io::Result<()> {
    buffer.resize(PIECE, 0);
    let mut done = 0;
    while done < PIECE {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(length) => done += length,
            Err(error) if !*direct => return Err(error),
            Err(_) => {}
        }
        if done < PIECE && *direct {
            file.set_direct(false)?;
            *direct = false;
        }
    }
    buffer.truncate(done);
    Ok(())
}

/// One thread: reads every `step`-th piece from `first` on until the file or the taker ends.
fn read_pieces(
    file: &Fd,
    first: u64,
    step: u64,
    filled: &SyncSender<Piece>,
    emptied: &Receiver<Vec<u8>>,
) {
    let mut number = first;
    // Refused: read through the page cache.
    let mut direct = file.set_direct(true).is_ok();
    loop {
        let mut buffer = emptied.try_recv().unwrap_or_default();
        let offset = number * PIECE as u64;
        let result = read_full(file, &mut direct, &mut buffer, offset);
        // Only a hint: memory comes back later if it fails.
        let _ = file.advise(offset, PIECE as u64, libc::POSIX_FADV_DONTNEED);
        let last = result.is_err() || buffer.len() < PIECE;
        if filled.send(result.map(|()| buffer)).is_err() || last {
            return;
        }
        number += step;
    }
}

/// Reads a file. `files`: its descriptors, one for each thread. `take` gets the pieces in order; an
/// error of `take` ends the reading and is returned.
pub fn read_in_order<E: From<ReadError>>(
    files: &[Fd],
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    std::thread::scope(|scope| {
        let channels: Vec<_> = (0u64..)
            .zip(files)
            .map(|(first, file)| {
                let (filled, pieces) = sync_channel(WAITING);
                let (buffers, emptied) = sync_channel(WAITING + 1);
                let step = files.len() as u64;
                let limits = Limits::current();
                let read = move || read_pieces(file, first, step, &filled, &emptied);
                scope.spawn(move || limits.run(read));
                (pieces, buffers)
            })
            .collect();
        for (pieces, buffers) in channels.iter().cycle() {
            // A thread ends only after a last piece, so there is one.
            let Ok(piece) = pieces.recv() else { break };
            let piece = piece.map_err(ReadError)?;
            take(&piece)?;
            if piece.len() < PIECE {
                break;
            }
            let _ = buffers.try_send(piece);
        }
        Ok(())
    })
}

/// An error of reading, not of the taker.
pub struct ReadError(pub io::Error);

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;
    use std::path::Path;

    impl From<ReadError> for io::Error {
        fn from(error: ReadError) -> Self {
            error.0
        }
    }

    fn check(size: usize, threads: usize) {
        let name = format!("outboard-stream-{}-{size}-{threads}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let bytes: Vec<u8> = (0..size).map(|index| (index / 7) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let open = || HostTree.open_fd(Path::new(&path), libc::O_RDONLY, 0);
        let files: Vec<Fd> = (0..threads).map(|_| open().unwrap()).collect();
        let mut found = Vec::new();
        let result: io::Result<()> = read_in_order(&files, |piece| {
            found.extend_from_slice(piece);
            Ok(())
        });
        std::fs::remove_file(&path).unwrap();
        result.unwrap();
        assert!(found == bytes, "{size} bytes, {threads} threads");
    }

    #[test]
    fn pieces_come_in_order() {
        for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 9 * PIECE, 10 * PIECE + 5] {
            check(size, 1);
            check(size, 3);
        }
    }

    #[test]
    fn the_taker_can_stop() {
        let zero = HostTree
            .open_fd(Path::new("/dev/zero"), libc::O_RDONLY, 0)
            .unwrap();
        let mut pieces = 0;
        let result: io::Result<()> = read_in_order(&[zero], |_| {
            pieces += 1;
            if pieces == 5 {
                return Err(io::ErrorKind::Other.into());
            }
            Ok(())
        });
        assert!(result.is_err());
        assert_eq!(pieces, 5);
    }
}
