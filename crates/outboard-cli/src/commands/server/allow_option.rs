// SPDX-License-Identifier: GPL-2.0-only
//! The words of `--allow`: USER, a name or number of the host, and =INSIDE, numbers of the kernel.

use outboard::HostTree;
use outboard_error::{Error, ErrorKind, Result};
use outboard_server::InsideUser;
use outboard_transfer::accounts::Accounts;

/// The user inside of those without another one, as Linux calls nobody.
const NOBODY: u32 = 65534;

/// A user of the host who may use a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedUser {
    /// A name or a number.
    user: String,
    inside: InsideUser,
}

impl AllowedUser {
    /// The user's number on the host.
    pub fn find(&self) -> Result<(u32, InsideUser)> {
        let is_number = self.user.parse::<u32>().is_ok();
        let known = if is_number {
            Accounts::default()
        } else {
            Accounts::read_or_none(HostTree.as_tree())
        };
        let found = known.users.id(&self.user);
        let unknown = || {
            let text = format!("{}: no such user in /etc/passwd: use a number", self.user);
            Error::known(ErrorKind::NotFound, text)
        };
        Ok((found.ok_or_else(unknown)?, self.inside))
    }
}

/// Without a group, the group has the user's number.
pub fn parse_allow(text: &str) -> std::result::Result<AllowedUser, String> {
    let (user, inside) = match text.split_once('=') {
        Some((user, inside)) => (user, parse_inside(inside)?),
        None => (text, of_number(NOBODY)),
    };
    if user.is_empty() {
        return Err("a rule names a user, as in ann=1000".to_owned());
    }
    Ok(AllowedUser {
        user: user.to_owned(),
        inside,
    })
}

fn of_number(user: u32) -> InsideUser {
    InsideUser { user, group: user }
}

fn parse_inside(text: &str) -> std::result::Result<InsideUser, String> {
    let number = |text: &str| text.parse().ok().filter(|&number| number != u32::MAX);
    let parsed = match text.split_once(':') {
        Some((user, group)) => number(user).zip(number(group)),
        None => number(text).zip(number(text)),
    };
    let inside = parsed.map(|(user, group)| InsideUser { user, group });
    inside.ok_or_else(|| "the user inside is USER or USER:GROUP, in numbers".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let rule = |host, user, group| Some((host, InsideUser { user, group }));
        let found = |text: &str| parse_allow(text).unwrap().find().ok();
        assert_eq!(found("7"), rule(7, 65534, 65534));
        assert_eq!(found("7=1"), rule(7, 1, 1));
        assert_eq!(found("7=1:2"), rule(7, 1, 2));
        assert_eq!(found("root=0"), rule(0, 0, 0));
        assert_eq!(found("no such user"), None);
        assert_eq!(found("4294967295"), None);
        for wrong in ["", "=1", "7=", "7=a", "7=1:", "7=-1", "7=4294967295"] {
            assert!(parse_allow(wrong).is_err(), "{wrong}");
        }
    }
}
