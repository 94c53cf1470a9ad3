import ast

import benchjobs_run
import pytest

BEGIN = "import sys; sys.path.insert(0, 'project'); from invoicing import money; from invoicing.invoice import Invoice"


@pytest.fixture
def evaluate():
    """Runs lines of Python where the agent worked, and gives the value of the last one: the package sees no test."""

    def evaluate(*lines):
        program = "\n".join((BEGIN, *lines[:-1], f"print(repr({lines[-1]}))"))
        done = benchjobs_run.run(["python3", "-c", program], timeout=10)
        print(done.stderr.decode("utf-8", "replace"))
        return ast.literal_eval(done.stdout.decode())

    return evaluate
