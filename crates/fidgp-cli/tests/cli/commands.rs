//! verify, data, doctor.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::Place;

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/fidgp-cli is in crates")
}

/// The cases of the built-in file that take no time.
fn quick_golden() -> Value {
    let text = fs::read(crates().join("fidgp-lab/golden/golden.json")).unwrap();
    let Value::Object(mut file) = serde_json::from_slice(&text).unwrap() else { panic!("an object") };
    file.retain(|key, _| ["auroc", "metrics", "ddu", "projector", "ood_score"].contains(&key.as_str()));
    Value::Object(file)
}

#[test]
fn the_built_in_numbers_are_met_in_both_precisions() {
    for precision in ["f64", "f32"] {
        let said = Place::new().fidgp(&["verify", "--precision", precision]).ends(0);
        assert!(said.out.contains(" 0 failed"), "{}", said.out);
        assert!(!said.out.contains("FAILED"), "{}", said.out);
    }
}

#[test]
fn one_changed_number_fails() {
    let place = Place::new();
    let mut file = quick_golden();
    place.write("same.json", &file.to_string());
    place.fidgp(&["verify", "same.json"]).ends(0);
    file["auroc"]["auroc"] = json!(file["auroc"]["auroc"].as_f64().unwrap() + 1e-3);
    file["novelty"] = json!({"expected": 1.0});
    place.write("changed.json", &file.to_string());
    let said = place.fidgp(&["verify", "changed.json"]).ends(1);
    assert!(said.out.contains(" 1 failed") && said.out.contains("not checked"), "{}", said.out);
}

#[test]
fn a_file_that_is_no_golden_file_is_refused() {
    let place = Place::new();
    place.fidgp(&["verify", "nowhere.json"]).ends(2).says(&["`nowhere.json`"]);
    place.write("cut.json", "{\"auroc\": ");
    place.fidgp(&["verify", "cut.json"]).ends(1).says(&["not JSON"]);
    place.write("list.json", "[]");
    place.fidgp(&["verify", "list.json"]).ends(1).says(&["expected an object"]);
}

#[test]
fn data_lists_what_can_be_read_and_where_it_goes() {
    let said = Place::new().fidgp(&["data"]).ends(0);
    for name in ["cifar10", "svhn", "uci", "data.set = \"arrays\""] {
        assert!(said.out.to_lowercase().contains(name), "{name}: {}", said.out);
    }
    assert!(said.out.contains("FIDGP_DATA"));
}

#[test]
fn data_check_says_what_a_folder_holds() {
    let fixtures = crates().join("fidgp-data/tests/fixtures");
    let cifar = fixtures.join("cifar-10-batches-bin");
    let said = Place::new().fidgp(&["data", "check", cifar.to_str().unwrap()]).ends(0);
    assert!(said.out.contains("test_batch.bin"), "{}", said.out);
    let said = Place::new().fidgp(&["data", "check", "--json", cifar.to_str().unwrap()]).ends(0);
    assert!(serde_json::from_str::<Value>(&said.out).unwrap().is_object());
    Place::new().fidgp(&["data", "check", "nowhere"]).ends(1).says(&["nowhere: cannot be read"]);
    let place = Place::new();
    place.write("odd/readme.txt", "no data");
    place.fidgp(&["data", "check", "odd"]).ends(1).says(&["not a known data set"]);
    place.write("pictures/cat/a.png", "no picture");
    place.fidgp(&["data", "check", "pictures"]).ends(1).says(&["1 of 1 pictures damaged", "cat/a.png, byte 0"]);
}

#[test]
fn the_doctor_finds_this_machine_healthy() {
    let said = Place::new().fidgp(&["doctor"]).ends(0);
    for name in ["fidgp", "engine", "libtorch", "checksums", "devices", "threads", "cache", "data", "self-check"] {
        assert!(said.out.lines().any(|line| line.starts_with(name)), "{name}: {}", said.out);
    }
    assert!(said.out.contains("Cpu: ok"), "{}", said.out);
    let told: Value = serde_json::from_str(&Place::new().fidgp(&["doctor", "--json"]).ends(0).out).expect("JSON");
    assert_eq!((&told["healthy"], &told["found"][0]["name"]), (&json!(true), &json!("fidgp")));
}

/// A library before libtorch's that says another version: what is loaded counts, not what was compiled against.
#[test]
fn another_libtorch_than_that_compiled_against_is_refused() {
    let place = Place::new();
    place.write("other.c", "unsigned long long aoti_torch_abi_version(void) { return 0x020a000000000000ULL; }\n");
    let compiler = ["-shared", "-fPIC", "-o", "other.so", "other.c"];
    let compiled = std::process::Command::new("cc").args(compiler).current_dir(place.path(".")).status();
    assert!(compiled.expect("a C compiler, which the build needs too").success());
    let run = |words: &[&str]| {
        let mut command = place.command(words);
        command.env("LD_PRELOAD", place.path("other.so"));
        crate::Said::by(&command.output().unwrap())
    };
    let doctor = run(&["doctor"]).ends(1);
    assert!(doctor.out.contains("libtorch 2.10.0 through tch"), "{}", doctor.out);
    assert!(doctor.out.contains("but 2.10.0 is loaded"), "{}", doctor.out);
    run(&["verify"]).ends(2).says(&["libtorch", "compiled against", "2.10.0 is loaded"]);
}
