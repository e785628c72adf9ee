// SPDX-License-Identifier: GPL-2.0-only
//! Disk images for the tests of the other crates. The distribution's tools make them. A failure
//! panics.

pub mod nine_p;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of the file `noise` in an image of [`Work::ext4`].
pub const NOISE: u64 = 8 << 20;

/// A directory for one test, removed at the end.
pub struct Work(tempfile::TempDir);

impl Default for Work {
    fn default() -> Self {
        Self::new()
    }
}

impl Work {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file of this size that is one hole.
    pub fn sparse(&self, name: &str, megabytes: u64) -> PathBuf {
        let path = self.path(name);
        let file = File::create(&path).unwrap();
        file.set_len(megabytes << 20).unwrap();
        path
    }

    /// An image of an empty ext4 file system. `words`: more options of mke2fs.
    pub fn empty_ext4(&self, name: &str, megabytes: u64, words: &[&str]) -> PathBuf {
        let path = self.sparse(name, megabytes);
        let first = ["-q", "-F", "-t", "ext4"];
        run("mke2fs", &[&first, words, &[text(&path)]].concat());
        path
    }

    /// An ext4 image with the directory /d, and in there `hello` and eight MiB of `noise`.
    pub fn ext4(&self, name: &str) -> PathBuf {
        let tree = self.path(&format!("{name}.tree"));
        fs::create_dir_all(tree.join("d")).unwrap();
        fs::write(tree.join("d/hello"), "Hello, kernel").unwrap();
        let noise: Vec<u8> = (0..NOISE as u32 / 4)
            .flat_map(|number| number.wrapping_mul(2654435761).to_le_bytes())
            .collect();
        fs::write(tree.join("d/noise"), noise).unwrap();
        self.empty_ext4(name, 64, &["-d", text(&tree)])
    }

    /// The same in a volume of LUKS2, and the file with its key.
    pub fn encrypted(&self, name: &str) -> (PathBuf, PathBuf) {
        let (path, key) = (self.ext4(name), self.path(&format!("{name}.key")));
        fs::write(&key, "correct horse").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(96 << 20).unwrap();
        let mut words = vec!["-q", "reencrypt", "--encrypt", "--type", "luks2"];
        words.extend(["--reduce-device-size", "32M", "--pbkdf", "pbkdf2"]);
        words.extend(["--pbkdf-force-iterations", "1000"]);
        words.extend(["--key-file", text(&key), text(&path)]);
        run("cryptsetup", &words);
        (path, key)
    }

    /// A qcow2 image with the disk of a raw one.
    pub fn qcow2(&self, name: &str, raw: &Path) -> PathBuf {
        self.converted(name, "qcow2", raw)
    }

    /// A dynamic vhd image with the disk of a raw one.
    pub fn vhd(&self, name: &str, raw: &Path) -> PathBuf {
        self.converted(name, "vpc", raw)
    }

    fn converted(&self, name: &str, format: &str, raw: &Path) -> PathBuf {
        let path = self.path(name);
        let words = ["convert", "-O", format, text(raw), text(&path)];
        run("qemu-img", &words);
        path
    }
}

/// The path of a test, which is always text.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a tool of the distribution.
pub fn run(tool: &str, words: &[&str]) {
    let done = Command::new(tool)
        .args(words)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}"));
    let printed = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{tool} {words:?}: {printed}");
}

/// Checks that a file system is whole, and has no journal to replay.
pub fn check_ext4(path: &Path) {
    run("e2fsck", &["-f", "-n", text(path)]);
}
