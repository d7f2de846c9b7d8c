//! Holds the files of `vectors/` beside the tables and codecs of `nvmf-wire`.
//!
//! A structure's vector passes where every field reads as written down (a field left out must be zero), and where all fields,
//! written into zeroes, together with the reserved bits written down, give the same bytes. A field is covered by a vector in which it
//! is not zero; `[[untold]]` of the manifest names those that need none, with the reason. Start with [`check`].

use std::collections::BTreeSet;
use std::path::Path;

use nvmf_wire::layout::{Field, Kind, Layout, Value};
use nvmf_wire::registry::{LAYOUTS, named};
use nvmf_wire::roce::icrc;
use nvmf_wire::tcp::{Pdu, crc32c};
use nvmf_wire::{Cqe, Status};
use toml::{Table, Value as Toml};

/// What the folder holds, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Report {
    /// File, structure or kind, number of vectors; in the order of the manifest.
    pub files: Vec<(String, String, usize)>,
    /// What failed: file, vector, reason.
    pub failures: Vec<String>,
    /// Tables without a vector.
    pub missing: Vec<&'static str>,
    /// Fields that are zero in every vector and not excused, as `Table.field`. A table's own fields alone: those of its base are the
    /// base's.
    pub untold: Vec<String>,
    /// How many fields the manifest excuses.
    pub excused: usize,
}

/// Fields seen with a value, as (table, field).
type Told = BTreeSet<(&'static str, &'static str)>;

/// Checks every vector under `dir`. Fails only where a file cannot be read or is no TOML; what is wrong in it is a failure in the report.
pub fn check(dir: &Path) -> Result<Report, String> {
    let manifest = read(&dir.join("manifest.toml"))?;
    let mut report = Report::default();
    let mut listed = BTreeSet::from(["manifest.toml".to_owned()]);
    let mut told = Told::new();
    for entry in manifest.get("file").and_then(Toml::as_array).map_or(&[][..], Vec::as_slice) {
        let (path, want) = (text(entry, "path")?, entry.get("vectors").and_then(Toml::as_integer));
        let file = read(&dir.join(path))?;
        let what = file.get("structure").or_else(|| file.get("kind")).and_then(Toml::as_str).unwrap_or("").to_owned();
        let vectors = file.get("vector").and_then(Toml::as_array).map_or(&[][..], Vec::as_slice);
        let mut fail = |why: String| report.failures.push(format!("{path}: {why}"));
        if !listed.insert(path.to_owned()) {
            fail("listed twice".to_owned());
        }
        if want != i64::try_from(vectors.len()).ok() {
            fail(format!("{} vectors, the manifest says {want:?}", vectors.len()));
        }
        if entry.get("structure").or_else(|| entry.get("kind")).and_then(Toml::as_str) != Some(what.as_str()) {
            fail(format!("holds {what:?}, which is not what the manifest says"));
        }
        let mut names = BTreeSet::new();
        for v in vectors {
            let name = v.get("name").and_then(Toml::as_str).unwrap_or("(no name)");
            if !names.insert(name) {
                fail(format!("{name}: two vectors of this name"));
            }
            if let Err(why) = origin(v).and_then(|()| one(&file, v, &mut told)) {
                fail(format!("{name}: {why}"));
            }
        }
        report.files.push((path.to_owned(), what, vectors.len()));
    }
    for entry in std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let name = entry.map_err(|e| format!("{}: {e}", dir.display()))?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".toml") && !listed.contains(&name) {
            report.failures.push(format!("{name}: not in the manifest"));
        }
    }
    coverage(&manifest, &told, &mut report)?;
    report.missing =
        LAYOUTS.iter().map(|l| l.name).filter(|n| !report.files.iter().any(|(_, what, k)| what == n && *k > 0)).collect();
    Ok(report)
}

