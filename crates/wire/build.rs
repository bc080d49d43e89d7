//! Compiles the protocol without `protoc`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["conclave/v1/conclave.proto", "conclave/peer/v1/peer.proto"];
    for file in files {
        println!("cargo:rerun-if-changed=proto/{file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    let bytes = prost::Message::encode_to_vec(&descriptors);
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("descriptors.bin"), bytes)?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
