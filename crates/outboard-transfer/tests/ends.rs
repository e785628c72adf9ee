// SPDX-License-Identifier: GPL-2.0-only
//! How transfers end that do not succeed: cancelled, in a panic, without a readable source.

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use outboard_transfer::{Cancel, ErrorKind, Format, Summary, Transfer};
use outboard_volume::HostTree;
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const FORMATS: [Format; 4] = [Format::Plain, Format::Gzip, Format::Zstd, Format::Xz];
/// More than any of these calls takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with many small files in `tree`.
fn work() -> TempDir {
    let work = tempfile::tempdir().unwrap();
    fs::create_dir(work.path().join("tree")).unwrap();
    for index in 0..300 {
        let path = work.path().join(format!("tree/{index}"));
        fs::write(path, index.to_string()).unwrap();
    }
    work
}

/// Cancels once some bytes are written.
fn hasty() -> Transfer {
    Transfer::new()
        .threads(1)
        .on_progress(|count| match count.bytes {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        })
}

/// Runs a call on a thread of its own, and fails if it never returns.
fn returns<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> std::thread::Result<T> {
    let (sender, ended) = channel();
    let thread = std::thread::spawn(move || {
        // Dropped by a panic, too.
        let _sender = sender;
        call()
    });
    let timeout = ended.recv_timeout(PATIENCE);
    let hangs = timeout == Err::<(), _>(std::sync::mpsc::RecvTimeoutError::Timeout);
    assert!(!hangs, "the call hangs");
    thread.join()
}

/// Decompresses an archive.
fn contents(archive: &mut File, format: Format) -> io::Result<Vec<u8>> {
    archive.rewind()?;
    let mut bytes = Vec::new();
    match format {
        Format::Plain => archive.read_to_end(&mut bytes)?,
        Format::Gzip => MultiGzDecoder::new(archive).read_to_end(&mut bytes)?,
        Format::Zstd => zstd::Decoder::new(archive)?.read_to_end(&mut bytes)?,
        Format::Xz => XzDecoder::new(archive).read_to_end(&mut bytes)?,
        _ => panic!("no decoder of {format:?}"),
    };
    Ok(bytes)
}

#[test]
fn a_cancelled_archive_has_no_end() {
    let work = work();
    for format in FORMATS {
        let mut archive = tempfile::tempfile().unwrap();
        let tree = work.path().join("tree");
        let error = hasty()
            .pack_file(&HostTree, &tree, &archive, format)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        match contents(&mut archive, format) {
            Ok(bytes) => {
                assert_eq!(format, Format::Plain, "the compressed stream has an end");
                assert!(!bytes.ends_with(&[0; 1024]), "it has an end mark");
            }
            Err(error) => assert_ne!(format, Format::Plain, "{error}"),
        }
        let mut bytes = Vec::new();
        let error = hasty().pack(&HostTree, &tree, &mut bytes, format);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Interrupted);
        assert!(!bytes.ends_with(&[0; 1024]), "it has an end mark");
        Transfer::new()
            .pack_file(&HostTree, &tree, &archive, format)
            .unwrap();
    }
}

/// A writer and a reader that end with their borrow.
#[test]
fn archives_in_memory() {
    let work = work();
    for format in FORMATS {
        let mut archive = Vec::new();
        let packed =
            Transfer::new().pack(&HostTree, work.path().join("tree"), &mut archive, format);
        // The directory itself is a member, too.
        assert_eq!(packed.unwrap().files, 301);
        let out = tempfile::tempdir().unwrap();
        let unpacked = Transfer::new().unpack(&archive[..], &HostTree, out.path());
        assert!(unpacked.unwrap().files >= 300);
        for index in [0, 299] {
            let path = out.path().join(index.to_string());
            assert_eq!(fs::read(path).unwrap(), index.to_string().into_bytes());
        }
    }
}

/// A writer without room.
struct Full;

impl Write for Full {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::ENOSPC))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_of_a_writer_have_kinds() {
    let work = work();
    for format in FORMATS {
        let packed = Transfer::new().pack(&HostTree, work.path(), Full, format);
        let error = packed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    }
}

