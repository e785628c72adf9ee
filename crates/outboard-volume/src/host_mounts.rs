// SPDX-License-Identifier: GPL-2.0-only
//! Mounts of the host. Root mounts and unmounts itself, other users by fusermount3(1).

pub mod private;

use crate::servers::KIND;
use outboard::{receive_fd, System};
use outboard_error::{reason, Error, ErrorKind, Result};
use outboard_sandbox::tool;
use outboard_worker::{Launch, Started};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
/// Kilobytes of the host's readahead; its default is half as much.
const READ_AHEAD: &str = "256";
/// How long, and at which intervals, a busy mount is tried again.
const PATIENCE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(20);

/// Options of a FUSE mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub read_only: bool,
    pub allow_other: bool,
    /// The host's kernel checks permissions, by the owners and modes of the image.
    pub default_permissions: bool,
    /// Set-user-ID bits and devices of the image count. Only root's mounts can have them.
    pub suid: bool,
    pub dev: bool,
    pub noexec: bool,
}

fn is_root() -> bool {
    System::Host.effective_user() == 0
}

/// A mount of ours.
pub struct HostMount {
    /// The device number of the file system: "0:35".
    device: String,
    pub directory: PathBuf,
    pub source: OsString,
    /// Its flags as text: "rw,nosuid".
    words: String,
}

impl HostMount {
    /// The flags for mount(2).
    pub fn flags(&self) -> libc::c_ulong {
        const FLAGS: [(&str, libc::c_ulong); 4] = [
            ("ro", libc::MS_RDONLY),
            ("nosuid", libc::MS_NOSUID),
            ("nodev", libc::MS_NODEV),
            ("noexec", libc::MS_NOEXEC),
        ];
        let words = self.words.split(',');
        words
            .filter_map(|word| FLAGS.iter().find(|(name, _)| *name == word))
            .fold(0, |flags, (_, flag)| flags | flag)
    }

    /// Whether the host may write to it.
    pub fn is_writable(&self) -> bool {
        self.flags() & libc::MS_RDONLY == 0
    }
}

/// Options that the kernel takes as text.
fn texts(options: Flags) -> Vec<&'static str> {
    let mut texts = Vec::new();
    if options.default_permissions {
        texts.push("default_permissions");
    }
    if options.allow_other {
        texts.push("allow_other");
    }
    texts
}

fn mount_directly(directory: &Path, source: &OsStr, options: Flags) -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open(DEVICE)?;
    let (user, group) = (
        System::Host.effective_user(),
        System::Host.effective_group(),
    );
    let mut data = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group}",
        device.as_raw_fd()
    );
    for text in texts(options) {
        data = format!("{data},{text}");
    }
    let flags = [
        (options.read_only, libc::MS_RDONLY),
        (!options.suid, libc::MS_NOSUID),
        (!options.dev, libc::MS_NODEV),
        (options.noexec, libc::MS_NOEXEC),
    ];
    System::Host.mount(
        &CString::new(source.as_bytes())?,
        &CString::new(directory.as_os_str().as_bytes())?,
        &CString::new(KIND)?,
        flags
            .iter()
            .filter(|(wanted, _)| *wanted)
            .fold(0, |flags, (_, flag)| flags | flag),
        &CString::new(data)?,
    )?;
    Ok(device.into())
}

/// Escapes a name in a list of options: commas and backslashes get a backslash.
fn quoted(name: &OsStr) -> OsString {
    let mut text = Vec::new();
    for &byte in name.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    OsString::from_vec(text)
}

fn helper_missing(error: &io::Error) -> Error {
    Error::known(
        ErrorKind::Unsupported,
        format!(
            "cannot run {HELPER}: {} (it comes with the package fuse3)",
            reason(error)
        ),
    )
}

/// The host's own helper, never one from a relative entry of PATH.
fn helper() -> Result<Launch> {
    tool::unconfined(HELPER).map_err(|error| helper_missing(&error))
}

/// The helper's error message, without its name.
fn complaint(errors: &[u8]) -> String {
    let said = String::from_utf8_lossy(errors);
    let line = said.trim();
    let line = line.strip_prefix("fusermount3: ").unwrap_or(line);
    if line.is_empty() {
        format!("{HELPER} failed")
    } else {
        line.to_owned()
    }
}

