"""What a job looks like to people and to CI."""
