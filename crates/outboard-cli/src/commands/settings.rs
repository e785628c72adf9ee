// SPDX-License-Identifier: GPL-2.0-only
//! The options that commands share, in groups. The table of commands states the groups that each
//! command uses. A command refuses the options of other groups, and its help does not list them.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, FromArgMatches};
use outboard::Inherited;
use outboard_error::size::{parse_length, parse_size};
use outboard_volume::options::{Options, RootHash};
use std::marker::PhantomData;
use std::path::PathBuf;

/// The heading of these options in the help.
pub const SHARED: &str = "Shared options";

// No doc comments at these groups: clap would take them for descriptions of commands.

// Options that only some commands use. Each may stand before or after the command's name.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Print the kernel's messages (twice: all of them). Stands before the command's name: some
    /// commands have a -v of their own
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    #[command(flatten)]
    pub images: ImageSettings,
    #[command(flatten)]
    pub volumes: VolumeSettings,
    #[command(flatten)]
    pub wildcards: WildcardSettings,
    #[command(flatten)]
    pub network: NetworkSettings,
    #[command(flatten)]
    pub servers: ServerSettings,
    #[command(flatten)]
    pub kernel: KernelSettings,
    #[command(flatten)]
    pub sandbox: SandboxSettings,
}

// How image files are opened.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = SHARED)]
pub struct ImageSettings {
    /// Open images read-only: not a byte of them changes
    #[arg(long = "ro", global = true)]
    pub read_only: bool,

    /// Read image files as raw disks, whatever format they seem to have
    #[arg(long, global = true)]
    pub raw: bool,

    /// A file outside the image's own directory that a qcow2 image may be based on; may be repeated
    #[arg(long, value_name = "FILE", global = true)]
    pub backing: Vec<PathBuf>,
}

// How volumes in images are found and opened.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = SHARED)]
pub struct VolumeSettings {
    /// The type of the file system, as in "ext4" [default: outboard detects it]
    #[arg(long = "type", value_name = "TYPE", global = true)]
    pub kind: Option<String>,

    /// A further disk of the same machine, for RAIDs, volume groups and file systems on several
    /// disks; may be repeated
    #[arg(long = "disk", value_name = "IMAGE", global = true)]
    pub disks: Vec<PathBuf>,

    /// The file whose whole contents are the key of encrypted volumes, or whose first line is the
    /// password for a server; "-": standard input [default: outboard asks on the terminal]
    #[arg(long, value_name = "FILE", global = true)]
    pub key_file: Option<PathBuf>,

    /// The root hash of dm-verity, in hexadecimal: outboard opens only data that matches it
    #[arg(long, value_name = "HASH", global = true, value_parser = parse_hash)]
    pub verity: Option<RootHash>,

    /// How far from the start of the device the hashes of dm-verity begin [default: outboard looks
    /// for them behind the file system and in other partitions]
    #[arg(
        long,
        value_name = "SIZE",
        global = true,
        requires = "verity",
        value_parser = parse_length
    )]
    pub verity_offset: Option<u64>,

    /// The algorithm of dm-integrity's tags, as in "sha256" [default: crc32c]
    #[arg(long, value_name = "ALGORITHM", global = true, value_parser = parse_algorithm)]
    pub integrity: Option<String>,
}

// How paths in images are read.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = SHARED)]
pub struct WildcardSettings {
    /// Take paths in images as they are written: *, ? and [ are no wildcards
    #[arg(long, global = true)]
    pub no_glob: bool,
}

// How the kernel is connected.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = SHARED)]
pub struct NetworkSettings {
    /// The network interface of the kernel, through which it reaches servers (nfs://, smb://,
    /// 9p://, nbd://), and its programs the world, in the words of docs/net.md, as in
    /// "tap:tap0,ip=10.0.0.2/24"; "host": the kernel uses sockets of the host instead; "none":
    /// programs have no network [default: user]
    #[arg(long, value_name = "SPEC", global = true)]
    pub net: Option<String>,
}

// How servers are reached.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = SHARED)]
pub struct ServerSettings {
    /// Seconds that a server may take for a request [default: 30]
    #[arg(
        long,
        value_name = "SECONDS",
        global = true,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub timeout: Option<u64>,
}

// How the kernel runs.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = SHARED)]
pub struct KernelSettings {
    /// Virtual CPUs of the kernel, 1 to 64 [default: as many as the host has, at most 4; for mount
    /// twice as many, 4 to 16]
    #[arg(
        long,
        value_name = "N",
        global = true,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    pub vcpus: Option<u32>,

