//! Files that are cut, changed, torn, put in another order: records that were acknowledged are there, or the
//! log is refused and stays as it is.

use crate::*;
use hash_log::Error;
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::ops::Range;
use tempfile::TempDir;

/// A folder with a log of one segment.
struct Sample {
    folder: TempDir,
    file: PathBuf,
    bytes: Vec<u8>,
    groups: Vec<Range<usize>>,
    records: Vec<Vec<u8>>,
}

impl Sample {
    /// Groups of one record and of several, records of no byte and of many; a mark at the end if it was
    /// closed.
    fn new(closed: bool) -> Self {
        let folder = TempDir::new().unwrap();
        let log = create(folder.path());
        let record = |number: usize| vec![number as u8; [0, 3, 659, 40][number % 4]];
        let records: Vec<_> = (0..14).map(record).collect();
        append_all(&log, &records[..6]);
        append_all(&log, &records[6..7]);
        append_all(&log, &records[7..]);
        let file = segments(folder.path()).remove(0);
        let mut bytes = fs::read(&file).unwrap();
        drop(log);
        if closed {
            bytes = fs::read(&file).unwrap();
        }
        let groups = groups(&bytes);
        Sample { folder, file, bytes, groups, records }
    }

    fn read(&self, bytes: &[u8]) -> Result<(Replayed, Vec<Vec<u8>>), Error> {
        // Without emptying the file first, after which some file systems write it to the disk at once.
        let mut file = fs::File::options().write(true).open(&self.file).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        read(self.folder.path(), &start())
    }

    /// The records of the first groups.
    fn records_of(&self, groups: usize) -> &[Vec<u8>] {
        &self.records[..self.groups[..groups].iter().map(|g| count(&self.bytes[g.clone()])).sum()]
    }

    /// Opens these bytes: the log has the records given, and takes one more.
    fn goes_on(&self, bytes: &[u8], records: &[Vec<u8>]) {
        fs::write(&self.file, bytes).unwrap();
        let (log, _, found) = open(self.folder.path(), &start()).unwrap();
        assert!(found == records);
        let head = log.append(b"one more").unwrap().wait().unwrap();
        drop(log);
        let (replayed, found) = read(self.folder.path(), &start()).unwrap();
        assert_eq!((replayed.head, replayed.torn), (head, 0));
        assert!(found.split_last().unwrap() == (&b"one more".to_vec(), records));
        groups(&fs::read(&self.file).unwrap());
    }
}

#[test]
fn every_prefix_has_the_records_of_its_complete_groups() {
    let sample = Sample::new(true);
    let header = sample.groups[0].start;
    for length in 0..=sample.bytes.len() {
        let result = sample.read(&sample.bytes[..length]);
        if length < header {
            assert!(matches!(result, Err(Error::Damaged { .. })), "{length}: {result:?}");
            continue;
        }
        let (replayed, found) = result.unwrap();
        let complete = sample.groups.iter().filter(|group| group.end <= length).count();
        let end = if complete == 0 { header } else { sample.groups[complete - 1].end };
        assert!(found == sample.records_of(complete), "{length}");
        assert_eq!(replayed.torn, (length - end) as u64);
        if length % 97 == 0 {
            sample.goes_on(&sample.bytes[..length], sample.records_of(complete));
        }
    }
}

/// One changed bit loses no record of a log that ends with a mark, and no group but the last of one that does
/// not.
#[test]
fn one_changed_bit_is_damage() {
    for closed in [true, false] {
        let sample = Sample::new(closed);
        let last = sample.groups.last().unwrap().clone();
        assert_eq!(last.len() == 64, closed);
        for position in 0..sample.bytes.len() * 8 {
            let mut bytes = sample.bytes.clone();
            bytes[position / 8] ^= 1 << (position % 8);
            match sample.read(&bytes) {
                Ok((_, found)) => {
                    assert!(last.contains(&(position / 8)), "{closed} {position}");
                    assert!(found == sample.records_of(sample.groups.len() - 1));
                }
                Err(Error::Damaged { .. } | Error::Version { .. } | Error::Identity { .. }) => {}
                Err(error) => panic!("{position}: {error}"),
            }
        }
    }
}

/// A group with anything behind it was durable, even if what follows is torn itself.
#[test]
fn a_changed_group_before_a_torn_one_is_damage() {
    let sample = Sample::new(false);
    let [.., group, last] = &sample.groups[..] else { unreachable!("there are several") };
    let mut bytes = sample.bytes.clone();
    bytes[group.end - 1] ^= 1;
    bytes[last.start] ^= 1;
    for end in last.start + 1..=last.end {
        let result = sample.read(&bytes[..end]);
        assert!(matches!(result, Err(Error::Damaged { offset, .. }) if offset == group.start as u64));
    }
    // The control: with nothing behind it, it may be torn.
    assert!(sample.read(&bytes[..last.start]).unwrap().1 == sample.records_of(sample.groups.len() - 2));
}

