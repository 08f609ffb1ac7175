//! Images as arrays in a training and a test part, written by NumPy and safetensors (tests/fixtures/make.py).

use std::{
    fs,
    path::{Path, PathBuf},
};

use fidgp_data::{Images, Part, array_folder, detect};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

/// A folder with copies of fixtures under other names.
fn folder(copies: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (from, to) in copies {
        let to = root.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(fixture(from), to).unwrap();
    }
    root
}

const NPY: [(&str, &str); 4] = [
    ("arrays-npy/train/images.npy", "train/images.npy"),
    ("arrays-npy/train/labels.npy", "train/labels.npy"),
    ("arrays-npy/test/images.npy", "test/images.npy"),
    ("arrays-npy/test/labels.npy", "test/labels.npy"),
];

/// What is said about a folder, by the reader and by `detect` alike.
fn refusal(root: &Path) -> String {
    let said = array_folder::both(root, 0).unwrap_err().to_string();
    assert_eq!(detect(root).unwrap_err().to_string(), said);
    said
}

/// [`NPY`] with one file replaced.
fn refusal_with(from: &str, to: &str) -> String {
    let root = folder(&NPY);
    fs::copy(fixture(from), root.path().join(to)).unwrap();
    refusal(root.path())
}

/// Pixels of one channel, 6×6, as make.py defines them.
fn pixels(n: usize) -> Vec<u8> {
    (0..n * 36).map(|i| ((37 * (i / 36) + 7 * (i / 6 % 6) + 3 * (i % 6)) % 256) as u8).collect()
}

#[test]
fn both_layouts_hold_the_same_images() {
    for name in ["arrays-stored", "arrays-npy"] {
        let [train, test] = array_folder::both(&fixture(name), 0).unwrap();
        assert_eq!((train.labels(), test.labels()), (&[2, 0, 1, 3, 0][..], &[1, 0, 2][..]));
        let check = |images: &Images| {
            assert_eq!((images.size(), images.class_names().join(" ")), ([1, 6, 6], "0 1 2 3".to_owned()));
            assert!(images.pixels() == pixels(images.rows()), "{}", images.name());
        };
        check(&train);
        check(&test); // class 3 is not among its labels, and one of its classes all the same
        assert_eq!(array_folder::both(&fixture(name), 9).unwrap().map(|part| part.class_names().len()), [9, 9]);
        assert_eq!(array_folder::part(&fixture(name), Part::Test, 0).unwrap().class_names().len(), 3);
        assert!(array_folder::is_there(&fixture(name)));
    }
    assert!(!array_folder::is_there(&fixture("npy-images")) && !array_folder::is_there(&fixture("pictures")));
}

#[test]
fn a_check_describes_the_parts_that_are_there() {
    let parts = |root: &Path| {
        let found = detect(root).unwrap();
        let rows: Vec<_> = found.parts.iter().map(|part| (part.name.clone(), part.rows, part.classes.len())).collect();
        (rows, found.files.len())
    };
    let [train, test] = [("train".to_owned(), 5, 4), ("test".to_owned(), 3, 4)];
    assert_eq!(parts(&fixture("arrays-stored")), (vec![train.clone(), test.clone()], 2));
    assert_eq!(parts(&fixture("arrays-npy")), (vec![train, test], 4));
    let root = folder(&NPY[2..]);
    assert_eq!(parts(root.path()), (vec![("test".to_owned(), 3, 3)], 2));
}

#[test]
fn what_is_missing_or_there_twice_is_named() {
    let says = |said: String, texts: &[&str]| texts.iter().for_each(|text| assert!(said.contains(text), "{said}"));
    let read = |root: &TempDir| array_folder::both(root.path(), 0).unwrap_err().to_string();
    says(
        read(&folder(&NPY[2..])),
        &["no `train.safetensors` and no `train/images.npy`: it holds 1: test", "int64 [N]"],
    );
    says(read(&folder(&NPY[..2])), &["no `test.safetensors` and no `test/images.npy`"]);
    says(read(&folder(&[])), &["the folder is empty"]);
    says(array_folder::both(Path::new("nowhere"), 0).unwrap_err().to_string(), &["nowhere: cannot be read"]);
    says(refusal(folder(&NPY[..3]).path()), &["test: has no `labels`", "images.npy and labels.npy"]);
    says(refusal(folder(&NPY[1..]).path()), &["train: has no `images`"]);
    let twice = [&NPY[..], &[("arrays-stored/test.safetensors", "test.safetensors")]].concat();
    says(refusal(folder(&twice).path()), &["test.safetensors: stands beside", "test/images.npy", "remove one"]);
    let table = [("npy-table/features.npy", "train/features.npy"), ("npy-table/targets.npy", "train/targets.npy")];
    says(read(&folder(&table)), &["no `train/images.npy`", "for a table of numbers use"]);
    let stored = folder(&[("half.safetensors", "train.safetensors"), ("arrays.safetensors", "test.safetensors")]);
    says(refusal(stored.path()), &["train.safetensors: `half` is F16"]);
}

#[test]
fn arrays_that_are_no_images_or_do_not_fit_are_refused() {
    let says = |said: String, text: &str| assert!(said.contains(text), "{said}");
    says(refusal_with("npy-table/features.npy", "test/images.npy"), "test: `images` is float32 (hint: store pixels as");
    says(
        refusal_with("npy-table/targets.npy", "train/labels.npy"),
        "train/labels.npy: `labels` is float64 (hint: give labels",
    );
    says(
        refusal_with(NPY[3].0, NPY[1].1),
        "train: `labels` has 3 rows, `images` has 5 (hint: give one label per image)",
    );
    let swapped = folder(&[(NPY[0].0, NPY[2].1), (NPY[1].0, NPY[3].1), (NPY[2].0, NPY[0].1), (NPY[3].0, NPY[1].1)]);
    says(refusal(swapped.path()), "test: row 3 has label 3, which no training image has");
    let other = folder(&[NPY[0], NPY[1], ("npy-images/images.npy", NPY[2].1), ("npy-images/labels.npy", NPY[3].1)]);
    says(refusal(other.path()), "test: images are 3×2×4, those of training 1×6×6 (hint: bring both parts to one size)");
    let header = r#"{"images":{"dtype":"U8","shape":[0,6,6],"data_offsets":[0,0]},"labels":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#;
    let content = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    let empty = folder(&NPY[..2]);
    fs::write(empty.path().join("test.safetensors"), content).unwrap();
    says(refusal(empty.path()), "test.safetensors: `images` has no rows");
}
