//! The data of a command by the tables of `wire`: pages of Identify, log pages, features, Connect data, lists.

use bytes::Bytes;
use nvmf_wire::admin::{Cns, GetLogPage, Identify, LogPage};
use nvmf_wire::command::CommandKind;
use nvmf_wire::identify::{self, NamespaceDescriptor, read_controller_list, read_descriptors, read_namespace_list};
use nvmf_wire::layout::{Layout, Structure};
use nvmf_wire::log::{self, AnaGroup, AnaHeader, DiscoveryEntry, TransportType, TsasRdma, TsasTcp, read_ana};
use nvmf_wire::nvm::DatasetRange;
use nvmf_wire::sqe::Opcode;
use nvmf_wire::{Nsid, admin, feature};

use super::message::{Command, Fact, Known, Message, Part};

/// Puts the parts of `bytes`, all data of `command`, into `m`; what no table reads stays raw.
pub(super) fn read(m: &mut Message, command: &Command, bytes: Bytes) {
    let rest = match command.name {
        "Identify" => identify_page(m, Identify::from_bytes(*command.sqe.as_bytes()).cns(), &bytes),
        "GetLogPage" => log_page(m, &GetLogPage::from_bytes(*command.sqe.as_bytes()), &bytes),
        "SetFeatures" | "GetFeatures" => {
            let fid = match command.sqe.opc() {
                Opcode::GET_FEATURES => admin::GetFeatures::from_bytes(*command.sqe.as_bytes()).fid(),
                _ => admin::SetFeatures::from_bytes(*command.sqe.as_bytes()).fid(),
            };
            feature::data_layout(fid).map_or(0, |l| one(m, l, &bytes))
        }
        "DatasetManagement" => list(m, DatasetRange::LAYOUT, &bytes, 0, 0),
        name => CommandKind::named(name).and_then(|k| k.data).map_or(0, |l| one(m, l, &bytes)),
    };
    m.raw = bytes.slice(rest.min(bytes.len())..);
}

/// One structure at the start. Returns how many bytes it takes.
fn one(m: &mut Message, layout: &'static Layout, bytes: &Bytes) -> usize {
    let end = layout.bytes.min(bytes.len());
    m.parts.push(Part::of(layout, bytes.slice(..end)));
    end
}

/// Structures of one size from `at` on, the first of them number `first`; the last may be cut. What TSAS of a discovery entry is depends on
/// its transport. Returns where they end.
fn list(m: &mut Message, layout: &'static Layout, bytes: &Bytes, at: usize, first: usize) -> usize {
    let rest = bytes.slice(at.min(bytes.len())..);
    for (n, piece) in rest.chunks(layout.bytes.max(1)).enumerate() {
        let index = Some(first.saturating_add(n));
        let whole = rest.slice_ref(piece);
        let entry = DiscoveryEntry::read(&whole).ok().filter(|_| layout.name == DiscoveryEntry::LAYOUT.name);
        let tsas = match entry.map(|e| e.trtype()) {
            Some(TransportType::RDMA) => Some(TsasRdma::LAYOUT),
            Some(TransportType::TCP) => Some(TsasTcp::LAYOUT),
            _ => None,
        };
        let inner = tsas.map(|l| (l, whole.slice(DiscoveryEntry::LAYOUT.offset("tsas")..)));
        let hidden = if tsas.is_some() { &["tsas"][..] } else { &[] };
        m.parts.push(Part { index, hidden, ..Part::of(layout, whole) });
        m.parts.extend(inner.map(|(l, bytes)| Part { index, of: Some(layout.name), ..Part::of(l, bytes) }));
    }
    bytes.len()
}

/// Where what is not known begins: nowhere, where only zeroes are behind a list that ends at `at`.
fn zeroes(bytes: &Bytes, at: usize) -> usize {
    if bytes.iter().skip(at).all(|b| *b == 0) { bytes.len() } else { at }
}

