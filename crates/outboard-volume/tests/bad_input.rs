// SPDX-License-Identifier: GPL-2.0-only
//! Errors, and the kinds by which programs distinguish them. Needs mke2fs, cryptsetup, mkfs.btrfs.

use outboard_test_images::{check_ext4, run, text, Work};
use outboard_volume::{ErrorKind, Options, Volume};
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

type Result = std::result::Result<(), Box<dyn Error>>;

fn kind_of(name: impl AsRef<std::ffi::OsStr>, options: Options) -> ErrorKind {
    let error = Volume::open(name, options).expect_err("it cannot be opened");
    assert!(!error.message().is_empty());
    assert!(error.path().is_some(), "{error}");
    error.kind()
}

#[test]
fn keys() {
    let work = Work::new();
    let (image, _) = work.encrypted("image");
    let before = fs::read(&image).unwrap();
    assert_eq!(kind_of(&image, Options::new()), ErrorKind::KeyNeeded);
    let wrong = Options::new().key(b"wrong");
    assert_eq!(kind_of(&image, wrong.clone()), ErrorKind::WrongKey);
    let written = Volume::open_writable(&image, wrong).unwrap_err();
    assert_eq!(written.kind(), ErrorKind::WrongKey);
    assert_eq!(written.path(), Some(image.as_path()));
    let missing = Options::new().key_file(work.path("none"));
    let missing = Volume::open(&image, missing).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(missing.path(), Some(work.path("none").as_path()));
    assert!(fs::read(&image).unwrap() == before);
}

#[test]
fn images_that_are_none() {
    let work = Work::new();
    assert_eq!(
        kind_of(work.path("none"), Options::new()),
        ErrorKind::NotFound
    );
    let (empty, zeroes) = (work.sparse("empty", 0), work.sparse("zeroes", 1));
    for image in [&empty, &zeroes, &work.path("")] {
        assert_eq!(
            kind_of(image, Options::new()),
            ErrorKind::NotAFileSystem,
            "{image:?}"
        );
    }
    let image = work.ext4("image");
    let wrong = Volume::open(&image, Options::new().kind("xfs")).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Damaged, "{wrong}");
    assert!(wrong.errno().is_some());
    assert!(
        !wrong.kernel_messages().is_empty(),
        "XFS says that its superblock is none"
    );
    let unknown = Volume::open(&image, Options::new().kind("nofs")).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Unsupported, "{unknown}");
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

#[test]
fn a_qcow2_whose_tables_cannot_be() -> Result {
    let work = Work::new();
    let image = work.qcow2("disk.qcow2", &work.ext4("raw"));
    let whole = fs::read(&image)?;
    let kind_with = |offset: usize, value: &[u8]| {
        let mut bytes = whole.clone();
        put(&mut bytes, offset, value);
        fs::write(&image, bytes).unwrap();
        let reader = Volume::open(&image, Options::new()).unwrap_err();
        let writer = Volume::open_writable(&image, Options::new()).unwrap_err();
        assert_eq!(reader.kind(), writer.kind(), "{offset}: {writer}");
        reader.kind()
    };
    let beyond = (1u64 << 40).to_be_bytes();
    for (what, offset, value) in [
        ("L1 table", 40, &beyond[..]),
        ("refcount table", 48, &beyond),
        ("cluster size", 20, &[0xff; 4]),
        ("mark of damage", 79, &[2]),
    ] {
        assert_eq!(kind_with(offset, value), ErrorKind::Damaged, "{what}");
    }
    for (what, offset, value) in [
        ("version", 4, &[0xff; 4][..]),
        ("encryption", 35, &[1]),
        ("external data", 79, &[4]),
    ] {
        assert_eq!(kind_with(offset, value), ErrorKind::Unsupported, "{what}");
    }
    fs::write(&image, &whole[..100])?;
    assert_eq!(kind_of(&image, Options::new()), ErrorKind::Damaged);
    Ok(())
}

#[test]
fn backing_files() -> Result {
    let work = Work::new();
    let (base, top) = (work.ext4("base"), work.path("top.qcow2"));
    let words = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b"];
    run(
        "qemu-img",
        &[&words[..], &[text(&base), text(&top)]].concat(),
    );
    let disk = Volume::open(&top, Options::new())?;
    assert_eq!(disk.read_to_string("/d/hello")?, "Hello, kernel");
    disk.close()?;
    fs::create_dir(work.path("other"))?;
    let elsewhere = work.path("other/top.qcow2");
    fs::rename(&top, &elsewhere)?;
    let outside = kind_of(&elsewhere, Options::new());
    assert_eq!(outside, ErrorKind::PermissionDenied);
    Volume::open(&elsewhere, Options::new().backing(&base))?.close()?;
    fs::remove_file(&base)?;
    fs::rename(&elsewhere, &top)?;
    // An absolute name of a missing file may be anywhere.
    assert_eq!(kind_of(&top, Options::new()), ErrorKind::PermissionDenied);
    Ok(())
}

#[test]
fn a_damaged_vhd() -> Result {
    let work = Work::new();
    let image = work.vhd("disk.vhd", &work.ext4("raw"));
    let whole = fs::read(&image)?;
    fs::write(&image, &whole[..1000])?;
    assert_eq!(
        kind_of(&image, Options::new()),
        ErrorKind::Damaged,
        "no header"
    );
    let mut bytes = whole;
    put(&mut bytes, 512 + 16, &[0xff; 8]);
    fs::write(&image, bytes)?;
    assert_eq!(
        kind_of(&image, Options::new()),
        ErrorKind::Damaged,
        "no checksum"
    );
    Ok(())
}

