// SPDX-License-Identifier: GPL-2.0-only
//! Reads the members of an archive: headers of v7, ustar, GNU and PAX.

use super::acl;
use super::attributes::MemberAttributes;
use super::globals::{self, Globals};
use super::header::{is_sound, is_zero, number, padding, BLOCK};
use super::link_data::{self, LinkData};
use super::pax::{parse_time, Keyword, Records, LIBARCHIVE, SCHILY};
use super::sparse::{self, Map, Parts};
use super::stream::{ArchivePiece, StopReason, Stream};
use crate::accounts::Accounts;
use crate::report::Loss;
use ::tar::{GnuExtSparseHeader, Header};
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::Engine;
use outboard_error::format::escaped;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// Most bytes of an extended header: room for several attributes of the largest size.
const EXTENDED: u64 = 8 << 20;
/// Bytes of an archive without members: the two blocks of zeroes that mark an end, in records of
/// some size.
const EMPTY_LEAST: u64 = 2 * BLOCK as u64;
const EMPTY_MOST: u64 = 64 << 10;
/// Most extended attributes of a member.
const ATTRIBUTES: usize = 1000;
/// Most bytes of a long name of the GNU format.
const LONG_NAME: u64 = 1 << 20;
/// Base64 of libarchive, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
const ACLS: [(Keyword, &CStr); 2] = [
    (Keyword::AccessAcl, c"system.posix_acl_access"),
    (Keyword::DefaultAcl, c"system.posix_acl_default"),
];

#[derive(Debug)]
/// What a member makes.
pub enum MemberKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(CString),
    /// A hard link to the member with this path.
    Link(Vec<u8>),
    /// A device or FIFO: its `S_IF*` and number.
    Node(u32, u64),
}

/// A member. Its bytes follow in the archive.
pub struct Member {
    pub path: Vec<u8>,
    pub kind: MemberKind,
    pub attributes: MemberAttributes,
    /// The offsets of its bytes.
    pub map: Map,
    /// Whether it has holes.
    pub sparse: bool,
    /// Whether the members that follow may be the data of this one, which is a hard link.
    pub unclear: bool,
}

/// The next item of an archive.
pub enum NextMember {
    Member(Box<Member>),
    /// A member that is refused: its path, and the reason.
    Refused(Vec<u8>, String),
    /// The end. `marked`: with blocks of zeros, as it should be.
    End {
        marked: bool,
    },
}

/// Reads an archive member by member.
pub struct Archive {
    stream: Stream,
    accounts: Accounts,
    global: Globals,
    /// A header with PAX records was read.
    pax: bool,
    /// Bytes of the current member that are not read yet, and of its padding.
    rest: u64,
    fill: u64,
    /// Path of the current or last member, for messages.
    pub last: Vec<u8>,
    members: u64,
}

/// The headers that together describe a member.
#[derive(Default)]
struct Extended {
    records: Records,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

fn nonsense<T>(text: impl Into<String>) -> Result<T, StopReason> {
    Err(StopReason::Nonsense(text.into()))
}

fn before_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

impl Archive {
    pub fn new(stream: Stream, accounts: Accounts) -> Self {
        Self {
            stream,
            accounts,
            global: Globals::default(),
            pax: false,
            rest: 0,
            fill: 0,
            last: Vec::new(),
            members: 0,
        }
    }

    pub fn offset(&self) -> u64 {
        self.stream.offset()
    }

    /// Position in the input, which may be compressed.
    pub fn position(&self) -> u64 {
        self.stream.position()
    }

    /// The next bytes of the member. `None`: its end.
    pub fn data(&mut self) -> Result<Option<ArchivePiece>, StopReason> {
        if self.rest == 0 {
            return Ok(None);
        }
        let piece = self.stream.take(self.rest)?;
        self.rest -= piece.len() as u64;
        Ok(Some(piece))
    }