fn nsids(m: &mut Message, list: &[Nsid]) {
    let facts = list.iter().enumerate().map(|(n, id)| Fact { name: "nsid", index: Some(n), value: Known::Int(u64::from(id.0)) });
    m.facts.extend(facts);
}

fn identify_page(m: &mut Message, cns: Cns, bytes: &Bytes) -> usize {
    match cns {
        Cns::ACTIVE_NAMESPACES | Cns::ALLOCATED_NAMESPACES | Cns::ACTIVE_NAMESPACES_CSI | Cns::ALLOCATED_NAMESPACES_CSI => {
            let Ok(list) = read_namespace_list(bytes) else { return 0 };
            nsids(m, &list);
            zeroes(bytes, list.len() * 4)
        }
        Cns::NAMESPACE_DESCRIPTORS => {
            let Ok(all) = read_descriptors(bytes) else { return 0 };
            let mut at = 0;
            for d in &all {
                // told by their type: there is one of each
                let n = usize::from(d.nidt.0);
                let end = at + NamespaceDescriptor::LEN + d.nid.len();
                let head = bytes.slice(at.min(bytes.len())..(at + NamespaceDescriptor::LEN).min(bytes.len()));
                m.parts.push(Part { index: Some(n), ..Part::of(NamespaceDescriptor::LAYOUT, head) });
                let shown: String = d.nid.iter().map(|b| format!("{b:02x}")).collect();
                m.facts.push(Fact { name: "nid", index: Some(n), value: Known::Text(shown) });
                at = end;
            }
            zeroes(bytes, at)
        }
        Cns::ATTACHED_CONTROLLERS | Cns::CONTROLLERS => {
            let Ok(all) = read_controller_list(bytes) else { return 0 };
            let facts = all.iter().enumerate();
            m.facts.extend(facts.map(|(n, c)| Fact { name: "cntlid", index: Some(n), value: Known::Int(u64::from(c.0)) }));
            zeroes(bytes, 2 + all.len() * 2)
        }
        _ => identify::page_layout(cns).map_or(0, |l| one(m, l, bytes)),
    }
}

fn log_page(m: &mut Message, command: &GetLogPage, bytes: &Bytes) -> usize {
    let offset = usize::try_from(command.lpo()).unwrap_or(usize::MAX);
    match command.lid() {
        LogPage::CHANGED_NAMESPACES if offset == 0 => {
            let Ok(list) = read_namespace_list(bytes) else { return 0 };
            nsids(m, &list);
            return zeroes(bytes, list.len() * 4);
        }
        LogPage::ANA if offset == 0 => return ana(m, bytes),
        _ => {}
    }
    let Some((head, entry)) = log::page_layouts(command.lid()) else { return 0 };
    let before = head.map_or(0, |h| h.bytes);
    let mut at = 0;
    if let Some(head) = head {
        if offset == 0 {
            at = one(m, head, bytes);
        } else if offset < before {
            return 0;
        }
    }
    match entry {
        Some(entry) => {
            let past = offset.saturating_sub(before);
            if offset != 0 && !past.is_multiple_of(entry.bytes.max(1)) {
                return 0;
            }
            list(m, entry, bytes, at, if offset == 0 { 0 } else { past / entry.bytes.max(1) })
        }
        None => at,
    }
}

/// An ANA log with its groups; one that is cut is left raw behind its header.
fn ana(m: &mut Message, bytes: &Bytes) -> usize {
    let mut at = one(m, AnaHeader::LAYOUT, bytes);
    let Ok((_, groups)) = read_ana(bytes) else { return at };
    for (n, (_, members)) in groups.iter().enumerate() {
        let end = (at + AnaGroup::LEN).min(bytes.len());
        m.parts.push(Part { index: Some(n), ..Part::of(AnaGroup::LAYOUT, bytes.slice(at..end)) });
        nsids(m, members);
        at = (end + members.len() * 4).min(bytes.len());
    }
    zeroes(bytes, at)
}
