// SPDX-License-Identifier: GPL-2.0-only
//! Disks that an NBD server has: the handshake, and the connection of the kernel's driver.
//!
//! The handshake is "fixed newstyle" with NBD_OPT_GO, as every server since 2017 has it. Then the
//! kernel's driver gets the socket by generic netlink, and everything else is its work. All that
//! the server sends is checked: lengths are bounded, and a wrong number is an error.

mod driver;
mod export;

use crate::disk::KernelDisk;
use crate::invalid::invalid_data;
use crate::kernel::Kernel;
use crate::kernel_files::write_text;
use crate::net::TcpStream;
use driver::Connection;
use export::{NbdExport, RequestSizes};
use outboard_sys::{libc, Deadline};
use std::io::{self, Read, Write};
use std::time::Duration;

const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const REPLY: u64 = 0x0003_e889_0455_65a9;
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;
const OPT_GO: u32 = 7;
const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const REP_ERROR: u32 = 1 << 31;
/// Most bytes of an answer.
const ANSWER: u32 = 4096;
/// Most answers to one option.
const ANSWERS: usize = 64;
/// Transmission flag: nothing can be written.
const READ_ONLY: u16 = 2;
/// Block sizes that the kernel's driver takes.
const BLOCKS: std::ops::RangeInclusive<u32> = 512..=4096;
/// The largest request of the kernel's driver, unless a limit is set; and the lowest limit, a page.
const USUAL_MOST: u32 = 1280 << 10;
const LOWEST_MOST: u32 = 4096;

/// Of a server that says nothing about them.
const USUAL_SIZES: RequestSizes = RequestSizes {
    least: *BLOCKS.start(),
    most: u32::MAX,
};

fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<()> {
    stream
        .read_exact(buffer)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => invalid_data("the server has closed the connection"),
            _ => error,
        })
}

fn number<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(stream, &mut bytes).map(|()| bytes)
}

/// The reason of a server that refuses an export. `text`: its own words.
fn refusal(kind: u32, text: &[u8]) -> io::Error {
    let (error, why) = match kind & !REP_ERROR {
        1 => (
            io::ErrorKind::Unsupported,
            "the server is too old: it lacks NBD_OPT_GO",
        ),
        2 => (
            io::ErrorKind::PermissionDenied,
            "the server refuses this client",
        ),
        5 => (
            io::ErrorKind::Unsupported,
            "the server wants TLS, which is not supported",
        ),
        6 => (
            io::ErrorKind::NotFound,
            "the server has no export of this name",
        ),
        7 => (
            io::ErrorKind::ConnectionAborted,
            "the server is shutting down",
        ),
        _ => (io::ErrorKind::InvalidData, "the server refuses the export"),
    };
    let text = String::from_utf8_lossy(text);
    let printable = text.chars().filter(|c| !c.is_control());
    let text: String = printable.take(200).collect();
    let said = if text.is_empty() {
        text
    } else {
        format!(" (\"{text}\")")
    };
    io::Error::new(error, format!("{why}{said}"))
}

/// Asks for an export. Afterwards the stream is in the transmission phase.
fn negotiate(stream: &mut (impl Read + Write), name: &str) -> io::Result<NbdExport> {
    if u64::from_be_bytes(number(stream)?) != GREETING {
        return Err(invalid_data("there is no NBD server at this port"));
    }
    if u64::from_be_bytes(number(stream)?) != OPTION {
        return Err(invalid_data("the server speaks the old protocol only"));
    }
    let theirs = u16::from_be_bytes(number(stream)?);
    if theirs & FIXED_NEWSTYLE == 0 {
        return Err(invalid_data("the server speaks the old protocol only"));
    }
    let ours = u32::from(theirs & (FIXED_NEWSTYLE | NO_ZEROES));
    let length = name.len() as u32;
    let mut request = ours.to_be_bytes().to_vec();
    request.extend(OPTION.to_be_bytes());
    request.extend(OPT_GO.to_be_bytes());
    request.extend((4 + length + 2 + 2).to_be_bytes());
    request.extend(length.to_be_bytes());
    request.extend(name.as_bytes());
    request.extend(1_u16.to_be_bytes());
    request.extend(INFO_BLOCK_SIZE.to_be_bytes());
    stream.write_all(&request)?;
    answers(stream)
}

