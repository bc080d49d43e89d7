//! The code generated from the protocols is what the protocols say.
//!
//! It is part of the source, so that a build needs no compiler for protocols. After a change of a `.proto` file,
//! `CONCLAVE_GENERATE=1 cargo test -p conclave-wire --test generated` writes it anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

/// Where protocols are, which they are, and where their code goes; all below `crates`.
struct Protocols {
    root: &'static str,
    files: &'static [&'static str],
    to: &'static str,
    /// Ours are served as well, take bytes without a copy, and are described for reflection.
    are_ours: bool,
}

const OURS: Protocols = Protocols {
    root: "wire/proto",
    files: &["conclave/v1/conclave.proto", "conclave/peer/v1/peer.proto"],
    to: "wire/src/generated",
    are_ours: true,
};

/// What the load generator says to etcd.
const ETCD: Protocols = Protocols {
    root: "bench/proto",
    files: &["etcd/lock.proto", "etcd/rpc.proto"],
    to: "bench/src/targets/etcd/generated",
    are_ours: false,
};

#[test]
fn our_protocols() {
    OURS.compare();
}

#[test]
fn the_protocol_of_etcd() {
    ETCD.compare();
}

impl Protocols {
    fn compare(&self) {
        let to = crates().join(self.to);
        let generated = self.generate();
        if env::var_os("CONCLAVE_GENERATE").is_some() {
            fs::create_dir_all(&to).expect("the directory can be made");
            for (name, content) in &generated {
                fs::write(to.join(name), content).expect("the file can be written");
            }
        }
        let found = read(&to);
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&generated), "the files in {}", to.display());
        for (name, content) in &generated {
            assert!(
                found[name] == *content,
                "{name} is not what its protocol says: see the head of this test"
            );
        }
    }

    fn generate(&self) -> BTreeMap<String, Vec<u8>> {
        let descriptors =
            protox::compile(self.files, [crates().join(self.root)]).expect("the protocols can be compiled");
        let bytes = descriptors.encode_to_vec();
        let out = tempfile::tempdir().expect("a directory can be made");
        let configured = tonic_prost_build::configure().build_server(self.are_ours).out_dir(out.path());
        let configured = if self.are_ours { configured.bytes(".") } else { configured };
        configured.compile_fds(descriptors).expect("code can be generated");
        let mut files = read(out.path());
        if self.are_ours {
            files.insert("descriptors.bin".to_owned(), bytes);
        }
        files
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is among the crates").to_path_buf()
}

fn read(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("the directory can be read");
    entries
        .map(|entry| {
            let entry = entry.expect("the directory can be read");
            (
                entry.file_name().into_string().expect("a name in Unicode"),
                fs::read(entry.path()).expect("a file"),
            )
        })
        .collect()
}
