//! One normative statement of a specification, and the ways to find it.

use core::cmp::Ordering;
use core::fmt;

use crate::Revision;
use crate::ids::{SILENCE_TABLES, TABLES};

/// One normative statement, in our own words.
///
/// Two requirements are the same when their ids are.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// The written slug, such as `TCP-ICREQ-02`. Ids are append-only: a dropped one is never given again.
    pub id: &'static str,
    /// The document and its revision, such as `NVM Express Base 2.0`.
    pub spec: &'static str,
    /// Section, and figure where it helps, within [`Self::spec`].
    pub section: &'static str,
    /// The strongest keyword of the statement.
    pub level: Level,
    /// Who has to do it.
    pub role: Role,
    /// What it takes to see whether it is done.
    pub judge: Judge,
    /// The statement, paraphrased.
    pub says: &'static str,
    /// The answer due on a breach; for a rule about a reaction, that reaction. Empty where the text is silent.
    pub answer: &'static str,
    /// Doubts, errata, and where implementations differ. May be empty.
    pub note: &'static str,
    /// Why no check covers it. Empty where one can; see [`Self::unchecked_because`].
    pub reason: &'static str,
    /// The first Base revision that asks for it; `None` means that every revision with a fabric does.
    pub since: Option<Revision>,
    /// The last Base revision that asks for it; `None` means that none has dropped it.
    pub until: Option<Revision>,
}

impl Requirement {
    /// Whether a peer of this revision is bound by it.
    #[must_use]
    pub fn applies_to(&self, revision: Revision) -> bool {
        self.since.is_none_or(|since| since <= revision) && self.until.is_none_or(|until| revision <= until)
    }

    /// Why no check can cover it, or `None` if one can. What stays inside a peer is its own reason.
    #[must_use]
    pub fn unchecked_because(&self) -> Option<&'static str> {
        if !self.reason.is_empty() {
            Some(self.reason)
        } else if self.judge == Judge::Inside {
            Some("it stays inside the peer: no message shows it")
        } else {
            None
        }
    }
}

impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Requirement {}

impl PartialOrd for Requirement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Requirement {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id.cmp(other.id)
    }
}

impl fmt::Display for Requirement {
    /// `TCP-ICREQ-02 (NVMe TCP Transport 1.0, 3.1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.id, self.spec, self.section)
    }
}

/// The strongest keyword of a statement. A plain statement of fact that prescribes behaviour counts as `Shall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Unmet is a failure.
    Shall,
    /// Unmet is a warning.
    Should,
    /// A freedom: cited where a peer must cope with what the other side may do.
    May,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Shall => "shall",
            Level::Should => "should",
            Level::May => "may",
        })
    }
}

/// Who is bound by a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The host.
    Host,
    /// The controller, discovery controllers included.
    Controller,
    /// Host and controller alike.
    Both,
    /// The NVM subsystem beyond one controller, or what configures it.
    Subsystem,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::Host => "host",
            Role::Controller => "controller",
            Role::Both => "host and controller",
            Role::Subsystem => "subsystem",
        })
    }
}

/// What it takes to see whether a statement is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Judge {
    /// The bytes alone show it: a bystander with a capture can judge.
    Wire,
    /// Somebody has to provoke it: a stimulus, a second host, a change of configuration, a wait.
    Peer,
    /// No message shows it.
    Inside,
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Judge::Wire => "wire",
            Judge::Peer => "peer",
            Judge::Inside => "inside",
        })
    }
}

/// A case that a specification leaves open: nobody fails there, and what implementations do is only recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The written slug, such as `TCP-SILENT-05`.
    pub id: &'static str,
    /// The document and its revision.
    pub spec: &'static str,
    /// The section in which an answer would be looked for.
    pub section: &'static str,
    /// The case.
    pub topic: &'static str,
    /// What implementations do.
    pub seen: &'static str,
}

/// The requirement with this id. Ids are matched exactly, in capitals and with hyphens.
#[must_use]
pub fn requirement(id: &str) -> Option<&'static Requirement> {
    TABLES.iter().find_map(|table| {
        let at = table.binary_search_by(|r| r.id.cmp(id)).ok()?;
        table.get(at).copied()
    })
}

/// Every requirement: document by document, in the order of ids within one.
pub fn all() -> impl Iterator<Item = &'static Requirement> {
    TABLES.iter().flat_map(|table| table.iter().copied())
}

/// The open case with this id.
#[must_use]
pub fn silence(id: &str) -> Option<&'static Silence> {
    silences().find(|s| s.id == id)
}

/// Every case that is known to be left open, in the order of [`all`].
pub fn silences() -> impl Iterator<Item = &'static Silence> {
    SILENCE_TABLES.iter().flat_map(|table| table.iter())
}

#[cfg(test)]
mod tests {
    use crate::ids::TABLES;

    #[test]
    fn ids_rise_within_each_table() {
        // `requirement` searches a table by halves.
        for table in TABLES {
            assert!(!table.is_empty());
            for pair in table.windows(2) {
                assert!(pair[0].id < pair[1].id, "{} before {}", pair[0].id, pair[1].id);
            }
        }
    }
}
