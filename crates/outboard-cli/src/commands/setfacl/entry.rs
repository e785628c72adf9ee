// SPDX-License-Identifier: GPL-2.0-only
//! Entries of access lists as they are written, and the lists as files get them.

use crate::commands::descend::VisitedFile;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_transfer::accounts::{AccountNames, Accounts};
use outboard_transfer::acl::{Acl, Permissions, Who};
use std::ffi::CStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Access,
    Default,
}

/// Permissions as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenPermissions {
    pub permissions: Permissions,
    /// Execution for directories, and where somebody has it.
    pub conditional: bool,
}

/// An entry as it is written; without permissions where it is to be removed.
pub type Written = (Kind, Who, Option<GivenPermissions>);

/// The entries of texts: between commas and in lines, without comments.
pub fn entries(texts: &[String]) -> Vec<String> {
    let lines = texts.iter().flat_map(|text| text.split('\n'));
    lines
        .map(|line| line.split('#').next().unwrap_or_default())
        .flat_map(|line| line.split(','))
        .map(|entry| entry.trim().to_owned())
        .filter(|entry| !entry.is_empty())
        .collect()
}

pub fn wrong(text: &str, why: &str) -> Error {
    let shown = escaped(text.as_bytes());
    Error::Usage(format!("the entry {shown} makes no sense: {why}"))
}

pub fn is_short_for(text: &str, word: &str) -> bool {
    text == word || text == &word[..1]
}

/// "d:u:1000:rwx" and the like.
pub fn entry(text: &str, accounts: &Accounts) -> Result<Written> {
    let fields: Vec<&str> = text.split(':').map(str::trim).collect();
    let (kind, fields) = match fields.as_slice() {
        [first, rest @ ..] if is_short_for(first, "default") => (Kind::Default, rest),
        fields => (Kind::Access, fields),
    };
    let Some((tag, rest)) = fields.split_first() else {
        return Err(wrong(text, "it is empty"));
    };
    // "m:rw" is "m::rw".
    let nameless = is_short_for(tag, "mask") || is_short_for(tag, "other");
    let (name, permissions) = match *rest {
        [] => ("", None),
        [only] if nameless => ("", Some(only)),
        [name] => (name, None),
        [name, permissions] => (name, Some(permissions)),
        _ => return Err(wrong(text, "it has too many parts")),
    };
    let id = |names: &AccountNames| {
        let name = outboard_volume::octal::unquote(name.as_bytes());
        let id = names.id(&String::from_utf8_lossy(&name));
        id.ok_or_else(|| wrong(text, "the image knows no such name"))
    };
    let who = match (*tag, name) {
        (tag, "") if is_short_for(tag, "user") => Who::Owner,
        (tag, _) if is_short_for(tag, "user") => Who::User(id(&accounts.users)?),
        (tag, "") if is_short_for(tag, "group") => Who::OwningGroup,
        (tag, _) if is_short_for(tag, "group") => Who::Group(id(&accounts.groups)?),
        (tag, "") if is_short_for(tag, "mask") => Who::Mask,
        (tag, "") if is_short_for(tag, "other") => Who::Other,
        _ => return Err(wrong(text, "it is for nobody: write u:, g:, m:: or o::")),
    };
    let given = match permissions {
        None | Some("") => None,
        Some(letters) => {
            let problem = "permissions are of \"rwxX-\", or a digit up to 7";
            Some(parse_permissions(letters).ok_or_else(|| wrong(text, problem))?)
        }
    };
    Ok((kind, who, given))
}

fn parse_permissions(letters: &str) -> Option<GivenPermissions> {
    let mut given = GivenPermissions {
        permissions: 0,
        conditional: false,
    };
    if let [digit @ b'0'..=b'7'] = letters.as_bytes() {
        given.permissions = digit - b'0';
        return Some(given);
    }
    for letter in letters.chars() {
        match letter {
            'r' => given.permissions |= 4,
            'w' => given.permissions |= 2,
            'x' => given.permissions |= 1,
            'X' => given.conditional = true,
            '-' => {}
            _ => return None,
        }
    }
    Some(given)
}

pub fn write(found: &VisitedFile, attribute: &CStr, list: &Acl) -> Result<()> {
    let done = if list.is_empty() {
        match found.file.remove_xattr(attribute) {
            Err(error) if error.raw_os_error() == Some(libc::ENODATA) => Ok(()),
            // A file system without lists has nothing to remove.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            other => other,
        }
    } else {
        found.file.set_xattr(attribute, &list.encode())
    };
    done.map_err(|error| found.failed("change the access control list of", &error))
}
