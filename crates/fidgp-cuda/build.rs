//! Compiles the C face of libtorch's graph class.

fn main() {
    println!("cargo:rerun-if-changed=src/graph.cpp");
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        cc::Build::new().cpp(true).std("c++17").file("src/graph.cpp").compile("fidgp_graph");
    }
}