/// Reads the answers to NBD_OPT_GO.
fn answers(stream: &mut impl Read) -> io::Result<NbdExport> {
    let mut export = None;
    let mut sizes = USUAL_SIZES;
    for _ in 0..ANSWERS {
        let magic = u64::from_be_bytes(number(stream)?);
        let option = u32::from_be_bytes(number(stream)?);
        let kind = u32::from_be_bytes(number(stream)?);
        let length = u32::from_be_bytes(number(stream)?);
        if magic != REPLY || option != OPT_GO || length > ANSWER {
            return Err(invalid_data("the server has sent a malformed answer"));
        }
        let mut data = vec![0; length as usize];
        fill(stream, &mut data)?;
        match (kind, export) {
            (REP_ACK, Some((size, flags))) => return Ok(NbdExport { size, flags, sizes }),
            (REP_ACK, None) => return Err(invalid_data("the server has not sent the disk's size")),
            (REP_INFO, _) => match info(&data) {
                Some((INFO_EXPORT, rest)) => export = Some(export_info(rest)?),
                Some((INFO_BLOCK_SIZE, rest)) => sizes = request_sizes(rest)?,
                _ => {}
            },
            (error, _) if error & REP_ERROR != 0 => return Err(refusal(error, &data)),
            _ => return Err(invalid_data("the server has sent an unknown answer")),
        }
    }
    Err(invalid_data("the server has sent too many answers"))
}

fn info(data: &[u8]) -> Option<(u16, &[u8])> {
    let (kind, rest) = data.split_first_chunk()?;
    Some((u16::from_be_bytes(*kind), rest))
}

fn export_info(data: &[u8]) -> io::Result<(u64, u16)> {
    let split = data.split_first_chunk();
    let (size, flags) =
        split.ok_or_else(|| invalid_data("the server's description is too short"))?;
    let flags = flags
        .try_into()
        .map_err(|_| invalid_data("the server's description has a wrong length"))?;
    let size = u64::from_be_bytes(*size);
    match i64::try_from(size) {
        Ok(_) => Ok((size, u16::from_be_bytes(flags))),
        Err(_) => Err(invalid_data("the server's disk is too large")),
    }
}

/// The sizes of requests: the least, a good one, the most.
fn request_sizes(data: &[u8]) -> io::Result<RequestSizes> {
    let numbers: &[u8; 12] = data
        .try_into()
        .map_err(|_| invalid_data("the server's block sizes have a wrong length"))?;
    let [least, _, most] = [0, 4, 8].map(|at| {
        let bytes = [0, 1, 2, 3].map(|place| numbers[at + place]);
        u32::from_be_bytes(bytes)
    });
    let least = least.max(*BLOCKS.start());
    if !BLOCKS.contains(&least) || !least.is_power_of_two() {
        let text = format!("the server's blocks have {least} bytes");
        return Err(invalid_data(text));
    }
    if most < LOWEST_MOST {
        Err(invalid_data(format!(
            "the server takes at most {most} bytes in a request"
        )))
    } else {
        Ok(RequestSizes { least, most })
    }
}