    /// Number of bytes of the member that are not read yet.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// Reads the bytes behind the end, and refuses a file that has an end but is no archive.
    pub fn finish(&mut self) -> Result<(), StopReason> {
        self.stream.drain()?;
        match self.offset() {
            _ if self.members > 0 => Ok(()),
            0 => nonsense("it is empty, not a tar archive"),
            EMPTY_LEAST..=EMPTY_MOST => Ok(()),
            length => nonsense(format!(
                "it has {length} bytes and begins with zeroes, which is not a tar archive"
            )),
        }
    }

    /// Goes on to the next member.
    pub fn next(&mut self) -> Result<NextMember, StopReason> {
        self.leave()?;
        let mut extended = Extended::default();
        loop {
            let Some(block) = self.stream.block()? else {
                return Ok(NextMember::End { marked: false });
            };
            if is_zero(&block) {
                return Ok(NextMember::End { marked: true });
            }
            let header = Header::from_byte_slice(&block);
            if !is_sound(header) {
                return nonsense(match self.members {
                    0 => "it is not a tar archive",
                    _ => "a header is damaged (its checksum is wrong)",
                });
            }
            self.members += 1;
            let kind = header.as_old().linkflag[0];
            let Some(size) =
                number(&header.as_old().size).and_then(|size| u64::try_from(size).ok())
            else {
                return nonsense("the size in a header is no number");
            };
            match kind {
                b'x' | b'X' => extended.records = self.records(size)?,
                b'g' => {
                    let records = self.records(size)?;
                    if self.global.add(&records).is_none() {
                        let most = globals::MOST;
                        return nonsense(format!("global headers have more than {most} bytes"));
                    }
                }
                b'L' => extended.long_name = Some(self.long_name(size)?),
                b'K' => extended.long_link = Some(self.long_name(size)?),
                // The name of the volume.
                b'V' => self.skip(size)?,
                _ => return self.member(header, size, &extended),
            }
        }
    }

    /// Skips the rest of the current member.
    fn leave(&mut self) -> Result<(), StopReason> {
        let rest = std::mem::take(&mut self.rest);
        self.stream.skip(rest)?;
        let fill = std::mem::take(&mut self.fill);
        self.stream.skip(fill)
    }

    fn skip(&mut self, size: u64) -> Result<(), StopReason> {
        self.stream.skip(size)?;
        self.stream.skip(padding(size))
    }

    fn contents(&mut self, size: u64, most: u64) -> Result<Vec<u8>, StopReason> {
        if size > most {
            return nonsense(format!("an extended header says that it has {size} bytes"));
        }
        let bytes = self.stream.bytes(size)?;
        self.stream.skip(padding(size))?;
        Ok(bytes)
    }

