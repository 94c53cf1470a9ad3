import sys

# The package under test is in the working directory of the scenario.
sys.path.insert(0, "/app/project")
