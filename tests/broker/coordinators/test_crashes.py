"""An acknowledged offset survives a power cut at any moment; what was not acknowledged may, and nothing else is there.

Method: several clients commit for their groups as fast as they can, on a simulated host with `flush.messages=1`; in the
middle of it the power goes. The next broker must show, for every partition, the last acknowledged commit or one attempted
after it.
"""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from semel.errors import DisconnectedError, ErrorCode
from support.broker.admin_kit import Client, Story, told
from support.groups.offsets_kit import BY_NAME, codes, commit_request, committed

TOPIC = "orders"
PARTITIONS = 3
GROUPS = ("alpha", "beta", "gamma", "delta")
LIVES = 4
_RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


@dataclass
class Memory:
    """What the clients know, over all lives of the broker."""

    acknowledged: dict[tuple[str, int], int] = field(default_factory=dict)
    attempted: dict[tuple[str, int], int] = field(default_factory=dict)

    def allows(self, group: str, partition: int, offset: int) -> bool:
        place = (group, partition)
        return self.acknowledged.get(place, -1) <= offset <= self.attempted.get(place, -1)


async def commit_on(client: Client, group: str, memory: Memory, dice: random.Random) -> None:
    """Commit ever higher offsets until the broker dies."""
    own = await client.another()
    while True:
        places = dice.sample(range(PARTITIONS), dice.randint(1, PARTITIONS))
        offsets = {partition: memory.attempted.get((group, partition), -1) + 1 for partition in places}
        memory.attempted |= {(group, partition): offset for partition, offset in offsets.items()}
        request = commit_request(group, {(TOPIC, partition): offset for partition, offset in offsets.items()})
        try:
            answer = codes(await own.ask(request, BY_NAME))
        except DisconnectedError:
            return
        for (_topic, partition), code in answer.items():
            if code is ErrorCode.NONE:
                memory.acknowledged[group, partition] = offsets[partition]
            else:
                assert code in _RETRIED, code


def life(memory: Memory, dice: random.Random) -> Story:
    async def story(client: Client) -> None:
        if not memory.attempted:
            await client.create(TOPIC, partitions=PARTITIONS)
        else:
            for group in GROUPS:
                places = [(TOPIC, partition) for partition in range(PARTITIONS)]
                for (_topic, partition), offset in (await committed(client, group, *places)).items():
                    assert memory.allows(group, partition, int(offset)), (group, partition, offset, memory)
                    memory.acknowledged[group, partition] = int(offset)  # Seen is as good as acknowledged.
        tasks = [asyncio.ensure_future(commit_on(client, group, memory, dice)) for group in GROUPS]
        await asyncio.wait(tasks, timeout=dice.uniform(0.01, 0.4))

    return story


@pytest.mark.parametrize("seed", range(8))
def test_an_acknowledged_offset_survives(seed: int) -> None:
    memory, dice = Memory(), random.Random(seed)
    settings = {"offsets_topic_num_partitions": "3", "flush_messages": "1"}
    told(*(life(memory, dice) for _ in range(LIVES)), cut_power=True, **settings)
    assert len(memory.acknowledged) == len(GROUPS) * PARTITIONS
    assert max(memory.acknowledged.values()) > LIVES
