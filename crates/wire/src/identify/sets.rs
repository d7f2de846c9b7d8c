//! Identify data about what a subsystem is made of: controllers (CNS 12h to 15h), NVM sets (04h), granularity of namespaces (16h),
//! UUIDs (17h), domains (18h), endurance groups (19h) and combinations of I/O command sets (1Ch). [Base 2.0, 5.17.2]
//!
//! Each is a page of 4096 bytes; the tables are its entries. Lists that begin with a count of 16 bits are read with [`read_id_list`].

use alloc::vec::Vec;

use super::IDENTIFY_BYTES;
use crate::layout::{DecodeError, Structure};
use crate::open::{Cntlid, ZeroBased8};

layout! {
    /// Combination of I/O command sets (CNS 1Ch), a bit a set; a page has 512, none behind the first that is 0.
    /// [Base 2.0, 5.17.2.21, Figures 289 and 290]
    pub struct CommandSetVector[8] {
        nvm: bool @ 0 [0] "NVM Command Set",
        kv: bool @ 0 [1] "Key Value Command Set",
        zns: bool @ 0 [2] "Zoned Namespace Command Set",
    }

    /// Head of a controller list (CNS 12h and 13h, Namespace Attachment): as many identifiers follow, ascending.
    /// [Base 2.0, 4.4.1]
    pub struct ControllerListHead[2] {
        n: u16 @ 0 "Number of Identifiers, at most 2047",
    }

    /// Primary controller capabilities (CNS 14h), 4096 bytes. [Base 2.0, 5.17.2.13, Figure 281]
    pub struct PrimaryController[4096] {
        cntlid: Cntlid @ 0 "Controller Identifier (CNTLID)",
        portid: u16 @ 2 "Port Identifier (PORTID)",
        crt_vq: bool @ 4 [0] "Controller Resource Types (CRT): VQ resources",
        crt_vi: bool @ 4 [1] "Controller Resource Types (CRT): VI resources",
        vqfrt: u32 @ 32 "VQ Resources Flexible Total (VQFRT)",
        vqrfa: u32 @ 36 "VQ Resources Flexible Assigned (VQRFA)",
        vqrfap: u16 @ 40 "VQ Resources Flexible Allocated to Primary (VQRFAP)",
        vqprt: u16 @ 42 "VQ Resources Private Total (VQPRT)",
        vqfrsm: u16 @ 44 "VQ Resources Flexible Secondary Maximum (VQFRSM)",
        vqgran: u16 @ 46 "VQ Flexible Resource Preferred Granularity (VQGRAN)",
        vifrt: u32 @ 64 "VI Resources Flexible Total (VIFRT)",
        virfa: u32 @ 68 "VI Resources Flexible Assigned (VIRFA)",
        virfap: u16 @ 72 "VI Resources Flexible Allocated to Primary (VIRFAP)",
        viprt: u16 @ 74 "VI Resources Private Total (VIPRT)",
        vifrsm: u16 @ 76 "VI Resources Flexible Secondary Maximum (VIFRSM)",
        vigran: u16 @ 78 "VI Flexible Resource Preferred Granularity (VIGRAN)",
    }

    /// Entry of the secondary controller list (CNS 15h): byte 0 of the page is their number, entry n stands at byte 32 + 32n.
    /// [Base 2.0, 5.17.2.14, Figures 282 and 283]
    pub struct SecondaryController[32] {
        scid: Cntlid @ 0 "Secondary Controller Identifier (SCID)",
        pcid: Cntlid @ 2 "Primary Controller Identifier (PCID)",
        online: bool @ 4 [0] "Secondary Controller State (SCS): online",
        vfn: u16 @ 8 "Virtual Function Number (VFN)",
        nvq: u16 @ 10 "Number of VQ Flexible Resources Assigned (NVQ)",
        nvi: u16 @ 12 "Number of VI Flexible Resources Assigned (NVI)",
    }

    /// Entry of the NVM set list (CNS 04h): byte 0 of the page is their number, entry n stands at byte 128 + 128n. Capacities are
    /// little-endian, bytes. [Base 2.0, 5.17.2.4, Figures 278 and 279]
    pub struct NvmSet[128] {
        nvmsetid: u16 @ 0 "NVM Set Identifier (NVMSETID)",
        endgid: u16 @ 2 "Endurance Group Identifier (ENDGID)",
        read_typical: u32 @ 8 "Random 4 KiB Read Typical, 100 ns",
        optimal_write: u32 @ 12 "Optimal Write Size, bytes, 0 not said",
        total: [u8; 16] @ 16 "Total NVM Set Capacity, bytes",
        unallocated: [u8; 16] @ 32 "Unallocated NVM Set Capacity, bytes",
    }

    /// Head of the namespace granularity list (CNS 16h); descriptor n stands at byte 32 + 16n.
    /// [NVM Command Set 1.0, 4.1.5.6, Figure 103]
    pub struct NamespaceGranularityHead[32] {
        mapping: bool @ 0 [0] "Granularity Descriptor Mapping: descriptor n is about LBA format n, else 0 about all",
        nd: ZeroBased8 @ 4 "Number of Descriptors, 0's based",
    }

    /// Namespace granularity descriptor. [NVM Command Set 1.0, 4.1.5.6, Figure 104]
    pub struct NamespaceGranularity[16] {
        size: u64 @ 0 "Namespace Size Granularity, bytes, 0 not said",
        capacity: u64 @ 8 "Namespace Capacity Granularity, bytes, 0 not said",
    }

    /// Entry of the UUID list (CNS 17h): entry 1, of UUID index 1, stands at byte 32, entry n at byte 32n. The first that is 0 ends the list.
    /// [Base 2.0, 5.17.2.16, Figures 284 and 285]
    pub struct UuidEntry[32] {
        association: u8 @ 0 [1:0] "Identifier Association: 0 none, 1 with VID, 2 with SSVID",
        uuid: [u8; 16] @ 16 "Universally Unique Identifier (UUID), in wire order",
    }

    /// Entry of the domain list (CNS 18h): byte 0 of the page is their number, entry n stands at byte 128 + 128n. Capacities are
    /// little-endian, bytes. [Base 2.0, 5.17.2.17, Figures 286 and 287]
    pub struct Domain[128] {
        domid: u16 @ 0 "Domain Identifier",
        total: [u8; 16] @ 16 "Total Domain Capacity, bytes",
        unallocated: [u8; 16] @ 32 "Unallocated Domain Capacity, bytes",
        max_group: [u8; 16] @ 48 "Max Endurance Group Domain Capacity, bytes, 0 not said",
    }
}

