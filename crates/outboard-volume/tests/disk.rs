// SPDX-License-Identifier: GPL-2.0-only
//! Disks with several volumes, as programs use them. Needs mke2fs, sfdisk, cryptsetup and qemu-img.

use outboard_test_images::{check_ext4, run, text, Work};
use outboard_volume::{Disk, ErrorKind, OpenOptions, Options, TableKind, Volume, VolumeEntry};
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

type Result = std::result::Result<(), Box<dyn Error>>;

const MIB: u64 = 1 << 20;
/// Of each file system.
const SIZE: u64 = 16;
/// The offsets of a physical volume's data and of its metadata.
const DATA: u64 = 1;
const AREA: usize = 4096;
const AREA_SIZE: usize = 64 << 10;

/// An ext4 with one file, /name.
fn file_system(work: &Work, name: &str) -> PathBuf {
    let tree = work.path(&format!("{name}.tree"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("name"), name).unwrap();
    work.empty_ext4(name, SIZE, &["-d", text(&tree)])
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The checksum of LVM.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0xf597_a6cf);
    hasher.update(bytes);
    (!hasher.finalize()).to_le_bytes()
}

/// The beginning of a physical volume with the group vg0: the logical volumes have these names, and
/// lie one behind the other.
fn physical_volume(names: &[&str]) -> Vec<u8> {
    let id = "012345-6789-abcd-efgh-ijkl-mnop-qrstuv";
    let volume = |(index, name): (usize, &&str)| {
        let first = index as u64 * SIZE;
        format!(
            "{name} {{ id = \"{name}\" status = [\"READ\", \"WRITE\", \"VISIBLE\"] segment1 {{ \
             start_extent = 0 extent_count = {SIZE} type = \"striped\" stripes = [\"pv0\", \
             {first}] }} }}\n"
        )
    };
    let volumes: String = names.iter().enumerate().map(volume).collect();
    let group = format!(
        "vg0 {{ id = \"aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggggg\" seqno = 1 extent_size = 2048 \
         physical_volumes {{ pv0 {{ id = \"{id}\" pe_start = {} pe_count = {} }} }} \
         logical_volumes {{ {volumes} }} }}\n\
         contents = \"Text Format Volume Group\"\nversion = 1\n\0",
        DATA << 11,
        SIZE * names.len() as u64
    );
    let mut bytes = vec![0; MIB as usize];
    put(&mut bytes, 512, b"LABELONE");
    put(&mut bytes, 520, &1u64.to_le_bytes());
    put(&mut bytes, 532, &32u32.to_le_bytes());
    put(&mut bytes, 536, b"LVM2 001");
    put(&mut bytes, 544, id.replace('-', "").as_bytes());
    put(&mut bytes, 584, &(DATA << 20).to_le_bytes());
    put(&mut bytes, 616, &(AREA as u64).to_le_bytes());
    put(&mut bytes, 624, &(AREA_SIZE as u64).to_le_bytes());
    put(&mut bytes, AREA + 512, group.as_bytes());
    put(&mut bytes, AREA + 4, b" LVM2 x[5A%r0N*>");
    put(&mut bytes, AREA + 20, &1u32.to_le_bytes());
    put(&mut bytes, AREA + 24, &(AREA as u64).to_le_bytes());
    put(&mut bytes, AREA + 32, &(AREA_SIZE as u64).to_le_bytes());
    put(&mut bytes, AREA + 40, &512u64.to_le_bytes());
    put(&mut bytes, AREA + 48, &(group.len() as u64).to_le_bytes());
    put(&mut bytes, AREA + 56, &checksum(group.as_bytes()));
    let sums = [AREA + 4..AREA + 512, 532..1024].map(|range| checksum(&bytes[range]));
    put(&mut bytes, AREA, &sums[0]);
    put(&mut bytes, 528, &sums[1]);
    bytes
}

/// The offsets of the file systems of [`server`], in MiB.
const PLACES: [(&str, u64); 4] = [("one", 1), ("two", 17), ("root", 34), ("home", 50)];

/// A disk with ext4 in the partitions 1 and 2, and in the logical volumes vg0/root and vg0/home of
/// partition 3.
fn server(work: &Work) -> PathBuf {
    let disk = work.sparse("server", 70);
    let table = work.path("table");
    let sectors = |mib: u64| mib << 11;
    let line =
        |start: u64, size: u64| format!("start={}, size={}\n", sectors(start), sectors(size));
    let lines = [line(1, SIZE), line(17, SIZE), line(33, 36)].concat();
    fs::write(&table, format!("label: gpt\n{lines}")).unwrap();
    let command = format!("sfdisk -q {} < {}", text(&disk), text(&table));
    run("sh", &["-c", &command]);
    let file = File::options().write(true).open(&disk).unwrap();
    let group = physical_volume(&["root", "home"]);
    file.write_all_at(&group, 33 * MIB).unwrap();
    for (name, place) in PLACES {
        let bytes = fs::read(file_system(work, name)).unwrap();
        file.write_all_at(&bytes, place * MIB).unwrap();
    }
    disk
}

