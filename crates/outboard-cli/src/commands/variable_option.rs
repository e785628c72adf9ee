// SPDX-License-Identifier: GPL-2.0-only
//! The option --env.

use std::ffi::OsString;

/// A variable of the environment. `None`: the caller has none of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable(pub Option<(OsString, OsString)>);

pub fn parse_variable(text: &str) -> std::result::Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, std::env::var_os(text)),
    };
    if name.is_empty() {
        return Err("a variable has a name, as in LANG=C".to_owned());
    }
    Ok(Variable(value.map(|value| (name.into(), value))))
}
