//! A controller that is wrong in one way after the other, and our host: each breach is answered as the text says, and whatever comes, the
//! host itself keeps to the rules.

use std::collections::BTreeMap;
use std::time::Duration;

use nvmf_capture::Direction;
use nvmf_conformance::suite::Suite;
use nvmf_engine::host::{HostError, HostSettings, Recovery, RecoverySettings};
use nvmf_fabric::Sim;
use nvmf_net::{ClientError, HostClient, Notice};
use nvmf_seam::Network;
use nvmf_spec::Answer;
use nvmf_wire::tcp::{Digests, PduType, TermReq};
use nvmfspec_tests::host::{Recorded, day, fault, settings};
use nvmfspec_tests::world;

/// What a host does about a breach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// H2CTermReq with this FES and FEI, then a close.
    Term(u16, u32),
    /// H2CTermReq with FES 03h; FEI is the digest that came.
    Digest,
    /// The connection is closed and nothing is sent.
    Close,
    /// It is told, and work goes on.
    Note,
    /// A command fails, and work goes on.
    Status,
}
use Due::{Close, Digest, Note, Status, Term};

/// What the controller does, the requirement that it breaks or the host's answer stands in, and the answer.
const BREACHES: &[(&str, &str, Due)] = &[
    // NVMe/TCP 3.6.2.3: ICResp
    ("on c2h ICResp: set pfv=1", "TCP-ICRESP-07", Term(6, 8)),
    ("on c2h ICResp: set cpda=32", "TCP-ICRESP-08", Term(1, 10)),
    ("on c2h ICResp: set hdgst=1", "TCP-DGST-18", Term(1, 11)),
    ("on c2h ICResp: set ddgst=1", "TCP-DGST-18", Term(1, 11)),
    ("on c2h ICResp: set maxh2cdata=4098", "TCP-ICRESP-12", Term(1, 12)),
    ("on c2h ICResp: set maxh2cdata=0", "TCP-ICRESP-13", Term(6, 12)),
    ("on c2h ICResp: set hlen=127", "TCP-CH-04", Term(1, 2)),
    ("on c2h ICResp: duplicate", "TCP-CONN-02", Term(2, 0)),
    // The lowest field counts. [TCP-TERM-35]
    ("on c2h ICResp: set cpda=99 maxh2cdata=1", "TCP-ICRESP-08", Term(1, 10)),
    // 3.6.2.8: CapsuleResp
    ("on c2h CapsuleResp Read #1: set cid=0x7777", "TCP-CAPSULE-30", Term(1, 8)),
    ("on c2h CapsuleResp Read #1: duplicate", "TCP-CAPSULE-30", Term(1, 8)),
    ("on c2h CapsuleResp Read #1: set hlen=25", "TCP-CH-04", Term(1, 2)),
    ("on c2h CapsuleResp Read #1: set plen=20", "TCP-CH-06", Term(1, 4)),
    ("on c2h CapsuleResp Read #1: set plen=28", "TCP-CAPSULE-28", Term(1, 4)),
    ("on c2h CapsuleResp Read #1: set flags=1", "TCP-DGST-08", Term(1, 1)),
    ("on c2h CapsuleResp Read #1: set sqhd=0x7000", "FAB-SQFC-14", Note),
    // 3.6.2.10: R2T
    ("on c2h R2T #1: set cccid=0x7777", "TCP-R2T-18", Term(1, 8)),
    ("on c2h R2T #1: set r2to=4", "TCP-R2T-02", Term(2, 0)),
    ("on c2h R2T #1: set r2to=2", "TCP-R2T-20", Term(1, 12)),
    ("on c2h R2T #1: set r2tl=0", "TCP-R2T-05", Term(1, 16)),
    ("on c2h R2T #1: set r2tl=6", "TCP-R2T-21", Term(1, 16)),
    ("on c2h R2T #1: set r2tl=0x100000", "TCP-R2T-04", Term(4, 0)),
    ("on c2h R2T #1: set plen=28", "TCP-R2T-16", Term(1, 4)),
    // It was answered before the second came: more than MAXR2T are not outstanding, so it is the order that is wrong.
    ("on c2h R2T #1: duplicate", "TCP-R2T-03", Term(2, 0)),
    ("on c2h R2T #1: set byte[0]=0x0b", "TCP-CH-02", Term(1, 0)),
    // 3.6.2.11: C2HData
    ("on c2h C2HData Read #2: set cccid=0x7777", "TCP-C2H-30", Term(1, 8)),
    ("on c2h C2HData Read #1: set datao=4", "TCP-C2H-02", Term(2, 0)),
    ("on c2h C2HData Read #1: set datao=2", "TCP-C2H-32", Term(1, 12)),
    ("on c2h C2HData Read datao!=0 #1: set datao=0", "TCP-C2H-03", Term(2, 0)),
    ("on c2h C2HData Read #1: set pdo=20", "TCP-C2H-28", Term(1, 3)),
    ("on c2h C2HData Read #1: set plen=0x10000", "TCP-C2H-29", Term(1, 4)),
    ("on c2h C2HData Read #1: set flags=8", "TCP-C2H-14", Term(1, 1)),
    ("on c2h C2HData Read #1: set flags=2", "TCP-DGST-15", Term(1, 1)),
    ("on c2h C2HData Read last=1 #1: duplicate", "TCP-C2H-09", Term(2, 0)),
    ("on c2h C2HData Read #1: set byte[0]=6", "TCP-ERR-05", Term(1, 0)),
    ("on c2h C2HData Read last=1 #1: set last=0", "TCP-C2H-08", Note),
    ("on c2h C2HData Read last=1 #1: drop", "TCP-C2H-04", Status),
    // 3.6.2.5: C2HTermReq
    ("on h2c CapsuleCmd Read #1: answer C2HTermReq fes=2", "TCP-TERM-07", Close),
    ("on h2c CapsuleCmd Read #1: answer C2HTermReq fes=2 plen=20", "TCP-TERM-10", Close),
];