/// What is refused is not changed.
#[test]
fn a_refused_log_stays_as_it_is() {
    let sample = Sample::new(false);
    let mut bytes = sample.bytes.clone();
    bytes[sample.groups[1].start + 70] ^= 1;
    // A torn group at its end, and what a crash left of a new segment.
    bytes.truncate(bytes.len() - 1);
    fs::write(&sample.file, &bytes).unwrap();
    let new = sample.file.with_file_name("00000000000000000014.log.new");
    fs::write(&new, b"hash").unwrap();
    let error = open(sample.folder.path(), &start()).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, Error::Damaged { offset, .. } if offset == sample.groups[1].start as u64),
        "{text}"
    );
    assert!(
        text.contains("restore the folder from a backup") && text.contains(".log is damaged at byte"),
        "{text}"
    );
    assert!(fs::read(&sample.file).unwrap() == bytes && new.exists());

    // The other way round: a log that opens, opens without the rest.
    sample.goes_on(&sample.bytes, &sample.records);
    assert!(!new.exists());
}

/// A log from which a group was taken, or to which one was added, or that has them in another order.
#[test]
fn groups_in_another_order_are_damage() {
    let sample = Sample::new(true);
    let header = &sample.bytes[..sample.groups[0].start];
    let group = |index: usize| &sample.bytes[sample.groups[index].clone()];
    let all: Vec<usize> = (0..sample.groups.len()).collect();
    let refused = |order: &[usize]| {
        let groups = order.iter().map(|index| group(*index));
        let bytes: Vec<u8> = std::iter::once(header).chain(groups).flatten().copied().collect();
        let result = sample.read(&bytes);
        assert!(matches!(result, Err(Error::Damaged { .. })), "{order:?}: {result:?}");
    };
    let mark = all.len() - 1;
    for first in 0..all.len() {
        if first < mark {
            refused(&[&all[..first], &all[first + 1..]].concat());
            // Twice, at its place and at the end.
            refused(&[&all[..=first], &all[first..]].concat());
            refused(&[&all[..], &[first]].concat());
            refused(&[&all[..], &all[first..]].concat());
        }
        for second in first + 1..all.len() {
            let mut order = all.clone();
            order.swap(first, second);
            refused(&order);
        }
    }
    // A mark twice says the same twice.
    let bytes = [&sample.bytes[..], group(mark)].concat();
    assert!(sample.read(&bytes).unwrap().1 == sample.records);
}

/// What is cut off is at most one group. A longer tail in which no group can be found is damage, because
/// groups that were acknowledged may have been in it.
#[test]
fn a_tail_longer_than_a_group_is_damage() {
    const LONGEST_GROUP: usize = 64 + (1 << 20);
    let sample = Sample::new(true);
    let end = sample.bytes.len() as u64;
    let with_tail = |length: usize| [&sample.bytes[..], &vec![0; length]].concat();
    let (replayed, found) = sample.read(&with_tail(LONGEST_GROUP)).unwrap();
    assert!(found == sample.records && replayed.torn == LONGEST_GROUP as u64);
    let bytes = with_tail(LONGEST_GROUP + 1);
    let refused = sample.read(&bytes);
    assert!(matches!(refused, Err(Error::Damaged { offset, .. }) if offset == end), "{refused:?}");
    assert!(open(sample.folder.path(), &start()).is_err() && fs::read(&sample.file).unwrap() == bytes);
}

/// A segment stands where its name and the one before say: the segment of another history does not continue
/// this one, even without a record, and no segment is read under another name.
#[test]
fn segments_in_another_place_are_damage() {
    let rotated = |records: &[Vec<u8>]| {
        let folder = TempDir::new().unwrap();
        let log = create(folder.path());
        append_all(&log, records);
        let head = log.rotate().unwrap();
        drop(log);
        (folder, head)
    };
    let (own, head) = rotated(&[vec![1; 5], vec![2; 5]]);
    let (other, _) = rotated(&[vec![1; 5], vec![3; 5]]);
    let [first, second] = <[PathBuf; 2]>::try_from(segments(own.path())).unwrap();
    let good = fs::read(&second).unwrap();
    fs::write(&second, fs::read(&segments(other.path())[1]).unwrap()).unwrap();
    let refused = read(own.path(), &start());
    assert!(matches!(refused, Err(Error::Damaged { ref path, .. }) if *path == second), "{refused:?}");
    assert!(open(own.path(), &start()).is_err());
    fs::write(&second, good).unwrap();
    assert_eq!(read(own.path(), &start()).unwrap().1.len(), 2, "the control");

    // Nothing was written to a segment after the next one was begun.
    let whole = fs::read(&first).unwrap();
    fs::write(&first, [&whole[..], b"torn"].concat()).unwrap();
    let refused = read(own.path(), &start());
    assert!(matches!(refused, Err(Error::Damaged { ref path, .. }) if *path == first), "{refused:?}");
    fs::write(&first, whole).unwrap();

    fs::remove_file(&second).unwrap();
    fs::rename(&first, &second).unwrap();
    let refused = read(own.path(), &head);
    assert!(matches!(refused, Err(Error::Damaged { ref path, .. }) if *path == second), "{refused:?}");
}

