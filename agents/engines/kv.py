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
        self._cache = DynamicCache()
        # Renamed in the course of transformers 5.
        takes = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in takes else "past_key_values"
        if width == 0:
            return
        for row, ids in enumerate(self.ids):
            self._real[row, width - len(ids) :] = True
        first = next(prefix for prefix in prefixes if prefix is not None and prefix.ids)
        for layer, (key, value) in enumerate(first.layers):
            shape = (len(self.ids), key.shape[0], width)
            keys = key.new_zeros((*shape, key.shape[2]))
            values = value.new_zeros((*shape, value.shape[2]))
            for row, prefix in enumerate(prefixes):
                if prefix is not None and prefix.ids:
                    keys[row, :, width - len(prefix.ids) :] = prefix.layers[layer][0]
                    values[row, :, width - len(prefix.ids) :] = prefix.layers[layer][1]
            self._cache.update(keys, values, layer)

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
        self._cache.batch_select_indices(index)
        self._real = self._real[index]
        self.ids = [self.ids[row] for row in rows]

    def prefix(self, row: int) -> Prefix:
        """What is known of a row, free of padding."""
        columns = self._real[row].nonzero()[:, 0]
        layers = [
            (layer.keys[row].index_select(1, columns), layer.values[row].index_select(1, columns))
            for layer in self._cache.layers
        ]
        return Prefix(list(self.ids[row]), layers)
