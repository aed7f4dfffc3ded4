"""The benchmark that kills rewrites: a command that it forks ends as one of its own process does."""

import subprocess
import sys


def test_a_forked_command_ends_with_its_own_exit_code() -> None:
    code = (
        "import sys; from regraft.benchmarks.kills import ran;"
        "sys.exit([ran(['explain', 'RP101']), ran(['explain', 'RP999'])] != [0, 2])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