/// What no vector tells and no excuse covers; an excuse without a reason, for a field that is told or that no table has, is a failure.
fn coverage(manifest: &Table, told: &Told, report: &mut Report) -> Result<(), String> {
    let mut excused = Told::new();
    for entry in manifest.get("untold").and_then(Toml::as_array).into_iter().flatten() {
        let (table, reason) = (text(entry, "structure")?, text(entry, "reason")?);
        let Some(layout) = named(table).filter(|_| !reason.trim().is_empty()) else {
            report.failures.push(format!("untold: {table}: no such structure, or no reason"));
            continue;
        };
        for name in text(entry, "fields")?.split_whitespace() {
            match layout.fields.iter().find(|f| f.name == name) {
                Some(f) if !told.contains(&(layout.name, f.name)) && excused.insert((layout.name, f.name)) => {}
                Some(_) => report.failures.push(format!("untold: {table}.{name} has a vector, or is excused twice")),
                None => report.failures.push(format!("untold: {table} has no field {name:?} of its own")),
            }
        }
    }
    report.excused = excused.len();
    for l in LAYOUTS {
        let untold = l.fields.iter().filter(|f| !told.contains(&(l.name, f.name)) && !excused.contains(&(l.name, f.name)));
        report.untold.extend(untold.map(|f| format!("{}.{}", l.name, f.name)));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.parse().map_err(|e| format!("{}: {e}", path.display()))
}

fn text<'a>(v: &'a Toml, key: &str) -> Result<&'a str, String> {
    v.get(key).and_then(Toml::as_str).ok_or_else(|| format!("no text {key:?}"))
}

fn int(v: &Toml, key: &str) -> Result<u64, String> {
    v.get(key).and_then(Toml::as_integer).and_then(|n| u64::try_from(n).ok()).ok_or_else(|| format!("no number {key:?}"))
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits", digits.len()));
    }
    let digit = |c: char| c.to_digit(16).ok_or_else(|| format!("{c:?} among hexadecimal digits"));
    digits.chunks(2).map(|c| Ok((digit(c[0])? << 4 | digit(c[1])?) as u8)).collect()
}

fn show(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

fn origin(v: &Toml) -> Result<(), String> {
    let o = text(v, "origin")?;
    if !["published", "derived", "capture"].contains(&o) {
        return Err(format!("origin {o:?}"));
    }
    if text(v, "source")?.is_empty() { Err("source is empty".to_owned()) } else { Ok(()) }
}

fn one(file: &Table, v: &Toml, told: &mut Told) -> Result<(), String> {
    if let Some(name) = file.get("structure").and_then(Toml::as_str) {
        let layout = named(name).ok_or_else(|| format!("no structure {name:?}"))?;
        let declared = file.get("bytes").and_then(Toml::as_integer);
        if declared != i64::try_from(layout.bytes).ok() {
            return Err(format!("the file says {declared:?} bytes, {name} has {}", layout.bytes));
        }
        return structure(layout, v, told);
    }
    match file.get("kind").and_then(Toml::as_str) {
        Some("crc32c") => same("digest", &show(&crc32c(&bytes(text(v, "input")?)?)), text(v, "hex")?),
        Some("icrc") => {
            let found = icrc(&bytes(text(v, "input")?)?).ok_or("no datagram")?;
            same("ICRC", &show(&found), text(v, "hex")?)
        }
        Some("status") => status(v),
        Some("pdu") => pdu(v),
        other => Err(format!("kind {other:?}")),
    }
}

fn same(what: &str, got: &str, want: &str) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what} is {got}, expected {want}")) }
}

fn structure(layout: &'static Layout, v: &Toml, told: &mut Told) -> Result<(), String> {
    let mut expected = bytes(text(v, "hex")?)?;
    if expected.len() > layout.bytes || (layout.bytes <= 128 && expected.len() != layout.bytes) {
        return Err(format!("{} bytes, {} has {}", expected.len(), layout.name, layout.bytes));
    }
    expected.resize(layout.bytes, 0);
    let fields = v.get("fields").and_then(Toml::as_table).ok_or("no fields")?;
    if let Some(stranger) = fields.keys().find(|k| layout.field(k).is_none()) {
        return Err(format!("{} has no field {stranger:?}", layout.name));
    }
    let mut built = vec![0u8; layout.bytes];
    for f in layout.all_fields() {
        let want = match fields.get(f.name) {
            Some(t) => value(f, t).map_err(|e| format!("{}: {e}", f.name))?,
            None => f.get(&vec![0u8; layout.bytes]),
        };
        if f.get(&expected) != want {
            return Err(format!("{} reads {}, expected {want:?}", f.name, f.show(&expected)));
        }
        layout.write_field(&mut built, f.name, &want)?;
        if want != f.get(&vec![0u8; layout.bytes]) {
            told.insert((owner(layout, f), f.name));
        }
    }
    let mask = layout.reserved_mask();
    for (at, byte) in v.get("reserved").and_then(Toml::as_table).into_iter().flatten() {
        let at: usize = at.parse().map_err(|_| format!("reserved {at:?} is no offset"))?;
        let byte = byte.as_integer().and_then(|b| u8::try_from(b).ok()).ok_or("a reserved byte that is no byte")?;
        let (Some(m), Some(b)) = (mask.get(at), built.get_mut(at)) else { return Err(format!("reserved byte {at} is outside")) };
        if byte & !m != 0 {
            return Err(format!("reserved byte {at} = {byte:#04x} has bits that fields own"));
        }
        *b |= byte;
    }
    match built.iter().zip(&expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(format!("fields and reserved bits give {:#04x} at byte {at}, expected {:#04x}", built[at], expected[at])),
    }
}

