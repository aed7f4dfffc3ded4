"""Two nets that people wrote apart: paired layer by layer, compared in settings and initial distributions."""
