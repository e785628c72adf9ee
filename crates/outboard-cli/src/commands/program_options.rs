// SPDX-License-Identifier: GPL-2.0-only
//! The options of commands that start a program: how it runs.

use clap::Args;
use std::ffi::OsString;

#[derive(Args, Debug)]
pub struct ProgramOptions {
    /// The user that the program runs as: numbers, or names of the image; by default that of the
    /// run, which is root unless the image of a container says otherwise
    #[arg(short, long, value_name = "USER[:GROUP]")]
    pub user: Option<OsString>,
    /// The directory in which the program begins, a path in the image; by default that of the run,
    /// which is / unless the image of a container says otherwise
    #[arg(short, long, value_name = "DIR")]
    pub workdir: Option<OsString>,
    /// Set a variable of the program's environment; without a value, to that of the caller; may be
    /// repeated
    #[arg(short, long, value_name = "NAME[=VALUE]", value_parser = parse_variable)]
    env: Vec<Variable>,
    /// Give the program a terminal, also if standard input and output are none
    #[arg(short, long)]
    pub tty: bool,
    /// Pass standard input on, as always: for those who are used to type -it
    #[arg(short, long)]
    pub interactive: bool,
}

impl ProgramOptions {
    /// Names and values of the variables of --env.
    pub fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        self.env.iter().flat_map(|set| set.0.clone())
    }
}

/// A variable of the environment. `None`: the caller has none of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable(Option<(OsString, OsString)>);

fn parse_variable(text: &str) -> std::result::Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, std::env::var_os(text)),
    };
    if name.is_empty() {
        return Err("a variable has a name, as in LANG=C".to_owned());
    }
    Ok(Variable(value.map(|value| (name.into(), value))))
}
