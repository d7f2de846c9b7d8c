//! Prints the trace of capture files: `cargo run -p nvmf-capture --example dump -- FILE…`.
fn main() {
    for path in std::env::args().skip(1) {
        match nvmf_capture::Capture::open(&path) {
            Ok(c) => {
                println!("== {path}: {} packets, {} other connections {:?}", c.packets(), c.other_connections(), c.notes());
                print!("{}", nvmf_capture::Trace::new(c.exchange().start_ns()).with_rules().exchange(c.exchange()));
            }
            Err(e) => println!("== {path} {e}"),
        }
    }
}
