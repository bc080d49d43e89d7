//! Values stored once and named by a number.
//!
//! A search meets the same process states, messages and channel contents again and again, in ever new combinations. Each
//! is stored once; a global state is a short tuple of numbers.
//!
//! Numbers are given in the order of first occurrence, which depends on the model alone: not on threads, not on addresses.

use core::hash::{BuildHasher, Hash, Hasher};

use hashbrown::HashTable;

/// Numbers with this bit were given by one worker and mean nothing to the others yet.
pub const LOCAL: u32 = 1 << 31;

/// A hash that is the same in every run: a multiply and a rotation per word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed;

/// See [`Fixed`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Mixer {
    #[inline(always)]
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }
}

impl Hasher for Mixer {
    #[inline(always)]
    fn finish(&self) -> u64 {
        // The table takes its place from the low bits and its tag from the high ones.
        (self.0 ^ (self.0 >> 32)).wrapping_mul(FACTOR).rotate_left(29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }
    #[inline(always)]
    fn write_u8(&mut self, word: u8) {
        self.mix(u64::from(word));
    }
    #[inline(always)]
    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }
    #[inline(always)]
    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }
    #[inline(always)]
    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }
}

impl BuildHasher for Fixed {
    type Hasher = Mixer;

    #[inline(always)]
    fn build_hasher(&self) -> Mixer {
        Mixer::default()
    }
}

/// What was worked out before, by what it was worked out from: looked up, and never walked through.
pub type Memo<K, V> = hashbrown::HashMap<K, V, Fixed>;

/// The hash of a tuple.
#[inline(always)]
pub fn hash_words(words: &[u32]) -> u64 {
    let mut mixer = Mixer::default();
    let mut pairs = words.chunks_exact(2);
    for pair in &mut pairs {
        mixer.mix(u64::from(pair[0]) | u64::from(pair[1]) << 32);
    }
    if let [last] = pairs.remainder() {
        mixer.mix(u64::from(*last));
    }
    mixer.finish()
}

/// Values of one kind, each stored once.
#[derive(Clone, Debug)]
pub struct Interner<T> {
    items: Vec<T>,
    table: HashTable<u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { items: Vec::new(), table: HashTable::new() }
    }
}

impl<T: Hash + Eq> Interner<T> {
    pub fn len(&self) -> usize {
        self.items.len()
    }

    #[inline(always)]
    pub fn get(&self, id: u32) -> &T {
        &self.items[id as usize]
    }

    #[inline]
    pub fn find(&self, hash: u64, item: &T) -> Option<u32> {
        self.table.find(hash, |id| self.items[*id as usize] == *item).copied()
    }

    /// The number of the value of which this is true.
    #[inline]
    pub fn find_by(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        self.table.find(hash, |id| is_it(&self.items[*id as usize])).copied()
    }

    /// The number of a value, old or new, and whether it is new.
    pub fn intern(&mut self, hash: u64, item: T) -> (u32, bool) {
        if let Some(id) = self.find(hash, &item) {
            return (id, false);
        }
        let id = self.items.len() as u32;
        assert!(id < LOCAL, "two thousand million values are more than fit");
        self.items.push(item);
        let items = &self.items;
        self.table.insert_unique(hash, id, |id| Fixed.hash_one(&items[*id as usize]));
        (id, true)
    }

    /// Forgets everything but the room that it took.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.table.clear();
        self.items.drain(..)
    }

    /// Bytes of the tables, without what the values themselves point to.
    pub fn bytes(&self) -> usize {
        self.items.capacity() * size_of::<T>() + table_bytes(&self.table)
    }
}

/// Bytes of a table of numbers.
pub fn table_bytes(table: &HashTable<u32>) -> usize {
    // Each bucket holds a number and a control byte; at most seven of eight are used.
    (table.capacity() * 8 / 7).next_power_of_two() * (size_of::<u32>() + 1)
}

/// Tuples in one piece of a row.
const PIECE: usize = 1 << 18;
/// Tables among which the numbers of tuples are divided.
const TABLES: usize = 64;

/// Tuples in a row, all of the same length.
///
/// It grows piece by piece: nothing is ever copied into something larger, so that a search can use nearly all of the
/// memory that it was given.
#[derive(Clone, Debug)]
pub struct Row<T> {
    width: usize,
    len: usize,
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Row<T> {
    /// A row of single values.
    fn default() -> Self {
        Self::new(1)
    }
}

impl<T> Row<T> {
    fn new(width: usize) -> Self {
        Self { width, len: 0, pieces: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn tuple(&self, at: usize) -> &[T] {
        let start = at % PIECE * self.width;
        &self.pieces[at / PIECE][start..start + self.width]
    }

    /// The piece that has room for one tuple more, which it is about to get.
    #[inline]
    fn grow(&mut self) -> &mut Vec<T> {
        let piece = self.len / PIECE;
        if piece == self.pieces.len() {
            // Only the first piece begins small: most searches do not fill it.
            let room = if piece == 0 { 0 } else { PIECE * self.width };
            self.pieces.push(Vec::with_capacity(room));
        }
        self.len += 1;
        &mut self.pieces[piece]
    }

    fn clear(&mut self) {
        self.len = 0;
        self.pieces.truncate(1);
        self.pieces.iter_mut().for_each(Vec::clear);
    }

    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.capacity() * size_of::<T>()).sum()
    }
}

impl<T: Copy> Row<T> {
    /// A value of a row of single ones.
    #[inline(always)]
    pub fn get(&self, at: usize) -> T {
        self.pieces[at / PIECE][at % PIECE]
    }

