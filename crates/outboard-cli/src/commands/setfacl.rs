// SPDX-License-Identifier: GPL-2.0-only
//! `outboard setfacl`.
//!
//! The command line becomes a plan: steps that change each file's two lists, in order. Masks are
//! computed after them, unless one was given.

mod entry;
mod restore;

use super::descend::{Descend, VisitedFile};
use super::dump::{text_of, Dump};
use super::getfacl::{access_list, default_list};
use super::writes_images;
use clap::Args;
use entry::{entries, entry, write, wrong, GivenPermissions, Kind, Written};
use outboard_error::{Error, ErrorKind, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::accounts::Accounts;
use outboard_transfer::acl::{Acl, Who, ACCESS, DEFAULT};
use outboard_volume::session::{Session, TreeId};
use std::ffi::OsString;
use std::path::PathBuf;

/// Change access control lists of files in an image
///
/// An entry is [d:]u:USER:PERMS, [d:]g:GROUP:PERMS, [d:]m::PERMS or [d:]o::PERMS. Without USER or
/// GROUP it is for the owner or the owning group. PERMS are letters of "rwxX-" or a digit; X means
/// x for directories, and for files that somebody may execute already. Commas separate entries.
/// Names are those of the image. Removals come before the entries of -m and -M.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard setfacl -m u:1000:rwX,g:adm:rX disk.img:/srv/data\
                        \n  outboard setfacl -R -m d:u:www-data:rwX disk.img:/srv\
                        \n  outboard setfacl -b disk.img:/srv/data\
                        \n  outboard setfacl --restore lists.txt disk.img:/")]
pub struct SetfaclArgs {
    /// The files; with --restore, the directory to which the paths in FILE are relative
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Set these entries
    #[arg(short, long, value_name = "ENTRIES")]
    pub modify: Vec<String>,
    /// Set the entries in a file of the host; "-": standard input
    #[arg(short = 'M', long, value_name = "FILE")]
    pub modify_file: Option<OsString>,
    /// Remove these entries, written without PERMS
    #[arg(short = 'x', long, value_name = "ENTRIES")]
    pub remove: Vec<String>,
    /// Remove the entries in a file of the host
    #[arg(short = 'X', long, value_name = "FILE")]
    pub remove_file: Option<OsString>,
    /// Replace the whole list by these entries
    #[arg(long, value_name = "ENTRIES")]
    pub set: Vec<String>,
    /// Remove all entries beyond the mode
    #[arg(short = 'b', long)]
    pub remove_all: bool,
    /// Remove the default list
    #[arg(short = 'k', long)]
    pub remove_default: bool,
    /// Change the default list: entries need no "d:"
    #[arg(short, long)]
    pub default: bool,
    /// Do not compute the mask
    #[arg(short, long, conflicts_with = "mask")]
    pub no_mask: bool,
    /// Compute the mask even if an entry sets it
    #[arg(long)]
    pub mask: bool,
    /// Include everything below directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Set what a file of the host says, as "getfacl -R" wrote it, also owners; "-": standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["modify", "modify_file", "remove",
        "remove_file", "set", "remove_all", "remove_default", "default", "recursive"])]
    pub restore: Option<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Clear(Kind),
    RemoveExtended,
    Remove(Kind, Who),
    Set(Kind, Who, GivenPermissions),
}

impl SetfaclArgs {
    pub fn host_access(&self) -> HostAccess {
        let mut access = writes_images(&self.places);
        let files = [&self.modify_file, &self.remove_file, &self.restore];
        access
            .reads
            .extend(files.into_iter().flatten().map(PathBuf::from));
        access
    }
}

