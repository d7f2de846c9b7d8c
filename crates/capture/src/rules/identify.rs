//! Identify Controller data and what goes with it. [Base 2.0, 5.17.2.1, Figure 275; NVM Command Set 1.0, 4.1.5.4]

use nvmf_spec::{Requirement, req};
use nvmf_wire::identify::{ControllerType, IdentifyControllerNvm};
use nvmf_wire::layout::Layout;
use nvmf_wire::{IdentifyController, Structure};

use super::state::State;
use super::{Out, Said, rdma};

const CONTROLLER: &Layout = <IdentifyController as Structure>::LAYOUT;

/// Revisions as VS and VER give them.
const V1_4: u32 = 0x0001_0400;
pub(super) const V2_0: u32 = 0x0002_0000;

pub(super) fn controller(state: &State, data: &[u8], who: Said, out: &mut Out) {
    let Some(i) = data.first_chunk().map(|b| IdentifyController::from_bytes(*b)) else { return };
    let known = &state.known;
    let kind = i.cntrltype();
    let io = kind == ControllerType::IO || kind == ControllerType::NOT_REPORTED && known.discovery() == Some(false);
    let discovery = known.discovery() == Some(true) || kind == ControllerType::DISCOVERY;
    let vs = known.vs.unwrap_or(i.ver());
    same(state, &i, io, who, out);
    kind_of(state, kind, vs, who, out);
    // SN and MN are reserved for discovery controllers.
    let from = if discovery { 64 } else { 4 };
    let texts = [("SN", 4, 24), ("MN", 24, 64), ("FR", 64, 72)].into_iter().filter(|(_, at, _)| *at >= from);
    for (name, at, end) in texts {
        for which in [req::ADM_IDENTIFY_45, req::FAB_IDENT_14] {
            out.at(at, end - at);
            ascii(data.get(at..end).unwrap_or(&[]), &format_args!("{who}: {name}"), which, out);
        }
    }
    out.of(CONTROLLER, "sgls_support").check(
        (1..=2).contains(&i.sgls_support()),
        req::ADM_IDENTIFY_52,
        format_args!("{who}: SGLS {}", i.sgls_support()),
        "01b or 10b",
    );
    if discovery && known.kato != 0 {
        for which in [req::ADM_IDENTIFY_70, req::FAB_IDENT_06, req::DISC_CTRL_06] {
            out.of(CONTROLLER, "oaes_dlpc").check(
                i.oaes_dlpc(),
                which,
                format_args!("{who}: OAES bit 31 is 0, and a KATO was taken"),
                "1",
            );
        }
    }
    if io {
        fabrics(&i, state.rdma.is_some(), who, out);
        capabilities(&i, vs, who, out);
    }
    consistent(&i, who, out);
    if vs <= V2_0 {
        reserved(&i, who, out);
    }
}

/// What has to agree with what was seen before.
fn same(state: &State, i: &IdentifyController, io: bool, who: Said, out: &mut Out) {
    let known = &state.known;
    let id = i.cntlid().0;
    if let Some(w) = &known.who {
        let seen = format_args!("{who}: CNTLID {id:#06x}");
        out.check(id == w.cntlid.0, req::ADM_IDENTIFY_42, seen, format_args!("{:#06x}, as Connect returned", w.cntlid.0));
        out.check(id == w.cntlid.0, req::FAB_IDENT_09, seen, format_args!("{:#06x}, as Connect returned", w.cntlid.0));
        if io {
            let name = i.subnqn();
            out.check(
                name.as_str() == w.subnqn,
                req::ADM_IDENTIFY_47,
                format_args!("{who}: SUBNQN {:?}", name.as_str()),
                w.subnqn.clone(),
            );
            let dynamic = known.dynamic();
            for which in [req::FAB_CNTLID_10, req::ADM_IDENTIFY_55] {
                out.of(CONTROLLER, "fcatt_static").check(
                    !(dynamic && i.fcatt_static()),
                    which,
                    format_args!("{who}: FCATT 1, CNTLID FFFFh was taken"),
                    "0, dynamic",
                );
            }
        }
    }
    let ver = i.ver();
    out.check(ver != 0, req::ADM_IDENTIFY_43, format_args!("{who}: VER 0"), "the revision");
    if let Some(vs) = known.vs.filter(|_| ver != 0) {
        out.check(ver == vs, req::ADM_IDENTIFY_43, format_args!("{who}: VER {ver:#x}"), format_args!("{vs:#x}, as VS"));
    }
}

