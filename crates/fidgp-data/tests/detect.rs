//! What `detect` says about each layout, the catalogue, and where the data root is looked for.

use std::{fs, path::PathBuf};

use fidgp_data::{Part, Summary, catalogue, detect};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

/// A part's name and rows.
type PartRows<'a> = (&'a str, usize);

fn parts(summary: &Summary) -> Vec<PartRows<'_>> {
    summary.parts.iter().map(|p| (&*p.name, p.rows)).collect()
}

#[test]
fn every_layout_is_recognised() {
    let cases: [(&str, &str, &[PartRows]); 11] = [
        ("cifar-10-batches-bin", "CIFAR-10", &[("test", 2)]),
        ("cifar-10-batches-bin/test_batch.bin", "CIFAR-10", &[("test", 2)]),
        ("cifar-100-binary", "CIFAR-100", &[("test", 2)]),
        ("svhn", "SVHN", &[("test", 3), ("train", 3)]),
        ("svhn/test_32x32.mat", "SVHN", &[("test", 3)]),
        ("idx", "idx", &[("train", 4), ("test", 4)]),
        ("npy-images", "arrays", &[("all", 3)]),
        ("npy-table", "arrays", &[("npy-table", 3)]),
        ("npy-table/targets.npy", "arrays", &[]),
        ("arrays.safetensors", "arrays", &[("all", 3)]),
        ("pictures", "pictures", &[("pictures", 4)]),
    ];
    for (path, kind, wanted) in cases {
        let found = detect(&fixture(path)).unwrap();
        assert!(found.kind.starts_with(kind) && parts(&found) == wanted, "{path}: {found}");
    }
}

#[test]
fn the_text_is_a_table() {
    let text = detect(&fixture("idx")).unwrap().to_string();
    let lines: Vec<&str> = text.lines().skip(1).take(4).collect();
    // numpy: p = pixels(4, 1, 3, 2) / 255; p.mean(), p.std()
    assert_eq!(
        lines,
        [
            "",
            "part   rows  of size  classes  rows a class  mean    sd",
            "train  4     1×3×2    3        1 to 2        0.2510  0.1639",
            "test   4     1×3×2    3        1 to 2        0.2510  0.1639",
        ]
    );
    assert!(text.contains("t10k-images-idx3-ubyte      40     "), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()));
}

#[test]
fn the_summary_is_json_too() {
    let json = serde_json::to_value(detect(&fixture("pictures")).unwrap()).unwrap();
    assert_eq!(json["parts"][0]["classes"][1]["name"], "dog");
    assert_eq!(json["parts"][0]["row_shape"], serde_json::json!([3, 20, 30]));
}

#[test]
fn a_folder_of_uci_sets_and_of_picture_parts() {
    let root = tempfile::tempdir().unwrap();
    for set in ["one", "two"] {
        let folder = root.path().join("uci").join(set).join("data");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("data.txt"), "1 2\n3 4\n").unwrap();
        fs::write(folder.join("index_features.txt"), "0").unwrap();
        fs::write(folder.join("index_target.txt"), "1").unwrap();
        let class = root.path().join("photos").join(set).join("class");
        fs::create_dir_all(&class).unwrap();
        fs::copy(fixture("pictures/cat/b.png"), class.join("b.png")).unwrap();
    }
    let uci = detect(&root.path().join("uci")).unwrap();
    assert_eq!(parts(&uci), [("one", 2), ("two", 2)]);
    assert_eq!((&uci.parts[0].mean, &uci.parts[0].sd), (&vec![2.0, 3.0], &vec![1.0, 1.0]));
    assert_eq!(parts(&detect(&root.path().join("photos")).unwrap()), [("one", 1), ("two", 1)]);
}

#[test]
fn strangers_are_told_what_is_known() {
    let root = tempfile::tempdir().unwrap();
    let message = |path: &str| detect(&root.path().join(path)).unwrap_err().to_string();
    assert!(message("absent").contains("absent: cannot be read"));
    assert!(message("").contains("the folder is empty"));
    fs::write(root.path().join("words.txt"), "hello").unwrap();
    assert!(message("").contains("it holds 1: words.txt (hint: known are CIFAR binary"));
    assert!(message("words.txt").contains("a file of an unknown kind"));
}

#[test]
fn the_root_comes_from_the_variable_or_from_here() {
    let here = tempfile::tempdir().unwrap();
    let resolve = |variable: Option<PathBuf>| catalogue::resolve_root(variable.map(Into::into), here.path());
    let neither = resolve(None).unwrap_err().to_string();
    assert!(neither.contains("looked at: $FIDGP_DATA (not set), ") && neither.contains("/data"), "{neither}");
    fs::create_dir(here.path().join("data")).unwrap();
    assert_eq!(resolve(None).unwrap(), here.path().join("data"));
    assert_eq!(resolve(Some("".into())).unwrap(), here.path().join("data"));
    assert_eq!(resolve(Some(here.path().into())).unwrap(), here.path());
    // A variable that points nowhere is an error, not a reason to look elsewhere.
    let nowhere = resolve(Some(here.path().join("nowhere"))).unwrap_err().to_string();
    assert!(nowhere.contains("$FIDGP_DATA = ") && nowhere.contains("nowhere"), "{nowhere}");
}

#[test]
fn the_catalogue_knows_its_sets() {
    let entry = catalogue::find("CIFAR10").unwrap();
    assert_eq!(entry.folder, "cifar-10-batches-bin");
    assert_eq!(entry.home, "https://www.cs.toronto.edu/~kriz/cifar.html");
    assert!(catalogue::find("cifar11").unwrap_err().to_string().contains("known are cifar10, cifar100"));
    assert_eq!(catalogue::images(&fixture(""), "cifar10", Part::Test).unwrap().rows(), 2);
    assert!(catalogue::images(&fixture(""), "uci", Part::Test).is_err());
    assert!(catalogue::ENTRIES.iter().all(|e| e.home.starts_with("http") && !e.licence.is_empty()));
}
