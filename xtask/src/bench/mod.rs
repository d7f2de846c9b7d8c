//! `cargo xtask bench`: figures that criterion cannot take, of the target over sockets and of captures beside tshark.
//!
//! What is measured is always a release build: the program `bench-tcp` of the package `nvmfspec-benches`, and `nvmfspec` itself.

mod capture;

use std::path::PathBuf;
use std::process::Command;

use crate::cmd;

const USAGE: &str = "\
cargo xtask bench tcp [--json FILE] [--rounds N] [--ms N]
    reads and writes over loopback against the embedded target, digests off and on, beside a raw socket loop of the same sizes;
    9 rounds of 250 ms unless told otherwise
cargo xtask bench memory
    resident memory of `nvmfspec target` with 1,000 idle associations
cargo xtask bench capture [--json FILE] [--mb N] [--rounds N]
    `nvmfspec trace`, `trace --json` and `lint` over a capture of N MB, 210 unless told otherwise, beside tshark; the best of 3 rounds,
    and memory";

/// Runs what is asked for; the exit status is 2 for a wrong use.
pub fn run(args: &[String]) -> Result<u8, String> {
    match args.split_first() {
        Some((what, rest)) if what == "tcp" => match options(rest, [("--json", "-"), ("--rounds", "9"), ("--ms", "250")]) {
            Some([json, rounds, ms]) => cmd::run(Command::new(program()?).args(["tcp", &json, &rounds, &ms])).map(|()| 0),
            None => wrong(),
        },
        Some((what, [])) if what == "memory" => {
            let nvmfspec = cmd::nvmfspec_release()?;
            // Each association has two connections, and both ends of them are on this machine.
            let script = "ulimit -n \"$(ulimit -Hn)\"; exec \"$0\" memory \"$1\"";
            cmd::run(Command::new("sh").args(["-c", script]).arg(program()?).arg(nvmfspec)).map(|()| 0)
        }
        Some((what, rest)) if what == "capture" => {
            let Some([json, mb, rounds]) = options(rest, [("--json", "-"), ("--mb", "210"), ("--rounds", "3")]) else {
                return wrong();
            };
            let (Ok(mb), Ok(rounds)) = (mb.parse(), rounds.parse()) else { return wrong() };
            capture::run(&json, mb, rounds).map(|()| 0)
        }
        _ => wrong(),
    }
}

fn wrong() -> Result<u8, String> {
    eprintln!("{USAGE}");
    Ok(2)
}

/// The values of `--name value` pairs in any order, each with what it is where it is not given.
fn options<const N: usize>(args: &[String], known: [(&str, &str); N]) -> Option<[String; N]> {
    let mut of = known.map(|(_, value)| value.to_owned());
    for pair in args.chunks(2) {
        let [name, value] = pair else { return None };
        let at = known.iter().position(|(n, _)| n == name)?;
        of[at].clone_from(value);
    }
    Some(of)
}

/// The release build of `bench-tcp`.
fn program() -> Result<PathBuf, String> {
    cmd::run(&mut cmd::cargo(["build", "--quiet", "--release", "--package", "nvmfspec-benches", "--bin", "bench-tcp"])?)?;
    Ok(cmd::target_dir()?.join("release").join(format!("bench-tcp{}", std::env::consts::EXE_SUFFIX)))
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn options_in_any_order_and_nothing_else() {
        let known = [("--json", "-"), ("--rounds", "9"), ("--ms", "250")];
        let of = |text: &str| options(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), known);
        assert_eq!(of("").unwrap(), ["-", "9", "250"]);
        assert_eq!(of("--ms 10 --json a.json").unwrap(), ["a.json", "9", "10"]);
        assert_eq!(of("--json"), None);
        assert_eq!(of("--depth 3"), None);
    }
}
