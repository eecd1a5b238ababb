//! Edits of TOML.

use serde_json::{Map, Value as Json};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::{Edit, value::apply};

/// Tables and arrays inside each other.
const MAX_DEPTH: usize = 100;

pub(super) fn edit(text: &str, edit: &Edit) -> Result<String, String> {
    // The library writes line feeds: the other line break is put back.
    let is_dos = text.contains("\r\n");
    if is_dos && text.matches('\n').count() != text.matches("\r\n").count() {
        return Err("the file mixes line breaks".to_owned());
    }
    let plain = text.replace("\r\n", "\n");
    let mut document = read(&plain)?;
    let now = object(document.as_table(), 0)?;
    let mut want = Json::Object(now.clone());
    apply(&mut want, edit)?;
    let Json::Object(want) = want else { return Err("a TOML file is a table".to_owned()) };
    if want == now {
        return Ok(text.to_owned());
    }
    put_table(document.as_table_mut(), &now, &want)?;
    let edited = document.to_string();
    if object(read(&edited)?.as_table(), 0)? != want {
        return Err("the file is laid out in a way that this edit cannot keep".to_owned());
    }
    Ok(if is_dos { edited.replace('\n', "\r\n") } else { edited })
}

fn read(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>().map_err(|error| format!("the file is no TOML: {}", error.message()))
}

fn object(table: &dyn TableLike, depth: usize) -> Result<Map<String, Json>, String> {
    table.iter().map(|(key, item)| Ok((key.to_owned(), json(item, depth + 1)?))).collect()
}

fn json(item: &Item, depth: usize) -> Result<Json, String> {
    if depth > MAX_DEPTH {
        return Err(format!("tables nest deeper than {MAX_DEPTH}"));
    }
    Ok(match item {
        Item::None => Json::Null,
        Item::Value(value) => json_of(value, depth)?,
        Item::Table(table) => Json::Object(object(table, depth)?),
        Item::ArrayOfTables(tables) => {
            let tables = tables.iter().map(|table| Ok(Json::Object(object(table, depth)?)));
            Json::Array(tables.collect::<Result<_, String>>()?)
        }
    })
}

fn json_of(value: &Value, depth: usize) -> Result<Json, String> {
    if depth > MAX_DEPTH {
        return Err(format!("arrays nest deeper than {MAX_DEPTH}"));
    }
    Ok(match value {
        Value::String(text) => Json::from(text.value().as_str()),
        Value::Integer(number) => Json::from(*number.value()),
        Value::Float(number) => Json::from(*number.value()),
        Value::Boolean(value) => Json::from(*value.value()),
        Value::Datetime(time) => Json::from(time.value().to_string()),
        Value::Array(array) => {
            Json::Array(array.iter().map(|item| json_of(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Value::InlineTable(table) => Json::Object(object(table, depth)?),
    })
}

fn put_table(
    table: &mut dyn TableLike,
    now: &Map<String, Json>,
    want: &Map<String, Json>,
) -> Result<(), String> {
    for key in now.keys().filter(|key| !want.contains_key(*key)) {
        table.remove(key);
    }
    for (key, value) in want {
        match (table.get_mut(key), now.get(key)) {
            (_, Some(old)) if old == value => {}
            (Some(item), Some(old)) => put(item, old, value)?,
            _ => {
                table.insert(key, new_item(value)?);
            }
        }
    }
    Ok(())
}

fn put(item: &mut Item, now: &Json, want: &Json) -> Result<(), String> {
    if let (Json::Object(now), Json::Object(want)) = (now, want)
        && let Some(table) = item.as_table_like_mut()
    {
        return put_table(table, now, want);
    }
    if let (Json::Array(now), Json::Array(want)) = (now, want) {
        if let Some(array) = item.as_array_mut() {
            return put_array(array, now, want);
        }
        if let Some(tables) = item.as_array_of_tables_mut()
            && !want.is_empty()
            && want.iter().all(Json::is_object)
        {
            return put_tables(tables, now, want);
        }
    }
    match item {
        Item::Value(old) if !want.is_null() => {
            let decor = old.decor().clone();
            *old = new_value(want)?;
            *old.decor_mut() = decor;
        }
        item => *item = new_item(want)?,
    }
    Ok(())
}

fn put_array(array: &mut Array, now: &[Json], want: &[Json]) -> Result<(), String> {
    while array.len() > want.len() {
        // The one that is missing, as far as that can be told: the first that differs.
        let at = now.iter().zip(want).take_while(|(a, b)| a == b).count();
        let rest = array.len() - want.len();
        let at = if now.get(at + rest..) == want.get(at..) { at } else { array.len() - 1 };
        array.remove(at);
    }
    for (at, value) in want.iter().enumerate() {
        match array.get(at) {
            Some(old) if json_of(old, 0)? == *value => {}
            Some(_) => {
                array.replace(at, new_value(value)?);
            }
            None => array.push(new_value(value)?),
        }
    }
    Ok(())
}

fn put_tables(tables: &mut ArrayOfTables, now: &[Json], want: &[Json]) -> Result<(), String> {
    for (at, value) in want.iter().enumerate() {
        let Json::Object(value) = value else { continue };
        match (tables.get_mut(at), now.get(at)) {
            (Some(table), Some(Json::Object(now))) => put_table(table, now, value)?,
            _ => tables.push(new_table(value)?),
        }
    }
    while tables.len() > want.len() {
        tables.remove(tables.len() - 1);
    }
    Ok(())
}

fn new_item(value: &Json) -> Result<Item, String> {
    match value {
        Json::Object(entries) => Ok(Item::Table(new_table(entries)?)),
        other => Ok(Item::Value(new_value(other)?)),
    }
}

fn new_table(entries: &Map<String, Json>) -> Result<Table, String> {
    let mut table = Table::new();
    for (key, value) in entries {
        table.insert(key, new_item(value)?);
    }
    Ok(table)
}

fn new_value(value: &Json) -> Result<Value, String> {
    Ok(match value {
        Json::Null => return Err("TOML has no null".to_owned()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => return Err("TOML has no such number".to_owned()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            let mut array = Array::new();
            for item in items {
                array.push(new_value(item)?);
            }
            Value::Array(array)
        }
        Json::Object(entries) => {
            let mut table = InlineTable::new();
            for (key, value) in entries {
                table.insert(key.as_str(), new_value(value)?);
            }
            Value::InlineTable(table)
        }
    })
}
