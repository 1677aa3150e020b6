"""The estimator commands of the published Hespas, ``python -m hespas.estimator.NAME_estimator``."""