impl Kernel {
    /// Adds the disk that an NBD server has under this name; `stream` is a new connection to it.
    /// EROFS: the server does not let it be written. A request that takes longer than `limit` is an
    /// error, and so are all later ones. The handshake is one request.
    pub fn add_nbd_disk(
        &self,
        stream: TcpStream,
        name: &str,
        write: bool,
        limit: Duration,
    ) -> io::Result<KernelDisk> {
        let handshake = || negotiate(&mut &stream, name);
        let mut export = Deadline::after(limit).run_request(handshake)?;
        if write && export.flags & READ_ONLY != 0 {
            return Err(io::Error::from_raw_os_error(libc::EROFS));
        }
        if !write {
            export.flags |= READ_ONLY;
        }
        stream.set_nodelay(true)?;
        self.load_component("nbd", "nbds_max=0")?;
        let socket = stream.0.fd().raw();
        let connection = Connection::start(&self.net(), socket, &export, limit)?;
        let name = format!("nbd{}", connection.index);
        if export.sizes.most < USUAL_MOST {
            let setting = format!("/sys/block/{name}/queue/max_sectors_kb");
            write_text(
                self.system(),
                &setting,
                &(export.sizes.most >> 10).to_string(),
            )?;
        }
        Ok(KernelDisk::connected(
            self.clone(),
            Box::new(connection),
            name,
            !write,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has prepared all it sends.
    struct Script {
        sends: io::Cursor<Vec<u8>>,
        got: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.sends.read(buffer)
        }
    }

    impl Write for Script {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            self.got.write(buffer)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn answer(kind: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = REPLY.to_be_bytes().to_vec();
        bytes.extend(OPT_GO.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    }

    fn hello() -> Vec<u8> {
        let mut bytes = b"NBDMAGICIHAVEOPT".to_vec();
        bytes.extend(3_u16.to_be_bytes());
        bytes
    }

    fn of_size(size: u64) -> Vec<u8> {
        let mut data = INFO_EXPORT.to_be_bytes().to_vec();
        data.extend(size.to_be_bytes());
        data.extend(5_u16.to_be_bytes());
        answer(REP_INFO, &data)
    }

    fn blocks(least: u32, most: u32) -> Vec<u8> {
        let mut data = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
        data.extend([least, 65536, most].map(u32::to_be_bytes).concat());
        answer(REP_INFO, &data)
    }

    fn run(parts: &[Vec<u8>]) -> (io::Result<NbdExport>, Vec<u8>) {
        let mut script = Script {
            sends: io::Cursor::new(parts.concat()),
            got: Vec::new(),
        };
        let result = negotiate(&mut script, "disk");
        (result, script.got)
    }

    #[test]
    fn an_export_is_described() {
        let blocks = blocks(4096, 1 << 25);
        let parts = [hello(), of_size(1 << 20), blocks, answer(REP_ACK, &[])];
        let (export, sent) = run(&parts);
        let export = export.unwrap();
        assert_eq!((export.size, export.flags), (1 << 20, 5));
        let sizes = (export.sizes.least, export.sizes.most);
        assert_eq!(sizes, (4096, 1 << 25));
        assert_eq!(&sent[..4], &3_u32.to_be_bytes());
        assert_eq!(&sent[24..28], b"disk");
    }

    #[test]
    fn a_server_that_sends_nonsense_gets_an_error() {
        let unknown = answer(REP_ERROR | 6, b"no\x1b[2J such");
        let mut long = answer(REP_INFO, &[]);
        long[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        let mut cut = of_size(1);
        cut.pop();
        let many = vec![of_size(1).repeat(ANSWERS)];
        for (parts, why) in [
            (vec![b"HTTP/1.1 400 Bad".to_vec()], "no NBD server"),
            (vec![b"NBDMAGIC".to_vec()], "closed the connection"),
            (vec![hello(), cut], "closed the connection"),
            (
                vec![hello(), unknown],
                "no export of this name (\"no[2J such\")",
            ),
            (vec![hello(), long], "malformed"),
            (vec![hello(), answer(REP_ACK, &[])], "size"),
            (vec![hello(), of_size(u64::MAX)], "too large"),
            (vec![hello(), answer(REP_INFO, &[0, 0, 1])], "too short"),
            (vec![hello(), blocks(768, 1 << 25)], "768"),
            (vec![hello(), blocks(512, 4095)], "at most 4095 bytes"),
            (
                vec![hello(), answer(REP_INFO, &[0, 3, 0, 0, 2, 0])],
                "a wrong length",
            ),
            ([vec![hello()], many].concat(), "too many"),
        ] {
            let error = run(&parts).0.err().expect(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
