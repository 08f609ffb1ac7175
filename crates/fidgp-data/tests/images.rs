//! Readers of image sets against files that other people's writers made (tests/fixtures/make.py).

use std::{fs, path::PathBuf};

use fidgp_data::{
    Images, Part, arrays,
    cifar::{self, Labels},
    idx, mat5, npy, svhn,
};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

/// Pixels as make.py defines them.
fn pixels(n: usize, [channels, height, width]: [usize; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0..n * channels * height * width {
        let (w, h) = (i % width, i / width % height);
        let (c, row) = (i / width / height % channels, i / width / height / channels);
        out.push(((37 * row + 101 * c + 7 * h + 3 * w) % 256) as u8);
    }
    out
}

fn check(images: &Images, size: [usize; 3], labels: &[u32], classes: usize) {
    assert_eq!((images.size(), images.labels()), (size, labels));
    assert_eq!(images.class_names().len(), classes);
    assert!(images.pixels() == pixels(labels.len(), size), "{}", images.name());
}

#[test]
fn cifar10() {
    let folder = fixture("cifar-10-batches-bin");
    let images = cifar::cifar10(&folder, Part::Test).unwrap();
    check(&images, [3, 32, 32], &[9, 3], 10);
    assert_eq!(images.class_names()[9], "thing 9");
    let missing = cifar::cifar10(&folder, Part::Train).unwrap_err().to_string();
    assert!(missing.contains("data_batch_1.bin: cannot be read"), "{missing}");
}

#[test]
fn cifar100_fine_and_coarse() {
    let folder = fixture("cifar-100-binary");
    let fine = cifar::cifar100(&folder, Part::Test, Labels::default()).unwrap();
    check(&fine, [3, 32, 32], &[99, 7], 100);
    let coarse = cifar::cifar100(&folder, Part::Test, Labels::Coarse).unwrap();
    check(&coarse, [3, 32, 32], &[19, 0], 20);
    assert_eq!((&*fine.class_names()[7], &*coarse.class_names()[19]), ("fine 7", "coarse 19"));
}

#[test]
fn cifar_says_where_it_went_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test_batch.bin");
    let read = || cifar::cifar10(folder.path(), Part::Test);
    let mut content = fs::read(fixture("cifar-10-batches-bin/test_batch.bin")).unwrap();
    content[3073] = 10;
    fs::write(&file, &content).unwrap();
    let message = read().unwrap_err().to_string();
    assert!(message.contains("byte 3073: label 10 of record 1 is not below 10"), "{message}");
    content[3073] = 0;
    fs::write(&file, &content).unwrap();
    assert_eq!(read().unwrap().class_names()[4], "class 4"); // no names file
    fs::write(&file, &content[..4000]).unwrap();
    assert!(read().unwrap_err().to_string().contains("byte 3073: 4000 bytes are not whole records of 3073"));
    fs::write(&file, b"").unwrap();
    assert!(read().unwrap_err().to_string().contains("byte 0: 0 bytes"));
    fs::write(&file, &content).unwrap();
    fs::write(folder.path().join("batches.meta.txt"), "one\ntwo\n").unwrap();
    assert!(read().unwrap_err().to_string().contains("batches.meta.txt: 2 names for 10 classes"));
}

#[test]
fn svhn_compressed_and_plain() {
    for part in [Part::Train, Part::Test] {
        let images = svhn::svhn(&fixture("svhn"), part).unwrap();
        check(&images, [3, 4, 5], &[1, 0, 9], 10);
        assert_eq!(images.name(), format!("SVHN {}", part.name()));
    }
}

#[test]
fn mat_files_keep_numbers_and_pass_over_the_rest() {
    let variables = mat5::read(&fixture("svhn/test_32x32.mat")).unwrap();
    let names: Vec<&str> = variables.iter().map(|v| &*v.name).collect();
    assert_eq!(names, ["small", "X", "y"]);
    assert_eq!((&variables[0].dims[..], &variables[0].values), (&[1, 2][..], &mat5::Values::F64(vec![1.5, -2.0])));
}

#[test]
fn svhn_refuses_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test_32x32.mat");
    let plain = fs::read(fixture("svhn/train_32x32.mat")).unwrap();
    let message = |content: &[u8]| {
        fs::write(&file, content).unwrap();
        svhn::read(&file).unwrap_err().to_string()
    };
    assert!(message(b"").contains("byte 0: the file ends inside the header"));
    let mut hdf = plain.clone();
    hdf[124..128].copy_from_slice(b"\x00\x02IM");
    assert!(message(&hdf).contains("7.3 files are HDF5"));
    assert!(message(&plain[..128]).contains("holds no numeric variable `X`"));
    let eleven = plain.len() - 24; // the labels are the last three doubles
    let mut label = plain.clone();
    label[eleven..eleven + 8].copy_from_slice(&11_f64.to_le_bytes());
    assert!(message(&label).contains(&format!("byte {eleven}: label 11 of row 0 is not one of 1, …, 10")));
    label[eleven..eleven + 8].copy_from_slice(&1_f64.to_le_bytes());
    label[eleven + 16..].copy_from_slice(&f64::NAN.to_le_bytes());
    assert!(message(&label).contains(&format!("byte {}: label NaN of row 2", eleven + 16)));
}

