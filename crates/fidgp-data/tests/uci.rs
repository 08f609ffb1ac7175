//! The UCI reader: a small set in the standard layout, and the same set broken in every way we thought of.

use std::{fs, path::Path};

use fidgp_data::uci::{self, Uci};
use tempfile::TempDir;

const FILES: [(&str, &str); 6] = [
    ("data.txt", "1 10 100\n2\t20 \t200\n3,30,300\n4 40 4e2\n\n"),
    ("index_features.txt", "0\n2\n"),
    ("index_target.txt", "1\n"),
    ("n_splits.txt", "1\n"),
    ("index_train_0.txt", "3\n0.000000000000000000e+00\n"),
    ("index_test_0.txt", "1\n2\n"),
];

fn set_with(file: &str, content: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("yacht/data");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in FILES {
        fs::write(folder.join(name), if name == file { content } else { text }).unwrap();
    }
    root
}

fn read(root: &Path) -> fidgp_data::Result<(Uci, fidgp_data::Split)> {
    let set = Uci::read(root, "Yacht_Hydrodynamics")?;
    let split = set.split(0)?;
    Ok((set, split))
}

#[test]
fn reads_features_target_and_split() {
    let root = set_with("", "");
    let (set, split) = read(root.path()).unwrap();
    assert_eq!(set.table().features(), [1.0, 100.0, 2.0, 200.0, 3.0, 300.0, 4.0, 400.0]);
    assert_eq!(set.table().targets(), [10.0, 20.0, 30.0, 40.0]);
    assert_eq!((split.train, split.test), (vec![3, 0], vec![1, 2]));
    assert!(set.split(1).unwrap_err().to_string().contains("split 1 was asked for, there are 1"));
    let gap = set.gap_split(1).unwrap();
    assert_eq!((gap.train, gap.test), (vec![0, 3], vec![1, 2]));
    assert!(set.gap_split(2).unwrap_err().to_string().contains("there are 2, one for each feature"));
}

#[test]
fn every_fault_names_its_file_and_line() {
    let cases = [
        ("data.txt", "1 2 3\n4 5\n", "data.txt, line 2: 2 numbers, the lines above have 3"),
        ("data.txt", "1 2 3\n\n4 x 6\n", "data.txt, line 3: `x` is not a number"),
        ("data.txt", "1 2 nan\n", "data.txt, line 1: `nan` is not finite"),
        ("data.txt", "", "data.txt: holds no numbers"),
        ("index_features.txt", "0\n3\n", "index_features.txt, line 2: `3` is not a whole number below 3"),
        ("index_features.txt", "0\n1\n", "column 1 is the target and a feature"),
        ("index_features.txt", "", "do not make 4 rows of 0 columns"),
        ("index_target.txt", "0\n1\n", "index_target.txt: must name exactly one column"),
        ("index_target.txt", "", "index_target.txt: must name exactly one column"),
        ("index_train_0.txt", "0\n4\n", "index_train_0.txt, line 2: `4`"),
        ("index_train_0.txt", "-1\n", "index_train_0.txt, line 1: `-1`"),
        ("index_train_0.txt", "0.5\n", "`0.5` is not a whole number"),
        ("index_test_0.txt", "3\n", "index_test_0.txt: row 3 is in this split twice"),
        ("index_test_0.txt", "", "index_test_0.txt: names no rows"),
        ("n_splits.txt", "1 2", "n_splits.txt: must hold one number"),
    ];
    for (file, content, wanted) in cases {
        let root = set_with(file, content);
        let message = read(root.path()).unwrap_err().to_string();
        assert!(message.contains(wanted) && message.contains("hint: "), "{file} {content:?}: {message}");
    }
}

#[test]
fn broken_text_and_absent_files_are_named() {
    let root = set_with("", "");
    let data = root.path().join("yacht/data/data.txt");
    fs::write(&data, b"1 2 3\n4 5 \xff\n").unwrap();
    assert!(read(root.path()).unwrap_err().to_string().contains("data.txt, line 2: not UTF-8 text"));
    fs::remove_file(&data).unwrap();
    assert!(read(root.path()).unwrap_err().to_string().contains("data.txt: cannot be read"));
    assert!(Uci::read(root.path(), "boston").unwrap_err().to_string().contains("no folder `bostonHousing`"));
}

#[test]
fn splits_are_counted_where_nobody_says_how_many() {
    let root = set_with("", "");
    fs::remove_file(root.path().join("yacht/data/n_splits.txt")).unwrap();
    assert_eq!(read(root.path()).unwrap().0.splits(), 1);
}

#[test]
fn sets_go_by_many_names() {
    for (name, wanted) in
        [("bostonHousing", "boston"), ("boston", "boston"), ("wine-quality-red", "wine"), ("CCPP", "power")]
    {
        assert_eq!(uci::find(name).unwrap().name, wanted);
    }
    assert!(uci::find("iris").unwrap_err().to_string().contains("the nine are boston"));
}
