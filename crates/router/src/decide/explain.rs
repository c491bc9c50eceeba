//! Why archives are asked or not, as JSON.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::recent::LastAnswer;
use super::{Choice, Decider, Decision};
use crate::{Registry, Reply};

/// A line of `waypost route --batch`.
pub fn batch_line(registry: &Registry, decision: &Decision, uri: &str) -> Value {
    let mut choices: Vec<&Choice> = decision.choices.iter().collect();
    choices.sort_by_key(|choice| choice.archive);
    let archives: Vec<Value> = choices
        .iter()
        .filter_map(|choice| {
            let archive = registry.archives.get(choice.archive)?;
            Some(Value::Object(evidence(&archive.id, choice)))
        })
        .collect();
    json!({"uri": uri, "archives": archives})
}

/// The decision about an archive, and what is behind it.
fn evidence(id: &str, choice: &Choice) -> Map<String, Value> {
    let mut object = Map::new();
    let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
    set("id", id.into());
    set("decision", choice.presence.name().into());
    set("summary", choice.summary.as_deref().into());
    let key = choice.key.as_deref();
    set("key", key.map(String::from_utf8_lossy).into());
    set("estimate", choice.estimate.into());
    object
}

/// Everything that is known about a lookup: the decision, its reasons, and what happened when the
/// archives were asked last.
pub fn explanation(
    registry: &Registry,
    decider: &Decider,
    decision: &Decision,
    uri: &str,
) -> Value {
    let last = decider.last_answer(uri);
    let archives: Vec<Value> = decision
        .choices
        .iter()
        .enumerate()
        .filter_map(|(order, choice)| {
            let archive = registry.archives.get(choice.archive)?;
            let mut object = evidence(&archive.id, choice);
            let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
            set("name", archive.name.as_deref().into());
            set("order", (order + 1).into());
            set("asked", choice.asked.into());
            set("asked_later", choice.later.into());
            set("reason", choice.reason.name().into());
            let frequency = choice.frequency.map(|frequency| frequency.to_string());
            set("frequency", frequency.filter(|text| text != "/").into());
            set("age_seconds", choice.age.map(|age| age.as_secs()).into());
            set("problem", choice.problem.as_deref().into());
            let latency = choice.latency.map(|latency| latency.as_secs_f64());
            set("latency_seconds", latency.into());
            let last = last.as_deref().and_then(|last| happened(last, &archive.id));
            set("last", last.into());
            Some(Value::Object(object))
        })
        .collect();
    json!({"uri": uri, "archives": archives})
}

/// What an archive answered when it was asked last.
fn happened(last: &LastAnswer, id: &str) -> Option<Value> {
    let mut replies = last.replies.iter();
    let (_, took, reply) = replies.find(|(archive, ..)| archive == id)?;
    let ago = SystemTime::now().duration_since(last.at);
    let mementos = match reply {
        Reply::Mementos(count) | Reply::Partial(count, _) | Reply::Kept(count, _) => Some(*count),
        Reply::Nothing(_) => Some(0),
        _ => None,
    };
    Some(json!({
        "seconds_ago": ago.unwrap_or_default().as_secs(),
        "seconds": took.as_secs_f64(),
        "result": crate::metrics::result(reply),
        "mementos": mementos,
        "text": reply.to_string(),
    }))
}
