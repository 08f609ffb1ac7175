//! Changes to inputs, from a seed.

/// SplitMix64: numbers that look random.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below this one; 0 below 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }
}

/// FNV-1a.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Numbers at which sizes and offsets go wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// The same as texts, and others that numbers in texts can be.
const WORDS: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "-1e-320",
    "1e39",
    "NaN",
    "inf",
    "null",
    "[]",
    "{}",
    "\"\"",
    "4611686018427387904",
    "9223372036854775807",
    "18446744073709551616",
    "true",
    "\"\u{1b}[2J\"",
];

/// Something of a corpus, changed a few times.
pub fn changed(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        change(&mut input, corpus, random);
    }
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let head = input.len().min(if random.below(2) == 0 { 200 } else { usize::MAX }); // headers are what steers a reader
    let at = random.below(head);
    match random.below(9) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = EDGES[random.below(4)] as u8,
        2 => overwrite(input, at, random),
        3 => input.truncate(at),
        4 => drop(input.drain(at..(at + random.below(16)).min(input.len()))),
        5 => repeat(input, at, random),
        6 => splice(input, at, &corpus[random.below(corpus.len())], random),
        _ => number(input, random),
    }
}

/// A number at an edge, in either order of bytes.
fn overwrite(input: &mut [u8], at: usize, random: &mut Random) {
    let edge = EDGES[random.below(EDGES.len())];
    let width = [1, 2, 4, 8][random.below(4)];
    let bytes = if random.below(2) == 0 { edge.to_le_bytes() } else { (edge << (64 - 8 * width)).to_be_bytes() };
    for (to, from) in input.iter_mut().skip(at).zip(&bytes[..width]) {
        *to = *from;
    }
}

/// A piece again and again.
fn repeat(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let piece = input[at.min(input.len())..(at + 1 + random.below(32)).min(input.len())].to_vec();
    let times = [1, 2, 40, 2000][random.below(4)];
    input.splice(at..at, piece.repeat(times));
}

/// A piece of another input.
fn splice(input: &mut Vec<u8>, at: usize, other: &[u8], random: &mut Random) {
    let from = random.below(other.len());
    let piece = other[from..(from + random.below(64)).min(other.len())].to_vec();
    let end = (at + random.below(2) * piece.len()).min(input.len());
    input.splice(at..end, piece);
}

/// Another number, or no number, in place of one in a text.
fn number(input: &mut Vec<u8>, random: &mut Random) {
    let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    let starts: Vec<_> = (0..input.len())
        .filter(|&at| input[at].is_ascii_digit() && (at == 0 || !is_part(input[at - 1])))
        .take(2000)
        .collect();
    if let Some(&start) = starts.get(random.below(starts.len())) {
        let end = start + input[start..].iter().take_while(|byte| is_part(**byte)).count();
        input.splice(start..end, WORDS[random.below(WORDS.len())].bytes());
    }
}
