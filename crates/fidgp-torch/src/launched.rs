//! What launchers tell a process of the others, in environment variables.

/// A process among several that were launched together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The number of this process, from 0.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    /// The number among those of this machine, which is also that of its GPU.
    pub local_rank: usize,
    /// How many are on this machine; all of them where it is not said.
    pub local_size: usize,
    /// Where they meet.
    pub address: String,
    /// The port there.
    pub port: u16,
    /// Whether this process opens that port. With torchrun its agent may have done so.
    pub serves: bool,
    /// Which attempt this is, counted from 0, as the launcher of this machine counts: those of other machines may count less.
    pub attempt: u64,
    /// Who launched it, for messages.
    pub launcher: &'static str,
}

/// Looks a variable up; empty ones do not count.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Names of variables: of rank, size, rank and size on the machine, and attempt.
struct Names {
    launcher: &'static str,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
    attempt: &'static str,
}

const TORCHRUN: Names = Names {
    launcher: "torchrun",
    rank: "RANK",
    size: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
    local_size: "LOCAL_WORLD_SIZE",
    attempt: "TORCHELASTIC_RESTART_COUNT",
};

const OPEN_MPI: Names = Names {
    launcher: "Open MPI",
    rank: "OMPI_COMM_WORLD_RANK",
    size: "OMPI_COMM_WORLD_SIZE",
    local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
    local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
    attempt: "",
};

/// A step of Slurm, started by `srun`. The variables of the job alone do not count: its script is one process.
const SLURM: Names = Names {
    launcher: "Slurm",
    rank: "SLURM_PROCID",
    size: "SLURM_STEP_NUM_TASKS",
    local_rank: "SLURM_LOCALID",
    local_size: "SLURM_NTASKS_PER_NODE",
    attempt: "SLURM_RESTART_COUNT",
};

/// The port where a launcher names none.
const PORT: u16 = 29_500;

