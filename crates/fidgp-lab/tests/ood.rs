//! Controls of the out-of-distribution benchmark: they hold for an honest protocol and fail for broken ones.

use std::cell::Cell;

use fidgp::Key;
use fidgp_data::split;
use fidgp_lab::Result;
use fidgp_lab::ood::controls::{halves, scored_again};
use fidgp_lab::ood::sets::{PixelSet, duplicates, mixed, noise, pixel_moments};
use fidgp_lab::ood::statistics::{Basis, StatisticsCache, weights_sha256};
use fidgp_lab::ood::{Columns, ModelObserver, Observe, Statistics, WeightChoice};
use fidgp_lab::predict::Trained;
use fidgp_lab::record::ood::Control;
use fidgp_metrics::OodScores;
use tch::{Device, Kind, Tensor};

const BATCH: usize = 50;

/// 600 rows of 6 standard normal numbers.
fn inputs() -> Tensor {
    Key::new(11).normal(&[600, 6], Kind::Double, Device::Cpu) + 1.0
}

/// Scores batch by batch with any function of a batch.
fn by_batch(inputs: &Tensor, batch: usize, of: impl Fn(&Tensor) -> Tensor) -> Columns {
    let parts: Vec<Tensor> = inputs.split(batch as i64, 0).iter().map(of).collect();
    Columns::from([("score".to_owned(), Vec::try_from(Tensor::cat(&parts, 0)).unwrap())])
}

fn energy(x: &Tensor) -> Tensor {
    x.square().sum_dim_intlist(-1, false, Kind::Double)
}

/// The controls that score again: the same twice, a part, shuffled and re-batched.
fn controls(score: &dyn Fn(&Tensor, usize) -> Result<Columns>) -> [Control; 3] {
    let first = score(&inputs(), BATCH).unwrap();
    scored_again(score, &inputs(), &first, BATCH).unwrap().try_into().unwrap()
}

#[test]
fn an_honest_score_passes() {
    let [twice, part, moved] = controls(&|x, batch| Ok(by_batch(x, batch, energy)));
    assert!(twice.passed && part.passed && moved.passed && twice.measured.total_cmp(&0.0).is_eq(), "{twice} {moved}");
    let half = halves(&by_batch(&inputs(), BATCH, energy));
    assert!(half.passed && half.images == 600, "{half}");
}

/// As BatchNorm does in training mode: the batch's own mean is taken away.
#[test]
fn a_score_that_depends_on_its_batch_is_found() {
    let centred = |x: &Tensor| energy(&(x - x.mean_dim(0, true, Kind::Double)));
    let [twice, part, moved] = controls(&|x, batch| Ok(by_batch(x, batch, centred)));
    assert!(twice.passed && part.passed, "{twice} {part}");
    assert!(!moved.passed && moved.measured > 1e-3, "{moved}");
    assert!(moved.to_string().contains("BatchNorm in training mode"), "{moved}");
    assert!(moved.to_string().contains("FAILED") && moved.to_string().contains("score"), "{moved}");
}

#[test]
fn a_score_that_depends_on_the_order_is_found() {
    let placed = |x: &Tensor| energy(x) + Tensor::arange(x.size()[0], (Kind::Double, Device::Cpu));
    let [_, _, moved] = controls(&|x, batch| Ok(by_batch(x, batch, placed)));
    assert!(!moved.passed, "{moved}");
}

/// Each set normalised with its own mean: the same images as another set get other scores.
#[test]
fn a_normalisation_for_each_set_is_found() {
    let own = |x: &Tensor, batch: usize| Ok(by_batch(&(x - x.mean_dim(0, true, Kind::Double)), batch, energy));
    let [_, part, _] = controls(&own);
    assert!(!part.passed && part.to_string().contains("a normalisation for each set"), "{part}");
}

/// As the released script: another U for each set that is scored.
#[test]
fn a_new_u_for_each_set_is_found() {
    let calls = Cell::new(0);
    let [twice, _, moved] = controls(&|x, batch| {
        calls.set(calls.get() + 1);
        let u = Key::new(calls.get()).normal(&[6, 2], Kind::Double, Device::Cpu);
        Ok(by_batch(x, batch, |x| energy(&x.matmul(&u))))
    });
    assert!(!twice.passed && twice.measured > 0.0, "{twice}");
    assert!(twice.to_string().contains("use one U for all sets") && !moved.passed, "{twice} {moved}");
}

