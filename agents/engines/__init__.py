"""Engines and the model strings that name them."""

from __future__ import annotations

from .base import Engine, Request, Sample
from .choices import ChoiceEncoder
from .models import load_engine, resolve_checkpoint

__all__ = ["ChoiceEncoder", "Engine", "Request", "Sample", "load_engine", "resolve_checkpoint"]
