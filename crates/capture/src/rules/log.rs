//! Log pages but the discovery log, each read from its first byte on. [Base 2.0, 5.16.1]

use nvmf_spec::req;
use nvmf_wire::Structure;
use nvmf_wire::admin::LogPage;
use nvmf_wire::log::effects::{CommandEffects, command_entry_offset};
use nvmf_wire::log::{ErrorEntry, FirmwareSlots, Smart, SupportedLogPage, read_ana};

use super::state::State;
use super::{Out, Said};

/// `io_done` are the Reads and Writes that were completed when the command was sent.
pub(super) fn page(state: &State, page: LogPage, io_done: (u64, u64), data: &[u8], who: Said, out: &mut Out) {
    match page {
        LogPage::SUPPORTED => supported(state, data, who, out),
        LogPage::ERROR => errors(state, data, who, out),
        LogPage::SMART => smart(state, io_done, data, who, out),
        LogPage::FIRMWARE_SLOT => firmware(state, data, who, out),
        LogPage::CHANGED_NAMESPACES => changed(data, who, out),
        LogPage::COMMAND_EFFECTS => effects(data, who, out),
        LogPage::ANA => ana(state, data, who, out),
        _ => {}
    }
}

fn supported(state: &State, data: &[u8], who: Said, out: &mut Out) {
    let listed = |lid: u8| {
        let at = usize::from(lid) * 4;
        data.get(at..at + 4).and_then(|b| SupportedLogPage::read(b).ok()).map(|s| s.lsupp())
    };
    if state.known.discovery() == Some(true) {
        let prohibited = (0x02..=0x0d).chain(0x0f..=0x11).chain(0x14..=0x16).chain([0x80, 0x81]);
        for which in [req::ADM_LOG_15, req::DISC_CTRL_13] {
            if let Some(lid) = prohibited.clone().find(|l| listed(*l) == Some(true)) {
                out.add(which, format_args!("{who}: log page {lid:02x}h of a discovery controller"), "not offered");
            }
        }
        for which in [req::ADM_LOG_14, req::DISC_CTRL_11] {
            out.check(
                listed(0x70) != Some(false),
                which,
                format_args!("{who}: no log page 70h"),
                "offered by a discovery controller",
            );
        }
    } else if state.known.serves_io() {
        let missing = [0x01, 0x02, 0x03].into_iter().find(|l| listed(*l) == Some(false));
        if let Some(lid) = missing {
            out.add(req::ADM_LOG_13, format_args!("{who}: no log page {lid:02x}h"), "01h, 02h and 03h of an I/O controller");
        }
        let service = listed(0x70) == Some(true);
        out.check(
            !service,
            req::ADM_LOG_16,
            format_args!("{who}: log page 70h of an I/O controller"),
            "of discovery controllers alone",
        );
    }
    out.check(
        listed(0) != Some(false),
        req::ADM_LOG_17,
        format_args!("{who}: log page 00h is not in itself"),
        "LSUPP tells the truth",
    );
}