impl Launched {
    /// What the environment says; nothing where this process is alone.
    ///
    /// # Errors
    /// When a variable is missing or says something impossible; the message names it.
    pub fn from_environment() -> Result<Option<Self>, String> {
        Self::read(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// The same of variables from elsewhere; empty ones do not count.
    ///
    /// # Errors
    /// As [`Self::from_environment`].
    pub fn read(variables: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let found = [TORCHRUN, OPEN_MPI, SLURM].into_iter().find(|names| {
            let is_set = |name: &str| variables(name).is_some();
            is_set(names.rank) && is_set(names.size)
        });
        let Some(names) = found else { return alone(variables) };
        let number = |name: &str| parsed::<usize>(variables, name);
        let (rank, size) = (number(names.rank)?.unwrap_or(0), number(names.size)?.unwrap_or(1));
        if rank >= size {
            return Err(format!("{} = {rank} is not below {} = {size}", names.rank, names.size));
        }
        if size == 1 {
            return Ok(None);
        }
        let by_step = (names.launcher == SLURM.launcher).then(|| tasks_here(variables)).flatten();
        let local_size = by_step.or(number(names.local_size)?).unwrap_or(size).clamp(1, size);
        let by_agent = variables("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|said| said == "True");
        Ok(Some(Self {
            rank,
            size,
            local_rank: number(names.local_rank)?.unwrap_or(rank % local_size),
            local_size,
            address: address(variables, &names)?,
            port: port(variables)?,
            serves: rank == 0 && !by_agent,
            attempt: if names.attempt.is_empty() { 0 } else { parsed(variables, names.attempt)?.unwrap_or(0) },
            launcher: names.launcher,
        }))
    }

    /// The variable by which the launcher numbers its processes.
    pub fn rank_variable(&self) -> &'static str {
        let all = [TORCHRUN, OPEN_MPI, SLURM];
        all.into_iter().find(|names| names.launcher == self.launcher).map_or(TORCHRUN.rank, |names| names.rank)
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let Self { rank, size, address, port, launcher, local_rank, .. } = self;
        format!(
            "rank {rank} of {size} (number {local_rank} on this machine), meeting at {address}:{port}, by {launcher}"
        )
    }
}

/// A process with half of the variables was meant to be one of several.
fn alone(variables: Variables) -> Result<Option<Launched>, String> {
    match (variables("RANK"), variables("WORLD_SIZE").filter(|size| size != "1")) {
        (None, Some(size)) => Err(format!("WORLD_SIZE = {size} is set and RANK is not: set both, or neither")),
        (Some(rank), None) if rank != "0" => {
            Err(format!("RANK = {rank} is set and WORLD_SIZE is not: set both, or neither"))
        }
        _ => Ok(None),
    }
}

fn parsed<T: std::str::FromStr>(variables: Variables, name: &str) -> Result<Option<T>, String> {
    let number = |text: String| text.parse().map_err(|_| format!("{name} = `{text}` is no number that it can be"));
    variables(name).map(number).transpose()
}

fn address(variables: Variables, names: &Names) -> Result<String, String> {
    let of_slurm = || variables("SLURM_STEP_NODELIST").or_else(|| variables("SLURM_JOB_NODELIST"));
    let listed = if names.launcher == SLURM.launcher { of_slurm().map(|list| first_host(&list)) } else { None };
    variables("MASTER_ADDR").or(listed).ok_or_else(|| {
        let launcher = names.launcher;
        format!("MASTER_ADDR is not set: {launcher} does not say where process 0 is; set it to that machine's name")
    })
}

/// How many tasks of a step Slurm has started on this machine: `2(x3),1` are 2 on each of three machines and 1 on a fourth.
fn tasks_here(variables: Variables) -> Option<usize> {
    let (list, mut machine) =
        (variables("SLURM_STEP_TASKS_PER_NODE")?, variables("SLURM_NODEID")?.parse::<usize>().ok()?);
    for item in list.split(',') {
        let (tasks, times) = item.split_once("(x").unwrap_or((item, "1)"));
        let times = times.trim_end_matches(')').parse().ok()?;
        if machine < times {
            return tasks.parse().ok();
        }
        machine -= times;
    }
    None
}

/// A port for each job where Slurm gives none: two jobs may share a machine.
fn port(variables: Variables) -> Result<u16, String> {
    let of_job = parsed::<u64>(variables, "SLURM_JOB_ID")?.map(|job| 20_000 + (job % 10_000) as u16);
    Ok(parsed(variables, "MASTER_PORT")?.or(of_job).unwrap_or(PORT))
}

/// The first machine of a list as Slurm writes it: `node[03-05,9],other` is `node03` and others.
fn first_host(list: &str) -> String {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (stem, rest) = list.split_at(end);
    let numbers = rest.strip_prefix('[').unwrap_or_default();
    let first = numbers.split([',', '-', ']']).next().unwrap_or_default();
    format!("{stem}{first}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Launched>, String> {
        let of = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Launched::read(&of)
    }

    #[test]
    fn a_process_alone_has_no_others() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("RANK", "0"), ("WORLD_SIZE", "1")]), Ok(None));
        // the script of a job, which is one process whatever the job was given
        assert_eq!(read(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), Ok(None));
    }

    #[test]
    fn torchrun_says_everything() {
        let variables = [
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "4"),
            ("MASTER_ADDR", "host-a"),
            ("MASTER_PORT", "4711"),
            ("TORCHELASTIC_RESTART_COUNT", "2"),
        ];
        let launched = read(&variables).unwrap().unwrap();
        let place = (launched.address.as_str(), launched.port, launched.serves);
        assert_eq!((launched.rank, launched.size, launched.local_rank, launched.local_size), (5, 8, 1, 4));
        assert_eq!((place, launched.attempt), (("host-a", 4711, false), 2));
    }

    #[test]
    fn the_agent_of_torchrun_keeps_the_store_itself() {
        let rank_0 = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a")];
        assert!(read(&rank_0).unwrap().unwrap().serves);
        let with_agent: Vec<_> = rank_0.into_iter().chain([("TORCHELASTIC_USE_AGENT_STORE", "True")]).collect();
        assert!(!read(&with_agent).unwrap().unwrap().serves);
    }

    #[test]
    fn slurm_and_open_mpi_have_names_of_their_own() {
        let slurm = [
            ("SLURM_PROCID", "3"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_NODELIST", "gpu[07-09,12],login"),
            ("SLURM_JOB_ID", "123456"),
        ];
        let launched = read(&slurm).unwrap().unwrap();
        assert_eq!((launched.rank, launched.address.as_str(), launched.port), (3, "gpu07", 23_456));
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert!(read(&mpi).unwrap_err().contains("MASTER_ADDR is not set: Open MPI"));
    }

    #[test]
    fn slurm_says_how_many_share_this_machine() {
        let here = |machine: &'static str| {
            let step = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "7"), ("SLURM_STEP_NODELIST", "n[1-4]")];
            let tasks = [("SLURM_STEP_TASKS_PER_NODE", "2(x3),1"), ("SLURM_NODEID", machine)];
            read(&[&step[..], &tasks[..]].concat()).unwrap().unwrap().local_size
        };
        assert_eq!((here("0"), here("2"), here("3")), (2, 2, 1));
        assert_eq!(here("4"), 7, "a list that does not fit says nothing");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let said = |variables: &[(&str, &str)]| read(variables).unwrap_err();
        assert_eq!(said(&[("RANK", "2"), ("WORLD_SIZE", "2")]), "RANK = 2 is not below WORLD_SIZE = 2");
        assert!(said(&[("WORLD_SIZE", "2")]).contains("RANK is not"));
        assert!(said(&[("RANK", "one"), ("WORLD_SIZE", "2")]).contains("RANK = `one`"));
    }

    #[test]
    fn the_first_host_of_a_list() {
        let first = [("a,b", "a"), ("node[3-5]", "node3"), ("n[01,04]", "n01"), ("single", "single")];
        for (list, host) in first {
            assert_eq!(first_host(list), host);
        }
    }
}
