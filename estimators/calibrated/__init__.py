"""The ``calibrated`` estimator: kernel times with constants that were measured on the device."""