/// Runs the helper to mount. Returns the FUSE descriptor.
fn call_helper(on: &Path, list: &OsStr) -> Result<OwnedFd> {
    let failed = |error: &io::Error| Error::failed("cannot talk to fusermount3", error);
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed(&error))?;
    let helper = helper()?
        .argument("-o")
        .argument(list)
        .argument("--")
        .argument(on)
        // The helper sends the FUSE descriptor over this socket, its standard input.
        .variable("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stderr(Stdio::piped())
        .start()
        .map_err(|error| helper_missing(&error))?;
    let device = receive_fd(&ours);
    let ended = helper.wait_with_errors();
    let (_, errors) = ended.map_err(|error| failed(&error))?;
    device.map_err(|_| {
        Error::Failed(format!(
            "cannot mount on {}: {}",
            on.display(),
            complaint(&errors)
        ))
    })
}

fn mount_by_helper(directory: &Path, source: &OsStr, options: Flags) -> Result<OwnedFd> {
    let mut list = OsString::from("subtype=outboard,fsname=");
    list.push(quoted(source));
    for text in texts(options) {
        list.push(format!(",{text}"));
    }
    for (wanted, word) in [(options.read_only, "ro"), (options.noexec, "noexec")] {
        if wanted {
            list.push(format!(",{word}"));
        }
    }
    call_helper(directory, &list)
}

/// Mounts on a directory, whose path must have no symbolic links. Returns the FUSE descriptor.
pub fn mount(directory: &Path, source: &OsStr, options: Flags) -> Result<OwnedFd> {
    if !is_root() {
        return mount_by_helper(directory, source, options);
    }
    mount_directly(directory, source, options)
        .map_err(|error| cannot_mount(&format!("cannot mount on {}", directory.display()), &error))
}

fn cannot_mount(what: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => {
            Error::known(
                ErrorKind::of(error),
                format!(
                    "{what}: {} (is there {DEVICE}, and may this container use it?)",
                    reason(error)
                ),
            )
        }
        _ => Error::failed(what, error),
    }
}

/// The inode number of the initial user namespace, the same on every Linux (PROC_USER_INIT_INO).
pub fn is_in_first_user_name_space() -> bool {
    std::fs::read_link("/proc/self/ns/user")
        .is_ok_and(|name| name.as_os_str() == "user:[4026531837]")
}

/// Why a file system cannot be unmounted.
enum UnmountFailure {
    /// It is in use.
    Busy(Error),
    Other(Error),
}

impl UnmountFailure {
    fn new(directory: &Path, busy: bool, why: &str) -> Self {
        let message = format!("cannot unmount {}: {why}", directory.display());
        if busy {
            UnmountFailure::Busy(Error::known(
                ErrorKind::InUse,
                format!("{message} (see fuser -vm for who uses it)"),
            ))
        } else {
            UnmountFailure::Other(Error::Failed(message))
        }
    }

    fn error(self) -> Error {
        match self {
            UnmountFailure::Busy(error) | UnmountFailure::Other(error) => error,
        }
    }
}

type Unmounted = std::result::Result<(), UnmountFailure>;

fn unmount_directly(directory: &Path, lazy: bool) -> Unmounted {
    let flags = if lazy { libc::MNT_DETACH } else { 0 };
    let path = CString::new(directory.as_os_str().as_bytes())
        .map_err(|_| UnmountFailure::new(directory, false, "the name has a NUL"))?;
    System::Host.unmount(&path, flags).map_err(|error| {
        let busy = error.raw_os_error() == Some(libc::EBUSY);
        UnmountFailure::new(directory, busy, &reason(&error))
    })
}

