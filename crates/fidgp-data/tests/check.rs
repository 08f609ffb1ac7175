//! What a check must find: one damaged picture among many, labels a set does not have, files that end too early.

use std::fs;
use std::path::{Path, PathBuf};

use fidgp_data::{Part, arrays, cifar, detect, idx, npy};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

fn refusal(path: &Path) -> String {
    detect(path).unwrap_err().to_string()
}

/// `part/class/0.png`, `part/class/1.png`, …
fn add_class(root: &Path, part: &str, class: &str, count: usize) {
    let folder = root.join(part).join(class);
    fs::create_dir_all(&folder).unwrap();
    for number in 0..count {
        fs::copy(fixture("pictures/cat/b.png"), folder.join(format!("{number:03}.png"))).unwrap();
    }
}

#[test]
fn one_damaged_picture_among_many_is_named() {
    let root = tempfile::tempdir().unwrap();
    add_class(root.path(), "train", "cat", 300);
    add_class(root.path(), "train", "dog", 300);
    add_class(root.path(), "val", "cat", 2);
    add_class(root.path(), "val", "fox", 2);
    let notes = detect(root.path()).unwrap().notes.join("\n");
    assert!(notes.contains("`train` has no class `fox`, `val` has"), "{notes}");
    assert!(notes.contains("`val` has no class `dog`, `train` has"), "{notes}");
    let file = root.path().join("train/cat/001.png");
    let content = fs::read(&file).unwrap();
    fs::write(&file, &content[..120]).unwrap();
    let said = refusal(root.path());
    assert!(said.contains("1 of 600 pictures damaged:") && said.contains("cat/001.png, byte 120: cannot"), "{said}");
}

#[test]
fn labels_a_set_does_not_have_are_named_with_their_byte() {
    let root = tempfile::tempdir().unwrap();
    let mut labels = fs::read(fixture("idx/t10k-labels-idx1-ubyte")).unwrap();
    labels[8 + 2] = 250;
    fs::copy(fixture("idx/t10k-images-idx3-ubyte"), root.path().join("t10k-images-idx3-ubyte")).unwrap();
    fs::write(root.path().join("t10k-labels-idx1-ubyte"), &labels).unwrap();
    let trained = idx::mnist(root.path(), Part::Test).unwrap_err().to_string();
    for said in [refusal(root.path()), trained] {
        assert!(said.contains("t10k-labels-idx1-ubyte, byte 10: label 250 of row 2 is not below 10"), "{said}");
    }
    let mut records = fs::read(fixture("cifar-100-binary/test.bin")).unwrap();
    records[3074] = 77;
    fs::write(root.path().join("test.bin"), &records).unwrap();
    for labels in [cifar::Labels::Fine, cifar::Labels::Coarse] {
        let said = cifar::cifar100(root.path(), Part::Test, labels).unwrap_err().to_string();
        assert!(said.contains("test.bin, byte 3074: label 77 of record 1 is not below 20"), "{said}");
    }
}

#[test]
fn a_part_of_cifar_is_said_to_be_one() {
    let found = detect(&fixture("cifar-100-binary")).unwrap();
    assert_eq!(found.notes, ["test.bin has 2 of 10000 rows"]);
    assert_eq!(detect(&fixture("cifar-10-batches-bin")).unwrap().notes, ["test_batch.bin has 2 of 10000 rows"]);
}

