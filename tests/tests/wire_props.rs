//! What holds for every table of `nvmf-wire`, and for the readers of what is variable, whatever the bytes are.

use bytes::Bytes;
use nvmf_wire::Cntlid;
use nvmf_wire::identify::sets::read_entries;
use nvmf_wire::identify::{
    Descriptor, Nidt, SecondaryController, controller_list, read_command_sets, read_controller_list, read_descriptors,
    read_namespace_list, write_descriptors,
};
use nvmf_wire::layout::{Field, Layout, Value};
use nvmf_wire::log::extended::{AttributeType, write_attributes};
use nvmf_wire::log::{ExtendedAttribute, ExtendedDiscoveryEntry, read_ana, read_attributes, read_ave, read_extended_entries};
use nvmf_wire::nqn::{Nqn, parse_uuid, uuid_text};
use nvmf_wire::registry::{LAYOUTS, named};
use nvmf_wire::reservation::{read_extended_status, read_status};
use nvmf_wire::tcp::{Digests, Framer, Pdu, PduHead, PduType};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

/// Fields of one table, a name each, inside the structure and beside one another.
#[test]
fn fields_lie_inside_and_apart() {
    for l in LAYOUTS {
        let mut owner: Vec<Option<&str>> = vec![None; l.bytes * 8];
        let mut names: Vec<&str> = Vec::new();
        for f in l.all_fields() {
            assert!(!names.contains(&f.name), "{}: two fields {}", l.name, f.name);
            names.push(f.name);
            assert!(f.width > 0 && f.offset() + f.len() <= l.bytes, "{}.{f:?} leaves the structure", l.name);
            assert!(!f.is_int() || f.width <= 64, "{}.{f:?} is an integer of more than 64 bits", l.name);
            assert!(f.is_int() || (f.bit % 8 == 0 && f.width % 8 == 0), "{}.{f:?}: bytes that start inside a byte", l.name);
            for bit in f.bits() {
                assert_eq!(owner[bit], None, "{}.{f:?} overlaps", l.name);
                owner[bit] = Some(f.name);
            }
        }
        let reserved = l.reserved_mask();
        for (bit, slot) in owner.iter().enumerate() {
            assert_eq!(slot.is_none(), reserved[bit / 8] >> (bit % 8) & 1 == 1, "{}: bit {bit}", l.name);
        }
        assert!(std::ptr::eq(named(l.name).expect("a table is found by its name"), *l), "two tables {}", l.name);
        assert!(!l.about.trim().is_empty(), "{} says nothing about itself", l.name);
    }
}

fn a_layout() -> impl Strategy<Value = &'static Layout> {
    (0..LAYOUTS.len()).prop_map(|i| LAYOUTS[i])
}

/// 4096 bytes from a seed: cheaper to make than a strategy a byte.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    any::<u64>().prop_map(|mut x| {
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 56) as u8
        };
        (0..4096).map(|_| next()).collect()
    })
}

/// A table with fields, one of them, bytes of the structure, and a value that the field can hold.
fn a_change() -> impl Strategy<Value = (&'static Layout, &'static Field, Vec<u8>, Value)> {
    (a_layout(), any::<Index>(), any::<u64>(), noise()).prop_filter_map("no fields", |(l, at, n, noise)| {
        let fields: Vec<&'static Field> = l.all_fields().collect();
        let f = *fields.get(at.index(fields.len().max(1)))?;
        let value = if f.is_int() {
            Value::Int(if f.width < 64 { n & ((1 << f.width) - 1) } else { n })
        } else {
            Value::Bytes(noise.iter().rev().take(f.width / 8).copied().collect())
        };
        Some((l, f, noise[..l.bytes].to_vec(), value))
    })
}