/// Entries from the newest to the oldest, unused ones behind.
fn errors(state: &State, data: &[u8], who: Said, out: &mut Out) {
    let entries: Vec<ErrorEntry> = data.chunks_exact(ErrorEntry::LEN).filter_map(|b| ErrorEntry::read(b).ok()).collect();
    let counts: Vec<u64> = entries.iter().map(|e| e.count()).collect();
    let end = counts.iter().position(|c| *c == 0).unwrap_or(counts.len());
    let (used, rest) = counts.split_at(end);
    out.check(
        rest.iter().all(|c| *c == 0),
        req::ADM_LOG_19,
        format_args!("{who}: an entry behind an unused one"),
        "error count 0 behind the last",
    );
    let seen = format_args!("{who}: error counts {:?}", used.get(..8.min(used.len())).unwrap_or(&[]));
    out.check(used.is_sorted_by(|a, b| a > b), req::ADM_LOG_18, seen, "from the newest to the oldest, each once");
    if let Some(i) = &state.known.identify {
        let most = usize::try_from(i.elpe().count()).unwrap_or(usize::MAX);
        out.check(
            used.len() <= most,
            req::ADM_LOG_18,
            format_args!("{who}: {} entries", used.len()),
            format_args!("{most} at most, by ELPE"),
        );
    }
    let newest = used.first().copied().unwrap_or(0);
    if let Some(before) = state.known.newest_error.filter(|_| newest != 0) {
        out.check(
            newest >= before,
            req::ADM_LOG_19,
            format_args!("{who}: newest error count {newest} after {before}"),
            "never less than before",
        );
    }
    if let Some(counted) = state.known.smart_errors.filter(|_| newest != 0) {
        out.check(
            newest >= counted,
            req::ADM_LOG_31,
            format_args!("{who}: newest error count {newest}, SMART counted {counted}"),
            "no less",
        );
    }
    for e in entries.iter().take(end) {
        let apart = e.cid().0 == 0xffff && e.sqid().0 != 0xffff;
        let transport = e.trtype() > 3 && e.trtype() != 254;
        out.check(!transport, req::ADM_LOG_22, format_args!("{who}: TRTYPE {} in an entry", e.trtype()), "0, or a transport");
        let lone = (e.sqid().0 == 0xffff) != (e.cid().0 == 0xffff) && e.sqid().0 == 0xffff;
        out.check(!lone, req::ADM_LOG_20, format_args!("{who}: SQID FFFFh with CID {:#06x}", e.cid().0), "FFFFh in both");
        let reserved = e.location_byte() > 63 && e.location_byte() != 0xff;
        out.check(
            !reserved || apart,
            req::ADM_LOG_21,
            format_args!("{who}: byte {} of a command is at fault", e.location_byte()),
            "0 to 63, or FFh",
        );
    }
}

fn smart(state: &State, io_done: (u64, u64), data: &[u8], who: Said, out: &mut Out) {
    let Ok(s) = Smart::read(data) else { return };
    let seen = format_args!("{who}: spare {}, threshold {}", s.spare(), s.spare_threshold());
    out.of(Smart::LAYOUT, "spare").check(s.spare() <= 100 && s.spare_threshold() <= 100, req::ADM_LOG_29, seen, "0 to 100");
    if let Some(at) = super::reserved_at(Smart::LAYOUT, s.as_bytes()).filter(|at| *at < 232) {
        out.add(req::ADM_LOG_29, format_args!("{who}: a reserved bit of byte {at}"), "0");
    }
    let errors = counter(s.error_entries());
    if let Some(newest) = state.known.newest_error {
        out.check(
            errors >= newest,
            req::ADM_LOG_31,
            format_args!("{who}: {errors} error entries, the newest had count {newest}"),
            "no less",
        );
    }
    let Some(before) = state.known.smart else { return };
    let counters = [
        ("Host Read Commands", before.reads, counter(s.host_reads()), io_done.0.saturating_sub(before.io_done.0)),
        ("Host Write Commands", before.writes, counter(s.host_writes()), io_done.1.saturating_sub(before.io_done.1)),
    ];
    for (name, was, is, done) in counters {
        let seen = format_args!("{who}: {name} {is}, before {was}, and {done} were completed since");
        out.check(is >= was.saturating_add(done), req::ADM_LOG_30, seen, "counts that grow with the commands");
    }
}

/// The low 64 bits of a counter of 16 bytes.
pub(super) fn counter(bytes: [u8; 16]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]))
}

fn firmware(state: &State, data: &[u8], who: Said, out: &mut Out) {
    let Ok(f) = FirmwareSlots::read(data) else { return };
    let active = usize::from(f.active());
    out.check(active != 0, req::ADM_LOG_32, format_args!("{who}: active slot 0"), "1 to 7");
    let Some(frs) = active.checked_sub(1).and_then(|n| data.get(8 + 8 * n..16 + 8 * n)) else { return };
    out.check(
        frs.iter().any(|b| *b != 0),
        req::ADM_LOG_32,
        format_args!("{who}: active slot {active} has no firmware"),
        "a slot with firmware",
    );
    if let Some(i) = &state.known.identify {
        let fr = i.as_bytes().get(64..72).unwrap_or(&[]);
        out.check(
            frs == fr || frs.iter().all(|b| *b == 0),
            req::ADM_IDENTIFY_46,
            format_args!("{who}: FRS{active} is not FR"),
            "the revision that Identify gives",
        );
    }
}

