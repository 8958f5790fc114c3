"""The interactive figures: the same object in JupyterLab and in a built page with no kernel."""

from normbook.widgets.explorer import Explorer
from normbook.widgets.shared_statistics import SharedStatistics
from normbook.widgets.translations import use_language

__all__ = ["Explorer", "SharedStatistics", "use_language"]
