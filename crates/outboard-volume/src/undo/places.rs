// SPDX-License-Identifier: GPL-2.0-only
//! Finds the undo log of an image.
//!
//! A half-changed image has a mark, the extended attribute [`MARK`], which names its log. So the
//! log is found by another name, another hard link and another mount, too. Block devices and file
//! systems without such attributes have no marks. There the log is found by the image's name or by
//! the device's number.
//!
//! A log could put any bytes into the image. So a log that another user may have created is not
//! used.

use super::format::{wrong, Head, LogState, Reader};
use crate::uuid::hash;
use outboard::{Fd, HostTree, System};
use outboard_error::{reason, warn, ErrorKind, Failure, Hint};
use std::ffi::{CStr, OsStr};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub const MARK: &CStr = c"user.outboard.undo";
const SUFFIX: &str = ".outboard-undo";
/// The directory of logs that cannot lie beside their image. It survives a restart of the host.
const ELSEWHERE: &str = "/var/tmp";

/// The mark of an image.
#[derive(Debug, PartialEq, Eq)]
pub enum UndoMark {
    Of {
        id: u64,
        log: PathBuf,
    },
    Absent,
    /// The image cannot have a mark.
    Unknown,
}

pub fn mark_value(id: u64, log: &Path) -> Vec<u8> {
    [format!("{id:016x} ").as_bytes(), log.as_os_str().as_bytes()].concat()
}

impl UndoMark {
    pub fn of(image: &Fd) -> Self {
        match image.xattr(MARK) {
            Ok(value) => Self::parse(&value),
            Err(error) if error.raw_os_error() == Some(libc::ENODATA) => Self::Absent,
            Err(_) => Self::Unknown,
        }
    }

    fn parse(value: &[u8]) -> Self {
        let parse = || {
            let id = std::str::from_utf8(value.get(..16)?).ok()?;
            let log = value[16..].strip_prefix(b" /")?;
            let log = Path::new("/").join(OsStr::from_bytes(log));
            let is_name = log.as_os_str().as_bytes().ends_with(SUFFIX.as_bytes());
            let id = u64::from_str_radix(id, 16).ok()?;
            is_name.then_some(Self::Of { id, log })
        };
        parse().unwrap_or(Self::Unknown)
    }
}

/// An image, as far as its log is concerned.
pub struct Subject {
    path: PathBuf,
    found: Metadata,
    mark: UndoMark,
}

pub struct UndoLogFile {
    pub path: PathBuf,
    pub reader: Reader,
    /// The mark belongs to this image, not to a file that this image is a copy of.
    pub is_own: bool,
    /// How to use the image without undoing the change.
    way_out: String,
}

impl UndoLogFile {
    /// The error that the change cannot be undone.
    pub fn failure(&self, error: &io::Error) -> io::Error {
        cannot_use(&self.path, &reason(error), &self.way_out)
    }
}

fn cannot_use(log: &Path, why: &str, way_out: &str) -> io::Error {
    let check = Hint::RunFsck {
        volume: None,
        repair: false,
    };
    let failure = Failure::hinted(ErrorKind::Other, check, |fsck| {
        format!(
            "{why} (the undo log is {}; to use the image as it is, {way_out}; then check it with \
             {fsck})",
            log.display()
        )
    });
    failure.into()
}

pub enum FoundLog {
    Nothing,
    /// The image may be half changed.
    Pending(UndoLogFile),
    /// The log is obsolete: the change did not begin, or is done.
    Stale(UndoLogFile),
}

/// Why a log is not used.
fn objection(log: &Metadata, owner: u32) -> Option<String> {
    let user = System::Host.effective_user();
    if log.file_type().is_symlink() {
        Some("it is a symbolic link".to_owned())
    } else if !log.is_file() {
        Some("it is no regular file".to_owned())
    } else if ![user, 0, owner].contains(&log.uid()) {
        Some(format!("it belongs to another user, {}", log.uid()))
    } else if log.mode() & 0o022 != 0 {
        Some("other users may write to it".to_owned())
    } else if log.nlink() != 1 {
        Some("it has other names".to_owned())
    } else {
        None
    }
}

/// A file that may be a log.
enum Candidate {
    Absent,
    Refused(String),
    Open(File),
}

