// SPDX-License-Identifier: GPL-2.0-only
//! Several kernels in one process, one after the other and side by side: each test has the process
//! for itself. Needs the real library and mke2fs.

use outboard::{DiskOptions, Fd, File, Kernel, KernelError, Mount, MountOptions};
use outboard_test_images::Work;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

const EAGAIN: i32 = 11;
const ENODEV: i32 = 19;
const EXDEV: i32 = 18;
const O_WRONLY: i32 = 1;
const O_RDWR_CREAT: i32 = 0o102;

/// Kernels that a process can have.
const MOST: usize = 16;
const DATA: usize = 4 << 20;
const PIECE: usize = 64 << 10;

fn alone() -> MutexGuard<'static, ()> {
    static PROCESS: Mutex<()> = Mutex::new(());
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn builder() -> outboard::Builder {
    Kernel::builder().vcpus(2).memory(64 << 20)
}

fn root(kernel: &Kernel) -> Fd {
    Fd::working_directory(kernel.system())
}

/// A file in the kernel's own memory.
fn open(kernel: &Kernel) -> io::Result<Fd> {
    root(kernel).open_at(c"/tmp/file", O_RDWR_CREAT, 0o600)
}

/// An image of an empty ext4 file system, removed at the end.
struct Image {
    path: PathBuf,
    _work: Work,
}

impl Image {
    fn new() -> Self {
        let work = Work::new();
        Self {
            path: work.empty_ext4("image", 16, &[]),
            _work: work,
        }
    }

    fn mount(&self, kernel: &Kernel, options: &str) -> io::Result<Mount> {
        let disk = kernel.add_disk(&self.path, DiskOptions::read_write())?;
        let options = MountOptions::default().options(options);
        disk.device(None)?.mount(&options)
    }
}

fn write_file(mount: &Mount, text: &str) -> io::Result<()> {
    mount.create("/f")?.write_all(text.as_bytes())
}

fn read_file(mount: &Mount) -> io::Result<String> {
    let mut text = String::new();
    mount.open("/f")?.read_to_string(&mut text)?;
    Ok(text)
}

fn number<T>(result: io::Result<T>) -> Option<i32> {
    result.err().as_ref().and_then(outboard::errno)
}

fn reason<T>(result: io::Result<T>) -> Option<KernelError> {
    result.err().as_ref().and_then(KernelError::of)
}

fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..DATA).map(|_| next()).collect()
}

fn send(from: &Fd, to: &Fd) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    for offset in (0..DATA as u64).step_by(PIECE) {
        assert_eq!(from.read_at(&mut buffer, offset)?, PIECE);
        to.write_all_at(&buffer, offset)?;
    }
    Ok(())
}

fn contents(file: &Fd) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; DATA];
    assert_eq!(file.read_at(&mut bytes, 0)?, DATA);
    Ok(bytes)
}

#[test]
fn two_kernels_exchange_data() -> io::Result<()> {
    let _alone = alone();
    let (one, other) = (builder().boot()?, builder().boot()?);
    let name = |kernel: &Kernel, name| root(kernel).open_at(name, O_RDWR_CREAT, 0o600);
    let (mine, yours) = (noise(1), noise(2));
    let (ours, theirs) = (name(&one, c"/tmp/a")?, name(&other, c"/tmp/b")?);
    ours.write_all_at(&mine, 0)?;
    theirs.write_all_at(&yours, 0)?;
    let (copy, reply) = (name(&other, c"/tmp/a")?, name(&one, c"/tmp/b")?);
    thread::scope(|scope| {
        let there = scope.spawn(|| send(&ours, &copy));
        let back = scope.spawn(|| send(&theirs, &reply));
        there
            .join()
            .expect("no panic")
            .and(back.join().expect("no panic"))
    })?;
    assert!(contents(&copy)? == mine && contents(&reply)? == yours);
    one.halt()?;
    assert!(contents(&copy)? == mine, "the other one goes on");
    other.halt()
}