/// The same with digests on.
const WITH_DIGESTS: &[(&str, &str, Due)] = &[
    ("on c2h CapsuleResp Read #1: corrupt hdgst", "TCP-DGST-06", Digest),
    ("on c2h R2T #1: corrupt header at 16", "TCP-DGST-06", Digest),
    ("on c2h C2HData Read #1: corrupt hdgst", "TCP-DGST-06", Digest),
    ("on c2h C2HData Read #1: corrupt data", "TCP-DGST-24", Status),
    ("on c2h C2HData Read #1: corrupt ddgst", "TCP-DGST-24", Status),
    ("on c2h CapsuleResp Read #1: set flags=0", "TCP-DGST-05", Term(1, 1)),
    ("on c2h C2HData Read #1: set flags=1", "TCP-DGST-13", Term(1, 1)),
];

type Client = HostClient<Recorded<Sim>>;

fn script(action: &str) -> String {
    format!("fault a-breach\n  says   \"one\"\n  breaks TCP-GEN-02\n  fails  tcp/icreq/answered\n  {action}\n")
}

fn host(digests: bool) -> HostSettings {
    let mut s = settings();
    s.io_queues = 2;
    s.tcp.digests = Digests { header: digests, data: digests };
    s
}

/// What came of a day with this fault: the error, the notes, and the network.
fn lived(action: &str, digests: bool) -> (Result<(), ClientError>, Vec<Notice>, Recorded<Sim>) {
    let world = Recorded::new(world::sim(3, Some(&fault(&script(action)))));
    let mut client: Client = match HostClient::try_connect(world, world::address(), host(digests)) {
        Ok(client) => client,
        Err((e, network)) => return (Err(e), Vec::new(), network),
    };
    let lived = day(&mut client);
    let notices = std::iter::from_fn(|| client.notice()).collect();
    match client.release() {
        Ok(network) => (lived, notices, network),
        Err((e, network)) => (lived.and(Err(e)), notices, network),
    }
}

/// The terminate requests that the host sent.
fn terminations(network: &Recorded<Sim>) -> Vec<TermReq> {
    let exchange = network.exchange();
    let pdus = exchange.connections.iter().flat_map(|c| c.pdus());
    let sent = pdus.filter(|(e, b)| e.dir == Direction::HostToController && b[0] == PduType::H2C_TERM_REQ.0);
    sent.map(|(_, b)| TermReq::read(b).expect("whole")).collect()
}

fn judge(action: &str, requirement: &str, due: Due, digests: bool) -> Result<(), String> {
    let (lived, notices, network) = lived(action, digests);
    let ours = network.ours();
    if !ours.is_empty() {
        let theirs: Vec<String> = network.judged().iter().map(ToString::to_string).collect();
        return Err(format!("we broke {ours:?}; all findings {theirs:?}"));
    }
    let sent = terminations(&network);
    let told = match &lived {
        Err(ClientError::Host(HostError::Violation { violation, .. })) => Some(violation.clone()),
        _ => notices.iter().find_map(|n| if let Notice::Violation(_, v) = n { Some(v.clone()) } else { None }),
    };
    let named = told.as_ref().map(|v| v.requirement.id);
    match (due, &lived) {
        (Term(fes, fei), Err(ClientError::Host(HostError::Violation { violation, .. }))) => {
            let right = violation.answer == Answer::TermReq { fes, fei } && sent.len() == 1;
            let right = right && (sent[0].fes().0, sent[0].fei()) == (fes, fei) && named == Some(requirement);
            right.then_some(()).ok_or(format!("{violation}, answered {}, sent {sent:?}", violation.answer))
        }
        (Digest, Err(ClientError::Host(HostError::Violation { .. }))) => {
            let right = sent.len() == 1 && sent[0].fes().0 == 3 && named == Some(requirement);
            right.then_some(()).ok_or(format!("{named:?}, sent {sent:?}"))
        }
        (Close, Err(ClientError::Host(HostError::TermReq { .. }))) if sent.is_empty() => Ok(()),
        (Note, Ok(())) if named == Some(requirement) && sent.is_empty() => Ok(()),
        (Status, Ok(())) if sent.is_empty() => Ok(()),
        _ => Err(format!("{lived:?}; notes {named:?}; sent {sent:?}")),
    }
}

