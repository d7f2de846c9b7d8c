//! The program from outside: usage errors, peers that are no NVMe targets, files that cannot be read or written. Each has to end with
//! the right status and say clearly why.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn nvmfspec(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvmfspec"))
        .args(args)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("not ended by a signal")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// The whole of a refusal: this status, nothing on standard output, one line on standard error.
fn one_line(args: &[&str], code: i32) -> String {
    let output = nvmfspec(args);
    let text = stderr(&output);
    assert_eq!(status(&output), code, "{args:?}\n{}{text}", stdout(&output));
    assert_eq!(stdout(&output), "", "{args:?}");
    assert_eq!(text.lines().count(), 1, "{args:?}\n{text}");
    text
}

fn last_line(output: &Output) -> String {
    stdout(output).lines().last().unwrap_or_default().to_owned()
}

/// `N passed, M failed, W warned, B blocked, S skipped` as numbers.
fn counts(line: &str) -> [usize; 5] {
    let parts: Vec<&str> = line.split(", ").collect();
    let words = ["passed", "failed", "warned", "blocked", "skipped"];
    assert_eq!(parts.len(), words.len(), "{line}");
    std::array::from_fn(|at| {
        let (number, word) = parts[at].split_once(' ').expect("a number and a word");
        assert_eq!(word, words[at], "{line}");
        number.parse().expect("a number")
    })
}

#[test]
fn a_wrong_command_line_is_usage() {
    for args in [
        &[][..],
        &["conform"],
        &["conformance", "--no-such-option"],
        &["conformance", "--target", "host:port"],
        &["conformance", "--target", ""],
        &["conformance", "--allow-writes", "8191-0"],
        &["conformance", "--allow", "everything"],
        &["conformance", "--transport", "carrier-pigeon"],
        &["conformance", "--nqn", "nqn.x", "--all-subsystems"],
        &["conformance", "--hostid", "1"],
        &["conformance", "--time-scale", "0"],
        &["conformance", "--seed", "x"],
        &["conformance", "--spec", "two"],
        &["explain"],
    ] {
        let output = nvmfspec(args);
        assert_eq!(status(&output), 2, "{args:?}");
        assert!(!stderr(&output).is_empty(), "{args:?}");
    }
}

#[test]
fn help_teaches_by_example() {
    for args in [
        &["--help"][..],
        &["conformance", "--help"],
        &["list", "--help"],
        &["explain", "--help"],
        &["scenario", "--help"],
        &["completion", "--help"],
        &["host", "--help"],
        &["target", "--help"],
    ] {
        let output = nvmfspec(args);
        assert_eq!(status(&output), 0, "{args:?}");
        let text = stdout(&output);
        assert!(text.contains("Examples:\n  nvmfspec "), "{args:?}\n{text}");
        // Examples that a narrow terminal breaks cannot be copied.
        for line in text.lines().skip_while(|line| *line != "Examples:") {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn a_script_of_ones_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("own.check");
    let path = file.to_str().expect("text");
    let play = |text: &str| {
        std::fs::write(&file, text).expect("written");
        nvmfspec(&["scenario", path, "--world", "sim"])
    };
    let check =
        "check own/greeting\n  says \"a controller answers\"\n  cites TCP-ICREQ-02\n\n  open\n  send ICReq\n  expect ICResp\n";
    let good = play(check);
    assert_eq!((status(&good), last_line(&good).as_str()), (0, "1 passed, 0 failed, 0 warned, 0 blocked, 0 skipped"));
    let bad = play(&check.replace("ICResp", "C2HTermReq within 1s"));
    assert_eq!((status(&bad), counts(&last_line(&bad))), (1, [0, 1, 0, 0, 0]), "{}", stdout(&bad));
    let text = stdout(&bad);
    assert!(text.contains(&format!("{path}:7")), "{text}");
    assert!(text.contains(&format!("nvmfspec scenario {path} --world sim --filter own/greeting")), "{text}");

    let scenario = "scenario own/wire\n  says \"a handshake\"\n  host\n    open\n    send ICReq\n    expect ICResp\n  wire\n    > ICReq\n    < ICResp pfv=0\n";
    assert_eq!(status(&play(scenario)), 0);
    let bad = play(&scenario.replace("pfv=0", "pfv=7"));
    assert_eq!(status(&bad), 1);
    assert!(stdout(&bad).contains(&format!("{path}:9")), "{}", stdout(&bad));

    for cut in [&check[..20], &check[..45], &check.replace("ICReq\n", "ICReqq\n")] {
        let output = play(cut);
        assert_eq!((status(&output), stdout(&output).as_str()), (2, ""), "{cut}");
        let text = stderr(&output);
        assert!(text.contains("own.check:") && text.contains("expected"), "{cut}\n{text}");
    }
    assert_eq!(status(&nvmfspec(&["scenario", "/no/such.check"])), 2);
    assert_eq!(status(&play("")), 2);
}

/// The first block of the README that is fenced and begins with this.
fn of_the_readme(begin: &str) -> String {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).expect("the README");
    let block =
        readme.split("```").map(|block| block.trim_start_matches("toml").trim_start()).find(|block| block.starts_with(begin));
    block.expect("a block").to_owned()
}

#[test]
fn what_the_readme_shows_works() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str, begin: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, of_the_readme(begin)).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let check = file("own.check", "check own/");
    let output = nvmfspec(&["scenario", &check, "--world", "sim"]);
    assert_eq!((status(&output), counts(&last_line(&output))), (0, [1, 0, 0, 0, 0]), "{}", stderr(&output));
    // Every id of the example exists; the embedded target has none of these faults, hence 4.
    let known = file("known.toml", "stack = ");
    let output = nvmfspec(&["conformance", "--world", "sim", "--filter", "tcp/icreq/pfv-unsupported", "--expect", &known]);
    assert_eq!(status(&output), 4, "{}{}", stdout(&output), stderr(&output));
    // What it says; the checks that cite it may become more.
    let says = |text: &str| text.split("\n\n").next().map(str::to_owned);
    let explained = format!("$ nvmfspec explain TCP-R2T-02\n{}", stdout(&nvmfspec(&["explain", "TCP-R2T-02"])));
    assert_eq!(says(&of_the_readme("$ nvmfspec explain")), says(&explained));
}

