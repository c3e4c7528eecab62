//! What a reference asks the sandbox to do.

use std::time::Duration;

use settle_provider::wire::OperationKind;

/// Every reference that asks for something begins with this.
const PREFIX: &str = "sandbox:";
/// How long `pending`, `late`, `flip` and `return` wait when the reference does not say.
const PENDING_DEFAULT: Duration = Duration::from_secs(2);
const LATE_DEFAULT: Duration = Duration::from_secs(5);
const CHANGE_DEFAULT: Duration = Duration::from_secs(1);

/// A call that a reference can steer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Quote,
    Operation(OperationKind),
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Quote => "quote",
            Call::Operation(kind) => kind.as_str(),
        }
    }

    const ALL: [Call; 4] = [
        Call::Quote,
        Call::Operation(OperationKind::Conversion),
        Call::Operation(OperationKind::Payout),
        Call::Operation(OperationKind::Refund),
    ];
}

/// What the sandbox does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Executes, and says so.
    Good,
    /// Refuses.
    Refuse,
    /// Answers pending; succeeds after that time.
    Pending(Duration),
    /// Executes, and never answers.
    Timeout,
    /// Cuts the call; says 404 until it executes after that time.
    Late(Duration),
    /// Executes, answers 500.
    Ghost,
    /// Does not execute, answers 500, once; then behaves.
    Lost,
    /// Executes, answers something that is not an operation.
    Garbage,
    /// Executes, for less than was asked.
    Short,
    /// Executes, for more than was asked.
    More,
    /// 409 until the wallet is filled.
    Gas,
    /// Resets the first call without executing, answers 503 to the second, then behaves.
    Flaky,
    /// Refuses because the quote has expired, once for each pay-in.
    Expired,
    /// Refuses because the sender is not registered.
    Unregistered,
    /// Says refused, and later succeeded.
    Flip(Duration),
    /// Says succeeded, and later returned.
    Return(Duration),
}

impl Behaviour {
    /// What this reference asks of this call.
    ///
    /// A pay-in's reference steers its quote, its conversion and its refund, and without more these rules
    /// hold: what refuses does so before anything is sold, and not again when the money is sent back;
    /// everything else is about executing, which a quote does not. The name of a call behind the behaviour
    /// chooses that call alone, as in `sandbox:refuse:conversion` or `sandbox:timeout:refund`.
    pub(crate) fn of(reference: &str, call: Call) -> Behaviour {
        let Some((behaviour, rest)) = reference.strip_prefix(PREFIX).and_then(parse) else {
            return Behaviour::Good;
        };
        let chosen = Call::ALL.into_iter().find(|call| rest.split(':').any(|part| part == call.name()));
        let is_meant = match (chosen, call) {
            (Some(chosen), call) => chosen == call,
            (None, Call::Operation(OperationKind::Payout)) => behaviour != Behaviour::Expired,
            (None, Call::Operation(OperationKind::Conversion)) => true,
            (None, Call::Quote) => matches!(behaviour, Behaviour::Refuse | Behaviour::Unregistered),
            (None, Call::Operation(OperationKind::Refund)) => {
                !matches!(behaviour, Behaviour::Refuse | Behaviour::Unregistered | Behaviour::Expired)
            }
        };
        if is_meant { behaviour } else { Behaviour::Good }
    }
}

