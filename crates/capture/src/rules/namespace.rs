//! Identify data of namespaces: CNS 00h, lists of NSIDs and identification descriptors. [NVM Command Set 1.0, 4.1.5; Base 2.0, 5.17.2]

use std::collections::BTreeSet;

use nvmf_spec::req;
use nvmf_wire::admin::Cns;
use nvmf_wire::identify::{ControllerType, IdentifyNamespaceIndependent, LbaFormat, Nidt, read_descriptors};
use nvmf_wire::layout::Layout;
use nvmf_wire::{IdentifyNamespace, Structure};

use super::state::State;
use super::{Out, Said};

const NAMESPACE: &Layout = <IdentifyNamespace as Structure>::LAYOUT;

const V1_3: u32 = 0x0001_0300;
const V1_4: u32 = 0x0001_0400;

pub(super) fn namespace(state: &State, nsid: u32, data: &[u8], who: Said, out: &mut Out) {
    // Read without a detour: it is copied 4 KiB at a time.
    let Some(bytes) = data.first_chunk() else { return };
    // All zero is an inactive namespace; NSID FFFFFFFFh gives what all have in common.
    if data.iter().all(|b| *b == 0) || nsid == 0xffff_ffff {
        return;
    }
    let n = IdentifyNamespace::from_bytes(*bytes);
    let who = format_args!("{who}, NSID {nsid}");
    let (nsze, ncap, nuse) = (n.nsze(), n.ncap(), n.nuse());
    let sizes = format_args!("{who}: NSZE {nsze}, NCAP {ncap}, NUSE {nuse}");
    out.check(nsze >= ncap && ncap >= nuse, req::ADM_IDENTIFY_71, sizes, "each no more than the one before");
    out.of(NAMESPACE, "nsfeat_thinp").check(
        n.nsfeat_thinp() || ncap == nsze,
        req::ADM_IDENTIFY_71,
        sizes,
        "NCAP as NSZE without thin provisioning",
    );
    formats(state, &n, data, &who, out);
    if state.known.since(V1_4) {
        out.of(NAMESPACE, "dpc_first").check(
            !n.dpc_first() && !n.dps_first(),
            req::ADM_IDENTIFY_74,
            format_args!("{who}: protection information first"),
            "last",
        );
    }
    atomics(state, &n, &who, out);
    let nameless = n.nguid() == [0; 16] && n.eui64() == [0; 8];
    out.of(NAMESPACE, "nsfeat_uidreuse").check(
        !(nameless && n.nsfeat_uidreuse()),
        req::ADM_IDENTIFY_80,
        format_args!("{who}: UIDREUSE without NGUID and EUI64"),
        "0",
    );
    let progress = n.fpi_supported() || n.fpi_remaining() == 0;
    out.of(NAMESPACE, "fpi_remaining").check(
        progress,
        req::ADM_IDENTIFY_80,
        format_args!("{who}: FPI {} without its bit 7", n.fpi_remaining()),
        "0",
    );
    if state.known.since(V1_3) && n.rescap() & 0x7f != 0 {
        out.of(NAMESPACE, "rescap").check(
            n.rescap() & 0x80 != 0,
            req::RES_04,
            format_args!("{who}: RESCAP {:#04x}", n.rescap()),
            "bit 7 set",
        );
    }
    let metadata = n.lba_format(n.format_in_use()).is_some_and(|f| f.ms() != 0);
    out.of(NAMESPACE, "flbas_extended").check(
        !metadata || n.flbas_extended(),
        req::SQE_20,
        format_args!("{who}: metadata in a buffer of its own"),
        "at the end of the block",
    );
    let zeroes = state.known.spaces.iter().find(|(id, s)| **id != nsid && s.wzds != n.dlfeat_wzds());
    out.check(
        zeroes.is_none(),
        req::ADM_IDENTIFY_79,
        format_args!("{who}: DLFEAT bit 3 differs from that of another"),
        "the same for all",
    );
    capable(state, &n, &who, out);
}

