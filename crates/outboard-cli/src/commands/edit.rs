// SPDX-License-Identifier: GPL-2.0-only
//! `outboard edit`: a file of an image in the user's editor.
//!
//! The image is not held open while the editor runs: a copy in a private directory of the host is
//! edited. The kernel that reads and writes the image runs in processes of their own ([`apart`]),
//! the editor in none of them. Afterwards a new file with the text takes the old one's name, if
//! nobody else changed that meanwhile. An editor that fails leaves what it has saved. Until the new
//! file is on stable storage the edited copy is kept, and told of if all does not go well.

use super::{image_place, runs_programs};
use clap::Args;
use outboard::{signals, Fd, Tree};
use outboard_error::{reason, warn, Error, ErrorKind, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::attributes::{self, AttributeTarget, WantedAttributes, Xattrs};
use outboard_transfer::operand::with_new_name;
use outboard_transfer::report::Report;
use outboard_volume::access::uses_image;
use outboard_volume::address::Place;
use outboard_volume::session::{apart, Session};
use outboard_volume::temporary::PrivateDirectory;
use outboard_worker::Launch;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Most bytes of a file that is edited.
const LARGEST: u64 = 1 << 30;

/// Edit a file in an image with $VISUAL or $EDITOR
///
/// A new file with the same owner, mode, attributes and access control list replaces the old one if
/// the text changed. If anything fails, outboard keeps the edited text and prints its path.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard edit disk.img@1:/etc/fstab\
                        \n  EDITOR='sed -i s/old/new/' outboard edit disk.img:/etc/hostname")]
pub struct EditArgs {
    /// The file: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(value_name = "IMAGE:/PATH")]
    pub place: OsString,
}

impl EditArgs {
    pub fn host_access(&self) -> HostAccess {
        runs_programs(&self.place)
    }
}

pub fn run(options: &EditArgs, session: &mut Session) -> Result<()> {
    let place = image_place(&options.place)?;
    let Place::Image(name, _) = &place else {
        return Err(Error::Usage("edit needs a place in an image".to_owned()));
    };
    let access = uses_image(name, true);
    let copy = Copy::make(&place)?;
    // Whether it can be written is found out before somebody types.
    let original = apart(session, &access, |session| {
        let (original, text) = Original::read(session, &place)?;
        copy.fill(&text)?;
        Ok(original)
    })?;
    let before = copy.text()?;
    let text = match copy.edit(session) {
        Ok(text) => text,
        Err(error) => return Err(copy.keep_what_is_left(&before, error)),
    };
    if before == text {
        return Ok(());
    }
    let written = apart(session, &access, |session| {
        write_back(session, &place, &original, &before, &text)
    });
    match written {
        Ok(()) => Ok(()),
        Err(error) => Err(copy.keep(error)),
    }
}

/// The file before it is edited.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Original {
    /// Without symbolic links.
    path: PathBuf,
    /// `None`: there is no such file yet.
    attributes: Option<Attributes>,
}

/// The attributes by which two states of a file differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Attributes {
    inode: u64,
    mode: u32,
    user: u32,
    group: u32,
    links: u64,
}

/// The directory and name of the file; a new file is in a directory that exists.
fn resolve(tree: &Tree, path: &Path) -> io::Result<(PathBuf, bool)> {
    match tree.canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if tree.symlink_metadata(path).is_ok() {
                return Err(io::Error::other("it is a symbolic link that leads nowhere"));
            }
            tree.open_parent(path)?;
            Ok((path.to_path_buf(), false))
        }
        other => Ok((other?, true)),
    }
}

impl Original {
    fn read(session: &mut Session, place: &Place) -> Result<(Self, Vec<u8>)> {
        let id = session.open(place, true)?;
        Self::of(session.tree(id), place.path())
            .map_err(|error| Error::of_file("cannot edit", place.operand(), &error))
    }

