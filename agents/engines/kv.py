"""A batch of contexts of different lengths in one key-value cache, for any transformers decoder.

Rows are padded on the left of every block that is fed; a mask and explicit positions make the padding invisible, so a
row's results do not depend on its neighbours (up to floating-point rounding).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

SPARE = 64
"""Positions that are allocated ahead, so that feeding a token does not copy the whole cache."""


@dataclass
class Prefix:
    """What is kept of one context.

    Attributes:
        ids: the token ids whose keys and values are kept.
        layers: per layer ``(keys, values)`` of shape [heads, len(ids), head size].
    """

    ids: list[int]
    layers: list[tuple[Tensor, Tensor]]

    def crop(self, length: int) -> Prefix:
        """The first ``length`` tokens."""
        if length == len(self.ids):
            return self
        return Prefix(self.ids[:length], [(k[:, :length], v[:, :length]) for k, v in self.layers])


class _RoomyLayer(DynamicLayer):  # type: ignore[misc]  # the library is not typed
    """A layer that grows in place while there is room; the library's own copies everything for each new token."""

    keys: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._room: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Appends [rows, heads, new, size]; returns all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        known = self.get_seq_length()
        total = known + key_states.shape[-2]
        if self._room is None or self._room[0].shape[-2] < total or self._room[0].shape[0] != key_states.shape[0]:
            shape = (*key_states.shape[:-2], total + SPARE)
            self._room = (
                key_states.new_empty((*shape, key_states.shape[-1])),
                value_states.new_empty((*shape, value_states.shape[-1])),
            )
            if known:
                self._room[0][..., :known, :] = self.keys
                self._room[1][..., :known, :] = self.values
        keys, values = self._room
        keys[..., known:total, :] = key_states
        values[..., known:total, :] = value_states
        self.keys, self.values = keys[..., :total, :], values[..., :total, :]
        return self.keys, self.values

    def select(self, rows: Tensor) -> None:
        """Keeps these rows only."""
        if self.is_initialized:
            self.keys, self.values, self._room = self.keys[rows], self.values[rows], None


class CacheBatch:
    """Contexts that are extended together.

    Args:
        model: the model, in evaluation mode.
        prefixes: what is already known of each row; None for nothing.
    """

    def __init__(self, model: PreTrainedModel, prefixes: Sequence[Prefix | None]) -> None:
        self._model = model
        self._device = model.device
        self._dtype = model.dtype
        self.ids: list[list[int]] = [[] if prefix is None else list(prefix.ids) for prefix in prefixes]
        width = max(len(ids) for ids in self.ids)
        self._real = torch.zeros((len(self.ids), width), dtype=torch.bool, device=self._device)
        # Renamed in the course of transformers 5.
        takes = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in takes else "past_key_values"
        layers = [_RoomyLayer() for _ in range(model.config.num_hidden_layers)]
        for row, ids in enumerate(self.ids):
            self._real[row, width - len(ids) :] = True
        if width:
            first = next(prefix for prefix in prefixes if prefix is not None and prefix.ids)
            for number, (key, value) in enumerate(first.layers):
                shape = (len(self.ids), key.shape[0], width)
                keys = key.new_zeros((*shape, key.shape[2]))
                values = value.new_zeros((*shape, value.shape[2]))
                for row, prefix in enumerate(prefixes):
                    if prefix is not None and prefix.ids:
                        keys[row, :, width - len(prefix.ids) :] = prefix.layers[number][0]
                        values[row, :, width - len(prefix.ids) :] = prefix.layers[number][1]
                layers[number].update(keys, values)
        self._layers = layers
        self._cache = DynamicCache()
        self._cache.layers = list(layers)

    def feed(self, blocks: Sequence[Sequence[int]]) -> Tensor:
        """Extends every row by its block (at least one id each).

        Returns:
            Logits after the last id of each block, fp32, [rows, vocabulary].
        """
        rows, width = len(blocks), max(len(block) for block in blocks)
        input_ids = torch.zeros((rows, width), dtype=torch.long)
        positions = torch.zeros((rows, width), dtype=torch.long)
        fresh = torch.zeros((rows, width), dtype=torch.bool)
        for row, block in enumerate(blocks):
            known = len(self.ids[row])
            input_ids[row, width - len(block) :] = torch.tensor(block)
            positions[row, width - len(block) :] = torch.arange(known, known + len(block))
            fresh[row, width - len(block) :] = True
            self.ids[row].extend(block)
        past = self._real.shape[1]
        self._real = torch.cat([self._real, fresh.to(self._device)], dim=1)
        visible = self._real[:, None, :].expand(rows, width, past + width).clone()
        visible[:, :, past:] &= torch.ones((width, width), dtype=torch.bool, device=self._device).tril()
        # A padded position looks at itself, because a softmax over nothing is not a number and would spread.
        visible[:, torch.arange(width), past + torch.arange(width)] = True
        mask = torch.zeros((rows, 1, width, past + width), dtype=self._dtype, device=self._device)
        mask.masked_fill_(~visible[:, None], torch.finfo(self._dtype).min)
        output = self._model(
            input_ids=input_ids.to(self._device),
            attention_mask=mask,
            position_ids=positions.to(self._device),
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: self._cache},
        )
        logits: Tensor = output.logits[:, -1].float()
        return logits

    def keep(self, rows: Sequence[int]) -> None:
        """Drops all rows but these."""
        index = torch.tensor(list(rows), device=self._device)
        for layer in self._layers:
            layer.select(index)
        self._real = self._real[index]
        self.ids = [self.ids[row] for row in rows]

    def prefix(self, row: int) -> Prefix:
        """What is known of a row, free of padding."""
        columns = self._real[row].nonzero()[:, 0]
        layers = [
            (layer.keys[row].index_select(1, columns), layer.values[row].index_select(1, columns))
            for layer in self._layers
        ]
        return Prefix(list(self.ids[row]), layers)
