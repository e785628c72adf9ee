// SPDX-License-Identifier: GPL-2.0-only
//! Keys of encrypted volumes: from a file, or typed on the terminal. Their memory is locked, core
//! dumps leave it out, and the session wipes it at its end ([`Secret`]).

use crate::options::Options;
use crate::standard_input::StandardInput;
use nix::sys::termios::{tcgetattr, tcsetattr, LocalFlags, SetArg, Termios};
pub use outboard::Secret;
use outboard::SecretFile;
use outboard_error::{warn, Error, Result};
use outboard_sandbox::interrupt::{Guard, Interrupt};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Most bytes of a key file, as for cryptsetup.
const LARGEST: usize = 8 << 20;
/// Bytes of the first buffer for a key file: small enough for every limit on locked memory.
const BUFFER: usize = 16 << 10;
/// Most bytes of a typed passphrase, as for cryptsetup.
const LONGEST: usize = 512;
const TERMINAL: &str = "/dev/tty";

/// The keys of a session.
#[derive(Default)]
pub struct Keys {
    /// The key of the options: what --key-file named, if it could be read.
    file: Option<Result<Secret>>,
    terminal: Option<File>,
    verbose: bool,
    /// Passphrases that opened a volume.
    typed: Vec<Secret>,
    /// Keys of volumes by UUID: no passphrase is derived twice.
    volumes: Vec<(String, Secret)>,
}

