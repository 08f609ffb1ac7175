//! Files that ask for much: refused by name before memory is asked for. The allocator of this program counts.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use fidgp_data::segmentation::{self, Portion};
use fidgp_data::{Picture, Sheet, detect, idx, mat5, synthetic};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MB: usize = 1 << 20;

/// One test at a time: the allocator counts for all threads, and a backtrace takes megabytes.
static ALONE: Mutex<()> = Mutex::new(());

/// A PNG of one grey byte that says it has another size, or has another palette.
fn png(width: u32, height: u32, colour: u8, palette: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(&mut bytes, b"IHDR", &[&size[..], &[8, colour, 0, 0, 0]].concat());
    if !palette.is_empty() {
        chunk(&mut bytes, b"PLTE", palette);
    }
    let mut data = ZlibEncoder::new(Vec::new(), Compression::best());
    data.write_all(&[0, 0]).unwrap();
    chunk(&mut bytes, b"IDAT", &data.finish().unwrap());
    chunk(&mut bytes, b"IEND", b"");
    bytes
}

fn chunk(bytes: &mut Vec<u8>, kind: &[u8], data: &[u8]) {
    let mut sum = flate2::Crc::new();
    sum.update(kind);
    sum.update(data);
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend([kind, data].concat());
    bytes.extend(sum.sum().to_be_bytes());
}

/// A grey JPEG of eight pixels each way that says it has another size.
fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    image::codecs::jpeg::JpegEncoder::new(&mut bytes).encode(&[9; 64], 8, 8, image::ExtendedColorType::L8).unwrap();
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    bytes[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
    bytes[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
    bytes
}

/// Zeros behind a header, compressed.
fn zeros(mut encoder: impl Write, header: &[u8], megabytes: usize) {
    encoder.write_all(header).unwrap();
    let block = vec![0; MB];
    (0..megabytes).for_each(|_| encoder.write_all(&block).unwrap());
}

fn gzipped_idx(dims: [u32; 3], megabytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = [&[0, 0, 8, 3][..], &dims.map(u32::to_be_bytes).concat()].concat();
    zeros(GzEncoder::new(&mut bytes, Compression::fast()), &header, megabytes);
    bytes
}

/// A MAT file with one compressed element after another, each of so many bytes of `kind`.
fn mat(elements: usize, megabytes: usize, kind: u32) -> Vec<u8> {
    let count = (megabytes * MB) as u32;
    let tag = |kind: u32, bytes: u32| [kind.to_le_bytes(), bytes.to_le_bytes()].concat();
    let class = [tag(6, 8), vec![6, 0, 0, 0, 0, 0, 0, 0]].concat();
    let dims = [tag(5, 8), count.to_le_bytes().to_vec(), 1_u32.to_le_bytes().to_vec()].concat();
    let head = [class, dims, tag(1, 0), tag(kind, count)].concat();
    let head = [tag(14, head.len() as u32 + count), head].concat();
    let mut element = Vec::new();
    zeros(ZlibEncoder::new(&mut element, Compression::best()), &head, megabytes);
    let mut bytes = vec![b' '; 124];
    bytes.extend(b"\x00\x01IM");
    (0..elements).for_each(|_| bytes.extend([tag(15, element.len() as u32), element.clone()].concat()));
    bytes
}

/// What a reader says of a file, which it must say within so many megabytes.
#[track_caller]
fn refused<T>(file: &Path, bytes: &[u8], megabytes: usize, read: impl Fn(&Path) -> fidgp_data::Result<T>) -> String {
    fs::write(file, bytes).unwrap();
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let error = read(file).err().expect("it is refused").to_string();
    let peak = (ALLOCATOR.peak_usage() - before) / MB;
    assert!(peak <= megabytes, "{peak} MB to say: {error}");
    assert!(error.contains(file.file_name().unwrap().to_str().unwrap()) && error.contains("hint: "), "{error}");
    error
}

#[test]
fn what_asks_for_too_much_is_refused_before_it_gets_it() {
    let _alone = ALONE.lock();
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name);

    // pictures and masks
    let error = refused(&file("large.png"), &png(50_000, 50_000, 2, &[]), 4, Picture::open);
    assert!(error.contains("50000×50000") && error.contains("FIDGP_LIMIT_PIXELS higher"), "{error}");
    let error = refused(&file("slow.webp"), &jpeg(29_314, 6_000), 4, Picture::open);
    assert!(error.contains("FIDGP_LIMIT_PIXELS_PER_BYTE"), "{error}");
    let scans = [jpeg(60_000, 2_900), [0xff, 0xda, 0, 2].repeat(95), vec![0; 20_000]].concat();
    let error = refused(&file("scans.jpg"), &scans, 4, Picture::open);
    assert!(error.contains("2088000000 pixels"), "twelve times all pixels: {error}");
    for part in ["train", "trainannot", "val", "valannot", "test", "testannot"] {
        fs::create_dir(file(part)).unwrap();
        fs::write(file(part).join("a.png"), png(1, 1, 0, &[])).unwrap();
    }
    assert!(segmentation::segnet(home.path(), Portion::Train).unwrap().load(0).is_ok());
    let error = refused(&file("trainannot").join("a.png"), &png(48, 0x7fff_ffff, 0, &[]), 4, |_| detect(home.path()));
    assert!(error.contains("48×2147483647"), "{error}");

    // what is inflated: more than the ratio, more than the whole limit
    refused(&file("a-idx3-ubyte.gz"), &gzipped_idx([4096, 1024, 1024], 80), 4, idx::read);
    refused(&file("b-idx3-ubyte.gz"), &gzipped_idx([80, 1024, 1024], 80), 4, idx::read);
    let error = refused(&file("c-idx3-ubyte.gz"), &gzipped_idx([1, 1, 1], 80), 4, idx::read); // behind what is promised
    assert!(error.contains("FIDGP_LIMIT_INFLATED_RATIO"), "{error}");
    refused(&file("a.mat"), &mat(1, 80, 2), 4, mat5::read);
    let bomb = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet/bomb.parquet")).unwrap();
    let error = refused(&file("bomb.parquet"), &bomb, 260, Sheet::open); // 80 MB of text; a buffer grows to twice its size
    assert!(error.contains("FIDGP_LIMIT_INFLATED_RATIO"), "{error}");
    refused(&file("b.mat"), &mat(1, 20, 1), 64, mat5::read); // 160 MB of f64
    refused(&file("c.mat"), &mat(12, 8, 2), 200, mat5::read);

    // what is computed
    let error = synthetic::draw(20, 10, i64::MAX as usize, 0).unwrap_err().to_string();
    assert!(error.contains("synthetic test") && error.contains("FIDGP_LIMIT_ROWS"), "{error}");
    assert!(synthetic::draw(10_000_000_000, 1, 1, 0).is_err());
}

/// png 0.18.1 panics on a palette whose length is no multiple of three.
#[test]
fn a_decoder_that_panics_names_the_file() {
    let _alone = ALONE.lock();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("palette.png");
    fs::write(&file, png(1, 1, 3, &[0, 0, 0, 1])).unwrap();
    for _ in 0..2 {
        let error = Picture::open(&file).unwrap_err().to_string();
        assert!(error.contains("palette.png") && error.contains("remove it"), "{error}");
    }
    let folder = home.path().join("class");
    fs::create_dir(&folder).unwrap();
    fs::rename(&file, folder.join("palette.png")).unwrap();
    let error = detect(home.path()).unwrap_err().to_string();
    assert!(error.contains("1 of 1 pictures damaged") && error.contains("palette.png"), "{error}");
}
