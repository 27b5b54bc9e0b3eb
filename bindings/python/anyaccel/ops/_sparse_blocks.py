"""The individual steps of sparse attention, implemented with torch ops: block-sparse matrix
products and block-sparse softmax.

A sparse matrix is stored as a tensor of shape [batch, nonzero blocks, block, block], with the
blocks in the order of `layout.nonzero()`. Use these classes only if you need the attention weights,
because `sparse_attention` is several times faster.
"""

import torch


class _Blocks:

    def __init__(self, layout, block, bench=False):
        """Prepare a layout [heads, rows, columns] of blocks.

        DeepSpeed's argument `bench` is ignored.
        """
        self.layout = layout
        self.block = block
        self.heads, self.rows, self.columns = layout.shape
        self.head, self.row, self.column = layout.nonzero().unbind(1)

    def _rows_of(self, dense, at):
        """Return the block rows `at` of a dense tensor [batch, heads, length, columns], as [batch,
        nonzero blocks, block, columns].
        """
        return dense.unflatten(2, (-1, self.block))[:, self.head, at]

    def _sum_to(self, parts, at, count):
        """Sum parts [batch, nonzero blocks, block, columns] into block rows `at` of a dense matrix
        with `count` block rows.
        """
        out = parts.new_zeros(parts.shape[0], self.heads * count, *parts.shape[2:])
        out = out.index_add(1, self.head * count + at, parts)
        return out.unflatten(1, (self.heads, count)).flatten(2, 3)


class MatMul(_Blocks):
    """Matrix product in which one factor or the result is block-sparse.

    `mode` is sdd (dense @ dense, with a sparse result), dsd (sparse @ dense) or dds (dense @
    sparse).
    """

    def __init__(self, layout, block, mode, trans_a=False, trans_b=False, bench=False):
        if mode not in ("sdd", "dsd", "dds"):
            raise NotImplementedError(f"[MatMul] unknown mode; got {mode}, want sdd, dsd or dds")
        super().__init__(layout, block)
        self.mode = mode
        self.trans_a = trans_a
        self.trans_b = trans_b

    def __call__(self, a, b):
        if self.trans_a:
            a = a.transpose(-1, -2)
        if self.trans_b:
            b = b.transpose(-1, -2)
        if self.mode == "sdd":
            return self._rows_of(a, self.row) @ self._rows_of(b.transpose(-1, -2), self.column).transpose(-1, -2)
        if self.mode == "dsd":
            row, column, count = self._ends(self.trans_a)
            return self._sum_to(a @ self._rows_of(b, column), row, count)
        row, column, _ = self._ends(self.trans_b)
        count = self.rows if self.trans_b else self.columns
        parts = b.transpose(-1, -2) @ self._rows_of(a.transpose(-1, -2), row)
        return self._sum_to(parts, column, count).transpose(-1, -2)

    def _ends(self, transposed):
        return (self.column, self.row, self.columns) if transposed else (self.row, self.column, self.rows)


class Softmax(_Blocks):
    """Softmax over the rows of a sparse matrix. Rows that are completely masked become zeros."""

    def __call__(self, x, scale=1.0, rpe=None, key_padding_mask=None, attn_mask=None, key_padding_mask_mode="add",
                 attn_mask_mode="add"):
        block = self.block
        x = x * scale
        if rpe is not None:
            rpe = rpe.expand(x.shape[0], self.heads, self.rows * block, self.columns * block)
            x = x + rpe.unflatten(2, (-1, block)).unflatten(4, (-1, block))[:, self.head, self.row, :, self.column].transpose(0, 1)
        if attn_mask is not None:
            mask = attn_mask.unflatten(0, (-1, block)).unflatten(2, (-1, block))[self.row, :, self.column]
            x = x + mask if attn_mask_mode == "add" else x.masked_fill(mask == 0, float("-inf"))
        if key_padding_mask is not None:
            mask = key_padding_mask.unflatten(1, (-1, block))[:, self.column].unsqueeze(2)
            x = x + mask if key_padding_mask_mode == "add" else x.masked_fill(mask == 0, float("-inf"))
        row = self.head * self.rows + self.row
        index = row.view(1, -1, 1).expand(x.shape[0], -1, block)
        with torch.no_grad():
            most = x.new_full((x.shape[0], self.heads * self.rows, block), float("-inf"))
            most = most.scatter_reduce(1, index, x.amax(-1), "amax")
            most = most.masked_fill(most == float("-inf"), 0)
        weights = (x - most[:, row].unsqueeze(-1)).exp()
        total = torch.zeros_like(most).index_add(1, row, weights.sum(-1))
        return weights / total.masked_fill(total == 0, 1)[:, row].unsqueeze(-1)
