"""Normalization layers from one description: which cells of a tensor share statistics.

Import the modules by name, e.g. ``from normbook.normalize import normalize``. Importing the
package alone computes nothing and does not load torch.
"""

__version__ = "0.1.0"
