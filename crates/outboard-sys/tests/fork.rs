// SPDX-License-Identifier: GPL-2.0-only
//! A fork(2) while kernels run. Its own process: the child has nothing of the threads of other
//! tests. Needs the real library.

mod forked;

use forked::fork;
use outboard_sys::kernel::Config;
use outboard_sys::{
    end_at_once, errno, libc, EmptyInstance, Fd, FileLock, Instance, KernelError, System,
};
use std::fs::{self, File};
use std::io;

fn boot() -> io::Result<Instance> {
    EmptyInstance::new()?.boot(Config {
        vcpus: 2,
        memory: 64 << 20,
        ..Config::default()
    })
}

fn open(instance: &Instance) -> io::Result<Fd> {
    let root = Fd::working_directory(&System::Kernel(instance.clone()));
    root.open_at(c"/tmp/file", libc::O_RDWR | libc::O_CREAT, 0o600)
}

fn is_gone(file: &Fd) -> bool {
    let error = file.write(b"x").expect_err("it is the parent's");
    errno(&error) == Some(libc::ENODEV) && KernelError::of(&error) == Some(KernelError::InParent)
}

fn is_in_parent<T>(result: io::Result<T>) -> bool {
    result.err().as_ref().and_then(KernelError::of) == Some(KernelError::InParent)
}

/// Returns the number of what is wrong in the child, 0 for nothing. Drops all that it has of the
/// parent.
fn child(instance: Instance, file: Fd, prepared: EmptyInstance, lock: FileLock) -> i32 {
    let inherited = is_gone(&file)
        && instance.check() == Err(KernelError::InParent)
        && is_in_parent(instance.load_component("ext4", ""))
        && is_in_parent(instance.remove_disk(0))
        && is_in_parent(instance.halt());
    if !inherited {
        return 1;
    }
    let Ok(own) = boot() else { return 2 };
    let Ok(new) = open(&own) else { return 3 };
    if new.raw() != file.raw() || new.write_all(b"child").is_err() || !is_gone(&file) {
        return 4;
    }
    drop((instance, file, lock));
    if new.stat().map_or(0, |stat| stat.st_size) != 5 || own.halt().is_err() {
        return 5;
    }
    match prepared.boot(Config::default()) {
        Ok(_) => 0,
        Err(_) => 6,
    }
}

#[test]
fn a_child_has_none_and_boots_its_own() -> io::Result<()> {
    let instance = boot()?;
    let file = open(&instance)?;
    let image = std::env::temp_dir().join(format!("outboard-lock-{}", std::process::id()));
    let lock = FileLock::new(File::create(&image)?, true)?;
    let prepared = EmptyInstance::new()?;
    prepared.prepare();
    file.write_all(b"parent")?;
    let Some(forked) = fork() else {
        end_at_once(child(instance, file, prepared, lock));
    };
    forked.check();
    assert_eq!(file.stat()?.st_size, 6, "the parent's goes on");
    let other = || FileLock::new(File::open(&image)?, false);
    assert!(other().is_err(), "the parent has its lock");
    drop(lock);
    drop(other()?);
    fs::remove_file(&image)?;
    instance.halt()
}
