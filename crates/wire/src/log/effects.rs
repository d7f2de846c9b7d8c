//! What a controller supports: log pages (00h), commands (05h) and features (12h), one dword each.
//! [Base 2.0, 5.16.1.1, 5.16.1.6 and 5.16.1.18]

layout! {
    /// Entry of the supported log pages log (00h); entry n, at byte 4n, is about LID n. [Base 2.0, 5.16.1.1, Figure 204]
    pub struct SupportedLogPage[4] {
        lsupp: bool @ 0 [0] "LID Supported (LSUPP)",
        ios: bool @ 0 [1] "Index Offset Supported (IOS)",
        lidsp: u16 @ 2 "LID Specific Parameter (LIDSP)",
    }

    /// Entry of the commands supported and effects log (05h): admin opcode n at byte 4n, I/O opcode n at byte 1024 + 4n.
    /// [Base 2.0, 5.16.1.6, Figure 210]
    pub struct CommandEffects[4] {
        csupp: bool @ 0 [0] "Command Supported (CSUPP)" = "nvme.cmd.get_logpage.cmd_and_eff.cseds.csupp",
        lbcc: bool @ 0 [1] "Logical Block Content Change (LBCC)" = "nvme.cmd.get_logpage.cmd_and_eff.cseds.lbcc",
        ncc: bool @ 0 [2] "Namespace Capability Change (NCC)" = "nvme.cmd.get_logpage.cmd_and_eff.cseds.ncc",
        nic: bool @ 0 [3] "Namespace Inventory Change (NIC)" = "nvme.cmd.get_logpage.cmd_and_eff.cseds.nic",
        ccc: bool @ 0 [4] "Controller Capability Change (CCC)" = "nvme.cmd.get_logpage.cmd_and_eff.cseds.ccc",
        cser: u8 @ 0 [15:14] "Command Submission and Execution Relaxations (CSER); later than 2.0",
        cse: u8 @ 0 [18:16] "Command Submission and Execution (CSE): 0 no restriction, 1 one a namespace, 2 one a controller" = "nvme.cmd.get_logpage.cmd_and_eff.cseds.cse",
        uss: bool @ 0 [19] "UUID Selection Supported" = "nvme.cmd.get_logpage.cmd_and_eff.cseds.uss",
        csp: u16 @ 0 [31:20] "Command Scope (CSP), a bit a scope: 0 namespace, 1 controller, 2 NVM set, 3 endurance group, 4 domain, 5 subsystem",
    }

    /// Entry of the feature identifiers supported and effects log (12h); entry n, at byte 4n, is about FID n.
    /// [Base 2.0, 5.16.1.18, Figure 255]
    pub struct FeatureEffects[4] {
        fsupp: bool @ 0 [0] "FID Supported (FSUPP)",
        udcc: bool @ 0 [1] "User Data Content Change (UDCC)",
        ncc: bool @ 0 [2] "Namespace Capability Change (NCC)",
        nic: bool @ 0 [3] "Namespace Inventory Change (NIC)",
        ccc: bool @ 0 [4] "Controller Capability Change (CCC)",
        uss: bool @ 0 [19] "UUID Selection Supported",
        fsp: u16 @ 0 [31:20] "FID Scope (FSP), a bit a scope: 0 namespace, 1 controller, 2 NVM set, 3 endurance group, 4 domain, 5 subsystem, 6 controller data queue",
    }
}

/// Byte of the commands supported and effects log where an opcode's entry stands.
pub fn command_entry_offset(io: bool, opcode: u8) -> usize {
    usize::from(io) * 1024 + usize::from(opcode) * 4
}

/// Length in bytes of the commands supported and effects log.
pub const COMMAND_EFFECTS_BYTES: usize = 4096;
