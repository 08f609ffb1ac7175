//! Which rectangle of a picture becomes a training image.

/// How many times a random rectangle is tried before the middle is taken.
const TRIES: usize = 10;
/// The range of a random rectangle's share of the area.
const AREA: (f64, f64) = (0.08, 1.0);
/// The range of a random rectangle's width over height.
const ASPECT: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);

/// A rectangle of pixels inside a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CropBox {
    /// The first column.
    pub left: u32,
    /// The first row.
    pub top: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl CropBox {
    /// The middle `width × height` of a picture; cut down to the picture where that is smaller.
    pub fn centre(picture: [u32; 2], width: u32, height: u32) -> Self {
        let (width, height) = (width.min(picture[0]), height.min(picture[1]));
        let middle = |whole: u32, part: u32| (f64::from(whole - part) / 2.0).round_ties_even() as u32;
        Self { left: middle(picture[0], width), top: middle(picture[1], height), width, height }
    }

    /// The rectangle with `area` of the picture's area, width over height `aspect`, at `place` in `[0, 1)²` of the
    /// room that is left; nothing where it does not fit. `picture` is `[width, height]`.
    pub fn of_area(picture: [u32; 2], area: f64, aspect: f64, place: [f64; 2]) -> Option<Self> {
        let pixels = f64::from(picture[0]) * f64::from(picture[1]) * area;
        let (width, height) = ((pixels * aspect).sqrt().round(), (pixels / aspect).sqrt().round());
        let fits = |side: f64, whole: u32| side >= 1.0 && side <= f64::from(whole);
        if !fits(width, picture[0]) || !fits(height, picture[1]) {
            return None;
        }
        let (width, height) = (width as u32, height as u32);
        let start = |whole, part, place: f64| (f64::from(whole - part + 1) * place.clamp(0.0, 1.0)) as u32;
        let left = start(picture[0], width, place[0]).min(picture[0] - width);
        let top = start(picture[1], height, place[1]).min(picture[1] - height);
        Some(Self { left, top, width, height })
    }

    /// A random rectangle, as ImageNet training uses: 8 % to all of the area, 3:4 to 4:3, log-uniform.
    ///
    /// `unit` hands out numbers in `[0, 1)`, four for every try; after ten tries the middle is taken.
    pub fn random(picture: [u32; 2], mut unit: impl FnMut() -> f64) -> Self {
        let between = |(from, to): (f64, f64), u: f64| from + (to - from) * u;
        let logs = (ASPECT.0.ln(), ASPECT.1.ln());
        for _ in 0..TRIES {
            let (area, aspect) = (between(AREA, unit()), between(logs, unit()).exp());
            if let Some(found) = Self::of_area(picture, area, aspect, [unit(), unit()]) {
                return found;
            }
        }
        Self::widest(picture)
    }

    /// The largest middle rectangle with an allowed aspect.
    fn widest([width, height]: [u32; 2]) -> Self {
        let aspect = (f64::from(width) / f64::from(height)).clamp(ASPECT.0, ASPECT.1);
        let across = (f64::from(height) * aspect).round().max(1.0) as u32;
        let down = (f64::from(width) / aspect).round().max(1.0) as u32;
        Self::centre([width, height], across, down)
    }
}
