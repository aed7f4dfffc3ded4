"""The cost of a certificate's check beside a forward of ONNX Runtime: `benchmarks/results/certificates.json`.

    python benchmarks/certificates.py [--rounds N] [--model NAME]… [--store]

CPU seconds, so that what else runs on the machine does not count: a forward of the written file in float32 on
two threads that do not spin, and checks with one prime and with several, which take turns. Their difference
is the cost of a prime; the rest of the check is paid once: graphs, digests, rounded constants. A prime is
measured as it is, and with every value evaluated, as where structure does not decide.
ResNet-50 is the repository's own with statistics drawn at random; BERT-base is that of transformers, where
that is installed, with weights drawn at random and 128 tokens.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import in_turns
from models import Missing, draw_statistics, model_and_input

STORED = Path(__file__).with_name("results") / "certificates.json"
MODELS = ("resnet50", "bert_base")
PRIMES = 9
"""Primes of the check whose difference to that with one prime is measured."""


def measured(name: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Write a model to ONNX, certify it, and return CPU seconds of a forward and of the check's parts."""
    import onnxruntime

    import regraft
    from regraft.verification.certificate import recheck

    model, example = model_and_input(name, batch=1)
    draw_statistics(model)
    graph, file = regraft.load(model, (example,)), folder / f"{name}.onnx"
    regraft.save(regraft.rewrite(graph).graph, file, force=True)
    certified = regraft.certify(graph, file, output=folder / f"{name}.json")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: example.numpy()}
    certificate = recheck.read_certificate(certified.path)
    certificate = certificate._replace(sizes=certificate.sizes[:1])  # the example's, as the forward has

    def check(primes: int) -> Callable[[], object]:
        return lambda: recheck.check(certificate, seed=primes, primes=primes)

    def whole(primes: int) -> Callable[[], object]:
        def run() -> None:
            begin = recheck.Run.begin
            recheck.Run.begin = lambda run, _: begin(run, 2)  # every value is evaluated
            try:
                recheck.check(certificate, seed=primes, primes=primes)
            finally:
                recheck.Run.begin = begin

        return run

    jobs = {"forward": lambda: session.run(None, feed), "one": check(1), "several": check(PRIMES)}
    times = in_turns(jobs, rounds)
    turns = zip(times["one"], times["several"], strict=True)
    prime = statistics.median(more - less for less, more in turns) / (PRIMES - 1)
    full = {job: min(found) for job, found in in_turns({"one": whole(1), "two": whole(2)}, 4).items()}
    return {
        "model": name,
        "operators": len(certificate.source.nodes),
        "grade": certified.grade,
        "forward": min(times["forward"]),
        "prime": prime,
        "evaluated": full["two"] - full["one"],
        "once": min(times["one"]) - prime,
    }


def main() -> None:
    """Measure the models, and store the rows that were measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in given.model or MODELS:
            try:
                row = measured(name, given.rounds, Path(folder))
            except Missing as error:
                print(error)
                continue
            rows.append(row)
            print(f"{name}: {row['grade']}, {row['operators']} operators, in CPU seconds:")
            for key in ("forward", "prime", "evaluated", "once"):
                print(f"  {key:<10} {row[key]:7.3f}  {row[key] / row['forward']:6.2f} forwards")
    if given.store and rows:
        head = ["git", "rev-parse", "--short=8", "HEAD"]
        commit = subprocess.run(head, cwd=STORED.parent, capture_output=True, text=True, check=True).stdout
        names = {row["model"] for row in rows}
        before = json.loads(STORED.read_text("utf-8"))["rows"] if STORED.is_file() else []
        rows += [row for row in before if row["model"] not in names]
        rows.sort(key=lambda row: MODELS.index(row["model"]))
        day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        document = {"measured": day, "commit": commit.strip(), "rows": rows}
        STORED.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
