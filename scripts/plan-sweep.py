#!/usr/bin/env python3
"""Compares what llmrun plan predicts with what llmrun run measures.

Each cell is a model, a disk speed, a context, a budget and a length of the prompt. The script
plans it, runs it with random token ids, and prints a Markdown table of predicted and measured
times. A cell that plan refuses must be refused by run in the same words, and the process must not
hold more than its budget and 1 MiB: the column "beyond" is its VmHWM less the budget.

usage: scripts/plan-sweep.py LLMRUN MODEL.pack... [--disks 1GB/s,none] [--contexts 2048,8192]
       [--rams 25%,50%,100%,all] [--prompts 256,full] [--answer 16] [--threads 2] [--flags "--kv k8v8"]

A percentage of --rams is one of the pack's size. The prompt "full" leaves room for the answer.
"""
import argparse, json, math, os, random, shlex, statistics, subprocess, sys, tempfile


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("llmrun")
    p.add_argument("models", nargs="+")
    p.add_argument("--disks", default="1GB/s")
    p.add_argument("--contexts", default="2048,8192")
    p.add_argument("--rams", default="25%,50%,100%,all")
    p.add_argument("--prompts", default="256,full")
    p.add_argument("--answer", type=int, default=16)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--flags", default="", help="more flags for both commands")
    p.add_argument("--rounds", type=int, default=1, help="plans and runs of a cell, in turns; the medians count")
    p.add_argument("--measure", action="store_true", help="measure the machine before each cell")
    return p.parse_args()


def call(command, stdin=None):
    """Runs a command and returns its exit code, its JSON object, and the last line of errors."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    text = done.stdout.strip()
    errors = done.stderr.strip().splitlines() or [""]
    return done.returncode, json.loads(text) if text else {}, errors[-1]


def median(pairs):
    return tuple(statistics.median(values) for values in zip(*pairs))


class Cell:
    def __init__(self, a, cache, model, disk, context, ram, prompt):
        size = os.path.getsize(model)
        budget = str(size * int(ram[:-1]) // 100) if ram.endswith("%") else ram
        self.name = (os.path.basename(model).removesuffix(".pack"), disk, context, ram)
        self.prompt = context - a.answer if prompt == "full" else min(int(prompt), context - a.answer)
        self.answer, self.rounds = a.answer, a.rounds
        self.flags = ["-m", model, "--ctx", str(context), "--ram", budget, "--threads", str(a.threads), "--cache-dir", cache, "--json"] + shlex.split(a.flags)
        if disk != "none":
            self.flags += ["--disk", disk]
        self.plan_command = [a.llmrun, "plan", *self.flags, "--prompt", str(self.prompt), "--answer", str(a.answer)] + (["--measure"] if a.measure else [])
        self.run_command = [a.llmrun, "run", *self.flags, "--ids", "-", "-n", str(a.answer), "--ignore-eos", "--temp", "0", "--no-kv-cache", "--stats", "-q"]
        draw = random.Random(1)
        self.ids = ",".join(str(draw.randrange(1000, 30000)) for _ in range(self.prompt))

    def measure(self):
        """Fills in the predictions and the measurements; returns an error, or None."""
        predicted, measured, beyond = [], [], []
        for _ in range(self.rounds):
            code, plan, refused = call(self.plan_command)
            ran, result, error = call(self.run_command, self.ids)
            if ran != code or code != 0 and error != refused:
                return f"plan says {code} {refused!r}, run says {ran} {error!r}"
            self.refused = code != 0
            if self.refused:
                return None
            first = plan["first_token_seconds"]
            predicted.append((first, (self.answer - 1) / (plan["total_seconds"] - first)))
            measured.append((result["first_token_seconds"], result["decode_tok_per_s"]))
            self.cold = result["stats"]["kv"]["cold_tokens"]
            limit = result["stats"]["budget_bytes"] or math.inf  # 0: none
            beyond.append(result["stats"]["vm_hwm_bytes"] - limit)
        self.predicted, self.measured = median(predicted), median(measured)
        self.beyond = max(beyond) / (1 << 20)
        return None if self.beyond <= 1 else f"the process held {self.beyond:.1f} MiB more than its budget"

    def row(self):
        model, disk, context, ram = self.name
        head = f"| {model} | {disk} | {context} | {ram} | {self.prompt} |"
        if self.refused:
            return head + " refused by both ||||||||"
        (first, decode), (first_seen, decode_seen) = self.predicted, self.measured
        return head + (f" {self.cold} | {first:.2f} | {first_seen:.2f} | {100 * (first / first_seen - 1):+.0f} % |"
                       f" {decode:.2f} | {decode_seen:.2f} | {100 * (decode / decode_seen - 1):+.0f} % | {self.beyond:+.1f} |")


def within(pairs, share):
    good = sum(abs(p / m - 1) <= share for p, m in pairs)
    return f"{good} of {len(pairs)}"


def main():
    a = arguments()
    print("| model | disk | context | RAM | prompt | cold tokens | first token s, predicted | measured | off | decode tok/s, predicted | measured | off | beyond, MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    cells, wrong = [], []
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        for model in a.models:
            # Measures the machine, for the plans of all cells.
            call([a.llmrun, "plan", "-m", model, "--ram", "all", "--threads", str(a.threads), "--cache-dir", cache, "--json"] + shlex.split(a.flags))
            for disk in a.disks.split(","):
                for context in map(int, a.contexts.split(",")):
                    for ram in a.rams.split(","):
                        for prompt in a.prompts.split(","):
                            cell = Cell(a, cache, model, disk, context, ram, prompt)
                            error = cell.measure()
                            if error:
                                wrong.append(error)
                                print(f"{cell.name}: {error}", file=sys.stderr)
                                continue
                            cells.append(cell)
                            print(cell.row(), flush=True)
    ran = [c for c in cells if not c.refused]
    print()
    print(f"plan and run agree, within the budget and 1 MiB, in {len(cells)} of {len(cells) + len(wrong)} cells;",
          f"decode within 20 % in {within([(c.predicted[1], c.measured[1]) for c in ran], 0.2)},",
          f"first token within 25 % in {within([(c.predicted[0], c.measured[0]) for c in ran], 0.25)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
