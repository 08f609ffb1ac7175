//! Compiles the C faces of libtorch's graph class, allocator, backward nodes, observers, process groups and version.

use std::path::Path;

fn main() {
    let files = ["src/graph.cpp", "src/group.cpp", "src/pullback.cpp", "src/reads.cpp", "src/version.cpp"];
    files.iter().chain(&["build.rs", "src/gloo_names"]).for_each(|file| println!("cargo:rerun-if-changed={file}"));
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        let library = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys tells where libtorch is");
        let include = Path::new(&library).with_file_name("include");
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            .warnings(false)
            .include(&include)
            .include(include.join("torch/csrc/api/include"))
            .include("src/gloo_names")
            .files(files)
            .compile("fidgp_graph");
    }
}