    /// The file and its text.
    fn of(tree: &Tree, path: &Path) -> io::Result<(Self, Vec<u8>)> {
        let (path, exists) = resolve(tree, path)?;
        let mut text = Vec::new();
        let mut attributes = None;
        if exists {
            let stat = tree.open_path(&path, false)?.stat()?;
            match stat.st_mode & libc::S_IFMT {
                libc::S_IFREG if stat.st_size as u64 <= LARGEST => {}
                libc::S_IFREG => return Err(io::Error::from_raw_os_error(libc::EFBIG)),
                libc::S_IFDIR => return Err(io::Error::from_raw_os_error(libc::EISDIR)),
                _ => return Err(io::Error::other("it is not a regular file")),
            }
            tree.open(&path)?.take(LARGEST).read_to_end(&mut text)?;
            attributes = Some(Attributes {
                inode: stat.st_ino,
                mode: stat.st_mode,
                user: stat.st_uid,
                group: stat.st_gid,
                links: stat.st_nlink,
            });
        }
        Ok((Self { path, attributes }, text))
    }
}

/// The copy that is edited.
struct Copy {
    directory: PrivateDirectory,
    file: PathBuf,
    /// Open, for who may not open files.
    opened: File,
}

/// The name of the copy: as in the image, because editors tell from it what they edit.
fn file_name(place: &Place) -> OsString {
    let name = place.path().file_name().unwrap_or(OsStr::new("file"));
    let plain = |byte: &u8| if byte.is_ascii_control() { b'_' } else { *byte };
    let bytes: Vec<u8> = name.as_bytes().iter().map(plain).collect();
    OsStr::from_bytes(&bytes).to_owned()
}

impl Copy {
    /// An empty one.
    fn make(place: &Place) -> Result<Self> {
        let failed = |error| Error::failed("cannot make a copy to edit", &error);
        let directory = PrivateDirectory::new("outboard-edit-").map_err(failed)?;
        let file = directory.path().join(file_name(place));
        let mut options = File::options();
        let options = options.write(true).create_new(true).mode(0o600);
        let opened = options.open(&file).map_err(failed)?;
        Ok(Self {
            directory,
            file,
            opened,
        })
    }

    fn fill(&self, text: &[u8]) -> Result<()> {
        (&self.opened)
            .write_all(text)
            .map_err(|error| Error::failed("cannot make a copy to edit", &error))
    }

    /// Runs the editor; returns the text that is then there.
    fn edit(&self, session: &mut Session) -> Result<Vec<u8>> {
        let wish = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let editor = wish("VISUAL").or_else(|| wish("EDITOR"));
        let editor = editor.unwrap_or_else(|| "vi".into());
        let mut script = editor.clone();
        script.push(" \"$@\"");
        let interrupt = session.catch_interrupts();
        let spared = interrupt.spare();
        let started = Launch::new("sh")
            .argument("-c")
            .arguments([&script, &editor])
            .argument(&self.file)
            .start();
        // A signal that ends this program ends the editor first, which may have text to save.
        let ended = started.and_then(|started| {
            let editor = started.process;
            editor.wait_or_stop(libc::SIGTERM, signals::ending)
        });
        drop(spared);
        interrupt.forget_before("nothing was changed")?;
        let shown = editor.to_string_lossy();
        let status = ended.map_err(|error| Error::failed(format!("cannot run {shown}"), &error))?;
        if !status.success() {
            let hint = match status.code() {
                Some(127) => " (is it installed? Set VISUAL or EDITOR)",
                _ => "",
            };
            return Err(Error::Failed(format!(
                "nothing was changed: {shown} ended with {status}{hint}"
            )));
        }
        self.text()
    }

    fn text(&self) -> Result<Vec<u8>> {
        fs::read(&self.file).map_err(|error| Error::failed("cannot read the edited text", &error))
    }

    /// The error with the place of the text, which stays.
    fn keep(self, error: Error) -> Error {
        let _ = self.directory.keep();
        error.with_note(&format!("the edited text is in {}", self.file.display()))
    }

    /// The error of an editor that failed; its text stays, and what else it left, such as the text
    /// of an editor that was killed.
    fn keep_what_is_left(self, before: &[u8], error: Error) -> Error {
        let left = self.left_files();
        let is_changed = self.text().map_or(true, |text| text != before);
        if left.is_empty() && !is_changed {
            return error;
        }
        let (directory, file) = (self.directory.keep(), self.file);
        let mut notes = Vec::new();
        if is_changed {
            notes.push(format!("the edited text is in {}", file.display()));
        }
        if !left.is_empty() {
            let (left, directory) = (left.join(", "), directory.display());
            notes.push(format!(
                "the editor left {left} in {directory} (remove it when done)"
            ));
        }
        error.with_note(&notes.join("\n"))
    }

