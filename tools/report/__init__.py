"""Results as pages for the browser and as plots."""
