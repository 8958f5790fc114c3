"""What the book needs of Sphinx, loaded in ``_config.yml`` as ``normbook.build.sphinxext``.

===================  ===============================================================================
``integrity``        makes builds take turns, and starts over what was broken off
``execute``          runs the notebooks ahead of the build, in parallel, into a cache
``notebook_values``  what a kernel tells of its variables after the last cell
``maths``            typesets formulas, by MathJax from an installed package
``minify``           makes scripts and style sheets lighter
``widgets``          runs widgets in the page, with no kernel, by ``static/widget_host.js``
``highlight``        code with fewer spans
``links``            links within outputs lead to pages
``citations``        links such as ``bibliography.md#ba2016`` find their entry
``theme``            templates of the theme, mended
``metadata``         descriptions of pages, and previews of links to them
``page_assets``      one style sheet and one script, of no more than the pages use
``status``           notebooks, their times, and versions as tables
``api_pages``        signatures and members that autodoc would show otherwise
``wheel``            the package as a wheel, so that downloaded notebooks run
===================  ===============================================================================
"""


def setup(app):
    # Imported here: kernels import `notebook_values` and must not load Sphinx for it.
    from . import (
        api_pages,
        citations,
        execute,
        highlight,
        integrity,
        links,
        maths,
        metadata,
        page_assets,
        status,
        theme,
        wheel,
        widgets,
    )

    parts = (
        integrity,  # before anything is written
        execute,
        highlight,
        maths,
        widgets,
        links,
        citations,
        theme,
        metadata,
        api_pages,
        wheel,
        status,
        page_assets,
    )
    for part in parts:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