pub fn run(options: &SetfaclArgs, session: &mut Session) -> Result<()> {
    if let Some(file) = &options.restore {
        let dump = Dump::read(file)?;
        let mut known = None;
        return dump.restore(session, &options.places, true, |found, section| {
            let accounts = known.get_or_insert_with(|| Accounts::read_or_none(found.tree));
            restore::restore(found, section, accounts)
        });
    }
    let texts = Texts::read(options)?;
    let mut known: Option<(TreeId, Vec<Step>)> = None;
    let descend = Descend {
        write: true,
        recursive: options.recursive,
        follow: true,
    };
    descend.run(session, &options.places, |found| {
        if found.kind() == libc::S_IFLNK {
            return Ok(());
        }
        if known.as_ref().is_none_or(|(id, _)| *id != found.id) {
            known = Some((
                found.id,
                texts.plan(options, &Accounts::read_or_none(found.tree))?,
            ));
        }
        let (_, plan) = known.as_ref().expect("just made");
        change(options, found, plan)
    })
}

/// Entries as they are written.
struct Texts {
    set: Vec<String>,
    remove: Vec<String>,
    modify: Vec<String>,
}

impl Texts {
    fn read(options: &SetfaclArgs) -> Result<Self> {
        let with_file = |texts: &[String], file: &Option<OsString>| -> Result<Vec<String>> {
            let mut all = texts.to_vec();
            if let Some(file) = file {
                all.push(String::from_utf8_lossy(&text_of(file)?).into_owned());
            }
            Ok(entries(&all))
        };
        let texts = Self {
            set: entries(&options.set),
            remove: with_file(&options.remove, &options.remove_file)?,
            modify: with_file(&options.modify, &options.modify_file)?,
        };
        let nothing = texts.set.is_empty() && texts.remove.is_empty() && texts.modify.is_empty();
        if nothing && !options.remove_all && !options.remove_default {
            return Err(Error::Usage(
                "nothing to change: say -m, -x, -b, -k, --set or --restore".to_owned(),
            ));
        }
        Ok(texts)
    }

    fn plan(&self, options: &SetfaclArgs, accounts: &Accounts) -> Result<Vec<Step>> {
        let read = |texts: &[String]| -> Result<Vec<Written>> {
            let entries = texts.iter().map(|text| {
                let (kind, who, given) = entry(text, accounts)?;
                let kind = if options.default { Kind::Default } else { kind };
                Ok((kind, who, given))
            });
            entries.collect()
        };
        let setting = |(texts, entry): (&String, &Written)| match *entry {
            (kind, who, Some(given)) => Ok(Step::Set(kind, who, given)),
            _ => Err(wrong(texts, "it has no permissions")),
        };
        let mut plan = Vec::new();
        let set = read(&self.set)?;
        for kind in [Kind::Access, Kind::Default] {
            if set.iter().any(|entry| entry.0 == kind) {
                plan.push(Step::Clear(kind));
            }
        }
        for entry in self.set.iter().zip(&set) {
            plan.push(setting(entry)?);
        }
        if options.remove_all {
            plan.extend([Step::RemoveExtended, Step::Clear(Kind::Default)]);
        }
        if options.remove_default {
            plan.push(Step::Clear(Kind::Default));
        }
        for (text, (kind, who, given)) in self.remove.iter().zip(read(&self.remove)?) {
            if given.is_some() {
                return Err(wrong(text, "an entry to remove takes no permissions"));
            }
            plan.push(Step::Remove(kind, who));
        }
        for entry in self.modify.iter().zip(&read(&self.modify)?) {
            plan.push(setting(entry)?);
        }
        Ok(plan)
    }
}

/// A list that is changed.
struct Draft {
    list: Acl,
    changed: bool,
    mask_given: bool,
}

impl Draft {
    fn new(list: Acl) -> Self {
        Self {
            list,
            changed: false,
            mask_given: false,
        }
    }

