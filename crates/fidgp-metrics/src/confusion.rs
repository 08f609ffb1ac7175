use crate::{
    check,
    error::{MetricError, Result},
};

/// How often each true class was given each predicted class: all a segmentation's overlap scores follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    counts: Vec<u64>,
    classes: usize,
}

impl Confusion {
    /// Checks a row-major table of counts.
    ///
    /// # Shapes
    /// `counts [classes, classes]`, rows true, columns predicted. Pixels without a class are not in it.
    ///
    /// # Errors
    /// When there is no class, or the table is not square.
    ///
    /// ```
    /// use fidgp_metrics::Confusion;
    ///
    /// // 3 + 1 pixels of class 0, 2 of class 1, none of class 2, which nobody predicts either
    /// let confusion = Confusion::new(&[3, 1, 0, 0, 2, 0, 0, 0, 0], 3)?;
    /// assert_eq!(confusion.iou(0), Some(0.75));
    /// assert_eq!(confusion.iou(1), Some(2.0 / 3.0));
    /// assert_eq!(confusion.iou(2), None);
    /// assert_eq!(confusion.mean_iou(), Some((0.75 + 2.0 / 3.0) / 2.0));
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(counts: &[u64], classes: usize) -> Result<Self> {
        check::at_least_one("classes", classes)?;
        let expected = classes.checked_mul(classes).ok_or(MetricError::Zero { what: "classes" })?;
        check::length("counts", counts, expected)?;
        Ok(Self { counts: counts.to_vec(), classes })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Pixels in the table.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn hits(&self, class: usize) -> u64 {
        self.counts[class * self.classes + class]
    }

    /// Pixels of a class.
    pub fn pixels(&self, class: usize) -> u64 {
        self.counts[class * self.classes..(class + 1) * self.classes].iter().sum()
    }

    /// Pixels that were given a class.
    pub fn predicted(&self, class: usize) -> u64 {
        self.counts.iter().skip(class).step_by(self.classes).sum()
    }

    /// Intersection over union of a class; none where it neither occurs nor is predicted.
    pub fn iou(&self, class: usize) -> Option<f64> {
        let union = self.pixels(class) + self.predicted(class) - self.hits(class);
        (union > 0).then(|| self.hits(class) as f64 / union as f64)
    }

    /// Share of a class's pixels that were given it; none where it does not occur.
    pub fn accuracy(&self, class: usize) -> Option<f64> {
        let pixels = self.pixels(class);
        (pixels > 0).then(|| self.hits(class) as f64 / pixels as f64)
    }

    /// Mean of the intersections over union that there are.
    pub fn mean_iou(&self) -> Option<f64> {
        mean((0..self.classes).filter_map(|class| self.iou(class)))
    }

    /// Mean of the classes' accuracies that there are.
    pub fn mean_accuracy(&self) -> Option<f64> {
        mean((0..self.classes).filter_map(|class| self.accuracy(class)))
    }

    /// Share of all pixels that were given their class.
    pub fn global_accuracy(&self) -> Option<f64> {
        let hits: u64 = (0..self.classes).map(|class| self.hits(class)).sum();
        (self.total() > 0).then(|| hits as f64 / self.total() as f64)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
