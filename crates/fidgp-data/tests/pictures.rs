//! Pictures in one folder per class: listing, decoding, resizing as Pillow does, and damaged files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fidgp_data::{CropBox, ImageFolder, Picture};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", name].iter().collect()
}

fn open(name: &str) -> Picture {
    Picture::open(&fixture(name)).unwrap()
}

/// The largest difference of any byte.
fn distance(a: &Picture, b: &Picture) -> u8 {
    assert_eq!(a.size(), b.size());
    a.rgb().iter().zip(b.rgb()).map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

#[test]
fn a_folder_is_listed_in_order_and_decoded_on_demand() {
    let folder = ImageFolder::open(&fixture("pictures")).unwrap();
    let names: Vec<_> = folder.files().iter().map(|f| f.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["a.JPEG", "b.png", "c.webp", "grey.png"]);
    assert_eq!((folder.labels(), folder.class_counts()), (&[0, 0, 1, 1][..], vec![2, 2]));
    assert_eq!(folder.class_names(), ["cat", "dog"]);
    assert_eq!(folder.decode(1).unwrap(), folder.decode(2).unwrap()); // png and lossless webp
    assert!(distance(&folder.decode(0).unwrap(), &folder.decode(1).unwrap()) <= 12); // jpeg
    let grey = folder.decode(3).unwrap();
    assert!(grey.rgb().chunks(3).all(|p| p[0] == p[1] && p[1] == p[2]));
    assert!(folder.decode(4).unwrap_err().to_string().contains("picture 4 was asked for, there are 4"));
    assert_eq!(folder.survey(Picture::size, &|_, _| ()).unwrap()[1], [30, 20]);
}

#[test]
fn resizing_agrees_with_pillow() {
    let picture = open("pictures/cat/b.png");
    let centre = picture.resize_shorter(10).unwrap().centre_crop(8).unwrap();
    assert!(distance(&centre, &open("expected/centre.png")) <= 1);
    let region = CropBox { left: 3, top: 2, width: 18, height: 12 };
    assert!(distance(&picture.crop_resize(region, 6).unwrap(), &open("expected/region.png")) <= 1);
}

#[test]
fn impossible_sizes_are_refused() {
    let picture = open("pictures/cat/b.png");
    let whole = CropBox { left: 0, top: 0, width: 30, height: 20 };
    assert!(picture.centre_crop(21).unwrap_err().to_string().contains("a picture of 30×20 has no middle of 21×21"));
    assert!(picture.crop_resize(whole, 0).is_err());
    assert!(picture.resize_shorter(u32::MAX).is_err());
    for region in [CropBox { left: 1, ..whole }, CropBox { height: 0, ..whole }, CropBox { top: u32::MAX, ..whole }] {
        assert!(picture.crop_resize(region, 4).unwrap_err().to_string().contains("does not contain"));
    }
    assert!(Picture::from_rgb(2, 2, vec![0; 11]).is_none());
    let planes = Picture::from_rgb(2, 1, vec![1, 2, 3, 4, 5, 6]).unwrap().planar();
    assert_eq!(planes, [1, 4, 2, 5, 3, 6]);
}

#[test]
fn a_damaged_picture_is_named() {
    let root = tempfile::tempdir().unwrap();
    let class = root.path().join("cat");
    fs::create_dir(&class).unwrap();
    let refusal = |root: &Path| ImageFolder::open(root).unwrap_err().to_string();
    assert!(refusal(root.path()).contains("cat: holds no pictures"));
    assert!(refusal(&class).contains("cat: holds no class folders"));
    let content = fs::read(fixture("pictures/cat/b.png")).unwrap();
    fs::write(class.join("broken.png"), &content[..100]).unwrap();
    fs::write(class.join("words.jpg"), "not a picture").unwrap();
    fs::write(class.join("notes.txt"), "passed over").unwrap();
    fs::copy(fixture("pictures/cat/b.png"), class.join("sound.png")).unwrap();
    let said = ImageFolder::open(root.path()).unwrap().survey(Picture::size, &|_, _| ()).unwrap_err().to_string();
    assert!(said.contains("2 of 3 pictures damaged:\n"), "{said}");
    assert!(said.contains("broken.png, byte 100: cannot be decoded: "), "{said}");
    assert!(said.contains("(the file has 100 bytes)"), "{said}");
    assert!(said.contains("words.jpg, byte 0: cannot be decoded: it does not begin as a JPEG"), "{said}");
}

#[test]
fn a_gif_is_not_damaged_but_not_supported() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("moving.png");
    fs::write(&file, b"GIF89a\x01\x00\x01\x00\x00\x00\x00;").unwrap();
    let said = Picture::open(&file).unwrap_err().to_string();
    assert!(said.contains("moving.png: is a picture of the kind Gif, which is not supported"), "{said}");
    assert!(said.contains("convert it to JPEG, PNG or WebP"), "{said}");
}

#[test]
fn a_picture_is_turned_as_its_exif_data_say() {
    // after the start marker of a JPEG: an APP1 segment of one EXIF entry, orientation (0x0112) = 6, a quarter turn
    let exif = b"\xff\xe1\x00\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let plain = fs::read(fixture("pictures/cat/a.JPEG")).unwrap();
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("turned.jpg");
    fs::write(&file, [&plain[..2], exif, &plain[2..]].concat()).unwrap();
    let (turned, plain) = (Picture::open(&file).unwrap(), open("pictures/cat/a.JPEG"));
    assert_eq!((plain.size(), turned.size()), ([30, 20], [20, 30]));
    // clockwise: the lower left corner comes to the upper left
    assert_eq!(turned.rgb()[..3], plain.rgb()[19 * 30 * 3..][..3]);
}

#[test]
fn rectangles_of_known_numbers() {
    let found = CropBox::of_area([100, 50], 0.5, 1.0, [0.0, 0.999]);
    assert_eq!(found, Some(CropBox { left: 0, top: 0, width: 50, height: 50 }));
    assert_eq!(CropBox::of_area([100, 50], 1.0, 1.0, [0.5, 0.5]), None);
    assert_eq!(CropBox::of_area([100, 50], f64::NAN, 1.0, [0.5, 0.5]), None);
    assert_eq!(CropBox::random([1000, 10], || 0.999), CropBox { left: 494, top: 0, width: 13, height: 10 });
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_rectangles_lie_inside(width in 1_u32..3000, height in 1_u32..3000, numbers in prop::array::uniform8(0.0..1.0_f64)) {
        let mut next = numbers.into_iter().cycle();
        let found = CropBox::random([width, height], || next.next().unwrap());
        prop_assert!(found.width >= 1 && found.left + found.width <= width, "{:?}", found);
        prop_assert!(found.height >= 1 && found.top + found.height <= height, "{:?}", found);
    }
}

#[test]
fn a_mirror_a_selection_and_brightness() {
    let picture = Picture::from_rgb(2, 1, vec![255, 0, 0, 7, 7, 7]).unwrap();
    assert_eq!(picture.mirrored().rgb(), [7, 7, 7, 255, 0, 0]);
    assert_eq!(picture.grey(), [76, 7]);
    assert_eq!(picture.resize_shorter(1).unwrap(), picture); // the same size: not a byte changes
    let folder = ImageFolder::open(&fixture("pictures")).unwrap();
    let chosen = folder.select(&[3, 0]).unwrap();
    assert_eq!((chosen.labels(), chosen.class_names().len()), (&[1, 0][..], 2));
    assert!(folder.select(&[4]).unwrap_err().to_string().contains("picture 4 was asked for"));
}
