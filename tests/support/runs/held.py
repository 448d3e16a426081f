"""Evaluations in processes of their own that do not end before a test has stopped them."""

HELD = """
import asyncio, sys
from benchmark.evaluation.run_folder import RunFolder

append, limit, begun = RunFolder.append, int(sys.argv.pop(1)), None

async def held(folder, record):
    global begun
    begun = len(folder.records) + 1 if begun is None else begun + 1
    if begun > limit:
        await asyncio.Event().wait()
    await append(folder, record)

RunFolder.append = held
"""
"""The beginning of a program: a run folder of it gets so many records and waits, however slow a
test is. The number is the program's first argument, which it does not see."""
