"""``python -m hespas.estimator.roofline_estimator`` names the command to use instead."""

from hespas.tools.published.estimator import refuse_estimator_command

if __name__ == "__main__":
    refuse_estimator_command("roofline")