    #[inline]
    pub fn push(&mut self, value: T) {
        self.grow().push(value);
    }
}

/// Tuples of numbers, all of the same length, each stored once.
#[derive(Clone, Debug)]
pub struct Tuples {
    row: Row<u32>,
    tables: Vec<HashTable<u32>>,
}

impl Tuples {
    pub fn new(width: usize) -> Self {
        Self { row: Row::new(width), tables: vec![HashTable::new(); TABLES] }
    }

    pub fn width(&self) -> usize {
        self.row.width
    }

    pub fn len(&self) -> usize {
        self.row.len()
    }

    #[inline(always)]
    pub fn get(&self, id: u32) -> &[u32] {
        self.row.tuple(id as usize)
    }

    #[inline(always)]
    pub fn find(&self, hash: u64, tuple: &[u32]) -> Option<u32> {
        // Tuples are short: comparing word by word is faster than a call.
        let is_it = |id: &u32| self.get(*id).iter().zip(tuple).all(|(a, b)| a == b);
        self.tables[table_of(hash)].find(hash, is_it).copied()
    }

    pub fn intern(&mut self, hash: u64, tuple: &[u32]) -> u32 {
        if let Some(id) = self.find(hash, tuple) {
            return id;
        }
        let id = self.len() as u32;
        assert!(id < LOCAL, "two thousand million tuples are more than fit");
        self.row.grow().extend_from_slice(tuple);
        let row = &self.row;
        let rehash = |id: &u32| hash_words(row.tuple(*id as usize));
        self.tables[table_of(hash)].insert_unique(hash, id, rehash);
        id
    }

    pub fn clear(&mut self) {
        self.row.clear();
        self.tables.iter_mut().for_each(HashTable::clear);
    }

    pub fn bytes(&self) -> usize {
        self.row.bytes() + self.tables.iter().map(table_bytes).sum::<usize>()
    }

    /// Bytes that may be needed on top when it grows next: all tables become full at about the same time.
    pub fn growth(&self) -> usize {
        let largest = self.tables.iter().map(table_bytes).max().unwrap_or(0);
        TABLES / 8 * largest + PIECE * self.width() * size_of::<u32>()
    }
}

/// Each table takes its places from the low bits and its tags from the highest: here it is those between.
#[inline(always)]
fn table_of(hash: u64) -> usize {
    (hash >> 48) as usize % TABLES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_get_one_number() {
        let mut words = Interner::default();
        let mut intern = |word: &'static str| words.intern(Fixed.hash_one(word), word).0;
        assert_eq!([intern("a"), intern("b"), intern("a"), intern("c")], [0, 1, 0, 2]);
    }

    #[test]
    fn tuples_are_found_again_however_many_there_are() {
        let mut tuples = Tuples::new(3);
        for round in 0..2 {
            for i in 0..10_000u32 {
                let tuple = [i, i / 7, i % 13];
                assert_eq!(tuples.intern(hash_words(&tuple), &tuple), i, "round {round}");
            }
        }
        assert_eq!(tuples.len(), 10_000);
        assert_eq!(tuples.get(4_711), [4_711, 673, 5]);
    }

    #[test]
    fn what_grows_piece_by_piece_stays_as_it_was() {
        let count = 2 * PIECE + 3;
        let mut tuples = Tuples::new(2);
        let mut row = Row::default();
        for i in 0..count as u32 {
            assert_eq!(tuples.intern(hash_words(&[i, !i]), &[i, !i]), i);
            row.push(i);
        }
        assert_eq!((tuples.len(), row.len()), (count, count));
        for i in [0, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - 1, 2 * PIECE, count - 1] {
            let number = i as u32;
            assert_eq!(tuples.get(number), [number, !number]);
            assert_eq!(tuples.find(hash_words(&[number, !number]), &[number, !number]), Some(number));
            assert_eq!(row.get(i), number);
        }
        assert!(tuples.bytes() >= count * 8 && row.bytes() >= count * 4);
        tuples.clear();
        assert_eq!((tuples.len(), tuples.intern(hash_words(&[7, 7]), &[7, 7])), (0, 0));
    }
}
