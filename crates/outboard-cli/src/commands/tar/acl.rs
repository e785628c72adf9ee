// SPDX-License-Identifier: GPL-2.0-only
//! POSIX ACLs: the text that archives have, and the bytes that the kernel takes as the extended
//! attributes `system.posix_acl_access` and `system.posix_acl_default`.

use outboard::Tree;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

/// The version of the kernel's form.
const VERSION: u32 = 2;
/// Stands where an entry names nobody.
const NOBODY: u32 = u32::MAX;
const USER_OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OWNER: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// Bytes of an entry in the kernel's form.
const ENTRY: usize = 8;
/// Most bytes of a file of names that are looked at.
const NAMES: u64 = 4 << 20;

/// Numbers of users and groups by their names, as /etc/passwd and /etc/group have them.
#[derive(Default)]
pub struct Names {
    users: HashMap<Vec<u8>, u32>,
    groups: HashMap<Vec<u8>, u32>,
}

impl Names {
    /// Those of the trees; an earlier one counts more.
    pub fn of(trees: &[&Tree]) -> Self {
        let mut names = Self::default();
        for tree in trees {
            add(&mut names.users, tree, "/etc/passwd");
            add(&mut names.groups, tree, "/etc/group");
        }
        names
    }

    fn number(&self, tag: u16, name: &[u8]) -> Option<u32> {
        let known = if tag == USER {
            &self.users
        } else {
            &self.groups
        };
        decimal(name).or_else(|| known.get(name).copied())
    }
}

fn decimal(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|&number| number != NOBODY)
}

/// Adds "NAME:PASSWORD:NUMBER:..." of every line. What cannot be read has no names.
fn add(numbers: &mut HashMap<Vec<u8>, u32>, tree: &Tree, path: &str) {
    let is_file = tree
        .metadata(Path::new(path))
        .is_ok_and(|found| found.is_file());
    let mut bytes = Vec::new();
    if !is_file
        || tree
            .open(path)
            .and_then(|file| file.take(NAMES).read_to_end(&mut bytes))
            .is_err()
    {
        return;
    }
    for line in bytes.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b':');
        if let (Some(name), Some(number)) = (fields.next(), fields.nth(1).and_then(decimal)) {
            numbers.entry(name.to_vec()).or_insert(number);
        }
    }
}

/// Without the blanks around it.
fn trimmed(text: &[u8]) -> &[u8] {
    let visible = |byte: &u8| !byte.is_ascii_whitespace();
    let start = text.iter().position(visible).unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(visible)
        .map_or(start, |last| last + 1);
    &text[start..end]
}

fn permissions(text: &[u8]) -> Option<u16> {
    text.iter().try_fold(0, |sum, byte| match byte {
        b'r' => Some(sum | 4),
        b'w' => Some(sum | 2),
        b'x' => Some(sum | 1),
        b'-' | b' ' | b'\t' => Some(sum),
        _ => None,
    })
}

/// "user:NAME:rwx", in some programs with ":NUMBER" behind it.
fn parse_entry(text: &[u8], names: &Names) -> Option<(u16, u16, u32)> {
    let mut fields = text.split(|&byte| byte == b':').map(trimmed);
    let kind = fields.next()?;
    let (owner, named) = match kind {
        b"user" | b"u" => (USER_OWNER, USER),
        b"group" | b"g" => (GROUP_OWNER, GROUP),
        b"mask" | b"m" => (MASK, MASK),
        b"other" | b"o" => (OTHER, OTHER),
        _ => return None,
    };
    let second = fields.next()?;
    let Some(third) = fields.next() else {
        // "other:r--": some leave out the name that is not there.
        return (owner == named).then_some((owner, permissions(second)?, NOBODY));
    };
    let permissions = permissions(third)?;
    if second.is_empty() {
        return Some((owner, permissions, NOBODY));
    }
    if owner == named {
        return None;
    }
    let number = match fields.next().and_then(decimal) {
        Some(number) => number,
        None => names.number(named, second)?,
    };
    Some((named, permissions, number))
}

/// The kernel's form of a text. `None`: it is no ACL, or names somebody unknown.
pub fn from_text(text: &[u8], names: &Names) -> Option<Vec<u8>> {
    let mut entries = Vec::new();
    for part in text.split(|byte| b",\n".contains(byte)) {
        let part = trimmed(part.split(|&byte| byte == b'#').next()?);
        if !part.is_empty() {
            entries.push(parse_entry(part, names)?);
        }
    }
    entries.sort_by_key(|&(tag, _, number)| (tag, number));
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, number) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    Some(bytes)
}

/// The text of the kernel's form, with numbers for names. `None`: it is not of that form.
pub fn to_text(bytes: &[u8]) -> Option<String> {
    let entries = bytes.strip_prefix(&VERSION.to_le_bytes())?;
    if entries.len() % ENTRY != 0 {
        return None;
    }
    let mut text = String::new();
    for entry in entries.chunks_exact(ENTRY) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let granted = u16::from_le_bytes([entry[2], entry[3]]);
        let number = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let kind = match tag {
            USER_OWNER | USER => "user",
            GROUP_OWNER | GROUP => "group",
            MASK => "mask",
            OTHER => "other",
            _ => return None,
        };
        let name = match tag {
            USER | GROUP => number.to_string(),
            _ => String::new(),
        };
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{kind}:{name}:");
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if granted & bit != 0 { letter } else { '-' });
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            users: HashMap::from([(b"daemon".to_vec(), 7)]),
            groups: HashMap::from([(b"daemon".to_vec(), 8)]),
        }
    }

    fn again(text: &str) -> Option<String> {
        from_text(text.as_bytes(), &names()).map(|bytes| to_text(&bytes).unwrap())
    }

    #[test]
    fn texts_of_several_programs() {
        let numbers = "user::rwx,user:7:r-x,group::r--,group:8:rw-,mask::r-x,other::r--";
        assert_eq!(again(numbers).unwrap(), numbers);
        let gnu = "user::rwx\nuser:daemon:r-x\t#effective:r--\ngroup::r--\ngroup:daemon:rw-\nmask::r-x\nother::r--\n";
        assert_eq!(again(gnu).unwrap(), numbers);
        let star = "user::rwx,group::r--,user:daemon:r-x:7,group:nobody:rw-:8,mask::r-x,other::r--";
        assert_eq!(again(star).unwrap(), numbers);
        assert_eq!(
            again("u::rwx,g::r,o:r").unwrap(),
            "user::rwx,group::r--,other::r--"
        );
    }

    #[test]
    fn what_is_none() {
        for text in [
            "user:stranger:r--",
            "nobody::r--",
            "user::rq-",
            "user",
            "mask:7:r--",
        ] {
            assert_eq!(again(text), None, "{text}");
        }
        assert_eq!(to_text(b"\x02\0\0\0abc"), None);
        assert_eq!(to_text(b""), None);
    }
}
