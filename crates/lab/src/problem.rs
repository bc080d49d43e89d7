//! Why a request is not answered as it was meant.

use core::fmt::Display;

use serde_json::{Value, json};

/// What kind of reason it is; each has a status of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request cannot be read.
    Malformed,
    /// It comes from another page, or without the secret.
    Foreign,
    /// What had this id is no longer kept.
    Gone,
    /// There is nothing of this name.
    Unknown,
    /// Another method.
    Method,
    /// The body is over the limit.
    TooLong,
    /// The body is no JSON.
    Media,
    /// It is understood, and not possible.
    Refused,
    /// It would take too much.
    TooLarge,
    /// Too much is going on already.
    Busy,
    /// A fault of the program.
    Internal,
    /// It took too long.
    Timeout,
}

impl Code {
    /// Its name in an answer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Foreign => "foreign",
            Self::Gone => "gone",
            Self::Unknown => "unknown",
            Self::Method => "method",
            Self::TooLong => "too_long",
            Self::Media => "media",
            Self::Refused => "refused",
            Self::TooLarge => "too_large",
            Self::Busy => "busy",
            Self::Internal => "internal",
            Self::Timeout => "timeout",
        }
    }

    /// Its status.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Foreign => 403,
            Self::Gone | Self::Unknown => 404,
            Self::Method => 405,
            Self::TooLong => 413,
            Self::Media => 415,
            Self::Refused | Self::TooLarge => 422,
            Self::Busy => 429,
            Self::Internal => 500,
            Self::Timeout => 503,
        }
    }
}

/// Why a request is not answered: a sentence for people, and what they can do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{sentence}")]
pub struct Problem {
    /// The kind of reason.
    pub code: Code,
    sentence: String,
    hint: Option<String>,
    cost: Option<Value>,
}

impl Problem {
    /// What is wrong, in one sentence.
    pub fn new(code: Code, sentence: impl Display) -> Self {
        Self { code, sentence: sentence.to_string(), hint: None, cost: None }
    }

    /// It is understood, and not possible.
    pub fn refused(sentence: impl Display) -> Self {
        Self::new(Code::Refused, sentence)
    }

    /// The request cannot be read.
    pub fn malformed(sentence: impl Display) -> Self {
        Self::new(Code::Malformed, sentence)
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// What it would have cost.
    #[must_use]
    pub fn cost(mut self, cost: Value) -> Self {
        self.cost = Some(cost);
        self
    }

    /// The body of the answer.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut error = json!({ "code": self.code.name(), "sentence": self.sentence });
        if let Some(hint) = &self.hint {
            error["hint"] = hint.as_str().into();
        }
        if let Some(cost) = &self.cost {
            error["cost"] = cost.clone();
        }
        json!({ "error": error })
    }
}