#[test]
fn idx_plain_and_gzipped() {
    for part in [Part::Train, Part::Test] {
        let images = idx::folder("toy", &fixture("idx"), part).unwrap();
        check(&images, [1, 3, 2], &[0, 2, 1, 2], 3);
    }
    assert_eq!(idx::mnist(&fixture("idx"), Part::Test).unwrap().class_names().len(), 10);
    assert_eq!(idx::fashion_mnist(&fixture("idx"), Part::Train).unwrap().class_names()[9], "Ankle boot");
}

#[test]
fn idx_refuses_other_files() {
    let (images, labels) = (fixture("idx/t10k-images-idx3-ubyte"), fixture("idx/t10k-labels-idx1-ubyte"));
    let swapped = idx::images_from("x", &labels, &images, vec![]).unwrap_err().to_string();
    assert!(swapped.contains("has size [4], not [N, height, width]"), "{swapped}");
    let twice = idx::images_from("x", &images, &images, vec![]).unwrap_err().to_string();
    assert!(twice.contains("for 4 images"), "{twice}");
    let few = idx::images_from("x", &images, &labels, vec!["a".into(), "b".into()]).unwrap_err().to_string();
    assert!(few.contains("byte 9: label 2 of row 1 is not below 2"), "{few}");
    let magic = idx::read(&fixture("npy-images/images.npy")).unwrap_err().to_string();
    assert!(magic.contains("byte 0: the magic number is [93, 4e, 55, 4d]"), "{magic}");
    let empty = tempfile::tempdir().unwrap();
    let absent = idx::mnist(empty.path(), Part::Test).unwrap_err().to_string();
    assert!(absent.contains("no file `t10k-images-idx3-ubyte`"), "{absent}");
}

#[test]
fn arrays_become_images_and_tables() {
    let npy = |name: &str| npy::read(&fixture(name)).unwrap();
    let (x, y) = (npy("npy-images/images.npy"), npy("npy-images/labels.npy"));
    check(&arrays::images("toy", &x, &y).unwrap(), [3, 2, 4], &[1, 0, 1], 2);
    let table = arrays::table("toy", &npy("npy-table/features.npy"), &npy("npy-table/targets.npy")).unwrap();
    assert_eq!(table.features(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    assert_eq!(table.targets(), [0.5, 1.5, -2.0]);
    let stored = arrays::read(&fixture("arrays.safetensors")).unwrap();
    check(&arrays::images("toy", &stored[0], &stored[1]).unwrap(), [3, 2, 4], &[1, 0, 1], 2);
    assert_eq!(stored[2].values.to_f64(), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    assert!(npy("npy-odd/scalar.npy").shape.is_empty());
}

#[test]
fn arrays_of_another_kind_are_refused() {
    let message = |name: &str| arrays::read(&fixture(name)).unwrap_err().to_string();
    assert!(message("npy-odd/fortran.npy").contains("save np.ascontiguousarray(array)"));
    assert!(message("npy-odd/big.npy").contains("the type is `>f8`"));
    assert!(message("half.safetensors").contains("`half` is F16"));
    assert!(message("make.py").contains("`.py` is not known"));
    let (x, y) = (npy::read(&fixture("npy-images/images.npy")), npy::read(&fixture("npy-images/labels.npy")));
    let (x, mut y) = (x.unwrap(), y.unwrap());
    assert!(arrays::images("t", &y, &y).unwrap_err().to_string().contains("`labels` is int64"));
    assert!(arrays::images("t", &x, &x).unwrap_err().to_string().contains("`images` has shape [3, 3, 2, 4]"));
    assert!(arrays::table("t", &x, &y).is_err());
    for label in [-1, i64::MAX, 1 << 31, 1_000_000] {
        y.values = arrays::Values::I64(vec![0, label, 1]);
        let message = arrays::images("t", &x, &y).unwrap_err().to_string();
        let wanted = format!("labels.npy, byte 136: label {label} of row 1 is not one of 0, …, 999999");
        assert!(message.contains(&wanted), "{message}"); // a header of 128 bytes, a label before it
    }
    let stored = &arrays::read(&fixture("arrays.safetensors")).unwrap()[1];
    let content = fs::read(&stored.file).unwrap();
    let arrays::Values::I64(labels) = &stored.values else { panic!("{:?}", stored.values) };
    assert_eq!(content[stored.start..stored.start + 8], labels[0].to_le_bytes());
}

#[test]
fn images_are_checked_and_described() {
    let names = || vec!["a".to_owned(), "b".to_owned()];
    let new = |bytes, size, labels| Images::new("t", bytes, size, labels, names());
    assert!(new(vec![0; 7], [1, 2, 2], vec![0, 1]).unwrap_err().to_string().contains("7 bytes do not make 2 images"));
    assert!(new(vec![], [usize::MAX, 2, 2], vec![0]).is_err());
    assert!(new(vec![], [0, 2, 2], vec![]).is_err());
    assert!(new(vec![0; 8], [1, 2, 2], vec![0, 2]).unwrap_err().to_string().contains("row 1 has label 2"));
    let images = new(vec![0, 0, 255, 255, 255, 255, 0, 0], [2, 1, 2], vec![1, 1]).unwrap();
    let statistics = images.channel_statistics();
    assert_eq!((statistics.mean, statistics.sd), (vec![0.5, 0.5], vec![0.5, 0.5]));
    assert_eq!(images.class_counts(), [0, 2]);
    assert_eq!(images.select(&[1, 0]).unwrap().image(0), [255, 255, 0, 0]);
    assert!(images.select(&[2]).is_err());
    let empty = images.select(&[]).unwrap();
    assert_eq!(empty.channel_statistics().mean, [0.0, 0.0]);
    // printf '' | sha256sum
    assert_eq!(empty.sha256(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
