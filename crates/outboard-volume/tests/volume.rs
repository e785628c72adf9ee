// SPDX-License-Identifier: GPL-2.0-only
//! Volumes as programs use them. Needs mke2fs, cryptsetup and qemu-img.

use outboard_test_images::{check_ext4, run, text, Work};
use outboard_volume::{ErrorKind, FileType, OpenOptions, Options, Volume};
use std::error::Error;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

type Result = std::result::Result<(), Box<dyn Error>>;

/// Names are made of paths.
fn with(path: &Path, volume: &str) -> String {
    format!("{}{volume}", text(path))
}

#[test]
fn a_file_of_an_encrypted_qcow2() -> Result {
    let work = Work::new();
    let (raw, key) = work.encrypted("raw");
    let image = work.qcow2("disk.qcow2", &raw);
    let before = fs::read(&image)?;
    let disk = Volume::open(&image, Options::new().key_file(&key))?;
    assert_eq!(disk.read_to_string("/d/hello")?, "Hello, kernel");
    assert_eq!((disk.kind(), disk.is_read_only()), ("ext4", true));
    let names: Vec<String> = disk
        .walk("/d")?
        .map(|entry| Ok(entry?.path().display().to_string()))
        .collect::<std::io::Result<_>>()?;
    assert_eq!(names, ["/d", "/d/hello", "/d/noise"]);
    let refused = disk.write("/d/hello", "x").unwrap_err();
    assert_eq!(ErrorKind::of(&refused), ErrorKind::ReadOnly);
    disk.close()?;
    assert!(
        fs::read(&image)? == before,
        "a volume for reading changed its image"
    );
    let disk = Volume::open_writable(&image, Options::new().key(b"correct horse"))?;
    disk.write("/d/hello", "bye")?;
    disk.close()?;
    let disk = Volume::open(&image, Options::new().key(b"correct horse"))?;
    assert_eq!(disk.read_to_string("/d/hello")?, "bye");
    Ok(())
}

#[test]
fn everything_of_std() -> Result {
    let work = Work::new();
    let image = work.ext4("image");
    let disk = Volume::open_writable(&image, Options::new().vcpus(2).memory(128 << 20))?;
    disk.create_dir_all("/a/b/c")?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(&disk, "/a/f")?;
    file.write_all(b"0123456789")?;
    file.write_all_at(b"AB", 2)?;
    file.seek(SeekFrom::Start(1))?;
    let mut three = [0; 3];
    file.read_exact(&mut three)?;
    assert_eq!(&three, b"1AB");
    file.read_exact_at(&mut three, 7)?;
    assert_eq!(&three, b"789");
    assert!(file.read_exact_at(&mut three, 8).is_err());
    file.sync_all()?;
    drop(file);
    assert_eq!(disk.copy("/a/f", "/a/g")?, 10);
    disk.rename("/a/g", "/a/b/h")?;
    disk.symlink("f", "/a/l")?;
    disk.hard_link("/a/f", "/a/m")?;
    assert_eq!(disk.read_link("/a/l")?, Path::new("f"));
    assert_eq!(
        disk.symlink_metadata("/a/l")?.file_type(),
        FileType::Symlink
    );
    disk.set_permissions("/a/f", 0o4755)?;
    disk.chown("/a/f", 1000, u32::MAX)?;
    let time = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    disk.set_times("/a/f", time, time)?;
    disk.set_xattr("/a/f", "user.colour", "green")?;
    let found = disk.metadata("/a/m")?;
    assert_eq!((found.links(), found.user(), found.group()), (2, 1000, 0));
    assert_eq!(found.modified_ns(), 1_000_000_000_123_456_789);
    assert_eq!(found.mode(), 0o100_755, "chown clears the set-user-ID bit");
    assert_eq!(disk.xattrs("/a/m")?, ["user.colour"]);
    assert_eq!(disk.xattr("/a/m", "user.colour")?, b"green");
    disk.remove_xattr("/a/m", "user.colour")?;
    assert!(disk.xattrs("/a/f")?.is_empty());
    let space = disk.space()?;
    assert!(space.free > 8 << 20 && space.size > space.free);
    disk.sync()?;
    disk.remove_file("/a/m")?;
    disk.remove_dir("/a/b/c")?;
    disk.remove_dir_all("/d")?;
    assert!(!disk.exists("/d")? && disk.exists("/a/l")?);
    assert_eq!(disk.warnings(), [""; 0]);
    assert_eq!(disk.kernel_messages(), [""; 0]);
    disk.close()?;
    check_ext4(&image);
    let disk = Volume::open(&image, Options::new())?;
    assert_eq!(disk.read("/a/b/h")?, b"01AB456789");
    Ok(())
}

/// Umask and signals, as the host has them.
fn state_of_process() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kept = |line: &&str| {
        let names = ["Umask", "SigIgn", "Seccomp:", "CapEff", "NoNewPrivs"];
        names.iter().any(|name| line.starts_with(name))
    };
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    // SIGHUP, SIGINT and SIGTERM.
    let mut state = vec![format!("{:x}", caught & 0x4003)];
    state.extend(status.lines().filter(kept).map(str::to_owned));
    state
}

