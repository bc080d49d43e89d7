//! Pages: how much of something long goes into one answer, and where the next one begins.
//!
//! A client takes messages of up to 4 MiB, and whoever builds an answer keeps the state from going on. So a page ends
//! after a number of items and after a number of bytes, whichever comes first.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use conclave_service::{QueuePlace, RequestId, Token};
use prost::Message;
use tonic::Status;

use crate::mutant::{self, Mutant};

/// Items in one page, unless fewer are asked for.
const ITEMS: usize = 1000;
/// Bytes in one page. The last item may go beyond it; none has more than 64 KiB.
const BYTES: usize = 1 << 20;

/// What still fits into a page.
pub struct Room {
    items: usize,
    bytes: usize,
}

impl Room {
    /// A whole page, of this many items if that is fewer than usual; 0 is the usual number.
    pub fn new(limit: u32) -> Self {
        let items = match usize::try_from(limit) {
            Ok(limit) if limit > 0 => limit.min(ITEMS),
            _ => ITEMS,
        };
        Self { items, bytes: BYTES }
    }

    /// Whether nothing more fits. A new page always has room for one item, so that every page gets on.
    pub fn is_full(&self) -> bool {
        self.items == 0 || self.bytes == 0 && !mutant::is(Mutant::PagesByCount)
    }

    /// Puts something onto the page.
    pub fn put<T: Message>(&mut self, item: T, onto: &mut Vec<T>) {
        self.items = self.items.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(item.encoded_len());
        onto.push(item);
    }
}

/// Where a page begins: in the first of two lists or in the second, behind an item or at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<A, B> {
    First(Option<A>),
    Second(Option<B>),
}

/// Something that a page can begin behind.
pub trait Mark: Copy {
    fn write(self, bytes: &mut BytesMut);
    fn read(bytes: &mut Bytes) -> Option<Self>;
}

impl Mark for Token {
    fn write(self, bytes: &mut BytesMut) {
        bytes.put_u64(self.0);
    }

    fn read(bytes: &mut Bytes) -> Option<Self> {
        bytes.try_get_u64().ok().map(Self)
    }
}

impl Mark for RequestId {
    fn write(self, bytes: &mut BytesMut) {
        bytes.put_u64(self.0);
    }

    fn read(bytes: &mut Bytes) -> Option<Self> {
        bytes.try_get_u64().ok().map(Self)
    }
}

impl Mark for QueuePlace {
    fn write(self, bytes: &mut BytesMut) {
        bytes.put_i64(self.rank);
        bytes.put_u64(self.arrival);
    }

    fn read(bytes: &mut Bytes) -> Option<Self> {
        Some(Self { rank: bytes.try_get_i64().ok()?, arrival: bytes.try_get_u64().ok()? })
    }
}

impl<A: Mark, B: Mark> Start<A, B> {
    /// What a client was given with the page before; nothing is the beginning.
    pub fn read(from: &Bytes) -> Result<Self, Status> {
        let mut rest = from.clone();
        let list = rest.try_get_u8().unwrap_or(1);
        let read = match (list, rest.is_empty()) {
            (1, true) => Some(Self::First(None)),
            (1, false) => A::read(&mut rest).map(|mark| Self::First(Some(mark))),
            (2, true) => Some(Self::Second(None)),
            (2, false) => B::read(&mut rest).map(|mark| Self::Second(Some(mark))),
            _ => None,
        };
        let wrong = || Status::invalid_argument("'from' is not the 'next' of a page of this server");
        read.filter(|_| rest.is_empty()).ok_or_else(wrong)
    }

    /// The same for the client, to be given back.
    pub fn write(self) -> Bytes {
        let mut bytes = BytesMut::new();
        match self {
            Self::First(mark) => {
                bytes.put_u8(1);
                mark.into_iter().for_each(|mark| mark.write(&mut bytes));
            }
            Self::Second(mark) => {
                bytes.put_u8(2);
                mark.into_iter().for_each(|mark| mark.write(&mut bytes));
            }
        }
        bytes.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant::tests::assert_caught;

    type Shown = Start<Token, QueuePlace>;

    #[test]
    fn a_start_comes_back_as_it_was_given() {
        let place = QueuePlace { rank: i64::MIN, arrival: 7 };
        for start in [
            Shown::First(None),
            Shown::First(Some(Token(9))),
            Shown::Second(None),
            Shown::Second(Some(place)),
        ] {
            assert_eq!(Shown::read(&start.write()).ok(), Some(start));
        }
        assert_eq!(Shown::read(&Bytes::new()).ok(), Some(Shown::First(None)));
    }

    #[test]
    fn what_is_no_start_is_refused() {
        for wrong in [&[3][..], &[1, 0], &[2, 0, 0, 0, 0, 0, 0, 0, 1], &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[0]]
        {
            assert!(Shown::read(&Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_page_ends_by_items_and_by_bytes() {
        let (mut room, mut page) = (Room::new(2), Vec::new());
        while !room.is_full() {
            room.put("short".to_owned(), &mut page);
        }
        assert_eq!(page.len(), 2);
        let (mut room, mut page) = (Room::new(0), Vec::new());
        while !room.is_full() {
            room.put("x".repeat(60_000), &mut page);
        }
        assert!((17..=18).contains(&page.len()), "{} items of 60 kB", page.len());
    }

    #[test]
    fn that_pages_end_by_bytes_is_tested() {
        let test = "front::page::tests::a_page_ends_by_items_and_by_bytes";
        assert_caught(test, Mutant::PagesByCount, "1000 items of 60 kB");
    }
}
