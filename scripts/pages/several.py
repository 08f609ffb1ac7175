"""What was seen of trainings by several processes, and what a step should cost on many GPUs: the marked parts of docs/use/several-machines.md."""
import math
import statistics

from .records import origin, read


def killed(run):
    logged = [kill["logged_epoch"] - kill["kept_epoch"] for kill in run["kills"]]
    by_rank = " and ".join(f"rank {rank} {sum(kill['rank'] == rank for kill in run['kills'])} times" for rank in range(run["ranks"]))
    differs = run["killed_differs_in"]
    same = "end like those of the undisturbed training, bit for bit" if not differs else f"differ from the undisturbed training in {', '.join(differs)}"
    lost = "no epoch that was in the log was lost" if max(logged) == 0 else f"at most {max(logged)} epoch in the log was made again"
    plain = "" if run["launched_differs_in"] else " `fidgp launch` gives the same result as torchrun."
    return (
        f"- `scripts/several/kills`: torchrun with {run['ranks']} processes, a checkpoint every epoch, `kill -9` of {by_rank} at random moments. "
        f"Metrics, weights and the losses of all {run['epochs']} epochs {same}; {lost}.{plain}"
    )


def cut(run):
    ends = run["ends"]
    named = all("waited for the others" in end["says"] and end["code"] == 1 for end in ends)
    seconds = " and ".join(f"{end['seconds']:.0f} s" for end in ends)
    differs = run["differs_in"]
    same = "ends like the training that was not cut, bit for bit" if not differs else f"differs from the training that was not cut in {', '.join(differs)}"
    said = "and named the other one" if named else "but did not name the other one"
    return (
        f"- `scripts/several/cut`: two hosts in network namespaces, the wire between them cut after step {run['cut_after']['step']}. With a time-out of "
        f"{run['timeout']} s both processes ended with exit code {ends[0]['code']} after {seconds} {said}. The training that was resumed {same}."
    )


def same(run):
    each = [f"{name}: {found['first_epoch']:.0e} in the first epoch, {found['curve']:.0e} over {found['epochs']} epochs, {max(found['metrics'].values()):.0e} in the metrics" for name, found in run["trainings"].items()]
    by = ", ".join(map(str, run["processes"][:-1])) + f" and {run['processes'][-1]}"
    return f"- `scripts/several/same`: the largest relative difference of losses and metrics by {by} processes, in f32. {'; '.join(each)}."


def draws(run):
    spread = ", ".join(f"{one['ratio']:.2f} with {one['pieces']}" for one in run["spread"])
    trained = ", ".join(f"{one['mean']:+.3f} ± {one['standard_error']:.3f} with {one['pieces']}" for one in run["trained"])
    return (
        f"- `scripts/several/draws`: own draws multiply the standard deviation of a step's NLL by {spread} processes (the curve; {run['steps']} steps). "
        f"The validation NLL after {run['epochs']} epochs changes by {trained} (mean and standard error over {len(run['trained'][0]['own_minus_shared'])} seeds)."
    )


def sped(run):
    each = [f"{name} {found['one_process_ms']:.0f} and {found['two_processes_ms']:.0f} ms, ratio {found['ratio']:.2f}" for name, found in run["medians"].items()]
    return f"- `scripts/several/speed`: a training step of ResNet-18, batch {run['batch']}, by one process with two threads and by two with one each. {'; '.join(each)}."


def several():
    makers = {"kills": killed, "cut": cut, "same": same, "draws": draws, "speed": sped}
    lines = [maker(run) for name, maker in makers.items() for run in read(f"several/{name}.json")]
    return [*lines, "", origin("several/*.json")] if lines else []


FIDGP, PLAIN = "fidgp, FiD-GP 128 on all layers, Matheron", "fidgp, deterministic"
GPUS, HERE = (1, 8, 32, 128, 512, 1024), 8  # GPUs; GPUs of a machine
BANDWIDTH, BETWEEN = 450e9, 50e9  # bytes a second and GPU: within a machine, between machines
LATENCY, HOP = 10e-6, 20e-6  # seconds of a message, likewise
BYTES = {FIDGP: 4 * 5_364_691, PLAIN: 4 * 11_220_132}
NORMS = 20  # BatchNorm layers of ResNet-18


def step(subject):
    """Seconds of a step that do not depend on the batch, and seconds of an image, from the records at two batches."""
    found = {run["batch"]: statistics.median(one["train"] for one in run["samples"][subject]) / 1000 for name in (128, 512) for run in read(f"bench/cuda-batch{name}.json")}
    image = (found[512] - found[128]) / 384
    return found[128] - 128 * image, image


def messages(gpus):
    """Seconds of one small all-reduce, there and back along a tree."""
    machines = max(gpus // HERE, 1)
    return 2 * (LATENCY * math.log2(min(gpus, HERE)) + HOP * math.log2(machines)) if gpus > 1 else 0.0


def reduced(gpus, size):
    """Seconds of an all-reduce of so many bytes: within each machine, then between machines, every GPU with its eighth."""
    machines, here = max(gpus // HERE, 1), min(gpus, HERE)
    return messages(gpus) + 2 * (here - 1) / here * size / BANDWIDTH + 2 * (machines - 1) / machines * size / here / BETWEEN


def modelled(subject, gpus, batch):
    """Seconds of a step of this batch on each GPU, and what the processes add to it."""
    fixed, image = step(subject)
    return fixed + image * batch, reduced(gpus, BYTES[subject])


def scaling():
    """The table of the cost model."""
    rows = ["| GPUs | 128 images a GPU: step, ms | of it sums | efficiency | with `sync_norm`, ms | 4,096 images in all: step, ms | speed-up | plain network: step, ms | speed-up |", "|---|---|---|---|---|---|---|---|---|"]
    alone = {subject: sum(modelled(subject, 1, 4096)) for subject in BYTES}
    for gpus in GPUS:
        own, sums = modelled(FIDGP, gpus, 128)
        norms = 2 * NORMS * messages(gpus)
        strong = {subject: sum(modelled(subject, gpus, 4096 / gpus)) for subject in BYTES}
        cells = [f"{1000 * (own + sums):.2f}", f"{1000 * sums:.2f}", f"{100 * own / (own + sums):.0f} %", f"{1000 * (own + sums + norms):.2f}"]
        for subject in (FIDGP, PLAIN):
            cells += [f"{1000 * strong[subject]:.2f}", f"{alone[subject] / strong[subject]:.1f}"]
        rows.append(f"| {gpus:,} | " + " | ".join(cells) + " |")
    (fixed, image), (plain, _) = step(FIDGP), step(PLAIN)
    stops = 4096 * image / fixed
    said = (
        f"One H200 takes {1000 * fixed:.1f} ms for a step whatever the batch (factors, draws, KL, launches; {1000 * plain:.1f} ms for the plain network) and {1e6 * image:.1f} µs an image "
        f"(`results/bench/cuda-batch128.json`, `cuda-batch512.json`). The fixed part is computed by every process. So a batch of 4,096 stops "
        f"getting faster at about {stops:.0f} GPUs, where the images of a GPU take as long as the fixed part; with 128 images on each GPU the sums cost little up to 1,024."
    )
    return [*rows, "", said]