    /// The most memory that the kernel may use, as in 512M or 2G [default: a quarter of the host's,
    /// or half of what the limits of cgroups leave; at most 2 GiB except for mount]
    #[arg(long, value_name = "SIZE", global = true, value_parser = parse_size)]
    pub memory: Option<u64>,

    /// Load this component first: a .ko file, such as a file system driver of your own (see
    /// docs/components.md); may be repeated
    #[arg(long = "component", value_name = "FILE", global = true)]
    pub components: Vec<PathBuf>,
}

// Whether the program is sandboxed.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = SHARED)]
pub struct SandboxSettings {
    /// Turn the sandbox off: an image or a virtual machine that exploits a bug gets all your rights
    #[arg(long, global = true)]
    pub no_sandbox: bool,
}

impl Settings {
    /// As the engine takes them.
    pub fn options(self) -> Options {
        Options {
            kind: self.volumes.kind,
            read_only: self.images.read_only,
            raw: self.images.raw,
            backing: self.images.backing,
            key_file: self.volumes.key_file,
            verity: self.volumes.verity,
            verity_offset: self.volumes.verity_offset,
            integrity: self.volumes.integrity,
            disks: self.volumes.disks,
            vcpus: self.kernel.vcpus,
            memory: self.kernel.memory,
            components: self.kernel.components,
            net: self.network.net,
            timeout: self.servers.timeout,
            no_sandbox: self.sandbox.no_sandbox,
            literal: self.wildcards.no_glob,
            verbose: self.verbose,
            inherited: Inherited::default(),
            ..Options::default()
        }
    }
}

/// One of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsGroup {
    Images,
    Volumes,
    Wildcards,
    Network,
    Servers,
    Kernel,
    Sandbox,
}

impl SettingsGroup {
    fn augment(self, command: clap::Command) -> clap::Command {
        match self {
            Self::Images => ImageSettings::augment_args(command),
            Self::Volumes => VolumeSettings::augment_args(command),
            Self::Wildcards => WildcardSettings::augment_args(command),
            Self::Network => NetworkSettings::augment_args(command),
            Self::Servers => ServerSettings::augment_args(command),
            Self::Kernel => KernelSettings::augment_args(command),
            Self::Sandbox => SandboxSettings::augment_args(command),
        }
    }
}

/// The part of the command line that belongs to one command, with the shared options that it uses.
pub trait CommandArgs: Args {
    const SETTINGS: &'static [SettingsGroup];
    /// Whether the command can print JSON.
    const HAS_JSON: bool;
}

/// Adds the shared options of a command to its command line. [`Settings`] has their values: clap
/// hands values of a global argument up.
#[derive(Debug)]
pub struct UsedSettings<T>(PhantomData<T>);

impl<T: CommandArgs> Args for UsedSettings<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        augment(command, T::SETTINGS)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<T> FromArgMatches for UsedSettings<T> {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(PhantomData))
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

fn augment(command: clap::Command, groups: &[SettingsGroup]) -> clap::Command {
    let groups = groups.iter();
    groups.fold(command, |command, group| group.augment(command))
}

/// Whether an argument is one of the shared options.
pub fn is_shared(argument: &Arg) -> bool {
    argument.get_help_heading() == Some(SHARED)
}

/// Refuses shared options that a command does not use. `used`: the groups that it uses.
pub fn check_used(
    grammar: &mut clap::Command,
    matches: &ArgMatches,
    name: &str,
    used: &[SettingsGroup],
) -> Result<(), clap::Error> {
    let is_given = |argument: &&Arg| {
        let source = matches.value_source(argument.get_id().as_str());
        is_shared(argument) && source == Some(ValueSource::CommandLine)
    };
    let given: Vec<Arg> = grammar.get_arguments().filter(is_given).cloned().collect();
    if given.is_empty() {
        return Ok(());
    }
    let uses = augment(clap::Command::new(""), used);
    let is_unused = |argument: &&Arg| {
        !uses
            .get_arguments()
            .any(|arg| arg.get_id() == argument.get_id())
    };
    let Some(unused) = given.iter().find(is_unused) else {
        return Ok(());
    };
    let option = unused.get_long().unwrap_or_default();
    let text = format!("{name} does not use the option --{option}");
    let command = grammar.find_subcommand_mut(name);
    Err(match command {
        Some(command) => command.error(ErrorKind::UnknownArgument, text),
        None => clap::Error::raw(ErrorKind::UnknownArgument, text),
    })
}

/// Bytes that are written in hexadecimal.
fn parse_hash(text: &str) -> Result<RootHash, String> {
    let wrong =
        || "a root hash has 32 to 128 hexadecimal digits, as veritysetup prints it".to_owned();
    if !(32..=128).contains(&text.len()) {
        return Err(wrong());
    }
    hex::decode(text).map(RootHash).map_err(|_| wrong())
}

