// SPDX-License-Identifier: GPL-2.0-only
//! The words of descriptions of network interfaces, which docs/net.md has.

/// The words of the description of an interface. A backslash takes the next character as it is.
pub(super) fn words_of(description: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = description.chars();
    while let Some(character) = characters.next() {
        match (character, words.last_mut()) {
            (',', _) => words.push(String::new()),
            ('\\', Some(word)) => word.extend(characters.next()),
            (_, Some(word)) => word.push(character),
            (_, None) => {}
        }
    }
    words
}

/// Whether the words after the kind of an interface give it an address. `dhcp6` gives none of IPv4.
pub(super) fn has_address(words: &str) -> bool {
    let words = words_of(words);
    let mut names = words.iter().map(|word| word.split('=').next());
    names.any(|name| matches!(name, Some("ip" | "dhcp")))
}

/// The part of a description that the sandbox forbids: it opens files of the host, listens at ports
/// of the host, or starts a program. `None`: it does none of these.
pub(super) fn forbidden(description: &str) -> Option<String> {
    let mut words = words_of(description).into_iter();
    let kind = words.next().unwrap_or_default();
    let name = kind.split(':').next();
    if matches!(name, Some("tap" | "hub" | "vhost-user" | "pcap")) || kind == "user:passt" {
        return Some(kind);
    }
    words.find(|word| matches!(word.split('=').next(), Some("forward" | "pcap")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_takes_the_next_character() {
        assert_eq!(forbidden(r"user,name=a\,pcap=b"), None);
        assert_eq!(
            forbidden(r"user,name=a\\,pcap=b").as_deref(),
            Some("pcap=b")
        );
        assert_eq!(forbidden(r"h\ub:/a").as_deref(), Some("hub:/a"));
        assert!(!has_address(r"name=a\,ip=b") && has_address("name=a,ip=b"));
    }
}
