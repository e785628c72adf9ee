// SPDX-License-Identifier: GPL-2.0-only
//! What a login as a user of an image gives to a program: numbers, groups, a home directory.

use crate::accounts::{read_text, Accounts, GROUPS, USERS};
use crate::owner::Owner;
use outboard::{ProgramUser, Tree};
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Result};
use outboard_volume::program::Login;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Finds "USER" and "USER:GROUP": numbers, or names of the tree. Without a group: the user's, and
/// those that list the user. `shown`: the image in messages.
pub fn find(text: &[u8], tree: &Tree, shown: &str) -> Result<Login> {
    let read = |path| {
        read_text(tree, path).map_err(|error| {
            let what = format!("cannot read the names in {path} of {shown}");
            Error::failed(what, &error)
        })
    };
    let (users, groups) = (read(USERS)?, read(GROUPS)?);
    let login = parse(text, &users, &groups);
    login.map_err(|(kind, file)| {
        let text = escaped(text);
        Error::known(
            ErrorKind::NotFound,
            format!(
                "{text}: no such {kind} in {file} of {shown}: use a name that is there, or a \
                     number"
            ),
        )
    })
}

fn lines(text: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let lines = text.split(|&byte| byte == b'\n');
    lines.map(|line| line.split(|&byte| byte == b':').collect())
}

fn parse(
    text: &[u8],
    users: &[u8],
    groups: &[u8],
) -> std::result::Result<Login, (&'static str, &'static str)> {
    let accounts = Accounts::parse(users, groups);
    let owner = Owner::parse(text, &accounts)?;
    let user = owner.user.ok_or(("user", USERS))?;
    let group = owner.group.or_else(|| accounts.users.group(user));
    let has_number = |field: &[u8], number: u32| field == number.to_string().as_bytes();
    let entry = lines(users).find(|fields| fields.len() > 5 && has_number(fields[2], user));
    let home = entry
        .as_ref()
        .map(|fields| OsStr::from_bytes(fields[5]).to_owned());
    let is_member = |fields: &Vec<&[u8]>| {
        let name = entry.as_ref().map(|entry| entry[0]);
        let mut members = fields
            .get(3)
            .map_or(&b""[..], |list| list)
            .split(|&byte| byte == b',');
        name.is_some_and(|name| members.any(|member| member == name))
    };
    let number = |fields: Vec<&[u8]>| std::str::from_utf8(fields.get(2)?).ok()?.parse().ok();
    let further = if owner.group.is_none() {
        lines(groups).filter(is_member).filter_map(number).collect()
    } else {
        Vec::new()
    };
    Ok(Login {
        user: ProgramUser {
            user,
            group: group.unwrap_or(0),
            groups: further,
        },
        home: home.filter(|home: &OsString| !home.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_USERS: &[u8] = b"root:x:0:0::/root:/bin/sh\nann:x:7:8:Ann:/home/ann:/bin/sh\n";
    const ALL_GROUPS: &[u8] = b"root:x:0:\nann:x:8:\nstaff:x:50:bob,ann\naudio:x:51:ann\n";

    fn found(text: &str) -> (u32, u32, Vec<u32>, Option<OsString>) {
        let login = parse(text.as_bytes(), ALL_USERS, ALL_GROUPS).unwrap();
        let ProgramUser {
            user,
            group,
            groups,
        } = login.user;
        (user, group, groups, login.home)
    }

    #[test]
    fn logins() {
        let home = || Some("/home/ann".into());
        assert_eq!(found("ann"), (7, 8, vec![50, 51], home()));
        assert_eq!(found("7"), (7, 8, vec![50, 51], home()));
        assert_eq!(found("ann:staff"), (7, 50, vec![], home()));
        assert_eq!(found("root"), (0, 0, vec![], Some("/root".into())));
        assert_eq!(found("99"), (99, 0, vec![], None));
        assert_eq!(found("99:3"), (99, 3, vec![], None));
        for bad in ["bob", "ann:wheel", ":staff", "", "-1"] {
            assert!(
                parse(bad.as_bytes(), ALL_USERS, ALL_GROUPS).is_err(),
                "{bad}"
            );
        }
    }
}