/// Errors are those of a trusted log.
fn open(place: &Path, owner: u32) -> io::Result<Candidate> {
    let absent = [libc::ENOENT, libc::ENOTDIR, libc::ENAMETOOLONG];
    let found = match std::fs::symlink_metadata(place) {
        Err(error) if absent.map(Some).contains(&error.raw_os_error()) => {
            return Ok(Candidate::Absent)
        }
        other => other?,
    };
    if let Some(why) = objection(&found, owner) {
        return Ok(Candidate::Refused(why));
    }
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Candidate::Absent),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let owner = found.uid();
            return Err(wrong(format!(
                "only user {owner} may read it, so run the command as that user"
            )));
        }
        other => other?,
    };
    // The name may mean another file by now.
    Ok(match objection(&file.metadata()?, owner) {
        Some(why) => Candidate::Refused(why),
        None => Candidate::Open(file),
    })
}

/// The beginning of the names of an image's logs in [`ELSEWHERE`]: the image's number. Logs of
/// version 1 have nothing else.
fn prefix(found: &Metadata) -> String {
    let (major, minor) = if found.file_type().is_block_device() {
        (0, found.rdev())
    } else {
        (found.dev(), found.ino())
    };
    format!(".outboard-{major:x}-{minor:x}")
}

fn is_elsewhere(log: &Path) -> bool {
    let name = log.file_name().map_or(&b""[..], OsStr::as_bytes);
    log.parent() == Some(Path::new(ELSEWHERE)) && name.starts_with(b".outboard-")
}

/// The next part of these names. Some file systems give a file a new number at each mount.
fn path_part(image: &Path) -> String {
    format!("-{:032x}-", hash(image.as_os_str().as_bytes()))
}

/// Reports a log that is not used, once.
fn warn_of(place: &Path, why: &str) {
    static REPORTED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !reported.iter().any(|other| other == place) {
        reported.push(place.to_owned());
        let place = place.display();
        warn(format!(
            "warning: {place} is not used as an undo log: {why} (remove it if nobody needs it)"
        ));
    }
}

impl Subject {
    pub fn of(image: &Path) -> io::Result<Self> {
        let path = image.canonicalize()?;
        let found = std::fs::metadata(&path)?;
        let mark = if found.is_file() {
            HostTree
                .open_fd(&path, libc::O_RDONLY | libc::O_NONBLOCK, 0)
                .map_or(UndoMark::Unknown, |file| UndoMark::of(&file))
        } else {
            UndoMark::Unknown
        };
        Ok(Self { path, found, mark })
    }

    /// The inode's number, or the block device's.
    pub fn number(&self) -> u64 {
        if self.found.file_type().is_block_device() {
            self.found.rdev()
        } else {
            self.found.ino()
        }
    }

    /// The log's name in the image's directory, if that can be written.
    fn beside(&self) -> PathBuf {
        let mut beside = self.path.clone().into_os_string();
        beside.push(SUFFIX);
        beside.into()
    }

    /// Whether a log in [`ELSEWHERE`] has the image's number in its name.
    fn is_numbered(&self, log: &Path) -> bool {
        let prefix = prefix(&self.found);
        let name = log.file_name().map(OsStr::as_bytes);
        let rest = name.and_then(|name| name.strip_prefix(prefix.as_bytes()));
        is_elsewhere(log)
            && rest.is_some_and(|rest| rest.starts_with(b"-") || rest == SUFFIX.as_bytes())
    }

    /// Whether it has the image's path.
    fn has_path(&self, log: &Path) -> bool {
        let path = path_part(&self.path);
        let name = log.file_name().map_or(&b""[..], OsStr::as_bytes);
        let is_path = |part| part == path.as_bytes();
        self.found.is_file() && name.windows(path.len()).any(is_path)
    }

    /// Logs in [`ELSEWHERE`] which may be this image's.
    fn logs_elsewhere(&self) -> Vec<PathBuf> {
        let is_log = |log: &Path| {
            let is_name = log.as_os_str().as_bytes().ends_with(SUFFIX.as_bytes());
            is_name && (self.is_numbered(log) || self.has_path(log))
        };
        let entries = std::fs::read_dir(ELSEWHERE).into_iter().flatten().flatten();
        let logs = entries.map(|entry| entry.path());
        let mut logs: Vec<PathBuf> = logs.filter(|log| is_log(log)).collect();
        logs.sort();
        logs
    }

