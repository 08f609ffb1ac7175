use serde::Serialize;

/// Which layers of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layers {
    /// All of them.
    All,
    /// The first half.
    FirstHalf,
    /// The second half.
    SecondHalf,
    /// The last quarter.
    LastQuarter,
}

/// How layers become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// The mean of the standardised scores.
    Mean,
    /// `ln(zᵀ C⁻¹ z)` with their correlation C on ID training images.
    Whitened,
}

/// What the end of the network says, z_e.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// The standardised energy.
    Energy,
    /// The mean of standardised energy and standardised distance to the k-th neighbour.
    EnergyNeighbours,
}

impl Base {
    /// Its columns.
    /// The scores it is the mean of.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Energy => &["energy"],
            Self::EnergyNeighbours => &["energy", "knn"],
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Energy => "energy",
            Self::EnergyNeighbours => "energy and knn",
        }
    }
}

/// How the pooled score z_r meets the base z_e, both standardised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Join {
    /// z_r.
    Alone,
    /// `z_e + w z_r`.
    Sum(f64),
    /// `z_e + max(0, z_r − Q)`, Q this quantile of z_r.
    Hinge(f64),
}

/// One way to make a score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recipe {
    /// `variance`, `residual`, `subspace-4`, …
    pub family: String,
    /// Which layers.
    pub layers: Layers,
    /// How they become one number.
    pub pool: Pool,
    /// How that meets the base.
    pub join: Join,
    /// The base.
    pub base: Base,
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let layers = match self.layers {
            Layers::All => "all layers",
            Layers::FirstHalf => "first half of the layers",
            Layers::SecondHalf => "second half of the layers",
            Layers::LastQuarter => "last quarter of the layers",
        };
        let pool = if self.pool == Pool::Mean { "mean" } else { "whitened" };
        write!(f, "{}, {layers}, {pool}", self.family)?;
        match self.join {
            Join::Alone => write!(f, ", alone"),
            Join::Sum(weight) => write!(f, ", {} + {weight} of it", self.base.says()),
            Join::Hinge(quantile) => write!(f, ", {} + what exceeds the {quantile} quantile", self.base.says()),
        }
    }
}
