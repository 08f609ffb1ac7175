//! The real data sets, where `FIDGP_DATA` points at them: `cargo test -p fidgp-data --test real -- --ignored`.

use std::path::PathBuf;

use fidgp_data::{
    Images, Part, catalogue,
    cifar::{self, Labels},
    detect,
    uci::{SETS, Uci},
};

fn root() -> PathBuf {
    std::env::var_os("FIDGP_DATA").expect("set FIDGP_DATA to the folder of data sets").into()
}

#[test]
#[ignore = "needs the real data"]
fn the_nine_uci_sets() {
    for known in SETS {
        let set = Uci::read(&root().join("uci"), known.name).unwrap();
        let size = (set.table().rows(), set.table().columns(), set.splits());
        assert_eq!(size, (known.rows, known.columns, known.splits), "{}", known.name);
        for index in 0..set.splits() {
            let split = set.split(index).unwrap();
            assert_eq!(split.train.len() + split.test.len(), known.rows, "{} split {index}", known.name);
        }
    }
}

fn read(name: &str, part: Part) -> Images {
    catalogue::images(&root(), name, part).unwrap()
}

#[test]
#[ignore = "needs the real data"]
fn the_test_parts_have_their_published_sizes() {
    for (name, size, classes) in [
        ("cifar10", [3, 32, 32], 10),
        ("cifar100", [3, 32, 32], 100),
        ("svhn", [3, 32, 32], 10),
        ("mnist", [1, 28, 28], 10),
        ("fashion-mnist", [1, 28, 28], 10),
        ("notmnist", [1, 28, 28], 10),
    ] {
        let images = read(name, Part::Test);
        assert!(images.rows() >= 10_000, "{name}");
        assert_eq!((images.size(), images.class_names().len()), (size, classes), "{name}");
        println!("{name}: {} rows, pixels {}, {:?}", images.rows(), images.sha256(), images.class_counts());
    }
}

#[test]
#[ignore = "needs the real data"]
fn cifar_is_balanced() {
    assert_eq!(read("cifar10", Part::Test).class_counts(), [1000; 10]);
    let train = read("cifar100", Part::Train);
    assert_eq!((train.rows(), train.class_counts()), (50_000, vec![500; 100]));
    let coarse = cifar::cifar100(&root().join("cifar-100-binary"), Part::Test, Labels::Coarse).unwrap();
    assert_eq!(coarse.class_counts(), [500; 20]);
    // The channel means of CIFAR-100's training part that everybody uses.
    let mean = train.channel_statistics().mean;
    assert!(mean.iter().zip([0.5071, 0.4865, 0.4409]).all(|(a, b)| (a - b).abs() < 1e-4), "{mean:?}");
}

#[test]
#[ignore = "needs the real data"]
fn everything_is_detected() {
    for entry in catalogue::ENTRIES {
        let folder = root().join(entry.folder);
        if folder.is_dir() {
            println!("{}", detect(&folder).unwrap());
        }
    }
}
