// SPDX-License-Identifier: GPL-2.0-only
//! The words of find's command line: places, then an expression. From what binds most: parentheses,
//! "!", "-a" (which may be left out), "-o".

use super::expression::{Expression, FindAction, Match, Number, Test};
use super::printf::PrintfFormat;
use crate::glob::Pattern;
use crate::mode::ModeChange;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_volume::address::Place;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Parentheses in parentheses that are understood, so that no expression overflows the stack.
const NESTING: usize = 200;
const KNOWN: &str = "-name -iname -path -ipath -type -size -mtime -mmin -newer -user -group -perm \
                     -links -inum -empty -true -false, \
                     -print -print0 -printf -ls -delete -prune, \
                     -maxdepth -mindepth -depth -xdev, ( ) ! -not -a -and -o -or";

/// Options that hold for the whole search, wherever they stand in the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub least_depth: usize,
    pub most_depth: usize,
    /// Visit the contents of a directory before the directory itself.
    pub depth_first: bool,
    pub one_file_system: bool,
    pub deletes: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The place to begin at, as the user wrote it.
    pub operands: Vec<OsString>,
    pub options: Options,
    pub expression: Expression,
}

fn begins_expression(word: &[u8]) -> bool {
    word.starts_with(b"-") && word.len() > 1 || matches!(word, b"(" | b")" | b"!" | b",")
}

/// How many words stand before the expression.
pub fn operand_count(words: &[OsString]) -> usize {
    let first = words
        .iter()
        .position(|word| begins_expression(word.as_bytes()));
    first.unwrap_or(words.len())
}

/// Parses the words. `place`: the place of a file that the expression names.
pub fn parse(words: &[OsString], place: fn(&OsStr) -> Result<Place>) -> Result<Parsed> {
    let (operands, words) = words.split_at(operand_count(words));
    if operands.is_empty() {
        return usage("find needs a place to begin with, before the expression: IMAGE:/PATH");
    }
    let mut parser = Parser {
        words,
        place,
        nesting: 0,
        prints: false,
        options: Options {
            least_depth: 0,
            most_depth: usize::MAX,
            depth_first: false,
            one_file_system: false,
            deletes: false,
        },
    };
    let mut expression = parser.all()?;
    if !parser.prints {
        expression = Expression::And(vec![expression, Expression::Act(FindAction::Print)]);
    }
    Ok(Parsed {
        operands: operands.to_vec(),
        options: parser.options,
        expression,
    })
}

fn usage<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Usage(text.into()))
}

