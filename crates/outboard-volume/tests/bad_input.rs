// SPDX-License-Identifier: GPL-2.0-only
//! Errors, and the kinds by which programs distinguish them. Needs mke2fs, cryptsetup, mkfs.btrfs.

use outboard_test_images::{check_ext4, run, text, Work};
use outboard_volume::{ErrorKind, Options, Volume};
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;

type Result = std::result::Result<(), Box<dyn Error>>;

fn kind_of(name: impl AsRef<std::ffi::OsStr>, options: Options) -> ErrorKind {
    let error = Volume::open(name, options).expect_err("it cannot be opened");
    assert!(!error.message().is_empty());
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
    let missing = Options::new().key_file(work.path("none"));
    assert_eq!(kind_of(&image, missing), ErrorKind::NotFound);
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

#[test]
fn an_image_that_is_cut_under_an_open_volume() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let disk = Volume::open(&image, Options::new())?;
    assert_eq!(disk.read_to_string("/d/hello")?, "Hello, kernel");
    File::options().write(true).open(&image)?.set_len(1 << 20)?;
    let error = disk.read("/d/noise").expect_err("its blocks are gone");
    assert_eq!(ErrorKind::of(&error), ErrorKind::Damaged, "{error}");
    let told = disk.kernel_messages();
    assert!(
        told.iter().any(|line| line.contains("I/O error")),
        "{told:?}"
    );
    disk.close()?;
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
    disk.close()?;
    let error = file.read(&mut [0; 1]).expect_err("its kernel is gone");
    assert_eq!(ErrorKind::of(&error), ErrorKind::Closed);
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
