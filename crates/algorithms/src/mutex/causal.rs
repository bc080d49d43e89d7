//! Which requests were made in knowledge of which others.

use alloc::vec;
use alloc::vec::Vec;

use conclave_core::Transit;

/// Which requests are in whose past: of each process only the last request counts, so that a bit tells it.
#[derive(Clone, Debug)]
pub(super) struct Causal {
    /// Of each process: whose last requests it knows of.
    knows: Vec<u64>,
    /// The number of the first message sent after the last request of each process.
    asked: Vec<u64>,
    /// By slot of a message in flight: what its sender knew.
    carried: Vec<u64>,
    /// The number of the next message.
    serial: u64,
}

impl Causal {
    /// Above this size the order is not judged: a set of processes must fit a word.
    pub const MOST: usize = 64;

    pub fn new(n: usize) -> Self {
        Self { knows: vec![0; n], asked: vec![0; n], carried: Vec::new(), serial: 0 }
    }

    /// A new life knows nothing of what the old one knew.
    pub fn forget(&mut self, place: usize) {
        self.knows[place] = 0;
    }

    /// A process makes a request; says whose last requests it knows of.
    pub fn request(&mut self, place: usize) -> u64 {
        // What anyone knew of this process was an earlier request.
        for known in &mut self.knows {
            *known &= !(1 << place);
        }
        self.asked[place] = self.serial;
        let past = self.knows[place];
        self.knows[place] |= 1 << place;
        past
    }

    #[inline(always)]
    pub fn send(&mut self, transit: &Transit) {
        self.serial = transit.serial + 1;
        self.carry(transit.slot, self.knows[transit.from.index()]);
    }

    pub fn copy(&mut self, transit: &Transit, copy: &Transit) {
        self.serial = copy.serial + 1;
        // The copy has a later number than the original, but tells nothing newer.
        let mut known = self.carried[transit.slot as usize];
        for (place, asked) in self.asked.iter().enumerate() {
            if *asked > transit.serial {
                known &= !(1 << place);
            }
        }
        self.carry(copy.slot, known);
    }

    #[inline(always)]
    fn carry(&mut self, slot: u32, known: u64) {
        match self.carried.get_mut(slot as usize) {
            Some(carried) => *carried = known,
            None => self.carried.resize(slot as usize + 1, known),
        }
    }

    #[inline(always)]
    pub fn deliver(&mut self, transit: &Transit) {
        let known = &mut self.knows[transit.to.index()];
        let mut news = self.carried[transit.slot as usize] & !*known;
        while news != 0 {
            let place = news.trailing_zeros() as usize;
            news &= news - 1;
            // A message sent before the present request can only have told of an earlier one.
            if self.asked[place] <= transit.serial {
                *known |= 1 << place;
            }
        }
    }
}
