//! The suite in the world of whole frames: TCP by smoltcp and RoCEv2, over a switch.

use nvmf_conformance::runner::{Options, Runner};
use nvmf_conformance::suite::Suite;
use nvmf_conformance::{Run, Verdict};
use nvmf_engine::Reference;
use nvmf_engine::controller::PortTransport;
use nvmf_fabric::lan::SwitchSettings;
use nvmf_fabric::{FrameOptions, FrameSim, Tapped};
use nvmfspec_tests::{rdma, world};

fn options() -> FrameOptions {
    FrameOptions { switch: Some(SwitchSettings::default()), tapped: Tapped::Tcp, ..FrameOptions::default() }
}

fn judge(world: &mut FrameSim, filters: &[&str]) -> Run {
    let suite = Suite::embedded().expect("the scripts are right");
    let options = Options { filters: filters.iter().map(|f| (*f).to_owned()).collect(), ..world::options(1) };
    let mut runs = Runner::new(&suite, &options, world).run(&mut |_| {}).expect("a run");
    runs.pop().expect("a subsystem")
}

fn wrong(run: &Run) -> Vec<String> {
    let bad = run.results.iter().filter(|r| !matches!(r.verdict, Verdict::Pass | Verdict::Skip));
    bad.map(|r| format!("{}: {:?} {}", r.id, r.verdict, r.message)).collect()
}

#[test]
fn every_check_passes_over_segments() {
    let mut world = world::frames_of(Reference::Plain, 1, None, options());
    let run = judge(&mut world, &[]);
    assert!(run.results.iter().filter(|r| r.verdict == Verdict::Pass).count() > 300);
    assert_eq!(wrong(&run), [""; 0]);
}

#[test]
fn every_check_passes_over_rocev2() {
    let options = FrameOptions { switch: Some(SwitchSettings::default()), rdma: rdma::settings(), ..FrameOptions::default() };
    let target = world::target_over(Reference::Plain, None, PortTransport::Rdma(options.rdma.capsules));
    let mut world = FrameSim::new(1, target, options).expect("a target with an address");
    let suite = Suite::embedded().expect("the scripts are right");
    let options = rdma::options(1);
    let mut runs = Runner::new(&suite, &options, &mut world).run(&mut |_| {}).expect("a run");
    let run = runs.pop().expect("a subsystem");
    assert_eq!(wrong(&run), [""; 0]);
    assert!(run.results.iter().filter(|r| r.verdict == Verdict::Pass).count() >= 650);
}
