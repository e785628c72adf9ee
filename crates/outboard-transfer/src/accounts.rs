// SPDX-License-Identifier: GPL-2.0-only
//! Names of users and groups, from the /etc/passwd and /etc/group of an image.

use outboard::Tree;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Read};
use std::path::Path;

/// The files with the names of users and groups.
pub(crate) const USERS: &str = "/etc/passwd";
pub(crate) const GROUPS: &str = "/etc/group";

/// Bytes of such a file that are read at most.
const LARGEST: u64 = 16 << 20;

/// The names of one kind. The first of several entries counts.
#[derive(Debug, Default)]
pub struct AccountNames {
    by_id: HashMap<u32, String>,
    by_name: HashMap<String, u32>,
    /// Login groups of users; empty for groups.
    groups: HashMap<u32, u32>,
}

/// The users and groups of an image.
#[derive(Debug, Default)]
pub struct Accounts {
    pub users: AccountNames,
    pub groups: AccountNames,
}

/// Reads such a file. Empty if there is none; an error if it is not regular: opening a FIFO could
/// wait forever.
pub(crate) fn read_text(tree: &Tree, path: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let regular = match tree.metadata(Path::new(path)) {
        Ok(found) => found.is_file(),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => return Ok(text),
            _ => return Err(error),
        },
    };
    if !regular {
        let text = format!("{path} is not a regular file");
        return Err(io::Error::other(text));
    }
    tree.open(path)?.take(LARGEST).read_to_end(&mut text)?;
    Ok(text)
}

fn add_missing<K: Eq + Hash, V>(map: &mut HashMap<K, V>, more: HashMap<K, V>) {
    for (key, value) in more {
        map.entry(key).or_insert(value);
    }
}

impl AccountNames {
    /// Parses lines of `name:password:id:...`, and leaves out lines without a valid name.
    pub fn parse(text: &[u8]) -> Self {
        let mut names = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            let mut fields = line.split(|&byte| byte == b':');
            let name = fields
                .next()
                .and_then(|name| std::str::from_utf8(name).ok());
            let id = fields.nth(1).and_then(|id| std::str::from_utf8(id).ok());
            let (Some(name), Some(id)) = (name, id.and_then(|id| id.parse().ok())) else {
                continue;
            };
            let strange = |character: char| character.is_control() || " ,#".contains(character);
            if name.is_empty() || name.contains(strange) || name.parse::<u32>().is_ok() {
                continue;
            }
            let group = fields.next().and_then(|id| std::str::from_utf8(id).ok());
            if let Some(group) = group.and_then(|group| group.parse().ok()) {
                names.groups.entry(id).or_insert(group);
            }
            names.by_id.entry(id).or_insert_with(|| name.to_owned());
            names.by_name.entry(name.to_owned()).or_insert(id);
        }
        names
    }

    /// With those of others where these say nothing.
    fn or(mut self, others: Self) -> Self {
        add_missing(&mut self.by_id, others.by_id);
        add_missing(&mut self.by_name, others.by_name);
        add_missing(&mut self.groups, others.groups);
        self
    }

    /// The name of a number, if it has one.
    pub fn known(&self, id: u32) -> Option<&str> {
        self.by_id.get(&id).map(String::as_str)
    }

    /// The name of a number, or the number.
    pub fn name(&self, id: u32) -> String {
        self.known(id).map_or_else(|| id.to_string(), str::to_owned)
    }

    /// The group that a user has at login.
    pub fn group(&self, id: u32) -> Option<u32> {
        self.groups.get(&id).copied()
    }

    /// The number that is meant by a name or a number.
    pub fn id(&self, text: &str) -> Option<u32> {
        let number = text.parse().ok().filter(|&id| id != u32::MAX);
        number.or_else(|| self.by_name.get(text).copied())
    }
}

impl Accounts {
    /// Reads /etc/passwd and /etc/group of a tree.
    pub fn read(tree: &Tree) -> io::Result<Self> {
        Ok(Self::parse(
            &read_text(tree, USERS)?,
            &read_text(tree, GROUPS)?,
        ))
    }

    pub(crate) fn parse(users: &[u8], groups: &[u8]) -> Self {
        Self {
            users: AccountNames::parse(users),
            groups: AccountNames::parse(groups),
        }
    }

    /// With those of others where these say nothing.
    pub fn or(self, others: Self) -> Self {
        Self {
            users: self.users.or(others.users),
            groups: self.groups.or(others.groups),
        }
    }

    /// As [`Accounts::read`]; without names if they cannot be read.
    pub fn read_or_none(tree: &Tree) -> Self {
        Self::read(tree).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let names = AccountNames::parse(
            b"root:x:0:0::/:\n\xff:x:1\na\x1b:x:2\n5:x:6:\nbad\nr2:x:0:\nme:x:7:1",
        );
        assert_eq!(names.name(0), "root");
        assert_eq!(names.name(2), "2");
        assert_eq!(names.id("r2"), Some(0));
        assert_eq!(names.id("me"), Some(7));
        assert_eq!(names.id("5"), Some(5));
        assert_eq!(names.id("4294967295"), None);
        assert_eq!(names.id("nobody"), None);
    }
}