#[test]
fn a_folder_of_scripts_that_cannot_be_used_is_usage() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("text");
    assert!(one_line(&["conformance", "--scripts", "/no/such/folder"], 2).contains("/no/such/folder"));
    std::fs::write(dir.path().join("cut.check"), "check own/cut\n  says \"a").expect("written");
    for command in ["conformance", "list"] {
        let output = nvmfspec(&[command, "--scripts", path]);
        assert_eq!(status(&output), 2);
        assert!(stderr(&output).contains("cut.check:2"), "{}", stderr(&output));
    }
}

#[test]
fn a_filter_that_matches_nothing_is_usage() {
    let text = one_line(&["conformance", "--filter", "tcp/icrq"], 2);
    assert!(text.contains("no check begins with `tcp/icrq`; did you mean"), "{text}");
    let text = one_line(&["conformance", "--filter", "tcp", "--filter", "zzz"], 2);
    assert!(text.contains("`zzz`"), "{text}");
    one_line(&["list", "zzz"], 2);
    one_line(&["list", "--faults", "zzz"], 2);
}

#[test]
fn an_expectation_file_that_cannot_be_used_is_usage() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("known.toml");
    let path = file.to_str().expect("text");
    let refused = |text: &str| {
        std::fs::write(&file, text).expect("written");
        one_line(&["conformance", "--expect", path], 2)
    };
    assert!(one_line(&["conformance", "--expect", "/no/such/file.toml"], 2).contains("/no/such/file.toml: cannot be read"));
    assert!(one_line(&["conformance", "--expect", dir.path().to_str().expect("text")], 2).contains("cannot be read"));
    let whole = "[[known]]\nid = \"tcp/icreq/no-such-check\"\nverdict = \"fail\"\nreason = \"r\"\n";
    assert!(refused(whole).contains("known.toml:2:1: there is no check `tcp/icreq/no-such-check`"));
    assert!(refused(&whole[..20]).contains("known.toml:2:"));
    assert!(refused(&whole[..50]).contains("known.toml:"));
    assert!(refused("{\"schema\": ").contains("known.toml:1:"));
    std::fs::write(&file, [0xff, 0xfe]).expect("written");
    assert!(one_line(&["conformance", "--expect", path], 2).contains("is not UTF-8"));
}

