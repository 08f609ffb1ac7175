//! Pictures with masks in each layout, made here in exactly that layout, and what may be wrong with them.

use std::path::Path;

use fidgp_data::segmentation::{self, Portion};
use fidgp_data::{PairSet, Picture, VOID};

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn picture(path: &Path, width: u32, height: u32, colour: [u8; 3]) {
    let rgb = colour.repeat((width * height) as usize);
    write(path, &Picture::from_rgb(width, height, rgb).unwrap().to_png().unwrap());
}

fn indices(path: &Path, width: u32, ids: &[u8], colour: png::ColorType, depth: png::BitDepth) {
    let (mut bytes, bits) = (Vec::new(), depth as usize);
    let mut encoder = png::Encoder::new(&mut bytes, width, ids.len() as u32 / width);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if colour == png::ColorType::Indexed {
        encoder.set_palette((0..3 << bits).map(|byte| byte as u8).collect::<Vec<_>>());
    }
    let pack = |row: &[u8]| -> Vec<u8> {
        row.chunks(8 / bits)
            .map(|part| part.iter().enumerate().fold(0, |byte, (i, id)| byte | id << (8 - bits * (i + 1))))
            .collect()
    };
    let packed: Vec<u8> = ids.chunks(width as usize).flat_map(pack).collect();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&packed).unwrap();
    writer.finish().unwrap();
    write(path, &bytes);
}

fn grey(path: &Path, width: u32, ids: &[u8]) {
    indices(path, width, ids, png::ColorType::Grayscale, png::BitDepth::Eight);
}

fn ids(set: &PairSet, row: usize) -> Vec<u8> {
    set.load(row).unwrap().1.ids
}

#[test]
fn segnets_layout() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (part, name) in [("train", "0001TP_006690"), ("train", "0006R0_f00930"), ("val", "a"), ("test", "b")] {
        picture(&root.join(format!("{part}/{name}.png")), 3, 2, [1, 2, 3]);
        grey(&root.join(format!("{part}annot/{name}.png")), 3, &[0, 10, 11, 3, 4, 5]);
    }
    let train = segmentation::segnet(root, Portion::Train).unwrap();
    assert_eq!((train.rows(), train.class_names.len()), (2, 11));
    assert_eq!(ids(&train, 0), [0, 10, VOID, 3, 4, 5]);
    assert_eq!(segmentation::segnet(root, Portion::Validation).unwrap().rows(), 1);
    assert_eq!(segmentation::segnet(root, Portion::Test).unwrap().rows(), 1);
    let summary = fidgp_data::detect(root).unwrap();
    assert!(summary.kind.contains("SegNet"), "{}", summary.kind);
    let train = &summary.parts[0];
    assert_eq!((train.rows, train.row_shape.as_slice()), (2, [3, 2, 3].as_slice()));
    let count = |name: &str| train.classes.iter().find(|class| class.name == name).unwrap().rows;
    assert_eq!((count("sky"), count("car"), count("void")), (2, 0, 2));
}

#[test]
fn camvids_own_colours() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["0001TP_008520", "0001TP_008550", "0016E5_07961", "0016E5_07980", "Seq05VD_f00000"] {
        picture(&root.join(format!("701_StillsRaw_full/{name}.png")), 2, 1, [9, 9, 9]);
        let colours = vec![64, 0, 128, 0, 0, 0]; // a car, void
        let labels = Picture::from_rgb(2, 1, colours).unwrap().to_png().unwrap();
        write(&root.join(format!("LabeledApproved_full/{name}_L.png")), &labels);
    }
    let rows = [Portion::Train, Portion::Validation, Portion::Test]
        .map(|portion| segmentation::camvid(root, portion).unwrap().rows());
    assert_eq!(rows, [2, 1, 2]);
    let train = segmentation::camvid(root, Portion::Train).unwrap();
    assert_eq!(ids(&train, 0), [8, VOID]);
    let bad = root.join("LabeledApproved_full/0001TP_008520_L.png");
    picture(&bad, 2, 1, [1, 1, 1]);
    let error = train.load(0).unwrap_err().to_string();
    assert!(error.contains("0001TP_008520_L.png") && error.contains("[1, 1, 1]"), "{error}");
}

