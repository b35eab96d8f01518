"""A table's process is killed with SIGKILL at random steps, its file is deleted: in the end it equals the model.

Method: `fold_story`, a few seeds; `make campaign` plays hundreds. The time to replay the changelog is printed.
"""

from pathlib import Path

import pytest

from support.spark.fold_story import play


@pytest.mark.mission("STR-11", "STR-10")
@pytest.mark.parametrize("seed", [1])
def test_a_killed_table_equals_its_model(
    seed: int, spark_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = play(spark_bootstrap, tmp_path, seed=seed, lives=6)
    assert played.kills >= 3
    assert played.files_lost >= 1
    assert played.replayed > 0
    with capsys.disabled():
        print(
            f" [{played.kills} kills; {played.replayed} records replayed in {played.replay_seconds:.2f} s]",
            end="",
        )
