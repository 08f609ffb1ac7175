//! An interpreter of the part of Python's pickle format that state dicts are made of. It builds values and runs nothing.

use std::collections::HashMap;

/// A value of a pickle.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Text(String),
    /// Tuples and lists.
    Sequence(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    /// A class or function, by name: `torch.FloatStorage`.
    Global(String),
    /// What a persistent id refers to: the tuple `("storage", class, key, device, count)`.
    Storage {
        class: String,
        key: String,
    },
    /// A function applied to arguments.
    Call {
        function: String,
        arguments: Vec<Value>,
    },
    /// Anything a state dict does not need.
    Opaque,
}

/// Reads one pickle from the front of `bytes` and moves them on.
pub(super) fn read(bytes: &mut &[u8]) -> Result<Value, String> {
    let mut machine = Machine { input: bytes, stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
    while machine.step()? {}
    machine.pop()
}

struct Machine<'a, 'b> {
    input: &'a mut &'b [u8],
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<usize, Value>,
}

impl Machine<'_, '_> {
    /// One instruction; false at the end of the pickle.
    fn step(&mut self) -> Result<bool, String> {
        match self.number(1)? as u8 {
            b'.' => return Ok(false),
            0x80 => _ = self.number(1)?,
            0x95 => _ = self.number(8)?,
            b'(' => self.marks.push(self.stack.len()),
            b'0' => _ = self.pop()?,
            b'}' => self.push(Value::Dict(Vec::new())),
            b']' | b')' => self.push(Value::Sequence(Vec::new())),
            b'N' | 0x88 | 0x89 => self.push(Value::Opaque),
            b'G' => self.opaque(8)?,
            code @ (b'J' | b'K' | b'M' | 0x8a | b'X' | 0x8c | b'U' | b'c' | 0x93) => self.literal(code)?,
            code @ (b'q' | b'r' | 0x94 | b'h' | b'j') => self.memory(code)?,
            code @ (b't' | 0x85..=0x87 | b'l' | b's' | b'u' | b'a' | b'e') => self.collect(code)?,
            code @ (b'R' | b'b' | 0x81 | b'Q') => self.build(code)?,
            code => return Err(format!("a pickle instruction (0x{code:02x}) that no state dict needs")),
        }
        Ok(true)
    }

    fn literal(&mut self, code: u8) -> Result<(), String> {
        let value = match code {
            b'J' => Value::Int(i64::from(self.number(4)? as u32 as i32)),
            b'K' => Value::Int(self.number(1)? as i64),
            b'M' => Value::Int(self.number(2)? as i64),
            0x8a => self.long()?,
            b'X' => Value::Text(self.text(4)?),
            b'c' => Value::Global(format!("{}.{}", self.line()?, self.line()?)),
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => Value::Global(format!("{module}.{name}")),
                _ => return Err("a class without a name".to_owned()),
            },
            _ => Value::Text(self.text(1)?),
        };
        self.push(value);
        Ok(())
    }

    fn memory(&mut self, code: u8) -> Result<(), String> {
        let slot = match code {
            0x94 => self.memo.len(),
            b'q' | b'h' => self.number(1)?,
            _ => self.number(4)?,
        };
        if matches!(code, b'h' | b'j') {
            let value = self.memo.get(&slot).cloned().ok_or("a reference to nothing")?;
            self.push(value);
        } else {
            let value = self.stack.last().cloned().ok_or("an empty stack")?;
            self.memo.insert(slot, value);
        }
        Ok(())
    }

    /// Tuples, and items for lists and dictionaries.
    fn collect(&mut self, code: u8) -> Result<(), String> {
        let items = match code {
            0x85..=0x87 => self.top(usize::from(code - 0x84))?,
            b's' => self.top(2)?,
            b'a' => self.top(1)?,
            _ => {
                let mark = self.marks.pop().ok_or("items without a mark")?;
                self.stack.split_off(mark.min(self.stack.len()))
            }
        };
        match (code, self.stack.last_mut()) {
            (b't' | 0x85..=0x87 | b'l', _) => self.push(Value::Sequence(items)),
            (b's' | b'u', Some(Value::Dict(entries))) => {
                let mut items = items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    entries.push((key, value));
                }
            }
            (_, Some(Value::Sequence(list))) => list.extend(items),
            _ => {} // items of an object a state dict does not need
        }
        Ok(())
    }

    fn build(&mut self, code: u8) -> Result<(), String> {
        let argument = self.pop()?;
        if code == b'b' {
            return Ok(()); // attributes of an object
        }
        let value = match (code, argument) {
            (b'Q', Value::Sequence(id)) => storage(&id)?,
            (b'R', Value::Sequence(arguments)) => call(self.pop()?, arguments),
            (0x81, _) => {
                self.pop()?;
                Value::Opaque
            }
            _ => return Err("an object of an unknown form".to_owned()),
        };
        self.push(value);
        Ok(())
    }

    fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(|| "an empty stack".to_owned())
    }

    fn top(&mut self, count: usize) -> Result<Vec<Value>, String> {
        let at = self.stack.len().checked_sub(count).ok_or("an empty stack")?;
        Ok(self.stack.split_off(at))
    }

    fn take(&mut self, count: usize) -> Result<&[u8], String> {
        let (head, rest) = self.input.split_at_checked(count).ok_or("the file is cut short")?;
        *self.input = rest;
        Ok(head)
    }

    fn opaque(&mut self, count: usize) -> Result<(), String> {
        self.take(count)?;
        self.push(Value::Opaque);
        Ok(())
    }

    fn number(&mut self, count: usize) -> Result<usize, String> {
        Ok(self.take(count)?.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
    }

    /// A signed number of any length; those beyond 64 bits (the magic number) are opaque.
    fn long(&mut self) -> Result<Value, String> {
        let count = self.number(1)?;
        let bytes = self.take(count)?;
        if count > 8 {
            return Ok(Value::Opaque);
        }
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let start = if negative { -1 } else { 0 };
        Ok(Value::Int(bytes.iter().rev().fold(start, |value, byte| value << 8 | i64::from(*byte))))
    }

    fn text(&mut self, length_bytes: usize) -> Result<String, String> {
        let length = self.number(length_bytes)?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.input.iter().position(|byte| *byte == b'\n').ok_or("the file is cut short")?;
        let line = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(line)
    }
}

fn storage(id: &[Value]) -> Result<Value, String> {
    match id {
        [Value::Text(tag), Value::Global(class), Value::Text(key), ..] if tag == "storage" => {
            Ok(Value::Storage { class: class.clone(), key: key.clone() })
        }
        _ => Err("a storage of an unknown form".to_owned()),
    }
}

fn call(function: Value, arguments: Vec<Value>) -> Value {
    match function {
        Value::Global(name) if name == "collections.OrderedDict" => Value::Dict(Vec::new()),
        Value::Global(function) => Value::Call { function, arguments },
        _ => Value::Opaque,
    }
}
