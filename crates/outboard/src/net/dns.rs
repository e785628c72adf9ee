// SPDX-License-Identifier: GPL-2.0-only
//! DNS without a network: questions, answers, /etc/resolv.conf and /etc/hosts.
//!
//! Answers come from strangers. simple-dns follows compression pointers backwards only, so no
//! answer makes it loop. Everything else that an answer decides has a limit here.

use simple_dns::rdata::RData;
use simple_dns::{Name, Packet, PacketFlag, Question, CLASS, QCLASS, QTYPE, RCODE, TYPE};
use std::net::IpAddr;
use std::time::Duration;

/// Longest name, as text.
const NAME_LIMIT: usize = 253;
const LABEL_LIMIT: usize = 63;
/// Most aliases (CNAME) between a name and its addresses.
const ALIAS_LIMIT: usize = 16;
/// Most addresses that an answer is taken for.
const ADDRESS_LIMIT: usize = 64;
/// Most servers, and names of the search list: as resolv.conf(5).
const SERVER_LIMIT: usize = 3;
const SEARCH_LIMIT: usize = 6;

/// The kind of address that a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// An answer that belongs to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DnsAnswer {
    /// The name's addresses; none if it has none of this family.
    Addresses(Vec<IpAddr>),
    NoSuchName,
    /// The answer is too long for a datagram.
    Truncated,
    /// The server cannot answer.
    Refused,
}

/// Whether DNS can carry a name.
pub(crate) fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= LABEL_LIMIT && label.bytes().all(is_good)
    };
    name.len() <= NAME_LIMIT && name.split('.').all(is_label)
}

fn record_type(family: Family) -> QTYPE {
    QTYPE::TYPE(match family {
        Family::V4 => TYPE::A,
        Family::V6 => TYPE::AAAA,
    })
}

/// A message that asks for the addresses of a name. `None`: DNS cannot carry the name.
pub(crate) fn question(id: u16, name: &str, family: Family) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let (kind, class) = (record_type(family), QCLASS::CLASS(CLASS::IN));
    let name = Name::new(name.strip_suffix('.').unwrap_or(name)).ok()?;
    packet
        .questions
        .push(Question::new(name, kind, class, false));
    packet.build_bytes_vec().ok()
}

/// `None`: it is no answer to this question, or is malformed.
pub(crate) fn answer(bytes: &[u8], id: u16, name: &str, family: Family) -> Option<DnsAnswer> {
    let packet = Packet::parse(bytes).ok()?;
    let name = Name::new(name.strip_suffix('.').unwrap_or(name)).ok()?;
    let is_ours = match packet.questions.as_slice() {
        [asked] => asked.qname == name && asked.qtype == record_type(family),
        _ => false,
    };
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) || !is_ours {
        return None;
    }
    Some(match packet.rcode() {
        _ if packet.has_flags(PacketFlag::TRUNCATION) => DnsAnswer::Truncated,
        RCODE::NoError => DnsAnswer::Addresses(addresses(&packet, &name, family)),
        RCODE::NameError => DnsAnswer::NoSuchName,
        _ => DnsAnswer::Refused,
    })
}

/// The addresses of a name, by the aliases that the same answer has.
fn addresses(packet: &Packet, name: &Name, family: Family) -> Vec<IpAddr> {
    let records = || packet.answers.iter().filter(|r| r.class == CLASS::IN);
    let mut owner = name.clone();
    for _ in 0..ALIAS_LIMIT {
        let alias = records().find_map(|record| match &record.rdata {
            RData::CNAME(alias) if record.name == owner => Some(alias.0.clone()),
            _ => None,
        });
        match alias {
            Some(alias) => owner = alias,
            None => break,
        }
    }
    let of_owner = records().filter(|record| record.name == owner);
    of_owner
        .filter_map(|record| match (&record.rdata, family) {
            (RData::A(a), Family::V4) => Some(IpAddr::V4(a.address.into())),
            (RData::AAAA(a), Family::V6) => Some(IpAddr::V6(a.address.into())),
            _ => None,
        })
        .take(ADDRESS_LIMIT)
        .collect()
}

