//! What simulated runs write: every checksum and every ICRC is right, by routines of the tests alone, but in frames that a fault changed
//! before; those are dropped where they arrive; and tshark reads the rest.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nvmf_conformance::Verdict;
use nvmf_conformance::runner::{Candidate, Options, Runner};
use nvmf_conformance::suite::Suite;
use nvmf_engine::Reference;
use nvmf_fabric::lan::{LinkFault, PerMillion, SwitchSettings, Wrong};
use nvmf_fabric::scene::FaultKind;
use nvmf_fabric::{Fleet, FrameOptions, FrameSim, NicReport, Report, Scene};
use nvmf_seam::Instant;
use nvmfspec_tests::frames::{Captured, Counts, Shared, audit, read, wrong};
use nvmfspec_tests::world;

fn scene(name: &str) -> Scene {
    let path = format!("{}/sims/{name}.sim", env!("CARGO_MANIFEST_DIR"));
    Scene::parse(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

fn names() -> Vec<String> {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sims")).unwrap();
    let mut names: Vec<String> = files.map(|f| f.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn play(scene: &Scene, seed: u64) -> (Vec<u8>, Report) {
    let file = Shared::default();
    let mut fleet = Fleet::new(scene, seed).unwrap();
    fleet.capture(Box::new(file.clone())).unwrap();
    let report = fleet.run().unwrap();
    (file.take(), report)
}

/// Whether a frame is on its way to a station: its source is not the station's own address, as fleets give them.
fn to_station(scene: &Scene, frame: &Captured<'_>) -> bool {
    let stations = scene.targets.iter().map(|t| &t.name).chain(scene.hosts.iter().map(|h| &h.name));
    let here: Vec<u16> = stations.zip(1..).filter(|(n, _)| frame.interface.split('-').any(|e| e == *n)).map(|(_, i)| i).collect();
    let own = |n: &u16| frame.bytes[6..12] == [2, 0, 0, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]];
    match here[..] {
        [] => false,
        [station] => !own(&station),
        _ => true,
    }
}

fn judge(scene: &Scene, seed: u64) -> (Counts, Report) {
    let (file, report) = play(scene, seed);
    let counts = audit(&file, |f| to_station(scene, f)).unwrap_or_else(|e| panic!("{} seed {seed}: {e}", scene.name));
    println!("{} seed {seed}: {counts:?}", scene.name);
    assert_eq!(counts.kinds[0] + counts.kinds[2] + counts.changed, counts.frames, "{}: RoCEv2 and PFC alone", scene.name);
    // what came wrong was dropped, and nothing else was
    let dropped =
        |n: &NicReport| n.not_taken + n.counters.not_ip + n.counters.not_ours + n.counters.truncated + n.counters.bad_icrc;
    assert_eq!(report.nics.iter().map(dropped).sum::<u64>(), counts.arrived_wrong, "{} seed {seed}", scene.name);
    (counts, report)
}

#[test]
fn every_frame_of_every_simulation_is_right_or_was_changed_by_a_fault() {
    let names = names();
    assert!(names.len() >= 5);
    for name in names {
        let mut scene = scene(&name);
        for h in &mut scene.hosts {
            (h.ops, h.size) = (h.ops.min(40), (h.size.0.min(512 << 10), h.size.1.min(512 << 10)));
        }
        let (counts, _) = judge(&scene, 3);
        assert!(counts.frames > 1000, "{name}: {counts:?}");
        let pfc = scene.switches.iter().any(|s| s.settings.pfc.is_some());
        let ecn = scene.switches.iter().any(|s| s.settings.ecn.is_some());
        assert_eq!((counts.kinds[2] > 0, counts.marked > 0), (pfc, ecn), "{name}: {counts:?}");
    }
}

#[test]
fn what_a_fault_corrupts_is_wrong_from_there_on_and_dropped() {
    let mut scene = scene("mixed-faults");
    for f in &mut scene.faults {
        if let FaultKind::Link { what: Wrong::Corrupted, share, .. } = &mut f.what {
            *share = PerMillion(100_000);
        }
    }
    let mut all = Counts::default();
    for seed in [2, 4, 7, 8] {
        let (counts, report) = judge(&scene, seed);
        assert_eq!(report.violations, [""; 0]);
        all.hits += counts.hits;
        all.changed += counts.changed;
        all.arrived_wrong += counts.arrived_wrong;
    }
    assert!(all.hits > 100 && all.changed > 20 && all.arrived_wrong > 100, "{all:?}");
    // without that fault nothing is wrong anywhere
    let keep: Vec<usize> = (0..scene.faults.len()).filter(|i| !scene.faults[*i].text.contains("corrupt")).collect();
    let (counts, _) = judge(&scene.only(&keep), 7);
    assert_eq!((counts.hits, counts.changed, counts.arrived_wrong), (0, 0, 0));
}

/// Checks over TCP in the world of frames, with `share` of all frames hit by each fault; what was seen, and how many of the checks passed.
fn over_tcp(target: SocketAddr, share: PerMillion) -> (Counts, usize, usize) {
    let mut reference = world::target_of(Reference::Plain, None);
    reference.listen = vec![(target, 1)];
    let options = FrameOptions { switch: Some(SwitchSettings::default()), ..FrameOptions::default() };
    let mut world = FrameSim::new(5, reference, options).unwrap();
    let (file, links) = (Shared::default(), world.lan().links());
    world.lan().capture(Box::new(file.clone()), &links, 0).unwrap();
    let late = Duration::from_micros(30);
    let faults = [Wrong::Lost, Wrong::Corrupted, Wrong::Duplicated, Wrong::Reordered(late), Wrong::Corrupted];
    for (n, what) in faults.into_iter().enumerate() {
        let fault = LinkFault { what, share, from: Instant::START, until: Instant(u64::MAX) };
        for (i, link) in links.iter().enumerate() {
            (0..2).for_each(|end| world.lan().fault(*link, end, fault, (n * 8 + i * 2 + end) as u64));
        }
    }
    let options = Options {
        filters: vec!["io".into(), "tcp/r2t".into()],
        candidates: vec![Candidate { transport: nvmf_capture::Transport::Tcp, addr: target }],
        as_given: true,
        ..world::options(1)
    };
    let suite = Suite::embedded().unwrap();
    let run = Runner::new(&suite, &options, &mut world).run(&mut |_| {}).unwrap().pop().unwrap();
    world.lan().end_capture().unwrap();
    let own = |f: &Captured<'_>| f.bytes[6..12] == [2, 0, 0, 0, 0, if f.interface.starts_with("target") { 1 } else { 2 }];
    let counts = audit(&file.take(), |f| !own(f)).unwrap_or_else(|e| panic!("{target}: {e}"));
    let passed = run.results.iter().filter(|r| matches!(r.verdict, Verdict::Pass | Verdict::Skip)).count();
    println!("{target}: {counts:?}, {passed} of {}", run.results.len());
    (counts, passed, run.results.len())
}

#[test]
fn every_frame_of_tcp_is_right_or_was_changed_by_a_fault() {
    for ip in ["192.0.2.1:4420", "[2001:db8::1]:4420"] {
        let (counts, passed, all) = over_tcp(ip.parse().unwrap(), PerMillion(0));
        assert!(counts.kinds[1] > 1000 && counts.kinds[3] >= 4 && counts.hits == 0, "{counts:?}");
        assert!(passed == all && all > 20, "{passed} of {all}");
        let (counts, passed, _) = over_tcp(ip.parse().unwrap(), PerMillion(2_000));
        assert!(counts.hits > 20 && counts.changed > 10 && counts.arrived_wrong > 10, "{counts:?}");
        // smoltcp drops what is damaged, and sends it again
        assert!(passed * 10 > all * 9, "{passed} of {all}");
    }
}

/// The judge of these tests: each bit of a frame that it is to tell changes its verdict, and a frame that no fault explains is told.
#[test]
fn a_wrong_frame_is_told() {
    let (file, _) = play(&scene("lost-write"), 1);
    let frames = read(&file);
    // with a capsule of 64 bytes in it
    let one = frames.iter().find(|f| f.bytes.len() == 14 + 20 + 8 + 12 + 64 + 4).unwrap();
    assert_eq!(wrong(one.bytes), None);
    let mut missed = Vec::new();
    for bit in 14 * 8..one.bytes.len() * 8 {
        let mut changed = one.bytes.to_vec();
        changed[bit / 8] ^= 0x80 >> (bit % 8);
        if wrong(&changed).is_none() {
            missed.push(bit);
        }
    }
    // byte 4 of the BTH is in no checksum
    assert_eq!(missed, (46 * 8..47 * 8).collect::<Vec<_>>());
    let at = one.bytes.as_ptr() as usize - file.as_ptr() as usize;
    let mut changed = file.clone();
    changed[at + 60] ^= 4;
    let error = audit(&changed, |_| false).unwrap_err();
    assert!(error.contains("ICRC"), "{error}");
}

#[test]
fn tshark_sees_the_commands_and_no_malformed_frame() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    for (name, seed) in [("checkpoint-8-hosts", 1), ("mixed-faults", 7)] {
        let mut scene = scene(name);
        scene.hosts.iter_mut().for_each(|h| h.size = (h.size.0.min(512 << 10), h.size.1.min(512 << 10)));
        let (file, report) = play(&scene, seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pcapng");
        std::fs::write(&path, &file).unwrap();
        let rows = tshark(&path);
        let frames = read(&file);
        assert_eq!(rows.len(), frames.len());
        // frames that a fault changed are the only ones that may be wrong
        let mut changed = 0;
        for (n, (row, frame)) in rows.iter().zip(&frames).enumerate() {
            let [malformed, ip, udp] =
                ["_ws.malformed", "ip.checksum.status", "udp.checksum.status"].map(|f| row[column(f)].as_str());
            let bad = !malformed.is_empty() || ip == "0" || udp == "0";
            changed += u64::from(wrong(frame.bytes).is_some());
            assert!(!bad || wrong(frame.bytes).is_some(), "{name} frame {}: {row:?}", n + 1);
        }
        assert_eq!(changed > 0, name == "mixed-faults");
        for host in &report.hosts {
            let on = format!("{}-sw", host.name);
            let writes = rows
                .iter()
                .filter(|r| r[0] == on && r[column("nvme.cmd.opc")] == "0x01" && r[column("nvme.cmd.nsid")] == "0x00000001");
            let writes = writes.count() as u64;
            // tshark does not find all capsules among packets that are lost, late and sent again
            let right = writes == host.writes || !scene.faults.is_empty();
            assert!(right && writes > 0, "{name} {on}: tshark has {writes}, {} were done", host.writes);
        }
        let pauses = rows.iter().filter(|r| r[column("macc.opcode")] == "0x0101").count();
        assert_eq!(pauses > 10, scene.switches[0].settings.pfc.is_some(), "{pauses}");
    }
}

const COLUMNS: [&str; 7] = [
    "frame.interface_name",
    "_ws.malformed",
    "ip.checksum.status",
    "udp.checksum.status",
    "nvme.cmd.opc",
    "nvme.cmd.nsid",
    "macc.opcode",
];

fn column(name: &str) -> usize {
    COLUMNS.iter().position(|c| *c == name).unwrap()
}

/// The columns of every frame, as tshark has them.
fn tshark(path: &Path) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields"]);
    command.args(COLUMNS.iter().flat_map(|c| ["-e", c]));
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().map(|l| l.split('\t').map(str::to_owned).collect()).collect()
}
