"""What the book needs of Sphinx, loaded in ``_config.yml`` as ``normbook.build.sphinxext``.

==============  ====================================================================================
``notebooks``   runs the notebooks ahead of the build; their times, and versions, as tables
``maths``       typesets formulas, by MathJax from an installed package
``widgets``     runs widgets in the page, with no kernel, by ``theme/static/widget_host.js``
``links``       links within outputs lead to pages, links to the bibliography to its entries
``theme``       the layout, the style sheet and the scripts of all pages
``api_pages``   signatures and members that autodoc would show otherwise
``minify``      scripts and style sheets without what only their authors read
``wheel``       the package as a wheel, so that downloaded notebooks run
==============  ====================================================================================
"""

PARTS = ("notebooks", "maths", "widgets", "links", "theme", "api_pages", "minify", "wheel")


def setup(app):
    for part in PARTS:
        app.setup_extension(f"{__name__}.{part}")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
