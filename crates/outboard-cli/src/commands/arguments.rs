// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use crate::commands::Command;
use clap::{Args, FromArgMatches, Parser};
use outboard::{profile, release, version, Inherited};
use outboard_volume::options::{Options, RootHash};
use std::ffi::OsString;
use std::path::PathBuf;

/// Open, read and write disk images with Linux's own file systems, without root.
///
/// A place inside an image is written IMAGE:/PATH, IMAGE@N:/PATH for partition N, and
/// IMAGE@NAME:/PATH for a volume that "outboard info" names. PATH may have wildcards: *, ?, [a-z].
/// Everything without ":/" is a path of the host, or an image or volume where a command takes one.
#[derive(Debug, Parser)]
#[command(name = "outboard", version = version_text(), max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub settings: Settings,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// Parses a command line, as [`Parser::try_parse_from`] does. To build the command lines of all
    /// commands takes longer than to boot the kernel, so those of other commands are left out at
    /// first. Help and errors need all of them.
    pub fn of(words: &[OsString]) -> Result<Self, clap::Error> {
        let quick = few_commands(words).try_get_matches_from(words);
        match quick.and_then(|matches| Self::from_arg_matches(&matches)) {
            Ok(arguments) => Ok(arguments),
            Err(_) => Self::try_parse_from(words),
        }
    }
}

/// The command line with the commands that one of the words names. The command line with all
/// commands accepts every line that this one accepts, in the same way.
fn few_commands(words: &[OsString]) -> clap::Command {
    let mut names: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    names.sort_unstable();
    names.dedup();
    let commands = names.into_iter().filter_map(Command::named);
    Settings::augment_args(clap::Command::new("outboard"))
        .subcommand_required(true)
        .subcommands(commands)
}

fn version_text() -> String {
    format!("{} (Linux {}, profile {})", version(), release(), profile())
}

/// How the kernel is run and images are opened.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Options of all commands")]
pub struct Settings {
    /// Type of the file system, as in "ext4" [default: found out]
    #[arg(long = "type", value_name = "TYPE", global = true)]
    pub kind: Option<String>,

    /// Open images read-only: not a byte of them changes
    #[arg(long = "ro", global = true)]
    pub read_only: bool,

    /// Take image files as raw disks, whatever format they seem to have
    #[arg(long, global = true)]
    pub raw: bool,

    /// Let a qcow2 image be based on this file, which is not in the image's own directory
    #[arg(long, value_name = "FILE", global = true)]
    pub backing: Vec<PathBuf>,

    /// Open encrypted volumes with the key in this file, all of it; "-": standard input [default:
    /// a passphrase is asked for on the terminal]
    #[arg(long, value_name = "FILE", global = true)]
    pub key_file: Option<PathBuf>,

    /// Open only what this root hash of dm-verity vouches for, in hexadecimal; its hashes are found
    #[arg(long, value_name = "HASH", global = true, value_parser = parse_hash)]
    pub verity: Option<RootHash>,

    /// Where the hashes begin in the device that they are of, in bytes [default: found after the
    /// file system, or in another partition]
    #[arg(long, value_name = "OFFSET", global = true, requires = "verity")]
    pub verity_offset: Option<u64>,

    /// The algorithm of dm-integrity's tags, as in "sha256" [default: crc32c]
    #[arg(long, value_name = "ALGORITHM", global = true, value_parser = parse_algorithm)]
    pub integrity: Option<String>,

    /// A further disk of the same machine, for RAIDs, volume groups and file systems on several
    /// disks; may be repeated
    #[arg(long = "disk", value_name = "IMAGE", global = true)]
    pub disks: Vec<PathBuf>,

    /// Virtual CPUs of the kernel, 1 to 64 [default: the host's, at most 4]
    #[arg(
        long,
        value_name = "N",
        global = true,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    pub vcpus: Option<u32>,

    /// Most memory that the kernel may use, as in 512M or 2G [default: a quarter of the host's, or
    /// half of what limits of cgroups leave; at most 2 GiB except for mount]
    #[arg(long, value_name = "SIZE", global = true, value_parser = parse_size)]
    pub memory: Option<u64>,

    /// Load a component from a .ko file first, as in an own file system's (see "make modules")
    #[arg(long = "component", value_name = "FILE", global = true)]
    pub components: Vec<PathBuf>,