/// Header bytes of any type with lengths that often agree with the bytes given.
fn pdu_like() -> impl Strategy<Value = Vec<u8>> {
    let types = prop_oneof![Just(0u8), Just(1), Just(2), Just(3), Just(4), Just(5), Just(6), Just(7), Just(9), any::<u8>()];
    (types, any::<u8>(), any::<u8>(), any::<u8>(), vec(any::<u8>(), 0..300), any::<bool>(), any::<bool>(), any::<u32>()).prop_map(
        |(ptype, flags, hlen, pdo, rest, right_hlen, right_plen, plen)| {
            let mut b = vec![ptype, flags, hlen, pdo, 0, 0, 0, 0];
            if right_hlen {
                b[2] = PduType(ptype).hlen().unwrap_or(8) as u8;
            }
            b.extend(rest);
            let plen = if right_plen { b.len() as u32 } else { plen };
            b[4..8].copy_from_slice(&plen.to_le_bytes());
            b
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// A field set is the field read, and nothing else changes.
    #[test]
    fn a_field_comes_back_alone((l, f, before, value) in a_change()) {
        let mut after = before.clone();
        l.write_field(&mut after, f.name, &value).map_err(TestCaseError::fail)?;
        prop_assert_eq!(f.get(&after), value.clone());
        for other in l.all_fields().filter(|o| o.name != f.name) {
            prop_assert_eq!(other.get(&after), other.get(&before), "{}.{} changed {}", l.name, f.name, other.name);
        }
        for (at, m) in l.reserved_mask().iter().enumerate() {
            prop_assert_eq!(after[at] & m, before[at] & m, "{}.{} changed reserved byte {}", l.name, f.name, at);
        }
        let named: Vec<String> = l.diff(&before, &after).into_iter().map(|d| d.0).collect();
        let expected = if f.get(&before) == value { vec![] } else { vec![f.name.to_owned()] };
        prop_assert_eq!(named, expected);
        let _ = l.describe(&after);
    }

    /// An integer that has more bits than the field is refused, and the bytes stay.
    #[test]
    fn too_large_is_refused((l, f, before, _) in a_change(), n in any::<u64>()) {
        prop_assume!(f.width < 64);
        let n = n | 1 << f.width;
        let mut after = before.clone();
        prop_assert!(l.write_field(&mut after, f.name, &Value::Int(n)).is_err());
        prop_assert_eq!(after, before);
    }

    /// From zero, all fields and the reserved bits give the same bytes: the table tells everything.
    #[test]
    fn fields_and_reserved_bits_are_all(l in a_layout(), noise in noise()) {
        let bytes = &noise[..l.bytes];
        let mut again: Vec<u8> = l.reserved_mask().iter().zip(bytes).map(|(m, b)| m & b).collect();
        for f in l.all_fields() {
            l.write_field(&mut again, f.name, &f.get(bytes)).map_err(TestCaseError::fail)?;
        }
        prop_assert_eq!(again.as_slice(), bytes);
    }

    /// No bytes break the PDU reader; what it takes, it gives back.
    #[test]
    fn a_pdu_that_parses_comes_back(bytes in pdu_like()) {
        let bytes = Bytes::from(bytes);
        if let Ok(pdu) = Pdu::parse(&bytes) {
            prop_assert_eq!(pdu.to_bytes(), bytes.to_vec());
        }
    }

    /// A PDU that we build and seal is read back in the same parts, with good digests, its data aligned.
    #[test]
    fn a_built_pdu_comes_back(
        which in prop_oneof![Just(4u8), Just(6), Just(7)],
        header in vec(any::<u8>(), 72),
        data in vec(any::<u8>(), 0..200),
        digests in (any::<bool>(), any::<bool>()).prop_map(|(header, data)| Digests { header, data }),
        align in 1usize..=32,
    ) {
        let hlen = PduType(which).hlen().unwrap_or(8);
        let mut header = header[..hlen].to_vec();
        (header[0], header[1]) = (which, 0);
        let pdu = Pdu::build(&header, data.into(), digests, align * 4).seal();
        prop_assert!(pdu.hdgst_ok() && pdu.ddgst_ok());
        prop_assert!(pdu.data.is_empty() || usize::from(pdu.head().pdo()) % (align * 4) == 0);
        let again = Pdu::parse(&pdu.to_bytes().into()).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(again, pdu);
    }

    /// However the stream is cut, the framer finds the same PDUs, and no more than one waits.
    #[test]
    fn cuts_do_not_matter(pdus in vec(pdu_like(), 0..6), cuts in vec(any::<Index>(), 0..20)) {
        let mut stream = Vec::new();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for mut p in pdus {
            let plen = p.len() as u32;
            p[4..8].copy_from_slice(&plen.to_le_bytes());
            stream.extend_from_slice(&p);
            expected.push(p);
        }
        let mut at: Vec<usize> = cuts.iter().map(|c| c.index(stream.len() + 1)).chain([0, stream.len()]).collect();
        at.sort_unstable();
        let mut framer = Framer::new(1 << 20);
        let mut found = Vec::new();
        for w in at.windows(2) {
            framer.push(&stream[w[0]..w[1]]);
            while let Some(p) = framer.next_pdu() {
                found.push(p.to_vec());
            }
            prop_assert_eq!(framer.oversize(), None);
        }
        prop_assert_eq!(found, expected);
        prop_assert!(framer.is_empty());
    }

    /// A length that cannot be framed is told, and never waited for.
    #[test]
    fn a_length_beyond_the_limit_is_told(plen in prop_oneof![0u32..8, 4097..=u32::MAX], rest in vec(any::<u8>(), 0..64)) {
        let mut framer = Framer::new(4096);
        let mut bytes = PduHead::new().with(|s| s.ptype(PduType::C2H_DATA).hlen(24).plen(plen)).as_bytes().to_vec();
        bytes.extend(rest);
        framer.push(&bytes);
        prop_assert_eq!(framer.next_pdu(), None);
        prop_assert_eq!(framer.oversize(), Some(plen));
        prop_assert_eq!(framer.take_rest().to_vec(), bytes);
    }

    /// Readers of lists take any bytes without panic.
    #[test]
    fn list_readers_take_anything(page in vec(any::<u8>(), 0..600)) {
        if let Ok(list) = read_descriptors(&page) {
            prop_assert!(list.iter().all(|d| !d.nid.is_empty()));
        }
        if let Err(e) = read_namespace_list(&page) {
            prop_assert!(e.at < page.len());
        }
        if let Ok((head, groups)) = read_ana(&page) {
            prop_assert_eq!(usize::from(head.groups()), groups.len());
        }
        if let Ok((head, list)) = read_status(&page) {
            prop_assert_eq!(usize::from(head.regctl()), list.len());
        }
        if let Ok((head, list)) = read_extended_status(&page) {
            prop_assert_eq!(usize::from(head.regctl()), list.len());
        }
        if let Ok(list) = read_entries::<SecondaryController>(&page) {
            prop_assert_eq!(usize::from(page.first().copied().unwrap_or(0)), list.len());
        }
        let _ = (Nqn::from_field(&page), read_controller_list(&page), read_command_sets(&page));
    }

    /// Readers of entries with a length of their own take any bytes: whatever TEL, NUMEXAT, NUMREC and NUMATR say, what they give lies
    /// inside the bytes.
    #[test]
    fn readers_of_long_entries_take_anything(
        noise in noise(),
        numbers in (0u64..5, any::<bool>()).prop_map(|(n, huge)| if huge { u64::MAX - n } else { n }),
        tel in prop_oneof![Just(0u32), Just(u32::MAX), 225u32..300, 1025u32..1100],
        small in 0u8..4,
    ) {
        let mut list = noise.clone();
        list[1024..1028].copy_from_slice(&tel.to_le_bytes());
        list[1028..1034].copy_from_slice(&[small, 0, 0, 0, 1, 0]);
        list[1034..1036].copy_from_slice(&u16::from(small * 4).to_le_bytes());
        if let Ok(attributes) = read_attributes(&list) {
            prop_assert_eq!(attributes.len(), usize::from(small));
        }
        if let Ok(entries) = read_extended_entries(&list, numbers) {
            prop_assert_eq!(entries.len() as u64, numbers);
            prop_assert!(entries.iter().map(|e| e.len()).sum::<usize>() <= list.len());
        }
        let mut page = noise;
        page[8..16].copy_from_slice(&numbers.to_le_bytes());
        page[1024..1028].copy_from_slice(&tel.to_le_bytes());
        page[1024 + 228] = small;
        if let Ok((head, entries)) = read_ave(&page) {
            prop_assert_eq!(head.numrec(), entries.len() as u64);
        }
    }

    /// Attributes come back, unknown types as well; a value is filled up to a multiple of 4.
    #[test]
    fn attributes_come_back(list in vec((any::<u16>(), vec(any::<u8>(), 1..=64)), 0..6)) {
        let list: Vec<ExtendedAttribute<'_>> =
            list.iter().map(|(t, value)| ExtendedAttribute { kind: AttributeType(*t), value }).collect();
        let tail = write_attributes(&list).expect("no value is empty or too long");
        let head = ExtendedDiscoveryEntry::new().with(|s| s.tel((1032 + tail.len()) as u32).numexat(list.len() as u16));
        let entry = [head.as_bytes().as_slice(), &tail, &[0xff; 9]].concat();
        let again = read_attributes(&entry).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(again.len(), list.len());
        for (got, put) in again.iter().zip(&list) {
            prop_assert_eq!((got.kind, got.value.len()), (put.kind, put.value.len().next_multiple_of(4)));
            prop_assert_eq!(&got.value[..put.value.len()], put.value);
        }
    }

    /// Controllers come back from a list.
    #[test]
    fn controllers_come_back(noise in noise(), n in 0usize..=2047) {
        let ids: Vec<Cntlid> = noise.as_chunks::<2>().0.iter().take(n).map(|b| Cntlid(u16::from_le_bytes(*b))).collect();
        let page = controller_list(ids.iter().copied());
        prop_assert_eq!(page.len(), 4096);
        prop_assert_eq!(read_controller_list(&page).map_err(|e| TestCaseError::fail(e.to_string()))?, ids);
    }

    /// Namespace descriptors come back, unknown types and odd lengths as well.
    #[test]
    fn descriptors_come_back(list in vec((any::<u8>(), any::<u16>(), vec(any::<u8>(), 1..=255)), 0..15)) {
        let list: Vec<Descriptor<'_>> =
            list.iter().map(|(t, reserved, nid)| Descriptor { nidt: Nidt(*t), reserved: *reserved, nid }).collect();
        let page = write_descriptors(&list).expect("15 x 259 bytes fit into a page");
        prop_assert_eq!(read_descriptors(&page).map_err(|e| TestCaseError::fail(e.to_string()))?, list);
    }

    /// Names of the first form are taken, and a name cut anywhere before its string is refused at its end.
    #[test]
    fn names_of_the_grammar_are_taken(name in "nqn\\.[12][0-9]{3}-(0[1-9]|1[0-2])\\.[a-z]{2,3}\\.[a-z0-9]{1,12}(-[a-z0-9]{1,8})?:[^\\x00]{1,40}") {
        let taken = Nqn::parse(&name).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(taken.as_str(), &name);
        let colon = name.find(':').unwrap_or_default();
        for end in 0..=colon + 1 {
            let e = Nqn::parse(&name[..end]).expect_err("a name without its string");
            prop_assert!(e.at <= end, "{} at {end}", e);
        }
    }

    /// A UUID's text gives its bytes back, in either case.
    #[test]
    fn uuids_come_back(uuid in any::<[u8; 16]>()) {
        let text = uuid_text(&uuid);
        prop_assert_eq!(parse_uuid(&text), Ok(uuid));
        prop_assert_eq!(parse_uuid(&text.to_uppercase()), Ok(uuid));
        prop_assert_eq!(Nqn::of_uuid(&uuid).form(), nvmf_wire::nqn::Form::Uuid);
    }
}