/// Reads to the end, without copies in other memory.
fn read_key(mut from: impl Read) -> io::Result<Secret> {
    let mut key = Secret::zeroed(BUFFER);
    let mut length = 0;
    while length <= LARGEST {
        if length == key.len() {
            let mut larger = Secret::zeroed((2 * length).min(LARGEST + 1));
            larger[..length].copy_from_slice(&key);
            key = larger;
        }
        match from.read(&mut key[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if length > LARGEST {
        let text = format!("it has more than {} MiB", LARGEST >> 20);
        return Err(io::Error::other(text));
    }
    Ok(Secret::from(&key[..length]))
}

/// Standard input without the buffer of [`io::stdin`], which would keep a copy.
fn standard_input() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// With -v, warns if a key could reach swap.
fn check_lock(key: &Secret, verbose: bool) {
    if verbose && !key.is_locked() {
        warn(
            "warning: the host does not lock the memory of a key (see ulimit -l): it may reach \
             swap",
        );
    }
}

fn read_file(path: &Path) -> Result<Secret> {
    let key = match path.as_os_str().as_bytes() {
        b"-" => standard_input().and_then(read_key),
        _ => File::open(path).and_then(read_key),
    };
    let path = path.as_os_str().as_bytes().to_vec();
    key.map_err(|error| Error::of_file("cannot read the key file", path, &error))
}

impl Keys {
    /// Reads the key file, or opens the terminal. The sandbox forbids both later.
    pub fn open(options: &Options) -> Self {
        let mut keys = Self::without_terminal(options);
        if keys.file.is_none() {
            keys.terminal = File::options().read(true).write(true).open(TERMINAL).ok();
        }
        keys
    }

    /// The key of the options alone: nobody is asked.
    pub fn without_terminal(options: &Options) -> Self {
        let given = options.key.clone().map(Ok);
        let file = given.or_else(|| options.key_file.as_ref().map(|path| read_file(path)));
        if let Some(Ok(key)) = &file {
            check_lock(key, options.verbose > 0);
        }
        Self {
            file,
            verbose: options.verbose > 0,
            ..Self::default()
        }
    }

    /// Passphrases to try, the one of the key file first.
    pub fn known(&self) -> Result<Vec<Secret>> {
        let file = self.file()?;
        Ok(file.into_iter().chain(self.typed.iter().cloned()).collect())
    }

    /// The key of the key file.
    pub fn file(&self) -> Result<Option<Secret>> {
        self.file.clone().transpose()
    }

    /// Whether there is a key file.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Keeps a passphrase that has opened a volume.
    pub fn remember(&mut self, passphrase: Secret) {
        if !self.typed.contains(&passphrase) {
            self.typed.push(passphrase);
        }
    }

    /// Keeps the key of the volume with this UUID.
    pub fn remember_volume(&mut self, uuid: &str, key: Secret) {
        self.volumes.retain(|(known, _)| known != uuid);
        self.volumes.push((uuid.to_owned(), key));
    }

    /// The kept key of the volume with this UUID.
    pub fn volume(&self, uuid: &str) -> Option<Secret> {
        let mut volumes = self.volumes.iter();
        volumes
            .find(|(known, _)| known == uuid)
            .map(|(_, key)| key.clone())
    }

    /// Asks on the terminal. `None`: there is no terminal. A signal ends the question and restores
    /// the terminal.
    pub fn ask(&self, question: &str) -> Result<Option<Secret>> {
        let Some(terminal) = &self.terminal else {
            return Ok(None);
        };
        let failed = |error: io::Error| Error::failed("cannot ask on the terminal", &error);
        // The guard keeps signals from ending the process while the terminal has no echo.
        let _guard = Guard::new();
        let interrupt = Interrupt::if_guarded();
        let quiet = Quiet::new(terminal).map_err(failed)?;
        let mut writer = terminal;
        write!(writer, "{question}").map_err(failed)?;
        let line = StandardInput::of_file(terminal, &interrupt).and_then(read_line);
        drop(quiet);
        writeln!(writer).map_err(failed)?;
        interrupt.check_before("no passphrase was typed")?;
        match line.map_err(failed)? {
            Some(line) => {
                check_lock(&line, self.verbose);
                Ok(Some(line))
            }
            None => Err(Error::Interrupted("interrupted".to_owned())),
        }
    }
}

/// A key in an unnamed memory file, which started programs inherit.
pub struct KeyFile {
    file: SecretFile,
}

impl KeyFile {
    pub fn new(key: &Secret) -> Result<Self> {
        let file = SecretFile::new(key)
            .map_err(|error| Error::failed("cannot pass the key to the server", &error))?;
        Ok(Self { file })
    }

    /// The path of the file in other processes.
    pub fn path(&self) -> PathBuf {
        format!("/dev/fd/{}", self.file.number()).into()
    }

    /// Overwrites the key. No program can read it any more.
    pub fn wipe(&mut self) {
        self.file.wipe();
    }
}

/// A terminal without echo, and without signals for keys such as Ctrl-C.
struct Quiet<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Quiet<'a> {
    fn new(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        quiet
            .local_flags
            .remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
        tcsetattr(terminal, SetArg::TCSAFLUSH, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, SetArg::TCSAFLUSH, &self.before);
    }
}

/// Reads a line. `None`: the user wants to stop.
fn read_line(mut from: impl Read) -> io::Result<Option<Secret>> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const ERASE_LINE: u8 = 21;
    let mut line = Secret::zeroed(LONGEST);
    let mut length = 0;
    let mut byte = Zeroizing::new([0]);
    loop {
        match from.read(&mut *byte) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        match byte[0] {
            INTERRUPT => return Ok(None),
            END if length == 0 => return Ok(None),
            b'\r' | b'\n' => {
                line.truncate(length);
                return Ok(Some(line));
            }
            8 | 127 => length = length.saturating_sub(1),
            ERASE_LINE => length = 0,
            typed if length < LONGEST => {
                line[length] = typed;
                length += 1;
            }
            _ => return Err(io::Error::other("a passphrase has at most 512 bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Option<Vec<u8>> {
        read_line(keys).unwrap().map(|line| line.to_vec())
    }

    #[test]
    fn lines_are_edited() {
        assert_eq!(typed(b"abc\nd").unwrap(), b"abc");
        assert_eq!(typed(b"ab\x7fc\r").unwrap(), b"ac");
        assert_eq!(typed(b"\x7fab\x15cd\n").unwrap(), b"cd");
        for stop in ["ab\x03", "\x04", "ab"] {
            assert_eq!(typed(stop.as_bytes()), None);
        }
        assert!(read_line([b'x'; 600].as_slice()).is_err());
    }

    #[test]
    fn key_files_are_whole() {
        assert_eq!(*read_key(b"a\nb\n".as_slice()).unwrap(), *b"a\nb\n");
        for size in [0, BUFFER - 1, BUFFER, BUFFER + 1, LARGEST] {
            let bytes = b"0123456".iter().copied().cycle().take(size);
            let bytes = bytes.collect::<Vec<u8>>();
            assert!(*read_key(bytes.as_slice()).unwrap() == *bytes, "{size}");
        }
        assert!(read_key(vec![0; LARGEST + 1].as_slice()).is_err());
        assert!(read_key(io::repeat(1)).is_err());
    }
}
