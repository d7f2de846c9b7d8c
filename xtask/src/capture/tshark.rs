//! What tshark says of a capture: PDUs with their fields, frame by frame.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A PDU as tshark shows it: names of fields and what is printed of them.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Name and value of each field, in the order of the tree.
    pub fields: Vec<(String, String)>,
}

impl Shown {
    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|f| f.0 == name).map(|f| f.1.as_str())
    }
}

/// The PDUs of each frame.
pub type Frames = BTreeMap<u64, Vec<Shown>>;

/// True where tshark can be run.
pub fn available() -> bool {
    Command::new("tshark").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Its version, as `4.0.17`.
pub fn version() -> Result<String, String> {
    let out = Command::new("tshark").arg("--version").stderr(Stdio::null()).output().map_err(|e| format!("tshark: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let number = text.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    Ok(number.unwrap_or("unknown").trim_end_matches('.').to_owned())
}

/// Dissects a file. Connections to `ports` are taken for NVMe/TCP, or for TLS where that is said.
pub fn dissect(path: &Path, ports: &[(u16, bool)], keys: Option<&Path>) -> Result<Frames, String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(["-Y", "nvme-tcp || nvme-rdma || nvme", "-T", "pdml"]);
    command.args(["-J", "nvme-tcp nvme nvme-rdma fake-field-wrapper"]);
    command.args(["-o", "nvme-tcp.check_hdgst:TRUE", "-o", "nvme-tcp.check_ddgst:TRUE"]);
    if let Some(keys) = keys {
        command.arg("-o").arg(format!("tls.keylog_file:{}", keys.display()));
    }
    for (port, tls) in ports {
        if *tls {
            // 4.0 has no way to look for NVMe/TCP below TLS.
            command.arg("-d").arg(format!("tcp.port=={port},tls"));
        } else {
            command.arg("-d").arg(format!("tcp.port=={port},nvme-tcp"));
        }
    }
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|e| format!("tshark: {e}"))?;
    let out = child.stdout.take().ok_or("tshark without output")?;
    let frames = read(BufReader::new(out)).map_err(|e| format!("tshark: {e}"))?;
    let status = child.wait().map_err(|e| format!("tshark: {e}"))?;
    if status.success() { Ok(frames) } else { Err(format!("tshark: {status} for {}", path.display())) }
}

/// PDML has one element a line. A PDU is a `proto` of a transport of NVMe with what follows up to the next.
fn read(lines: impl BufRead) -> std::io::Result<Frames> {
    let mut out = Frames::new();
    let (mut frame, mut inside) = (0, false);
    for line in lines.lines() {
        let line = line?;
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("<proto ") {
            let name = attribute(rest, "name").unwrap_or_default();
            match name.as_str() {
                "nvme-tcp" | "nvme-rdma" => {
                    out.entry(frame).or_default().push(Shown::default());
                    inside = true;
                }
                "nvme" | "fake-field-wrapper" => {}
                _ => inside = false,
            }
        } else if let Some(rest) = line.strip_prefix("<field ") {
            let name = attribute(rest, "name").unwrap_or_default();
            if name == "num" {
                frame = attribute(rest, "show").and_then(|n| n.parse().ok()).unwrap_or(0);
                inside = false;
            } else if inside
                && name.starts_with("nvme")
                && let Some(pdu) = out.get_mut(&frame).and_then(|pdus| pdus.last_mut())
            {
                pdu.fields.push((name, attribute(rest, "show").unwrap_or_default()));
            }
        }
    }
    Ok(out)
}

fn attribute(element: &str, name: &str) -> Option<String> {
    let start = element.find(&format!("{name}=\""))?;
    let before = element[..start].chars().next_back();
    if before.is_some_and(|c| c != ' ') {
        return attribute(&element[start + 1..], name);
    }
    let value = element[start + name.len() + 2..].split('"').next()?;
    Some(value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PDML: &str = r#"<packet>
  <proto name="geninfo" pos="0"><field name="num" pos="0" show="7" showname="Number" value="7" size="66"/></proto>
    <field name="num" pos="0" show="7" showname="Number" value="7" size="66"/>
  <proto name="tcp" showname="Transmission Control Protocol">
    <field name="tcp.srcport" show="49972" value="c334"/>
  </proto>
  <proto name="nvme-tcp" showname="NVM Express Fabrics TCP" size="24" pos="0">
    <field name="nvme-tcp.type" showname="Pdu Type" size="1" pos="0" show="6" value="06"/>
    <field name="nvme-tcp.cmd.cid" showname="Cmd &quot;ID&quot;" size="2" pos="8" show="0x0076" value="7600"/>
  </proto>
  <proto name="nvme" size="4096" pos="24"/>
    <field name="nvme.cmd.identify.ctrl.sn" show="a&quot;&lt;" value="361b"/>
  <proto name="nvme-tcp" size="8" pos="40">
    <field name="nvme-tcp.type" show="5" value="05"/>
  </proto>
</packet>"#;

    #[test]
    fn pdus_and_their_data_are_found() {
        let frames = read(PDML.as_bytes()).unwrap();
        let pdus = &frames[&7];
        assert_eq!(pdus.len(), 2);
        assert_eq!(pdus[0].get("nvme-tcp.cmd.cid"), Some("0x0076"));
        assert_eq!(pdus[0].get("nvme.cmd.identify.ctrl.sn"), Some("a\"<"));
        assert_eq!(pdus[1].fields, [("nvme-tcp.type".to_owned(), "5".to_owned())]);
    }
}
