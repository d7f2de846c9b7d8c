//! What reaches what: reachability groups (1Ah) and associations (1Bh), and the subsystems that share a dispersed namespace (17h).
//! [Base 2.1, 5.1.12.1]

layout! {
    /// Head of the reachability groups (1Ah) and reachability associations (1Bh) logs. [Base 2.1, 5.1.12.1]
    pub struct ReachabilityHead[16] {
        chngc: u64 @ 0 "Change Count (CHNGC)",
        n: u16 @ 8 "Number of Descriptors (NRGD, NRAD)",
    }

    /// Reachability group descriptor; its NSIDs follow, 4 bytes each. [Base 2.1, 5.1.12.1]
    pub struct ReachabilityGroup[32] {
        rgid: u32 @ 0 "Reachability Group ID (RGID)",
        nnid: u32 @ 4 "Number of NSID Values (NNID)",
        chngc: u64 @ 8 "Change Count (CHNGC)",
    }

    /// Reachability association descriptor; its reachability group IDs follow, 4 bytes each. [Base 2.1, 5.1.12.1]
    pub struct ReachabilityAssociation[32] {
        rasid: u32 @ 0 "Reachability Association ID (RASID)",
        nrid: u32 @ 4 "Number of RGID Values (NRID)",
        chngc: u64 @ 8 "Change Count (CHNGC)",
        rac: u8 @ 16 "Reachability Association Characteristics (RAC)",
    }

    /// Head of the log of NVM subsystems that participate in a dispersed namespace (17h); their NQNs follow, 256 bytes each.
    /// [Base 2.1, 5.1.12.1]
    pub struct DispersedHead[256] {
        genctr: u64 @ 0 "Generation Counter (GENCTR)",
        numpsub: u64 @ 8 "Number of Participating NVM Subsystems (NUMPSUB)",
    }
}
