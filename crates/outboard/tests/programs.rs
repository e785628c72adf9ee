// SPDX-License-Identifier: GPL-2.0-only
//! Programs of a volume as processes of its kernel: the host's busybox with its libraries.

use outboard::{DiskOptions, HostDirectoryOptions, Kernel, Mount, MountOptions};
use outboard_test_images::Work;
use std::error::Error;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

type TestResult = Result<(), Box<dyn Error>>;

fn copy_into(tree: &Path, file: &str) -> std::io::Result<()> {
    let copy = tree.join(file.trim_start_matches('/'));
    fs::create_dir_all(copy.parent().expect("a file lies in a directory"))?;
    fs::copy(file, copy).map(drop)
}

/// A volume with /usr/bin/busybox.
fn volume(kernel: &Kernel, work: &Work) -> Result<Mount, Box<dyn Error>> {
    let tree = work.path("tree");
    let listed = Command::new("ldd").arg("/usr/bin/busybox").output()?.stdout;
    let listed = String::from_utf8(listed)?;
    let words = listed.split_whitespace();
    for file in words
        .filter(|word| word.starts_with('/'))
        .chain(["/usr/bin/busybox"])
    {
        copy_into(&tree, file)?;
    }
    let tree = outboard_test_images::text(&tree).to_owned();
    let image = work.empty_ext4("disk.img", 32, &["-d", &tree]);
    let disk = kernel.add_disk(&image, DiskOptions::read_only())?;
    Ok(disk.device(None)?.mount(&MountOptions::default())?)
}

#[test]
fn programs_run() -> TestResult {
    let work = Work::new();
    let kernel = Kernel::builder().vcpus(2).memory(256 << 20).boot()?;
    let mount = volume(&kernel, &work)?;
    let root = mount.program_root()?;

    let (mut output, end) = kernel.pipe()?;
    let (input_end, mut input) = kernel.pipe()?;
    let script =
        "read line; echo $line of $NAME in $PWD > /new; read back < /new; echo $back; exit 5";
    let mut shell = kernel.command("/usr/bin/busybox");
    shell
        .name("sh")
        .argument("-c")
        .argument(script)
        .variable("NAME", "kernel");
    shell
        .root(&root)?
        .directory("/usr")
        .input(input_end)
        .output(end);
    let child = shell.spawn()?;
    input.write_all(b"text\n")?;
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    assert_eq!(text, "text of kernel in /usr\n");
    assert_eq!(child.wait()?.code(), Some(5));

    // Nothing is inherited.
    let mut sleep = kernel.command("/usr/bin/busybox");
    let child = sleep
        .argument("sleep")
        .argument("1000")
        .root(&root)?
        .spawn()?;
    child.signal(15)?;
    assert_eq!(child.wait()?.signal(), Some(15));

    let nothing = kernel.command("/nothing").root(&root)?.spawn();
    assert_eq!(
        nothing.err().map(|error| error.kind()),
        Some(ErrorKind::NotFound)
    );
    assert!(!mount
        .read_dir("/")?
        .any(|entry| entry.is_ok_and(|entry| entry.file_name() == "new")));
    drop(root);
    mount.unmount()?;
    Ok(kernel.halt()?)
}

#[test]
fn directories_of_the_host_are_bound() -> TestResult {
    let work = Work::new();
    let shared = work.path("shared");
    fs::create_dir(&shared)?;
    fs::write(shared.join("in"), "from the host")?;
    fs::write(work.path("one file"), "alone")?;
    let kernel = Kernel::builder().vcpus(2).memory(256 << 20).boot()?;
    let options = HostDirectoryOptions::read_write();
    let directory = kernel.add_directory(&shared, options)?;
    let frozen = kernel.add_directory(&shared, HostDirectoryOptions::read_only())?;
    let file = kernel.add_directory(&work.path("one file"), options)?;
    assert_eq!(directory.mount()?.read_to_string("in")?, "from the host");

    let mount = volume(&kernel, &work)?;
    let root = mount.program_root()?;
    root.bind(&directory, "/srv/data".as_ref())?;
    root.bind(&frozen, "/srv/frozen".as_ref())?;
    root.bind(&file, "/etc/made/file".as_ref())?;
    let script = "cat() { /usr/bin/busybox cat \"$@\"; }; \
                  ls() { /usr/bin/busybox ls \"$@\"; }; \
                  cd /srv; cat data/in > data/out; echo more >> /etc/made/file; \
                  echo no > frozen/in && exit 9; cat frozen/out /etc/made/file; ls -A /run";
    let (mut output, end) = kernel.pipe()?;
    let mut shell = kernel.command("/usr/bin/busybox");
    shell.name("sh").argument("-c").argument(script);
    let program = shell.root(&root)?.output(end).spawn()?;
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    assert_eq!(text, "from the hostalonemore\n");
    assert!(program.wait()?.success());
    assert_eq!(fs::read_to_string(shared.join("out"))?, "from the host");
    assert_eq!(fs::read_to_string(work.path("one file"))?, "alonemore\n");

    let nowhere = kernel.add_directory("/nowhere/at/all".as_ref(), options);
    let error = nowhere.expect_err("there is no such directory");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        error.to_string(),
        "/nowhere/at/all: No such file or directory"
    );
    Ok(())
}
