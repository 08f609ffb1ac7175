//! What other processes and launchers say: variables of the environment, and bytes at the port where processes meet.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use fidgp_torch::{Group, Launched};
use tch::Device;

use crate::targets::Target;

/// Variables, one on each line.
pub fn of_environment() -> Target {
    let torchrun = "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=host-a\nMASTER_PORT=29511\n\
                    TORCHELASTIC_RESTART_COUNT=2\nTORCHELASTIC_USE_AGENT_STORE=True\n";
    let slurm = "SLURM_PROCID=3\nSLURM_STEP_NUM_TASKS=8\nSLURM_LOCALID=1\nSLURM_NTASKS_PER_NODE=4\nSLURM_STEP_TASKS_PER_NODE=4(x2)\n\
                 SLURM_STEP_NODELIST=a[01-03,7],b2\nSLURM_JOB_ID=77\n";
    let mpi = "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=0\nMASTER_ADDR=::1\n";
    let corpus = [torchrun, slurm, mpi].map(|text| text.as_bytes().to_vec()).to_vec();
    let read = |_: &Path, input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let variable = |name: &str| {
            let mut found = text.lines().filter_map(|line| line.split_once('='));
            found.find(|(own, _)| *own == name).map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty())
        };
        Launched::read(&variable).map(|launched| drop(launched.map(|launched| launched.summary())))
    };
    Target { name: "environment", weight: 1, corpus, read: Box::new(read), mend: |input| input }
}

/// A text as the store's protocol has it: its length in eight bytes, then itself.
fn text(words: &[u8]) -> Vec<u8> {
    [&(words.len() as u64).to_le_bytes()[..], words].concat()
}

/// Messages to the store, each behind the word of greeting. The numbers are those of libtorch 2.11.
fn messages() -> Vec<Vec<u8>> {
    let hello = [&[0][..], &0x3C85_F7CE_u32.to_le_bytes()].concat();
    let key = text(b"fidgp/here/0");
    let of = |kind: u8, rest: &[&[u8]]| [&hello[..], &[kind], &rest.concat()].concat();
    let one = 1_u64.to_le_bytes();
    vec![
        hello.clone(),
        of(1, &[&key, &text(b"a word")]),
        of(2, &[&key, &text(b"a"), &text(b"b")]),
        of(3, &[&key]),
        of(4, &[&key, &7_i64.to_le_bytes()]),
        of(5, &[&one, &key]),
        of(6, &[&one, &key]),
        of(7, &[]),
        of(8, &[&key]),
        of(9, &[&key, &text(b"more")]),
        of(10, &[&one, &key]),
        of(11, &[&one, &key, &text(b"a")]),
        of(12, &[]),
        of(13, &[&9_u32.to_le_bytes()]),
    ]
}

/// Bytes of strangers at the port of a store, which must answer its own process afterwards. The store is libtorch's.
pub fn of_store() -> Target {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let alone = Launched {
        rank: 0,
        size: 1,
        local_rank: 0,
        local_size: 1,
        address: "127.0.0.1".to_owned(),
        port,
        serves: true,
        attempt: 0,
        launcher: "this test",
    };
    let group = Group::join(&alone, Device::Cpu, Duration::from_secs(20)).expect("a group of one");
    let read = move |_: &Path, input: &[u8]| {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        _ = stranger.set_read_timeout(Some(Duration::from_millis(20)));
        // what is refused is closed in the middle of it
        _ = stranger.write_all(input).and_then(|()| stranger.shutdown(Shutdown::Write));
        let mut answer = [0; 64];
        let count = stranger.read(&mut answer).unwrap_or(0);
        drop(stranger);
        let said = group.text_of_first("a word", "still here").map_err(|error| panic!("the store is gone: {error}"));
        assert_eq!(said, Ok::<_, String>("still here".to_owned()));
        if count > 0 { Ok(()) } else { Err("closed without a word".to_owned()) }
    };
    Target { name: "store", weight: 10, corpus: messages(), read: Box::new(read), mend: |input| input }
}
