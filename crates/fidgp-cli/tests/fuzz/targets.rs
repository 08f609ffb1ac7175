//! The readers, each with inputs that it accepts.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use fidgp_data::{Mask, Picture, Sheet, arrays, idx, mat5, npy};
use flate2::write::GzEncoder;

use crate::{crates, files};

/// Reads bytes, with a folder to write them to.
type Read = dyn Fn(&Path, &[u8]) -> Result<(), String>;

/// One reader.
pub struct Target {
    pub name: &'static str,
    /// How many times as long one input takes as that of a fast reader.
    pub weight: u64,
    pub corpus: Vec<Vec<u8>>,
    /// Reads an input, with a folder to write it to.
    pub read: Box<Read>,
    /// Makes checksums right, so that an input is looked into.
    pub mend: fn(Vec<u8>) -> Vec<u8>,
}

pub fn all() -> Vec<Target> {
    let mut targets = of_formats();
    targets.extend(of_texts());
    targets.extend([of_model_folders(), of_results(), crate::onnx::of_graphs()]);
    targets.extend([crate::requests::of_requests(), crate::tensors::of_strides()]);
    targets.extend(crate::documents::of_decisions());
    targets.extend(crate::folders::of_folders());
    targets.extend([crate::wire::of_environment(), crate::wire::of_store(), of_overrides()]);
    targets
}

fn fixture(name: &str) -> Vec<u8> {
    let path = crates().join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn fixtures(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| fixture(name)).collect()
}

/// A reader of a file of this name.
pub fn of_file<T: 'static, E: std::fmt::Display + 'static>(
    name: &'static str,
    file: &'static str,
    corpus: Vec<Vec<u8>>,
    read: fn(&Path) -> Result<T, E>,
) -> Target {
    let read = move |place: &Path, input: &[u8]| {
        let path = place.join(file);
        fs::write(&path, input).expect("a file to write");
        read(&path).map(drop).map_err(|error| error.to_string())
    };
    Target { name, weight: 1, corpus, read: Box::new(read), mend: |input| input }
}

fn of_formats() -> Vec<Target> {
    let data = "fidgp-data/tests/fixtures/";
    let at = |names: &[&str]| names.iter().map(|name| fixture(&format!("{data}{name}"))).collect::<Vec<_>>();
    let idx_files = at(&["idx/t10k-images-idx3-ubyte", "idx/t10k-labels-idx1-ubyte"]);
    let masks = files(&crates().join(data).join("pictures/cat"));
    vec![
        of_file(
            "pickle",
            "w.pt",
            fixtures(&["fidgp-zoo/tests/fixtures/zip.pt", "fidgp-zoo/tests/fixtures/legacy.pth"]),
            fidgp_zoo::weights::read,
        ),
        of_file("safetensors", "w.safetensors", at(&["arrays.safetensors"]), fidgp_zoo::weights::read),
        of_file("arrays", "a.safetensors", at(&["arrays.safetensors", "arrays-stored/test.safetensors"]), arrays::read),
        of_file("mat", "m.mat", at(&["svhn/test_32x32.mat", "svhn/train_32x32.mat"]), mat5::read),
        of_file("npy", "n.npy", at(&["npy-images/images.npy", "npy-table/features.npy"]), npy::read),
        of_file("idx", "i-idx3-ubyte", idx_files.clone(), idx::read),
        Target {
            mend: gzipped,
            ..of_file("idx-gz", "i-idx3-ubyte.gz", idx_files.into_iter().map(gzipped).collect(), idx::read)
        },
        Target {
            mend: mended_png,
            ..of_file("picture", "p", files(&crates().join(data).join("pictures/cat")), Picture::open)
        },
        Target { mend: mended_png, ..of_file("mask", "m.png", masks.into_iter().chain([grey_png()]).collect(), mask) },
    ]
}

fn mask(path: &Path) -> fidgp_data::Result<Mask> {
    Mask::from_indices(path, &[Some(0); 256])
}

/// A mask of four pixels.
fn grey_png() -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let picture = image::GrayImage::from_raw(2, 2, vec![0, 1, 2, 3]).expect("four pixels");
    picture.write_to(&mut bytes, image::ImageFormat::Png).expect("a PNG");
    bytes.into_inner()
}