/// Fields that belong to a capability of the controller.
fn capable(state: &State, n: &IdentifyNamespace, who: Said, out: &mut Out) {
    let Some(i) = &state.known.identify else { return };
    let ids = [
        ("ANAGRPID", n.anagrpid(), i.cmic_ana()),
        ("NVMSETID", n.nvmsetid().into(), i.ctratt_nsets()),
        ("ENDGID", n.endgid().into(), i.ctratt_egs()),
    ];
    for (name, id, able) in ids {
        out.check(able || id == 0, req::ADM_IDENTIFY_80, format_args!("{who}: {name} {id} without the capability"), "0");
    }
    if i.cmic_ana() {
        let group = n.anagrpid();
        out.check(
            (1..=i.anagrpmax()).contains(&group),
            req::ANA_03,
            format_args!("{who}: ANAGRPID {group}"),
            format_args!("1 to {}", i.anagrpmax()),
        );
    }
    if i.oncs_copy() {
        out.of(NAMESPACE, "mssrl").check(
            n.mssrl() != 0 && n.mcl() != 0,
            req::ADM_IDENTIFY_77,
            format_args!("{who}: MSSRL {}, MCL {} with Copy", n.mssrl(), n.mcl()),
            "neither 0",
        );
    }
}

fn formats(state: &State, n: &IdentifyNamespace, data: &[u8], who: Said, out: &mut Out) {
    let count = n.nlbaf().count();
    let index = u64::from(n.flbas_low()) | u64::from(n.flbas_high()) << 4;
    // Without Host Behavior Support the upper bits of the index are not in use. [ADM-IDENTIFY-73]
    let most = if state.known.behavior { 64 } else { 16 };
    out.check(count <= most, req::ADM_IDENTIFY_73, format_args!("{who}: {count} LBA formats"), format_args!("{most} at most"));
    let index = if state.known.behavior { index } else { index & 0xf };
    let unique = u64::from(n.nulbaf());
    out.check(index < count + unique, req::ADM_IDENTIFY_72, format_args!("{who}: LBA format {index} of {count}"), "one of them");
    let at = 128 + 4 * usize::try_from(index).unwrap_or(0);
    let format = data.get(at..).and_then(|b| LbaFormat::read(b).ok()).unwrap_or_default();
    let size = format.lbads();
    out.check(
        (9..64).contains(&size),
        req::ADM_IDENTIFY_72,
        format_args!("{who}: LBADS {size} of its format"),
        "9 at least: 512 bytes",
    );
}

/// Atomic units and boundaries. [NVM Command Set 1.0, 2.1.4]
fn atomics(state: &State, n: &IdentifyNamespace, who: Said, out: &mut Out) {
    let boundaries = [(n.nabsn(), n.nawun(), "NABSN", "NAWUN"), (n.nabspf(), n.nawupf(), "NABSPF", "NAWUPF")];
    for (boundary, unit, b, u) in boundaries {
        let fits = boundary == 0 || !n.nsfeat_nsabp() || boundary >= unit;
        out.check(fits, req::ADM_IDENTIFY_76, format_args!("{who}: {b} {boundary}, {u} {unit}"), "no less than the unit");
        out.of(NAMESPACE, "nabo").check(
            boundary == 0 || n.nabo() <= boundary,
            req::ADM_IDENTIFY_76,
            format_args!("{who}: NABO {}, {b} {boundary}", n.nabo()),
            "no more than the boundary",
        );
    }
    let lone = n.nabsn() == 0 && n.nabspf() == 0 && n.nabo() != 0;
    out.of(NAMESPACE, "nabo").check(!lone, req::ADM_IDENTIFY_76, format_args!("{who}: NABO {} without boundaries", n.nabo()), "0");
    let Some(i) = state.known.identify.as_ref().filter(|_| n.nsfeat_nsabp()) else { return };
    for (name, own, least) in [("NAWUN", n.nawun(), i.awun()), ("NAWUPF", n.nawupf(), i.awupf()), ("NACWU", n.nacwu(), i.acwu())] {
        out.check(
            own == 0 || own >= least,
            req::ADM_IDENTIFY_75,
            format_args!("{who}: {name} {own}"),
            format_args!("{least} at least, the controller's"),
        );
    }
}

/// What is independent of the command set (CNS 08h).
pub(super) fn independent(state: &State, nsid: u32, data: &[u8], who: Said, out: &mut Out) {
    let Ok(n) = IdentifyNamespaceIndependent::read(data) else { return };
    let known = &state.known;
    // An inactive namespace gives zeroes. In ready-with-media mode all others are ready with the controller.
    let active = known.spaces.contains_key(&nsid);
    let ready = known.serving() && known.since(0x0002_0000) && known.cc.is_some_and(|c| !c.crime());
    out.check(
        !active || !ready || n.nstat_ready(),
        req::ADM_IDENTIFY_33,
        format_args!("{who}, NSID {nsid}: NSTAT bit 0 is 0"),
        "1 once RDY is 1",
    );
}