    /// How servers are reached (nfs://, smb://, 9p://, nbd://): "host", by sockets of the host, or
    /// an interface, as in "tap:tap0,ip=10.0.0.2/24", in the words of docs/net.md [default: user]
    #[arg(long, value_name = "INTERFACE", global = true)]
    pub net: Option<String>,

    /// Seconds that a server may take for a request [default: 30]
    #[arg(
        long,
        value_name = "SECONDS",
        global = true,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub timeout: Option<u64>,

    /// Do not sandbox the program: an image that exploits a mistake of the kernel's code gets all
    /// your rights
    #[arg(long, global = true)]
    pub no_sandbox: bool,

    /// Take paths in images as they are written: *, ? and [ are no wildcards
    #[arg(long, global = true)]
    pub no_glob: bool,

    /// Show the kernel's messages (twice: all of them). Stands before the command, whose own -v may
    /// mean something else
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Settings {
    /// As the engine takes them.
    pub fn options(self) -> Options {
        Options {
            kind: self.kind,
            read_only: self.read_only,
            raw: self.raw,
            backing: self.backing,
            key_file: self.key_file,
            verity: self.verity,
            verity_offset: self.verity_offset,
            integrity: self.integrity,
            disks: self.disks,
            vcpus: self.vcpus,
            memory: self.memory,
            components: self.components,
            net: self.net,
            timeout: self.timeout,
            no_sandbox: self.no_sandbox,
            literal: self.no_glob,
            verbose: self.verbose,
            inherited: Inherited::default(),
            ..Options::default()
        }
    }
}

/// Bytes that are written in hexadecimal.
fn parse_hash(text: &str) -> std::result::Result<RootHash, String> {
    let wrong =
        || "a root hash has 32 to 128 hexadecimal digits, as veritysetup prints it".to_owned();
    let bytes = text.as_bytes();
    if !(32..=128).contains(&bytes.len()) || bytes.len() % 2 != 0 {
        return Err(wrong());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    let hash: Option<Vec<u8>> = bytes.chunks(2).map(byte).collect();
    hash.map(RootHash).ok_or_else(wrong)
}

/// The name of an algorithm that needs no key.
fn parse_algorithm(text: &str) -> std::result::Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    match !text.is_empty() && text.len() <= 32 && text.chars().all(good) {
        true => Ok(text.to_owned()),
        false => Err("an algorithm is a name such as crc32c or sha256".to_owned()),
    }
}

/// Splits "512M" at its unit, and finds the unit's bytes. Units are powers of 1024.
fn split_unit(text: &str) -> Option<(&str, u64)> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    Some((digits, 1 << shift))
}

/// "512M" in bytes.
pub fn parse_size(text: &str) -> std::result::Result<u64, String> {
    let number = split_unit(text).and_then(|(digits, unit)| {
        let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        whole.then(|| digits.parse::<u64>().ok()?.checked_mul(unit))
    });
    match number {
        Some(Some(bytes)) if bytes > 0 => Ok(bytes),
        Some(Some(_)) => Err("a size is at least 1 byte, as in 512M or 2G".to_owned()),
        Some(None) => Err(format!("\"{text}\" is too large: at most 16777215T")),
        None => Err(wrong_size(text)),
    }
}

/// Why a text is no size, and what to write for it.
fn wrong_size(text: &str) -> String {
    if let Some(bytes) = hexadecimal(text) {
        return format!("\"{text}\" is hexadecimal, but a size is a decimal number: write {bytes}");
    }
    match without_fraction(text) {
        Some(size) => {
            format!("\"{text}\" has a fraction, but a size is a whole number: write {size}")
        }
        None => format!("\"{text}\" is not a size such as 512M or 2G (units: K, M, G, T)"),
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| !digits.starts_with('+'))
}

