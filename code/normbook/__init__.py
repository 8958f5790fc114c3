"""Normalization layers from one description: which cells of a tensor share statistics.

A house of rooms, each with its public names: `normbook.core`, `data`, `layers`, `page`, `widgets`,
`experiments` and `build`. A room uses only those that stand before it in this list. Importing the
package alone computes nothing and does not load torch.
"""

__version__ = "0.1.0"
