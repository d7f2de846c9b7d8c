//! Registration with a discovery controller: the Discovery Information Management command and its data. [Base 2.1, 5.3.3]
//!
//! The data is a [`RegistrationHeader`] and NUMENT entries: basic ones are [`crate::log::DiscoveryEntry`], extended ones a
//! [`RegistrationEntry`] and its attributes; [`crate::log::extended`] reads both what follows and where the next entry starts.

use crate::layout::Structure;
use crate::log::DiscoveryEntry;
use crate::sqe::Sqe;
use crate::value::{Ascii, Text};

layout! {
    /// Discovery Information Management command. [Base 2.1, 5.3.3, Figures 495 and 496]
    pub struct DiscoveryInformationManagement[64] of Sqe without 8..24, 40..64 {
        tas: RegistrationTask @ 40 [3:0] "Task (TAS)",
    }

    /// Head of the data of Discovery Information Management, 1024 bytes. [Base 2.1, 5.3.3, Figure 497]
    pub struct RegistrationHeader[1024] {
        tdl: u32 @ 0 "Total Data Length (TDL), bytes",
        nument: u64 @ 8 "Number of Entries (NUMENT)",
        entfmt: EntryFormat @ 16 "Entry Format (ENTFMT)",
        etype: EntityType @ 18 "Entity Type (ETYPE)",
        portlcl: u8 @ 20 "Port Local (PORTLCL): 1, of a DDC, entries of this port alone",
        ektype: EntryKey @ 22 "Entry Key Type (EKTYPE)",
        eid: (Text<256>) @ 24 "Entity Identifier (EID)",
        ename: (Ascii<256>) @ 280 "Entity Name (ENAME)",
        ever: (Ascii<64>) @ 536 "Entity Version (EVER)",
    }

    /// Extended discovery information entry without its attributes: the first 1032 of TEL bytes. Other than in a discovery log
    /// entry bytes 11:10 are reserved, and the name may be a host's. [Base 2.1, 5.3.3, Figure 498]
    pub struct RegistrationEntry[1032] of DiscoveryEntry without 10..12, 256..512 {
        nqn: (Text<256>) @ 256 "NVMe Qualified Name (NQN)",
        tel: u32 @ 1024 "Total Entry Length (TEL), bytes",
        numexat: u16 @ 1028 "Number of Extended Attributes (NUMEXAT)",
    }
}

open_enum! {
    /// Task (TAS). [Base 2.1, 5.3.3, Figure 496]
    pub struct RegistrationTask(u8) {
        REGISTER = 0 "register",
        DEREGISTER = 1 "deregister",
        UPDATE = 2 "update",
    }
    /// Entry Format (ENTFMT). [Base 2.1, 5.3.3, Figure 497]
    pub struct EntryFormat(u16) {
        BASIC = 1 "basic",
        EXTENDED = 2 "extended",
    }
    /// Entity Type (ETYPE). [Base 2.1, 5.3.3, Figure 497]
    pub struct EntityType(u16) {
        HOST = 1 "host",
        DDC = 2 "direct discovery controller",
        CDC = 3 "centralized discovery controller",
    }
    /// Entry Key Type (EKTYPE), a bit a part of the key: 0 NQN, 1 TSAS, 2 TRSVCID, 3 ADRFAM, 4 TRTYPE, 5 PORTID, 6 TRADDR.
    /// [Base 2.1, 5.3.3, Figure 497]
    pub struct EntryKey(u16) {
        BY_PORTID = 0x3f "by PORTID",
        BY_TRADDR = 0x5f "by TRADDR",
    }
}

impl RegistrationEntry {
    /// The part that is laid out as a discovery log entry; its SUBNQN is the entry's NQN.
    pub fn entry(&self) -> DiscoveryEntry {
        DiscoveryEntry::with_bytes(self.as_bytes())
    }
}