#[test]
fn an_image_that_somebody_has() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let disk = Volume::open_writable(&image, Options::new())?;
    assert_eq!(kind_of(&image, Options::new()), ErrorKind::Locked);
    let second = Volume::open_writable(&image, Options::new()).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Locked, "{second}");
    disk.close()?;
    let readers = [
        Volume::open(&image, Options::new())?,
        Volume::open(&image, Options::new())?,
    ];
    let writer = Volume::open_writable(&image, Options::new()).unwrap_err();
    assert_eq!(writer.kind(), ErrorKind::Locked, "{writer}");
    drop(readers);
    Volume::open_writable(&image, Options::new())?.close()?;
    check_ext4(&image);
    Ok(())
}

#[test]
fn a_missing_disk() -> Result {
    let work = Work::new();
    let (a, b) = (work.sparse("a", 256), work.sparse("b", 256));
    run(
        "mkfs.btrfs",
        &["-q", "-f", "-d", "raid1", "-m", "raid1", text(&a), text(&b)],
    );
    let alone = Volume::open_writable(&a, Options::new()).unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::Incomplete, "{alone}");
    let disk = Volume::open(&a, Options::new())?;
    assert!(
        disk.warnings()[0].contains("of which 1 are here"),
        "{:?}",
        disk.warnings()
    );
    disk.close()?;
    let disk = Volume::open_writable(&a, Options::new().disk(&b))?;
    disk.write("/f", "text")?;
    disk.close()?;
    Ok(())
}

/// Cuts a file, and checks that no file of a volume which needs it is read as zeroes.
fn cut_under(name: &Path, file: &Path) -> Result {
    let disk = Volume::open(name, Options::new())?;
    assert_eq!(disk.read_to_string("/d/hello")?, "Hello, kernel");
    File::options().write(true).open(file)?.set_len(2 << 20)?;
    let error = disk.read("/d/noise").expect_err("its blocks are gone");
    assert_eq!(ErrorKind::of(&error), ErrorKind::Damaged, "{error}");
    let log = disk.kernel_messages();
    assert!(log.iter().any(|line| line.contains("I/O error")), "{log:?}");
    disk.close()?;
    Ok(())
}

#[test]
fn an_image_that_is_cut_under_an_open_volume() -> Result {
    let work = Work::new();
    let raw = work.ext4("raw");
    let (qcow2, vhd) = (work.qcow2("disk.qcow2", &raw), work.vhd("disk.vhd", &raw));
    let top = work.path("top.qcow2");
    let words = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b"];
    run(
        "qemu-img",
        &[&words[..], &[text(&raw), text(&top)]].concat(),
    );
    cut_under(&qcow2, &qcow2)?;
    cut_under(&vhd, &vhd)?;
    cut_under(&top, &raw)?;
    let raw = work.ext4("another");
    cut_under(&raw, &raw)
}

#[test]
fn an_image_that_is_overwritten_under_an_open_volume() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let disk = Volume::open(&image, Options::new())?;
    let file = File::options().write(true).open(&image)?;
    file.write_all_at(&vec![0xff; 60 << 20], 4 << 20)?;
    file.write_all_at(&vec![0xff; (4 << 20) - 8192], 8192)?;
    let error = disk.read("/d/hello").expect_err("its inode is gone");
    assert_eq!(ErrorKind::of(&error), ErrorKind::Damaged, "{error}");
    assert!(!disk.kernel_messages().is_empty());
    disk.close()?;
    Ok(())
}

#[test]
fn an_image_that_vanishes_under_an_open_volume() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let disk = Volume::open(&image, Options::new())?;
    fs::remove_file(&image)?;
    // A reader loses nothing.
    assert_eq!(disk.read_to_string("/d/hello")?, "Hello, kernel");
    disk.close()?;
    let images = [work.ext4("raw"), work.qcow2("disk.qcow2", &work.ext4("b"))];
    for image in images {
        let disk = Volume::open_writable(&image, Options::new())?;
        disk.write("/new", "text")?;
        fs::remove_file(&image)?;
        let error = disk.close().expect_err("it is written to no file");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.message().contains(text(&image)), "{error}");
        assert!(error.message().contains("removed"), "{error}");
    }
    Ok(())
}

#[test]
fn a_damaged_image() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let mut bytes = fs::read(&image)?;
    // The block groups' descriptors, for blocks of 1 and of 4 KiB.
    bytes[2048..8192].fill(0xff);
    fs::write(&image, bytes)?;
    let error = Volume::open(&image, Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert!(!error.kernel_messages().is_empty());
    Ok(())
}

#[test]
fn files_that_outlive_their_volume() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let disk = Volume::open(&image, Options::new())?;
    let mut file = disk.open("/d/hello")?;
    let (mut names, mut walk) = (disk.read_dir("/d")?, disk.walk("/")?);
    disk.close()?;
    let closed = |error: std::io::Error| assert_eq!(ErrorKind::of(&error), ErrorKind::Closed);
    closed(file.read(&mut [0; 1]).expect_err("its kernel is gone"));
    closed(names.next().unwrap().expect_err("as above"));
    assert!(names.next().is_none(), "an error is the last entry");
    closed(walk.find_map(|entry| entry.err()).expect("as above"));
    let disk = Volume::open_writable(&image, Options::new())?;
    disk.write("/new", "text")?;
    let file = disk.open("/new")?;
    let error = disk.close().expect_err("a file is open");
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    assert!(file.metadata().is_err());
    let disk = Volume::open(&image, Options::new())?;
    assert_eq!(
        disk.read_to_string("/new")?,
        "text",
        "everything was written"
    );
    Ok(())
}
