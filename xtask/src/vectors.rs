//! `cargo xtask vectors`: holds the byte vectors beside the tables of `nvmf-wire`, or takes captures through the codec and back.
//!
//! It judges our codec, not the peers in the captures.

use std::path::{Path, PathBuf};

use crate::cmd;

mod check;
mod roundtrip;
mod wireshark;

use roundtrip::Trip;
use wireshark::Compared;

const USAGE: &str = "\
cargo xtask vectors                    check every file of vectors/
cargo xtask vectors --captures FILE…   take every PDU, SQE and CQE of pcap or pcapng files (also .gz) apart and together again
cargo xtask vectors --wireshark FILE…  compare each field that both know with what tshark shows";

/// The subcommand. An error is one message, ready to print.
pub fn run(args: &[String]) -> Result<(), String> {
    match args.split_first() {
        None => vectors(&cmd::root()?.join("vectors")),
        Some((first, files)) if first == "--captures" && !files.is_empty() => captures(files),
        Some((first, files)) if first == "--wireshark" && !files.is_empty() => {
            if wireshark::available() {
                return beside_wireshark(files.iter().map(PathBuf::from));
            }
            println!("skipped: tshark is not installed");
            Ok(())
        }
        Some((first, _)) if ["help", "-h", "--help"].contains(&first.as_str()) => {
            println!("{USAGE}");
            Ok(())
        }
        Some((first, _)) if ["--captures", "--wireshark"].contains(&first.as_str()) => {
            Err(format!("{first} takes at least one file\n{USAGE}"))
        }
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

/// Every capture of the project beside tshark. `None` where tshark is not there.
pub fn captures_beside_wireshark() -> Result<Option<()>, String> {
    if !wireshark::available() {
        return Ok(None);
    }
    let mut files = Vec::new();
    for folder in std::fs::read_dir(cmd::root()?.join("captures")).map_err(|e| format!("captures: {e}"))? {
        let folder = folder.map_err(|e| format!("captures: {e}"))?.path();
        if let Ok(list) = std::fs::read_dir(&folder) {
            files.extend(list.flatten().map(|f| f.path()).filter(|f| f.to_string_lossy().contains(".pcap")));
        }
    }
    files.sort();
    beside_wireshark(files.into_iter()).map(Some)
}

fn beside_wireshark(files: impl Iterator<Item = PathBuf>) -> Result<(), String> {
    let (mut all, mut count) = (Compared::default(), 0);
    for file in files {
        let c = Compared::of(&file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!(
            "{:5} PDUs, {} not paired, {:6} fields agree, {:5} left out, {:4} known  {name}",
            c.pdus, c.unpaired, c.agreed, c.left_out, c.known
        );
        for (field, (n, first)) in &c.differ {
            println!("        differs: {field}, {n} times; {first}");
            let entry = all.differ.entry(field.clone()).or_insert_with(|| (0, format!("{name}: {first}")));
            entry.0 += n;
        }
        (all.pdus, all.unpaired, all.agreed) = (all.pdus + c.pdus, all.unpaired + c.unpaired, all.agreed + c.agreed);
        (all.left_out, all.known) = (all.left_out + c.left_out, all.known + c.known);
        count += 1;
    }
    println!(
        "{} PDUs in {count} files, {} not paired: {} fields agree, {} left out by tshark, {} differ as known, {} differ",
        all.pdus,
        all.unpaired,
        all.agreed,
        all.left_out,
        all.known,
        all.differ.values().map(|d| d.0).sum::<usize>()
    );
    if all.pdus == 0 {
        return Err("tshark shows no PDU of these files".to_owned());
    }
    // tshark loses a response here and there; a wrong table would lose them all.
    if all.unpaired * 50 > all.pdus {
        return Err(format!("{} PDUs of {} have no counterpart", all.unpaired, all.pdus + all.unpaired));
    }
    if all.differ.is_empty() {
        return Ok(());
    }
    Err(all.differ.iter().map(|(field, (n, first))| format!("{field}, {n} times; {first}")).collect::<Vec<_>>().join("\n"))
}
