"""Three attempts at once, each in a sandbox of its own, in one job."""

import asyncio

import pytest_benchjobs as benchjobs


async def attempt(job, number):
    async with job.start("words.bench.yaml", "count", attempt=number).aio as trial:
        counted = await trial.exec(f"head -c {number * 15} text.txt | wc -w")
        await trial.write_file("count.txt", counted.output)
    return trial.result.score


async def main():
    async with benchjobs.DrivenJob(agent="counter", name="by-hand") as job:
        print(await asyncio.gather(*(attempt(job, number) for number in (1, 2, 3))))


asyncio.run(main())
