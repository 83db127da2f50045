"""All columns of many harnesses, in several processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.conformance.columns import Outcome, run_harness
from tests.releases import SERIES

__all__ = ["run_all"]

# Most of the time is XLA's compilation of thousands of small programs that run once.
_QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true" + (
    " --xla_cpu_use_fusion_emitters=false" if SERIES < (0, 11) else ""
)
_XLA_THREADS = (
    "8"  # with two, batches of LAPACK calls (qr) can wait for one another for ever, in JAX too
)
_CHUNK = 40  # harnesses between two clearings of JAX's caches
_CHUNKS_A_PROCESS = 8  # XLA keeps some memory for each program


def _run_chunk(names: list[str]) -> list[Outcome]:
    import jax

    from jaxprtool.core.verification import set_verify

    set_verify(True)
    outcomes = [outcome for name in names for outcome in run_harness(name)]
    jax.clear_caches()
    return outcomes


def run_all(names: list[str], jobs: int) -> Iterator[Outcome]:
    """The outcomes of harnesses, as they come; how far it is goes to standard error."""
    os.environ["XLA_FLAGS"] = f"{_QUICK} {os.environ.get('XLA_FLAGS', '')}"
    os.environ["PJRT_NPROC"] = _XLA_THREADS
    start, step = time.monotonic(), -(-len(names) // _CHUNK)
    chunks = [names[i::step] for i in range(step)]
    context, done = multiprocessing.get_context("spawn"), 0
    for first in range(0, step, jobs * _CHUNKS_A_PROCESS):
        with ProcessPoolExecutor(jobs, context) as pool:
            some = chunks[first : first + jobs * _CHUNKS_A_PROCESS]
            for future in as_completed([pool.submit(_run_chunk, chunk) for chunk in some]):
                yield from future.result()
                done += 1
                seconds = time.monotonic() - start
                message = f"\r{done} of {step} parts, {seconds:.0f} s"
                print(message, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