/// Most identifiers in a list with a count of 16 bits: of controllers, or of endurance groups. [Base 2.0, 4.4.1]
pub const ID_LIST_ENTRIES: usize = 2047;

/// Reads a list of 16-bit identifiers behind their count: controllers (CNS 12h and 13h), endurance groups (19h). A list that is not
/// ascending is one that the caller judges. Fails where the count is above 2047 or the bytes end before.
pub fn read_id_list(page: &[u8]) -> Result<Vec<u16>, DecodeError> {
    let n = usize::from(ControllerListHead::read(page)?.n());
    let list = page.get(ControllerListHead::LEN..).unwrap_or(&[]);
    let (ids, _) = list.as_chunks::<2>();
    match ids.get(..n) {
        Some(ids) if n <= ID_LIST_ENTRIES => Ok(ids.iter().map(|b| u16::from_le_bytes(*b)).collect()),
        _ => {
            let room = ids.len().min(ID_LIST_ENTRIES);
            Err(DecodeError { what: "identifier list", at: 0, why: alloc::format!("{n} identifiers announced, room for {room}") })
        }
    }
}

/// Reads a controller list; see [`read_id_list`].
pub fn read_controller_list(page: &[u8]) -> Result<Vec<Cntlid>, DecodeError> {
    Ok(read_id_list(page)?.into_iter().map(Cntlid).collect())
}

