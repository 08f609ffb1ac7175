//! Reading ahead and rounding: what must not change, does not.

mod fixture;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fidgp::Key;
use fidgp_data::{ChannelStatistics, ImageFolder};
use fidgp_lab::model::{Model, Signature};
use fidgp_lab::model_folder::{Dtype, rounded};
use fidgp_lab::source::{Asked, Decoder, FolderSource, ImageSet, Job, Source, View};
use tch::{Device, Kind, Tensor};

use fixture::changed;

static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "a"
method = "fidgp"
data = { set = "folder", path = "pictures", resize = 12, crop = 8 }
network.width = 8
inducing = { inducing_rows = 64, inducing_cols = 64 }
train = { batch_size = 2, optimiser.learning_rate = 0.1 }
"#,
    )
});

fn pictures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fidgp-data/tests/fixtures/pictures")
}

fn model(change: &str) -> Model {
    let statistics = ChannelStatistics { mean: vec![0.5; 3], sd: vec![0.25; 3] };
    let signature = Signature::Classification { image: [3, 8, 8], classes: 2, statistics };
    Model::init(&fixture::config(&CONFIG, &[change]), &signature, Device::Cpu).unwrap()
}

fn source(model: &Model) -> FolderSource {
    let view = View { channels: 3, resize: 12, crop: 8 };
    let decoder = Decoder::new(ImageFolder::open(&pictures()).unwrap(), view).unwrap();
    FolderSource::new(decoder, model.normalisation.as_ref().unwrap(), Device::Cpu)
}

#[test]
fn announced_batches_are_those_that_were_not() {
    let model = model("seed=1");
    let (ahead, plain) = (source(&model), source(&model));
    let rows = [[3_i64, 0], [1, 2], [0, 1], [2, 3], [3, 1]].map(|rows| Tensor::from_slice(&rows));
    let key = |index: u64| Key::new(7).at(index);
    let asked = |(index, rows): (usize, &Tensor)| Asked { rows: rows.copy(), part: 0..2, key: key(index as u64) };
    ahead.announce(rows.iter().enumerate().map(asked).collect()).unwrap();
    for (index, rows) in rows.iter().enumerate().filter(|(index, _)| *index != 3) {
        let key = Some(key(index as u64)); // after a batch that was left out the hint is of no use, and does no harm
        let (a, b) = (ahead.batch(rows, key).unwrap(), plain.batch(rows, key).unwrap());
        assert_eq!(a, b, "batch {index}");
    }
    let other = plain.batch(&rows[0], Some(key(9))).unwrap();
    assert_ne!(other.0, plain.batch(&rows[0], Some(key(0))).unwrap().0, "crops follow from the key");
}

/// A process that has a part of a batch decodes that part alone, with the crops it has in the whole.
#[test]
fn a_part_is_that_of_the_whole() {
    let model = model("seed=1");
    let (ahead, plain) = (source(&model), source(&model));
    let (rows, key) = (Tensor::from_slice(&[3_i64, 0, 2, 1]), Key::new(7));
    let whole = plain.batch(&rows, Some(key)).unwrap();
    for part in [0..2, 1..4, 3..4] {
        let own = plain.part(&rows, Some(key), part.clone()).unwrap();
        let (first, count) = (part.start, part.end - part.start);
        assert_eq!(own, (whole.0.narrow(0, first, count), whole.1.narrow(0, first, count)), "{part:?}");
        ahead.announce(vec![Asked { rows: rows.copy(), part: part.clone(), key }]).unwrap();
        assert_eq!(ahead.part(&rows, Some(key), part.clone()).unwrap(), own, "{part:?} announced");
        assert_ne!(ahead.part(&rows, Some(Key::new(8)), part.clone()).unwrap().0, own.0, "{part:?}");
    }
}

