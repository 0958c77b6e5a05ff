//! How long the pages of a Parquet file are when they are unpacked, which is found out before any is.
//!
//! The library reserves what the head of a page says, or unpacks a page to its end whatever its head says:
//! some kB may stand for gigabytes of memory.

use super::MAX_GROUP;
use crate::input::Raw;
use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use std::io::{self, BufReader, Read};

/// The deepest nesting of the head of a page.
const MAX_DEPTH: usize = 8;

/// Checks that the pages of each row group are no longer than [`MAX_GROUP`] together, and none longer than
/// its head says. Where pages are packed by gzip or zstd they are unpacked, and not kept.
pub(super) fn check(raw: &Raw, about: &ParquetMetaData) -> Result<(), String> {
    for group in about.row_groups() {
        let mut bytes = 0u64;
        for column in group.columns() {
            let (start, length) = column.byte_range();
            let packed = column.compression();
            let mut chunk = BufReader::new(raw.from(start).map_err(|e| e.to_string())?).take(length);
            while chunk.limit() > 0 {
                let head =
                    Head::read(&mut chunk).map_err(|e| format!("the head of a page is damaged: {e}"))?;
                bytes = bytes.saturating_add(head.unpacked);
                if bytes > MAX_GROUP as u64 {
                    return Err(format!(
                        "the pages of a row group have more than {MAX_GROUP} bytes when they are unpacked: write smaller groups"
                    ));
                }
                if head.packed > chunk.limit() {
                    return Err("a page is longer than its column".into());
                }
                let mut body = (&mut chunk).take(head.packed);
                let skipped = io::copy(&mut (&mut body).take(head.levels), &mut io::sink());
                let rest = head.unpacked.saturating_sub(head.levels);
                let longer = skipped.and_then(|_| match packed {
                    Compression::GZIP(_) if head.compressed => {
                        is_longer(MultiGzDecoder::new(&mut body), rest)
                    }
                    Compression::ZSTD(_) if head.compressed => {
                        is_longer(zstd::stream::read::Decoder::new(&mut body)?, rest)
                    }
                    _ => Ok(false),
                });
                if longer.map_err(|e| e.to_string())? {
                    return Err("a page is longer than its head says".into());
                }
                io::copy(&mut body, &mut io::sink()).map_err(|e| e.to_string())?;
            }
        }
    }
    Ok(())
}

/// Whether `unpacked` has more bytes than `most`.
fn is_longer(unpacked: impl Read, most: u64) -> io::Result<bool> {
    Ok(io::copy(&mut unpacked.take(most + 1), &mut io::sink())? > most)
}

/// What the head of a page says of its length.
#[derive(Debug, Default, PartialEq)]
struct Head {
    unpacked: u64,
    packed: u64,
    /// Bytes of levels before what is compressed, in pages of the second version.
    levels: u64,
    compressed: bool,
}

impl Head {
    /// Reads a `PageHeader` of the Parquet format in Thrift's compact protocol.
    fn read(bytes: &mut impl Read) -> io::Result<Self> {
        let mut head = Head { compressed: true, ..Head::default() };
        read_struct(bytes, &mut Vec::new(), &mut |path, value| match path {
            [2] => head.unpacked = value.max(0) as u64,
            [3] => head.packed = value.max(0) as u64,
            // DataPageHeaderV2: bytes of both kinds of levels, and whether the values are compressed.
            [8, 5 | 6] => head.levels = head.levels.saturating_add(value.max(0) as u64),
            [8, 7] => head.compressed = value == 1,
            _ => {}
        })?;
        Ok(head)
    }
}

/// Reads the fields of a struct. `take` gets each number and truth, with the numbers of the fields that lead
/// to it.
fn read_struct(
    bytes: &mut impl Read,
    path: &mut Vec<i64>,
    take: &mut impl FnMut(&[i64], i64),
) -> io::Result<()> {
    if path.len() >= MAX_DEPTH {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut id = 0i64;
    loop {
        let head = byte(bytes)?;
        if head == 0 {
            return Ok(());
        }
        id = match head >> 4 {
            0 => signed(bytes)?,
            step => id.saturating_add(step.into()),
        };
        path.push(id);
        match head & 15 {
            truth @ (1 | 2) => take(path, i64::from(truth == 1)),
            kind => read_value(bytes, kind, path, take)?,
        }
        path.pop();
    }
}

fn read_value(
    bytes: &mut impl Read,
    kind: u8,
    path: &mut Vec<i64>,
    take: &mut impl FnMut(&[i64], i64),
) -> io::Result<()> {
    match kind {
        1..=3 => take(path, byte(bytes)?.into()),
        4..=6 => take(path, signed(bytes)?),
        7 => skip(bytes, 8)?,
        8 => {
            let length = number(bytes)?;
            skip(bytes, length)?;
        }
        9 | 10 => {
            let head = byte(bytes)?;
            let count = if head >> 4 == 15 { number(bytes)? } else { (head >> 4).into() };
            path.push(-1);
            if path.len() >= MAX_DEPTH {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // Every element takes a byte or more of the file, which ends.
            for _ in 0..count {
                read_value(bytes, head & 15, path, take)?;
            }
            path.pop();
        }
        12 => read_struct(bytes, path, take)?,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    Ok(())
}

fn byte(bytes: &mut impl Read) -> io::Result<u8> {
    let mut one = [0];
    bytes.read_exact(&mut one)?;
    Ok(one[0])
}

/// A number with seven bits a byte, the lowest first.
fn number(bytes: &mut impl Read) -> io::Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        value |= u64::from(next & 127) << shift;
        if next < 128 {
            return Ok(value);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// A number whose lowest bit is its sign.
fn signed(bytes: &mut impl Read) -> io::Result<i64> {
    let value = number(bytes)?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

fn skip(bytes: &mut impl Read, count: u64) -> io::Result<()> {
    match io::copy(&mut bytes.take(count), &mut io::sink())? == count {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a page of the second version, by hand from the format's description.
    #[test]
    fn heads_are_read() {
        // type 3; unpacked 300; packed 100; 8: { values 1, nulls 0, rows 1, encoding 0, levels 5 and 2,
        // false, statistics { 5: "ab" } }.
        let head = [
            0x15, 6, 0x15, 0xD8, 0x04, 0x15, 0xC8, 0x01, 0x5C, 0x15, 2, 0x15, 0, 0x15, 2, 0x15, 0, 0x15, 10,
            0x15, 4, 0x12, 0x1C, 0x58, 2, b'a', b'b', 0, 0, 0,
        ];
        let read = Head::read(&mut &head[..]).unwrap();
        assert_eq!(read, Head { unpacked: 300, packed: 100, levels: 7, compressed: false });
        for end in 0..head.len() {
            assert!(Head::read(&mut &head[..end]).is_err(), "{end}");
        }
        assert!(Head::read(&mut &[0x1C; 40][..]).is_err());
        assert!(Head::read(&mut &[0x19; 40][..]).is_err());
    }
}
