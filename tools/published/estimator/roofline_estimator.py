"""The command ``python -m hespas.estimator.roofline_estimator``."""

from hespas.tools.published import estimator_command

if __name__ == "__main__":
    estimator_command.script("roofline")