/// A record cannot make a torn group look like damage, which would stop the server: the header of a group in
/// it is none of this log. The control is a header that is one.
#[test]
fn attack_record_with_the_header_of_a_group() {
    let folder = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    let header = |folder: &Path, salt| {
        let log = Log::create(folder, IDENTITY, LIMIT, salt).unwrap();
        append_all(&log, &[b"first".to_vec()]);
        let bytes = fs::read(&segments(folder)[0]).unwrap();
        (log, bytes[groups(&bytes)[0].clone()][..64].to_vec())
    };
    // The same log under another salt, the only thing that the author of records does not know.
    let (_other, foreign) = header(other.path(), [8; 32]);
    let (log, own) = header(folder.path(), SALT);
    for (planted, refused) in [(foreign, false), (own, true)] {
        append_all(&log, &[[&[0; 100], &planted[..], &[0; 1000]].concat()]);
        let file = &segments(folder.path())[0];
        let bytes = fs::read(file).unwrap();
        let torn = &bytes[..bytes.len() - 500];
        let copy = TempDir::new().unwrap();
        fs::write(copy.path().join(file.file_name().unwrap()), torn).unwrap();
        let result = read(copy.path(), &start());
        assert_eq!(matches!(result, Err(Error::Damaged { .. })), refused, "{result:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Of the last group any sectors may be missing after a loss of power, read as zeros or as what was there
    /// before, and the file may end anywhere in it. All groups before it are kept, and nothing of it.
    #[test]
    fn a_torn_group_is_cut_off(
        written in prop::collection::vec(any::<bool>(), 8),
        end in 0.0..=1.0f64,
        stale in any::<[u8; 32]>(),
        opened in prop::bool::weighted(0.05),
    ) {
        let sample = sample();
        let last = sample.groups.last().unwrap();
        let end = last.start + ((last.len() as f64) * end) as usize;
        let mut bytes = sample.bytes[..end].to_vec();
        for position in last.start..end {
            // Sectors begin at multiples of 512 bytes of the file.
            if !written[position / 512 % 8] {
                bytes[position] = stale[position % 32] * stale[0].wrapping_shr(7);
            }
        }
        let complete = sample.groups.len() - usize::from(bytes != sample.bytes);
        let copy = TempDir::new().unwrap();
        let file = copy.path().join(sample.file.file_name().unwrap());
        fs::write(&file, &bytes).unwrap();
        let (_, found) = read(copy.path(), &start()).unwrap();
        prop_assert!(found == sample.records_of(complete));
        if opened {
            let (log, replayed, found) = open(copy.path(), &start()).unwrap();
            prop_assert!(found == sample.records_of(complete));
            prop_assert_eq!(log.head(), replayed.head);
            drop(log);
            prop_assert!(groups(&fs::read(&file).unwrap()).len() == complete + 1);
        }
    }

    /// Bytes of any kind, alone and behind a valid header, are read without a panic, and no record is made of
    /// them.
    #[test]
    fn any_bytes_are_read(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        kept in 0usize..300,
        magic in any::<bool>(),
    ) {
        let sample = sample();
        let copy = TempDir::new().unwrap();
        let file = copy.path().join(sample.file.file_name().unwrap());
        let kept = kept.min(sample.groups[0].start + 64);
        let magic = if magic { &b"\xa5grp"[..] } else { b"" };
        fs::write(&file, [&sample.bytes[..kept], magic, &bytes].concat()).unwrap();
        if let Ok((replayed, found)) = read(copy.path(), &start()) {
            prop_assert!(found.is_empty());
            prop_assert_eq!(replayed.head, start());
        }
    }
}

/// One log for all cases: its last group has records and spans sectors.
fn sample() -> &'static Sample {
    static SAMPLE: std::sync::LazyLock<Sample> = std::sync::LazyLock::new(|| Sample::new(false));
    &SAMPLE
}