fn gzipped(input: Vec<u8>) -> Vec<u8> {
    if input.starts_with(&[0x1f, 0x8b]) {
        return input;
    }
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&input).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// A PNG whose chunks have their checksums.
fn mended_png(mut input: Vec<u8>) -> Vec<u8> {
    let mut at = 8;
    while input.starts_with(b"\x89PNG") && at + 12 <= input.len() {
        let length = u32::from_be_bytes([input[at], input[at + 1], input[at + 2], input[at + 3]]) as usize;
        let Some(end) = at.checked_add(8 + length).filter(|end| end + 4 <= input.len()) else { break };
        let mut sum = flate2::Crc::new();
        sum.update(&input[at + 4..end]);
        input[end..end + 4].copy_from_slice(&sum.sum().to_be_bytes());
        at = end + 4;
    }
    input
}

fn of_texts() -> Vec<Target> {
    let table = |rows: usize| (0..rows).map(|i| format!("{i},{}.5,-{i}e-3\n", i * 7)).collect::<String>();
    let csv = vec![format!("a,b,c\n{}", table(9)).into_bytes(), table(3).into_bytes(), b"1;2\n\"3\";4\n".to_vec()];
    let configs = files(&crates().join("../configs"));
    let read = |_: &Path, input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        fidgp_lab::config::parse(&text, &[]).map(drop).map_err(|error| error.to_string())
    };
    vec![
        of_file("csv", "t.csv", csv, |path| {
            let sheet = Sheet::open(path)?;
            sheet.numbers(&(0..sheet.names().len()).collect::<Vec<_>>())
        }),
        Target { name: "config", weight: 1, corpus: configs, read: Box::new(read), mend: |input| input },
    ]
}

/// What `--set` says, each on a line, on top of a config.
fn of_overrides() -> Target {
    let config = fixture("../configs/regression-left.toml");
    let config = String::from_utf8(config).expect("a text");
    let one = b"train.epochs=3\ntrain.optimiser.learning_rate=1e-3\n".to_vec();
    let other =
        b"likelihood.noise={kind=\"fixed\", sd=0.1}\nnetwork.hidden=[20, 20]\ninducing.layers=[\"fc*\"]\nname=a b\n"
            .to_vec();
    let read = move |_: &Path, input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let words = |error: fidgp_lab::LabError| error.to_string();
        let overrides = text.lines().map(str::parse).collect::<Result<Vec<_>, _>>().map_err(words)?;
        fidgp_lab::config::parse(&config, &overrides).map(drop).map_err(words)
    };
    Target { name: "overrides", weight: 1, corpus: vec![one, other], read: Box::new(read), mend: |input| input }
}

/// A run and a model folder, made small by the program itself.
fn made(home: &Path) -> (PathBuf, PathBuf) {
    let config = crates().join("../configs/regression-left.toml");
    let small = [
        "train.epochs=1",
        "train.kl={}",
        "network.hidden=[4]",
        "inducing.inducing_rows=2",
        "inducing.inducing_cols=2",
        "data.train=20",
        "data.test=20",
        "predict.draws=2",
    ];
    let fidgp = |words: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_fidgp")).args(words).current_dir(home).output();
        assert!(done.expect("the program starts").status.success(), "{words:?}");
    };
    let words = ["train", config.to_str().expect("a readable path"), "--device", "cpu", "--out", "run"];
    fidgp(&words.into_iter().chain(small.iter().flat_map(|change| ["--set", change])).collect::<Vec<_>>());
    fidgp(&["export", "run", "--out", "model"]);
    (home.join("run"), home.join("model"))
}

/// `config.json` of a model folder, beside parts that fit the unchanged one.
fn of_model_folders() -> Target {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (_, model) = made(home.path());
    let config = model.join("config.json");
    let corpus = vec![fs::read(&config).expect("a config")];
    let read = move |_: &Path, input: &[u8]| {
        let _home = &home;
        fs::write(&config, input).expect("a file to write");
        fidgp_lab::model_folder::open(&model, tch::Device::Cpu).map(drop).map_err(|error| error.to_string())
    };
    Target { name: "model", weight: 3, corpus, read: Box::new(read), mend: |input| input }
}

/// `results.json`, read and made a page of.
fn of_results() -> Target {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (run, _) = made(home.path());
    let results = run.join("results.json");
    let corpus = vec![fs::read(&results).expect("results")];
    let read = move |place: &Path, input: &[u8]| {
        let _home = &home;
        fs::write(&results, input).expect("a file to write");
        let run = fidgp_report::Run::read(&run).map_err(|error| error.to_string())?;
        fidgp_report::write_report(&[run], &place.join("page.html")).map(drop).map_err(|error| error.to_string())
    };
    Target { name: "report", weight: 3, corpus, read: Box::new(read), mend: |input| input }
}
