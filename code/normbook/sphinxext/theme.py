"""Templates of the theme as the book has them: those in ``templates/`` go before the theme's."""

from pathlib import Path


def add_templates(app, config):
    config.templates_path.insert(0, str(Path(__file__).with_name("templates")))


def setup(app):
    app.connect("config-inited", add_templates)