/// Checks each file system of a server.
fn check_server(work: &Work, disk: &Path) {
    let file = File::open(disk).unwrap();
    let copy = work.path("copy");
    for (_, place) in PLACES {
        let mut bytes = vec![0; (SIZE * MIB) as usize];
        file.read_exact_at(&mut bytes, place * MIB).unwrap();
        fs::write(&copy, bytes).unwrap();
        check_ext4(&copy);
    }
}

const VOLUMES: [(&str, &str); 4] = [
    ("1", "one"),
    ("2", "two"),
    ("vg0/root", "root"),
    ("vg0/home", "home"),
];

#[test]
fn a_disk_lists_what_is_in_it() -> Result {
    let work = Work::new();
    let image = server(&work);
    let disk = Disk::open(&image, Options::new())?;
    assert_eq!((disk.format()?, disk.size()?), ("raw", 70 * MIB));
    assert!(disk.is_read_only() && disk.backing()?.is_empty());
    assert_eq!(disk.name(), image.as_os_str());
    let table = disk.table()?.expect("a partition table");
    assert_eq!((table.kind, table.partitions.len()), (TableKind::Gpt, 3));
    assert_eq!(table.partitions[1].start, 17 * MIB);
    let described = |entry: &VolumeEntry| {
        let name = entry.name().to_str().unwrap();
        let kind = entry.kind().unwrap_or("-");
        let size = entry.size().unwrap() / MIB;
        format!("{name} {} {kind} {size}", entry.sort())
    };
    let listed: Vec<String> = disk.volumes()?.iter().map(described).collect();
    assert_eq!(
        listed,
        [
            "1 partition ext4 16",
            "2 partition ext4 16",
            "3 partition LVM2_member 36",
            "vg0/home logical volume ext4 16",
            "vg0/root logical volume ext4 16",
        ]
    );
    let on: Vec<_> = disk.volumes()?[3].on().map(|on| on.to_owned()).collect();
    assert_eq!(on, ["3"]);
    // Every name that it lists, and that has a file system, can be opened.
    for entry in disk
        .volumes()?
        .iter()
        .filter(|entry| entry.is_file_system())
    {
        assert!(disk.volume(entry.name())?.exists("/name")?);
    }
    assert_eq!(disk.warnings(), [""; 0]);
    Ok(disk.close()?)
}

#[test]
fn a_qcow2_names_what_it_is_based_on() -> Result {
    let work = Work::new();
    let (base, top) = (file_system(&work, "base"), work.path("top.qcow2"));
    let words = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-F",
        "raw",
        "-b",
        text(&base),
        text(&top),
    ];
    run("qemu-img", &words);
    let disk = Disk::open(&top, Options::new())?;
    assert_eq!((disk.format()?, disk.table()?), ("qcow2", None));
    assert_eq!(disk.backing()?, [base.canonicalize()?]);
    let entries = disk.volumes()?;
    assert_eq!((entries.len(), entries[0].sort()), (1, "disk"));
    assert_eq!(
        disk.volume(entries[0].name())?.read_to_string("/name")?,
        "base"
    );
    Ok(disk.close()?)
}

#[test]
fn volumes_share_a_kernel() -> Result {
    let work = Work::new();
    let image = server(&work);
    let disk = Disk::open(&image, Options::new())?;
    let volumes: Vec<Volume> = VOLUMES
        .iter()
        .map(|(name, _)| disk.volume(name))
        .collect::<outboard_volume::Result<_>>()?;
    for (volume, (name, contents)) in volumes.iter().zip(VOLUMES) {
        assert_eq!(volume.read_to_string("/name")?, contents);
        let full = format!("{}@{name}", text(&image));
        assert_eq!(volume.name(), full.as_str());
        assert_eq!((volume.kind(), volume.is_read_only()), ("ext4", true));
    }
    // Readers of one volume share its mount, which ends with the last of them.
    let again = disk.volume("3@vg0/root")?;
    drop(volumes);
    assert_eq!(again.read_to_string("/name")?, "root");
    again.close()?;
    // More than a process can have kernels.
    for _ in 0..20 {
        disk.volume("1")?.close()?;
    }
    Ok(disk.close()?)
}

