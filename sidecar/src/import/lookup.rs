//! The tree of descriptors as a list: what is looked up level by level there is looked up in overrides here, of which
//! the first that matches applies.

use serde_saphyr::Spanned;

use super::file::{Amount, Descriptor, Value};

/// All descriptors whose entries have the same keys. A request's descriptor is looked up in one of these.
pub(super) struct Shape {
    pub keys: Vec<String>,
    /// The first that matches applies; if none does, there is no limit.
    pub rows: Vec<Row>,
}

/// What applies to the values of a descriptor's entries.
#[derive(Clone)]
pub(super) struct Row {
    pub values: Vec<Value>,
    pub amount: Amount,
    /// Whether it is only tried out.
    pub shadow: bool,
}

impl Row {
    pub(super) fn matches_all(&self) -> bool {
        self.values.iter().all(|value| *value == Value::Any)
    }
}

/// The shapes with a limit, in the order of the file.
pub(super) fn shapes(list: &[Spanned<Descriptor>]) -> Vec<Shape> {
    let mut all = Vec::new();
    collect(list, &mut Vec::new(), &mut all);
    let into_shape = |keys: Vec<String>| {
        let mut rows = Vec::new();
        walk(list, &keys, &mut Vec::new(), &mut rows);
        Shape { keys, rows }
    };
    all.into_iter().map(into_shape).collect()
}

fn collect(list: &[Spanned<Descriptor>], path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    for Spanned { value: descriptor, .. } in list {
        path.push(descriptor.key.clone());
        let is_limit = descriptor.rate_limit.as_ref().is_some_and(|rate_limit| rate_limit.amount != Amount::Unlimited);
        if is_limit && !all.contains(path) {
            all.push(path.clone());
        }
        collect(&descriptor.descriptors, path, all);
        path.pop();
    }
}

/// At each level an exact value goes before one with a wildcard, and that before none. Which way was taken is final:
/// if nothing matches further down, nothing does. So each way ends with a row for whatever else there may be.
fn walk(list: &[Spanned<Descriptor>], keys: &[String], values: &mut Vec<Value>, rows: &mut Vec<Row>) {
    let Some((key, deeper)) = keys.split_first() else { return };
    let rank = |value: &Value| match value {
        Value::Exact(_) => 0,
        Value::Prefix(_) => 1,
        Value::Any => 2,
    };
    let mut here: Vec<&Descriptor> =
        list.iter().map(|spanned| &spanned.value).filter(|descriptor| descriptor.key == *key).collect();
    here.sort_by_key(|descriptor| rank(&descriptor.value));
    for descriptor in here {
        values.push(descriptor.value.clone());
        if deeper.is_empty() {
            let amount = descriptor.rate_limit.as_ref().map_or(Amount::Unlimited, |rate_limit| rate_limit.amount);
            let shadow = descriptor.shadow_mode || descriptor.quota_mode;
            rows.push(Row { values: values.clone(), amount, shadow });
        } else {
            walk(&descriptor.descriptors, deeper, values, rows);
            let mut rest = values.clone();
            rest.resize(values.len() + deeper.len(), Value::Any);
            rows.push(Row { values: rest, amount: Amount::Unlimited, shadow: false });
        }
        values.pop();
    }
}

impl Shape {
    /// What the rows come to for the limits that are only tried out, or for those that are not: each is a policy. The
    /// last row is the one for whatever matches none of the others. `None` if there is no limit among them.
    pub(super) fn policy(&self, shadow: bool) -> Option<(Vec<Row>, Row)> {
        let mut rows: Vec<Row> = Vec::new();
        for row in &self.rows {
            if rows.iter().any(|earlier| earlier.values == row.values) {
                continue;
            }
            let amount = if row.shadow == shadow { row.amount } else { Amount::Unlimited };
            rows.push(Row { amount, shadow, values: row.values.clone() });
        }
        if rows.iter().all(|row| row.amount == Amount::Unlimited) {
            return None;
        }
        let any = vec![Value::Any; self.keys.len()];
        let last = match rows.iter().position(Row::matches_all) {
            Some(place) => {
                let last = rows.get(place).cloned();
                rows.truncate(place);
                last
            }
            None => None,
        };
        let last = last.unwrap_or(Row { values: any, amount: Amount::Unlimited, shadow });
        while rows.last().is_some_and(|row| row.amount == last.amount) {
            rows.pop();
        }
        Some((rows, last))
    }
}
