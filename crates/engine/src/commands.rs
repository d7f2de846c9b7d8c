//! The I/O commands that a controller serves: the one table that decides what it takes, what Identify Controller says of it (ONCS), and
//! what stands in its Commands Supported and Effects log.

use nvmf_seam::{Abilities, Geometry};
use nvmf_wire::identify::IdentifyController;
use nvmf_wire::sqe::IoOpcode;

/// An I/O command of the NVM command set.
pub(crate) struct IoCommand {
    pub opcode: IoOpcode,
    /// True where stores of these abilities can carry it.
    pub offered: fn(Abilities) -> bool,
    /// Its bit of ONCS.
    pub announce: fn(IdentifyController) -> IdentifyController,
    /// It may change what logical blocks hold (LBCC).
    pub changes_blocks: bool,
}

/// [NVM-RW-01, NVM-RW-02, ADM-LOG-34, ADM-LOG-35]
#[rustfmt::skip]
pub(crate) const IO_COMMANDS: [IoCommand; 9] = [
    IoCommand { opcode: IoOpcode::FLUSH, offered: |_| true, announce: |c| c, changes_blocks: false },
    IoCommand { opcode: IoOpcode::WRITE, offered: |_| true, announce: |c| c, changes_blocks: true },
    IoCommand { opcode: IoOpcode::READ, offered: |_| true, announce: |c| c, changes_blocks: false },
    IoCommand { opcode: IoOpcode::WRITE_UNCORRECTABLE, offered: |a| a.spoil, announce: |c| c.with(|s| s.oncs_wus(true)), changes_blocks: true },
    IoCommand { opcode: IoOpcode::COMPARE, offered: |a| a.compare, announce: |c| c.with(|s| s.oncs_compare(true)), changes_blocks: false },
    IoCommand { opcode: IoOpcode::WRITE_ZEROES, offered: |a| a.zero, announce: |c| c.with(|s| s.oncs_wzs(true)), changes_blocks: true },
    IoCommand { opcode: IoOpcode::DATASET_MANAGEMENT, offered: |a| a.deallocate, announce: |c| c.with(|s| s.oncs_dsm(true)), changes_blocks: true },
    IoCommand { opcode: IoOpcode::VERIFY, offered: |a| a.verify, announce: |c| c.with(|s| s.oncs_verify(true)), changes_blocks: false },
    IoCommand { opcode: IoOpcode::COPY, offered: |_| true, announce: |c| c.with(|s| s.oncs_copy(true).cdfs_0(true).cdfs_1(true)), changes_blocks: true },
];

/// The commands offered over stores of these abilities.
pub(crate) fn io_commands(stores: Abilities) -> impl Iterator<Item = &'static IoCommand> {
    IO_COMMANDS.iter().filter(move |c| (c.offered)(stores))
}

/// True where a command is offered over stores of these abilities.
pub(crate) fn is_offered(opcode: IoOpcode, stores: Abilities) -> bool {
    IO_COMMANDS.iter().find(|c| c.opcode == opcode).is_some_and(|c| (c.offered)(stores))
}

/// Compare and Write as a fused operation goes wherever Compare does (FUSES bit 0). [NVM-FUSED-01]
pub(crate) fn has_fused(stores: Abilities) -> bool {
    stores.compare
}

/// What one Copy may ask for. [NVM-RW-35, ADM-IDENTIFY-77]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyLimits {
    /// MSSRL: blocks of one source range.
    pub range: u16,
    /// MCL: blocks of all of them.
    pub total: u32,
    /// MSRC + 1: source ranges.
    pub ranges: u8,
}

impl CopyLimits {
    /// 256 KiB a range, which one buffer holds, 1 MiB in all, and always at least one block.
    pub fn of(geometry: Geometry) -> Self {
        let blocks = |bytes: u32| (bytes / geometry.block_size.max(1)).max(1);
        Self { range: u16::try_from(blocks(256 * 1024)).unwrap_or(u16::MAX), total: blocks(1024 * 1024), ranges: 16 }
    }
}