#[test]
fn cityscapes_layout_with_label_ids_and_with_train_ids() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (city, number) in [("aachen", "000000_000019"), ("bochum", "000000_000313")] {
        let name = format!("{city}_{number}");
        picture(&root.join(format!("leftImg8bit/train/{city}/{name}_leftImg8bit.png")), 2, 2, [5, 5, 5]);
        let place = root.join(format!("gtFine/train/{city}"));
        grey(&place.join(format!("{name}_gtFine_labelIds.png")), 2, &[7, 33, 0, 29]);
        picture(&place.join(format!("{name}_gtFine_color.png")), 2, 2, [128, 64, 128]);
        grey(&place.join(format!("{name}_gtFine_instanceIds.png")), 2, &[7, 33, 0, 29]);
    }
    let train = segmentation::cityscapes(root, Portion::Train).unwrap();
    assert_eq!((train.rows(), train.class_names.len()), (2, 19));
    assert_eq!(ids(&train, 1), [0, 18, VOID, VOID]);
    let ids_file = root.join("gtFine/train/aachen/aachen_000000_000019_gtFine_labelIds.png");
    grey(&ids_file, 2, &[7, 34, 0, 0]);
    let error = train.load(0).unwrap_err().to_string();
    assert!(
        error.contains("labelIds.png") && error.contains("class id 34") && error.contains("x = 1, y = 0"),
        "{error}"
    );
    for (city, number) in [("aachen", "000000_000019"), ("bochum", "000000_000313")] {
        let name = format!("gtFine/train/{city}/{city}_{number}_gtFine_labelTrainIds.png");
        grey(&root.join(name), 2, &[0, 18, 255, 2]);
    }
    assert_eq!(ids(&segmentation::cityscapes(root, Portion::Train).unwrap(), 0), [0, 18, VOID, 2]);
}

#[test]
fn any_folder_of_pictures_and_index_masks() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let names = || vec!["ground".to_owned(), "thing".to_owned()];
    let open = || segmentation::masks(root, ["pictures/{part}", "masks/{part}"], Portion::Train, names(), &[7]);
    picture(&root.join("pictures/train/a.png"), 5, 1, [1, 1, 1]);
    indices(&root.join("masks/train/a.png"), 5, &[0, 1, 1, 7, 0], png::ColorType::Indexed, png::BitDepth::Four);
    assert_eq!(ids(&open().unwrap(), 0), [0, 1, 1, VOID, 0]);

    // another size
    grey(&root.join("masks/train/a.png"), 4, &[0, 1, 1, 0]);
    let error = open().unwrap().load(0).unwrap_err().to_string();
    assert!(error.contains("masks/train/a.png") && error.contains("is 4×1") && error.contains("is 5×1"), "{error}");
    // a colour picture in place of a mask
    picture(&root.join("masks/train/a.png"), 5, 1, [1, 1, 1]);
    let error = open().unwrap().load(0).unwrap_err().to_string();
    assert!(error.contains("masks/train/a.png") && error.contains("not of indices"), "{error}");
    // damaged
    write(&root.join("masks/train/a.png"), b"no picture");
    assert!(open().unwrap().load(0).unwrap_err().to_string().contains("masks/train/a.png"));
    // missing mask, missing picture
    picture(&root.join("pictures/train/b.png"), 5, 1, [1, 1, 1]);
    let error = open().unwrap_err().to_string();
    assert!(error.contains("pictures/train/b.png") && error.contains("has no mask"), "{error}");
    std::fs::remove_file(root.join("pictures/train/b.png")).unwrap();
    grey(&root.join("masks/train/c.png"), 5, &[0; 5]);
    let error = open().unwrap_err().to_string();
    assert!(error.contains("masks/train/c.png") && error.contains("has no picture"), "{error}");
}
