//! `preprocessor_config.json`: how an input becomes what the network sees. The fields are those of the Hub's image processors.

use fidgp_data::ChannelStatistics;
use serde::{Deserialize, Serialize};

use super::numbers;
use crate::error::{LabError, Result};
use crate::model::Signature;
use crate::predict::Trained;
use crate::source::{TableView, View};

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "it has neither the fields of an image processor nor `features`")]
pub enum Preprocessor {
    /// For pictures.
    Images(ImageProcessor),
    /// For pictures of any size, as segmentations take them.
    Pictures(PictureProcessor),
    /// For tables of one's own.
    Columns(TableView),
    /// For points that are taken as they are.
    Table {
        /// Columns.
        features: i64,
    },
}

/// Resize, crop, divide by 255, normalise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields are the Hub's")]
pub struct ImageProcessor {
    do_resize: bool,
    size: ShortestEdge,
    /// 2 is bilinear.
    resample: u32,
    do_center_crop: bool,
    /// What is left after the crop.
    pub crop_size: CropSize,
    do_rescale: bool,
    rescale_factor: f64,
    do_normalize: bool,
    /// For each channel.
    pub image_mean: Vec<f64>,
    /// For each channel.
    pub image_std: Vec<f64>,
}

/// Divide by 255, normalise; no resize, no crop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields are the Hub's")]
pub struct PictureProcessor {
    do_resize: bool,
    do_center_crop: bool,
    do_rescale: bool,
    rescale_factor: f64,
    do_normalize: bool,
    image_mean: Vec<f64>,
    image_std: Vec<f64>,
}

impl PictureProcessor {
    /// What pictures are normalised with.
    ///
    /// # Errors
    /// When the file asks for something else than division by 255 and normalisation of three channels.
    pub fn statistics(&self) -> Result<ChannelStatistics> {
        let usual = !self.do_resize && !self.do_center_crop && self.do_rescale && self.do_normalize;
        let sound = self.image_mean.len() == 3
            && self.image_std.len() == 3
            && self.image_std.iter().all(|sd| *sd > 0.0 && sd.is_finite());
        if !usual || !sound || (self.rescale_factor - 1.0 / 255.0).abs() > 1e-9 {
            let why = "asks for something this program does not do: pictures that are segmented keep their size, are divided by \
                       255 and normalised in 3 channels";
            return Err(LabError::config("preprocessor_config.json", why));
        }
        Ok(ChannelStatistics { mean: self.image_mean.clone(), sd: self.image_std.clone() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct ShortestEdge {
    shortest_edge: u32,
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CropSize {
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

impl ImageProcessor {
    /// How a picture is seen.
    ///
    /// # Errors
    /// When the file asks for something else than resize, square crop, division by 255 and normalisation.
    pub fn view(&self) -> Result<View> {
        let CropSize { height, width } = self.crop_size;
        let resize = self.size.shortest_edge;
        let all = self.do_resize && self.do_center_crop && self.do_rescale && self.do_normalize && self.resample == 2;
        let usual = all && (self.rescale_factor - 1.0 / 255.0).abs() < 1e-9;
        let channels = self.image_mean.len();
        let sound = matches!(channels, 1 | 3)
            && self.image_std.len() == channels
            && self.image_std.iter().all(|sd| *sd > 0.0 && sd.is_finite());
        if !usual || !sound || height != width || height == 0 || height > resize {
            let why = "asks for something this program does not do: it resizes the shortest edge (bilinear), crops a square \
                       of at most that, divides by 255 and normalises 1 or 3 channels";
            return Err(LabError::config("preprocessor_config.json", why));
        }
        Ok(View { channels, resize, crop: height })
    }
}

/// The file of a model.
pub fn of(predictor: &Trained) -> Result<Preprocessor> {
    if let Some(table) = &predictor.table {
        return Ok(Preprocessor::Columns(table.clone()));
    }
    if let (true, Some(normalisation)) = (predictor.segments(), &predictor.model.normalisation) {
        let (mean, sd) = normalisation.statistics();
        return Ok(Preprocessor::Pictures(PictureProcessor {
            do_resize: false,
            do_center_crop: false,
            do_rescale: true,
            rescale_factor: 1.0 / 255.0,
            do_normalize: true,
            image_mean: numbers(mean)?,
            image_std: numbers(sd)?,
        }));
    }
    let (Some(view), Some(normalisation)) = (predictor.view, &predictor.model.normalisation) else {
        let Signature::Regression { features } = Signature::expected(&predictor.config, None)? else {
            return Err(LabError::config("network", "has no normalisation"));
        };
        return Ok(Preprocessor::Table { features });
    };
    let (mean, sd) = normalisation.statistics();
    Ok(Preprocessor::Images(ImageProcessor {
        do_resize: true,
        size: ShortestEdge { shortest_edge: view.resize },
        resample: 2,
        do_center_crop: true,
        crop_size: CropSize { height: view.crop, width: view.crop },
        do_rescale: true,
        rescale_factor: 1.0 / 255.0,
        do_normalize: true,
        image_mean: numbers(mean)?,
        image_std: numbers(sd)?,
    }))
}