/// The behaviour, and what stands behind its name.
fn parse(text: &str) -> Option<(Behaviour, &str)> {
    let plain = [
        ("refuse", Behaviour::Refuse),
        ("timeout", Behaviour::Timeout),
        ("ghost", Behaviour::Ghost),
        ("lost", Behaviour::Lost),
        ("garbage", Behaviour::Garbage),
        ("short", Behaviour::Short),
        ("more", Behaviour::More),
        ("gas", Behaviour::Gas),
        ("flaky", Behaviour::Flaky),
        ("expired", Behaviour::Expired),
        ("unregistered", Behaviour::Unregistered),
    ];
    for (name, behaviour) in plain {
        if let Some(rest) = text.strip_prefix(name) {
            return Some((behaviour, rest));
        }
    }
    let timed = |name, default: Duration| {
        let rest: &str = text.strip_prefix(name)?;
        Some((rest.strip_prefix(':').and_then(duration).unwrap_or(default), rest))
    };
    if let Some((wait, rest)) = timed("pending", PENDING_DEFAULT) {
        return Some((Behaviour::Pending(wait), rest));
    }
    if let Some((wait, rest)) = timed("late", LATE_DEFAULT) {
        return Some((Behaviour::Late(wait), rest));
    }
    if let Some((wait, rest)) = timed("flip", CHANGE_DEFAULT) {
        return Some((Behaviour::Flip(wait), rest));
    }
    timed("return", CHANGE_DEFAULT).map(|(wait, rest)| (Behaviour::Return(wait), rest))
}

/// A number and its unit at the start of the text, as in `2s`, `250ms` or `1m`; more may follow.
fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let number: u32 = number.parse().ok()?;
    let unit = match unit {
        unit if unit.starts_with("ms") => Duration::from_millis(1),
        unit if unit.starts_with('s') => Duration::from_secs(1),
        unit if unit.starts_with('m') => Duration::from_mins(1),
        unit if unit.starts_with('h') => Duration::from_hours(1),
        _ => return None,
    };
    unit.checked_mul(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONVERSION: Call = Call::Operation(OperationKind::Conversion);
    const PAYOUT: Call = Call::Operation(OperationKind::Payout);
    const REFUND: Call = Call::Operation(OperationKind::Refund);

    #[test]
    fn a_reference_begins_with_its_behaviour() {
        for (reference, behaviour) in [
            ("sandbox:refuse", Behaviour::Refuse),
            ("sandbox:refuse-17", Behaviour::Refuse),
            ("sandbox:pending:2s", Behaviour::Pending(Duration::from_secs(2))),
            ("sandbox:pending:250ms-17", Behaviour::Pending(Duration::from_millis(250))),
            ("sandbox:pending", Behaviour::Pending(PENDING_DEFAULT)),
            ("sandbox:late:5s:17", Behaviour::Late(Duration::from_secs(5))),
            ("sandbox:flip:1m", Behaviour::Flip(Duration::from_mins(1))),
            ("sandbox:return", Behaviour::Return(CHANGE_DEFAULT)),
            ("sandbox:garbage", Behaviour::Garbage),
            ("sandbox:gas", Behaviour::Gas),
            ("sandbox:expired", Behaviour::Good),
            ("sandbox:thing", Behaviour::Good),
            ("wallet-sandbox:refuse", Behaviour::Good),
            ("", Behaviour::Good),
        ] {
            assert_eq!(Behaviour::of(reference, PAYOUT), behaviour, "{reference}");
        }
    }

    #[test]
    fn a_pay_in_steers_what_can_show_its_behaviour() {
        let all =
            |reference: &str| [Call::Quote, CONVERSION, REFUND].map(|call| Behaviour::of(reference, call));
        let good = Behaviour::Good;
        assert_eq!(all("sandbox:refuse"), [Behaviour::Refuse, Behaviour::Refuse, good]);
        assert_eq!(all("sandbox:unregistered"), [Behaviour::Unregistered, Behaviour::Unregistered, good]);
        assert_eq!(all("sandbox:expired"), [good, Behaviour::Expired, good]);
        assert_eq!(all("sandbox:ghost"), [good, Behaviour::Ghost, Behaviour::Ghost]);
        assert_eq!(all("sandbox:refuse:conversion:9"), [good, Behaviour::Refuse, good]);
        assert_eq!(all("sandbox:refuse:refund"), [good, good, Behaviour::Refuse]);
        assert_eq!(all("sandbox:flaky:quote"), [Behaviour::Flaky, good, good]);
        assert_eq!(all("sandbox:late:5s:refund"), [good, good, Behaviour::Late(Duration::from_secs(5))]);
    }
}
