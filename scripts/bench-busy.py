#!/usr/bin/env python3
"""Compares llmrun's speed alone with its speed where it has less than the machine.

Each round measures every model under every condition in turns, and the script prints a Markdown
table of medians and of their ratios to "alone":

  half busy     beside loops that compute, one for every two processors
  one thread    --threads 1
  half again    half as many threads again as there are processors
  quota         in a cgroup that may use three quarters of the processors' time; it needs root

usage: scripts/bench-busy.py LLMRUN MODEL.pack... [--rounds 3] [--pp 256] [--tg 48]
LLMRUN_CPU=avx2 in the environment measures kernels without AVX-512.
"""
import argparse, contextlib, json, os, statistics, subprocess, sys

CONDITIONS = ["alone", "half busy", "one thread", "half again", "quota"]
CPUS = len(os.sched_getaffinity(0))


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("llmrun")
    p.add_argument("models", nargs="+")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--pp", type=int, default=256, help="tokens of the prompt")
    p.add_argument("--tg", type=int, default=48, help="tokens of the answer")
    return p.parse_args()


@contextlib.contextmanager
def busy():
    """Keeps half of the processors busy."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(max(1, CPUS // 2))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def quota_group():
    """Makes a cgroup of version 1 or 2 with a quota, and returns the file that processes join it with."""
    v1 = os.path.isdir("/sys/fs/cgroup/cpu")
    group = f"/sys/fs/cgroup/{'cpu/' if v1 else ''}llmrun-quota-{os.getpid()}"
    os.mkdir(group)
    quota = 100_000 * CPUS * 3 // 4
    try:
        with open(group + ("/cpu.cfs_quota_us" if v1 else "/cpu.max"), "w") as f:
            f.write(str(quota) if v1 else f"{quota} 100000")
        yield group + "/cgroup.procs"
    finally:
        os.rmdir(group)


def bench(args, model, threads, joined=None):
    """Runs llmrun bench once, in a cgroup if one is given, and returns its speeds."""

    def join():
        if joined:
            with open(joined, "w") as f:
                f.write(str(os.getpid()))

    command = [args.llmrun, "bench", "-m", model, "--pp", str(args.pp), "--tg", str(args.tg), "--threads", str(threads), "-r", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=join)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return [test["tok_per_s"]["median"] for test in json.loads(done.stdout)["tests"]]


def measure(args, model, condition):
    if condition == "half busy":
        with busy():
            return bench(args, model, CPUS)
    if condition == "quota":
        with quota_group() as joined:
            return bench(args, model, CPUS, joined)
    return bench(args, model, {"one thread": 1, "half again": CPUS + max(1, CPUS // 2)}.get(condition, CPUS))


def main():
    args = arguments()
    conditions = CONDITIONS if os.geteuid() == 0 else CONDITIONS[:-1]
    speeds = {(m, c): [] for m in args.models for c in conditions}
    for round in range(args.rounds):
        for model in args.models:
            for condition in conditions if round % 2 == 0 else conditions[::-1]:
                speeds[model, condition].append(measure(args, model, condition))
                print(model, condition, speeds[model, condition][-1], file=sys.stderr)
    print("| model | condition | prompt, tok/s | of alone | answer, tok/s | of alone |\n|---|---|---|---|---|---|")
    for model in args.models:
        alone = [statistics.median(s) for s in zip(*speeds[model, "alone"])]
        for condition in conditions:
            now = [statistics.median(s) for s in zip(*speeds[model, condition])]
            cells = " | ".join(f"{n:.1f} | {n / a:.2f}" for n, a in zip(now, alone))
            print(f"| {os.path.basename(model)} | {condition} | {cells} |")
    if "quota" not in conditions:
        print("\nNot measured: the quota, which needs root.")


main()
