//! Value log: what is too large for the tree, in blocks that follow one another in files of the directory. The tree has
//! the place of each instead (`value_blocks`). A file is only ever written to at its end, and goes as a whole once
//! nothing in it is needed any more (`value_collector`). It decides on nothing: what is noted with a checkpoint is
//! there, and what lies behind that was never acknowledged.
//!
//! ```text
//! write ─► fdatasync ─► the tree has the places ─► the checkpoint notes how far the log goes
//! ```
//!
//! Where a process ends before its checkpoint is noted, places may be in the tree whose values are not there, or are
//! others. The write-ahead log still has what lies at those keys, and is replayed before anybody asks.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::failpoint;
use crate::store::embedded::directory;
use crate::store::embedded::tree::Bytes;
use crate::store::embedded::value_blocks::{self, Block, HEADER_BYTES, Place, Value};
use crate::store::embedded::varints;

/// A segment takes no more once it is so long, in a small store. Tests go through many of them.
const SEGMENT_BYTES: u64 = if cfg!(debug_assertions) { 64 << 10 } else { 1 << 20 };
/// The same in the largest: a place in it is told in 32 bits.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Segments that a store has, about: their number grows with the logarithm of what they hold.
const SEGMENTS: u64 = 16;
/// Blocks that were read last, and what they may weigh together: whoever lists runs reads their neighbours next.
const RECENT_BLOCKS: usize = 32;
const RECENT_BYTES: usize = 4 << 20;

/// The log, open.
#[derive(Debug)]
pub(super) struct ValueLog {
    dir: PathBuf,
    segments: RwLock<BTreeMap<u32, Segment>>,
    recent: Mutex<Recent>,
}

/// One file of it.
#[derive(Debug)]
struct Segment {
    file: Arc<File>,
    /// How far it is written.
    end: u64,
    /// What its values weigh, unpacked, and what those of them do that the tree still has. By these is chosen what is
    /// collected; nothing is given up on their word.
    written: u64,
    live: u64,
}

/// How a segment stands, for whoever chooses one to be collected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub(super) segment: u32,
    pub(super) written: u64,
    pub(super) live: u64,
}

/// The blocks that were read last, unpacked.
#[derive(Debug, Default)]
struct Recent {
    blocks: VecDeque<(u32, u32, Arc<Vec<u8>>)>,
    bytes: usize,
}

/// Why the log cannot be opened.
#[derive(Debug)]
pub(super) enum ValueLogError {
    /// The operating system says no.
    Io(io::Error),
    /// What a checkpoint noted is not there.
    Lost(String),
}

