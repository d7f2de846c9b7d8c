//! The discovery log page: header and entries, whole or in parts. [Base 2.0, 5.16.1.23; NVMe/TCP 1.0, 3.1.2]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use nvmf_spec::req;
use nvmf_wire::layout::Layout;
use nvmf_wire::log::discovery::{TsasRdma, TsasTcp};
use nvmf_wire::log::{AddressFamily, DiscoveryEntry, DiscoveryHeader, SubsystemType, TransportType};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::{Cntlid, Structure};

use super::identify::{V2_0, ascii};
use super::state::State;
use super::{Out, Said, host};

const ENTRY: &Layout = DiscoveryEntry::LAYOUT;

/// Judges `data`, which lies at `offset` of the page.
pub(super) fn log(state: &State, offset: u64, data: &[u8], who: Said, out: &mut Out) {
    let mut records = state.known.records;
    if offset == 0 && data.len() >= 16 {
        let header = <DiscoveryHeader as Structure>::with_bytes(data);
        records = Some(header.numrec());
        for which in [req::DISC_LOG_07, req::ADM_LOG_39] {
            out.check(header.recfmt() == 0, which, format_args!("{who}: RECFMT {}", header.recfmt()), "0");
        }
        let set = super::reserved_at(DiscoveryHeader::LAYOUT, header.as_bytes());
        if let Some(at) = set {
            out.add(req::DISC_LOG_07, format_args!("{who}: header with byte {at} set"), "0 in what is reserved");
        }
    }
    // What lies behind the last record is undefined.
    let Some(records) = records else { return };
    let unit = DiscoveryEntry::LEN as u64;
    let mut at = offset.next_multiple_of(unit).max(unit);
    let mut entries = Vec::new();
    while at / unit <= records
        && let Some(entry) =
            usize::try_from(at - offset).ok().and_then(|from| data.get(from..)).and_then(|b| DiscoveryEntry::read(b).ok())
    {
        out.part(usize::try_from(at - offset).unwrap_or(0), DiscoveryEntry::LEN);
        one(state, &entry, &format_args!("{who}: record {}", at / unit - 1), out);
        entries.push(entry);
        at += unit;
    }
    out.part(0, data.len());
    models(&entries, who, out);
}

fn one(state: &State, e: &DiscoveryEntry, who: Said, out: &mut Out) {
    let (trtype, adrfam, kind) = (e.trtype().0, e.adrfam().0, e.subtype().0);
    out.check((1..=3).contains(&trtype), req::DISC_LOG_12, format_args!("{who}: TRTYPE {trtype}"), "1 to 3");
    out.check((1..=4).contains(&adrfam), req::DISC_LOG_13, format_args!("{who}: ADRFAM {adrfam}"), "1 to 4");
    out.check((1..=3).contains(&kind), req::DISC_LOG_14, format_args!("{who}: SUBTYPE {kind}"), "1 or 2, or 3 of later revisions");
    out.of(ENTRY, "treq_secure").check(
        e.treq_secure() != 3,
        req::DISC_LOG_15,
        format_args!("{who}: TREQ bits 1:0 11b"),
        "00b to 10b",
    );
    let id = e.cntlid().0;
    let valid = !(0xfff0..Cntlid::ANY_STATIC.0).contains(&id);
    out.check(valid, req::DISC_LOG_18, format_args!("{who}: CNTLID {id:#06x}"), "0 to FFEFh, FFFEh or FFFFh");
    for which in [req::DISC_LOG_19, req::ADM_LOG_39] {
        out.of(ENTRY, "asqsz").check(e.asqsz() >= 32, which, format_args!("{who}: ASQSZ {}", e.asqsz()), "32 at least");
    }
    name(state, e, who, out);
    out.of(ENTRY, "trsvcid");
    ascii(e.as_bytes().get(32..64).unwrap_or(&[]), &format_args!("{who}: TRSVCID"), req::DISC_LOG_21, out);
    out.of(ENTRY, "traddr");
    ascii(e.as_bytes().get(512..768).unwrap_or(&[]), &format_args!("{who}: TRADDR"), req::DISC_LOG_21, out);
    let reserved = super::reserved_at(DiscoveryEntry::LAYOUT, e.as_bytes());
    if let Some(at) = reserved {
        let which = if at == 3 { req::DISC_LOG_16 } else { req::DISC_LOG_25 };
        out.add(which, format_args!("{who}: byte {at} has a reserved bit"), "0");
    }
    let address = e.traddr();
    let right = match e.adrfam() {
        AddressFamily::IPV4 => address.as_str().parse::<Ipv4Addr>().is_ok(),
        // A zone may follow.
        AddressFamily::IPV6 => address.as_str().split('%').next().unwrap_or_default().parse::<Ipv6Addr>().is_ok(),
        _ => true,
    };
    out.check(right, req::DISC_LOG_22, format_args!("{who}: TRADDR {:?}", address.as_str()), "an address of its family");
    match e.trtype() {
        TransportType::TCP => tcp(e, who, out),
        TransportType::RDMA => rdma(e, right, who, out),
        _ => {}
    }
}