struct Parser<'a> {
    words: &'a [OsString],
    place: fn(&OsStr) -> Result<Place>,
    nesting: usize,
    /// Whether something is done with files, other than not to go into them.
    prints: bool,
    options: Options,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        self.words.first().map(|word| word.as_bytes())
    }

    fn take(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first.as_bytes())
    }

    fn all(&mut self) -> Result<Expression> {
        if self.words.is_empty() {
            return Ok(Expression::Test(Test::Constant(true)));
        }
        let expression = self.alternatives()?;
        match self.peek() {
            None => Ok(expression),
            Some(_) => usage("find: a \")\" without its \"(\""),
        }
    }

    fn alternatives(&mut self) -> Result<Expression> {
        let mut parts = vec![self.conjunction()?];
        while matches!(self.peek(), Some(b"-o" | b"-or")) {
            self.take();
            parts.push(self.conjunction()?);
        }
        Ok(one_or(parts, Expression::Or))
    }

    fn conjunction(&mut self) -> Result<Expression> {
        let mut parts = vec![self.negation()?];
        loop {
            match self.peek() {
                None | Some(b")" | b"-o" | b"-or") => return Ok(one_or(parts, Expression::And)),
                Some(b"-a" | b"-and") => {
                    self.take();
                }
                Some(_) => {}
            }
            parts.push(self.negation()?);
        }
    }

    fn negation(&mut self) -> Result<Expression> {
        let mut inverted = false;
        while matches!(self.peek(), Some(b"!" | b"-not")) {
            self.take();
            inverted = !inverted;
        }
        let expression = self.primary()?;
        Ok(if inverted {
            Expression::Not(Box::new(expression))
        } else {
            expression
        })
    }

    fn primary(&mut self) -> Result<Expression> {
        let Some(word) = self.take() else {
            return usage("find: the expression ends where a test is expected");
        };
        if word == b"(" {
            return self.parentheses();
        }
        if let Some(action) = self.action(word)? {
            self.prints |= action != FindAction::Prune;
            if action == FindAction::Delete {
                self.options.deletes = true;
                self.options.depth_first = true;
            }
            return Ok(Expression::Act(action));
        }
        if self.option(word)? {
            return Ok(Expression::Test(Test::Constant(true)));
        }
        self.test(word).map(Expression::Test)
    }

    fn parentheses(&mut self) -> Result<Expression> {
        self.nesting += 1;
        if self.nesting > NESTING {
            return usage(format!(
                "find: more than {NESTING} parentheses in each other"
            ));
        }
        let expression = self.alternatives()?;
        self.nesting -= 1;
        match self.take() {
            Some(b")") => Ok(expression),
            _ => usage("find: a \"(\" without its \")\""),
        }
    }

    fn action(&mut self, word: &[u8]) -> Result<Option<FindAction>> {
        Ok(Some(match word {
            b"-print" => FindAction::Print,
            b"-print0" => FindAction::Print0,
            b"-printf" => {
                let format = PrintfFormat::parse(self.argument(word)?);
                FindAction::PrintAs(
                    format.map_err(|text| Error::Usage(format!("find: -printf: {text}")))?,
                )
            }
            b"-ls" => FindAction::List,
            b"-delete" => FindAction::Delete,
            b"-prune" => FindAction::Prune,
            _ => return Ok(None),
        }))
    }

    /// Understands a word that is about the whole search.
    fn option(&mut self, word: &[u8]) -> Result<bool> {
        match word {
            b"-maxdepth" => self.options.most_depth = self.number(word)?,
            b"-mindepth" => self.options.least_depth = self.number(word)?,
            b"-depth" => self.options.depth_first = true,
            b"-xdev" | b"-mount" => self.options.one_file_system = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn test(&mut self, word: &[u8]) -> Result<Test> {
        Ok(match word {
            b"-true" => Test::Constant(true),
            b"-false" => Test::Constant(false),
            b"-empty" => Test::Empty,
            b"-name" => Test::Name(Pattern::new(self.argument(word)?, false)),
            b"-iname" => Test::Name(Pattern::new(self.argument(word)?, true)),
            b"-path" | b"-wholename" => Test::Path(Pattern::new(self.argument(word)?, false)),
            b"-ipath" => Test::Path(Pattern::new(self.argument(word)?, true)),
            b"-type" => Test::Kind(self.parsed(word, kinds)?),
            b"-size" => self.parsed(word, size)?,
            b"-mtime" => Test::Age(self.parsed(word, compared)?, 86_400),
            b"-mmin" => Test::Age(self.parsed(word, compared)?, 60),
            b"-links" => Test::Links(self.parsed(word, compared)?),
            b"-inum" => Test::Inode(self.parsed(word, compared)?),
            b"-perm" => self.parsed(word, permissions)?,
            b"-newer" => Test::Newer {
                place: (self.place)(OsStr::from_bytes(self.argument(word)?))?,
                modified: 0,
            },
            b"-user" => Test::User {
                name: self.argument(word)?.to_vec(),
                id: None,
            },
            b"-group" => Test::Group {
                name: self.argument(word)?.to_vec(),
                id: None,
            },
            other => {
                let other = escaped(other);
                return usage(format!("find does not know \"{other}\"; it knows {KNOWN}"));
            }
        })
    }

    fn argument(&mut self, word: &[u8]) -> Result<&'a [u8]> {
        match self.take() {
            Some(argument) => Ok(argument),
            None => usage(format!("find: {} needs an argument", escaped(word))),
        }
    }

    fn parsed<T>(&mut self, word: &[u8], parse: impl Fn(&str) -> Option<T>) -> Result<T> {
        let argument = self.argument(word)?;
        let text = std::str::from_utf8(argument).ok();
        match text.and_then(parse) {
            Some(value) => Ok(value),
            None => usage(format!(
                "find: {} does not understand \"{}\"",
                escaped(word),
                escaped(argument)
            )),
        }
    }

    fn number(&mut self, word: &[u8]) -> Result<usize> {
        self.parsed(word, |text| digits(text)?.try_into().ok())
    }
}

/// A list of one thing is that thing.
fn one_or(mut parts: Vec<Expression>, list: impl Fn(Vec<Expression>) -> Expression) -> Expression {
    match parts.len() {
        1 => parts.remove(0),
        _ => list(parts),
    }
}