/// The contents of /etc/resolv.conf: see resolv.conf(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvConf {
    /// As they are written: an IPv6 address may end in `%INTERFACE`.
    pub(crate) servers: Vec<String>,
    pub(crate) search: Vec<String>,
    /// A name with fewer dots is first looked up with the search list.
    pub(crate) dots: usize,
    /// Wait for one server.
    pub(crate) timeout: Duration,
    /// How often each server is asked.
    pub(crate) attempts: usize,
}

impl Default for ResolvConf {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            search: Vec::new(),
            dots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        }
    }
}

impl ResolvConf {
    pub(crate) fn parse(text: &str) -> Self {
        let mut config = Self::default();
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") if config.servers.len() < SERVER_LIMIT => {
                    config.servers.extend(words.next().map(str::to_owned));
                }
                Some("search" | "domain") => {
                    let names = words.filter(|name| is_name(name)).take(SEARCH_LIMIT);
                    config.search = names.map(str::to_owned).collect();
                }
                Some("options") => words.for_each(|word| config.set_option(word)),
                _ => {}
            }
        }
        config
    }

    fn set_option(&mut self, word: &str) {
        let Some((name, number)) = word.split_once(':') else {
            return;
        };
        let Ok(number) = number.parse::<usize>() else {
            return;
        };
        match name {
            "ndots" => self.dots = number.min(15),
            "timeout" => self.timeout = Duration::from_secs(number.clamp(1, 30) as u64),
            "attempts" => self.attempts = number.clamp(1, 5),
            _ => {}
        }
    }

    /// The full names to look up for a name, one after the other.
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let searched = self.search.iter().map(|suffix| format!("{name}.{suffix}"));
        let mut all: Vec<String> = searched.filter(|name| is_name(name)).collect();
        let is_full = name.matches('.').count() >= self.dots;
        all.insert(if is_full { 0 } else { all.len() }, name.to_owned());
        all
    }
}