fn unmount_by_helper(directory: &Path, lazy: bool) -> Unmounted {
    let helper = helper().map_err(UnmountFailure::Other)?;
    let ended = helper
        .argument("-u")
        .arguments(lazy.then_some("-z"))
        .argument("--")
        .argument(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .start()
        .and_then(Started::wait_with_errors);
    let (status, errors) = ended.map_err(|error| UnmountFailure::Other(helper_missing(&error)))?;
    if status.success() {
        Ok(())
    } else {
        let why = complaint(&errors);
        let busy = why.contains("Device or resource busy");
        Err(UnmountFailure::new(directory, busy, &why))
    }
}

/// Unmounts. `lazy`: also a busy mount, which then ends with its last use.
///
/// A process that makes a mount namespace has a copy of each mount until it leaves it. The mount is
/// busy as long as a process enters or leaves the copy, so a busy mount is tried again for a while.
pub fn unmount(directory: &Path, lazy: bool) -> Result<()> {
    let start = Instant::now();
    loop {
        let ended = if is_root() {
            unmount_directly(directory, lazy)
        } else {
            unmount_by_helper(directory, lazy)
        };
        match ended {
            Ok(()) => return Ok(()),
            Err(UnmountFailure::Busy(_)) if start.elapsed() < PATIENCE => sleep(INTERVAL),
            Err(failure) => return Err(failure.error()),
        }
    }
}

/// Decodes a field of mountinfo: a space, for example, is written \040.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (byte, code) {
            (b'\\', Some(code)) => {
                text.push(code);
                rest = &tail[3..];
            }
            _ => {
                text.push(byte);
                rest = tail;
            }
        }
    }
    text
}

/// Our mount in a line of mountinfo: `... DIRECTORY OPTIONS ... - TYPE SOURCE OPTIONS`.
fn parse(line: &[u8]) -> Option<HostMount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    if *fields.get(dash + 1)? != KIND.as_bytes() {
        return None;
    }
    Some(HostMount {
        device: String::from_utf8_lossy(fields.get(2)?).into_owned(),
        directory: OsString::from_vec(unescaped(fields.get(4)?)).into(),
        source: OsString::from_vec(unescaped(fields.get(dash + 2)?)),
        words: String::from_utf8_lossy(fields.get(5)?).into_owned(),
    })
}

/// Our mounts that a process sees, by its directory in /proc.
pub fn mounts(process: &Path) -> io::Result<Vec<HostMount>> {
    let text = std::fs::read(process.join("mountinfo"))?;
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(parse).collect())
}

/// Our mount on a directory; the topmost of several.
pub fn find(directory: &Path) -> io::Result<Option<HostMount>> {
    let mounts = mounts(Path::new("/proc/self"))?;
    Ok(mounts
        .into_iter()
        .rfind(|mounted| mounted.directory == directory))
}

/// Raises the host's readahead: larger and fewer requests. Only root can, and mounts work without
/// it.
pub fn read_further_ahead(directory: &Path) {
    if let Ok(Some(mounted)) = find(directory) {
        let file = format!("/sys/class/bdi/{}/read_ahead_kb", mounted.device);
        let _ = std::fs::write(file, READ_AHEAD);
    }
}

/// The path of a directory without symbolic links. Its file system may be dead, or another user's.
pub fn real(directory: &Path) -> io::Result<PathBuf> {
    let Some(name) = directory.file_name() else {
        return directory.canonicalize();
    };
    match directory.canonicalize() {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::EACCES)) => {
            let parent = match directory.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            Ok(parent.canonicalize()?.join(name))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo() {
        let line = b"40 27 0:35 / /mnt/a\\040b rw,nosuid shared:3 - fuse.outboard \
                     /x/disk\\054.img rw,user_id=0";
        let found = parse(line).unwrap();
        assert_eq!(found.device, "0:35");
        assert_eq!(found.directory, Path::new("/mnt/a b"));
        assert_eq!(found.source, "/x/disk,.img");
        assert_eq!(found.flags(), libc::MS_NOSUID);
        assert!(found.is_writable());
        for other in [
            b"40 27 0:35 / /mnt rw - ext4 /dev/sda rw".as_slice(),
            b"",
            b"- fuse.outboard",
            b"1 2 3 4 5 - fuse.outboard",
        ] {
            assert!(parse(other).is_none());
        }
    }

    #[test]
    fn names_in_lists() {
        assert_eq!(quoted(OsStr::new("a,b\\c")), "a\\,b\\\\c");
        assert_eq!(unescaped(br"a\04"), br"a\04");
    }
}
