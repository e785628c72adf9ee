// SPDX-License-Identifier: GPL-2.0-only
//! `outboard setfacl`.
//!
//! The command line becomes a plan: steps that change each file's two lists, in order. Masks are
//! computed after them, unless one was given.

mod restore;

use super::descend::{Descend, VisitedFile};
use super::dump::{text_of, Dump};
use super::getfacl::{access_list, default_list};
use super::writes_images;
use clap::Args;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::accounts::{AccountNames, Accounts};
use outboard_transfer::acl::{Acl, Permissions, Who, ACCESS, DEFAULT};
use outboard_volume::session::{Session, TreeId};
use std::ffi::{CStr, OsString};
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
enum Kind {
    Access,
    Default,
}

/// Permissions as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    permissions: Permissions,
    /// Execution for directories, and where somebody has it.
    conditional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Clear(Kind),
    RemoveExtended,
    Remove(Kind, Who),
    Set(Kind, Who, Wish),
}

/// An entry as it is written; without permissions where it is to be removed.
type Written = (Kind, Who, Option<Wish>);

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

/// The entries of texts: between commas and in lines, without comments.
fn entries(texts: &[String]) -> Vec<String> {
    let lines = texts.iter().flat_map(|text| text.split('\n'));
    lines
        .map(|line| line.split('#').next().unwrap_or_default())
        .flat_map(|line| line.split(','))
        .map(|entry| entry.trim().to_owned())
        .filter(|entry| !entry.is_empty())
        .collect()
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
                let (kind, who, wish) = entry(text, accounts)?;
                let kind = if options.default { Kind::Default } else { kind };
                Ok((kind, who, wish))
            });
            entries.collect()
        };
        let setting = |(texts, entry): (&String, &Written)| match *entry {
            (kind, who, Some(wish)) => Ok(Step::Set(kind, who, wish)),
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
        for (text, (kind, who, wish)) in self.remove.iter().zip(read(&self.remove)?) {
            if wish.is_some() {
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

fn wrong(text: &str, why: &str) -> Error {
    let shown = escaped(text.as_bytes());
    Error::Usage(format!("the entry {shown} makes no sense: {why}"))
}

fn is_short_for(text: &str, word: &str) -> bool {
    text == word || text == &word[..1]
}

/// "d:u:1000:rwx" and the like.
fn entry(text: &str, accounts: &Accounts) -> Result<Written> {
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
    let wish = match permissions {
        None | Some("") => None,
        Some(letters) => {
            let problem = "permissions are of \"rwxX-\", or a digit up to 7";
            Some(wish(letters).ok_or_else(|| wrong(text, problem))?)
        }
    };
    Ok((kind, who, wish))
}

fn wish(letters: &str) -> Option<Wish> {
    let mut wish = Wish {
        permissions: 0,
        conditional: false,
    };
    if let [digit @ b'0'..=b'7'] = letters.as_bytes() {
        wish.permissions = digit - b'0';
        return Some(wish);
    }
    for letter in letters.chars() {
        match letter {
            'r' => wish.permissions |= 4,
            'w' => wish.permissions |= 2,
            'x' => wish.permissions |= 1,
            'X' => wish.conditional = true,
            '-' => {}
            _ => return None,
        }
    }
    Some(wish)
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
            Step::Set(_, who, wish) => {
                self.mask_given |= who == Who::Mask;
                let anybody = self.list.entries().iter().any(|entry| entry.1 & 1 != 0);
                let execute = wish.conditional && (directory || anybody);
                self.list.set(who, wish.permissions | u8::from(execute));
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

fn write(found: &VisitedFile, attribute: &CStr, list: &Acl) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Written> {
        entry(text, &Accounts::default())
    }

    #[test]
    fn written_entries() {
        let wish = |permissions, conditional| {
            Some(Wish {
                permissions,
                conditional,
            })
        };
        for (text, expected) in [
            ("u:5:rw", (Kind::Access, Who::User(5), wish(6, false))),
            ("user::7", (Kind::Access, Who::Owner, wish(7, false))),
            ("d:g:9:r-X", (Kind::Default, Who::Group(9), wish(4, true))),
            (
                "default:mask::---",
                (Kind::Default, Who::Mask, wish(0, false)),
            ),
            ("m:rx", (Kind::Access, Who::Mask, wish(5, false))),
            ("o::w", (Kind::Access, Who::Other, wish(2, false))),
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
