//! Asymmetric namespace access log (0Ch): a header, then a descriptor and its NSIDs for each group. [Base 2.0, 5.16.1.13]

use alloc::vec::Vec;

use crate::layout::DecodeError;
use crate::open::Nsid;

layout! {
    /// Header of the ANA log. [Base 2.0, 5.16.1.13, Figure 222]
    pub struct AnaHeader[16] {
        chcnt: u64 @ 0 "Change Count" = "nvme.cmd.get_logpage.ana.chcnt",
        groups: u16 @ 8 "Number of ANA Group Descriptors" = "nvme.cmd.get_logpage.ana.ngd",
    }

    /// ANA group descriptor; its NSIDs follow, 4 bytes each, ascending. [Base 2.0, 5.16.1.13, Figure 223]
    pub struct AnaGroup[32] {
        grpid: u32 @ 0 "ANA Group ID" = "nvme.cmd.get_logpage.ana.grp.id",
        nsids: u32 @ 4 "Number of NSID Values" = "nvme.cmd.get_logpage.ana.grp.nns",
        chcnt: u64 @ 8 "Change Count" = "nvme.cmd.get_logpage.ana.grp.chcnt",
        state: AnaState @ 16 [3:0] "Asymmetric Namespace Access State" = "nvme.cmd.get_logpage.ana.grp.anas.state",
    }
}

open_enum! {
    /// Asymmetric namespace access state. [Base 2.0, 5.16.1.13, Figure 223]
    pub struct AnaState(u8) {
        OPTIMIZED = 0x1 "optimized",
        NON_OPTIMIZED = 0x2 "non-optimized",
        INACCESSIBLE = 0x3 "inaccessible",
        PERSISTENT_LOSS = 0x4 "persistent loss",
        CHANGE = 0xf "change",
    }
}

/// The groups of an ANA log, each with its NSIDs.
pub type AnaGroups = Vec<(AnaGroup, Vec<Nsid>)>;

/// Reads a whole ANA log: the header and each group with its NSIDs. Fails where the bytes end before what the counts announce.
pub fn read_ana(page: &[u8]) -> Result<(AnaHeader, AnaGroups), DecodeError> {
    let header = AnaHeader::read(page)?;
    let mut at = AnaHeader::LEN;
    let mut out = Vec::new();
    for _ in 0..header.groups() {
        let rest = page.get(at..).unwrap_or(&[]);
        let group = AnaGroup::read(rest).map_err(|e| DecodeError { at: at + e.at, ..e })?;
        let list = rest.get(AnaGroup::LEN..).unwrap_or(&[]);
        let wanted = group.nsids() as usize;
        let (entries, _) = list.as_chunks::<4>();
        let Some(entries) = entries.get(..wanted) else {
            let why = alloc::format!("{wanted} NSIDs announced, room for {}", list.len() / 4);
            return Err(DecodeError { what: "AnaGroup", at: at + 4, why });
        };
        out.push((group, entries.iter().map(|e| Nsid(u32::from_le_bytes(*e))).collect()));
        at += AnaGroup::LEN + wanted * 4;
    }
    Ok((header, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_beyond_the_page_is_blamed_where_it_stands() {
        let mut page = alloc::vec![0u8; 16 + 32 + 4];
        page[8] = 1;
        page[16 + 4] = 1;
        page[16 + 16] = 1;
        page[48] = 9;
        let (_, groups) = read_ana(&page).unwrap();
        assert_eq!((groups[0].0.state(), groups[0].1.as_slice()), (AnaState::OPTIMIZED, &[Nsid(9)][..]));
        page[16 + 4] = 2;
        assert_eq!(read_ana(&page).unwrap_err().at, 20);
        page[8] = 2;
        page[16 + 4] = 1;
        assert_eq!(read_ana(&page).unwrap_err().at, 52);
    }
}
