//! Fields under Wireshark's names: recorded captures as JSON, as chosen fields, as a tree and through filters; tables beside the layouts.

use std::io::BufReader;
use std::path::Path;

use nvmf_capture::fields::{Dissector, Field, Filter, Json, Packet, Row, Select, Tree, View, Visitor, tables};
use nvmf_capture::{Ends, Event, Follow, Watcher};
use nvmf_wire::registry::LAYOUTS;
use proptest::prelude::*;

/// Shows every event of a capture to a closure.
struct See<F>(Dissector, F);

impl<F: FnMut(&View<'_>)> Watcher for See<F> {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        self.0.opened(conn, ends);
    }

    fn event(&mut self, conn: usize, event: &Event) {
        self.0.event(conn, event, &mut self.1);
    }

    fn over(&mut self, conn: usize) {
        self.0.over(conn);
    }
}

fn see(name: &str, with: impl FnMut(&View<'_>)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures").join(name);
    let file = BufReader::new(std::fs::File::open(path).unwrap());
    Follow::new().read(file, &mut See(Dissector::new(), with)).unwrap();
}

fn selected(name: &str, fields: &[&str], filter: &str) -> String {
    let mut select = Select::new(fields.iter().map(|f| (*f).to_owned()));
    let mut filter = (!filter.is_empty()).then(|| Filter::parse(filter).unwrap());
    see(name, |view| {
        if filter.as_mut().is_none_or(|f| f.matches(view)) {
            view.show(&mut select);
        }
    });
    let mut out = Vec::new();
    select.take(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const ADMIN: &str = "linux-6.12/tcp-admin.pcap.gz";

/// Values and links as tshark prints them for the same frames.
#[test]
fn chosen_fields() {
    let fields =
        ["frame.number", "ip.src", "nvme-tcp.type", "nvme.fabrics.cmd.cid", "nvme.fabrics.cmd_pkt", "nvme.fabrics.cmd_latency"];
    let out = selected(ADMIN, &fields, "frame.number <= 11");
    assert_eq!(
        out,
        "4\t10.9.0.1\t0\t\t\t\n6\t10.9.0.2\t1\t\t\t\n8\t10.9.0.1\t4\t0x0000\t\t\n9\t10.9.0.2\t5\t\t8\t14.915\n\
         10\t10.9.0.1\t4\t0x0001\t\t\n11\t10.9.0.2\t5\t\t10\t0.305\n"
    );
}

/// Several PDUs in one frame are one packet with a layer each.
#[test]
fn frames_as_json() {
    let mut json = Json::new();
    let mut filter = Filter::parse("frame.number == 8 || frame.number == 25").unwrap();
    see(ADMIN, |view| {
        if filter.matches(view) {
            view.show(&mut json);
        }
    });
    json.finish();
    let mut out = Vec::new();
    json.take(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let head = "[\n  {\n    \"_index\": \"packets-2026-11-29\",\n    \"_type\": \"doc\",\n    \"_score\": null,\n    \"_source\": {\n      \
                \"layers\": {\n        \"frame\": {\n";
    assert!(text.starts_with(head), "{text}");
    let sgl = "            \"nvme.fabrics.cmd.connect.sgl1\": {\n              \"nvme.cmd.sgl.type\": \"0x00\",\n              \
               \"nvme.cmd.sgl.subtype\": \"0x01\",\n";
    assert!(text.contains(sgl), "{text}");
    let flags = "          \"nvme-tcp.flags\": \"0x00\",\n          \"nvme-tcp.flags_tree\": {\n";
    assert!(text.contains(flags), "{text}");
    assert_eq!(text.matches("\"_source\"").count(), 2);
    assert!(text.ends_with("\n        }\n      }\n    }\n  }\n]\n"), "{text}");
}

#[test]
fn an_empty_array() {
    let mut json = Json::new();
    json.finish();
    let mut out = Vec::new();
    json.take(&mut out).unwrap();
    assert_eq!(out, b"[\n\n]\n");
}

#[test]
fn a_tree_with_words() {
    let mut tree = Tree::new(false);
    let mut filter = Filter::parse("frame.number == 22").unwrap();
    see(ADMIN, |view| {
        if filter.matches(view) {
            view.show(&mut tree);
        }
    });
    let mut out = Vec::new();
    tree.take(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("Frame 22: 10.9.0.1:49972 → 10.9.0.2:4420, "), "{text}");
    assert!(text.contains("\n  nvme\n    nvme.cmd.opc: 0x06 (Identify)  Opcode (OPC)\n"), "{text}");
    assert!(text.contains("\n      nvme.cmd.identify.dword10.cns: 0x00000001 "), "{text}");
}

#[test]
fn filters_hold_as_wireshark_has_it() {
    let count = |filter: &str| selected(ADMIN, &["frame.number"], filter).lines().count();
    let all = count("nvme-tcp");
    assert_eq!(all, 156);
    assert_eq!(count("nvme-tcp.type == 4") + count("nvme-tcp.type != 4"), all);
    assert_eq!(count("nvme-tcp.type in {4, 5..7}") + count("!(nvme-tcp.type in {4, 5..7})"), all);
    assert_eq!(count("nvme.cmd.opc == 0x06 and nvme.cmd.identify.dword10.cns eq 1"), 4);
    assert_eq!(count("nvme.fabrics.cmd.connect.data.subnqn contains \"sub1\""), 2);
    assert_eq!(count("nvme.fabrics.cmd.connect.data.hostid == 11:11:11:11:22:22:43:33:84:44:55:55:55:55:55:55"), 2);
    assert_eq!(count("ip.src == 10.9.0.1 && tcp.dstport == 4420"), count("ip.src eq 10.9.0.1"));
    assert_eq!(count("nvme.fabrics.cmd_latency > 14.9 and nvme.fabrics.cmd_latency <= 14.915"), 1);
    // All values of a name have to differ.
    assert_eq!(count("ip.addr != 10.9.0.1"), 0);
    assert_eq!(count("no.such.field"), 0);
    assert_eq!(count("not no.such.field"), all);
}

#[test]
fn what_is_no_filter_is_refused_with_its_place() {
    let why = |text: &str| Filter::parse(text).unwrap_err().to_string();
    assert_eq!(why("nvme.cmd.opc =="), "column 16: a number, an address, bytes (01:02) or a \"string\" was expected, not the end");
    assert_eq!(why("(nvme.cmd.opc"), "column 14: `)` was expected, not the end");
    assert_eq!(why("nvme nvme"), "column 6: `and`, `or` or the end was expected, not `nvme`");
    assert_eq!(why("nvme.cmd.opc in 1"), "column 17: `{` was expected, not `1`");
    assert_eq!(why("nvme.cmd.opc in {1 2}"), "column 20: `,` or `}` was expected, not `2`");
    assert_eq!(why("a == \"b"), "column 6: the string has no end");
    assert_eq!(why("a & b"), "column 3: `&` begins nothing");
    assert_eq!(why(""), "column 1: the name of a field was expected, not the end");
    assert!(why(&"!".repeat(1000)).starts_with("column 65: something less deeply nested"));
}

proptest! {
    #[test]
    fn no_text_is_too_much_for_a_filter(text in ".{0,80}") {
        let _ = Filter::parse(&text);
    }

    #[test]
    fn no_tokens_are_too_much_for_a_filter(
        words in prop::collection::vec(prop::sample::select(vec![
            "nvme.cmd.opc", "==", "in", "{", "}", "1", "..", "\"x\"", "and", "or", "not", "(", ")", ",", "0x", "1.2.3.4", "::1", "01:02",
        ]), 0..20)
    ) {
        let _ = Filter::parse(&words.join(" "));
    }
}

/// Wherever a layout of `nvmf-wire` has Wireshark's name for a field, the table here has the same bits for it.
#[test]
fn tables_agree_with_the_layouts() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for row in tables::all().into_iter().flatten() {
        // Pieces of longer structures, such as dword 11, begin at byte 0 in their layout.
        let (bit, width) = bits_of(row);
        let found = LAYOUTS.iter().flat_map(|l| l.fields).filter(|f| f.wireshark == row.name);
        let found: Vec<_> = found.map(|f| (f.bit % 32, f.width)).collect();
        if found.is_empty() {
            continue;
        }
        compared += 1;
        if !found.contains(&(bit % 32, width)) {
            wrong.push(format!("{}: bit {} width {width} here, {found:?} there", row.name, bit % 32));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 300, "{compared}");
}

/// Lowest bit, and how many.
fn bits_of(row: &Row) -> (usize, usize) {
    match row.mask {
        0 => (8 * usize::from(row.at), 8 * usize::from(row.len)),
        mask => (8 * usize::from(row.at) + mask.trailing_zeros() as usize, mask.count_ones() as usize),
    }
}

/// Depths never jump, so that every field has a parent.
#[test]
fn fields_nest() {
    struct Depths(Option<u8>);
    impl Visitor for Depths {
        fn packet(&mut self, _: &Packet) {}
        fn layer(&mut self, _: &'static str) {
            self.0 = None;
        }
        fn field(&mut self, field: &Field<'_>) {
            let most = self.0.map_or(0, |d| d + 1);
            assert!(field.depth <= most, "{}: depth {} behind {:?}", field.name, field.depth, self.0);
            self.0 = Some(field.depth);
        }
    }
    for name in
        [ADMIN, "linux-6.12/tcp-connect-all.pcap.gz", "linux-6.12/tcp-io-misc.pcap.gz", "spdk-26.09/02-spdk-identify.pcap.gz"]
    {
        see(name, |view| view.show(&mut Depths(None)));
    }
}