    fn take(&mut self, step: Step, directory: bool) {
        self.changed = true;
        match step {
            Step::Clear(_) => self.list = Acl::default(),
            Step::RemoveExtended => self.list.remove_extended(),
            Step::Remove(_, who) => {
                self.mask_given |= who == Who::Mask;
                self.list.remove(who);
            }
            Step::Set(_, who, given) => {
                self.mask_given |= who == Who::Mask;
                let anybody = self.list.entries().iter().any(|entry| entry.1 & 1 != 0);
                let execute = given.conditional && (directory || anybody);
                self.list.set(who, given.permissions | u8::from(execute));
            }
        }
    }

    /// Makes it a list that Linux takes, or says why that cannot be.
    fn finish(&mut self, options: &SetfaclArgs) -> Option<&'static str> {
        if self.list.is_extended() {
            if !self.mask_given && self.list.get(Who::Mask).is_none() {
                let group = self.list.get(Who::OwningGroup).unwrap_or(0);
                self.list.set(Who::Mask, group);
            }
            if options.mask || (!options.no_mask && !self.mask_given) {
                self.list.calculate_mask();
            }
        }
        self.list.problem()
    }
}

fn change(options: &SetfaclArgs, found: &VisitedFile, plan: &[Step]) -> Result<()> {
    let directory = found.kind() == libc::S_IFDIR;
    let mut access = Draft::new(access_list(found)?);
    let mut default = Draft::new(default_list(found)?);
    for &step in plan {
        let draft = match step {
            Step::RemoveExtended => &mut access,
            Step::Clear(kind) | Step::Remove(kind, _) | Step::Set(kind, ..) => match kind {
                Kind::Access => &mut access,
                Kind::Default => &mut default,
            },
        };
        draft.take(step, directory);
    }
    let malformed = |why| {
        let place = found.place.shown();
        Error::known(
            ErrorKind::Usage,
            format!("cannot change the access control list of {place}: {why}"),
        )
    };
    if access.changed {
        if let Some(why) = access.finish(options) {
            return Err(malformed(why));
        }
    }
    if default.changed && !default.list.is_empty() {
        if !directory {
            // With -R the entries are for the directories among the files.
            if options.recursive {
                default.changed = false;
            } else {
                return Err(malformed("only directories have default lists"));
            }
        }
        complete(&mut default.list, &access.list);
        if let Some(why) = default.finish(options) {
            return Err(malformed(why));
        }
    }
    if access.changed {
        write(found, ACCESS, &access.list)?;
    }
    if default.changed && directory {
        write(found, DEFAULT, &default.list)?;
    }
    Ok(())
}

/// Gives a default list what it must have from the list for access.
fn complete(default: &mut Acl, access: &Acl) {
    for who in [Who::Owner, Who::OwningGroup, Who::Other] {
        if let (None, Some(permissions)) = (default.get(who), access.get(who)) {
            default.set(who, permissions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Written> {
        entry(text, &Accounts::default())
    }

    #[test]
    fn written_entries() {
        let given = |permissions, conditional| {
            Some(GivenPermissions {
                permissions,
                conditional,
            })
        };
        for (text, expected) in [
            ("u:5:rw", (Kind::Access, Who::User(5), given(6, false))),
            ("user::7", (Kind::Access, Who::Owner, given(7, false))),
            ("d:g:9:r-X", (Kind::Default, Who::Group(9), given(4, true))),
            (
                "default:mask::---",
                (Kind::Default, Who::Mask, given(0, false)),
            ),
            ("m:rx", (Kind::Access, Who::Mask, given(5, false))),
            ("o::w", (Kind::Access, Who::Other, given(2, false))),
            ("g:9", (Kind::Access, Who::Group(9), None)),
            ("u:5:", (Kind::Access, Who::User(5), None)),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "z:5:r",
            "u:5:q",
            "u:5:8",
            "u:nobody:r",
            "u:5:r:x",
            "d",
            "o:5:r",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn texts_of_files() {
        let texts = [
            "u:1:r,g:2:w".to_owned(),
            "# all\no::r # others\n\n".to_owned(),
        ];
        assert_eq!(entries(&texts), ["u:1:r", "g:2:w", "o::r"]);
    }
}