#[test]
fn each_breach_has_the_answer_that_the_text_gives() {
    let cases = BREACHES.iter().map(|b| (b, false)).chain(WITH_DIGESTS.iter().map(|b| (b, true)));
    let wrong: Vec<String> = cases
        .filter_map(|((action, requirement, due), digests)| {
            assert!(nvmf_spec::requirement(requirement).is_some(), "{requirement}");
            judge(action, requirement, *due, digests).err().map(|why| format!("{action} [{requirement}], {due:?}: {why}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn whatever_a_controller_does_the_host_breaks_no_rule() {
    meets_every_fault(false);
}

#[test]
fn nor_does_it_with_digests() {
    meets_every_fault(true);
}

/// Every fault of the suite: the host may fail, but it breaks no rule, and comes to an end.
fn meets_every_fault(digests: bool) {
    let suite = Suite::embedded().expect("the scripts are right");
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for fault in suite.faults() {
        let world = Recorded::new(world::sim(5, Some(&fault.script)));
        let started = world.now();
        let (lived, network) = match HostClient::try_connect(world, world::address(), host(digests)) {
            Err((e, network)) => (Err(e), network),
            Ok(mut client) => match (day(&mut client), client.release()) {
                (lived, Ok(network)) => (lived, network),
                (lived, Err((e, network))) => (lived.and(Err(e)), network),
            },
        };
        let ours = network.ours();
        if !ours.is_empty() {
            wrong.push(format!("{}: {ours:?}", fault.script.id));
        }
        if network.now().since(started) > Duration::from_secs(600) {
            wrong.push(format!("{}: no end within ten minutes", fault.script.id));
        }
        *ends.entry(if lived.is_ok() { "lived" } else { "ended" }).or_default() += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Most faults are for others than an ordinary host to meet, but not all.
    assert!(ends["lived"] > 150 && ends["ended"] > 15, "{ends:?}");
}

/// Connections that break at any point, in any world: the host connects again, and what was written is there.
#[test]
fn work_goes_on_over_lost_connections() {
    for seed in 0..24u64 {
        let pdu = ["CapsuleResp Write", "C2HData Read", "R2T Write"][seed as usize % 3];
        let action = format!("on c2h {pdu} #{}: close", 2 + seed * 3 % 5);
        let world = Recorded::new(world::sim(seed, Some(&fault(&script(&action)))));
        // The breaking goes on at each new connection, so that tries in a row count from the last success.
        let recovery = RecoverySettings { tries: 5, ..RecoverySettings::default() };
        let why = persist(world, seed, recovery);
        assert!(why.is_none(), "seed {seed}, {action}: {why:?}");
    }
}

/// A command that ends every association is given up.
#[test]
fn what_is_always_lost_is_not_tried_for_ever() {
    let world = Recorded::new(world::sim(1, Some(&fault(&script("on c2h CapsuleResp Write: close")))));
    let why = persist(world, 1, RecoverySettings::default()).expect("no write can be done");
    assert!(why.starts_with("command 0: queue 1: the controller closed the connection"), "{why}");
}

fn persist(world: Recorded<Sim>, seed: u64, recovery: RecoverySettings) -> Option<String> {
    use nvmf_engine::host::{Payload, command};
    use nvmf_wire::{Nsid, Qid};
    use nvmfspec_tests::host::pattern;

    let mut settings = host(seed.is_multiple_of(2));
    settings.io_queues = 1;
    settings.kato_ms = 200;
    let mut recovery = Recovery::new(recovery);
    let mut client: Client = match HostClient::try_connect(world, world::address(), settings) {
        Ok(client) => client,
        Err((e, _)) => return Some(format!("{e}")),
    };
    for n in 0..12u64 {
        let (lba, blocks) = (n * 64, 1 + (n as u32 * 7) % 60);
        let data = pattern(n, blocks as usize * 512);
        for (sqe, payload, check) in [
            (command::write(Nsid(1), lba, blocks), Payload::Out(data.clone()), false),
            (command::read(Nsid(1), lba, blocks), Payload::In(blocks * 512), true),
        ] {
            match client.persist(&mut recovery, Qid(1), sqe, payload) {
                Err(e) => return Some(format!("command {n}: {e}")),
                Ok(done) if !done.status().is_success() => return Some(format!("command {n}: {}", done.status())),
                Ok(done) if check && done.data.to_bytes() != data => return Some(format!("command {n}: other data")),
                Ok(_) => {}
            }
        }
    }
    let losses = std::iter::from_fn(|| client.notice()).filter(|n| matches!(n, Notice::Reconnected(_))).count();
    let network = match client.release() {
        Ok(network) | Err((_, network)) => network,
    };
    let ours = network.ours();
    if !ours.is_empty() {
        return Some(format!("we broke {ours:?}"));
    }
    (losses == 0).then(|| "nothing was lost: the test is for nothing".into())
}
