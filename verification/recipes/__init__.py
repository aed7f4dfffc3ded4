"""Two training scripts compared: what they build, setting by setting, and the losses of some steps."""