#[test]
fn volumes_are_opened_while_others_are_used() -> Result {
    let work = Work::new();
    let image = server(&work);
    let disk = Disk::open_writable(&image, Options::new().vcpus(2))?;
    let one = disk.volume_writable("1")?;
    let shared = &disk;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) || count == 0 {
                one.write("/count", format!("{count}"))?;
                count += 1;
            }
            one.read_to_string("/count").map(|text| (text, count - 1))
        });
        let openers: Vec<_> = VOLUMES[1..]
            .iter()
            .map(|(name, contents)| {
                scope.spawn(move || {
                    for _ in 0..5 {
                        let volume = shared.volume_writable(name).unwrap();
                        assert_eq!(volume.read_to_string("/name").unwrap(), *contents);
                        volume.write("/written", *contents).unwrap();
                        volume.close().unwrap();
                        assert!(shared.volumes().unwrap().len() >= 5);
                    }
                })
            })
            .collect();
        let opened: Vec<_> = openers.into_iter().map(|opener| opener.join()).collect();
        done.store(true, Ordering::Relaxed);
        let (text, count) = writer.join().unwrap().unwrap();
        assert_eq!(text, count.to_string());
        assert!(opened.iter().all(|opened| opened.is_ok()));
    });
    one.close()?;
    disk.close()?;
    check_server(&work, &image);
    let disk = Disk::open(&image, Options::new())?;
    for (name, contents) in &VOLUMES[1..] {
        assert_eq!(disk.volume(name)?.read_to_string("/written")?, *contents);
    }
    Ok(disk.close()?)
}

/// Checks that a volume is excluded by another one, and that the error names both.
fn excluded(error: outboard_volume::Error, names: [&str; 2]) {
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(error.path().is_some(), "{error}");
    for name in names {
        assert!(error.message().contains(name), "{error}");
    }
}

#[test]
fn a_writer_excludes_others_of_its_bytes() -> Result {
    let work = Work::new();
    let image = server(&work);
    let disk = Disk::open_writable(&image, Options::new())?;
    let one = disk.volume_writable("1")?;
    excluded(disk.volume("1").unwrap_err(), ["server@1", "writing"]);
    excluded(
        disk.volume_writable("1").unwrap_err(),
        ["server@1", "writing"],
    );
    // Another partition is no part of it, and nor is a group in another one.
    let two = disk.volume_writable("2")?;
    let root = disk.volume_writable("vg0/root")?;
    excluded(
        disk.volume("3@vg0/root").unwrap_err(),
        ["server@vg0/root", "writing"],
    );
    // Volumes of one group have a partition in common, but no bytes.
    let home = disk.volume("vg0/home")?;
    excluded(
        disk.volume_writable("vg0/home").unwrap_err(),
        ["server@vg0/home", "reading"],
    );
    assert_eq!(home.read_to_string("/name")?, "home");
    for volume in [one, two, root, home] {
        volume.close()?;
    }
    // Once the writer is closed, the others can be opened.
    let volumes = VOLUMES.map(|(name, _)| disk.volume_writable(name));
    for (volume, (_, contents)) in volumes.into_iter().zip(VOLUMES) {
        let volume = volume?;
        volume.write("/new", contents)?;
        volume.sync()?;
        volume.close()?;
    }
    disk.close()?;
    check_server(&work, &image);
    Ok(())
}

