//! `cargo xtask capture`: our reading of captures beside Wireshark's.

use std::path::PathBuf;

use crate::cmd;

mod parity;
mod rules;
mod tshark;

const USAGE: &str = "\
cargo xtask capture parity [--keys KEYLOG] [--all] FILE…  compare every nvme* field of every frame with what tshark shows
cargo xtask capture rules [--bless]                       check the table of docs/wireshark.md, or write it from the rules

parity ends with status 1 where a field differs or only tshark has it and no rule says why. `--all` prints every difference.";

/// The subcommand. An error is one message, ready to print.
pub fn run(args: &[String]) -> Result<(), String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((&"parity", rest)) => {
            let (mut keys, mut all, mut files) = (None, false, Vec::new());
            let mut rest = rest.iter();
            while let Some(&word) = rest.next() {
                match word {
                    "--keys" => keys = Some(PathBuf::from(rest.next().ok_or("--keys takes a file")?)),
                    "--all" => all = true,
                    file => files.push(PathBuf::from(file)),
                }
            }
            if files.is_empty() {
                return Err(USAGE.to_owned());
            }
            if !tshark::available() {
                println!("skipped: tshark is not installed");
                return Ok(());
            }
            parity::run(&files, keys.as_deref(), all)
        }
        Some((&"rules", [])) => rules::check(false),
        Some((&"rules", ["--bless"])) => rules::check(true),
        Some((&("help" | "-h" | "--help"), _)) => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    }
}

/// Every capture of the project beside tshark. `None` where tshark is not there.
pub fn captures_beside_wireshark() -> Result<Option<()>, String> {
    if !tshark::available() {
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
    rules::check(false)?;
    parity::run(&files, None, false).map(Some)
}