impl From<io::Error> for ValueLogError {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

impl ValueLog {
    /// Opens the log as far as the last checkpoint noted it. What lies behind that is of a checkpoint that never was.
    pub(super) fn open(dir: PathBuf, noted: &[u8]) -> Result<Self, ValueLogError> {
        let noted = read_note(noted)
            .ok_or_else(|| ValueLogError::Lost("what is noted of `values/` is no note".into()))?;
        let mut segments = BTreeMap::new();
        for (number, end, written, live) in noted {
            let name = format!("`values/{number}`");
            let file = match writable(&dir.join(number.to_string()), false) {
                Ok(file) => Arc::new(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(ValueLogError::Lost(format!("{name} is missing")));
                }
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                    return Err(ValueLogError::Lost(format!("{name} is a directory")));
                }
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    return Err(ValueLogError::Lost("`values` is no directory".into()));
                }
                Err(error) => return Err(error.into()),
            };
            if file.metadata()?.len() < end {
                return Err(ValueLogError::Lost(format!("{name} has lost its end")));
            }
            segments.insert(number, Segment { file, end, written, live });
        }
        let (segments, recent) = (RwLock::new(segments), Mutex::default());
        Ok(Self { dir, segments, recent })
    }

    /// Removes the files that no checkpoint noted, and that were not begun since. Whatever has no number for a name is none.
    pub(super) fn remove_others(&self) -> io::Result<()> {
        let known = self.segments();
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let number = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
            if number.is_some_and(|number| !known.contains_key(&number)) {
                fs::remove_file(&path).map_err(|error| {
                    let name = path.file_name().unwrap_or_default().display();
                    let why = format!("`{name}` is nothing of the store's: move it away ({error})");
                    io::Error::new(error.kind(), why)
                })?;
            }
        }
        Ok(())
    }

    /// Writes values at the end, durably, and tells where each lies.
    pub(super) fn append(&self, values: Vec<Value>) -> io::Result<Vec<(Vec<u8>, Place)>> {
        let mut placed = Vec::with_capacity(values.len());
        let mut end = None;
        for block in value_blocks::blocks(values) {
            let mut writing = match end.take() {
                Some(end) => end,
                None => self.end()?,
            };
            placed.extend(writing.take(block));
            if writing.is_full() { self.write(&writing)? } else { end = Some(writing) }
        }
        end.map_or(Ok(()), |end| self.write(&end))?;
        Ok(placed)
    }

    /// The end of the log, in a new segment where the last one is full.
    fn end(&self) -> io::Result<End> {
        let mut segments = self.segments_mut();
        let total: u64 = segments.values().map(|segment| segment.end).sum();
        let full_at = (total / SEGMENTS).clamp(SEGMENT_BYTES, SEGMENT_BYTES_MAX);
        let last = segments.last_key_value().map(|(number, segment)| (*number, segment.end));
        let (segment, offset) = match last {
            Some((number, end)) if end < full_at => (number, end),
            Some((number, _)) => (self.begin(&mut segments, number + 1)?, 0),
            None => (self.begin(&mut segments, 1)?, 0),
        };
        Ok(End { segment, offset, full_at, bytes: Vec::new(), weight: 0 })
    }

    fn begin(&self, segments: &mut BTreeMap<u32, Segment>, number: u32) -> io::Result<u32> {
        if segments.is_empty() {
            fs::create_dir_all(&self.dir)?;
            self.dir.parent().map_or(Ok(()), |data| File::open(data)?.sync_all())?;
        }
        let file = Arc::new(writable(&self.dir.join(number.to_string()), true)?);
        File::open(&self.dir)?.sync_all()?;
        segments.insert(number, Segment { file, end: 0, written: 0, live: 0 });
        Ok(number)
    }

    fn write(&self, end: &End) -> io::Result<()> {
        let Some(file) = self.file(end.segment) else { return Err(io::ErrorKind::NotFound.into()) };
        file.write_all_at(&end.bytes, end.offset)?;
        failpoint::hit("store.values_written");
        file.sync_data()?;
        failpoint::hit("store.values_synced");
        if let Some(segment) = self.segments_mut().get_mut(&end.segment) {
            segment.end = end.at();
            segment.written = segment.written.saturating_add(end.weight);
            segment.live = segment.live.saturating_add(end.weight);
        }
        Ok(())
    }

    /// The value of a key; none if it rotted.
    pub(super) fn read(&self, key: &[u8], place: Place) -> io::Result<Option<Bytes>> {
        let Some(whole) = self.block(place)? else { return Ok(None) };
        let value = value_blocks::value(&whole, key, place.at);
        Ok(value.filter(|value| u32::try_from(value.len()) == Ok(place.bytes)).map(Bytes::from))
    }

    fn block(&self, place: Place) -> io::Result<Option<Arc<Vec<u8>>>> {
        if let Some(block) = self.recent().get(place.segment, place.offset) {
            return Ok(Some(block));
        }
        let Some(file) = self.file(place.segment) else { return Ok(None) };
        let bytes = usize::try_from(place.block).unwrap_or(usize::MAX);
        let Some(block) = read_at(&file, place.offset.into(), bytes)? else { return Ok(None) };
        let whole = value_blocks::whole(&block).map(Arc::new);
        if let Some(whole) = &whole {
            self.recent().add(place.segment, place.offset, Arc::clone(whole));
        }
        Ok(whole)
    }

    /// How large it is.
    pub(super) fn bytes(&self) -> u64 {
        self.segments().values().map(|segment| segment.end).sum()
    }

    /// The tree has a value no more.
    pub(super) fn give_up(&self, place: Place) {
        if let Some(segment) = self.segments_mut().get_mut(&place.segment) {
            segment.live = segment.live.saturating_sub(place.bytes.into());
        }
    }

    /// The segments that are not written to any more.
    pub(super) fn full_segments(&self) -> Vec<Standing> {
        let segments = self.segments();
        let full = segments.iter().rev().skip(1);
        full.map(|(&segment, &Segment { written, live, .. })| Standing { segment, written, live })
            .collect()
    }

    /// What the block holds that begins there in a segment, and where it lies; nothing at the segment's end.
    pub(super) fn block_at(
        &self,
        segment: u32,
        offset: u64,
    ) -> io::Result<Option<(Place, Option<Vec<u8>>)>> {
        let found = self.segments().get(&segment).map(|it| (Arc::clone(&it.file), it.end));
        let Some((file, end)) = found.filter(|(_, end)| offset < *end) else { return Ok(None) };
        let header = read_at(&file, offset, HEADER_BYTES)?;
        let header = header.as_deref().and_then(|header| header.first_chunk());
        let bytes = header.map_or(0, value_blocks::block_bytes);
        let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
        let block = if bytes <= left { read_at(&file, offset, bytes)? } else { None };
        let told = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let place = Place { segment, offset, block: told(bytes), at: 0, bytes: 0 };
        Ok(Some((place, block.and_then(|block| value_blocks::whole(&block)))))
    }

    /// How far the log goes, without a segment that is given up.
    pub(super) fn note(&self, without: Option<u32>) -> Vec<u8> {
        let mut note = Vec::new();
        for (number, segment) in &*self.segments() {
            if Some(*number) != without {
                for told in [u64::from(*number), segment.end, segment.written, segment.live] {
                    varints::put(&mut note, told);
                }
            }
        }
        note
    }

    /// Gives up a segment that no note names any more, and of which nobody holds a place.
    pub(super) fn remove(&self, segment: u32) -> io::Result<()> {
        failpoint::hit("store.before_segment_goes");
        let gone = self.segments_mut().remove(&segment);
        gone.map_or(Ok(()), |_| fs::remove_file(self.dir.join(segment.to_string())))?;
        failpoint::hit("store.after_segment_goes");
        Ok(())
    }

    fn file(&self, segment: u32) -> Option<Arc<File>> {
        self.segments().get(&segment).map(|segment| Arc::clone(&segment.file))
    }

    fn segments(&self) -> RwLockReadGuard<'_, BTreeMap<u32, Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn segments_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<u32, Segment>> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is about to be written at the end of the log.
