"""Plain data: what a scenario, an agent, a job and a trial are. No behaviour beyond validation."""
