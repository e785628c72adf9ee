// SPDX-License-Identifier: GPL-2.0-only
//! POSIX ACLs in the text format of archives.

use super::sparse::decimal;
use crate::accounts::Accounts;
use crate::acl::{shown, Acl, Permissions, Who};

fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn permissions(text: &[u8]) -> Option<Permissions> {
    text.iter().try_fold(0, |sum, byte| match byte {
        b'r' => Some(sum | 4),
        b'w' => Some(sum | 2),
        b'x' => Some(sum | 1),
        b'-' | b' ' | b'\t' => Some(sum),
        _ => None,
    })
}

/// "user:NAME:rwx"; some programs append ":NUMBER".
fn parse_entry(text: &[u8], accounts: &Accounts) -> Option<(Who, Permissions)> {
    let mut fields = text.split(|&byte| byte == b':').map(<[u8]>::trim_ascii);
    let kind = fields.next()?;
    let (nobody, names) = match kind {
        b"user" | b"u" => (Who::Owner, Some(&accounts.users)),
        b"group" | b"g" => (Who::OwningGroup, Some(&accounts.groups)),
        b"mask" | b"m" => (Who::Mask, None),
        b"other" | b"o" => (Who::Other, None),
        _ => return None,
    };
    let second = fields.next()?;
    let Some(third) = fields.next() else {
        // "other:r--": some programs leave out the empty name.
        let permissions = permissions(second)?;
        return names.is_none().then_some((nobody, permissions));
    };
    let permissions = permissions(third)?;
    let fourth = fields.next().filter(|number| !number.is_empty());
    if fields.next().is_some() {
        return None;
    }
    if second.is_empty() {
        return fourth.is_none().then_some((nobody, permissions));
    }
    let names = names?;
    let id = match fourth {
        Some(number) => u32::try_from(decimal(number)?).ok(),
        None => names.id(text_of(second)?),
    };
    let id = id.filter(|&id| id != u32::MAX)?;
    let who = match nobody {
        Who::Owner => Who::User(id),
        _ => Who::Group(id),
    };
    Some((who, permissions))
}

/// Converts text to the kernel's format. `None`: the text is no ACL, or has an unknown name.
pub fn from_text(text: &[u8], accounts: &Accounts) -> Option<Vec<u8>> {
    let mut list = Acl::default();
    for part in text.split(|byte| b",\n".contains(byte)) {
        let part = part.split(|&byte| byte == b'#').next()?.trim_ascii();
        if part.is_empty() {
            continue;
        }
        let (who, permissions) = parse_entry(part, accounts)?;
        if list.get(who).is_some() {
            return None;
        }
        list.set(who, permissions);
    }
    let good = list.is_empty() || list.problem().is_none();
    good.then(|| list.encode())
}

/// Converts the kernel's format to text, with numbers in place of names. `None`: the value is
/// invalid.
pub fn to_text(bytes: &[u8]) -> Option<String> {
    let list = Acl::decode(bytes)?;
    let entries = list.entries().iter().map(|&(who, permissions)| {
        let permissions = shown(permissions);
        match who {
            Who::Owner => format!("user::{permissions}"),
            Who::User(id) => format!("user:{id}:{permissions}"),
            Who::OwningGroup => format!("group::{permissions}"),
            Who::Group(id) => format!("group:{id}:{permissions}"),
            Who::Mask => format!("mask::{permissions}"),
            Who::Other => format!("other::{permissions}"),
        }
    });
    Some(entries.collect::<Vec<String>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::AccountNames;

    fn accounts() -> Accounts {
        Accounts {
            users: AccountNames::parse(b"daemon:x:7:"),
            groups: AccountNames::parse(b"daemon:x:8:"),
        }
    }

    fn again(text: &str) -> Option<String> {
        from_text(text.as_bytes(), &accounts()).map(|bytes| to_text(&bytes).unwrap())
    }

    #[test]
    fn texts_of_several_programs() {
        let numbers = "user::rwx,user:7:r-x,group::r--,group:8:rw-,mask::r-x,other::r--";
        assert_eq!(again(numbers).unwrap(), numbers);
        let gnu = "user::rwx\nuser:daemon:r-x\t#effective:r--\ngroup::r--\ngroup:daemon:rw-\
                   \nmask::r-x\nother::r--\n";
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
            "user::rwx,group::r--",
            "u::rwx,g::r,o:r,u::r",
            "user::rwx:7,group::r--,other::r--",
            "user::rwx,group::r--,user:daemon:r-x:7x,mask::r-x,other::r--",
            "user::rwx,group::r--,user:daemon:r-x:7:8,mask::r-x,other::r--",
        ] {
            assert_eq!(again(text), None, "{text}");
        }
        assert_eq!(to_text(b"\x02\0\0\0abc"), None);
        assert_eq!(to_text(b""), None);
    }
}
