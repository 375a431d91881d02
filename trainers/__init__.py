"""Trainers: policies, credit methods and the loop that turns episodes into gradient steps."""
