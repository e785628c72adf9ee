// SPDX-License-Identifier: GPL-2.0-only
//! Prints a file of an encrypted disk image: `read_file laptop.qcow2@3 KEY-FILE /etc/fstab`.

use outboard_volume::{ErrorKind, Options, Volume};
use std::io::{self, Write};
use std::process::ExitCode;

fn read(name: &str, key_file: &str, path: &str) -> Result<Vec<u8>, outboard_volume::Error> {
    let disk = Volume::open(name, Options::new().key_file(key_file))?;
    Ok(disk.read(path)?)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let [_, name, key_file, path] = words.as_slice() else {
        eprintln!("usage: read_file IMAGE[@VOLUME] KEY-FILE PATH");
        return ExitCode::from(2);
    };
    match read(name, key_file, path) {
        Ok(contents) => match io::stdout().write_all(&contents) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(match error.kind() {
                ErrorKind::WrongKey => 3,
                ErrorKind::NotFound => 4,
                _ => 1,
            })
        }
    }
}