/// The addresses that the text of /etc/hosts has for a name.
pub(crate) fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let address = |line: &str| {
        let line = line.split('#').next()?;
        let mut words = line.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words
            .any(|word| word.eq_ignore_ascii_case(name))
            .then_some(address)
    };
    text.lines()
        .filter_map(address)
        .take(ADDRESS_LIMIT)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::rdata::{A, AAAA, CNAME};
    use simple_dns::ResourceRecord;

    const NAME: &str = "www.example.org";

    fn record(name: &'static str, data: RData<'static>) -> ResourceRecord<'static> {
        ResourceRecord::new(Name::new_unchecked(name), CLASS::IN, 60, data)
    }

    fn alias(name: &'static str, to: &'static str) -> ResourceRecord<'static> {
        record(name, RData::CNAME(CNAME(Name::new_unchecked(to))))
    }

    fn v4(name: &'static str, address: u32) -> ResourceRecord<'static> {
        record(name, RData::A(A { address }))
    }

    fn reply(id: u16, records: Vec<ResourceRecord>) -> Vec<u8> {
        let bytes = question(id, NAME, Family::V4).unwrap();
        let mut packet = Packet::parse(&bytes).unwrap().into_reply();
        packet.answers = records;
        packet.build_bytes_vec_compressed().unwrap()
    }

    fn found(records: Vec<ResourceRecord>) -> Vec<IpAddr> {
        match answer(&reply(7, records), 7, NAME, Family::V4) {
            Some(DnsAnswer::Addresses(addresses)) => addresses,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn addresses_are_found_by_aliases() {
        let records = vec![
            v4("b.example.org", 1),
            alias("WWW.example.org", "a.example.org"),
            alias("a.example.org", "b.example.org"),
            v4("other.example.org", 2),
            record("b.example.org", RData::AAAA(AAAA { address: 3 })),
        ];
        assert_eq!(found(records), [IpAddr::from([0, 0, 0, 1])]);
        assert!(found(vec![]).is_empty());
    }

    #[test]
    fn hostile_answers_have_limits() {
        let ring = vec![
            alias(NAME, "a.example.org"),
            alias("a.example.org", NAME),
            v4("other.example.org", 2),
        ];
        assert!(found(ring).is_empty());
        let mut chain = vec![alias(NAME, "a0")];
        let hops = [
            "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b0", "b1", "b2",
        ];
        let more = [
            "b3", "b4", "b5", "b6", "b7", "b8", "b9", "c0", "c1", "c2", "c3", "c4", "c5",
        ];
        let hops = [hops, more].concat();
        chain.extend(hops.windows(2).map(|pair| alias(pair[0], pair[1])));
        chain.push(v4("c5", 1));
        assert!(found(chain).is_empty(), "more aliases than anybody uses");
        let many = (0..1000).map(|number| v4(NAME, number)).collect();
        assert_eq!(found(many).len(), ADDRESS_LIMIT);
        // A name that points to itself.
        let mut bytes = reply(7, vec![v4(NAME, 1)]);
        let place = bytes
            .windows(2)
            .position(|pair| pair == [0xc0, 12])
            .unwrap();
        bytes[place + 1] = place as u8;
        assert_eq!(answer(&bytes, 7, NAME, Family::V4), None);
        for length in 0..bytes.len() {
            assert_eq!(answer(&bytes[..length], 7, NAME, Family::V4), None);
        }
    }

    #[test]
    fn only_the_answer_to_the_question_counts() {
        let bytes = reply(7, vec![v4(NAME, 1)]);
        assert!(answer(&bytes, 7, NAME, Family::V4).is_some());
        assert_eq!(answer(&bytes, 8, NAME, Family::V4), None);
        assert_eq!(answer(&bytes, 7, NAME, Family::V6), None);
        assert_eq!(answer(&bytes, 7, "example.org", Family::V4), None);
        let question = question(7, NAME, Family::V4).unwrap();
        assert_eq!(answer(&question, 7, NAME, Family::V4), None);
    }

    #[test]
    fn answers_have_kinds() {
        let with = |change: &dyn Fn(&mut Packet)| {
            let bytes = reply(7, vec![]);
            let mut packet = Packet::parse(&bytes).unwrap();
            change(&mut packet);
            answer(&packet.build_bytes_vec().unwrap(), 7, NAME, Family::V4).unwrap()
        };
        let code = |code| with(&move |packet: &mut Packet| *packet.rcode_mut() = code);
        assert_eq!(code(RCODE::NameError), DnsAnswer::NoSuchName);
        assert_eq!(code(RCODE::ServerFailure), DnsAnswer::Refused);
        let truncated = with(&|packet| packet.set_flags(PacketFlag::TRUNCATION));
        assert_eq!(truncated, DnsAnswer::Truncated);
    }

    #[test]
    fn the_configuration_is_that_of_resolv_conf() {
        let text = "# c\nnameserver 10.0.0.1 ; x\nnameserver fe80::1%eth0\nnameserver 10.0.0.3\n\
                    nameserver 10.0.0.4\nsearch a.org b.org\noptions ndots:2 timeout:99 attempts:0";
        let config = ResolvConf::parse(text);
        assert_eq!(config.servers, ["10.0.0.1", "fe80::1%eth0", "10.0.0.3"]);
        assert_eq!((config.timeout.as_secs(), config.attempts), (30, 1));
        assert_eq!(config.candidates("x.y"), ["x.y.a.org", "x.y.b.org", "x.y"]);
        assert_eq!(config.candidates("x.y.z")[0], "x.y.z");
        assert_eq!(config.candidates("x."), ["x."]);
        assert_eq!(ResolvConf::parse("nonsense\n\0"), ResolvConf::default());
    }

    #[test]
    fn hosts_have_names() {
        let text = "127.0.0.1 localhost # own\n10.0.0.9\tnas NAS.lan\nbad nas\n::9 nas\n";
        let expected: [IpAddr; 2] = ["10.0.0.9".parse().unwrap(), "::9".parse().unwrap()];
        assert_eq!(in_hosts(text, "nas"), expected);
        assert_eq!(in_hosts(text, "nas.LAN."), expected[..1]);
        assert!(in_hosts(text, "own").is_empty());
    }

    #[test]
    fn names_have_rules() {
        for good in ["a", "a.b", "a.b.", "_x._tcp.a-b.org"] {
            assert!(is_name(good), "{good}");
            assert!(question(1, good, Family::V4).is_some(), "{good}");
        }
        let long = "x".repeat(64);
        let deep = "abc.".repeat(64);
        for bad in ["", ".", "a..b", "a b", "ä", "a\0", &long, &deep] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
