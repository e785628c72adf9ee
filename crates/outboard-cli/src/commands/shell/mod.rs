// SPDX-License-Identifier: GPL-2.0-only
//! `outboard shell`: the program's commands on one image, with a current directory in it.
//!
//! [`places`] makes places in the image of plain paths; [`complete`] knows what could be typed
//! next.

mod complete;
mod history;
mod places;

use crate::commands::line::{split, understand, CommandSet, LineError, Lines};
use crate::format::name;
use crate::output::Output;
use crate::reports;
use clap::Args;
use outboard_error::format::escaped;
use outboard_error::{warn, Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_volume::access::uses;
use outboard_volume::address::{ImageName, Place};
use outboard_volume::session::{Session, TreeId};
use outboard_volume::standard_input::StandardInput;
use places::Here;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor};
use std::ffi::OsString;
use std::io::{self, BufReader, IsTerminal};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Lines that are remembered.
const REMEMBERED: usize = 1000;
const BUILT_IN: [&str; 5] = ["cd", "pwd", "help", "exit", "quit"];
const HELP: &str = "\
cd [DIR]   go to a directory of the image
pwd        print the current directory
help       print this text; help COMMAND: about one command
exit       end the shell, as Ctrl-D does

Everything else is a command of outboard. Its places are paths in this image, relative to the
current directory. Write host: before a path of the host, or before a place in another image:
  ls -l /etc
  cp -a host:rootfs/. /
  cp passwd host:/tmp/
";

/// Explore and change an image at a prompt
///
/// Paths are those of the image, and "cd" changes the current directory; write host:PATH for a path
/// of the host. When the prompt returns, a command's changes are on stable storage. Ctrl-C ends a
/// command, Ctrl-D the shell. If standard input is no terminal, the shell reads commands from it,
/// as run-script does.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  outboard shell disk.img\n  outboard shell disk.img@2:/etc")]
pub struct ShellArgs {
    /// The image, and the first current directory: IMAGE[@N][:/DIR]
    #[arg(value_name = "IMAGE")]
    pub image: OsString,
}

impl ShellArgs {
    fn place(&self) -> Place {
        match Place::find(&self.image) {
            Place::Host(_) => Place::Image(ImageName::find(&self.image), "/".into()),
            place => place,
        }
    }

    /// Files of the host are those below the directory in which it was started.
    pub fn host_access(&self) -> HostAccess {
        let mut access = uses(&self.place(), true);
        access.writes.push(".".into());
        access.makes_nodes = true;
        access.writes.extend(history::file());
        access
    }
}

pub fn run(options: &ShellArgs, session: &mut Session, commands: &CommandSet) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let mut prompt = Prompt::new(session, commands, &options.place())?;
    if io::stdin().is_terminal() {
        return interactive(prompt, &interrupt);
    }
    let mut lines = Lines {
        name: "standard input".to_owned(),
        reader: BufReader::new(StandardInput::open(&interrupt)?),
        before: 0,
        keep_going: false,
    };
    lines.run(&interrupt, |line| prompt.line(line))
}

/// The state of one shell.
struct Prompt<'a> {
    session: &'a mut Session,
    commands: &'a CommandSet,
    here: Here,
    /// The image's, for completion; `None` if it cannot be opened now.
    tree: Option<TreeId>,
}

impl<'a> Prompt<'a> {
    fn new(session: &'a mut Session, commands: &'a CommandSet, place: &Place) -> Result<Self> {
        let Place::Image(image, path) = place else {
            return Err(Error::Usage("a shell needs an image".to_owned()));
        };
        let mut prompt = Self {
            session,
            commands,
            here: Here {
                image: image.clone(),
                directory: PathBuf::from("/"),
            },
            tree: None,
        };
        prompt.go(path)?;
        Ok(prompt)
    }

    /// Makes a path the current directory.
    fn go(&mut self, path: &Path) -> Result<()> {
        let place = self.here.place(path);
        let id = self.session.open(&place, false)?;
        let tree = self.session.tree(id);
        let failed = |error| Error::of_file("cannot go to", place.operand(), &error);
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        tree.open_fd(place.path(), flags, 0).map_err(failed)?;
        self.here.directory = tree.canonicalize(place.path()).map_err(failed)?;
        Ok(())
    }

