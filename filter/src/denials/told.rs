//! Answers to denied requests, kept as they were told: the next client whose key is the same is told the same, until a
//! time in it is another one.

use std::sync::Arc;

use super::Found;
use crate::answer::{self, Reply};
use crate::denied::Denied;
use crate::headers;

/// How many are kept, about a kilobyte each. Denials take the places in turn.
const PLACES: usize = 256;

/// What an answer depends on, apart from its denial.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// What stands in for the default answer.
    pub denied: Option<&'a Arc<Denied>>,
    /// Whether it is one for gRPC.
    pub grpc: bool,
}

#[derive(Debug)]
struct Kept {
    /// What it was made of. Clients are told seconds, but for the one count of milliseconds that is written anew.
    found: Found,
    denied: Option<Arc<Denied>>,
    grpc: bool,
    reply: Reply,
}

/// The answers that one worker keeps.
#[derive(Debug, Default)]
pub struct Told(Vec<Option<Kept>>);

impl Told {
    /// The answer that repeats this denial, or the one that is made now if none is kept that would be the same.
    pub fn repeat(&mut self, found: Found, form: Form<'_>, make: impl FnOnce() -> Option<Reply>) -> Option<&Reply> {
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        // Later denials take the places of earlier ones, which nobody remembers any more or which are rarely repeated.
        let place = usize::try_from(found.number % PLACES as u64).ok()?;
        let place = self.0.get_mut(place)?;
        match place {
            Some(kept) if kept.is(found, form) => {
                if let Some(ms) = found.retry_after_ms.filter(|_| kept.found.retry_after_ms != found.retry_after_ms) {
                    answer::renew(&mut kept.reply, kept.denied.as_deref(), ms);
                }
                kept.found = found;
            }
            _ => {
                let reply = make()?;
                *place = Some(Kept { found, denied: form.denied.cloned(), grpc: form.grpc, reply });
            }
        }
        place.as_ref().map(|kept| &kept.reply)
    }
}

impl Kept {
    fn is(&self, found: Found, form: Form<'_>) -> bool {
        let seconds = |found: Found| (found.retry_after_ms.map(headers::seconds), headers::seconds(found.reset_ms));
        let same_form = match (&self.denied, form.denied) {
            (Some(kept), Some(wanted)) => Arc::ptr_eq(kept, wanted),
            (None, None) => true,
            _ => false,
        };
        self.found.number == found.number
            && seconds(self.found) == seconds(found)
            && self.grpc == form.grpc
            && same_form
    }
}
