//! Formulas of the literature, as numbers that a program can compare.

/// How many messages the literature gives for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formula {
    /// In words, per entry.
    pub text: &'static str,
    /// At least so many in all.
    pub low: u64,
    /// At most so many in all, if there is a bound.
    pub high: Option<u64>,
}

impl Formula {
    /// Exactly so many.
    #[must_use]
    pub fn exactly(text: &'static str, total: u64) -> Self {
        Self { text, low: total, high: Some(total) }
    }

    /// Between the two.
    #[must_use]
    pub fn between(text: &'static str, low: u64, high: u64) -> Self {
        Self { text, low, high: Some(high) }
    }

    /// The number, if there is just one.
    #[must_use]
    pub fn exact(&self) -> Option<u64> {
        (self.high == Some(self.low)).then_some(self.low)
    }

    /// Whether a measured number agrees.
    #[must_use]
    pub fn admits(&self, messages: u64) -> bool {
        self.low <= messages && self.high.is_none_or(|high| messages <= high)
    }
}