fn kind_of(state: &State, kind: ControllerType, vs: u32, who: Said, out: &mut Out) {
    let seen = format_args!("{who}: CNTRLTYPE {}", kind.0);
    if vs >= V1_4 {
        out.check((1..=3).contains(&kind.0), req::ADM_IDENTIFY_44, seen, "1 to 3");
        out.check((1..=3).contains(&kind.0), req::FAB_IDENT_04, seen, "1 to 3");
    }
    let due = match state.known.discovery() {
        Some(true) => ControllerType::DISCOVERY,
        Some(false) if !state.known.queues.is_empty() => ControllerType::IO,
        _ => return,
    };
    if (1..=3).contains(&kind.0) {
        out.check(kind == due, req::ADM_IDENTIFY_44, seen, format_args!("{}, by its subsystem and its queues", due.0));
        let service = due == ControllerType::DISCOVERY && kind != due;
        out.check(!service, req::DISC_CTRL_01, seen, "2: a discovery service has discovery controllers only");
    }
}

/// Printable ASCII, left justified, padded with spaces. [Base 2.0, 1.4.2]
pub(super) fn ascii(bytes: &[u8], what: Said, which: &'static Requirement, out: &mut Out) {
    if let Some(at) = bytes.iter().position(|b| !(0x20..=0x7e).contains(b)) {
        let value = bytes.get(at).copied().unwrap_or(0);
        return out.add(which, format_args!("{what} has {value:#04x} in byte {at}"), "20h to 7Eh");
    }
    let justified = bytes.first() != Some(&b' ') || bytes.iter().all(|b| *b == b' ');
    out.check(justified, which, format_args!("{what} begins with a space"), "left justified");
}

/// What an I/O controller of a fabric has to fill in.
fn fabrics(i: &IdentifyController, rdma: bool, who: Said, out: &mut Out) {
    let seen = |name: &str, v: u64| format!("{who}: {name} {v}");
    out.of(CONTROLLER, "ctratt_hids").check(i.ctratt_hids(), req::ADM_IDENTIFY_48, seen("CTRATT bit 0", 0), "1");
    for which in [req::ADM_IDENTIFY_49, req::FAB_IDENT_03] {
        out.of(CONTROLLER, "kas").check(i.kas() != 0, which, seen("KAS", 0), "not 0");
    }
    let (sq, cq) = ((i.sqes_min(), i.sqes_max()), (i.cqes_min(), i.cqes_max()));
    out.check(sq.0 == 6 && sq.1 >= 6, req::ADM_IDENTIFY_50, format_args!("{who}: SQES {sq:?}"), "6, and no less at most");
    out.check(cq.0 == 4 && cq.1 >= 4, req::ADM_IDENTIFY_50, format_args!("{who}: CQES {cq:?}"), "4, and no less at most");
    out.of(CONTROLLER, "maxcmd").check(i.maxcmd() != 0, req::ADM_IDENTIFY_51, seen("MAXCMD", 0), "not 0");
    let (cmd, resp) = (i.ioccsz(), i.iorcsz());
    for which in [req::ADM_IDENTIFY_53, req::FAB_IDENT_02] {
        out.check(cmd >= 4 && resp >= 1, which, format_args!("{who}: IOCCSZ {cmd}, IORCSZ {resp}"), "4 and 1 at least");
    }
    match rdma {
        true => rdma::identify(i, who, out),
        false => {
            out.check(resp <= 1, req::TCP_CAPSULE_08, seen("IORCSZ", resp.into()), "1: responses have no data");
            out.of(CONTROLLER, "icdoff").check(i.icdoff() == 0, req::TCP_CAPSULE_09, seen("ICDOFF", i.icdoff().into()), "0");
        }
    }
    let few = i.acl().count() < 4 || i.aerl().count() < 4;
    let limits = format_args!("{who}: {} aborts and {} event requests at a time", i.acl().count(), i.aerl().count());
    out.check(!few, req::ADM_IDENTIFY_58, limits, "4 of each");
    out.of(CONTROLLER, "aerl").check(i.aerl().count() >= 4, req::FAB_IDENT_08, limits, "4 event requests");
}