#[test]
fn several_volumes_and_threads() -> Result {
    let work = Work::new();
    let images = [work.ext4("a"), work.ext4("b"), work.ext4("c")];
    let before = state_of_process();
    let disks = images
        .iter()
        .map(|image| Volume::open_writable(image, Options::new()))
        .collect::<outboard_volume::Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        for disk in disks.iter().chain(&disks) {
            scope.spawn(move || {
                let name = format!("/{:?}", std::thread::current().id());
                disk.write(&name, disk.read("/d/noise")?)?;
                assert_eq!(disk.metadata(&name)?.len(), 8 << 20);
                std::io::Result::Ok(())
            });
        }
    });
    assert_eq!(state_of_process(), before);
    for disk in disks {
        assert_eq!(disk.read_dir("/")?.count(), 4, "lost+found, d, two files");
        disk.close()?;
    }
    images.iter().for_each(|image| check_ext4(image));
    Ok(())
}

#[test]
fn partitions_and_their_names() -> Result {
    let work = Work::new();
    let (disk, part) = (work.sparse("disk", 160), work.ext4("part"));
    let table = work.path("table");
    fs::write(
        &table,
        "label: gpt\nstart=2048, size=131072\nstart=135168, size=131072\n",
    )?;
    run(
        "sh",
        &[
            "-c",
            &format!("sfdisk -q {} < {}", text(&disk), text(&table)),
        ],
    );
    for seek in ["seek=2048", "seek=135168"] {
        let (from, to) = (format!("if={}", text(&part)), format!("of={}", text(&disk)));
        run(
            "dd",
            &[&from, &to, "bs=512", seek, "conv=notrunc", "status=none"],
        );
    }
    let ambiguous = Volume::open(&disk, Options::new()).unwrap_err();
    assert_eq!(ambiguous.kind(), ErrorKind::Ambiguous, "{ambiguous}");
    let missing = Volume::open(with(&disk, "@3"), Options::new()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    let second = Volume::open(with(&disk, "@2"), Options::new())?;
    assert_eq!(second.read_to_string("/d/hello")?, "Hello, kernel");
    assert_eq!(second.name(), with(&disk, "@2").as_str());
    Ok(())
}

/// Runs a call on a thread of its own, and fails if it never returns.
fn returns<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(call()));
    let result = result.recv_timeout(Duration::from_secs(60));
    result.expect("the call hangs")
}

#[test]
fn a_fifo_of_the_image_is_not_waited_for() -> Result {
    let work = Work::new();
    let tree = work.path("tree");
    fs::create_dir(&tree)?;
    run("mkfifo", &[text(&tree.join("fifo"))]);
    fs::write(tree.join("file"), "text")?;
    let image = work.empty_ext4("image", 16, &["-d", text(&tree)]);
    let errors = returns(move || {
        let disk = Volume::open_writable(&image, Options::new()).unwrap();
        let walk = disk.walk("/").unwrap().map(|entry| entry.unwrap());
        let fifo = walk.filter(|entry| entry.file_name() == "fifo").last();
        let errors = [
            disk.read("/fifo").map(drop),
            disk.write("/fifo", "x"),
            disk.copy("/fifo", "/copy").map(drop),
            disk.copy("/file", "/fifo").map(drop),
            fifo.unwrap().open().map(drop),
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(&disk, "/fifo")
                .map(drop),
        ];
        assert_eq!(disk.read("/file").unwrap(), b"text");
        disk.close().unwrap();
        errors
    });
    for (index, result) in errors.into_iter().enumerate() {
        let error = result.unwrap_err();
        assert_eq!(
            ErrorKind::of(&error),
            ErrorKind::Unsupported,
            "{index}: {error}"
        );
        assert!(error.to_string().contains("FIFO"), "{index}: {error}");
    }
    Ok(())
}

#[test]
fn the_root_is_not_emptied() -> Result {
    let work = Work::new();
    let disk = Volume::open_writable(work.ext4("image"), Options::new())?;
    for path in ["/", "/d/..", "", "."] {
        let error = disk.remove_dir_all(path).unwrap_err();
        assert_eq!(ErrorKind::of(&error), ErrorKind::Usage, "{path}: {error}");
        assert_eq!(disk.read_to_string("/d/hello")?, "Hello, kernel", "{path}");
    }
    disk.close()?;
    Ok(())
}

#[test]
fn text_that_is_not_utf8_is_no_damage() -> Result {
    let work = Work::new();
    let disk = Volume::open(work.ext4("image"), Options::new())?;
    let error = disk.read_to_string("/d/noise").unwrap_err();
    assert_eq!(ErrorKind::of(&error), ErrorKind::Other, "{error}");
    disk.close()?;
    Ok(())
}

#[test]
fn large_files_are_not_read_at_once() -> Result {
    let work = Work::new();
    let disk = Volume::open_writable(work.ext4("image"), Options::new())?;
    disk.create("/large")?.set_len((1 << 30) + 1)?;
    // Without a block.
    disk.create("/largest")?.set_len(1 << 41)?;
    // Lengths alone: a failed test must not print the contents.
    let lengths = [
        disk.read("/largest").map(|data| data.len()),
        disk.read_to_string("/largest").map(|text| text.len()),
        disk.read("/large").map(|data| data.len()),
        disk.read_to_string("/large").map(|text| text.len()),
        disk.read_at_most("/large", 1 << 30).map(|data| data.len()),
    ];
    for length in lengths {
        let error = length.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge, "{error}");
        let text = error.to_string();
        assert!(text.contains("more than 1073741824 bytes"), "{text}");
    }
    disk.close()?;
    Ok(())
}