#[test]
fn what_is_of_one_kernel_is_nothing_to_another() -> io::Result<()> {
    let _alone = alone();
    let (one, other) = (builder().boot()?, builder().boot()?);
    let (ours, theirs) = (open(&one)?, open(&other)?);
    assert_eq!(ours.raw(), theirs.raw(), "their numbers are the same");
    let moved = root(&one).rename_at(c"/tmp/file", &root(&other), c"/tmp/new", 0);
    assert_eq!(number(moved), Some(EXDEV));
    let linked = root(&one).link_at(c"/tmp/file", &root(&other), c"/tmp/new", 0);
    assert_eq!(number(linked), Some(EXDEV));
    assert_eq!(number(ours.copy_range(0, &theirs, 0, 1)), Some(EXDEV));
    let image = Image::new();
    let device = one
        .add_disk(&image.path, DiskOptions::read_only())?
        .device(None)?;
    let below = [device];
    assert_eq!(number(other.map("m", true, &[], &below)), Some(EXDEV));
    assert_eq!(number(other.assemble((1, 2), &below, true)), Some(EXDEV));
    assert_eq!(number(other.register_btrfs(&below[0])), Some(EXDEV));
    Ok(())
}

#[test]
fn a_thread_is_somebody_else_in_each_kernel() -> io::Result<()> {
    let _alone = alone();
    let (one, other) = (builder().boot()?, builder().boot()?);
    let owner_of_new = |kernel: &Kernel, name| {
        let file = root(kernel).open_at(name, O_RDWR_CREAT, 0o666)?;
        let stat = file.stat()?;
        io::Result::Ok((stat.st_uid, stat.st_gid, stat.st_mode & 0o777))
    };
    one.make_files_as(5, 6, 0o022)?;
    other.make_files_as(7, 8, 0o077)?;
    assert_eq!(owner_of_new(&one, c"/tmp/1")?, (5, 6, 0o644));
    assert_eq!(owner_of_new(&other, c"/tmp/1")?, (7, 8, 0o600));
    one.make_files_as(0, 0, 0)?;
    assert_eq!(owner_of_new(&one, c"/tmp/2")?, (0, 0, 0o666));
    assert_eq!(owner_of_new(&other, c"/tmp/2")?, (7, 8, 0o600));
    Ok(())
}

#[test]
fn boots_again() -> io::Result<()> {
    let _alone = alone();
    let image = Image::new();
    let mut last: Option<Fd> = None;
    for turn in 0..50 {
        let kernel = builder().boot()?;
        let file = open(&kernel)?;
        if let Some(old) = last.replace(file) {
            assert_eq!(number(old.write(b"old")), Some(ENODEV), "boot {turn}");
        }
        let file = last.as_ref().expect("it was just stored");
        assert_eq!(file.stat()?.st_size, 0, "nothing of the boot before");
        file.write_all(b"new")?;
        let mount = image.mount(&kernel, "")?;
        if turn > 0 {
            assert_eq!(read_file(&mount)?, format!("boot {}", turn - 1));
        }
        write_file(&mount, &format!("boot {turn}"))?;
        mount.unmount()?;
        // By turns: it halts when it is dropped, too.
        match turn % 2 {
            0 => kernel.halt()?,
            _ => drop(kernel),
        }
    }
    Ok(())
}

#[test]
fn use_after_halt() -> io::Result<()> {
    let _alone = alone();
    let (image, later) = (Image::new(), Image::new());
    let old = builder().boot()?;
    let clone = old.clone();
    let mount = image.mount(&old, "")?;
    let device = mount.device().unwrap().clone();
    let file: File = mount.create("/f")?;
    let disk = old.add_disk(&later.path, DiskOptions::read_only())?;
    let directory = mount.read_dir("/")?;
    old.halt()?;

    // Its numbers of descriptors, disks and mounts are those of the old one.
    let new = builder().boot()?;
    let new_mount = later.mount(&new, "")?;
    write_file(&new_mount, "new")?;
    let here = open(&new)?;

    assert_eq!(number((&file).write(b"old")), Some(ENODEV));
    assert_eq!(reason((&file).write(b"old")), Some(KernelError::Halted));
    assert_eq!(number(mount.metadata("/f")), Some(ENODEV));
    assert_eq!(number(mount.open("/f")), Some(ENODEV));
    assert_eq!(number(directory.metadata()), Some(ENODEV));
    assert_eq!(number(mount.space()), Some(ENODEV));
    assert_eq!(number(mount.sync()), Some(ENODEV));
    assert_eq!(number(device.size()), Some(ENODEV));
    assert_eq!(number(disk.partitions()), Some(ENODEV));
    assert_eq!(number(disk.device(None)), Some(ENODEV));
    assert_eq!(number(mount.unmount()), Some(ENODEV));
    let added = clone.add_disk(&image.path, DiskOptions::read_only());
    assert_eq!(reason(added), Some(KernelError::Halted));
    let loaded = clone.load_component("xfs", "");
    assert_eq!(reason(loaded), Some(KernelError::Halted));
    assert_eq!(clone.check(), Err(KernelError::Halted));
    assert_eq!(reason(clone.halt()), Some(KernelError::Halted));
    drop((file, directory, device, disk));

    // Nothing of that has met the new one.
    new.check().expect("it runs");
    assert_eq!(read_file(&new_mount)?, "new");
    here.write_all(b"x")?;
    new_mount.unmount()?;
    new.halt()
}

