// SPDX-License-Identifier: GPL-2.0-only
//! Details of ext2, ext3 and ext4: sizes that fit, and images that are the same each time.
//!
//! A reproducible image is filled by `mke2fs -d`, which sorts names and has no other source of
//! chance. Afterwards debugfs sets the times that mke2fs takes from the host, and the owners and
//! labels that the user changes. Its script names inodes by number, never by name.

use outboard::{HostTree, Tree};
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::tool::{Call, Tool};
use outboard_transfer::cp::Changes;
use outboard_transfer::operand::Named;
use outboard_transfer::walk::{Step, Walk};
use outboard_volume::access::uses_image;
use outboard_volume::address::{ImageName, Place};
use outboard_volume::scratch::Scratch;
use outboard_volume::session::{apart, Session};
use outboard_volume::temporary::PrivateDirectory;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// The environment's variable by which these tools believe another time.
const TIME: &str = "E2FSPROGS_FAKE_TIME";
const DEBUG: Tool = Tool::new("debugfs", "e2fsprogs");
/// The number of the root's inode.
const ROOT: u64 = 2;

/// Lets a tool believe that it is this time. To these tools, 0 is none.
pub fn at_time(call: Call, seconds: i64) -> Call {
    call.variable(TIME, seconds.max(1).to_string())
}

/// Whether mke2fs ended because its file system was too small for the tree.
pub fn was_full(output: &[u8]) -> bool {
    let text = String::from_utf8_lossy(output);
    [
        "Could not allocate",
        "No space left",
        "No free space",
        "inode table full",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// Options of mke2fs with which a tree of so many files fits: blocks that hold the largest
/// attributes, and as many inodes as it needs. (A larger file system that is shrunk afterwards
/// would not do: resize2fs gives directories the time of now.)
pub fn words_to_fit(files: u64) -> Vec<String> {
    let blocks = ["-b", "4096"].map(str::to_owned);
    [blocks.to_vec(), words_for_inodes(files)].concat()
}

/// Options of mke2fs that make enough inodes.
pub fn words_for_inodes(files: u64) -> Vec<String> {
    let inodes = files + files / 16 + 64;
    vec!["-N".to_owned(), inodes.to_string()]
}

/// An inode of the image.
#[derive(Serialize, Deserialize)]
struct Inode {
    number: u64,
    mode: u32,
    user: u32,
    group: u32,
    modified: i64,
    label: Option<CString>,
}

impl Inode {
    fn new(stat: &libc::stat, label: Option<CString>) -> Self {
        Self {
            number: stat.st_ino,
            mode: stat.st_mode,
            user: stat.st_uid,
            group: stat.st_gid,
            modified: stat.st_mtime,
            label,
        }
    }
}

/// Settles everything that depends on the host or on the time of now.
pub fn settle(
    session: &mut Session,
    scratch: &Scratch,
    source: &Path,
    changes: &Changes,
    time: i64,
) -> Result<()> {
    let failed = |error: io::Error| Error::failed("cannot read the new file system", &error);
    let mut inodes = inodes(session, scratch, changes)?;
    // mke2fs does not give the root what the source has.
    let top = outboard::Fd::stat(&HostTree.open_fd(source, libc::O_PATH, 0).map_err(failed)?)
        .map_err(failed)?;
    if let Some(root) = inodes.first_mut() {
        let (number, label) = (root.number, root.label.take());
        *root = Inode::new(&changes.of_metadata(&top), label);
        root.number = number;
    }
    let directory = PrivateDirectory::new("outboard-").map_err(failed)?;
    let mut script = Script::new(&directory, time);
    for inode in &inodes {
        script.add(inode, changes.change_owners()).map_err(failed)?;
    }
    let path = directory.path().join("script");
    std::fs::write(&path, script.text).map_err(failed)?;
    let what = "cannot settle the new file system";
    let call = DEBUG.call(session.options().confinement())?;
    let call = call.writes(scratch.directory()).reads(directory.path());
    let ended = at_time(call, time)
        .arguments(["-w", "-f"])
        .argument(&path)
        .argument(scratch.path())
        .run()?;
    // debugfs ends with 0 whatever happens.
    match (ended.code(), ended.remarks().first()) {
        (Some(0), None) => Ok(()),
        (Some(0), Some(remark)) => Err(Error::Failed(format!("{what}: {remark}"))),
        _ => Err(ended.failure(what)),
    }
}

/// All inodes of the image that have names, the root first.
fn inodes(session: &mut Session, scratch: &Scratch, changes: &Changes) -> Result<Vec<Inode>> {
    let name = ImageName::new(scratch.path(), None);
    apart(session, &uses_image(&name, false), |session| {
        let interrupt = session.catch_interrupts();
        let index = session.mount(&name, false)?;
        walk(session.mounted(index), changes, interrupt)
    })
}

fn walk(tree: &Tree, changes: &Changes, interrupt: Interrupt) -> Result<Vec<Inode>> {
    let failed = |error: io::Error| Error::failed("cannot read the new file system", &error);
    let root = Place::Host(PathBuf::from("/"));
    let top = Named::find(tree, &root, false).map_err(failed)?;
    let mut walk = Walk::new(top, b"/".to_vec(), interrupt.clone());
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    while let Some(step) = walk.next() {
        let entry = match step {
            Step::Found(entry) => entry,
            Step::Opened(_) | Step::Left(_) => continue,
            Step::Failed(entry, error) => {
                return Err(Error::of_file("cannot list", entry.path.to_vec(), &error));
            }
        };
        let stat = entry.stat().map_err(failed)?;
        if seen.insert(stat.st_ino) {
            let labels = changes.labels.as_ref();
            let label = labels.and_then(|labels| labels.find(entry.path, stat.st_mode).cloned());
            found.push(Inode::new(&changes.of_metadata(&stat), label));
        }
    }
    interrupt.check().map(|()| found)
}

/// Commands for debugfs.
struct Script<'a> {
    directory: &'a PrivateDirectory,
    time: i64,
    text: String,
    /// The file that holds a label.
    files: HashMap<CString, PathBuf>,
}

impl<'a> Script<'a> {
    fn new(directory: &'a PrivateDirectory, time: i64) -> Self {
        Self {
            directory,
            time,
            text: String::new(),
            files: HashMap::new(),
        }
    }

    fn set(&mut self, inode: u64, field: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "set_inode_field <{inode}> {field} {value}");
    }

    fn add(&mut self, inode: &Inode, owners: bool) -> io::Result<()> {
        let number = inode.number;
        let time = self.time;
        if let Some(label) = &inode.label {
            let file = self.file_of(label)?;
            let _ = writeln!(
                self.text,
                "ea_set -f {} <{number}> security.selinux",
                file.display()
            );
        }
        if number == ROOT {
            self.set(number, "mode", format_args!("0{:o}", inode.mode));
        }
        if owners || number == ROOT {
            self.set(number, "uid", inode.user);
            self.set(number, "gid", inode.group);
        }
        self.set(number, "atime", format_args!("@{}", inode.modified));
        self.set(number, "mtime", format_args!("@{}", inode.modified));
        self.set(number, "ctime", format_args!("@{time}"));
        Ok(())
    }

    /// A file that holds the label, which is a string with its NUL.
    fn file_of(&mut self, label: &CString) -> io::Result<PathBuf> {
        if let Some(file) = self.files.get(label) {
            return Ok(file.clone());
        }
        let file = self.directory.path().join(self.files.len().to_string());
        std::fs::write(&file, label.as_bytes_with_nul())?;
        self.files.insert(label.clone(), file.clone());
        Ok(file)
    }
}