/// The name of an algorithm that needs no key.
fn parse_algorithm(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !text.is_empty() && text.len() <= 32 && text.chars().all(good) {
        Ok(text.to_owned())
    } else {
        Err("an algorithm is a name such as crc32c or sha256".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Arguments, Command};
    use std::collections::HashSet;
    use std::ffi::OsString;

    fn ids(command: &clap::Command) -> Vec<String> {
        let shared = command.get_arguments().filter(|arg| is_shared(arg));
        shared.map(|arg| arg.get_id().to_string()).collect()
    }

    const ALL: [SettingsGroup; 7] = [
        SettingsGroup::Images,
        SettingsGroup::Volumes,
        SettingsGroup::Wildcards,
        SettingsGroup::Network,
        SettingsGroup::Servers,
        SettingsGroup::Kernel,
        SettingsGroup::Sandbox,
    ];

    #[test]
    fn each_shared_option_is_in_one_group() {
        let all = augment(clap::Command::new("all"), &ALL);
        assert_eq!(ids(&all), ids(&Arguments::grammar()));
        assert!(ids(&all).len() > 15);
    }

    /// Every command with every shared option, before and after its name.
    #[test]
    fn unused_options_are_refused() {
        let whole = Arguments::grammar();
        let mut refused = 0;
        for command in whole.get_subcommands() {
            let name = command.get_name();
            let uses = ids(command);
            let words = required_words(command);
            for option in whole.get_arguments().filter(|arg| is_shared(arg)) {
                let long = format!("--{}", option.get_long().unwrap());
                let value = option.get_action().takes_values().then(|| value_of(&long));
                let mut given = vec![OsString::from(&long)];
                given.extend(value.map(OsString::from));
                if long == "--verity-offset" {
                    given.extend(["--verity".into(), "00".repeat(16).into()]);
                }
                let command = [OsString::from(name)];
                let before = [&["outboard".into()], &given[..], &command, &words].concat();
                let after = [&["outboard".into()], &command[..], &given, &words].concat();
                for line in [before, after] {
                    let parsed = Arguments::of(&line);
                    if uses.contains(&option.get_id().to_string()) {
                        assert!(parsed.is_ok(), "{line:?}: {parsed:?}");
                        continue;
                    }
                    let error = parsed.expect_err("refused");
                    let text = error.to_string();
                    let says = format!("{name} does not use the option --");
                    assert!(text.contains(&says), "{line:?}: {text}");
                    assert!(text.contains(&long) || long == "--verity-offset", "{text}");
                    assert_eq!(error.exit_code(), 2);
                    refused += 1;
                }
            }
        }
        assert!(refused > 100);
    }

    fn value_of(long: &str) -> String {
        match long {
            "--verity" => "00".repeat(16),
            _ => "1".to_owned(),
        }
    }

    /// Words that a command cannot do without.
    fn required_words(command: &clap::Command) -> Vec<OsString> {
        let words = match command.get_name() {
            "chmod" => "644 d:/",
            "completions" => "bash",
            "cp" | "mv" | "ln" | "diff" => "d:/a d:/b",
            "mkfs" => "ext4 d",
            "part" => "d list",
            "resize" => "d --min",
            "exec" => "a -- program",
            "run" => "d -- program",
            "server" | "status" | "dmesg" | "halt" => "unix:/a",
            "setfacl" => "-b d:/",
            "setfattr" => "-n user.a d:/",
            "truncate" => "-s 1 d:/",
            "chown" | "chattr" | "mount" | "hub" => "+a d:/",
            "certificates" => "a",
            "components" | "manual" | "ps" => "",
            "logs" | "stop" => "a",
            _ => "d:/",
        };
        words.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn groups_do_not_describe_commands() {
        let grammar = Arguments::grammar();
        let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
        let all: Vec<Option<String>> = grammar.get_subcommands().map(about).collect();
        let different: HashSet<&Option<String>> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        let whole = about(&grammar).unwrap_or_default();
        assert!(whole.starts_with("Open, read and write"), "{whole}");
    }

    #[test]
    fn commands_without_images_use_few_options() {
        let uses = |name| {
            let grammar = Arguments::grammar();
            ids(grammar.find_subcommand(name).expect("a command"))
        };
        for name in ["lab", "umount", "components", "completions", "manual"] {
            assert!(uses(name).is_empty(), "{name}");
        }
        assert_eq!(uses("hub"), ["no_sandbox"]);
        assert!(!uses("part").contains(&"key_file".to_owned()));
        assert_eq!(Command::settings_of("hub"), [SettingsGroup::Sandbox]);
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
}
