// SPDX-License-Identifier: GPL-2.0-only
//! Bad input has an error of its kind, and leaves nothing behind: no descriptor, no mapping, no
//! thread, no temporary file. Its own process, since other tests open and close files. Needs
//! mke2fs, qemu-img and cryptsetup.

use outboard_test_images::Work;
use outboard_volume::{Cancel, Deadline, Disk, ErrorKind, Hint, Options, Volume};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Long enough for a thread that has nothing to do any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Descriptors of the process, its threads, and its mappings of files without a name.
fn held() -> (usize, usize, usize) {
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let unnamed = maps
        .lines()
        .filter(|line| line.contains("memfd:") || line.contains("(deleted)"));
    (
        count("/proc/self/fd"),
        count("/proc/self/task"),
        unnamed.count(),
    )
}

struct BadInput {
    work: Work,
}

impl BadInput {
    fn new() -> Self {
        let work = Work::new();
        work.encrypted("locked");
        let raw = work.ext4("raw");
        let qcow2 = work.qcow2("disk.qcow2", &raw);
        let whole = fs::read(&qcow2).unwrap();
        fs::write(work.path("cut.qcow2"), &whole[..100]).unwrap();
        fs::write(work.path("bad.gz"), b"\x1f\x8b\x08 this is no gzip").unwrap();
        fs::write(work.path("bad.zst"), b"\x28\xb5\x2f\xfd this is no zstd").unwrap();
        let mut damaged = fs::read(&raw).unwrap();
        damaged[2048..8192].fill(0xff);
        fs::write(work.path("damaged"), damaged).unwrap();
        work.sparse("zeroes", 1);
        let compressed = zstd::encode_all(&fs::read(&raw).unwrap()[..], 1).unwrap();
        fs::write(work.path("whole.zst"), compressed).unwrap();
        Self { work }
    }

    fn kind(&self, name: &str, options: Options) -> ErrorKind {
        let path = self.work.path(name);
        let reader = Volume::open(&path, options.clone()).unwrap_err();
        let writer = Volume::open_writable(&path, options).unwrap_err();
        assert_eq!(reader.kind(), writer.kind(), "{reader}; {writer}");
        reader.kind()
    }

    /// Every error once.
    fn all(&self) {
        let plain = Options::new;
        for (name, options, kind) in [
            ("missing", plain(), ErrorKind::NotFound),
            ("locked", plain(), ErrorKind::KeyNeeded),
            ("locked", plain().key(b"wrong"), ErrorKind::WrongKey),
            ("cut.qcow2", plain(), ErrorKind::Damaged),
            ("bad.gz", plain(), ErrorKind::Damaged),
            ("bad.zst", plain(), ErrorKind::Damaged),
            ("damaged", plain(), ErrorKind::Damaged),
            ("zeroes", plain(), ErrorKind::NotAFileSystem),
            ("raw@7", plain(), ErrorKind::NotFound),
        ] {
            assert_eq!(self.kind(name, options), kind, "{name}");
        }
        self.hints();
        self.read_only();
        for name in ["raw", "disk.qcow2"] {
            self.replaced(name);
            self.cut(name);
        }
        self.stopped(&self.work.path("disk.qcow2"));
        let disk = Disk::open(self.work.path("raw"), plain()).unwrap();
        assert!(disk.volume("7").is_err());
        assert!(disk.volume_writable("").is_err());
        disk.close().unwrap();
    }

    /// Errors with advice have it as a value.
    fn hints(&self) {
        for (name, options, hint) in [
            ("locked", Options::new(), Hint::KeyFile),
            ("locked", Options::new().key(b"wrong"), Hint::GivenKey),
            ("zeroes", Options::new(), Hint::NameType),
        ] {
            let error = Volume::open(self.work.path(name), options).unwrap_err();
            assert_eq!(error.hint(), Some(&hint), "{error}");
        }
    }

    /// Images that cannot be written, and are.
    fn read_only(&self) {
        let compressed = Volume::open_writable(self.work.path("whole.zst"), Options::new());
        assert_eq!(compressed.unwrap_err().kind(), ErrorKind::ReadOnly);
        let disk = Volume::open(self.work.path("whole.zst"), Options::new()).unwrap();
        let error = disk.write("/new", "text").unwrap_err();
        assert_eq!(ErrorKind::of(&error), ErrorKind::ReadOnly, "{error}");
        disk.close().unwrap();
    }

    /// A copy of an image that tests may change.
    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.work.path("victim");
        fs::copy(self.work.path(name), &copy).unwrap();
        copy
    }

    /// The name of an open image is removed, or becomes that of another file.
    fn replaced(&self, name: &str) {
        for is_replaced in [false, true] {
            let image = self.copy(name);
            let (reader, other) = (Options::new(), self.work.path("other"));
            let disk = Volume::open_writable(&image, reader).unwrap();
            disk.write("/new", "text").unwrap();
            fs::rename(&image, &other).unwrap();
            if is_replaced {
                self.copy(name);
            }
            fs::remove_file(&other).unwrap();
            let error = disk.close().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(
                error.message().contains("victim: the file was removed"),
                "{error}"
            );
        }
    }

    /// An open image loses its end.
    fn cut(&self, name: &str) {
        for is_writer in [false, true] {
            let image = self.copy(name);
            let disk = if is_writer {
                Volume::open_writable(&image, Options::new()).unwrap()
            } else {
                Volume::open(&image, Options::new()).unwrap()
            };
            let file = File::options().write(true).open(&image).unwrap();
            file.set_len(2 << 20).unwrap();
            let error = disk.read("/d/noise").unwrap_err();
            assert_eq!(ErrorKind::of(&error), ErrorKind::Damaged, "{error}");
            match (disk.close(), is_writer) {
                (Ok(()), false) => {}
                (Err(error), true) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                    assert!(error.message().contains("victim: the file was cut off"));
                }
                (closed, _) => panic!("{closed:?}"),
            }
        }
    }

    /// Work that was cancelled, or came too late.
    fn stopped(&self, path: &Path) {
        let cancel = Cancel::new();
        cancel.cancel();
        let cancelled = cancel.run(|| Volume::open(path, Options::new()));
        assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Interrupted);
        let passed = Deadline::from(Instant::now());
        let late = passed.run(|| Volume::open_writable(path, Options::new()));
        assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
        let disk = Volume::open_writable(path, Options::new()).unwrap();
        let cancel = Cancel::new();
        let written = cancel.run(|| {
            cancel.cancel();
            disk.write("/new", "text")
        });
        assert_eq!(ErrorKind::of(&written.unwrap_err()), ErrorKind::Interrupted);
        disk.close().unwrap();
    }
}

/// As many volumes as a process can have, and one more.
fn one_too_many(image: &Path) {
    let open = || Volume::open(image, Options::new());
    let all: Vec<Volume> = (0..16).map(|_| open().unwrap()).collect();
    let error = open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other, "{error}");
    assert!(error.message().contains("as many kernels"), "{error}");
    drop(all);
    open().unwrap().close().unwrap();
}

#[test]
fn bad_input_leaves_nothing_behind() {
    let bad = BadInput::new();
    let temporary = Work::new();
    std::env::set_var("TMPDIR", temporary.path(""));
    // The first errors fill caches of the process.
    bad.all();
    let before = held();
    for _ in 0..3 {
        bad.all();
    }
    one_too_many(&bad.work.path("raw"));
    // A thread that has repeated a cancel ends a little later.
    let start = Instant::now();
    while held() != before && start.elapsed() < PATIENCE {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(held(), before);
    assert_eq!(fs::read_dir(temporary.path("")).unwrap().count(), 0);
}
