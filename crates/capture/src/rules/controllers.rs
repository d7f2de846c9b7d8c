//! The controllers whose Admin Queues were seen, found by connection and by name.

use std::collections::BTreeMap;

use nvmf_wire::Cntlid;

use super::known::{Known, Who};

/// See the module. One entry a connection of an Admin Queue, until it is forgotten.
#[derive(Debug, Default)]
pub(super) struct Controllers {
    known: BTreeMap<usize, Box<Known>>,
    /// Connections of Admin Queues by subsystem and controller ID, so that ten thousand associations can be told apart quickly.
    names: BTreeMap<String, BTreeMap<u16, Vec<usize>>>,
}

impl Controllers {
    /// Exchanges what is known of the controller at `home` with `lent`, and back again after use. `new` makes an entry where there
    /// is none; else `lent` stays as it is.
    pub fn swap(&mut self, home: usize, new: bool, lent: &mut Box<Known>) {
        match self.known.get_mut(&home) {
            Some(known) => std::mem::swap(known, lent),
            None if new => {
                self.known.insert(home, std::mem::take(lent));
            }
            None => return,
        }
        let Some(known) = self.known.get_mut(&home).filter(|k| !k.named) else { return };
        if let Some(w) = &known.who {
            self.names.entry(w.subnqn.clone()).or_default().entry(w.cntlid.0).or_default().push(home);
            known.named = true;
        }
    }

    /// Drops what is known of the controller whose Admin Queue was connection `home`.
    pub fn forget(&mut self, home: usize) {
        let Some(w) = self.known.remove(&home).and_then(|k| k.who) else { return };
        let Some(ids) = self.names.get_mut(&w.subnqn) else { return };
        if let Some(homes) = ids.get_mut(&w.cntlid.0) {
            homes.retain(|h| *h != home);
            if homes.is_empty() {
                ids.remove(&w.cntlid.0);
            }
        }
        if ids.is_empty() {
            self.names.remove(&w.subnqn);
        }
    }

    /// Those that stand under this name, oldest first.
    pub fn named<'a>(&'a self, subnqn: &str, cntlid: Cntlid) -> impl DoubleEndedIterator<Item = (usize, &'a Known)> {
        let homes = self.names.get(subnqn).and_then(|ids| ids.get(&cntlid.0)).map_or(&[][..], Vec::as_slice);
        let found = homes.iter().filter_map(|h| self.known.get(h).map(|k| (*h, k.as_ref())));
        // An Admin Queue may have been connected again, to another.
        found.filter(move |(_, k)| k.open && k.who.as_ref().is_some_and(|w| w.cntlid == cntlid))
    }

    /// The connection of the Admin Queue that an I/O queue of this host, subsystem and controller belongs to: the newest.
    pub fn home(&self, who: &Who) -> Option<usize> {
        let same = || self.named(&who.subnqn, who.cntlid).rev();
        let exact = |k: &Known| k.who.as_ref().is_some_and(|w| w.hostid == who.hostid && w.hostnqn == who.hostnqn);
        same().find(|(_, k)| exact(k)).or_else(|| same().next()).map(|(home, _)| home)
    }
}