/// A list of NSIDs: above the one asked for, rising, zero behind the last.
pub(super) fn list(state: &State, cns: Cns, from: u32, data: &[u8], who: Said, out: &mut Out) {
    let which = match cns {
        Cns::ACTIVE_NAMESPACES => req::ADM_IDENTIFY_14,
        Cns::ACTIVE_NAMESPACES_CSI => req::ADM_IDENTIFY_29,
        _ => req::ADM_IDENTIFY_36,
    };
    let (entries, _) = data.as_chunks::<4>();
    let ids: Vec<u32> = entries.iter().take(1024).map(|e| u32::from_le_bytes(*e)).collect();
    let end = ids.iter().position(|n| *n == 0).unwrap_or(ids.len());
    let (listed, rest) = ids.split_at(end);
    let rises = listed.is_sorted_by(|a, b| a < b) && listed.first().is_none_or(|f| *f > from);
    let seen = format_args!("{who}: {:?}", listed.get(..8.min(listed.len())).unwrap_or(&[]));
    out.check(rises, which, seen, format_args!("rising, above {from}"));
    out.check(rest.iter().all(|n| *n == 0), which, format_args!("{who}: an NSID behind the end"), "zero behind the last");
    let bare = state.known.identify.as_ref().is_some_and(|i| i.cntrltype() == ControllerType::ADMINISTRATIVE);
    if bare && cns == Cns::ACTIVE_NAMESPACES {
        for which in [req::ADM_PROHIB_06, req::FAB_ASSOC_08] {
            out.check(listed.is_empty(), which, format_args!("{who}: namespaces of an administrative controller"), "none");
        }
    }
    if let (Some(i), Some(last)) = (&state.known.identify, listed.last())
        && cns == Cns::ACTIVE_NAMESPACES
    {
        out.check(*last <= i.nn() || !rises, req::ADM_IDENTIFY_16, seen, format_args!("1 to {}, by NN", i.nn()));
    }
}

pub(super) fn descriptors(state: &State, nsid: u32, data: &[u8], who: Said, out: &mut Out) {
    let who = format_args!("{who}, NSID {nsid}");
    let Ok(all) = read_descriptors(data) else {
        return out.add(
            req::ADM_IDENTIFY_23,
            format_args!("{who}: an identifier that reaches beyond the page"),
            "the length of its type",
        );
    };
    let mut types = BTreeSet::new();
    for d in &all {
        let due = d.nidt.length();
        let fits = due.is_none_or(|l| usize::from(l) == d.nid.len());
        out.check(
            fits,
            req::ADM_IDENTIFY_23,
            format_args!("{who}: type {} with {} bytes", d.nidt.0, d.nid.len()),
            format_args!("{}", due.unwrap_or(0)),
        );
        out.check(types.insert(d.nidt.0), req::ADM_IDENTIFY_19, format_args!("{who}: type {} twice", d.nidt.0), "each type once");
    }
    out.check((1..=3).any(|t| types.contains(&t)), req::ADM_IDENTIFY_18, format_args!("{who}: types {types:?}"), "one of 1 to 3");
    let used: usize = all.iter().map(|d| 4 + d.nid.len()).sum();
    let clean = data.get(used..).is_none_or(|rest| rest.iter().all(|b| *b == 0));
    out.check(clean, req::ADM_IDENTIFY_24, format_args!("{who}: something behind the last descriptor"), "zero");
    if state.known.cap.is_some_and(|c| c.css_sets()) {
        out.check(types.contains(&Nidt::CSI.0), req::ADM_IDENTIFY_20, format_args!("{who}: no CSI"), "one, with CAP.CSS bit 6");
    }
    let Some(space) = state.known.spaces.get(&nsid) else { return };
    for (kind, own) in [(Nidt::EUI64, &space.eui64[..]), (Nidt::NGUID, &space.nguid[..])] {
        let listed = all.iter().find(|d| d.nidt == kind).map(|d| d.nid);
        let due = own.iter().any(|b| *b != 0).then_some(own);
        let same = listed.is_none() || listed == due;
        out.check(
            same,
            req::ADM_IDENTIFY_21,
            format_args!("{who}: descriptor of type {} is not that of CNS 00h", kind.0),
            "the same, or none",
        );
    }
    let nameless = space.eui64 == [0; 8] && space.nguid == [0; 16];
    out.check(
        !nameless || types.contains(&Nidt::UUID.0),
        req::ADM_IDENTIFY_22,
        format_args!("{who}: no EUI64, NGUID or UUID"),
        "a UUID",
    );
}