fn name(state: &State, e: &DiscoveryEntry, who: Said, out: &mut Out) {
    let field = e.as_bytes().get(256..512).unwrap_or(&[]);
    let end = field.iter().position(|b| *b == 0);
    let text = field.get(..end.unwrap_or(field.len())).unwrap_or(&[]);
    let good = end.is_some_and(|n| n > 0) && std::str::from_utf8(text).is_ok();
    out.check(
        good,
        req::NQN_01,
        format_args!("{who}: SUBNQN is {:?}", String::from_utf8_lossy(text)),
        "a name in UTF-8, ended by a NUL",
    );
    out.check(text.len() <= 223, req::NQN_02, format_args!("{who}: SUBNQN has {} bytes", text.len()), "223 at most");
    out.check(
        !host::own_domain(text),
        req::NQN_05,
        format_args!("{who}: SUBNQN is {:?}", String::from_utf8_lossy(text)),
        "another domain than org.nvmexpress",
    );
    if good {
        out.check(
            text.starts_with(b"nqn."),
            req::NQN_03,
            format_args!("{who}: SUBNQN is {:?}", String::from_utf8_lossy(text)),
            "nqn. at its head",
        );
    }
    // Unique names of discovery services came with 2.1.
    if e.subtype() == SubsystemType::REFERRAL && state.known.until(V2_0) {
        for which in [req::DISC_LOG_20, req::ADM_LOG_39] {
            let well_known = text == DISCOVERY_NQN.as_bytes();
            out.check(well_known, which, format_args!("{who}: a referral to {:?}", String::from_utf8_lossy(text)), DISCOVERY_NQN);
        }
    }
}

/// `right` is whether the address is one of its family. [NVMe/RDMA 1.0, 3.1.1 and 3.1.2]
fn rdma(e: &DiscoveryEntry, right: bool, who: Said, out: &mut Out) {
    let (family, service) = (e.adrfam(), e.trsvcid());
    let service = service.as_str();
    let seen = format_args!("{who}: ADRFAM {}", family.0);
    out.check((1..=3).contains(&family.0), req::RDMA_DISC_11, seen, "IPv4, IPv6 or InfiniBand");
    out.of(ENTRY, "traddr").check(
        right && !e.traddr().as_str().is_empty(),
        req::RDMA_DISC_12,
        format_args!("{who}: TRADDR {:?}", e.traddr().as_str()),
        "an address of its family",
    );
    let seen = format_args!("{who}: TRSVCID {service:?}");
    if family == AddressFamily::INFINIBAND {
        let mut groups = service.split('-');
        let even = groups.by_ref().take(4).filter(|g| g.len() == 4 && g.bytes().all(|b| b.is_ascii_hexdigit())).count() == 4;
        out.check(even && groups.next().is_none(), req::RDMA_DISC_14, seen, "16 hexadecimal digits in four groups");
    } else {
        let digits = service.bytes().all(|b| b.is_ascii_digit()) && service.parse::<u16>().is_ok_and(|p| p != 0);
        out.check(digits, req::RDMA_DISC_06, seen, "a port number in decimal");
        out.check(!digits || !service.starts_with('0'), req::RDMA_DISC_13, seen, "no leading zeros");
    }
    let t: TsasRdma = e.tsas_rdma();
    out.check(matches!(t.qptype(), 1 | 2), req::RDMA_DISC_01, format_args!("{who}: RDMA_QPTYPE {}", t.qptype()), "1 or 2");
    out.check((1..=5).contains(&t.prtype().0), req::RDMA_DISC_02, format_args!("{who}: RDMA_PRTYPE {}", t.prtype().0), "1 to 5");
    out.check(t.cms() == 1, req::RDMA_DISC_03, format_args!("{who}: RDMA_CMS {}", t.cms()), "1");
    let rest = super::reserved_at(TsasRdma::LAYOUT, t.as_bytes());
    let key = t.pkey() != 0 && family != AddressFamily::INFINIBAND;
    let at = rest.unwrap_or(8);
    out.check(
        rest.is_none() && !key,
        req::RDMA_DISC_04,
        format_args!("{who}: byte {at} of TSAS is set"),
        "0; the key with ADRFAM 3 alone",
    );
}