#[test]
fn a_disk_for_reading_has_no_writers() -> Result {
    let work = Work::new();
    let image = server(&work);
    let before = fs::read(&image)?;
    let disk = Disk::open(&image, Options::new())?;
    let error = disk.volume_writable("1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    let volume = disk.volume("1")?;
    assert!(volume.write("/new", "x").is_err());
    // Another reader of the image is no hindrance, but a writer is.
    Disk::open(&image, Options::new())?.close()?;
    let writer = Disk::open_writable(&image, Options::new()).unwrap_err();
    assert_eq!(writer.kind(), ErrorKind::Locked, "{writer}");
    volume.close()?;
    disk.close()?;
    assert!(
        fs::read(&image)? == before,
        "a disk for reading changed its image"
    );
    Ok(())
}

#[test]
fn volumes_outlive_their_disk() -> Result {
    let work = Work::new();
    let image = server(&work);
    let disk = Disk::open_writable(&image, Options::new())?;
    let (one, two) = (disk.volume_writable("1")?, disk.volume("2")?);
    one.write("/new", "text")?;
    let error = disk.close().expect_err("volumes are open");
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    for name in ["server@1", "server@2"] {
        assert!(error.message().contains(name), "{error}");
    }
    assert_eq!(one.read_to_string("/new")?, "text");
    one.close()?;
    let locked = Disk::open(&image, Options::new()).unwrap_err();
    assert_eq!(locked.kind(), ErrorKind::Locked, "{locked}");
    assert_eq!(two.read_to_string("/name")?, "two");
    two.close()?;
    let disk = Disk::open(&image, Options::new())?;
    let one = disk.volume("1")?;
    drop(disk);
    assert_eq!(one.read_to_string("/new")?, "text");
    drop(one);
    check_server(&work, &image);
    Ok(Disk::open_writable(&image, Options::new())?.close()?)
}

#[test]
fn files_outlive_their_volume_until_the_disk_is_closed() -> Result {
    let work = Work::new();
    let image = server(&work);
    let disk = Disk::open_writable(&image, Options::new())?;
    let (one, two) = (disk.volume_writable("1")?, disk.volume("2")?);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&one, "/name")?;
    let error = one.close().expect_err("a file is open");
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    let mut contents = String::new();
    file.read_to_string(&mut contents)?;
    assert_eq!(contents, "one");
    // More than a block, so that its size and place change.
    let written = "later".repeat(10_000);
    file.write_all_at(written.as_bytes(), 0)?;
    two.close()?;
    disk.close()?;
    let closed = file.metadata().expect_err("its kernel is gone");
    assert_eq!(ErrorKind::of(&closed), ErrorKind::Closed);
    let disk = Disk::open(&image, Options::new())?;
    let one = disk.volume("1")?;
    assert_eq!(one.read_to_string("/name")?, written);
    one.close()?;
    disk.close()?;
    check_server(&work, &image);
    Ok(())
}

#[test]
fn what_cannot_be_opened_leaves_nothing() -> Result {
    let work = Work::new();
    let image = server(&work);
    let name = |volume: &str| format!("{}@{volume}", text(&image));
    let usage = Disk::open(name("2"), Options::new()).unwrap_err();
    assert_eq!(usage.kind(), ErrorKind::Usage, "{usage}");
    let missing = Disk::open(work.path("none"), Options::new()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    let disk = Disk::open_writable(&image, Options::new())?;
    for (volume, kind) in [
        ("9", ErrorKind::NotFound),
        ("vg0/none", ErrorKind::NotFound),
        ("1@sub", ErrorKind::NotFound),
        ("", ErrorKind::Ambiguous),
        ("3", ErrorKind::Ambiguous),
    ] {
        for error in [disk.volume(volume), disk.volume_writable(volume)] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), kind, "{volume}: {error}");
            assert!(error.path().is_some(), "{volume}: {error}");
        }
    }
    // Nothing of them is mounted.
    for (volume, _) in VOLUMES {
        disk.volume_writable(volume)?.close()?;
    }
    disk.close()?;
    check_server(&work, &image);
    let zeroes = Disk::open(work.sparse("zeroes", 1), Options::new())?;
    assert!(zeroes.volumes()?.is_empty());
    let nothing = zeroes.volume("").unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NotAFileSystem, "{nothing}");
    Ok(zeroes.close()?)
}

#[test]
fn keys_come_from_the_options() -> Result {
    let work = Work::new();
    let (image, key) = work.encrypted("image");
    let disk = Disk::open(&image, Options::new())?;
    let entries = disk.volumes()?;
    assert_eq!((entries.len(), entries[0].kind()), (1, Some("crypto_LUKS")));
    assert!(entries[0].is_locked());
    let error = disk.volume("").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyNeeded, "{error}");
    disk.close()?;
    let disk = Disk::open_writable(&image, Options::new().key(b"wrong"))?;
    let error = disk.volume("").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongKey, "{error}");
    disk.close()?;
    let disk = Disk::open_writable(&image, Options::new().key_file(&key))?;
    let entries = disk.volumes()?;
    assert!(entries.iter().all(|entry| !entry.is_locked()));
    assert_eq!(entries.last().and_then(VolumeEntry::kind), Some("ext4"));
    let volume = disk.volume_writable("")?;
    excluded(disk.volume("").unwrap_err(), ["image", "writing"]);
    volume.write("/new", "text")?;
    volume.close()?;
    assert_eq!(disk.volume("")?.read_to_string("/new")?, "text");
    Ok(disk.close()?)
}

#[test]
fn an_image_that_vanishes_under_an_open_disk() -> Result {
    let work = Work::new();
    let image = server(&work);
    let disk = Disk::open_writable(&image, Options::new())?;
    let volume = disk.volume_writable("1")?;
    fs::remove_file(&image)?;
    volume.write("/new", "text")?;
    // The kernel has the file; a new volume of it can be opened, too.
    assert_eq!(disk.volume("2")?.read_to_string("/name")?, "two");
    volume.close()?;
    let error = disk.close().expect_err("it is written to no file");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.message().contains("removed"), "{error}");
    Ok(())
}
