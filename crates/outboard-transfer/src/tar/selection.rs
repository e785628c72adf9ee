// SPDX-License-Identifier: GPL-2.0-only
//! Selects members of an archive, and changes their names and owners.

use super::directories::clean;
use super::member::{Member, MemberKind};
use crate::attributes::UNCHANGED;
use crate::exclusion::Exclusion;
use crate::owner::Owner;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The members to unpack, and the changes to them.
#[derive(Default)]
pub struct Selection {
    /// None: all.
    wanted: Vec<Wanted>,
    /// Patterns of members to leave out.
    pub excluded: Exclusion,
    /// Number of names to drop at the start of a path.
    pub strip: usize,
    /// `None` in it: the owner in the archive.
    pub owner: Owner,
    /// Files get the owner of new files.
    pub no_owner: bool,
}

/// A requested member, with everything below it.
struct Wanted {
    path: Vec<u8>,
    found: AtomicBool,
}

impl Selection {
    /// Names of members are as the archive has them; a "./" in front does not matter. None: all.
    pub fn of(names: &[OsString]) -> Result<Self> {
        let mut selection = Self::default();
        for name in names {
            let path = clean(name.as_bytes());
            let path = path.ok_or_else(|| {
                let name = escaped(name.as_bytes());
                Error::Usage(format!("{name}: a member's name has no \"..\" or NUL"))
            })?;
            let found = AtomicBool::new(false);
            selection.wanted.push(Wanted { path, found });
        }
        Ok(selection)
    }

    /// Whether the member of this name is unpacked.
    pub fn takes(&self, name: &[u8]) -> bool {
        self.is_wanted(name) && !self.excluded.excludes(without_slashes(name))
    }

    fn is_wanted(&self, name: &[u8]) -> bool {
        if self.wanted.is_empty() {
            return true;
        }
        let Some(path) = clean(name) else {
            return false;
        };
        let mut found = false;
        for wanted in &self.wanted {
            let rest = path.strip_prefix(wanted.path.as_slice());
            let below = |rest: &[u8]| rest.is_empty() || rest[0] == b'/' || wanted.path.is_empty();
            if rest.is_some_and(below) {
                wanted.found.store(true, Ordering::Relaxed);
                found = true;
            }
        }
        found
    }

    /// Requested members that the archive does not have.
    pub fn missing(&self) -> impl Iterator<Item = &[u8]> {
        let is_missing = |wanted: &&Wanted| !wanted.found.load(Ordering::Relaxed);
        self.wanted
            .iter()
            .filter(is_missing)
            .map(|wanted| wanted.path.as_slice())
    }

    /// Gives a member its new name and owner. `false`: its name is empty now.
    pub(super) fn change(&self, member: &mut Member) -> bool {
        if self.strip > 0 {
            match stripped(&member.path, self.strip) {
                Some(path) => member.path = path.to_vec(),
                None => return false,
            }
            if let MemberKind::Link(target) = &mut member.kind {
                // A link without a target fails later, with a message.
                *target = stripped(target, self.strip).unwrap_or_default().to_vec();
            }
        }
        let attributes = &mut member.attributes;
        attributes.user = self.owner.user.unwrap_or(attributes.user);
        attributes.group = self.owner.group.unwrap_or(attributes.group);
        if self.no_owner {
            (attributes.user, attributes.group) = (UNCHANGED, UNCHANGED);
            // A set-user-ID program must not run as another user.
            attributes.mode &= !(libc::S_ISUID | libc::S_ISGID);
        }
        true
    }
}

fn without_slashes(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|&byte| byte != b'/');
    &name[..end.map_or(0, |end| end + 1)]
}

/// Drops names at the start of a path. As in GNU tar, "." counts as one. `None`: nothing is left.
fn stripped(path: &[u8], count: usize) -> Option<&[u8]> {
    let trim = |path: &[u8]| path.iter().position(|&byte| byte != b'/');
    let mut rest = &path[trim(path)?..];
    for _ in 0..count {
        let slash = rest.iter().position(|&byte| byte == b'/')?;
        rest = &rest[slash..];
        rest = &rest[trim(rest)?..];
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stripped() {
        for (path, count, rest) in [
            ("a/b/c", 1, Some("b/c")),
            ("a/b/c", 2, Some("c")),
            ("a/b/c", 3, None),
            ("./a/b", 1, Some("a/b")),
            ("/a//b", 1, Some("b")),
            ("a/", 1, None),
            ("a/b/", 1, Some("b/")),
            ("///", 1, None),
            ("", 1, None),
        ] {
            let found = stripped(path.as_bytes(), count);
            assert_eq!(found, rest.map(str::as_bytes), "{path} {count}");
        }
    }

    #[test]
    fn members_are_chosen() {
        assert!(Selection::default().takes(b"./any"));
        let names = ["./etc/".into(), "none".into(), "b/c".into()];
        let selection = Selection::of(&names).unwrap();
        for (name, taken) in [
            ("etc", true),
            ("./etc/hosts", true),
            ("etcetera", false),
            ("b", false),
            ("b/c/d", true),
            ("x/etc", false),
            ("../etc", false),
        ] {
            assert_eq!(selection.takes(name.as_bytes()), taken, "{name}");
        }
        let missing: Vec<&[u8]> = selection.missing().collect();
        assert_eq!(missing, [b"none".as_slice()]);
        assert!(Selection::of(&["../x".into()]).is_err());
    }
}
