//! Prints what the bystander rules find in capture files, each requirement once a connection: `cargo run -p nvmf-capture --example lint -- FILE…`.
fn main() {
    for path in std::env::args().skip(1) {
        match nvmf_capture::Capture::open(&path) {
            Ok(c) => {
                let mut judge = nvmf_capture::Judge::new().once();
                for (conn, event) in c.exchange().events() {
                    for f in judge.event(conn, event) {
                        println!("{path} #{conn}/{} {f}", f.event);
                    }
                }
            }
            Err(e) => println!("{path} {e}"),
        }
    }
}
