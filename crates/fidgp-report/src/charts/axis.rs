use super::scale::{Extent, Kind, drawable};

/// One axis: what it shows and how.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// Name and unit.
    pub label: String,
    /// Linear or logarithmic.
    pub kind: Kind,
    /// Fixed range; `None` for the range of the data.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis over the range of the data.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// The same, logarithmic.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.kind = Kind::Log;
        self
    }

    /// The same over a fixed range.
    #[must_use]
    pub fn range(mut self, lo: f64, hi: f64) -> Self {
        self.range = Some((lo, hi));
        self
    }

    pub(crate) fn extent(&self, values: impl Iterator<Item = f64>, room: f64) -> Extent {
        let fixed = self.range.filter(|(lo, hi)| drawable(*lo) && drawable(*hi));
        let allowed = values.filter(|&value| self.kind == Kind::Linear || value > 0.0);
        match (fixed, self.kind) {
            (Some((lo, hi)), _) => Extent::between(lo, hi),
            (None, Kind::Linear) => Extent::of(allowed).unwrap_or(Extent { lo: 0.0, hi: 1.0 }).padded(room),
            (None, Kind::Log) => Extent::of(allowed).map_or(Extent { lo: 0.1, hi: 10.0 }, roomy_log),
        }
    }
}

/// Room around the data on a logarithmic axis; a single value gets a factor of about three either way.
fn roomy_log(extent: Extent) -> Extent {
    let lo = if extent.lo > 0.0 { extent.lo } else { extent.hi / 10.0 };
    let factor = (extent.hi / lo).powf(0.05).clamp(1.05, 10.0);
    Extent::between(lo / factor, extent.hi * factor)
}
