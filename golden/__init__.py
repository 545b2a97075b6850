"""The integer specification of the encoder: token ids to logits, NumPy with integer dtypes only.

docs/numerics.md says the same in words and formulas. Every hardware unit has a function of the same
name here, and hardware that differs from it is wrong.
"""