#[test]
fn evaluation_sees_every_picture_once_in_order() {
    let model = model("seed=1");
    let chunks: Vec<_> = source(&model).chunks(3).collect::<Result<_, _>>().unwrap();
    let labels: Vec<i64> = chunks.iter().flat_map(|(_, labels)| Vec::<i64>::try_from(labels).unwrap()).collect();
    assert_eq!(labels, [0, 0, 1, 1]);
    assert_eq!(chunks.iter().map(|(batches, _)| batches[0].size()[0]).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn a_damaged_picture_is_named_by_the_loader() {
    let place = tempfile::tempdir().unwrap();
    let class = place.path().join("cat");
    std::fs::create_dir(&class).unwrap();
    std::fs::write(class.join("broken.png"), "no").unwrap();
    let view = View { channels: 3, resize: 12, crop: 8 };
    let decoder = Decoder::new(ImageFolder::open(place.path()).unwrap(), view).unwrap();
    let error = decoder.decode(Job { rows: vec![0], first: 0, key: None }).unwrap_err().to_string();
    assert!(error.contains("broken.png, byte ") && error.contains("cannot be decoded"), "{error}");
}

/// Measured: rounding changes a layer's mean weight by 0.1 % at random locations and by 0.04 % at orthogonal ones.
#[test]
fn most_of_a_model_bears_rounding() {
    for (change, bound) in [("inducing.init_z=normal", 0.003), ("inducing.init_z=orthogonal", 0.001)] {
        let model = model(change);
        let full = rounded(&model, Dtype::F32).unwrap();
        assert!(full.worst.is_none() && full.tensors.iter().all(|(_, tensor)| tensor.kind() == Kind::Float));
        let half = rounded(&model, Dtype::F16).unwrap();
        let (layer, worst) = half.worst.unwrap();
        assert!(worst <= bound, "{change}: {layer} changes by {worst}");
        assert!(half.kept.is_empty(), "{:?}", half.kept);
        assert!((half.bytes as f64) < 0.55 * full.bytes as f64);
        let vector = |name: &str| name.ends_with("_d_row") || name.ends_with("running_var");
        assert!(half.tensors.iter().filter(|(name, _)| vector(name)).all(|(_, tensor)| tensor.kind() == Kind::Float));
    }
}

/// Measured: bytes change a layer's mean weight by 2 %, bf16 by 0.4 %, at random locations.
#[test]
fn bytes_and_bf16_are_smaller_and_near() {
    for (dtype, kind, share, bound) in
        [(Dtype::Bf16, Kind::BFloat16, 0.55, 0.01), (Dtype::Int8, Kind::Int8, 0.32, 0.05)]
    {
        let model = model("inducing.init_z=orthogonal");
        let full = rounded(&model, Dtype::F32).unwrap().bytes as f64;
        let small = rounded(&model, dtype).unwrap();
        assert!(small.kept.is_empty(), "{:?}", small.kept);
        assert!(small.worst.as_ref().unwrap().1 <= bound, "{dtype:?}: {:?}", small.worst);
        assert!((small.bytes as f64) < share * full, "{dtype:?}: {} of {full}", small.bytes);
        assert!(small.tensors.iter().any(|(_, tensor)| tensor.kind() == kind));
    }
}

/// Locations that lie almost in one line: their differences are lost in f16, and `L⁻¹Z` would turn.
#[test]
fn locations_that_do_not_bear_rounding_stay() {
    let model = model("seed=1");
    let weight = &model.network.inducing()[4];
    let z = &weight.prior.z_row;
    let near = Key::new(3).normal(&z.size(), Kind::Float, Device::Cpu) * 0.003 + 1.0;
    tch::no_grad(|| z.shallow_clone().copy_(&near));
    let half = rounded(&model, Dtype::F16).unwrap();
    assert!(half.kept.contains(&format!("{}.z_row", weight.name)), "{:?}", half.kept);
    assert!(half.worst.unwrap().1 <= 0.01);
}

/// A value beyond 65,504 would become infinite.
#[test]
fn a_matrix_that_f16_cannot_hold_stays() {
    let model = model("seed=1");
    let mean = &model.network.inducing()[0].posterior.mean;
    _ = tch::no_grad(|| mean.shallow_clone().get(0).get(0).fill_(1e6));
    let name = format!("{}.inducing_mean", model.network.inducing()[0].name);
    assert_eq!(rounded(&model, Dtype::F16).unwrap().kept.first(), Some(&name));
}
