use crate::words::format::{minus, power_of_ten, scientific, short};

/// Numbers beyond this are treated like infinity: their differences would overflow.
const HUGE: f64 = 1e300;

/// Whether a number can be drawn.
pub fn drawable(value: f64) -> bool {
    value.abs() < HUGE
}

/// A range of data that is never empty: `lo < hi`, both finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// Smallest value.
    pub lo: f64,
    /// Largest value.
    pub hi: f64,
}

/// Numbers nearer to each other are drawn as one: a density over less would be too large for a picture.
const NARROWEST: f64 = 1e-250;

impl Extent {
    /// The range of the finite values; `None` where there are none. A single value gets room around it.
    ///
    /// ```
    /// use fidgp_report::charts::Extent;
    ///
    /// assert_eq!(Extent::of([3.0, f64::NAN, 1.0]), Some(Extent { lo: 1.0, hi: 3.0 }));
    /// assert_eq!(Extent::of([0.0]), Some(Extent { lo: -1.0, hi: 1.0 }));
    /// assert_eq!(Extent::of([f64::NAN]), None);
    /// ```
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let finite = values.into_iter().filter(|&value| drawable(value));
        let (lo, hi) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
        (lo <= hi).then(|| Self::between(lo, hi))
    }

    /// The range between two numbers, widened where they (almost) coincide.
    pub fn between(lo: f64, hi: f64) -> Self {
        let (lo, hi) = (lo.min(hi), lo.max(hi));
        let size = lo.abs().max(hi.abs());
        if hi - lo > 1e-9 * size && hi - lo > NARROWEST {
            return Self { lo, hi };
        }
        let room = if size > 1e-200 { 0.1 * size } else { 1.0 };
        Self { lo: lo - room, hi: hi + room }
    }

    /// The range with a fraction of its width added on either side.
    #[must_use]
    pub fn padded(self, fraction: f64) -> Self {
        let room = fraction * (self.hi - self.lo);
        Self { lo: self.lo - room, hi: self.hi + room }
    }
}

/// How data is laid along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Equal steps, equal lengths.
    #[default]
    Linear,
    /// Equal ratios, equal lengths; positive numbers only.
    Log,
}

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Where.
    pub value: f64,
    /// What it says.
    pub label: String,
}

/// Data to pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    kind: Kind,
    extent: Extent,
    pixels: (f64, f64),
}

impl Scale {
    /// Maps `extent` to the stretch `pixels` (which may run backwards, as y does). A log scale over numbers that are
    /// not positive falls back to a linear one.
    pub fn new(kind: Kind, extent: Extent, pixels: (f64, f64)) -> Self {
        let kind = if extent.lo > 0.0 { kind } else { Kind::Linear };
        Self { kind, extent, pixels }
    }

    /// The pixel of a value; `None` where the value has no place on this axis.
    pub fn at(&self, value: f64) -> Option<f64> {
        let place = match self.kind {
            Kind::Linear => (value - self.extent.lo) / (self.extent.hi - self.extent.lo),
            Kind::Log => (value.ln() - self.extent.lo.ln()) / (self.extent.hi.ln() - self.extent.lo.ln()),
        };
        let pixel = self.pixels.0 + place * (self.pixels.1 - self.pixels.0);
        (drawable(value) && pixel.is_finite()).then(|| pixel.clamp(-1e5, 1e5))
    }

    /// About `count` round values inside the range.
    pub fn ticks(&self, count: usize) -> Vec<Tick> {
        match self.kind {
            Kind::Linear => linear_ticks(self.extent, count.max(2)),
            Kind::Log => log_ticks(self.extent, count.max(2)),
        }
    }
}

/// The 1-2-5 step nearest above `width / count`.
fn round_step(width: f64, count: usize) -> f64 {
    let raw = width / count as f64;
    let power = 10_f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|&step| step >= raw * 0.999).unwrap_or(10.0 * power)
}

fn linear_ticks(extent: Extent, count: usize) -> Vec<Tick> {
    let step = round_step(extent.hi - extent.lo, count);
    let (first, last) = ((extent.lo / step - 1e-9).ceil(), (extent.hi / step + 1e-9).floor());
    let number = if (last - first).is_finite() { (last - first).clamp(-1.0, 50.0) as i64 } else { -1 };
    let values = (0..=number).map(|i| (first + i as f64) * step);
    values.filter(|value| value.is_finite()).map(|value| Tick { value, label: label(value, step) }).collect()
}

/// Digits enough to tell neighbours apart; suffixes and powers of ten where they say the same in less room.
fn label(value: f64, step: f64) -> String {
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0);
    let steps = (value / step).abs();
    if steps < 0.5 {
        "0".to_owned()
    } else if step >= 1e3 && steps <= 100.0 && value.abs() < 1e15 {
        short(value)
    } else if decimals <= 4.0 && value.abs() < 1e9 {
        minus(&format!("{value:.*}", decimals as usize))
    } else {
        scientific(value, (steps.log10() + 1.0).ceil().clamp(1.0, 16.0) as usize)
    }
}

fn log_ticks(extent: Extent, count: usize) -> Vec<Tick> {
    let (first, last) = (extent.lo.log10().floor() as i32, extent.hi.log10().ceil() as i32);
    let stride = ((last - first) as usize).div_ceil(count.max(2)).max(1);
    let digits: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (first..=last).step_by(stride).map(|power| 10_f64.powi(power));
    let values = powers.flat_map(|power| digits.iter().map(move |digit| digit * power));
    let inside = values.filter(|&v| v >= extent.lo * 0.999_999 && v <= extent.hi * 1.000_001);
    inside.map(|value| Tick { value, label: if value < 1e-3 { power_of_ten(value) } else { short(value) } }).collect()
}
