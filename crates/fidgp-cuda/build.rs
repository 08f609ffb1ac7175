//! Compiles the C face of libtorch's graph class and allocator.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src/graph.cpp");
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        let library = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys tells where libtorch is");
        let include = Path::new(&library).with_file_name("include");
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").warnings(false).include(include).file("src/graph.cpp").compile("fidgp_graph");
    }
}
