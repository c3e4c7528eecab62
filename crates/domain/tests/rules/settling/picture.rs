//! The picture of a payment's states: boxes and ways are laid out by hand, what leads where and why is the
//! machine's.

use std::collections::BTreeMap;
use std::fmt::Write;

use settle_domain::operation::{News, Refusal};
use settle_domain::payment::{
    Act, EXPIRED_QUOTES_MAX, PaymentEvent, PaymentState, QuoteRefusal, Standing, StateName, transition,
};

const WIDTH: u32 = 1_260;
const HEIGHT: u32 = 680;
/// The height of a box, and of a line of a label.
const BOX_HEIGHT: i32 = 44;
const LINE_HEIGHT: i32 = 14;

/// Left edge, upper edge, width and colour of a state's box.
const fn place(state: StateName) -> (i32, i32, i32, &'static str) {
    match state {
        StateName::Received => (140, 250, 130, "engine"),
        StateName::Quoted => (330, 250, 130, "engine"),
        StateName::Converting => (520, 250, 130, "engine"),
        StateName::Converted => (710, 250, 130, "engine"),
        StateName::PayingOut => (900, 250, 130, "engine"),
        StateName::Completed => (1_090, 250, 130, "end"),
        StateName::Failed => (140, 450, 700, "person"),
        StateName::Refunding => (520, 590, 130, "engine"),
        StateName::Refunded => (1_090, 590, 130, "end"),
        StateName::NeedsReview => (140, 40, 1_080, "review"),
    }
}

/// How a label stands at its place.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
    /// Along the left edge, upwards.
    Upwards,
}

/// The way of an arrow, and the place of its label.
type Way = (&'static str, i32, i32, Anchor);

/// The way between two states. `None` if nobody has drawn it.
fn way(from: StateName, to: StateName) -> Option<Way> {
    use Anchor::{End, Middle, Start, Upwards};
    use StateName as S;
    Some(match (from, to) {
        (S::Received, S::Quoted) => ("M270,272 H323", 300, 264, Middle),
        (S::Quoted, S::Converting) => ("M460,272 H513", 490, 264, Middle),
        (S::Converting, S::Converted) => ("M650,272 H703", 680, 264, Middle),
        (S::Converted, S::PayingOut) => ("M840,272 H893", 870, 264, Middle),
        (S::PayingOut, S::Completed) => ("M1030,272 H1083", 1_050, 264, Middle),
        // Two that end as one, with one label.
        (S::Quoted, S::Received) => ("M365,294 V330 H250 V301", 262, 346, Start),
        (S::Converting, S::Received) => ("M555,294 V330 H250 V301", 262, 346, Start),
        (S::Quoted, S::Converted) => ("M425,250 V205 H730 V243", 435, 199, Start),

        (S::Received, S::NeedsReview) => ("M185,250 V91", 179, 150, End),
        (S::Quoted, S::NeedsReview) => ("M380,250 V91", 374, 150, End),
        (S::Converting, S::NeedsReview) => ("M585,250 V91", 579, 143, End),
        (S::Converted, S::NeedsReview) => ("M755,250 V91", 749, 150, End),
        (S::PayingOut, S::NeedsReview) => ("M965,250 V91", 959, 185, End),
        (S::Refunding, S::NeedsReview) => ("M650,602 H1075 V91", 1_069, 560, End),

        (S::NeedsReview, S::Received) => ("M225,84 V243", 231, 150, Start),
        (S::NeedsReview, S::Converted) => ("M795,84 V243", 801, 120, Start),
        (S::NeedsReview, S::Completed) => ("M1155,84 V243", 1_161, 143, Start),
        (S::NeedsReview, S::Refunded) => ("M1220,62 H1245 V612 H1227", 1_239, 560, End),
        (S::NeedsReview, S::Failed) => ("M140,70 H40 V472 H133", 35, 272, Upwards),
        (S::NeedsReview, S::Refunding) => ("M140,54 H14 V612 H513", 300, 606, Start),

        (S::Received, S::Failed) => ("M185,294 V443", 179, 365, End),
        (S::Quoted, S::Failed) => ("M395,294 V443", 401, 393, Start),
        (S::Converting, S::Failed) => ("M585,294 V443", 591, 393, Start),
        (S::Converted, S::Failed) => ("M755,294 V443", 749, 340, End),
        (S::PayingOut, S::Failed) => ("M965,294 V472 H847", 971, 400, Start),
        (S::Refunding, S::Failed) => ("M605,590 V501", 611, 546, Start),

        (S::Failed, S::Received) => ("M225,450 V301", 231, 400, Start),
        (S::Failed, S::Converted) => ("M795,450 V301", 801, 400, Start),
        (S::Failed, S::Refunding) => ("M565,494 V583", 559, 546, End),
        (S::Refunding, S::Refunded) => ("M650,624 H1083", 870, 640, Middle),
        _ => return None,
    })
}

/// What an arrow says of an event.
fn words(event: PaymentEvent, to: StateName, is_last_quote: bool) -> &'static str {
    match event {
        PaymentEvent::QuoteExpired
        | PaymentEvent::Operation(_, News::Refused(Refusal { quote_expired: true, .. }))
            if is_last_quote =>
        {
            "20 quotes expired"
        }
        PaymentEvent::Operation(_, News::Refused(Refusal { quote_expired: true, .. }))
            if to == StateName::Received =>
        {
            "quote expired"
        }
        PaymentEvent::Quoted => "quote",
        PaymentEvent::QuoteRefused(QuoteRefusal::Refused) => "no quote",
        PaymentEvent::QuoteRefused(QuoteRefusal::CurrencyNotEnabled) => "no corridor",
        PaymentEvent::QuoteRefused(QuoteRefusal::SenderNotRegistered) => "payer unknown",
        PaymentEvent::QuoteExpired => "quote expired",
        PaymentEvent::ConversionPrepared | PaymentEvent::PayoutPrepared => "asked",
        PaymentEvent::ConversionSkipped => "the same asset: nothing to convert",
        PaymentEvent::Operation(_, News::Succeeded) => "done",
        PaymentEvent::Operation(_, News::Refused(_)) => "refused",
        PaymentEvent::Operation(_, _) => "outcome unknown",
        PaymentEvent::StepFailed => "a step failed",
        PaymentEvent::Operator(Act::Retry) => "retry",
        PaymentEvent::Operator(Act::Refund) => "refund",
        PaymentEvent::Operator(Act::Cancel) => "cancel",
        PaymentEvent::Operator(Act::Returned) => "returned",
        PaymentEvent::Operator(Act::Resolve(_)) => "resolve",
    }
}

