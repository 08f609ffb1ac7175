//! ONNX files made to do harm (`scripts/onnx-fixtures hostile`): each is refused by name, in bounded memory.

use std::fs;
use std::process::Command;

use crate::onnx::{CONFIG, graph, write};
use crate::{Place, Said};

/// What each file is, and what is said of it.
const FILES: [(&str, &[&str]); 14] = [
    ("cycle", &["node `one` (Add, opset 17)", "made by `two`, which comes later: a cycle"]),
    ("negative", &["initialiser `c`", "impossible shape [-1]"]),
    ("huge", &["initialiser `c`", "impossible shape [1099511627776, 1099511627776]"]),
    ("billion", &["initialiser `c`", "4000000000 bytes, but 12 bytes of data"]),
    ("missing", &["nothing makes its input `c`", "export it again"]),
    ("twice", &["`y` is made twice"]),
    ("twins", &["`c` is made twice"]),
    ("future", &["opset 99", "export it with opset 20"]),
    ("outside", &["`../secret` is outside the model's folder"]),
    ("absolute", &["`/etc/passwd` is outside the model's folder"]),
    ("bomb", &["FIDGP_LIMIT_NODES"]),
    ("expand", &["(Expand, opset 17)", "FIDGP_LIMIT_ELEMENTS"]),
    ("nested", &["graphs within graphs"]),
    ("cut", &["is no ONNX model, or is cut short"]),
];

/// `fidgp` with 6 GiB of addresses, of which libtorch takes most.
fn bounded(place: &Place, words: &[&str]) -> Said {
    let program = env!("CARGO_BIN_EXE_fidgp");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 6291456; exec \"$0\" \"$@\"", program]).args(words).current_dir(place.path("."));
    command.env("NO_COLOR", "1").env("OMP_NUM_THREADS", "1").env_remove("RUST_BACKTRACE");
    Said::by(&command.output().expect("a shell"))
}

#[test]
fn hostile_graphs_are_refused_in_bounded_memory() {
    let place = Place::new();
    place.write("small.toml", CONFIG);
    place.write("secret", "0123456789abcdef");
    fs::create_dir(place.path("models")).unwrap();
    write(&place.path("in.safetensors"), "x", vec![2, 3], &[1.0; 6]);
    for (name, words) in FILES {
        let file = format!("models/{name}.onnx");
        fs::copy(graph(&format!("hostile/{name}.onnx")), place.path(&file)).unwrap();
        let run = ["onnx", "run", &file, "--inputs", "in.safetensors", "--out", "out.safetensors"];
        let said = bounded(&place, &run).ends(2).says(words);
        assert!(said.err.len() < 1000 && !place.path("out.safetensors").exists(), "{name}: {said:?}");
        let network = format!("network.path={file}");
        bounded(&place, &["cost", "small.toml", "--set", &network]).ends(2).says(&[name]);
        let seen = bounded(&place, &["onnx", "inspect", &file, "--shape", "3"]);
        assert!(matches!(seen.code, Some(1 | 2)) || name == "expand", "{name}: {seen:?}");
    }
}
