//! `cargo xtask vectors`: holds the byte vectors beside the tables of `nvmf-wire`, or takes captures through the codec and back.
//!
//! It judges our codec, not the peers in the captures.

use std::path::Path;

use crate::cmd;

mod check;
mod roundtrip;

use roundtrip::Trip;

const USAGE: &str = "\
cargo xtask vectors                    check every file of vectors/
cargo xtask vectors --captures FILE…   take every PDU, SQE and CQE of pcap or pcapng files (also .gz) apart and together again";

/// The subcommand. An error is one message, ready to print.
pub fn run(args: &[String]) -> Result<(), String> {
    match args.split_first() {
        None => vectors(&cmd::root()?.join("vectors")),
        Some((first, files)) if first == "--captures" && !files.is_empty() => captures(files),
        Some((first, _)) if ["help", "-h", "--help"].contains(&first.as_str()) => {
            println!("{USAGE}");
            Ok(())
        }
        Some((first, _)) if first == "--captures" => Err(format!("{first} takes at least one file\n{USAGE}")),
        Some((first, _)) => Err(format!("vectors: unknown argument {first:?}\n{USAGE}")),
    }
}

fn vectors(dir: &Path) -> Result<(), String> {
    let report = check::check(dir)?;
    let mut total = 0;
    for (path, what, n) in &report.files {
        println!("{n:4}  {what:<28} {path}");
        total += n;
    }
    if !report.missing.is_empty() {
        println!("without a vector: {}", report.missing.join(" "));
    }
    for field in &report.untold {
        println!("no vector: {field}");
    }
    println!(
        "{total} vectors in {} files, {} failed; {} fields without a vector, {} more excused",
        report.files.len(),
        report.failures.len(),
        report.untold.len(),
        report.excused
    );
    if !report.failures.is_empty() {
        return Err(report.failures.join("\n"));
    }
    if report.missing.is_empty() && report.untold.is_empty() {
        return Ok(());
    }
    Err("every table and every field needs a vector, or an [[untold]] with a reason in vectors/manifest.toml".to_owned())
}

fn captures(files: &[String]) -> Result<(), String> {
    let mut failed = Vec::new();
    let mut total = 0;
    for file in files {
        let trip = match Trip::of(Path::new(file), None) {
            Ok(t) => t,
            Err(e) => {
                println!("FAIL  {e}");
                failed.push(file.as_str());
                continue;
            }
        };
        total += trip.total();
        let good = trip.mismatches.is_empty() && trip.total() > 0;
        println!("{}  {file}: {trip}", if good { "ok  " } else { "FAIL" });
        let notes = [("mismatch", &trip.mismatches), ("malformed", &trip.malformed), ("undecodable", &trip.rest)];
        for (what, list) in notes {
            for line in list {
                println!("        {what}: {line}");
            }
        }
        if trip.total() == 0 {
            println!("        no NVMe/TCP PDU in it");
        }
        if !good {
            failed.push(file);
        }
    }
    println!("{total} PDUs in {} files, {} files failed", files.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}