    /// A new, empty log.
    pub fn make_log(&self) -> io::Result<(PathBuf, File)> {
        self.make_log_unless(|log| objection(log, self.found.uid()))
    }

    /// Some file systems show artificial modes and owners: a log there would not be trusted.
    fn make_log_unless(
        &self,
        objection: impl Fn(&Metadata) -> Option<String>,
    ) -> io::Result<(PathBuf, File)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let beside = self.beside();
        // Files in /dev are gone after a restart.
        if !beside.starts_with("/dev") {
            if let Ok(file) = options.open(&beside) {
                match objection(&file.metadata()?) {
                    None => return Ok((beside, file)),
                    Some(_) => std::fs::remove_file(&beside)?,
                }
            }
        }
        let made = tempfile::Builder::new()
            .prefix(&format!("{}{}", prefix(&self.found), path_part(&self.path)))
            .suffix(SUFFIX)
            .tempfile_in(ELSEWHERE)?;
        if let Some(why) = objection(&made.as_file().metadata()?) {
            return Err(wrong(format!(
                "an undo log in {ELSEWHERE} cannot be used: {why}"
            )));
        }
        let (file, path) = made.keep().map_err(|error| error.error)?;
        Ok((path, file))
    }

    fn log(&self, path: PathBuf, file: File) -> io::Result<UndoLogFile> {
        let way_out = self.way_out(&path);
        let reader =
            Reader::new(file).map_err(|error| cannot_use(&path, &reason(&error), &way_out))?;
        Ok(UndoLogFile {
            is_own: self.owns(&path, reader.head),
            path,
            reader,
            way_out,
        })
    }

    /// Whether no other file needs the log: this image may be a copy of another one.
    fn owns(&self, log: &Path, head: Option<Head>) -> bool {
        if is_elsewhere(log) && log != self.beside() {
            let is_marked = matches!(self.mark, UndoMark::Of { .. });
            let number = head.map(|head| head.image);
            let has_number = !is_marked || number == Some(self.number());
            return self.is_numbered(log) || (self.has_path(log) && has_number);
        }
        let bytes = log.as_os_str().as_bytes();
        let Some(image) = bytes.strip_suffix(SUFFIX.as_bytes()) else {
            return false;
        };
        match std::fs::metadata(OsStr::from_bytes(image)) {
            Ok(found) => (found.dev(), found.ino()) == (self.found.dev(), self.found.ino()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// A log is obsolete if its image has lost the mark.
    fn way_out(&self, log: &Path) -> String {
        match self.mark {
            UndoMark::Of { .. } => format!(
                "remove its mark: setfattr -x {} {}",
                MARK.to_string_lossy(),
                self.path.display()
            ),
            _ => format!("remove {}", log.display()),
        }
    }

    pub fn find_log(&self) -> io::Result<FoundLog> {
        match &self.mark {
            UndoMark::Of { id, log } => match self.find_marked(*id, log) {
                // Another process may have finished the change.
                Err(error) => match Self::of(&self.path) {
                    Ok(now) if now.mark != self.mark => now.find_log(),
                    _ => Err(error),
                },
                found => found,
            },
            UndoMark::Absent | UndoMark::Unknown => self.find_named(),
        }
    }

    /// The log that the mark names. The image's directory may have another name by now.
    fn find_marked(&self, id: u64, named: &Path) -> io::Result<FoundLog> {
        let here = named.file_name().map(|name| self.path.with_file_name(name));
        let mut blamed = (named.to_owned(), wrong("it is gone"));
        for place in here.into_iter().chain([named.to_owned()]) {
            let why = match open(&place, self.found.uid()) {
                Err(error) => error,
                Ok(Candidate::Absent) => continue,
                Ok(Candidate::Refused(why)) => wrong(why),
                Ok(Candidate::Open(file)) => {
                    let log = self.log(place.clone(), file)?;
                    match log.reader.head {
                        Some(head) if head.id == id => return Ok(FoundLog::Pending(log)),
                        _ => wrong("it is the log of another change"),
                    }
                }
            };
            blamed = (place, why);
        }
        let (place, why) = blamed;
        let why = format!("its undo log cannot be used: {}", reason(&why));
        Err(cannot_use(&place, &why, &self.way_out(&place)))
    }

    /// A log that is found by the image's name or number: one of a half change first.
    fn find_named(&self) -> io::Result<FoundLog> {
        let mut first = FoundLog::Nothing;
        let places = std::iter::once(self.beside()).chain(self.logs_elsewhere());
        for place in places {
            match open(&place, self.found.uid()) {
                Err(error) => {
                    let way_out = self.way_out(&place);
                    return Err(cannot_use(&place, &reason(&error), &way_out));
                }
                Ok(Candidate::Absent) => {}
                Ok(Candidate::Refused(why)) => warn_of(&place, &why),
                Ok(Candidate::Open(file)) => match self.judge(self.log(place, file)?) {
                    FoundLog::Pending(log) => return Ok(FoundLog::Pending(log)),
                    FoundLog::Stale(log) if matches!(first, FoundLog::Nothing) => {
                        first = FoundLog::Stale(log);
                    }
                    FoundLog::Stale(_) | FoundLog::Nothing => {}
                },
            }
        }
        Ok(first)
    }

    fn judge(&self, log: UndoLogFile) -> FoundLog {
        if log.path == self.beside() {
            self.judge_beside(log)
        } else {
            self.judge_elsewhere(log)
        }
    }

    fn judge_beside(&self, log: UndoLogFile) -> FoundLog {
        let is_done = |head: Head| {
            let was_marked = head.state == LogState::Marked && head.image == self.number();
            was_marked && self.mark == UndoMark::Absent
        };
        match log.reader.head {
            Some(head) if log.reader.is_complete() && !is_done(head) => FoundLog::Pending(log),
            _ => FoundLog::Stale(log),
        }
    }

    /// New files get numbers and paths of removed ones. So such a log may belong to a file that was
    /// moved, and still needs the log.
    fn judge_elsewhere(&self, log: UndoLogFile) -> FoundLog {
        let state = log.reader.head.map_or(LogState::Begun, |head| head.state);
        match (state, self.is_numbered(&log.path)) {
            (LogState::Begun, true) => FoundLog::Stale(log),
            (LogState::Begun, false) => FoundLog::Nothing,
            (LogState::Marked, true) if self.mark == UndoMark::Absent => {
                warn_of(&log.path, "the image has no mark that names it");
                FoundLog::Nothing
            }
            // The file at the path may be another one by now, unless files there have no marks.
            (_, false) if self.mark == UndoMark::Absent => FoundLog::Nothing,
            (LogState::Complete | LogState::Marked, _) => FoundLog::Pending(log),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A file that is not half changed, and what is found of it.
    fn image(directory: &Path) -> (PathBuf, Subject) {
        let path = directory.join("image");
        fs::write(&path, [1; 4096]).unwrap();
        let subject = Subject::of(&path).unwrap();
        (path, subject)
    }

    fn head(subject: &Subject, state: LogState) -> Vec<u8> {
        let image = subject.number();
        let head = Head {
            records: 0,
            id: 7,
            image,
            process: 0,
            state,
        };
        head.bytes()
    }

    /// As the program makes logs, whatever the umask is: other tests change that.
    fn put_log(path: &Path, bytes: impl AsRef<[u8]>) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_log_that_would_be_refused_is_made_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut subject) = image(directory.path());
        let asked = Cell::new(0);
        let objects_once = |_: &Metadata| {
            asked.set(asked.get() + 1);
            (asked.get() == 1).then(|| "other users may write to it".to_owned())
        };
        let (log, _) = subject.make_log_unless(objects_once).unwrap();
        assert!(log.starts_with(ELSEWHERE) && !subject.beside().exists());
        let error = subject.make_log_unless(|_| Some("no".to_owned()));
        assert!(error.is_err() && !subject.beside().exists());
        assert!(subject.logs_elsewhere() == std::slice::from_ref(&log));

        // The file's number is another one after a mount.
        put_log(&log, head(&subject, LogState::Complete));
        fs::rename(&path, directory.path().join("old")).unwrap();
        fs::copy(directory.path().join("old"), &path).unwrap();
        subject = Subject::of(&path).unwrap();
        subject.mark = UndoMark::Unknown;
        assert!(!subject.is_numbered(&log));
        let found = subject.find_log().unwrap();
        let FoundLog::Pending(pending) = found else {
            panic!("it is taken for a whole one")
        };
        assert!(pending.is_own && pending.path == log);
        // On file systems with marks this is another file.
        subject.mark = UndoMark::Absent;
        assert!(matches!(subject.find_log(), Ok(FoundLog::Nothing)));
        fs::remove_file(&log).unwrap();
    }

    #[test]
    fn a_log_that_no_mark_names_is_left_and_hides_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut subject) = image(directory.path());
        let object = Cell::new(true);
        let objects_once = |_: &Metadata| object.take().then(String::new);
        let (log, _) = subject.make_log_unless(objects_once).unwrap();
        subject.mark = UndoMark::Absent;
        put_log(&log, head(&subject, LogState::Marked));
        assert!(matches!(subject.find_log(), Ok(FoundLog::Nothing)));
        assert!(log.exists());
        // A change that did not begin, beside one that did.
        put_log(&subject.beside(), head(&subject, LogState::Begun));
        put_log(&log, head(&subject, LogState::Complete));
        assert!(matches!(subject.find_log(), Ok(FoundLog::Pending(_))));
        let image = HostTree.open_fd(&path, libc::O_RDWR, 0).unwrap();
        super::super::roll_back(&path, &image).unwrap();
        assert!(!log.exists() && !subject.beside().exists());
    }

    #[test]
    fn a_log_is_left_to_the_file_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let (path, subject) = image(directory.path());
        let head = |image: u64| {
            Some(Head {
                records: 0,
                id: 7,
                image,
                process: 0,
                state: LogState::Marked,
            })
        };
        let place = directory.path().join("copy");
        fs::create_dir(&place).unwrap();
        let (_, copy) = image(&place);
        let log = subject.beside();
        // The copy may have the same number, on another file system.
        assert!(subject.owns(&log, head(1)) && !copy.owns(&log, head(copy.number())));
        fs::rename(&path, directory.path().join("moved")).unwrap();
        assert!(copy.owns(&log, head(copy.number())), "nobody needs it");
        assert!(copy.owns(&copy.beside(), head(1)));
        assert!(copy.owns(Path::new("/var/tmp/no image.outboard-undo"), head(1)));
        let other = Path::new(ELSEWHERE).join(".outboard-0-0-1.outboard-undo");
        assert!(!copy.owns(&other, head(copy.number())));
    }

    #[test]
    fn a_log_beside_the_image_comes_before_the_named_one() {
        let directory = tempfile::tempdir().unwrap();
        let (_, mut subject) = image(directory.path());
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        let named = other.join("image.outboard-undo");
        for log in [&named, &subject.beside()] {
            put_log(log, head(&subject, LogState::Marked));
        }
        subject.mark = UndoMark::Of { id: 7, log: named };
        let Ok(FoundLog::Pending(log)) = subject.find_log() else {
            panic!("none is found");
        };
        assert!(log.path == subject.beside() && log.is_own);
    }

    #[test]
    fn a_change_that_was_done_meanwhile_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut subject) = image(directory.path());
        let log = subject.beside();
        subject.mark = UndoMark::Of { id: 7, log };
        assert!(matches!(subject.find_log(), Ok(FoundLog::Nothing)));
        assert!(matches!(open(&path.join("x"), 0), Ok(Candidate::Absent)));
    }

    #[test]
    fn a_log_of_version_1_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut subject) = image(directory.path());
        let log = format!("{ELSEWHERE}/{}{SUFFIX}", prefix(&subject.found));
        let log = Path::new(&log);
        let mut bytes = b"outboard-undo-1\n".to_vec();
        bytes.resize(512, 0);
        put_log(log, &bytes);
        assert!(matches!(subject.find_log(), Ok(FoundLog::Stale(_))));
        let sum = |bytes: &[u8]| crc32fast::hash(bytes).to_le_bytes();
        bytes[16] = 1;
        let checksum = sum(&bytes[..24]);
        bytes[24..28].copy_from_slice(&checksum);
        bytes.extend(super::super::record(0, &[2; 512], &[1; 512]));
        put_log(log, &bytes);
        subject.mark = UndoMark::Absent;
        assert!(matches!(subject.find_log(), Ok(FoundLog::Pending(_))));
        let image = HostTree.open_fd(&path, libc::O_RDWR, 0).unwrap();
        super::super::roll_back(&path, &image).unwrap();
        assert!(!log.exists() && fs::read(&path).unwrap()[..513] == [&[2; 512][..], &[1]].concat());
    }
}
