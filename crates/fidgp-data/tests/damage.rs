//! No file, however damaged, makes a reader panic; a shortened one is always noticed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fidgp_data::{Picture, Result, Sheet, arrays, cifar, detect, idx, mat5, npy, svhn};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

type Reader = fn(&Path) -> Result<()>;

/// Each fixture with the reader that must survive it.
const CASES: [(&str, Reader); 14] = [
    ("cifar-10-batches-bin/test_batch.bin", |f| cifar::cifar10(folder(f), fidgp_data::Part::Test).map(drop)),
    ("cifar-100-binary/test.bin", |f| {
        cifar::cifar100(folder(f), fidgp_data::Part::Test, cifar::Labels::Fine).map(drop)
    }),
    ("svhn/test_32x32.mat", |f| svhn::read(f).map(drop)),
    ("svhn/train_32x32.mat", |f| svhn::read(f).map(drop)),
    ("idx/t10k-images-idx3-ubyte", |f| idx::read(f).map(drop)),
    ("idx/train-images-idx3-ubyte.gz", |f| idx::read(f).map(drop)),
    ("npy-images/images.npy", |f| npy::read(f).map(drop)),
    ("npy-table/features.npy", |f| npy::read(f).map(drop)),
    ("arrays.safetensors", |f| arrays::read(f).map(drop)),
    ("pictures/cat/b.png", |f| Picture::open(f).map(drop)),
    ("pictures/cat/a.JPEG", |f| Picture::open(f).map(drop)),
    ("pictures/dog/c.webp", |f| Picture::open(f).map(drop)),
    ("parquet/none.parquet", |f| Sheet::open(f).map(drop)),
    ("parquet/zstd.parquet", |f| Sheet::open(f).map(drop)),
];

fn folder(file: &Path) -> &Path {
    file.parent().unwrap()
}

fn content(case: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(case)).unwrap()
}

/// Writes `bytes` under the fixture's own name into a fresh folder.
fn written(case: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(Path::new(case).file_name().unwrap());
    fs::write(&file, bytes).unwrap();
    (home, file)
}

#[test]
fn every_fixture_is_sound() {
    for (case, read) in CASES {
        let (_home, file) = written(case, &content(case));
        read(&file).unwrap();
    }
}

#[test]
fn the_first_bytes_alone_are_never_enough() {
    for (case, read) in CASES {
        let whole = content(case);
        for length in (0..whole.len().min(1000)).step_by(3).chain([whole.len() - 9, whole.len() - 1]) {
            let (_home, file) = written(case, &whole[..length]);
            // A picture's very last bytes may be a checksum or padding that its decoder does not need.
            if let Err(error) = read(&file) {
                let message = error.to_string();
                let name = file.file_name().unwrap().to_str().unwrap();
                assert!(message.contains(name) && message.contains("hint: "), "{case} at {length}: {message}");
            } else {
                let is_tail = case.starts_with("pictures") && length + 4 >= whole.len();
                assert!(is_tail, "{case} at {length} was accepted");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..Default::default() })]

    #[test]
    fn changed_bytes_never_panic(
        case in 0..CASES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
        in_header: bool,
    ) {
        let (name, read) = CASES[case];
        let mut bytes = content(name);
        let reach = if in_header { bytes.len().min(160) } else { bytes.len() };
        for (place, value) in changes {
            bytes[place.index(reach)] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let (home, file) = written(name, &bytes);
        drop(read(&file));
        drop(detect(&file));
        drop(detect(home.path()));
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        for (case, read) in CASES {
            let (_home, file) = written(case, &noise);
            drop(read(&file));
        }
        // With a sound header the reader gets further in.
        let mut mat = content("svhn/train_32x32.mat")[..128].to_vec();
        mat.extend_from_slice(&noise);
        drop(mat5::read(&written("x.mat", &mat).1));
        let mut npy = b"\x93NUMPY\x01\x00".to_vec();
        npy.extend_from_slice(&noise);
        drop(npy::read(&written("x.npy", &npy).1));
    }
}
