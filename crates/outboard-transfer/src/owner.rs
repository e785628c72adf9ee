// SPDX-License-Identifier: GPL-2.0-only
//! Owners in the syntax of `chown`, with the names of an image: the host's names mean other
//! numbers.

use crate::accounts::Accounts;
use outboard::Tree;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Result};
use outboard_volume::address::Place;

/// An unknown name, and the file where it should be.
type Unknown = (&'static str, &'static str);
const USER: Unknown = ("user", "/etc/passwd");
const GROUP: Unknown = ("group", "/etc/group");

/// A user, a group, or both. `None`: any, or unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

impl Owner {
    /// Parses an owner with the names of the image that a place is in.
    pub fn find(text: &[u8], tree: &Tree, place: &Place) -> Result<Self> {
        let plain = |byte: &u8| byte.is_ascii_digit() || b"+:".contains(byte);
        let accounts = match text.iter().all(plain) && !text.ends_with(b":") {
            true => Accounts::default(),
            false => Accounts::read(tree).map_err(|error| {
                let shown = place.with_path("/etc".into()).shown();
                Error::failed(format!("cannot read the names in {shown}"), &error)
            })?,
        };
        Self::parse(text, &accounts).map_err(|(kind, file)| {
            let shown = place.with_path(file.into()).shown();
            let text = escaped(text);
            Error::known(
                ErrorKind::NotFound,
                format!("{text}: no such {kind} in {shown}: use a name that is there, or a number"),
            )
        })
    }

    /// Parses "UID:GID": one user and group, both as numbers.
    pub fn from_numbers(text: &str) -> std::result::Result<Self, String> {
        let number = |part: &str| part.parse().ok().filter(|number| *number != u32::MAX);
        let parsed = text.split_once(':').and_then(|(user, group)| {
            Some(Self {
                user: Some(number(user)?),
                group: Some(number(group)?),
            })
        });
        parsed.ok_or_else(|| format!("\"{text}\" is not UID:GID, as in 0:0"))
    }

    /// Parses "USER", "USER:GROUP", ":GROUP" and "USER:", which has the user's login group.
    fn parse(text: &[u8], accounts: &Accounts) -> std::result::Result<Self, Unknown> {
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
    fn numbers_alone() {
        let owner = Owner::from_numbers("1:2").unwrap();
        assert_eq!((owner.user, owner.group), (Some(1), Some(2)));
        for bad in ["", "1", "1:", ":2", "1:2:3", "4294967295:0"] {
            assert!(Owner::from_numbers(bad).is_err(), "{bad}");
        }
    }
}
