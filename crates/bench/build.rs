//! Compiles the part of etcd's protocol that is measured, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["etcd/lock.proto", "etcd/rpc.proto"];
    for file in files {
        println!("cargo:rerun-if-changed=proto/{file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().build_server(false).compile_fds(descriptors)?;
    Ok(())
}
