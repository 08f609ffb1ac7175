//! An interpreter of the part of Python's pickle format that state dicts are made of. It builds values and runs nothing.
//!
//! Lists, dictionaries and calls lie in one list of nodes and refer to each other by number, as Python's own do: what a memo
//! repeats is not copied, and what is nested deeply does not take the stack. How many there may be is a limit.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use fidgp_files::limits::VALUES;

/// Bytes of the name of a class, and how many classes there may be.
const LONGEST_GLOBAL: usize = 256;
const MOST_GLOBALS: usize = 1000;

/// A value of a pickle.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Text(Rc<str>),
    /// A tuple, a list, a dictionary or a call.
    Node(usize),
    /// A class or function, by name: `torch.FloatStorage`.
    Global(Rc<str>),
    /// What a persistent id refers to: the tuple `("storage", class, key, device, count)`.
    Storage(Rc<Storage>),
    /// Anything a state dict does not need.
    Opaque,
}

/// Numbers that stand elsewhere in the file.
#[derive(Debug, PartialEq)]
pub(super) struct Storage {
    pub class: Rc<str>,
    pub key: Rc<str>,
}

/// A value of others.
#[derive(Debug)]
pub(super) enum Node {
    /// Tuples and lists.
    Sequence(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    /// A function applied to arguments.
    Call {
        function: Rc<str>,
        /// A tuple: the arguments themselves stand once, however many calls share them.
        arguments: Value,
    },
}

/// What one pickle says.
#[derive(Debug)]
pub(super) struct Pickle {
    /// What it is all about.
    pub root: Value,
    /// Every storage that occurs.
    pub storages: Vec<Rc<Storage>>,
    nodes: Vec<Node>,
}

impl Pickle {
    /// The node of a value that is one.
    pub(super) fn node(&self, value: &Value) -> Option<&Node> {
        match value {
            Value::Node(index) => self.nodes.get(*index),
            _ => None,
        }
    }

    /// The items of a tuple or list.
    pub(super) fn sequence(&self, value: &Value) -> Option<&[Value]> {
        match self.node(value)? {
            Node::Sequence(items) => Some(items),
            _ => None,
        }
    }
}

/// Reads one pickle from the front of `bytes` and moves them on.
pub(super) fn read(bytes: &mut &[u8]) -> Result<Pickle, String> {
    let (nodes, storages) = (Vec::new(), Vec::new());
    let (stack, marks, memo) = (Vec::new(), Vec::new(), HashMap::new());
    let (globals, most) = (HashSet::new(), VALUES.most());
    let mut machine = Machine { input: bytes, stack, marks, memo, nodes, storages, globals, steps: 0, most };
    while machine.step()? {}
    let root = machine.pop()?;
    Ok(Pickle { root, storages: machine.storages, nodes: machine.nodes })
}

struct Machine<'a, 'b> {
    input: &'a mut &'b [u8],
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<usize, Value>,
    nodes: Vec<Node>,
    storages: Vec<Rc<Storage>>,
    globals: HashSet<Rc<str>>,
    /// Instructions so far: each makes one value at most.
    steps: u64,
    most: u64,
}

impl Machine<'_, '_> {
    /// One instruction; false at the end of the pickle.
    fn step(&mut self) -> Result<bool, String> {
        self.steps += 1;
        if self.steps > self.most {
            VALUES.check(self.steps).map_err(|exceeded| exceeded.to_string())?;
        }
        match self.number(1)? as u8 {
            b'.' => return Ok(false),
            0x80 => _ = self.number(1)?,
            0x95 => _ = self.number(8)?,
            b'(' => self.marks.push(self.stack.len()),
            b'0' => _ = self.pop()?,
            b'}' => self.push_node(Node::Dict(Vec::new())),
            b']' | b')' => self.push_node(Node::Sequence(Vec::new())),
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
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(&module, &name)?
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => self.global(&module, &name)?,
                _ => return Err("a class without a name".to_owned()),
            },
            _ => Value::Text(self.text(1)?),
        };
        self.push(value);
        Ok(())
    }

    /// A class or function. Its name is made of two texts that a memo may repeat, so each is made once, and none is long.
    fn global(&mut self, module: &str, name: &str) -> Result<Value, String> {
        if module.len() + name.len() > LONGEST_GLOBAL {
            return Err(format!("a class whose name has {} bytes", module.len() + name.len()));
        }
        let whole = format!("{module}.{name}");
        if let Some(known) = self.globals.get(whole.as_str()) {
            return Ok(Value::Global(Rc::clone(known)));
        }
        if self.globals.len() >= MOST_GLOBALS {
            return Err(format!("more than {MOST_GLOBALS} classes: a state dict needs a few"));
        }
        let whole: Rc<str> = whole.into();
        self.globals.insert(Rc::clone(&whole));
        Ok(Value::Global(whole))
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
        if matches!(code, b't' | 0x85..=0x87 | b'l') {
            self.push_node(Node::Sequence(items));
            return Ok(());
        }
        let Some(Value::Node(index)) = self.stack.last() else { return Ok(()) }; // of an object a state dict does not need
        match (code, &mut self.nodes[*index]) {
            (b's' | b'u', Node::Dict(entries)) => {
                let mut items = items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    entries.push((key, value));
                }
            }
            (b'a' | b'e', Node::Sequence(list)) => list.extend(items),
            _ => {}
        }
        Ok(())
    }

    fn build(&mut self, code: u8) -> Result<(), String> {
        let argument = self.pop()?;
        match code {
            b'b' => {} // attributes of an object
            0x81 => {
                self.pop()?;
                self.push(Value::Opaque);
            }
            b'Q' => {
                let storage = Rc::new(self.storage(&argument)?);
                self.storages.push(Rc::clone(&storage));
                self.push(Value::Storage(storage));
            }
            _ => {
                if self.items(&argument).is_none() {
                    return Err("an object of an unknown form".to_owned());
                }
                match self.pop()? {
                    Value::Global(name) if &*name == "collections.OrderedDict" => {
                        self.push_node(Node::Dict(Vec::new()));
                    }
                    Value::Global(function) => self.push_node(Node::Call { function, arguments: argument }),
                    _ => self.push(Value::Opaque),
                }
            }
        }
        Ok(())
    }

    fn items(&self, value: &Value) -> Option<&[Value]> {
        match value {
            Value::Node(index) => match &self.nodes[*index] {
                Node::Sequence(items) => Some(items),
                _ => None,
            },
            _ => None,
        }
    }

    fn storage(&self, id: &Value) -> Result<Storage, String> {
        match self.items(id) {
            Some([Value::Text(tag), Value::Global(class), Value::Text(key), ..]) if &**tag == "storage" => {
                Ok(Storage { class: Rc::clone(class), key: Rc::clone(key) })
            }
            _ => Err("a storage of an unknown form".to_owned()),
        }
    }

    fn push_node(&mut self, node: Node) {
        self.nodes.push(node);
        self.push(Value::Node(self.nodes.len() - 1));
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

    fn text(&mut self, length_bytes: usize) -> Result<Rc<str>, String> {
        let length = self.number(length_bytes)?;
        Ok(String::from_utf8_lossy(self.take(length)?).into())
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.input.iter().position(|byte| *byte == b'\n').ok_or("the file is cut short")?;
        let line = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(line)
    }
}
