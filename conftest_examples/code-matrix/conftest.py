# The files of scenarios are for the containers: pytest on this machine must not take them for tests of its own.
collect_ignore = ["slugs", "grading"]