/// What leads from one state to another.
#[derive(Default)]
struct Arrow {
    /// What leads there, and whether it is an operator's act.
    labels: Vec<(&'static str, bool)>,
}

impl Arrow {
    /// Whether nothing but an operator's acts leads there.
    fn is_persons(&self) -> bool {
        self.labels.iter().all(|(_, is_act)| *is_act)
    }
}

/// Every arrow of the machine between states of different names. What moves late leads to `needs_review` from
/// anywhere, and is left to the page.
fn arrows() -> BTreeMap<(StateName, StateName), Arrow> {
    let mut arrows: BTreeMap<(StateName, StateName), Arrow> = BTreeMap::new();
    let is_late = |event: PaymentEvent| {
        matches!(event, PaymentEvent::Operation(_, News::LateSucceeded | News::LateReturned | News::Revived))
    };
    for state in PaymentState::ALL {
        for expired_quotes in [0, EXPIRED_QUOTES_MAX - 1] {
            let standing = Standing {
                state,
                reason: None,
                expired_quotes,
                late: None,
                operation: None,
                // With what cannot have been sent, more can be done.
                is_unsent: true,
            };
            for event in PaymentEvent::all().into_iter().filter(|event| !is_late(*event)) {
                let Ok(after) = transition(&standing, event) else { continue };
                let (from, to) = (state.name(), after.to.name());
                if from == to {
                    continue;
                }
                let arrow = arrows.entry((from, to)).or_default();
                let first = transition(&Standing { expired_quotes: 0, ..standing }, event);
                let is_last_quote = first.is_ok_and(|first| first.to.name() != to);
                let is_act = matches!(event, PaymentEvent::Operator(_));
                let label = (words(event, to, is_last_quote), is_act);
                if !arrow.labels.contains(&label) {
                    arrow.labels.push(label);
                }
            }
        }
    }
    arrows
}

/// The picture, as SVG. It has colours for light and for dark.
pub fn svg() -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-labelledby=\"title\">\n<title id=\"title\">The states of a payment</title>\n{STYLE}{MARKERS}\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\n"
    );
    let arrows = arrows();
    for ((from, to), arrow) in &arrows {
        let (path, ..) = way(*from, *to).unwrap_or_else(|| panic!("no way is drawn from {from} to {to}"));
        let class = if arrow.is_persons() { "way person" } else { "way" };
        let head = if arrow.is_persons() { "person-head" } else { "head" };
        let _ = writeln!(svg, "<path class=\"{class}\" marker-end=\"url(#{head})\" d=\"{path}\"/>");
    }
    for state in StateName::ALL {
        let (x, y, width, class) = place(*state);
        let (middle, base) = (x + width / 2, y + BOX_HEIGHT / 2 + 5);
        let _ = writeln!(
            svg,
            "<rect class=\"box {class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>\
             <text class=\"state\" x=\"{middle}\" y=\"{base}\">{state}</text>"
        );
    }
    for ((from, to), arrow) in &arrows {
        if let Some((_, x, y, anchor)) = way(*from, *to) {
            label(&mut svg, arrow, x, y, anchor);
        }
    }
    svg.push_str(LEGEND);
    svg.push_str("</svg>\n");
    svg
}