/// A set of two populations, cut where the fixed split cuts.
#[test]
fn halves_that_differ_are_found() {
    let mut scores = vec![0.0; 400];
    for (place, row) in split::epoch_order(400, 2, 0).into_iter().enumerate() {
        scores[row] = f64::from(u8::from(place < 200)) + row as f64 * 1e-3;
    }
    let half = halves(&Columns::from([("score".to_owned(), scores)]));
    assert!(!half.passed && half.measured > 4.0, "{half}");
}

/// Rows with shuffled labels are one population: AUROC is 1/2 within 4 standard errors, for every seed.
#[test]
fn shuffled_labels_give_one_half() {
    let scores = Vec::<f64>::try_from(energy(&inputs())).unwrap();
    for seed in 10..20 {
        let order = split::epoch_order(600, seed, 0);
        let pick = |rows: &[usize]| rows.iter().map(|&row| scores[row]).collect::<Vec<_>>();
        let pair = OodScores::new(&pick(&order[..250]), &pick(&order[250..])).unwrap();
        assert!((pair.auroc() - 0.5).abs() <= 4.0 * pair.auroc_null_error(), "{seed}: {}", pair.auroc());
    }
}

/// Ties, against a count of all pairs.
#[test]
fn auroc_with_ties_is_the_count_of_pairs() {
    let of = |rows: i32, step: i32| (0..rows).map(|i| f64::from((i * step) % 7)).collect::<Vec<_>>();
    let (id, ood) = (of(60, 3), of(40, 5).into_iter().map(|v| v + 1.0).collect::<Vec<_>>());
    let mut wins = 0.0;
    for a in &id {
        wins += ood
            .iter()
            .map(|b| {
                if b > a {
                    1.0
                } else if b < a {
                    0.0
                } else {
                    0.5
                }
            })
            .sum::<f64>();
    }
    let found = OodScores::new(&id, &ood).unwrap().auroc();
    assert!((found - wins / 2400.0).abs() < 1e-12, "{found}");
}

fn pixels(seed: u64) -> PixelSet {
    let pixels = (Key::new(seed).uniform(&[20, 3, 4, 4], Kind::Float, Device::Cpu) * 255.0).to_kind(Kind::Uint8);
    PixelSet { name: "made".into(), pixels, labels: (0..20).map(|i| i % 2).collect(), native: "4×4 colour".into() }
}

#[test]
fn duplicates_are_counted_and_made_sets_follow_from_their_seed() {
    let (a, b) = (pixels(1), pixels(2));
    assert_eq!(duplicates(&a.pixels, &b.pixels).unwrap(), 0);
    let both = Tensor::cat(&[&b.pixels, &a.pixels.narrow(0, 3, 2)], 0);
    assert_eq!(duplicates(&a.pixels, &both).unwrap(), 2);
    let equal = |a: &PixelSet, b: &PixelSet| a.pixels == b.pixels;
    assert!(equal(&noise(&a.pixels, 5, 7), &noise(&a.pixels, 5, 7)));
    assert!(!equal(&noise(&a.pixels, 5, 7), &noise(&a.pixels, 5, 8)));
    let blend = mixed(&a, 5, 7);
    assert!(equal(&blend, &mixed(&a, 5, 7)) && blend.pixels.size()[0] <= 5 && blend.pixels.size()[0] > 0);
    let (means, sds) = pixel_moments(&(a.pixels.zeros_like() + 255)).unwrap();
    assert!(means.iter().all(|m| (m - 1.0).abs() < 1e-12) && sds.iter().all(|s| *s < 1e-12));
}

