// SPDX-License-Identifier: GPL-2.0-only
//! Files that the kernel itself has open for programs that have ended: those of loop devices, and
//! swap. They keep the file system in use that they lie on, so it would not end well.

use crate::kernel_files::{make_home, make_node, read_text, HOME};
use outboard_sys::{libc, Fd, System};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Bytes of names of devices that are read at a time.
const NAMES: usize = 4096;
/// Loop devices on loop devices: each pass frees those that no other one lies on.
const PASSES: usize = 16;

/// Ends all swapping. By a thread in the programs' namespace, which is to end. `swaps`:
/// /proc/swaps, which names files as the reading thread finds them.
pub(crate) fn end_swap(system: &System, swaps: &Fd) -> io::Result<()> {
    let mut text = Vec::new();
    let mut buffer = [0; NAMES];
    while let length @ 1.. = swaps.read(&mut buffer)? {
        text.extend_from_slice(&buffer[..length]);
    }
    for line in text.split(|&byte| byte == b'\n').skip(1) {
        let name = line.split(|&byte| byte == b' ' || byte == b'\t').next();
        let name = unescaped(name.unwrap_or_default());
        if !name.is_empty() {
            // The file may have lost its name.
            let _ = system.end_swap(&CString::new(name)?);
        }
    }
    Ok(())
}

/// /proc writes odd bytes as a backslash and three octal digits.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = name;
    while let [first, after @ ..] = rest {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Detaches loop devices that nobody uses. One in use goes when its last user does.
pub(crate) fn detach_loops(system: &System) -> io::Result<()> {
    for _ in 0..PASSES {
        let attached = attached_loops(system)?;
        if attached.is_empty() {
            break;
        }
        make_home(system)?;
        for (name, number) in attached {
            let node = CString::new(format!("{HOME}/dev/{name}"))?;
            make_node(system, &node, libc::S_IFBLK, number)?;
            let here = Fd::working_directory(system);
            here.open_at(&node, libc::O_RDONLY, 0)?.detach_loop()?;
        }
    }
    Ok(())
}

/// Names and numbers of loop devices that have a file.
fn attached_loops(system: &System) -> io::Result<Vec<(String, u64)>> {
    let here = Fd::working_directory(system);
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let directory = here.open_at(c"/sys/block", flags, 0)?;
    let mut buffer = vec![0; NAMES];
    let mut found = Vec::new();
    while let Some(entries) = directory.entries(&mut buffer)? {
        let names = entries.filter_map(|entry| loop_name(entry.name));
        found.extend(names.filter_map(|name| Some((number_of(system, &name)?, name))));
    }
    Ok(found
        .into_iter()
        .map(|(number, name)| (name, number))
        .collect())
}

fn loop_name(name: &CStr) -> Option<String> {
    let name = OsStr::from_bytes(name.to_bytes()).to_str()?;
    name.starts_with("loop").then(|| name.to_owned())
}

/// `None`: it has no file.
fn number_of(system: &System, name: &str) -> Option<u64> {
    let read = |file: &str| {
        let path = CString::new(format!("/sys/block/{name}/{file}")).ok()?;
        read_text(system, &path).ok()
    };
    read("loop/backing_file")?;
    let text = read("dev")?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unescaped() {
        assert_eq!(unescaped(br"/a\040b\134c"), br"/a b\c");
        assert_eq!(unescaped(br"/a\4\777\"), br"/a\4\777\");
    }
}