#[test]
fn a_file_that_ends_early_or_late_is_told_where() {
    let root = tempfile::tempdir().unwrap();
    let cut = |name: &str, length: usize| {
        let file = root.path().join(fixture(name).file_name().unwrap());
        fs::write(&file, &fs::read(fixture(name)).unwrap()[..length]).unwrap();
        file
    };
    let said = idx::read(&cut("idx/t10k-images-idx3-ubyte", 30)).unwrap_err().to_string();
    assert!(
        said.contains("ubyte, byte 30: the file ends here; by the sizes [4, 3, 2] of its header it should have 40"),
        "{said}"
    );
    let whole = fs::read(fixture("npy-images/images.npy")).unwrap().len();
    let said = npy::read(&cut("npy-images/images.npy", whole - 3)).unwrap_err().to_string();
    assert!(said.contains(&format!("byte {}: the file ends here", whole - 3)), "{said}");
    assert!(said.contains(&format!("it should have {whole} bytes")), "{said}");
    let whole = fs::read(fixture("arrays.safetensors")).unwrap().len();
    let said = arrays::read(&cut("arrays.safetensors", whole - 5)).unwrap_err().to_string();
    assert!(said.contains(&format!("byte {}: the file ends here", whole - 5)), "{said}");
    assert!(said.contains(&format!("it should have {whole} bytes")), "{said}");
    let said = arrays::read(&cut("arrays.safetensors", 20)).unwrap_err().to_string();
    assert!(said.contains("byte 20: the file ends here; by its first eight bytes"), "{said}");
    let long = root.path().join("long-idx1-ubyte");
    fs::write(&long, [&fs::read(fixture("idx/t10k-labels-idx1-ubyte")).unwrap()[..], b"more"].concat()).unwrap();
    let said = idx::read(&long).unwrap_err().to_string();
    assert!(said.contains("byte 12: the file should end here by the sizes [4] of its header, it has 16"), "{said}");
}

#[test]
fn a_picture_that_lies_beside_the_classes_hides_no_part() {
    let root = tempfile::tempdir().unwrap();
    for part in ["train", "val"] {
        add_class(root.path(), part, "cat", 2);
        add_class(root.path(), part, "dog", 1);
    }
    fs::copy(fixture("pictures/cat/b.png"), root.path().join("train/stray.png")).unwrap();
    let found = detect(root.path()).unwrap();
    assert_eq!(
        found.parts.iter().map(|part| (part.name.as_str(), part.rows)).collect::<Vec<_>>(),
        [("train", 3), ("val", 3)]
    );
}

/// The type of a variable's values, in a matrix that is not compressed, is named with its place in the file.
#[test]
fn a_fault_inside_a_matrix_is_told_its_byte_of_the_file() {
    let bytes = fs::read(fixture("svhn/train_32x32.mat")).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(word(128), 14, "the first element is a matrix");
    // tag, flags, dimensions and name, each with its own tag and filled up to 8 bytes
    let step = |at: usize| if word(at) >> 16 != 0 { 8 } else { 8 + (word(at + 4) as usize).next_multiple_of(8) };
    let flags = 136;
    let dimensions = flags + step(flags);
    let name = dimensions + step(dimensions);
    let values = name + step(name);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train_32x32.mat");
    let mut damaged = bytes.clone();
    damaged[values] = 99;
    fs::write(&file, damaged).unwrap();
    assert!(refusal(&file).contains(&format!("byte {values}:")), "{values} {}", refusal(&file));
}

#[test]
fn arrays_without_rows_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 3, 8, 8), }\n";
    let length = (header.len() as u16).to_le_bytes();
    let file = root.path().join("images.npy");
    fs::write(&file, [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat()).unwrap();
    let said = refusal(&file);
    assert!(said.contains("images.npy, byte 10: the shape is [0, 3, 8, 8]: there is nothing in it"), "{said}");
}

#[test]
fn a_folder_of_data_sets_is_checked_set_by_set() {
    let root = tempfile::tempdir().unwrap();
    for name in ["cifar-100-binary/test.bin", "svhn/test_32x32.mat"] {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::copy(fixture(name), file).unwrap();
    }
    add_class(root.path(), "photos", "cat", 1); // not of the catalogue
    let found = detect(root.path()).unwrap();
    assert_eq!(found.kind, "a folder of data sets");
    assert_eq!(found.parts.iter().map(|part| &*part.name).collect::<Vec<_>>(), ["cifar100 test", "svhn test"]);
    fs::write(root.path().join("cifar-100-binary/test.bin"), "short").unwrap();
    fs::write(root.path().join("svhn/test_32x32.mat"), "short").unwrap();
    let said = refusal(root.path());
    assert!(said.contains("2 of 2 data sets damaged:"), "{said}");
    assert!(said.contains("test.bin, byte 0") && said.contains("test_32x32.mat, byte"), "{said}");
}