/// What is written is read back to the last bit; another weight, another setting or a broken file reads as nothing.
#[test]
fn statistics_are_kept_while_the_weights_stay() {
    let store = tch::nn::VarStore::new(Device::Cpu);
    let mut weight = store.root().var("weight", &[3], tch::nn::Init::Const(0.5));
    let basis = |seed, temperature| Basis {
        id: "made",
        images: "5".to_owned(),
        seed,
        batch: 2,
        u: "mean".into(),
        gradients: true,
        temperature,
        posterior_sha256: None,
    };
    let weights = || weights_sha256(&store).unwrap();
    let fitted = Basis { posterior_sha256: Some("other".to_owned()), ..basis(1, None) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ood-statistics.safetensors");
    let f32s = |shape: &[i64]| Key::new(3).normal(shape, Kind::Float, Device::Cpu).to_kind(Kind::Double);
    let moments = (0..12).map(|i| (format!("layer{i}"), f32s(&[2, 2]) + f64::from(i))).collect();
    let columns =
        Columns::from([("energy".to_owned(), vec![0.1, 0.2]), ("variance/a".to_owned(), vec![1.0 / 3.0, 2.0])]);
    let kept = Statistics { labels: vec![0, 1], features: Some(f32s(&[2, 4])), moments, leading: Vec::new(), columns };
    let cache = |basis: &Basis| StatisticsCache::new(path.clone(), &weights(), basis);
    let first = cache(&basis(1, None));
    assert!(first.keep(&kept).unwrap());
    let read = first.read().unwrap();
    assert_eq!((&read.labels, &read.features, &read.columns), (&kept.labels, &kept.features, &kept.columns));
    assert_eq!(read.moments, kept.moments); // in the order of the network
    assert!(cache(&basis(2, None)).read().is_none() && cache(&basis(1, Some(1.5))).read().is_none());

    let few = Columns::from([("energy".to_owned(), vec![0.3])]);
    assert!(!cache(&basis(2, None)).keep(&Statistics { columns: few, ..Statistics::default() }).unwrap());
    assert_eq!(first.read().unwrap().columns, kept.columns, "fuller statistics stay");
    let of = |count: usize| {
        let columns = Columns::from([("energy".to_owned(), vec![0.3; count])]);
        Statistics { columns, ..Statistics::default() }
    };
    let drawn = Basis { u: "draw 1".into(), ..basis(1, None) };
    for other in [Basis { id: "other", ..basis(1, None) }, drawn, basis(1, Some(1.5))] {
        assert!(!cache(&other).keep(&of(1)).unwrap() && !cache(&other).keep(&of(2)).unwrap(), "of the same weights");
    }
    assert_eq!(first.read().unwrap().columns, kept.columns);
    let tempered = cache(&basis(1, Some(1.5)));
    assert!(tempered.keep(&of(3)).unwrap() && tempered.read().is_some(), "more images");
    std::fs::remove_file(&path).unwrap();
    assert!(first.keep(&kept).unwrap());
    let forward = Basis { gradients: false, ..basis(1, None) };
    assert_eq!(cache(&forward).read().unwrap().columns, kept.columns, "a closer look serves a smaller request");
    assert!(cache(&fitted).read().is_none(), "of another posterior");

    let _ = tch::no_grad(|| weight.fill_(0.6));
    assert!(cache(&basis(1, None)).read().is_none());
    let others = cache(&basis(1, None));
    assert!(others.keep(&of(1)).unwrap() && others.read().is_some(), "those of earlier weights are of no use");
    std::fs::write(&path, b"broken").unwrap();
    assert!(first.read().is_none());
}

/// On a GPU the kernels depend on the size of a batch; blocks of one size must show the same of every image.
#[test]
fn blocks_filled_up_show_what_the_images_alone_do() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/cifar100-resnet18-fidgp");
    let predictor = Trained::open(&folder, Device::Cpu).unwrap();
    let pixels = Key::new(5).uniform(&[5, 3, 32, 32], Kind::Float, Device::Cpu) * 255.0;
    let observer = || ModelObserver::new(&predictor, WeightChoice::Mean, 0, true).unwrap();
    let (alone, blocks) = (observer().observe(&pixels).unwrap(), observer().in_blocks(3).observe(&pixels).unwrap());
    let same = |a: &Tensor, b: &Tensor| {
        assert_eq!(a.size(), b.size());
        let gap = (a - b).abs().max().double_value(&[]) / a.abs().max().double_value(&[]);
        assert!(gap < 1e-4, "{gap}");
    };
    same(&alone.logits, &blocks.logits);
    same(alone.features.as_ref().unwrap(), blocks.features.as_ref().unwrap());
    same(alone.perturbed.as_ref().unwrap(), blocks.perturbed.as_ref().unwrap());
    for (one, other) in [
        (&alone.pooled, &blocks.pooled),
        (&alone.unexplained, &blocks.unexplained),
        (&alone.rows, &blocks.rows),
        (&alone.products, &blocks.products),
    ] {
        assert!(!one.is_empty() && one.len() == other.len());
        one.iter().zip(other).for_each(|(a, b)| same(&a.1, &b.1));
    }
}