fn tcp(e: &DiscoveryEntry, who: Said, out: &mut Out) {
    let port = e.trsvcid();
    let decimal = port.as_str().parse::<u16>().is_ok_and(|p| p != 0) && port.as_str().bytes().all(|b| b.is_ascii_digit());
    for which in [req::TCP_DISC_07, req::TCP_DISC_02] {
        out.check(decimal, which, format_args!("{who}: TRSVCID {:?}", port.as_str()), "a port number in decimal");
    }
    let own = e.subtype() == SubsystemType::NVM && port.as_str() == "8009";
    out.check(
        !own,
        req::TCP_DISC_05,
        format_args!("{who}: an NVM subsystem at port 8009"),
        "a port that is not the one of discovery",
    );
    let tsas: TsasTcp = e.tsas_tcp();
    let security = tsas.sectype().0;
    for which in [req::TCP_TLS_01, req::TCP_TLS_03, req::TCP_DISC_01] {
        out.check(security <= 2, which, format_args!("{who}: SECTYPE {security}"), "0 to 2");
    }
    let rest = super::reserved_at(TsasTcp::LAYOUT, tsas.as_bytes());
    out.check(rest.is_none(), req::TCP_TLS_03, format_args!("{who}: byte {} of TSAS is set", rest.unwrap_or(0)), "0");
}

/// What the entries of one subsystem have to have in common.
fn models(entries: &[DiscoveryEntry], who: Said, out: &mut Out) {
    let mut dynamic: BTreeMap<String, bool> = BTreeMap::new();
    let mut any = BTreeSet::new();
    let mut needs: BTreeMap<String, u8> = BTreeMap::new();
    for e in entries.iter().filter(|e| e.subtype() == SubsystemType::NVM) {
        let (subnqn, id) = (e.subnqn().as_str().to_owned(), e.cntlid());
        let treq = e.as_bytes().get(3).copied().unwrap_or(0);
        let even = *needs.entry(subnqn.clone()).or_insert(treq) == treq;
        out.check(
            even,
            req::DISC_LOG_17,
            format_args!("{who}: {subnqn} with TREQ {treq:#04x} and another"),
            "the same in all of its entries",
        );
        let model = id == Cntlid::DYNAMIC;
        let same = *dynamic.entry(subnqn.clone()).or_insert(model) == model;
        for which in [req::DISC_LOG_10, req::FAB_CNTLID_08] {
            out.check(
                same,
                which,
                format_args!("{who}: {subnqn} with CNTLID {:#06x} and another model", id.0),
                "FFFFh in all of its entries or in none",
            );
        }
        if id == Cntlid::DYNAMIC || id == Cntlid::ANY_STATIC {
            let place =
                (subnqn.clone(), e.portid(), e.trtype().0, e.traddr().as_str().to_owned(), e.trsvcid().as_str().to_owned(), id.0);
            let seen = format_args!("{who}: {subnqn} twice at port {}", e.portid());
            out.check(any.insert(place), req::DISC_LOG_11, seen, "one such entry for each port and address");
        }
    }
}
