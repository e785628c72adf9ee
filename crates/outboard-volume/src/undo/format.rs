// SPDX-License-Identifier: GPL-2.0-only
//! The bytes of an undo log: a head, and records with the old bytes and checksums of the new ones.

use outboard::Fd;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

pub fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

const MAGIC: &[u8; 16] = b"outboard-undo-2\n";
const MAGIC_1: &[u8; 16] = b"outboard-undo-1\n";
/// Bytes of the head, of which the first [`USED`] are used; its checksum follows these.
pub const HEAD: u64 = 512;
const USED: usize = 45;
const SECTOR: usize = 512;
/// Most bytes of a record.
const LONGEST: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogState {
    /// Nothing in the image was overwritten.
    Begun,
    /// Blocks of the image may be new ones.
    Complete,
    /// The same, and the image has a mark until the change is done.
    Marked,
}

/// The head of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub records: u64,
    /// Random; the image's mark has it, too.
    pub id: u64,
    /// The number of the image's inode, or of the block device.
    pub image: u64,
    /// The process that changes the image; 0 if that is not known.
    pub process: u32,
    pub state: LogState,
}

fn number(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(number)
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    crc32fast::hash(bytes).to_le_bytes()
}

impl Head {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.records.to_le_bytes());
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.image.to_le_bytes());
        bytes.extend(self.process.to_le_bytes());
        bytes.push(self.state as u8);
        bytes.extend(checksum(&bytes));
        bytes.resize(HEAD as usize, 0);
        bytes
    }

    /// `None`: the host did not write the head before its power failed.
    fn parse(bytes: &[u8]) -> io::Result<Option<Self>> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if bytes.starts_with(MAGIC_1) {
            return Self::parse_1(&bytes[MAGIC_1.len()..]);
        }
        if !bytes.starts_with(MAGIC) {
            return Err(wrong("it is no undo log"));
        }
        let states = [LogState::Begun, LogState::Complete, LogState::Marked];
        let head = bytes.get(..USED + 4).and_then(|bytes| {
            let state = states.get(bytes[USED - 1] as usize)?;
            (checksum(&bytes[..USED]) == bytes[USED..]).then_some(Self {
                records: number(&bytes[16..24]),
                id: number(&bytes[24..32]),
                image: number(&bytes[32..40]),
                process: number(&bytes[40..44]) as u32,
                state: *state,
            })
        });
        head.map(Some).ok_or_else(damaged)
    }
}

impl Head {
    /// A log of version 1 has the number of records when it is complete; its image has no mark.
    fn parse_1(rest: &[u8]) -> io::Result<Option<Self>> {
        if rest.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let rest = rest.get(..12).ok_or_else(damaged)?;
        if checksum(&[MAGIC_1, &rest[..8]].concat()) != rest[8..] {
            return Err(damaged());
        }
        Ok(Some(Self {
            records: number(&rest[..8]),
            id: 0,
            image: 0,
            process: 0,
            state: LogState::Complete,
        }))
    }
}

fn damaged() -> io::Error {
    wrong("it is damaged")
}

/// A record: old bytes and new bytes of a range of the image.
pub fn record(place: u64, old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(place.to_le_bytes());
    record.extend((old.len() as u32).to_le_bytes());
    record.extend(checksum(old));
    record.extend(new.chunks(SECTOR).flat_map(checksum));
    record.extend(checksum(&record));
    record.extend(old);
    record
}

/// One record.
struct Record {
    place: u64,
    old: Vec<u8>,
    /// Checksums of the new sectors.
    new: Vec<u32>,
}

/// Reads a log, which is a file but for tests.
pub struct Reader<F = File> {
    file: BufReader<F>,
    pub head: Option<Head>,
}

impl<F: Read + Seek> Reader<F> {
    pub fn new(file: F) -> io::Result<Self> {
        let mut file = BufReader::new(file);
        let mut head = Vec::new();
        (&mut file).take(HEAD).read_to_end(&mut head)?;
        Ok(Self {
            file,
            head: Head::parse(&head)?,
        })
    }

    /// Whether blocks of the image may be new ones.
    pub fn is_complete(&self) -> bool {
        self.head.is_some_and(|head| head.state != LogState::Begun)
    }

    fn record(&mut self) -> io::Result<Record> {
        let mut head = vec![0; 16];
        self.file.read_exact(&mut head)?;
        let length = number(&head[8..12]) as usize;
        if length == 0 || length > LONGEST {
            return Err(damaged());
        }
        let sectors = length.div_ceil(SECTOR);
        head.resize(16 + 4 * sectors, 0);
        self.file.read_exact(&mut head[16..])?;
        let mut sum = [0; 4];
        self.file.read_exact(&mut sum)?;
        let mut old = vec![0; length];
        self.file.read_exact(&mut old)?;
        if checksum(&head) != sum || checksum(&old) != head[12..16] {
            return Err(damaged());
        }
        let new = head[16..].chunks(4).map(|sum| number(sum) as u32);
        Ok(Record {
            place: number(&head[..8]),
            new: new.collect(),
            old,
        })
    }

    fn each(&mut self, mut work: impl FnMut(&Record) -> io::Result<()>) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(HEAD))?;
        let records = self.head.map_or(0, |head| head.records);
        for _ in 0..records {
            work(&self.record()?)?;
        }
        Ok(())
    }

    /// Calls `work` with the place and the length of each record.
    #[cfg(feature = "fuzzing")]
    pub fn each_range(&mut self, mut work: impl FnMut(u64, usize)) -> io::Result<()> {
        self.each(|record| {
            work(record.place, record.old.len());
            Ok(())
        })
    }

    /// Checks that no other program has changed the image.
    pub fn check(&mut self, image: &Fd) -> io::Result<()> {
        self.each(|record| {
            let mut now = vec![0; record.old.len()];
            read_exactly(image, &mut now, record.place)?;
            let sectors = now.chunks(SECTOR).zip(record.old.chunks(SECTOR));
            for (index, (now, old)) in sectors.enumerate() {
                if now != old && crc32fast::hash(now) != record.new[index] {
                    let place = record.place + (index * SECTOR) as u64;
                    return Err(wrong(format!(
                        "the image was changed by something else since, at byte {place}"
                    )));
                }
            }
            Ok(())
        })
    }

    pub fn write_old(&mut self, image: &Fd) -> io::Result<()> {
        self.each(|record| put(image, &record.old, record.place))?;
        image.sync()
    }
}

fn read_exactly(image: &Fd, buffer: &mut [u8], place: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match image.read_at(&mut buffer[done..], place + done as u64)? {
            0 => return Err(wrong("the image has become shorter since")),
            length => done += length,
        }
    }
    Ok(())
}

/// Writes bytes; punches a hole for zeroes where possible.
pub fn put(image: &Fd, bytes: &[u8], place: u64) -> io::Result<()> {
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let zero = bytes.iter().all(|byte| *byte == 0);
    if zero && image.allocate(hole, place, bytes.len() as u64).is_ok() {
        return Ok(());
    }
    image.write_all_at(bytes, place)
}