fn capabilities(i: &IdentifyController, vs: u32, who: Said, out: &mut Out) {
    if vs >= V1_4 {
        out.of(CONTROLLER, "vwc_fb").check(
            (2..=3).contains(&i.vwc_fb()),
            req::ADM_IDENTIFY_61,
            format_args!("{who}: VWC bits 2:1 {:02b}b", i.vwc_fb()),
            "10b or 11b",
        );
    }
    let temperatures = format_args!("{who}: WCTEMP {}, CCTEMP {}", i.wctemp(), i.cctemp());
    out.of(CONTROLLER, "wctemp").check(i.wctemp() != 0 && i.cctemp() != 0, req::ADM_IDENTIFY_62, temperatures, "neither 0");
    out.of(CONTROLLER, "npss").check(
        i.npss().count() <= 32,
        req::ADM_IDENTIFY_69,
        format_args!("{who}: {} power states", i.npss().count()),
        "32 at most",
    );
    let full = i.tnvmcap() != [0; 16];
    out.of(CONTROLLER, "oacs_nms").check(
        !i.oacs_nms() || full,
        req::ADM_IDENTIFY_60,
        format_args!("{who}: TNVMCAP 0 with Namespace Management"),
        "the capacity",
    );
    let ana = i.cmic_ana();
    let (att, most, number) = (i.anatt(), i.anagrpmax(), i.nanagrpid());
    let seen = format_args!("{who}: ANATT {att}, ANAGRPMAX {most}, NANAGRPID {number}");
    let fits = if ana { att != 0 && most != 0 && number != 0 && number <= most } else { att == 0 && most == 0 && number == 0 };
    out.check(fits, req::ANA_02, seen, if ana { "none 0, with ANA reporting" } else { "0 without ANA reporting" });
    out.of(CONTROLLER, "oaes_ana").check(
        ana || !i.oaes_ana(),
        req::ANA_01,
        format_args!("{who}: ANA change notices without ANA reporting"),
        "both or none",
    );
    let named = i.anacap_optimized();
    out.check(!ana || named, req::ANA_01, format_args!("{who}: ANA reporting without the optimized state"), "ANACAP bit 0");
    if ana && i.mnan() != 0 {
        out.of(CONTROLLER, "mnan").check(
            i.mnan() <= i.nn(),
            req::ADM_IDENTIFY_66,
            format_args!("{who}: MNAN {}, NN {}", i.mnan(), i.nn()),
            "no more than NN",
        );
    }
}

/// Fields that bind each other.
fn consistent(i: &IdentifyController, who: Said, out: &mut Out) {
    let lone = !i.oacs_nms() && (i.ctratt_ng() || i.anacap_nonzero());
    out.check(!lone, req::ADM_IDENTIFY_59, format_args!("{who}: namespace granularity without Namespace Management"), "0");
    let none = !i.sanicap_ces() && !i.sanicap_bes() && !i.sanicap_ows();
    let rest = i.sanicap_ndi() || i.sanicap_nodmmas() != 0;
    out.check(
        !(none && rest),
        req::ADM_IDENTIFY_63,
        format_args!("{who}: SANICAP has only bits 31:29"),
        "0 where nothing is sanitized",
    );
    let scope = i.fna_fns() || i.fna_sens();
    out.of(CONTROLLER, "fna_fnvmbs").check(
        !(i.fna_fnvmbs() && scope),
        req::ADM_IDENTIFY_64,
        format_args!("{who}: FNA bit 3 with bits 1:0"),
        "bits 1:0 zero",
    );
    out.of(CONTROLLER, "did").check(
        (i.did() != 0) == i.ctratt_mds(),
        req::ADM_IDENTIFY_67,
        format_args!("{who}: DID {}, MDS {}", i.did(), i.ctratt_mds()),
        "both or none",
    );
    let levels = i.rrls() & 0x8010 == 0x8010;
    out.of(CONTROLLER, "ctratt_rrl").check(
        !i.ctratt_rrl() || levels,
        req::ADM_IDENTIFY_68,
        format_args!("{who}: RRLS {:#06x}", i.rrls()),
        "levels 4 and 15 among them",
    );
    let (sdt, most) = (i.sgls_sdt(), i.msdbd());
    out.check(most == 0 || sdt <= most, req::SGL_14, format_args!("{who}: SDT {sdt}, MSDBD {most}"), "no more than MSDBD");
}