fn label(svg: &mut String, arrow: &Arrow, x: i32, y: i32, anchor: Anchor) {
    let class = |is_act| if is_act { "label person" } else { "label" };
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
        Anchor::Upwards => {
            let parts = arrow
                .labels
                .iter()
                .map(|(text, is_act)| format!("<tspan class=\"{}\">{text}</tspan>", class(*is_act)));
            let text = parts.collect::<Vec<_>>().join(", ");
            let turn = format!("text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\"");
            let _ = writeln!(svg, "<text class=\"label\" x=\"{x}\" y=\"{y}\" {turn}>{text}</text>");
            return;
        }
    };
    for ((text, is_act), line) in arrow.labels.iter().zip(0..) {
        let (class, y) = (class(*is_act), y + line * LINE_HEIGHT);
        let _ = writeln!(
            svg,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }
}

const STYLE: &str = "<style>
.paper { fill: #ffffff }
.box { stroke: #57606a; stroke-width: 1.5 }
.engine { fill: #ddf4ff } .end { fill: #dafbe1 } .person { fill: #fff8c5 } .review { fill: #ffebe9 }
.state { font: 600 15px ui-monospace, monospace; fill: #1f2328; text-anchor: middle }
.label { font: 12px system-ui, sans-serif; fill: #424a53; stroke: #ffffff; stroke-width: 4; paint-order: stroke }
.way { fill: none; stroke: #57606a; stroke-width: 1.5 } .head { fill: #57606a }
.way.person { fill: none; stroke: #8250df; stroke-dasharray: 5 4 } .person-head { fill: #8250df }
.label.person { fill: #6639ba }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 }
.box { stroke: #9198a1 }
.engine { fill: #0c2d6b } .end { fill: #033a16 } .person { fill: #4b2900 } .review { fill: #67060c }
.state { fill: #f0f6fc }
.label { fill: #d1d7e0; stroke: #0d1117 }
.way { stroke: #9198a1 } .head { fill: #9198a1 }
.way.person { stroke: #c297ff } .person-head { fill: #c297ff }
.label.person { fill: #c297ff }
}
</style>
";

const MARKERS: &str = "<defs>
<marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">\
<path class=\"head\" d=\"M0,0 L8,4 L0,8 z\"/></marker>
<marker id=\"person-head\" viewBox=\"0 0 8 8\" refX=\"1\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">\
<path class=\"person-head\" d=\"M0,0 L8,4 L0,8 z\"/></marker>
</defs>
";

const LEGEND: &str = "<path class=\"way\" marker-end=\"url(#head)\" d=\"M140,655 H185\"/>\
<text class=\"label\" x=\"200\" y=\"659\">the engine, or the provider's word</text>
<path class=\"way person\" marker-end=\"url(#person-head)\" d=\"M450,655 H495\"/>\
<text class=\"label person\" x=\"510\" y=\"659\">an operator alone</text>
";