#[test]
fn a_cancelled_copy_names_an_old_file_that_it_has_cut() {
    let work = work();
    let (source, copy) = (work.path().join("source"), work.path().join("copy"));
    fs::write(&source, vec![7; 64 << 20]).unwrap();
    fs::write(&copy, "old").unwrap();
    let record = Arc::new(Mutex::new(Summary::default()));
    let copied = hasty()
        .record(&record)
        .copy(&HostTree, &source, &HostTree, &copy);
    let error = copied.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(
        error.message().contains("/copy has only a part of"),
        "{error}"
    );
    let counts = record.lock().unwrap().clone();
    assert_eq!(counts.files, 0);
    assert!(counts.bytes > 0, "{counts:?}");
}

#[test]
fn a_silent_archive_can_be_cancelled() {
    let work = work();
    for known in [true, false] {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let cancel = Cancel::new();
        let transfer = Transfer::new().cancel(&cancel);
        let archive = File::from(OwnedFd::from(reader.try_clone().unwrap()));
        let out = work.path().to_owned();
        let mut late = writer.try_clone().unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
            if !known {
                // The call returns after this read.
                late.write_all(b"x").unwrap();
            }
        });
        let unpacked = returns(move || {
            if known {
                transfer.unpack_file(archive, &HostTree, out)
            } else {
                transfer.unpack(archive, &HostTree, out)
            }
        });
        let error = unpacked.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        if known {
            // No thread is left that takes the bytes.
            writer.write_all(b"x").unwrap();
            reader.set_read_timeout(Some(PATIENCE)).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!((&reader).read(&mut [0; 2]).unwrap(), 1);
        }
    }
}

#[test]
fn a_panic_of_the_callback_comes_back() {
    let work = work();
    let mut archive = tempfile::tempfile().unwrap();
    Transfer::new()
        .pack_file(&HostTree, work.path().join("tree"), &archive, Format::Plain)
        .unwrap();
    archive.rewind().unwrap();
    fs::create_dir(work.path().join("unpacked")).unwrap();
    let path = work.path().to_owned();
    let panics = || {
        Transfer::new()
            .threads(1)
            .on_progress(|_| panic!("on purpose"))
    };
    let top = path.clone();
    let copied =
        returns(move || panics().copy(&HostTree, top.join("tree"), &HostTree, top.join("copy")));
    assert!(copied.is_err(), "a copy");
    let top = path.clone();
    let unpacked = returns(move || panics().unpack_file(archive, &HostTree, top.join("unpacked")));
    assert!(unpacked.is_err(), "unpacking");
    for format in FORMATS {
        let mut archive = tempfile::tempfile().unwrap();
        let (file, top) = (archive.try_clone().unwrap(), path.clone());
        let packed =
            returns(move || panics().pack_file(&HostTree, top.join("tree"), &file, format));
        assert!(packed.is_err(), "packing");
        if format != Format::Plain {
            assert!(contents(&mut archive, format).is_err(), "it has an end");
        }
    }
}

#[test]
fn read_errors_keep_their_errno() {
    let work = work();
    // A regular file whose first byte cannot be read.
    let unreadable = Path::new("/proc/self/mem");
    let copy = work.path().join("copy");
    let copied = Transfer::new().copy(&HostTree, unreadable, &HostTree, &copy);
    let error = copied.unwrap_err();
    assert_eq!(error.errno(), Some(libc::EIO), "{error}");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert!(
        error.message().contains("cannot read /proc/self/mem"),
        "{error}"
    );
}

/// A stream that ends in an error.
struct Failing;

impl Read for Failing {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}

#[test]
fn archives_that_cannot_be_read_have_kinds() {
    let work = work();
    let unpack = |archive: Box<dyn Read + Send>| {
        let unpacked = Transfer::new().unpack(archive, &HostTree, work.path());
        unpacked.unwrap_err()
    };
    let error = unpack(Box::new(Failing));
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let error = unpack(Box::new(
        Cursor::new(vec![0x1f, 0x8b, 8, 0, 0, 0]).chain(Failing),
    ));
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert_eq!(error.errno(), Some(libc::EACCES), "{error}");
    for (bytes, kind) in [
        (&b""[..], ErrorKind::Damaged),
        (b"BZh91AY", ErrorKind::Unsupported),
        (b"LZIP\x01\x0c", ErrorKind::Unsupported),
        (b"\x04\x22\x4d\x18ab", ErrorKind::Unsupported),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\0cut off", ErrorKind::Damaged),
        (b"no archive", ErrorKind::Damaged),
    ] {
        let error = unpack(Box::new(Cursor::new(bytes.to_vec())));
        assert_eq!(error.kind(), kind, "{error}");
    }
}