/// Reserved bits as revision 2.0 has them. What a revision before reserved and this one uses is not judged.
fn reserved(i: &IdentifyController, who: Said, out: &mut Out) {
    let mask = super::reserved(<IdentifyController as Structure>::LAYOUT);
    // Bytes 240 to 252 belong to the Management Interface, 1024 to 1791 and those behind 3071 to others and to the vendor.
    let ours = |at: usize| !(240..256).contains(&at) && !(1024..1792).contains(&at) && at < 2048;
    let hit = mask.iter().zip(i.as_bytes()).enumerate().find(|(at, (m, b))| **m & **b != 0 && ours(*at));
    if let Some((at, (_, value))) = hit {
        out.add(req::ADM_IDENTIFY_65, format_args!("{who}: {value:#04x} in byte {at}"), "0 in what is reserved");
    }
}

pub(super) fn controller_nvm(data: &[u8], who: Said, out: &mut Out) {
    let Ok(i) = IdentifyControllerNvm::read(data) else { return };
    let limits = [i.dmrl() != 0, i.dmrsl() != 0, i.dmsl() != 0];
    let even = limits.iter().all(|l| *l) || !limits.iter().any(|l| *l);
    let seen = format_args!("{who}: DMRL {}, DMRSL {}, DMSL {}", i.dmrl(), i.dmrsl(), i.dmsl());
    out.check(even, req::ADM_IDENTIFY_78, seen, "all zero or none");
}

/// Combinations of I/O command sets: none behind the first that is empty.
pub(super) fn command_sets(cntid: u16, data: &[u8], who: Said, out: &mut Out) {
    let (entries, _) = data.as_chunks::<8>();
    let empty = entries.iter().position(|e| *e == [0; 8]).unwrap_or(entries.len());
    let behind = entries.iter().skip(empty).position(|e| *e != [0; 8]);
    if let Some(at) = behind {
        out.add(
            req::ADM_IDENTIFY_41,
            format_args!("{who}: combination {} behind an empty one", empty + at),
            "0 behind the first that is 0",
        );
    }
    let own = cntid == 0xffff;
    out.check(!own || empty > 0, req::ADM_IDENTIFY_41, format_args!("{who}: no combination at all"), "the one in use");
}

/// A controller list rises, from CNTID of the command on.
pub(super) fn controllers(from: u16, data: &[u8], who: Said, out: &mut Out) {
    let (words, _) = data.as_chunks::<2>();
    let mut ids = words.iter().map(|w| u16::from_le_bytes(*w));
    let count = usize::from(ids.next().unwrap_or(0));
    out.check(count <= 2047, req::ADM_IDENTIFY_38, format_args!("{who}: {count} controllers"), "2047 at most");
    let ids: Vec<u16> = ids.take(count.min(2047)).collect();
    let rises = ids.is_sorted_by(|a, b| a < b) && ids.first().is_none_or(|f| *f >= from);
    out.check(
        rises,
        req::ADM_IDENTIFY_38,
        format_args!("{who}: {:x?}", ids.get(..8.min(ids.len())).unwrap_or(&[])),
        "rising, from CNTID on",
    );
}

/// The list of UUIDs: the first is one, and what follows the last is zero. [ADM-IDENTIFY-39]
pub(super) fn uuids(state: &State, data: &[u8], who: Said, out: &mut Out) {
    if !state.known.identify.as_ref().is_some_and(|i| i.ctratt_ulist()) {
        return;
    }
    let (entries, _) = data.as_chunks::<32>();
    let ids: Vec<bool> = entries.iter().skip(1).map(|e| e.get(16..).is_some_and(|id| id.iter().any(|b| *b != 0))).collect();
    out.check(ids.first() == Some(&true), req::ADM_IDENTIFY_39, format_args!("{who}: the first UUID is 0"), "a UUID");
    out.check(ids.last() != Some(&true), req::ADM_IDENTIFY_39, format_args!("{who}: the last entry is a UUID"), "0");
}