/// A number without a sign.
fn digits(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

fn compared(text: &str) -> Option<Number> {
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(text), _) => digits(text).map(Number::More),
        (_, Some(text)) => digits(text).map(Number::Less),
        _ => digits(text).map(Number::Exactly),
    }
}

fn size(text: &str) -> Option<Test> {
    let (number, unit) = match text.char_indices().last()? {
        (at, 'c') => (&text[..at], 1),
        (at, 'w') => (&text[..at], 2),
        (at, 'b') => (&text[..at], 512),
        (at, 'k') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        _ => (text, 512),
    };
    Some(Test::Size(compared(number)?, unit))
}

/// "f", or several as in "f,d".
fn kinds(text: &str) -> Option<Vec<u32>> {
    let kind = |letter: &str| {
        Some(match letter {
            "f" => libc::S_IFREG,
            "d" => libc::S_IFDIR,
            "l" => libc::S_IFLNK,
            "b" => libc::S_IFBLK,
            "c" => libc::S_IFCHR,
            "p" => libc::S_IFIFO,
            "s" => libc::S_IFSOCK,
            _ => return None,
        })
    };
    text.split(',').map(kind).collect()
}

fn permissions(text: &str) -> Option<Test> {
    let (how, mode) = match (text.strip_prefix('-'), text.strip_prefix('/')) {
        (Some(mode), _) => (Match::All, mode),
        (_, Some(mode)) => (Match::Any, mode),
        _ => (Match::Exactly, text),
    };
    let wanted = ModeChange::parse(mode).ok()?.apply(0, false, 0);
    Some(Test::Permissions(how, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Parsed> {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        parse(&words, |word| match Place::find(word) {
            Place::Host(_) => usage("no place in an image"),
            place => Ok(place),
        })
    }

    fn expression(words: &str) -> Expression {
        parsed(&format!("i:/ {words}")).unwrap().expression
    }

    fn test(value: bool) -> Expression {
        Expression::Test(Test::Constant(value))
    }

    const PRINT: Expression = Expression::Act(FindAction::Print);

    #[test]
    fn precedence() {
        use Expression::{And, Not, Or};
        assert_eq!(
            expression("-true -o -false ! -true -print"),
            Or(vec![
                test(true),
                And(vec![test(false), Not(Box::new(test(true))), PRINT])
            ])
        );
        assert_eq!(
            expression("( -true -o -false ) -a -print"),
            And(vec![Or(vec![test(true), test(false)]), PRINT])
        );
        assert_eq!(expression("! ! -print"), PRINT);
    }

    #[test]
    fn printing_is_implied() {
        use Expression::{And, Or};
        assert_eq!(expression(""), And(vec![test(true), PRINT]));
        let pruned = Or(vec![Expression::Act(FindAction::Prune), test(true)]);
        assert_eq!(expression("-prune -o -true"), And(vec![pruned, PRINT]));
        let parsed = parsed("i:/ -delete").unwrap();
        assert_eq!(parsed.expression, Expression::Act(FindAction::Delete));
        assert!(parsed.options.deletes && parsed.options.depth_first);
    }

    #[test]
    fn arguments() {
        assert_eq!(size("+5k"), Some(Test::Size(Number::More(5), 1024)));
        assert_eq!(size("3"), Some(Test::Size(Number::Exactly(3), 512)));
        assert_eq!(compared("-7"), Some(Number::Less(7)));
        assert_eq!(kinds("f,l"), Some(vec![libc::S_IFREG, libc::S_IFLNK]));
        let any = Test::Permissions(Match::Any, 0o6000);
        assert_eq!(permissions("/6000"), Some(any));
        let all = Test::Permissions(Match::All, 0o220);
        assert_eq!(permissions("-ug+w"), Some(all));
    }

    #[test]
    fn nonsense() {
        for bad in [
            "-name x",
            "i:/ -name",
            "i:/ -wat",
            "i:/ (",
            "i:/ )",
            "i:/ ( -true",
            "i:/ -true )",
            "i:/ -o -true",
            "i:/ -true -o",
            "i:/ !",
            "i:/ ( )",
            "i:/ -size 5x",
            "i:/ -size k",
            "i:/ -size +-5",
            "i:/ -type z",
            "i:/ -perm 9",
            "i:/ -maxdepth -1",
            "i:/ -true j:/",
            "i:/ -newer /etc/passwd",
        ] {
            assert!(matches!(parsed(bad), Err(Error::Usage(_))), "{bad}");
        }
        let deep = format!("i:/ {}", "( ".repeat(100_000));
        assert!(parsed(&deep).is_err());
    }
}