/// How many tasks the kernel can have. With fewer than there are, a new thread cannot call.
fn limit_tasks(kernel: &Kernel, most: &str) -> io::Result<()> {
    let limit = root(kernel).open_at(c"/proc/sys/kernel/threads-max", O_WRONLY, 0)?;
    limit.write_all(most.as_bytes())
}

#[test]
fn a_refused_halt_changes_nothing() -> io::Result<()> {
    let _alone = alone();
    let image = Image::new();
    let kernel = builder().boot()?;
    let mount = image.mount(&kernel, "")?;
    write_file(&mount, "before")?;
    let file = open(&kernel)?;
    limit_tasks(&kernel, "1")?;
    let clone = kernel.clone();
    let refused = thread::spawn(|| clone.halt()).join().expect("no panic");
    assert_eq!(number(refused), Some(EAGAIN));
    kernel.check().expect("it runs");
    limit_tasks(&kernel, "1000")?;

    // All that it had is there, and it takes new work.
    file.write_all(b"x")?;
    assert_eq!(read_file(&mount)?, "before");
    write_file(&mount, "after")?;
    let clone = kernel.clone();
    let called = thread::spawn(move || open(&clone).map(drop)).join();
    called.expect("no panic")?;
    mount.unmount()?;
    let last = kernel.clone();
    kernel.halt()?;
    assert_eq!(last.check(), Err(KernelError::Halted));
    let again = builder().boot()?;
    assert_eq!(read_file(&image.mount(&again, "")?)?, "after");
    again.halt()
}

#[test]
fn a_panic_is_contained() -> io::Result<()> {
    let _alone = alone();
    let image = Image::new();
    let said = Arc::new(Mutex::new(Vec::new()));
    let (words, ended) = (Arc::clone(&said), Arc::new(AtomicBool::new(false)));
    let has_ended = Arc::clone(&ended);
    let doomed = builder()
        .contain_panic()
        .panic(move |text| {
            words
                .lock()
                .unwrap()
                .extend_from_slice(&text[..text.len().min(80)]);
            has_ended.store(true, Ordering::SeqCst);
        })
        .boot()?;
    let other = builder().boot()?;
    let mount = image.mount(&doomed, "errors=panic")?;
    let file = mount.create("/f")?;
    let work = open(&other)?;
    let system = doomed.system().clone();
    // It stays in its call for ever.
    thread::spawn(move || {
        let trigger = c"/sys/fs/ext4/vda/trigger_fs_error";
        let attribute = Fd::working_directory(&system).open_at(trigger, 1, 0);
        attribute.and_then(|attribute| attribute.write(b"test"))
    });
    while !ended.load(Ordering::SeqCst) {
        work.write_at(b"x", 0)?;
    }
    let said = String::from_utf8_lossy(&said.lock().unwrap()).into_owned();
    assert!(said.contains("EXT4-fs"), "{said}");
    assert_eq!(reason((&file).write(b"x")), Some(KernelError::Panicked));
    assert_eq!(number((&file).write(b"x")), Some(ENODEV));
    assert_eq!(doomed.check(), Err(KernelError::Panicked));
    let added = doomed.add_disk(&image.path, DiskOptions::read_only());
    assert_eq!(reason(added), Some(KernelError::Panicked));
    work.write_all(b"y")?;
    assert_eq!(reason(doomed.halt()), Some(KernelError::Panicked));
    other.halt()?;
    builder().boot()?.halt()
}

#[test]
fn too_many_have_a_name() -> io::Result<()> {
    let _alone = alone();
    let mut kernels = Vec::new();
    let error = loop {
        match builder().boot() {
            Ok(kernel) => kernels.push(kernel),
            Err(error) => break error,
        }
        assert!(kernels.len() <= MOST);
    };
    assert_eq!(KernelError::of(&error), Some(KernelError::TooMany));
    // One may have panicked in another test.
    assert!(kernels.len() >= MOST - 1);
    for kernel in &kernels {
        open(kernel)?.write_all(b"x")?;
    }
    drop(kernels.pop());
    builder().boot()?.halt()
}