/// The table that declares a field: the structure, or its base.
fn owner(layout: &'static Layout, f: &Field) -> &'static str {
    let own = layout.fields.iter().any(|o| o.name == f.name);
    layout.base.filter(|_| !own).map_or(layout.name, |b| b.name)
}

/// A field's value as the files write it: numbers (those above 2^63 as text `0x…`), bytes in hexadecimal (zeroes behind), text
/// (padded as the field demands), `{ text, pad }` or `{ hex }`.
fn value(f: &Field, t: &Toml) -> Result<Value, String> {
    let width = f.width / 8;
    let padded = |mut b: Vec<u8>, pad: u8| {
        if b.len() > width {
            return Err(format!("{} bytes for {width}", b.len()));
        }
        b.resize(width, pad);
        Ok(Value::Bytes(b))
    };
    match t {
        Toml::Integer(n) if f.is_int() => u64::try_from(*n).map(Value::Int).map_err(|_| format!("{n} is negative")),
        Toml::String(s) if f.is_int() => {
            let digits = s.strip_prefix("0x").ok_or_else(|| format!("{s:?} is no number"))?;
            u64::from_str_radix(digits, 16).map(Value::Int).map_err(|e| e.to_string())
        }
        Toml::String(s) if f.kind == Kind::Bytes => padded(bytes(s)?, 0),
        Toml::String(s) => padded(s.clone().into_bytes(), if f.kind == Kind::Ascii { b' ' } else { 0 }),
        Toml::Table(_) if t.get("hex").is_some() => padded(bytes(text(t, "hex")?)?, 0),
        Toml::Table(_) => padded(text(t, "text")?.as_bytes().to_vec(), int(t, "pad")? as u8),
        other => Err(format!("{other} does not fit the field")),
    }
}

fn status(v: &Toml) -> Result<(), String> {
    let b = bytes(text(v, "hex")?)?;
    let mut cqe = [0u8; 16];
    cqe[14..].copy_from_slice(b.get(..2).ok_or("less than 2 bytes")?);
    let cqe = Cqe::from_bytes(cqe);
    let flag = |key| v.get(key).and_then(Toml::as_bool).ok_or_else(|| format!("no flag {key:?}"));
    let s = cqe.status();
    let got = (u64::from(s.sct()), u64::from(s.sc()), u64::from(s.crd()), s.more(), s.is_dnr(), u64::from(s.0));
    let want = (int(v, "sct")?, int(v, "sc")?, int(v, "crd")?, flag("more")?, flag("dnr")?, int(v, "status")?);
    if got != want {
        return Err(format!("(SCT, SC, CRD, M, DNR, field) is {got:?}, expected {want:?}"));
    }
    let again = Cqe::new().with_status(Status(want.5 as u16));
    same("bytes 15:14", &show(&again.as_bytes()[14..]), &show(&b))?;
    let by_fields = Cqe::new().with(|s| s.sct(want.0 as u8).sc(want.1 as u8).crd(want.2 as u8).more(want.3).dnr(want.4));
    same("bytes 15:14 by fields", &show(&by_fields.as_bytes()[14..]), &show(&b))
}

fn pdu(v: &Toml) -> Result<(), String> {
    let whole = bytes(text(v, "hex")?)?;
    let p = Pdu::parse(&whole.clone().into()).map_err(|e| e.to_string())?;
    same("type", p.ptype().name().unwrap_or("unknown"), text(v, "type")?)?;
    let lengths = [("hlen", p.header.len()), ("pad", p.pad.len()), ("data", p.data.len())];
    for (what, got) in lengths {
        same(what, &got.to_string(), &int(v, what)?.to_string())?;
    }
    let digest = |key| v.get(key).and_then(Toml::as_str).unwrap_or("");
    same("hdgst", &show(p.hdgst.as_ref().map_or(&[], |d| d)), digest("hdgst"))?;
    same("ddgst", &show(p.ddgst.as_ref().map_or(&[], |d| d)), digest("ddgst"))?;
    if !p.hdgst_ok() || !p.ddgst_ok() {
        return Err("a digest is not that of the bytes".to_owned());
    }
    if p.clone().seal() != p || p.to_bytes() != whole {
        return Err("sealed and written again it differs".to_owned());
    }
    Ok(())
}