struct End {
    segment: u32,
    offset: u64,
    full_at: u64,
    bytes: Vec<u8>,
    weight: u64,
}

impl End {
    fn at(&self) -> u64 {
        self.offset + u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    fn is_full(&self) -> bool {
        self.at() >= self.full_at
    }

    /// Takes on a block, and tells where its values will lie.
    fn take(&mut self, block: Block) -> Vec<(Vec<u8>, Place)> {
        let (segment, offset) = (self.segment, u32::try_from(self.at()).unwrap_or(u32::MAX));
        let length = u32::try_from(block.bytes.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&block.bytes);
        let values = block.values.into_iter();
        values
            .map(|(key, at, bytes)| {
                self.weight += u64::from(bytes);
                (key, Place { segment, offset, block: length, at, bytes })
            })
            .collect()
    }
}

impl Recent {
    fn get(&self, segment: u32, offset: u32) -> Option<Arc<Vec<u8>>> {
        let found = self.blocks.iter().find(|(of, at, _)| (*of, *at) == (segment, offset));
        found.map(|(.., block)| Arc::clone(block))
    }

    fn add(&mut self, segment: u32, offset: u32, block: Arc<Vec<u8>>) {
        self.bytes += block.len();
        self.blocks.push_back((segment, offset, block));
        while self.blocks.len() > RECENT_BLOCKS || self.bytes > RECENT_BYTES {
            let Some((.., oldest)) = self.blocks.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }
}

fn writable(path: &Path, is_new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(is_new).truncate(is_new).open(path)
}

/// So many bytes of a file; none where it is shorter.
fn read_at(file: &File, offset: u64, bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let mut found = vec![0; bytes];
    match file.read_exact_at(&mut found, offset) {
        Ok(()) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The segments of a note, each with its end and with what it holds; none if it is no note.
fn read_note(mut note: &[u8]) -> Option<Vec<(u32, u64, u64, u64)>> {
    let mut segments = Vec::new();
    while !note.is_empty() {
        let mut next = || varints::take(&mut note);
        segments.push((u32::try_from(next()?).ok()?, next()?, next()?, next()?));
    }
    Some(segments)
}

/// The value of a key by what lies in the tree for it, in a directory that nobody has open; none if that is no place, or
/// the value rotted.
pub(in crate::store) fn peek(data: &Path, key: &[u8], lies: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let Some(place) = Place::read(lies) else { return Ok(None) };
    let file = File::open(data.join(directory::VALUES).join(place.segment.to_string()))?;
    let bytes = usize::try_from(place.block).unwrap_or(usize::MAX);
    let whole = read_at(&file, place.offset.into(), bytes)?;
    let whole = whole.and_then(|block| value_blocks::whole(&block));
    Ok(whole.and_then(|whole| value_blocks::value(&whole, key, place.at).map(<[u8]>::to_vec)))
}