/// "1536M" for "1.5G", rounded up.
fn without_fraction(text: &str) -> Option<String> {
    let (number, unit) = split_unit(text)?;
    let (whole, part) = number.split_once(['.', ','])?;
    let (smaller, name) = match unit.ilog2() {
        40 => (1 << 30, "G"),
        30 => (1 << 20, "M"),
        20 => (1 << 10, "K"),
        _ => (1u128, ""),
    };
    let digits = [whole, part].concat();
    let good = !part.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let scale = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let value = digits.parse::<u64>().ok().filter(|_| good)?;
    let bytes = (u128::from(value) * u128::from(unit)).div_ceil(scale);
    Some(format!("{}{name}", bytes.div_ceil(smaller)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::HashSet;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    /// Clap makes this check by itself only in debug builds.
    #[test]
    fn no_letter_means_two_options() {
        let mut all = Arguments::command();
        all.build();
        for command in all.get_subcommands() {
            let mut letters = HashSet::new();
            for letter in command
                .get_arguments()
                .filter_map(|option| option.get_short())
            {
                assert!(letters.insert(letter), "{} -{letter}", command.get_name());
            }
        }
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn every_command_can_be_built_alone() {
        let ids = |command: &clap::Command| -> Vec<String> {
            let arguments = command.get_arguments();
            arguments
                .map(|argument| argument.get_id().to_string())
                .collect()
        };
        for command in Arguments::command().get_subcommands() {
            let alone = Command::named(command.get_name()).expect("a command of this name");
            assert_eq!(ids(&alone), ids(command));
        }
    }

    #[test]
    fn only_commands_that_are_named_are_built() {
        for (line, count) in [
            ("outboard ls disk.img:/", 1),
            ("outboard --type ls ls ls disk.img:/ls", 1),
            ("outboard cat ls", 2),
            ("outboard lss", 0),
        ] {
            let built = few_commands(&words(line));
            assert_eq!(built.get_subcommands().count(), count, "{line}");
        }
    }

    #[test]
    fn a_short_cut_changes_nothing() {
        for line in [
            "outboard ls -lR disk.img:/ --ro",
            "outboard --memory 64M --type ls ls cat",
            "outboard -v cp -a ls disk.img:/cp",
            "outboard cat -- --ro ls",
            "outboard part list disk.img",
        ] {
            let all = Arguments::try_parse_from(words(line)).map_err(|error| error.to_string());
            let quick = Arguments::of(&words(line)).map_err(|error| error.to_string());
            assert_eq!(format!("{quick:?}"), format!("{all:?}"), "{line}");
            let few = few_commands(&words(line)).try_get_matches_from(words(line));
            assert_eq!(few.is_ok(), all.is_ok(), "{line}");
        }
        for line in [
            "outboard",
            "outboard ls",
            "outboard lss disk.img:/",
            "outboard help ls",
            "outboard ls --help",
            "outboard --version",
            "outboard ls --memory 1.5G x",
        ] {
            let all = Arguments::try_parse_from(words(line))
                .unwrap_err()
                .to_string();
            assert_eq!(
                Arguments::of(&words(line)).unwrap_err().to_string(),
                all,
                "{line}"
            );
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        assert_eq!(parse_size("4096"), Ok(4096));
        for bad in ["", "M", "0", "1X", "-1", "+1", "1.5G", "99999999999999G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn wrong_sizes_say_what_to_write() {
        for (text, say) in [
            ("1.5G", "write 1536M"),
            ("0,3T", "write 308G"),
            ("1.25M", "write 1280K"),
            ("2.5K", "write 2560"),
            ("0x100", "write 256"),
            ("0XfF", "write 255"),
            ("1.5.5G", "is not a size"),
            (".G", "is not a size"),
            ("1.", "is not a size"),
            ("0x+1", "is not a size"),
            ("0xffffffffffffffffff", "is not a size"),
            (
                "1.99999999999999999999999999999999999999999G",
                "is not a size",
            ),
            ("5P", "units: K, M, G, T"),
            ("0", "at least 1 byte"),
            ("16777216T", "at most 16777215T"),
        ] {
            let error = parse_size(text).unwrap_err();
            assert!(error.contains(say), "{text}: {error}");
        }
        assert_eq!(parse_size("16777215T"), Ok(16_777_215 << 40));
    }

    #[test]
    fn root_hashes() {
        assert_eq!(parse_hash(&"0aF".repeat(16)).unwrap().0[..2], [0x0a, 0xf0]);
        for bad in [
            "",
            "00",
            &"0".repeat(33),
            &"0g".repeat(16),
            &"\u{e9}".repeat(16),
        ] {
            assert!(parse_hash(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn copying_needs_two_places() {
        assert!(Arguments::try_parse_from(["outboard", "cp", "a"]).is_err());
        let parsed = Arguments::try_parse_from(["outboard", "cp", "-a", "a", "b", "--ro"]).unwrap();
        assert!(parsed.settings.read_only);
    }
}
