// SPDX-License-Identifier: GPL-2.0-only
//! Owners in the syntax of `chown`, with the names of an image or of a directory that becomes one:
//! the host's names mean other numbers.

use crate::accounts::{Accounts, GROUPS, USERS};
use outboard::{HostTree, Tree};
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Result};
use outboard_volume::address::Place;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An unknown name, and the file where it should be.
pub(crate) type Unknown = (&'static str, &'static str);
const USER: Unknown = ("user", USERS);
const GROUP: Unknown = ("group", GROUPS);

/// A user, a group, or both. `None`: any, or unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

impl Owner {
    /// Parses an owner with the names of the image that a place is in.
    pub fn find(text: &[u8], tree: &Tree, place: &Place) -> Result<Self> {
        Self::find_in(text, tree, |file| place.with_path(file.into()).shown())
    }

    /// Parses an owner with the names in etc/passwd and etc/group of a directory of the host.
    pub fn find_below(text: &[u8], directory: &Path) -> Result<Self> {
        let operand = || directory.as_os_str().as_bytes().to_vec();
        let tree = HostTree::directory(directory)
            .map_err(|error| Error::of_file("cannot open", operand(), &error))?;
        Self::find_in(text, &tree, |file| {
            escaped(&[operand(), file.into()].concat())
        })
    }

    /// `shown`: a file of the tree in messages.
    fn find_in(text: &[u8], tree: &Tree, shown: impl Fn(&str) -> String) -> Result<Self> {
        let plain = |byte: &u8| byte.is_ascii_digit() || b"+:".contains(byte);
        let accounts = if text.iter().all(plain) && !text.ends_with(b":") {
            Accounts::default()
        } else {
            Accounts::read(tree).map_err(|error| {
                let text = format!("cannot read the names in {}", shown("/etc"));
                Error::failed(text, &error)
            })?
        };
        Self::parse(text, &accounts).map_err(|(kind, file)| {
            let (text, shown) = (escaped(text), shown(file));
            Error::known(
                ErrorKind::NotFound,
                format!("{text}: no such {kind} in {shown}: use a name that is there, or a number"),
            )
        })
    }

    /// Parses "USER", "USER:GROUP", ":GROUP" and "USER:", which has the user's login group.
    pub(crate) fn parse(text: &[u8], accounts: &Accounts) -> std::result::Result<Self, Unknown> {
        let text = std::str::from_utf8(text).map_err(|_| USER)?;
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let owner = match user {
            "" => None,
            name => Some(accounts.users.id(name).ok_or(USER)?),
        };
        let group = match (group, owner) {
            (None, _) | (Some(""), None) => None,
            (Some(""), Some(id)) => Some(accounts.users.group(id).ok_or(USER)?),
            (Some(name), _) => Some(accounts.groups.id(name).ok_or(GROUP)?),
        };
        Ok(Self { user: owner, group })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::AccountNames;

    #[test]
    fn owners() {
        let accounts = Accounts {
            users: AccountNames::parse(b"ann:x:7:8:Ann:/:/bin/sh\n"),
            groups: AccountNames::parse(b"staff:x:50:ann\n"),
        };
        for (text, user, group) in [
            ("ann", Some(7), None),
            ("ann:", Some(7), Some(8)),
            ("ann:staff", Some(7), Some(50)),
            (":staff", None, Some(50)),
            ("5:+6", Some(5), Some(6)),
            (":", None, None),
        ] {
            let found = Owner::parse(text.as_bytes(), &accounts);
            assert_eq!(found, Ok(Owner { user, group }), "{text}");
        }
        for bad in ["bob", "ann:wheel", "5:", "4294967295", "-1", "99999999999"] {
            assert!(Owner::parse(bad.as_bytes(), &accounts).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        std::fs::create_dir(top.join("etc")).unwrap();
        std::fs::write(top.join("etc/passwd"), "ann:x:7:8:Ann:/:/bin/sh\n").unwrap();
        let found = |text: &str| Owner::find_below(text.as_bytes(), top);
        let both = Owner {
            user: Some(7),
            group: Some(8),
        };
        assert_eq!(found("ann:"), Ok(both));
        assert_eq!(found("7:8"), Ok(both));
        let error = found("ann:staff").unwrap_err();
        let file = top.join("etc/group").display().to_string();
        assert!(error.message().unwrap().contains(&file), "{error:?}");
        // A link of the directory means a file of the directory.
        std::fs::remove_file(top.join("etc/passwd")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", top.join("etc/passwd")).unwrap();
        assert!(found("root").is_err());
    }
}
