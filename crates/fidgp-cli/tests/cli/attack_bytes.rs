//! Hostile bytes, made: archives of pickles, pictures, compressed zeros.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

const MB: usize = 1 << 20;

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// A zip archive of stored entries.
pub fn stored(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let (place, size) = (bytes.len() as u32, data.len() as u32);
        let head = [
            &[20, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &checksum(data).to_le_bytes()[..],
            &size.to_le_bytes(),
            &size.to_le_bytes(),
        ]
        .concat();
        let length = (name.len() as u16).to_le_bytes();
        bytes.extend([b"PK\x03\x04", &head[..], &length, &[0, 0], name.as_bytes(), data].concat());
        let rest = [&length[..], &[0; 12], &place.to_le_bytes(), name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\x00", &head[..], &rest].concat());
    }
    let (count, place) = ((entries.len() as u16).to_le_bytes(), (bytes.len() as u32).to_le_bytes());
    let end = [&[0; 4], &count[..], &count, &(directory.len() as u32).to_le_bytes(), &place, &[0, 0]].concat();
    [bytes, directory, [b"PK\x05\x06", &end[..]].concat()].concat()
}

/// What `torch.save` writes of this pickle, with one storage of eight bytes.
pub fn saved(pickle: &[u8]) -> Vec<u8> {
    stored(&[("archive/data.pkl", pickle), ("archive/data/0", &[0; 8])])
}

fn int(number: i64) -> Vec<u8> {
    [&b"\x8a\x08"[..], &number.to_le_bytes()].concat()
}

fn text(words: &str) -> Vec<u8> {
    [&b"X"[..], &(words.len() as u32).to_le_bytes(), words.as_bytes()].concat()
}

/// So many tensors of one number, each with this offset, size and stride.
pub fn strided(count: usize, offset: i64, size: &[i64], stride: &[i64]) -> Vec<u8> {
    let tuple = |numbers: &[i64]| [&b"("[..], &numbers.iter().flat_map(|n| int(*n)).collect::<Vec<_>>(), b"t"].concat();
    let id = [&text("storage")[..], b"ctorch\nDoubleStorage\n", &text("0"), &text("cpu"), &int(1), b"tQ"].concat();
    let tensor = |name: String| {
        let call = [b"ctorch._utils\n_rebuild_tensor_v2\n((", &id[..], &int(offset), &tuple(size), &tuple(stride)];
        [text(&name), call.concat(), b"\x89)tR".to_vec()].concat()
    };
    let all: Vec<u8> = (0..count).flat_map(|i| tensor(format!("w{i}"))).collect();
    saved(&[&b"\x80\x02}("[..], &all, b"u."].concat())
}

/// Things inside things: `depth` of each kind that a pickle has, and the names of the kinds.
pub fn deep(depth: usize) -> [(&'static str, Vec<u8>); 5] {
    let whole = |body: Vec<u8>| saved(&[b"\x80\x02".to_vec(), body, b".".to_vec()].concat());
    let keyed = [&b"}"[..], &[&text("k")[..], b"}"].concat().repeat(depth), &b"s".repeat(depth)].concat();
    [
        ("pairs", whole([b")".to_vec(), b"\x85".repeat(depth)].concat())), // as deep.pt
        ("tuples", whole([b"(".repeat(depth), b"t".repeat(depth)].concat())),
        ("lists", whole([b"]".repeat(depth), b"a".repeat(depth - 1)].concat())),
        ("dictionaries", whole(keyed)),
        ("calls", whole([b"ca\nb\n".repeat(depth), b")".to_vec(), b"R\x85".repeat(depth)].concat())),
    ]
}

/// Each value holds the one before twice: 2⁶⁰ in all. Of tuples, of lists, and below the name of the weights.
pub fn laughs() -> [(&'static str, Vec<u8>); 3] {
    let levels = |each: &dyn Fn(u8) -> Vec<u8>| (1..60).flat_map(each).collect::<Vec<u8>>();
    let pairs = levels(&|i| vec![b'h', i - 1, b'h', i - 1, 0x86, b'q', i]);
    let lists = levels(&|i| vec![b']', b'(', b'h', i - 1, b'h', i - 1, b'e', b'q', i]);
    let nested = [&b"\x80\x02}"[..], &text("state_dict"), b")q\x00", &pairs, b"s."].concat();
    let top = |body: &[u8]| saved(&[&b"\x80\x02]q\x00"[..], body, b"."].concat());
    [("pairs", top(&pairs)), ("lists", top(&lists)), ("nested", saved(&nested))]
}

/// Pickles that end too early, point nowhere, or promise more than there is.
pub fn broken() -> Vec<(&'static str, Vec<u8>)> {
    let old = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.".to_vec();
    let storage = [&text("storage")[..], b"ctorch\nDoubleStorage\n", &text("0"), &text("cpu"), &int(1), b"tQ"].concat();
    let object = [&b"\x80\x02}"[..], &text("w"), b"(", &storage, b"s."].concat();
    let keys = [&b"\x80\x02]("[..], &text("0"), b"e."].concat();
    vec![
        ("empty", saved(b"")),
        ("nothing-on-the-stack", saved(b"\x80\x02.")),
        ("memo-of-nothing", saved(b"\x80\x02h\x07.")),
        ("long-text", saved(b"\x80\x02X\xff\xff\xff\xffabc")),
        ("long-frame", saved(b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f}.")),
        ("itself", saved(&[&b"\x80\x02}q\x00"[..], &text("model"), b"h\x00s."].concat())),
        ("code", saved(b"\x80\x02cos\nsystem\n(U\x02idtR.")),
        ("old-long-storage", [&old[..], &object, &keys, &u64::MAX.to_le_bytes()].concat()),
        ("old-storage-that-wraps", [&old[..], &object, &keys, &(1_u64 << 61).to_le_bytes(), &[0; 8]].concat()),
        ("two-pickles", stored(&[("a/data.pkl", b"\x80\x02}."), ("b/data.pkl", b"\x80\x02}.")])),
    ]
}

/// A PNG of a few bytes that says it has this size, depth and colour, with these chunks before its pixels.
pub fn png(size: (u32, u32), depth: u8, colour: u8, chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        bytes.extend((data.len() as u32).to_be_bytes());
        let body = [kind, data].concat();
        bytes.extend([&body[..], &checksum(&body).to_be_bytes()].concat());
    };
    let size = [size.0.to_be_bytes(), size.1.to_be_bytes()].concat();
    chunk(b"IHDR", &[&size[..], &[depth, colour, 0, 0, 0]].concat());
    for (kind, data) in chunks {
        chunk(kind, data);
    }
    let mut pixels = ZlibEncoder::new(Vec::new(), Compression::best());
    pixels.write_all(&[0, 3]).expect("memory takes it");
    chunk(b"IDAT", &pixels.finish().expect("memory takes it"));
    chunk(b"IEND", b"");
    bytes
}

/// Palettes whose length is no multiple of three, none, and too long; transparency longer than its palette.
pub fn palettes() -> Vec<(String, Vec<u8>)> {
    let picture = |bytes: usize, depth: u8, more: &[(&[u8; 4], Vec<u8>)]| {
        let palette = [&[(b"PLTE", vec![7; bytes])], more].concat();
        png((1, 1), depth, 3, &palette)
    };
    let lengths = [0, 1, 2, 4, 5, 7, 767, 769, 1000];
    let mut all: Vec<_> = lengths
        .into_iter()
        .flat_map(|bytes| {
            [1, 2, 4, 8].map(|depth| (format!("palette-{bytes}-{depth}.png"), picture(bytes, depth, &[])))
        })
        .collect();
    all.push(("transparent.png".to_owned(), picture(4, 8, &[(b"tRNS", vec![1; 300])])));
    all.push(("two.png".to_owned(), picture(3, 8, &[(b"PLTE", vec![1; 4])])));
    all.push(("none.png".to_owned(), png((1, 1), 8, 3, &[])));
    all
}

/// An idx file in gzip that inflates to so many megabytes: one compressed megabyte again and again, as members of one file.
pub fn gzipped_idx(dims: [u32; 3], megabytes: usize) -> Vec<u8> {
    let member = |data: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).and_then(|()| encoder.finish()).expect("memory takes it")
    };
    let header = [&[0, 0, 8, 3][..], &dims.map(u32::to_be_bytes).concat()].concat();
    [member(&header), member(&vec![0; MB]).repeat(megabytes)].concat()
}

/// A MAT file of one compressed element that inflates to so many megabytes.
pub fn mat(megabytes: usize) -> Vec<u8> {
    let count = (megabytes * MB) as u32;
    let tag = |kind: u32, bytes: u32| [kind.to_le_bytes(), bytes.to_le_bytes()].concat();
    let class = [tag(6, 8), vec![6, 0, 0, 0, 0, 0, 0, 0]].concat();
    let dims = [tag(5, 8), count.to_le_bytes().to_vec(), 1_u32.to_le_bytes().to_vec()].concat();
    let head = [class, dims, tag(1, 1), vec![b'X', 0, 0, 0, 0, 0, 0, 0], tag(2, count)].concat();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&[tag(14, head.len() as u32 + count), head].concat()).expect("memory takes it");
    let block = vec![0; MB];
    (0..megabytes).for_each(|_| encoder.write_all(&block).expect("memory takes it"));
    let element = encoder.finish().expect("memory takes it");
    [&[b' '; 124][..], b"\x00\x01IM", &tag(15, element.len() as u32), &element].concat()
}
