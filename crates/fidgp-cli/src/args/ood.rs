//! What can be typed after `fidgp ood`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use super::{Place, at_least_1};

/// Compare out-of-distribution scores of a model.
///
/// Every set is scored with the same model, draw, normalisation and resize. Controls run first: the same images twice, shuffled
/// and re-batched, two halves of the in-distribution (ID) set. If one fails there is no table and the exit code is 1.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp ood runs/cifar100-fidgp-all --ood cifar10,svhn,mnist,fashion-mnist --choose-on notmnist,mixed,heldout\n  \
    fidgp ood MODEL --id cifar100 --ood cifar10,photos/ --near cifar10 --limit 2000 --draws 0 --device cpu\n  \
    fidgp ood --logits L.safetensors --features F.safetensors --ood svhn"
)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct Ood {
    /// A run folder, or a model folder made by `fidgp export`
    #[arg(required_unless_present = "logits")]
    pub model: Option<PathBuf>,
    /// Score arrays instead of a model: a .safetensors file with the logits of each set under its name, and `fit` for ID training rows
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "draw", "draws", "limit", "fit", "forward_only", "device", "data"])]
    pub logits: Option<PathBuf>,
    /// Penultimate features under the same names, with head.weight and head.bias for the scores that need them
    #[arg(long, value_name = "FILE", requires = "logits")]
    pub features: Option<PathBuf>,
    /// The ID set: a known one, a folder with train/ and val/, or one of arrays [default: the one the model was trained on; `id` with --logits]
    #[arg(long)]
    pub id: Option<String>,
    /// The OoD sets: known ones, folders of pictures or of arrays, with commas between
    #[arg(long = "ood", value_name = "SET", value_delimiter = ',', required = true)]
    pub sets: Vec<String>,
    /// OoD sets that count as near; CIFAR-10 and CIFAR-100 always count as near each other
    #[arg(long, value_name = "SET", value_delimiter = ',')]
    pub near: Vec<String>,
    /// Choose layers, rank and combination on these sets, none of which may be in --ood; also `noise` (Gaussian pixels),
    /// `mixed` (means of two ID training images) and `heldout` (ID images whose classes are taken out)
    #[arg(long, value_delimiter = ',', value_name = "SET")]
    pub choose_on: Vec<String>,
    /// Score with this draw of U and not with its posterior mean
    #[arg(long, value_name = "NUMBER")]
    pub draw: Option<u64>,
    /// Draws K (weights, masks, processes) of the mutual information; 0 leaves it out [default: as in the model's config]
    #[arg(long)]
    pub draws: Option<u64>,
    /// Skip the scores that need gradients; takes a third of the time
    #[arg(long)]
    pub forward_only: bool,
    /// Use at most this many images of each set, chosen by the seed
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>)]
    pub limit: Option<NonZero<usize>>,
    /// Number of ID training images to fit statistics on [default: 10000, or --limit if that is less]
    #[arg(long, value_parser = at_least_1::<NonZero<usize>>)]
    pub fit: Option<NonZero<usize>>,
    /// Images in a batch
    #[arg(long, value_parser = at_least_1::<NonZero<u32>>, default_value = "100")]
    pub batch: NonZero<u32>,
    /// Seed of subsets and bootstrap
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Also run the procedure of the paper's script (a new U and a normalisation for each set) and its null control
    #[arg(long, conflicts_with = "logits")]
    pub paper_protocol: bool,
    /// Print the measured terms of the paper's lemma for each layer; the report and ood.json always have them
    #[arg(long, conflicts_with = "logits")]
    pub spectral: bool,
    /// Fit the statistics again and do not store them
    #[arg(long, conflicts_with = "logits")]
    pub fresh: bool,
    /// Write the table even if a control fails, with a warning in it
    #[arg(long)]
    pub unsafe_skip_controls: bool,
    /// Where to write report, ood.json, ood.csv and scores/ [default: ood/ in the model's folder, or here]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// The whole document as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}
