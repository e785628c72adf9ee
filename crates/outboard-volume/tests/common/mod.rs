// SPDX-License-Identifier: GPL-2.0-only
//! Images by the distribution's tools, for the tests of this directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory for one test, removed at the end.
pub struct Work(tempfile::TempDir);

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
        File::create(&path)
            .unwrap()
            .set_len(megabytes << 20)
            .unwrap();
        path
    }

    /// An ext4 image with the directory /d, and in there `hello` and eight MiB of `noise`.
    pub fn ext4(&self, name: &str) -> PathBuf {
        let tree = self.path(&format!("{name}.tree"));
        fs::create_dir_all(tree.join("d")).unwrap();
        fs::write(tree.join("d/hello"), "Hello, kernel").unwrap();
        let noise: Vec<u8> = (0u32..2 << 20)
            .flat_map(|n| n.wrapping_mul(2654435761).to_le_bytes())
            .collect();
        fs::write(tree.join("d/noise"), noise).unwrap();
        let path = self.sparse(name, 64);
        let tree = tree.to_str().unwrap().to_owned();
        run(
            "mke2fs",
            &["-q", "-F", "-t", "ext4", "-d", &tree, text(&path)],
        );
        path
    }

    /// The same in a volume of LUKS2, and the file with its key.
    pub fn encrypted(&self, name: &str) -> (PathBuf, PathBuf) {
        let (path, key) = (self.ext4(name), self.path(&format!("{name}.key")));
        fs::write(&key, "correct horse").unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(96 << 20)
            .unwrap();
        let mut words = vec!["-q", "reencrypt", "--encrypt", "--type", "luks2"];
        words.extend(["--reduce-device-size", "32M", "--pbkdf", "pbkdf2"]);
        words.extend([
            "--pbkdf-force-iterations",
            "1000",
            "--key-file",
            text(&key),
            text(&path),
        ]);
        run("cryptsetup", &words);
        (path, key)
    }
}

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
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{tool} {words:?}: {said}");
}

/// Whole, and with no journal to replay.
pub fn check_ext4(path: &Path) {
    run("e2fsck", &["-f", "-n", text(path)]);
}
