"""Agents: whatever turns an observation into text, from scripted players to language models."""
