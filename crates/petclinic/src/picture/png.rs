//! The part of PNG (ISO/IEC 15948) that one truecolour picture needs.

use std::io::{Read as _, Write as _};

use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use super::canvas::Picture;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Eight bits per sample, truecolour, deflate, no row filter, not interlaced.
const FORMAT: [u8; 5] = [8, 2, 0, 0, 0];

pub(crate) fn encode(picture: &Picture) -> Vec<u8> {
    let mut rows = ZlibEncoder::new(Vec::new(), Compression::best());
    for row in picture.pixels.chunks(picture.width) {
        rows.write_all(&[0]).unwrap();
        rows.write_all(row.as_flattened()).unwrap();
    }
    let mut header = Vec::new();
    header.extend(u32::try_from(picture.width).unwrap().to_be_bytes());
    header.extend(u32::try_from(picture.height).unwrap().to_be_bytes());
    header.extend(FORMAT);

    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, b"IHDR", &header);
    chunk(&mut file, b"IDAT", &rows.finish().unwrap());
    chunk(&mut file, b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    file.extend(kind);
    file.extend(data);
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    file.extend(crc.sum().to_be_bytes());
}

/// Reads what `encode` writes.
pub(crate) fn decode(file: &[u8]) -> Picture {
    let mut rest = file.strip_prefix(SIGNATURE).unwrap();
    let (mut width, mut height, mut data) = (0, 0, Vec::new());
    while !rest.is_empty() {
        let length = number(&rest[..4]);
        let (kind, body) = (&rest[4..8], &rest[8..8 + length]);
        match kind {
            b"IHDR" => {
                (width, height) = (number(&body[..4]), number(&body[4..8]));
                assert_eq!(body[8..], FORMAT);
            }
            b"IDAT" => data.extend_from_slice(body),
            _ => {}
        }
        rest = &rest[8 + length + 4..];
    }
    let mut rows = Vec::new();
    ZlibDecoder::new(data.as_slice()).read_to_end(&mut rows).unwrap();
    let pixels = rows
        .chunks(1 + width * 3)
        .flat_map(|row| row[1..].chunks(3).map(|rgb| [rgb[0], rgb[1], rgb[2]]))
        .collect();
    Picture { width, height, pixels }
}

fn number(bytes: &[u8]) -> usize {
    u32::from_be_bytes(bytes.try_into().unwrap()) as usize
}