    /// Names of files that the editor made beside the copy.
    fn left_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path());
        let names = entries.into_iter().flatten().flatten();
        let mut left: Vec<String> = names
            .map(|entry| entry.file_name())
            .filter(|name| Some(name.as_os_str()) != self.file.file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        left.sort();
        left
    }
}

fn write_back(
    session: &mut Session,
    place: &Place,
    original: &Original,
    before: &[u8],
    text: &[u8],
) -> Result<()> {
    let id = session.open(place, true)?;
    let umask = session.umask();
    let tree = session.tree(id);
    let failed = |error: io::Error| Error::of_file("cannot write", place.operand(), &error);
    let (now, text_now) = Original::of(tree, place.path()).map_err(failed)?;
    if now != *original || text_now != before {
        return Err(Error::known(
            ErrorKind::InUse,
            format!(
                "{} was changed by somebody else meanwhile: it was left as it is now",
                place.shown()
            ),
        ));
    }
    if let Some(others) = now
        .attributes
        .map(|attributes| attributes.links)
        .filter(|&links| links > 1)
    {
        warn(format!(
            "note: {} had {others} names; the others keep the old text",
            place.shown()
        ));
    }
    let (directory, name) = tree.open_parent(&now.path).map_err(failed)?;
    replace(&directory, &name, &now, text, umask).map_err(failed)
}

/// Makes a new file and gives it the name. If that fails, nothing has changed.
fn replace(directory: &Fd, name: &CStr, now: &Original, text: &[u8], umask: u32) -> io::Result<()> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let (new_name, new) = with_new_name(directory, |name| directory.open_at(name, flags, 0o600))?;
    let made = (|| {
        new.write_all(text)?;
        match &now.attributes {
            Some(attributes) => {
                let old = directory.open_at(name, libc::O_RDONLY, 0)?;
                keep_attributes(&old, &new, attributes)?
            }
            None => new.set_mode(0o666 & !umask)?,
        }
        new.sync()?;
        let flags = if now.attributes.is_some() {
            0
        } else {
            libc::RENAME_NOREPLACE
        };
        directory.rename_at(&new_name, directory, name, flags)
    })();
    if let Err(error) = made {
        if let Err(second) = directory.unlink_at(&new_name, 0) {
            let shown = new_name.to_string_lossy();
            warn(format!("{shown} could not be removed: {}", reason(&second)));
        }
        return Err(error);
    }
    directory
        .open_at(c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?
        .sync()
}

/// Gives the new file the owner, mode and extended attributes of the old one. An error, if one of
/// them is lost: then the old file stays.
fn keep_attributes(old: &Fd, new: &Fd, attributes: &Attributes) -> io::Result<()> {
    const OMITTED: libc::timespec = libc::timespec {
        tv_sec: 0,
        tv_nsec: libc::UTIME_OMIT,
    };
    let wanted = WantedAttributes {
        user: attributes.user,
        group: attributes.group,
        mode: attributes.mode & 0o7777,
        times: [OMITTED, OMITTED],
    };
    let names = match old.xattrs() {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Vec::new(),
        other => other?,
    };
    let (report, target) = (Report::default(), AttributeTarget::Open(new));
    let xattrs = OldXattrs { old, names };
    attributes::keep(
        &report,
        &target,
        &wanted,
        &xattrs,
        &new.stat()?,
        &String::new,
    );
    match report.first_loss() {
        None => Ok(()),
        Some(what) => Err(io::Error::other(format!("its {what} cannot be kept"))),
    }
}

/// The extended attributes of the old file.
struct OldXattrs<'a> {
    old: &'a Fd,
    names: Vec<CString>,
}

impl Xattrs for OldXattrs<'_> {
    fn set(&self, target: &AttributeTarget, chosen: &dyn Fn(&CStr) -> bool, lost: &dyn Fn(&CStr)) {
        for name in self.names.iter().filter(|name| chosen(name)) {
            let value = self.old.xattr(name);
            if value
                .and_then(|value| target.set_xattr(name, &value))
                .is_err()
            {
                lost(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_copies() {
        let name = |path: &str| {
            let place = Place::Host(path.into());
            file_name(&place).into_string().unwrap()
        };
        assert_eq!(name("/etc/fstab"), "fstab");
        assert_eq!(name("/a\x1bb"), "a_b");
        assert_eq!(name("/"), "file");
    }
}