/// A page that lists the first 2047 of `controllers` (which the caller gives ascending), zero behind the last.
pub fn controller_list(controllers: impl IntoIterator<Item = Cntlid>) -> Vec<u8> {
    let mut page = alloc::vec![0; ControllerListHead::LEN];
    for c in controllers.into_iter().take(ID_LIST_ENTRIES) {
        page.extend_from_slice(&c.0.to_le_bytes());
    }
    let n = u16::try_from(page.len() / 2 - 1).unwrap_or(u16::MAX);
    for (to, from) in page.iter_mut().zip(n.to_le_bytes()) {
        *to = from;
    }
    page.resize(IDENTIFY_BYTES, 0);
    page
}

/// Reads the combinations of I/O command sets (CNS 1Ch) up to the first that is 0. Whether those behind it are 0 too is for the caller
/// to judge; a last combination of less than 8 bytes is none.
pub fn read_command_sets(page: &[u8]) -> Vec<CommandSetVector> {
    let (vectors, _) = page.as_chunks::<8>();
    vectors.iter().take_while(|v| **v != [0; 8]).map(|v| CommandSetVector::from_bytes(*v)).collect()
}

/// A page with the first 512 of these combinations, zero behind the last.
pub fn command_sets(vectors: impl IntoIterator<Item = CommandSetVector>) -> Vec<u8> {
    let mut page: Vec<u8> = vectors.into_iter().take(IDENTIFY_BYTES / CommandSetVector::LEN).flat_map(|v| *v.as_bytes()).collect();
    page.resize(IDENTIFY_BYTES, 0);
    page
}

/// Reads a page of entries behind a head as long as one of them, byte 0 of which is their number: NVM sets (CNS 04h), domains (18h),
/// secondary controllers (15h). Fails where the bytes end before.
pub fn read_entries<T: Structure>(page: &[u8]) -> Result<Vec<T>, DecodeError> {
    let n = usize::from(page.first().copied().unwrap_or(0));
    let bytes = T::LAYOUT.bytes;
    let list = page.get(bytes..).unwrap_or(&[]);
    if list.len() / bytes < n {
        let why = alloc::format!("{n} entries announced, room for {}", list.len() / bytes);
        return Err(DecodeError { what: T::LAYOUT.name, at: 0, why });
    }
    Ok(list.chunks_exact(bytes).take(n).map(T::with_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_list_comes_back_and_ends_at_2047() {
        let page = controller_list([Cntlid(1), Cntlid(0x102)]);
        assert_eq!((page.len(), &page[..8]), (4096, &[2, 0, 1, 0, 2, 1, 0, 0][..]));
        assert_eq!(read_controller_list(&page).unwrap(), [Cntlid(1), Cntlid(0x102)]);
        let full = controller_list((0..3000).map(Cntlid));
        assert_eq!((full.len(), read_controller_list(&full).unwrap().len()), (4096, 2047));
        assert!(read_controller_list(&[3, 0, 1, 0, 2, 0]).unwrap_err().why.contains("room for 2"));
        let long = [&[0, 8][..], &[1; 8192]].concat();
        assert!(read_id_list(&long).unwrap_err().why.contains("2048 identifiers announced, room for 2047"));
    }

    #[test]
    fn combinations_end_at_zero() {
        let set = |nvm, zns| CommandSetVector::new().with(|s| s.nvm(nvm).zns(zns));
        let page = command_sets([set(true, false), set(true, true)]);
        assert_eq!((page.len(), page[0], page[8], page[16]), (4096, 1, 5, 0));
        assert_eq!(read_command_sets(&page), [set(true, false), set(true, true)]);
        assert_eq!(read_command_sets(&command_sets((0..600).map(|_| set(true, false)))).len(), 512);
    }

    #[test]
    fn entries_stand_behind_a_head_of_their_size() {
        let mut page = alloc::vec![0u8; 4096];
        page[0] = 2;
        page[32] = 9;
        page[64] = 10;
        let list = read_entries::<SecondaryController>(&page).unwrap();
        assert_eq!((list[0].scid(), list[1].scid(), list.len()), (Cntlid(9), Cntlid(10), 2));
        page[0] = 32;
        assert!(read_entries::<NvmSet>(&page).unwrap_err().why.contains("32 entries announced, room for 31"));
        assert!(read_entries::<Domain>(&[]).unwrap().is_empty());
    }
}
