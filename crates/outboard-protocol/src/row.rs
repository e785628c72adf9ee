// SPDX-License-Identifier: MIT
//! A row of the tables, and the words of which rows consist.

use crate::argument::{Argument, Flow, Size};
use crate::reason::Reason;

/// How a call travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By its arguments.
    Arguments(&'static [Argument]),
    /// Not at all.
    Refused(Reason),
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Its number on x86-64.
    pub number: u32,
    /// Its name in the kernel's table.
    pub name: &'static str,
    /// How it travels.
    pub way: Way,
}

pub(crate) const N: Argument = Argument::Number;
pub(crate) const PATH: Argument = Argument::Text { most: 4096 };
/// Names of attributes, types and the like.
pub(crate) const NAME: Argument = Argument::Text { most: 256 };
pub(crate) const LENGTH: Argument = Argument::Length;

pub(crate) const fn call(
    number: u32,
    name: &'static str,
    arguments: &'static [Argument],
) -> SystemCall {
    let way = Way::Arguments(arguments);
    SystemCall { number, name, way }
}

pub(crate) const fn refused(number: u32, name: &'static str, reason: Reason) -> SystemCall {
    let way = Way::Refused(reason);
    SystemCall { number, name, way }
}

pub(crate) const fn to(size: Size) -> Argument {
    let flow = Flow::ToKernel;
    Argument::Bytes { flow, size }
}

pub(crate) const fn from(size: Size) -> Argument {
    let flow = Flow::FromKernel;
    Argument::Bytes { flow, size }
}

pub(crate) const fn both(size: Size) -> Argument {
    let flow = Flow::Both;
    Argument::Bytes { flow, size }
}

pub(crate) const fn bytes(count: u32) -> Size {
    Size::Fixed(count)
}

/// As many bytes as the argument says.
pub(crate) const fn many(argument: usize) -> Size {
    items(argument, 1)
}

pub(crate) const fn items(argument: usize, unit: u32) -> Size {
    let before = 0;
    Size::Count {
        argument,
        unit,
        before,
    }
}