    /// Runs a line. Break: the shell ends.
    fn line(&mut self, line: &[u8]) -> std::result::Result<ControlFlow<()>, LineError> {
        let words = split(line)?;
        let Some(first) = words.first() else {
            return Ok(ControlFlow::Continue(()));
        };
        match (first.as_bytes(), &words[1..]) {
            (b"exit" | b"quit", []) => return Ok(ControlFlow::Break(())),
            (b"cd", []) => self.go(Path::new("/"))?,
            (b"cd", [path]) => self.go(Path::new(path))?,
            (b"pwd", []) => self.tell_directory()?,
            (b"help", []) => self.help()?,
            (b"cd" | b"pwd" | b"exit" | b"quit", _) => {
                let text = format!("{} has too many operands", escaped(first.as_bytes()));
                return Err(Error::Usage(text).into());
            }
            _ => self.command(words)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn command(&mut self, words: Vec<OsString>) -> std::result::Result<(), LineError> {
        let words = self.here.operands(words);
        if let Some(command) = understand(words, self.here.grammar(self.commands), self.commands)? {
            if command.host_access().outside {
                let text = "this command starts other programs or processes, which the sandbox of \
                            the shell forbids: run it outside of the shell, or in a script \
                            (run-script)";
                return Err(Error::Usage(text.to_owned()).into());
            }
            let done = command.run_line(self.session);
            reports::print_rest();
            done?;
        }
        Ok(())
    }

    fn help(&self) -> Result<()> {
        let mut output = Output::new()?;
        output.bytes(HELP.as_bytes())?;
        output.line("\nCommands:")?;
        for command in places::commands(self.commands) {
            let about = command.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            output.line(format!("  {:<12} {about}", command.get_name()))?;
        }
        output.flush()
    }

    fn tell_directory(&self) -> Result<()> {
        let mut output = Output::new()?;
        let path = self.here.directory.as_os_str().as_bytes();
        output.line(name(path, output.is_terminal()))?;
        output.flush()
    }

    /// Looks at the image again, which a command may have released. Returns the prompt's text.
    fn prepare(&mut self) -> String {
        self.tree = self.session.open(&self.here.root(), false).ok();
        format!("{}> ", self.here.shown())
    }

    /// Runs a line; what it wrote is on stable storage then, also if it failed, and the image is
    /// clean.
    fn durable_line(&mut self, line: &[u8]) -> std::result::Result<ControlFlow<()>, LineError> {
        let done = self.line(line);
        let settled = self.session.settle();
        let flow = done?;
        settled?;
        Ok(flow)
    }
}

/// Reads lines from the terminal until the user ends the shell. Reports errors and goes on.
fn interactive(prompt: Prompt, interrupt: &Interrupt) -> Result<()> {
    let used = prompt.session.used();
    let history = history::file().filter(|file| !used.has(file));
    let mut editor = editor(prompt)?;
    if let Some(file) = &history {
        // The first time there is nothing to read.
        let _ = editor.load_history(file);
    }
    loop {
        let shown = helper(&mut editor).prepare();
        let read = interrupt.while_idle(|| editor.readline(&shown))?;
        interrupt.forget()?;
        let line = match read {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(Error::Failed(format!("cannot read a line: {error}"))),
        };
        if let Some(file) = &history {
            // A line that is not remembered is no reason not to run it.
            let _ = editor.append_history(file);
        }
        match helper(&mut editor).durable_line(line.as_bytes()) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(()),
            Err(LineError::Error(error)) => error.message().into_iter().for_each(warn),
            Err(LineError::Status(_)) => {}
        }
    }
}

type LineEditor<'a> = Editor<Prompt<'a>, FileHistory>;

fn helper<'e, 'a>(editor: &'e mut LineEditor<'a>) -> &'e mut Prompt<'a> {
    editor.helper_mut().expect("the editor was given one")
}

fn editor(prompt: Prompt) -> Result<LineEditor> {
    let color = match std::env::var_os("NO_COLOR") {
        Some(value) if !value.is_empty() => ColorMode::Disabled,
        _ => ColorMode::Enabled,
    };
    let failed = |error| Error::Failed(format!("cannot use the terminal: {error}"));
    let config = Config::builder()
        .auto_add_history(true)
        .history_ignore_space(true)
        .max_history_size(REMEMBERED)
        .map_err(failed)?
        .completion_type(CompletionType::List)
        .color_mode(color)
        .build();
    let mut editor = Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(prompt));
    Ok(editor)
}