fn changed(data: &[u8], who: Said, out: &mut Out) {
    let (entries, _) = data.as_chunks::<4>();
    let ids: Vec<u32> = entries.iter().take(1024).map(|e| u32::from_le_bytes(*e)).collect();
    let end = ids.iter().position(|n| *n == 0).unwrap_or(ids.len());
    let (listed, rest) = ids.split_at(end);
    let all = listed == [0xffff_ffff];
    let rises = listed.is_sorted_by(|a, b| a < b) && !listed.contains(&0xffff_ffff);
    out.check(
        all || rises,
        req::ADM_LOG_33,
        format_args!("{who}: {:?}", listed.get(..8.min(listed.len())).unwrap_or(&[])),
        "rising, or FFFFFFFFh alone",
    );
    out.check(rest.iter().all(|n| *n == 0), req::ADM_LOG_33, format_args!("{who}: an NSID behind the end"), "zero behind the last");
}

/// Commands supported and effects: what is not supported has no effects, and some commands are always there.
fn effects(data: &[u8], who: Said, out: &mut Out) {
    let entry = |io, opcode| {
        let at = command_entry_offset(io, opcode);
        data.get(at..at + 4).and_then(|b| CommandEffects::read(b).ok())
    };
    let all = (0..=255u8).flat_map(|o| [(false, o), (true, o)]).filter_map(|(io, o)| Some((io, o, entry(io, o)?)));
    for (io, opcode, e) in all {
        let empty = e.csupp() || e.as_bytes() == &[0; 4];
        out.check(
            empty,
            req::ADM_LOG_34,
            format_args!("{who}: effects of opcode {opcode:02x}h (I/O: {io}), not supported"),
            "an entry of 0",
        );
    }
    let missing = [0x02, 0x06, 0x09, 0x0a].into_iter().find(|o| entry(false, *o).is_some_and(|e| !e.csupp()));
    if let Some(opcode) = missing {
        out.add(req::ADM_LOG_35, format_args!("{who}: admin opcode {opcode:02x}h is not supported"), "the mandatory commands");
    }
    // Where blocks are written, they are read and flushed as well.
    if let Some(write) = entry(true, 0x01).filter(|e| e.csupp()) {
        out.check(write.lbcc(), req::ADM_LOG_35, format_args!("{who}: Write changes no blocks"), "LBCC");
        let missing = [0x00, 0x02].into_iter().find(|o| entry(true, *o).is_some_and(|e| !e.csupp()));
        if let Some(opcode) = missing {
            out.add(
                req::ADM_LOG_35,
                format_args!("{who}: I/O opcode {opcode:02x}h is not supported, Write is"),
                "the mandatory commands",
            );
        }
    }
}

fn ana(state: &State, data: &[u8], who: Said, out: &mut Out) {
    // A page that was not read to its end is not judged.
    let Ok((_, groups)) = read_ana(data) else { return };
    let ids: Vec<u32> = groups.iter().map(|(g, _)| g.grpid()).collect();
    out.check(ids.is_sorted_by(|a, b| a < b), req::ANA_04, format_args!("{who}: groups {ids:?}"), "each once, rising");
    for (group, nsids) in &groups {
        let seen = format_args!("{who}: group {}", group.grpid());
        let list: Vec<u32> = nsids.iter().map(|n| n.0).collect();
        out.check(list.is_sorted_by(|a, b| a < b), req::ANA_04, format_args!("{seen}: NSIDs {list:?}"), "rising");
        let value = group.state().0;
        out.check(matches!(value, 1..=4 | 0xf), req::ANA_09, format_args!("{seen}: state {value}"), "1 to 4 or Fh");
        let Some(i) = &state.known.identify else { continue };
        if i.anacap_fixed() {
            let other = list.iter().find(|n| state.known.spaces.get(n).is_some_and(|s| s.group != group.grpid()));
            for which in [req::ANA_05, req::ANA_19] {
                out.check(
                    other.is_none(),
                    which,
                    format_args!("{seen}: NSID {:?} of another group", other),
                    "the group of its ANAGRPID",
                );
            }
        }
        let able = match value {
            1 => i.anacap_optimized(),
            2 => i.anacap_non_optimized(),
            3 => i.anacap_inaccessible(),
            4 => i.anacap_persistent_loss(),
            0xf => i.anacap_change(),
            _ => true,
        };
        out.check(able, req::ANA_09, format_args!("{seen}: state {value}"), "a state that ANACAP announces");
        let named = (1..=i.anagrpmax()).contains(&group.grpid());
        out.check(named, req::ANA_04, seen, format_args!("1 to {}, by ANAGRPMAX", i.anagrpmax()));
    }
}
