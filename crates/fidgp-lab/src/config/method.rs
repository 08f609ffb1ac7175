//! The methods there are, and what each says about the other sections.

use serde::{Deserialize, Serialize};

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Plain weights.
    Deterministic,
    /// Plain weights, inputs of layers dropped in training and at test.
    McDropout,
    /// A Gaussian of its own for every weight.
    MeanField,
    /// Mean field with local reparameterisation and a sharpness-aware step.
    FSgvbLrt,
    /// Members that share a weight and differ by rank-one factors.
    BatchEnsemble,
    /// Members that share nothing.
    Ensemble,
    /// Plain weights of bounded norm, and a Gaussian process in random features as the last layer.
    Sngp,
    /// Plain weights of bounded norm, and a density of the features.
    Ddu,
    /// Plain weights, and sparse variational Gaussian processes as the last layer.
    Svgp,
    /// The same with weights of bounded norm.
    Due,
    /// Plain weights, and a Laplace posterior of the last layer.
    Laplace,
    /// Inducing weights with a diagonal Gaussian posterior.
    Ffgu,
    /// Inducing weights with a flow posterior (or another family named in `inducing.posterior`).
    Fidgp,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 13] = [
        Self::Deterministic,
        Self::McDropout,
        Self::MeanField,
        Self::FSgvbLrt,
        Self::BatchEnsemble,
        Self::Ensemble,
        Self::Sngp,
        Self::Ddu,
        Self::Svgp,
        Self::Due,
        Self::Laplace,
        Self::Ffgu,
        Self::Fidgp,
    ];

    /// As it stands in configs and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::McDropout => "mc-dropout",
            Self::MeanField => "mean-field",
            Self::FSgvbLrt => "f-sgvb-lrt",
            Self::BatchEnsemble => "batch-ensemble",
            Self::Ensemble => "ensemble",
            Self::Sngp => "sngp",
            Self::Ddu => "ddu",
            Self::Svgp => "svgp",
            Self::Due => "due",
            Self::Laplace => "laplace",
            Self::Ffgu => "ffgu",
            Self::Fidgp => "fidgp",
        }
    }

    /// The method of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// In words, as the beginning of a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Deterministic => "A network with plain weights",
            Self::McDropout => "A network with dropout at test (MC dropout)",
            Self::MeanField => "A Bayesian network with a Gaussian for every weight (mean field)",
            Self::FSgvbLrt => "A mean-field Bayesian network trained with sharpness-aware steps (F-SGVB-LRT)",
            Self::BatchEnsemble => "An ensemble of networks that share a weight (BatchEnsemble)",
            Self::Ensemble => "A deep ensemble",
            Self::Sngp => "A network of bounded layers with a Gaussian process in random features on top (SNGP)",
            Self::Ddu => "A network of bounded layers with a Gaussian of the features of each class (DDU)",
            Self::Svgp => "A network with sparse variational Gaussian processes on top (SVGP)",
            Self::Due => "A network of bounded layers with sparse variational Gaussian processes on top (DUE)",
            Self::Laplace => "A network with a Laplace posterior of its last layer",
            Self::Ffgu => "A Bayesian network with inducing weights and a diagonal posterior (FFG-U)",
            Self::Fidgp => "A Bayesian network with inducing weights (FiD-GP)",
        }
    }

    /// Whether it has the section `[inducing]`.
    pub fn is_inducing(self) -> bool {
        matches!(self, Self::Ffgu | Self::Fidgp)
    }

    /// `kind` of its section `[baseline]`, if it has one.
    pub fn baseline(self) -> Option<&'static str> {
        match self {
            Self::McDropout => Some("dropout"),
            Self::MeanField | Self::FSgvbLrt => Some("mean-field"),
            Self::BatchEnsemble => Some("batch-ensemble"),
            Self::Ensemble => Some("ensemble"),
            Self::Sngp => Some("sngp"),
            Self::Svgp | Self::Due => Some("svgp"),
            Self::Laplace => Some("laplace"),
            Self::Deterministic | Self::Ddu | Self::Ffgu | Self::Fidgp => None,
        }
    }

    /// Whether it is for regressions too.
    pub fn predicts_numbers(self) -> bool {
        !matches!(self, Self::Sngp | Self::Ddu)
    }

    /// Whether one trained network is a start for it.
    pub(super) fn starts_from_weights(self) -> bool {
        self != Self::Ensemble
    }

    /// Whether the plain layers keep their own weights, so that their norm can be bounded.
    pub(super) fn has_plain_layers(self) -> bool {
        matches!(self, Self::Deterministic | Self::Ensemble | Self::Sngp | Self::Ddu | Self::Due | Self::Laplace)
    }
}