    fn records(&mut self, size: u64) -> Result<Records, StopReason> {
        self.pax = true;
        let bytes = self.contents(size, EXTENDED)?;
        match Records::parse(bytes) {
            Some(records) => Ok(records),
            None => nonsense("an extended header has records that make no sense"),
        }
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, StopReason> {
        let bytes = self.contents(size, LONG_NAME)?;
        Ok(before_nul(&bytes).to_vec())
    }

    /// The member that a header and those before it describe.
    fn member(
        &mut self,
        header: &Header,
        size: u64,
        extended: &Extended,
    ) -> Result<NextMember, StopReason> {
        let flag = header.as_old().linkflag[0];
        let path = self.path(header, extended);
        self.last.clone_from(&path);
        let size = self.number(extended, Keyword::Size)?.unwrap_or(size);
        let link_data = match flag {
            b'1' if size > 0 => self.link_data(header, size)?,
            _ => LinkData::Present,
        };
        let stored = match (flag, link_data) {
            (b'1', LinkData::Absent | LinkData::Unclear) | (b'2'..=b'6', _) => 0,
            _ => size,
        };
        if i64::try_from(stored).is_err() {
            return nonsense(format!("a member says that it has {stored} bytes"));
        }
        self.rest = stored;
        self.fill = padding(stored);
        let (map, is_sparse) = match self.map(header, extended)? {
            Ok(Some(map)) => (map, true),
            Ok(None) => (Map::whole(stored), false),
            Err(why) => return Ok(NextMember::Refused(path, why)),
        };
        if is_sparse && map.data() != self.rest {
            let why = "its map of holes does not fit its size".to_owned();
            return Ok(NextMember::Refused(path, why));
        }
        Ok(match self.describe(header, extended, &path) {
            Ok((kind, attributes)) => NextMember::Member(Box::new(Member {
                path,
                kind,
                attributes,
                map,
                sparse: is_sparse,
                unclear: link_data == LinkData::Unclear,
            })),
            Err(why) => NextMember::Refused(path, why),
        })
    }

    /// A record of the member's own header, or else of the global ones. Without bytes it counts as
    /// missing.
    fn value<'a>(&'a self, extended: &'a Extended, key: Keyword) -> Option<&'a [u8]> {
        let own = extended.records.get(key);
        own.or_else(|| self.global.get(key))
            .filter(|value| !value.is_empty())
    }

    /// The number of a record. An error: it is something else.
    fn number(&self, extended: &Extended, key: Keyword) -> Result<Option<u64>, StopReason> {
        let Some(text) = self.value(extended, key) else {
            return Ok(None);
        };
        match sparse::decimal(text) {
            Some(number) => Ok(Some(number)),
            None => nonsense(format!(
                "the {} in an extended header is no number: {}",
                key.text(),
                escaped(text)
            )),
        }
    }

    /// Whether the data of a hard link with a size follow. POSIX says that in PAX archives they do.
    fn link_data(&mut self, header: &Header, size: u64) -> Result<LinkData, StopReason> {
        if self.pax {
            Ok(LinkData::Present)
        } else {
            link_data::find(header, size, |distance| self.stream.peek_block(distance))
        }
    }

    fn path(&self, header: &Header, extended: &Extended) -> Vec<u8> {
        self.value(extended, Keyword::SparseName)
            .or_else(|| self.value(extended, Keyword::Path))
            .or(extended.long_name.as_deref())
            .map_or_else(|| header.path_bytes().into_owned(), <[u8]>::to_vec)
    }

    fn target(&self, header: &Header, extended: &Extended) -> Vec<u8> {
        self.value(extended, Keyword::LinkPath)
            .or(extended.long_link.as_deref())
            .map_or_else(
                || before_nul(&header.as_old().linkname).to_vec(),
                <[u8]>::to_vec,
            )
    }

    fn describe(
        &self,
        header: &Header,
        extended: &Extended,
        path: &[u8],
    ) -> Result<(MemberKind, MemberAttributes), String> {
        let old = header.as_old();
        let kind = match old.linkflag[0] {
            b'1' => MemberKind::Link(self.target(header, extended)),
            b'2' => {
                let target = CString::new(self.target(header, extended));
                MemberKind::Symlink(target.map_err(|_| "its target has a NUL in it")?)
            }
            b'3' => MemberKind::Node(libc::S_IFCHR, device(header)?),
            b'4' => MemberKind::Node(libc::S_IFBLK, device(header)?),
            b'5' | b'D' => MemberKind::Directory,
            b'6' => MemberKind::Node(libc::S_IFIFO, 0),
            b'M' => return Err("it continues a member of another volume".to_owned()),
            b'N' => return Err("it has names in a form of before 1990".to_owned()),
            b'A' | b'E' | b'I' => return Err("it is of a kind that only Solaris has".to_owned()),
            0 | b'0' if path.ends_with(b"/") => MemberKind::Directory,
            // POSIX: unknown types count as files.
            _ => MemberKind::File,
        };
        let mode = number(&old.mode).ok_or("its mode is no number")?;
        let mut attributes = MemberAttributes {
            mode: mode as u32 & 0o7777,
            user: self.owner(extended, Keyword::User, &old.uid)?,
            group: self.owner(extended, Keyword::Group, &old.gid)?,
            times: self.times(header, extended)?,
            xattrs: Vec::new(),
            strange: Vec::new(),
        };
        self.add_xattrs(extended, &mut attributes)?;
        Ok((kind, attributes))
    }

    fn owner(&self, extended: &Extended, key: Keyword, field: &[u8]) -> Result<u32, String> {
        let found = match self.value(extended, key) {
            Some(text) => sparse::decimal(text).and_then(|id| i64::try_from(id).ok()),
            None => number(field),
        };
        found
            .and_then(|id| u32::try_from(id).ok())
            .filter(|&id| id != u32::MAX)
            .ok_or_else(|| format!("its {} is out of range", key.text()))
    }

    fn times(&self, header: &Header, extended: &Extended) -> Result<[libc::timespec; 2], String> {
        let time = |key: Keyword| {
            let text = self.value(extended, key)?;
            Some(parse_time(text).ok_or_else(|| format!("its {} is no time", key.text())))
        };
        let modified = match time(Keyword::Modified) {
            Some(time) => time?,
            None => (
                number(&header.as_old().mtime).ok_or("its time is no number")?,
                0,
            ),
        };
        let accessed = time(Keyword::Accessed).transpose()?.unwrap_or(modified);
        Ok(
            [accessed, modified].map(|(seconds, nanoseconds)| libc::timespec {
                tv_sec: seconds,
                tv_nsec: nanoseconds,
            }),
        )
    }

    /// Adds extended attributes in the ways of star, GNU tar and libarchive. Raw bytes of an
    /// attribute win over its text.
    fn add_xattrs(
        &self,
        extended: &Extended,
        attributes: &mut MemberAttributes,
    ) -> Result<(), String> {
        let mut found = BTreeMap::new();
        for (key, xattr) in ACLS {
            match self
                .value(extended, key)
                .map(|text| acl::from_text(text, &self.accounts))
            {
                Some(Some(value)) => drop(found.insert(xattr.to_owned(), value)),
                Some(None) => {
                    let why = "of unknown users".to_owned();
                    attributes.strange.push((Loss::AccessList, why));
                }
                None => {}
            }
        }
        if let Some(label) = self.value(extended, Keyword::Label) {
            // The kernel's label ends with a NUL.
            let value = [before_nul(label), b"\0"].concat();
            found.insert(c"security.selinux".to_owned(), value);
        }
        for (key, value) in self.global.iter().chain(extended.records.iter()) {
            let pair = match (key.strip_prefix(SCHILY), key.strip_prefix(LIBARCHIVE)) {
                (Some(name), _) => Some((unescaped(name), value.to_vec())),
                (_, Some(name)) => match BASE64.decode(value) {
                    Ok(value) => Some((unescaped(name), value)),
                    Err(_) => {
                        let why = format!("{}: no base64", escaped(name));
                        attributes.strange.push((Loss::Attribute, why));
                        None
                    }
                },
                _ => None,
            };
            let Some((name, value)) = pair else { continue };
            let name = CString::new(name).map_err(|_| {
                format!(
                    "the name of an attribute, {}, has a NUL in it",
                    escaped(key)
                )
            })?;
            found.insert(name, value);
            if found.len() > ATTRIBUTES {
                return Err(format!("it has more than {ATTRIBUTES} extended attributes"));
            }
        }
        attributes.xattrs = found.into_iter().collect();
        Ok(())
    }

    /// The map of a sparse member. Inner `Err`: why it is invalid.
    fn map(
        &mut self,
        header: &Header,
        extended: &Extended,
    ) -> Result<Result<Option<Map>, String>, StopReason> {
        let lies = || "its map of holes makes no sense".to_owned();
        let real = self.number(extended, Keyword::SparseRealSize)?;
        let size = real.or(self.number(extended, Keyword::SparseSize)?);
        let (parts, size) = if header.as_old().linkflag[0] == b'S' {
            self.old_map(header)?
        } else if self.number(extended, Keyword::SparseMajor)? == Some(1) {
            (self.map_in_data()?, size)
        } else if let Some(list) = extended.records.get(Keyword::SparseMap) {
            (sparse::parse_list(list), size)
        } else if self.number(extended, Keyword::SparseBlocks)?.is_some() {
            let values = extended
                .records
                .iter()
                .filter(|(key, _)| matches!(*key, b"GNU.sparse.offset" | b"GNU.sparse.numbytes"));
            let numbers: Option<Vec<u64>> = values.map(|(_, text)| sparse::decimal(text)).collect();
            (numbers.and_then(|numbers| sparse::pairs(&numbers)), size)
        } else {
            return Ok(Ok(None));
        };
        let map = parts
            .zip(size)
            .and_then(|(parts, size)| Map::new(parts, size));
        Ok(map.map(Some).ok_or_else(lies))
    }

    /// The parts and the size in the old GNU format, whose header may continue in further blocks.
    fn old_map(&mut self, header: &Header) -> Result<(Option<Parts>, Option<u64>), StopReason> {
        let Some(gnu) = header.as_gnu() else {
            return Ok((None, None));
        };
        let size = number(&gnu.realsize).and_then(|size| u64::try_from(size).ok());
        let mut parts = Vec::new();
        let mut good = sparse::add_old(&mut parts, &gnu.sparse).is_some();
        let mut more = gnu.isextended[0] != 0;
        while more {
            let block = self.stream.block()?.ok_or(StopReason::End)?;
            let mut next = GnuExtSparseHeader::new();
            next.as_mut_bytes().copy_from_slice(&block);
            good = good && sparse::add_old(&mut parts, &next.sparse).is_some();
            more = next.isextended[0] != 0;
        }
        Ok((good.then_some(parts), size))
    }

    /// The parts of format 1.0: decimal numbers in lines before the data, up to the end of a block.
    fn map_in_data(&mut self) -> Result<Option<Parts>, StopReason> {
        let mut numbers = Vec::new();
        let mut digits = Vec::new();
        let mut wanted = 1;
        while numbers.len() < wanted {
            if self.rest < BLOCK as u64 {
                return Ok(None);
            }
            let block = self.stream.block()?.ok_or(StopReason::End)?;
            self.rest -= BLOCK as u64;
            for &byte in &block {
                if numbers.len() == wanted {
                    break;
                }
                if byte != b'\n' {
                    digits.push(byte);
                    continue;
                }
                let Some(number) = sparse::decimal(&digits) else {
                    return Ok(None);
                };
                digits.clear();
                if numbers.is_empty() {
                    match usize::try_from(number) {
                        Ok(count) if count <= sparse::MOST => wanted += 2 * count,
                        _ => return Ok(None),
                    }
                }
                numbers.push(number);
            }
            if digits.len() > 20 {
                return Ok(None);
            }
        }
        Ok(sparse::pairs(&numbers[1..]))
    }
}

/// The number of a device.
fn device(header: &Header) -> Result<u64, String> {
    let fields = match (header.as_ustar(), header.as_gnu()) {
        (Some(ustar), _) => Some((&ustar.dev_major, &ustar.dev_minor)),
        (_, Some(gnu)) => Some((&gnu.dev_major, &gnu.dev_minor)),
        _ => None,
    };
    let (major, minor) = fields.ok_or("it is a device without a number")?;
    let part = |field: &[u8]| number(field).and_then(|number| u32::try_from(number).ok());
    match (part(major), part(minor)) {
        (Some(major), Some(minor)) => Ok(libc::makedev(major, minor)),
        _ => Err("the number of the device makes no sense".to_owned()),
    }
}

/// Decodes a name with "%XX" escapes.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, behind @ ..] = rest {
        let digits = behind.first_chunk::<2>().filter(|_| *first == b'%');
        match digits.and_then(|digits| hex::decode(digits).ok()) {
            Some(byte) => {
                plain.extend(byte);
                rest = &behind[2..];
            }
            None => {
                plain.push(*first);
                rest = behind;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_attributes_have_escapes() {
        for (written, name) in [
            (&b"user.%41%3d%C3%a9"[..], &b"user.A=\xc3\xa9"[..]),
            (b"%ff%00", b"\xff\0"),
            (b"100%", b"100%"),
            (b"%4", b"%4"),
            (b"%%41", b"%A"),
            (b"%+1%4g%-", b"%+1%4g%-"),
            (b"", b""),
        ] {
            assert_eq!(unescaped(written), name);
        }
    }
}
