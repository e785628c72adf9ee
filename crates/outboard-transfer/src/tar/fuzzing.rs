// SPDX-License-Identifier: GPL-2.0-only
//! The parsers of this module for the targets in fuzz/, and what must hold for their results.

use super::attributes::MemberAttributes;
use super::compression::decompressed;
use super::directories::clean;
use super::encode::ArchiveEntry;
use super::member::{Archive, Member, MemberKind, NextMember};
use super::pax::{parse_time, push, time_text, Records};
use super::polled::Gone;
use super::stream::Stream;
use crate::accounts::{AccountNames, Accounts};
use outboard::{Fd, System};
use outboard_sandbox::interrupt::Interrupt;
use std::io::{Cursor, Read};
use std::sync::{Arc, OnceLock};

pub use super::acl::to_text as acl_to_text;

/// Members of an archive that are written and read again.
const AGAIN: usize = 16;

fn accounts() -> Accounts {
    Accounts {
        users: AccountNames::parse(b"daemon:x:7:"),
        groups: AccountNames::parse(b"daemon:x:8:"),
    }
}

pub fn acl_from_text(text: &[u8]) -> Option<Vec<u8>> {
    super::acl::from_text(text, &accounts())
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(records: &Records) -> Pairs {
    let owned = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    records.iter().map(owned).collect()
}

/// The records in some bytes, and those in what [`push`] makes of them.
pub fn pax_again(bytes: &[u8]) -> Option<(Pairs, Pairs)> {
    let first = pairs(&Records::parse(bytes.to_vec())?);
    let mut again = Vec::new();
    for (key, value) in &first {
        push(&mut again, key, value);
    }
    let second = Records::parse(again).expect("records that were written can be read");
    Some((first, pairs(&second)))
}

type Time = Option<(i64, i64)>;

pub fn pax_time_again(bytes: &[u8]) -> Option<(Time, Time)> {
    let first = parse_time(bytes)?;
    let text = time_text(first.0, first.1);
    Some((Some(first), parse_time(text.as_bytes())))
}

pub fn decompress(bytes: &[u8], most: u64) {
    if let Ok(input) = decompressed(Box::new(Cursor::new(bytes.to_vec())), "it") {
        let _ = std::io::copy(&mut input.take(most), &mut std::io::sink());
    }
}

/// Works on an archive, if the bytes are one that can be opened.
fn with_archive<T>(bytes: &[u8], work: impl FnOnce(Archive) -> T) -> Option<T> {
    std::thread::scope(|scope| {
        let (position, gone, never) = (Arc::default(), Gone::default(), Interrupt::default());
        let stream = Stream::open(scope, Box::new(bytes), "it", position, &never, gone);
        Some(work(Archive::new(stream.ok()?, accounts())))
    })
}

/// Reads all members with their bytes.
pub fn read_archive(bytes: &[u8]) {
    with_archive(bytes, read_members);
}

fn read_members(mut archive: Archive) {
    let mut members = 0;
    loop {
        match archive.next() {
            Ok(NextMember::Member(member)) => {
                assert_eq!(member.map.data(), archive.rest());
                if members < AGAIN {
                    check_written(&member);
                }
                members += 1;
                while let Ok(Some(piece)) = archive.data() {
                    assert!(!piece.is_empty());
                }
            }
            Ok(NextMember::Refused(..)) => {}
            Ok(NextMember::End { .. }) => {
                let _ = archive.finish();
                return;
            }
            Err(_) => return,
        }
    }
}

/// Whether `tar-out` could meet such a file.
fn is_possible(member: &Member) -> bool {
    let has_nul = |bytes: &[u8]| bytes.contains(&0);
    let is_name = clean(&member.path).is_some_and(|path| !path.is_empty());
    let is_kind = match &member.kind {
        MemberKind::File => !member.path.ends_with(b"/"),
        MemberKind::Link(target) => !has_nul(target) && !member.path.ends_with(b"/"),
        MemberKind::Node(_, device) => {
            libc::major(*device) < 1 << 12 && libc::minor(*device) < 1 << 20
        }
        MemberKind::Directory | MemberKind::Symlink(_) => true,
    };
    is_name && is_kind && member.attributes.times[1].tv_sec != i64::MIN
}

fn stat(member: &Member) -> libc::stat {
    static ANY: OnceLock<libc::stat> = OnceLock::new();
    let any = || {
        let here = Fd::working_directory(&System::Host).stat();
        here.expect("the working directory exists")
    };
    let mut stat = *ANY.get_or_init(any);
    let (kind, device) = match member.kind {
        MemberKind::File | MemberKind::Link(_) => (libc::S_IFREG, 0),
        MemberKind::Directory => (libc::S_IFDIR, 0),
        MemberKind::Symlink(_) => (libc::S_IFLNK, 0),
        MemberKind::Node(kind, device) => (kind, device),
    };
    stat.st_mode = kind | member.attributes.mode;
    stat.st_uid = member.attributes.user;
    stat.st_gid = member.attributes.group;
    stat.st_mtime = member.attributes.times[1].tv_sec;
    stat.st_mtime_nsec = member.attributes.times[1].tv_nsec;
    stat.st_size = member.map.size as i64;
    stat.st_rdev = device;
    stat
}

/// The attributes that an archive keeps. Access lists may change their form.
fn kept(attributes: &MemberAttributes) -> impl PartialEq + std::fmt::Debug + '_ {
    let [_, modified] = &attributes.times;
    let xattrs: Vec<_> = attributes
        .xattrs
        .iter()
        .filter(|(name, _)| !name.to_bytes().starts_with(b"system.posix_acl"))
        .collect();
    (
        attributes.mode,
        attributes.user,
        attributes.group,
        (modified.tv_sec, modified.tv_nsec),
        xattrs,
    )
}

/// A member that is written reads as the same one.
fn check_written(member: &Member) {
    if !is_possible(member) {
        return;
    }
    let (target, link): (&[u8], bool) = match &member.kind {
        MemberKind::Symlink(target) => (target.to_bytes(), false),
        MemberKind::Link(target) => (target, true),
        _ => (b"", false),
    };
    let mut path = member.path.clone();
    if matches!(member.kind, MemberKind::Directory) && !path.ends_with(b"/") {
        path.push(b'/');
    }
    let entry = ArchiveEntry {
        path: &path,
        stat: &stat(member),
        target,
        link,
        xattrs: &member.attributes.xattrs,
        map: member.sparse.then_some(&member.map),
    };
    let written = with_archive(&entry.headers(), |mut archive| archive.next());
    let written = written.expect("plain archives can be opened");
    let Ok(NextMember::Member(again)) = written else {
        panic!("a member that was written cannot be read: {path:?}");
    };
    assert_eq!(again.path, path);
    assert_eq!(format!("{:?}", again.kind), format!("{:?}", member.kind));
    if matches!(member.kind, MemberKind::File) {
        assert_eq!(again.map, member.map);
    }
    // Another name of a file has no attributes of its own.
    if !link {
        assert_eq!(
            format!("{:?}", kept(&again.attributes)),
            format!("{:?}", kept(&member.attributes))
        );
    }
}