#[test]
fn lists() {
    let all = nvmfspec(&["list", "--json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&all.stdout).expect("JSON");
    assert!(rows.len() >= 60, "{}", rows.len());
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    assert!(ids.is_sorted() && ids.len() == rows.len());
    // The protocol itself, which other transports carry as well.
    let any = rows.iter().filter(|row| row["transport"] == "any").count();
    assert!(any >= 120, "{any}");
    assert!(stdout(&nvmfspec(&["list"])).ends_with(&format!("{} checks, {any} of them over any transport\n", rows.len())));
    let some = stdout(&nvmfspec(&["list", "tcp/icreq"]));
    let icreq: Vec<_> = rows.iter().filter(|row| row["id"].as_str().is_some_and(|id| id.starts_with("tcp/icreq/"))).collect();
    let any = icreq.iter().filter(|row| row["transport"] == "any").count();
    assert_eq!(some.lines().last(), Some(format!("{} checks, {any} of them over any transport", icreq.len()).as_str()));
    // What would run is what is listed.
    assert_eq!(stdout(&nvmfspec(&["conformance", "--filter", "tcp/icreq", "--list"])).lines().count(), some.lines().count());
    let faults = nvmfspec(&["list", "--faults", "--json", "tcp-"]);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&faults.stdout).expect("JSON");
    assert!(rows.len() >= 6 && rows.iter().all(|row| row["class"] == "fault"));
}

#[test]
fn explanations() {
    let output = nvmfspec(&["explain", "TCP-ICREQ-02"]);
    assert_eq!(status(&output), 0);
    assert!(stdout(&output).contains("NVMe TCP Transport 1.0, section 3.6.2.2"), "{}", stdout(&output));
    assert_eq!(nvmfspec(&["explain", "tcp-icreq-02"]).stdout, output.stdout);
    assert!(stdout(&nvmfspec(&["explain", "TCP-SILENT-01"])).contains("open case"));
    assert!(one_line(&["explain", "TCP-ICREQ-2"], 2).contains("did you mean one of `TCP-ICREQ-02`"));
    assert!(one_line(&["explain", "zzzzzzzz"], 2).contains("there is no requirement, check or structure `zzzzzzzz`"));
}

#[test]
fn explanations_for_other_programs() {
    let explain = |id: &str| -> serde_json::Value {
        let output = nvmfspec(&["explain", "--json", id]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let requirement = explain("tcp-r2t-02");
    assert_eq!((&requirement["kind"], &requirement["section"]), (&"requirement".into(), &"3.3.2.2".into()));
    // What a requirement says of its checks, they say of it.
    let checks = requirement["checks"].as_array().expect("checks");
    assert!(!checks.is_empty());
    for check in checks {
        let check = explain(check["id"].as_str().expect("an id"));
        assert_eq!(check["kind"], "check");
        let cites = check["cites"].as_array().expect("cites");
        assert!(cites.iter().any(|cite| cite["id"] == "TCP-R2T-02" && cite["says"] == requirement["says"]), "{check}");
        assert!(check["script"].as_str().is_some_and(|script| script.starts_with("check ")), "{check}");
    }
    let one = explain("tcp/icreq/pfv-unsupported/one");
    assert_eq!(one["cases"], serde_json::json!(["one"]));
    let structure = explain("icreq");
    let fields = structure["fields"].as_array().expect("fields");
    let pfv = fields.iter().find(|field| field["name"] == "pfv").expect("the PFV");
    assert_eq!((&structure["bytes"], &pfv["bit"], &pfv["width"]), (&128.into(), &64.into(), &16.into()));
    assert_eq!(explain("TCP-SILENT-01")["kind"], "open-case");
    assert!(one_line(&["explain", "--json", "zzzzzzzz"], 2).contains("there is no requirement"));
}

#[test]
fn completion_names_every_command_and_option() {
    for shell in ["bash", "zsh", "fish"] {
        let output = nvmfspec(&["completion", shell]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let script = stdout(&output);
        let help = stdout(&nvmfspec(&["conformance", "--help"]));
        let options = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        let options: Vec<&str> = options.map(|word| word.trim_end_matches([',', '.', ';', ')'])).collect();
        assert!(options.contains(&"tap") && options.contains(&"html"));
        for word in ["conformance", "target", "discover", "identify", "completion"].into_iter().chain(options) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(status(&nvmfspec(&["completion", "tcsh"])), 2);
}

#[test]
#[cfg(unix)]
fn a_shell_reads_the_completion_and_completes() {
    let script = stdout(&nvmfspec(&["completion", "bash"]));
    let ask = "COMP_WORDS=(nvmfspec conformance --ht); COMP_CWORD=2; _nvmfspec nvmfspec --ht conformance; echo \"${COMPREPLY[*]}\"";
    let bash = Command::new("bash").args(["--norc", "-c", &format!("{script}\n{ask}")]).output();
    // Not every machine has a bash; the test above holds there.
    if let Ok(output) = bash {
        assert_eq!(stdout(&output).trim(), "--html", "{}", stderr(&output));
    }
}

/// Accepts connections until the test ends and lets `serve` play the peer on each. The address to connect to.
fn peer(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let serve = std::sync::Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Waits for the first bytes of the host.
fn hear(stream: &mut TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let _ = stream.read(&mut [0_u8; 1024]);
}

/// Runs the suite against a peer that is no NVMe target: status 3, one line that names the address, and soon.
fn not_a_target(address: &str) -> String {
    let begun = Instant::now();
    let text = one_line(&["conformance", "--target", address, "--time-scale", "0.02"], 3);
    assert!(begun.elapsed() < Duration::from_secs(20), "took {:?}: {text}", begun.elapsed());
    assert!(text.contains(address), "{text}");
    text
}

#[test]
fn nobody_listens() {
    assert!(not_a_target("127.0.0.1:1").contains("refused"));
}

#[test]
fn a_name_that_does_not_exist() {
    let text = one_line(&["conformance", "--target", "no-such-host.invalid:4420"], 3);
    assert!(text.contains("no-such-host.invalid"), "{text}");
}

#[test]
fn a_web_server() {
    let address = peer(|mut stream| {
        hear(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    assert!(not_a_target(&address).contains("HTTP"));
}

#[test]
fn a_tls_port() {
    let address = peer(|mut stream| {
        hear(&mut stream);
        let _ = stream.write_all(&[0x15, 3, 3, 0, 2, 2, 10]);
    });
    assert!(not_a_target(&address).contains("TLS"));
}

#[test]
fn garbage() {
    let address = peer(|mut stream| {
        hear(&mut stream);
        let garbage: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 0x80).collect();
        let _ = stream.write_all(&garbage);
    });
    assert!(not_a_target(&address).contains("no NVMe/TCP PDU"));
}

#[test]
fn a_peer_that_closes_at_once() {
    let address = peer(drop);
    let text = not_a_target(&address);
    assert!(text.contains("closes the connection") || text.contains("resets the connection"), "{text}");
}

#[test]
fn a_peer_that_stalls() {
    let address = peer(|stream| {
        std::thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    assert!(not_a_target(&address).contains("does not answer"));
}

#[test]
fn a_peer_that_sends_one_byte_a_second() {
    let address = peer(|mut stream| {
        let mut icresp = [0_u8; 128];
        icresp[..8].copy_from_slice(&[1, 0, 128, 0, 128, 0, 0, 0]);
        for byte in icresp {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    assert!(not_a_target(&address).contains("too little in the time"));
}

#[test]
fn a_subsystem_that_nobody_serves() {
    let text = one_line(&["conformance", "--nqn", "nqn.2014-08.org.example:nobody"], 3);
    assert!(text.contains("nqn.2014-08.org.example:nobody"), "{text}");
}

#[test]
fn an_unwritable_folder_or_file_keeps_nothing_from_the_console() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("written");
    let below = file.join("x");
    let below = below.to_str().expect("text");
    for option in ["--out", "--json", "--junit"] {
        let output = nvmfspec(&["conformance", "--world", "sim", "--filter", "tcp/icreq", option, below]);
        assert_eq!(status(&output), 3, "{option} {}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains(&format!("cannot write {below}")), "{option}\n{text}");
        assert!(counts(&last_line(&output))[0] > 0, "{option}\n{text}");
    }
}

/// Starts the program and waits for a line of its standard output that begins with this; the rest can be read later.
fn started(args: &[&str], begin: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvmfspec"));
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.starts_with(begin) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).expect("text"), 0, "{args:?} ended without a line that begins with {begin}");
    }
    (child, lines, line)
}

fn rest(mut lines: BufReader<ChildStdout>) -> String {
    let mut text = String::new();
    lines.read_to_string(&mut text).expect("text");
    text
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_reports_what_was_measured() {
    let dir = tempfile::tempdir().expect("a folder");
    let json = dir.path().join("report.json");
    let (mut child, lines, _) = started(&["conformance", "--json", json.to_str().expect("text")], "pass");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(killed.success());
    let text = rest(lines);
    assert_eq!(child.wait().expect("an end").code(), Some(3));
    let mut last = text.lines().rev();
    assert!(counts(last.next().expect("a line"))[0] > 0, "{text}");
    assert_eq!(last.next(), Some("the run is not whole: interrupted"));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("a report")).expect("JSON");
    assert_eq!((&report["status"], &report["subsystems"][0]["aborted"]), (&3.into(), &"interrupted".into()));
}

/// The ids after `--fault` in a help text.
fn faults_in(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = words.windows(2).filter(|pair| pair[0] == "--fault" && !pair[1].starts_with('<'));
    after.map(|pair| pair[1].to_owned()).collect()
}

#[test]
fn faults_that_examples_name_exist() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).expect("the README");
    let helps = [&["--help"][..], &["target", "--help"]].map(|args| stdout(&nvmfspec(args)));
    for text in helps.into_iter().chain([readme]) {
        let faults = faults_in(&text);
        assert!(!faults.is_empty(), "{text}");
        for fault in faults {
            let fault = fault.trim_end_matches([',', '`', ')']);
            assert_eq!(status(&nvmfspec(&["list", "--faults", fault])), 0, "{fault}");
        }
    }
    assert!(one_line(&["target", "--fault", "tcp-r2t-nothin"], 2).contains("did you mean `tcp-r2t-nothing`"));
}

#[test]
fn a_target_whose_reader_is_gone_serves_on() {
    let (mut target, log, line) = started(&["target", "--listen", "127.0.0.1:0"], "listening on ");
    drop(log);
    let address = line.split_whitespace().nth(2).expect("an address").to_owned();
    let output = nvmfspec(&["conformance", "--target", &address, "--filter", "fabrics/connect/admin"]);
    target.kill().expect("killed");
    target.wait().expect("an end");
    assert_eq!(status(&output), 0, "{}", stdout(&output));
}

#[test]
fn a_target_that_dies_and_stays_dead() {
    let (mut target, _log, line) = started(&["target", "--listen", "127.0.0.1:0"], "listening on ");
    let address = line.split_whitespace().nth(2).expect("an address").to_owned();
    let args = ["conformance", "--target", &address, "--time-scale", "0.02"];
    let (mut suite, lines, _) = started(&args, "pass");
    target.kill().expect("killed");
    target.wait().expect("an end");
    let text = rest(lines);
    assert_eq!(suite.wait().expect("an end").code(), Some(3), "{text}");
    let [passed, failed, _, blocked, _] = counts(text.lines().last().expect("a line"));
    assert!(failed >= 1 && blocked >= 1, "{passed} {failed} {blocked}\n{text}");
    assert!(text.contains("KILLED ") && text.contains("did not come back after"), "{text}");
}

#[test]
fn one_seed_one_report() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = |name: &str| {
        let path = dir.path().join(name);
        let json = path.to_str().expect("text");
        let output = nvmfspec(&["conformance", "--world", "sim", "--seed", "7", "--filter", "tcp", "--json", json]);
        assert_eq!(status(&output), 0, "{}", stdout(&output));
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("a report")).expect("JSON");
        assert!(value.as_object_mut().expect("an object").remove("wall").is_some());
        value
    };
    assert_eq!(report("a.json"), report("b.json"));
}

#[test]
fn the_reports_of_a_run_are_where_they_were_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out");
    let output = nvmfspec(&["conformance", "--world", "sim", "--filter", "tcp/icreq", "--out", out.to_str().expect("text")]);
    assert_eq!(status(&output), 0, "{}", stdout(&output));
    let [passed, failed, ..] = counts(&last_line(&output));
    assert!(passed > 0 && failed == 0);
    let with_ending = |ending: &str| {
        let files = std::fs::read_dir(&out).expect("the folder");
        files.filter(|f| f.as_ref().is_ok_and(|f| f.file_name().to_string_lossy().ends_with(ending))).count()
    };
    for name in ["report.json", "junit.xml", "report.tap", "report.html", "report.md"] {
        assert!(Path::new(&out).join(name).is_file(), "{name}");
    }
    let trace = std::fs::read_to_string(out.join("tcp.icreq.answered.trace.txt")).expect("a trace");
    assert!(trace.contains(" |--- ICReq ") && trace.contains(" |<--- ICResp "), "{trace}");
    assert_eq!((with_ending(".pcapng"), with_ending(".trace.txt")), (passed, passed));
}
